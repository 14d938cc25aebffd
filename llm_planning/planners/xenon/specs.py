"""XENON's planners, and whatever it is compared with, by name.

The agents that learn are rows of Tables 1, 5 and 8. XENON+ is XENON with five additions: the names
of the world are known; whatever was gathered is a resource; the model's answers are held to known
names; its log-probabilities over them propose more candidates; and nothing is tried twice.
`xenon-plus-a1` to `xenon-plus-a4` have the first one to four of these.
"""

from __future__ import annotations

from functools import partial

from llm_planning.environments.minecraft.controller_data import PATIENCE
from llm_planning.environments.minecraft.goals import GOAL_SETS
from llm_planning.planners.xenon import agents, benchmark, cooking, cooking_agents, goal_planning
from llm_planning.planners.xenon.choosing import FailureAware, SuccessOnly
from llm_planning.planners.xenon.learning import learn
from llm_planning.planners.xenon.settings import (
    AskingSettings,
    ControllerSettings,
    InformedSettings,
    LearningSettings,
    MemorySettings,
    PlanningSettings,
    UcbSettings,
)
from llm_planning.specs import Benchmark, PlannerSpec

_LEARNER = partial(
    PlannerSpec,
    paper="XENON",
    settings=LearningSettings,
    roles=("predict", "choose"),
    benchmark=Benchmark(domain="minecraft", tasks=tuple(GOAL_SETS)),
)
_INFORMED_LEARNER = partial(_LEARNER, settings=InformedSettings)
_SELECTOR = partial(
    PlannerSpec,
    paper="XENON",
    settings=AskingSettings,
    benchmark=Benchmark(domain="minecraft", tasks=benchmark.SELECTION_TASKS),
)
_GOAL_PLANNER = partial(
    PlannerSpec,
    paper="XENON",
    settings=PlanningSettings,
    roles=("predict", "choose"),
    benchmark=Benchmark(domain="minecraft", tasks=goal_planning.PLANNING_TASKS),
)
_COOK = partial(
    PlannerSpec,
    paper="XENON",
    settings=cooking.CookingSettings,
    roles=("tool", "action"),
    benchmark=Benchmark(domain="cooking", tasks=cooking.COOKING_TASKS),
)

_XENON = partial(learn, dependencies=agents.analogy, actions=agents.fam, goals=agents.by_dex)
_MINED = partial(_XENON, dependencies=agents.analogy_gathered)
_CLOSED = partial(_MINED, closed=True)
_RANKED = partial(_CLOSED, dependencies=agents.analogy_ranked)

SPECS: tuple[PlannerSpec, ...] = (
    _LEARNER(
        name="xenon",
        summary="XENON: requirements revised by analogy, actions by failures, goals by difficulty",
        run=_XENON,
    ),
    _LEARNER(
        name="sc",
        summary="SC: requirements and actions corrected by the LLM itself",
        run=partial(
            learn,
            dependencies=agents.self_correction,
            actions=agents.self_reflection,
            goals=agents.at_random,
        ),
        roles=("predict", "choose", "correct", "analyse"),
    ),
    _LEARNER(
        name="adam",
        summary="ADAM: every unknown item requires 8 of all resources",
        run=partial(
            learn,
            dependencies=agents.eight_of_everything,
            actions=agents.successes_only,
            goals=agents.at_random,
            guess=agents.nothing_predicted,
        ),
        roles=("choose",),
    ),
    _LEARNER(
        name="deckard",
        summary="DECKARD: requirements as predicted, successful actions kept",
        run=partial(
            learn,
            dependencies=agents.as_predicted,
            actions=agents.successes_only,
            goals=agents.by_frontier,
        ),
    ),
    _LEARNER(
        name="rand",
        summary="RAND: requirements as predicted, no memory, random goals",
        run=partial(
            learn,
            dependencies=agents.as_predicted,
            actions=agents.no_memory,
            goals=agents.at_random,
        ),
    ),
    # Table 5, rows 2 to 6.
    _LEARNER(
        name="xenon-self-actions",
        summary="XENON, but actions corrected by the LLM itself",
        run=partial(_XENON, actions=agents.self_reflection),
        roles=("predict", "choose", "analyse"),
    ),
    _LEARNER(
        name="xenon-no-actions",
        summary="XENON without correction of actions",
        run=partial(_XENON, actions=agents.successes_only),
    ),
    _LEARNER(
        name="xenon-self-dependencies",
        summary="XENON, but requirements corrected by the LLM itself",
        run=partial(_XENON, dependencies=agents.self_correction),
        roles=("predict", "choose", "correct"),
    ),
    _LEARNER(
        name="xenon-no-dependencies",
        summary="XENON without correction of requirements",
        run=partial(_XENON, dependencies=agents.as_predicted),
    ),
    _LEARNER(
        name="xenon-no-correction",
        summary="XENON without any correction",
        run=partial(_XENON, dependencies=agents.as_predicted, actions=agents.successes_only),
    ),
    # XENON+ and its ablation; these are told all names unless the settings say otherwise.
    _INFORMED_LEARNER(
        name="xenon-plus-a1",
        aliases=("xenon-names",),
        summary="XENON that knows the names of all items",
        run=_XENON,
    ),
    _INFORMED_LEARNER(
        name="xenon-plus-a2",
        aliases=("xenon-names-mined",),
        summary="xenon-plus-a1 that counts whatever was gathered as a resource, too",
        run=_MINED,
    ),
    _INFORMED_LEARNER(
        name="xenon-plus-a3",
        aliases=("xenon-names-mined-closed",),
        summary="xenon-plus-a2 whose answers are held to known names",
        run=_CLOSED,
    ),
    _INFORMED_LEARNER(
        name="xenon-plus-a4",
        aliases=("xenon-names-mined-closed-ranked",),
        summary="xenon-plus-a3 with candidates by log-probability: XENON+ that tries things twice",
        run=_RANKED,
        roles=("predict", "choose", "rank"),
    ),
    _INFORMED_LEARNER(
        name="xenon-plus",
        summary="XENON+: all names known, candidates by log-probability, nothing tried twice",
        run=partial(
            _RANKED, dependencies=agents.analogy_refuting, goals=agents.by_dex_of_unrefuted
        ),
        roles=("predict", "choose", "rank"),
    ),
    # Figure 25.
    _SELECTOR(
        name="select-xenon",
        summary="given the true graph, actions by the LLM, without those that failed",
        run=partial(benchmark.select_by_asking, actions=agents.fam),
        roles=("choose",),
    ),
    _SELECTOR(
        name="select-random-fam",
        summary="given the true graph, random actions, without those that failed",
        settings=MemorySettings,
        run=partial(benchmark.select_by_draws, actions=benchmark.random_fam),
    ),
    _SELECTOR(
        name="select-ucb",
        summary="given the true graph, actions by upper confidence bounds",
        settings=UcbSettings,
        run=partial(benchmark.select_by_draws, actions=benchmark.ucb),
    ),
    _SELECTOR(
        name="select-sc",
        summary="given the true graph, actions by the LLM, told why it failed",
        run=partial(benchmark.select_by_asking, actions=agents.self_reflection),
        roles=("choose", "analyse"),
    ),
    _SELECTOR(
        name="select-llm",
        summary="given the true graph, actions by the LLM, without memory",
        run=partial(benchmark.select_by_asking, actions=agents.no_memory),
        roles=("choose",),
    ),
    # Tables 3 and 14 to 21.
    _GOAL_PLANNER(
        name="plan-xenon",
        summary="one goal by XENON's step-by-step planning, on a simulated controller",
        run=partial(goal_planning.plan_and_act, actions=agents.fam, patience=PATIENCE),
        roles=("predict", "choose", "intervene"),
    ),
    _GOAL_PLANNER(
        name="plan-xenon-no-cre",
        summary="one goal by XENON without context-aware reprompting, on a simulated controller",
        run=partial(goal_planning.plan_and_act, actions=agents.fam, patience=None),
    ),
    _GOAL_PLANNER(
        name="plan-xenon-no-actions",
        summary="one goal by XENON without reprompting or correction, on a simulated controller",
        run=partial(
            goal_planning.plan_and_act,
            actions=goal_planning.successes_taken_over,
            patience=None,
        ),
    ),
    _GOAL_PLANNER(
        name="plan-oracle-actions",
        summary="OracleActionPlanner: one goal by the true rules, on a simulated controller",
        settings=ControllerSettings,
        run=goal_planning.plan_with_true_actions,
        roles=(),
    ),
    # Table 6.
    _COOK(
        name="xenon-cooking",
        summary="XENON in TextWorld Cooking: a tool for each direction of the cookbook, and FAM",
        settings=cooking.XenonCookingSettings,
        run=partial(
            cooking.cook_meals,
            planner="xenon-cooking",
            tools=cooking_agents.AnalogyTools,
            actions=FailureAware,
        ),
    ),
    _COOK(
        name="sc-cooking",
        summary="SC in TextWorld Cooking: tools and actions corrected by the LLM itself",
        run=partial(
            cooking.cook_meals,
            planner="sc-cooking",
            tools=cooking_agents.CorrectedTools,
            actions=cooking_agents.SelfCorrecting,
        ),
    ),
    _COOK(
        name="deckard-cooking",
        summary="DECKARD in TextWorld Cooking: nothing is corrected",
        run=partial(
            cooking.cook_meals,
            planner="deckard-cooking",
            tools=cooking_agents.PredictedTools,
            actions=SuccessOnly,
        ),
    ),
)
"""Everything of the paper that can be run by name."""
