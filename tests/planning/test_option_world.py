from dataclasses import replace
from random import Random

import pytest
from option_worlds import BOOK, SINGLE, WORLD, by_day, option, outcomes

from llm_planning.environments.minecraft.options import vocabulary
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.rules import GROUPS, OptionRules
from llm_planning.environments.minecraft.options.state import Change, Sighting
from llm_planning.environments.minecraft.options.tables import DROPS, FLUIDS, KILLED, Drop
from llm_planning.environments.minecraft.options.tasks import PLAINS, TASKS
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.world import OptionWorld

RULES = OptionRules(BOOK, options="folded")
STATIONS = {"crafting_table": 1, "furnace": 1}


def done(text, **state):
    outcome = WORLD.step(by_day(**state), option(text))
    assert outcome.obstacle is None
    assert outcome.success
    return outcome.state


def obstacle(text, **state):
    """The obstacle of an infeasible option, which changes nothing."""
    before = by_day(**state)
    outcome = WORLD.step(before, option(text))
    assert outcome.obstacle == WORLD.feasible(before, option(text))
    assert not outcome.success
    assert outcome.state is before
    assert outcome.change == Change()
    assert outcome.ticks == 0
    return outcome.obstacle


@pytest.mark.parametrize(
    ("text", "held", "after"),
    [
        # Whole recipes; any wood will do if the product exists in one wood only.
        ("craft 5 oak_planks", {"oak_log": 3}, {"oak_log": 1, "oak_planks": 8}),
        ("craft 4 stick", {"oak_planks": 1, "birch_planks": 3}, {"birch_planks": 2, "stick": 4}),
        ("craft 1 crafting_table", {"oak_planks": 1, "birch_planks": 3}, {"crafting_table": 1}),
        (
            "craft 1 wooden_pickaxe",
            {"oak_planks": 3, "stick": 2, **STATIONS},
            {"wooden_pickaxe": 1, **STATIONS},
        ),
        (
            "craft 2 diamond_pickaxe",
            {"diamond": 6, "stick": 4, **STATIONS},
            {"diamond_pickaxe": 2, **STATIONS},
        ),
        ("craft 8 torch", {"charcoal": 1, "coal": 1, "stick": 2}, {"torch": 8}),
        (
            "craft 1 white_bed",
            {"white_wool": 3, "oak_planks": 2, "birch_planks": 1, **STATIONS},
            {"white_bed": 1, **STATIONS},
        ),
        # A furnace burns whole pieces.
        ("smelt 8 iron_ingot", {"iron_ore": 8, "coal": 3}, {"coal": 2, "iron_ingot": 8}),
        ("smelt 9 iron_ore", {"iron_ore": 9, "coal": 3}, {"coal": 1, "iron_ingot": 9}),
        # 2 planks smelt 3, and the third has heat for half an item left.
        ("smelt 4 gold_ingot", {"gold_ore": 4, "oak_planks": 3}, {"gold_ingot": 4}),
        (
            "smelt 9 iron_ingot",
            {"iron_ore": 9, "coal": 1, "stick": 3},
            {"stick": 1, "iron_ingot": 9},
        ),
        ("smelt 2 charcoal", {"oak_log": 4}, {"charcoal": 2}),
        ("cook 1 beef", {"beef": 2, "charcoal": 1}, {"beef": 1, "cooked_beef": 1}),
        ("cook 2 cooked_cod", {"cod": 2, "stick": 5}, {"stick": 1, "cooked_cod": 2}),
        ("smelt 1 mutton", {"mutton": 1, "coal": 1}, {"cooked_mutton": 1}),
    ],
)
def test_what_is_made(text, held, after):
    furnace = {} if text.startswith("craft") else {"furnace": 1}
    before = by_day(held={**furnace, **held})
    outcome = WORLD.step(before, option(text))
    assert outcome.obstacle is None
    assert outcome.state.inventory == {**furnace, **after}
    assert before.apply(outcome.change).inventory == outcome.state.inventory


@pytest.mark.parametrize(
    ("block", "tool", "text", "gained"),
    [
        ("oak_log", None, "mine 4 oak_log", {"oak_log": 4}),
        ("grass_block", None, "mine 2 dirt", {"dirt": 2}),
        ("stone", "wooden_pickaxe", "mine 8 cobblestone", {"cobblestone": 8}),
        ("stone", "golden_pickaxe", "mine 8 stone", {"cobblestone": 8}),
        ("diamond_ore", "diamond_pickaxe", "mine 3 diamond", {"diamond": 3}),
    ],
)
def test_mining(block, tool, text, gained):
    held = {} if tool is None else {tool: 1}
    assert done(text, held=held, blocks=(block,)).inventory == {**held, **gained}
    # A tool in hand counts as well.
    hand = (None, None, None, None, tool, None)
    assert done(text, equipment=hand, blocks=(block,)).inventory == gained


@pytest.mark.parametrize(
    ("block", "tool", "least"),
    [
        ("stone", "wooden_sword", "a wooden_pickaxe or better"),
        ("iron_ore", "wooden_pickaxe", "a stone_pickaxe or better"),
        ("iron_ore", "golden_pickaxe", "a stone_pickaxe or better"),
        ("lapis_ore", "golden_pickaxe", "a stone_pickaxe or better"),
        ("granite", "wooden_axe", "a wooden_pickaxe or better"),
        ("furnace", "wooden_axe", "a wooden_pickaxe or better"),
        ("seagrass", "iron_pickaxe", "shears"),
        ("gold_ore", "stone_pickaxe", "an iron_pickaxe or better"),
        ("obsidian", "iron_pickaxe", "a diamond_pickaxe"),
    ],
)
def test_mining_needs_a_tier(block, tool, least):
    reason = obstacle(f"mine 1 {block}", held={tool: 1}, blocks=(block,))
    assert reason == f"{block} needs {least}"


ORE, HOT = {"iron_ore": 4}, {"furnace": 1, "coal": 1}
SHEARS, BUCKET = {"shears": 1}, {"bucket": 1}


@pytest.mark.parametrize(
    ("text", "state", "reason"),
    [
        ("craft 4 oak_planks", {"held": {"birch_log": 5}}, "needs 1 oak_log, has 0"),
        ("craft 1 diamond", {}, "diamond cannot be crafted"),
        # Names of the rule book get a hint.
        ("craft 4 planks", {}, "planks cannot be crafted; name one kind, such as oak_planks"),
        ("mine 1 logs", {}, "no block gives logs; name one kind, such as oak_log"),
        ("mine 1 cobblestone", {"blocks": ()}, "no cobblestone or stone nearby"),
        ("smelt 4 iron_ingot", {"held": {**ORE, "coal": 1}}, "needs a furnace"),
        (
            "smelt 2 charcoal",
            {"held": {"furnace": 1, "oak_log": 3}},
            "needs fuel for 2, has fuel for 1.5",
        ),
        ("smelt 1 diamond", {"held": HOT}, "diamond cannot be smelted"),
        ("cook 1 iron_ore", {"held": {**ORE, **HOT}}, "iron_ore cannot be cooked"),
        ("equip 1 shield", {}, "needs shield in the inventory"),
        ("place 2 torch", {"held": {"torch": 1}}, "needs 2 torch, has 1"),
        ("place 1 stick", {"held": {"stick": 1}}, "stick cannot be placed"),
        ("kill 1 cow", {"entities": ("pig",)}, "no cow nearby"),
        ("kill 1 leather", {}, "leather is neither an animal nor a monster"),
        ("shear 1 sheep", {"entities": ("sheep",)}, "needs shears"),
        ("shear 1 sheep", {"held": SHEARS}, "no sheep nearby"),
        ("shear 1 cow", {"held": SHEARS, "entities": ("cow",)}, "cow cannot be shorn"),
        ("milk 1 cow", {"entities": ("cow",)}, "needs 1 bucket, has 0"),
        ("milk 1 cow", {"held": BUCKET}, "no cow nearby"),
        ("milk 1 pig", {"held": BUCKET, "entities": ("pig",)}, "pig cannot be milked"),
        ("collect 1 lava", {"blocks": ("lava",)}, "needs 1 bucket, has 0"),
        ("collect 1 water", {"held": BUCKET, "blocks": ()}, "no water nearby"),
        ("collect 1 sand", {}, "buckets collect water or lava, not sand"),
        ("find 1 gold_ore", {}, "gold_ore lies below ground: needs a pickaxe"),
        ("find 1 wolf", {}, "wolf is not found by exploring"),
        (
            "find 1 logs",
            {},
            "logs is not found by exploring; name one kind, such as oak_log",
        ),
        ("mine 0 dirt", {}, f"the quantity must be between 1 and {MOST}, not 0"),
        ("mine 65 dirt", {}, f"the quantity must be between 1 and {MOST}, not 65"),
        ("mine 1 dirt", {"health": 0.0}, "the player is dead"),
    ],
)
def test_obstacles(text, state, reason):
    assert obstacle(text, **state) == reason


def test_obstacles_of_other_worlds_and_verbs():
    held = {"oak_planks": 3, "stick": 2}
    without = SINGLE.feasible(by_day(held=held), option("craft 1 wooden_pickaxe"))
    assert without == "needs a crafting_table"
    sticks = SINGLE.feasible(by_day(held={"oak_log": 1}), option("craft 8 stick"))
    assert sticks == "needs 4 oak_planks or another kind, has 0"
    assert obstacle("fly 1 cow").startswith("unknown verb 'fly'; ")


def test_redstone_comes_in_fours_and_fives():
    tool = {"iron_pickaxe": 1}
    for count in (1, 4):
        after = done(f"mine {count} redstone", held=tool, blocks=("redstone_ore",))
        assert after.inventory["redstone"] in (4, 5)
    after = done("mine 3 redstone_ore", held=tool, blocks=("redstone_ore",))
    assert 12 <= after.inventory["redstone"] <= 15


def test_mining_goes_on_with_the_next_kind_of_block():
    before = by_day(held={"wooden_pickaxe": 1}, blocks=("cobblestone", "stone"))
    outcome = WORLD.step(before, option("mine 8 cobblestone"))
    assert outcome.success
    assert outcome.change.gained == {"cobblestone": 8}
    # The one that was placed is taken, stone does not run out.
    assert outcome.state.nearby_blocks == ("stone",)
    assert WORLD.feasible(replace(before, inventory={}), option("mine 1 cobblestone")) == (
        "cobblestone needs a wooden_pickaxe or better"
    )


def test_kinds_without_a_tool_are_left_alone():
    """Hands mine wood, but not the stone beside it."""
    rules = OptionRules(BOOK, options="single")
    rules.drops = {"marble": (Drop("stone", "marble"), Drop("oak_log", "marble"))}
    near = {"oak_log": Sighting(32, 0), "stone": Sighting(900, 1)}
    state = by_day(blocks=("stone", "oak_log"), near=near)
    effect = VERBS["mine"].use(rules, state, option("mine 40 marble"))(Random(0))
    assert effect.change == Change(gained={"marble": 32}, near={"oak_log": Sighting(0, 0)})
    assert effect.shortfall == "only 32 of 40 marble nearby"
    assert effect.ticks == 32 * 40


def test_flint_comes_from_a_tenth_of_the_gravel():
    before = by_day(blocks=("gravel",))
    mined = outcomes(before, "mine 1 flint", 200)
    # 33 blocks of gravel without flint: 0.9 ** 33 = 0.03.
    assert 180 <= sum(outcome.success for outcome in mined) < 200
    missed = next(outcome for outcome in mined if not outcome.success)
    assert missed.obstacle == "only 0 of 1 flint nearby"
    assert missed.state.nearby_blocks == ()


def test_equipping():
    held = {"iron_boots": 1, "stone_sword": 1}
    after = done("equip 1 iron_boots", held=held)
    assert after.equipment == (None, None, None, "iron_boots", None, None)
    assert after.inventory == held


def test_placing_and_taking_up_again():
    hand = (None, None, None, None, "crafting_table", None)
    after = done("place 1 crafting_table", held={"crafting_table": 1, "stick": 1}, equipment=hand)
    assert after.nearby_blocks == (*PLAINS.nearby_blocks, "crafting_table")
    assert after.inventory == {"stick": 1}
    assert after.equipment[4] is None
    again = WORLD.step(after, option("mine 1 crafting_table")).state
    assert again.inventory == {"stick": 1, "crafting_table": 1}
    assert again.nearby_blocks == PLAINS.nearby_blocks


@pytest.mark.parametrize(
    ("text", "held", "kind", "loot", "hunger"),
    [
        # Two attacks of 0.5 each, 4 to half a drumstick.
        ("kill 2 cow", {}, "cow", {"beef": (2, 6), "leather": (0, 4)}, 19.75),
        ("kill 2 pig", {}, "pig", {"porkchop": (2, 6)}, 19.75),
        ("kill 2 chicken", {}, "chicken", {"chicken": (2, 2), "feather": (0, 4)}, 19.75),
        ("kill 2 sheep", {}, "sheep", {"mutton": (2, 4), "white_wool": (2, 2)}, 19.75),
        ("shear 1 sheep", SHEARS, "sheep", {"white_wool": (1, 3)}, 20),
        ("shear 1 white_wool", SHEARS, "sheep", {"white_wool": (1, 3)}, 20),
        ("milk 2 cow", {"bucket": 2}, "cow", {"milk_bucket": (2, 2)}, 20),
    ],
)
def test_what_animals_give(text, held, kind, loot, hunger):
    for outcome in outcomes(by_day(held=held, entities=(kind,)), text, 20):
        assert outcome.success
        kept = held if "shears" in held else {}
        gained = {**outcome.state.inventory}
        assert all(gained.pop(item) == count for item, count in kept.items())
        assert set(gained) <= set(loot)
        for item, (least, most) in loot.items():
            assert least <= gained.get(item, 0) <= most
        assert outcome.state.hunger == hunger
        assert kind in outcome.state.nearby_entities


@pytest.mark.parametrize(("fluid", "word"), [("lava", "lava"), ("water", "water_bucket")])
def test_collecting(fluid, word):
    after = done(f"collect 1 {word}", held=BUCKET, blocks=(fluid,))
    assert after.inventory == {f"{fluid}_bucket": 1}
    assert after.nearby_blocks == (fluid,)


# the world as a function


def walk(world, state, seed, steps):
    """Random feasible options, most of them with effect."""
    draw = Random(seed)
    texts = (
        "find 1 surroundings",
        "find 1 cow",
        "mine 6 oak_log",
        "craft 4 oak_planks",
        "mine 3 dirt",
        "kill 1 pig",
        "kill 2 chicken",
        "find 1 coal_ore",
    )
    for _ in range(steps):
        outcome = world.step(state, option(draw.choice(texts)))
        yield outcome
        state = outcome.state


def test_the_same_seed_gives_the_same_world():
    first = [outcome.state for outcome in walk(WORLD, PLAINS, 1, 60)]
    again = [outcome.state for outcome in walk(OptionWorld(BOOK, seed=0), PLAINS, 1, 60)]
    other = [outcome.state for outcome in walk(OptionWorld(BOOK, seed=1), PLAINS, 1, 60)]
    assert first == again
    assert first != other
    assert len(set(first)) > 30


def test_equal_states_draw_alike():
    held = {"oak_log": 1, "stick": 2}
    turned = dict(reversed(held.items()))
    first = WORLD.step(by_day(held=held, health=20.0), option("find 1 cow"))
    second = WORLD.step(by_day(held=turned, health=20), option("find 1 cow"))
    assert first.state == second.state


def test_a_change_says_all_but_place():
    state = PLAINS
    for outcome in walk(WORLD, state, 4, 80):
        changed, after = state.apply(outcome.change), outcome.state
        assert changed == replace(
            after,
            position=changed.position,
            # Both list the same; a player who is back at the start has forgotten the order.
            nearby_blocks=changed.nearby_blocks,
        )
        assert changed.position[1] == after.position[1]
        assert set(changed.nearby_blocks) == set(after.nearby_blocks)
        state = after


# goals


@pytest.mark.parametrize(
    ("name", "held", "verdict"),
    [
        ("cook-meat", {"cooked_chicken": 2}, True),
        ("cook-meat", {"cooked_cod": 2, "beef": 3}, False),
        ("shear-a-sheep", {"shears": 1, "white_wool": 1}, True),
        ("shear-a-sheep", {"white_wool": 1}, False),
    ],
)
def test_what_reaches_a_goal(name, held, verdict):
    assert WORLD.achieved(by_day(held=held), TASKS[name]) is verdict


# the rule book


def test_groups_are_names_of_the_rule_book():
    assert set(GROUPS) <= set(BOOK.rules)
    ids = [item for kinds in GROUPS.values() for item in kinds]
    assert len(set(ids)) == len(ids)


def test_every_item_of_the_vocabulary_can_be_obtained():
    gained = {item for loot in KILLED.values() for item, _, _ in loot}
    ways = {*RULES.crafts, *RULES.smelts, *RULES.drops, *gained, *FLUIDS.values(), "milk_bucket"}
    # Hens lay eggs by themselves.
    assert set(vocabulary.ITEMS) - ways == {"egg"}


@pytest.mark.parametrize("drop", DROPS, ids=str)
def test_drops_agree_with_the_rule_book(drop):
    """Where the rule book breaks the same block for the same item, its yield is no greater."""
    names = {drop.item, *(group for group, kinds in GROUPS.items() if drop.item in kinds)}
    for name in names & set(BOOK.rules):
        rule = BOOK.rules[name]
        if rule.source == f"block:{drop.block}":
            assert rule.makes <= drop.least


def test_rules_change_with_the_book():
    stick = replace(BOOK.rule("stick"), consumed={"dirt": 1})
    world = OptionWorld(BOOK.replaced([stick]), seed=0)
    held = {"dirt": 1, "oak_planks": 2}
    outcome = world.step(by_day(held=held), option("craft 4 stick"))
    assert outcome.state.inventory == {"oak_planks": 2, "stick": 4}


def test_any_option_in_any_state():
    """Any sequence of options of the vocabulary leads to possible states."""
    draw = Random(0)
    state = PLAINS
    feasible = 0
    for _ in range(3_000):
        verb, item = draw.choice(list(VERBS)), draw.choice(vocabulary.OBJECTS)
        outcome = WORLD.step(state, Option(verb, draw.choice((1, 3, 64)), item))
        feasible += outcome.state != state
        state = outcome.state
        assert 0 < state.health <= 20
        assert 0 <= state.hunger <= 20
        assert 0 < state.position[1] <= 64
        assert all(count > 0 for count in state.inventory.values())
        assert set(state.near) == {*state.nearby_blocks, *state.nearby_entities}
        assert all(count > 0 for count, _ in state.near.values())
        assert all(0 < distance <= 32 for _, distance in state.near.values())
    assert feasible > 50
