"""Where are the things of the goal? A language model's prior of a belief, or that of rules.

Source: LLM-MCTS, Section 2.2, Appendix C.2 and Listing 2. Only things that can be moved are asked
about: the agent knows the house, and so in which room each container and each surface is
(Section 2.1). Of those, only the things of the goal: the places of others change no step to it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from math import isinf
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.priors import softmax
from llm_planning.roles import Prompt, RoleRules, Rule, gather
from llm_planning.roles.oracles import draw as draw_of
from llm_serving.answers import Constraint
from llm_serving.engine import draw
from llm_serving.name_matcher import NameMatcher
from llm_serving.patterns import finite_regex, or_words, repetition, sequence, words
from llm_serving.request import Message, Request, Sampling, ScoreRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.environments.household.belief import Prior
    from llm_planning.environments.household.home import Home
    from llm_planning.environments.household.rules import Rules
    from llm_planning.roles import Role
    from llm_serving.engine import Engine

StatePrior: TypeAlias = Literal["samples", "exact", "uniform"]
"""How the prior is found: M drawn answers a thing, the log-probabilities of all places, or none."""

ROLE: Final = "position"
"""The role under which the engine counts these questions."""

SAMPLES: Final = 50
TEMPERATURE: Final = 0.5
"""M and the temperature of the answers, as in the authors' code; the paper states neither."""

ANSWERS: Final = Sampling(temperature=TEMPERATURE)

FLOOR: Final = 1e-3
"""The least probability of a place (C.2). The rest is not normalised anew: a belief takes weights,
and normalises them over the places that were not seen."""

NEUTRAL: Final = ("thing", "object", "item")
"""Words for no thing in particular, which calibrate `exact`."""

KNOWN: Final = (
    ("strawberry", "inside the fridge"),
    ("shampoo", "inside the bathroom cabinet"),
    ("blanket", "on the bed"),
)
"""Examples of `exact`: things that no home of ours has, and their likeliest places."""

_POSITION: Final = finite_regex("(inside|on) the [a-z]{2,12}( [a-z]{2,12}){0,2}")


def language(home: Home) -> Constraint:
    """The language of one drawn answer: up to three positions such as "on the kitchen table".

    The name of the place is free, as in the paper. Odd names of the home can be written as well.
    """
    position = or_words(_POSITION, _positions(home))
    answer = sequence([position, repetition(sequence([words([", "]), position]), 0, 2)])
    return Constraint(answer.regex, answer.max_bytes)


def _positions(home: Home) -> list[str]:
    return [f"{place.relation} the {place.name}" for place in home.places]


@dataclass(frozen=True, slots=True)
class Where:
    """Where may a thing be?

    Attributes:
        thing: its name.
        sample: number of the answer, from 1; 0 asks for all probabilities at once.
    """

    thing: str
    sample: int = 0


async def state_prior(
    rules: Rules,
    kind: StatePrior,
    *,
    engine: Engine,
    oracle: Role[Where, Sequence[float]] | None = None,
    samples: int = SAMPLES,
    sampling: Sampling = ANSWERS,
    seed: int = 0,
) -> Prior:
    """b(s_0): where each thing of the goal may be; the others may be anywhere.

    All things are asked about at once, each of them once.

    Args:
        rules: of the home and the goal.
        kind: how it is found; `uniform` asks nobody.
        engine: answers; maps drawn answers to places by its embeddings.
        oracle: answers instead of the model, with weights of all places; see `position_role`.
        samples: M, the number of answers of `samples`.
        sampling: of these answers, but for its seed.
        seed: of these answers.

    Returns:
        Weights, shape [things][places]. Those of a thing of the goal are probabilities of at least
        `FLOOR`; the others are all 1.

    Raises:
        ServingError: the engine failed.
    """
    places = rules.home.places
    anywhere = (1.0,) * len(places)
    if kind == "uniform":
        return (anywhere,) * len(rules.things)
    things = rules.things[: rules.named]
    if oracle is not None:
        numbers = range(1, samples + 1) if kind == "samples" else (0,)
        weights = await gather(_by_oracle(oracle, thing, numbers) for thing in things)
    elif kind == "samples":
        # A home has one way to lie at each of its places, so their names say all.
        names = {place.name: place.name for place in places}
        matcher = await NameMatcher.build(names, embed=partial(engine.embed, role=ROLE))
        drawn = replace(sampling, seed=seed)
        weights = await gather(
            _drawn(rules.home, thing, engine=engine, matcher=matcher, m=samples, sampling=drawn)
            for thing in things
        )
    else:
        weights = await _exact(rules.home, things, engine=engine)
    return (*map(floored, weights), *(anywhere,) * (len(rules.things) - len(things)))


def floored(weights: Sequence[float]) -> tuple[float, ...]:
    """Weights as probabilities of at least `FLOOR` (C.2); shape [places]."""
    total = sum(weights)
    return tuple(max(weight / total, FLOOR) for weight in weights)


async def _by_oracle(
    oracle: Role[Where, Sequence[float]], thing: str, numbers: Sequence[int]
) -> Sequence[float]:
    answers = await gather(oracle(Where(thing, number)) for number in numbers)
    return [sum(weights) for weights in zip(*answers, strict=True)]


# A LANGUAGE MODEL --------------------------------------------------------------------------------


async def _drawn(
    home: Home, thing: str, *, engine: Engine, matcher: NameMatcher, m: int, sampling: Sampling
) -> Sequence[float]:
    """How often M answers name each place; an answer may name several."""
    request = Request(
        prompt=_prompt(home).messages({"thing": thing}),
        sampling=sampling,
        constraint=language(home),
        role=ROLE,
    )
    names = Counter(
        named(position)
        for answer in await draw(engine, request, m)
        for position in answer.text.split(", ")
    )
    nearest = await matcher.ranked(list(names), k=1)
    counts: Counter[str] = Counter()
    for number, (match,) in zip(names.values(), nearest, strict=True):
        counts[match.name] += number
    return [counts[place.name] for place in home.places]


def named(position: str) -> str:
    """The place of a position: "on the kitchen table" -> "kitchen table"."""
    return position.partition(" the ")[2]


async def _exact(home: Home, things: Sequence[str], *, engine: Engine) -> list[Sequence[float]]:
    """Probabilities of all places, shape [things][places]; see `calibrated`."""
    every = [*things, *NEUTRAL]
    positions = tuple(_positions(home))
    scores = await gather(
        engine.score(ScoreRequest(_likeliest(thing), positions, role=ROLE)) for thing in every
    )
    logprobs = [score.logprobs for score in scores]
    neutral = logprobs[len(things) :]
    return [calibrated(row, neutral) for row in logprobs[: len(things)]]


def calibrated(logprobs: Sequence[float], neutral: Sequence[Sequence[float]]) -> list[float]:
    """softmax_p of log p(place | thing) minus its mean over neutral words.

    A small model likes some places whatever is asked. What it says of a word such as "object" is
    what it says of nothing in particular.

    Source: Zhao et al., "Calibrate Before Use" (2021), for the idea.

    A place of which a neutral word is impossible is taken as it is.

    Args:
        logprobs: of the places, shape [places]; -inf where a place is impossible.
        neutral: the same of neutral words, shape [words][places].
    """
    return softmax(
        [
            logprob if isinf(usual := fmean(others)) else logprob - usual
            for logprob, others in zip(logprobs, zip(*neutral, strict=True), strict=True)
        ],
        temperature=1.0,
    )


def position_chat(home: Home, thing: str, kind: Literal["samples", "exact"]) -> tuple[Message, ...]:
    """The chat that asks for a sample, or for the `exact` likeliest place."""
    return _likeliest(thing) if kind == "exact" else _prompt(home).messages({"thing": thing})


def _likeliest(thing: str) -> tuple[Message, ...]:
    """The chat that asks for the likeliest place, after three answers about other things."""
    prompt = _likeliest_prompt()
    system, user = prompt.messages({"thing": thing})
    turns: list[Message] = []
    for other, answer in KNOWN:
        turns += [prompt.messages({"thing": other})[1], Message("assistant", answer)]
    return (system, *turns, user)


@cache
def _likeliest_prompt() -> Prompt:
    return Prompt([_source()], system=("likeliest",), user=("question",), constants={})


def _source() -> str:
    return (files(__package__) / "templates" / "position.j2").read_text("utf-8")


@cache
def _prompt(home: Home) -> Prompt:
    return Prompt(
        [_source()],
        system=("rules", "home", "examples"),
        user=("question",),
        constants={
            "rooms": home.rooms,
            "containers": [place.name for place in home.places if place.container],
            "surfaces": [place.name for place in home.places if not place.container],
        },
    )


# RULES -------------------------------------------------------------------------------------------


def position_role(rules: Rules, *, seed: int) -> RoleRules[Where, Sequence[float]]:
    """The role `position` by rules: the home's own law is right.

    A right sample is drawn by the law, and right probabilities are the law. A wrong answer is one
    place where the thing neither lies by the law nor is wanted, each alike: with errors that stay,
    always the same one.

    Args:
        rules: of the home and the goal.
        seed: of the right samples.
    """
    every = range(len(rules.home.places))

    def only(place: int) -> tuple[float, ...]:
        return tuple(float(other == place) for other in every)

    def right(question: Where) -> Sequence[float]:
        law = rules.law[rules.things.index(question.thing)]
        if not question.sample:
            return law
        return only(
            draw_of(seed, ROLE, "law", question.thing, question.sample).choices(every, law)[0]
        )

    def wrong(question: Where, rng: Random) -> Sequence[float] | None:
        thing = rules.things.index(question.thing)
        ends = {place for wanted, place, _ in rules.wanted if wanted == thing}
        others = [p for p in every if not rules.law[thing][p] and p not in ends]
        return only(rng.choice(others)) if others else None

    rule = Rule(right=right, wrong=wrong, situation=lambda question: (question.thing,))
    return RoleRules(name=ROLE, rule=rule)
