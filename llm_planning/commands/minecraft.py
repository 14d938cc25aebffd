"""`llm-planning minecraft`: the rules of the game, as the Minecraft worlds apply them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.table import Table

from llm_planning.endings import refusing
from llm_planning.environments.minecraft.item_names import common_name, item_id
from llm_planning.environments.minecraft.rulebook import RuleBook, UnknownItemError
from llm_serving.terminal import SafeConsole, complain, literal, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.rulebook import ItemRule, Quantities


def requirements(items: Sequence[str], *, as_json: bool) -> None:
    """Shows what items need, and which action obtains them: the truth that agents have to learn."""
    book = RuleBook.load()
    with refusing(UnknownItemError):
        rules = [book.rule(name) for name in dict.fromkeys(_named(item, book) for item in items)]
    if as_json:
        say(json.dumps({"requirements": {rule.item: rule.requirements for rule in rules}}))
        return
    SafeConsole().print(_table(rules))


def _named(item: str, book: RuleBook) -> str:
    """What the rules call an item, which is told where it is a name for several."""
    if item in book:
        return item
    name = common_name(item)
    if name in book and name != item_id(item):
        complain(f"note: the rules call {item} by the name of its kind, {name}")
    return name


def _table(rules: Sequence[ItemRule]) -> Table:
    table = Table("item", "action", "makes", "uses up", "keeps", "source")
    table.columns[2].justify = "right"
    for column in table.columns:
        column.overflow = "fold"
    for rule in rules:
        row = (
            rule.item,
            rule.action,
            str(rule.makes),
            _listed(rule.consumed),
            _listed(rule.kept),
            rule.source,
        )
        table.add_row(*map(literal, row))
    return table


def _listed(quantities: Quantities) -> str:
    return ", ".join(f"{count} {item}" for item, count in quantities.items())
