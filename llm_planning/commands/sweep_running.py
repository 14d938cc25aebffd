"""Runs the trials of a sweep that are missing, whatever ends it, and shows how far it is."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from itertools import starmap
from typing import TYPE_CHECKING, Any

from llm_base.terminal import SafeConsole, complain
from llm_planning.data_files import changed_files
from llm_planning.endings import UsageError
from llm_planning.experiments.display import Display
from llm_planning.experiments.executors import (
    Answers,
    LocalExecutor,
    Models,
    RayExecutor,
    identify,
    run_groups,
)
from llm_planning.experiments.forecast import by_kind
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError
from llm_planning.experiments.local_pool import prepare_trial
from llm_planning.experiments.progress_file import ProgressFile
from llm_planning.experiments.provenance import collect_provenance
from llm_planning.experiments.trial import Trial
from llm_planning.interrupts import heard_while_loading, sigterm_as_ctrl_c, was_interrupted
from llm_planning.own_code import changed_since, is_ours
from llm_planning.settings import SettingsError
from llm_planning.sharing import sharing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.commands.options import ExecutorKind
    from llm_planning.experiments.executors import Executor
    from llm_planning.experiments.scheduler import Progress
    from llm_planning.running import Prepared


class StoppedError(Exception):
    """A sweep broke off; the message has the cause and the number of recorded trials."""


class UnopenedError(Exception):
    """A world of a sweep cannot be opened."""


def executor_of(
    kind: ExecutorKind = "local",
    *,
    cache: bool,
    deterministic: bool = False,
    concurrency: int | None,
    ray_address: str | None = None,
    ray_workers: int | None = None,
    ray_cpus: int = 8,
) -> Executor:
    """Makes the executor that options of the command line ask for.

    Raises:
        UsageError: the options contradict each other.
    """
    fresh = Answers.DETERMINISTIC if deterministic else Answers.FRESH
    answers = Answers.CACHED if cache and not deterministic else fresh
    if kind == "ray":
        return RayExecutor(
            answers=answers,
            most=concurrency,
            notify=complain,
            address=ray_address,
            workers=ray_workers,
            cpus_per_worker=ray_cpus,
        )
    if ray_address is not None or ray_workers is not None:
        raise UsageError("--ray-address and --ray-workers need --executor ray")
    return LocalExecutor(answers=answers, most=concurrency)


def carry_out(
    folder: Path,
    sweep: Mapping[str, Any],
    executor: Executor,
    *,
    deterministic: bool,
    chosen: Sequence[Trial] | None = None,
) -> Progress:
    """Runs the missing trials of a sweep and shows how far it is.

    Args:
        folder: of the ledger; made if it is missing.
        sweep: the resolved sweep, as `Ledger.create` takes it.
        chosen: those of its trials that are to run now; all by default.

    Raises:
        KeyboardInterrupt: Ctrl-C; the message says what is recorded.
        StoppedError: the sweep broke off; what had ended is recorded.
        LedgerError: the folder has the ledger of another sweep, or cannot be used.
    """
    trials = [Trial(**trial) for trial in sweep["trials"]] if chosen is None else [*chosen]
    console = SafeConsole(stderr=True)
    going_on = f"; to go on: llm-planning sweep resume {folder}"
    try:
        with sigterm_as_ctrl_c():
            with (
                _telling_what_is_recorded(folder),
                heard_while_loading(),
                console.waiting("preparing the trials"),
            ):
                provenance = _provenance(trials, deterministic=deterministic)
                _open_worlds(folder, trials)
            with (
                _recording(folder, sweep, provenance) as ledger,
                Display(console, name=str(sweep["name"])) as display,
                ProgressFile(folder) as file,
                _telling_what_is_recorded(folder, going_on),
            ):
                if changed := changed_files(ledger.files):
                    raise changed_since(changed)

                def watch(progress: Progress) -> None:
                    display(progress)
                    file(progress)

                progress = run_groups(
                    trials,
                    executor=executor,
                    ledger=ledger,
                    retries=sweep["retries"],
                    watch=watch,
                )
                if left := len({trial.key for trial in trials} - ledger.finished()):
                    trials_left = f"{left} of {len(trials)} trials"
                    raise StoppedError(f"the sweep ended, but {trials_left} left no result")
    except BaseException as error:
        if not was_interrupted(error):
            raise
        recorded = _recorded(folder)
        raise KeyboardInterrupt(recorded and f"{recorded}{going_on}") from error
    return progress


@contextmanager
def _telling_what_is_recorded(folder: Path, remedy: str = "") -> Iterator[None]:
    """Adds to an error of ours inside how much of a sweep is recorded.

    Args:
        remedy: follows that; none for what would end `sweep resume` as well.

    Raises:
        StoppedError: in the place of the error.
    """
    try:
        yield
    except Exception as error:
        recorded = _recorded(folder)
        if not recorded or not is_ours(error):
            raise
        raise StoppedError(f"{error}; {recorded}{remedy}") from error


def _provenance(trials: list[Trial], *, deterministic: bool) -> dict[str, Any]:
    """The provenance of the results that trials are about to have.

    Raises:
        ServingError: a model cannot be found.
        ValueError: a planner, a domain or a setting no longer exists, or the user's own code
            changed after the sweep began.
    """
    for first, *_ in by_kind(trials).values():
        prepare_trial(first)
    models = dict(pair for trial in trials for pair in Models.of(trial).configurations)
    return collect_provenance(models=starmap(identify, models.items()), deterministic=deterministic)


def _open_worlds(folder: Path, trials: Sequence[Trial]) -> None:
    """Opens a world of each kind that is left, before minutes are spent on a model.

    One that can be opened is enough: a task that cannot be fails its own trials.

    Raises:
        UsageError: a setting of a kind is not possible.
        UnopenedError: none of a kind can be opened. What a user's own code raises fails its trials
            alone.
    """
    finished = finished_in(folder)
    tried: dict[str, Exception | None] = {}
    with sharing():
        for kind in by_kind(trial for trial in trials if trial.key not in finished).values():
            errors: list[Exception] = []
            tasks: dict[str, Trial] = {}
            for trial in kind:
                tasks.setdefault(trial.task, trial)
            for trial in tasks.values():
                prepared = prepare_trial(trial)
                world = repr((trial.domain, trial.task, prepared.chosen.domain))
                if world not in tried:
                    tried[world] = _why_unopened(trial, prepared)
                if (error := tried[world]) is None:
                    break
                errors.append(error)
            else:
                raise errors[0]


def finished_in(folder: Path) -> Collection[str]:
    """Keys of the trials of a folder's ledger that have a result; none if there is no ledger."""
    if not os.path.exists(folder / LEDGER_FILE):
        return ()
    with Ledger.open(folder) as ledger:
        return ledger.finished()


def _why_unopened(trial: Trial, prepared: Prepared) -> Exception | None:
    """The error of a trial's world that cannot be opened; None if it can, or by code of others."""

    async def opening() -> None:
        async with prepared.opened():
            pass

    try:
        asyncio.run(opening())
    except BaseException as error:
        if was_interrupted(error):
            raise
        if not is_ours(error):
            return None
        kind = UsageError if isinstance(error, SettingsError) else UnopenedError
        why = kind(f"{trial.planner} in {trial.domain}, task {trial.task}: {error}")
        why.__cause__ = error
        return why
    return None


def _recording(folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]) -> Ledger:
    """Opens the ledger of a sweep, or makes it."""
    if os.path.exists(folder / LEDGER_FILE):
        return Ledger.resume(folder, provenance, sweep=sweep)
    return Ledger.create(folder, sweep, provenance)


def _recorded(folder: Path) -> str:
    """Says how many trials of a sweep that broke off are recorded; "" without a ledger."""
    try:
        with Ledger.open(folder) as ledger:
            finished, total = len(ledger.finished()), len(ledger.sweep["trials"])
    except LedgerError:
        return ""
    return f"{finished} of {total} trials are recorded"
