"""Sweeps on a real local Ray: pools, load, losses, errors."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import psutil
import pytest
from planted import ran
from ray_pools import opened, ray_variables, stubbed, until
from served_models import ONE_OPTION

from llm_planning.experiments.executors import Answers, Models, RayExecutor, open_pool
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.ray_cluster import Node, RayPoolError, connect, place
from llm_planning.experiments.ray_pool import RayPool
from llm_planning.experiments.scheduler import run_sweep
from llm_planning.experiments.sweep_files import Trust
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import find_config
from llm_planning.own_code import OwnCodeError
from llm_planning.roles import Engines
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError, UnknownModelError
from llm_serving.scripted import ScriptedEngine

ray = pytest.importorskip("ray", reason="Ray is optional: pip install 'llm-planning[ray]'")
# Workers cannot import this module: what they need of it travels with its pickle.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@contextlib.contextmanager
def scripted(*, delay):
    """A worker's recipe: planners run, answers come from a script after `delay` seconds."""
    engine = ScriptedEngine({"decompose": ONE_OPTION}, delay=lambda _: delay)
    yield LocalPool(Engines(engine), most=4)


@contextlib.contextmanager
def refusing():
    raise UnknownModelError("there is no model 'smolm'")
    yield


def trial_of(seed=0, *, task="milk-a-cow"):
    return Trial(planner="cot", domain="minecraft", task=task, model="scripted", seed=seed)


def task_of(words, seed=0):
    return trial_of(seed, task=words)


# What a cluster has room for.


def test_a_gpu_takes_one_worker():
    nodes = (Node(cpus=16, gpus=2), Node(cpus=64, gpus=0), Node(cpus=8, gpus=1))
    assert place(nodes, workers=None, cpus_per_worker=4) == (3, {"num_gpus": 1, "num_cpus": 0})
    assert place(nodes, workers=2, cpus_per_worker=4)[0] == 2
    with pytest.raises(RayPoolError, match="workers=4: the Ray cluster has 3 GPUs"):
        place(nodes, workers=4, cpus_per_worker=4)


def test_without_gpus_cpu_slots_are_grouped_within_a_machine():
    nodes = (Node(cpus=7, gpus=0), Node(cpus=3, gpus=0))
    assert place(nodes, workers=None, cpus_per_worker=3) == (3, {"num_cpus": 3})
    assert place(nodes, workers=None, cpus_per_worker=16) == (1, {"num_cpus": 7})
    with pytest.raises(RayPoolError, match="ask for at most 3"):
        place(nodes, workers=4, cpus_per_worker=3)
    with pytest.raises(RayPoolError, match="neither a GPU nor a CPU slot"):
        place((), workers=None, cpus_per_worker=3)


# Getting to Ray.


async def test_without_ray_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RayPoolError, match=r"pip install 'llm-planning\[ray\]'"):
        await RayPool.open(recipe=refusing, notify=print)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address": "somewhere"}, "write auto, ray://host:port or host:port"),
        ({"address": "ray://127.0.0.1"}, "write auto, ray://host:port or host:port"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster answers"),
        ({"address": "ray://127.0.0.1:99999"}, "no Ray cluster answers"),
        ({"workers": 0}, "workers=0 is not possible"),
        ({"cpus_per_worker": 0}, "cpus_per_worker=0 is not possible"),
    ],
)
async def test_an_impossible_wish_is_refused_at_once(monkeypatch, options, message):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    begun = time.monotonic()
    with pytest.raises(RayPoolError, match=message):
        await RayPool.open(recipe=refusing, notify=print, **options)
    assert time.monotonic() - begun < 20


def test_a_ray_that_listens_elsewhere_is_not_used(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeManagerAddress": "192.0.2.2"}])
    before = ray_variables()
    with pytest.raises(RayPoolError, match=r"it listens on 192\.0\.2\.2, where others could"):
        connect(None, cpus=1)
    assert ray_variables() == before


def test_a_ray_that_was_imported_as_an_open_one_is_not_started():
    program = "import ray; from llm_planning.experiments import ray_cluster as cluster; "
    program += "cluster.connect(None, cpus=1)"
    given = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    tried = subprocess.run(
        [sys.executable, "-c", program], env=given, capture_output=True, text=True, check=False
    )
    assert "RayPoolError: Ray was imported before, perhaps by vLLM" in tried.stderr
    assert "set RAY_AUTH_MODE=token and RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0" in tried.stderr


async def test_a_second_connection_is_refused(local_ray):
    with pytest.raises(RayPoolError, match="connected to Ray already"):
        await RayPool.open(recipe=refusing, notify=print, address="auto")


async def test_engines_that_cannot_be_opened_end_the_pool(local_ray):
    messages = []
    with pytest.raises(RayPoolError, match="UnknownModelError: there is no model 'smolm'"):
        await RayPool.open(recipe=refusing, notify=messages.append, workers=2, cpus_per_worker=1)
    assert len(messages) == 1
    assert "the sweep goes on without it" in messages[0]


async def test_workers_work_here_and_import_nothing_from_here(local_ray, hostile, monkeypatch):
    look = ray.remote(lambda: (os.listdir(), sys.path, os.environ["PYTHONSAFEPATH"]))
    found, searched, safe = await look.remote()
    assert found == []
    assert not {str(hostile), ""} & set(searched)
    assert safe == "1"
    monkeypatch.chdir(hostile)
    # A worker is an object of this project's: its process imports the package.
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, _):
        result = await pool.run(task_of("nap 0"))
    assert result.metrics["folder"] == str(hostile)
    assert ran(hostile) == []


# Sweeps.


async def test_a_worker_is_killed_and_no_trial_is_lost_or_double(local_ray, tmp_path):
    trials = [trial_of(seed) for seed in range(80)]
    sweep = {"name": "s", "trials": [trial.to_json() for trial in trials]}
    killed = []

    def watch(progress):
        if progress.done >= 15 and not killed:
            killed.append(pool.reports[0].pid)
            os.kill(killed[0], signal.SIGKILL)

    with Ledger.create(tmp_path / "sweep", sweep, {}) as ledger:
        async with opened(partial(scripted, delay=0.1)) as (pool, messages):
            assert pool.limit == 8
            pids = {report.pid for report in pool.reports}
            progress = await run_sweep(trials, pool=pool, ledger=ledger, retries=0, watch=watch)
            await until(lambda: len(pool.reports) == 2)
            assert killed[0] in pids
            assert {report.pid for report in pool.reports} != pids
        rows = list(ledger.rows())
    assert [row.result.trial.seed for row in rows] == list(range(80))
    assert {row.result.status for row in rows} == {"done"}
    assert {row.result.plan for row in rows} == {("mine 3 oak_log",)}
    assert progress.done == 80
    assert 1 <= progress.lost <= 8
    assert len(messages) == 1
    assert "was lost, another is starting: The actor is dead because" in messages[0]


async def test_trials_go_where_there_is_room(local_ray, tmp_path):
    limits = [tmp_path / "three", tmp_path / "one"]
    for path, limit in zip(limits, ("3", "1"), strict=True):
        path.write_text(limit)
    async with opened(partial(stubbed, limits=limits)) as (pool, _):
        assert pool.limit == 4
        trials = [task_of("nap 0.5", seed) for seed in range(8)]
        results = await asyncio.gather(*map(pool.run, trials))
        by_worker = Counter(result.metrics["pid"] for result in results)
        assert sorted(by_worker.values()) == [2, 6]
        assert [result.trial for result in results] == trials


async def test_a_lost_engine_is_replaced_and_what_it_did_still_counts(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, messages):
        await pool.run(task_of("nap 0"))
        before = pool.reports[0].pid
        await until(lambda: pool.load() == PoolLoad(written_tokens=1))
        with pytest.raises(WorkerLostError, match=rf"process {before} on .*: the GPU fell off"):
            await pool.run(task_of("stop"))
        assert pool.limit == 1
        result = await pool.run(task_of("nap 0"))  # waits for the next worker
        assert result.metrics["pid"] != before
        await until(lambda: pool.load() == PoolLoad(written_tokens=2))
        assert not psutil.pid_exists(before)
        assert len(messages) == 1


async def test_a_worker_whose_replacements_die_too_is_given_up(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1, replacements=1) as (pool, messages):
        for _ in range(2):
            with pytest.raises(WorkerLostError, match="worker process has died"):
                await pool.run(task_of("die"))
        with pytest.raises(EngineStoppedError, match="no worker is left: worker 1 was lost 2"):
            await pool.run(task_of("nap 0"))
        assert len(messages) == 1


async def test_what_a_trial_does_to_itself_costs_no_worker(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, messages):
        with pytest.raises(WorkerLostError, match="the simulator died"):
            await pool.run(task_of("lose"))
        failed = await pool.run(task_of("unsendable"))
        assert failed.status == "failed"
        assert failed.error.startswith("the worker could not return the result: TypeError: ")
        assert not messages
        assert len(pool.reports) == 1


async def test_a_cancelled_trial_ends_on_its_worker(local_ray, tmp_path):
    path = tmp_path / "state"
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, _):
        running = asyncio.ensure_future(pool.run(task_of(f"cancelled {path}")))
        await until(lambda: path.exists() and path.read_text() == "begun")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: path.read_text() == "cancelled")
        assert (await pool.run(task_of("nap 0"))).status == "done"


async def test_a_closed_pool_runs_nothing(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, messages):
        running = asyncio.ensure_future(pool.run(task_of("nap 60")))
        await asyncio.sleep(0.1)
        (report,) = pool.reports
        await pool.aclose()
        with pytest.raises(EngineStoppedError, match="the pool is closed"):
            await running
        with pytest.raises(EngineStoppedError, match="the pool is closed"):
            await pool.run(task_of("nap 0"))
        await until(lambda: not psutil.pid_exists(report.pid))
        assert ray.is_initialized()
        assert not messages


OWN = """
from llm_planning import Domain, Outcome, planner


class Here(Domain[int, str]):
    goal = "stay"
    start = describe = actions = step = None


@planner("stay")
async def stay(run):
    return Outcome(success=True, plan=(run.world.goal,), metrics={}, trace={}, text="")
"""


async def test_own_code_runs_on_workers_as_it_was_when_the_sweep_was_read(
    local_ray, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    sweep = {"model": "none", "planners": "own.py:stay", "domain": "own.py:Here", "tasks": "all"}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    (trial,) = load_sweep(tmp_path / "sweep.yaml", trust=Trust.of(["."])).trials
    executor = RayExecutor(answers=Answers.FRESH, notify=print, workers=1, cpus_per_worker=1)
    with executor.open(Models.of(trial)) as opening:
        pool = await opening()
        try:
            result = await pool.run(trial)
            assert (result.status, result.plan, result.error) == ("done", ("stay",), None)
            with pytest.raises(OwnCodeError, match=r"own\.py is not what it was when the s"):
                await pool.run(replace(trial, source="edited"))
        finally:
            await pool.aclose()


async def test_smoke_one_worker_with_the_real_engine(local_ray):
    models = Models((("smollm2-135m-instruct", find_config("smollm2-135m-instruct")),))
    recipe = partial(open_pool, models, answers=Answers.FRESH, most=2)
    trials = [
        Trial(
            planner="cot",
            domain="minecraft",
            task="milk-a-cow",
            model="smollm2-135m-instruct",
            seed=seed,
            settings={"d": 1},
        )
        for seed in range(2)
    ]
    async with opened(recipe, workers=1, cpus=2) as (pool, messages):
        results = await asyncio.gather(*map(pool.run, trials))
        assert [result.error for result in results] == [None, None]
        assert all(result.usage["decompose"].completion_tokens > 0 for result in results)
        await until(lambda: pool.load().written_tokens > 0)
        assert pool.load().stepping_seconds > 0
        # A busy machine may load engines for longer than it takes to say so.
        assert not [line for line in messages if not line.startswith("no worker runs yet")]
