"""Settings of the planners that work in every domain."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from llm_planning.priors import ASKED, BY_MODEL, ROLE, PriorSettings
from llm_planning.roles import by_model
from llm_planning.roles.seeing import See  # noqa: TC001 (a setting's type)
from llm_planning.settings import HOTTEST, EpisodeSettings, ReadWhen, When, when

THINK = "think"

ROLES = (THINK, ROLE)
"""The roles that one of these planners asks."""


class ActingSettings(PriorSettings, EpisodeSettings):
    """Settings of a model that acts without search.

    Attributes:
        prior_temperature: of the softmax that makes π; 1 keeps the model's own distribution.
        see: what is shown of what the agent sees now: its `words`, its `picture`, or `both`. The
            past is always told in words. The model must read images, and the domain draw its
            states.
    """

    known_roles = ROLES

    prior_temperature: float | None = Field(1.0, gt=0.0, allow_inf_nan=False)
    see: See = "words"


class PolicySettings(ActingSettings):
    """Settings of `llm-policy`.

    Attributes:
        choice: `argmax` takes the likeliest action, `sample` draws one from π, `majority` takes
            the most frequent of several answers of a model.
        samples: answers of `majority` and of `prior=sample`.
    """

    read_when: ClassVar[ReadWhen] = {
        "choice": [
            replace(
                BY_MODEL,
                holds=lambda settings: settings.choice != "majority" or BY_MODEL.holds(settings),
            )
        ],
        "prior": [when("choice", "argmax", "sample")],
        "samples": [
            BY_MODEL,
            When(
                "choice",
                "choice=majority or prior=sample",
                lambda settings: settings.choice == "majority" or settings.prior == "sample",
            ),
        ],
        "see": [ASKED, BY_MODEL],
    }

    choice: Literal["argmax", "sample", "majority"] = "argmax"
    samples: int = Field(10, ge=1)


class ReactSettings(ActingSettings):
    """Settings of ReAct.

    Attributes:
        temperature: of the thoughts; 0 is greedy.
    """

    read_when: ClassVar[ReadWhen] = {
        "temperature": [by_model(THINK)],
        "see": [by_model(THINK, ROLE)],
    }

    temperature: float = Field(0.0, ge=0.0, le=HOTTEST)


class UctSettings(EpisodeSettings):
    """Settings of a search.

    Attributes:
        simulations: run before every move, in addition to those that the kept tree already has.
        c: exploration weight, in units of the return.
        gamma: discount factor γ.
        depth: actions from the root after which a simulation ends. In a domain with a score, the
            score ends a simulation instead.
        width: simulations in flight at once; 1 is the sequential algorithm.
        against: whom a game is searched against: an opponent who moves as the domain plays him,
            which is `chance` to the search, or one who looks for the `best` move in the tree. Each
            of his moves is an action of the tree then, and counts for `depth` and γ.
    """

    simulations: int = Field(100, ge=1)
    c: float = Field(1.0, ge=0.0, allow_inf_nan=False)
    gamma: float = Field(0.95, ge=0.0, le=1.0)
    depth: int = Field(20, ge=1)
    width: int = Field(1, ge=1)
    against: Literal["chance", "best"] = "chance"


class PuctSettings(PriorSettings, UctSettings):
    """Settings of a search with a prior."""

    known_roles = ROLES
