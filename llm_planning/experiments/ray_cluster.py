"""The connection to Ray: a cluster that runs already, or one on this machine that ends with us."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import tempfile
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The error of a trial that was cancelled is nobody's news.
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # What Ray says about a lost worker would tear the live display; the pool says it itself.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".*",
    # Silences advice about a default of Ray's that is going to change.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
"""Ray reads these when it is imported; what the user has set stays."""

_OBJECT_STORE_BYTES: Final = 128 * 2**20
"""Trials and their results are some kilobytes; larger ones spill to the disk."""

_LONGEST_FOLDER: Final = 32
"""Ray appends up to 70 characters to it, and the path of a socket has room for 107."""

_REACH_SECONDS: Final = 5.0
"""For the first answer of an address; Ray itself would try a wrong one for minutes."""


class RayPoolError(RuntimeError):
    """Ray is missing, cannot be reached, has no room for the workers, or none of them started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a cluster.

    Attributes:
        cpus: CPU slots.
        gpus: GPUs.
    """

    cpus: int
    gpus: int


class Cluster:
    """A connection that `connect` made.

    Args:
        ray: the module.
        local: whether its processes are ours, on this machine.
        folder: of their temporary files, if they are.
        connected: whether this object made the connection and so has to end it.
    """

    def __init__(self, ray: Any, *, local: bool, folder: str | None, connected: bool) -> None:  # noqa: ANN401
        self.ray = ray
        self.local = local
        self._folder = folder
        self._connected = connected

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
        if self._connected:
            with _own_sigterm_handler():
                self.ray.shutdown()
            self._connected = False
        if self._folder is not None:
            # A process that is still ending may write into it once more: nothing to wait for.
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def connect(address: str | None, *, cpus: int) -> Cluster:
    """Connects this process to Ray.

    It must be called by the main thread: Linux ends Ray's processes with the thread that started
    them, which is what keeps none of them behind should this process be killed.

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
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError as error:
        raise RayPoolError(
            f"Ray cannot be imported ({error}): pip install 'llm-planning[ray]', "
            "or run the sweep without Ray"
        ) from error
    if ray.is_initialized():
        if address is not None:
            raise RayPoolError(
                f"Ray address {address!r}: this process is connected to Ray already; "
                "leave the address out to use that connection, or call ray.shutdown() before"
            )
        return Cluster(ray, local=False, folder=None, connected=False)
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address is not None:
        _reach(address)
        try:
            _init(ray, address=address, **quiet)
        except Exception as error:  # whatever Ray raises, the address is what a user can change
            raise RayPoolError(
                f"Ray address {address!r}: {error}; versions of Ray and Python must be the "
                "cluster's, and RAY_AUTH_MODE=token must be set if it asks for a token"
            ) from error
        return Cluster(ray, local=False, folder=None, connected=True)
    folder = tempfile.mkdtemp(prefix="llm-planning-ray-", dir=_short_folder())
    cluster = Cluster(ray, local=True, folder=folder, connected=True)
    try:
        _init(
            ray,
            address="local",
            num_cpus=cpus,
            object_store_memory=_OBJECT_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=folder,
            # An engine is meant to fill the machine's memory: no reason to kill it.
            _system_config={"memory_monitor_refresh_ms": 0},
            **quiet,
        )
    except BaseException as error:
        cluster.close()
        if isinstance(error, Exception):
            raise RayPoolError(f"a Ray on this machine does not start: {error}") from error
        raise
    return cluster


def place(
    nodes: Sequence[Node], *, workers: int | None, cpus_per_worker: int
) -> tuple[int, dict[str, float]]:
    """How many workers there are, and what each asks of Ray.

    Args:
        nodes: the cluster's machines.
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


def _init(ray: Any, **options: Any) -> None:  # noqa: ANN401
    with _own_sigterm_handler(), warnings.catch_warnings():
        # Ray's own words about an address where nobody answers.
        warnings.simplefilter("ignore")
        ray.init(**options)


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
            f"Ray address {address!r} is none: write auto, ray://host:port or host:port"
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_REACH_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise RayPoolError(
            f"Ray address {address!r}: nobody answers there ({error}); `ray status` on the "
            "cluster's head shows its address, no address starts a Ray on this machine"
        ) from error


def _short_folder() -> str | None:
    """Where temporary files go: the usual folder, unless its path is too long for a socket."""
    return None if len(tempfile.gettempdir()) <= _LONGEST_FOLDER else "/tmp"
