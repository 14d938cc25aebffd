"""`llm-planning cache`: what the caches of answers, vectors and games hold, and emptying them."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from llm_planning.commands.options import JsonOption, Kind

app = typer.Typer(help="Answers, vectors and moves of games that are stored and used again.")

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
OnlyOption = Annotated[Kind | None, typer.Option(help="Clear this cache alone.")]


@app.command()
def show(*, as_json: JsonOption = False) -> None:
    """Shows where the caches are, their sizes, and the share of each model and game.

    A transition memory that is damaged or of another version is listed as unreadable: it is begun
    anew when its game is played. Exits with 1 if another file cannot be read.
    """
    from dataclasses import asdict

    from llm_base.terminal import SafeConsole, literal
    from llm_planning.commands.cache_contents import cache_path, stats_of, summary, table_of

    content = {kind: stats_of(kind) for kind in Kind}
    if as_json:
        _print_by_kind(
            {kind: {"path": str(cache_path(kind)), **asdict(content[kind])} for kind in Kind}
        )
        return
    console = SafeConsole()
    for kind, stats in content.items():
        console.print(literal(f"{cache_path(kind)}: {summary(kind, stats)}"), soft_wrap=True)
        table = table_of(kind, stats)
        if table.row_count:
            console.print(table)


@app.command()
def clear(*, only: OnlyOption = None, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Removes every cached answer, vector and transition of a game; asks first on a terminal.

    Runs that use a cache at this moment go on, and fill it anew; those that play a game keep what
    they learn to themselves. A damaged file, or one that is not a cache of this version, is
    deleted. Exits with 1 if that is not possible.
    """
    from rich.filesize import decimal

    from llm_base.terminal import say
    from llm_planning.commands.cache_contents import cache_path, content_of, emptied

    contents = [content_of(kind) for kind in (tuple(Kind) if only is None else (only,))]
    existing = [cache for cache in contents if os.path.exists(cache.path)]
    if existing and not yes and sys.stdin.isatty():
        listed = " and ".join(f"{cache.path} ({cache})" for cache in existing)
        _ask(f"Empty {listed}?")
    freed = {cache.kind: emptied(cache) for cache in contents}
    if as_json:
        removed = {cache.kind: cache.stats and cache.stats.entries for cache in contents}
        _print_by_kind(
            {
                kind: {
                    "path": str(cache_path(kind)),
                    "removed": removed.get(kind, 0),
                    "freed_bytes": freed.get(kind, 0),
                }
                for kind in Kind
            }
        )
        return
    for cache in contents:
        say(f"{cache.path}: {cache}, now empty; {decimal(freed[cache.kind])} freed")


def _ask(question: str) -> None:
    """Goes on only if the user says yes.

    Raises:
        typer.Abort: the user does not say yes.
    """
    from llm_base.quoting import printable

    # Not `input`, which writes to standard output, where the answer belongs.
    print(printable(question), end=" [y/N] ", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise typer.Abort


def _print_by_kind(fields_by_kind: dict[Kind, dict[str, object]]) -> None:
    """Prints the fields of the response cache, and each other cache under its name."""
    from llm_base.terminal import say_json

    responses = fields_by_kind.pop(Kind.RESPONSES)
    say_json({**responses, **{str(kind): fields for kind, fields in fields_by_kind.items()}})
