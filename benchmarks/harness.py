"""What every benchmark shares: options, the machine, interleaved medians, one report."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class AnswersDifferError(Exception):
    """Two arms of a benchmark did not compute the same: their times cannot be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One measured claim.

    Attributes:
        label: what was measured.
        measured: the figure; None where its peer is not installed, as `details` then explain.
        unit: of the figure, such as "x" or "µs".
        bound: which side of the target is good.
        target: of the figure.
        details: whatever else belongs to it; must be something the json module writes.
    """

    label: str
    measured: float | None
    unit: str
    bound: Literal["at least", "at most"]
    target: float
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether the figure is on the good side of the target."""
        if self.measured is None:
            return False
        if self.bound == "at least":
            return self.measured >= self.target
        return self.measured <= self.target


def parser(description: str | None) -> argparse.ArgumentParser:
    """Command line of a benchmark; a script may add options of its own."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line"
    )
    return result


def machine() -> dict[str, Any]:
    """Describes what a figure was measured on; torch's threads where torch is in use."""
    torch = sys.modules.get("torch")
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "gpu": _gpu(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "torch_threads": torch.get_num_threads() if torch is not None else None,
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.processor() or platform.machine()


def _gpu() -> str | None:
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    query = [command, "--query-gpu=name", "--format=csv,noheader"]
    names = subprocess.run(query, capture_output=True, text=True, check=False).stdout.split("\n")
    return names[0].strip() or None


def medians(arms: Mapping[str, Callable[[], float]], *, repeats: int) -> dict[str, float]:
    """Runs the arms in turn, again and again, so that drift of the machine meets all alike.

    Args:
        arms: each runs once and returns the seconds that count, its preparation left out.
        repeats: rounds.

    Returns:
        The median seconds of each arm.
    """
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, arm in arms.items():
            seconds[name].append(arm())
    return {name: statistics.median(samples) for name, samples in seconds.items()}


def report(name: str, findings: Sequence[Finding], *, as_json: bool) -> None:
    """Prints the findings for people and, if asked, for programs.

    Args:
        name: of the benchmark.
        findings: the first one is the benchmark's ratio; the target is met when all are.
        as_json: whether the last line is one JSON object.
    """
    console = Console()
    table = Table(title=name, title_justify="left")
    for column in ("measured", "result", "target", "met"):
        table.add_column(column)
    for finding in findings:
        result = "not measured" if finding.measured is None else f"{finding.measured:.3g}"
        table.add_row(
            escape(finding.label),
            f"{result} {finding.unit}" if finding.measured is not None else result,
            f"{finding.bound} {finding.target:g} {finding.unit}",
            "yes" if finding.met else "no",
        )
    console.print(table)
    details = Table(title="details", title_justify="left", show_header=False)
    for finding in findings:
        for key, value in finding.details.items():
            text = f"{value:.4g}" if isinstance(value, float) else str(value)
            details.add_row(escape(key), escape(text))
    console.print(details)
    described = machine()
    console.print(", ".join(f"{key}: {value}" for key, value in described.items()))
    if as_json:
        summary = {
            "name": name,
            "ratio": findings[0].measured,
            "target": findings[0].target,
            "met": all(finding.met for finding in findings),
            "machine": described,
            "details": {
                finding.label: {
                    "measured": finding.measured,
                    "unit": finding.unit,
                    "bound": finding.bound,
                    "target": finding.target,
                    "met": finding.met,
                    **finding.details,
                }
                for finding in findings
            },
        }
        sys.stdout.write(json.dumps(summary) + "\n")
