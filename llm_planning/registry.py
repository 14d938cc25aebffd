"""Finding planners and domains by their names.

A name is one of this project's own; one that an installed package announces in the entry-point
group `llm_planning.planners` or `llm_planning.domains`; or FILE.py:NAME, a file of the user's.
Looking up a name of the last form runs the file, so only commands that run planners do it.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import TypeAdapter, create_model
from pydantic.errors import PydanticUserError

from llm_planning.domain import Domain, DomainError
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.names import remedy
from llm_planning.own_code import CodeSource, is_own, load_own, own_source
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.settings import Settings
from llm_planning.specs import DomainSpec, PlannerSpec, why_unfit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from llm_planning.roles.exercises import ExerciseMaker, Words

PLANNER_GROUP = "llm_planning.planners"
DOMAIN_GROUP = "llm_planning.domains"
"""Entry points by which packages announce their planners and domains."""


class UnknownPlannerError(ValueError):
    """No planner has this name."""


class UnknownDomainError(ValueError):
    """No domain has this name."""


def find_planner(name: str) -> PlannerSpec:
    """The planner with a name.

    Raises:
        UnknownPlannerError: there is none, or a package announces something else under this name;
            the message proposes the nearest names, or says what is wrong with it.
        OwnCodeError: the user's file cannot be run or has no such planner.
    """
    if spec := PLANNERS.get(name):
        return spec
    found, said, source = _foreign(PLANNER_GROUP, name, UnknownPlannerError)
    if not isinstance(found, PlannerSpec):
        raise UnknownPlannerError(f"{said} is not a planner: decorate a function with `@planner`")
    return replace(found, name=name, source=source)


def never_read(planner: object) -> frozenset[str]:
    """The settings that a planner shares with others and never reads.

    Args:
        planner: its name in trials. If it is not of this project, nothing is known, as its code is
            not loaded for that.
    """
    spec = PLANNERS.get(str(planner))
    return spec.never_read if spec else frozenset()


def why_named_unfit(planner: str, domain: str) -> str | None:
    """Why a planner cannot plan in a domain, in one sentence; None if it can, or if nobody knows.

    Args:
        planner: its name in trials. Of one that is not of this project nothing is known, as its
            code is not loaded for that.
        domain: its name in trials; the same holds.
    """
    spec, world = PLANNERS.get(planner), DOMAINS.get(domain)
    return why_unfit(spec, world) if spec and world else None


def every_role() -> frozenset[str]:
    """The names of all questions that this project's planners may ask a model."""
    return frozenset(role for spec in PLANNERS.values() for role in spec.roles)


def asker_of(roles: Collection[str], domain: DomainSpec) -> PlannerSpec:
    """The planner that asks most of these roles and can plan in a domain; of equals the first.

    Args:
        roles: which a model was taught.
        domain: where.
    """
    fitting = (one for one in PLANNERS.values() if not one.lacks(domain))
    return max(fitting, key=lambda one: len({*roles}.intersection(one.roles)))


def exercise_makers(domain: DomainSpec, *, words: Words) -> dict[str, ExerciseMaker]:
    """Role -> the maker of its exercises in a domain.

    Every planner of this project that can plan there brings its own, and the domain may have more
    (`Domain.lessons`). Where two have a role of one name, those of the domain count, then those of
    the planner that the catalogue lists first.

    Args:
        domain: where questions are asked.
        words: as `PlannerSpec.exercises` takes them.
    """
    fitting = (one for one in PLANNERS.values() if not one.lacks(domain))
    # Planners of one family share a function, so it is called once.
    functions = dict.fromkeys(one.exercises for one in fitting if one.exercises)
    own = domain.kind.lessons
    makers: dict[str, ExerciseMaker] = {one.role.name: replace(one, words=words) for one in own}
    for make in functions:
        if maker := make(domain, words):
            for role in maker.roles:
                makers.setdefault(role, maker)
    return makers


def why_unmeasured(role: str, domain: DomainSpec, makers: Mapping[str, ExerciseMaker]) -> str:
    """Why there are no exercises of a role in a domain, in one sentence.

    Args:
        role: as the user wrote it.
        domain: where it is to be measured.
        makers: as `exercise_makers` returns them; without the role.
    """
    askers = [one for one in PLANNERS.values() if role in one.roles]
    if any(role in one.free_text for one in askers):
        return "its answer is free text, so no answer is the right one"
    if makers or not askers:
        said = f"no planner has exercises of it in {domain.name}"
        return f"{said}; {remedy(role, makers)}" if makers else said
    return f"{domain.name} does not know right answers to it: docs/distillation.md says who does"


def find_domain(name: str) -> DomainSpec:
    """The domain of this name.

    Raises:
        UnknownDomainError: there is none, or a package announces something else under this name;
            the message proposes the nearest names, or says what is wrong with it.
        OwnCodeError: the user's file cannot be run or has no such class.
        DomainError: a parameter of the class's constructor cannot be a setting.
    """
    if name in DOMAINS:
        return DOMAINS[name]
    found, said, source = _foreign(DOMAIN_GROUP, name, UnknownDomainError)
    if not (inspect.isclass(found) and issubclass(found, Domain)):
        raise UnknownDomainError(f"{said} is not a domain: write a subclass of `Domain`")
    return spec_of(found, name=name, source=source)


def announced(group: str) -> tuple[str, ...]:
    """Names that installed packages announce, without this project's own; nothing is loaded.

    Args:
        group: `PLANNER_GROUP` or `DOMAIN_GROUP`.
    """
    ours = _ours(group)
    return tuple(name for name in _announced(group) if name not in ours)


def source_named(group: str, name: str) -> CodeSource | None:
    """The `source` of the planner or domain that has a name now, without running or loading it.

    Args:
        group: `PLANNER_GROUP` or `DOMAIN_GROUP`.
        name: as `find_planner` or `find_domain` take it.

    Raises:
        OwnCodeError: the user's file cannot be read.
    """
    if is_own(name):
        return own_source(name)
    entry = _announced(group).get(name)
    return _package(entry) if entry and name not in _ours(group) else None


def _ours(group: str) -> tuple[str, ...]:
    return tuple(PLANNERS if group == PLANNER_GROUP else DOMAINS)


def _announced(group: str) -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=group)}


def _foreign(
    group: str, name: str, unknown: type[ValueError]
) -> tuple[object, str, CodeSource | None]:
    """Loads the object of a user's file or of a package: itself, its name in messages, its source.

    Raises:
        ValueError: of the type `unknown`; nothing has this name, or its package fails.
        OwnCodeError: the user's file fails.
    """
    if own := load_own(name):
        return own.found, name, own.source
    entries = _announced(group)
    if name not in entries:
        kind = group.rpartition(".")[2].removesuffix("s")
        known = (*_ours(group), *entries)
        raise unknown(f"unknown {kind} {name!r}; {remedy(name, known)}")
    entry = entries[name]
    try:
        return entry.load(), _said(entry), _package(entry)
    except (Exception, SystemExit) as error:
        raise unknown(f"{_said(entry)} fails: {type(error).__name__}: {error}") from error


def _said(entry: EntryPoint) -> str:
    source = _package(entry)
    package = f" of {source.origin}" if source else ""
    return f"{entry.name} ({entry.value}{package})"


def _package(entry: EntryPoint) -> CodeSource | None:
    """The package of an entry; its version identifies its content."""
    if entry.dist is None:
        return None
    origin = f"{entry.dist.name} {entry.dist.version}"
    return CodeSource(origin, hashlib.sha256(origin.encode()).hexdigest())


def spec_of(
    kind: type[Domain[Any, Any]], *, name: str = "", source: CodeSource | None = None
) -> DomainSpec:
    """Makes the spec of a class of a domain; its constructor's parameters are its settings.

    Raises:
        DomainError: a parameter of the constructor has no default, or cannot be a setting.
    """
    name = name or kebab(kind.__name__)
    fields: dict[str, Any] = {}
    takes_task = False
    for key, parameter in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        if key == "task":
            takes_task = True
        elif parameter.kind not in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}:
            fields[key] = (_type_of(parameter, kind, name), parameter.default)
    settings = create_model(f"{kind.__name__}Settings", __base__=Settings, **fields)

    def open_(task: str, chosen: Settings) -> Domain[Any, Any]:
        given = {key: getattr(chosen, key) for key in fields}
        # The constructor of a subclass takes the parameters of its signature.
        make: Any = kind
        made: Domain[Any, Any] = make(task=task, **given) if takes_task else make(**given)
        return made

    from llm_planning.roles.exercises import Teaches

    return DomainSpec(
        name=name,
        summary=(inspect.getdoc(kind) or name).partition("\n")[0],
        kind=kind,
        tasks=tuple(kind.tasks) or (kebab(kind.__name__),),
        settings=settings,
        open=open_,
        source=source,
        teacher=kind.teacher if issubclass(kind, Teaches) else None,
    )


def _type_of(parameter: inspect.Parameter, kind: type[Domain[Any, Any]], name: str) -> Any:  # noqa: ANN401
    """The type of a setting: the parameter's annotation, else the type of its default.

    Raises:
        DomainError: the parameter cannot be a setting.
    """
    key, default, said = parameter.name, parameter.default, parameter.annotation
    if default is parameter.empty:
        raise DomainError(f"{name}: give the parameter {key!r} of its constructor a default")
    where = f"{name}: the parameter {key!r} of {kind.__name__}'s constructor"
    if key.startswith("_") or hasattr(Settings, key):
        raise DomainError(f"{where} cannot be a setting of that name: rename it")
    if said is parameter.empty:
        said = Any if default is None else type(default)
    names = getattr(inspect.unwrap(kind.__init__), "__globals__", {})
    annotated: Any = SimpleNamespace(__annotations__={key: said})
    try:
        type_ = get_type_hints(annotated, names, include_extras=True)[key]
        readable = TypeAdapter(type_).pydantic_complete
    except (NameError, AttributeError, SyntaxError) as error:
        raise DomainError(
            f"{where} has a type that is not known when the class is used ({error}): import it "
            "outside of `if TYPE_CHECKING`, or leave the annotation out"
        ) from error
    except (PydanticUserError, TypeError):
        readable = False
    if not readable:
        shown = said if isinstance(said, str) else inspect.formatannotation(said)
        raise DomainError(
            f"{where} has the type {shown}, which no setting can have: take numbers, texts, truth "
            "values, lists, mappings or a pydantic model"
        )
    return type_


def kebab(name: str) -> str:
    """Turns TowersOfHanoi into towers-of-hanoi."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
