"""A sweep that is killed again and again: run as a script, in a process of its own.

The process imports everything once and forks a child for each run of the sweep. It kills the child
with SIGKILL, forks the next one, which resumes, and at last compares the ledger with that of a
sweep that nobody disturbed. It prints what it saw as one JSON object.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import llm_planning.experiments.scheduler as scheduler_module
from llm_planning.environments.minecraft.tasks import TASKS
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.trial import Trial
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_serving.errors import ServingError
from llm_serving.scripted import ScriptedEngine

PLANNER, RETRIES = "cot", 1
BLOCKS = ("oak_log", "cobblestone", "coal_ore", "iron_ore", "sand", "clay")


def sweep_of(trials):
    """So many short trials, tasks taking turns."""
    tasks = tuple(TASKS)
    settings = find_planner(PLANNER).settings.read({"d": 2}).to_json()
    listed = [
        Trial(
            planner=PLANNER,
            domain="minecraft",
            task=tasks[number % len(tasks)],
            model="scripted",
            seed=number // len(tasks),
            settings=settings,
        )
        for number in range(trials)
    ]
    return {"name": "killed", "retries": RETRIES, "trials": [one.to_json() for one in listed]}


def engines_of(trial):
    """Answers, or an error for one trial in eleven, that depend on the trial; after 0 to 2 ms."""
    number = int(trial.key[:8], 16)

    def answer(_):
        if number % 11 == 0:
            raise ServingError(f"no answer to {number}")
        option = {"verb": "mine", "quantity": 1 + number % 64, "item": BLOCKS[number % 6]}
        options = [{"reasoning": f"r{number}", **option}] * (1 + number % 2)
        return json.dumps({"options": options}, separators=(",", ":"))

    return Engines(ScriptedEngine(answer, delay=lambda _: number % 3 / 1000))


def run(folder, sweep, told):
    """Runs the sweep from wherever it is; writes a byte for every trial that is recorded."""
    begun = (folder / LEDGER_FILE).exists()
    ledger = Ledger.resume(folder, {}) if begun else Ledger.create(folder, sweep, {})
    known = 0

    def watch(progress):
        nonlocal known
        here = progress.done + progress.failed
        os.write(told, b"." * (here - known))
        known = here

    async def main():
        return await scheduler_module.run_sweep(
            [Trial(**trial) for trial in sweep["trials"]],
            pool=LocalPool(engines_of, most=16),
            ledger=ledger,
            retries=RETRIES,
            watch=watch,
        )

    with ledger:
        asyncio.run(main())


def fork(folder, sweep):
    """A child that runs the sweep; returns its id and where it writes."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(heard)
            run(folder, sweep, told)
            code = 0
        finally:
            os._exit(code)
    os.close(told)
    return child, heard


def hear(heard, count):
    """Waits for so many bytes; returns how many came before the end."""
    came = 0
    while came < count:
        some = os.read(heard, count - came)
        if not some:
            break
        came += len(some)
    return came


def kill_again_and_again(folder, sweep, kills, draw):
    """Kills the sweep at moments spread over its length; returns how often it was running."""
    pace = len(sweep["trials"]) / (kills + 1)
    struck = 0
    while struck < kills:
        child, heard = fork(folder, sweep)
        if draw.random() < 0.2:
            time.sleep(draw.uniform(0, 0.08))  # while the ledger is made or opened
        else:
            hear(heard, draw.randint(1, int(1.2 * pace)))
            time.sleep(draw.uniform(0, 0.008))  # anywhere within a record
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.close(heard)
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"the sweep was over after {struck} of {kills} kills")
        struck += 1
    return struck


def finish(folder, sweep):
    """Runs the sweep to its end."""
    child, heard = fork(folder, sweep)
    came = hear(heard, len(sweep["trials"]) + 1)
    _, status = os.waitpid(child, 0)
    os.close(heard)
    if status != 0:
        raise SystemExit("the sweep failed")
    return came


def content(folder):
    """What a ledger holds, and whether each row stands once and has its trace."""
    with Ledger.open(folder) as ledger:
        rows = list(ledger.rows())
        return {
            "rows": len(rows),
            "keys": len({row.result.trial.key for row in rows}),
            "failed": sum(row.result.status == "failed" for row in rows),
            "attempts": sorted({(row.result.status, row.attempts) for row in rows}),
            "traces": sum(bool(ledger.read_trace(row)) for row in rows),
            "files": len(list((folder / "traces").iterdir())),
            "plans": len({row.result.plan for row in rows}),
            "digest": ledger.content_digest(),
        }


def main(folder, trials, kills, seed):
    """Kills one sweep and not the other."""
    scheduler_module.RETRY_AFTER = 0.02
    sweep, draw = sweep_of(trials), random.Random(seed)
    struck = kill_again_and_again(folder / "killed", sweep, kills, draw)
    with Ledger.open(folder / "killed") as ledger:
        left = trials - len(ledger.finished())
    resumed = finish(folder / "killed", sweep)
    finish(folder / "whole", sweep)
    seen = {"kills": struck, "left": left, "resumed": resumed}
    seen |= {name: content(folder / name) for name in ("killed", "whole")}
    seen["heavy"] = sorted({"torch", "vllm", "transformers"} & set(sys.modules))
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
