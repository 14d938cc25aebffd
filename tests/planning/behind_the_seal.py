"""A sealed process for tests: without some of its layers, as nobody, or with Python in it.

Python stands for an engine that a program has taken over: it may do whatever the process may. It is
started in place of `sealed.serve` and is not part of what the package installs.
"""

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import sys
import threading
import time

import _quickjs  # noqa: F401 - nobody may not read the folder that it comes from
import seal
import sealed

NOBODY = 65534

# What attacks need is loaded before the seal.
TOOLS = {
    module.__name__: module
    for module in (ctypes, json, mmap, os, resource, signal, socket, sys, threading, time)
}


def serve(*variant):
    """Runs one program in a process of that variant."""
    if "nobody" in variant:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    if "no Landlock" in variant:
        seal.forbid_files = lambda: 0
    if "no namespaces" in variant:
        seal.unshare = lambda: False
    if "no seccomp" in variant:
        seal.forbid_calls = lambda: None
    if "no privileges to give up" in variant:
        seal.forbid_privileges = refuse
    if "second thread" in variant:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    if "python" in variant:
        take_over()
    sealed.serve(seal.seal)


def refuse():
    raise seal.UnsealedError("no_new_privs: this test refuses")


def take_over():
    """Seals the process, reads a program in Python, and runs it."""
    cpu_seconds, memory, _, _, count, *_ = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    page = mmap.mmap(-1, 4096)
    write = sealed._write
    seal.seal(cpu_seconds=float(cpu_seconds), memory=int(memory))
    write('{"sealed":[]}')
    attack, *_ = [json.loads(sealed._line()) for _ in range(int(count) + 1)]

    def escaped(*what):
        write(json.dumps(["escaped", [str(part) for part in what]]))
        sealed._line()

    end = '{"end":null}'
    try:
        exec(attack, {**TOOLS, "libc": libc, "page": page, "tell": write, "escaped": escaped})
    except Exception as error:
        end = json.dumps({"end": [f"{type(error).__name__}: {error}", ""]})
    write(end)
    os._exit(0)
