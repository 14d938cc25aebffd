"""What can be wrong with a call whatever it says: its surroundings, its streams."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from .ending import LIMIT
from .ground import Place
from .values import ODD, PATHS

_CACHES = ("cache", "home/.cache", "home/.config", "home/.rustup")
"""What any command may write; the last is pip's asking for the version of Rust."""


@dataclass
class Case:
    """A case that is ready to run.

    Attributes:
        arguments: after the command's name.
        place: where it happens.
        environment: variables of it.
        unset: variables that are not set.
        writes: what it may write once all has gone well, relative to the place's root.
        caches: what it may write in any case, likewise.
        limit: seconds that it may take.
        signals: (seconds to wait, signal).
        shell: a shell command that runs `"$@"` with other streams; "" for none.
    """

    arguments: list[str]
    place: Place
    environment: dict[str, str]
    unset: tuple[str, ...] = ()
    writes: set[str] = field(default_factory=set)
    caches: set[str] = field(default_factory=lambda: set(_CACHES))
    limit: float = LIMIT
    signals: tuple[tuple[float, int], ...] = ()
    shell: str = ""


def targets_of(place: Place, names: list[str]) -> set[str]:
    """Where paths lead, relative to the place's root."""
    found: set[str] = set()
    for name in names:
        if name and "\0" not in name and not _is_odd(name):
            real = os.path.realpath(place.here / os.path.expanduser(name))
            found.add(os.path.relpath(real, os.path.realpath(place.root)))
    return found


def _is_odd(name: str) -> bool:
    """Whether no file can have this name."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return True
    return False


def _cache_is(make: Callable[[Place], str]) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        name = make(case.place)
        case.environment["LLM_PLANNING_CACHE"] = name
        case.caches |= targets_of(case.place, [name])

    return change


def _unset(*names: str) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        case.unset = names

    return change


def _read_only_cache(case: Case) -> None:
    case.place.fill_cache()
    case.place.cache.chmod(0o500)


def _closed_cache(case: Case) -> None:
    case.place.cache.chmod(0)


AROUND: dict[str, Callable[[Case], None]] = {
    "filled-cache": lambda case: case.place.fill_cache(),
    "read-only-cache": _read_only_cache,
    "closed-cache": _closed_cache,
    **{
        f"cache-is-{name}": _cache_is(make)
        for name, make in {**PATHS, **ODD}.items()
        if name
        in {
            *("fifo", "socket", "dangling-link", "link-loop", "unreadable", "read-only-folder"),
            *("closed-folder", "empty-file", "null", "zero", "missing", "through-a-file"),
            *("long-name", "tilde", "escape", "markup", "surrogate", "deep", "not-unicode-file"),
        }
    },
    "no-cache-variable": _unset("LLM_PLANNING_CACHE"),
}
"""What can be wrong around a call."""

_CODE = 'c=$(cat code); rm code; exit "$c"'
STREAMS = {
    "stdout-full": '"$@" >/dev/full',
    "reader-gone": '{ "$@"; echo $? >code; } | true; ' + _CODE,
    "reader-slow": '{ "$@"; echo $? >code; } | { sleep 3; cat >/dev/null; }; ' + _CODE,
    "same-stream": '"$@" 2>&1',
    "no-files": 'ulimit -n 24; "$@"',
    # Python would keep the beginnings of its compiled modules for all that come later.
    "small-files": 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 "$@"',
    "little-memory": 'ulimit -v 400000; "$@"',
    "language-c": 'LC_ALL=C LANG=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 "$@"',
    "latin-1": 'PYTHONIOENCODING=latin-1 "$@"',
    "ascii": 'PYTHONIOENCODING=ascii:strict "$@"',
    "optimised": 'PYTHONOPTIMIZE=2 "$@"',
}
"""Streams and limits of a process, as a shell gives them."""

SIGNALLED = (
    "run uct --model none --task trap-door --set simulations=100000 --set remember=off",
    "run uct --model none --task trap-door --set simulations=100000 --trace trace.jsonl",
    "run too --model none --task cook-meat --set roles=rules --set iter=100000 --set d=32 "
    "--set k=8",
    "sweep run sweep.yaml --out out",
    "sweep run long.yaml --out out",
    "sweep run long.yaml --out out --forecast --samples 2",
    "sweep resume ledger",
    "doctor",
    "run --list",
    "view ledger --live",
)
"""Calls that are interrupted; most of them take longer than that."""


def play(case: Case, family: str, trick: str) -> None:
    """Spoils a good case by a trick of one of the tables."""
    if family == "around":
        AROUND[trick](case)
    elif family == "stream":
        case.shell = STREAMS[trick]
