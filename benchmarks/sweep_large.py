"""Whether a sweep of 10,000 trials keeps its memory, and goes on soon after SIGKILL.

ToO planning trials (k=1, d=1, iter=1; eight tasks) run through the command line on an emulated
engine (`emulated_engine`) that is quicker than a card, so that planners, pool and ledger bound the
sweep: a step is a millisecond of Python and one of waiting, and writes 32 tokens of every answer.
Nothing comes from a response cache. The process is killed at half of the trials and resumed.

Memory is the resident set of each process, from its first thousand trials on. Going on takes from
the start of the second process to its first result on the disk, without what an engine's opening
takes: here torch and transformers are imported, on a card tens of seconds pass.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from emulated_engine import MODEL, Cost, StepsHere, emulating
from harness import Finding, parser, report
from sweep_kill import SweepProcess, content, recorded

from llm_planning.cli import main as command_line
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_serving.vllm_engine import VllmEngine

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

COST = Cost(python=0.001, releases=4, wait=0.001, tokens=32)
WARM = 1000
"""Trials after which memory is compared."""
OPENED = "seconds to open an engine: "
LOOK = 0.5
"""Seconds between two looks."""
PAGE = os.sysconf("SC_PAGE_SIZE")


class Moment(NamedTuple):
    """Seconds that passed, of the clock and of the processor."""

    wall: float
    cpu: float


@dataclass(slots=True)
class Part:
    """One process of the sweep, from its start on.

    Attributes:
        seconds: that it ran.
        first: when it had its first result.
        memory: MiB of its resident set, by the number of its results.
    """

    seconds: float = 0.0
    first: Moment | None = None
    memory: list[tuple[int, float]] = field(default_factory=list)

    def settled(self, warm: int) -> tuple[float, float]:
        """MiB after the first results, and the most from there on."""
        later = [memory for results, memory in self.memory if results >= warm]
        return later[0], max(later)


def watched(process: SweepProcess, folder: Path, *, until: int) -> Part:
    """Looks at a process until it ends, or has so many rows and is killed."""
    part, begun = Part(), time.perf_counter()
    before = recorded(folder)
    while process.running():
        rows = recorded(folder)
        part.seconds = time.perf_counter() - begun
        if rows > before and part.first is None:
            part.first = Moment(part.seconds, computed(process.id))
        if (memory := resident(process.id)) is not None:
            part.memory.append((rows - before, memory))
        if rows >= until:
            process.kill()
            break
        # Until the first result it is looked at more often, since that is timed.
        time.sleep(LOOK if part.first else LOOK / 5)
    return part


def resident(process: int) -> float | None:
    """MiB of a process's resident set; None where it has ended."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1]) * PAGE / 2**20
    except (OSError, IndexError):
        return None


def computed(process: int) -> float:
    """Seconds of the processor that a process took, with its threads."""
    numbers = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


def write_sweep(path: Path, trials: int) -> None:
    """The sweep's file: eight tasks take all trials."""
    lines = (
        "name: large",
        f"model: {MODEL}",
        "planners: {too: {k: 1, d: 1, iter: 1}}",
        "domain: minecraft",
        f"tasks: [{', '.join(TASKS)}]",
        f"seeds: {trials // len(TASKS)}",
        "retries: 1",
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def run_emulated(arguments: Sequence[str]) -> int:
    """The command line `llm-planning sweep`, with an emulated engine.

    How long that took to open is the last line that it writes to standard error until then.
    """
    open_engine = VllmEngine.__init__

    def opened(engine: VllmEngine, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        wall, cpu = time.perf_counter(), time.process_time()
        open_engine(engine, *arguments, **options)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sys.stderr.write(f"{OPENED}{wall} {cpu}\n")

    with emulating(partial(StepsHere, COST)), mock.patch.object(VllmEngine, "__init__", opened):
        return command_line(["sweep", *arguments])


def opening(log: Path) -> list[Moment]:
    """What each engine took to open, in order."""
    lines = log.read_text(encoding="utf-8").splitlines()
    told = [line.removeprefix(OPENED).split() for line in lines if line.startswith(OPENED)]
    return [Moment(float(wall), float(cpu)) for wall, cpu in told]


def main() -> None:
    """Runs, kills, resumes and reports."""
    if sys.argv[1:2] == ["sweep"]:
        sys.exit(run_emulated(sys.argv[2:]))
    options = parser(__doc__)
    options.add_argument("--trials", type=int, default=10_000, help="a multiple of 8")
    arguments = options.parse_args()
    with tempfile.TemporaryDirectory() as base:
        findings = measured(Path(base), arguments)
    report("sweep_large", findings, as_json=arguments.json)


def measured(base: Path, arguments: argparse.Namespace) -> list[Finding]:
    """Runs the sweep in two processes, the first of which is killed."""
    file, out, trials = base / "large.yaml", base / "large", arguments.trials
    write_sweep(file, trials)
    start = partial(SweepProcess, cache=None, log=base / "log", program=(__file__, "sweep"))
    killed = watched(
        start(["run", str(file), "--out", str(out), "--no-cache"]), out, until=trials // 2
    )
    rows = recorded(out)
    resumed = watched(start(["resume", str(out), "--no-cache"]), out, until=trials + 1)
    _, opened = opening(base / "log")
    if resumed.first is None:
        raise RuntimeError("the second process had nothing to do: give more --trials")
    found = content(out)
    warm = min(WARM, trials // 8)
    grown = []
    details: dict[str, float | str] = {}
    for name, part in (("killed", killed), ("resumed", resumed)):
        settled, most = part.settled(warm)
        grown.append(100 * (most / settled - 1))
        details |= {f"MiB, {name}, after {warm} trials": settled, f"MiB, {name}, most": most}
    seconds = killed.seconds + resumed.seconds
    return [
        Finding(
            label=f"resident memory after {warm} trials and at most later, the worse process",
            measured=max(grown),
            unit="%",
            bound="at most",
            target=5,
            details=details,
        ),
        Finding(
            label="from the start of the second process to its first result, opening left out",
            measured=resumed.first.wall - opened.wall,
            unit="s",
            bound="at most",
            target=10,
            details={
                "rows when it was killed": rows,
                "of these seconds, computing": resumed.first.cpu - opened.cpu,
                "seconds to open the engine": opened.wall,
                "of these seconds, computing there": opened.cpu,
            },
        ),
        Finding(
            label="trials lost, failed or recorded twice",
            measured=float(
                (found["expected"] - found["trials"])
                + (found["rows"] - found["trials"])
                + (found["rows"] - found["done"])
            ),
            unit="trials",
            bound="at most",
            target=0,
            details={
                "trials": found["trials"],
                "calls": found["calls"],
                "seconds of both processes": seconds,
                "trials an hour, both starts included": 3600 * found["trials"] / seconds,
            },
        ),
    ]


if __name__ == "__main__":
    main()
