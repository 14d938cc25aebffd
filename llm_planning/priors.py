"""The prior π(·|h) over actions: four ways to ask a language model for it, and the uniform prior.

exact    log p(action, end of the answer) of each action string.
index    log p(label) of one label per action (MC-DML, Section 4.1).
sample   log of the share of draws that gave the action: self-consistency (Wang et al., 2022).
verbal   log of the chance that the model writes: verbalised (Lin et al., 2022).
uniform  1 / |𝒜|, without a model.

π is the softmax of these log-probabilities, with temperature 5 in MC-DML's paper, however it is
asked for. An action that the answers of `index`, `sample` and `verbal` do not contain has -10.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from dataclasses import replace
from functools import cache, partial
from itertools import islice, product
from string import ascii_uppercase
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
)

from pydantic import BaseModel, Field, create_model

from llm_planning.roles import RoleSettings, by_model
from llm_planning.settings import ReadWhen, When
from llm_serving.answers import Constraint, constraint_of, parse
from llm_serving.engine import draw, filled
from llm_serving.errors import LabelError, UnableError
from llm_serving.patterns import words
from llm_serving.request import Request, Sampling, ScoreRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from llm_serving.engine import Engine
    from llm_serving.request import Ability, EncodedPrompt, Message, Prompt

    Chat: TypeAlias = tuple[Message, ...]

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)

PriorKind: TypeAlias = Literal["exact", "index", "sample", "verbal", "uniform"]

ROLE = "prior"
"""The role under which the engine counts questions for π."""

ABSENT = -10.0
"""Log-probability of an action that the answer does not contain (MC-DML, Section 4.1)."""

LIKELIEST = 20
"""So many labels keep their log-probabilities: the likeliest (MC-DML, Section 4.1)."""

TEMPERATURE: Mapping[PriorKind, float] = {
    "exact": 1.0,
    "index": 5.0,
    "sample": 5.0,
    "verbal": 5.0,
    "uniform": 1.0,
}
"""Temperatures of the softmax: MC-DML's (Section 4.1); 1 keeps the distribution of `exact`, which
planners of other papers take as it is."""

ABILITIES: Mapping[PriorKind, frozenset[Ability]] = {
    "exact": frozenset({"scores"}),
    "index": frozenset({"labels", "scores"}),
    "sample": frozenset({"regex"}),
    "verbal": frozenset({"regex"}),
}
"""What an engine must be able to do for each way of asking: one of these."""

SAMPLES = 10
"""Number of draws of `sample`."""

SAMPLING_TEMPERATURE = 1.0
"""Temperature of the draws of `sample`: the model's own distribution."""

_BEFORE_LABELS = ("", "\n")
"""What a label may be one token behind: some tokenizers write a blank before a text alone."""

MOST_SAID = 5
"""The most actions with their chances in an answer of `verbal`."""


BY_MODEL: Final = by_model(ROLE)
ASKED: Final = When(
    ROLE, "a prior other than uniform", lambda settings: settings.prior != "uniform"
)
WAY_OF_ASKING: Final = replace(
    BY_MODEL, holds=lambda settings: settings.prior == "uniform" or BY_MODEL.holds(settings)
)
"""When settings about π are read (`Settings.read_when`): rules do not follow the way of asking."""


class PriorSettings(RoleSettings):
    """Settings of a planner that asks for π.

    Attributes:
        prior: the way of asking a model; `uniform` asks nobody, not even rules.
        prior_temperature: of the softmax that makes π; by default 1 for `exact` and for rules, and
            MC-DML's 5 for the others.
        prior_mixture: ε of π ← (1 - ε) π + ε / |𝒜|.
    """

    known_roles: ClassVar[tuple[str, ...]] = (ROLE,)
    read_when: ClassVar[ReadWhen] = {
        "prior": [WAY_OF_ASKING],
        "prior_temperature": [ASKED],
        "prior_mixture": [ASKED],
    }

    prior: PriorKind = "exact"
    prior_temperature: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    prior_mixture: float = Field(0.0, ge=0.0, le=1.0)

    @property
    def model_temperature(self) -> float:
        """The temperature of the softmax where a model answers."""
        return self.prior_temperature or TEMPERATURE[self.prior]


Policy: TypeAlias = "Callable[[Q], Awaitable[Sequence[float]]]"
"""Maps a question to π, shape [actions], not negative, sum 1."""


class Wording(Protocol[Q_contra]):
    """The prompts of a planner's questions. Every question asks for one of its actions."""

    def actions(self, question: Q_contra) -> tuple[str, ...]:
        """𝒜(s) as the model reads them: at least one, without repetitions."""
        ...

    def key(self, question: Q_contra) -> Hashable:
        """All that the prompts depend on. Questions with equal keys are asked once."""
        ...

    def action(self, question: Q_contra, *, dashes: int) -> Chat:
        """Asks for an action as it is written in the list.

        Args:
            dashes: number of dashes in a line near the end, at least one. They mean nothing, and
                bring the prompt to a length that is cheap to score.
        """
        ...

    def label(self, question: Q_contra, labels: Sequence[str]) -> Chat:
        """Asks for the label of an action; shape of labels: [actions]."""
        ...

    def several(self, question: Q_contra, labels: Sequence[str]) -> Chat:
        """Asks for up to `MOST_SAID` labels with their chances; shape of labels: [actions]."""
        ...


class Prior(Generic[Q]):
    """π as a softmax of log-probabilities. Each question is asked once.

    If a question is asked again while its answer is awaited, both wait for the same answer.

    Args:
        estimate: maps a question to log p of its actions, shape [actions], in nats, up to a
            constant. None for the uniform prior.
        mixture: ε of π ← (1 - ε) π + ε / |𝒜|.
        beside: what an estimate depends on beside the prompts; by default nothing. Questions with
            equal prompts are the same only if they agree in that.

    Attributes:
        questions: number of questions to the model.
    """

    def __init__(
        self,
        estimate: Callable[[Q], Awaitable[Sequence[float]]] | None,
        *,
        wording: Wording[Q],
        temperature: float,
        mixture: float,
        beside: Callable[[Q], Awaitable[Hashable]] | None = None,
    ) -> None:
        self._estimate = estimate
        self._beside = beside
        self._wording = wording
        self._temperature = temperature
        self._mixture = mixture
        self._known: dict[Hashable, tuple[float, ...]] = {}
        self._asking: defaultdict[Hashable, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.questions = 0

    async def __call__(self, question: Q) -> Sequence[float]:
        """Returns π, shape [actions], not negative, sum 1.

        Raises:
            ServingError: the engine failed.
        """
        pi = softmax(await self.logprobs(question), temperature=self._temperature)
        if not self._mixture:
            return pi
        return [(1 - self._mixture) * p + self._mixture / len(pi) for p in pi]

    async def logprobs(self, question: Q) -> Sequence[float]:
        """Returns log-probabilities, shape [actions]. A single action needs no model.

        Raises:
            ServingError: the engine failed.
        """
        count = len(self._wording.actions(question))
        if self._estimate is None or count == 1:
            return (0.0,) * count
        key = (self._wording.key(question), self._beside and await self._beside(question))
        async with self._asking[key]:
            if key not in self._known:
                self.questions += 1
                self._known[key] = tuple(await self._estimate(question))
        return self._known[key]


def make_prior(
    kind: PriorKind,
    engine: Engine,
    *,
    wording: Wording[Q],
    temperature: float | None = None,
    mixture: float = 0.0,
    seed: int = 0,
    samples: int = SAMPLES,
    absent: float = ABSENT,
) -> Prior[Q]:
    """Makes the prior of a kind.

    Args:
        temperature: of the softmax; by default `TEMPERATURE` of the kind.
        mixture: ε of π ← (1 - ε) π + ε / |𝒜|.
        seed: of the draws of `sample`; the other kinds draw nothing.
        samples: number of these draws.
        absent: log-probability of an action that the answer of `index`, `sample` or `verbal` does
            not contain, in nats.

    Raises:
        UnableError: the engine cannot be asked so.
    """
    _refuse_unable(kind, engine)
    asked = _Asked(engine, wording, absent)
    estimate: Callable[[Q], Awaitable[Sequence[float]]] | None
    match kind:
        case "exact":
            estimate = asked.exact
        case "index":
            estimate = asked.index
        case "sample":
            estimate = partial(asked.sample, seed=seed, samples=samples)
        case "verbal":
            estimate = asked.verbal
        case "uniform":
            estimate = None
    return Prior(
        estimate,
        wording=wording,
        temperature=TEMPERATURE[kind] if temperature is None else temperature,
        mixture=mixture,
    )


def _refuse_unable(kind: PriorKind, engine: Engine) -> None:
    """Refuses an engine that cannot be asked for π in a way, and names the ways that it can."""
    model = engine.identity.name
    able = [way for way, some in ABILITIES.items() if some & engine.abilities]
    if kind in able or kind == "uniform":
        return
    if not able:
        raise UnableError(f"the model {model!r} answers no questions: name a model that does")
    raise UnableError(
        f"the model {model!r} cannot be asked for prior={kind}: set prior to {' or '.join(able)}"
    )


def action_prompt(engine: Engine, wording: Wording[Q], question: Q) -> EncodedPrompt:
    """The prompt of `exact`, filled with dashes to the length that is cheapest to score."""
    return filled(engine, lambda length: wording.action(question, dashes=length))


class _Asked(Generic[Q]):
    """Log-probabilities of actions, shape [actions]: a method for each way of asking."""

    def __init__(self, engine: Engine, wording: Wording[Q], absent: float) -> None:
        self._engine = engine
        self._wording = wording
        self._absent = absent
        self._labels = Labels(engine)

    async def exact(self, question: Q) -> Sequence[float]:
        prompt = action_prompt(self._engine, self._wording, question)
        actions = self._wording.actions(question)
        return (await self._engine.score(ScoreRequest(prompt, actions, role=ROLE))).logprobs

    async def index(self, question: Q) -> Sequence[float]:
        """MC-DML's log-probabilities, given that the answer is one of the labels.

        So an absent label means the same for a model that mostly answers in other words.
        """
        names = self._names(question)
        prompt = self._wording.label(question, names)
        logprobs = await self._labels.logprobs(prompt, names, role=ROLE)
        return likeliest(log_softmax(logprobs), absent=self._absent)

    async def sample(self, question: Q, *, seed: int, samples: int) -> Sequence[float]:
        names = self._names(question)
        request = Request(
            prompt=self._wording.label(question, names),
            sampling=Sampling(temperature=SAMPLING_TEMPERATURE, seed=seed),
            constraint=one_label(names),
            role=ROLE,
        )
        drawn = Counter(answer.text for answer in await draw(self._engine, request, samples))
        return [math.log(drawn[name] / samples) if drawn[name] else self._absent for name in names]

    async def verbal(self, question: Q) -> Sequence[float]:
        """Asks greedily. If the answer repeats a label, its first chance counts."""
        names = self._names(question)
        model = chances(names)
        prompt = self._wording.several(question, names)
        answer = await self._engine.generate(
            Request(prompt=prompt, constraint=constraint_of(model), role=ROLE)
        )
        shares = dict(reversed(parse(model, answer.text).actions))
        return [math.log(shares[name] / 100) if name in shares else self._absent for name in names]

    def _names(self, question: Q) -> tuple[str, ...]:
        return self._labels.of(len(self._wording.actions(question)))


def likeliest(logprobs: Sequence[float], *, absent: float = ABSENT) -> list[float]:
    """Keeps the `LIKELIEST` highest log-probabilities, the first of equals; others are `absent`.

    It raises the highest to at least `absent`, so that no kept action is worse than an absent one.
    """
    ranked = sorted(range(len(logprobs)), key=lambda i: -logprobs[i])
    kept = frozenset(ranked[:LIKELIEST])
    return [max(value, absent) if i in kept else absent for i, value in enumerate(logprobs)]


def softmax(logprobs: Sequence[float], *, temperature: float) -> list[float]:
    """exp(log p / temperature), normalised; shape [actions]."""
    highest = max(logprobs)
    weights = [math.exp((value - highest) / temperature) for value in logprobs]
    total = sum(weights)
    return [weight / total for weight in weights]


def log_softmax(logprobs: Sequence[float]) -> list[float]:
    """Normalises log-probabilities so that the probabilities sum to 1; shape [actions]."""
    highest = max(logprobs)
    total = highest + math.log(sum(math.exp(value - highest) for value in logprobs))
    return [value - total for value in logprobs]


# ANSWERS -----------------------------------------------------------------------------------------


class Chances(BaseModel):
    """The likeliest labels, the best first, each with its chance in percent."""

    actions: list[tuple[str, int]]


_Percent: TypeAlias = Annotated[int, Field(ge=1, le=100)]


@cache
def chances(labels: tuple[str, ...]) -> type[Chances]:
    """The answer model of one to `MOST_SAID` labels with their percents."""
    label: Any = Literal[labels]
    actions: Any = Annotated[
        list[tuple[label, _Percent]], Field(min_length=1, max_length=MOST_SAID)
    ]
    return create_model(
        Chances.__name__, __base__=Chances, __doc__=Chances.__doc__, actions=(actions, ...)
    )


@cache
def one_label(labels: tuple[str, ...]) -> Constraint:
    """The language of one of the labels, written as it is."""
    pattern = words(labels)
    return Constraint(pattern.regex, pattern.max_bytes)


class Labels:
    """Labels for the actions of a list, each a single token if possible.

    MC-DML asks for the index of an action and reads the log-probabilities of one token. But a
    tokenizer that splits numbers into digits gives 1 and 12 the same first token. So labels are
    numbers if each is a token of its own, and otherwise capital letters and pairs of them (403 are
    single tokens of SmolLM2; larger vocabularies have more). A list that is too long for both gets
    numbers, and each label is scored as a whole, with the end of the answer.

    Args:
        engine: its tokenizer decides, and it scores.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, tuple[str, ...]] = {}

    def of(self, count: int) -> tuple[str, ...]:
        """Returns distinct labels for a list.

        Returns:
            The labels, shape [count], always the same for the same count.
        """
        if count not in self._known:
            numbers = tuple(map(str, range(1, count + 1)))
            pairs = map("".join, product(ascii_uppercase, repeat=2))
            capitals = (*ascii_uppercase, *pairs)
            # What the prompt ends with is not known yet.
            rows = product(_BEFORE_LABELS, (numbers, capitals))
            single = (tuple(islice(self._single(row, before), count)) for before, row in rows)
            self._known[count] = next((row for row in single if len(row) == count), numbers)
        return self._known[count]

    async def logprobs(
        self, prompt: Prompt, labels: Sequence[str], *, role: str
    ) -> tuple[float, ...]:
        """Returns log p(label | prompt), in nats, shape [labels].

        Labels of one token each are scored without the end of the answer. Other labels are scored
        with it, which tells 1 and 12 apart, and so are all where the engine scores no labels.

        Args:
            prompt: a prompt that ends where the answer begins.
            labels: the result of `of`.
        """
        scored = partial(ScoreRequest, prompt, tuple(labels), role=role)
        rows = (tuple(self._single(labels, before)) for before in _BEFORE_LABELS)
        if "labels" in self._engine.abilities and any(len(row) == len(labels) for row in rows):
            try:
                return (await self._engine.score(scored(kind="labels"))).logprobs
            except LabelError:
                pass  # behind this prompt they are not
        return (await self._engine.score(scored())).logprobs

    def _single(self, names: Iterable[str], before: str) -> Iterator[str]:
        """Yields the names that are a single token behind a text, each token once."""
        seen: set[int] = set()
        # Some tokenizers begin every text with a token of their own.
        own = self._engine.encode(before).token_ids
        for name in names:
            tokens = self._engine.encode(before + name).token_ids
            if len(tokens) == len(own) + 1 and tokens[:-1] == own and tokens[-1] not in seen:
                seen.add(tokens[-1])
                yield name
