"""Exercises of the prior: which action leads to the goal, asked as `exact` or as `index` asks.

A state is drawn by `RuleWalks`, and asked about in one of these ways: answers about one state would
depend on each other. It is shown without its past, as PUCT shows it. The answer is the
likeliest action. It is right if the domain's rules advise it and it can be carried out (`leading`).
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from llm_planning.domain import Domain
from llm_planning.planners.any_domain.roles import ActWording, Situation
from llm_planning.priors import ROLE, Q, make_prior
from llm_planning.roles import RuleWalks, missing_for_rules, on_the_way
from llm_planning.roles.domain_rules import WALKED, leading
from llm_planning.roles.exercises import USUAL_WAY, WAY, Exercise, Grade
from llm_planning.search import argmax

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.priors import Wording
    from llm_planning.specs import DomainSpec
    from llm_serving.engine import Engine

LEFT: Final = ((3, "1 to 3 actions"), (7, "4 to 7 actions"))
"""Kinds of states by the length of the advice: the most actions of a kind, and its name."""

FAR: Final = "8 actions or more"
"""The kind of longer advice."""


class PriorExercises:
    """Makes exercises of the role `prior` in a domain with rules; see `ExerciseMaker`.

    Nothing is held out: asked for what is, it makes none.

    Args:
        spec: the domain. There are no exercises of a domain that lacks one of the members `WALKED`
            as a plain method, or that hides its state.

    Attributes:
        roles: `prior`, or none.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.any_domain.exercises import PriorExercises
        >>> from llm_planning.registry import find_domain
        >>> maker = PriorExercises(find_domain("minecraft"))
        >>> [one.said for one in maker.about_one_state(Random(3), roles=["prior"], held_out=False)]
        ['mine 3 oak_log']
    """

    taught_words = ""

    def __init__(self, spec: DomainSpec) -> None:
        told = "observe" if hasattr(spec.kind, "observe") else "describe"
        lacking = missing_for_rules(spec.kind, (*WALKED, told))
        hidden = hasattr(spec.kind, "belief")
        fits = not lacking and not hidden and not inspect.iscoroutinefunction(spec.open)
        self.roles: tuple[str, ...] = (ROLE,) if fits else ()
        self._spec = spec
        self._told = told
        self._walks = cache(self._open)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise of a drawn way of asking; see `ExerciseMaker`.

        Returns:
            The exercise; none if the state leaves no choice, or nothing leads on from it.
        """
        if held_out or ROLE not in roles or ROLE not in self.roles:
            return ()
        task = rng.choice(self._spec.tasks)
        world, wording, walks = self._walks(task)
        state = walks.state(rng)
        actions = tuple(map(str, world.actions(state)))
        right = leading(world, state, actions, seed=0)
        if not 0 < len(right) < len(actions):
            return ()
        situation = Situation((), getattr(world, self._told)(state), actions, state=state)
        best = next((str(one) for one in on_the_way(world, state) if str(one) in right), right[0])
        asked: Literal["exact", "index"] = rng.choice((USUAL_WAY, "index"))
        kinds = {WAY: asked, "left": left_kind(len(world.advise(state))), "task": task}
        return [
            prior_exercise(wording, situation, asked=asked, right=right, best=best, kinds=kinds)
        ]

    def _open(self, task: str) -> tuple[Any, ActWording, RuleWalks[Any, Any]]:
        world: Any = self._spec.open(task, self._spec.settings.read({}))
        if not isinstance(world, Domain):
            raise TypeError(f"{self._spec.name} opens no domain: open it with a plain function")
        rules: Any = world
        return rules, ActWording(world), RuleWalks(rules)


def left_kind(length: int) -> str:
    """The kind of a state by the actions that are left to the goal."""
    return next((name for most, name in LEFT if length <= most), FAR)


def prior_exercise(
    wording: Wording[Q],
    situation: Q,
    *,
    asked: Literal["exact", "index"],
    right: Sequence[str],
    best: str,
    kinds: dict[str, str],
    dashes: int = 1,
) -> Exercise:
    """An exercise of the role `prior`.

    Args:
        wording: of the question.
        situation: what it is about.
        asked: the way; with `index` the answers are numbers, but an engine may be asked in letters.
        right: the actions that are right, of the situation's.
        best: the one that is taught.
        kinds: as in `Exercise`.
        dashes: in the prompt of `exact`; an engine is asked with as many as fill its block.
    """
    actions = wording.actions(situation)
    numbers = tuple(map(str, range(1, len(actions) + 1)))
    exact = asked == "exact"
    answers = actions if exact else numbers
    meant = dict(zip(answers, actions, strict=True))

    async def ask(engine: Engine) -> str:
        prior = make_prior(asked, engine, wording=wording)
        return answers[argmax(await prior.logprobs(situation))]

    return Exercise(
        role=ROLE,
        prompt=(
            wording.action(situation, dashes=dashes) if exact else wording.label(situation, numbers)
        ),
        answer=answers[actions.index(best)],
        said=best,
        kinds=kinds,
        ask=ask,
        grade=lambda answer: Grade(meant[answer] in right, meant[answer]),
    )
