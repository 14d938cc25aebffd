"""The command line of `llm-planning run`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import MOST, CacheOption, JsonOption, Work, named_path
from llm_planning.model_configs import DEFAULT_MODEL

PlannerArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="PLANNER", help="A name from `run --list`, or FILE.py:NAME of your own."
    ),
]
DomainOption = Annotated[
    str | None, typer.Option(help="Where to plan: a name, or FILE.py:CLASS of your own.")
]
TaskOption = Annotated[str | None, typer.Option(help="A task from `run PLANNER --list`.")]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="A bundled model, a configuration, a folder, a hub id or a YAML file; MODEL+ADAPTER "
        "for a model with an adapter.",
        show_default="none if rules answer every role, else the bundled model that was taught the "
        f"planner's roles there, else {DEFAULT_MODEL}",
    ),
]
RoleModelOption = Annotated[
    list[str],
    typer.Option(metavar="ROLE=MODEL", help="Ask another model for one role; may be repeated."),
]
SeedOption = Annotated[int, typer.Option(min=0, max=MOST, help="Seed of every draw.")]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the planner or of its domain; may be repeated.",
    ),
]
ListOption = Annotated[
    bool, typer.Option("--list", help="List the planners; with PLANNER, its tasks and settings.")
]
TraceOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", parser=named_path, help="Write everything that was decided to this file."
    ),
]


def run(
    planner: PlannerArgument = None,
    *,
    domain: DomainOption = None,
    task: TaskOption = None,
    model: ModelOption = None,
    role_model: RoleModelOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    seed: SeedOption = 0,
    settings: SetOption = [],  # noqa: B006 - likewise
    list_: ListOption = False,
    cache: CacheOption = True,
    trace: TraceOption = None,
    as_json: JsonOption = False,
) -> Work:
    """Plans one task and prints the plan, how it was found and what it cost.

    Exits with 0 when the planner ran to its end, whether or not its plan reaches the goal; with 1
    when the model, the engine, a game, a saved file or code of your own failed; with 2 for a name
    or a setting that does not exist or is not possible; with 130 when interrupted.
    """
    from llm_planning.commands import run as commands

    if list_:
        return partial(commands.list_what_there_is, planner, domain=domain, as_json=as_json)
    return partial(
        commands.run,
        planner,
        domain=domain,
        task=task,
        model=model,
        role_model=role_model,
        seed=seed,
        settings=settings,
        cache=cache,
        trace=trace,
        as_json=as_json,
    )
