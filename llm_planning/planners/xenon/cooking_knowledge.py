"""What an agent learns in the kitchen and keeps from one episode to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from llm_planning.environments.cooking.recipes import ACTIONS
from llm_planning.planners.xenon.memory import ActionMemory

if TYPE_CHECKING:
    from typing import Self


class _Counts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    successes: dict[str, dict[str, int]]
    failures: dict[str, dict[str, int]]


class KnowledgeRecord(BaseModel):
    """What `CookingKnowledge.to_json` gives, read again; its attributes are those."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    episodes: int = Field(ge=0)
    revisions: int = Field(ge=0)
    tools: dict[str, str]
    rejected: dict[str, list[str]]
    failures: dict[str, list[str]]
    memory: _Counts


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
            "episodes": self.episodes,
            "revisions": self.revisions,
            "tools": dict(self.tools),
            "rejected": {v: list(tools) for v, tools in self.rejected.items()},
            "failures": {v: list(said) for v, said in self.failures.items()},
            "memory": self.memory.to_json(),
        }

    def restore(self, saved: KnowledgeRecord) -> None:
        """Takes over what `to_json` gave."""
        self.memory.restore(saved.memory.model_dump())
        self.tools = dict(saved.tools)
        self.rejected = {v: list(tools) for v, tools in saved.rejected.items()}
        self.failures = {v: list(said) for v, said in saved.failures.items()}
        self.revisions = saved.revisions
        self.episodes = saved.episodes
