"""π(·|s) by a language model: LLM(a | ℳ_i, ℳ_c, p) of eq. 3, in four ways.

exact   log p(action, end of the answer) of each action string; π is their softmax.
index   log p(label) of one label per action, as in the paper (Section 4.1).
sample  log of how often an action was drawn: self-consistency (footnote 1; Wang et al., 2022).
verbal  log of the chance that the model says: verbalised (footnote 1; Lin et al., 2022).

For actions that `index`, `sample` and `verbal` know nothing of, -10 stands. π is the softmax, with
temperature 5 in the paper.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from llm_planning.planners.mc_dml.answers import chances, one_label
from llm_planning.planners.mc_dml.labels import Labels
from llm_planning.planners.mc_dml.prompts import ask_action, ask_label, ask_several
from llm_serving.answers import constraint_of, parse
from llm_serving.engine import draw
from llm_serving.prefix_blocks import filled
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.planners.mc_dml.roles import Situation
    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt

PriorKind: TypeAlias = Literal["exact", "index", "sample", "verbal"]

ROLE = "prior"
"""Under which the engine counts these questions."""

ABSENT = -10.0
"""Log-probability of what the model does not return (Section 4.1)."""

LIKELIEST = 20
"""Labels whose log-probabilities an answer returns (Section 4.1)."""

TEMPERATURE: Mapping[PriorKind, float] = {"exact": 1.0, "index": 5.0, "sample": 5.0, "verbal": 5.0}
"""Of the softmax: the paper's (Section 4.1), and for `exact` the distribution as it is."""

SAMPLES = 10
"""Draws of self-consistency."""

SAMPLING_TEMPERATURE = 1.0
"""Of these draws: the model's own distribution."""


class Estimate(Protocol):
    """Log-probabilities of actions, by one way of asking."""

    async def __call__(self, situation: Situation) -> Sequence[float]:
        """Returns log p, shape [actions], in nats; a constant added to all says nothing."""
        ...


class LlmPrior:
    """A `Prior`: the softmax of log-probabilities, each situation asked once.

    Whoever asks about a situation that somebody else waits for waits for the same answer.

    Args:
        estimate: asks the model.
        temperature: of the softmax.

    Attributes:
        questions: situations that the model was asked about.
    """

    def __init__(self, estimate: Estimate, *, temperature: float) -> None:
        self._estimate = estimate
        self._temperature = temperature
        self._known: dict[object, tuple[float, ...]] = {}
        self._asking: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.questions = 0

    async def __call__(self, situation: Situation) -> Sequence[float]:
        """Returns π, shape [actions], sum 1.

        Raises:
            ServingError: the engine failed.
        """
        return softmax(await self.logprobs(situation), temperature=self._temperature)

    async def logprobs(self, situation: Situation) -> Sequence[float]:
        """Log-probabilities that π is made of, shape [actions]; a single action needs no model.

        Raises:
            ServingError: the engine failed.
        """
        if len(situation.actions) == 1:
            return (0.0,)
        # No prompt tells rewards and scores, so situations that differ in these are the same.
        seen = tuple((turn.observation, turn.action) for turn in situation.memory)
        told = (seen, situation.observation, situation.actions, situation.reflections)
        async with self._asking[told]:
            if told not in self._known:
                self.questions += 1
                self._known[told] = tuple(await self._estimate(situation))
        return self._known[told]


def make_prior(
    kind: PriorKind,
    engine: Engine,
    *,
    temperature: float | None = None,
    seed: int = 0,
    samples: int = SAMPLES,
) -> LlmPrior:
    """The prior of a kind.

    Args:
        kind: the way of asking.
        engine: who answers.
        temperature: of the softmax; by default `TEMPERATURE` of the kind.
        seed: of the draws of `sample`; the others draw nothing.
        samples: number of these draws.
    """
    labels = Labels(engine)
    estimate: Estimate
    match kind:
        case "exact":
            estimate = partial(_exact, engine)
        case "index":
            estimate = partial(_index, labels)
        case "sample":
            estimate = partial(_sample, engine, labels, seed, samples)
        case "verbal":
            estimate = partial(_verbal, engine, labels)
    return LlmPrior(estimate, temperature=TEMPERATURE[kind] if temperature is None else temperature)


async def _exact(engine: Engine, situation: Situation) -> Sequence[float]:
    prompt = action_prompt(engine, situation)
    scores = await engine.score(prompt, situation.actions, role=ROLE)
    return scores.logprobs


def action_prompt(engine: Engine, situation: Situation) -> EncodedPrompt:
    """What `exact` asks, as long as is cheapest to score."""
    return filled(engine, lambda length: ask_action(situation, dashes=length))


async def _index(labels: Labels, situation: Situation) -> Sequence[float]:
    """The paper's, given that the answer is one of the labels.

    So -10 means the same to a model that answers in other words most of the time.
    """
    names = labels.of(len(situation.actions))
    logprobs = await labels.logprobs(ask_label(situation, names), names, role=ROLE)
    return likeliest(log_softmax(logprobs))


async def _sample(
    engine: Engine, labels: Labels, seed: int, samples: int, situation: Situation
) -> Sequence[float]:
    names = labels.of(len(situation.actions))
    request = Request(
        prompt=ask_label(situation, names),
        sampling=Sampling(temperature=SAMPLING_TEMPERATURE, seed=seed),
        constraint=one_label(names),
        role=ROLE,
    )
    drawn = Counter(answer.text for answer in await draw(engine, request, samples))
    return [math.log(drawn[name] / samples) if drawn[name] else ABSENT for name in names]


async def _verbal(engine: Engine, labels: Labels, situation: Situation) -> Sequence[float]:
    """Greedy; of a label that is named more than once, the first chance counts."""
    names = labels.of(len(situation.actions))
    model = chances(names)
    answer = await engine.generate(
        Request(prompt=ask_several(situation, names), constraint=constraint_of(model), role=ROLE)
    )
    said = dict(reversed(parse(model, answer.text).actions))
    return [math.log(said[name] / 100) if name in said else ABSENT for name in names]


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
