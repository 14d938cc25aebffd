"""How much memory this process may use: the machine's, or its container's if that is less."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def total_memory() -> int:
    """All memory, in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # without a control group, or one that says "max"
        return min(total, int((_CGROUP / "memory.max").read_text(encoding="ascii")))
    return total


def free_memory() -> int:
    """Memory that is not in use, in bytes; the system's cache of files does not count as used."""
    free = total_memory()
    with suppress(OSError, ValueError, KeyError):
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        kept = _numbers(_CGROUP / "memory.stat")
        free = max(0, free - used + kept["active_file"] + kept["inactive_file"])
    with suppress(OSError, ValueError, KeyError):
        free = min(free, _numbers(_MEMINFO)["MemAvailable:"] << 10)
    return free


def _numbers(path: Path) -> dict[str, int]:
    """The first number of each line, by the word before it."""
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
