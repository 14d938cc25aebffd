"""The surface of every item-level Minecraft world: verbs on items, an inventory, a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class World(Protocol):
    """A world in which one action obtains one kind of item (XENON, Appendix J.4.1).

    Attributes:
        items: every name of this world, in a fixed order.
        verbs: the action set 𝒜.
        steps: environment steps since the episode began.
        inventory: item -> count above 0; read it, never write it.
    """

    items: tuple[str, ...]
    verbs: tuple[str, ...]
    steps: int
    inventory: Mapping[str, int]

    def reset(self) -> None:
        """Begins an episode: empty inventory, step 0."""
        ...

    def step(self, action: str, item: str) -> Mapping[str, int] | None:
        """Tries to obtain an item once.

        Args:
            action: one of the verbs.
            item: any name; one that the world does not know cannot be obtained.

        Returns:
            None if it failed: nothing has changed but the clock. Otherwise what left the inventory
            meanwhile, item -> count: the materials, and the crafting table or furnace that was
            placed and picked up again. Empty when nothing did, as for most mining: which tool was
            necessary is not told.
        """
        ...
