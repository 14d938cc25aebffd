"""How much of a card's speed a sweep keeps, on a machine without one: today and as of a commit.

64 ToO planning trials (k=1, d=1, iter=1) run as a sweep on an emulated engine (`emulated_engine`),
all at once, and then the same requests without a planner, as many in flight. Tokens per second and
request in flight, sweep over bare, are the quotient. Steps are taken in this process, where
planners and engine want the same lock, and in a process of their own.

With `--against COMMIT` the code of that commit runs in turn with today's, in a process of its own
each, with that commit's `sweep.py` and `batching.py`, and these engines.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import sweep
from batching import bare
from emulated_engine import Cost, StepsApart, StepsHere, emulated
from harness import Finding, parser, report

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from llm_serving.vllm_engine import VllmEngine

ARMS = {"here": StepsHere, "apart": StepsApart}
"""Where steps are taken."""

TODAY = "today"
REPOSITORY = Path(__file__).resolve().parent.parent
CODE = ("base", "kernels", "serving", "llm_planning", "configs", "benchmarks")
OURS = ("sweep_emulated.py", "emulated_engine.py", "sweep_emulated.json")
SEEN = ("base", "kernels", "serving", ".", "benchmarks")
"""Folders from which packages are imported."""


def measure(opened: VllmEngine) -> dict[str, float]:
    """Runs the sweep, then the same requests bare."""
    trials = sweep.trials()
    begun = time.thread_time()
    arm = sweep.run(opened, trials, least=len(trials), most=len(trials))
    planners = time.thread_time() - begun
    many = bare(opened, arm.requests, limit=round(arm.in_flight))
    rate = arm.written / arm.seconds
    return {
        "quotient": rate / arm.in_flight / (many.rate / many.in_flight),
        "tokens_per_s": rate,
        "in_flight": arm.in_flight,
        "bare_tokens_per_s": many.rate,
        "bare_in_flight": many.in_flight,
        "questions": len(arm.requests),
        "trials_per_hour": 60 * arm.per_minute,
        "planners_cpu_us_per_question": 1e6 * planners / len(arm.requests),
        "ledger_cpu_ms_per_trial": 1000 * arm.spent.recording / arm.trials,
    }


def serve() -> None:
    """Measures the arm that each line of the standard input names, and prints JSON."""
    with ExitStack() as stack:
        engines = {name: stack.enter_context(emulated(steps)) for name, steps in ARMS.items()}
        for opened in engines.values():
            sweep.run(opened, sweep.trials()[:2], least=2, most=2)  # compiles every template
        for line in sys.stdin:
            print(json.dumps(measure(engines[line.strip()])), flush=True)


@contextmanager
def code_of(commit: str) -> Iterator[Path]:
    """A folder with the code of a commit, and this script with its engines in it."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        archive = ["git", "-C", str(REPOSITORY), "archive", commit, *CODE]
        packed = subprocess.run(archive, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", name], input=packed, check=True)
        for file in OURS:
            shutil.copy(REPOSITORY / "benchmarks" / file, folder / "benchmarks")
        yield folder


class Code:
    """The code in a folder, in a process that measures when it is asked."""

    def __init__(self, folder: Path) -> None:
        seen = os.pathsep.join(str(folder / name) for name in SEEN)
        self._process = subprocess.Popen(
            [sys.executable, str(folder / "benchmarks" / "sweep_emulated.py"), "--serve"],
            env=os.environ | {"PYTHONPATH": seen},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Code:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def measure(self, arm: str) -> Mapping[str, float]:
        """See `measure`.

        Raises:
            RuntimeError: the process has ended.
        """
        pipes: tuple[IO[str] | None, ...] = self._process.stdin, self._process.stdout
        asked, answers = (pipe for pipe in pipes if pipe is not None)
        asked.write(f"{arm}\n")
        asked.flush()
        if not (line := answers.readline()):
            raise RuntimeError(f"the measuring process ended with {self._process.wait()}")
        read: dict[str, float] = json.loads(line)
        return read


def main() -> None:
    """Measures all codes and arms in turn, and reports."""
    options = parser(__doc__)
    options.add_argument("--against", metavar="COMMIT", help="whose code is measured beside")
    options.add_argument("--repeats", type=int, default=5, help="of which the median counts")
    options.add_argument("--serve", action="store_true", help="measure as standard input says")
    arguments = options.parse_args()
    if arguments.serve:
        serve()
        return
    measured: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    with ExitStack() as stack:
        codes = {TODAY: stack.enter_context(Code(REPOSITORY))}
        if arguments.against:
            folder = stack.enter_context(code_of(arguments.against))
            codes[arguments.against] = stack.enter_context(Code(folder))
        for _ in range(arguments.repeats):
            for name, code in codes.items():
                for arm in ARMS:
                    found = code.measure(arm)
                    sys.stderr.write(f"{name}, steps {arm}: {found['quotient']:.3f}\n")
                    measured.setdefault((name, arm), []).append(found)
    cost = Cost()
    print(
        f"a step: {1000 * cost.python:g} ms of Python with {cost.releases} releases of the lock, "
        f"{1000 * cost.wait:g} ms of waiting"
    )
    report("sweep_emulated", [finding(measured)], as_json=arguments.json)


def finding(measured: Mapping[tuple[str, str], list[Mapping[str, float]]]) -> Finding:
    """Of today's code with steps apart; the other codes and arms are details."""
    details: dict[str, Any] = {}
    for (name, arm), runs in measured.items():
        quotients = [run["quotient"] for run in runs]
        details[f"each quotient ({name}, {arm})"] = " ".join(f"{each:.3f}" for each in quotients)
        for key in runs[0]:
            details[f"{key} ({name}, {arm})"] = statistics.median(run[key] for run in runs)
    return Finding(
        label="sweep over bare requests, today's code, steps in a process of their own",
        measured=details[f"quotient ({TODAY}, apart)"],
        unit="x",
        bound="at least",
        target=0.9,
        details=details,
    )


if __name__ == "__main__":
    main()
