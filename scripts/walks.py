"""Counts how many files of the project a run enters, and what it loads before its first question.

    python scripts/walks.py          says it of the walks of docs/architecture.md
    python scripts/walks.py --files  also names the files, with the number of calls of each

A file is entered when one of its functions is called, but for what is called while a module loads.
Each walk has a process and caches of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from inspect import CO_OPTIMIZED
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

ROOT = Path(__file__).resolve().parents[1]
LAYERS = {
    "llm_base": ROOT / "base",
    "llm_kernels": ROOT / "kernels",
    "llm_serving": ROOT / "serving",
    "llm_planning": ROOT,
}
SWEEP = """\
name: walk
grids:
  - {planners: cot, tasks: cook-meat, model: none, settings: {roles: rules}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A part of a command.

    Attributes:
        title: as docs/architecture.md has it.
        command: what `llm-planning` is given.
        begins: tells by a call whether the part begins; the whole command is meant if this is None.
        ends: likewise.
    """

    title: str
    command: tuple[str, ...]
    begins: Callable[[FrameType], bool] | None = None
    ends: Callable[[FrameType], bool] | None = None


def _calls(frame: FrameType, file: str, name: str, **arguments: object) -> bool:
    code = frame.f_code
    if code.co_name != name or not code.co_filename.endswith(file):
        return False
    return all(frame.f_locals[key] == value for key, value in arguments.items())


_descends = partial(_calls, file="search/driver.py", name="descend")
_of_sweep = partial(_calls, file="experiments/scheduler.py")
RULES = ("--set", "roles=rules", "--model", "none")
FIRST = ("run", "too", *RULES)
WALKS = {
    "run": Walk(title="`llm-planning run too --set roles=rules --model none`", command=FIRST),
    "simulation": Walk(
        title="One simulation of MC-DML in the trap door",
        command=("run", "mc-dml", *RULES, "--task", "trap-door", "--set", "moves=1"),
        begins=partial(_descends, number=2),
        ends=partial(_descends, number=3),
    ),
    "trial": Walk(
        title="One trial of a sweep, Chain of Thought with rules",
        command=("sweep", "run", "walk.yaml", "--out", "walk"),
        begins=partial(_of_sweep, name="_run_once"),
        ends=partial(_of_sweep, name="_ended"),
    ),
}


def entered(name: str) -> dict[str, int]:
    """File -> number of calls of its functions in a walk."""
    counts: dict[str, int] = json.loads(_in_process("trace", name))
    return counts


@dataclass(frozen=True, slots=True)
class Start:
    """What a run did before its first question.

    Attributes:
        modules: names of this project's modules that were loaded.
        seconds: of CPU, since the process began.
    """

    modules: tuple[str, ...]
    seconds: float


def start() -> Start:
    """The start of the first walk."""
    modules, seconds = json.loads(_in_process("start", "run"))
    return Start(tuple(modules), seconds)


def _in_process(what: str, name: str) -> str:
    # Imported here, as a walk's own process counts what it spends.
    import subprocess
    import tempfile

    paths = os.pathsep.join(map(str, dict.fromkeys(LAYERS.values())))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "walk.yaml").write_text(SWEEP, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, __file__, "--inside", what, name],
            env={**os.environ, "PYTHONPATH": paths, "LLM_PLANNING_CACHE": folder},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{' '.join(WALKS[name].command)} fails: {done.stderr}")
    return done.stdout.splitlines()[-1]


def _trace(walk: Walk) -> None:
    """Runs a walk's command, and prints the files that it enters."""
    from llm_planning.cli import main

    folders = tuple(f"{where / layer}{os.sep}" for layer, where in LAYERS.items())
    counts: Counter[str] = Counter()
    on, over, loading = walk.begins is None, False, 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal on, over, loading
        code = frame.f_code
        if over or not code.co_filename.startswith(folders):
            return
        if code.co_name == "<module>":
            loading += {"call": 1, "return": -1}.get(event, 0)
        if event != "call" or loading:
            return
        on = on or (walk.begins is not None and walk.begins(frame))
        if on and walk.ends is not None and walk.ends(frame):
            over = True
        # The body of a class is code, too, but nobody calls it.
        elif on and code.co_flags & CO_OPTIMIZED:
            counts[code.co_filename.removeprefix(f"{ROOT}{os.sep}")] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    code = main(walk.command)
    sys.setprofile(None)
    if code or not counts or (walk.ends and not over):
        sys.exit(f"the walk has no end, or its command ends with {code}")
    print(json.dumps(counts))


def _start(walk: Walk) -> None:
    """Runs a walk's command to its first question, and prints what was loaded and spent."""
    from llm_planning.cli import main

    run = asyncio.run

    def asked(*_: object) -> None:
        seconds = time.process_time()
        modules = sorted(name for name in sys.modules if name.partition(".")[0] in LAYERS)
        print(json.dumps([modules, seconds]), flush=True)
        os._exit(0)

    def patched(*arguments: Any, **options: Any) -> object:  # noqa: ANN401 - as `asyncio.run`
        # A planner is found by then, and so are the rules that answer it.
        from llm_planning.roles.oracles import Oracle

        Oracle.__call__ = asked  # type: ignore[method-assign,assignment]
        return run(*arguments, **options)

    asyncio.run = patched
    sys.exit(main(walk.command) or "no question was asked")


def main() -> None:
    """Prints the table."""
    import argparse

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="name the files")
    options = parser.parse_args()
    first = min((start() for _ in range(3)), key=lambda walk: walk.seconds)
    print(f"to its first question: {len(first.modules)} modules, {first.seconds:.2f} s of CPU")
    for name, walk in WALKS.items():
        counts = entered(name)
        print(f"{walk.title}: {len(counts)} files, {sum(counts.values())} calls")
        if options.files:
            for file, calls in sorted(counts.items()):
                print(f"{calls:8} {file}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--inside", what, name]:
            {"trace": _trace, "start": _start}[what](WALKS[name])
        case _:
            main()
