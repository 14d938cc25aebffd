"""Exercises: questions of a planner's roles with their right answers, to measure and to teach.

A domain with rules knows what is right, so it can make as many exercises as one likes. Each is
asked in the planner's own words, through the same engine and the same constraint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence  # noqa: TC003 (type aliases)
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    Protocol,
    TypeAlias,
    runtime_checkable,
)

from llm_planning.domain import A, S
from llm_planning.roles.llm import AnswerT, QuestionT, parts_of_chat
from llm_planning.roles.short import words_of
from llm_serving.answers import compact, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from llm_planning.domain import Judged
    from llm_planning.roles.asking import RoleSpec
    from llm_planning.viewer.reading import ReadTrace
    from llm_serving.engine import Engine
    from llm_serving.request import Message


Words: TypeAlias = Literal["general", "taught"]
"""The words in which a role is asked: those for any model, or those for a model that was taught."""

GENERAL_WORDS: Final = hashlib.sha256(b"").hexdigest()
"""The hash on the card of a model that was taught in the words in which any model is asked."""

VERDICT = "verdict"
"""The aspect of `Exercise.kinds` that says what is right, if an oracle errs by that."""

WAY: Final = "asked"
USUAL_WAY: Final = "exact"
"""The aspect that says how a role is asked, if there are several ways, and what planners do."""

STATE: Final = "state"
STATE_SHOWN: Final = "shown"
STATE_UNPREDICTED: Final = "s_0 and the options since"
"""The aspect that says whether a question tells the state, and its values."""

SEEN: Final = "seen"
HELD_OUT: Final = "held out"
"""Kinds of goals, options and states: whether teaching may use them or leaves them out."""


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer is worth.

    Attributes:
        brief: the answer in a few words, such as a verdict or an option, to count confusions.
        items: the right ones among its items, and all of them, if each is right or wrong on its
            own; None for an answer without items.
        invented: whether it names what does not exist; None for an answer that cannot.
    """

    right: bool
    brief: str
    items: tuple[int, int] | None = None
    invented: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """A question of one role with its right answer.

    Attributes:
        prompt: the chat that the model reads.
        answer: the right answer as a model writes it; of several right answers the best.
        brief: the right answer in a few words, as in `Grade`.
        kinds: what the question is about: aspect -> its value, such as verdict -> feasible or
            goal -> held out. Every exercise of one role has the same aspects.
        importance: in teaching, multiplies its weight in the loss.
        ask: asks an engine, as the planner does, and returns its answer as text.
    """

    role: str
    prompt: tuple[Message, ...]
    answer: str
    brief: str
    kinds: Mapping[str, str] = field(default_factory=dict)
    importance: float = 1.0
    ask: Callable[[Engine], Awaitable[str]]
    grade: Callable[[str], Grade]


def exercise_of(
    spec: RoleSpec[QuestionT, AnswerT],
    question: QuestionT,
    answer: BaseModel,
    *,
    kinds: Mapping[str, str],
    brief: str = "",
    importance: float = 1.0,
    grade: Callable[[Any], Grade] | None = None,
) -> Exercise:
    """An exercise of a role.

    Args:
        answer: the right answer, in the form that a model writes.
        brief: the right answer in a few words; by default the role's own.
        grade: grades what a model wrote; by default an answer is right that is the same as the
            right one.
    """
    right = spec.read(question, answer)
    written = spec.writes()

    def same(other: BaseModel) -> Grade:
        given = spec.read(question, other)
        return Grade(spec.same is not None and spec.same(given, right), spec.brief(given))

    async def ask(engine: Engine) -> str:
        return compact(await spec.by(engine)(question))

    return Exercise(
        role=spec.name,
        prompt=spec.prompt().messages(spec.values_of(question)),
        answer=compact(answer),
        brief=brief or spec.brief(right),
        kinds=kinds,
        importance=importance,
        ask=ask,
        grade=lambda text: (grade or same)(parse(written, text)),
    )


def parts_asked(exercises: Iterable[Exercise]) -> dict[str, tuple[str, ...]]:
    """Role -> the parts of the prompts of its exercises, sorted; see `Message.parts`."""
    parts: dict[str, set[str]] = {}
    for exercise in exercises:
        parts.setdefault(exercise.role, set()).update(parts_of_chat(exercise.prompt))
    return {role: tuple(sorted(names)) for role, names in parts.items()}


class ExerciseMaker(Protocol):
    """Makes exercises of some roles in one domain."""

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of which it makes exercises."""
        ...

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        ...

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one state, so that their prompts begin alike.

        Args:
            rng: draws the state and what is asked about it.
            roles: of `roles`; exercises of other roles are left out.
            held_out: whether the goal, recipe or state is one that teaching leaves out. Teaching
                asks for False only.

        Returns:
            Any number of exercises of each role, also none.
        """
        ...


@runtime_checkable
class TracedMaker(ExerciseMaker, Protocol):
    """Makes exercises of what searches found out."""

    @property
    def decisions(self) -> Sequence[object]:
        """Those that teach."""
        ...

    @property
    def counts_text(self) -> str:
        """How many decisions of the traces teach, and why others do not."""
        ...

    def digest(self) -> str:
        """SHA-256 of all lessons, in hexadecimal."""
        ...


@runtime_checkable
class LearnsFromTraces(ExerciseMaker, Protocol):
    """Makes exercises whose right answers a search knows as well."""

    def from_traces(self, traces: Iterable[ReadTrace]) -> TracedMaker:
        """The same exercises, with what searches found out in the place of the rules' answers.

        Raises:
            TraceError: a trace teaches nothing here, or is damaged.
            ValueError: a trace's settings or its task are not possible.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lessons(Generic[QuestionT, AnswerT]):
    """Questions of one role whose rule knows what is right; an `ExerciseMaker`.

    A world that has some in its member `lessons` is measured and taught in these roles.

    Attributes:
        write: what a model writes for an answer.
        words: in which the role is asked; a role without short words is asked as ever.
    """

    role: RoleSpec[QuestionT, AnswerT]
    draw: Callable[[Random], QuestionT]
    write: Callable[[AnswerT], BaseModel]
    words: Words = "general"

    @property
    def roles(self) -> tuple[str, ...]:
        """The one role."""
        return (self.role.name,)

    @property
    def taught_words(self) -> str:
        """SHA-256 of the words in which a taught model is asked; "" for the general ones."""
        short = self.role.short
        return "" if short is None or self.words == "general" else short.digest()

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes one exercise, if the rule answers; nothing is held out. See `ExerciseMaker`."""
        if held_out or self.role.name not in roles:
            return ()
        question = self.draw(rng)
        if (right := self.role.right(question)) is None:
            return ()
        of_kind = self.role.rule and self.role.rule.kinds
        spec = self.role.in_short() if self.words == "taught" else self.role
        kinds = {VERDICT: of_kind.of(question)} if of_kind else {}
        return (exercise_of(spec, question, self.write(right), kinds=kinds),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation(Generic[S, A]):
    """A state to ask about, with what a teacher knows of it.

    Attributes:
        domains: the domain once for each goal that is asked about here; each has the optional
            members `advise`, `feasible`, `success` and `score`. Beginning with the goal on whose
            way the state lies.
        state: s.
        feasible: options that can be carried out in s.
        infeasible: options that cannot, near misses among them.
        new: whether teaching leaves the state out.
        start: s_0 of the way to s.
        since: the options from s_0 to s, each as it most likely goes; None if something else led
            there. Planners without a world model are asked about these.
    """

    domains: Sequence[Any]
    state: S
    feasible: Sequence[A]
    infeasible: Sequence[A]
    new: bool
    start: S
    since: tuple[A, ...] | None = None


def situation_of(teacher: Teacher[S, A], rng: Random, *, held_out: bool) -> Situation[S, A]:
    """A teacher's situation; makers that are given equal generators ask about the same one."""
    drawn: Situation[S, A]
    drawn, after = _drawn(teacher, rng.getstate(), held_out)
    rng.setstate(after)
    return drawn


def short_words(teacher: Teacher[Any, Any]) -> str:
    """SHA-256 of the short words in which a teacher's situations are asked; see `words_of`."""
    return words_of(situation_of(teacher, Random(0), held_out=False).domains[0])


@lru_cache(1)
def _drawn(teacher: Any, state: Any, held_out: bool) -> tuple[Any, Any]:  # noqa: ANN401
    rng = Random(0)
    rng.setstate(state)
    return teacher.situation(rng, held_out=held_out), rng.getstate()


class Teacher(Protocol[S, A]):
    """What a domain knows beyond its rules, to make exercises of options and subtasks."""

    def __hash__(self) -> int:
        """The last situation is kept by its teacher."""
        ...

    def situation(self, rng: Random, *, held_out: bool) -> Situation[S, A]:
        """Draws a state.

        Args:
            held_out: whether the state is new, and goals and options may be held out.
        """
        ...

    def goal_kind(self, domain: Any) -> str:  # noqa: ANN401 - one of a situation's domains
        """The kind of a goal, such as a task; `HELD_OUT` if teaching leaves it out."""
        ...

    def option_kind(self, option: A) -> str:
        """Whether an option is seen in teaching or held out."""
        ...

    def is_held_out(self, domain: Any, state: S) -> bool:  # noqa: ANN401 - the domain with a goal
        """Whether teaching leaves a problem, or this state of it, out."""
        ...

    def aim(self, state: S, option: A) -> str:
        """What an option is for, in a few words: the next thing that is missing."""
        ...

    def fillers(self, state: S) -> Sequence[A]:
        """Feasible and harmless options, which fill up a proposal."""
        ...

    def evidence(self, state: S, option: A) -> str:
        """Why an option is feasible in a state or is not, in a few words."""
        ...

    def judged(self, domain: Any, state: S, subtask: A, parent: A | None) -> Judged:  # noqa: ANN401
        """The judgement of a domain that judges subtasks, with a reason that can be learned.

        Args:
            domain: one of a situation's.
            state: in which the subtask is judged.
            parent: what it was decomposed from; None for the goal.
        """
        ...

    def prediction(self, state: S, option: A) -> BaseModel:
        """What a feasible option does, most likely, as the domain's `state_model` writes it."""
        ...

    def unchanged(self, state: S) -> BaseModel:
        """The prediction that nothing changes in a state."""
        ...

    def can_follow(self, state: S, option: A, prediction: BaseModel) -> bool:
        """Whether a prediction is what a feasible option may do."""
        ...


@runtime_checkable
class Teaches(Protocol):
    """A domain that knows right answers, for `llm-planning distill`."""

    @staticmethod
    def teacher(held_out: Sequence[str] | None) -> Teacher[Any, Any]:
        """Makes what teaches.

        Args:
            held_out: names that lessons leave out; None leaves out what the domain does by default.
        """
        ...


def unit(option: A) -> A:
    """An option with the quantity 1, if it has one: what it is whatever its quantity."""
    known: Any = option
    same: A = replace(known, quantity=1) if hasattr(option, "quantity") else option
    return same


def predicted(teacher: Teacher[S, A], domain: Any, state: S, option: A) -> S:  # noqa: ANN401
    """The state after a feasible option, most likely.

    Args:
        domain: one of a situation's.
        state: before the option.
        option: feasible there.
    """
    after: S = domain.state_model.read(state, teacher.prediction(state, option))[0]
    return after


def shortens(teacher: Teacher[S, A], domain: Any, state: S, option: A) -> bool:  # noqa: ANN401
    """Whether an option is feasible, and what it most likely does shortens the way to the goal.

    Args:
        domain: one of a situation's.
        state: before the option.
    """
    if domain.feasible(state, option) is not None:
        return False
    after = predicted(teacher, domain, state, option)
    return bool(domain.success(after)) or len(domain.advise(after)) < len(domain.advise(state))
