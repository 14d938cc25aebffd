"""Running a case inside this process, or as one; both end in an `Ending`."""

import gc
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from .ending import Ending
from .own_modules import forgotten
from .tricks import Case

MOST_MEMORY = 24 << 30
"""Bytes of addresses; libraries map far more than they use."""

_TRACEBACK_LINES = 6


class TimeLimit(BaseException):
    """A case took too long."""


class Captured:
    """What this process writes to its standard streams, whoever in it writes."""

    def __init__(self) -> None:
        self._files = [os.memfd_create(name) for name in ("out", "err")]
        for descriptor, file in enumerate(self._files, start=1):
            os.dup2(file, descriptor)
        for stream in (sys.stdout, sys.stderr):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")

    def clear(self) -> None:
        for file in self._files:
            os.truncate(file, 0)
            os.lseek(file, 0, os.SEEK_SET)

    def read(self) -> tuple[bytes, bytes]:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        out, err = (os.pread(file, 1 << 24, 0) for file in self._files)
        return out, err


class QuickTokenizer:
    """Takes every letter for a token, and knows all of them."""

    unk_token_id = None

    def __call__(self, texts, **_):
        return {"input_ids": [[0] * min(len(text), 300) for text in texts]}


class QuickEncoder:
    """Stands in for the sentence encoder where its folder is whole: vectors of a text's letters."""

    max_seq_length = 256

    class device:  # noqa: N801 - as torch calls it
        type = "cpu"

    tokenizer = QuickTokenizer()

    def encode(self, texts, **_):
        rows = [random.Random(text) for text in texts]
        vectors = np.array([[row.gauss() for _ in range(384)] for row in rows], np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def be_quick(models: Path) -> None:
    """Lets whole encoders of this folder be the quick one, for the rest of this process."""
    from llm_serving import encoder

    load, quick = encoder._load, QuickEncoder()

    def load_or_pretend(found):
        return quick if models in found.path.resolve().parents else load(found)

    encoder._load = load_or_pretend


def be_undisturbed() -> None:
    """Takes away what hypothesis hangs into this process, which a time limit would interrupt."""
    gc.callbacks.clear()


def limit_resources() -> None:
    """Keeps whatever a case makes of memory off the rest of the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run_inside(case: Case, captured: Captured) -> Ending:
    """Runs a case in this process, in its main thread."""
    from llm_planning.cli import main

    captured.clear()
    late, raised, code = False, "", None

    def too_late(*_: object) -> None:
        nonlocal late
        late = True
        raise TimeLimit

    before = signal.signal(signal.SIGALRM, too_late)
    begun = time.monotonic()
    with _surroundings(case), forgotten():
        try:
            # Again and again: what swallows the first one is stopped by another.
            signal.setitimer(signal.ITIMER_REAL, case.limit, 2.0)
            code = main(case.arguments)
        except TimeLimit:
            pass
        except BaseException as error:
            lines = "".join(traceback.format_exception(error)).splitlines()
            raised = "\n".join([repr(error), *lines[-_TRACEBACK_LINES:]])
        finally:
            with suppress(TimeLimit):
                signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
    seconds = time.monotonic() - begun
    _end_children()
    if any(".py" in word for word in case.arguments):
        gc.collect()  # what a user's code left unheard is told now, not in a later case
    out, err = captured.read()
    if raised and not late:
        code = -1
    return Ending(None if late else code, out, err, seconds, "" if late else raised)


def _end_children() -> None:
    """Ends the processes that a case began, as the end of its own process would.

    One that is still starting would miss the folder of its case, and say so in a later case.
    """
    from llm_planning.worker_processes import end_workers

    if children := multiprocessing.active_children():
        for child in children:
            child.kill()
            child.join()
        end_workers()


@contextmanager
def _surroundings(case: Case):
    from typer import completion

    before, here = dict(os.environ), os.getcwd()
    os.environ.update(case.environment)
    for name in case.unset:
        os.environ.pop(name, None)
    os.chdir(case.place.here)
    tempfile.tempdir = None
    # Typer asks which shell started the process: here that is whoever started the tests.
    detect, completion._get_shell_name = completion._get_shell_name, lambda: "bash"
    try:
        yield
    finally:
        completion._get_shell_name = detect
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)
        tempfile.tempdir = None


PROGRAM = (sys.executable, "-m", "llm_planning.cli")


def run_process(case: Case, program: Sequence[str] = PROGRAM) -> Ending:
    """Runs a case as a process of its own, with its streams and signals."""
    place = case.place
    files = {name: place.root.with_name(f"{place.root.name}.{name}") for name in ("out", "err")}
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        **case.environment,
    }
    for name in case.unset:
        environment.pop(name, None)
    words = [*program, *case.arguments]
    if case.shell:
        words = ["sh", "-c", case.shell, "sh", *words]
    begun = time.monotonic()
    with files["out"].open("wb") as out, files["err"].open("wb") as err:
        process = subprocess.Popen(
            words,
            cwd=place.here,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            code = _awaited(process, case)
        finally:
            seconds = time.monotonic() - begun
            stray = _end_group(process)
    texts = {name: path.read_bytes() for name, path in files.items()}
    for path in files.values():
        path.unlink()
    raised = "processes that outlive the command" if stray and code is not None else ""
    return Ending(code, texts["out"], texts["err"], seconds, raised)


def _awaited(process: subprocess.Popen, case: Case) -> int | None:
    deadline = time.monotonic() + case.limit
    for after, number in case.signals:
        with suppress(subprocess.TimeoutExpired):
            process.wait(after)
        if process.poll() is None:
            process.send_signal(number)
    try:
        return process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _end_group(process: subprocess.Popen) -> bool:
    """Ends what is left of a process and those that it started; whether any had outlived it."""
    ended = process.poll() is not None
    # Helpers of the program need a moment to notice that it is gone.
    for _ in range(20 if ended else 0):
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return ended


def make_goods(ground, captured: Captured) -> None:
    """Makes the good files that commands make."""
    from .cases import good_case, loads_encoder
    from .folders import make_answers
    from .ground import MADE_GOODS

    for name, lines in MADE_GOODS.items():
        place = ground.place(name, random.Random(0))
        for line in lines:
            case = good_case(place, line)
            # A process closes its caches at the end; the encoder takes too long to load in one.
            ending = run_inside(case, captured) if loads_encoder(line) else run_process(case)
            if ending.code != 0:
                raise AssertionError(f"`{line}` makes no good {name}: {ending}")
        if name == "filled":
            for shared in ("models", "games"):
                (place.cache / shared).unlink()
            shutil.move(place.cache, ground.goods / name)
            make_answers(ground.goods / name / "responses-2.sqlite")  # no model answers here
        else:
            shutil.move(place.here / name, ground.goods / name)
        place.remove()
