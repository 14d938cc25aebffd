"""How a case has to end: a documented exit code, one line, and nothing that nobody asked for."""

import codecs
import hashlib
import os
import re
import signal
import sqlite3
import stat
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

LIMIT = 20.0
"""Seconds that a case may take."""

CODES = frozenset({0, 1, 2, 130})
"""Exit codes that are documented; 70 is documented as a bug."""

TOLD_ON_OUTPUT = frozenset({"doctor"})
"""Commands whose output says why they end with 1."""

_HASHED_BYTES = 1 << 24
_ALLOWED_CONTROL = frozenset("\n\t")
_UNFINISHED = re.compile(r"\.(part|partial|tmp|temp)$|-journal$|/\.[^/]*\.part/")
_LOG = re.compile(r"-(wal|shm)$")
_PROGRESS = re.compile(
    r"(loading|planning|embedding|timing|samples|[^ ]+): \d+ of \d+ trials, .*|loading .*|"
    r"not listed: .*|note: .*"
)
"""Lines that say how far a command is, and notes that come before an end, each one line."""


@dataclass(frozen=True)
class Ending:
    """How a case ended.

    Attributes:
        code: its exit code; None if it was still running after the limit; negative for a signal.
        out: standard output.
        err: standard error.
        seconds: it took.
        raised: what came out of the command instead of a code, if anything did.
    """

    code: int | None
    out: bytes
    err: bytes
    seconds: float
    raised: str = ""


Tree = dict[str, tuple]


def tree_of(root: Path) -> Tree:
    """Path below a folder -> what is there, with a digest of it."""
    found: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = _look(path)
    return found


def _look(path: str) -> tuple:
    try:
        status = os.lstat(path)
    except PermissionError:
        return ("behind a closed door",)
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return "link", os.readlink(path)
    if not stat.S_ISREG(mode):
        return "folder" if stat.S_ISDIR(mode) else "special", stat.S_IMODE(mode)
    digest = ""
    if status.st_size <= _HASHED_BYTES and os.access(path, os.R_OK):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, "md5").hexdigest()
    return "file", stat.S_IMODE(mode), status.st_size, digest


def faults(
    ending: Ending,
    *,
    limit: float = LIMIT,
    signalled: bool = False,
    shell: str = "",
    command: str = "",
) -> list[str]:
    """What is wrong with an ending, apart from what is on the disk.

    Args:
        ending: of a case.
        limit: seconds that it may take.
        signalled: whether it was sent a signal.
        shell: what a shell did to its streams, if anything.
        command: whose ending it is.
    """
    found: list[str] = []
    if ending.code is None:
        found.append(f"still running after {ending.seconds:.0f} s")
        return found
    if ending.raised:
        found.append(f"raised {ending.raised}")
    if ending.code not in CODES and not (signalled and _killed_quietly(ending)):
        found.append(f"exit code {ending.code}")
    if ending.seconds > limit:
        found.append(f"took {ending.seconds:.1f} s")
    for name, stream in (("standard output", ending.out), ("standard error", ending.err)):
        found += _odd(name, stream)
    on_output = command in TOLD_ON_OUTPUT and ending.code == 1 and ending.out
    if not (on_output or re.search(r"2>&1|ulimit|true", shell)):
        found += _odd_lines(ending)
    return found


def _killed_quietly(ending: Ending) -> bool:
    """Whether the signal ended the process, and nothing else was said."""
    # Python ends by SIGINT itself where that met code that it had compiled from a text, such as
    # a dataclass's methods; a shell calls both 130.
    lines = [line for line in _lines(ending) if not line.startswith("interrupted")]
    return ending.code in {-signal.SIGINT, -signal.SIGTERM} and not lines


def _odd(name: str, stream: bytes) -> list[str]:
    if b"Traceback (most recent call last)" in stream:
        return [f"a traceback on {name}"]
    try:
        # A limit may have cut the last character off.
        text = codecs.getincrementaldecoder("utf-8")().decode(stream)
    except UnicodeDecodeError:
        return [f"{name} is not UTF-8"]
    control = {c for c in text if not c.isprintable() and c not in _ALLOWED_CONTROL and c != "\xad"}
    control -= {c for c in control if c.isspace() and c not in "\r\x0b\x0c\x1c\x1d\x1e\x85"}
    return [f"control characters on {name}: {sorted(control)!r}"] if control else []


def _lines(ending: Ending) -> list[str]:
    """What standard error says beside how far it is."""
    lines = ending.err.decode(errors="replace").splitlines()
    return [line for line in lines if line.strip() and not _PROGRESS.fullmatch(line)]


def _odd_lines(ending: Ending) -> list[str]:
    lines = _lines(ending)
    if ending.code in {1, 2}:
        if len(lines) != 1:
            return [f"{len(lines)} lines on standard error"]
        if not lines[0].startswith("error: ") or not lines[0][7:].strip():
            return ["a line on standard error that does not begin with `error: `"]
    if ending.code == 130 and len(lines) > 1:
        return [f"{len(lines)} lines on standard error"]
    if ending.code == 0 and any(line.startswith("error:") for line in lines):
        return ["an error on standard error, and exit code 0"]
    return []


def left_behind(
    before: Tree,
    after: Tree,
    *,
    code: int | None,
    writes: Collection[str],
    caches: Collection[str],
    root: Path,
    logs: bool,
) -> list[str]:
    """What a case left on the disk, changed or removed and should not have.

    Args:
        before: what was there.
        after: what is there now.
        code: the exit code.
        writes: paths that the command is asked to write, relative to the root.
        caches: paths that any command may write.
        root: of both.
        logs: whether SQLite's logs may be there: the process lives on, or could not remove them.
    """
    found: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        how = "removed" if path not in after else "changed" if path in before else "left behind"
        in_cache = any(_meets(path, cache) for cache in caches)
        if path in after and (_UNFINISHED.search(path) or (_LOG.search(path) and not logs)):
            found.append(f"{how}, unfinished: {path}")
        elif _LOG.search(path) and (logs or how == "removed"):
            continue  # SQLite removes what is no log of its file
        elif in_cache or _may_write(path, writes, after, code=code, root=root):
            continue
        elif after.get(path, ("",))[0] == "folder" and path in before:
            continue  # only its permissions, by the case's own clearing away
        else:
            found.append(f"{how}: {path}")
    return found


def _may_write(
    path: str, writes: Collection[str], after: Tree, *, code: int | None, root: Path
) -> bool:
    for target in writes:
        if (
            path != target
            and not path.startswith(f"{target}/")
            and not target.startswith(f"{path}/")
        ):
            continue
        if code == 0:
            return True
        # A sweep that broke off has its ledger, and a run that broke off what it learnt so far.
        if f"{target}/ledger.sqlite" in after and _is_whole(root / target / "ledger.sqlite"):
            return True
    return False


def _meets(path: str, target: str) -> bool:
    """Whether a path is a target, in it or above it."""
    return path == target or path.startswith(f"{target}/") or target.startswith(f"{path}/")


def _is_whole(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check").fetchone()
            connection.execute("SELECT count(*) FROM trials").fetchone()
    except sqlite3.Error:
        return False
    return verdict == "ok"
