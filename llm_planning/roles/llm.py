"""Roles: the typed questions that planners ask, and the language model that answers them.

A planner awaits `role(question)` and gets an answer of the role's type. It does not know who
answers: `LlmRole` asks a model with a template and an answer model; an `Oracle`, an environment's
own rules or a script in a test, any coroutine function of one question, can stand in its place.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from jinja2 import Environment, StrictUndefined, TemplateError, UndefinedError, nodes
from pydantic import BaseModel

from llm_serving.answers import constraint_of, parse
from llm_serving.request import Message, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from jinja2 import Template

    from llm_serving.engine import Engine
    from llm_serving.request import Sampling

T = TypeVar("T")
QuestionT = TypeVar("QuestionT")
QuestionT_contra = TypeVar("QuestionT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
ModelT = TypeVar("ModelT", bound=BaseModel)

_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)


class Role(Protocol[QuestionT_contra, AnswerT_co]):
    """A coroutine function from a question to a typed answer."""

    async def __call__(self, question: QuestionT_contra, /) -> AnswerT_co:
        """Asks.

        Args:
            question: all that the answer depends on.

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


def told(question: object) -> dict[str, object]:
    """Returns the fields of a question by name, as a template takes them.

    Raises:
        TypeError: the question is no dataclass.
    """
    if not is_dataclass(question):
        raise TypeError(
            f"{type(question).__name__} is no dataclass: give the role a `tell` that says what "
            "its template is given"
        )
    return {field.name: getattr(question, field.name) for field in fields(question)}


class LlmRole(Generic[QuestionT, ModelT]):
    """A role that a language model answers.

    Args:
        name: whose usage is counted.
        prompt: what the model reads.
        answer: the model of the answer; its language must be finite.
        engine: who answers.
        sampling: how the answer is drawn, or how that follows from the question.
        tell: the values that the prompt is given of a question; its fields by default.

    Raises:
        AnswerModelError: the answer model's language is not finite.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: Prompt,
        answer: type[ModelT],
        engine: Engine,
        sampling: Sampling | Callable[[QuestionT], Sampling],
        tell: Callable[[QuestionT], Mapping[str, object]] = told,
    ) -> None:
        self.name = name
        self._prompt = prompt
        self._answer = answer
        self._constraint = constraint_of(answer)
        self._engine = engine
        self._sampling = sampling
        self._tell = tell

    async def __call__(self, question: QuestionT, /) -> ModelT:
        """Asks the model and parses its answer."""
        sampling = self._sampling
        completion = await self._engine.generate(
            Request(
                prompt=self._prompt.messages(self._tell(question)),
                sampling=sampling(question) if callable(sampling) else sampling,
                constraint=self._constraint,
                role=self.name,
            )
        )
        return parse(self._answer, completion.text)

    def read(self, by: Callable[[QuestionT, ModelT], AnswerT]) -> Role[QuestionT, AnswerT]:
        """Returns the same role with its answers turned into values of the domain.

        Args:
            by: maps a question and its answer to the value.
        """

        async def ask(question: QuestionT, /) -> AnswerT:
            return by(question, await self(question))

        return ask


class ScoringRole(Generic[QuestionT]):
    """A role that maps choices to the log-probabilities, in nats, that a model gives them.

    Args:
        name: whose usage is counted.
        prompt: what the model reads.
        choices: what is scored, each once.
        engine: who answers.
        tell: the values that the prompt is given of a question; its fields by default.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: Prompt,
        choices: Callable[[QuestionT], Sequence[str]],
        engine: Engine,
        tell: Callable[[QuestionT], Mapping[str, object]] = told,
    ) -> None:
        self.name = name
        self._prompt = prompt
        self._choices = choices
        self._engine = engine
        self._tell = tell

    async def __call__(self, question: QuestionT, /) -> Mapping[str, float]:
        """Scores the choices."""
        choices = self._choices(question)
        messages = self._prompt.messages(self._tell(question))
        scores = await self._engine.score(messages, choices, role=self.name)
        return dict(zip(choices, scores.logprobs, strict=True))


async def gather(questions: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Asks questions at once, so that they meet in one batch.

    Args:
        questions: coroutines, any number of them.

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
