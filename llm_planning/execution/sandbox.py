"""Programs that a model wrote, each in a fresh sealed process; the world stays in this one.

The process can compute and ask its host, and nothing else. What it says is not trusted, even if the
program has taken over the engine that runs it: a line too many, too long or malformed ends it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import math
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias

from llm_base.quoting import printable

Host: TypeAlias = Callable[[str, Sequence[Any]], Awaitable[object]]
"""Answers a call of the program: its name and its arguments, as JSON has them, in; what JSON can
write out. A `CallError` is thrown in the program, `ProgramStop` ends it."""

LONGEST_CALL: Final = 16 << 10
"""Characters of one call, as JSON."""

_START_SECONDS = 60.0
# Where the first source begins, so that lines of the wrapper and of the sources differ.
_FIRST_LINE = 1000
_LINE = re.compile(r"<input>:(\d{1,9})")
_LONGEST_ERROR = 500
# Seconds in which what a process said is read after its time is up, and in which it ends after it
# has hung up.
_LAST_LOOK = 0.5
_ALONE: Final[dict[str, Any]] = {"env": {}, "cwd": "/", "start_new_session": True}

_TOO_LONG = "The program ran too long and was stopped: see that every loop ends."
_TOO_LARGE = "The program used too much memory and was stopped: see that nothing grows without end."
_TOO_DEEP = "The program called functions too deeply: see that every recursion ends."
_UNSETTLED = "The program waits for a promise that never settles."
# Without memory for an error, the engine throws null.
_NOTHING = "The program used too much memory, or threw nothing."
_NO_ERROR = "The program threw a value that is no Error, or had no memory left for one."
_CRASHED = "The program crashed the engine that runs it."
_LEFT = "The program tried to leave its sealed process and was stopped."

_KNOWN = {
    "InternalError: out of memory": _TOO_LARGE,
    "RangeError: Maximum call stack size exceeded": _TOO_DEEP,
    "(Failed obtaining QuickJS error string. Concurrency issue?)": _NO_ERROR,
    "a value that is no Error": _NO_ERROR,
    "null": _NOTHING,
}
_BY_SIGNAL: Final[dict[int, str]] = {
    signal.SIGPROF: _TOO_LONG,
    signal.SIGXCPU: _TOO_LONG,
    signal.SIGKILL: _TOO_LARGE,  # by the kernel, where the machine has no memory left
    signal.SIGSEGV: _CRASHED,
    signal.SIGBUS: _CRASHED,
    signal.SIGILL: _CRASHED,
    signal.SIGFPE: _CRASHED,
    signal.SIGABRT: _CRASHED,
}


class SandboxError(RuntimeError):
    """Programs cannot be sealed here; the message says why, in one line."""


class CallError(Exception):
    """A host refuses a call; the program sees an `Error` with this message."""


class ProgramStop(Exception):  # noqa: N818 - not an error
    """A host ends the program, which then has no error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one program may use.

    Attributes:
        cpu_seconds: processor time.
        seconds: time on the clock that the program takes; its host's time does not count.
        memory: bytes of its objects.
        stack: bytes of its stack.
        calls: calls of its host.

    Raises:
        ValueError: a limit is not positive, or too small for any program.
    """

    cpu_seconds: float = 2.0
    seconds: float = 10.0
    memory: int = 64 << 20
    stack: int = 512 << 10
    calls: int = 200

    def __post_init__(self) -> None:
        least = {"cpu_seconds": 0.01, "seconds": 0.01, "memory": 1 << 20, "stack": 64 << 10}
        for name, bound in {**least, "calls": 0}.items():
            given = getattr(self, name)
            if not bound <= given < math.inf:
                raise ValueError(f"{name} is {given} and must be at least {bound}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """How a program ended.

    Attributes:
        error: one sentence for the model that wrote it; None if it came to its end, or if its host
            stopped it.
        calls: how often it called its host.
    """

    error: str | None
    calls: int


async def run_program(
    sources: Sequence[str], entry: str, host: Host, *, seed: int, limits: Limits = Limits()
) -> ProgramEnd:
    """Runs a JavaScript program in a fresh sealed process.

    The sources share one global scope. Its function `__call(NAME, ARGUMENTS)` calls the host, waits
    and returns the answer. There is no clock, and `Math.random` follows from the seed. The program
    ends when the entry is settled and no promise is left that could go on.

    Args:
        sources: scripts, evaluated in this order; the last one is what the model wrote, whose lines
            an error names.
        entry: an expression, such as `craftCompass(bot)`, whose value is awaited.
        host: answers the calls, one at a time.
        seed: of `Math.random`.

    Returns:
        How it ended. Whatever a program does is told here and never raised.

    Raises:
        SandboxError: programs cannot be sealed here.
        Exception: any exception of the host but `CallError` and `ProgramStop`.
    """
    if (reason := await asyncio.to_thread(why_unsealed)) is not None:
        raise SandboxError(reason)
    program = _numbered(sources)
    try:
        ours, theirs = socket.socketpair()
    except OSError as error:
        raise SandboxError(f"a sealed process cannot be started: {error}") from error
    try:
        # asyncio's own processes hang when they are cancelled while they start.
        with theirs:
            process = subprocess.Popen(  # noqa: ASYNC220 - it starts in a millisecond
                _command(limits, sources=len(sources), seed=seed),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                **_ALONE,
            )
    except OSError as error:
        ours.close()
        raise SandboxError(f"a sealed process cannot be started: {error}") from error
    run = _Run(process, host, limits)
    try:
        return ProgramEnd(error=await run.follow(ours, program, entry), calls=run.calls)
    finally:
        process.kill()
        ours.close()
        await asyncio.shield(asyncio.to_thread(process.wait))


@cache
def why_unsealed() -> str | None:
    """Why programs cannot be sealed here, in one line; None if they can.

    A sealed process that runs an empty program finds out, once.
    """
    if sys.platform != "linux":
        return f"programs are sealed on Linux alone, and this is {sys.platform}"
    if importlib.util.find_spec("_quickjs") is None:
        return "the package quickjs-ng, which runs them, is not installed"
    try:
        tried = subprocess.run(
            _command(Limits(), sources=0, seed=0),
            input=_line("0"),
            capture_output=True,
            timeout=_START_SECONDS,
            check=False,
            **_ALONE,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"a sealed process cannot be started: {printable(str(error))}"
    match [_message(line) for line in tried.stdout.splitlines()]:
        case [{"sealed": _}, {"end": None}]:
            return None
        case [{"unsealed": [str(reason)]}]:
            return printable(reason)
    complaints = tried.stderr.decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(complaints) if line), f"exit code {tried.returncode}")
    return f"a sealed process does not run an empty program: {printable(last)}"


class _OverError(Exception):
    """The program is over.

    Args:
        error: as in `ProgramEnd`.
    """

    def __init__(self, error: str | None) -> None:
        super().__init__(error)
        self.error = error


class _Run:
    """A sealed process and its host.

    Args:
        process: just started.

    Attributes:
        calls: how often the program called the host.
    """

    def __init__(self, process: subprocess.Popen[bytes], host: Host, limits: Limits) -> None:
        self.calls = 0
        self._process = process
        self._host = host
        self._limits = limits
        self._seconds = limits.seconds

    async def follow(self, ours: socket.socket, program: _Numbered, entry: str) -> str | None:
        """Passes the program to the process and answers its calls until it ends.

        Args:
            ours: this end of what connects the two.

        Returns:
            `ProgramEnd.error`.

        Raises:
            SandboxError: the process does not start, or cannot be sealed.
        """
        self._output, self._input = await asyncio.open_connection(sock=ours, limit=4 * LONGEST_CALL)
        try:
            return await self._follow(program, entry)
        finally:
            self._input.transport.abort()

    async def _follow(self, program: _Numbered, entry: str) -> str | None:
        self._input.write(b"".join(map(_line, [*program.texts, entry])))
        first = None
        with suppress(TimeoutError, ValueError, ConnectionError):
            async with asyncio.timeout(_START_SECONDS):
                first = _message(await self._output.readline())
        match first:
            case {"sealed": _}:
                pass
            case {"unsealed": [str(reason)]}:
                raise SandboxError(printable(reason))
            case _:
                raise SandboxError("a sealed process did not start")
        try:
            while True:
                match await self._next():
                    case [str(name), list(values)]:
                        await self._answer(name, values)
                    case {"end": [str(text), str(stack)]}:
                        return program.error_text(text, stack)
                    case {"end": None}:
                        return None
                    case {"unsettled": []}:
                        return _UNSETTLED
                    case _:
                        return _LEFT
        except _OverError as over:
            return over.error

    async def _answer(self, name: str, values: list[Any]) -> None:
        if self.calls == self._limits.calls:
            raise _OverError(f"The program made more than {self.calls} calls and was stopped.")
        self.calls += 1
        try:
            reply = [True, await self._host(name, values)]
        except CallError as error:
            reply = [False, str(error)]
        except ProgramStop:
            raise _OverError(None) from None
        self._input.write(_line(reply))

    async def _next(self) -> object:
        """The next message of the process.

        Raises:
            _OverError: there is none.
        """
        began = time.monotonic()
        try:
            line = await self._read()
            self._seconds = max(self._seconds - (time.monotonic() - began), _LAST_LOOK)
            if line:
                return _message(line)
            code = await asyncio.to_thread(self._process.wait, _LAST_LOOK)
        except TimeoutError:
            raise _OverError(_TOO_LONG) from None
        except (ValueError, subprocess.TimeoutExpired):
            raise _OverError(_LEFT) from None
        raise _OverError(_BY_SIGNAL.get(-code, _LEFT))

    async def _read(self) -> bytes:
        """Reads a line; b"" where the process has hung up.

        Raises:
            TimeoutError: there is none in the time that is left.
            ValueError: it is longer than a message can be.
        """
        with suppress(ConnectionError):
            try:
                async with asyncio.timeout(self._seconds):
                    await self._input.drain()
                    return await self._output.readline()
            except TimeoutError:
                # Time also passes while other work holds up this event loop. What came by now
                # counts.
                async with asyncio.timeout(_LAST_LOOK):
                    return await self._output.readline()
        return b""


@dataclass(frozen=True, slots=True)
class _Numbered:
    """Sources whose lines have different numbers, as though they were one text.

    Attributes:
        texts: the sources, each after empty lines.
        above: number of lines above the last source.
    """

    texts: list[str]
    above: int

    def error_text(self, text: str, stack: str) -> str:
        """An error of the program as the model that wrote the last source is told it."""
        if text in _KNOWN:
            return _KNOWN[text]
        lines = (int(match[1]) - self.above for match in _LINE.finditer(stack))
        line = next((line for line in lines if line > 0), None)
        text = printable(text[:_LONGEST_ERROR])
        return text if line is None else f"{text} (line {line})"


def _numbered(sources: Sequence[str]) -> _Numbered:
    texts, above, below = [], 0, _FIRST_LINE
    for source in sources:
        # The engine's texts end at the character 0, and have no half characters.
        plain = source.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
        texts.append("\n" * below + plain)
        above, below = below, below + source.count("\n") + 1
    return _Numbered(texts, above)


def _command(limits: Limits, *, sources: int, seed: int) -> list[str]:
    """How a sealed process is started: alone with Python's own modules, the engine and the seal."""
    engine = importlib.util.find_spec("_quickjs")
    assert engine is not None
    assert engine.origin is not None
    here, there = str(Path(__file__).resolve().parent), str(Path(engine.origin).parent)
    draws = Random(f"program {seed}")
    numbers = [limits.cpu_seconds, limits.memory, limits.stack, LONGEST_CALL, sources]
    numbers += [draws.getrandbits(32) for _ in range(4)]
    start = f"import sys; sys.path += {[here, there]!r}; {_SERVE}"
    return [sys.executable, "-I", "-S", "-c", start, *map(str, numbers)]


_SERVE = "import seal, sealed; sealed.serve(seal.seal)"


def _message(line: bytes) -> object:
    """What a line of a sealed process says; None if it is no message."""
    try:
        message: object = json.loads(line, parse_float=_finite, parse_constant=_finite)
        if b"\\u" in line:
            # Half a character, which no file and no prompt can hold, is an error of encoding.
            json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return message


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _line(value: object) -> bytes:
    return json.dumps(value, allow_nan=False).encode() + b"\n"
