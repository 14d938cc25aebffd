"""Exercises of the role `goal`: instructions in several wordings, and what they want.

A reading is right if its predicates are those of the goal, in any order; each also counts on its
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.environments.household.domain import HOUSEHOLD
from llm_planning.environments.household.goals import (
    goal_text,
    listed,
    told_count,
)
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import CLASSES, TaskMaker
from llm_planning.planners.llm_mcts.interpretation import (
    ROLE,
    Formal,
    Instruction,
    answer_model,
    formal,
    goal_role,
)
from llm_planning.roles.exercises import Grade, exercise_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.environments.household.goals import Wanted
    from llm_planning.environments.household.home import Home
    from llm_planning.roles.exercises import Exercise, ExerciseMaker, Words
    from llm_planning.specs import DomainSpec


def _joined(form: str) -> Callable[[Sequence[Wanted], Home], str]:
    """Writes each predicate in a form, and lists them."""

    def write(goal: Sequence[Wanted], home: Home) -> str:
        relation = {place.name: place.relation for place in home.places}
        told = listed(
            form.format(what=told_count(one.number, one.thing), there=relation[one.place], one=one)
            for one in goal
        )
        return f"{told[0].upper()}{told[1:]}."

    return write


WORDINGS: Final[Mapping[str, Callable[[Sequence[Wanted], Home], str]]] = {
    "as tasks say it": goal_text,
    "wishes": _joined("I want {what} {there} the {one.place}"),
    "places first": _joined("{there} the {one.place} goes {what}"),
    "belongings": _joined("the {one.thing} belongs {there} the {one.place}"),
}
"""Kind of wording -> how it says a goal; tasks want one thing of a name."""


class GoalExercises:
    """Makes exercises of the role `goal` at home; see `ExerciseMaker`.

    Tasks are of all classes, in the home `seen`; where something is to be new, in `unseen`.
    """

    roles: tuple[str, ...] = (ROLE,)
    taught_words = ""

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise about a drawn task in a drawn wording; see `ExerciseMaker`."""
        if ROLE not in roles:
            return ()
        home = bundled_home("unseen" if held_out else "seen")
        task = TaskMaker(home).task(rng.choice(CLASSES), 1, seed=rng.getrandbits(32))
        wording = rng.choice(tuple(WORDINGS))
        goal = task.rules.goal
        return [_exercise(goal, home, wording=wording)]


def _exercise(goal: tuple[Wanted, ...], home: Home, *, wording: str) -> Exercise:
    role = goal_role(home)

    def grade(said: Formal) -> Grade:
        read = said.wanted()
        counts = (len({*read} & {*goal}), len({*read, *goal}))
        return Grade(set(read) == set(goal), role.brief(read), counts)

    return exercise_of(
        role,
        Instruction(WORDINGS[wording](goal, home), goal),
        answer_model(home)(goal=formal(goal)),
        kinds={"wording": wording, "predicates": str(len(goal))},
        grade=grade,
    )


def goal_exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:  # noqa: ARG001
    """The exercises of `goal` in a domain; every model is asked in the same words."""
    return GoalExercises() if domain.name == HOUSEHOLD.name else None
