"""What every `World` promises: the text world, and each controller."""

from functools import partial
from random import Random

import pytest

from llm_planning.environments.minecraft.book.rulebook import RuleBook, substitutes
from llm_planning.environments.minecraft.items.controller import SimulatedWorld
from llm_planning.environments.minecraft.items.controller_data import PROFILES
from llm_planning.environments.minecraft.items.goals import GOALS_120
from llm_planning.environments.minecraft.items.text_world import TextWorld, UnknownActionError

BOOK = RuleBook.load()
VERBS = ("mine", "craft", "smelt")
STATIONS = {"crafting_table": 1, "furnace": 1}


def text_world():
    return TextWorld(BOOK, goals=GOALS_120)


def controlled(profile):
    return SimulatedWorld(text_world(), profile=profile, seed=0, horizon=10**9, patience=600)


MAKERS = {"text world": text_world} | {name: partial(controlled, name) for name in PROFILES}


@pytest.fixture(params=MAKERS)
def make(request):
    return MAKERS[request.param]


@pytest.fixture
def world(make):
    return make()


def begin(world, held):
    """Begins an episode in which these items are held."""
    world.reset()
    text = world._world if isinstance(world, SimulatedWorld) else world
    text._held.update(held)


def test_an_episode_begins_with_nothing(world):
    def beginning():
        return world.steps, world.inventory, set(world.items), len(world.items), world.verbs

    everything = set(BOOK.closure(GOALS_120))
    assert beginning() == (0, {}, everything, len(everything), VERBS)
    while world.step("mine", "logs") is None:
        world.reset()
    assert world.steps > 0
    world.reset()
    assert beginning() == (0, {}, everything, len(everything), VERBS)


@pytest.mark.parametrize(
    ("action", "item", "held", "used", "after"),
    [
        ("mine", "logs", {}, {}, {"logs": 1}),
        # What a tool does to the inventory is not seen.
        ("mine", "iron_ore", {"iron_pickaxe": 1}, {}, {"iron_pickaxe": 1, "iron_ore": 1}),
        ("craft", "stick", {"planks": 4}, {"planks": 2}, {"planks": 2, "stick": 4}),
        # Stations are seen to leave, and come back.
        (
            "craft",
            "wooden_pickaxe",
            {"planks": 3, "stick": 2, "crafting_table": 1},
            {"planks": 3, "stick": 2, "crafting_table": 1},
            {"crafting_table": 1, "wooden_pickaxe": 1},
        ),
        (
            "smelt",
            "iron_ingot",
            {"iron_ore": 2, **STATIONS},
            {"iron_ore": 1, "furnace": 1},
            {"iron_ore": 1, "iron_ingot": 1, **STATIONS},
        ),
    ],
)
def test_success(world, action, item, held, used, after):
    # A controller may miss or stall: such an attempt is made again from the beginning.
    for _ in range(50):
        begin(world, held)
        lost = world.step(action, item)
        assert world.steps > 0
        if lost is not None:
            break
        assert world.inventory == held
    assert lost == used
    assert world.inventory == after


@pytest.mark.parametrize(
    ("action", "item", "held"),
    [
        # A stick too few, no station, a lesser pickaxe.
        ("craft", "wooden_pickaxe", {"planks": 3, "stick": 1, "crafting_table": 1}),
        ("craft", "wooden_pickaxe", {"planks": 3, "stick": 2}),
        ("mine", "diamond", {"stone_pickaxe": 1}),
        # Another action obtains it, or none.
        ("mine", "stick", {"planks": 4}),
        ("mine", "unobtainium", {"logs": 3}),
    ],
)
def test_failure_changes_nothing_but_the_clock(world, action, item, held):
    begin(world, held)
    assert world.step(action, item) is None
    assert world.inventory == held
    assert world.steps > 0


def test_an_unknown_verb_is_refused_without_taking_time(world):
    with pytest.raises(UnknownActionError, match="did you mean mine"):
        world.step("mien", "logs")
    assert (world.steps, world.inventory) == (0, {})


def attempts(world):
    """Tries items at random, most of them by the right action; gives up a stalled episode."""
    draw = Random(0)
    items = BOOK.closure(["iron_pickaxe", "torch", "shield"])
    for _ in range(400):
        item = draw.choice(items)
        action = BOOK.rule(item).action if draw.random() < 0.9 else draw.choice(VERBS)
        before, steps = dict(world.inventory), world.steps
        used = world.step(action, item)
        yield action, item, before, used, dict(world.inventory), world.steps - steps
        if getattr(world, "stalled", False):
            world.reset()


def allowed(rule, held):
    materials = all(held.get(item, 0) >= count for item, count in rule.consumed.items())
    return materials and all(any(name in held for name in substitutes(item)) for item in rule.kept)


def test_the_rules_decide_what_an_attempt_does(world):
    perfect = isinstance(world, TextWorld)
    succeeded = set()
    for action, item, before, used, after, time in attempts(world):
        rule = BOOK.rule(item)
        possible = action == rule.action and allowed(rule, before)
        assert time == 1 if perfect else time > 0
        if perfect or action != "mine":
            assert (used is not None) == possible
        if used is None:
            assert after == before
            continue
        assert possible
        assert used == rule.seen
        gained = {**before, item: before.get(item, 0) + rule.makes}
        left = {name: count - rule.consumed.get(name, 0) for name, count in gained.items()}
        assert after == {name: count for name, count in left.items() if count}
        succeeded.add(item)
    assert {"logs", "planks", "stick", "crafting_table"} <= succeeded


def test_equal_worlds_answer_alike(make):
    assert list(attempts(make())) == list(attempts(make()))
