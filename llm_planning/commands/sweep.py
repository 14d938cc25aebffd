"""`llm-planning sweep`: many trials on one engine, kept in a ledger that survives everything."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_planning.cli.options import ExecutorKind, check_writable_folder
from llm_planning.commands.sweep_plan import list_trials, run_samples
from llm_planning.endings import UsageError, is_ours, refusing
from llm_planning.experiments.display import clock, display_on
from llm_planning.experiments.executors import (
    Answers,
    LocalExecutor,
    Models,
    RayExecutor,
    identify,
    run_groups,
)
from llm_planning.experiments.forecast import by_kind
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.grid_file import SweepConfigError
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError
from llm_planning.experiments.local_pool import prepare_trial
from llm_planning.experiments.progress_file import ProgressFile
from llm_planning.experiments.provenance import collect_provenance
from llm_planning.experiments.sweep_files import Trust, UntrustedError, find_sweep
from llm_planning.experiments.trial import Trial
from llm_planning.interrupts import heard_while_loading, sigterm_as_ctrl_c
from llm_serving.terminal import SafeConsole, complain, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.cli.sweep import SweepOptions
    from llm_planning.experiments.executors import Executor, PoolOpener
    from llm_planning.experiments.scheduler import Progress


class StoppedError(Exception):
    """A sweep broke off; the message has the cause and the number of recorded trials."""


@dataclass(frozen=True, slots=True)
class _Interruptible:
    """Opens models in this process so that Ctrl-C ends it, even if libraries swallow Ctrl-C."""

    executor: LocalExecutor

    @contextmanager
    def open(self, models: Models) -> Iterator[PoolOpener]:
        """Loads models; closes them at the end."""
        opening = self.executor.open(models)
        with ExitStack() as stack:
            with heard_while_loading():
                opened = stack.enter_context(opening)
            yield opened


def run(file: str, *, out: Path | None, options: SweepOptions, as_json: bool) -> None:
    """Runs the trials of a YAML file; if the folder has a ledger of them, the missing ones."""
    with refusing(SweepConfigError):
        executor = executor_of(options)
        sweep = load_sweep(find_sweep(file), trust=Trust.of(options.trust or ()))
    folder = out or Path("sweeps") / sweep.name
    check_writable_folder(folder)
    _sweep(folder, sweep.to_json(), executor, deterministic=options.deterministic, as_json=as_json)


def dry_run(file: str, *, options: SweepOptions, samples: int, as_json: bool) -> None:
    """Lists the trials of a YAML file and estimates their cost; records nothing."""
    with refusing(SweepConfigError):
        executor = executor_of(options)
        trials = load_sweep(find_sweep(file), trust=Trust.of(options.trust or ())).trials
    expected = None
    if samples:
        with sigterm_as_ctrl_c():
            expected = run_samples(trials, samples, executor)
    list_trials(trials, expected=expected, as_json=as_json)


def resume(folder: Path, *, options: SweepOptions, as_json: bool) -> None:
    """Runs the trials of a sweep that are still missing; the YAML file is not needed."""
    executor = executor_of(options)
    with Ledger.open(folder) as ledger:
        begun = ledger.sweep
    with refusing(UntrustedError):
        Trust.of(options.trust or ()).check_trials(Trial(**trial) for trial in begun["trials"])
    _sweep(folder, begun, executor, deterministic=options.deterministic, as_json=as_json)


def executor_of(options: SweepOptions) -> Executor:
    """Makes the executor that options ask for.

    Raises:
        UsageError: the options contradict each other.
    """
    fresh = Answers.DETERMINISTIC if options.deterministic else Answers.FRESH
    answers = Answers.CACHED if options.cache and not options.deterministic else fresh
    if options.executor is ExecutorKind.RAY:
        return RayExecutor(
            answers=answers,
            most=options.concurrency,
            tell=complain,
            address=options.ray_address,
            workers=options.ray_workers,
            cpus_per_worker=options.ray_cpus,
        )
    if options.ray_address is not None or options.ray_workers is not None:
        raise UsageError("--ray-address and --ray-workers need --executor ray")
    return _Interruptible(LocalExecutor(answers=answers, most=options.concurrency, tell=complain))


def _sweep(
    folder: Path,
    sweep: Mapping[str, Any],
    executor: Executor,
    *,
    deterministic: bool,
    as_json: bool,
) -> None:
    """Runs the missing trials of a sweep and prints a summary."""
    progress = carry_out(folder, sweep, executor, deterministic=deterministic)
    _say_end(folder, str(sweep["name"]), progress, as_json=as_json)


def carry_out(
    folder: Path, sweep: Mapping[str, Any], executor: Executor, *, deterministic: bool
) -> Progress:
    """Runs the missing trials of a sweep and shows how far it is.

    Args:
        folder: of the ledger; made if it is missing.
        sweep: the resolved sweep, as `Ledger.create` takes it.
        executor: runs the trials.
        deterministic: whether the executor's engines are deterministic.

    Raises:
        KeyboardInterrupt: Ctrl-C; the message says what is recorded.
        StoppedError: the sweep broke off; what had ended is recorded.
        LedgerError: the folder has the ledger of another sweep, or cannot be used.
    """
    trials = [Trial(**trial) for trial in sweep["trials"]]
    console = SafeConsole(stderr=True)
    try:
        with sigterm_as_ctrl_c():
            with heard_while_loading(), console.waiting("preparing the trials"):
                provenance = _provenance(trials, deterministic=deterministic)
            with (
                _recording(folder, sweep, provenance) as ledger,
                display_on(console, name=str(sweep["name"])) as display,
                ProgressFile(folder) as file,
            ):

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
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(_recorded(folder)) from interrupt
    except Exception as error:
        recorded = _recorded(folder)
        if not recorded or not is_ours(error):
            raise
        raise StoppedError(f"{error}; {recorded}") from error
    return progress


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


def _recording(folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]) -> Ledger:
    """Opens the ledger of a sweep, or makes it."""
    if os.path.exists(folder / LEDGER_FILE):
        return Ledger.resume(folder, provenance, sweep=sweep)
    return Ledger.create(folder, sweep, provenance)


def _say_end(folder: Path, name: str, progress: Progress, *, as_json: bool) -> None:
    if as_json:
        summary = {
            "folder": str(folder),
            "name": name,
            "total": progress.total,
            "kept": progress.kept,
            "done": progress.done,
            "failed": progress.failed,
            "retried": progress.retried,
            "seconds": round(progress.seconds, 3),
            "written_tokens": progress.load.written_tokens,
        }
        say(json.dumps(summary))
        return
    kept = f", {progress.kept} from earlier runs" if progress.kept else ""
    say(
        f"{name}: all {progress.total} trials finished{kept}; "
        f"{progress.done} done and {progress.failed} failed in {clock(progress.seconds)}"
    )
    if progress.failed:
        say(f"why trials failed: llm-planning sweep status {folder}")
    say(f"results: llm-planning sweep report {folder}")


def _recorded(folder: Path) -> str:
    """Says how many trials of a sweep that broke off are recorded; "" without a ledger."""
    try:
        with Ledger.open(folder) as ledger:
            finished, total = len(ledger.finished()), len(ledger.sweep["trials"])
    except LedgerError:
        return ""
    return (
        f"{finished} of {total} trials are recorded; to go on: llm-planning sweep resume {folder}"
    )
