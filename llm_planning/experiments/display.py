"""The display of a running sweep: a live panel on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from llm_serving.terminal import literal

if TYPE_CHECKING:
    from typing import Self

    from rich.console import Console, RenderableType

    from llm_planning.experiments.scheduler import Progress

REFRESH_EVERY = 3.0
"""Seconds between two pictures on a terminal; at 2 they take 3.5 ms per planning trial."""

LINE_EVERY = 30.0
"""Seconds between two lines elsewhere."""

WINDOW = 10.0
"""Seconds over which the speed is taken."""


class Speed:
    """Tokens written per second over the last seconds."""

    def __init__(self) -> None:
        self._seen = deque([(0.0, 0)])

    def __call__(self, seconds: float, written: int) -> float:
        """Takes one more sample.

        Args:
            seconds: time of the sample.
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


class Display(ABC):
    """Shows progress while it is entered, and its last state at the end.

    Args:
        console: to draw on.
        name: of the sweep.
    """

    def __init__(self, console: Console, *, name: str) -> None:
        self._console = console
        self._name = name
        self._speed = Speed()
        self._shown = time.monotonic()
        self._latest: Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest is not None:
            self._draw(self._latest)

    def __call__(self, progress: Progress) -> None:
        """Takes the newest progress; shows it if the last picture is old enough."""
        self._latest = progress
        now = time.monotonic()
        if now - self._shown >= self._apart():
            self._shown = now
            self._draw(progress)

    @abstractmethod
    def _apart(self) -> float:
        """Seconds between two pictures."""

    @abstractmethod
    def _draw(self, progress: Progress) -> None:
        """Shows how far the sweep is."""


class LiveDisplay(Display):
    """Some lines at the bottom of a terminal, drawn anew every three seconds."""

    def __init__(self, console: Console, *, name: str) -> None:
        super().__init__(console, name=name)
        self._shown = 0.0
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._live.stop()

    def _apart(self) -> float:
        return REFRESH_EVERY

    def _draw(self, progress: Progress) -> None:
        speed = self._speed(progress.seconds, progress.load.written_tokens)
        self._live.update(picture(self._name, progress, speed), refresh=True)


class LineDisplay(Display):
    """One line every half minute, for logs."""

    def _apart(self) -> float:
        return LINE_EVERY

    def _draw(self, progress: Progress) -> None:
        speed = self._speed(progress.seconds, progress.load.written_tokens)
        state = ", ".join(f"{label} {value}" for label, value in facts(progress, speed))
        line = f"{self._name}: {progress.finished} of {progress.total} trials, {state}"
        self._console.print(literal(line), soft_wrap=True)


def display_on(console: Console, *, name: str) -> Display:
    """The display that suits a console.

    Args:
        console: usually standard error.
        name: of the sweep.
    """
    kind = LiveDisplay if console.is_terminal else LineDisplay
    return kind(console, name=name)


def facts(progress: Progress, speed: float) -> list[tuple[str, str]]:
    """The facts to show, in order: label and value.

    Args:
        progress: how far the sweep is.
        speed: tokens written per second.
    """
    load, left = progress.load, progress.remaining_seconds
    read = load.prompt_tokens
    shown = [
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
    return shown + [(label, str(count)) for label, count in extra if count]


def picture(name: str, progress: Progress, speed: float) -> RenderableType:
    """A bar and the facts under it.

    Args:
        name: of the sweep.
        progress: how far the sweep is.
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
