"""The command line of `llm-planning distill`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import MOST, JsonOption, Work, name, named_path
from llm_planning.endings import UsageError
from llm_planning.model_configs import DEFAULT_MODEL

DomainArgument = Annotated[
    str,
    typer.Argument(
        metavar="DOMAIN", help="A domain that knows right answers: a name, or FILE.py:CLASS."
    ),
]
ModelOption = Annotated[
    str, typer.Option(parser=name, help="The model to teach: a bundled name, a folder or a hub id.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(metavar="DIR", parser=named_path, help="Gets the adapter and its progress."),
]
MinutesOption = Annotated[float, typer.Option(help="Time to teach, in minutes.")]
RoleOption = Annotated[
    list[str], typer.Option("--role", metavar="ROLE", help="Teach this role; may be repeated.")
]
HoldOutOption = Annotated[
    list[str],
    typer.Option(metavar="NAME", help="Leave this out of the lessons; may be repeated."),
]
RankOption = Annotated[int, typer.Option(min=1, max=512, help="Rank of the adapter.")]
RateOption = Annotated[float, typer.Option(help="The highest learning rate.")]
StatesOption = Annotated[int, typer.Option(min=1, max=1000, help="States asked about in a batch.")]
SeedOption = Annotated[int, typer.Option(min=0, max=MOST, help="Seed of the lessons.")]
StartOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADAPTER",
        parser=name,
        help="Teach this adapter further, not a new one: a folder, or a bundled taught model.",
    ),
]
TracesOption = Annotated[
    list[Path],
    typer.Option(
        "--from-traces",
        metavar="PATH",
        parser=named_path,
        help="Teach π from searches, not from rules: traces of puct or uct, or the folder of a "
        "sweep of them; may be repeated.",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on where a training in DIR was broken off.")
]
MergeOption = Annotated[
    bool, typer.Option("--merge", help="Also write the taught model whole, into DIR/merged.")
]
ExportOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        parser=named_path,
        help="Teach nothing: write --questions as chats, a line each, for trainers such as trl.",
    ),
]
QuestionsOption = Annotated[
    int, typer.Option(min=1, max=1_000_000, help="Number of questions of --export.")
]


def distill(
    domain: DomainArgument,
    *,
    model: ModelOption = DEFAULT_MODEL,
    out: OutOption = None,
    minutes: MinutesOption = 120.0,
    role: RoleOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    hold_out: HoldOutOption = [],  # noqa: B006 - likewise
    rank: RankOption = 16,
    rate: RateOption = 2e-3,
    states: StatesOption = 3,
    seed: SeedOption = 0,
    start: StartOption = None,
    from_traces: TracesOption = [],  # noqa: B006 - likewise
    resume: ResumeOption = False,
    merge: MergeOption = False,
    export: ExportOption = None,
    questions: QuestionsOption = 10_000,
    as_json: JsonOption = False,
) -> Work:
    """Teaches a small model the roles of planners: the domain's rules know the right answers.

    Writes an adapter in PEFT's format; `run --model DIR` plans with it. May be killed at any moment
    and go on with --resume. Exits with 1 if the model, a file or the training failed; with 2 if the
    domain knows no right answers or a name does not exist.
    """
    from llm_planning.commands import distill as commands

    lessons = commands.LessonOptions(
        roles=tuple(role),
        hold_out=tuple(hold_out) or None,
        states=states,
        seed=seed,
        traces=tuple(from_traces),
    )
    if export is not None:
        if out is not None or start is not None or resume or merge:
            raise UsageError(
                "--export teaches nothing: leave --out, --start, --resume and --merge out"
            )
        return partial(commands.export, domain, lessons=lessons, file=export, questions=questions)
    return partial(
        commands.distill,
        domain,
        model=model,
        out=out,
        lessons=lessons,
        learning=commands.LearningOptions(minutes=minutes, rank=rank, rate=rate, start=start),
        resume=resume,
        merged=merge,
        as_json=as_json,
    )
