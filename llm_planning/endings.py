"""How a command ends: from what was raised to one line on standard error and an exit code.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | a file, a model, an engine or the machine failed |
| 2 | the command line or a configuration says something impossible |
| 70 | a bug of this project |
| 130 | interrupted |

This project raises classes of its own for everything that a user can meet, so they are known by the
package that they come from. Which of them mean 2 depends on where they are raised: commands say it
with `refusing`.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

from llm_planning.interrupts import leave_interrupted, was_interrupted
from llm_planning.streams import give_output_up, lost_output
from llm_serving.terminal import complain, harmless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACEBACK: Final = "LLM_PLANNING_TRACEBACK"
"""The environment variable that asks for the place of an error."""

FAILED: Final = 1
REFUSED: Final = 2
BUG: Final = 70

_OURS = frozenset({"llm_planning", "llm_serving", "llm_kernels"})


class UsageError(ValueError):
    """The command line asks for something that is not possible."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Makes errors those of whoever wrote the command line or a configuration: exit code 2.

    Args:
        kinds: what is meant; UsageError always is.

    Raises:
        UsageError: one of them, with the same message.
    """
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error


def ending(error: BaseException) -> int:
    """Says in one line why a command ended, and returns its exit code."""
    lost = lost_output()
    if lost is not None:
        give_output_up()
    if was_interrupted(error):
        told = isinstance(error, KeyboardInterrupt) and str(error)
        complain(f"interrupted; {told}" if told else "interrupted")
        return leave_interrupted()
    if lost is not None and isinstance(error, OSError | SystemExit):
        if lost.errno != errno.EPIPE:  # a reader that left, such as `head`, had what it wanted
            complain(f"error: standard output cannot be written: {lost.strerror}")
        return FAILED
    if os.environ.get(TRACEBACK) and not isinstance(error, SystemExit | typer.Exit):
        sys.stderr.write(harmless("".join(traceback.format_exception(error))))
    return _told(error)


def _told(error: BaseException) -> int:
    """Says what an error is, and returns its exit code."""
    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED if error.code else 0
    code, said = _judged(error)
    complain(f"error: {said}")
    return code


def _judged(error: BaseException) -> tuple[int, str]:
    """The exit code of an error, and what is said of it."""
    if is_ours(error):
        return REFUSED if isinstance(error, UsageError) else FAILED, str(error)
    for kind, code, said in _OTHERS:
        if isinstance(error, kind):
            return code, said(error)
    return BUG, f"{_named(error)} (this is a bug; {TRACEBACK}=1 shows where it is)"


def is_ours(error: BaseException) -> bool:
    """Whether an error is of a class of this project's: raised on purpose, and for users."""
    return type(error).__module__.partition(".")[0] in _OURS


def _usage(error: Any) -> str:  # noqa: ANN401 - Typer exports no class that has a context
    """What Typer says of a command line, and which help explains it."""
    said = error.format_message()
    context = getattr(error, "ctx", None)
    help_ = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{said[:1].lower()}{said[1:].removesuffix('.')}{help_}"


def _of_the_system(error: Any) -> str:  # noqa: ANN401 - an OSError, by its place in the table
    """What the system says, and of which file."""
    if not error.strerror:
        return _named(error)
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror}"


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


_OTHERS: tuple[tuple[type[BaseException], int, Callable[[BaseException], str]], ...] = (
    (typer.TyperException, REFUSED, _usage),
    (typer.Abort, FAILED, lambda _: "stopped at the question, nothing was done"),
    (MemoryError, FAILED, lambda error: f"out of memory: {error}".removesuffix(": ")),
    (OSError, FAILED, _of_the_system),
    (RecursionError, FAILED, _named),
    (ImportError, FAILED, _named),
)
"""What libraries and Python raise: kind, exit code, words."""
