"""XENON's planners, and whatever it is compared with, by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from llm_planning.environments.minecraft.goals import GOAL_SETS
from llm_planning.planners.xenon import cooking, cooking_agents, goal_planning, selection
from llm_planning.planners.xenon.agents import AGENTS, INFORMED_AGENTS
from llm_planning.planners.xenon.choosing import FailureAware, Forgetful, SelfReflecting
from llm_planning.planners.xenon.goal_planning import ControllerSettings, PlanningSettings
from llm_planning.planners.xenon.learning import learn
from llm_planning.planners.xenon.selection import AskingSettings, select_by_asking
from llm_planning.planners.xenon.settings import InformedSettings, LearningSettings
from llm_planning.specs import Benchmark, PlannerSpec

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.planners.xenon.choosing import ActionPolicy, Asking
    from llm_planning.planners.xenon.roles import Roles
    from llm_planning.settings import Settings
    from llm_planning.specs import Run

_LEARNING = Benchmark(domain="minecraft", tasks=tuple(GOAL_SETS))
_SELECTION = Benchmark(domain="minecraft", tasks=selection.SELECTION_TASKS)
_PLANNING = Benchmark(domain="minecraft", tasks=goal_planning.PLANNING_TASKS)
_COOKING = Benchmark(domain="cooking", tasks=cooking.COOKING_TASKS)


def _spec(
    name: str,
    summary: str,
    settings: type[Settings],
    run: Run,
    *roles: str,
    benchmark: Benchmark,
) -> PlannerSpec:
    return PlannerSpec(
        name=name,
        summary=summary,
        paper="XENON",
        settings=settings,
        run=run,
        roles=roles,
        benchmark=benchmark,
    )


def _learner(
    name: str, summary: str, *more: str, roles: tuple[str, ...] = ("predict", "choose")
) -> PlannerSpec:
    informed = name in INFORMED_AGENTS
    return _spec(
        name,
        summary,
        InformedSettings if informed else LearningSettings,
        partial(learn, composition=(INFORMED_AGENTS if informed else AGENTS)[name]),
        *roles,
        *more,
        benchmark=_LEARNING,
    )


def _asking(
    name: str, summary: str, choosing: Callable[[Asking, Roles], ActionPolicy], *roles: str
) -> PlannerSpec:
    run = partial(select_by_asking, choosing=choosing)
    return _spec(name, summary, AskingSettings, run, *roles, benchmark=_SELECTION)


SPECS = (
    _learner(
        "xenon", "XENON: requirements revised by analogy, actions by failures, goals by difficulty"
    ),
    _learner(
        "sc", "SC: requirements and actions corrected by the LLM itself", "correct", "analyse"
    ),
    _learner("adam", "ADAM: every unknown item requires 8 of all resources", roles=("choose",)),
    _learner("deckard", "DECKARD: requirements as predicted, successful actions kept"),
    _learner("rand", "RAND: requirements as predicted, no memory, random goals"),
    _learner("xenon-self-actions", "XENON, but actions corrected by the LLM itself", "analyse"),
    _learner("xenon-no-actions", "XENON without correction of actions"),
    _learner(
        "xenon-self-dependencies", "XENON, but requirements corrected by the LLM itself", "correct"
    ),
    _learner("xenon-no-dependencies", "XENON without correction of requirements"),
    _learner("xenon-no-correction", "XENON without any correction"),
    _learner("xenon-names", "XENON that knows the names of all items"),
    _learner(
        "xenon-names-mined",
        "XENON that knows all names and counts whatever was gathered as a resource",
    ),
    _learner(
        "xenon-names-mined-closed",
        "XENON+ without candidates by log-probability, and things are tried twice",
    ),
    _learner("xenon-names-mined-closed-ranked", "XENON+, but things are tried twice", "rank"),
    _learner(
        "xenon-plus",
        "XENON+: all names known, candidates by log-probability, nothing tried twice",
        "rank",
    ),
    _asking(
        "select-xenon",
        "given the true graph, actions by the LLM, without those that failed",
        lambda asking, _: FailureAware(asking),
        "choose",
    ),
    _spec(
        "select-random-fam",
        "given the true graph, random actions, without those that failed",
        selection.MemorySettings,
        partial(selection.select_by_draws, choosing=selection.random_fam),
        benchmark=_SELECTION,
    ),
    _spec(
        "select-ucb",
        "given the true graph, actions by upper confidence bounds",
        selection.UcbSettings,
        partial(selection.select_by_draws, choosing=selection.ucb),
        benchmark=_SELECTION,
    ),
    _asking(
        "select-sc",
        "given the true graph, actions by the LLM, told why it failed",
        lambda asking, roles: SelfReflecting(asking, analyse=roles.analyse),
        *("choose", "analyse"),
    ),
    _asking(
        "select-llm",
        "given the true graph, actions by the LLM, without memory",
        lambda asking, _: Forgetful(asking),
        "choose",
    ),
    _spec(
        "plan-xenon",
        "one goal by XENON's step-by-step planning, on a simulated controller",
        PlanningSettings,
        goal_planning.plan_xenon,
        *("predict", "choose", "intervene"),
        benchmark=_PLANNING,
    ),
    _spec(
        "plan-xenon-no-cre",
        "one goal by XENON without context-aware reprompting, on a simulated controller",
        PlanningSettings,
        goal_planning.plan_xenon_no_cre,
        *("predict", "choose"),
        benchmark=_PLANNING,
    ),
    _spec(
        "plan-xenon-no-actions",
        "one goal by XENON without reprompting or correction, on a simulated controller",
        PlanningSettings,
        goal_planning.plan_xenon_no_actions,
        *("predict", "choose"),
        benchmark=_PLANNING,
    ),
    _spec(
        "plan-oracle-actions",
        "OracleActionPlanner: one goal by the true rules, on a simulated controller",
        ControllerSettings,
        goal_planning.plan_with_true_actions,
        benchmark=_PLANNING,
    ),
    _spec(
        "xenon-cooking",
        "XENON in TextWorld Cooking: a tool for each direction of the cookbook, and FAM",
        cooking.XenonCookingSettings,
        partial(cooking.cook, planner="xenon-cooking", assemble=cooking_agents.xenon),
        *("tool", "action"),
        benchmark=_COOKING,
    ),
    _spec(
        "sc-cooking",
        "SC in TextWorld Cooking: tools and actions corrected by the LLM itself",
        cooking.CookingSettings,
        partial(cooking.cook, planner="sc-cooking", assemble=cooking_agents.self_correction),
        *("tool", "action"),
        benchmark=_COOKING,
    ),
    _spec(
        "deckard-cooking",
        "DECKARD in TextWorld Cooking: nothing is corrected",
        cooking.CookingSettings,
        partial(cooking.cook, planner="deckard-cooking", assemble=cooking_agents.deckard),
        *("tool", "action"),
        benchmark=_COOKING,
    ),
)
"""Everything of the paper that can be run by name."""
