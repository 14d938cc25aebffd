"""A learned graph and memory on disk: written after each episode, taken up exactly."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from llm_planning.files import write_json
from llm_planning.planners.xenon.failure_notes import FailureNotes  # noqa: TC001 (pydantic)
from llm_planning.planners.xenon.graph import CyclicGraphError, DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llm_planning.planners.xenon.memory import ActionMemory

FORMAT = 3

_Count: TypeAlias = Annotated[int, Field(ge=0)]
_Counts: TypeAlias = dict[str, dict[str, _Count]]


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


class Saved(_Part):
    """The file.

    Attributes:
        format: of the file.
        run: what was run: agent, task, model, seed and settings.
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
        memory: S(a, v) and F(a, v).
        notes: what is kept of failures beside that.
        goals: state of the generator that breaks ties between goals.
        curve: (environment steps, N_true, goals obtained), each time that they had changed.
    """

    format: int
    run: dict[str, Any]
    episodes: _Count
    items: dict[str, _Item]
    demonstrated: list[str]
    obtained: list[str]
    consumed: list[str]
    kept: list[str]
    gathered: list[str]
    revisions: dict[str, int]
    attempts: dict[str, int]
    setbacks: dict[str, int]
    memory: _Memory
    notes: FailureNotes
    goals: tuple[int, list[int], float | None]
    curve: list[tuple[int, int, int]]

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
        graph = DependencyGraph(self.items)
        try:
            for item, one in self.items.items():
                graph.require(item, one.requirements, makes=one.makes)
        except CyclicGraphError as error:
            raise SavedKnowledgeError(f"the saved graph has a cycle: {error}") from error
        return Knowledge(
            graph,
            demonstrated=set(self.demonstrated),
            obtained=set(self.obtained),
            consumed=set(self.consumed),
            kept=set(self.kept),
            gathered=set(self.gathered),
            revisions=dict(self.revisions),
            attempts=dict(self.attempts),
            setbacks=dict(self.setbacks),
        )

    def recall(self, memory: ActionMemory) -> None:
        """Fills an action memory.

        Raises:
            SavedKnowledgeError: the file has actions that the memory's 𝒜 has not.
        """
        try:
            memory.restore(self.memory.model_dump())
        except ValueError as error:
            raise SavedKnowledgeError(
                f"the saved action memory is of another action set: {error}; learn with the verbs "
                "of this run"
            ) from error

    def check_run(self, run: Mapping[str, object], *, episodes: int) -> None:
        """Makes sure that a run can go on from the file.

        Args:
            run: what is to be run.
            episodes: how many there are to be in the end.

        Raises:
            SavedKnowledgeError: it belongs to another run, of which the first difference is named,
                or holds more episodes.
        """
        if self.episodes > episodes:
            raise SavedKnowledgeError(
                f"the saved knowledge is that of {self.episodes} episodes, more than "
                f"episodes={episodes}: name another file"
            )
        for key in (*run, *self.run):
            if self.run.get(key) != run.get(key):
                raise SavedKnowledgeError(
                    f"the saved knowledge was learnt with {key}={self.run.get(key)}, and this run "
                    f"has {key}={run.get(key)}: name another file"
                )


def save_knowledge(
    path: Path,
    known: Knowledge,
    memory: ActionMemory,
    notes: FailureNotes,
    *,
    run: Mapping[str, object],
    episodes: int,
    goals: random.Random,
    curve: list[tuple[int, int, int]],
) -> None:
    """Writes all of it or nothing.

    Args:
        path: of the file; its folder must exist.
        known: Ĝ, 𝒱, C and the sets beside them.
        memory: S and F.
        notes: of failures beside that.
        run: what is being run.
        episodes: finished so far.
        goals: breaks ties between goals.
        curve: how it went so far.

    Raises:
        SavedKnowledgeError: the file cannot be written.
    """
    graph = known.graph
    content = {
        "format": FORMAT,
        "run": run,
        "episodes": episodes,
        "items": {
            v: {"requirements": dict(graph.requirements(v)), "makes": graph.makes(v)}
            for v in graph.items
        },
        "demonstrated": sorted(known.demonstrated),
        "obtained": sorted(known.obtained),
        "consumed": sorted(known.consumed),
        "kept": sorted(known.kept),
        "gathered": sorted(known.gathered),
        "revisions": known.revisions,
        "attempts": known.attempts,
        "setbacks": known.setbacks,
        "memory": memory.to_json(),
        "notes": asdict(notes),
        "goals": goals.getstate(),
        "curve": curve,
    }
    try:
        write_json(path, content)
    except OSError as error:
        raise SavedKnowledgeError(f"cannot write {path}: {error}") from error


def load_saved(path: Path) -> Saved:
    """Reads a file of learned knowledge.

    Raises:
        SavedKnowledgeError: it is missing, damaged or of another format.
    """
    try:
        content = path.read_bytes()
        header = _Header.model_validate_json(content)
        if header.format != FORMAT:
            raise SavedKnowledgeError(
                f"{path} has format {header.format}, not {FORMAT}: delete it to begin anew"
            )
        return Saved.model_validate_json(content)
    except OSError as error:
        raise SavedKnowledgeError(f"cannot read {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SavedKnowledgeError(
            f"{path} holds no learned knowledge: {where}: {first['msg']}; delete it to begin anew"
        ) from error
