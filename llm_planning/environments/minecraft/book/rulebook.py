"""The rules of the game: what each item needs, and which action obtains it.

`scripts/minecraft_rules.py` writes them to `rules.json`, beside this module, from the data of
Minecraft 1.16; the file names its sources. A rule book is the true dependency graph 𝒢* of
XENON (Section 3): its items are the nodes, and `RuleBook.requirements` is R(v, 𝒢*) of a node v.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from llm_base.quoting import first_fault

if TYPE_CHECKING:
    from collections.abc import Iterable

Quantities: TypeAlias = Mapping[str, int]
"""item -> count, above 0."""

STATIONS: Final = ("crafting_table", "furnace")
"""Items that are placed, used and picked up again."""

MATERIAL_TIERS: Final = {"wooden": 1, "golden": 1, "stone": 2, "iron": 3, "diamond": 4}
"""Material of a tool -> its tier. In the game a golden pickaxe mines what a wooden one mines."""

PICKAXE_TIERS: Final = {f"{material}_pickaxe": tier for material, tier in MATERIAL_TIERS.items()}
"""Pickaxe -> its tier."""

GRADED_TOOLS: Final = ("pickaxe", "shovel")
"""Kinds of tool in which a better tool can replace a lesser one."""


class UnknownItemError(ValueError):
    """The rule book has no such item."""


class EmptyGoalSetError(ValueError):
    """A set of goals is empty."""


class CyclicRuleBookError(ValueError):
    """An item needs itself, directly or through other items."""


class DamagedRulesError(ValueError):
    """A file of rules cannot be read, or contains impossible values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRule:
    """How one item is obtained.

    Attributes:
        item: v.
        consumed: materials, which are used up.
        kept: stations and tools, which must be held and are kept. A better tool of the same kind
            will do (`substitutes`).
        makes: number of items that one execution yields.
        source: "block:<name>" for a block that is broken, "entity:<name>" for an entity that is
            killed, "shear:<name>", "milk:<name>" and "fill:<name>" for what is shorn, milked or
            filled from, "recipe:<name>" for a recipe of the game.
    """

    item: str
    action: str
    consumed: Quantities = field(default_factory=dict, hash=False)
    kept: Quantities = field(default_factory=dict, hash=False)
    makes: int = 1
    source: str = ""

    def __post_init__(self) -> None:
        if min(self.makes, *self.consumed.values(), *self.kept.values(), 1) < 1:
            raise ValueError(f"the rule of {self.item!r} has a quantity below 1")
        both = self.consumed.keys() & self.kept.keys()
        if both:
            raise ValueError(f"the rule of {self.item!r} uses up and keeps {sorted(both)}")

    @property
    def requirements(self) -> dict[str, int]:
        """R(v, 𝒢*): required item -> quantity, tools and stations included."""
        return {**self.consumed, **self.kept}

    @property
    def seen(self) -> dict[str, int]:
        """What is observed to leave the inventory: materials and stations, but not tools."""
        stations = {item: count for item, count in self.kept.items() if item in STATIONS}
        return {**self.consumed, **stations}

    @property
    def tier(self) -> int:
        """The tier of the pickaxe that this rule needs; 0 if it needs none."""
        return max((PICKAXE_TIERS.get(item, 0) for item in self.kept), default=0)


def substitutes(tool: str) -> tuple[str, ...]:
    """The items that serve as a kept item: the item itself, and better tools of its kind.

    For "stone_pickaxe" these are the stone, iron and diamond pickaxe; for "furnace" only itself.
    """
    material, _, kind = tool.rpartition("_")
    if kind not in GRADED_TOOLS or material not in MATERIAL_TIERS:
        return (tool,)
    least = MATERIAL_TIERS[material]
    return tuple(f"{name}_{kind}" for name, tier in MATERIAL_TIERS.items() if tier >= least)


@dataclass(frozen=True, slots=True)
class RuleBook:
    """One rule per item, without cycles, and with a rule for each required item.

    Attributes:
        unreachable: items of the game without a rule.

    Raises:
        UnknownItemError: a rule needs an item that has no rule.
        CyclicRuleBookError: an item needs itself; the message shows the cycle.
    """

    rules: Mapping[str, ItemRule]
    unreachable: frozenset[str] = frozenset()
    _order: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _tiers: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = MappingProxyType(dict(self.rules))
        for item, rule in rules.items():
            if rule.item != item:
                raise ValueError(f"the rule listed under {item!r} is the rule of {rule.item!r}")
            for needed in rule.requirements:
                if needed not in rules:
                    raise UnknownItemError(f"{item!r} needs {needed!r}, which has no rule")
        order = _ordered(rules)
        tiers: dict[str, int] = {}
        for item in order:
            rule = rules[item]
            tiers[item] = max([rule.tier, *(tiers[needed] for needed in rule.requirements)])
        object.__setattr__(self, "rules", rules)
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_tiers", MappingProxyType(tiers))

    def __contains__(self, item: object) -> bool:
        return item in self.rules

    def __len__(self) -> int:
        return len(self.rules)

    def rule(self, item: str) -> ItemRule:
        """The rule of an item.

        Raises:
            UnknownItemError: there is no such item, and the message proposes the nearest names; or
                it has no rule, and the message says so.
        """
        if item in self.rules:
            return self.rules[item]
        if item in self.unreachable:
            raise UnknownItemError(
                f"{item!r} is an item of Minecraft 1.16 that these rules do not lead to: they are "
                "of what is gathered, smelted and crafted in the Overworld"
            )
        raise UnknownItemError(f"unknown item {item!r}; {self._remedy(item)}")

    def requirements(self, item: str) -> dict[str, int]:
        """R(v, 𝒢*): required item -> quantity, tools and stations included."""
        return self.rule(item).requirements

    def tier(self, item: str) -> int:
        """The tier of the best pickaxe that an item or anything in its closure needs.

        Returns:
            0 for no pickaxe, 1 for wood, 2 for stone, 3 for iron, 4 for diamond.
        """
        return self._tiers[self.rule(item).item]

    def closure(self, goals: Iterable[str]) -> tuple[str, ...]:
        """The goals and everything they need, in topological order: requirements come first.

        Raises:
            EmptyGoalSetError: there is no goal.
            UnknownItemError: a goal is not an item of this book.
        """
        items: set[str] = set()
        waiting = list(goals)
        if not waiting:
            raise EmptyGoalSetError("the set of goals is empty; name at least one item")
        while waiting:
            item = waiting.pop()
            if item not in items:
                items.add(item)
                waiting.extend(self.rule(item).requirements)
        return tuple(item for item in self._order if item in items)

    def replaced(self, rules: Iterable[ItemRule]) -> RuleBook:
        """A copy of this book in which these rules replace the rules of the same items.

        Raises:
            CyclicRuleBookError: an item would need itself.
            UnknownItemError: a rule is for, or needs, an item that this book does not have.
        """
        others = {rule.item: rule for rule in rules}
        for item in others:
            self.rule(item)
        return RuleBook({**self.rules, **others}, self.unreachable)

    @classmethod
    def load(cls, path: Path | None = None) -> Self:
        """Reads a file of rules.

        Args:
            path: of a file that the generator wrote; by default the rules of Minecraft 1.16.

        Raises:
            DamagedRulesError: the file cannot be read or is not a file of rules; the message names
                the file and the reason.
        """
        file = RULES_FILE if path is None else path
        try:
            record = _File.model_validate_json(file.read_bytes())
            rules = {
                item: ItemRule(item=item, **vars(entry)) for item, entry in record.rules.items()
            }
        except ValidationError as error:
            raise DamagedRulesError(f"{file}: {first_fault(error)}; {_REMEDY}") from error
        except (OSError, ValueError) as error:
            raise DamagedRulesError(f"{file}: {error}; {_REMEDY}") from error
        return cls(rules, frozenset(record.unreachable))

    def _remedy(self, name: str) -> str:
        near = get_close_matches(name, self.rules, n=3, cutoff=0.5)
        if near:
            return f"did you mean {' or '.join(near)}?"
        return f"items are named as in Minecraft 1.16; {RULES_FILE.name} lists all {len(self)}"


def _ordered(rules: Mapping[str, ItemRule]) -> tuple[str, ...]:
    graph = {item: tuple(rule.requirements) for item, rule in rules.items()}
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        # graphlib lists a required item before the item that needs it.
        circle = " needs ".join(repr(item) for item in reversed(error.args[1]))
        raise CyclicRuleBookError(f"the rules go in a circle: {circle}") from None


@cache
def game_rules() -> RuleBook:
    """The rules of Minecraft 1.16, read once."""
    return RuleBook.load()


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    action: str
    consumed: dict[str, PositiveInt] = {}
    kept: dict[str, PositiveInt] = {}
    makes: PositiveInt = 1
    source: str


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    rules: dict[str, _Entry]
    unreachable: list[str] = []


RULES_FILE: Final = Path(__file__).with_name("rules.json")
"""The rules of Minecraft 1.16."""

_REMEDY = "the rules of the game are written by scripts/minecraft_rules.py"
