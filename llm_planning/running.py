"""Runs a planner by names: of the planner, the domain, the task and the settings."""

from __future__ import annotations

import asyncio
import inspect
import json
import time
from collections.abc import Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from llm_planning.domain import Domain, DomainError, check_goal
from llm_planning.domain_calls import settled, wrong_return
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.interrupts import was_interrupted
from llm_planning.names import remedy
from llm_planning.outcome import without_plan
from llm_planning.own_code import OwnCodeError, describe_error, is_ours
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.registry import (
    UnknownNameError,
    every_role,
    find_domain,
    find_planner,
    kebab,
)
from llm_planning.roles import Engines, RoleSettings, metered, usage_by_role
from llm_planning.settings import NoSettings, SettingsError
from llm_planning.several import Several, plan_each
from llm_planning.specs import (
    Chosen,
    DomainSpec,
    PlannerSpec,
    Run,
    UnknownTaskError,
    check_task,
    choose,
    known_keys,
    refuse_unfit,
)
from llm_planning.trace import tracing
from llm_serving.errors import UnableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from llm_planning.events import Event
    from llm_planning.outcome import Outcome
    from llm_planning.own_code import CodeSource
    from llm_serving.engine import Engine
    from llm_serving.request import Usage

REFUSALS: Final = (
    UnknownNameError,
    UnknownTaskError,
    DomainError,
    OwnCodeError,
    SettingsError,
)
"""The errors of `prepare`; each says in one line what is wrong and what to write instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A planner with a task and settings that fit it."""

    spec: PlannerSpec
    domain: DomainSpec
    task: str
    chosen: Chosen

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Domain[Any, Any] | Several]:
        """Opens the domain, and at the end closes it if it can be closed.

        Raises:
            Exception: an error of the domain.
        """
        async with AsyncExitStack() as opened:
            world: Any = self.domain.open(self.task, self.chosen.domain)
            if isinstance(world, AbstractAsyncContextManager) and not isinstance(world, Domain):
                world = await opened.enter_async_context(world)
            yield await settled(world)

    async def run(self, engines: Engines, seed: int) -> Outcome:
        """Opens the domain, plans, and closes the domain.

        Args:
            seed: of every draw.

        Raises:
            Exception: an error of the domain or of the planner.
        """
        async with self.opened() as world:
            if isinstance(world, Several):
                return await plan_each(world, lambda domain: self._run_one(domain, engines, seed))
            return await self._run_one(world, engines, seed)

    async def _run_one(self, world: Domain[Any, Any], engines: Engines, seed: int) -> Outcome:
        """Plans one problem; the domain's `traits` join the metrics, and what it `judged`."""
        check_goal(world)
        if world.wording and not is_ours(world):
            from llm_planning.planners.wording import check_wording

            theirs = self.spec.source or self.spec.name not in PLANNERS
            check_wording(world, self.spec.roles if theirs else ())
        traits = _metrics_of_world(world, "traits", world.traits())
        if world.no_plan:
            return without_plan(world.no_plan, traits)
        run: Run[Any, Any] = Run(
            domain=self.domain.name,
            task=self.task,
            world=world,
            engines=engines,
            settings=self.chosen.planner,
            seed=seed,
        )
        try:
            outcome = await self.spec.run(run)
        except UnableError as error:
            raise UnableError(f"{error}{_or_rules(self.spec)}") from error
        judged = _judged(world, outcome.plan)
        if not traits and not judged:
            return outcome
        metrics, told = outcome.metrics, dict(traits)
        for key, value in judged.items():
            told[f"judged.{key}" if told.get(key, value) != value else key] = value
        # What a world calls as a planner does has the world's name before its own.
        named = {
            f"domain.{key}" if metrics.get(key, value) != value else key: value
            for key, value in told.items()
        }
        return replace(outcome, metrics={**named, **metrics})


def _metrics_of_world(world: Domain[Any, Any], method: str, metrics: object) -> Mapping[str, Any]:
    """The metrics that a domain adds to a run.

    Raises:
        DomainError: they are no mapping, or no JSON.
    """
    if inspect.iscoroutine(metrics):
        metrics.close()
    if isinstance(metrics, Mapping):
        with suppress(TypeError, ValueError, RecursionError):
            json.dumps(dict(metrics), allow_nan=False)
            optimum = metrics.get("optimum")
            if all(isinstance(name, str) for name in metrics) and (
                optimum is None or isinstance(optimum, int | float)
            ):
                return metrics
    wanted = "a mapping from names to finite numbers, words or other JSON; `optimum` is a number"
    raise wrong_return(world, method, metrics, wanted)


def _judged(world: Domain[Any, Any], plan: Sequence[str]) -> Mapping[str, Any]:
    """What a world judges of a plan. Where it fails at that, the plan is not lost."""
    try:
        return _metrics_of_world(world, "judged", world.judged(plan))
    except Exception as error:
        return {"judging_failed": describe_error(error)}


def _or_rules(spec: PlannerSpec) -> str:
    """What else to do where no model answers."""
    if not issubclass(spec.settings, RoleSettings):
        return ""
    profile = spec.settings.profile
    return f", or let rules answer (setting roles={profile.name if profile else 'rules'})"


def prepare(
    planner: str | PlannerSpec,
    *,
    domain: str | DomainSpec | None = None,
    task: str | None = None,
    settings: Mapping[str, object],
) -> Prepared:
    """Looks up the parts of a run, and checks that they fit together.

    Args:
        planner: its name, or the planner itself.
        domain: its name, or the domain itself; None for this project's domain that has the task.
        task: its name; None for the domain's first.
        settings: key -> value, of planner and domain; missing ones keep their defaults.

    Raises:
        ValueError: one of `REFUSALS`.
    """
    spec = find_planner(planner) if isinstance(planner, str) else planner
    where = find_where(spec, domain=domain, task=task, settings=settings)
    if task is not None:
        check_task(task, known=where.tasks, of=where.name)
    chosen = choose(spec, where, settings)
    refuse_others(chosen)
    return Prepared(spec=spec, domain=where, task=task or where.tasks[0], chosen=chosen)


def prepare_with(
    planner: str | PlannerSpec, world: Domain[Any, Any], *, settings: Mapping[str, object]
) -> Prepared:
    """Like `prepare`, for a domain that is open already.

    Args:
        planner: its name, or the planner itself.
        world: the domain, which has its own settings.
        settings: key -> value, of the planner.

    Raises:
        ValueError: one of `REFUSALS`.
    """
    spec = find_planner(planner) if isinstance(planner, str) else planner
    kind = type(world)
    named = [spec.name for spec in DOMAINS.values() if spec.kind is kind]
    name = named[0] if named else kebab(kind.__name__)
    task = getattr(world, "task", None)
    task = getattr(task, "name", task)
    domain = DomainSpec(
        name=name,
        summary=(inspect.getdoc(kind) or name).partition("\n")[0],
        kind=kind,
        tasks=(task if isinstance(task, str) else name,),
        settings=NoSettings,
        open=lambda _task, _settings: world,
    )
    refuse_unfit(spec, domain)
    chosen = choose(spec, domain, settings)
    refuse_others(chosen)
    return Prepared(spec=spec, domain=domain, task=domain.tasks[0], chosen=chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRun:
    """One run of a planner and its result.

    Attributes:
        outcome: the planner's outcome, or the error.
        usage: calls and tokens by role, also those before an error.
        started: seconds since the epoch.
        seconds: from looking up the planner to its end.
        events: the recorded events; empty outside `recording`.
    """

    outcome: Outcome | BaseException
    usage: Mapping[str, Usage]
    started: float
    seconds: float
    events: Sequence[Event]

    def result(self) -> Outcome:
        """The planner's outcome.

        Raises:
            BaseException: the error of the run.
        """
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def run_planner(find: Callable[[], Prepared], meters: Engines, *, seed: int) -> PlannerRun:
    """Looks up a planner and runs it; an error of either is in the record, whatever its class.

    Args:
        find: looks up the planner, such as a `partial` of `prepare`.
        meters: answer the questions and count for this run; see `metered`.
        seed: of every draw.

    Raises:
        CancelledError: the run was cancelled; a cancellation inside the planner is its error.
        KeyboardInterrupt: Ctrl-C.
    """

    async def outcome_of() -> Outcome | BaseException:
        try:
            return await find().run(meters, seed)
        except BaseException as error:
            # Code of others may leave by `sys.exit`; an error of Rust is no `Exception`.
            if was_interrupted(error):
                raise
            return error

    started, begun = time.time(), time.perf_counter()
    # In a task of its own, so that a cancellation of this one is told from the planner's.
    planning = asyncio.create_task(outcome_of())
    try:
        await asyncio.wait({planning})
    finally:
        if not planning.done():
            planning.cancel()
            await asyncio.wait({planning})
    itself = "the planner or the world cancelled the task that it runs in"
    trace = tracing()
    return PlannerRun(
        outcome=asyncio.CancelledError(itself) if planning.cancelled() else planning.result(),
        usage=usage_by_role(meters),
        started=started,
        seconds=time.perf_counter() - begun,
        events=trace.events if trace else (),
    )


def find_where(
    spec: PlannerSpec,
    *,
    domain: str | DomainSpec | None,
    task: str | None,
    settings: Iterable[str] = (),
) -> DomainSpec:
    """Finds the domain of a planner.

    Args:
        domain: as the user gave it; None to infer it.
        task: as the user gave it; the domain may be inferred from it.
        settings: keys that the user set; without a task, the domain may be inferred from them.

    Raises:
        ValueError: one of `REFUSALS`.
    """
    if domain is None:
        return _default_domain(spec, task, frozenset(settings))
    found = find_domain(domain) if isinstance(domain, str) else domain
    refuse_unfit(spec, found)
    return found


def source_of(spec: PlannerSpec, domain: DomainSpec) -> str:
    """SHA-256 of the planner's and the domain's code, if not this project's; "" if both are."""
    return joined(spec.source, domain.source)


def joined(*sources: CodeSource | None) -> str:
    """The distinct hashes of a planner's and a domain's source, joined by `+`."""
    return "+".join(dict.fromkeys(source.sha256 for source in sources if source))


def models_of_roles(spec: PlannerSpec, chosen: Chosen) -> dict[str, str]:
    """Role -> its own model, from the file that the setting `roles` may name.

    Raises:
        SettingsError: the file does not assign roles.
    """
    if not isinstance(chosen.planner, RoleSettings):
        return {}
    refuse_others(chosen)
    models = chosen.planner.assignment.models
    return {role: name for role, name in models.items() if role in spec.roles}


def refuse_others(chosen: Chosen) -> None:
    """Refuses a file of roles that names what no planner asks, or nothing that this one asks.

    Raises:
        SettingsError: names the roles of the planner.
    """
    if not isinstance(chosen.planner, RoleSettings):
        return
    roles, known = chosen.planner.assignment, chosen.planner.known_roles
    for role in roles.others:
        if role not in every_role():
            raise SettingsError(
                f"roles={chosen.planner.roles}: unknown role {role!r}; {remedy(role, known)}"
            )
    if roles.others and not roles.by_role:
        raise SettingsError(
            f"roles={chosen.planner.roles} names no role of this planner; it asks: "
            f"{', '.join(known)}"
        )


def asks_model(spec: PlannerSpec, chosen: Chosen) -> bool:
    """Whether the run's model may be asked: no if rules or models of their own answer all roles."""
    settings = chosen.planner
    if not spec.roles:
        # A planner of others may ask without saying so; `measure` asks the role of its setting.
        return spec.source is not None or "role" in chosen.to_json()
    if not isinstance(settings, RoleSettings):
        return True
    return any(settings.assignment.of(role) == "llm" for role in settings.models_roles(spec.roles))


def asked_roles(spec: PlannerSpec, chosen: Chosen) -> tuple[str, ...]:
    """The roles that a model answers: those of a planner without the ones that rules answer."""
    settings = chosen.planner
    if not isinstance(settings, RoleSettings):
        return spec.roles
    roles = settings.assignment
    return tuple(role for role in spec.roles if roles.errors_of(role) is None)


def why_unanswered(spec: PlannerSpec, chosen: Chosen) -> str | None:
    """Why no run without a model can end, in one line; None if one can, or if nobody knows.

    None if rules or another model answer a role: the others may not be asked then. With a uniform
    π, or UCT in its place, a planner may ask nobody. One with a profile (XENON's) may know all that
    an item takes. Of a planner that is not of this project nothing is known.
    """
    settings = chosen.planner
    if spec.source or not (spec.roles and isinstance(settings, RoleSettings)):
        return None
    given = chosen.to_json()
    silent = given.get("prior") == "uniform" or given.get("selection") == "uct"
    if silent or settings.profile is not None:
        return None
    answerers = map(settings.assignment.of, settings.models_roles(spec.roles))
    if any(answerer != "llm" for answerer in answerers):
        return None
    return f"the model 'none' answers no questions: name a model that does{_or_rules(spec)}"


def fitting_domains(spec: PlannerSpec) -> Iterator[DomainSpec]:
    """This project's own domains that a planner can plan in, loaded one by one; its home first."""
    known = sorted(DOMAINS, key=lambda name: name != spec.home)
    return (DOMAINS[name] for name in known if not spec.lacks(DOMAINS[name]))


def _default_domain(spec: PlannerSpec, task: str | None, settings: frozenset[str]) -> DomainSpec:
    """The only domain of this project that has the task; without a task, the first domain."""
    first = next(fitting_domains(spec), None)
    if first is None:
        raise DomainError(f"planner {spec.name} needs a domain: name one")
    if task is None:
        knowing = (
            domain for domain in fitting_domains(spec) if settings <= {*known_keys(spec, domain)}
        )
        return next(knowing, first)
    fitting = [*fitting_domains(spec)]
    having = [domain for domain in fitting if task in domain.tasks]
    if not having:
        for domain in DOMAINS.values():
            if task in domain.tasks:
                refuse_unfit(spec, domain)
        known = [name for domain in fitting for name in domain.tasks]
        check_task(task, known=known, of=f"planner {spec.name}")
    if len(having) > 1:
        names = " and ".join(domain.name for domain in having)
        raise DomainError(f"the task {task!r} is in the domains {names}: name one of them")
    return having[0]


async def plan(
    planner: str | PlannerSpec,
    problem: str | Domain[Any, Any] | None = None,
    *,
    engine: Engine | Engines,
    domain: str | None = None,
    settings: Mapping[str, object] | None = None,
    seed: int = 0,
) -> Outcome:
    """Runs one planner on one problem; in Jupyter, shows what it costs meanwhile.

    Args:
        planner: a name, such as "too", or a planner of your own.
        problem: the name of a task, or a domain of your own; None for the domain's first task.
        engine: answers the questions; `Engines` if some roles have their own engine.
        domain: the name of a domain, if the task alone does not decide it.
        settings: key -> value, of planner and domain; missing ones keep their defaults.
        seed: of every draw, an integer; equal seeds and answers make equal plans.

    Returns:
        The plan, whether it reaches the goal, and what it cost.

    Raises:
        ValueError: no planner, domain, task or setting has this name, a value is impossible, or the
            planner cannot plan there.
        ServingError: the engine failed.
        Exception: whatever the planner or the domain raises.

    Example:
        >>> import asyncio
        >>> from llm_planning import open_engine, plan
        >>> async def main():
        ...     with open_engine("none") as engine:
        ...         settings = {"simulations": 30, "moves": 1}
        ...         return await plan("uct", "trap-door", engine=engine, settings=settings, seed=1)
        >>> outcome = asyncio.run(main())
        >>> outcome.success, outcome.metrics["simulations"]
        (False, 30)
    """
    from llm_planning.notebook import display
    from llm_planning.watching import spent, watched

    if not isinstance(problem, str | Domain | None):
        raise DomainError(
            f"{problem!r} is neither a task's name nor a domain: give an instance of a subclass of "
            "`Domain`"
        )
    chosen = settings or {}
    find = (
        partial(prepare_with, planner, problem, settings=chosen)
        if isinstance(problem, Domain)
        else partial(prepare, planner, domain=domain, task=problem, settings=chosen)
    )
    meters = metered(engine if isinstance(engine, Engines) else Engines(engine))
    planning = run_planner(find, meters, seed=seed)
    show = display()
    if show is None:
        return (await planning).result()
    record = await watched(planning, meters, show)
    show(f"Took {record.seconds:.1f} s, {spent(meters)}.")
    return record.result()
