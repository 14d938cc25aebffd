"""Exercises of the prior from traces of searches: expert iteration (Anthony et al. 2017).

A search looks further than the π that guided it, so it can teach that π. A lesson is a decision:
the state before a real move, and what the search found out about its actions. A trace has no state
that could be read again, so the moves are taken once more, in the world that the header names. A
trace whose moves go otherwise now is refused.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_base.quoting import first_fault, quote
from llm_planning.domain import Domain
from llm_planning.execution.episode import world_draws
from llm_planning.planners.any_domain.exercises import IMPORTANCE
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.priors import ROLE
from llm_planning.roles.exercises import SEEN, USUAL_WAY, WAY
from llm_planning.roles.short import words_of
from llm_planning.specs import check_task, choose
from llm_planning.trace_file import TraceError, summary_of
from llm_serving.engine import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from random import Random

    from llm_planning.planners.any_domain.exercises import PriorExercises
    from llm_planning.roles.exercises import Exercise, Teacher
    from llm_planning.specs import DomainSpec
    from llm_planning.viewer.reading import ReadTrace

_ROUNDING: Final = 1e-9
"""Means of equal values differ by less."""

ReadT = TypeVar("ReadT", bound=BaseModel)


class _Read(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class _Run(_Read):
    """What was run, of a trace's header."""

    planner: str
    domain: str
    task: str
    seed: int
    settings: dict[str, Any]


class Tried(_Read):
    """An action of a searched state.

    Attributes:
        action: as it is written.
        N: its visits.
        Q: the mean return of these.
    """

    action: str
    N: int = Field(ge=0)
    Q: float


class _Move(_Read):
    """A real move of a trace, with what was searched before it."""

    action: str
    reward: float
    text: str
    options: list[Tried] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Searched:
    """A decision that teaches.

    Attributes:
        state: the root of the search.
        shares: action -> its share of the lesson; they sum to 1.
    """

    world: Any
    state: Any
    shares: Mapping[Any, float]


class TracedPrior:
    """Makes exercises of the role `prior` from decisions of traces; see `ExerciseMaker`.

    What the world holds out is left out, and so are decisions in which no action stands out. The
    exam is that of the rules.

    Args:
        rules: the maker of the exam, and of the words.
        spec: the domain; it has a teacher.
        traces: of searches before every move in it.

    Attributes:
        roles: `prior`.
        held_out: the number of decisions that the world holds out.
        level: the number of decisions in which no action stands out.

    Raises:
        TraceError: a trace is of another planner, world or language, or damaged; or there is no
            decision to teach.
        ValueError: a trace's settings or its task are not possible.
    """

    def __init__(
        self, rules: PriorExercises, spec: DomainSpec, traces: Iterable[ReadTrace]
    ) -> None:
        self.roles = (ROLE,)
        self.held_out = self.level = 0
        self._rules = rules
        self._decisions: list[Searched] = []
        teacher = spec.teacher and spec.teacher(None)
        if not teacher:
            raise TraceError(
                f"{spec.name} has no short words of {ROLE}: only worlds with a teacher learn from "
                "traces"
            )
        for trace in traces:
            self._add(trace, spec, teacher)
        if not self._decisions:
            raise TraceError(
                f"no decision to teach ({self.counts_text}): name traces of other problems, or of "
                "longer searches"
            )

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked."""
        return self._rules.taught_words

    @property
    def decisions(self) -> Sequence[Searched]:
        """Those that teach, in the order of the traces."""
        return self._decisions

    @property
    def counts_text(self) -> str:
        """How many decisions there are of each kind."""
        return (
            f"{len(self._decisions)} decisions teach, {self.held_out} are held out, "
            f"in {self.level} no action stands out"
        )

    def digest(self) -> str:
        """SHA-256 of all lessons, in hexadecimal."""
        lessons = [
            (decision.world.goal, decision.world.brief(decision.state), *decision.shares.items())
            for decision in self._decisions
        ]
        return hashlib.sha256(str(lessons).encode()).hexdigest()

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise of every action with a share in a drawn decision; see `ExerciseMaker`.

        The importance of each is its share, so that their losses sum to the cross-entropy of π
        with the search. They have one prompt, and a batch computes it once.
        """
        if held_out:
            return self._rules.about_one_state(rng, roles=roles, held_out=True)
        if ROLE not in roles:
            return ()
        decision = rng.choice(self._decisions)
        dashes = rng.randint(1, BLOCK)
        return [
            replace(
                self._rules.in_short(
                    decision.world, decision.state, action, dashes=dashes, kinds={WAY: USUAL_WAY}
                ),
                importance=IMPORTANCE * share,
            )
            for action, share in decision.shares.items()
        ]

    def _add(self, trace: ReadTrace, spec: DomainSpec, teacher: Teacher[Any, Any]) -> None:
        for decided in _replayed(trace, spec, self.taught_words):
            if teacher.is_held_out(decided.world, decided.state):
                self.held_out += 1
                continue
            kept = {
                action: share
                for action, share in decided.shares.items()
                if teacher.option_kind(action) == SEEN
            }
            total = sum(kept.values())
            if not total:
                self.level += 1
                continue
            shares = {action: share / total for action, share in kept.items()}
            self._decisions.append(replace(decided, shares=shares))


def shares_of(options: Sequence[Tried]) -> dict[str, float]:
    """What a search teaches of a state: action -> its share; the shares sum to 1.

    A share is proportional to N (Q - V) of the actions with Q > V, the mean of all simulations: the
    visits, by how much better than the search as a whole the action is. It is the positive part of
    the policy gradient at the search's own policy, as in self-imitation (Oh et al. 2018). Visits
    alone would teach where nothing was found, and UCT visits every action in any case.

    Returns:
        Nothing if no action is better than others.

    Example:
        >>> from llm_planning.planners.any_domain.trace_exercises import Tried, shares_of
        >>> tried = [("a", 6, 0.9), ("b", 2, 0.7), ("c", 2, 0.1)]
        >>> found = shares_of([Tried(action=a, N=n, Q=q) for a, n, q in tried])
        >>> {action: round(share, 3) for action, share in found.items()}
        {'a': 1.0}
    """
    visits = sum(option.N for option in options)
    value = sum(option.N * option.Q for option in options) / max(visits, 1)
    weights = {option.action: option.N * (option.Q - value) for option in options}
    better = {action: weight for action, weight in weights.items() if weight > _ROUNDING}
    total = sum(better.values())
    return {action: weight / total for action, weight in better.items()}


def _replayed(trace: ReadTrace, spec: DomainSpec, words: str) -> Iterator[Searched]:
    """The decisions of a trace, with the states in which they were made.

    Args:
        spec: the domain in which it should be.
        words: hash of the words that are taught.
    """
    name = trace.name
    if trace.damage:
        raise TraceError(f"{name}: {trace.damage[0]} Restore it, or leave it out.")
    run = _read(_Run, trace.header, f"{name}: its header")
    if run.domain != spec.name:
        raise TraceError(
            f"{name}: domain {quote(run.domain)} is another world than {spec.name}: leave it out"
        )
    check_task(run.task, known=spec.tasks, of=spec.name)
    # Only those of this project: a trace may be somebody else's, and must not name code to load.
    planner = PLANNERS.get(run.planner)
    if planner is None:
        raise TraceError(
            f"{name}: planner {quote(run.planner)} is none of this project: leave it out"
        )
    opened: Any = spec.open(run.task, choose(planner, spec, run.settings).domain)
    if not isinstance(opened, Domain) or words_of(opened) != words:
        words = opened.mechanics if isinstance(opened, Domain) else "several problems"
        raise TraceError(
            f"{name}: its world ({quote(words)}) has other words than {spec.name} is taught in: "
            "leave it out"
        )
    world: Any = opened
    moves = summary_of(trace.events).get("moves", [])
    state, draws = world.start(run.seed), world_draws(run.seed)
    for number, line in enumerate(moves, 1):
        move = _read(_Move, line, f"{name}: move {number}")
        actions = {str(action): action for action in world.actions(state)}
        shares = shares_of(move.options)
        step = None
        if {option.action for option in move.options} == actions.keys() and move.action in actions:
            step = world.step(state, actions[move.action], draws)
        if step is None or (step.reward, step.text) != (move.reward, move.text):
            raise TraceError(
                f"{name}: move {number}, {quote(move.action)}, does not go in this world as the "
                "trace says: search again with this version"
            )
        yield Searched(world, state, {actions[action]: share for action, share in shares.items()})
        state = step.state


def _read(kind: type[ReadT], value: object, where: str) -> ReadT:
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise TraceError(
            f"{where}: {first_fault(error)}; name traces of a search before every move, such as "
            "that of puct"
        ) from error
