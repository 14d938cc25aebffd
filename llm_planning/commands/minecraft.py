"""`llm-planning minecraft`: the rules of the game, as the Minecraft worlds apply them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from llm_planning.commands.options import JsonOption  # noqa: TC001 - typer reads it
from llm_planning.endings import refusing

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.book.rulebook import Quantities, RuleBook

app = typer.Typer(help="The rules of Minecraft 1.16.")

ItemsArgument = Annotated[
    list[str], typer.Argument(metavar="ITEM...", help="Items by their names in the game.")
]


@app.callback()
def choose() -> None:
    """The rules of Minecraft 1.16."""


@app.command()
def requirements(items: ItemsArgument, *, as_json: JsonOption = False) -> None:
    """Shows what items need, and which action obtains them: the truth that agents have to learn.

    Exits with 2 if there is no such item, with 1 if the rules cannot be read, go in a circle or
    need what they do not have.
    """
    from rich.table import Table

    from llm_base.terminal import SafeConsole, literal, say_json
    from llm_planning.environments.minecraft.book.rulebook import RuleBook, UnknownItemError

    book = RuleBook.load()
    with refusing(UnknownItemError):
        rules = [book.rule(name) for name in dict.fromkeys(_named(item, book) for item in items)]
    if as_json:
        say_json({"requirements": {rule.item: rule.requirements for rule in rules}})
        return
    table = Table("item", "action", "makes", "uses up", "keeps", "source")
    table.columns[2].justify = "right"
    for column in table.columns:
        column.overflow = "fold"
    for rule in rules:
        products = rule.item, rule.action, str(rule.makes)
        needs = _listed(rule.consumed), _listed(rule.kept), rule.source
        table.add_row(*map(literal, (*products, *needs)))
    SafeConsole().print(table)


def _named(item: str, book: RuleBook) -> str:
    """What the rules call an item, which is told where it is a name for several."""
    from llm_base.terminal import complain
    from llm_planning.environments.minecraft.book.item_names import common_name, item_id

    if item in book:
        return item
    name = common_name(item)
    if name in book and name != item_id(item):
        complain(f"note: the rules call {item} by the name of its kind, {name}")
    return name


def _listed(quantities: Quantities) -> str:
    return ", ".join(f"{count} {item}" for item, count in quantities.items())
