"""What an agent learns in the kitchen and keeps from one episode to the next, also on disk."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_planning.environments.cooking.recipes import ACTIONS
from llm_planning.planners.xenon.memory import ActionMemory

if TYPE_CHECKING:
    from typing import Self

FORMAT = 1


class CookingKnowledgeError(ValueError):
    """A file of cooking knowledge is missing, damaged or of another format."""


class _Saved(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: int
    episodes: int = Field(ge=0)
    revisions: int = Field(ge=0)
    tools: dict[str, str]
    rejected: dict[str, list[str]]
    failures: dict[str, list[str]]
    memory: dict[str, dict[str, dict[str, int]]]


@dataclass(slots=True, kw_only=True)
class CookingKnowledge:
    """Ĝ and the action memory of the cooking domain, whose items v are cookbook actions.

    Attributes:
        memory: S(a, v) and F(a, v) of executable actions a.
        tools: Ĝ: v -> the one tool that it is believed to require.
        rejected: v -> tools that a revision took away from it, oldest first.
        failures: v -> what failed, in words, oldest first; kept by self-correction alone.
        revisions: tools that were reconsidered.
        episodes: episodes so far.
    """

    memory: ActionMemory
    tools: dict[str, str] = field(default_factory=dict)
    rejected: dict[str, list[str]] = field(default_factory=dict)
    failures: dict[str, list[str]] = field(default_factory=dict)
    revisions: int = 0
    episodes: int = 0

    @classmethod
    def empty(cls, *, x0: int = 2) -> Self:
        """Nothing is known.

        Args:
            x0: failures beyond the successes that make an action empirically invalid.
        """
        return cls(memory=ActionMemory(ACTIONS, x0=x0))

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "format": FORMAT,
            "episodes": self.episodes,
            "revisions": self.revisions,
            "tools": dict(self.tools),
            "rejected": {v: list(tools) for v, tools in self.rejected.items()},
            "failures": {v: list(said) for v, said in self.failures.items()},
            "memory": self.memory.to_json(),
        }

    def save(self, path: Path) -> None:
        """Writes all of it or nothing.

        Args:
            path: of the file; its folder must exist.

        Raises:
            CookingKnowledgeError: the file cannot be written.
        """
        try:
            with NamedTemporaryFile(
                "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
            ) as file:
                try:
                    json.dump(self.to_json(), file)
                    file.flush()
                    os.fsync(file.fileno())
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise CookingKnowledgeError(f"cannot write {path}: {error}") from error

    @classmethod
    def load(cls, path: Path, *, x0: int = 2) -> Self:
        """Reads what `save` wrote.

        Raises:
            CookingKnowledgeError: it is missing, damaged or of another format.
        """
        try:
            saved = _Saved.model_validate_json(path.read_bytes())
        except OSError as error:
            raise CookingKnowledgeError(f"cannot read {path}: {error}") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise CookingKnowledgeError(
                f"{path} holds no cooking knowledge: {where}: {first['msg']}; "
                "delete it to begin anew"
            ) from error
        if saved.format != FORMAT or saved.memory.keys() != {"successes", "failures"}:
            raise CookingKnowledgeError(
                f"{path} has format {saved.format}, and this program reads {FORMAT}: "
                "delete it to begin anew"
            )
        known = cls.empty(x0=x0)
        known.memory.restore(saved.memory)
        known.tools.update(saved.tools)
        known.rejected.update(saved.rejected)
        known.failures.update(saved.failures)
        known.revisions = saved.revisions
        known.episodes = saved.episodes
        return known
