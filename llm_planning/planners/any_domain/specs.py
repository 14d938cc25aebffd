"""The planners that work in every domain, for the catalogue."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from llm_planning.planners.any_domain.exercises import PriorExercises
from llm_planning.planners.any_domain.llm_agents import llm_policy, react
from llm_planning.planners.any_domain.roles import THINK
from llm_planning.planners.any_domain.search_agents import search_agent
from llm_planning.planners.any_domain.settings import (
    PolicySettings,
    PuctSettings,
    ReactSettings,
    UctSettings,
)
from llm_planning.priors import ROLE
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec


def _exercises(domain: DomainSpec, words: Words) -> ExerciseMaker:
    return PriorExercises(domain, words=words)


_Spec = partial(PlannerSpec, paper="Every domain")

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="puct",
        summary="tree search before every move, guided by a language model's prior over actions",
        settings=PuctSettings,
        run=partial(search_agent, select=select_by_puct),
        roles=(ROLE,),
        exercises=_exercises,
    ),
    _Spec(
        name="uct",
        summary="tree search before every move that asks no language model",
        settings=UctSettings,
        run=partial(search_agent, select=select_by_uct),
    ),
    _Spec(
        name="llm-policy",
        summary="a language model picks every action, without search",
        settings=PolicySettings,
        run=llm_policy,
        roles=(ROLE,),
        exercises=_exercises,
    ),
    _Spec(
        name="react",
        summary="a language model writes a thought before every action, and sees what it did",
        settings=ReactSettings,
        run=react,
        roles=(THINK, ROLE),
        free_text=(THINK,),
        exercises=_exercises,
    ),
)
