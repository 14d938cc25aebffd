import pytest

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.items.goals import (
    GOAL_GROUPS_67,
    GOAL_GROUPS_100,
    GOAL_GROUPS_120,
    GOAL_SETS,
    GOALS_67,
    GOALS_100,
    GOALS_120,
    PRIOR_GOALS,
)
from llm_planning.environments.minecraft.items.text_world import ACTIONS, action_set

TABLE_10 = {"Wood": 10, "Stone": 9, "Iron": 16, "Gold": 6, "Redstone": 6, "Diamond": 7, "Armor": 13}
TABLE_11_UPPER = {"Leather": 7, "Paper": 5, "Flint": 4, "Wood": 8, "Stone": 9}
TABLE_11_LOWER = {"Iron": 7, "Gold": 4, "Redstone": 7, "Diamond": 2}


def added(groups, before):
    """Group -> how many goals are new in it, of the groups that grew."""
    counts = {name: len(goals) - len(before.get(name, ())) for name, goals in groups.items()}
    return {name: n for name, n in counts.items() if n}


def test_tables_10_and_11_count_their_goals():
    assert added(GOAL_GROUPS_67, {}) == TABLE_10
    assert added(GOAL_GROUPS_100, GOAL_GROUPS_67) == TABLE_11_UPPER
    assert added(GOAL_GROUPS_120, GOAL_GROUPS_100) == TABLE_11_LOWER


def test_sets_are_of_their_size_and_extend_one_another():
    for goals, size in ((GOALS_67, 67), (GOALS_100, 100), (GOALS_120, 120)):
        assert len(goals) == len(set(goals)) == size
    assert set(GOALS_67) < set(GOALS_100) < set(GOALS_120)


def test_sets_by_name():
    assert GOAL_SETS["67-goals"] == GOALS_67
    assert GOAL_SETS["120-goals"] == GOALS_120
    assert GOAL_SETS["redstone"] == GOAL_GROUPS_67["Redstone"]
    assert list(GOAL_SETS)[:3] == ["67-goals", "100-goals", "120-goals"]


def test_prior_goals():
    book = RuleBook.load()
    assert len(set(PRIOR_GOALS)) == 16
    assert set(PRIOR_GOALS) < set(GOALS_67)
    assert [goal for goal in PRIOR_GOALS if book.rule(goal).action != "craft"] == [
        "gold_ingot",
        "diamond",
    ]
    # The six that no plan makes are one craft away from what the plans hold.
    materials = {"logs", "planks", "cobblestone", "iron_ore", "iron_ingot", "gold_ore"}
    held = {*materials, *PRIOR_GOALS[:10]}
    for goal in PRIOR_GOALS[10:]:
        assert set(book.requirements(goal)) <= held


@pytest.mark.parametrize("size", [3, 45])
def test_action_sets(size):
    verbs = action_set(size)
    assert len(set(verbs)) == len(verbs) == size
    assert verbs[:3] == ("mine", "craft", "smelt")
    assert verbs == ACTIONS[:size]


def test_no_other_action_set():
    with pytest.raises(ValueError, match="no set of 4 actions; sizes: 3, 15, 30, 45"):
        action_set(4)
