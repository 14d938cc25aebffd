"""Classes of failures and description lengths of rearrangement, by hand."""

from math import log2

import pytest
from household_homes import flat, named
from llm_mcts_runs import run, the_pear_in_the_chest, tiny_task

from llm_planning.environments.household.domain import Household
from llm_planning.execution.decisions import ActionStatistics, Decision
from llm_planning.planners.llm_mcts.analysis.description import model_bits, policy_bits
from llm_planning.planners.llm_mcts.analysis.failures import failure_metrics, loss_of

FRIDGE, TABLE, CHEST, BENCH = range(4)


@pytest.fixture
def world(tmp_path):
    """A pear in the chest of the hall, wanted on the table; the agent is in the kitchen."""
    return Household(the_pear_in_the_chest(tmp_path))


def lost(world, action, liked, *, believed):
    """Why an action is lost at the start, where the pear is believed to be at one place."""
    prior = [[float(place == believed) for place in range(4)]] * 2
    state = world.start(0)
    options = tuple(ActionStatistics(name, float(name == liked)) for name in (action, liked))
    belief = world.first_belief(state, prior)
    return loss_of(action, Decision(options), state=state, belief=belief, world=world)


def test_why_an_action_is_lost(world):
    good, wrong, useless = "walk to the hall", "walk to the fridge", "walk to the table"
    # The way to the pear is not lost, whatever is believed.
    assert lost(world, good, good, believed=FRIDGE) is None
    assert lost(world, wrong, wrong, believed=FRIDGE) == "model"
    assert lost(world, wrong, wrong, believed=CHEST) == "policy"
    assert lost(world, useless, wrong, believed=FRIDGE) == "search"
    assert lost(world, useless, good, believed=FRIDGE) == "search"
    assert lost(world, useless, useless, believed=FRIDGE) == "policy"


def test_without_a_policy_the_fault_is_the_searchs(world):
    state, belief = world.start(0), world.first_belief(world.start(0))
    names = [str(action) for action in world.rules.actions(state)]
    options = tuple(ActionStatistics(name, 1 / len(names)) for name in names)
    useless = "walk to the table"
    parts = {"state": state, "belief": belief, "world": world}
    assert useless in names
    assert loss_of(useless, Decision(options), **parts) == "search"


def test_a_run_has_the_class_of_most_of_its_lost_actions(world):
    state = world.start(0)
    prior = [[1.0, 0.0, 0.0, 0.0]] * 2
    belief = world.first_belief(state, prior)

    def metrics(*actions, success=False, misread=False):
        decision = [Decision((ActionStatistics(action, 1.0),)) for action in actions]
        moves = [(action, state) for action in actions]
        beliefs = [belief] * len(actions)
        parts = {"world": world, "success": success, "misread": misread}
        return failure_metrics(moves, decision, beliefs, **parts)

    good, wrong, useless = "walk to the hall", "walk to the fridge", "walk to the table"
    counts = {"lost_policy": 1, "lost_model": 2, "lost_search": 0}
    assert metrics(wrong, useless, wrong) == {"failure": "model", **counts}
    assert metrics(wrong, useless, wrong, success=True) == {"failure": None, **counts}
    assert metrics(wrong, useless)["failure"] == "policy"
    assert metrics(good)["failure"] == "time"
    assert metrics(useless, misread=True) == {"failure": "translation"}


async def test_runs_say_why_they_failed(tmp_path):
    task = tiny_task(tmp_path)
    outcome = await run("llm-mcts-policy", task, prior="uniform", moves=1)
    assert outcome.metrics["failure"] in {"policy", "model", "search", "time"}
    assert (await run("llm-mcts-plus", task, roles="rules")).metrics["failure"] is None


def test_description_lengths_by_hand(tmp_path):
    # Flat: two rooms, four places, four things; six places and rooms in all.
    home = flat(tmp_path)
    assert model_bits(home) == pytest.approx(4 * log2(6) + 4)
    assert policy_bits(home, tasks=1) == pytest.approx(16 * log2(6))
    assert policy_bits(home, tasks=2) == pytest.approx(256 * log2(6))
    # In one room a place's room is known.
    room = "rooms: {hall: {surfaces: [table, bench]}}\n"
    things = "things: {rest: {names: [hat], lie: {table: 1}, goals: [bench]}}\n"
    alone = named("room", room + things, tmp_path)
    assert model_bits(alone) == pytest.approx(log2(3))
    assert policy_bits(alone, tasks=3) == pytest.approx(8 * log2(3))


@pytest.mark.parametrize(
    ("planner", "bits"), [("llm-mcts", 2 * log2(6) + 4), ("llm-mcts-policy", 8 * log2(6))]
)
async def test_runs_tell_their_description_length(tmp_path, planner, bits):
    few = {"simulations": 2} if planner == "llm-mcts" else {}
    outcome = await run(planner, tiny_task(tmp_path), roles="rules", moves=1, **few)
    assert outcome.metrics["description_bits"] == pytest.approx(bits)
