"""The connection to Ray: a cluster that runs already, or one on this machine that ends with us."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
import warnings
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from llm_planning.worker_processes import SAFE_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The error of a trial that was cancelled is nobody's news.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # What Ray says about a lost worker would tear the live display; the pool says it itself.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    # Silences advice about a default of Ray's that is going to change.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Below `uv run`, workers would be given a copy of the working directory and import from it.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
}
"""Ray reads these when it is imported; what the user has set stays."""


_AT_IMPORT: Final = {
    "RAY_AUTH_MODE": "token",
    # Where Ray supports clusters of several machines, it replaces a loopback address by this
    # machine's address in the network.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""What keeps a Ray that is started here to itself, and is read only when Ray is imported."""


@cache
def _kept_to_itself() -> Mapping[str, str]:
    """What a Ray that is started here reads, and this process, to which Ray gives but one token.

    Raises:
        RayPoolError: Ray was imported without it.
    """
    imported = sys.modules.get("ray") is not None
    if imported and not _AT_IMPORT.items() <= os.environ.items():
        raise RayPoolError(
            "Ray was imported before, perhaps by vLLM, and would be open to others: set "
            + " and ".join(f"{name}={value}" for name, value in _AT_IMPORT.items())
            + " before Python starts, or call ray.init() yourself and leave the address out"
        )
    return {
        **_AT_IMPORT,
        # Ray's own default is one token for all clusters of a user, in a file that all may read.
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # Workers' own children look for no modules in the working directory either.
        SAFE_PATH: "1",
        # An engine is meant to fill the machine's memory: no reason to kill it.
        "RAY_memory_monitor_refresh_ms": "0",
        # Workers that wait with the working directory in their path would never be used.
        "RAY_prestart_worker_first_driver": "0",
    }


_LOOPBACK: Final = "127.0.0.1"
"""Where all processes of a Ray that is started here listen."""

_OBJECT_STORE_BYTES: Final = 128 * 2**20
"""Trials and their results are some kilobytes; larger ones spill to the disk."""

_LONGEST_FOLDER: Final = 17
"""The path of a socket has room for 107 characters: 26 of them are ours, and up to 64 are Ray's."""

_REACH_SECONDS: Final = 5.0
"""For the first answer of an address; Ray itself would try a wrong one for minutes."""


class RayPoolError(RuntimeError):
    """Ray is missing, cannot be reached, has no room for the workers, or none of them started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a cluster.

    Attributes:
        cpus: CPU slots.
    """

    cpus: int
    gpus: int


class Cluster:
    """A connection that `connect` made.

    Args:
        local: whether its processes are ours, on this machine.
        leaving: undoes, when it is closed, all that the connection took.
    """

    def __init__(self, ray: Any, *, local: bool, leaving: contextlib.ExitStack) -> None:  # noqa: ANN401
        self.ray = ray
        self.local = local
        self._leaving = leaving

    def nodes(self) -> tuple[Node, ...]:
        """The machines that are up."""
        return tuple(
            Node(
                cpus=int(node["Resources"].get("CPU", 0)), gpus=int(node["Resources"].get("GPU", 0))
            )
            for node in self.ray.nodes()
            if node["Alive"]
        )

    def close(self) -> None:
        """Leaves the cluster; ends its processes if it was started here."""
        self._leaving.close()


def connect(address: str | None, *, cpus: int) -> Cluster:
    """Connects this process to Ray.

    It must be called by the main thread: Linux ends Ray's processes with the thread that started
    them, which is what keeps none of them behind should this process be killed.

    A Ray that is started here listens on loopback alone, answers only who has its token, which
    nobody is told, and keeps its files where only this user can reach them. A process that has
    started one starts others and joins none: Ray keeps its token for good. Variables of the
    environment are put back when the connection is closed.

    Args:
        address: `auto`, `ray://host:port` or `host:port` of a cluster that runs; None starts one
            on this machine, or takes the one that this process is connected to.
        cpus: CPU slots of the cluster that is started.

    Raises:
        RayPoolError: Ray is not installed, or does not start, or nothing answers at the address.
        RuntimeError: this is another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("Ray has to be started by the main thread")
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _environment({name: os.environ.get(name, value) for name, value in _QUIET.items()})
        )
        known = sys.modules.get("ray")
        if known is not None and known.is_initialized():
            if address is not None:
                raise RayPoolError(
                    f"Ray address {address!r}: this process is connected to Ray already; "
                    "leave the address out to use that connection, or call ray.shutdown() before"
                )
            return Cluster(known, local=False, leaving=stack.pop_all())
        ray = _start(cpus=cpus, stack=stack) if address is None else _join(address, stack=stack)
        return Cluster(ray, local=address is None, leaving=stack.pop_all())


def place(
    nodes: Sequence[Node], *, workers: int | None, cpus_per_worker: int
) -> tuple[int, dict[str, float]]:
    """How many workers there are, and what each asks of Ray.

    Args:
        workers: wanted; None: as many as there is room for.
        cpus_per_worker: CPU slots of a worker where no machine has a GPU.

    Raises:
        RayPoolError: there is no room for so many.
    """
    room = sum(node.gpus for node in nodes)
    resources: dict[str, float] = {"num_gpus": 1, "num_cpus": 0}
    has = f"{room} GPUs"
    if not room:
        cpus = min(cpus_per_worker, max((node.cpus for node in nodes), default=0))
        room = sum(node.cpus // cpus for node in nodes) if cpus else 0
        resources = {"num_cpus": cpus}
        has = f"no GPU, and CPU slots for {room} workers of {cpus}"
    count = room if workers is None else workers
    if not 1 <= count <= room:
        raise RayPoolError(
            f"workers={workers}: the Ray cluster has {has}; ask for at most {room} workers"
            if room
            else "the Ray cluster has neither a GPU nor a CPU slot: give it some"
        )
    return count, resources


def _import() -> Any:  # noqa: ANN401
    try:
        import ray
    except ImportError as error:
        raise RayPoolError(
            f"Ray cannot be imported ({error}): pip install 'llm-planning[ray]', "
            "or run the sweep without Ray"
        ) from error
    return ray


def _join(address: str, *, stack: contextlib.ExitStack) -> Any:  # noqa: ANN401
    """Connects to a cluster that runs, until the stack is closed."""
    _reach(address)
    ray = _import()
    stack.callback(_shutdown, ray)
    try:
        with tempfile.TemporaryDirectory(prefix="llm-planning-") as empty:
            _init(ray, address=address, empty=empty)
    except Exception as error:  # whatever Ray raises, the address is what a user can change
        raise RayPoolError(
            f"Ray address {address!r}: {error}; versions of Ray and Python must be the "
            "cluster's, and RAY_AUTH_MODE=token must be set if it asks for a token"
        ) from error
    return ray


def _start(*, cpus: int, stack: contextlib.ExitStack) -> Any:  # noqa: ANN401
    """Starts a cluster that lives until the stack is closed."""
    stack.enter_context(_environment(_kept_to_itself()))
    ray = _import()
    # Ray opens to everybody each folder that it makes or is given: only what lies around it counts.
    short = len(tempfile.gettempdir()) <= _LONGEST_FOLDER
    around = tempfile.mkdtemp(prefix="llm-planning-", dir=None if short else "/tmp")
    # A process that is still ending may write into it once more: nothing to wait for.
    stack.callback(shutil.rmtree, around, ignore_errors=True)
    try:
        os.mkdir(empty := os.path.join(around, "empty"))
        stack.callback(_shutdown, ray)
        with _environment({"RAY_TMPDIR": around}):
            _init(
                ray,
                address="local",
                empty=empty,
                num_cpus=cpus,
                object_store_memory=_OBJECT_STORE_BYTES,
                include_dashboard=False,
            )
        (node,) = ray.nodes()
        if (at := node["NodeManagerAddress"]) != _LOOPBACK:
            raise RuntimeError(f"it listens on {at}, where others could reach it: use Ray 2.60")
    except Exception as error:
        raise RayPoolError(f"a Ray on this machine does not start: {error}") from error
    return ray


def _init(ray: Any, *, address: str, empty: str, **options: Any) -> None:  # noqa: ANN401
    """Connects.

    Args:
        empty: a folder from which workers may import whatever they find. Without one they would
            look into the working directory first, from which anything could be imported in place
            of the packages that are installed; a job of Ray's client does not.
    """
    if "://" not in address:
        options["runtime_env"] = {"working_dir": empty}
    with _own_sigterm_handler(), warnings.catch_warnings():
        # Ray's own words about an address where nobody answers.
        warnings.simplefilter("ignore")
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)


def _shutdown(ray: Any) -> None:  # noqa: ANN401
    with _own_sigterm_handler():
        ray.shutdown()


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Sets variables of this process and its children, and puts them back."""
    before = {name: os.environ.get(name) for name in values}

    def put(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    put(values)
    try:
        yield
    finally:
        put(before)


@contextlib.contextmanager
def _own_sigterm_handler() -> Iterator[None]:
    """Gives this process its own handler back, which Ray replaces."""
    own = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        # None: a handler that Python did not install, so that it cannot be put back.
        if own is not None:
            signal.signal(signal.SIGTERM, own)


def _reach(address: str) -> None:
    """Makes sure that somebody listens."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        raise RayPoolError(
            f"{address!r} is not a Ray address: write auto, ray://host:port or host:port"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RayPoolError(
            f"no Ray cluster answers at {address!r} ({error}); `ray status` on the "
            "cluster's head shows its address, no address starts a Ray on this machine"
        ) from error
