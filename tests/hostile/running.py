"""Running many cases: in workers that are watched, and replaced when a case kills or hangs them."""

import multiprocessing
import os
import queue
import re
import signal
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from . import cases
from .cases import Spec
from .ending import Ending, faults, left_behind, tree_of
from .ground import Ground
from .tricks import Case

_PATIENCE = 40.0
"""Seconds until a worker is given up, beyond those that its case may take twice."""


@dataclass(frozen=True)
class Verdict:
    """What came of a case.

    Attributes:
        spec: of the case.
        arguments: of the command.
        ending: how it ended; None where its worker was lost.
        faults: what is wrong with that; empty if nothing is.
    """

    spec: Spec
    arguments: tuple[str, ...]
    ending: Ending | None
    faults: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Of the ending, for counting."""
        if self.ending is None or self.ending.code is None:
            return "hangs or dies"
        return f"exit {self.ending.code}"

    def text(self) -> str:
        """The case in some lines."""
        process = "process: " if self.spec.process else ""
        lines = [f"{process}{self.spec.name} (seed {self.spec.seed})"]
        lines.append("  llm-planning " + " ".join(_short(repr(word)) for word in self.arguments))
        lines += [f"  FAULT: {fault}" for fault in self.faults]
        if self.ending is not None:
            lines.append(f"  code {self.ending.code}, {self.ending.seconds:.1f} s")
            for name, stream in (("out", self.ending.out), ("err", self.ending.err)):
                lines.append(f"  {name}: {stream[-700:]!r}")
        return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


def judge(spec: Spec, ground: Ground, run: Callable[[Case], Ending]) -> Verdict:
    """Makes a case, runs it and judges how it ended; what takes too long is tried once more.

    A machine that does much else may be slow once; what hangs does so again.
    """
    verdict = _judged(spec, ground, run)
    late = any(fault.startswith(("took", "still running")) for fault in verdict.faults)
    return _judged(spec, ground, run) if late else verdict


def _judged(spec: Spec, ground: Ground, run: Callable[[Case], Ending]) -> Verdict:
    case = cases.make(spec, ground)
    try:
        before = tree_of(case.place.root)
        ending = run(case)
        found = faults(
            ending,
            limit=case.limit,
            signalled=bool(case.signals),
            shell=case.shell,
            command=spec.command,
        )
        found += left_behind(
            before,
            tree_of(case.place.root),
            # A file that is written stays, though its name cannot be told any more.
            code=0 if re.search("true|full", case.shell) else ending.code,
            writes=case.writes,
            caches=case.caches,
            root=case.place.root,
            # A second signal ends a process where it stands; SQLite takes the logs up again.
            logs=not spec.process
            or "ulimit" in case.shell
            or (ending.code or 0) < 0
            or len(case.signals) > 1,
        )
        return Verdict(spec, tuple(case.arguments), ending, tuple(found))
    finally:
        case.place.remove()


def _serve(pipe, root: str, *, prepare: bool, slow: bool) -> None:
    """The life of a worker: a case in, a verdict out."""
    os.setpgid(0, 0)
    # A shell's background jobs ignore it, and so would the cases.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from .inside import (
        Captured,
        be_quick,
        be_undisturbed,
        limit_resources,
        make_goods,
        run_inside,
        run_process,
    )
    from .privileges import respect_permissions

    ground = Ground(Path(root))
    respect_permissions()
    limit_resources()
    be_undisturbed()
    captured = Captured()
    try:
        if prepare:
            ground.prepare()
        be_quick(ground.root / "models")
        if slow:
            # Else the first case that loads a damaged encoder would wait for it.
            import sentence_transformers  # noqa: F401
        if prepare:
            make_goods(ground, captured)
    except Exception:
        pipe.send(traceback.format_exc())
        return
    pipe.send("")
    while True:
        try:
            spec = pipe.recv()
        except EOFError:
            return

        def run(case: Case, spec: Spec = spec) -> Ending:
            return run_process(case) if spec.process else run_inside(case, captured)

        try:
            verdict = judge(spec, ground, run)
        except Exception:
            verdict = Verdict(spec, (), None, (f"the case: {traceback.format_exc()}",))
        pipe.send(verdict)


class Worker:
    """A process that runs cases, one at a time."""

    def __init__(self, ground: Ground, *, prepare: bool = False, slow: bool = False) -> None:
        self._ground = ground
        self._slow = slow
        self._context = multiprocessing.get_context("spawn")
        self._open(prepare=prepare)

    def _open(self, *, prepare: bool) -> None:
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(
            target=_serve,
            args=(theirs, str(self._ground.root)),
            kwargs={"prepare": prepare, "slow": self._slow},
            daemon=False,
        )
        self._process.start()
        theirs.close()
        failure = self._pipe.recv() if self._pipe.poll(600) else "the worker does not begin"
        if failure:
            self.close()
            raise RuntimeError(failure)

    def judge(self, spec: Spec) -> Verdict:
        """Runs a case; one that hangs or kills this worker is a fault, and begins another."""
        self._pipe.send(spec)
        try:
            if self._pipe.poll(2 * spec.limit + _PATIENCE):
                return self._pipe.recv()
            fault = "hangs where no signal is heard"
        except (EOFError, ConnectionResetError):
            fault = "kills its process"
        self.close()
        fault += f" (exit code {self._process.exitcode})"
        self._open(prepare=False)
        return Verdict(spec, (), None, (fault,))

    def close(self) -> None:
        """Ends the process and what it started."""
        self._pipe.close()
        self._process.join(1)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()


@dataclass
class Runner:
    """Two workers, one for cases inside a process and one for cases as processes.

    Use as a context; the first worker makes the good files when it is entered.

    Attributes:
        slow: whether there are cases that are slow.
    """

    slow: bool = False
    _workers: dict[bool, Worker] = field(default_factory=dict)

    def __enter__(self) -> "Runner":
        self._temporary = tempfile.TemporaryDirectory(prefix="hostile-", ignore_cleanup_errors=True)
        self.ground = Ground(Path(self._temporary.name))
        self._workers[False] = Worker(self.ground, prepare=True, slow=self.slow)
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.close()
        self._temporary.cleanup()

    def run(self, specs: Iterable[Spec], report: Callable[[Verdict], object]) -> None:
        """Runs cases; `report` hears of each as it ends, one at a time."""
        waiting: dict[bool, queue.SimpleQueue[Spec]] = {}
        for spec in specs:
            waiting.setdefault(spec.process, queue.SimpleQueue()).put(spec)
        if True in waiting and True not in self._workers:
            self._workers[True] = Worker(self.ground)
        turn, failed = threading.Lock(), []

        def drain(process: bool) -> None:
            try:
                while not waiting[process].empty():
                    verdict = self._workers[process].judge(waiting[process].get())
                    with turn:
                        report(verdict)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=drain, args=(process,)) for process in waiting]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
