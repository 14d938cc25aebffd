"""Context-aware reprompting: another task for a controller that got stuck (XENON, Appendix H).

Two questions instead of one: a vision model says what is to be seen, and a decision is made from
text alone. Whoever watches the controller asks them, and only after an interval in which the
subgoal's item was not obtained (here `SimulatedWorld` hands back after its `patience`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from llm_planning.planners.xenon.answers import Description, Intervention
from llm_planning.planners.xenon.prompts import compose
from llm_planning.roles import LlmRole, Role
from llm_serving.answers import constraint_of, parse
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine
    from llm_serving.request import Image

ObservationT = TypeVar("ObservationT")

_GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True, slots=True)
class StuckQuestion:
    """Is an intervention needed, and which? (Figure 17, second step).

    Attributes:
        caption: what is to be seen, in words; all that the decision is made from.
        task: the controller's present prompt.
        goal_item: what it is to obtain.
    """

    caption: str
    task: str
    goal_item: str


Decide: TypeAlias = Role[StuckQuestion, Intervention]


class Reprompter(Generic[ObservationT]):
    """Finds a temporary task for a controller.

    Args:
        caption: describes what the controller sees, in words (Figure 17, first step).
        decide: decides from the description.
    """

    def __init__(self, caption: Role[ObservationT, str], decide: Decide) -> None:
        self._caption = caption
        self._decide = decide

    async def consider(self, observation: ObservationT, *, task: str, goal_item: str) -> str | None:
        """Asks both questions.

        Args:
            observation: what the controller sees.
            task: its present prompt.
            goal_item: what it is to obtain.

        Returns:
            The task to do first; None if the present one is to go on, or if an intervention was
            called for without saying which.
        """
        caption = await self._caption(observation)
        decision = await self._decide(StuckQuestion(caption, task, goal_item))
        if not decision.need_intervention:
            return None
        return decision.task.strip() or None


class ImageCaption:
    """A vision model describes a picture.

    Args:
        engine: of a model that reads images.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._constraint = constraint_of(Description)

    async def __call__(self, observation: Image, /) -> str:
        """Asks the model.

        Raises:
            TooManyImagesError: the model's configuration allows no image.
        """
        system, user = compose("caption").messages({})
        completion = await self._engine.generate(
            Request(
                prompt=(system, replace(user, images=(observation,))),
                sampling=_GREEDY,
                constraint=self._constraint,
                role="caption",
            )
        )
        return parse(Description, completion.text).description


async def text_caption(observation: str, /) -> str:
    """The caption of a world without pictures: what it says about itself, on one line."""
    return " ".join(observation.split())


def decision(engines: Engines) -> Decide:
    """A language model decides."""
    return LlmRole(
        "intervene",
        prompt=compose("intervene"),
        answer=Intervention,
        engine=engines.of("intervene"),
        sampling=_GREEDY,
    )


def image_reprompter(engines: Engines) -> Reprompter[Image]:
    """CRe for a controller that sees pictures; a vision model captions them."""
    return Reprompter(ImageCaption(engines.of("caption")), decision(engines))


def text_reprompter(engines: Engines) -> Reprompter[str]:
    """CRe for a controller whose surroundings are told in words."""
    return Reprompter(text_caption, decision(engines))
