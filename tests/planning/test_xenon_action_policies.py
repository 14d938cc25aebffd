"""Action policies: a contract for all of them, and each by hand (Table 8, Figure 25)."""

import json
import math
import random
from dataclasses import asdict

import pytest
from pydantic import TypeAdapter
from xenon_builders import (
    LOGS,
    PLANKS,
    SMALL,
    STICK,
    TRACES,
    VERBS,
    Draws,
    Liking,
    asking,
    book_of,
    failed,
)

from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.planners.xenon.action_policies import (
    FailureAware,
    Forgetful,
    RandomFam,
    SelfReflecting,
    SuccessOnly,
    TrueActions,
    Ucb,
)
from llm_planning.planners.xenon.fam import ActionMemory
from llm_planning.planners.xenon.given_goal import obtain, true_knowledge
from llm_planning.planners.xenon.saved import Notes

BOOK = book_of(LOGS, PLANKS, STICK)
POLICIES = {
    "fam": FailureAware,
    "successes": SuccessOnly,
    "reflecting": SelfReflecting,
    "forgetful": Forgetful,
    "random-fam": lambda asking: RandomFam(asking.memory, rng=random.Random(0)),
    "ucb": lambda asking: Ucb(asking.memory, c=math.sqrt(2), rng=Draws(0)),
    "true": lambda _: TrueActions(SMALL),
}
NEVER_EXHAUSTED = {"ucb", "true"}


@pytest.fixture(params=POLICIES)
def name(request):
    return request.param


@pytest.fixture
def policy(name):
    return POLICIES[name](asking(Liking("smelt", "craft", "mine")))


async def test_every_choice_is_an_action_and_what_worked_is_reused(name, policy):
    for _ in range(4):
        action = await policy.choose("stick")
        assert action in VERBS
        policy.failed(failed("stick", action))
    policy.succeeded("craft", "logs")
    reused = {"forgetful": "smelt", "ucb": "mine", "true": "mine"}.get(name, "craft")
    assert {await policy.choose("logs") for _ in range(3)} == {reused}


async def test_failures_of_all_actions_exhaust_an_item_until_it_is_reset(name, policy):
    for action in VERBS * 2:
        assert not policy.exhausted("stick")
        policy.failed(failed("stick", action))
    assert policy.exhausted("stick") == (name not in NEVER_EXHAUSTED)
    assert not policy.exhausted("logs")
    policy.reset("stick")
    assert not policy.exhausted("stick")


async def test_what_is_kept_of_failures_comes_back_from_a_file(name, policy):
    for action in ("mine", "smelt", "mine"):
        policy.failed(failed("stick", action))
        await policy.choose("stick")
    policy.failed(failed("stick", "craft"))
    kept = asdict(Notes.joined([policy.state]))
    other = POLICIES[name](asking(Liking("smelt")))
    other.state.restore(TypeAdapter(Notes).validate_json(json.dumps(kept)))
    assert other.state == policy.state
    expected = {"in_vain"} if name in {"successes", "reflecting", "forgetful"} else set()
    expected |= {"unexplained", "reasons", "analyses"} if name == "reflecting" else set()
    assert {field for field, value in kept.items() if value} == expected


async def test_fam_is_asked_with_similar_items_and_without_what_failed():
    ask = Liking("smelt", "craft")
    policy = FailureAware(asking(ask, x0=1, k=2))
    for item in ("planks", "logs", "bowl"):
        policy.succeeded("craft" if item != "logs" else "mine", item)
    for action in ("smelt", "craft"):
        assert await policy.choose("stick") == action
        policy.failed(failed("stick", action))
    alike = (("bowl", "craft"), ("logs", "mine"))
    assert ask.asked == [("stick", alike, VERBS, ()), ("stick", alike, ("mine", "craft"), ())]
    assert await policy.choose("stick") == "mine"  # the only one left: no question
    assert len(ask.asked) == 2


async def test_successes_only_asks_the_same_again():
    ask = Liking("mine")
    policy = SuccessOnly(asking(ask))
    for _ in range(6):
        assert await policy.choose("stick") == "mine"
        policy.failed(failed("stick"))
    assert policy.exhausted("stick")  # x_0 |𝒜| = 6
    assert set(ask.asked) == {("stick", (), VERBS, ())}


async def test_self_reflection_reads_why_earlier_attempts_failed():
    ask, analysed = Liking("mine"), []

    async def analyse(failure):
        analysed.append(failure)
        return f"reason {len(analysed)}"

    policy = SelfReflecting(asking(ask, x0=9, k=1, analyse=analyse))
    for _ in range(5):
        await policy.choose("stick")
        policy.failed(failed("stick"))
    # Failures of one action on one belief share a reflection.
    assert [analyses for _, _, _, analyses in ask.asked] == [("reason 1",) * n for n in range(5)]
    policy.failed(failed("stick", "craft"))
    assert await policy.analyses("stick") == (*("reason 1",) * 5, "reason 2")


def counted(actions):
    """S / n of a is 3/4, that of b is 1/2; a third action was never tried."""
    memory = ActionMemory(actions, x0=2)
    for action, outcomes in {"a": (1, 1, 1, 0), "b": (1, 0)}.items():
        for outcome in outcomes:
            memory.record(action, "v", bool(outcome))
    return memory


def test_ucb_scores_by_hand():
    """S/n + c sqrt(ln N / n) with N = 6, n = 4 and 2; ln 6 = 1.791759."""
    scores = Ucb(counted("abc"), c=math.sqrt(2), rng=Draws(0)).scores("v")
    assert scores["a"] == pytest.approx(0.75 + 0.946509, abs=1e-6)
    assert scores["b"] == pytest.approx(0.5 + 1.338566, abs=1e-6)
    assert scores["c"] == math.inf
    assert Ucb(counted("abc"), c=0.0, rng=Draws(0)).scores("v")["a"] == 0.75


@pytest.mark.parametrize(
    ("c", "place", "item", "action"),
    [(math.sqrt(2), 0, "v", "b"), (0.0, 0, "v", "a"), (1.0, 0, "w", "a"), (1.0, -1, "w", "b")],
)
async def test_ucb_takes_the_highest_bound_and_breaks_ties_by_its_draws(c, place, item, action):
    assert await Ucb(counted("ab"), c=c, rng=Draws(place)).choose(item) == action


# With the true graph at hand (Figure 25) ----------------------------------------------------------


async def tried(policy, *, until=300, goal="stick"):
    world = TextWorld(BOOK, goals=(goal,), verbs=VERBS)
    truth = true_knowledge(BOOK, world.items, goal)
    attempt = await obtain(goal, world, knowledge=truth, truth=truth, actions=policy, until=until)
    return attempt, [f"{s.action} {s.item}{'' if s.reached else ' -'}" for s in attempt.subgoals]


SEQUENCES = {
    "fam": lambda ask: FailureAware(asking(ask)),
    # The draw takes the last candidate, which the model above likes best.
    "random-fam": lambda _: RandomFam(ActionMemory(VERBS, x0=2), rng=Draws(-1)),
    "no-memory": lambda ask: Forgetful(asking(ask)),
    "self-reflection": lambda ask: SelfReflecting(asking(ask)),
    "ucb": lambda _: Ucb(ActionMemory(VERBS, x0=2), c=math.sqrt(2), rng=Draws(0)),
}


@pytest.mark.parametrize("way", SEQUENCES)
async def test_golden_sequences_of_a_model_that_likes_smelt_best_and_mine_least(way):
    model = Liking("smelt", "craft", "mine")
    attempt, trace = await tried(SEQUENCES[way](model))
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


async def test_actions_all_ruled_out_are_explored_afresh():
    """Two failures of each action rule all of them out: all are candidates again."""
    wrong = ActionMemory(("craft", "smelt"), x0=2)
    attempt, trace = await tried(RandomFam(wrong, rng=Draws(0)), until=8, goal="logs")
    assert not attempt.success
    assert trace == [*["craft logs -"] * 2, *["smelt logs -"] * 2] * 2
