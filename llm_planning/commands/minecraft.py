"""`llm-planning minecraft`: the rules of the game, as the Minecraft worlds apply them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rich.table import Table

from llm_planning.endings import refusing
from llm_planning.environments.minecraft.rulebook import RuleBook, UnknownItemError
from llm_serving.terminal import SafeConsole, literal, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.rulebook import ItemRule, Quantities


def requirements(items: Sequence[str], *, as_json: bool) -> None:
    """Shows what items need, and which action obtains them: the truth that agents have to learn."""
    book = RuleBook.load()
    with refusing(UnknownItemError):
        rules = [book.rule(item) for item in dict.fromkeys(items)]
    if as_json:
        say(json.dumps({"requirements": {rule.item: rule.requirements for rule in rules}}))
        return
    SafeConsole().print(_table(rules))


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
