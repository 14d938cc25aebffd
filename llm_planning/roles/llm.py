"""Roles: the typed questions that planners ask, and the language model that answers them.

A planner awaits `role(question)` and gets an answer of the role's type, whoever answers. An
`LlmRole` asks a model, with a template and an answer model. An `Oracle` answers by rules. Any
coroutine function of one question is a role as well.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import fields, is_dataclass, replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pydantic import BaseModel

from llm_planning.own_code import unexiting
from llm_serving.answers import constraint_of, parse
from llm_serving.request import Message, Request, ScoreRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from types import CodeType

    from jinja2 import Environment, Template, nodes

    from llm_serving.engine import Engine
    from llm_serving.request import Image, Sampling
    from llm_serving.request import Prompt as Chat

T = TypeVar("T")
QuestionT = TypeVar("QuestionT")
QuestionT_contra = TypeVar("QuestionT_contra", contravariant=True)
AnswerT = TypeVar("AnswerT")
AnswerT_co = TypeVar("AnswerT_co", covariant=True)
ModelT = TypeVar("ModelT", bound=BaseModel)

TOLD: Final = "told"
"""The value of a prompt that names the lines of a text that no template composes."""

_BLOCK = re.compile(r"\{%-?\s*block\s+(\w+)\s*[-+]?%\}(.*?)\{%[-+]?\s*endblock", re.DOTALL)


@cache
def _environment() -> Environment:
    # Imported here, as rules answer without words.
    from jinja2 import Environment, StrictUndefined

    return Environment(undefined=StrictUndefined, trim_blocks=True, autoescape=False)


class Role(Protocol[QuestionT_contra, AnswerT_co]):
    """A coroutine function from a question to a typed answer."""

    async def __call__(self, question: QuestionT_contra, /) -> AnswerT_co:
        """Asks."""
        ...


class PromptError(Exception):
    """A template is not valid, or needs a value that it is not given."""


class Prompt:
    """A chat prompt composed of named blocks.

    The texts are Jinja2 blocks. The caller chooses the blocks and their order, so two layouts are
    two orders of the same texts. The system message depends on constants alone and is rendered
    once. Texts are compiled once in a process.

    Args:
        sources: Jinja2 sources. A block in a later source replaces the block with the same name in
            an earlier one.
        system: blocks of the system message, in order.
        user: blocks of the user message, in order.
        constants: values known at construction.

    Raises:
        PromptError: no source has one of the blocks, a source is not a valid template, or the
            system message needs a value that is not a constant.
    """

    def __init__(
        self,
        sources: Iterable[str],
        *,
        system: Sequence[str],
        user: Sequence[str],
        constants: Mapping[str, object],
    ) -> None:
        from jinja2 import TemplateError

        kept = tuple(sources)
        try:
            text = _composed(kept, tuple(system), constants).render()
            self._system = Message("system", text, parts=parts_of(kept, tuple(system)))
            self._user = _composed(kept, tuple(user), constants)
            self._parts = parts_of(kept, tuple(user))
        except TemplateError as error:
            raise PromptError(f"the template is not valid: {error}") from error

    def messages(self, given: Mapping[str, object]) -> tuple[Message, Message]:
        """The system and the user message.

        Args:
            given: the values that the user message needs beyond the constants. `TOLD` among them
                names what a text is made of that no template composes.

        Raises:
            PromptError: a value is missing.
        """
        from jinja2 import UndefinedError

        told: Any = given.get(TOLD, ())
        try:
            text = self._user.render(given)
            return self._system, Message("user", text, parts=(*self._parts, *told))
        except UndefinedError as error:
            raise PromptError(
                f"the template needs a value that the question does not give: {error}"
            ) from error


def _composed(
    sources: tuple[str, ...], order: tuple[str, ...], constants: Mapping[str, object]
) -> Template:
    from jinja2 import Template

    environment = _environment()
    code = compiled(sources, order)
    return Template.from_code(environment, code, environment.make_globals(dict(constants)))


@lru_cache(maxsize=1024)
def compiled(sources: tuple[str, ...], order: tuple[str, ...]) -> CodeType:
    """One template of the blocks in this order, with a blank line between them.

    Every trial composes the prompts of its roles from the same texts.
    """
    from jinja2 import nodes

    blocks = parsed(sources)
    body: list[nodes.Node] = []
    for name in order:
        if name not in blocks:
            raise PromptError(f"no source has a block {name!r}; there are {', '.join(blocks)}")
        if body:
            body.append(nodes.Output([nodes.TemplateData("\n\n")]))
        body.extend(blocks[name])
    template = nodes.Template(body, lineno=1)
    template.set_environment(_environment())
    return _environment().compile(template)


@lru_cache(maxsize=1024)
def parts_of(sources: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """The blocks of a message: of each its name and a hash of its words, `NAME#HASH`.

    Example:
        >>> from llm_planning.roles.llm import parts_of
        >>> source = "{% block rules %}Be brief.{% endblock %}"
        >>> parts_of((source,), ("rules",))
        ('rules#213c22ed',)
    """
    words = {name: text for source in sources for name, text in _BLOCK.findall(source)}
    hashes = (hashlib.sha256(words.get(name, "").encode()).hexdigest()[:8] for name in order)
    return tuple(f"{name}#{digest}" for name, digest in zip(order, hashes, strict=True))


def parts_of_chat(prompt: Chat) -> tuple[str, ...]:
    """The parts of a chat; none of a text or of tokens, of which nothing is known."""
    turns = prompt if isinstance(prompt, tuple) else ()
    return tuple(part for turn in turns if isinstance(turn, Message) for part in turn.parts)


@lru_cache(maxsize=256)
def parsed(sources: tuple[str, ...]) -> Mapping[str, list[nodes.Node]]:
    """Blocks by name; one in a later source replaces the one before."""
    from jinja2 import nodes

    return {
        block.name: block.body
        for source in sources
        for block in _environment().parse(source).find_all(nodes.Block)
    }


def fields_of(question: object) -> dict[str, object]:
    """Returns the fields of a question by name, for a template.

    Raises:
        TypeError: the question is not a dataclass.
    """
    if not is_dataclass(question):
        raise TypeError(
            f"{type(question).__name__} is not a dataclass: give the role `values_of`, "
            "which returns the values of its template"
        )
    return {field.name: getattr(question, field.name) for field in fields(question)}


class LlmRole(Generic[QuestionT, ModelT]):
    """A role that a language model answers.

    Args:
        name: the role under which the engine counts usage.
        answer: the answer model; its language must be finite.
        values_of: maps a question to the values of the prompt; by default its fields.
        show: maps a question to the pictures before the text of the user message.

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
        values_of: Callable[[QuestionT], Mapping[str, object]] = fields_of,
        show: Callable[[QuestionT], tuple[Image, ...]] = lambda _: (),
    ) -> None:
        self.name = name
        self._prompt = prompt
        self._answer = answer
        self._constraint = constraint_of(answer)
        self._engine = engine
        self._sampling = sampling
        self._values_of = values_of
        self._show = show

    async def __call__(self, question: QuestionT, /) -> ModelT:
        """Asks the model and parses its answer."""
        sampling = self._sampling
        system, user = self._prompt.messages(self._values_of(question))
        completion = await self._engine.generate(
            Request(
                prompt=(system, replace(user, images=self._show(question))),
                sampling=sampling(question) if callable(sampling) else sampling,
                constraint=self._constraint,
                role=self.name,
            )
        )
        return parse(self._answer, completion.text)

    def read(self, by: Callable[[QuestionT, ModelT], AnswerT]) -> Role[QuestionT, AnswerT]:
        """Returns a role that turns this role's answers into other values."""

        async def ask(question: QuestionT, /) -> AnswerT:
            return by(question, await self(question))

        return ask


class ScoringRole(Generic[QuestionT]):
    """A role that maps choices to the log-probabilities, in nats, that a model gives them.

    Args:
        name: the role under which the engine counts usage.
        choices: maps a question to the different texts to score.
        values_of: maps a question to the values of the prompt; by default its fields.
    """

    def __init__(
        self,
        name: str,
        *,
        prompt: Prompt,
        choices: Callable[[QuestionT], Sequence[str]],
        engine: Engine,
        values_of: Callable[[QuestionT], Mapping[str, object]] = fields_of,
    ) -> None:
        self.name = name
        self._prompt = prompt
        self._choices = choices
        self._engine = engine
        self._values_of = values_of

    async def __call__(self, question: QuestionT, /) -> Mapping[str, float]:
        """Scores the choices."""
        choices = tuple(self._choices(question))
        messages = self._prompt.messages(self._values_of(question))
        scores = await self._engine.score(ScoreRequest(messages, choices, role=self.name))
        return dict(zip(choices, scores.logprobs, strict=True))


async def gather(questions: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Asks questions concurrently, so that the engine can batch them.

    Returns:
        The answers, in the order of the questions.

    Raises:
        Exception: the first error of a question, unchanged; the others are cancelled first.
    """
    tasks = [asyncio.ensure_future(unexiting(question)) for question in questions]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
