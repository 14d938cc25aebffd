"""How much memory this process may use: the machine's, or its container's if that is less."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


def total_memory() -> int:
    """Bytes in all."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # without a control group, or one that says "max"
        return min(total, int((_CGROUP / "memory.max").read_text(encoding="ascii")))
    return total


def free_memory() -> int:
    """Bytes that nobody needs now."""
    free = total_memory()
    with suppress(OSError, ValueError):
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        free = max(0, free - used)
    with suppress(OSError, ValueError, StopIteration):
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        kibibytes = next(line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        free = min(free, int(kibibytes) << 10)
    return free
