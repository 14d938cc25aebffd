"""What an agent keeps of failures beside FAM: all of it in one place, so that it can be saved."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm_planning.planners.xenon.roles import Attempt  # noqa: TC001 (pydantic reads it)


@dataclass(slots=True)
class FailureNotes:
    """Failed attempts, and what was made of them.

    Attributes:
        unrevised: item -> failed attempts since its requirements were last reconsidered.
        in_vain: item -> how many attempts failed since one last succeeded or its requirements were
            last reconsidered; agents without FAM count this.
        unexplained: item -> failed attempts that were not reflected on yet.
        reasons: attempt, as `situation` writes it -> the reflection on it.
        analyses: item -> reflections, oldest first.
        corrections: item -> how often the LLM corrected its requirements.
    """

    unrevised: dict[str, list[Attempt]] = field(default_factory=dict)
    in_vain: dict[str, int] = field(default_factory=dict)
    unexplained: dict[str, list[Attempt]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    analyses: dict[str, list[str]] = field(default_factory=dict)
    corrections: dict[str, int] = field(default_factory=dict)


def situation(attempt: Attempt) -> str:
    """An attempt without what was held: the same action on the same belief has the same reason."""
    believed = sorted(f"{quantity} {u}" for u, quantity in attempt.believed.items())
    return f"{attempt.action} {attempt.item}: {', '.join(believed)}"
