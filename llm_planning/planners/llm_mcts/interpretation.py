"""What does an instruction want? A language model's reading of it, or that of rules.

Source: LLM-MCTS, Section 2.2 and Listing 3. A goal that is read wrongly is another goal: the agent
plans for it in a home of its own mind (`as_read`), and the real home decides whether it succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.household.goals import (
    GoalError,
    Wanted,
    check_goal,
    goal_predicates,
)
from llm_planning.environments.household.observations import Observation
from llm_planning.environments.household.rules import Rules
from llm_planning.environments.household.tasks import Task
from llm_planning.roles import Items, Prompt, RoleSpec, Rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.home import Home

ROLE: Final = "goal"
"""The role under which the engine counts these questions."""

MOST: Final = 4
"""The most predicates that a model writes."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """What does an instruction want?

    Attributes:
        text: in the user's own words.
        goal: what it wants. Rules read it; no prompt shows it.
    """

    text: str
    goal: tuple[Wanted, ...] = field(compare=False, repr=False)


class Formal(BaseModel):
    """A goal as a model writes it: (number, thing, place) of each predicate.

    The place decides between `Inside` and `On`.
    """

    goal: list[tuple[int, str, str]]

    def wanted(self) -> tuple[Wanted, ...]:
        """The predicates; what is said again about a thing and a place is left out."""
        predicates: dict[tuple[str, str], Wanted] = {}
        for number, thing, place in self.goal:
            predicates.setdefault((thing, place), Wanted(thing, place, number))
        return tuple(predicates.values())


def formal(goal: Iterable[Wanted]) -> list[tuple[int, str, str]]:
    """Predicates as an answer writes them."""
    return [(wanted.number, wanted.thing, wanted.place) for wanted in goal]


@cache
def answer_model(home: Home) -> type[Formal]:
    """The answers about a home: up to `MOST` predicates of its things and places."""
    thing: Any = Literal[home.things]
    place: Any = Literal[tuple(place.name for place in home.places)]
    number: Any = Annotated[int, Field(ge=1, le=max(home.number))]
    goal: Any = Annotated[list[tuple[number, thing, place]], Field(min_length=1, max_length=MOST)]
    return create_model(Formal.__name__, __base__=Formal, __doc__=Formal.__doc__, goal=(goal, ...))


@cache
def _prompt(home: Home) -> Prompt:
    return Prompt(
        [(files(__package__) / "templates" / "goal.j2").read_text("utf-8")],
        system=("rules", "names", "examples"),
        user=("instruction",),
        constants={"things": home.things, "places": [place.name for place in home.places]},
    )


def goal_role(home: Home) -> RoleSpec[Instruction, tuple[Wanted, ...]]:
    """The role `goal`: predicates of what the home has.

    The home may not be able to meet those of a model; see `as_read`. By rules, a wrong answer has
    another thing or another place in one of the predicates, so that the home can still meet the
    goal. Item by item, each predicate errs by itself.
    """

    def wrong(question: Instruction, rng: Random) -> tuple[Wanted, ...] | None:
        return misread(question.goal, rng.randrange(len(question.goal)), home, rng)

    def spoil(
        question: Instruction, goal: tuple[Wanted, ...], name: object, rng: Random
    ) -> tuple[Wanted, ...]:
        return misread(goal, _names(question).index(str(name)), home, rng) or goal

    return RoleSpec(
        name=ROLE,
        asks=Instruction,
        prompt=partial(_prompt, home),
        values_of=lambda question: {"text": question.text},
        writes=partial(answer_model, home),
        read=lambda _, written: written.wanted(),
        rule=Rule(
            right=lambda question: question.goal,
            wrong=wrong,
            situation=lambda question: (question.text,),
            items=Items(names=_names, spoil=spoil),
        ),
        brief=lambda goal: goal_predicates(goal, home),
    )


def _names(question: Instruction) -> list[str]:
    return [f"{wanted.thing} {wanted.place}" for wanted in question.goal]


def misread(
    goal: Sequence[Wanted], number: int, home: Home, rng: Random
) -> tuple[Wanted, ...] | None:
    """A goal with another thing or another place in one predicate.

    Args:
        number: of the predicate, from 0.
        home: can meet the new goal as well.
        rng: draws whether it is the thing or the place, and which.

    Returns:
        The new goal; None if the home can meet none.
    """
    old = goal[number]
    others = (
        [old._replace(thing=thing) for thing in home.things if thing != old.thing],
        [old._replace(place=place.name) for place in home.places if place.name != old.place],
    )
    for changed in rng.sample(others, 2):
        for other in rng.sample(changed, len(changed)):
            new = (*goal[:number], other, *goal[number + 1 :])
            if len({(w.thing, w.place) for w in new}) == len(new) and _possible(new, home):
                return new
    return None


def _possible(goal: Sequence[Wanted], home: Home) -> bool:
    try:
        check_goal(goal, home)
    except GoalError:
        return False
    return True


# A GOAL THAT IS READ WRONGLY ---------------------------------------------------------------------


def as_read(world: KnownHousehold, goal: Sequence[Wanted]) -> KnownHousehold:
    """The home as an agent sees it that has read a goal; the real home itself, if it is that goal.

    Its rules number things in another order, so `translated` puts observations into its numbers.
    Actions name what they are about, so they are the same in both.

    Args:
        world: the real home.
        goal: as it was read.

    Raises:
        GoalError: the home cannot meet the goal; the message says why.
    """
    real = world.rules
    if set(goal) == set(real.goal):
        return world
    number_of = dict(zip(real.things, real.number, strict=True))
    home = replace(real.home, number=tuple(number_of[name] for name in real.home.things))
    rules = Rules(home, goal, hands=real.hands, limit=real.limit)
    to = _numbers(real, rules)
    start = world.start(0)
    start = start._replace(held=to(start.held), places=tuple(map(to, start.places)))
    return world.with_task(Task(name=f"{home.name}, as read", rules=rules, start=start))


def reached_as_read(belief: Belief) -> str | None:
    """Why an agent stops that has seen its goal reached; None if it has not.

    Args:
        belief: the agent's, with the rules of the goal as it was read.
    """
    rules = belief.rules
    for thing, place, number in rules.wanted:
        if (belief.seen[place] or ()).count(thing) < number:
            return None
    read = goal_predicates(rules.goal, rules.home)
    return f"the instruction was read as {read}, and so it is done"


def translated(observation: Observation, real: Rules, rules: Rules) -> Observation:
    """An observation of the real home in the numbers of other rules.

    Args:
        observation: in the numbers of the real home's rules.
        real: these rules.
        rules: of the same home and another goal.
    """
    if rules is real:
        return observation
    to = _numbers(real, rules)
    shown = tuple((place, to(things)) for place, things in observation.shown)
    return Observation(
        room=observation.room,
        at=observation.at,
        held=to(observation.held),
        wanted=tuple((p, thing) for p, things in shown for thing in things if thing < rules.named),
        shown=shown,
    )


def _numbers(real: Rules, rules: Rules) -> Callable[[Iterable[int]], tuple[int, ...]]:
    """Maps things of the one rules to those of the other, in order."""
    number = {name: at for at, name in enumerate(rules.things)}
    to = [number[name] for name in real.things]
    return lambda things: tuple(sorted(to[thing] for thing in things))
