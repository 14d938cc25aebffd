"""What a ledger holds, at any time, as JSON and for people."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from llm_base.quoting import shortened
from llm_planning.experiments.display import clock
from llm_planning.experiments.ledger_files import is_locked
from llm_planning.experiments.progress_file import process_state
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from llm_planning.experiments.ledger import Ledger
    from llm_planning.experiments.summary import Summary

_LONGEST_LINE = 200
"""Characters of a reason; the whole is in the JSON output and in the ledger."""

_MOST_REASONS = 3
"""Of failures; `-v` shows all."""

_A_DAY = 86_400
_A_YEAR = 365 * _A_DAY


def status_of(ledger: Ledger) -> dict[str, Any]:
    """How far a sweep is, what it cost, and why trials failed."""
    sweep = ledger.sweep
    counts: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    spent = Usage()
    for row in ledger.rows():
        result = row.result
        counts[result.status] += 1
        spent = sum(result.usage.values(), start=spent)
        if result.error is not None:
            errors[result.error] += 1
    total = len(sweep["trials"])
    process = process_state(ledger.folder, time.time())
    if process["state"] == "absent" and is_locked(ledger.folder):
        process = {"state": "starting"}
    return {
        "name": sweep["name"],
        "total": total,
        "finished": counts.total(),
        "done": counts["done"],
        "failed": counts["failed"],
        "left": total - counts.total(),
        "retrying": len(ledger.attempts()),
        "calls": spent.calls,
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "errors": dict(errors.most_common()),
        "process": process,
    }


def status_lines(status: Mapping[str, Any], folder: Path, *, verbose: bool) -> Iterator[str]:
    """What `status_of` found, for people: how far the sweep is and when it ends comes first.

    Args:
        verbose: also every reason of a failure, whole, and what the engines do.
    """
    process, failed = status["process"], status["failed"]
    finished = "all {total}" if not status["left"] else "{finished} of {total}"
    yield (
        f"{status['name']}: {finished.format_map(status)} trials are finished"
        f"{f', {failed} of them failed' if failed else ''}. {_end_text(status)}".rstrip()
    )
    yield (
        f"Cost: {status['calls']:,} calls, {status['prompt_tokens']:,} tokens read and "
        f"{status['completion_tokens']:,} written"
    )
    if verbose and "load" in process:
        load = process["load"]
        yield (
            f"Process: {process['running']} trials run, {process['retried']} attempts were "
            f"repeated, {process['lost']} workers were lost"
        )
        yield f"Engines: {load['running']} requests in their batches, {load['waiting']} wait"
    if errors := status["errors"]:
        yield "Why trials failed:"
        reasons = [*errors.items()]
        for reason, count in reasons if verbose else reasons[:_MOST_REASONS]:
            yield f"  {count} x {reason if verbose else shortened(reason, _LONGEST_LINE)}"
        if not verbose and (further := len(reasons) - _MOST_REASONS) > 0:
            yield f"  {further} further {'reason' if further == 1 else 'reasons'}, which -v shows"
    if process["state"] not in {"running", "starting"}:
        following = "resume" if status["left"] else "report"
        yield f"Next: llm-planning sweep {following} {shlex.quote(str(folder))}"


def _end_text(status: Mapping[str, Any]) -> str:
    """When a sweep ends."""
    process = status["process"]
    match process["state"]:
        # A stranger's file may say any number.
        case "running" if process["left"] is None or not 0 <= process["left"] < _A_YEAR:
            return "It runs; when it ends is not known yet."
        case "running":
            end = datetime.fromtimestamp(process["written"] + process["left"]).astimezone()
            day = "%d %B, %H:%M" if process["left"] >= _A_DAY else "%H:%M"
            return f"It runs, and ends in about {clock(process['left'])}, at {end:{day}}."
        case "starting":
            return "It runs, and loads its models."
        case "silent":
            silence = clock(abs(time.time() - process["written"]))
            return f"Its process hangs or was killed: the last news is {silence} old."
        case "unreadable":
            return f"When it ends is not known: {process['said']}."
        case _:
            return "It does not run." if status["left"] else ""


def groups_of(summary: Summary) -> list[dict[str, Any]]:
    """Each group of runs with its estimates."""
    return [
        {
            "by": dict(zip(summary.by, group.values, strict=True)),
            "done": group.done,
            "equal": group.equal,
            "failed": group.failed,
            "not_run": group.pending,
            **{name: asdict(measured.estimate) for name, measured in group.measured.items()},
        }
        for group in summary.groups
    ]
