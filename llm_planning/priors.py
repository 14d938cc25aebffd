"""π(·|h): how promising each action is, by a language model in four ways, or alike for all.

exact    log p(action, end of the answer) of each action string; π is their softmax.
index    log p(label) of one label per action (MC-DML, Section 4.1).
sample   log of how often an action was drawn: self-consistency (Wang et al., 2022).
verbal   log of the chance that the model says: verbalised (Lin et al., 2022).
uniform  1 / |𝒜|; nobody is asked.

For actions that `index`, `sample` and `verbal` know nothing of, -10 stands. π is the softmax, with
temperature 5 in MC-DML's paper.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from functools import cache, partial
from itertools import chain, islice, product
from string import ascii_uppercase
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from llm_planning.settings import Settings
from llm_serving.answers import Constraint, constraint_of, parse
from llm_serving.engine import draw, filled
from llm_serving.patterns import words
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt, Prompt

Q = TypeVar("Q")
Q_contra = TypeVar("Q_contra", contravariant=True)

PriorKind: TypeAlias = Literal["exact", "index", "sample", "verbal", "uniform"]

ROLE = "prior"
"""Under which the engine counts these questions."""

ABSENT = -10.0
"""Log-probability of what the model does not return (MC-DML, Section 4.1)."""

LIKELIEST = 20
"""Labels whose log-probabilities an answer returns (MC-DML, Section 4.1)."""

TEMPERATURE: Mapping[PriorKind, float] = {
    "exact": 1.0,
    "index": 5.0,
    "sample": 5.0,
    "verbal": 5.0,
    "uniform": 1.0,
}
"""Of the softmax: MC-DML's (Section 4.1), and for `exact` the distribution as it is."""

SAMPLES = 10
"""Draws of self-consistency."""

SAMPLING_TEMPERATURE = 1.0
"""Of these draws: the model's own distribution."""

MOST_SAID = 5
"""Most actions that a verbal answer may name with their chances."""


class PriorSettings(Settings):
    """How a planner asks for π.

    Attributes:
        prior: the way of asking.
        prior_temperature: of the softmax that makes π; by default 1 for `exact`, and 5, MC-DML's,
            for the others.
        prior_mixture: ε of π ← (1 - ε) π + ε / |𝒜|.
    """

    prior: PriorKind = "exact"
    prior_temperature: float | None = Field(None, gt=0.0, allow_inf_nan=False)
    prior_mixture: float = Field(0.0, ge=0.0, le=1.0)


Policy: TypeAlias = "Callable[[Q], Awaitable[Sequence[float]]]"
"""Tells π of a question: shape [actions], not negative, sum 1."""


class Wording(Protocol[Q_contra]):
    """How a planner's questions are said; the answer to all of them is one of the actions."""

    def actions(self, question: Q_contra) -> tuple[str, ...]:
        """𝒜(s) as the model reads them: at least one, without repetitions."""
        ...

    def key(self, question: Q_contra) -> Hashable:
        """What the prompts say; questions with equal keys get equal answers, and are asked once."""
        ...

    def action(self, question: Q_contra, *, dashes: int) -> Prompt:
        """Asks for an action as it is written in the list.

        Args:
            question: what it is about.
            dashes: of a line somewhere near the end, at least one; they say nothing and bring the
                prompt to a length that scores cheaply.
        """
        ...

    def label(self, question: Q_contra, labels: Sequence[str]) -> Prompt:
        """Asks for the label of an action; shape of labels: [actions]."""
        ...

    def several(self, question: Q_contra, labels: Sequence[str]) -> Prompt:
        """Asks for up to `MOST_SAID` labels with their chances; shape of labels: [actions]."""
        ...


class Prior(Generic[Q]):
    """The softmax of log-probabilities, each question asked once.

    Whoever asks a question that somebody else waits for waits for the same answer.

    Args:
        estimate: log p of the actions of a question, shape [actions], in nats; a constant added to
            all says nothing. None where all are alike.
        wording: of the questions.
        temperature: of the softmax.
        mixture: ε of π ← (1 - ε) π + ε / |𝒜|.

    Attributes:
        questions: that the model was asked.
    """

    def __init__(
        self,
        estimate: Callable[[Q], Awaitable[Sequence[float]]] | None,
        *,
        wording: Wording[Q],
        temperature: float,
        mixture: float,
    ) -> None:
        self._estimate = estimate
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
        """Log-probabilities that π is made of, shape [actions]; a single action needs no model.

        Raises:
            ServingError: the engine failed.
        """
        count = len(self._wording.actions(question))
        if self._estimate is None or count == 1:
            return (0.0,) * count
        key = self._wording.key(question)
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
) -> Prior[Q]:
    """The prior of a kind.

    Args:
        kind: the way of asking.
        engine: who answers.
        wording: of the questions.
        temperature: of the softmax; by default `TEMPERATURE` of the kind.
        mixture: ε of π ← (1 - ε) π + ε / |𝒜|.
        seed: of the draws of `sample`; the others draw nothing.
        samples: number of these draws.
    """
    asked = _Asked(engine, wording)
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


def prior_as_set(
    settings: PriorSettings, engine: Engine, *, wording: Wording[Q], seed: int
) -> Prior[Q]:
    """The prior that settings ask for.

    Args:
        settings: of the planner.
        engine: who answers.
        wording: of the questions.
        seed: of the draws of `sample`.
    """
    return make_prior(
        settings.prior,
        engine,
        wording=wording,
        temperature=settings.prior_temperature,
        mixture=settings.prior_mixture,
        seed=seed,
    )


def action_prompt(engine: Engine, wording: Wording[Q], question: Q) -> EncodedPrompt:
    """What `exact` asks, as long as is cheapest to score."""
    return filled(engine, lambda length: wording.action(question, dashes=length))


class _Asked(Generic[Q]):
    """Log-probabilities of actions, each method by one way of asking."""

    def __init__(self, engine: Engine, wording: Wording[Q]) -> None:
        self._engine = engine
        self._wording = wording
        self._labels = Labels(engine)

    async def exact(self, question: Q) -> Sequence[float]:
        prompt = action_prompt(self._engine, self._wording, question)
        actions = self._wording.actions(question)
        return (await self._engine.score(prompt, actions, role=ROLE)).logprobs

    async def index(self, question: Q) -> Sequence[float]:
        """MC-DML's, given that the answer is one of the labels.

        So -10 means the same to a model that answers in other words most of the time.
        """
        names = self._names(question)
        prompt = self._wording.label(question, names)
        return likeliest(log_softmax(await self._labels.logprobs(prompt, names, role=ROLE)))

    async def sample(self, question: Q, *, seed: int, samples: int) -> Sequence[float]:
        names = self._names(question)
        request = Request(
            prompt=self._wording.label(question, names),
            sampling=Sampling(temperature=SAMPLING_TEMPERATURE, seed=seed),
            constraint=one_label(names),
            role=ROLE,
        )
        drawn = Counter(answer.text for answer in await draw(self._engine, request, samples))
        return [math.log(drawn[name] / samples) if drawn[name] else ABSENT for name in names]

    async def verbal(self, question: Q) -> Sequence[float]:
        """Greedy; of a label that is named more than once, the first chance counts."""
        names = self._names(question)
        model = chances(names)
        prompt = self._wording.several(question, names)
        answer = await self._engine.generate(
            Request(prompt=prompt, constraint=constraint_of(model), role=ROLE)
        )
        said = dict(reversed(parse(model, answer.text).actions))
        return [math.log(said[name] / 100) if name in said else ABSENT for name in names]

    def _names(self, question: Q) -> tuple[str, ...]:
        return self._labels.of(len(self._wording.actions(question)))


def likeliest(logprobs: Sequence[float]) -> list[float]:
    """Log-probabilities with -10 in place of all but the `LIKELIEST` highest, earlier ones first.

    Nothing becomes lower than -10: being returned is never worse than being absent.
    """
    ranked = sorted(range(len(logprobs)), key=lambda i: -logprobs[i])
    kept = frozenset(ranked[:LIKELIEST])
    return [max(value, ABSENT) if i in kept else ABSENT for i, value in enumerate(logprobs)]


def softmax(logprobs: Sequence[float], *, temperature: float) -> list[float]:
    """exp(log p / temperature), normalised; shape [actions]."""
    highest = max(logprobs)
    weights = [math.exp((value - highest) / temperature) for value in logprobs]
    total = sum(weights)
    return [weight / total for weight in weights]


def log_softmax(logprobs: Sequence[float]) -> list[float]:
    """Log-probabilities given that one of these happened; shape [actions]."""
    highest = max(logprobs)
    total = highest + math.log(sum(math.exp(value - highest) for value in logprobs))
    return [value - total for value in logprobs]


# ANSWERS -----------------------------------------------------------------------------------------


class Chances(BaseModel):
    """The likeliest labels, the best first, with the percent that the model says."""

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
    """Labels that stand for the actions of a list, one token each where that is possible.

    MC-DML asks for the index of an action and reads the log-probabilities of one token. A tokenizer
    that splits numbers into digits gives 1 and 12 the same first token, so there the labels are
    numbers only as long as each is a token of its own, and then capital letters and pairs of them
    (403 of these are single tokens of SmolLM2, and more of larger vocabularies). A list that is
    longer than that gets numbers again, and each is scored as a whole, with the end of the answer.

    Args:
        engine: whose tokenizer decides, and who scores.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, tuple[str, ...]] = {}

    def of(self, count: int) -> tuple[str, ...]:
        """Distinct labels for a list.

        Args:
            count: entries of the list.

        Returns:
            shape [count], always the same for the same count.
        """
        if count not in self._known:
            numbers = tuple(map(str, range(1, count + 1)))
            found = (tuple(islice(self._single(names), count)) for names in (numbers, _capitals()))
            self._known[count] = next((one for one in found if len(one) == count), numbers)
        return self._known[count]

    async def logprobs(
        self, prompt: Prompt, labels: Sequence[str], *, role: str
    ) -> tuple[float, ...]:
        """Log p(label | prompt), in nats, shape [labels].

        Labels of one token each are scored without the end of the answer, others with it, so that
        1 and 12 are told apart.

        Args:
            prompt: which ends where the answer begins.
            labels: what `of` gave.
            role: whose question this is.
        """
        single = len(tuple(self._single(labels))) == len(labels)
        score = self._engine.score_labels if single else self._engine.score
        return (await score(prompt, labels, role=role)).logprobs

    def _single(self, names: Iterable[str]) -> Iterator[str]:
        """Those names that are one token, and none the token of an earlier one."""
        seen: set[int] = set()
        # Some tokenizers begin every text with a token of their own.
        begin = len(self._engine.encode("").token_ids)
        for name in names:
            tokens = self._engine.encode(name).token_ids[begin:]
            if len(tokens) == 1 and tokens[0] not in seen:
                seen.add(tokens[0])
                yield name


def _capitals() -> Iterator[str]:
    pairs = ("".join(pair) for pair in product(ascii_uppercase, repeat=2))
    return chain(ascii_uppercase, pairs)
