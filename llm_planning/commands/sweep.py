"""`llm-planning sweep`: many trials on one engine, kept in a ledger that survives everything."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from llm_planning.experiments.provenance import collect_provenance
from llm_planning.experiments.sweep_files import UntrustedError, find_sweep
from llm_planning.experiments.trial import Trial
from llm_planning.fronts.options import Where, check_writable_folder
from llm_planning.interrupts import heard_while_loading
from llm_serving.terminal import SafeConsole, complain, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llm_planning.experiments.executors import Executor, PoolOpener
    from llm_planning.experiments.scheduler import Progress
    from llm_planning.experiments.sweep_files import Trust


class StoppedError(Exception):
    """A sweep broke off; the message says why, and what of it is recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """How trials are run, as the command line says.

    Attributes:
        where: in this process or on Ray.
        cached: whether answers come from the response cache.
        deterministic: whether no answer may depend on what is computed beside it.
        most: trials in flight at most.
        address: of a Ray cluster that runs.
        workers: of Ray.
        cpus: slots of a Ray worker.
        trust: in what the sweep's file or ledger may make us open.
    """

    where: Where
    cached: bool
    deterministic: bool
    most: int | None
    address: str | None
    workers: int | None
    cpus: int
    trust: Trust

    def executor(self) -> Executor:
        """Where trials run.

        Raises:
            UsageError: options that do not go together.
        """
        fresh = Answers.DETERMINISTIC if self.deterministic else Answers.FRESH
        answers = Answers.CACHED if self.cached and not self.deterministic else fresh
        if self.where is Where.RAY:
            return RayExecutor(
                answers=answers,
                most=self.most,
                tell=complain,
                address=self.address,
                workers=self.workers,
                cpus_per_worker=self.cpus,
            )
        if self.address is not None or self.workers is not None:
            raise UsageError("--ray-address and --ray-workers need --executor ray")
        return _Interruptible(LocalExecutor(answers=answers, most=self.most, tell=complain))


@dataclass(frozen=True, slots=True)
class _Interruptible:
    """Opens models in this process so that Ctrl-C ends it, whatever libraries make of it."""

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
    """Runs the trials of a YAML file; in a folder where they were begun, those still missing."""
    with refusing(SweepConfigError):
        executor = options.executor()
        sweep = load_sweep(find_sweep(file), trust=options.trust)
    folder = out or Path("sweeps") / sweep.name
    check_writable_folder(folder)
    _sweep(folder, sweep.to_json(), executor, deterministic=options.deterministic, as_json=as_json)


def dry_run(file: str, *, options: SweepOptions, samples: int, as_json: bool) -> None:
    """Lists the trials of a YAML file and estimates their cost; records nothing."""
    with refusing(SweepConfigError):
        executor = options.executor()
        trials = load_sweep(find_sweep(file), trust=options.trust).trials
    expected = None
    if samples:
        with _sigterm_as_ctrl_c():
            expected = run_samples(trials, samples, executor)
    list_trials(trials, expected=expected, as_json=as_json)


def resume(folder: Path, *, options: SweepOptions, as_json: bool) -> None:
    """Runs the trials of a sweep that are still missing; the YAML file is not needed."""
    executor = options.executor()
    with Ledger.open(folder) as ledger:
        begun = ledger.sweep
    with refusing(UntrustedError):
        options.trust.check_trials(Trial(**trial) for trial in begun["trials"])
    _sweep(folder, begun, executor, deterministic=options.deterministic, as_json=as_json)


def _sweep(
    folder: Path,
    sweep: Mapping[str, Any],
    executor: Executor,
    *,
    deterministic: bool,
    as_json: bool,
) -> None:
    """Runs what is missing of a sweep and says how it went."""
    if os.path.exists(folder / LEDGER_FILE):
        with Ledger.open(folder) as ledger:
            ledger.refuse_old()
    trials = [Trial(**trial) for trial in sweep["trials"]]
    console = SafeConsole(stderr=True)
    try:
        with _sigterm_as_ctrl_c():
            with heard_while_loading():
                provenance = _provenance(trials, deterministic=deterministic)
            with (
                _recording(folder, sweep, provenance) as ledger,
                display_on(console, name=str(sweep["name"])) as display,
            ):
                progress = run_groups(
                    trials,
                    executor=executor,
                    ledger=ledger,
                    retries=sweep["retries"],
                    watch=display,
                )
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(_recorded(folder)) from interrupt
    except Exception as error:
        recorded = _recorded(folder)
        if not recorded or not is_ours(error):
            raise
        raise StoppedError(f"{error}; {recorded}") from error
    _say_end(folder, str(sweep["name"]), progress, as_json=as_json)


def _provenance(trials: list[Trial], *, deterministic: bool) -> dict[str, Any]:
    """What the trials are about to be run with.

    Raises:
        ServingError: a model cannot be found.
        ValueError: a planner, a domain or a setting is not there any more, or the user's own code
            is not what it was when the sweep began.
    """
    for first, *_ in by_kind(trials).values():
        prepare_trial(first)
    models = dict(pair for trial in trials for pair in Models.of(trial).configurations)
    return collect_provenance(models=starmap(identify, models.items()), deterministic=deterministic)


def _recording(folder: Path, sweep: Mapping[str, Any], provenance: Mapping[str, Any]) -> Ledger:
    """The ledger of a sweep that is begun, or was begun before."""
    if os.path.exists(folder / LEDGER_FILE):
        return Ledger.resume(folder, provenance, sweep=sweep)
    return Ledger.create(folder, sweep, provenance)


@contextmanager
def _sigterm_as_ctrl_c() -> Iterator[None]:
    """Lets whoever ends this process politely have the same clean end as Ctrl-C."""

    def end(*_: object) -> None:
        # A shell lets its background jobs ignore SIGINT; nothing would come of raising it there.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    """What of a sweep that broke off is recorded; "" without a ledger."""
    try:
        with Ledger.open(folder) as ledger:
            finished, total = len(ledger.finished()), len(ledger.sweep["trials"])
    except LedgerError:
        return ""
    return (
        f"{finished} of {total} trials are recorded; to go on: llm-planning sweep resume {folder}"
    )
