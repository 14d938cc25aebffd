"""ToO, its ablations and the baselines that only plan.

    too        proposals checked    states predicted     MCTS
    too-no-wm  proposals checked    s_0 and the options  MCTS
    too-no-fc  proposals as given   states predicted     MCTS
    tot-mcts   proposals as given   s_0 and the options  MCTS
    cot        one answer decomposes the goal

    react-option  proposes an option in the real state, executes it, and goes on from there
    react-action  the same with actions of one unit: no options
    too-plus      ToO that watches the execution and plans again

Source: Sections 4.1 (baselines) and 4.4 (ablations).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from llm_planning.domain import HasUnits, NamesOptions, Predicts
from llm_planning.execution.option_settings import EXECUTION_ROLES
from llm_planning.execution.whole_plans import chain_of_thought
from llm_planning.planners.tree_of_options.algorithm import tree_of_options
from llm_planning.planners.tree_of_options.baselines import (
    TreeOfThoughts,
    Unchecked,
    Unpredicted,
    react_action,
    react_option,
)
from llm_planning.planners.tree_of_options.plus import too_plus
from llm_planning.planners.tree_of_options.settings import (
    ROLES,
    ChainOfThoughtSettings,
    FeasibleSearchSettings,
    FeasibleUnpredictedSettings,
    OptionSearchSettings,
    OptionSettings,
    PlusSettings,
    UnpredictedSettings,
)
from llm_planning.settings import never
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec


def _exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:
    """Exercises of the roles of the whole family, if the domain has a teacher."""
    # Only measuring and teaching need them.
    from llm_planning.planners.tree_of_options.exercises import OptionExercises

    return None if domain.teacher is None else OptionExercises(domain.teacher(None), words=words)


_UNSEEN = {"see": [never("it predicts no states, and nothing else is shown pictures")]}
_UNPLANNED = {"d": [never("it makes no plan, and proposes one option at a time")]}
_UNIT_BY_UNIT = (never("it takes actions of one unit, each once, and no option is carried out"),)
_ASKED = (*ROLES, *EXECUTION_ROLES)
_Spec = partial(PlannerSpec, paper="Tree of Options", home="minecraft", exercises=_exercises)

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="too",
        summary="Tree of Options: MCTS over options that are checked, simulated and judged",
        settings=FeasibleSearchSettings,
        run=tree_of_options,
        roles=_ASKED,
        needs=(NamesOptions, Predicts),
    ),
    _Spec(
        name="too-no-wm",
        summary="Tree of Options without its world model: the state stays the initial one",
        settings=FeasibleUnpredictedSettings,
        run=partial(tree_of_options, algorithm=Unpredicted),
        roles=tuple(role for role in _ASKED if role != "dynamics"),
        needs=(NamesOptions,),
        read_when=_UNSEEN,
    ),
    _Spec(
        name="too-no-fc",
        summary="Tree of Options without its feasibility check: options are taken as proposed",
        settings=OptionSearchSettings,
        run=partial(tree_of_options, algorithm=Unchecked),
        roles=("propose", "dynamics", "reward", "termination", *EXECUTION_ROLES),
        needs=(NamesOptions, Predicts),
    ),
    _Spec(
        name="tot-mcts",
        summary="Tree of Thoughts with MCTS: neither world model nor feasibility check",
        settings=UnpredictedSettings,
        run=partial(tree_of_options, algorithm=TreeOfThoughts),
        roles=("propose", "reward", "termination", *EXECUTION_ROLES),
        needs=(NamesOptions,),
        read_when=_UNSEEN,
    ),
    _Spec(
        name="cot",
        summary="Chain of Thought: one answer breaks the goal down into options",
        settings=ChainOfThoughtSettings,
        run=chain_of_thought,
        roles=("decompose", *EXECUTION_ROLES),
        needs=(NamesOptions,),
    ),
    _Spec(
        name="react-option",
        summary="ReAct over options: proposes one in the real state and executes it, in turn",
        settings=OptionSettings,
        run=react_option,
        roles=("propose", *EXECUTION_ROLES),
        needs=(NamesOptions,),
        read_when=_UNPLANNED,
    ),
    _Spec(
        name="react-action",
        summary="ReAct without options: proposes one action of one unit and takes it, in turn",
        settings=OptionSettings,
        run=react_action,
        roles=("propose", *EXECUTION_ROLES),
        needs=(NamesOptions, HasUnits),
        read_when={
            **_UNPLANNED,
            **dict.fromkeys(
                ("execution", "refinements", "skills", "retrieved", "explanation"), _UNIT_BY_UNIT
            ),
            "domain.options": [never("its actions are always single recipes")],
        },
    ),
    _Spec(
        name="too-plus",
        summary="Tree of Options that watches the execution and plans again where it falls short",
        settings=PlusSettings,
        run=too_plus,
        roles=_ASKED,
        needs=(NamesOptions, Predicts),
        read_when={"infeasible": [never("a prerequisite stands beside an infeasible option")]},
    ),
)
