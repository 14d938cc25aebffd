"""LLM-MCTS, its policy alone, LLM-MCTS+, and the L-Policy and L-Model of its analysis.

The paper's other rows are settings: `selection=uct` is No Heuristic Policy, `state_prior=uniform`
Uniform State Prior, and `sight=full` of the home Fully Observable.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, Protocol

from llm_planning.planners.llm_mcts.algorithm import llm_mcts
from llm_planning.planners.llm_mcts.analysis.exercises import (
    MultiplicationExercises,
    TravelExercises,
)
from llm_planning.planners.llm_mcts.analysis.multiplication import (
    FACT,
    PRODUCT,
    MultiplicationSettings,
    l_model_multiplication,
    l_policy_multiplication,
)
from llm_planning.planners.llm_mcts.analysis.travel import l_model, l_policy
from llm_planning.planners.llm_mcts.analysis.travel_roles import (
    FLIGHTS,
    ROUTE,
    FlightSearchSettings,
    RouteSettings,
)
from llm_planning.planners.llm_mcts.baselines import policy_alone
from llm_planning.planners.llm_mcts.exercises import (
    GoalExercises,
    PolicyExercises,
    PositionExercises,
)
from llm_planning.planners.llm_mcts.interpretation import ROLE as GOAL
from llm_planning.planners.llm_mcts.plus import llm_mcts_plus
from llm_planning.planners.llm_mcts.settings import (
    ROLES,
    LlmMctsPlusSettings,
    LlmMctsSettings,
    PolicySettings,
)
from llm_planning.priors import ROLE
from llm_planning.specs import PlannerSpec


class HasHome(Protocol):
    """Says what is believed of a home at first."""

    first_belief: Any


class Flies(Protocol):
    """Flies from one city to another."""

    pair: Any


class Multiplies(Protocol):
    """Gives two numbers to multiply."""

    factors: Any


_Spec = partial(PlannerSpec, paper="LLM-MCTS", home="household", needs=(HasHome,))

_Multiplies = partial(
    PlannerSpec,
    paper="LLM-MCTS",
    home="multiplication",
    settings=MultiplicationSettings,
    needs=(Multiplies,),
    exercises=MultiplicationExercises.of,
)

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="llm-mcts",
        summary="LLM-MCTS: tree search with a model's belief and a model's policy",
        settings=LlmMctsSettings,
        run=llm_mcts,
        roles=ROLES,
        exercises=GoalExercises.at_home,
    ),
    _Spec(
        name="llm-mcts-plus",
        summary="LLM-MCTS with rollouts by goal regression, regrets, and one tree for the episode",
        settings=LlmMctsPlusSettings,
        run=llm_mcts_plus,
        roles=ROLES,
        exercises=PositionExercises.at_home,
    ),
    _Spec(
        name="llm-mcts-policy",
        summary="the policy of LLM-MCTS alone: every action from the model, without search",
        settings=PolicySettings,
        run=policy_alone,
        roles=(GOAL, ROLE),
        exercises=PolicyExercises.at_home,
    ),
    PlannerSpec(
        name="l-policy",
        summary="a model as a policy: it writes a whole journey by plane in one answer",
        paper="LLM-MCTS",
        home="travel",
        settings=RouteSettings,
        run=l_policy,
        roles=(ROUTE,),
        needs=(Flies,),
        exercises=TravelExercises.of,
    ),
    PlannerSpec(
        name="l-model",
        summary="a model as a model: it names direct flights, and search finds the journey",
        paper="LLM-MCTS",
        home="travel",
        settings=FlightSearchSettings,
        run=l_model,
        roles=(FLIGHTS,),
        needs=(Flies,),
        exercises=TravelExercises.of,
    ),
    _Multiplies(
        name="l-policy-multiplication",
        summary="L-Policy of LLM-MCTS for multiplication: a model says the product",
        run=l_policy_multiplication,
        roles=(PRODUCT,),
    ),
    _Multiplies(
        name="l-model-multiplication",
        summary="L-Model of LLM-MCTS: long multiplication with the one-digit products of a model",
        run=l_model_multiplication,
        roles=(FACT,),
    ),
)
