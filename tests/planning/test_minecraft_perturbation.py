from collections import Counter
from functools import cache

import pytest

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.items import perturbation
from llm_planning.environments.minecraft.items.goals import GOALS_67, PRIOR_GOALS
from llm_planning.environments.minecraft.items.text_world import TextWorld

BOOK = RuleBook.load()
SEEDS = range(2)


@cache
def perturb(**options):
    return perturbation.perturb(BOOK, **options)


def changed(book):
    return {item for item in BOOK.rules if book.rule(item) != BOOK.rule(item)}


def test_level_0_is_the_game():
    perturbed = perturb(seed=3)
    assert perturbed.book == BOOK
    assert (perturbed.requirements, perturbed.actions, perturbed.items) == ((), (), ())


@pytest.mark.parametrize(("level", "left"), [(0, 16), (1, 14), (2, 11), (3, 9)])
def test_table_4(level, left):
    for perturbed in (perturb(requirements=level), perturb(actions=level)):
        untouched = [goal for goal in PRIOR_GOALS if goal not in changed(perturbed.book)]
        assert len(untouched) == left
        assert set(perturbed.items) == changed(perturbed.book)


@pytest.mark.parametrize("seed", SEEDS)
def test_levels_are_cumulative(seed):
    whole = perturb(requirements=3, actions=3, seed=seed)
    assert whole.requirements == whole.actions
    for level in (1, 2):
        part = perturb(requirements=level, actions=level, seed=seed)
        assert part.requirements == whole.requirements[: len(part.requirements)]
        for item in part.items:
            assert part.book.rule(item) == whole.book.rule(item)


@pytest.mark.parametrize("seed", SEEDS)
def test_both_kinds_are_independent(seed):
    both = perturb(requirements=3, actions=2, seed=seed)
    needs = perturb(requirements=3, seed=seed)
    acts = perturb(actions=2, seed=seed)
    for item in both.requirements:
        assert both.book.requirements(item) == needs.book.requirements(item)
        assert both.book.rule(item).action == acts.book.rule(item).action
    assert acts.book.requirements(acts.actions[0]) == BOOK.requirements(acts.actions[0])


RESOURCES = {
    *("logs", "planks", "stick", "cobblestone", "iron_ore", "iron_ingot", "gold_ore", "gold_ingot")
}
REQUIRED = {item for goal in GOALS_67 for item in BOOK.requirements(goal)}


@pytest.mark.parametrize(("pool", "wanted"), [("resources", RESOURCES), ("required", REQUIRED)])
@pytest.mark.parametrize("seed", SEEDS)
def test_one_requirement_is_replaced_by_one_of_the_same_tier_or_below(seed, pool, wanted):
    perturbed = perturb(requirements=3, seed=seed, pool=pool)
    for goal in perturbed.requirements:
        before, after = BOOK.requirements(goal), perturbed.book.requirements(goal)
        (old,) = before.keys() - after.keys()
        (new,) = after.keys() - before.keys()
        assert after == {**{k: n for k, n in before.items() if k != old}, new: before[old]}
        assert new in wanted
        assert BOOK.tier(new) <= BOOK.tier(goal)
        assert perturbed.book.rule(goal).seen == after
        assert perturbed.book.rule(goal).action == "craft"


def test_draws_differ_between_seeds_and_not_within_one():
    worlds = [perturb(requirements=3, actions=3, seed=seed) for seed in range(15)]
    assert perturbation.perturb(BOOK, requirements=3, actions=3, seed=14) == worlds[14]
    assert len({world.items for world in worlds}) == 15
    actions = Counter(world.book.rule(item).action for world in worlds for item in world.actions)
    assert actions.keys() == {"mine", "smelt"}
    # 105 fair draws: both lie within 4 standard deviations of 52.5.
    assert all(32 < count < 73 for count in actions.values())
    hit = {item for world in worlds for item in world.items}
    assert hit == set(PRIOR_GOALS) - {"gold_ingot", "diamond"}


def test_golden_draw():
    perturbed = perturb(requirements=1, actions=1, seed=0)
    assert {
        item: (perturbed.book.rule(item).action, perturbed.book.requirements(item))
        for item in perturbed.items
    } == {
        "iron_pickaxe": ("mine", {"iron_ingot": 3, "logs": 1, "stick": 2}),
        "crafting_table": ("smelt", {"logs": 4}),
    }


def test_a_perturbed_item_is_obtained_by_its_new_rule_only():
    perturbed = perturb(requirements=3, actions=3, seed=1)
    world = TextWorld(perturbed.book)
    for item in perturbed.items:
        world.reset()
        rule = perturbed.book.rule(item)
        world._held.update(rule.requirements)
        assert world.step("craft", item) is None
        assert world.step(rule.action, item) == rule.requirements
        world.reset()
        world._held.update(BOOK.requirements(item))
        assert world.step(rule.action, item) is None


@pytest.mark.parametrize("level", [-1, 4])
def test_no_other_level(level):
    with pytest.raises(ValueError, match=f"no perturbation level {level}; levels: 0, 1, 2, 3"):
        perturb(requirements=level)
    with pytest.raises(ValueError, match="no perturbation level"):
        perturb(actions=level)
