"""What planners and domains are to everybody who runs them by name, and how a name finds them.

A name is one of this project's own; one that an installed package announces in the entry-point
group `llm_planning.planners` or `llm_planning.domains`; or FILE.py:NAME, a file of the user's. Such
a file is code and is run: only commands that run planners look such names up.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from pydantic import create_model

from llm_planning.domain import Domain, DomainError, Need
from llm_planning.names import remedy
from llm_planning.own_code import OwnCode, load_own
from llm_planning.settings import NoSettings, Settings, SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.outcome import Outcome
    from llm_planning.roles import Engines

PLANNER_GROUP = "llm_planning.planners"
DOMAIN_GROUP = "llm_planning.domains"
"""Entry points by which packages announce their planners and domains."""

FOREIGN = "domain."
"""Begins the key of a domain's setting where the planner has one of the same name."""

DomainT = TypeVar("DomainT", bound=Domain[Any, Any])


class UnknownPlannerError(ValueError):
    """No planner has this name."""


class UnknownDomainError(ValueError):
    """No domain has this name."""


class UnknownTaskError(ValueError):
    """No task of the domain has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Generic[DomainT]):
    """What a planner is given.

    Attributes:
        domain: name of the domain.
        task: name of the task.
        world: the domain, opened for this task; of a benchmark's planner, which opens its own
            worlds, None.
    """

    domain: str
    task: str
    world: DomainT


class Run(Protocol):
    """Plans one task."""

    async def __call__(
        self,
        problem: Problem[Any],
        *,
        engines: Engines,
        settings: Any,  # noqa: ANN401  (an instance of the spec's own settings model)
        seed: int,
    ) -> Outcome:
        """Returns what came of it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """Worlds that belong to some planners only, who open them themselves.

    Attributes:
        domain: its name.
        tasks: names of its tasks.
    """

    domain: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerSpec:
    """One planner.

    Attributes:
        name: in kebab-case.
        summary: one line for a list; says all by itself.
        paper: under which heading it is listed.
        settings: the model of its settings; `settings.read({...})` makes an instance.
        run: plans one task.
        roles: names of the questions that it may ask a model.
        needs: what it asks of a domain beyond the contract.
        benchmark: where it plans, if it does so in worlds of its own only.
        source: a user's file that it comes from.
    """

    name: str
    summary: str
    paper: str
    settings: type[Settings]
    run: Run
    roles: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    benchmark: Benchmark | None = None
    source: OwnCode | None = None

    def lacks(self, domain: DomainSpec) -> tuple[Need, ...]:
        """What it needs and a domain does not give."""
        return tuple(need for need in self.needs if not need.met_by(domain.kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainSpec:
    """One domain.

    Attributes:
        name: in kebab-case; of a user's, FILE.py:CLASS.
        summary: one line for a list.
        kind: its class.
        tasks: names of its tasks, at least one.
        settings: the model of its settings.
        open: makes the domain for a task.
        source: a user's file that it comes from.
    """

    name: str
    summary: str
    kind: type[Domain[Any, Any]]
    tasks: tuple[str, ...]
    settings: type[Settings]
    open: Callable[[str, Any], Awaitable[Domain[Any, Any]] | Domain[Any, Any]]
    source: OwnCode | None = None


def planner(
    name: str,
    *,
    summary: str = "",
    settings: type[Settings] = NoSettings,
    roles: Sequence[str] = (),
    needs: Sequence[Need] = (),
) -> Callable[[Run], PlannerSpec]:
    """Makes a planner of a coroutine function: `@planner("mine", summary="...")`.

    Args:
        name: in kebab-case.
        summary: one line for a list; by default the function's first line of documentation.
        settings: the model of its settings.
        roles: names of the questions that it may ask a model.
        needs: what it asks of a domain beyond the contract.

    Returns:
        A decorator for `async def run(problem, *, engines, settings, seed) -> Outcome`.
    """

    def decorate(run: Run) -> PlannerSpec:
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


def find_planner(name: str) -> PlannerSpec:
    """The planner of this name.

    Raises:
        UnknownPlannerError: there is none; the message proposes the nearest names.
        OwnCodeError: the user's file cannot be run or has no such planner.
    """
    from llm_planning.planners.catalogue import PLANNERS

    if name in PLANNERS:
        return PLANNERS[name]
    if own := load_own(name):
        if not isinstance(own.found, PlannerSpec):
            raise UnknownPlannerError(f"{name} is no planner: decorate a function with `@planner`")
        return replace(own.found, name=name, source=own.code)
    announced = {one.name: one for one in entry_points(group=PLANNER_GROUP)}
    if name in announced and isinstance(spec := announced[name].load(), PlannerSpec):
        return spec
    known = (*PLANNERS, *announced)
    raise UnknownPlannerError(f"unknown planner {name!r}; {remedy(name, known)}")


def find_domain(name: str) -> DomainSpec:
    """The domain of this name.

    Raises:
        UnknownDomainError: there is none; the message proposes the nearest names.
        OwnCodeError: the user's file cannot be run or has no such class.
    """
    from llm_planning.environments.catalogue import DOMAINS

    if name in DOMAINS:
        return DOMAINS[name]
    if own := load_own(name):
        if not (inspect.isclass(own.found) and issubclass(own.found, Domain)):
            raise UnknownDomainError(f"{name} is no domain: write a subclass of `Domain`")
        return spec_of(own.found, name=name, source=own.code)
    announced = {one.name: one for one in entry_points(group=DOMAIN_GROUP)}
    if name in announced and issubclass(kind := announced[name].load(), Domain):
        return spec_of(kind, name=name)
    raise UnknownDomainError(f"unknown domain {name!r}; {remedy(name, (*DOMAINS, *announced))}")


def spec_of(
    kind: type[Domain[Any, Any]], *, name: str = "", source: OwnCode | None = None
) -> DomainSpec:
    """What a class of a domain says of itself: its constructor's parameters are its settings.

    Raises:
        DomainError: a parameter of the constructor has no default.
    """
    name = name or kebab(kind.__name__)
    fields: dict[str, Any] = {}
    hints = inspect.get_annotations(kind.__init__, eval_str=True)
    takes_task = False
    for key, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if key == "task":
            takes_task = True
        elif parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            continue
        elif parameter.default is parameter.empty:
            raise DomainError(f"{name}: give the parameter {key!r} of its constructor a default")
        else:
            fields[key] = (hints.get(key, type(parameter.default)), parameter.default)
    settings = create_model(f"{kind.__name__}Settings", __base__=Settings, **fields)

    def open_(task: str, chosen: Settings) -> Domain[Any, Any]:
        given = {key: getattr(chosen, key) for key in fields}
        # A subclass's constructor takes what its signature says.
        make: Any = kind
        made: Domain[Any, Any] = make(task=task, **given) if takes_task else make(**given)
        return made

    return DomainSpec(
        name=name,
        summary=(inspect.getdoc(kind) or name).partition("\n")[0],
        kind=kind,
        tasks=tuple(kind.tasks) or (kebab(kind.__name__),),
        settings=settings,
        open=open_,
        source=source,
    )


def kebab(name: str) -> str:
    """TowersOfHanoi as towers-of-hanoi."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Chosen:
    """Settings of a planner and of its domain, checked.

    Attributes:
        planner: the planner's.
        domain: the domain's; of a benchmark's planner, none.
    """

    planner: Settings
    domain: Settings

    def to_json(self) -> dict[str, object]:
        """Key -> value of all of them, as `choose` takes them."""
        said = self.planner.to_json()
        for key, value in self.domain.to_json().items():
            said[FOREIGN + key if key in said else key] = value
        return said


def known_keys(spec: PlannerSpec, domain: DomainSpec | None) -> tuple[str, ...]:
    """The keys that may be set where this planner plans in this domain."""
    own = spec.settings.known_keys()
    theirs = domain.settings.known_keys() if domain else ()
    return (*own, *(FOREIGN + key if key in own else key for key in theirs))


def choose(spec: PlannerSpec, domain: DomainSpec | None, values: Mapping[str, object]) -> Chosen:
    """Reads the settings that a user gave, the domain's among the planner's.

    Args:
        spec: the planner.
        domain: where it plans; None for a benchmark's planner.
        values: key -> value; `domain.KEY` is always the domain's.

    Raises:
        SettingsError: names the key, the value and what to write instead.
    """
    own = spec.settings.known_keys()
    theirs = domain.settings.known_keys() if domain else ()
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
    return Chosen(
        spec.settings.read(split[0]), (domain.settings if domain else NoSettings).read(split[1])
    )


def check_task(task: str, *, known: Sequence[str], of: str) -> None:
    """Refuses a task that there is not.

    Raises:
        UnknownTaskError: the message proposes the nearest names.
    """
    if task not in known:
        raise UnknownTaskError(f"unknown task {task!r} of {of}; {remedy(task, known)}")


def refuse_unfit(spec: PlannerSpec, domain: DomainSpec) -> None:
    """Refuses a domain that a planner cannot plan in.

    Raises:
        DomainError: names what is missing.
    """
    if spec.benchmark:
        raise DomainError(
            f"planner {spec.name} plans in its own benchmark {spec.benchmark.domain} only"
        )
    if lacking := spec.lacks(domain):
        said = " and ".join(f"{need.said} (`{need.member}`)" for need in lacking)
        raise DomainError(
            f"planner {spec.name} needs a domain that {said}; {domain.name} does not: "
            "docs/extending.md says how to add that"
        )
