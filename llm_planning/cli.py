"""The `llm-planning` command: from the command line to an exit code, whatever happens.

Each subcommand is a file of `llm_planning.commands`: its options, its help and its work. Only this
module ends a command. Imports that take time stand inside functions, which run after the handler of
SIGINT is set.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
from contextlib import suppress

from llm_planning.interrupts import INTERRUPTED, end_at_once, raise_again

_PLANNING = (["run"], ["roles"], ["distill"], ["sweep", "run"], ["sweep", "resume"])
"""How commands begin that may run worlds and planners of others."""

TYPE_CHECKING = False  # what `typing` has, without its import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code; see `llm_planning.endings`.

    Args:
        arguments: after the command's name; None for those of this process, which ends afterwards.
    """
    end_at_once()
    if arguments is not None:
        try:
            return _run(arguments)
        finally:
            raise_again()
    _fix_hashes()
    codes: list[int] = []
    # Python calls this last, as it is registered first.
    atexit.register(_leave, codes)
    # No Python started below here, by us, vLLM, torch or Ray, imports from the working directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    for stream in (sys.stdout, sys.stderr):
        # Characters that its encoding lacks become escapes.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    codes.append(_run(sys.argv[1:]))
    return codes[0]


def _fix_hashes() -> None:
    """Begins a command that plans anew with a fixed hash seed, unless the user has set one.

    Worlds of others list what they keep in sets, whose order is that of hashes: the same command
    would plan something else each time. It takes Python's start, 20 ms, and only the environment
    can say it.
    """
    plans = sys.argv[1:2] in _PLANNING or sys.argv[1:3] in _PLANNING
    # A program that calls `main` must not begin anew.
    folder, name = os.path.split(os.path.realpath(sys.argv[0]))
    here = name == "llm-planning" or folder == os.path.dirname(os.path.realpath(__file__))
    given = os.environ.get("PYTHONHASHSEED") or sys.flags.ignore_environment
    if plans and here and sys.executable and not given:
        fixed = {**os.environ, "PYTHONHASHSEED": "0"}
        # Where that is not possible, hashes stay as they are.
        with suppress(OSError):
            os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], fixed)


def _leave(codes: list[int]) -> None:
    """Ends at once if Ctrl-C did: an engine that was loading leaves threads that make C++ abort."""
    if codes == [INTERRUPTED]:
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _run(arguments: Sequence[str]) -> int:
    try:
        work = _read(arguments)
        if not isinstance(work, int):
            _log_in_lines()
            raise_again()
            work()
            work = 0
        print(end="", flush=True)
    except BaseException as error:
        end_at_once()
        from llm_planning.endings import ending

        return ending(error)
    # Nothing is left to be cleaned up while Python ends.
    end_at_once()
    return work


def _log_in_lines() -> None:
    """What is logged or warned of, and nobody else shows, becomes a line of standard error."""
    import logging
    import warnings

    from llm_base.terminal import LineHandler, complain

    logging.lastResort = LineHandler(logging.WARNING)
    warnings.showwarning = lambda message, *_, **__: complain(f"note: {message}")


def _read(arguments: Sequence[str]) -> Callable[[], None] | int:
    """What a command line asks for, or the exit code where that is done, such as help.

    Raises:
        typer.TyperException: it is wrong.
    """
    if not sys.stderr.isatty():
        # Without a terminal, no progress bar of any library writes to standard error.
        os.environ.setdefault("TQDM_DISABLE", "1")
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    # No plugin of Pydantic's is ours. To look for them, it reads what every package here announces.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from typer.main import get_command

    from llm_planning.commands.app import app

    read: Callable[[], None] | int | None = get_command(app).main(
        args=list(arguments), prog_name="llm-planning", standalone_mode=False
    )
    return read or 0


if __name__ == "__main__":
    sys.exit(main())
