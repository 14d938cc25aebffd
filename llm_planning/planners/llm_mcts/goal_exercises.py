"""Exercises of the role `goal`: instructions in several wordings, and what they want.

A reading is right if its predicates are those of the goal, in any order; each also counts on its
own. Tasks are of the home `seen`; where something is to be new, of `unseen`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from llm_planning.environments.household.goals import (
    goal_text,
    listed,
    told_count,
)
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import CLASSES, TaskMaker
from llm_planning.planners.llm_mcts.exercises import HomeExercises
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
    from llm_planning.roles.exercises import Exercise


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


class GoalExercises(HomeExercises):
    """Makes exercises of the role `goal`."""

    roles = (ROLE,)

    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes an exercise about a drawn task of any class, in a drawn wording."""
        home = bundled_home("unseen" if held_out else "seen")
        task = TaskMaker(home).task(rng.choice(CLASSES), 1, seed=rng.getrandbits(32))
        wording = rng.choice(tuple(WORDINGS))
        goal = task.rules.goal
        role = goal_role(home)

        def grade(said: Formal) -> Grade:
            read = said.wanted()
            counts = (len({*read} & {*goal}), len({*read, *goal}))
            return Grade(set(read) == set(goal), role.brief(read), counts)

        question = Instruction(WORDINGS[wording](goal, home), goal)
        answer = answer_model(home)(goal=formal(goal))
        kinds = {"wording": wording, "predicates": str(len(goal))}
        return [exercise_of(role, question, answer, kinds=kinds, grade=grade)]
