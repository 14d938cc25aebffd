"""Finding planners and domains by their names.

A name is one of this project's own; FILE.py:NAME, a file of the user's; or one that an installed
package announces in the entry-point group `llm_planning.planners` or `llm_planning.domains`.
Looking up a file's name runs the file, so only commands that run planners do it.
"""

from __future__ import annotations

import hashlib
import inspect
import re
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import to_jsonable_python

from llm_base.quoting import quote
from llm_planning.domain import Domain, DomainError
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.interrupts import was_interrupted
from llm_planning.names import Catalogue, Named, remedy
from llm_planning.own_code import (
    CodeSource,
    OwnCodeError,
    describe_error,
    is_ours,
    load_own,
    locate_error,
    own_source,
)
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.settings import Settings
from llm_planning.specs import DomainSpec, PlannerSpec, why_unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from llm_planning.roles.exercises import ExerciseMaker, Words

SpecT = TypeVar("SpecT", bound=Named)


class UnknownNameError(ValueError):
    """No planner or no domain has this name."""


class Table(Generic[SpecT]):
    """Planners or domains by name, whoever made them.

    Args:
        kind: what a name means, such as "planner".
        ours: this project's own.
        read: makes the spec of what a package or a file has under a name; None if it is none.
        remedy: what to write instead of something that is none.
    """

    def __init__(
        self,
        kind: str,
        ours: Catalogue[SpecT],
        *,
        read: Callable[[Any, str, CodeSource | None], SpecT | None],
        remedy: str,
    ) -> None:
        self._kind, self._ours, self._read, self._remedy = kind, ours, read, remedy

    def find(self, name: str) -> SpecT:
        """The spec of a name; that of a user's file has the file's `source`, and runs it.

        Raises:
            UnknownNameError: nothing has this name, or what has it is none or fails; the message
                proposes the nearest names, or says what is wrong.
            OwnCodeError: the user's file cannot be run or has no such name.
            DomainError: a parameter of the constructor of a domain cannot be a setting.
        """
        if spec := self._ours.get(name):
            return spec
        named: Any
        source: CodeSource | None
        if own := load_own(name):
            (named, source), label = own, name
        else:
            packages = self._packages()
            if name not in packages:
                instead = remedy(name, (*self._ours, *packages))
                if name.endswith(".py"):
                    instead = f"write {name}:NAME, with a name that the file has"
                raise UnknownNameError(f"unknown {self._kind} {name!r}; {instead}")
            entry, source = packages[name], self.source(name)
            label = f"{name} ({entry.value}{f' of {source.origin}' if source else ''})"
            try:
                named = entry.load()
            except BaseException as error:
                if was_interrupted(error):
                    raise
                raise UnknownNameError(f"{label} fails: {describe_error(error)}") from error
        spec = self._read(named, name, source)
        if spec is None:
            raise UnknownNameError(f"{label} is not a {self._kind}: {self._remedy}")
        return spec

    def announced(self) -> tuple[str, ...]:
        """Names that installed packages announce, without this project's; nothing is loaded."""
        return tuple(name for name in self._packages() if name not in self._ours)

    def source(self, name: str) -> CodeSource | None:
        """The `source` that a name has now, without running or loading it; None for ours.

        Raises:
            OwnCodeError: the user's file cannot be read.
        """
        if own := own_source(name):
            return own
        entry = None if name in self._ours else self._packages().get(name)
        if entry is None or entry.dist is None:
            return None
        origin = f"{entry.dist.name} {entry.dist.version}"
        return CodeSource(origin, hashlib.sha256(origin.encode()).hexdigest())

    def _packages(self) -> dict[str, EntryPoint]:
        entries = entry_points(group=f"llm_planning.{self._kind}s")
        return {entry.name: entry for entry in entries}


def _read_planner(named: object, name: str, source: CodeSource | None) -> PlannerSpec | None:
    return replace(named, name=name, source=source) if isinstance(named, PlannerSpec) else None


def _read_domain(named: object, name: str, source: CodeSource | None) -> DomainSpec | None:
    if not (isinstance(named, type) and issubclass(named, Domain)):
        return None
    return spec_of(named, name=name, source=source)


planners: Final = Table(
    "planner", PLANNERS, read=_read_planner, remedy="decorate a function with `@planner`"
)
domains: Final = Table("domain", DOMAINS, read=_read_domain, remedy="write a subclass of `Domain`")
find_planner, find_domain = planners.find, domains.find


@contextmanager
def telling_own_lines(*names: str) -> Iterator[None]:
    """Adds the file and the line to errors where code of others runs.

    Args:
        names: of planners and domains.

    Raises:
        OwnCodeError: an error of a class that is not ours was raised, and one of the names is not
            this project's.
    """
    try:
        yield
    except BaseException as error:  # as of native libraries, whose errors are no `Exception`
        ours = all(name in PLANNERS or name in DOMAINS for name in names)
        if ours or is_ours(error) or was_interrupted(error):
            raise
        raise OwnCodeError(locate_error(error, names)) from error


def never_read(planner: object) -> frozenset[str]:
    """The settings that a planner shares with others and never reads.

    Args:
        planner: its name in trials. If it is not of this project, nothing is known, as its code is
            not loaded for that.
    """
    spec = PLANNERS.get(str(planner))
    return spec.never_read if spec else frozenset()


@cache
def defaults_of(planner: str) -> Mapping[str, object]:
    """Key -> default of a planner's own settings, as trials have them.

    Args:
        planner: its name in trials. Of one that is not of this project nothing is known, as its
            code is not loaded for that.
    """
    spec = PLANNERS.get(planner)
    defaults: dict[str, object] = {}
    if spec is not None:
        defaults = to_jsonable_python(spec.settings.read({}).to_json())
    return defaults


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
    """The planner that asks most of these roles and can plan in a domain.

    Of equals it is the first one whose home the domain is, otherwise the first one: lessons are in
    the words of the planners at home.

    Args:
        roles: which a model was taught.
    """
    fitting = (spec for spec in PLANNERS.values() if not spec.lacks(domain))
    return max(
        fitting,
        key=lambda spec: (len({*roles}.intersection(spec.roles)), spec.home == domain.name),
    )


def exercise_makers(domain: DomainSpec, *, words: Words) -> dict[str, ExerciseMaker]:
    """Role -> the maker of its exercises in a domain.

    Every planner of this project that can plan there brings its own, and the domain may have more
    (`Domain.lessons`). Where two have a role of one name, those of the domain count, then those of
    the planner that the catalogue lists first.

    Args:
        words: as `PlannerSpec.exercises` takes them.
    """
    fitting = (spec for spec in PLANNERS.values() if not spec.lacks(domain))
    # Planners of one family share a function, so it is called once.
    functions = dict.fromkeys(spec.exercises for spec in fitting if spec.exercises)
    lessons = domain.kind.lessons
    makers: dict[str, ExerciseMaker] = {
        lesson.role.name: replace(lesson, words=words) for lesson in lessons
    }
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
    askers = [spec for spec in PLANNERS.values() if role in spec.roles]
    if any(role in spec.free_text for spec in askers):
        return "its answer is free text, so no answer is the right one"
    if makers or not askers:
        reason = f"no planner has exercises of it in {domain.name}"
        return f"{reason}; {remedy(role, makers)}" if makers else reason
    return f"{domain.name} does not know right answers to it: docs/distillation.md says who does"


def spec_of(
    kind: type[Domain[Any, Any]], *, name: str = "", source: CodeSource | None = None
) -> DomainSpec:
    """Makes the spec of a class of a domain; its constructor's parameters are its settings.

    Raises:
        DomainError: a parameter of the constructor has no default, or cannot be a setting; or there
            are several `tasks`, and the constructor takes none.
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
        options = {key: getattr(chosen, key) for key in fields}
        # The constructor of a subclass takes the parameters of its signature.
        make: Any = kind
        domain: Domain[Any, Any] = make(task=task, **options) if takes_task else make(**options)
        return domain

    # Without an order, nothing is the first task, which is the default.
    if isinstance(kind.tasks, str | set | frozenset) or (len(kind.tasks) > 1 and not takes_task):
        raise DomainError(
            f"{name}: {kind.__name__}.tasks is {quote(kind.tasks)}: give a tuple of texts, and "
            "the constructor a parameter `task` that takes one of them"
        )
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
    key, default, annotation = parameter.name, parameter.default, parameter.annotation
    if default is parameter.empty:
        raise DomainError(f"{name}: give the parameter {key!r} of its constructor a default")
    where = f"{name}: the parameter {key!r} of {kind.__name__}'s constructor"
    if key.startswith("_") or hasattr(Settings, key):
        raise DomainError(f"{where} cannot be a setting of that name: rename it")
    if annotation is parameter.empty:
        annotation = Any if default is None else type(default)
    names = getattr(inspect.unwrap(kind.__init__), "__globals__", {})
    annotated: Any = SimpleNamespace(__annotations__={key: annotation})
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
        is_text = isinstance(annotation, str)
        written = annotation if is_text else inspect.formatannotation(annotation)
        raise DomainError(
            f"{where} has the type {written}, which no setting can have: take numbers, texts, "
            "truth values, lists, mappings or a pydantic model"
        )
    return type_


def kebab(name: str) -> str:
    """Turns TowersOfHanoi into towers-of-hanoi."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
