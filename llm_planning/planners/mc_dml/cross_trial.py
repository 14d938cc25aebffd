"""ℳ_c, the cross-trial memory of one root: what failed simulations taught (Section 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_planning.planners.mc_dml.roles import Reflect, Trajectory


class CrossTrialMemory:
    """At most k different reflections; once there are k, nobody reflects any more (Section 4.1).

    A trajectory is reflected on once: from the same root, the same actions fail for the same
    reason. A sentence that is in the memory already is not added again.

    Args:
        reflect: who reflects; None where nobody does, which is the search without ℳ_c.
        k: most reflections.

    Attributes:
        reflections: ℳ_c, oldest first; it only grows, so its length tells one from another.
    """

    def __init__(self, reflect: Reflect | None, *, k: int) -> None:
        self.reflections: tuple[str, ...] = ()
        self._reflect = reflect
        self._k = k if reflect is not None else 0
        self._failed: set[tuple[str, ...]] = set()

    def has_room(self, reflections: tuple[str, ...]) -> bool:
        """Whether a simulation that started with these reflections may add one."""
        return len(reflections) < self._k

    def is_new(self, actions: tuple[str, ...]) -> bool:
        """Whether this is the first failure of these actions, counted from the root."""
        if actions in self._failed:
            return False
        self._failed.add(actions)
        return True

    async def reflect(self, trajectory: Trajectory) -> str:
        """LLM(h, p_reflection): the sentence, which is not in the memory yet (line 11)."""
        if self._reflect is None:
            raise RuntimeError("nobody reflects here: ask `has_room` first")
        return await self._reflect(trajectory)

    def add(self, reflection: str) -> None:
        """ℳ_c ← ℳ_c + reflection (line 12)."""
        if len(self.reflections) < self._k and reflection not in self.reflections:
            self.reflections = (*self.reflections, reflection)
