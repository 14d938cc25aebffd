"""Settings of the planners in Minecraft; defaults are the paper's (Sections 5.4, 5.6, Table 7)."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from llm_planning.environments.minecraft.perturbation import Pool  # noqa: TC001 (pydantic)
from llm_planning.environments.minecraft.text_world import action_set
from llm_planning.settings import Settings

Prior: TypeAlias = Literal["model", "table12"]
Names: TypeAlias = Literal["goals", "all"]
ActionSetSize: TypeAlias = Annotated[int, AfterValidator(lambda size: len(action_set(size)))]


class LearningSettings(Settings):
    """Settings of every agent that learns dependencies and actions.

    Attributes:
        requirements: perturbation level r of the required items, 0 to 3 (Table 4).
        actions: perturbation level a of the actions.
        pool: from which perturbed requirements are drawn, `resources` or all that is `required`.
        steps: horizon of an episode, in environment steps; 36,000 with a controller (J.2.4).
        episodes: each begins with an empty inventory; 400 with a controller.
        verbs: size of the action set 𝒜 (Appendix K.9).
        plans: human-written plans to begin with, 0 to 3 (Appendix K.11).
        change_at: step at which the rules change to the perturbed ones and the agent is told of
            which items; 0: they are so from the beginning (Appendix K.6).
        initial: where Ĝ begins: `predicted` by the prior, or the unperturbed `truth`, whereupon the
            agent tries the least attempted items that it has not yet obtained (Appendix K.8).
        prior: who answers: the `model`, or an oracle that errs at the rates of `table12`.
        names: names that the agent is told: its `goals`, or `all` items of the world.
        controller: how well actions are carried out: `text` always; else a simulated controller.
        x0: x_0, failures beyond successes that make an action invalid.
        c0: c_0, revisions beyond which an item is inadmissible.
        alpha_s: α_s, quantity scale for less-tried items.
        alpha_i: α_i, quantity for inadmissible items.
        k: K, similar items to learn from (key `K`).
        most: items whose requirements the prior is asked for: a bound on hallucination.
        save: file to which the learned knowledge goes after each episode, and from which a run that
            was stopped goes on; nowhere if empty.
    """

    requirements: int = Field(0, ge=0, le=3)
    actions: int = Field(0, ge=0, le=3)
    pool: Pool = "resources"
    steps: int = Field(3000, ge=1)
    episodes: int = Field(1, ge=1)
    verbs: ActionSetSize = 3
    plans: int = Field(3, ge=0, le=3)
    change_at: int = Field(0, ge=0)
    initial: Literal["predicted", "truth"] = "predicted"
    prior: Prior = "model"
    names: Names = "goals"
    controller: Literal["text", "minerl", "mineflayer"] = "text"
    x0: int = Field(2, ge=1)
    c0: int = Field(3, ge=1)
    alpha_s: int = Field(2, ge=1)
    alpha_i: int = Field(8, ge=1)
    k: int = Field(3, ge=1, validation_alias="K")
    most: int = Field(300, ge=1)
    save: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> LearningSettings:
        if self.change_at >= self.steps:
            raise ValueError(f"change_at={self.change_at} is not below steps={self.steps}")
        if self.change_at and self.controller != "text":
            raise ValueError("change_at needs controller=text")
        if self.episodes > 1 and (self.change_at or self.initial == "truth"):
            raise ValueError("change_at and initial=truth need episodes=1")
        if self.controller != "text" and "steps" not in self.model_fields_set:
            raise ValueError(
                f"controller={self.controller} needs steps; the paper's episodes have steps=36000"
            )
        return self


class InformedSettings(LearningSettings):
    """The same for agents that are told all names of the world (XENON+)."""

    names: Names = "all"


TRUTH = "truth"
FIRST = "initial"
"""Graphs to plan with that are no files."""


class ControllerSettings(Settings):
    """Settings of every plan for a given goal on a controller.

    Attributes:
        controller: who carries subgoals out, and in which world.
    """

    controller: Literal["minerl", "minerl-standard", "mineflayer"] = "minerl"


class PlanningSettings(ControllerSettings):
    """The same for XENON and its ablations.

    Attributes:
        graph: what to plan with: `truth` (XENON*), `initial` (nothing was learnt yet), or the file
            that a learning run saved, whose action memory is taken over with it.
        prior: who is asked: the `model`, or an oracle that errs at the rates of `table12` and
            always sees that a controller is stuck.
        x0: x_0, failures beyond successes that make an action invalid.
        k: K, similar items that serve as examples (key `K`).
        most: items whose requirements are asked for with graph=initial.
    """

    graph: str = Field(TRUTH, min_length=1)
    prior: Prior = "model"
    x0: int = Field(2, ge=1)
    k: int = Field(3, ge=1, validation_alias="K")
    most: int = Field(300, ge=1)


class SelectionSettings(Settings):
    """Settings of every choice of actions with the true graph (Figure 25).

    Attributes:
        verbs: size of the action set 𝒜.
        steps: horizon, in environment steps.
    """

    verbs: ActionSetSize = 3
    steps: int = Field(300, ge=1)


class UcbSettings(SelectionSettings):
    """Settings of UCB.

    Attributes:
        c: exploration weight.
    """

    c: float = Field(math.sqrt(2), ge=0.0, allow_inf_nan=False)


class MemorySettings(SelectionSettings):
    """Settings of a run with FAM.

    Attributes:
        x0: x_0, failures beyond successes that make an action invalid.
    """

    x0: int = Field(2, ge=1)


class AskingSettings(MemorySettings):
    """Settings of a run that asks.

    Attributes:
        k: K, similar items that serve as examples (key `K`).
        prior: who answers: the `model`, or an oracle that errs at the rates of `table12`.
    """

    k: int = Field(3, ge=1, validation_alias="K")
    prior: Prior = "model"
