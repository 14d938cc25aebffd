"""What was learnt, on disk: Ĝ and the action memory, written after each episode."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from llm_base.files import TargetError, check_target, read_regular, write_json
from llm_base.quoting import first_fault, quote
from llm_planning.planners.xenon.graph import CyclicGraphError, DependencyGraph
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llm_planning.planners.xenon.memory import ActionMemory, Knowledge
    from llm_planning.settings import Settings

_LONGEST = 1 << 24
"""Bytes of the largest file; the knowledge of all items of the game takes some hundred KB."""
_GREATEST = 1 << 53
"""Largest number; up to it, every whole number is also a float."""
_LONGEST_PLACE = 80
_LONGEST_REASON = 400

_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Counts: TypeAlias = dict[str, dict[str, _Count]]


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


class Record(_Part):
    """What every file of learned knowledge contains.

    Attributes:
        format: of the file; must be `FORMAT`.
        run: name -> value of what was run: agent, task, model, seed and settings.
        memory: S(a, v) and F(a, v).
    """

    FORMAT: ClassVar[int]

    format: int
    run: dict[str, Any]
    memory: _Memory

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
                    f"{path} has format {header.format}, not {cls.FORMAT}: delete it and learn anew"
                )
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise _no_knowledge(path, first_fault(error)) from error

    @classmethod
    def of(cls, save: Path, run: Mapping[str, object]) -> Self | None:
        """Reads the file that a run is to write, so that it writes over nothing else.

        Args:
            save: path of the file.
            run: name -> value of what is to be run; must equal what was run.

        Returns:
            The record; None if there is no such file yet.

        Raises:
            SettingsError: no file can be written there.
            SavedKnowledgeError: the file is damaged or belongs to another run. The message names
                the first difference.
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
                    f"{save} was learnt with {key}={_readable(there)}, and this run has "
                    f"{key}={_readable(here)}: name another file, or delete this one to begin anew"
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


def run_of(*settings: Settings, **named: object) -> dict[str, object]:
    """Returns name -> value of what is run, as a file contains it.

    Args:
        *settings: of the planner and of the world.
        **named: what is run beside the settings.
    """
    values = {key: value for part in settings for key, value in part.to_json().items()}
    return named | {key: value for key, value in values.items() if key not in {"episodes", "save"}}


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
        f"{path} holds no learned knowledge: {reason}; delete it and learn anew"
    )


def _readable(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= _LONGEST_PLACE else quote(value)


class Saved(Record):
    """A learned graph and action memory.

    Attributes:
        episodes: number of finished episodes.
        items: V̂ in order, with R(v) and how many one action gives.
        kept: items that were required and stayed.
    """

    FORMAT = 4

    episodes: _Count
    items: dict[str, _Item]
    kept: set[str]

    def graph(self) -> DependencyGraph:
        """Returns Ĝ.

        Raises:
            SavedKnowledgeError: it has a cycle.
        """
        rules = {item: (entry.requirements, entry.makes) for item, entry in self.items.items()}
        try:
            return DependencyGraph.of(rules)
        except CyclicGraphError as error:
            raise SavedKnowledgeError(f"the saved graph has a cycle: {error}") from error


def save_knowledge(
    path: Path,
    known: Knowledge,
    memory: ActionMemory,
    *,
    run: Mapping[str, object],
    episodes: int,
) -> None:
    """Writes the file that `Saved.load` reads.

    Args:
        run: name -> value of what is run.
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
        kept=sorted(known.kept),
    )
