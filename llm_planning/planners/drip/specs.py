"""DRIP, DRIP+ and the paper's baselines, for the catalogue."""

from __future__ import annotations

from functools import partial
from typing import Final

from llm_planning.domain import Decomposes, NamesOptions, Succeeds
from llm_planning.execution.option_settings import POLICY_ROLES, OneAnswerSettings
from llm_planning.planners.drip.baselines import chain_of_thought, plan_and_solve, react
from llm_planning.planners.drip.exercises import subtask_exercises
from llm_planning.planners.drip.plus import drip_as_read, drip_plus
from llm_planning.planners.drip.settings import (
    DripPlusSettings,
    DripSettings,
    PlanAndSolveSettings,
    ReactSettings,
)
from llm_planning.specs import PlannerSpec

_Spec = partial(PlannerSpec, paper="DRIP", home="minecraft", exercises=subtask_exercises)

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="drip",
        summary="DRIP: breaks the goal down backwards, and carries out what is executable",
        settings=DripSettings,
        run=drip_as_read,
        roles=("decompose", "judge", "apply", *POLICY_ROLES),
        needs=(NamesOptions, Decomposes),
    ),
    _Spec(
        name="drip-plus",
        summary="DRIP that tests its goal, undoes nothing and simulates what it is about to do",
        settings=DripPlusSettings,
        run=drip_plus,
        roles=("decompose", "judge", "apply", *POLICY_ROLES),
        needs=(NamesOptions, Decomposes, Succeeds),
    ),
    _Spec(
        name="drip-react",
        summary="ReAct as in the experiments of DRIP: a thought and an action in turn",
        settings=ReactSettings,
        run=react,
        roles=("act", "apply", *POLICY_ROLES),
        needs=(NamesOptions, Succeeds),
    ),
    _Spec(
        name="drip-cot",
        summary="Chain of Thought as in DRIP: one answer plans, and all of it is carried out",
        settings=OneAnswerSettings,
        run=chain_of_thought,
        roles=("decompose",),
        needs=(NamesOptions,),
    ),
    _Spec(
        name="plan-and-solve",
        summary="Plan-and-Solve: one answer plans all steps, and each is tried until it is done",
        settings=PlanAndSolveSettings,
        run=plan_and_solve,
        roles=("decompose", *POLICY_ROLES),
        needs=(NamesOptions,),
    ),
)
