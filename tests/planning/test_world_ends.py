"""What ends an episode and what that is worth, to searches, rollouts and executions alike."""

from random import Random

import pytest
from any_domain_worlds import model_of, run, walk_at

from llm_planning.domain import Domain, Step
from llm_planning.execution.episode import execute
from llm_planning.search import Node


class Count(Domain):
    """Counts to three. Subclasses say how that is told."""

    goal = "Count to 3."

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"The counter shows {state}."

    def actions(self, state):
        return ["more", "less"]

    def step(self, state, action, rng):
        return Step(max(0, state + (1 if action == "more" else -1)))


class Paid(Count):
    """`success` tells of the goal and no step is `done`; behind the goal there is a trap."""

    def step(self, state, action, rng):
        if state == 3:
            return Step(3, reward=-10.0)
        step = super().step(state, action, rng)
        return step._replace(reward=5.0 if step.state == 3 else -0.1)

    def success(self, state):
        return state == 3


class Progress(Count):
    """A score, and no reward: an end is worth its score."""

    def step(self, state, action, rng):
        step = super().step(state, action, rng)
        return step._replace(done=step.state == 3)

    def score(self, state):
        return state / 3


class Far(Progress):
    """Each step costs; the score is what is left to do."""

    def step(self, state, action, rng):
        return super().step(state, action, rng)._replace(reward=-0.01)

    def score(self, state):
        return 30.0 * state


class Won(Progress):
    """Neither `done` nor a reward: `success` and a score."""

    def step(self, state, action, rng):
        return Count.step(self, state, action, rng)

    def success(self, state):
        return state == 3


class Lost(Progress):
    """An end that is worth less than all else lies on one side."""

    def step(self, state, action, rng):
        if state == 0 and action == "less":
            return Step(-1, done=True)
        return super().step(state, action, rng)

    def success(self, state):
        return state == 3

    def score(self, state):
        return state / 3 if state >= 0 else -1.0


@pytest.mark.parametrize("world", [Paid, Progress, Far, Won, Lost])
@pytest.mark.parametrize("seed", range(3))
async def test_searches_reach_the_end_that_episodes_have(world, seed):
    for planner in ("uct", "puct"):
        given = {} if planner == "uct" else {"prior": "uniform"}
        outcome = await run(planner, world(), seed=seed, simulations=60, **given)
        assert outcome.success, planner
        assert len(outcome.plan) <= 9, planner  # the means of few rollouts tell little


async def test_an_end_is_paid_its_score_unless_its_reward_is_as_much():
    class Ends(Count):
        def __init__(self, reward, score):
            self.reward, self.worth = reward, score

        def step(self, state, action, rng):
            return Step("end", reward=self.reward, done=True)

        def score(self, state):
            return self.worth

    for reward, score, paid in (
        (0, 1, 0.5),
        (1, 1, 1),
        (-1, 1, -0.5),
        (2, 1, 2),
        (0, -3, -1.5),
        (-2, -1, -2),
    ):
        model = model_of(Ends(reward, score), gamma=0.5)
        assert (await model.step(0, "more", Random(0))).reward == pytest.approx(paid)


async def test_an_end_of_which_nothing_tells_is_said():
    class Silent(Count):
        def actions(self, state):
            return super().actions(state) if state < 3 else []

    class Told(Silent):
        def success(self, state):
            return state == 3

    class Paying(Silent):
        def step(self, state, action, rng):
            step = super().step(state, action, rng)
            return step._replace(reward=float(step.state == 3))

    outcome = await run("uct", Paying(), simulations=60)
    assert (outcome.success, outcome.plan[-1]) == (None, "more")
    assert outcome.verdict.startswith("No action is possible any more, and nothing tells")
    outcome = await execute(Silent(), ["more"] * 3, seed=0)
    assert (outcome.success, outcome.ended) == (None, True)
    assert outcome.untold.startswith("No action is possible any more, and nothing tells")
    outcome = await execute(Silent(), ["more"], seed=0)
    assert (outcome.success, outcome.ended, outcome.untold) == (False, False, "")
    outcome = await execute(Told(), ["more"] * 3, seed=0)
    assert (outcome.success, outcome.ended, outcome.untold) == (True, True, "")


async def test_rollouts_end_where_the_goal_is_reached():
    """Behind the goal there is nothing but the trap."""
    model = model_of(Paid(), gamma=1.0, depth=30)
    leaf = await model.evaluate(Node(), walk_at(2))
    assert leaf.tail >= 5.0 - 0.1 * 30


async def test_of_more_actions_than_simulations_all_are_possible():
    class Many(Count):
        def actions(self, state):
            return [f"take {number}" for number in range(500)]

        def step(self, state, action, rng):
            return Step(state, done=True)

    taken = set()
    for seed in range(6):
        outcome = await run("uct", Many(), seed=seed, simulations=10)
        taken |= {int(outcome.plan[0].removeprefix("take "))}
        assert outcome.metrics["actions_tried"] == 0.02
    assert max(taken) >= 10
    outcome = await run("uct", Many(), simulations=500)
    assert "actions_tried" not in outcome.metrics
