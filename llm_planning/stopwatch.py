"""A stopwatch for activities that overlap."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Stopwatch:
    """A stopwatch that runs while at least one of several activities goes on.

    It counts no moment twice.

    Attributes:
        seconds: so far, without the activity that goes on now.
    """

    seconds: float = 0.0
    _running: int = field(default=0, repr=False)
    _since: float = field(default=0.0, repr=False)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts the time inside."""
        if not self._running:
            self._since = perf_counter()
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self.seconds += perf_counter() - self._since
