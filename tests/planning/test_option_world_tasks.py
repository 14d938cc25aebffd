"""Every task is carried out, by a plan that is as short as possible.

`fewest` searches for shortest plans in a relaxed world, in which nothing is used up or left behind.
No plan for the real world can be shorter. The plans in `plans.json` have this length, and the world
carries them out, so the length is exact if the player finds what an option looks for.
"""

import json

import pytest
from golden import FOLDER
from option_worlds import BOOK, SINGLE, WORLD, option

from llm_planning.environments.minecraft.options import vocabulary
from llm_planning.environments.minecraft.options.domain import EVERY_TASK
from llm_planning.environments.minecraft.options.rules import OptionRules
from llm_planning.environments.minecraft.options.surroundings import DIG_TICKS, LEVELS, ON_SURFACE
from llm_planning.environments.minecraft.options.tables import FLUIDS, FUEL, KILLED, WOODS
from llm_planning.environments.minecraft.options.tasks import PLAINS, TASKS

WORLDS = {"folded": WORLD, "single": SINGLE}

D = 12
"""The depth of the paper's searches (Table 3)."""

DATA = json.loads((FOLDER / "minecraft" / "plans.json").read_text("utf-8"))
FEWEST = {name: tuple(plan["fewest"]) for name, plan in DATA["plans"].items()}
"""Options in a plan: single, folded without the crafting table, folded."""

PLANS = {
    (reading, name): plan[reading] for name, plan in DATA["plans"].items() for reading in WORLDS
}
IRON_BESIDE_GOLD = DATA["iron-beside-gold"]


# the shortest plans


def ways(rules, beside):
    """What each kind of option needs and gives: conditions, each a tuple of alternatives.

    Logs are oak, the only wood that is near at the start. In a tunnel, `beside` is seen as well.
    """
    for drop in (drop for drops in rules.drops.values() for drop in drops):
        yield (f"near {drop.block}",), rules.tools.get(drop.block, ()), (drop.item,)
    for recipe in rules.smelts.values():
        yield *(kinds for kinds, _ in recipe.consumed), *recipe.kept, tuple(FUEL), (recipe.item,)
    for kind, loot in KILLED.items():
        yield (f"near {kind}",), tuple(item for item, _, _ in loot)
    yield ("near sheep",), ("shears",), ("white_wool",)
    yield ("near cow",), ("bucket",), ("milk_bucket",)
    for fluid, full in FLUIDS.items():
        yield (f"near {fluid}",), ("bucket",), (full,)
    for kind in (*vocabulary.BLOCKS, *vocabulary.ENTITIES):
        if kind in ON_SURFACE:
            yield ((f"near {kind}",),)
        if kind in LEVELS:
            yield tuple(DIG_TICKS), tuple(f"near {seen}" for seen in (kind, *beside))


def materials(recipe):
    return (*(kinds for kinds, _ in recipe.consumed), *recipe.kept)


def made(recipe, had, on_the_way):
    """The facts after a craft and all that it makes on the way; None if something is missing."""
    for kinds in materials(recipe):
        if had.isdisjoint(kinds):
            recipes = (on_the_way[kind] for kind in kinds if kind in on_the_way)
            had = next(filter(None, (made(way, had, on_the_way) for way in recipes)), None)
            if had is None:
                return None
    return had | {recipe.item}


def relevant(goal, actions, crafts):
    """The facts that a plan for a goal may go through."""
    needs = [(frozenset(gives), conditions) for *conditions, gives in actions]
    needs += [(frozenset((recipe.item,)), materials(recipe)) for recipe in crafts.values()]
    wanted, waiting = set(), [fact for kinds in goal for fact in kinds]
    while waiting:
        fact = waiting.pop()
        if fact not in wanted and not fact.removeprefix("near ").startswith(WOODS[1:]):
            wanted.add(fact)
            for gives, conditions in needs:
                if fact in gives:
                    waiting += [other for kinds in conditions for other in kinds]
    return frozenset(wanted)


def fewest(task, rules, *, on_the_way, beside=()):
    """The length of the shortest plan if nothing is used up, by breadth-first search over facts."""
    plans, goal = list(ways(rules, beside)), task.wanted
    wanted = relevant(goal, plans, rules.crafts)
    plans = [way for way in plans if not wanted.isdisjoint(way[-1])]
    crafts = [recipe for item, recipe in rules.crafts.items() if item in wanted]
    start = (f"near {kind}" for kind in (*task.start.nearby_blocks, *task.start.nearby_entities))
    layer, seen = {wanted.intersection(start)}, set()
    length = 0
    while not any(all(not had.isdisjoint(kinds) for kinds in goal) for had in layer):
        length += 1
        seen |= layer
        following = set()
        for had in layer:
            following |= {made(recipe, had, on_the_way) for recipe in crafts}
            following |= {
                had | wanted.intersection(gives)
                for *conditions, gives in plans
                if all(not kinds or not had.isdisjoint(kinds) for kinds in conditions)
            }
        layer = following - seen - {None}
        assert layer, "no plan at all"
    return length


@pytest.mark.parametrize("name", EVERY_TASK)
def test_the_fewest_options_of_every_task(name):
    rules = OptionRules(BOOK, options="folded")
    no_table = {item: way for item, way in rules.crafts.items() if item != "crafting_table"}
    assert FEWEST[name] == tuple(
        fewest(EVERY_TASK[name], rules, on_the_way=way) for way in ({}, no_table, rules.crafts)
    )
    assert OptionRules(BOOK, options="single").on_the_way == {}
    assert rules.on_the_way == rules.crafts


def test_which_tasks_fit_the_papers_depth():
    too_long = [{name for name in TASKS if FEWEST[name][i] > D} for i in range(3)]
    assert [len(names) for names in too_long] == [6, 3, 1]
    assert too_long[2] == {"craft-a-golden-sword"}
    # The table decides for two of them; the last fits where iron lies beside the gold.
    rules = OptionRules(BOOK, options="folded")
    sword = TASKS["craft-a-golden-sword"]
    assert fewest(sword, rules, on_the_way=rules.crafts, beside=("iron_ore",)) == D


def straight(world, name, plan):
    """The state after a plan; None if one of its options fails."""
    state = EVERY_TASK[name].start
    for line in plan:
        outcome = world.step(state, option(line))
        if not outcome.success:
            return None
        assert outcome.ticks > 0
        state = outcome.state
    return state


@pytest.mark.parametrize(("reading", "name"), PLANS)
def test_plans_as_short_as_can_be_are_carried_out(reading, name):
    plan = PLANS[reading, name]
    assert len(plan) == FEWEST[name][0 if reading == "single" else 2]
    ends = (straight(WORLDS[reading].reseeded(seed), name, plan) for seed in range(40))
    good = [end for end in ends if end is not None]
    assert len(good) >= 4
    reached = [WORLDS[reading].achieved(end, EVERY_TASK[name]) for end in good]
    # Four cows may leave no leather: 1 time in 81.
    assert all(reached) or (name == "obtain-leather" and any(reached))


def test_a_sword_in_twelve_options():
    name = "craft-a-golden-sword"
    assert len(IRON_BESIDE_GOLD) == D
    world = WORLDS["folded"]
    ends = (straight(world.reseeded(seed), name, IRON_BESIDE_GOLD) for seed in range(100))
    good = [end for end in ends if end is not None]
    # Gold is seen within 4 legs 6 times out of 10, and iron beside it 7 times out of 10.
    assert len(good) >= 25
    assert all(world.achieved(end, TASKS[name]) for end in good)


def test_the_tasks_are_those_of_the_papers():
    assert {name: task.goal for name, task in EVERY_TASK.items()} == {
        name: plan["goal"] for name, plan in DATA["plans"].items()
    }
    assert list(EVERY_TASK) == list(DATA["plans"])
    assert all(task.start == PLAINS for task in EVERY_TASK.values())
    assert PLAINS.inventory == {}
