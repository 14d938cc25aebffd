"""Runs the checks one after the other, and writes what they found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from llm_kernels.files import write_durably
from llm_planning.gpu_check.checks import CHECKS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_TAIL = 20

Verdict = Literal["right", "wrong", "failed", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a check.

    Attributes:
        name: of the check.
        verdict: "failed" where it ended without an answer.
        seconds: that it took.
        figures: what it measured.
        reason: of any other verdict than "right".
    """

    name: str
    verdict: Verdict
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""


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
    tell: Callable[[str], None],
    python: Sequence[str] = (sys.executable,),
) -> list[Outcome]:
    """Runs checks, each in a process of its own; one that dies ends no other.

    Args:
        names: of `names_of_checks`.
        model: that is opened.
        limit: seconds for each check.
        tell: gets a line before each check and after it.
        python: begins the command of each process.
    """
    outcomes = []
    for name in names:
        tell(f"{name} ...")
        outcome = _run(name, model=model, limit=limit, python=python)
        tell(f"  {outcome.verdict} in {outcome.seconds:.0f} s")
        outcomes.append(outcome)
    return outcomes


def _run(name: str, *, model: str, limit: float, python: Sequence[str]) -> Outcome:
    environment = {"VLLM_LOGGING_LEVEL": "INFO"}
    kind, _, benchmark = name.partition("benchmark-")
    if not kind:
        script = _FOLDER / f"{benchmark}.py"
        if not script.is_file():
            return Outcome(
                name=name, verdict="not run", reason="benchmarks/ is in a checkout alone"
            )
        command = [*python, str(script), "--json"]
    else:
        if name in RUNNERS:
            environment["VLLM_USE_V2_MODEL_RUNNER"] = RUNNERS[name]
        check = "scores" if name in RUNNERS else name
        command = [*python, "-m", "llm_planning.gpu_check.checks", check, model]
    begun = time.perf_counter()
    try:
        child = subprocess.run(
            command,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        reason = f"not ended after {limit:.0f} s\n{_tail_of(error.stderr or b'')}"
        return Outcome(name=name, verdict="failed", seconds=limit, reason=reason)
    seconds = time.perf_counter() - begun
    try:
        found = json.loads(child.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = f"exit code {child.returncode}\n{_tail_of(child.stderr)}"
        return Outcome(name=name, verdict="failed", seconds=seconds, reason=reason)
    if not kind:
        return Outcome(name=name, verdict="right", seconds=seconds, figures=found)
    verdicts: dict[bool | None, Verdict] = {True: "right", False: "wrong", None: "not run"}
    return Outcome(
        name=name,
        verdict=verdicts[found["right"]],
        seconds=seconds,
        figures=found["figures"],
        reason=found["reason"],
    )


def _tail_of(said: str | bytes) -> str:
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return "\n".join(text.splitlines()[-_TAIL:])


def write_report(outcomes: Sequence[Outcome], folder: Path) -> str:
    """Writes gpu-check.json and gpu-check.txt whole, and returns the text."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.name:<22} {outcome.verdict:<8} {outcome.seconds:7.1f} s")
        lines += [f"    {line}" for line in outcome.reason.splitlines()]
        lines += [f"    {name}: {value}" for name, value in outcome.figures.items()]
    text = "\n".join(lines) + "\n"
    found = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
    write_durably(folder / "gpu-check.json", found.encode())
    write_durably(folder / "gpu-check.txt", text.encode())
    return text
