"""Settings of XENON's planners; the defaults are the paper's (Sections 5.4, 5.6, Table 7)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from llm_planning.planners.xenon.beliefs import TABLE_12
from llm_planning.roles import Errors, Profile, RoleSettings, by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import ReadWhen, Settings, when

if TYPE_CHECKING:
    from collections.abc import Sequence

ROLES = (
    *("predict", "correct", "choose", "analyse", "rank"),
    *("caption", "intervene"),
    *("tool", "action"),
)
"""The roles that one of XENON's planners asks; the last two in the kitchen."""

RIGHT_ACTION = 0.85
"""Probability that an oracle's first answer about an action is right.

Table 12 has no such row. The number is fitted to the column (0,0) of Table 5: with 0.85 the row
(○, ×), which tries an action again only after it worked, ends where the paper's does.
"""

Names: TypeAlias = Literal["goals", "all"]


EXAMPLES: Final = (by_model("predict", "choose", "correct"),)
"""When similar items are read as examples (`Settings.read_when`): rules answer without any."""


class MinecraftSettings(RoleSettings):
    """Settings of a planner that asks about Minecraft.

    Attributes:
        roles: who answers: `llm`, the domain's `rules`, an oracle that errs at the rates of
            `table12`, or a YAML file that says it role by role. In a long-horizon run the oracle
            always sees that a controller is stuck.
        right_action: with roles=table12, the probability that the first answer about an action is
            right; the default is fitted to Table 5 (`RIGHT_ACTION`).
    """

    known_roles = ROLES
    profile = Profile(
        "table12",
        Errors(rate=TABLE_12.right_items, kind="sticky"),
        description="the errors of Table 12",
    )
    read_when: ClassVar[ReadWhen] = {"right_action": [when("roles", "table12")]}

    right_action: float = Field(RIGHT_ACTION, ge=0.0, le=1.0)


class LearningSettings(MinecraftSettings):
    """Settings of every agent that learns dependencies and actions.

    Attributes:
        steps: horizon of an episode, in environment steps. With a controller it must be given; the
            paper has 36,000 (J.2.4).
        episodes: number of episodes, each from an empty inventory; the paper has 400 with a
            controller.
        plans: number of human-written plans to begin with, 0 to 3 (Appendix K.11).
        change_at: step at which the world's perturbed rules take effect and the agent is told which
            items they concern; 0: they hold from the beginning (Appendix K.6).
        initial: the first Ĝ: `predicted`, or the unperturbed `truth`. With the truth,
            the agent tries the least attempted items that it has not obtained (Appendix K.8).
        names: names that the agent is told: its `goals`, or `all` items of the world.
        controller: how actions are carried out: `text` without chance, the others by a simulated
            controller.
        x0: x_0, failures beyond successes that make an action invalid.
        c0: c_0, the C(v) above which an item is inadmissible; C(v) begins at 1.
        alpha_s: α_s, scale of the quantities that less-tried items require.
        alpha_i: α_i, quantity of each resource that an inadmissible item requires.
        k: K, number of similar items to learn from (key `K`).
        most: most items whose requirements are asked for, a bound on hallucination.
        save: file to which the learned graph and action memory are written after each episode, for
            `graph` of another run; empty: they are not saved.
    """

    read_when: ClassVar[ReadWhen] = {"most": [when("initial", "predicted")]}

    steps: int = Field(3000, ge=1)
    episodes: int = Field(1, ge=1)
    plans: int = Field(3, ge=0, le=3)
    change_at: int = Field(0, ge=0)
    initial: Literal["predicted", "truth"] = "predicted"
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
    """Settings of XENON+ and its ablation; by default the agent is told all names of the world."""

    names: Names = "all"


TRUTH = "truth"
FIRST = "initial"
"""Values of `PlanningSettings.graph` that do not name a file."""


class ControllerSettings(Settings):
    """Settings of OracleActionPlanner for a given goal.

    Attributes:
        controller: the simulated controller that carries subgoals out, and its world.
    """

    controller: Literal["minerl", "minerl-standard", "mineflayer"] = "minerl"


class PlanningSettings(MinecraftSettings, ControllerSettings):
    """Settings of XENON and its ablations for a given goal.

    Attributes:
        graph: the graph to plan with: `truth` (XENON*), `initial` (before anything is learnt), or
            the file of a learning run, whose action memory is taken over with it.
        x0: x_0, failures beyond successes that make an action invalid.
        k: K, number of similar items that serve as examples (key `K`).
        most: with graph=initial, most items whose requirements are asked for.
    """

    read_when: ClassVar[ReadWhen] = {
        "K": EXAMPLES,
        "most": [when("graph", FIRST)],
    }

    graph: str = Field(TRUTH, min_length=1)
    x0: int = Field(2, ge=1)
    k: int = Field(3, ge=1, validation_alias="K")
    most: int = Field(300, ge=1)


class RepromptingSettings(PlanningSettings):
    """Settings of XENON for a given goal, with context-aware reprompting (CRe).

    Attributes:
        see: what CRe looks at: the `words` in which the controller's world describes itself, its
            `picture`, which the role `caption` describes (Figure 17), or `both`.
    """

    read_when: ClassVar[ReadWhen] = {"see": [by_model("caption"), by_model("intervene")]}

    see: See = "words"

    def models_roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Those that are asked: nobody describes a picture where words are shown."""
        return tuple(role for role in roles if role != "caption" or self.see != "words")


class SelectionSettings(Settings):
    """Settings of every planner that chooses actions with the true graph (Figure 25).

    Attributes:
        steps: horizon, in environment steps.
    """

    steps: int = Field(300, ge=1)


class UcbSettings(SelectionSettings):
    """Settings of UCB (Figure 25).

    Attributes:
        c: exploration weight.
    """

    c: float = Field(math.sqrt(2), ge=0.0, allow_inf_nan=False)


class MemorySettings(SelectionSettings):
    """Settings of Random+FAM (Figure 25).

    Attributes:
        x0: x_0, failures beyond successes that make an action invalid.
    """

    x0: int = Field(2, ge=1)


class AskingSettings(MinecraftSettings, MemorySettings):
    """Settings of the planners that ask a model for actions (Figure 25).

    Attributes:
        k: K, number of similar items that serve as examples (key `K`).
    """

    read_when: ClassVar[ReadWhen] = {"K": EXAMPLES}

    k: int = Field(3, ge=1, validation_alias="K")


class CookingSettings(RoleSettings):
    """Settings of a run of cooking episodes.

    Attributes:
        roles: who predicts tools and executable actions: `llm`, the cookbook's `rules`, the same
            rules with 40 % of the answers wrong (`sticky-40`), or a YAML file that says it role by
            role.
        episodes: number of episodes; the paper's runs have 100.
        max_steps: timesteps of an episode; the paper's have 50.
        k: K, number of similar cookbook actions that serve as examples (key `K`).
        save: file to which the run is written after each episode, and from which a stopped run goes
            on exactly; empty: it is not saved.
    """

    known_roles = ROLES
    profile = Profile("sticky-40", Errors(rate=0.6, kind="sticky"), description="40 % errors")

    episodes: int = Field(100, ge=1)
    max_steps: int = Field(50, ge=1)
    k: int = Field(3, ge=0, validation_alias="K")
    save: str = ""


class XenonCookingSettings(CookingSettings):
    """Settings of XENON's cooking runs.

    Attributes:
        x0: x_0, failures beyond successes that make an action invalid.
    """

    x0: int = Field(2, ge=1)
