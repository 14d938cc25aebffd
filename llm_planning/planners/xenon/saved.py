"""A learned graph and memory on disk: written after each episode, taken up exactly."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_planning.planners.xenon.graph import CyclicGraphError, DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge

if TYPE_CHECKING:
    from llm_planning.planners.xenon.memory import ActionMemory

FORMAT = 1


class SavedKnowledgeError(ValueError):
    """A file of learned knowledge is missing, damaged or of another format."""


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    requirements: dict[str, int]
    makes: int = Field(ge=1)


class Saved(BaseModel):
    """The file.

    Attributes:
        format: of the file.
        episodes: how many were finished.
        items: V̂ in order, with R(v) and how many one action gives.
        demonstrated: as in `Knowledge`.
        obtained: likewise.
        consumed: likewise.
        kept: likewise.
        gathered: likewise.
        revisions: C(v).
        attempts: v -> how often it was the goal.
        setbacks: as in `Knowledge`.
        memory: S(a, v) and F(a, v).
        goals: state of the generator that breaks ties between goals.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    episodes: int = Field(ge=0)
    items: dict[str, _Item]
    demonstrated: list[str]
    obtained: list[str]
    consumed: list[str]
    kept: list[str]
    gathered: list[str]
    revisions: dict[str, int]
    attempts: dict[str, int]
    setbacks: dict[str, int]
    memory: dict[str, dict[str, dict[str, int]]]
    goals: tuple[int, list[int], float | None]

    def generator(self) -> tuple[Any, ...]:
        """The state of the generator of goals, as `Random.setstate` takes it."""
        version, internal, gauss = self.goals
        return version, tuple(internal), gauss

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


def save_knowledge(
    path: Path, known: Knowledge, memory: ActionMemory, *, episodes: int, goals: object
) -> None:
    """Writes all of it or nothing.

    Args:
        path: of the file; its folder must exist.
        known: Ĝ, 𝒱, C and the sets beside them.
        memory: S and F.
        episodes: finished so far.
        goals: state of the generator of goals, as `Random.getstate` gives it.

    Raises:
        SavedKnowledgeError: the file cannot be written.
    """
    graph = known.graph
    content = {
        "format": FORMAT,
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
        "goals": goals,
    }
    try:
        with NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
        ) as file:
            try:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise SavedKnowledgeError(f"cannot write {path}: {error}") from error


def load_saved(path: Path) -> Saved:
    """Reads a file of learned knowledge.

    Raises:
        SavedKnowledgeError: it is missing, damaged or of another format.
    """
    try:
        saved = Saved.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SavedKnowledgeError(f"cannot read {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SavedKnowledgeError(
            f"{path} holds no learned knowledge: {where}: {first['msg']}; delete it to begin anew"
        ) from error
    if saved.format != FORMAT:
        raise SavedKnowledgeError(f"{path} has format {saved.format}, not {FORMAT}")
    return saved


def load_knowledge(path: Path) -> Knowledge:
    """Reads what was learnt from a file.

    Raises:
        SavedKnowledgeError: it is missing, damaged or of another format.
    """
    return load_saved(path).knowledge()
