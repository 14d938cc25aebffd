"""Settings of LLM-MCTS, of the policy alone, and of LLM-MCTS+.

Defaults are the paper's where it states them (Algorithm 1, Section 2, Appendix E), and those of the
authors' published code where it does not.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from llm_planning.planners.llm_mcts import cosine, interpretation, positions
from llm_planning.planners.llm_mcts.cosine import PolicyKind  # noqa: TC001 (a setting's type)
from llm_planning.planners.llm_mcts.examples import EXAMPLES
from llm_planning.planners.llm_mcts.positions import StatePrior  # noqa: TC001 (a setting's type)
from llm_planning.priors import ASKED, BY_MODEL, ROLE, WAY_OF_ASKING
from llm_planning.roles import RoleSettings, by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import EpisodeSettings, ReadWhen, when

ROLES = (interpretation.ROLE, positions.ROLE, ROLE)
"""The roles that one of these planners asks."""


class HomeSettings(RoleSettings, EpisodeSettings):
    """What all planners of a home have in common.

    Attributes:
        interpretation: who says what the goal is: the world (`given`), as in the authors' code, or
            the role `goal` (`asked`), which reads the instruction (Listing 3).
        prior: how a model is asked for π(a|h); `cosine` is the paper's way, `cosine-each` that of
            the authors' code, and `uniform` asks nobody, not even rules.
        prior_temperature: of the softmax that makes π; by default that of `prior`.
        prior_mixture: λ of π ← (1 - λ) π + λ / |A|.
        policy_samples: M, answers of `cosine`, `cosine-each` and `sample`.
        cosine_scale: multiplies the similarities; by default 1 for `cosine` and 100 for
            `cosine-each`.
        examples: K, trajectories of similar instructions in the prompt of the policy.
        see: what the policy is shown of what the agent sees: its `words`, its `picture`, or `both`.
            The model must read images.
    """

    known_roles = ROLES
    added = ("see",)
    read_when: ClassVar[ReadWhen] = {
        "prior": [WAY_OF_ASKING],
        "prior_temperature": [ASKED],
        "prior_mixture": [ASKED],
        "policy_samples": [when("prior", "cosine", "cosine-each", "sample"), BY_MODEL],
        "cosine_scale": [when("prior", "cosine", "cosine-each"), BY_MODEL],
        "examples": [ASKED, BY_MODEL],
        "see": [ASKED, BY_MODEL],
    }

    interpretation: Literal["given", "asked"] = "given"
    prior: PolicyKind = "exact"
    prior_temperature: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    prior_mixture: float = Field(cosine.MIXTURE, ge=0.0, le=1.0)
    policy_samples: int = Field(cosine.SAMPLES, ge=1)
    cosine_scale: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    examples: int = Field(EXAMPLES, ge=0, le=10)
    see: See = "words"


class PolicySettings(HomeSettings):
    """Settings of the policy alone.

    Attributes:
        choice: `sample` draws one action from π, as the authors' baseline does, `majority` takes
            the most frequent of several draws, and `argmax` the likeliest action.
        votes: draws of `majority`.
        prior_mixture: as above; by default π is not mixed.
    """

    read_when: ClassVar[ReadWhen] = {"votes": [when("choice", "majority")]}

    choice: Literal["sample", "majority", "argmax"] = "sample"
    votes: int = Field(5, ge=1)
    prior_mixture: float = Field(0.0, ge=0.0, le=1.0)


class SearchSettings(HomeSettings):
    """What both searches have in common.

    Attributes:
        state_prior: the belief about things of the goal before anything is seen: `samples` of the
            role `position` (C.2), their `exact` probabilities, or `uniform`.
        position_samples: M, answers of `samples` for each thing.
        position_temperature: of these answers.
        simulations: N.
        c: exploration weight.
        gamma: discount factor γ.
        goal_reward: R at the goal.
        width: simulations in flight at once; 1 is the sequential algorithm.
    """

    read_when: ClassVar[ReadWhen] = {
        "position_samples": [when("state_prior", "samples")],
        "position_temperature": [when("state_prior", "samples"), by_model(positions.ROLE)],
    }

    state_prior: StatePrior = "samples"
    position_samples: int = Field(positions.SAMPLES, ge=1)
    position_temperature: float = Field(positions.TEMPERATURE, ge=0.0, allow_inf_nan=False)
    simulations: int = Field(100, ge=1)
    c: float = Field(24.0, ge=0.0, allow_inf_nan=False)
    gamma: float = Field(0.95, gt=0.0, le=1.0)
    goal_reward: float = Field(10.0, gt=0.0, allow_inf_nan=False)
    width: int = Field(1, ge=1)


class LlmMctsSettings(SearchSettings):
    """Settings of LLM-MCTS. The last five choose between the paper and the authors' code.

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
