"""The simulated controller: rates within binomial bounds, caps, horizons, stalls, determinism."""

import math

import pytest

from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook
from llm_planning.environments.minecraft.items import controller
from llm_planning.environments.minecraft.items.controller import (
    SimulatedWorld,
    UnknownGoalError,
    UnknownProfileError,
    group_of,
    planning_horizon,
)
from llm_planning.environments.minecraft.items.controller_data import (
    HORIZONS,
    PROFILES,
    Gathering,
    Profile,
)
from llm_planning.environments.minecraft.items.goals import GOAL_GROUPS_67, GOALS_67
from llm_planning.environments.minecraft.items.text_world import TextWorld

RULES = (
    ItemRule(item="logs", action="mine"),
    ItemRule(item="planks", action="craft", consumed={"logs": 1}, makes=4),
    ItemRule(item="wooden_pickaxe", action="craft", consumed={"planks": 3}),
    ItemRule(item="cobblestone", action="mine", kept={"wooden_pickaxe": 1}),
    ItemRule(item="gold_ore", action="mine"),
)
BOOK = RuleBook({rule.item: rule for rule in RULES})
SURE = Gathering(find=1, take=1)


def world(monkeypatch, *, logs=SURE, gold=SURE, horizon=10**9, patience=None, seed=0, rescue=0.25):
    profile = Profile(
        items={"logs": logs, "gold_ore": gold}, tiers=(SURE,) * 5, make=20, vain=600, rescue=rescue
    )
    monkeypatch.setattr(controller, "PROFILES", {"test": profile})
    text = TextWorld(BOOK, goals=("cobblestone", "gold_ore"))
    return SimulatedWorld(text, profile="test", seed=seed, horizon=horizon, patience=patience)


def game(profile, **options):
    return SimulatedWorld(TextWorld(RuleBook.load()), profile=profile, **options)


def within(count, n, share):
    """Whether a count of n is within four standard deviations of its binomial mean."""
    return abs(count - n * share) <= 4 * math.sqrt(n * share * (1 - share))


def test_stalls_misses_and_successes_come_at_the_stated_rates(monkeypatch):
    n = 4000
    tried = world(monkeypatch, logs=Gathering(find=1, take=1, stall=0.2, miss=0.1), horizon=10**6)
    stalled = missed = 0
    for _ in range(n):
        tried.reset()
        if tried.step("mine", "logs") is None:
            stalled += tried.stalled
            missed += not tried.stalled
    assert within(stalled, n, 0.2)
    assert within(missed, n, 0.1)


def test_finding_is_paid_for_once_and_taking_each_time(monkeypatch):
    n = 3000
    tried = world(monkeypatch, logs=Gathering(find=400, take=100))
    first, second = 0, 0
    for _ in range(n):
        tried.reset()
        tried.step("mine", "logs")
        first += tried.steps
        before = tried.steps
        tried.step("mine", "logs")
        second += tried.steps - before
    assert first / n == pytest.approx(500, abs=4 * math.sqrt(400**2 + 100**2) / math.sqrt(n))
    assert second / n == pytest.approx(100, abs=4 * 100 / math.sqrt(n))


def test_turning_to_another_item_means_finding_it_again(monkeypatch):
    costly = Gathering(find=10**6, take=1)
    tried = world(monkeypatch, logs=costly, gold=SURE)
    tried.step("mine", "logs")
    tried.step("mine", "gold_ore")
    before = tried.steps
    tried.step("mine", "logs")
    assert tried.steps - before > 1000


def test_an_episode_holds_as_much_as_its_supply(monkeypatch):
    tried = world(monkeypatch, gold=Gathering(find=1, take=1, supply=(7, 0.7)))
    counts = []
    for _ in range(1000):
        tried.reset()
        while tried.step("mine", "gold_ore") is not None:
            pass
        counts.append(tried.inventory.get("gold_ore", 0))
    assert max(counts) == 7
    assert sum(counts) / 1000 == pytest.approx(4.9, abs=4 * math.sqrt(7 * 0.21 / 1000))


def test_what_has_run_out_is_looked_for_until_the_end(monkeypatch):
    none = Gathering(find=1, take=1, supply=(1, 0.0))
    tried = world(monkeypatch, gold=none, horizon=36_000, patience=600)
    assert tried.step("mine", "gold_ore") is None
    assert (tried.steps, tried.stalled) == (36_000, False)


def test_gold_is_never_gathered_more_than_seven_times_in_minerl():
    """Appendix K.3."""
    assert PROFILES["minerl"].items["gold_ore"].supply[0] == 7
    assert all(item.supply is None for item in PROFILES["mineflayer"].items.values())


def test_crafting_takes_the_same_time_in_vain_or_not(monkeypatch):
    tried = world(monkeypatch)
    tried.step("craft", "planks")
    assert tried.steps == 20
    tried.step("mine", "logs")
    before = tried.steps
    assert tried.step("craft", "planks") is not None
    assert tried.steps == before + 20


def test_an_attempt_to_mine_in_vain_is_given_up(monkeypatch):
    tried = world(monkeypatch)
    for item in ("cobblestone", "planks", "no_such_thing"):
        tried.step("mine", item)
    assert tried.steps == 3 * 600


def test_an_unwatched_stall_lasts_until_the_end(monkeypatch):
    tried = world(monkeypatch, logs=Gathering(find=1, take=1, stall=1.0), horizon=36_000)
    assert tried.step("mine", "logs") is None
    assert (tried.stalled, tried.steps) == (True, 36_000)
    tried.reset()
    assert (tried.stalled, tried.steps) == (False, 0)


def test_a_watched_stall_is_handed_back_until_it_is_ended(monkeypatch):
    stuck = Gathering(find=1, take=1, stall=1.0)
    tried = world(monkeypatch, logs=stuck, patience=500, rescue=1.0)
    tried.step("mine", "logs")
    tried.step("mine", "gold_ore")
    assert tried.stalled
    assert tried.steps == 1000
    assert "water" in tried.view()
    assert tried.rescue()
    assert not tried.stalled
    assert tried.step("mine", "logs") == {}


def test_a_rescue_has_one_chance(monkeypatch):
    n = 2000
    stuck = Gathering(find=1, take=1, stall=1.0)
    tried = world(monkeypatch, logs=stuck, patience=1)
    freed = later = 0
    for _ in range(n):
        tried.reset()
        tried.step("mine", "logs")
        if tried.rescue():
            freed += 1
        else:
            later += any(tried.rescue() for _ in range(5))
    assert within(freed, n, 0.25)
    assert later == 0


def test_a_free_controller_needs_no_rescue(monkeypatch):
    tried = world(monkeypatch)
    assert tried.rescue()
    assert "freely" in tried.view()


def test_at_the_horizon_nothing_succeeds(monkeypatch):
    tried = world(monkeypatch, logs=Gathering(find=1, take=100), horizon=2000)
    while tried.steps < 2000:
        held = dict(tried.inventory)
        tried.step("mine", "logs")
    assert tried.steps == 2000
    assert tried.inventory == held
    assert tried.step("craft", "planks") is None
    assert tried.step("mine", "logs") is None
    assert tried.steps == 2000


def trace(seed):
    tried = game("minerl", seed=seed, horizon=36_000, patience=600)
    record = []
    for item in ("logs", "logs", "cobblestone", "logs", "planks"):
        action = "craft" if item == "planks" else "mine"
        record.append((tried.step(action, item), tried.steps, dict(tried.inventory)))
    return record


def test_seeds_differ():
    assert len({str(trace(seed)) for seed in range(5)}) == 5


def test_the_given_world_is_left_alone(monkeypatch):
    tried = world(monkeypatch)
    text = TextWorld(BOOK, goals=("cobblestone",))
    other = SimulatedWorld(text, profile="test", seed=0, horizon=100)
    other.step("mine", "logs")
    assert text.inventory == {}
    assert text.steps == 0
    assert tried.inventory == {}


def test_horizons_are_those_of_the_paper():
    """Appendix J.2.4."""
    assert set(HORIZONS) == set(GOAL_GROUPS_67)
    short = {"Wood": 3_600, "Stone": 7_200, "Iron": 12_000}
    for group, goals in GOAL_GROUPS_67.items():
        assert planning_horizon(goals[0]) == short.get(group, 36_000)
    assert group_of("shield") == "Armor"
    assert [group_of(goal) for goal in GOALS_67].count("Iron") == 16


def test_unknown_names_and_a_short_horizon_are_refused():
    with pytest.raises(UnknownProfileError, match="did you mean minerl"):
        game("mineral", seed=0, horizon=10)
    with pytest.raises(UnknownGoalError, match=r"did you mean .*compass"):
        planning_horizon("compas")
    with pytest.raises(ValueError, match="horizon=0"):
        game("minerl", seed=0, horizon=0)
