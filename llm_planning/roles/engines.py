"""The engines that answer a planner's roles, and the usage of one trial or run.

Is a taught model asked as its lessons asked? A lesson's prompt is made of parts: the blocks of its
templates and, in short words, its lines. A card records the parts of each role (`Card.parts`). A
question with a part that no lesson had is asked otherwise: with worked examples, with a thought,
for a label in the place of an action, or in the words of another planner. What a model answers then
says little of what it was taught, so a line says it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping  # noqa: TC003 (a dataclass's field)
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Final

from llm_planning.roles.llm import parts_of_chat
from llm_planning.trace import tracing
from llm_serving.engine import MeteredEngine
from llm_serving.errors import ServingError
from llm_serving.request import EncodedPrompt, Message, Usage

if TYPE_CHECKING:
    from llm_planning.events import Event
    from llm_planning.trace import Trace
    from llm_serving.engine import Engine
    from llm_serving.request import Completion, ModelIdentity, Prompt, Request, ScoreRequest, Scores

_ASKED = {"answers": "score", "labels": "score_labels"}
"""How a trace calls the kinds of scores."""

_PROMPTS_REMEMBERED = 64
"""The most encoded prompts of which a `TracingEngine` keeps the text."""


logger = logging.getLogger(__name__)

_REMEDIES: Final[Mapping[str, str]] = {
    "examples": "examples=0",
    "labelled": "prior=exact",
    "label": "prior=exact",
    "several": "prior=exact",
    "picture": "see=words",
}
"""Part -> the setting that leaves it out."""

_READ_HOW: Final = "docs/distillation.md says how it was taught"
"""The remedy where there is no such setting."""


def strange_parts(model: ModelIdentity, role: str, prompt: Prompt) -> tuple[str, ...]:
    """The names of the parts of a question that no lesson of its role had.

    There are none if the model was not taught the role, or if nobody recorded its lessons' parts.
    """
    lessons = model.taught.parts.get(role) if model.taught else None
    if lessons is None:
        return ()
    return tuple(
        dict.fromkeys(
            part.partition("#")[0] for part in parts_of_chat(prompt) if part not in lessons
        )
    )


def note_if_strange(model: ModelIdentity, role: str, prompt: Prompt) -> None:
    """Says that a model is asked a role otherwise than it was taught.

    In a process it says each remedy once for a model, of the first role that is asked so.
    """
    if strange := strange_parts(model, role, prompt):
        remedies = dict.fromkeys(_REMEDIES.get(part, "") for part in strange)
        _note(
            model.name,
            f"set {' and '.join(remedies)}" if all(remedies) else _READ_HOW,
            _Strange(role, strange),
        )


@dataclass(frozen=True, slots=True)
class _Strange:
    """A role, and the parts of a question that no lesson of it had. All are equal to a cache."""

    role: str = field(compare=False)
    parts: tuple[str, ...] = field(compare=False)


@cache
def _note(model: str, advice: str, strange: _Strange) -> None:
    logger.warning(
        "%s was taught %s otherwise than it is asked: no lesson had %s in these words; %s",
        model,
        strange.role,
        ", ".join(strange.parts),
        advice,
    )


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines of a planner: one for all roles, and other ones for some roles.

    Attributes:
        default: answers every role that has no engine of its own.
        by_role: role -> its engine.
    """

    default: Engine
    by_role: Mapping[str, Engine] = field(default_factory=dict)

    def of(self, role: str) -> Engine:
        """Returns the engine of a role."""
        return self.by_role.get(role, self.default)

    @property
    def name(self) -> str:
        """The names of all models, the default's first."""
        return " + ".join(engine.identity.name for engine in self.different)

    @property
    def different(self) -> tuple[Engine, ...]:
        """Each engine once, the default first."""
        return tuple(
            {id(engine): engine for engine in (self.default, *self.by_role.values())}.values()
        )


class TracingEngine(MeteredEngine):
    """A metered engine that adds every question and answer to the current trace.

    It says if a taught model is asked otherwise than its lessons asked.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._read: dict[EncodedPrompt, Prompt] = {}

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer, and keeps the text for who reads it."""
        encoded = super().encode(prompt)
        if prompt is not encoded and (tracing() is not None or self.identity.taught):
            if len(self._read) == _PROMPTS_REMEMBERED:
                del self._read[next(iter(self._read))]
            self._read[encoded] = prompt
        return encoded

    async def generate(self, request: Request) -> Completion:
        """Writes one answer, counts it and adds it to the trace."""
        prompt = self._read_as_taught(request)
        completion = await super().generate(request)
        if (trace := tracing()) is not None:
            trace.question(
                completion.usage,
                **self._asked("generate", request, prompt, trace),
                temperature=request.sampling.temperature,
                sample=request.sample,
                answer=completion.text,
                finish=completion.finish,
            )
        return completion

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores choices, counts the question and adds it to the trace."""
        prompt = self._read_as_taught(request)
        scores = await super().score(request)
        if (trace := tracing()) is not None:
            shared = {} if scores.shared is None else {"shared": asdict(scores.shared)}
            trace.question(
                scores.usage,
                **self._asked(_ASKED[request.kind], request, prompt, trace),
                choices=list(request.choices),
                logprobs=list(scores.logprobs),
                **shared,
            )
        return scores

    def _read_as_taught(self, request: Request | ScoreRequest) -> Prompt:
        """The text of a question; a note says if no lesson of its model was asked so."""
        prompt = self._text_of(request.prompt)
        note_if_strange(self.identity.answering(request.adapter), request.role, prompt)
        return prompt

    def _text_of(self, prompt: Prompt) -> Prompt:
        """The text of an encoded prompt, if it is kept; otherwise the prompt as it is."""
        return self._read.get(prompt, prompt) if isinstance(prompt, EncodedPrompt) else prompt

    def _asked(
        self, how: str, request: Request | ScoreRequest, prompt: Prompt, trace: Trace
    ) -> Event:
        """The fields that all questions have. A system message has a line of its own, once."""
        model = self.identity.answering(request.adapter).name
        system = None
        turns: list[Event] = []
        if isinstance(prompt, str):
            turns = [{"role": None, "text": prompt}]
        elif isinstance(prompt, tuple):
            for message in prompt:
                if message is prompt[0] and message.role == "system" and not message.images:
                    system = trace.prompt(message.content, model, self._fixed_tokens)
                else:
                    images = {"images": len(message.images)} if message.images else {}
                    turns.append({"role": message.role, "text": message.content, **images})
        return {
            "role": request.role,
            "model": model,
            "asked": how,
            "system": system,
            "turns": turns,
        }

    def _fixed_tokens(self, system: str) -> int | None:
        """Number of first tokens that all prompts with a system message share.

        None if the engine cannot encode prompts, or its template leaves the user's text out.
        """
        first = Message("system", system)
        try:
            ids, other_ids = (
                super(TracingEngine, self).encode((first, Message("user", text))).token_ids
                for text in ("A", "B")
            )
        except ServingError:
            return None
        # The two differ where the user's text begins, or in the token after it.
        pairs = enumerate(zip(ids, other_ids))  # noqa: B905
        return next((place for place, (a, b) in pairs if a != b), None)


def metered(engines: Engines) -> Engines:
    """Wraps every engine once, with a meter of its own.

    While a trace is recorded, every question is added to it.
    """
    meters = {id(engine): TracingEngine(engine) for engine in engines.different}
    return Engines(
        meters[id(engines.default)],
        {role: meters[id(engine)] for role, engine in engines.by_role.items()},
    )


def usage_by_role(engines: Engines) -> dict[str, Usage]:
    """The usage of all engines, by role; one that is not metered counts nothing."""
    usage: dict[str, Usage] = {}
    for meter in engines.different:
        for role, spent in meter.usage.items() if isinstance(meter, MeteredEngine) else ():
            usage[role] = usage.get(role, Usage()) + spent
    return usage
