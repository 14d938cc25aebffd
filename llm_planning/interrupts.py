"""Ctrl-C and SIGTERM: what they do before a command begins, while it loads and when it ends.

This module imports little, so that the handler is set before anything else is imported.
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
"""The exit code after SIGINT, as in shells."""

_GRACE = 5.0
"""Seconds in which an interrupted loading may end by itself."""

_noted: list[int] = []


def end_at_once() -> None:
    """Lets SIGINT end the process at once, until `raise_again`.

    While modules are imported, a KeyboardInterrupt inside a weak reference's callback is lost, and
    elsewhere it prints a traceback. Before a command begins and after it ended there is nothing to
    clean up.
    """
    _replace(signal.default_int_handler, _end)


def stay_ended() -> None:
    """Keeps the exit code as it is while Python shuts down; call it early.

    During shutdown SIGINT no longer has our handler, and would kill a process that has done its
    work. An engine that was interrupted while it loaded leaves threads, because of which C++ aborts
    the process.
    """
    # Python calls this last, as it is registered first: the other functions can be interrupted.
    atexit.register(_leave)


def leave_interrupted() -> int:
    """Notes that the process ends because of SIGINT; returns its exit code."""
    _noted.append(INTERRUPTED)
    return INTERRUPTED


def raise_again() -> None:
    """Lets SIGINT raise KeyboardInterrupt, after which commands and asyncio clean up."""
    _replace(_end, signal.default_int_handler)


@contextmanager
def heard_while_loading() -> Iterator[None]:
    """Makes sure that SIGINT ends the work inside, even if libraries swallow the exception.

    The first SIGINT raises KeyboardInterrupt as usual, so that the work is cleaned up. If it does
    not end within a few seconds, or SIGINT comes again, the process ends at once.

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

    # Started now, as a signal may arrive while the lock that starting a thread needs is held.
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


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Gives SIGTERM the same clean end as Ctrl-C."""

    def end(*_: object) -> None:
        # A shell lets its background jobs ignore SIGINT, so raising it there has no effect.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def was_interrupted(error: BaseException) -> bool:
    """Whether an error is a KeyboardInterrupt, or was raised because of one."""
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
    """Replaces SIGINT's handler if it is still `old`; a shell's background jobs ignore SIGINT."""
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
    """Ends the process at once."""
    os._exit(INTERRUPTED)
