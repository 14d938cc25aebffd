"""The planners of XENON's paper by name: XENON, its ablations and its baselines.

The agents that learn are rows of Tables 1, 5 and 8. XENON+ (ours) is XENON with five additions. It
knows the names of all items (`xenon-plus-a1`); an item that was gathered is a resource; the model's
answers use known names only; its log-probabilities propose more candidates (all four:
`xenon-plus-a4`); nothing is tried twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from llm_planning.planners.xenon import baselines, cooking, given_goal, goal_planning
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.learning import learn
from llm_planning.planners.xenon.settings import (
    EXAMPLES,
    AskingSettings,
    ControllerSettings,
    CookingSettings,
    InformedSettings,
    LearningSettings,
    MemorySettings,
    PlanningSettings,
    RepromptingSettings,
    UcbSettings,
    XenonCookingSettings,
)
from llm_planning.settings import never
from llm_planning.specs import PlannerSpec

if TYPE_CHECKING:
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec


def _exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:
    """The exercises of a domain of items."""
    # Only measuring and teaching need them.
    from llm_planning.planners.xenon.exercises import item_exercises

    return item_exercises(domain, words)


class HasItems(Protocol):
    """Has items whose rules are to be learnt."""

    goals: Any
    rules: Any
    text_world: Any


class HasOneGoal(Protocol):
    """Asks for one item."""

    item: Any


class Cooks(Protocol):
    """Cooks meals by a cookbook."""

    meals: Any


_LEARNER = partial(
    PlannerSpec,
    paper="XENON",
    settings=LearningSettings,
    roles=("predict", "choose"),
    needs=(HasItems,),
    home="minecraft-goals",
    exercises=_exercises,
)
_INFORMED_LEARNER = partial(_LEARNER, settings=InformedSettings)
_SELECTOR = partial(
    PlannerSpec,
    paper="XENON",
    settings=AskingSettings,
    roles=("choose",),
    needs=(HasItems, HasOneGoal),
    home="minecraft-items",
    exercises=_exercises,
)
_GOAL_PLANNER = partial(
    PlannerSpec,
    paper="XENON",
    settings=PlanningSettings,
    roles=("predict", "choose"),
    needs=(HasItems, HasOneGoal),
    home="minecraft-items",
    exercises=_exercises,
)
_COOK = partial(
    PlannerSpec,
    paper="XENON",
    settings=CookingSettings,
    roles=("tool", "action"),
    needs=(Cooks,),
    home="cooking",
)

_QUANTITIES = (never("only revision by analogy writes quantities of its own"),)
_NO_ANALOGY = {
    **dict.fromkeys(("alpha_s", "alpha_i"), _QUANTITIES),
    "c0": [never("no item of this agent becomes inadmissible")],
    "K": EXAMPLES,
}
_TRUE_GRAPH = {"x0": [never("it counts no failures of an action, and its graph is never revised")]}

SPECS: tuple[PlannerSpec, ...] = (
    _LEARNER(
        name="xenon",
        summary="XENON: requirements revised by analogy, actions by failures, goals by difficulty",
        run=partial(learn, agent="xenon"),
    ),
    _LEARNER(
        name="sc",
        summary="SC: requirements and actions corrected by the LLM itself",
        run=partial(learn, agent="sc"),
        roles=("predict", "choose", "correct", "analyse"),
        read_when=_NO_ANALOGY,
    ),
    _LEARNER(
        name="adam",
        summary="ADAM: every unknown item requires 8 of all resources",
        run=partial(learn, agent="adam"),
        roles=("choose",),
        read_when={
            **{key: conditions for key, conditions in _NO_ANALOGY.items() if key != "alpha_i"},
            "most": [never("it asks for no requirements")],
        },
    ),
    _LEARNER(
        name="deckard",
        summary="DECKARD: requirements as predicted, successful actions kept",
        run=partial(learn, agent="deckard"),
        read_when={key: conditions for key, conditions in _NO_ANALOGY.items() if key != "c0"},
    ),
    _LEARNER(
        name="rand",
        summary="RAND: requirements as predicted, no memory, random goals",
        run=partial(learn, agent="rand"),
        read_when=_NO_ANALOGY,
    ),
    # Table 5, rows 2 to 6.
    _LEARNER(
        name="xenon-self-actions",
        summary="XENON, but actions corrected by the LLM itself",
        run=partial(learn, agent="xenon-self-actions"),
        roles=("predict", "choose", "analyse"),
    ),
    _LEARNER(
        name="xenon-no-actions",
        summary="XENON without correction of actions",
        run=partial(learn, agent="xenon-no-actions"),
    ),
    _LEARNER(
        name="xenon-self-dependencies",
        summary="XENON, but requirements corrected by the LLM itself",
        run=partial(learn, agent="xenon-self-dependencies"),
        roles=("predict", "choose", "correct"),
        read_when=_NO_ANALOGY,
    ),
    _LEARNER(
        name="xenon-no-dependencies",
        summary="XENON without correction of requirements",
        run=partial(learn, agent="xenon-no-dependencies"),
        read_when=_NO_ANALOGY,
    ),
    _LEARNER(
        name="xenon-no-correction",
        summary="XENON without any correction",
        run=partial(learn, agent="xenon-no-correction"),
        read_when=_NO_ANALOGY,
    ),
    # XENON+ and its ablation.
    _INFORMED_LEARNER(
        name="xenon-plus-a1",
        summary="XENON that knows the names of all items",
        run=partial(learn, agent="xenon"),
    ),
    _INFORMED_LEARNER(
        name="xenon-plus-a4",
        summary="all names known, candidates by log-probability: XENON+ that tries things twice",
        run=partial(learn, agent="xenon-plus-a4", closed=True),
        roles=("predict", "choose", "rank"),
    ),
    _INFORMED_LEARNER(
        name="xenon-plus",
        summary="XENON+: all names known, candidates by log-probability, nothing tried twice",
        run=partial(learn, agent="xenon-plus", closed=True),
        roles=("predict", "choose", "rank"),
    ),
    # Figure 25.
    _SELECTOR(
        name="select-xenon",
        summary="given the true graph, actions by the LLM, without those that failed",
        run=partial(given_goal.select, agent=Xenon),
    ),
    _SELECTOR(
        name="select-random-fam",
        summary="given the true graph, random actions, without those that failed",
        settings=MemorySettings,
        roles=(),
        run=partial(given_goal.select, agent=baselines.RandomFam),
    ),
    _SELECTOR(
        name="select-ucb",
        summary="given the true graph, actions by upper confidence bounds",
        settings=UcbSettings,
        roles=(),
        run=partial(given_goal.select, agent=baselines.Ucb),
    ),
    _SELECTOR(
        name="select-sc",
        summary="given the true graph, actions by the LLM, told why it failed",
        run=partial(given_goal.select, agent=baselines.SelfReflection),
        roles=("choose", "analyse"),
        read_when=_TRUE_GRAPH,
    ),
    _SELECTOR(
        name="select-llm",
        summary="given the true graph, actions by the LLM, without memory",
        run=partial(given_goal.select, agent=baselines.Forgetful),
        read_when={**_TRUE_GRAPH, "K": [never("it asks without examples")]},
    ),
    # Tables 3 and 14 to 21.
    _GOAL_PLANNER(
        name="plan-xenon",
        summary="one goal by XENON's step-by-step planning, on a simulated controller",
        settings=RepromptingSettings,
        run=partial(goal_planning.plan_and_act, agent=goal_planning.Reprompting),
        roles=("predict", "choose", "intervene", "caption"),
        free_text=("caption",),
    ),
    _GOAL_PLANNER(
        name="plan-xenon-no-cre",
        summary="one goal by XENON without context-aware reprompting, on a simulated controller",
        run=partial(goal_planning.plan_and_act, agent=Xenon),
    ),
    _GOAL_PLANNER(
        name="plan-xenon-no-actions",
        summary="one goal by XENON without reprompting or correction, on a simulated controller",
        run=partial(goal_planning.plan_and_act, agent=goal_planning.SuccessesTakenOver),
        read_when=_TRUE_GRAPH,
    ),
    _GOAL_PLANNER(
        name="plan-oracle-actions",
        summary="OracleActionPlanner: one goal by the true rules, on a simulated controller",
        settings=ControllerSettings,
        run=goal_planning.plan_with_true_actions,
        roles=(),
        read_when={"domain.verbs": [never("it takes the right action of every item")]},
    ),
    # Table 6.
    _COOK(
        name="xenon-cooking",
        summary="XENON in TextWorld Cooking: a tool for each direction of the cookbook, and FAM",
        settings=XenonCookingSettings,
        run=partial(cooking.cook_meals, planner="xenon-cooking"),
    ),
    _COOK(
        name="sc-cooking",
        summary="SC in TextWorld Cooking: tools and actions corrected by the LLM itself",
        run=partial(cooking.cook_meals, planner="sc-cooking"),
    ),
    _COOK(
        name="deckard-cooking",
        summary="DECKARD in TextWorld Cooking: nothing is corrected",
        run=partial(cooking.cook_meals, planner="deckard-cooking"),
    ),
)
"""All planners of the paper, in the order of the list."""
