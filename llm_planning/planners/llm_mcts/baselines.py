"""The baseline without search. The paper's other ones are settings of `llm-mcts`; see `specs`."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING

from llm_planning.execution.decisions import ActionStatistics, Decision
from llm_planning.planners.any_domain.roles import Situation
from llm_planning.planners.llm_mcts.playing import Choice, Mind, play_at_home
from llm_planning.planners.llm_mcts.roles import HomeAsking
from llm_planning.search import argmax

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.outcome import Outcome
    from llm_planning.planners.llm_mcts.settings import PolicySettings
    from llm_planning.specs import Run


async def policy_alone(run: Run[KnownHousehold, PolicySettings]) -> Outcome:
    """The baseline without search: every action comes from the policy of LLM-MCTS."""
    settings = run.settings
    asking = HomeAsking(run)
    await asking.ask_for_goal()
    askings = count(1)

    async def anew(_: Situation) -> int:
        return next(askings)

    # Each vote is an answer of its own, which may err by itself.
    await asking.ask_for_policy(beside=anew)
    policy = asking.policy or _even
    rules = asking.world.rules
    draws = Random(f"policy {run.seed}")

    async def decide(mind: Mind) -> Choice | None:
        actions = rules.actions(mind.belief.certain)
        if not actions:
            return None
        names = tuple(map(str, actions))
        turns, now, belief = mind.past
        situation = Situation(turns, now, names, state=belief)
        times = settings.votes if settings.choice == "majority" else 1
        answers = [await policy(situation) for _ in range(times)]
        if settings.choice == "argmax":
            best = argmax(answers[0])
        else:
            votes = Counter(draws.choices(range(len(names)), pi)[0] for pi in answers)
            best = votes.most_common(1)[0][0]
        mean = map(fmean, zip(*answers, strict=True))
        return Choice(actions[best], Decision(tuple(map(ActionStatistics, names, mean))))

    return await play_at_home(run, asking, decide, places=None)


async def _even(situation: Situation) -> Sequence[float]:
    """π of somebody who knows nothing."""
    return [1.0 / len(situation.actions)] * len(situation.actions)
