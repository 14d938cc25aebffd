"""What the command line puts in the place of what a sweep's file says: models and settings.

A model takes the place of every model that the file names, in blocks and in files of roles. Where
the file names none, rules answer or nobody is asked, and that stays so: only a setting `roles` from
the command line has the model asked there, too.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from llm_base.quoting import quote
from llm_planning.experiments.grid_file import Entry, resolve_file
from llm_planning.experiments.grid_rows import proper_key, rows_of
from llm_planning.experiments.sweep_files import (
    SweepConfigError,
    Trust,
    packaged_sweeps,
    sweep_argument,
)
from llm_planning.model_configs import DEFAULT_MODEL, configuration
from llm_planning.names import remedy
from llm_planning.running import asked_roles, models_of_roles
from llm_planning.settings import SettingsError, UnreadSettingError
from llm_planning.specs import FOREIGN, choose, known_keys
from llm_serving.encoder_engine import NO_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_base.yaml_file import Json
    from llm_planning.experiments.grid_file import Clause
    from llm_planning.experiments.grid_rows import Row
    from llm_planning.specs import Chosen

_LONGEST_NAME = 100
"""Characters of a sweep's name, at most."""

_TRIED = 64
"""Combinations of settings that are tried to find out which of them is read, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instead:
    """Models and settings of the command line.

    Attributes:
        model: asked in the place of every model that the file names; "" leaves them.
        role_models: role -> the model that is asked in the place of any other.
        settings: key -> text, of every planner that has the setting.
    """

    model: str = ""
    role_models: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that it names."""
        return tuple(filter(None, (self.model, *self.role_models.values())))

    def name(self, name: str) -> str:
        """What a sweep of this name is called with these models and settings."""
        roles = (f"{role}-{_short(model)}" for role, model in sorted(self.role_models.items()))
        values = (f"{key}-{_short(text)}" for key, text in sorted(self.settings.items()))
        words = (*([_short(self.model)] if self.model else []), *roles, *values)
        whole = re.sub(r"[^A-Za-z0-9._-]+", "-", "-".join((name, *words))).rstrip(".")
        if len(whole) <= _LONGEST_NAME:
            return whole
        digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
        return f"{whole[: _LONGEST_NAME - len(digest) - 1]}-{digest}"

    def trusted(self, trust: Trust) -> Trust:
        """Trust in what the command line names, beside other trust.

        Raises:
            ServingError: a model's configuration cannot be read.
        """
        named = [*self.models, *self.settings.values()]
        for config in filter(None, map(configuration, self.models)):
            named += [config.model, *config.adapters.values()]
        more = Trust.of(named)
        return Trust(trust.names | more.names, trust.paths | more.paths)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The trials of a block that have the same models."""

    models: Sequence[str]
    role_models: Sequence[Mapping[str, str]]
    planners: Sequence[str]
    clauses: Sequence[Clause]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something of the file that the command line has replaced.

    Attributes:
        what: `model`, `model of ROLE` or the key of a setting.
        before: the file's values.
        after: the value in their place; None for a setting that nothing reads any more.
        planners: whose trials have it.
    """

    what: str
    before: str
    after: str | None
    planners: tuple[str, ...]


class Replacing:
    """Puts models and settings into the blocks of a sweep, and remembers what they replaced."""

    def __init__(self, instead: Instead) -> None:
        self._instead = instead
        self._changed: dict[tuple[str, str, str | None], dict[str, None]] = {}
        self._asking: dict[str, None] = {}
        self._ruled: dict[str, None] = {}
        self._keys: set[str] = set()
        self._used: set[str] = set()
        self._roles: set[str] = set()

    @property
    def changes(self) -> tuple[Change, ...]:
        """What was replaced, in the order of the file."""
        return tuple(
            Change(what=what, before=before, after=after, planners=tuple(planners))
            for (what, before, after), planners in self._changed.items()
        )

    @property
    def unasked(self) -> tuple[str, ...]:
        """The planners that ask no model, so that they run as the file says."""
        return tuple(name for name in self._ruled if name not in self._asking)

    def rows_of(
        self, name: str, own: Mapping[str, Entry], entries: Mapping[str, Entry]
    ) -> tuple[Mapping[str, Entry], list[Row]]:
        """A planner's settings and its rows, as `grid_rows.rows_of` makes them, with those given.

        What the given settings leave without a reader goes back to its default.

        Raises:
            SweepConfigError: as `grid_rows.rows_of`; also for a value that is impossible.
        """
        rows = list(rows_of(name, own, entries))
        typed = self._typed(rows)
        if not typed:
            return own, rows
        spec = rows[0].spec
        before = {proper_key(key, spec): entry for key, entry in own.items()}
        given = {key: Entry([value], f"--set {key}", 0) for key, value in typed.items()}
        rows = list(rows_of(name, before | given, entries))
        unread = set.intersection(*map(_unread, rows))
        # What this planner never reads is set for the others alone.
        given = {key: entry for key, entry in given.items() if key not in unread}
        if not given:
            return own, list(rows_of(name, own, entries))
        self._used |= given.keys()
        for key, entry in given.items():
            old = before[key].value if key in before else [_default(rows[0], key)]
            if list(old) != entry.value:
                self._note(key, _listed(old), _listed(entry.value), [name])
        kept = before.keys() - given.keys() - unread | (typed.keys() & unread & before.keys())
        for key in before.keys() - given.keys() - kept:
            self._note(key, _listed(before[key].value), None, [name])
        after = {key: entry for key, entry in before.items() if key in kept} | given
        return after, list(rows_of(name, after, entries))

    def parts(
        self,
        entries: Mapping[str, Entry],
        rows: Mapping[str, Sequence[Row]],
        clauses: Sequence[Clause],
    ) -> Iterator[Part]:
        """A block in parts with one set of models each.

        Args:
            entries: key -> its entry in the block.
            rows: planner -> its rows.
            clauses: of `exclude`; those that name a model hold of the file's.
        """
        models = entries["model"].value if "model" in entries else [DEFAULT_MODEL]
        others = entries["role_models"].value if "role_models" in entries else [{}]
        if not self._instead.models:
            yield Part(models=models, role_models=others, planners=[*rows], clauses=clauses)
            return
        self._roles |= {role for some in rows.values() for row in some for role in row.spec.roles}
        asking = [name for name, some in rows.items() if any(map(_asks, some))]
        for old in dict.fromkeys(models):
            here = [_without_model(one) for one in clauses if not one.model or old in one.model]
            if None in here:
                continue
            left = [clause for clause in here if clause is not None]
            asked = asking if old != NO_MODEL or "roles" in self._instead.settings else []
            self._asking |= dict.fromkeys(asked)
            self._ruled |= dict.fromkeys(rows)
            new = self._instead.model or old
            if old != new and asked:
                self._note("model", old, new, asked)
            for model, names in (
                (new, [name for name in rows if old != NO_MODEL or name in asked]),
                (old, [name for name in rows if old == NO_MODEL and name not in asked]),
            ):
                if names:
                    some = {name: rows[name] for name in names}
                    yield Part(
                        models=[model],
                        role_models=self._role_models(others, some),
                        planners=names,
                        clauses=left,
                    )

    def check(self, file: Path) -> None:
        """Makes sure that all that the command line names has its place in the sweep.

        Raises:
            SweepConfigError: no planner has a setting or asks a role, or nobody asks a model.
        """
        for key in self._instead.settings:
            if key.removeprefix(FOREIGN) in self._used or key in self._used:
                continue
            if key in self._keys:
                raise SweepConfigError(
                    f"--set {key}: no planner of {sweep_argument(file)} reads this setting there"
                )
            raise SweepConfigError(
                f"--set {key}: no planner of {sweep_argument(file)} has this setting; "
                f"{remedy(key, sorted(self._keys))}"
            )
        for role in self._instead.role_models:
            if role not in self._roles:
                raise SweepConfigError(
                    f"--role-model {role}: no planner of {sweep_argument(file)} asks this role; "
                    f"{remedy(role, sorted(self._roles))}"
                )
        own = any(change.what.startswith("model") for change in self.changes)
        if self._instead.models and not self._asking and not own:
            name, roles = sweep_argument(file), ", ".join(sorted(self._roles))
            ways = [f"run {name}" for name in _siblings(file)]
            why = "its planners ask nothing"
            if roles:
                why = f"rules answer {roles}"
                ways.insert(0, "add --set roles=llm")
            remedies = f": {', or '.join(ways)}" if ways else ""
            raise SweepConfigError(f"{name} asks no model, as {why}{remedies}")

    def _typed(self, rows: Sequence[Row]) -> dict[str, Json]:
        """The given settings that a planner has in each of its domains, as its models read them."""
        typed: dict[str, Json] = {}
        for row in rows:
            self._keys.update(known_keys(row.spec, row.domain))
        for key, text in self._instead.settings.items():
            names = {proper_key(key, row.spec) for row in rows}
            if all(proper_key(key, row.spec) in known_keys(row.spec, row.domain) for row in rows):
                (name,) = names
                typed[name] = _value(rows[0], name, text)
        return typed

    def _role_models(
        self, others: Sequence[Mapping[str, str]], rows: Mapping[str, Sequence[Row]]
    ) -> list[Mapping[str, str]]:
        """The models of roles, in the place of those that the file and its files of roles name."""
        filed: dict[str, str] = {}
        for some in rows.values():
            for row in some:
                for chosen in _ways(row):
                    filed |= models_of_roles(row.spec, chosen)
        given = {
            role: model
            for role, model in self._instead.role_models.items()
            if any(role in row.spec.roles for some in rows.values() for row in some)
        }
        made: list[Mapping[str, str]] = []
        for named in others:
            before = {**filed, **named}
            after = {role: self._instead.model or old for role, old in before.items()} | given
            for role, new in after.items():
                old = before.get(role, "the model of the trial")
                if new != old:
                    askers = [
                        name
                        for name, some in rows.items()
                        if any(role in _asked(row) for row in some)
                    ]
                    if askers:
                        self._note(f"model of {role}", old, new, askers)
            if after not in made:
                made.append(after)
        return made

    def _note(self, what: str, before: str, after: str | None, planners: Iterable[str]) -> None:
        self._changed.setdefault((what, before, after), {}).update(dict.fromkeys(planners))


def _ways(row: Row) -> Iterator[Chosen]:
    """A row's settings, for each value of `roles`, the others at their first value."""
    first = next(row.combinations())
    ways = row.settings["roles"].value if "roles" in row.settings else [None]
    for roles in ways:
        given = first if roles is None else first | {"roles": roles}
        try:
            yield choose(row.spec, row.domain, given)
        except SettingsError:
            continue  # reported with its place when trials are made, unless it is excluded


def _asked(row: Row) -> set[str]:
    """The roles that a model answers in some trial of a row."""
    return {role for chosen in _ways(row) for role in asked_roles(row.spec, chosen)}


def _asks(row: Row) -> bool:
    """Whether some trial of a row may ask a model; of a planner of others nobody knows."""
    return bool(_asked(row)) or (row.spec.source is not None and not row.spec.roles)


def _unread(row: Row) -> set[str]:
    """The settings of a row that nothing reads, whatever the others are."""
    defaults = to_jsonable_python(choose(row.spec, row.domain, {}).to_json())
    ever, always = set[str](), set(row.settings)
    for given in islice(row.combinations(), _TRIED):
        unread = _unread_of(row, given)
        ever |= unread
        # Of a default it is not said that nothing reads it.
        always &= unread | {key for key, value in given.items() if value == defaults[key]}
    return ever & always


def _unread_of(row: Row, given: Mapping[str, Json]) -> set[str]:
    """The settings of a combination that nothing reads."""
    left = dict(given)
    while True:
        try:
            choose(row.spec, row.domain, left)
        except UnreadSettingError as error:
            key = next((key for key in (error.key, FOREIGN + error.key) if key in left), None)
            if key is None:
                break
            del left[key]
        except SettingsError:
            break
        else:
            break
    return given.keys() - left.keys()


def _value(row: Row, key: str, text: str) -> Json:
    """The value of a setting that a text stands for.

    Raises:
        SweepConfigError: it is not possible.
    """
    own = key in row.spec.settings.known_keys()
    settings = row.spec.settings if own else row.domain.settings
    name = key if own else key.removeprefix(FOREIGN)
    try:
        value: Json = to_jsonable_python(settings.read({name: text}).to_json()[name])
    except SettingsError as error:
        raise SweepConfigError(f"--set {key}={text}: planner {row.spec.name}: {error}") from error
    return value


def _default(row: Row, key: str) -> Json:
    """The value of a setting that nobody gave."""
    value: Json = to_jsonable_python(choose(row.spec, row.domain, {}).to_json().get(key))
    return value


def _listed(values: Iterable[Json]) -> str:
    """Values of a setting, for people."""
    texts = [value if isinstance(value, str) else quote(value) for value in islice(values, 4)]
    return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")


def _short(name: str) -> str:
    """A model's or a file's name without folders and ending."""
    return re.sub(r"\.ya?ml$", "", name.rstrip("/")).rpartition("/")[2]


def _without_model(clause: Clause) -> Clause | None:
    """A clause of `exclude` for the trials of a model that it names; None if it leaves out all."""
    if not clause.model:
        return clause
    others = clause.model_fields_set - {"model"}
    return type(clause)(**{key: getattr(clause, key) for key in others}) if others else None


def _siblings(file: Path) -> Iterator[str]:
    """The sweeps that come along, of the same table, in which a model is asked."""
    here, names = file.resolve(), {path: name for name, path in packaged_sweeps().items()}
    for path, name in names.items():
        of_the_table = f"-{here.stem}-" in f"-{path.stem}-"  # table2 is no part of table21
        if path.parent == here.parent and path != here and of_the_table:
            blocks = resolve_file(path).blocks
            models = [
                entries["model"].value if "model" in entries else [DEFAULT_MODEL]
                for _, entries in blocks
            ]
            if any(model != NO_MODEL for some in models for model in some):
                yield name
