"""The display of a running sweep: some lines on a terminal, drawn anew while it runs."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llm_base.terminal import literal

if TYPE_CHECKING:
    from typing import Self

    from rich.console import Console, RenderableType

    from llm_planning.experiments.scheduler import Progress

REFRESH_EVERY = 3.0
"""Seconds between two pictures on a terminal; at 2 they take 3.5 ms per planning trial."""

WINDOW = 10.0
"""Seconds over which the speed is taken."""


class Speed:
    """Tokens written per second over the last seconds."""

    def __init__(self) -> None:
        self._seen = deque([(0.0, 0)])

    def __call__(self, seconds: float, written: int) -> float:
        """Takes one more sample.

        Args:
            written: tokens written so far.

        Returns:
            Tokens per second since the oldest sample of the window, or since the beginning.
        """
        seen = self._seen
        seen.append((seconds, written))
        # At least the previous sample stays, however old it is.
        while len(seen) > 2 and seen[-1][0] - seen[1][0] >= WINDOW:
            seen.popleft()
        elapsed = seconds - seen[0][0]
        return (written - seen[0][1]) / elapsed if elapsed > 0 else 0.0


class Display:
    """Shows on a terminal how far a sweep is while it is entered, and its last state at the end.

    Some lines at the bottom are drawn anew every three seconds. Elsewhere nothing is shown.
    """

    def __init__(self, console: Console, *, name: str) -> None:
        self._name = name
        self._speed = Speed()
        self._drawn_at = 0.0
        self._latest: Progress | None = None
        drawn = console.is_terminal
        self._live = Live(console=console, auto_refresh=False, transient=False) if drawn else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self._draw(self._latest)
        if self._live is not None:
            self._live.stop()

    def __call__(self, progress: Progress) -> None:
        """Takes the newest progress; shows it if the last picture is old enough."""
        self._latest = progress
        now = time.monotonic()
        if now - self._drawn_at >= REFRESH_EVERY:
            self._drawn_at = now
            self._draw(progress)

    def _draw(self, progress: Progress) -> None:
        if self._live is not None:
            speed = self._speed(progress.seconds, progress.load.written_tokens)
            self._live.update(picture(self._name, progress, speed), refresh=True)


def facts(progress: Progress, speed: float) -> list[tuple[str, str]]:
    """The facts to show, in order: label and value.

    Args:
        speed: tokens written per second.
    """
    load, left = progress.load, progress.remaining_seconds
    read = load.prompt_tokens
    always = [
        ("done", str(progress.done)),
        ("failed", str(progress.failed)),
        ("running", str(progress.running)),
        ("tokens/s", f"{speed:.0f}"),
        ("prefix cache", f"{load.cached_tokens / read:.0%}" if read else "-"),
        ("batch", f"{load.running}+{load.waiting}" if load.waiting else str(load.running)),
        ("elapsed", clock(progress.seconds)),
        ("left", "-" if left is None else clock(left)),
    ]
    extra = [
        ("kept", progress.kept),
        ("retried", progress.retried),
        ("lost", progress.lost),
        ("preempted", load.preempted),
    ]
    return always + [(label, str(count)) for label, count in extra if count]


def picture(name: str, progress: Progress, speed: float) -> RenderableType:
    """A bar and the facts under it.

    Args:
        speed: tokens written per second.
    """
    head = Table.grid(padding=(0, 1))
    head.add_row(
        literal(name, "bold"),
        ProgressBar(total=max(1, progress.total), completed=progress.finished, width=40),
        Text(f"{progress.finished} of {progress.total}"),
    )
    line = Text("  ").join(
        Text.assemble((label, "dim"), " ", value) for label, value in facts(progress, speed)
    )
    return Group(head, line)


def clock(seconds: float) -> str:
    """Writes a duration in seconds for people: 42 s, 3:05 min, 7:12 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    minutes = round(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02} h"
