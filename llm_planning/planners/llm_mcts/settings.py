"""Settings of LLM-MCTS, of the policy alone, and of LLM-MCTS+.

Defaults are the paper's where it states them (Algorithm 1, Section 2, Appendix E), but for `prior`
and `interpretation`, and those of the authors' published code where it does not.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from llm_planning.planners.llm_mcts import interpretation, positions
from llm_planning.planners.llm_mcts.positions import StatePrior  # noqa: TC001 (a setting's type)
from llm_planning.planners.llm_mcts.prior import EXAMPLES, MIXTURE, SAMPLES, PolicyKind
from llm_planning.priors import ASKED, BY_MODEL, ROLE, WAY_OF_ASKING
from llm_planning.roles import RoleSettings, by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import HOTTEST, EpisodeSettings, ReadWhen, When, when
from llm_serving.request import Sampling

ROLES = (interpretation.ROLE, positions.ROLE, ROLE)
"""The roles that one of these planners asks."""

FREE_WORDS = ("cosine", "cosine-each", "nearest")
"""Ways of asking for π that draw answers in free words."""

DRAWS = ("top_p", "presence_penalty", "frequency_penalty")
"""Settings of how answers in free words are drawn."""

SIMULATIONS = 100
"""N of a decision (Appendix E)."""


class HomeSettings(RoleSettings, EpisodeSettings):
    """What all planners of a home have in common.

    Attributes:
        interpretation: who says what the goal is: the world (`given`), or the role `goal`
            (`asked`), which reads the instruction (Listing 3), as in the authors' code.
        prior: how a model is asked for π(a|h); `cosine` is the paper's way, `cosine-each` that of
            the authors' code in the search, `nearest` that of its baseline without search, and
            `uniform` asks nobody, not even rules.
        prior_temperature: of the softmax that makes π; by default that of `prior`.
        prior_mixture: λ of π ← (1 - λ) π + λ / |A|.
        policy_samples: M, answers of `cosine`, `cosine-each`, `nearest` and `sample`.
        cosine_scale: multiplies the similarities; by default 1 for `cosine` and 100 for
            `cosine-each`.
        top_p: nucleus of answers in free words, of the policy and of `samples` of positions; the
            authors' code has 0.9.
        presence_penalty: of these answers; the authors' code has 0.5.
        frequency_penalty: of these answers; the authors' code has 0.3.
        examples: K, trajectories of similar instructions in the prompt of the policy.
        see: what the policy is shown of what the agent sees: its `words`, its `picture`, or `both`.
            The model must read images.
    """

    known_roles = ROLES
    read_when: ClassVar[ReadWhen] = {
        "prior": [WAY_OF_ASKING],
        "prior_temperature": [ASKED],
        "prior_mixture": [ASKED],
        "policy_samples": [when("prior", *FREE_WORDS, "sample"), BY_MODEL],
        "cosine_scale": [when("prior", "cosine", "cosine-each"), BY_MODEL],
        "examples": [ASKED, BY_MODEL],
        "see": [ASKED, BY_MODEL],
    }

    interpretation: Literal["given", "asked"] = "given"
    prior: PolicyKind = "exact"
    prior_temperature: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    prior_mixture: float = Field(MIXTURE, ge=0.0, le=1.0)
    policy_samples: int = Field(SAMPLES, ge=1)
    cosine_scale: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    presence_penalty: float = Field(0.0, ge=-2.0, le=2.0)
    frequency_penalty: float = Field(0.0, ge=-2.0, le=2.0)
    examples: int = Field(EXAMPLES, ge=0, le=10)
    see: See = "words"

    def sampling(self, temperature: float) -> Sampling:
        """How answers in free words are drawn, but for the seed."""
        return Sampling(
            temperature=temperature,
            top_p=self.top_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
        )


class PolicySettings(HomeSettings):
    """Settings of the policy alone.

    Attributes:
        choice: `sample` draws one action from π, `majority` takes the most frequent of several
            draws, and `argmax` the likeliest action. The authors' baseline is `sample` with
            `prior=nearest`.
        votes: draws of `majority`.
        prior_mixture: as above; by default π is not mixed.
    """

    read_when: ClassVar[ReadWhen] = {
        "votes": [when("choice", "majority")],
        **dict.fromkeys(DRAWS, (when("prior", *FREE_WORDS), BY_MODEL)),
    }

    choice: Literal["sample", "majority", "argmax"] = "sample"
    votes: int = Field(5, ge=1)
    prior_mixture: float = Field(0.0, ge=0.0, le=1.0)


def _draws_words(settings: SearchSettings) -> bool:
    beliefs = settings.state_prior == "samples" and by_model(positions.ROLE).holds(settings)
    return beliefs or (settings.prior in FREE_WORDS and BY_MODEL.holds(settings))


class SearchSettings(HomeSettings):
    """What both searches have in common.

    Attributes:
        state_prior: the belief about things of the goal before anything is seen: `samples` of the
            role `position` (C.2), their `exact` probabilities, or `uniform`.
        position_samples: M, answers of `samples` for each thing.
        position_temperature: of these answers.
        simulations: N.
        seconds: of a decision, in the place of `simulations`: none begins later. The first is
            always run.
        c: exploration weight.
        gamma: discount factor γ.
        goal_reward: R at the goal.
        width: simulations in flight at once; 1 is the sequential algorithm.
    """

    read_when: ClassVar[ReadWhen] = {
        "position_samples": [when("state_prior", "samples")],
        "position_temperature": [when("state_prior", "samples"), by_model(positions.ROLE)],
        **dict.fromkeys(DRAWS, (When("prior", "who draws answers in free words", _draws_words),)),
    }

    state_prior: StatePrior = "samples"
    position_samples: int = Field(positions.SAMPLES, ge=1)
    position_temperature: float = Field(positions.TEMPERATURE, ge=0.0, le=HOTTEST)
    simulations: int = Field(SIMULATIONS, ge=1)
    seconds: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    c: float = Field(24.0, ge=0.0, allow_inf_nan=False)
    gamma: float = Field(0.95, gt=0.0, le=1.0)
    goal_reward: float = Field(10.0, gt=0.0, allow_inf_nan=False)
    width: int = Field(1, ge=1)

    @property
    def most_simulations(self) -> int | None:
        """The most simulations of a decision; None where the clock ends it."""
        return self.simulations if self.seconds is None else None

    @field_validator("seconds")
    @classmethod
    def _one_bound(cls, seconds: float | None, others: ValidationInfo) -> float | None:
        simulations = others.data.get("simulations", SIMULATIONS)
        if seconds is not None and simulations != SIMULATIONS:
            raise ValueError(f"simulations={simulations} bounds the same search: leave one out")
        return seconds


class LlmMctsSettings(SearchSettings):
    """Settings of LLM-MCTS. From `states` on, they choose between the paper and the authors' code.

    Attributes:
        selection: `puct`, or `uct`, the ablation without a policy, which asks nobody for π.
        depth: actions from the root after which a simulation ends.
        rollouts: of each leaf; their mean is its value. The paper rolls out once.
        states: a state is drawn for each `simulation` (Algorithm 1, line 4), or one for each
            `decision`, as in the authors' code.
        histories: nodes are told apart by `observations` (Algorithm 1, line 31), or by `actions`
            alone, as in the authors' code.
        values: Q is the `mean` return (Algorithm 1, line 34), or the `softmax`-weighted one of the
            authors' code.
        value_temperature: of that softmax.
        ask: π is asked for at a node's `second` visit (Algorithm 1, lines 23 to 28), or when it is
            made (`first`), as in the authors' code.
        ties: of actions with the same Q one is drawn by π (`draw`), or the likeliest is taken
            (`prior`), as in the authors' code, which may walk in circles.
    """

    read_when: ClassVar[ReadWhen] = {
        # The ablation without a policy asks nobody for one.
        **dict.fromkeys(HomeSettings.read_when, (when("selection", "puct"),)),
        "value_temperature": [when("values", "softmax")],
    }

    selection: Literal["puct", "uct"] = "puct"
    depth: int = Field(20, ge=1)
    rollouts: int = Field(1, ge=1)
    states: Literal["simulation", "decision"] = "simulation"
    histories: Literal["observations", "actions"] = "observations"
    values: Literal["mean", "softmax"] = "mean"
    value_temperature: float = Field(10.0, gt=0.0, allow_inf_nan=False)
    ask: Literal["second", "first"] = "second"
    ties: Literal["draw", "prior"] = "draw"


class LlmMctsPlusSettings(SearchSettings):
    """Settings of LLM-MCTS+.

    Attributes:
        c: as above; smaller, because Q is a regret.
    """

    state_prior: StatePrior = "exact"
    c: float = Field(0.5, ge=0.0, allow_inf_nan=False)
