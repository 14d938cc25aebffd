"""Roles: the typed questions that planners ask, and the language model that answers them.

A planner awaits `role(goal=..., state=..., ...)` and gets an answer of the role's type. It does not
know who answers: `LlmRole` asks a model with a template and an answer model; anything else with the
same signature (an environment's own rules, a script in a test) can stand in its place.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from jinja2 import Environment, StrictUndefined, TemplateError, UndefinedError, nodes
from pydantic import BaseModel

from llm_serving.answers import constraint_of, parse
from llm_serving.request import Message, Request

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from jinja2 import Template

    from llm_serving.engine import Engine
    from llm_serving.request import Sampling

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=BaseModel)
AnswerT_co = TypeVar("AnswerT_co", covariant=True)

_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engines:
    """Who answers a planner's questions; the same engine may answer all of them.

    Attributes:
        options: the option generation model (proposals, feasibility, repair).
        world: the world model (dynamics, reward, termination).
    """

    options: Engine
    world: Engine

    @classmethod
    def both(cls, engine: Engine) -> Engines:
        """One engine for everything."""
        return cls(options=engine, world=engine)


class Role(Protocol[AnswerT_co]):
    """A question with a typed answer."""

    async def __call__(self, **given: object) -> AnswerT_co:
        """Asks.

        Args:
            **given: what the answer depends on, by name.

        Returns:
            The answer.
        """
        ...


class PromptError(Exception):
    """A template and what it is given do not fit together."""


class Prompt:
    """A chat prompt composed of named blocks.

    The texts are Jinja2 blocks; which of them are said, and in which order, is the caller's choice,
    so two layouts are two orders of the same texts. The system message depends on constants alone
    and is rendered once; the user message is compiled once.

    Args:
        sources: Jinja2 sources; a block of a later one replaces its namesake in an earlier one.
        system: blocks of the system message, in order.
        user: blocks of the user message, in order.
        constants: values known at construction.

    Raises:
        PromptError: a block is in none of the sources, a source is no valid template, or the
            system message needs a value that is no constant.
    """

    def __init__(
        self,
        sources: Iterable[str],
        *,
        system: Sequence[str],
        user: Sequence[str],
        constants: Mapping[str, object],
    ) -> None:
        try:
            blocks = {
                block.name: block.body
                for source in sources
                for block in _ENVIRONMENT.parse(source).find_all(nodes.Block)
            }
            self._system = Message("system", _compose(blocks, system, constants).render())
            self._user = _compose(blocks, user, constants)
        except TemplateError as error:
            raise PromptError(f"the template is not valid: {error}") from error

    def messages(self, given: Mapping[str, object]) -> tuple[Message, Message]:
        """The system and the user message.

        Args:
            given: the values that the user message needs beyond the constants.

        Raises:
            PromptError: a value is missing.
        """
        try:
            return self._system, Message("user", self._user.render(given))
        except UndefinedError as error:
            raise PromptError(
                f"the template needs a value that the question does not give: {error}"
            ) from error


def _compose(
    blocks: Mapping[str, list[nodes.Node]], order: Sequence[str], constants: Mapping[str, object]
) -> Template:
    """One template that says the blocks in this order, a blank line between them."""
    body: list[nodes.Node] = []
    for name in order:
        if name not in blocks:
            raise PromptError(f"no source has a block {name!r}; there are {', '.join(blocks)}")
        if body:
            body.append(nodes.Output([nodes.TemplateData("\n\n")]))
        body.extend(blocks[name])
    template = nodes.Template(body, lineno=1)
    template.set_environment(_ENVIRONMENT)
    return _ENVIRONMENT.from_string(template, globals=dict(constants))


class LlmRole(Generic[AnswerT]):
    """A role that a language model answers.

    Args:
        name: whose usage is counted.
        prompt: what the model reads.
        answer: the model of the answer; its language must be finite.
        engine: who answers.
        sampling: how the answer is drawn.

    Raises:
        AnswerModelError: the answer model's language is not finite.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: Prompt,
        answer: type[AnswerT],
        engine: Engine,
        sampling: Sampling,
    ) -> None:
        self.name = name
        self._prompt = prompt
        self._answer = answer
        self._constraint = constraint_of(answer)
        self._engine = engine
        self._sampling = sampling

    async def __call__(self, **given: object) -> AnswerT:
        """Asks the model and parses its answer."""
        completion = await self._engine.generate(
            Request(
                prompt=self._prompt.messages(given),
                sampling=self._sampling,
                constraint=self._constraint,
                role=self.name,
            )
        )
        return parse(self._answer, completion.text)


async def together(questions: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Awaits questions at the same moment, so that they meet in one batch.

    Args:
        questions: any number of them.

    Returns:
        The answers, in the order of the questions.

    Raises:
        Exception: the first error of a question, unchanged; the others are cancelled first.
    """
    tasks = [asyncio.ensure_future(question) for question in questions]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
