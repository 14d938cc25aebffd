"""Runs the checks one after the other, and writes what they found."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llm_base.files import write_durably
from llm_planning.gpu_check.checks import CHECKS, PROCESS
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_process import remember_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

BENCHMARKS = (
    "action_logprobs",
    "structured",
    "batching",
    "prefix_cache",
    "masks",
    "similarity_gpu",
)
"""Scripts of `benchmarks/`, which only a checkout has."""

RUNNERS = {"scores-v1": "0", "scores-v2": "1"}
"""Checks that are made again on one of vLLM's model runners, by `VLLM_USE_V2_MODEL_RUNNER`."""

_LOGGING = {"VLLM_LOGGING_LEVEL": "INFO", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
"""vLLM's log is kept apart from the answer, the last line of standard output."""

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_TAIL = 20

Verdict = Literal["right", "wrong", "failed", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a check.

    Attributes:
        verdict: "failed" where it ended without an answer.
        reason: of any other verdict than "right".
        printed: the tables of a benchmark.
    """

    name: str
    verdict: Verdict
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    printed: str = ""


def names_of_checks(*, quick: bool) -> list[str]:
    """All checks in their order; the quick ones measure no speed."""
    names = list(CHECKS)
    names[names.index("scores") + 1 : names.index("scores") + 1] = list(RUNNERS)
    return names if quick else [*names, *(f"benchmark-{name}" for name in BENCHMARKS)]


def run_checks(
    names: Iterable[str],
    *,
    model: str,
    limit: float,
    notify: Callable[[str], None],
    python: Sequence[str] = (sys.executable,),
) -> list[Outcome]:
    """Runs checks, each in a process of its own; one that dies ends no other.

    Args:
        names: of `names_of_checks`.
        limit: seconds for each check.
        notify: gets a line before each check and after it.
        python: begins the command of each process.
    """
    outcomes = []
    for name in names:
        notify(f"{name} ...")
        outcome = _run(name, model=model, limit=limit, python=python)
        notify(f"  {outcome.verdict} in {outcome.seconds:.0f} s")
        outcomes.append(outcome)
    return outcomes


def remember(outcomes: Sequence[Outcome]) -> None:
    """Records for `process: auto` whether this GPU has passed, if that was looked at.

    It has where an engine core in a process of its own gave right answers, and nothing was wrong.
    """
    if not on_gpu() or all(outcome.name != PROCESS for outcome in outcomes):
        return
    verdicts = {outcome.name: outcome.verdict for outcome in outcomes}
    sound = verdicts[PROCESS] == "right" and not {"wrong", "failed"} & set(verdicts.values())
    remember_check(passed=sound)


def _run(name: str, *, model: str, limit: float, python: Sequence[str]) -> Outcome:
    environment = dict(_LOGGING)
    kind, _, benchmark = name.partition("benchmark-")
    if not kind:
        script = _FOLDER / f"{benchmark}.py"
        if not script.is_file():
            return Outcome(
                name=name, verdict="not run", reason="benchmarks/ is in a checkout alone"
            )
        command = [*python, str(script), "--json"]
        # A script imports from its own folder; its tables are wide.
        environment |= {"PYTHONSAFEPATH": "", "COLUMNS": "120"}
    else:
        if name in RUNNERS:
            environment["VLLM_USE_V2_MODEL_RUNNER"] = RUNNERS[name]
        check = "scores" if name in RUNNERS else name
        command = [*python, "-m", "llm_planning.gpu_check.checks", check, model]
    begun = time.perf_counter()
    code, output, logged = _ended(command, os.environ | environment, limit=limit)
    seconds = time.perf_counter() - begun
    reply = _last_line(output) if code == 0 else None
    if reply is None:
        end = f"not ended after {limit:.0f} s" if code is None else f"exit code {code}"
        reason = "\n".join([end, *logged.splitlines()[-_TAIL:]])
        return Outcome(name=name, verdict="failed", seconds=seconds, reason=reason)
    if not kind:
        measured = reply["ratio"] is not None
        return Outcome(
            name=name,
            verdict="right" if measured else "not run",
            seconds=seconds,
            figures=reply,
            reason="" if measured else "nothing was measured here",
            printed="\n".join(output.splitlines()[:-1]),
        )
    verdicts: dict[bool | None, Verdict] = {True: "right", False: "wrong", None: "not run"}
    return Outcome(
        name=name,
        verdict=verdicts[reply["right"]],
        seconds=seconds,
        figures=reply["figures"],
        reason=reply["reason"],
    )


def _ended(
    command: Sequence[str], environment: Mapping[str, str], *, limit: float
) -> tuple[int | None, str, str]:
    """Exit code of a process, None where it took too long; its standard output and error.

    What it started and left running would hold memory of the GPU, and is killed.
    """
    with subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            output, logged = child.communicate(timeout=limit)
            return child.returncode, output, logged
        except subprocess.TimeoutExpired:
            _kill(child.pid)
            return None, *child.communicate()
        finally:
            _kill(child.pid)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _last_line(output: str) -> dict[str, Any] | None:
    """The object that the last line says; None where there is none."""
    with suppress(IndexError, ValueError):
        reply = json.loads(output.splitlines()[-1])
        return reply if isinstance(reply, dict) else None
    return None


def write_report(outcomes: Sequence[Outcome], folder: Path) -> str:
    """Writes gpu-check.json and gpu-check.txt whole, and returns the text."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.name:<22} {outcome.verdict:<8} {outcome.seconds:7.1f} s")
        lines += [f"    {line}" for line in outcome.reason.splitlines()]
        lines += [f"    {name}: {value}" for name, value in outcome.figures.items()]
        lines += [f"    {line}" for line in outcome.printed.splitlines()]
    text = "\n".join(lines) + "\n"
    content = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
    write_durably(folder / "gpu-check.json", content.encode())
    write_durably(folder / "gpu-check.txt", text.encode())
    return text
