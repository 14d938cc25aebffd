"""How a command ends: its standard streams, one line on standard error, and an exit code.

| code | meaning |
| --- | --- |
| 0 | done |
| 1 | a file, a model, an engine or the machine failed |
| 2 | the command line or a configuration says something impossible |
| 70 | a bug of this project |
| 130 | interrupted |

Errors that are meant for users have classes of this project's packages, by which they are known.
Whether such an error means 2 depends on where it is raised: commands mark those places with
`refusing`.

Standard output carries the answer: if it cannot be written, the command has failed.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import typer

from llm_planning.interrupts import INTERRUPTED, was_interrupted
from llm_planning.own_code import describe_error, is_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TRACEBACK: Final = "LLM_PLANNING_TRACEBACK"
"""The environment variable that makes errors show their traceback."""

FAILED: Final = 1
REFUSED: Final = 2
BUG: Final = 70


class UsageError(ValueError):
    """The command line asks for something that is not possible."""


@contextmanager
def refusing(*kinds: type[Exception]) -> Iterator[None]:
    """Turns errors inside into a `UsageError`, which means exit code 2.

    Args:
        kinds: classes of the errors to turn; `UsageError` always passes.

    Raises:
        UsageError: an error of these classes was raised; it has the same message.
    """
    try:
        yield
    except kinds as error:
        raise UsageError(str(error)) from error


def ending(error: BaseException) -> int:
    """Says in one line why a command ended, and returns its exit code."""
    from llm_base.terminal import complain, harmless  # with Rich, which no help needs

    lost = _lost_output()
    if was_interrupted(error):
        remedy = isinstance(error, KeyboardInterrupt) and str(error)
        complain(f"interrupted; {remedy}" if remedy else "interrupted")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return FAILED  # a reader that closed the pipe, such as `head`, has all that it wants
    if lost is not None and _is_of_output(error, lost):
        if lost.errno != errno.EPIPE:
            complain(f"error: standard output cannot be written: {lost.strerror}")
        return FAILED
    if os.environ.get(TRACEBACK) and not isinstance(error, SystemExit | typer.Exit):
        sys.stderr.write(harmless("".join(traceback.format_exception(error))))
    return _complained(error)


def _is_of_output(error: BaseException, lost: OSError) -> bool:
    """Whether an error came of writing to a standard output that is lost."""
    closed = lost.errno == errno.EBADF and not is_ours(error)
    return isinstance(error, OSError) or (closed and isinstance(error, ValueError | AttributeError))


def _complained(error: BaseException) -> int:
    """Prints an error as one line, and returns its exit code."""
    from llm_base.terminal import complain

    if isinstance(error, typer.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else FAILED if error.code else 0
    code, message = _code_and_message(error)
    complain(f"error: {message}")
    return code


def _code_and_message(error: BaseException) -> tuple[int, str]:
    if is_ours(error):
        code = REFUSED if isinstance(error, UsageError) else FAILED
        return code, f"{error}{remedy_of(error)}"
    for kind, code, message_of in _OTHERS:
        if isinstance(error, kind):
            return code, message_of(error)
    return BUG, f"{describe_error(error)} (this is a bug; {TRACEBACK}=1 shows where it is)"


def _lost_output() -> OSError | None:
    """The error by which standard output was lost, and is given up; None if all of it arrived."""
    if sys.stdout is None or sys.stdout.closed:  # a shell may do that, or code of others
        return OSError(errno.EBADF, "it is closed")
    try:
        print(end="", flush=True)
    except OSError as error:
        # Or Python would report it again at its end.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        return error
    return None


def remedy_of(error: BaseException) -> str:
    """What the command line can do about an error of a lower layer, which knows no commands."""
    if not type(error).__module__.startswith("llm_serving."):
        return ""
    from llm_serving.cache_file import CacheError, UnreadableCacheError
    from llm_serving.errors import UnfetchedModelError

    if isinstance(error, UnreadableCacheError):
        kind = error.path.stem.partition("-")[0]
        return f" (`llm-planning cache clear --only {kind}`), or run with `--no-cache`"
    if isinstance(error, CacheError):
        return ", or run with `--no-cache`"
    if isinstance(error, UnfetchedModelError):
        return f" (`llm-planning models fetch {error.model}`)"
    return ""


def _usage(error: Any) -> str:  # noqa: ANN401 - Typer exports no class that has a context
    """Typer's message about a command line, with the help that explains it."""
    message = error.format_message()
    context = getattr(error, "ctx", None)
    help_ = f" (see {context.command_path} --help)" if context is not None else ""
    return f"{message[:1].lower()}{message[1:].removesuffix('.')}{help_}"


def _of_the_system(error: Any) -> str:  # noqa: ANN401 - an OSError, by its place in the table
    """The system's message, with the file that it is about."""
    if not error.strerror:
        return describe_error(error)
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{error.strerror}"


_OTHERS: tuple[tuple[type[BaseException], int, Callable[[BaseException], str]], ...] = (
    (typer.TyperException, REFUSED, _usage),
    (typer.Abort, FAILED, lambda _: "stopped at the question, nothing was done"),
    (MemoryError, FAILED, lambda error: f"out of memory: {error}".removesuffix(": ")),
    (OSError, FAILED, _of_the_system),
    (RecursionError, FAILED, describe_error),
    (ImportError, FAILED, describe_error),
)
"""Errors of libraries and of Python: class, exit code, message."""
