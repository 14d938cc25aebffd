"""Whether a sweep on the real engine survives SIGKILL: nothing lost, nothing repeated.

200 short trials (CoT, d=1; eight tasks, 25 seeds) run through the command line. The process is
killed five times at random moments and the sweep resumed each time. Then the same sweep runs
undisturbed, from the answers that the first one left in a response cache of their own, and both
ledgers are compared.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_engine import MODEL
from harness import AnswersDifferError, Finding, parser, report

from llm_planning.experiments.ledger import LEDGER_FILE, Ledger
from llm_planning.trace_file import summary_of
from llm_serving.models.folders import CACHE_VARIABLE, cache_folder
from llm_serving.stores import ResponseCache

if TYPE_CHECKING:
    from collections.abc import Sequence

POLL, PATIENCE = 0.1, 900.0


class SweepProcess:
    """The command line, in a process of its own.

    Args:
        arguments: after `llm-planning sweep`.
        cache: its cache folder; None for the usual one.
        log: takes what it prints.
        program: what Python is told to run.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cache: Path | None,
        log: Path,
        program: Sequence[str] = ("-m", "llm_planning.cli", "sweep"),
    ) -> None:
        command = [sys.executable, *program, *arguments]
        environment = os.environ | ({} if cache is None else {CACHE_VARIABLE: str(cache)})
        with log.open("ab") as file:
            self._process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
        self._log = log

    @property
    def id(self) -> int:
        """Of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Sends SIGKILL to this one process."""
        self._process.kill()
        self._process.wait()

    def running(self) -> bool:
        """Whether it has not ended.

        Raises:
            RuntimeError: it failed.
        """
        code = self._process.poll()
        if code not in {None, 0}:
            end = self._log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise RuntimeError(f"the sweep exited with {code}:\n{end}")
        return code is None

    def finish(self) -> None:
        """Waits for its end."""
        begun = time.monotonic()
        while self.running():
            if time.monotonic() - begun > PATIENCE:
                self.kill()
                raise RuntimeError(f"the sweep did not end within {PATIENCE:.0f} s")
            time.sleep(POLL)


def write_sweep(path: Path, trials: int) -> None:
    """The sweep's file: eight tasks take all trials."""
    lines = (
        "name: killed",
        f"model: {MODEL}",
        "planners: cot",
        "tasks: all",
        f"seeds: {trials // 8}",
        "settings: {d: 1}",
        "retries: 1",
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def fresh_cache(folder: Path) -> Path:
    """A cache folder with the models of the usual one, and without any answers."""
    cache = folder / "cache"
    cache.mkdir()
    for entry in cache_folder().iterdir() if cache_folder().is_dir() else ():
        if entry.is_dir():
            (cache / entry.name).symlink_to(entry)
    return cache


def recorded(folder: Path) -> int:
    """Trials that have their row."""
    if not (folder / LEDGER_FILE).exists():
        return 0
    with Ledger.open(folder) as ledger:
        return len(ledger.finished())


def kill_at(process: SweepProcess, folder: Path, rows: int, draw: random.Random) -> int:
    """Kills the sweep some moment after it has so many rows; returns how many it has then."""
    begun = time.monotonic()
    while recorded(folder) < rows:
        if not process.running() or time.monotonic() - begun > PATIENCE:
            raise RuntimeError(f"the sweep ended, or stood still, before its row {rows}")
        time.sleep(POLL)
    time.sleep(draw.uniform(0, 0.5))
    process.kill()
    return recorded(folder)


def content(folder: Path) -> dict[str, Any]:
    """What a ledger holds.

    Raises:
        LedgerError: a trace is missing or another one.
    """
    with Ledger.open(folder) as ledger:
        rows = list(ledger.rows())
        for row in rows:
            summary_of(ledger.read_events(row))
        return {
            "rows": len(rows),
            "trials": len({row.result.trial.key for row in rows}),
            "expected": len(ledger.sweep["trials"]),
            "done": sum(row.result.status == "done" for row in rows),
            "replayed": sum(spent.replayed for row in rows for spent in row.result.usage.values()),
            "calls": sum(spent.calls for row in rows for spent in row.result.usage.values()),
            "digest": ledger.content_digest(),
        }


def main() -> None:
    """Kills, resumes, compares and reports."""
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=200, help="a multiple of 8")
    options.add_argument("--kills", type=int, default=5)
    options.add_argument("--seed", type=int, default=0, help="of the moments")
    arguments = options.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as base:
        folder = Path(base)
        file, log, cache = folder / "killed.yaml", folder / "log", fresh_cache(folder)
        killed, whole = folder / "killed", folder / "whole"
        write_sweep(file, arguments.trials)
        rows_at_kills: list[int] = []
        seconds = time.perf_counter()
        for _ in range(arguments.kills):
            known = recorded(killed)
            step = (arguments.trials - known) // (arguments.kills + 1 - len(rows_at_kills))
            process = SweepProcess(["run", str(file), "--out", str(killed)], cache=cache, log=log)
            rows = known + draw.randint(1, max(1, step))
            rows_at_kills.append(kill_at(process, killed, rows, draw))
        SweepProcess(["resume", str(killed)], cache=cache, log=log).finish()
        seconds = time.perf_counter() - seconds
        with closing(ResponseCache(cache / "responses.sqlite")) as answers:
            kept = answers.stats().entries
        SweepProcess(["run", str(file), "--out", str(whole)], cache=cache, log=log).finish()
        found, undisturbed = content(killed), content(whole)
    if found["digest"] != undisturbed["digest"]:
        both = json.dumps([found, undisturbed])
        raise AnswersDifferError(f"the killed sweep's ledger differs from the other's: {both}")
    lost, double = found["expected"] - found["trials"], found["rows"] - found["trials"]
    details = {
        "kills": len(rows_at_kills),
        "rows_at_kills": str(rows_at_kills),
        "trials": found["trials"],
        "done": found["done"],
        "seconds_with_kills": seconds,
        "calls": found["calls"],
        "calls_answered_from_before_a_kill": found["replayed"],
        "answers_in_the_response_cache": kept,
        "calls_replayed_undisturbed": undisturbed["replayed"],
    }
    report(
        "sweep_kill",
        [
            Finding(
                label="trials lost or recorded twice",
                measured=float(lost + double),
                unit="trials",
                bound="at most",
                target=0,
                details=details,
            )
        ],
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
