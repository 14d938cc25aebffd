"""The text world: an action on an item succeeds at once if the rules allow it (XENON, App. J.4).

An observation is the inventory; an action is a verb and an item. A search or a sweep takes millions
of steps, so each rule is laid out once for the checks that a step makes, and clones share the
layout.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from llm_planning.environments.minecraft.book.rulebook import substitutes
from llm_planning.environments.minecraft.items.goals import GOALS_67
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook


ACTIONS: Final = (
    "mine",
    "craft",
    "smelt",
    "harvest",
    "hunt",
    "place",
    "collect",
    "gather",
    "dig",
    "chop",
    "cook",
    "brew",
    "trade",
    "fish",
    "forge",
    "build",
    "plant",
    "shear",
    "milk",
    "kill",
    "tame",
    "breed",
    "enchant",
    "repair",
    "equip",
    "drop",
    "throw",
    "eat",
    "drink",
    "use",
    "open",
    "search",
    "explore",
    "find",
    "pick",
    "cut",
    "burn",
    "melt",
    "carve",
    "weave",
    "grind",
    "fill",
    "pour",
    "attach",
    "combine",
)
"""The verbs of XENON's scalability study (Appendix K.9, K.10); a smaller set is a prefix of them.

The paper names mine, craft and smelt, and gives harvest, hunt and place as examples of verbs that
obtain nothing. The rest of the verbs are our choice.
"""

ACTION_SET_SIZES: Final = (3, 15, 30, 45)
"""The sizes in Figures 24 and 25."""


def action_set(size: int) -> tuple[str, ...]:
    """The action set 𝒜 of this size, beginning with mine, craft and smelt.

    Raises:
        ValueError: the size is not one of `ACTION_SET_SIZES`.
    """
    if size not in ACTION_SET_SIZES:
        sizes = ", ".join(map(str, ACTION_SET_SIZES))
        raise ValueError(f"there is no set of {size} actions; sizes: {sizes}")
    return ACTIONS[:size]


class World(Protocol):
    """A world in which one action obtains one kind of item (XENON, Appendix J.4.1).

    Attributes:
        items: the names of all items, in a fixed order.
        verbs: the action set 𝒜.
        steps: environment steps since the episode began.
        inventory: item -> count above 0; callers must not change it.
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
            item: any name; an attempt on an unknown item fails.

        Returns:
            None if the attempt failed: only the clock has moved. Otherwise item -> count of what
            left the inventory during the attempt: the materials, and the crafting table or furnace
            that was placed and picked up again. The tool that was used is not included, so the
            mapping is empty for most mining.
        """
        ...


class UnknownActionError(ValueError):
    """The action set of this world has no such verb."""


class _Slots(NamedTuple):
    """A rule, laid out for `TextWorld.step`.

    Attributes:
        needed: (item, count) pairs that must be in the inventory.
        tools: one group for each tool; one item of the group must be in the inventory.
        consumed: (item, count) pairs that are taken from the inventory.
        makes: number of the obtained item that is added to the inventory.
        seen: the mapping that a successful step returns.
    """

    needed: tuple[tuple[str, int], ...]
    tools: tuple[tuple[str, ...], ...]
    consumed: tuple[tuple[str, int], ...]
    makes: int
    seen: Mapping[str, int]


class TextWorld:
    """A `World` without space or chance.

    Attributes:
        items: the goals and everything they need, requirements first. Only these can be obtained.
            `change` may add items at the end, but never removes one.
    """

    __slots__ = ("_book", "_goals", "_held", "_slots", "inventory", "items", "steps", "verbs")

    items: tuple[str, ...]
    verbs: tuple[str, ...]
    steps: int
    inventory: Mapping[str, int]
    _held: dict[str, int]
    _slots: dict[str, dict[str, _Slots]]

    def __init__(
        self,
        book: RuleBook,
        *,
        goals: Iterable[str] = GOALS_67,
        verbs: Iterable[str] = ACTIONS[:3],
    ) -> None:
        """Begins an episode: empty inventory, step 0.

        Args:
            goals: the items that can be obtained, together with everything they need.
            verbs: the action set; an item whose rule has another action cannot be obtained.
        """
        self._goals = tuple(goals)
        self.verbs = tuple(verbs)
        self.items = ()
        self.change(book)
        self.reset()

    @property
    def book(self) -> RuleBook:
        """The rules in force."""
        return self._book

    def change(self, book: RuleBook) -> None:
        """Replaces the rules; inventory and clock stay (Appendix K.6).

        Raises:
            UnknownItemError: an item of this world is not in the book.
        """
        items = tuple(dict.fromkeys((*self.items, *book.closure(self._goals))))
        # Clones share the layout, so it is replaced and never modified.
        slots: dict[str, dict[str, _Slots]] = {verb: {} for verb in self.verbs}
        for item in items:
            rule = book.rule(item)
            if rule.action in slots:
                slots[rule.action][item] = _laid_out(rule)
        self._book, self.items, self._slots = book, items, slots

    def reset(self) -> None:
        """Begins an episode: empty inventory, step 0."""
        self.steps = 0
        self._held = {}
        self.inventory = self._held

    def step(self, action: str, item: str) -> Mapping[str, int] | None:
        """Tries to obtain an item once; see `World.step`.

        Raises:
            UnknownActionError: the action is not one of the verbs.
        """
        try:
            slots = self._slots[action].get(item)
        except KeyError:
            raise UnknownActionError(
                f"unknown action {action!r}; {remedy(action, self.verbs)}"
            ) from None
        self.steps += 1
        if slots is None:
            return None
        needed, tools, consumed, makes, seen = slots
        held = self._held
        for name, count in needed:
            if name not in held or held[name] < count:
                return None
        for accepted in tools:
            for name in accepted:
                if name in held:
                    break
            else:
                return None
        for name, count in consumed:
            left = held[name] - count
            if left:
                held[name] = left
            else:
                del held[name]
        held[item] = held.get(item, 0) + makes
        return seen

    def clone(self) -> TextWorld:
        """An independent world in the same state, under the same rules."""
        return self.holding(self._held.copy(), steps=self.steps)

    def holding(self, inventory: dict[str, int], *, steps: int = 0) -> TextWorld:
        """An independent world under the same rules.

        Args:
            inventory: item -> count above 0; becomes the world's own.
            steps: environment steps since the episode began.
        """
        other = object.__new__(TextWorld)
        other._book = self._book
        other._goals = self._goals
        other._slots = self._slots
        other.items = self.items
        other.verbs = self.verbs
        other.steps = steps
        other._held = other.inventory = inventory
        return other


def _laid_out(rule: ItemRule) -> _Slots:
    graded = {item: substitutes(item) for item in rule.kept if len(substitutes(item)) > 1}
    stations = {item: count for item, count in rule.kept.items() if item not in graded}
    return _Slots(
        needed=(*rule.consumed.items(), *stations.items()),
        tools=tuple(graded.values()),
        consumed=tuple(rule.consumed.items()),
        makes=rule.makes,
        seen=MappingProxyType(rule.seen),
    )
