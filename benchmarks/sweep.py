"""Whether a sweep keeps the engine as busy as bare requests would, and what its book-keeping costs.

64 ToO planning trials (k=1, d=1, iter=1; eight tasks, eight seeds) run as a sweep, with ledger and
display, and eight of them, one for each task, one after the other. One trial keeps several requests
in flight by itself, so the quotient of their trials per minute is divided by the engine's own
quotient of tokens per second between the numbers of requests that the two arms had in flight.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from batching import bare
from bench_engine import MODEL, engine, engine_parser, forget
from harness import Finding, report
from rich.console import Console

from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.experiments.display import Display
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.scheduler import run_sweep
from llm_planning.experiments.trial import Trial
from llm_planning.gpu_check.asked import Recorder
from llm_planning.registry import find_planner
from llm_planning.roles import Engines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.experiments.scheduler import Progress
    from llm_planning.experiments.trial import TrialResult
    from llm_serving.dispatcher import Activity
    from llm_serving.request import Request
    from llm_serving.vllm_engine import VllmEngine

SETTINGS = {"k": 1, "d": 1, "iter": 1}
SEEDS = 8


@dataclass(slots=True)
class Spent:
    """Seconds that book-keeping took.

    Attributes:
        recording: of the processor, by the ledger's own thread.
        disk: that records took in all, waiting for the disk included; the engine goes on meanwhile.
        showing: of the event loop, by the display.
    """

    recording: float = 0.0
    disk: float = 0.0
    showing: float = 0.0


@dataclass(frozen=True, slots=True)
class TimedLedger:
    """A ledger with a stopwatch."""

    ledger: Ledger
    spent: Spent = field(default_factory=Spent)

    def record(self, result: TrialResult, *, attempt: int, final: bool) -> None:
        """Keeps one attempt."""
        cpu, wall = time.thread_time(), time.perf_counter()
        self.ledger.record(result, attempt=attempt, final=final)
        self.spent.recording += time.thread_time() - cpu
        self.spent.disk += time.perf_counter() - wall

    def finished(self) -> frozenset[str]:
        """Keys of the trials that have their row."""
        return self.ledger.finished()

    def attempts(self) -> dict[str, int]:
        """Failed attempts of those that have none."""
        return dict(self.ledger.attempts())


@dataclass(frozen=True, slots=True)
class SweepArm:
    """One way of running trials.

    Attributes:
        seconds: until the last result was on the disk.
        trials: that were run.
        written: tokens.
        in_flight: requests that an average step advanced.
        stepping: share of the seconds that the engine spent in steps.
        spent: seconds of book-keeping.
        requests: what was asked, in order.
        most: trials in flight, at most.
    """

    seconds: float
    trials: int
    written: int
    in_flight: float
    stepping: float
    spent: Spent
    requests: Sequence[Request]
    most: int

    @property
    def per_minute(self) -> float:
        """Trials per minute."""
        return 60 * self.trials / self.seconds


def trials() -> list[Trial]:
    """Eight tasks times eight seeds, tasks taking turns."""
    spec = find_planner("too")
    settings = spec.settings.read(SETTINGS).to_json()
    return [
        Trial(
            planner=spec.name,
            domain="minecraft",
            task=task,
            model=MODEL,
            seed=seed,
            settings=settings,
        )
        for seed in range(SEEDS)
        for task in TASKS
    ]


def run(opened: VllmEngine, chosen: Sequence[Trial], *, least: int, most: int) -> SweepArm:
    """Runs trials as a sweep, between so many at once, from an empty prefix cache."""
    recorder = Recorder(opened)
    pool = LocalPool(
        Engines(recorder),  # type: ignore[arg-type]
        least=least,
        most=most,
        gauges=(opened,),
    )
    forget(opened)
    before: Activity = replace(opened.activity)
    highest = 0
    trials = [trial.to_json() for trial in chosen]
    sweep = {"name": "benchmark", "retries": 0, "trials": trials}
    with (
        tempfile.TemporaryDirectory() as folder,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        closing(Ledger.create(Path(folder) / "sweep", sweep, {})) as ledger,
        Display(Console(file=nowhere, force_terminal=True, width=120), name="b") as display,
    ):
        timed = TimedLedger(ledger)

        def watch(progress: Progress) -> None:
            nonlocal highest
            highest = max(highest, progress.running)
            begun = time.perf_counter()
            display(progress)
            timed.spent.showing += time.perf_counter() - begun

        begun = time.perf_counter()
        progress = asyncio.run(run_sweep(chosen, pool=pool, ledger=timed, retries=0, watch=watch))
        seconds = time.perf_counter() - begun
    if progress.done != len(chosen):
        raise RuntimeError(f"{progress.failed} of {len(chosen)} trials failed")
    activity = opened.activity.since(before)
    return SweepArm(
        seconds=seconds,
        trials=len(chosen),
        written=recorder.written,
        in_flight=activity.mean_in_flight,
        stepping=activity.stepping_seconds / seconds,
        spent=timed.spent,
        requests=recorder.requests,
        most=highest,
    )


def main() -> None:
    """Measures and reports."""
    options = engine_parser(__doc__)
    options.add_argument("--trials", type=int, default=64, help="as a sweep, 64 at most")
    options.add_argument("--alone", type=int, default=8, help="one after the other")
    arguments = options.parse_args()
    every = trials()[: arguments.trials]
    with engine(model=arguments.model, dtype=arguments.dtype) as opened:
        run(opened, every[:2], least=2, most=2)  # compiles every grammar
        together = run(opened, every, least=1, most=256)
        alone = run(opened, every[: arguments.alone], least=1, most=1)
        many = bare(opened, together.requests, limit=round(together.in_flight))
        few = bare(opened, alone.requests, limit=max(1, round(alone.in_flight)))
    quotient = together.per_minute / alone.per_minute
    own = many.rate / few.rate
    spent = together.spent
    details = {
        "trials_per_min_as_a_sweep": together.per_minute,
        "trials_per_min_one_after_the_other": alone.per_minute,
        "quotient": quotient,
        "engines_own_quotient": own,
        "trials_as_a_sweep": together.trials,
        "trials_one_after_the_other": alone.trials,
        "most_trials_in_flight": together.most,
        "in_flight_as_a_sweep": together.in_flight,
        "in_flight_one_after_the_other": alone.in_flight,
        "bare_in_flight_many": many.in_flight,
        "bare_in_flight_few": few.in_flight,
        "tokens_per_s_as_a_sweep": together.written / together.seconds,
        "tokens_per_s_one_after_the_other": alone.written / alone.seconds,
        "bare_tokens_per_s_many": many.rate,
        "bare_tokens_per_s_few": few.rate,
        "tokens_per_trial_as_a_sweep": together.written / together.trials,
        "tokens_per_trial_one_after_the_other": alone.written / alone.trials,
    }
    findings = [
        Finding(
            label="sweep's quotient over the engine's own between as many in flight",
            measured=quotient / own,
            unit="x",
            bound="at least",
            target=0.8,
            details=details,
        ),
        Finding(
            label="share of the sweep that the engine was stepping",
            measured=100 * together.stepping,
            unit="%",
            bound="at least",
            target=90,
        ),
        Finding(
            label="ledger and display, per trial",
            measured=1000 * (spent.recording + spent.showing) / together.trials,
            unit="ms",
            bound="at most",
            target=5,
            details={
                "ledger_cpu_ms": 1000 * spent.recording / together.trials,
                "display_ms": 1000 * spent.showing / together.trials,
                "ledger_with_disk_ms_beside_the_engine": 1000 * spent.disk / together.trials,
            },
        ),
    ]
    report("sweep", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
