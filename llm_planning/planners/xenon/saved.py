"""What agents learn, on disk: written after each episode, taken up exactly."""

from __future__ import annotations

import json
import os
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping  # noqa: TC003 (pydantic reads it)
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from llm_kernels.files import TargetError, check_target, read_regular, write_json
from llm_planning.planners.xenon.graph import CyclicGraphError, DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge, Refutations, Withdrawn
from llm_planning.planners.xenon.questions import Failure  # noqa: TC001 (pydantic reads it)
from llm_planning.settings import SettingsError
from llm_serving.errors import shown

if TYPE_CHECKING:
    from pathlib import Path

    from llm_planning.planners.xenon.memory import ActionMemory

_LONGEST = 1 << 24
"""Bytes of a file; an agent that knows every item of the game writes one of some hundred KB."""
_GREATEST = 1 << 53
"""Of numbers, so that all of them are floats too."""
_LONGEST_PLACE = 80
_LONGEST_REASON = 400

_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Word: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 32)]
_Counts: TypeAlias = dict[str, dict[str, _Count]]

_SETS = ("demonstrated", "obtained", "consumed", "kept", "gathered")
_COUNTS = ("revisions", "attempts", "setbacks")
"""What `Knowledge` holds beside its graph."""


class SavedKnowledgeError(ValueError):
    """A file of learned knowledge is missing, damaged or of another run."""


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
    """A file.

    Attributes:
        format: of the file; must be `FORMAT`.
        run: what was run, by name: planner, task, model, seed and settings.
        memory: S(a, v) and F(a, v).
    """

    FORMAT: ClassVar[int]

    format: int
    run: dict[str, Any]
    memory: _Memory

    @property
    @abstractmethod
    def finished(self) -> int:
        """Episodes so far."""

    def recall(self, memory: ActionMemory) -> None:
        """Fills an action memory.

        Raises:
            SavedKnowledgeError: the file has actions that the memory's 𝒜 has not.
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
            SavedKnowledgeError: it is missing, damaged or of another format.
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
        """Reads the file that a run is to go on from.

        Args:
            save: of the file.
            run: what is to be run; must be what was.
            episodes: how many there are to be in the end.

        Returns:
            The record; None if there is no such file yet.

        Raises:
            SettingsError: no file can be written there.
            SavedKnowledgeError: the file is damaged; belongs to another run, of which the first
                difference is named; or holds more episodes.
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
        """Writes all of it or nothing.

        Args:
            path: of the file; its folder must exist.
            memory: S and F.
            run: what is being run.
            **content: the other fields, JSON-able.

        Raises:
            SavedKnowledgeError: the file cannot be written.
        """
        whole = {"format": cls.FORMAT, "run": run, **content, "memory": memory.to_json()}
        try:
            write_json(path, whole)
        except OSError as error:
            raise SavedKnowledgeError(f"cannot write {path}: {error}") from error


def _content(path: Path) -> bytes:
    """The text of a file, whose numbers are those that a run writes."""
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
    if not abs(value) <= _GREATEST:  # of NaN too
        raise ValueError(f"the number {text[:_LONGEST_PLACE]} is too large, or none")
    return value


def _no_knowledge(path: Path, reason: str) -> SavedKnowledgeError:
    return SavedKnowledgeError(
        f"{path} holds no learned knowledge: {reason}; delete it to begin anew"
    )


def _told(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_PLACE else shown(value)


@dataclass(slots=True)
class Notes:
    """What the parts of an agent keep of failures beside the action memory; each has its own.

    Attributes:
        unrevised: item -> failed attempts since it last succeeded or was revised; the dependency
            store's.
        in_vain: item -> how many attempts failed since one last succeeded or its requirements were
            last reconsidered; of action policies without FAM.
        unexplained: item -> failed attempts that were not reflected on yet; of self-reflection, as
            the next two.
        reasons: a failure without what was held -> the reflection on it.
        analyses: item -> reflections, oldest first.
        corrections: item -> how often the LLM corrected its requirements; of self-correction.
        refuted: of the knowledge's `Refutations`, as the next two.
        withdrawn: likewise.
        reviewed: likewise.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    unrevised: dict[str, list[Failure]] = field(default_factory=dict)
    in_vain: dict[str, int] = field(default_factory=dict)
    unexplained: dict[str, list[Failure]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    analyses: dict[str, list[str]] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)
    refuted: dict[str, list[dict[str, int]]] = field(default_factory=dict)
    withdrawn: dict[str, Withdrawn] = field(default_factory=dict)
    reviewed: int = 0


class Saved(Record):
    """A learned graph and memory.

    Attributes:
        episodes: how many were finished.
        items: V̂ in order, with R(v) and how many one action gives.
        demonstrated: as in `Knowledge`.
        obtained: likewise.
        consumed: likewise.
        kept: likewise.
        gathered: likewise.
        revisions: likewise.
        attempts: likewise.
        setbacks: likewise.
        notes: what is kept of failures beside the memory.
        goals: state of the generator that breaks ties between goals.
        curve: (environment steps, N_true, goals obtained), each time that they had changed.
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
        """Episodes so far."""
        return self.episodes

    def generator(self) -> random.Random:
        """The generator that breaks ties between goals.

        Raises:
            SavedKnowledgeError: the file holds no state of a generator.
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
        """What was learnt.

        Raises:
            SavedKnowledgeError: the graph has a cycle.
        """
        rules = {item: (one.requirements, one.makes) for item, one in self.items.items()}
        try:
            graph = DependencyGraph.of(rules)
        except CyclicGraphError as error:
            raise SavedKnowledgeError(f"the saved graph has a cycle: {error}") from error
        notes = self.notes
        return Knowledge(
            graph,
            **{name: getattr(self, name).copy() for name in (*_SETS, *_COUNTS)},
            refutations=Refutations(notes.refuted, notes.withdrawn, notes.reviewed),
        )


def save_knowledge(
    path: Path,
    known: Knowledge,
    memory: ActionMemory,
    *,
    notes: Mapping[str, Any],
    run: Mapping[str, object],
    episodes: int,
    goals: random.Random,
    curve: list[tuple[int, int, int]],
) -> None:
    """Writes what `Saved.load` reads; see `Saved` for what is kept.

    Args:
        path: of the file.
        known: the agent's knowledge.
        memory: its action memory.
        notes: what its other parts keep of failures, by the names of `Notes`.
        run: what is being run.
        episodes: how many were finished.
        goals: the generator that breaks ties between goals.
        curve: how it went so far.

    Raises:
        SavedKnowledgeError: the file cannot be written.
    """
    graph, refutations = known.graph, known.refutations
    whole = Notes(
        **notes,
        refuted=refutations.refuted,
        withdrawn=refutations.withdrawn,
        reviewed=refutations.reviewed,
    )
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
        notes=asdict(whole),
        goals=goals.getstate(),
        curve=curve,
    )
