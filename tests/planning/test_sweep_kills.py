"""A sweep that is killed at random moments loses nothing and repeats nothing."""

import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import pytest
from killing import Child, apart, in_memory

from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.experiments import scheduler
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.trial import Trial
from llm_planning.registry import find_planner
from llm_planning.roles import Engines
from llm_planning.trace_file import summary_of
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
    return {"name": "killed", "retries": RETRIES, "trials": [trial.to_json() for trial in listed]}


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


def run(folder, sweep, report):
    """Runs the sweep from wherever it is; says so for every trial that is recorded."""
    begun = (folder / LEDGER_FILE).exists()
    ledger = Ledger.resume(folder, {}) if begun else Ledger.create(folder, sweep, {})
    known = 0

    def watch(progress):
        nonlocal known
        here = progress.done + progress.failed
        report(here - known)
        known = here

    async def main():
        return await scheduler.run_sweep(
            [Trial(**trial) for trial in sweep["trials"]],
            pool=LocalPool(engines_of, most=4),
            ledger=ledger,
            retries=RETRIES,
            watch=watch,
        )

    with ledger:
        asyncio.run(main())


def content(folder):
    """What a ledger holds, and whether each row stands once and has its trace."""
    with Ledger.open(folder) as ledger:
        rows = list(ledger.rows())
        return {
            "rows": len(rows),
            "keys": len({row.result.trial.key for row in rows}),
            "failed": sum(row.result.status == "failed" for row in rows),
            "attempts": sorted({(row.result.status, row.attempts) for row in rows}),
            "traces": sum(bool(summary_of(ledger.read_events(row))) for row in rows),
            "files": len(list((folder / "traces").iterdir())),
            "plans": len({row.result.plan for row in rows}),
            "digest": ledger.content_digest(),
        }


def kill_and_compare(place, trials, kills, seed):
    """Kills a sweep at moments spread over its length; what it and an undisturbed one came to."""
    scheduler.RETRY_AFTER = 0.02
    killed, whole = Path(place) / "killed", Path(place) / "whole"
    sweep, draw = sweep_of(trials), random.Random(seed)
    run(Path(place) / "first", sweep_of(1), lambda _: None)  # imports what every fork would
    for kill in range(kills):
        child = Child(lambda report: run(killed, sweep, report))
        if draw.random() < 0.2:
            time.sleep(draw.uniform(0, 0.08))  # while the ledger is made or opened
        else:
            child.hear(draw.randint(1, int(0.8 * trials / (kills + 1))))
            time.sleep(draw.uniform(0, 0.008))  # anywhere within a record
        struck, _ = child.kill()
        assert struck, f"the sweep was over after {kill} of {kills} kills"
    with Ledger.open(killed) as ledger:
        left = trials - len(ledger.finished())
    _, resumed = Child(lambda report: run(killed, sweep, report)).end()
    assert Child(lambda report: run(whole, sweep, report)).end() == (False, trials)
    heavy = sorted({"torch", "vllm", "transformers"} & set(sys.modules))
    return content(killed), content(whole), left, resumed, heavy


@pytest.mark.kills
def test_trials_are_done_once_however_often_they_are_killed():
    trials, kills = 200, 10
    with tempfile.TemporaryDirectory(dir=in_memory()) as place:
        killed, whole, left, resumed, heavy = apart(kill_and_compare, place, trials, kills, 1)
    assert heavy == []
    # The last run had some trials left, and ran no others.
    assert 0 < left == resumed < trials
    assert killed["rows"] == killed["keys"] == killed["traces"] == killed["files"] == trials
    assert killed["attempts"] == [["done", 1], ["failed", 2]]
    assert killed["plans"] > min(100, trials / 4)
    assert trials / 20 < killed["failed"] < trials * 3 / 20
    assert killed == whole
