"""The command line of `llm-planning roles`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import MOST, CacheOption, JsonOption, Work, named_path
from llm_planning.model_configs import DEFAULT_MODEL

app = typer.Typer(help="How good a model is at the questions that planners ask.")


class Words(StrEnum):
    """The words in which models are asked."""

    GENERAL = "general"
    TAUGHT = "taught"


DomainArgument = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="A name, or FILE.py:CLASS of your own.")
]
ModelOption = Annotated[
    str, typer.Option(help="A bundled model, a configuration, a folder, a hub id or a YAML file.")
]
RoleOption = Annotated[
    list[str],
    typer.Option(help="Measure this role; may be repeated.  [default: every role there is]"),
]
QuestionsOption = Annotated[
    int, typer.Option(min=1, max=10_000, help="Questions of each role, at most.")
]
SeedOption = Annotated[
    int, typer.Option(min=0, max=MOST, help="Seed of the questions, the same for every model.")
]
WordsOption = Annotated[
    Words | None,
    typer.Option(
        help="How it is asked: as any model, or as one that a simulator taught.  [default: as the "
        "model was taught]"
    ),
]
HoldOutOption = Annotated[
    list[str],
    typer.Option(
        metavar="NAME",
        help="Count this as held out, as `distill --hold-out` does; may be repeated.",
    ),
]
OutOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=named_path,
        help="Write the measured rates to this YAML file, for `run --set roles=FILE`.",
    ),
]
LedgerOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        parser=named_path,
        help="Folder for the results.  [default: ./sweeps/roles-DOMAIN-MODEL-HASH]",
    ),
]


@app.callback()
def choose() -> None:
    """How good a model is at the questions that planners ask."""


@app.command()
def measure(
    domain: DomainArgument,
    *,
    model: ModelOption = DEFAULT_MODEL,
    role: RoleOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    questions: QuestionsOption = 200,
    seed: SeedOption = 0,
    words: WordsOption = None,
    hold_out: HoldOutOption = [],  # noqa: B006 - likewise
    out: OutOption = None,
    ledger: LedgerOption = None,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> Work:
    """Asks a model questions whose right answers the domain knows, and counts the right ones.

    Each role is asked in its planner's own words, under the same constraint on answers. Half of the
    questions are about what teaching leaves out, where a role has that. The same command goes on
    where it was interrupted, and every answer that the cache has is free.

    Exits with 0 when every role was measured; with 1 when the model cannot be found or failed; with
    2 for a domain or a role that does not exist; with 130 when interrupted.
    """
    from llm_planning.commands import roles as commands

    return partial(
        commands.measure,
        domain,
        model=model,
        roles=role,
        questions=questions,
        seed=seed,
        words=None if words is None else words.value,
        hold_out=tuple(hold_out),
        out=out,
        folder=ledger,
        cache=cache,
        as_json=as_json,
    )
