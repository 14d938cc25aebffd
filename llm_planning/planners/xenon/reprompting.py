"""Context-aware reprompting: another task for a controller that got stuck (XENON, Appendix H).

Two questions instead of one: a vision model says what is to be seen, and a decision is made from
text alone. Whoever watches the controller asks them, and only after an interval in which the
subgoal's item was not obtained (here `SimulatedWorld` hands back after its `patience`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llm_planning.planners.xenon.answers import Description, Intervention
from llm_planning.planners.xenon.prompts import compose
from llm_planning.roles import LlmRole
from llm_serving.answers import constraint_of, parse
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from llm_serving.engine import Engine
    from llm_serving.request import Image

ObservationT = TypeVar("ObservationT")
ObservationT_contra = TypeVar("ObservationT_contra", contravariant=True)

_GREEDY = Sampling(temperature=0.0)


class Caption(Protocol[ObservationT_contra]):
    """What is to be seen? (Figure 17, first step)."""

    async def __call__(self, observation: ObservationT_contra) -> str:
        """Describes an observation in words."""
        ...


class Decide(Protocol):
    """Is an intervention needed, and which? (Figure 17, second step)."""

    async def __call__(self, *, caption: str, task: str, goal_item: str) -> Intervention:
        """Decides from text alone.

        Args:
            caption: what is to be seen.
            task: the controller's present prompt.
            goal_item: what it is to obtain.
        """
        ...


class Reprompter(Generic[ObservationT]):
    """Finds a temporary task for a controller.

    Args:
        caption: describes what the controller sees.
        decide: decides from the description.
    """

    def __init__(self, caption: Caption[ObservationT], decide: Decide) -> None:
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
        decision = await self._decide(caption=caption, task=task, goal_item=goal_item)
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

    async def __call__(self, observation: Image) -> str:
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


async def text_caption(observation: str) -> str:
    """The caption of a world without pictures: what it says about itself, on one line."""
    return " ".join(observation.split())


class LlmDecision:
    """A language model decides.

    Args:
        engine: who answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._ask = LlmRole(
            "intervene",
            prompt=compose("intervene"),
            answer=Intervention,
            engine=engine,
            sampling=_GREEDY,
        )

    async def __call__(self, *, caption: str, task: str, goal_item: str) -> Intervention:
        """Asks the model."""
        return await self._ask(caption=caption, task=task, goal_item=goal_item)


def image_reprompter(engine: Engine) -> Reprompter[Image]:
    """CRe for a controller that sees pictures; one vision model answers both questions."""
    return Reprompter(ImageCaption(engine), LlmDecision(engine))


def text_reprompter(engine: Engine) -> Reprompter[str]:
    """CRe for a controller whose surroundings are told in words."""
    return Reprompter(text_caption, LlmDecision(engine))
