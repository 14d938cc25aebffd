"""Exercises whose answers can be computed: whether a number is even; no test module itself."""

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from catalogues import listed
from pydantic import BaseModel

from llm_planning.planners.catalogue import PLANNERS
from llm_planning.roles.exercises import Exercise, Grade
from llm_serving.answers import constraint_of
from llm_serving.request import Message, Request, Sampling

FIRST_HELD_OUT = 1000
"""Greater numbers are held out."""

VERDICTS = {
    "feasibility": ("feasible", "infeasible"),
    "dynamics": ("feasible", "infeasible"),
    "termination": ("done", "not done"),
}
"""Role -> the verdicts of its questions about even and about odd numbers."""


class Parity(BaseModel):
    """A model's answer."""

    parity: Literal["even", "odd"]


CONSTRAINT = constraint_of(Parity)


def parity(number):
    return "odd" if number % 2 else "even"


def number_in(request):
    """The number that a request asks about; a scripted engine's tokens are bytes."""
    ids = getattr(request.prompt, "token_ids", None)
    text = (
        str(request.prompt)
        if ids is None
        else bytes(token for token in ids if token < 256).decode()
    )
    return int(re.search(r"Is (\d+) even", text)[1])


def written(word):
    """An answer as a model writes it."""
    return f'{{"parity":"{word}"}}'


def exercise(role, number):
    prompt = (
        Message("system", f"You know numbers ({role}). Say whether the number is even or odd."),
        Message("user", f"Is {number} even or odd?"),
    )

    async def ask(engine):
        request = Request(
            prompt=prompt, sampling=Sampling(temperature=0.0), constraint=CONSTRAINT, role=role
        )
        return (await engine.generate(request)).text

    def grade(answer):
        answered = Parity.model_validate_json(answer).parity
        return Grade(answered == parity(number), answered)

    kinds = {"size": "large" if number % 1000 >= 500 else "small", "kind": "number"}
    if role in VERDICTS:
        kinds["verdict"] = VERDICTS[role][number % 2]
    return Exercise(
        role=role,
        prompt=prompt,
        answer=written(parity(number)),
        brief=parity(number),
        kinds=kinds,
        ask=ask,
        grade=grade,
    )


@dataclass
class ParityMaker:
    """Asks about five numbers in a row; a drawn first number is the state."""

    roles: tuple = ("parity",)
    seen: int = FIRST_HELD_OUT
    held_out: int = FIRST_HELD_OUT
    taught_words: str = ""
    states: Counter = field(default_factory=Counter)

    def about_one_state(self, rng, *, roles, held_out):
        size = self.held_out if held_out else self.seen
        self.states[held_out] += 1
        if not size:
            return []
        first = 5 * rng.randrange(size // 5) + FIRST_HELD_OUT * held_out
        return [
            exercise(role, number)
            for role in roles
            if role in self.roles
            for number in range(first, first + 5)
        ]


def exercises(domain, words):
    """`PlannerSpec.exercises` of all roles of Tree of Options."""
    assert (domain.name, words) == ("minecraft", "general")
    return ParityMaker(("propose", "feasibility", "repair", "dynamics", "reward", "termination"))


def only(monkeypatch, **makers):
    """Leaves these planners alone with exercises: name, with _ for -, -> function."""
    for name, spec in PLANNERS.items():
        make = makers.get(name.replace("-", "_"))
        listed(monkeypatch, PLANNERS, name, replace(spec, exercises=make))
