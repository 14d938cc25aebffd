"""The setting `roles`, which says who answers: `--set roles=llm|rules|PROFILE|FILE`."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 (a dataclass's field)
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from pydantic import model_validator

from llm_base.quoting import quote
from llm_planning.model_configs import model_name, packaged_file, split_adapter
from llm_planning.roles.oracles import Errors
from llm_planning.settings import Settings, SettingsError, When, identified

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Self

SHAPES = (
    "llm, rules, {rate: 0.9, kind: systematic, unit: answer}, {rate: 0.7, rates: {feasible: 0.6}}, "
    "{model: NAME} or {model: NAME, adapter: FOLDER}"
)
"""The values of a roles file."""

WORDS = ("llm", "rules")
"""Values of `roles` that every planner knows."""


@dataclass(frozen=True, slots=True)
class OwnModel:
    """A model that answers one role instead of the run's model.

    Attributes:
        adapter: the adapter that changes it: one of its configuration, a folder, or a bundled model
            that is made of one; None for the model as it is.
    """

    model: str
    adapter: str | None = None

    @property
    def name(self) -> str:
        """What `find_config` takes."""
        return self.model if self.adapter is None else f"{self.model}+{self.adapter}"


Answerer: TypeAlias = Literal["llm"] | OwnModel | Errors
"""Who answers a role: the run's model, a model of the role's own, or the domain's rules."""


@dataclass(frozen=True, slots=True)
class RoleAssignment:
    """Who answers which role.

    Attributes:
        default: answers every role that is not in `by_role`.
        by_role: role -> who answers it.
        others: the roles of a file that the planner does not ask; `running.refuse_others` says
            whether another planner does.
    """

    default: Answerer = "llm"
    by_role: Mapping[str, Answerer] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def of(self, role: str) -> Answerer:
        """Returns who answers a role."""
        return self.by_role.get(role, self.default)

    def errors_of(self, role: str) -> Errors | None:
        """How rules err in a role; None if a model answers it."""
        answerer = self.of(role)
        return answerer if isinstance(answerer, Errors) else None

    @property
    def models(self) -> dict[str, str]:
        """Maps roles to the names of their own models, which the caller opens."""
        return {
            role: answerer.name
            for role, answerer in self.by_role.items()
            if isinstance(answerer, OwnModel)
        }


@dataclass(frozen=True, slots=True)
class Profile:
    """Rules that answer all roles of a planner, with errors that have a name.

    Attributes:
        name: what `roles` says.
        errors: of every answer for which the planner has no other.
        description: the errors in words.
    """

    name: str
    errors: Errors
    description: str


def read_roles(
    value: str, *, known: Sequence[str], profile: Profile | None = None
) -> RoleAssignment:
    """Reads the setting `roles`.

    Args:
        value: `llm`: the model answers every role. `rules`: the domain's rules answer every role,
            without errors. The name of the profile: rules answer every role, with its errors.
            Otherwise a YAML file that maps roles to `SHAPES`; the model answers the roles that the
            file leaves out.
        known: the names of the roles that the planner and its ablations ask. What a file says of
            others is checked and left out, so that one file serves all planners.
        profile: of the planner, if it has one.

    Raises:
        SettingsError: the file cannot be read, or has an unknown key or value.
    """
    if profile is not None and value == profile.name:
        return RoleAssignment(profile.errors)
    if value in WORDS:
        return RoleAssignment(_answerer(value))
    from llm_base.yaml_file import YamlError, file_hash

    try:
        file = packaged_file(value)
        answerers = _answerers(file, file_hash(Path(file)))
    except YamlError as error:
        raise SettingsError(
            f"roles={value} is neither {' nor '.join(words_of(profile))} nor a file of roles: "
            f"{error}"
        ) from error
    by_role = {role: answerer for role, answerer in answerers.items() if role in known}
    others = tuple(role for role in answerers if role not in known)
    return RoleAssignment("llm", by_role, others)


@lru_cache(maxsize=64)
def _answerers(path: str, sha256: str) -> Mapping[str, Answerer]:
    """Role -> who answers it, by a file, which a sweep reads once and not for each of its trials.

    Raises:
        YamlError: it cannot be read.
        SettingsError: it has an unknown value.
    """
    from llm_base.yaml_file import read_mapping

    del sha256  # Another file of this path is read anew.
    answerers: dict[str, Answerer] = {}
    for role, value in read_mapping(Path(path)).items():
        try:
            answerers[str(role)] = _answerer(value)
        except SettingsError as error:
            raise SettingsError(f"roles={path}: role {role}: {error}") from error
    return answerers


def words_of(profile: Profile | None) -> tuple[str, ...]:
    """The values of `roles` that name no file."""
    return WORDS if profile is None else (*WORDS, profile.name)


def _answerer(value: object) -> Answerer:
    match value:
        case "llm":
            return "llm"
        case "rules":
            return Errors()
        case {"model": str(name), **others} if not others:
            return OwnModel(model_name(name))
        case {"model": str(name), "adapter": str(adapter), **others} if adapter and not others:
            if split_adapter(name)[1] is not None:
                raise SettingsError(
                    f"the model {quote(name)} has an adapter, and a role has one: leave out "
                    f"`adapter`, or the part after the +"
                )
            return OwnModel(name, adapter)
        case {**values} if values and "model" not in values:
            return Errors.read({str(key): value for key, value in values.items()})
    raise SettingsError(f"{value!r} does not say who answers; write {SHAPES}")


def by_model(*roles: str) -> When:
    """The condition that a model answers one of these roles (`Settings.read_when`)."""
    named = " or ".join(f"`{role}`" for role in roles)

    def holds(settings: RoleSettings) -> bool:
        assignment = settings.assignment
        return any(assignment.errors_of(role) is None for role in roles)

    return When("roles", f"a model that answers {named}", holds)


def by_fallible(role: str) -> When:
    """The condition that a model answers a role, or rules that err (`Settings.read_when`)."""

    def holds(settings: RoleSettings) -> bool:
        errors = settings.assignment.errors_of(role)
        return errors is None or not errors.never

    return When("roles", f"who may err in `{role}`", holds)


class RoleSettings(Settings):
    """Settings of a planner whose roles a model or the domain's rules may answer.

    Attributes:
        roles: who answers: `llm`, the domain's `rules`, or a YAML file that says it role by role.
        roles_sha256: hash of that file, in hexadecimal, so that a changed file makes another trial.
            It is computed; a given value must match the file.
        known_roles: every role that the planner or one of its ablations asks, so that one file
            serves them all.
        profile: one more value of `roles`. It holds in a run without a model if the user does not
            say who answers; a planner without one then refuses to run.
    """

    known_roles: ClassVar[tuple[str, ...]] = ()
    profile: ClassVar[Profile | None] = None

    roles: str = "llm"
    roles_sha256: str = ""

    @cached_property
    def assignment(self) -> RoleAssignment:
        """Who answers which role."""
        return read_roles(self.roles, known=self.known_roles, profile=self.profile)

    def answered_by_rules(self) -> Self:
        """The same, with rules that never err in every role."""
        rules = {"roles": "rules", "roles_sha256": "", "assignment": RoleAssignment(Errors())}
        return self.model_copy(update=rules)

    def models_roles(self, roles: Sequence[str]) -> tuple[str, ...]:
        """Those of a planner's roles that a model answers if nobody else is named."""
        return tuple(roles)

    def errors_of(self, role: str, *, opened: Collection[str]) -> Errors | None:
        """How the domain's rules err in a role; None if a model answers it.

        Args:
            role: of `known_roles`.
            opened: the roles whose own models are open.

        Raises:
            SettingsError: the role has a model of its own that is not open.
        """
        assignment = self.assignment
        answerer = assignment.of(role)
        if isinstance(answerer, OwnModel) and role not in opened:
            raise SettingsError(
                f"roles={self.roles}: the model {answerer.model} of role {role!r} is not open: "
                "give the planner Engines(engine, {role: another engine})"
            )
        return assignment.errors_of(role)

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        roles = str(values.get("roles", "llm"))
        if roles in words_of(cls.profile):
            return identified(values, "roles", "")
        from llm_base.yaml_file import file_hash

        return identified(values, "roles", file_hash(Path(packaged_file(roles))))
