"""LLM-MCTS, its policy alone, and LLM-MCTS+, for the catalogue.

The paper's other rows are settings: `selection=uct` is No Heuristic Policy, `state_prior=uniform`
Uniform State Prior, and `sight=full` of the home Fully Observable.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from llm_planning.domain import Need
from llm_planning.planners.llm_mcts.agent import llm_mcts, llm_mcts_plus, policy_alone
from llm_planning.planners.llm_mcts.exercises import policy_exercises
from llm_planning.planners.llm_mcts.goal_exercises import goal_exercises
from llm_planning.planners.llm_mcts.interpretation import ROLE as GOAL
from llm_planning.planners.llm_mcts.settings import (
    ROLES,
    LlmMctsPlusSettings,
    LlmMctsSettings,
    PolicySettings,
)
from llm_planning.priors import ROLE
from llm_planning.specs import PlannerSpec

_Spec = partial(
    PlannerSpec,
    paper="LLM-MCTS",
    needs=(Need("first_belief", "says what is believed of a home at first"),),
)

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="llm-mcts",
        summary="LLM-MCTS: tree search with a model's belief and a model's policy",
        settings=LlmMctsSettings,
        run=llm_mcts,
        roles=ROLES,
        exercises=goal_exercises,
    ),
    _Spec(
        name="llm-mcts-plus",
        summary="LLM-MCTS with rollouts by goal regression, regrets, and one tree for the episode",
        settings=LlmMctsPlusSettings,
        run=llm_mcts_plus,
        roles=ROLES,
        exercises=goal_exercises,
    ),
    _Spec(
        name="llm-mcts-policy",
        summary="the policy of LLM-MCTS alone: every action from the model, without search",
        settings=PolicySettings,
        run=policy_alone,
        roles=(GOAL, ROLE),
        exercises=policy_exercises,
    ),
)
