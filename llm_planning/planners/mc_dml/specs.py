"""MC-DML, its ablations and its baselines, each a composition of the same parts (Table 3).

                        π          H                   ℳ_i      ℳ_c    selection
    mc-dml              LLM        d_min, ..., d_max   1 turn   k      eq. 3
    mc-dml-no-dp        LLM        depth               1 turn   k      eq. 3
    mc-dml-no-mc-dp     LLM        depth               1 turn   none   eq. 3
    mc-dml-no-mc-mi-dp  LLM        depth               none     none   eq. 3
    mc-dml-puct         uniform    d_min, ..., d_max   none     none   eq. 2
    mc-dml-uct          none       d_min, ..., d_max   none     none   eq. 1

The baselines search as deep as MC-DML does, so that they differ in their policy alone. An agent
without settings for the prior has a uniform π, and one without settings for reflections has no ℳ_c.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from llm_planning.planners.mc_dml.baselines import llm_agent, reflection_agent
from llm_planning.planners.mc_dml.exercises import game_exercises
from llm_planning.planners.mc_dml.playing import mc_dml
from llm_planning.planners.mc_dml.settings import (
    FixedDepthSettings,
    LlmAgentSettings,
    McDmlSettings,
    PrunedSettings,
    ReflectionAgentSettings,
    ReflectiveFixedSettings,
)
from llm_planning.planners.mc_dml.walkthrough import play_walkthrough
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.settings import NoSettings
from llm_planning.specs import PlannerSpec


class HasWalkthrough(Protocol):
    """Knows how its games are won."""

    walkthrough: tuple[str, ...]


_Spec = partial(PlannerSpec, paper="MC-DML", home="textgame")

SPECS: Final[tuple[PlannerSpec, ...]] = (
    _Spec(
        name="mc-dml",
        summary="MC-DML: tree search with an LLM policy that remembers and reflects",
        settings=McDmlSettings,
        run=partial(mc_dml, past=1, select=select_by_puct),
        roles=("prior", "reflection"),
        exercises=game_exercises,
        free_text=("reflection",),
    ),
    _Spec(
        name="mc-dml-no-dp",
        summary="MC-DML without dynamic pruning: one search depth",
        settings=ReflectiveFixedSettings,
        run=partial(mc_dml, past=1, select=select_by_puct),
        roles=("prior", "reflection"),
        exercises=game_exercises,
        free_text=("reflection",),
    ),
    _Spec(
        name="mc-dml-no-mc-dp",
        summary="MC-DML without dynamic pruning and cross-trial memory",
        settings=FixedDepthSettings,
        run=partial(mc_dml, past=1, select=select_by_puct),
        roles=("prior",),
        exercises=game_exercises,
    ),
    _Spec(
        name="mc-dml-no-mc-mi-dp",
        summary="MC-DML without dynamic pruning and without memory of any kind",
        settings=FixedDepthSettings,
        run=partial(mc_dml, past=0, select=select_by_puct),
        roles=("prior",),
        exercises=game_exercises,
    ),
    _Spec(
        name="mc-dml-puct",
        summary="PUCT with a uniform policy, as deep as MC-DML",
        settings=PrunedSettings,
        run=partial(mc_dml, past=0, select=select_by_puct),
    ),
    _Spec(
        name="mc-dml-uct",
        summary="UCT, as deep as MC-DML: tree search without a policy",
        settings=PrunedSettings,
        run=partial(mc_dml, past=0, select=select_by_uct),
    ),
    _Spec(
        name="llm-agent",
        summary="LLM agent: every move drawn from the LLM policy, no search",
        settings=LlmAgentSettings,
        run=llm_agent,
        roles=("prior",),
        exercises=game_exercises,
    ),
    _Spec(
        name="reflection-agent",
        summary="Reflection agent: rounds of the LLM agent, with a reflection after each",
        settings=ReflectionAgentSettings,
        run=reflection_agent,
        roles=("prior", "reflection"),
        exercises=game_exercises,
        free_text=("reflection",),
    ),
    _Spec(
        name="walkthrough",
        summary="a text game's own walkthrough, replayed for its statistics",
        settings=NoSettings,
        run=play_walkthrough,
        needs=(HasWalkthrough,),
    ),
)
