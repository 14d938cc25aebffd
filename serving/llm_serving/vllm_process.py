"""VLLM's engine core in a process of its own: who takes one, how it begins and how it ends.

The process that plans keeps Python's lock for itself then: steps go on while it thinks. vLLM
carries requests and answers between the two (`SyncMPClient`).
"""

from __future__ import annotations

import os
import platform
import re
import signal
import threading
import time
from concurrent.futures import InvalidStateError
from contextlib import contextmanager, suppress
from multiprocessing import connection, spawn
from multiprocessing.context import SpawnContext, SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from llm_base.files import make_folder, read_json, write_json
from llm_serving.errors import EngineConfigError, EngineStoppedError
from llm_serving.models import cache_folder
from llm_serving.vllm_adapter import VllmCore, llm_engine
from llm_serving.vllm_arguments import installed_version, on_gpu
from llm_serving.vllm_core_process import GRACE, NAME, REASON, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llm_serving.config import EngineConfig
    from llm_serving.vllm_adapter import VllmJob, VllmResult

_CHECKS = "gpu-checks.json"
_MOST_BYTES = 1 << 20
_SOCKETS = "VLLM_RPC_BASE_PATH"


def core_class(config: EngineConfig, *, beside: Sequence[str]) -> type[VllmCore]:
    """The core in this process, or the one in a process of its own, as `process` says.

    Args:
        beside: what else of this run holds memory of the same GPU, in words.

    Raises:
        UnsupportedEngineError: as `on_gpu`.
    """
    apart = config.process
    if apart == "auto":
        alone = not beside and len(config.devices) == 1
        apart = alone and on_gpu() and _this_gpu(config.devices[0]) in _checked()
    return ProcessCore if apart else VllmCore


def remember_check(*, passed: bool) -> None:
    """Records whether `gpu-check` has passed on this machine's first GPU, for `process: auto`."""
    others = [gpu for gpu in _checked() if gpu != _this_gpu(0)]
    make_folder(cache_folder())
    write_json(cache_folder() / _CHECKS, [*others, *([_this_gpu(0)] if passed else [])])


def _checked() -> list[Any]:
    """The GPUs that were checked; none where the record is missing or damaged."""
    with suppress(OSError, ValueError):
        gpus = read_json(cache_folder() / _CHECKS, most=_MOST_BYTES)
        return gpus if isinstance(gpus, list) else []
    return []


def _this_gpu(number: int) -> dict[str, str]:
    import torch

    return {
        "machine": platform.node(),
        "card": torch.cuda.get_device_name(number),
        "vllm": ".".join(map(str, installed_version())),
    }


class ProcessCore(VllmCore):
    """VLLM's engine whose core steps in a process of its own.

    The core steps by itself; `step` waits for what it puts out. A dead process raises
    `EngineStoppedError` from every call, with the reason in one line.
    """

    takes_turns = False

    def _start(self, vllm_config: Any) -> Any:  # noqa: ANN401
        from vllm.v1.engine import EngineCoreOutputs

        self._nothing = EngineCoreOutputs
        self._closing = False
        self._folder = TemporaryDirectory(prefix="llm-planning-", ignore_cleanup_errors=True)
        try:
            with _spawning(self._folder.name):
                engine = llm_engine(vllm_config, self.stats, multiprocess_mode=True)
        except BaseException as error:
            told = self._told()
            self._folder.cleanup()
            if not told:
                raise _unexplained(error) from error
            kind, _, text = told.partition(": ")
            raise type(kind, (Exception,), {})(text) from error
        client = engine.engine_core
        (self._process,) = client.resources.engine_manager.processes
        threading.Thread(target=self._watch, args=(client,), daemon=True).start()
        return engine

    def _watch(self, client: Any) -> None:  # noqa: ANN401 - vLLM's `SyncMPClient`
        """Fails whoever waits for a process that has ended: vLLM would let them wait."""
        connection.wait([self._process.sentinel])
        if self._closing:
            return
        client.resources.engine_dead = True  # nobody begins to wait from now on
        died = self._end()
        client.outputs_queue.put(died)
        for future in [*client.utility_results.values()]:
            with suppress(InvalidStateError):
                future.set_exception(died)

    def _told(self) -> str:
        """What the process said of its end; "" if nothing."""
        with suppress(OSError):
            return (Path(self._folder.name) / REASON).read_text()
        return ""

    def _end(self) -> EngineStoppedError:
        """Why the process has ended, in one line."""
        self._process.join(GRACE)
        deadline = time.monotonic() + 1
        while (code := self._process.exitcode) is None and time.monotonic() < deadline:
            time.sleep(0.01)  # another thread has just asked the system for it
        reason = self._told() or f"its process {self._process.pid} {_ending(code)}"
        return EngineStoppedError(f"the engine died: {reason}")

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """Turns what vLLM raises of a dead process into `EngineStoppedError`."""
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            yield
        except Exception as error:
            if self._process.is_alive() and not isinstance(error, EngineDeadError):
                raise
            raise self._end() from error

    def add(self, ticket: int, job: VllmJob) -> None:
        """See `VllmCore`."""
        with self._alive():
            super().add(ticket, job)

    def abort(self, tickets: Sequence[int]) -> None:
        """See `VllmCore`."""
        with self._alive():
            super().abort(tickets)

    def step(self) -> list[tuple[int, VllmResult]]:
        """Waits until the core puts out something, or until it is woken."""
        with self._alive():
            outputs = self.engine.step()
        return self._finished(outputs)

    def wake(self) -> None:
        """Ends the wait of `step`: there is a command for the core."""
        self.engine.engine_core.outputs_queue.put_nowait(self._nothing())

    def forget_prefixes(self) -> bool:
        """See `VllmCore`."""
        with self._alive():
            return super().forget_prefixes()

    def close(self) -> None:
        """Ends the process, with which its memory comes back."""
        self._closing = True
        engine, self.engine = self.engine, None
        engine.engine_core.shutdown()
        self._process.join(GRACE)
        self._folder.cleanup()


def _unexplained(error: BaseException) -> BaseException:
    """The error of a process that ended while it started, and said nothing."""
    code = re.search(rf"'{NAME}': (-?\d+)", str(error))
    if code is None:
        return error
    return EngineConfigError(f"vLLM's process {_ending(int(code[1]))} while it started")


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    name = signal.Signals(-code).name
    hint = ", as the system ends one where memory runs out" if -code == signal.SIGKILL else ""
    return f"ended by {name}{hint}"


class _Work:
    """Work of vLLM's for a new process, which unpickles it when it is ready for that."""

    def __init__(self, target: Callable[..., None], arguments: dict[str, Any]) -> None:
        self._parts = target, arguments

    def __reduce__(self) -> tuple[type[bytes], tuple[bytes]]:
        return bytes, (bytes(ForkingPickler.dumps(self._parts)),)


class _Context(SpawnContext):
    """Starts vLLM's engine core by `run`.

    Args:
        folder: see `run`.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder

    def Process(  # type: ignore[override]  # noqa: N802
        self, *, target: Callable[..., None], name: str, kwargs: dict[str, Any]
    ) -> SpawnProcess:
        """As vLLM calls it."""
        return SpawnProcess(target=run, name=name, args=(self._folder, _Work(target, kwargs)))


@contextmanager
def _spawning(folder: str) -> Iterator[None]:
    """Has vLLM start its engine core as a new Python, which does not import this one's `__main__`.

    A process with threads must not be forked. And a script that opens an engine at its top level
    would open another one where multiprocessing imports it again.

    Args:
        folder: see `run`; vLLM leaves its sockets there.
    """
    from vllm import envs
    from vllm.v1.engine import utils

    envs.disable_envs_cache()  # an engine in this process has what it read remembered
    before = os.environ.get(_SOCKETS)
    os.environ[_SOCKETS] = folder
    prepare, context = spawn.get_preparation_data, utils.get_mp_context

    def prepare_without_main(name: str) -> dict[str, Any]:
        data = prepare(name)
        if name.startswith(NAME):
            data = {key: value for key, value in data.items() if "main" not in key}
        return data

    spawn.get_preparation_data = prepare_without_main
    utils.get_mp_context = lambda: _Context(folder)
    try:
        yield
    finally:
        spawn.get_preparation_data, utils.get_mp_context = prepare, context
        del os.environ[_SOCKETS]
        if before is not None:
            os.environ[_SOCKETS] = before
