"""What the live page costs a sweep: trials per second while the page is polled, and while not.

One sweep of small trials without a model keeps a core busy. Its live page is served all the time,
and asked as a browser asks it in every other stretch of some seconds, so that drift of the machine
meets both alike. The ratio is that of the trials that ended in the two kinds of stretches. On a
busy machine it scatters by more than the page costs; the processor time that the server took does
not.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness import Finding, parser, report

from llm_base.database import connect
from llm_planning.experiments.statistics import mean

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 0.99
"""Trials per second with the page over those without, at least."""

SHARE = 0.01
"""Of one core, that the server may take."""

SWEEP = """\
name: polled
model: none
domain: blocksworld
tasks: four-blocks
planners: uct
seeds: 100000
settings: {simulations: 20, moves: 2}
"""
PROGRAM = (sys.executable, "-m", "llm_planning.cli")


class Page:
    """The page as a browser asks for it."""

    def __init__(self, link: str) -> None:
        found = urlsplit(link)
        self._host = f"{found.hostname}:{found.port}"
        self._get("/")

    def look(self) -> float:
        """Asks for the state; returns the seconds until the next question."""
        return float(json.loads(self._get("/state.json"))["wait"])

    def _get(self, path: str) -> bytes:
        with closing(http.client.HTTPConnection(self._host, timeout=60)) as connection:
            connection.request("GET", path)
            return connection.getresponse().read()


def stretches(
    page: Page, ledger: Path, server: int, *, pairs: int, seconds: float
) -> Iterator[tuple[float, float, float]]:
    """Trials per second with the page and without, and the server's share of a core meanwhile."""
    connection = connect(ledger, "mode=rw")
    with closing(connection):

        def ended() -> int:
            ((count,),) = connection.execute("SELECT count(*) FROM results")
            return int(count)

        def stretch(*, asks: bool) -> tuple[float, float]:
            begun, before, used = time.monotonic(), ended(), processor_seconds(server)
            next_look = begun
            while (now := time.monotonic()) < begun + seconds:
                if asks and now >= next_look:
                    next_look = now + page.look()
                time.sleep(0.02)
            passed = time.monotonic() - begun
            return (ended() - before) / passed, (processor_seconds(server) - used) / passed

        for turn in range(pairs):
            # In turn the first, so that neither kind always meets the smaller ledger.
            first, second = stretch(asks=turn % 2 == 0), stretch(asks=turn % 2 == 1)
            polled, alone = (first, second) if turn % 2 == 0 else (second, first)
            yield polled[0], alone[0], polled[1]


def processor_seconds(process: int) -> float:
    """The time that a process has computed."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(*, pairs: int, seconds: float) -> tuple[list[tuple[float, float, float]], int]:
    """Runs the sweep and its page; returns the stretches and the number of trials at the end."""
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "sweep.yaml", Path(folder) / "out"
        file.write_text(SWEEP, encoding="utf-8")
        sweep = subprocess.Popen(
            [*PROGRAM, "sweep", "run", str(file), "--out", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            while not (out / "traces").exists():
                time.sleep(0.1)
            server = subprocess.Popen(
                [*PROGRAM, "view", str(out), "--live"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            try:
                assert server.stdout is not None
                page = Page(server.stdout.readline().strip())
                ledger = out / "ledger.sqlite"
                found = list(stretches(page, ledger, server.pid, pairs=pairs, seconds=seconds))
                with closing(connect(ledger, "mode=rw")) as reading:
                    ((trials,),) = reading.execute("SELECT count(*) FROM results")
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()
        finally:
            sweep.send_signal(signal.SIGINT)
            sweep.wait()
    return found, trials


def main() -> None:
    """Measures and reports."""
    options = parser(__doc__)
    options.add_argument("--pairs", type=int, default=12, help="of stretches")
    options.add_argument("--seconds", type=float, default=6.0, help="of a stretch")
    asked = options.parse_args()
    found, trials = measure(pairs=asked.pairs, seconds=asked.seconds)
    ratio = mean([polled / alone for polled, alone, _ in found])
    share = mean([used for *_, used in found])
    findings = [
        Finding(
            label="trials/s with the page polled over without",
            measured=ratio.value,
            unit="x",
            bound="at least",
            target=LEAST,
            details={
                "interval": [ratio.low, ratio.high],
                "pairs": asked.pairs,
                "trials": trials,
                "trials per second": mean([alone for _, alone, _ in found]).value,
            },
        ),
        Finding(
            label="share of one core that the server takes while it is polled",
            measured=None if share.value is None else 100 * share.value,
            unit="%",
            bound="at most",
            target=100 * SHARE,
            details={"interval": [share.low, share.high]},
        ),
    ]
    report("viewer_live", findings, as_json=asked.json)


if __name__ == "__main__":
    main()
