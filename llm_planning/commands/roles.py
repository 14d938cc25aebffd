"""`llm-planning roles measure`: how often a model is right at each role in a domain."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from llm_planning.commands.options import (
    MOST,
    CacheOption,
    JsonOption,
    VerboseOption,
    check_writable_folder,
    name,
    named_path,
)
from llm_planning.endings import refusing
from llm_planning.model_configs import DEFAULT_MODEL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.experiments.role_measures import RoleMeasure
    from llm_planning.experiments.statistics import Estimate

_MOST_CONFUSIONS = 5
_LONGEST_CONFUSION = 60

app = typer.Typer(help="How good a model is at the questions that planners ask.")


DomainArgument = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="A name, or FILE.py:CLASS of your own.")
]
ModelOption = Annotated[
    str,
    typer.Option(
        parser=name, help="A bundled model, a configuration, a folder, a hub id or a YAML file."
    ),
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
    Literal["general", "taught"] | None,
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


class NotMeasuredError(Exception):
    """A role could not be measured."""


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
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Asks a model questions whose right answers the domain knows, and counts the right ones.

    Each role is asked in its planner's own words, under the same constraint on answers. Half of the
    questions are about what teaching leaves out, where a role has that. The same command goes on
    where it was interrupted, and every answer that the cache has is free.

    Exits with 0 when every role was measured; with 1 when the model cannot be found or failed; with
    2 for a domain or a role that does not exist; with 130 when interrupted.
    """
    from llm_base.files import TargetError, check_target, write_durably
    from llm_base.terminal import SafeConsole, say_json
    from llm_planning.commands.role_trials import about, sweep_of, trials_of
    from llm_planning.commands.sweep_running import carry_out, executor_of
    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.role_measures import rates, rates_file, read_measures
    from llm_planning.experiments.runs import result_record
    from llm_planning.interrupts import heard_while_loading
    from llm_planning.registry import find_domain, telling_own_lines
    from llm_planning.running import REFUSALS
    from llm_serving.errors import EngineConfigError

    with (
        telling_own_lines(domain),
        refusing(*REFUSALS, TargetError, EngineConfigError),
        heard_while_loading(),
        SafeConsole(stderr=True).waiting("making questions"),
    ):
        if out is not None:
            check_target(out)
        where = find_domain(domain)
        trials = trials_of(
            where,
            model=model,
            roles=role,
            seed=seed,
            questions=questions,
            words=words,
            hold_out=hold_out,
        )
    sweep = sweep_of(trials)
    folder = ledger or Path("sweeps") / sweep["name"]
    check_writable_folder(folder, option="--ledger")
    # One role at a time, so that its seconds are its own; its questions fill the batch.
    executor = executor_of(cache=cache, concurrency=1)
    carry_out(folder, sweep, executor, deterministic=False)
    with Ledger.open(folder) as opened:
        results = [(row.result, row.attempts) for row in opened.rows()]
        revisions = {
            name: str(model_provenance["revision"])
            for known in opened.provenances.values()
            for name, model_provenance in known["models"].items()
        }
    failed = [result for result, _ in results if result.status == "failed"]
    measures = read_measures(
        result_record(result, attempts=attempts)
        for result, attempts in results
        if result.status == "done"
    )
    if measures and as_json:
        say_json(
            {
                "folder": str(folder),
                "domain": domain,
                "model": model,
                "seed": seed,
                "roles": {measured.role: measured.to_json() for measured in measures},
                "rates": rates(measures),
            }
        )
    elif measures:
        _show(folder, measures, out=out, verbose=verbose)
    if failed:
        first = failed[0].trial.settings["role"]
        raise NotMeasuredError(
            f"the role {first} was not measured: {failed[0].error}; to ask it again, remove "
            f"{folder}"
        )
    if out is not None:
        source = about(trials[0], revision=revisions.get(model, "none"))
        write_durably(out, rates_file(measures, about=tuple(source)).encode())


def _show(
    folder: Path, measures: Sequence[RoleMeasure], *, out: Path | None, verbose: bool
) -> None:
    from rich.table import Table

    from llm_base.quoting import shortened
    from llm_base.terminal import SafeConsole, literal, say

    asked = sum(measured.share.n for measured in measures)
    right = sum(measured.right for measured in measures)
    say(f"{right} of {asked} answers of {measures[0].model} are right: {right / asked:.0%}.")
    console = SafeConsole()
    invents = any(measured.invented for measured in measures)
    heads = ("role", "right", "of", "share", "95% interval", *(("invented",) if invents else ()))
    table = Table(*heads)
    for column in (*table.columns[1:4], *table.columns[5:]):
        column.justify = "right"
    for measured in measures:
        cells = _cells(measured.role, measured.share, invented=measured.invented)
        table.add_row(*map(literal, cells))
        if verbose:
            for aspect, values in measured.splits.items():
                for value, share in values.items():
                    invented = measured.invented_kinds.get(aspect, {}).get(value)
                    cells = _cells(f"  {aspect}: {value}", share, invented=invented)
                    table.add_row(*map(literal, cells))
    console.print(table)
    for measured in measures if verbose else ():
        for expected, answer, count in measured.confusions[:_MOST_CONFUSIONS]:
            texts = [shortened(text, _LONGEST_CONFUSION) for text in (answer, expected)]
            line = f"{measured.role}: {count} x {' instead of '.join(texts)}"
            console.print(literal(line), soft_wrap=True)
        console.print(
            literal(f"{measured.role}: {measured.tokens} tokens, {measured.seconds:.1f} s")
        )
    say(f"Files: {folder}{'' if out is None else f', {out}'}")
    if out is None:
        say(f"Next: llm-planning sweep report {shlex.quote(str(folder))}")
    else:
        say(f"Next: llm-planning run PLANNER --set roles={shlex.quote(str(out))}")


def _cells(label: str, share: Estimate, *, invented: Estimate | None) -> tuple[str, ...]:
    from llm_planning.experiments.statistics import write_number

    right = round((share.value or 0.0) * share.n)
    texts = [
        "" if value is None else write_number(value, "percent")
        for value in (share.value, share.low, share.high)
    ]
    interval = f"{texts[1]} to {texts[2]}" if texts[1] else share.reason or ""
    named = None if invented is None else invented.value
    return (
        *(label, str(right), str(share.n), texts[0], interval),
        *(() if named is None else (write_number(named, "percent"),)),
    )
