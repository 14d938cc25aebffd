"""How a process gives up, for good, whatever it does not need to run a program.

The process of `sealed.py` calls `seal` before it reads the program. That works without root and
inside containers. Nothing here imports this package: the process starts fast and holds none of it.

Three layers are demanded: no new privileges, resource limits, and a list of allowed system calls
(seccomp) that ends the process at any other call. Landlock (no files, no ports, no signals to
others), namespaces and empty capabilities are added where the kernel has them.
"""

import ctypes
import os
import resource
import signal
import struct
import sys

ROOM = 48 << 20
"""Bytes of address space beside the program's own memory: what the engine itself needs."""

_SET_DUMPABLE, _SET_NO_NEW_PRIVS = 4, 38
_CAPABILITIES = 0x20080522
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
# Files by version of Landlock: the number of kinds of access that it can forbid.
_LANDLOCK_FILES = (0, 13, 14, 15, 15, 16)
# user, pid, net, ipc, uts, cgroup, mount
_NAMESPACES = 0x10000000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000 | 0x02000000 | 0x20000
_NEW_USER = 0x10000000

_FILTER_ALL_THREADS = 1
_KILL, _ALLOW = 0x80000000, 0x7FFF0000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_EXECUTABLE = 4
_WAKE = 129  # those of this process that wait; C libraries do so when they first set something up

# By machine: the number by which a filter knows it, then its system calls.
_MACHINES = {
    "x86_64": (
        0xC000003E,
        {
            "read": 0, "write": 1, "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12,
            "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28, "exit": 60,
            "gettimeofday": 96, "capset": 126, "futex": 202, "restart_syscall": 219,
            "clock_gettime": 228, "exit_group": 231, "unshare": 272, "seccomp": 317,
            "getrandom": 318,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "read": 63, "write": 64, "capset": 91, "exit": 93, "exit_group": 94, "unshare": 97,
            "futex": 98, "clock_gettime": 113, "sched_yield": 124, "restart_syscall": 128,
            "rt_sigreturn": 139, "gettimeofday": 169, "brk": 214, "munmap": 215, "mremap": 216,
            "mmap": 222, "mprotect": 226, "madvise": 233, "seccomp": 277, "getrandom": 278,
        },
    ),
}  # fmt: skip

ALLOWED = (
    "brk", "munmap", "mremap", "madvise", "clock_gettime", "gettimeofday", "getrandom",
    "rt_sigreturn", "restart_syscall", "sched_yield", "exit", "exit_group",
)  # fmt: skip
"""System calls that a sealed process may make with any arguments. Beside them it may `read`
standard input, `write` standard output, wake with `futex`, and `mmap` and `mprotect` memory that is
not executable."""


class UnsealedError(Exception):
    """A demanded layer is not to be had here; the message says which, in one line."""


def seal(*, cpu_seconds: float, memory: int) -> list[str]:
    """Seals this process.

    Args:
        cpu_seconds: processor time from now on; then SIGPROF ends the process.
        memory: bytes that it may take on top of what it has, `ROOM` aside.

    Returns:
        The layers beyond the demanded ones that are in place.

    Raises:
        UnsealedError: a demanded layer is missing. The process must end.
    """
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        raise UnsealedError(f"no seal is known for {sys.platform} with {sys.maxsize:x}")
    machine = os.uname().machine
    if machine not in _MACHINES:
        raise UnsealedError(f"no seal is known for the processor {machine}")
    demand_one_thread()
    space = space_taken() + memory + ROOM
    layers = []
    if unshare():
        layers.append("namespaces")
    forbid_privileges()
    version = forbid_files()
    if version:
        layers.append(f"Landlock {version}")
    if drop_capabilities():
        layers.append("no capabilities")
    limit(cpu_seconds=cpu_seconds, space=space)
    forbid_calls()
    return layers


def demand_one_thread() -> None:
    """Refuses a process with several threads: most layers cover the calling thread alone."""
    try:
        threads = len(os.listdir("/proc/self/task"))
    except OSError as error:
        raise UnsealedError(f"threads cannot be counted: {error}") from error
    if threads != 1:
        raise UnsealedError(f"the process has {threads} threads and must have one")


def unshare() -> bool:
    """Moves the process into namespaces of its own, as many as it may; whether there is one."""
    number = _calls()["unshare"]
    return any(_call(number, flags) == 0 for flags in (_NAMESPACES, _NAMESPACES & ~_NEW_USER))


def forbid_privileges() -> None:
    """No program that this process starts has more rights; its memory is never written to a file.

    Raises:
        UnsealedError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))) != 0:
        raise UnsealedError(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    libc.prctl(_SET_DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))


def forbid_files() -> int:
    """Landlock without a rule: no file can be opened. Returns its version, 0 without Landlock."""
    version = _call(_LANDLOCK_CREATE, 0, 0, 1)
    if version < 1:
        return 0
    files = (1 << _LANDLOCK_FILES[min(version, len(_LANDLOCK_FILES) - 1)]) - 1
    both = 3
    rules = struct.pack("QQQ", files, both if version >= 4 else 0, both if version >= 6 else 0)
    # Older kernels know shorter rules, and take longer ones whose rest is zero.
    descriptor = _call(_LANDLOCK_CREATE, ctypes.create_string_buffer(rules, 24), 24, 0)
    if descriptor < 0:
        return 0
    restricted = _call(_LANDLOCK_RESTRICT, descriptor, 0) == 0
    os.close(descriptor)
    return version if restricted else 0


def drop_capabilities() -> bool:
    """Drops what makes root powerful; whether that worked."""
    head = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITIES, 0), 8)
    return _call(_calls()["capset"], head, ctypes.create_string_buffer(24)) == 0


def space_taken() -> int:
    """Bytes of address space of this process."""
    # As bytes: an encoding would be loaded from a folder that the user may not be able to read.
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def limit(*, cpu_seconds: float, space: int) -> None:
    """Sets the resource limits, and the timer that ends the process.

    Args:
        cpu_seconds: see `seal`.
        space: bytes of address space.

    Raises:
        UnsealedError: the kernel refuses.
    """
    # The timer is exact. Should anything stop it, whole seconds of processor time are a limit too.
    seconds = int(cpu_seconds) + 2
    wanted = {
        resource.RLIMIT_AS: (space, space),
        resource.RLIMIT_CPU: (seconds, seconds + 1),
        resource.RLIMIT_CORE: (0, 0),
        resource.RLIMIT_FSIZE: (0, 0),
        resource.RLIMIT_MEMLOCK: (0, 0),
        resource.RLIMIT_NOFILE: (0, 0),
        resource.RLIMIT_NPROC: (0, 0),
    }
    try:
        for kind, (soft, hard) in wanted.items():
            most = resource.getrlimit(kind)[1]
            if most == resource.RLIM_INFINITY:
                most = hard
            resource.setrlimit(kind, (min(soft, most), min(hard, most)))
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for ending in (signal.SIGPROF, signal.SIGXCPU):
            signal.signal(ending, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    except (OSError, ValueError) as error:
        raise UnsealedError(f"resource limits: {error}") from error


def forbid_calls() -> None:
    """Every system call but the allowed ones ends the process from now on.

    Raises:
        UnsealedError: the kernel has no seccomp, or a container forbids it.
    """
    code = rules()
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    result = _call(
        _calls()["seccomp"], 1, _FILTER_ALL_THREADS, ctypes.create_string_buffer(program)
    )
    if result != 0:
        # A positive number is the thread that could not be covered.
        reason = os.strerror(ctypes.get_errno()) if result < 0 else f"thread {result}"
        raise UnsealedError(f"seccomp: {reason}")


def rules() -> bytes:
    """The filter of system calls, in the kernel's own code for packet filters."""
    architecture, numbers = _MACHINES[os.uname().machine]
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _KILL)]
    code.append((_LOAD, 0, 0, 0))
    for name in ALLOWED:
        code += [(_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _ALLOW)]
    for name, index, value in (("read", 0, 0), ("write", 0, 1), ("futex", 1, _WAKE)):
        code += [
            (_EQUAL, 0, 4, numbers[name]),
            (_LOAD, 0, 0, _argument(index)),
            (_EQUAL, 0, 1, value),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _KILL),
        ]
    for name in ("mmap", "mprotect"):
        code += [
            (_EQUAL, 0, 4, numbers[name]),
            (_LOAD, 0, 0, _argument(2)),
            (_ANY_BIT, 1, 0, _EXECUTABLE),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _KILL),
        ]
    code.append((_RETURN, 0, 0, _KILL))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def _argument(index: int) -> int:
    """Where a filter finds the low half of an argument of a system call."""
    return 16 + 8 * index


def _calls() -> dict[str, int]:
    return _MACHINES[os.uname().machine][1]


def _call(number: int, *arguments: object) -> int:
    """Makes a system call; -1 is a failure, which `ctypes.get_errno` explains."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    passed = [
        ctypes.c_ulong(argument) if isinstance(argument, int) else argument
        for argument in arguments
    ]
    result: int = libc.syscall(ctypes.c_long(number), *passed)
    return result
