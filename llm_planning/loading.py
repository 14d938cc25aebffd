"""Loading what takes seconds, such as a model, so that Ctrl-C ends it."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from llm_planning.interrupts import end, replace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_GRACE: Final = 5.0
"""Seconds that loading has to end by itself, once it is interrupted."""


@contextmanager
def heard_while_loading() -> Iterator[None]:
    """Makes sure that SIGINT ends what is done inside, even where libraries swallow it.

    The first SIGINT raises KeyboardInterrupt as ever, so that what was begun is cleaned up. If that
    leads nowhere within a few seconds, or SIGINT comes again, the process ends where it stands.

    Raises:
        KeyboardInterrupt: at the end, if one was swallowed.
    """
    heard, ended = threading.Event(), threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if heard.is_set():
            end(number, frame)
        heard.set()
        raise KeyboardInterrupt

    def watch() -> None:
        heard.wait()
        if not ended.wait(_GRACE):
            end(signal.SIGINT, None)

    # Started now: a handler may come where the threads' own lock is held.
    threading.Thread(target=watch, name="interrupts", daemon=True).start()
    replaced = replace(signal.default_int_handler, note)
    try:
        yield
        if heard.is_set():
            raise KeyboardInterrupt
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        ended.set()
        heard.set()
