"""Ctrl-C, at any moment: before a command begins, while it loads, and how its end is known.

Light on purpose: the handler is in place before anything else is imported.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import contextmanager

TYPE_CHECKING = False  # what `typing` has, without its import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130
"""The exit code of whatever SIGINT ended, as shells have it."""

_GRACE = 5.0
"""Seconds that loading has to end by itself, once it is interrupted."""

_noted: list[int] = []


def end_at_once() -> None:
    """Lets SIGINT end the process where it stands, until `raise_again`.

    While modules are imported, a KeyboardInterrupt is lost where it meets a weak reference's
    callback, and a traceback elsewhere. Before a command begins and after it ended there is nothing
    to clean up.
    """
    _replace(signal.default_int_handler, _end)


def stay_ended() -> None:
    """Lets nothing change the exit code any more once Python takes itself apart; call it early.

    SIGINT would be by that time without our handler, and kill a process that has done its work. An
    engine that was interrupted while it loaded leaves threads, at which C++ aborts the process.
    """
    # What is registered first is called last: whatever else has to end can be interrupted.
    atexit.register(_leave)


def leave_interrupted() -> int:
    """Takes note that the process ends because of SIGINT; returns its exit code."""
    _noted.append(INTERRUPTED)
    return INTERRUPTED


def raise_again() -> None:
    """Lets SIGINT raise KeyboardInterrupt, which commands and asyncio clean up after."""
    _replace(_end, signal.default_int_handler)


@contextmanager
def heard_while_loading() -> Iterator[None]:
    """Makes sure that SIGINT ends what is done inside, even where libraries swallow it.

    The first SIGINT raises KeyboardInterrupt as ever, so that what was begun is cleaned up. If that
    leads nowhere within a few seconds, or SIGINT comes again, the process ends where it stands.

    Raises:
        KeyboardInterrupt: at the end, if one was swallowed.
    """
    import threading

    heard, ended = threading.Event(), threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        if heard.is_set():
            _end(number, frame)
        heard.set()
        raise KeyboardInterrupt

    def watch() -> None:
        heard.wait()
        if not ended.wait(_GRACE):
            _end(signal.SIGINT, None)

    # Started now: a handler may come where the threads' own lock is held.
    threading.Thread(target=watch, name="interrupts", daemon=True).start()
    replaced = _replace(signal.default_int_handler, note)
    try:
        yield
        if heard.is_set():
            raise KeyboardInterrupt
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        ended.set()
        heard.set()


def was_interrupted(error: BaseException) -> bool:
    """Whether an error is a KeyboardInterrupt, or what a library made of one."""
    seen: set[int] = set()
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        left += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
    return False


def _replace(old: object, new: signal._HANDLER) -> bool:
    """Changes what SIGINT does, unless somebody else decided: a shell for its background jobs."""
    if signal.getsignal(signal.SIGINT) is not old:
        return False
    try:
        signal.signal(signal.SIGINT, new)
    except ValueError:  # only the main thread may
        return False
    return True


def _leave() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if _noted:
        try:
            sys.stderr.flush()
        finally:
            os._exit(INTERRUPTED)


def _end(_number: int, _frame: FrameType | None) -> None:
    """Ends the process where it stands."""
    os._exit(INTERRUPTED)
