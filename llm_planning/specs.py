"""Planners and domains as they are run by name: specs, runs and settings."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from llm_planning.domain import Domain, DomainError, ability_text, missing_members
from llm_planning.names import remedy
from llm_planning.settings import NoSettings, Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from llm_planning.outcome import Outcome
    from llm_planning.own_code import CodeSource
    from llm_planning.roles import Engines
    from llm_planning.roles.exercises import ExerciseMaker, Teacher, Words
    from llm_planning.settings import ReadWhen
    from llm_planning.several import Several

FOREIGN = "domain."
"""Prefix of the key of a domain's setting if the planner has a setting of the same name."""


DomainT_co = TypeVar("DomainT_co", bound=Domain[Any, Any], covariant=True)
SettingsT_co = TypeVar("SettingsT_co", bound=Settings, covariant=True)


class UnknownTaskError(ValueError):
    """The domain has no task with this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(Generic[DomainT_co, SettingsT_co]):
    """What a planner is given: one task, who answers, and the settings.

    Attributes:
        world: the domain, opened for this task, with all that the planner's spec needs.
        engines: answer the roles, unless rules do. The default one embeds texts.
        settings: of the planner, an instance of its spec's model.
        seed: of every draw, the world's included.
    """

    domain: str
    task: str
    world: DomainT_co
    engines: Engines
    settings: SettingsT_co
    seed: int

    @property
    def header(self) -> dict[str, Any]:
        """How an outcome's trace begins: the task, the world's goal, the seed, the settings."""
        return {
            "task": self.task,
            "goal": self.world.goal,
            "seed": self.seed,
            "settings": self.settings.to_json(),
        }


Planner: TypeAlias = "Callable[[Run[Any, Any]], Coroutine[Any, Any, Outcome]]"
"""Plans one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSpec:
    """One planner.

    Attributes:
        name: in kebab-case.
        summary: one line for a list, clear without its context.
        paper: the heading under which it is listed.
        settings: the model of its settings; `settings.read({...})` makes an instance.
        run: plans one task.
        roles: names of the questions that it may ask a model.
        needs: what its domain must be beside a `Domain`: Protocols such as `domain.Decomposes`.
        home: the domain where it plans unless another one is named; empty for the first that fits.
        source: its origin; None for this project's planners.
        exercises: makes exercises of its roles in a domain, in the words that a model is asked in:
            `general`, or `taught` for a model that a simulator taught. It returns None for a domain
            that has none, and is None if no domain has any. Planners of one family share one
            function.
        free_text: those of `roles` whose answer is free text, so that none is right.
        read_when: as `Settings.read_when`, for what this planner does not share with the others
            that have the same settings. `domain.KEY` is a setting of the domain.
    """

    name: str
    summary: str
    paper: str
    settings: type[Settings]
    run: Planner
    roles: tuple[str, ...] = ()
    needs: tuple[type, ...] = ()
    home: str = ""
    source: CodeSource | None = None
    exercises: Callable[[DomainSpec, Words], ExerciseMaker | None] | None = None
    free_text: tuple[str, ...] = ()
    read_when: ReadWhen = field(default_factory=dict)

    @property
    def never_read(self) -> frozenset[str]:
        """The settings that it shares with other planners and never reads itself."""
        return frozenset(
            key.removeprefix(FOREIGN)
            for key, conditions in self.read_when.items()
            if any(not condition.key for condition in conditions)
        )

    def lacks(self, domain: DomainSpec) -> tuple[type, ...]:
        """Those of its `needs` of which a domain lacks a member."""
        return tuple(need for need in self.needs if missing_members(domain.kind, need))


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSpec:
    """One domain.

    Attributes:
        name: in kebab-case; FILE.py:CLASS for a user's domain.
        summary: one line for a list.
        kind: its class.
        tasks: names of its tasks, at least one.
        open: makes the domain for one of its tasks, which the caller has checked; if that is an
            asynchronous context manager, it also closes the domain. `Several` if the settings name
            several problems.
        source: its origin; None for this project's domains.
        teacher: makes the teacher of its worlds from the names that are held out, or from None for
            those that it holds out by default; None if it has no teacher.
        teacher_under: likewise, of the world that these settings make; None if the teacher knows
            the default settings alone.
        leaving_out: where there is no teacher, maps names to what exercises leave out of lessons,
            and raises a `ValueError` for a name that it does not know; None if it knows none.
        held_out: what they leave out; nothing by default.
    """

    name: str
    summary: str
    kind: type[Domain[Any, Any]]
    tasks: tuple[str, ...]
    settings: type[Settings]
    open: Callable[
        [str, Any],
        Awaitable[Domain[Any, Any]] | Domain[Any, Any] | AbstractAsyncContextManager[Any] | Several,
    ]
    source: CodeSource | None = None
    teacher: Callable[[Sequence[str] | None], Teacher[Any, Any]] | None = None
    teacher_under: Callable[[Any, Sequence[str] | None], Teacher[Any, Any]] | None = None
    leaving_out: Callable[[Sequence[str]], frozenset[str]] | None = None
    held_out: frozenset[str] = frozenset()

    def under(self, settings: Mapping[str, object]) -> DomainSpec:
        """This domain with a teacher of the world that these settings make.

        Raises:
            DomainError: the domain has no such teacher.
            SettingsError: a setting is unknown or impossible.
        """
        if not settings:
            return self
        if self.teacher_under is None:
            raise DomainError(f"{self.name} has no teacher for settings: its lessons have one kind")
        return replace(self, teacher=partial(self.teacher_under, self.settings.read(settings)))

    def holding_out(self, names: Sequence[str]) -> DomainSpec:
        """This domain with lessons that leave out these names instead of the usual ones.

        Args:
            names: what is left out; the usual ones if there are none.

        Raises:
            DomainError: the domain can leave nothing out, or a name is none that it can.
        """
        if not names:
            return self
        leave_out = self.leaving_out or self.teacher
        if leave_out is None:
            raise DomainError(f"{self.name} has no teacher, so {names[0]!r} cannot be held out")
        try:
            left = leave_out(tuple(names))
        except ValueError as error:
            raise DomainError(str(error)) from error
        if isinstance(left, frozenset):
            return replace(self, held_out=left)
        return replace(self, teacher=lambda _: left)


def planner(
    name: str,
    *,
    summary: str = "",
    settings: type[Settings] = NoSettings,
    roles: Sequence[str] = (),
    needs: Sequence[type] = (),
) -> Callable[[Planner], PlannerSpec]:
    """Makes a planner of a coroutine function.

    Args:
        name: in kebab-case.
        summary: one line for a list; by default the function's first line of documentation.
        roles: names of the questions that it may ask a model.
        needs: what its domain must be beside a `Domain`: Protocols such as `domain.Decomposes`.

    Returns:
        A decorator for `async def plans(run: Run) -> Outcome`. It gives a `PlannerSpec`, which
        `plan` takes.

    Example:
        >>> import asyncio
        >>> from llm_planning import Outcome, open_engine, plan, planner
        >>> @planner("first-action")
        ... async def first_action(run):
        ...     "Takes the first action."
        ...     start = await run.world.start(run.seed)
        ...     action = (await run.world.actions(start))[0]
        ...     return Outcome(success=None, plan=(action,), metrics={}, trace={}, text="")
        >>> first_action.summary
        'Takes the first action.'
        >>> with open_engine("none") as engine:
        ...     asyncio.run(plan(first_action, "trap-door", engine=engine)).plan
        ('east',)
    """

    def decorate(run: Planner) -> PlannerSpec:
        first_line = (inspect.getdoc(run) or name).partition("\n")[0]
        return PlannerSpec(
            name=name,
            summary=summary or first_line,
            paper="Yours",
            settings=settings,
            run=run,
            roles=tuple(roles),
            needs=tuple(needs),
        )

    return decorate


@dataclass(frozen=True, slots=True)
class Chosen:
    """Settings of a planner and of its domain, checked."""

    planner: Settings
    domain: Settings

    def to_json(self) -> dict[str, object]:
        """Key -> value of all settings, as `choose` takes them."""
        own = self.planner.to_json()
        theirs = self.domain.to_json().items()
        return {**own, **{_domain_key(key, own): value for key, value in theirs}}


def known_keys(spec: PlannerSpec, domain: DomainSpec) -> tuple[str, ...]:
    """The keys that may be set where this planner plans in this domain."""
    own = spec.settings.known_keys()
    return (*own, *(_domain_key(key, own) for key in domain.settings.known_keys()))


def _domain_key(key: str, own: Collection[str]) -> str:
    """The key of a domain's setting beside those of a planner."""
    return FOREIGN + key if key in own else key


def choose(spec: PlannerSpec, domain: DomainSpec, values: Mapping[str, object]) -> Chosen:
    """Reads the settings that a user gave for a planner and its domain.

    Args:
        values: key -> value; `domain.KEY` is always a setting of the domain.

    Raises:
        SettingsError: names the key, the value and what to write instead; also where nothing reads
            the value. A default says nothing and is never refused, as trials list all settings.
    """
    own = spec.settings.known_keys()
    theirs = domain.settings.known_keys()
    split: tuple[dict[str, object], dict[str, object]] = ({}, {})
    for key, value in values.items():
        foreign = key.removeprefix(FOREIGN)
        if key in own:
            split[0][key] = value
        elif foreign in theirs:
            if foreign in split[1]:
                raise SettingsError(f"setting {key!r} is given twice, with and without {FOREIGN}")
            split[1][foreign] = value
        else:
            known = known_keys(spec, domain)
            raise SettingsError(f"unknown setting {key!r}; {remedy(key, known)}")
    chosen = Chosen(spec.settings.read(split[0]), domain.settings.read(split[1]))
    chosen.planner.refuse_unread(spec.name, spec.read_when)
    of_domain = {
        key.removeprefix(FOREIGN): conditions
        for key, conditions in spec.read_when.items()
        if key.startswith(FOREIGN)
    }
    chosen.domain.refuse_unread(spec.name, of_domain)
    return chosen


def check_task(task: str, *, known: Sequence[str], of: str) -> None:
    """Makes sure that a task exists.

    Raises:
        UnknownTaskError: the message proposes the nearest names.
    """
    if task not in known:
        raise UnknownTaskError(f"unknown task {task!r} of {of}; {remedy(task, known)}")


def why_unfit(spec: PlannerSpec, domain: DomainSpec) -> str | None:
    """Why a planner cannot plan in a domain, in one sentence; None if it can."""
    if not (lacking := spec.lacks(domain)):
        return None
    does = " and ".join(map(ability_text, lacking))
    return f"planner {spec.name} needs a domain that {does}; {domain.name} does not"


def refuse_unfit(spec: PlannerSpec, domain: DomainSpec) -> None:
    """Makes sure that a planner can plan in a domain.

    Raises:
        DomainError: names what is missing.
    """
    if forgotten := sorted(getattr(domain.kind, "__abstractmethods__", ())):
        raise DomainError(
            f"the domain {domain.name} lacks {', '.join(f'`{name}`' for name in forgotten)}: "
            "docs/extending.md says what each is"
        )
    if why := why_unfit(spec, domain):
        missing = (name for need in spec.needs for name in missing_members(domain.kind, need))
        named = ", ".join(f"`{name}`" for name in missing)
        documented = all(need.__module__ == Domain.__module__ for need in spec.lacks(domain))
        where = "docs/extending.md says how to add" if documented else "it lacks"
        raise DomainError(f"{why}: {where} {named}")
