"""Learned knowledge on disk, written after each episode; a stopped run goes on exactly."""

from __future__ import annotations

import json
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from llm_kernels.files import TargetError, check_target, read_regular, write_json
from llm_kernels.quoting import shown
from llm_planning.planners.xenon.action_policies import AttemptState, ReflectionState
from llm_planning.planners.xenon.dependency_graph import CyclicGraphError, DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge, PartState, Refutations
from llm_planning.planners.xenon.revision import CorrectionState, StoreState
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from llm_planning.planners.xenon.fam import ActionMemory
    from llm_planning.settings import Settings

_LONGEST = 1 << 24
"""Bytes of the largest file; the knowledge of all items of the game takes some hundred KB."""
_GREATEST = 1 << 53
"""Largest number; up to it, every whole number is also a float."""
_LONGEST_PLACE = 80
_LONGEST_REASON = 400

_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Word: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 32)]
_Counts: TypeAlias = dict[str, dict[str, _Count]]

_SETS = ("demonstrated", "obtained", "consumed", "kept", "gathered")
_COUNTS = ("revisions", "attempts", "setbacks")
"""Fields of `Knowledge` beside its graph and its refutations."""


EXTENDABLE = ("episodes", "save")
"""Settings that may change when a saved run goes on."""


class SavedKnowledgeError(ValueError):
    """A file of learned knowledge is missing, is damaged or belongs to another run."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Item(_Part):
    requirements: dict[str, PositiveInt]
    makes: PositiveInt


class _Memory(_Part):
    successes: _Counts
    failures: _Counts


class _Header(BaseModel):
    format: int


class Record(_Part, ABC):
    """What every file of learned knowledge contains.

    Attributes:
        format: of the file; must be `FORMAT`.
        run: name -> value of what was run: planner, task, model, seed and settings.
        memory: S(a, v) and F(a, v).
    """

    FORMAT: ClassVar[int]

    format: int
    run: dict[str, Any]
    memory: _Memory

    @property
    @abstractmethod
    def finished(self) -> int:
        """Number of finished episodes."""

    def recall(self, memory: ActionMemory) -> None:
        """Fills an action memory.

        Raises:
            SavedKnowledgeError: the file contains actions that are not in the memory's 𝒜.
        """
        try:
            memory.restore(self.memory.model_dump())
        except ValueError as error:
            raise SavedKnowledgeError(
                f"the saved action memory is of another action set: {str(error)[:_LONGEST_REASON]}"
                "; learn with the verbs of this run"
            ) from error

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file.

        Raises:
            SavedKnowledgeError: the file is missing, is damaged or has another format.
        """
        content = _content(path)
        try:
            header = _Header.model_validate_json(content)
            if header.format != cls.FORMAT:
                raise SavedKnowledgeError(
                    f"{path} has format {header.format}, not {cls.FORMAT}: delete it to begin anew"
                )
            return cls.model_validate_json(content)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))[:_LONGEST_PLACE] or "the file"
            raise _no_knowledge(path, f"{where}: {first['msg']}") from error

    @classmethod
    def resume(cls, save: Path, run: Mapping[str, object], *, episodes: int) -> Self | None:
        """Reads the file from which a run goes on.

        Args:
            save: path of the file.
            run: name -> value of what is to be run; must equal what was run.
            episodes: number of episodes of the whole run.

        Returns:
            The record; None if there is no such file yet.

        Raises:
            SettingsError: no file can be written there.
            SavedKnowledgeError: the file is damaged, belongs to another run or holds more episodes.
                The message names the first difference.
        """
        if not os.path.isdir(os.path.dirname(os.path.abspath(save))):
            raise SettingsError(f"save={save}: that folder does not exist; make it first")
        try:
            check_target(save)
        except (TargetError, ValueError) as error:
            raise SettingsError(f"save={save}: {error}") from error
        if not os.path.exists(save):
            return None
        saved = cls.load(save)
        for key in (*run, *saved.run):
            there, here = saved.run.get(key), run.get(key)
            if there != here:
                raise SavedKnowledgeError(
                    f"{save} was learnt with {key}={_told(there)}, and this run has "
                    f"{key}={_told(here)}: name another file, or delete this one to begin anew"
                )
        if saved.finished > episodes:
            raise SavedKnowledgeError(
                f"{save} holds {saved.finished} episodes, more than episodes={episodes}: name "
                "another file"
            )
        return saved

    @classmethod
    def write(
        cls, path: Path, memory: ActionMemory, *, run: Mapping[str, object], **content: object
    ) -> None:
        """Writes the whole file or nothing.

        Args:
            path: of the file; its folder must exist.
            memory: S and F.
            run: name -> value of what is run.
            **content: the other fields, as JSON values.

        Raises:
            SavedKnowledgeError: the file cannot be written.
        """
        whole = {"format": cls.FORMAT, "run": run, **content, "memory": memory.to_json()}
        try:
            write_json(path, whole)
        except OSError as error:
            raise SavedKnowledgeError(f"cannot write {path}: {error}") from error


def run_of(settings: Settings, **named: object) -> dict[str, object]:
    """Returns name -> value of what is run, as a file contains it.

    Args:
        settings: of the run.
        **named: what is run beside the settings.
    """
    return named | {k: v for k, v in settings.to_json().items() if k not in EXTENDABLE}


def _content(path: Path) -> bytes:
    """Returns the text of a file after checking that none of its numbers is too large."""
    try:
        content = read_regular(path, most=_LONGEST)
    except OSError as error:
        raise SavedKnowledgeError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise SavedKnowledgeError(f"cannot read {path}: {error}") from error
    try:
        json.loads(content, parse_int=_number, parse_float=_number, parse_constant=_number)
    except (ValueError, RecursionError) as error:
        raise _no_knowledge(path, f"the file: {error}") from error
    return content


def _number(text: str) -> float:
    value = float(text)
    if not abs(value) <= _GREATEST:  # true for NaN, too
        raise ValueError(f"the number {text[:_LONGEST_PLACE]} is too large or not a number")
    return value


def _no_knowledge(path: Path, reason: str) -> SavedKnowledgeError:
    return SavedKnowledgeError(
        f"{path} holds no learned knowledge: {reason}; delete it to begin anew"
    )


def _told(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_PLACE else shown(value)


# The keys of a file have the order of the bases from last to first.
@dataclass
class Notes(Refutations, CorrectionState, ReflectionState, AttemptState, StoreState):
    """The states of all parts, joined; a part that an agent lacks leaves its fields empty."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    @classmethod
    def joined(cls, states: Iterable[PartState]) -> Notes:
        """Joins the states of an agent's parts."""
        return cls(**{name: kept for state in states for name, kept in vars(state).items()})


class Saved(Record):
    """A learned graph and memory.

    `demonstrated` to `setbacks` are the fields of `Knowledge`.

    Attributes:
        episodes: number of finished episodes.
        items: V̂ in order, with R(v) and how many one action gives.
        notes: the states of the agent's parts.
        goals: state of the generator that breaks ties between goals.
        curve: (environment steps, N_true, goals obtained) whenever they changed.
    """

    FORMAT = 3

    episodes: _Count
    items: dict[str, _Item]
    demonstrated: set[str]
    obtained: set[str]
    consumed: set[str]
    kept: set[str]
    gathered: set[str]
    revisions: dict[str, _Count]
    attempts: dict[str, _Count]
    setbacks: dict[str, _Count]
    notes: Notes
    goals: tuple[Literal[3], Annotated[list[_Word], Field(min_length=625)], float | None]
    curve: list[tuple[_Count, _Count, _Count]]

    @property
    def finished(self) -> int:
        """Number of finished episodes."""
        return self.episodes

    def generator(self) -> random.Random:
        """Restores the generator that breaks ties between goals.

        Raises:
            SavedKnowledgeError: the file holds no valid state.
        """
        version, internal, gauss = self.goals
        generator = random.Random()
        try:
            generator.setstate((version, tuple(internal), gauss))
        except (ValueError, TypeError) as error:
            raise SavedKnowledgeError(
                f"the saved generator of goals is damaged: {error}"
            ) from error
        return generator

    def knowledge(self) -> Knowledge:
        """Returns what was learnt.

        Raises:
            SavedKnowledgeError: the graph has a cycle.
        """
        rules = {item: (one.requirements, one.makes) for item, one in self.items.items()}
        try:
            graph = DependencyGraph.of(rules)
        except CyclicGraphError as error:
            raise SavedKnowledgeError(f"the saved graph has a cycle: {error}") from error
        fields = {name: getattr(self, name).copy() for name in (*_SETS, *_COUNTS)}
        known = Knowledge(graph, **fields)
        known.refutations.restore(self.notes)
        return known


def save_knowledge(
    path: Path,
    known: Knowledge,
    memory: ActionMemory,
    *,
    states: Iterable[PartState],
    run: Mapping[str, object],
    episodes: int,
    goals: random.Random,
    curve: list[tuple[int, int, int]],
) -> None:
    """Writes the file that `Saved.load` reads.

    Args:
        path: of the file.
        known: the agent's knowledge.
        memory: its action memory.
        states: of its dependency store and its action policy.
        run: name -> value of what is run.
        episodes: number of finished episodes.
        goals: the generator that breaks ties between goals.
        curve: (environment steps, N_true, goals obtained) so far.

    Raises:
        SavedKnowledgeError: the file cannot be written.
    """
    graph = known.graph
    Saved.write(
        path,
        memory,
        run=run,
        episodes=episodes,
        items={
            v: {"requirements": dict(graph.requirements(v)), "makes": graph.makes(v)}
            for v in graph.items
        },
        **{name: sorted(getattr(known, name)) for name in _SETS},
        **{name: getattr(known, name) for name in _COUNTS},
        notes=asdict(Notes.joined((*states, known.refutations))),
        goals=goals.getstate(),
        curve=curve,
    )
