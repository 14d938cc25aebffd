"""`llm-planning minecraft`: the rules of the game, as the Minecraft worlds apply them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_planning.environments.minecraft.rulebook import (
    CyclicRuleBookError,
    DamagedRulesError,
    RuleBook,
    UnknownItemError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.rulebook import Quantities, Rule

app = typer.Typer(no_args_is_help=True, help="The rules of Minecraft 1.16.")

ItemsArgument = Annotated[
    list[str], typer.Argument(metavar="ITEM...", help="Items by their names in the game.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


@app.command()
def requirements(items: ItemsArgument, *, as_json: JsonOption = False) -> None:
    """Shows what items need, and which action obtains them: the truth that agents have to learn.

    Exits with 2 if there is no such item, with 1 if the rules cannot be read, go in a circle or
    need what they do not have.
    """
    try:
        book = RuleBook.load()
    except (CyclicRuleBookError, DamagedRulesError, UnknownItemError) as error:
        raise _failure(error, 1) from error
    try:
        rules = [book.rule(item) for item in dict.fromkeys(items)]
    except UnknownItemError as error:
        raise _failure(error, 2) from error
    if as_json:
        typer.echo(json.dumps({"requirements": {rule.item: rule.requirements for rule in rules}}))
        return
    Console().print(_table(rules))


def _table(rules: Sequence[Rule]) -> Table:
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
        table.add_row(*map(Text, row))
    return table


def _listed(quantities: Quantities) -> str:
    return ", ".join(f"{count} {item}" for item, count in quantities.items())


def _failure(error: Exception, code: int) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(code)
