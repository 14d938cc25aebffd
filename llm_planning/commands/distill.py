"""`llm-planning distill`: a domain's rules teach a small model the roles of planners."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_planning.commands.options import (
    MOST,
    JsonOption,
    VerboseOption,
    check_writable_folder,
    name,
    named_path,
    read_pairs,
)
from llm_planning.endings import UsageError
from llm_planning.model_configs import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MOST_POINTS = 5
_MINUTES = 120.0

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
MinutesOption = Annotated[
    float | None,
    typer.Option(
        help="Time to teach, in minutes, with the exams before and after it; 120 if --batches says "
        "nothing either."
    ),
]
BatchesOption = Annotated[
    int | None,
    typer.Option(min=1, max=MOST, help="Teach so many batches, and not a time."),
]
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
AlsoOption = Annotated[
    list[str],
    typer.Option(
        metavar="KEY=VALUE[,KEY=VALUE]",
        help="Teach the domain under these settings, too; may be repeated. Every second state is "
        "of the domain as it is.",
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
    minutes: MinutesOption = None,
    batches: BatchesOption = None,
    role: RoleOption = [],  # noqa: B006 - typer reads the default, nobody changes it
    hold_out: HoldOutOption = [],  # noqa: B006 - likewise
    rank: RankOption = 16,
    rate: RateOption = 2e-3,
    states: StatesOption = 3,
    seed: SeedOption = 0,
    start: StartOption = None,
    from_traces: TracesOption = [],  # noqa: B006 - likewise
    also: AlsoOption = [],  # noqa: B006 - likewise
    resume: ResumeOption = False,
    merge: MergeOption = False,
    export: ExportOption = None,
    questions: QuestionsOption = 10_000,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Teaches a small model the roles of planners: the domain's rules know the right answers.

    Writes an adapter in PEFT's format; `run --model DIR` plans with it. May be killed at any moment
    and go on with --resume. Exits with 1 if the model, a file or the training failed; with 2 if the
    domain knows no right answers or a name does not exist.
    """
    from llm_base.terminal import say, say_json
    from llm_planning.commands.distill_teaching import (
        LearningOptions,
        LessonOptions,
        teach,
        write_questions,
    )
    from llm_planning.registry import asker_of, find_domain, telling_own_lines

    lessons = LessonOptions(
        roles=tuple(role),
        hold_out=tuple(hold_out) or None,
        states=states,
        seed=seed,
        traces=tuple(from_traces),
        also=[read_pairs(settings.split(","), "--also") for settings in also],
    )
    if from_traces and also:
        raise UsageError("--also: searches teach in the world of their traces; leave one out")
    if export is not None:
        if out is not None or start is not None or resume or merge:
            raise UsageError(
                "--export teaches nothing: leave --out, --start, --resume and --merge out"
            )
        with telling_own_lines(domain):
            written = write_questions(domain, lessons=lessons, file=export, questions=questions)
        say(f"{export}: {written} questions")
        return
    if out is None:
        raise UsageError("--out is missing: name the folder of the adapter")
    check_writable_folder(out)
    if batches is not None and minutes is not None:
        raise UsageError("--batches and --minutes both say how long to teach; leave one out")
    if batches is None and minutes is None:
        minutes = _MINUTES
    for option, value in (("--minutes", minutes), ("--rate", rate)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise UsageError(f"{option} {value}: give a number above 0")
    with telling_own_lines(domain):
        taught = teach(
            domain,
            model=model,
            out=out,
            lessons=lessons,
            learning=LearningOptions(
                minutes=minutes, batches=batches, rank=rank, rate=rate, start=start
            ),
            resume=resume,
            merged=merge,
        )
    if as_json:
        say_json(
            {"adapter": str(taught.adapter), "card": taught.card.to_json(), "curve": taught.curve}
        )
        return
    recipe = taught.card.recipe
    say(f"{taught.card.base} learned {recipe['questions']:,} questions in {domain}.")
    if first := taught.curve[0]["figures"]:
        last = taught.curve[-1]["figures"]
        shares = (f"{role} {first[role]:.0%} -> {last[role]:.0%}" for role in sorted(last))
        say(f"Right in every token, of questions not learned: {'; '.join(shares)}")
        if verbose:
            _print_curve(taught.curve)
    say(f"Files: {taught.adapter}")
    planner = asker_of(taught.card.roles, find_domain(domain)).name
    model_option = shlex.quote(str(taught.adapter))
    say(f"Next: llm-planning run {planner} --domain {shlex.quote(domain)} --model {model_option}")


def _print_curve(curve: Sequence[Mapping[str, Any]]) -> None:
    """A table of the shares by questions learned: as many points as a terminal has room for."""
    from rich.table import Table

    from llm_base.terminal import SafeConsole

    points = [curve[round(i * (len(curve) - 1) / _MOST_POINTS)] for i in range(_MOST_POINTS + 1)]
    figures_at = {point["questions"]: point["figures"] for point in points}
    title = "New states: share of right answers that are the likeliest in every token"
    table = Table("questions learned", *(f"{count:,}" for count in figures_at), title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    for role in sorted({role for figures in figures_at.values() for role in figures}):
        table.add_row(role, *(f"{figures[role]:.0%}" for figures in figures_at.values()))
    SafeConsole().print(table)
