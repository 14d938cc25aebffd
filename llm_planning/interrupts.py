"""Ctrl-C and SIGTERM: what they do before a command begins, while it loads and when it ends.

This module imports little, so that the handler is set before anything else is imported.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

TYPE_CHECKING = False  # what `typing` has, without its import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

INTERRUPTED = 130
"""The exit code after SIGINT, as in shells."""


def end_at_once() -> None:
    """Lets SIGINT end the process at once, until `raise_again`.

    While modules are imported, a KeyboardInterrupt inside a weak reference's callback is lost, and
    elsewhere it prints a traceback. Before a command begins and after it ended there is nothing to
    clean up.
    """
    _replace(signal.default_int_handler, _end)


def raise_again() -> None:
    """Lets SIGINT raise KeyboardInterrupt, after which commands and asyncio clean up."""
    _replace(_end, signal.default_int_handler)


@contextmanager
def heard_while_loading() -> Iterator[None]:
    """Makes sure that SIGINT ends the work inside, even if libraries swallow the exception.

    The first SIGINT raises KeyboardInterrupt as usual, so that the work is cleaned up. Another one
    ends the process at once.

    Raises:
        KeyboardInterrupt: at the end, if one was swallowed.
    """
    heard = False

    def note(*_: object) -> None:
        nonlocal heard
        heard = True
        signal.signal(signal.SIGINT, _end)
        raise KeyboardInterrupt

    replaced = _replace(signal.default_int_handler, note)
    try:
        yield
        if heard:
            raise KeyboardInterrupt
    finally:
        if replaced:
            signal.signal(signal.SIGINT, signal.default_int_handler)


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
        cause = left.pop()
        if cause is None or id(cause) in seen:
            continue
        if isinstance(cause, KeyboardInterrupt):
            return True
        seen.add(id(cause))
        left += [cause.__cause__, cause.__context__]
        if isinstance(cause, BaseExceptionGroup):
            left += cause.exceptions
    return False


def _replace(old: object, new: signal._HANDLER) -> bool:
    """Replaces SIGINT's handler if it is still `old`; a shell's background jobs ignore SIGINT."""
    if signal.getsignal(signal.SIGINT) is not old:
        return False
    signal.signal(signal.SIGINT, new)
    return True


def _end(_number: int, _frame: FrameType | None) -> None:
    """Ends the process at once."""
    os._exit(INTERRUPTED)
