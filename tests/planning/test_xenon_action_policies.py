"""Action policies: a contract for all of them, and each by hand (Table 8, Figure 25)."""

import math
import random

import pytest
from xenon_builders import (
    LOGS,
    PLANKS,
    SMALL,
    STICK,
    TRACES,
    VERBS,
    Draws,
    Liking,
    agent,
    book_of,
    failed,
)

from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.baselines import (
    Forgetful,
    RandomFam,
    SelfReflection,
    SuccessesOnly,
    TrueActions,
    Ucb,
)
from llm_planning.planners.xenon.given_goal import obtain, true_knowledge
from llm_planning.planners.xenon.memory import ActionMemory

BOOK = book_of(LOGS, PLANKS, STICK)
POLICIES = {
    "fam": (Xenon, {}),
    "successes": (SuccessesOnly, {}),
    "reflecting": (SelfReflection, {}),
    "forgetful": (Forgetful, {}),
    "random-fam": (RandomFam, {"rng": random.Random(0)}),
    "ucb": (Ucb, {"rng": Draws(0)}),
    "true": (TrueActions, {"book": SMALL}),
}


@pytest.fixture(params=POLICIES)
def name(request):
    return request.param


@pytest.fixture
def policy(name):
    kind, fields = POLICIES[name]
    return agent(kind, asks={"choose": Liking("smelt", "craft", "mine")}, **fields)


async def test_every_choice_is_an_action_and_what_worked_is_reused(name, policy):
    for _ in range(4):
        action = await policy.select_action("stick")
        assert action in VERBS
        policy.failed(failed("stick", action))
    policy.succeeded("craft", "logs")
    reused = {"forgetful": "smelt", "ucb": "mine", "true": "mine"}.get(name, "craft")
    assert {await policy.select_action("logs") for _ in range(3)} == {reused}


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "true"])
async def test_failures_of_all_actions_exhaust_an_item_until_it_is_reset(name, policy):
    for action in VERBS * 2:
        assert not policy.all_invalid("stick")
        policy.failed(failed("stick", action))
    assert policy.all_invalid("stick") == (name != "ucb")
    assert not policy.all_invalid("logs")
    policy.reset("stick")
    assert not policy.all_invalid("stick")


async def test_fam_is_asked_with_similar_items_and_without_what_failed():
    ask = Liking("smelt", "craft")
    policy = agent(x0=1, k=2, asks={"choose": ask})
    for item in ("planks", "logs", "bowl"):
        policy.succeeded("craft" if item != "logs" else "mine", item)
    for action in ("smelt", "craft"):
        assert await policy.select_action("stick") == action
        policy.failed(failed("stick", action))
    alike = (("bowl", "craft"), ("logs", "mine"))
    assert ask.asked == [("stick", alike, VERBS, ()), ("stick", alike, ("mine", "craft"), ())]
    assert await policy.select_action("stick") == "mine"  # the only one left: no question
    assert len(ask.asked) == 2


async def test_successes_only_asks_the_same_again():
    ask = Liking("mine")
    policy = agent(SuccessesOnly, asks={"choose": ask})
    for _ in range(6):
        assert await policy.select_action("stick") == "mine"
        policy.failed(failed("stick"))
    assert policy.all_invalid("stick")  # x_0 |𝒜| = 6
    assert set(ask.asked) == {("stick", (), VERBS, ())}


async def test_self_reflection_reads_why_earlier_attempts_failed():
    ask, analysed = Liking("mine"), []

    async def analyse(failure):
        analysed.append(failure)
        return f"reason {len(analysed)}"

    policy = agent(SelfReflection, x0=9, k=1, asks={"choose": ask, "analyse": analyse})
    for _ in range(5):
        await policy.select_action("stick")
        policy.failed(failed("stick"))
    # Failures of one action on one belief share a reflection.
    told = [analyses for _, _, _, analyses in ask.asked]
    assert told == [("reason 1",) * n for n in range(5)]
    policy.failed(failed("stick", "craft"))
    told = await policy.analyses("stick")
    assert tuple(told) == (*("reason 1",) * 5, "reason 2")
    policy.failed(failed("stick", "smelt"))
    assert len(await policy.analyses("stick")) == 7
    assert (len(told), told[-1], told[-2:]) == (6, "reason 2", ("reason 1", "reason 2"))


def counted(actions):
    """S / n of a is 3/4, that of b is 1/2; a third action was never tried."""
    memory = ActionMemory(actions, x0=2)
    for action, outcomes in {"a": (1, 1, 1, 0), "b": (1, 0)}.items():
        for outcome in outcomes:
            memory.record(action, "v", bool(outcome))
    return memory


def test_ucb_scores_by_hand():
    """S/n + c sqrt(ln N / n) with N = 6, n = 4 and 2; ln 6 = 1.791759."""
    scores = agent(Ucb, memory=counted("abc")).scores("v")
    assert scores["a"] == pytest.approx(0.75 + 0.946509, abs=1e-6)
    assert scores["b"] == pytest.approx(0.5 + 1.338566, abs=1e-6)
    assert scores["c"] == math.inf
    assert agent(Ucb, memory=counted("abc"), c=0.0).scores("v")["a"] == 0.75


@pytest.mark.parametrize(
    ("c", "place", "item", "action"),
    [(math.sqrt(2), 0, "v", "b"), (0.0, 0, "v", "a"), (1.0, 0, "w", "a"), (1.0, -1, "w", "b")],
)
async def test_ucb_takes_the_highest_bound_and_breaks_ties_by_its_draws(c, place, item, action):
    bandit = agent(Ucb, memory=counted("ab"), c=c, rng=Draws(place))
    assert await bandit.select_action(item) == action


# With the true graph at hand (Figure 25) ----------------------------------------------------------


async def tried(kind, *, until=300, goal="stick", **fields):
    world = TextWorld(BOOK, goals=(goal,), verbs=VERBS)
    truth = true_knowledge(BOOK, world.items, goal)
    policy = agent(kind, truth, **fields)
    attempt = await obtain(goal, world, agent=policy, truth=truth, until=until)
    return attempt, [f"{s.action} {s.item}{'' if s.reached else ' -'}" for s in attempt.subgoals]


SEQUENCES = {
    "fam": (Xenon, {}),
    # The draw takes the last candidate, which the model above likes best.
    "random-fam": (RandomFam, {"rng": Draws(-1)}),
    "no-memory": (Forgetful, {}),
    "self-reflection": (SelfReflection, {}),
    "ucb": (Ucb, {"rng": Draws(0)}),
}


@pytest.mark.parametrize("way", SEQUENCES)
async def test_golden_sequences_of_a_model_that_likes_smelt_best_and_mine_least(way):
    model = Liking("smelt", "craft", "mine")
    kind, fields = SEQUENCES[way]
    attempt, trace = await tried(kind, asks={"choose": model}, **fields)
    golden = TRACES["select"][way]
    assert trace[: len(golden)] == golden
    # A policy without memory repeats the last of these for ever.
    assert attempt.success == (way != "no-memory")
    assert set(trace[len(golden) :]) <= {golden[-1]}
    assert attempt.steps == (len(golden) if attempt.success else 300)
    assert len(attempt.plans[0].missing) == 3
    if way == "fam":
        options = [options for _, _, options, _ in model.asked]
        assert options[:5] == [VERBS, VERBS, ("mine", "craft"), ("mine", "craft"), VERBS]
        assert model.asked[-1][:2] == ("stick", (("logs", "mine"), ("planks", "craft")))
    if way == "self-reflection":
        assert model.asked[2][3] == ("smelt is wrong", "craft is wrong")
