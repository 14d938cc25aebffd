"""Settings of the agents.

The defaults are the paper's (Section 4.1, Appendix B). It says nothing about `moves`, `depth`,
`width` and `history`. Some settings choose between the paper and the authors' published code
(github.com/winni18/MC-DML): `values`, `value_temperature`, `death_reward`, `stuck`, `prior_absent`
and `reflect_at`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from llm_planning.priors import (
    ABSENT,
    ASKED,
    BY_MODEL,
    ROLE,
    TEMPERATURE,
    WAY_OF_ASKING,
    PriorKind,
    PriorSettings,
)
from llm_planning.roles import RoleSettings, by_fallible
from llm_planning.search import by_sums, by_weighted_returns
from llm_planning.settings import EpisodeSettings, ReadWhen, Settings, When, when

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.planners.mc_dml.roles import Ending
    from llm_planning.search import Backup

EXPLORATION: Mapping[str, float] = {"deephome": 20.0, "library": 20.0, "detective": 200.0}
"""C of the games that do not have `USUAL_EXPLORATION` (Appendix B, after Jang et al., 2020)."""

USUAL_EXPLORATION = 50.0
"""C of the other games."""

DEATH = "*** you have died ***"
"""The answer to a deadly action in the stories of some compilers, in lower case."""

STUCK = ("wait", "yes", "no")
"""What the authors' code offers where no action is valid."""

ROLES = (ROLE, "reflection")
"""The roles that one of the agents asks."""


class GameSearchSettings(EpisodeSettings):
    """Settings of a tree search.

    Attributes:
        c: exploration constant (key `C`); by default the paper's value for the game.
        gamma: discount factor γ.
        simulations_per_action: simulations of a search are this many times |𝒜(s_0)|.
        width: simulations in flight at once; 1 is Algorithm 1, step for step.
        values: Q is the `mean` return (Algorithm 1, line 29), or the `softmax`-weighted one of the
            authors' code (mcts.py, `simulate`).
        value_temperature: of that softmax; the authors' is 10.
        death_reward: the search's reward of an action that the game answers by `DEATH`, in place of
            the game's; the authors' is -10 (mcts.py). None keeps the game's.
        stuck: where no action is valid, an episode and a simulation `stop`, or may `wait` and
            answer `yes` or `no`, as in the authors' code (env.py).
    """

    read_when: ClassVar[ReadWhen] = {"value_temperature": [when("values", "softmax")]}

    c: float | None = Field(None, ge=0.0, allow_inf_nan=False, validation_alias="C")
    gamma: float = Field(0.95, ge=0.0, le=1.0)
    simulations_per_action: int = Field(50, ge=1)
    width: int = Field(1, ge=1)
    values: Literal["mean", "softmax"] = "mean"
    value_temperature: float = Field(10.0, gt=0.0, allow_inf_nan=False)
    death_reward: float | None = Field(None, allow_inf_nan=False)
    stuck: Literal["stop", "wait"] = "stop"

    def exploration(self, game: str) -> float:
        """C of the game of this name; the task's name does not matter."""
        return EXPLORATION.get(game, USUAL_EXPLORATION) if self.c is None else self.c

    @property
    @abstractmethod
    def depths(self) -> tuple[int, ...]:
        """The planning horizons H, tried in order while the best Q of the root is 0."""

    @property
    def asking(self) -> LabelPriorSettings:
        """How π is asked for; uniform, unless the settings say more."""
        return LabelPriorSettings.read({"prior": "uniform"})

    @property
    def most_reflections(self) -> int:
        """The most reflections of a root; 0 without ℳ_c."""
        return 0

    def fails(self, ending: Ending | None) -> bool:
        """Whether an end is reflected on."""
        return ending == "failure"

    @property
    def if_stuck(self) -> tuple[str, ...]:
        """The actions where the game goes on and none is valid."""
        return STUCK if self.stuck == "wait" else ()

    def reward(self, r: float, text: str) -> float:
        """The search's reward of a step with the reward r, after which the world says `text`."""
        return r if self.death_reward is None or DEATH not in text.lower() else self.death_reward

    def backup(self) -> Backup[Any, Any]:
        """Updates Q along a simulation."""
        if self.values == "softmax":
            return by_weighted_returns(gamma=self.gamma, temperature=self.value_temperature)
        return by_sums(gamma=self.gamma)


class PrunedSettings(GameSearchSettings):
    """Settings of a search with dynamic pruning (DP): H grows while the search finds no value.

    Attributes:
        d_min: the first H.
        d_max: the largest H.
        delta_d: Δd, the growth of H.
    """

    read_when: ClassVar[ReadWhen] = {
        "delta_d": [
            When("d_max", "a d_max above d_min", lambda settings: settings.d_max > settings.d_min)
        ]
    }

    d_min: int = Field(10, ge=1)
    d_max: int = Field(30, ge=1)
    delta_d: int = Field(20, ge=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.d_max < self.d_min:
            msg = f"d_max is below d_min={self.d_min}: set d_max to at least that"
            raise ValueError(msg)
        return self

    @property
    def depths(self) -> tuple[int, ...]:
        """The horizons in order: d_min, then Δd more each time, and d_max at last."""
        return (*range(self.d_min, self.d_max, self.delta_d), self.d_max)


class LabelPriorSettings(PriorSettings):
    """Settings of π.

    Attributes:
        prior: by default the paper's way, a label for each action (Section 4.1). `exact` is how
            Section 3.1 defines π: the probabilities of an action's tokens.
        prior_temperature: of the softmax that makes π; by default the paper's 5 (Section 4.1)
            however a model is asked, and 1 for rules.
        prior_absent: log-probability of an action that the answer of `index`, `sample` or `verbal`
            does not contain, in nats: the paper's -10; -5 in the authors' code (llm.py).
    """

    read_when: ClassVar[ReadWhen] = {
        "prior_absent": [when("prior", "index", "sample", "verbal"), BY_MODEL]
    }

    prior: PriorKind = "index"
    prior_absent: float = Field(ABSENT, le=0.0, allow_inf_nan=False)

    @property
    def model_temperature(self) -> float:
        """The paper's for every way of asking."""
        return self.prior_temperature or TEMPERATURE["index"]

    @property
    def asking(self) -> LabelPriorSettings:
        """These settings."""
        return self


class FixedDepthSettings(LabelPriorSettings, GameSearchSettings):
    """Settings of MC-DML without ℳ_c and DP.

    Attributes:
        depth: H; 15 is the value in the authors' published code.
    """

    known_roles = ROLES

    depth: int = Field(15, ge=1)

    @property
    def depths(self) -> tuple[int, ...]:
        """The one horizon H."""
        return (self.depth,)


class ReflectionSettings(Settings):
    """Settings of an agent with cross-trial memory ℳ_c.

    Attributes:
        k: the most reflections of a root; of the Reflection agent, the most in a game.
    """

    k: int = Field(3, ge=1)


class CrossTrialSettings(ReflectionSettings):
    """Settings of a search with cross-trial memory ℳ_c.

    Attributes:
        reflect_at: a simulation is reflected on if it ends in `failure` (Algorithm 1, lines 10 and
            44), or at any `end`, victory included, as in the authors' code (mcts.py).
    """

    reflect_at: Literal["failure", "end"] = "failure"

    @property
    def most_reflections(self) -> int:
        """The most reflections of a root."""
        return self.k

    def fails(self, ending: Ending | None) -> bool:
        """Whether an end is reflected on."""
        return ending == "failure" if self.reflect_at == "failure" else ending is not None


class ReflectiveFixedSettings(CrossTrialSettings, FixedDepthSettings):
    """Settings of MC-DML without DP."""


class McDmlSettings(CrossTrialSettings, LabelPriorSettings, PrunedSettings):
    """Settings of MC-DML."""

    known_roles = ROLES


class LlmAgentSettings(RoleSettings, EpisodeSettings):
    """Settings of the LLM agent.

    Attributes:
        prior: how a model is asked for π(·|s); `uniform` asks nobody, not even rules.
        history: turns of the current trajectory before o_t in the prompt.
        temperature: of the draw: the probabilities are π to the power of its inverse.
    """

    known_roles = ROLES
    read_when: ClassVar[ReadWhen] = {
        "prior": [WAY_OF_ASKING],
        "history": [ASKED, by_fallible(ROLE)],
        "temperature": [ASKED],
    }

    prior: PriorKind = "index"
    history: int = Field(3, ge=0, le=20)
    temperature: float = Field(0.1, gt=0.0, allow_inf_nan=False)


class ReflectionAgentSettings(ReflectionSettings, LlmAgentSettings):
    """Settings of the Reflection agent; `k` reflections make k + 1 rounds."""
