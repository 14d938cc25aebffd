"""Exercises of the prior: which action leads to the goal, asked as `exact` or as `index` asks.

A state is drawn by `RuleWalks`, and asked about in one of these ways: answers about one state would
depend on each other. It is shown without its past, as PUCT shows it. The answer is the
likeliest action. It is right if the domain's rules advise it and it can be carried out (`leading`).

In the short words of a taught model, a domain with a teacher is asked about its situations, as the
roles of other planners are, for several goals each.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from llm_planning.domain import Believes, Domain, Observes
from llm_planning.own_code import is_ours
from llm_planning.planners.any_domain.roles import ActWording, ShortActing
from llm_planning.planners.any_domain.roles import Situation as Decision
from llm_planning.priors import ROLE, Q, make_prior
from llm_planning.roles import RuleWalks, missing_for_rules, on_the_way
from llm_planning.roles.domain_rules import WALKED, leading
from llm_planning.roles.exercises import (
    SEEN,
    USUAL_WAY,
    WAY,
    Exercise,
    Grade,
    short_words,
    situation_of,
    unit,
)
from llm_planning.search import argmax
from llm_serving.engine import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from llm_planning.planners.any_domain.trace_exercises import TracedPrior
    from llm_planning.priors import Wording
    from llm_planning.roles.exercises import Situation, Teacher, Words
    from llm_planning.specs import DomainSpec
    from llm_planning.viewer.reading import ReadTrace
    from llm_serving.engine import Engine

IMPORTANCE: Final = 3.0
"""Weight of lessons in short words in the loss: acting is learned last."""

LEFT: Final = ((3, "1 to 3 actions"), (7, "4 to 7 actions"))
"""Kinds of states by the length of the advice: the most actions of a kind, and its name."""

FAR: Final = "8 actions or more"
"""The kind of longer advice."""


def why_none(spec: DomainSpec) -> str | None:
    """Why a domain has no exercises of the prior, and what to add; None if it has."""
    if issubclass(spec.kind, Believes):
        return "it hides its state (it has a belief), which its rules would give away"
    seeing = "observe" if issubclass(spec.kind, Observes) else "describe"
    if lacking := missing_for_rules(spec.kind, (*WALKED, seeing)):
        return f"its rules know no right answers; add {', '.join(lacking)} as plain methods"
    if spec.held_out:
        return "it has no teacher, and walks go everywhere, also where something is held out"
    return "it is opened by a coroutine" if inspect.iscoroutinefunction(spec.open) else None


class PriorExercises:
    """Makes exercises of the role `prior` in a domain with rules; see `ExerciseMaker`.

    Nothing is held out, unless by a teacher: asked for what is, it makes none.

    Args:
        words: in which the role is asked; only a domain with a teacher has short ones.
        spec: the domain. There are no exercises of a domain that lacks one of the members `WALKED`
            as a plain method, that hides its state, or that leaves something out without a teacher:
            walks go everywhere.

    Attributes:
        roles: `prior`, or none.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.any_domain.exercises import PriorExercises
        >>> from llm_planning.registry import find_domain
        >>> maker = PriorExercises(find_domain("minecraft"))
        >>> made = maker.about_one_state(Random(3), roles=["prior"], held_out=False)
        >>> [exercise.brief for exercise in made]
        ['mine 3 oak_log']
    """

    def __init__(self, spec: DomainSpec, *, words: Words = "general") -> None:
        self.roles: tuple[str, ...] = () if why_none(spec) else (ROLE,)
        self._spec = spec
        self._walks = cache(self._open)
        self._teacher = None if spec.teacher is None or words == "general" else spec.teacher(None)

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        return "" if self._teacher is None else short_words(self._teacher)

    def from_traces(self, traces: Iterable[ReadTrace]) -> TracedPrior:
        """The same exercises, taught by searches; see `LearnsFromTraces`."""
        from llm_planning.planners.any_domain.trace_exercises import TracedPrior

        return TracedPrior(self, self._spec, traces)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise of a drawn way of asking; see `ExerciseMaker`.

        Returns:
            The exercise; none if the state leaves no choice, or nothing leads on from it.
        """
        if ROLE not in roles or ROLE not in self.roles:
            return ()
        if self._teacher is not None:
            here = situation_of(self._teacher, rng, held_out=held_out)
            return list(self._of_situation(here, self._teacher, rng))
        if held_out:
            return ()
        task = rng.choice(self._spec.tasks)
        world, wording, walks = self._walks(task)
        state = walks.state(rng)
        actions = tuple(map(str, world.actions(state)))
        right = leading(world, state, actions, seed=0)
        if not 0 < len(right) < len(actions):
            return ()
        situation = Decision((), _seen(world, state), actions, state=state)
        best = next(
            (str(action) for action in on_the_way(world, state) if str(action) in right), right[0]
        )
        way: Literal["exact", "index"] = rng.choice((USUAL_WAY, "index"))
        kinds = {WAY: way, "left": left_kind(len(world.advise(state))), "task": task}
        return [prior_exercise(wording, situation, way=way, right=right, best=best, kinds=kinds)]

    def _of_situation(
        self, situation: Situation[Any, Any], teacher: Teacher[Any, Any], rng: Random
    ) -> Iterator[Exercise]:
        for world in situation.domains:
            best = _best(world, situation.state)
            if best is None or not (situation.new or teacher.option_kind(best) == SEEN):
                continue
            kinds = {
                WAY: USUAL_WAY,
                "left": left_kind(len(world.advise(situation.state))),
                "goal": teacher.goal_kind(world),
            }
            yield self.in_short(
                world, situation.state, best, dashes=rng.randint(1, BLOCK), kinds=kinds
            )

    def in_short(
        self,
        world: Any,  # noqa: ANN401 - one of a situation's domains
        state: Any,  # noqa: ANN401 - of the world
        best: Any,  # noqa: ANN401 - an action
        *,
        dashes: int,
        kinds: dict[str, str],
    ) -> Exercise:
        """An exercise in short words; which actions are right is found when an answer is graded.

        Args:
            world: where it is asked; it has short words.
            best: the action that is taught.
            dashes: in the prompt, from 1 to the engine's `BLOCK`.
        """
        wording = ShortActing(world)
        situation = Decision((), _seen(world, state), (str(best),), state=state)

        async def ask(engine: Engine) -> str:
            actions = tuple(map(str, world.actions(state)))
            prior = make_prior(USUAL_WAY, engine, wording=wording)
            return actions[argmax(await prior.logprobs(replace(situation, actions=actions)))]

        def grade(answer: str) -> Grade:
            actions = tuple(map(str, world.actions(state)))
            return Grade(answer in leading(world, state, actions, seed=0), answer)

        return Exercise(
            role=ROLE,
            prompt=wording.action(situation, dashes=dashes),
            answer=str(best),
            brief=str(best),
            kinds=kinds,
            importance=IMPORTANCE,
            ask=ask,
            grade=grade,
        )

    def _open(self, task: str) -> tuple[Any, ActWording, RuleWalks[Any, Any]]:
        world: Any = self._spec.open(task, self._spec.settings.read({}))
        if not isinstance(world, Domain):
            raise TypeError(f"{self._spec.name} opens no domain: open it with a plain function")
        if world.wording and not is_ours(world):
            from llm_planning.planners.wording import check_wording

            check_wording(world)
        rules: Any = world
        return rules, ActWording(world), RuleWalks(rules)


def _seen(world: Any, state: Any) -> Any:  # noqa: ANN401 - as `observed`, of plain methods
    return world.observe(state) if isinstance(world, Observes) else world.describe(state)


def _best(world: Any, state: Any) -> Any:  # noqa: ANN401
    """The first advised action that leads on; in another quantity, if actions have no such one.

    None if there is none, or nothing to choose from.
    """
    actions = world.actions(state)
    for advised in on_the_way(world, state) if len(actions) > 1 else ():
        alike = [action for action in actions if unit(action) == unit(advised)]
        if advised in alike:
            alike = [advised]
        right = leading(world, state, tuple(map(str, alike)), seed=0)
        if right:
            return next(action for action in reversed(alike) if str(action) in right)
    return None


def left_kind(length: int) -> str:
    """The kind of a state by the actions that are left to the goal."""
    return next((name for most, name in LEFT if length <= most), FAR)


def prior_exercise(
    wording: Wording[Q],
    situation: Q,
    *,
    way: Literal["exact", "index"],
    right: Sequence[str],
    best: str,
    kinds: dict[str, str],
    dashes: int = 1,
) -> Exercise:
    """An exercise of the role `prior`.

    Args:
        way: of asking; with `index` answers are numbers, but an engine may be asked in letters.
        right: the actions that are right, of the situation's.
        best: the one that is taught.
        dashes: in the prompt of `exact`; an engine is asked with as many as fill its block.
    """
    actions = wording.actions(situation)
    numbers = tuple(map(str, range(1, len(actions) + 1)))
    exact = way == "exact"
    answers = actions if exact else numbers
    meant = dict(zip(answers, actions, strict=True))

    async def ask(engine: Engine) -> str:
        prior = make_prior(way, engine, wording=wording)
        return answers[argmax(await prior.logprobs(situation))]

    return Exercise(
        role=ROLE,
        prompt=(
            wording.action(situation, dashes=dashes) if exact else wording.label(situation, numbers)
        ),
        answer=answers[actions.index(best)],
        brief=best,
        kinds=kinds,
        ask=ask,
        grade=lambda answer: Grade(meant[answer] in right, meant[answer]),
    )
