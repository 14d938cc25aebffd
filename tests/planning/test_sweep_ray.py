"""Sweeps on a real local Ray: load, losses, errors, and nothing left behind."""

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from planted import plant, ran

from llm_planning.experiments.executors import Answers, Models, RayExecutor, open_pool
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.ray_cluster import Node, RayPoolError, connect, place
from llm_planning.experiments.ray_pool import RayPool
from llm_planning.experiments.scheduler import run_sweep
from llm_planning.experiments.sweep_files import Trust
from llm_planning.experiments.trial import Trial, TrialResult
from llm_planning.model_configs import find_config
from llm_planning.own_code import OwnCodeError
from llm_planning.roles import Engines
from llm_planning.worker_processes import WorkerLostError
from llm_serving.errors import EngineStoppedError, UnknownModelError
from llm_serving.scripted import ScriptedEngine

ray = pytest.importorskip("ray", reason="Ray is optional: pip install 'llm-planning[ray]'")
# Workers cannot import this module: what they need of it travels with its pickle.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])

ANSWER = json.dumps(
    {"options": [{"reasoning": "r", "verb": "mine", "quantity": 3, "item": "oak_log"}]},
    separators=(",", ":"),
)


@contextlib.contextmanager
def scripted(*, delay):
    """A worker's recipe: planners run, answers come from a script after `delay` seconds."""
    engine = ScriptedEngine({"decompose": lambda _: ANSWER}, delay=lambda _: delay)
    yield LocalPool(Engines(engine), most=4)


async def cancelled(path):
    """Writes down that it is waiting, and that its waiting was cancelled."""
    try:
        path.write_text("begun")
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        path.write_text("cancelled")
        raise


class StubPool:
    """Does what a trial's task says, on the worker."""

    def __init__(self, limit):
        self.limit = limit
        self.running = self.done = 0

    def load(self):
        return PoolLoad(running=self.running, written_tokens=self.done)

    async def run(self, trial):
        self.running += 1
        metrics = {"pid": os.getpid()}
        try:
            match trial.task.split(" "):
                case ["die"]:
                    os.kill(os.getpid(), signal.SIGKILL)
                case ["stop"]:
                    raise EngineStoppedError("the GPU fell off")
                case ["lose"]:
                    raise WorkerLostError("the simulator died")
                case ["unsendable"]:
                    metrics["lock"] = asyncio.get_running_loop()
                case ["nap", seconds]:
                    await asyncio.sleep(float(seconds))
                case ["cancelled", path]:
                    await cancelled(Path(path))
        finally:
            self.running -= 1
        self.done += 1
        return TrialResult(
            trial=trial, status="done", metrics=metrics, usage={}, started=0.0, seconds=0.0
        )

    async def aclose(self):
        pass


@contextlib.contextmanager
def stubbed(*, limits):
    """A recipe whose limit is the first of some files that no worker has taken yet."""
    for path in limits:
        with contextlib.suppress(FileNotFoundError):
            limit = int(path.read_text())
            path.unlink()
            yield StubPool(limit)
            return
    yield StubPool(2)


@contextlib.contextmanager
def refusing():
    raise UnknownModelError("there is no model 'smolm'")
    yield


def trial_of(seed=0, *, task="milk-a-cow"):
    return Trial(planner="cot", domain="minecraft", task=task, model="scripted", seed=seed)


def task_of(words, seed=0):
    return trial_of(seed, task=words)


async def until(condition, seconds=20.0):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - what it waits for is in other processes
            await asyncio.sleep(0.02)


def told_ray():
    """What the environment of this process says to Ray."""
    return {name: value for name, value in os.environ.items() if name.startswith("RAY_")}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The working directory of the Ray of these tests."""
    return plant(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="module")
def local_ray(hostile):
    """One Ray for all tests here; pools use the connection that they find."""
    before = told_ray()
    with contextlib.chdir(hostile):
        cluster = connect(None, cpus=2)
    folder = ray_folder()
    yield cluster
    cluster.close()
    assert not folder.exists()
    assert ran(hostile) == []
    assert told_ray() == before


def ray_folder():
    """The one around everything that the Ray on this machine keeps in files."""
    (node,) = ray.nodes()
    return Path(node["ObjectStoreSocketName"]).parents[3]


@contextlib.asynccontextmanager
async def opened(recipe, *, workers=2, cpus=1, **options):
    """A pool on this module's Ray, and what it told."""
    told = []
    pool = await RayPool.open(
        recipe=recipe, tell=told.append, workers=workers, cpus_per_worker=cpus, **options
    )
    try:
        await until(lambda: len(pool.reports) == workers)
        yield pool, told
    finally:
        await pool.aclose()


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
        await RayPool.open(recipe=refusing, tell=print)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"address": "somewhere"}, "write auto, ray://host:port or host:port"),
        ({"address": "ray://127.0.0.1"}, "write auto, ray://host:port or host:port"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster answers"),
        ({"address": "ray://127.0.0.1:99999"}, "no Ray cluster answers"),
        ({"workers": 0}, "workers=0 is not possible"),
        ({"cpus_per_worker": 0}, "cpus_per_worker=0 is not possible"),
    ],
)
async def test_an_impossible_wish_is_refused_at_once(monkeypatch, options, says):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    begun = time.monotonic()
    with pytest.raises(RayPoolError, match=says):
        await RayPool.open(recipe=refusing, tell=print, **options)
    assert time.monotonic() - begun < 6


def test_a_ray_that_listens_elsewhere_is_not_used(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeManagerAddress": "192.0.2.2"}])
    before = told_ray()
    with pytest.raises(RayPoolError, match=r"it listens on 192\.0\.2\.2, where others could"):
        connect(None, cpus=1)
    assert told_ray() == before


async def test_a_second_connection_is_refused(local_ray):
    with pytest.raises(RayPoolError, match="connected to Ray already"):
        await RayPool.open(recipe=refusing, tell=print, address="auto")


async def test_engines_that_cannot_be_opened_end_the_pool(local_ray):
    told = []
    with pytest.raises(RayPoolError, match="UnknownModelError: there is no model 'smolm'"):
        await RayPool.open(recipe=refusing, tell=told.append, workers=2, cpus_per_worker=1)
    assert len(told) == 1
    assert "the sweep goes on without it" in told[0]


async def test_workers_import_nothing_from_the_working_directory(local_ray, hostile):
    look = ray.remote(lambda: (os.getcwd(), sys.path, os.environ["PYTHONSAFEPATH"]))
    folder, searched, safe = await look.remote()
    assert folder == str(hostile)
    assert not {folder, ""} & set(searched)
    assert safe == "1"
    # A worker is an object of this project's: its process imports the package.
    async with opened(partial(stubbed, limits=()), workers=1):
        assert ran(hostile) == []


# Who else gets to a Ray that was started here.


def ask_family(question):
    """What the processes of this module's Ray, this one among them, answer while they live."""
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield from question(process)


def listening(process):
    """A process's name with each address where it waits for TCP connections or UDP packets."""
    for connection in process.net_connections("inet"):
        if connection.status in {psutil.CONN_LISTEN, psutil.CONN_NONE}:
            address = ipaddress.ip_address(connection.laddr.ip)
            yield process.name(), getattr(address, "ipv4_mapped", None) or address


def written(process):
    """The files that a process has open for writing, and its sockets that have a path."""
    if process.pid == os.getpid():  # whose output goes where the tests' does
        return
    for file in process.open_files():
        if file.mode != "r":
            yield Path(file.path)
    for connection in process.net_connections("unix"):
        if connection.laddr:
            yield Path(connection.laddr)


def open_to_others(path):
    """Whether another user gets as far as the folder of a file."""
    return all(folder.stat().st_mode & 0o001 for folder in path.parents)


async def test_only_this_machine_and_this_user_reach_a_local_ray(local_ray):
    folder = ray_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    async with opened(partial(stubbed, limits=()), workers=1):
        found = set(ask_family(listening))
        used = set(ask_family(written))
    names = {psutil.Process().name(), "gcs_server", "raylet", "ray::Worker"}
    assert names <= {name for name, _ in found}
    assert [entry for entry in found if not entry[1].is_loopback] == []
    assert {"plasma_store", "raylet", "raylet.out"} <= {path.name for path in used}
    assert [path for path in used if path.exists() and open_to_others(path)] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_somebody_else_sees_nothing_of_a_local_ray(local_ray):
    command = ["ls", ray_folder() / "ray"]
    mine = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "session_latest" in mine.stdout
    nobody = {"user": 65534, "group": 65534, "extra_groups": ()}
    theirs = subprocess.run(command, capture_output=True, text=True, check=False, **nobody)
    assert theirs.returncode != 0
    assert "Permission denied" in theirs.stderr


def test_a_local_ray_answers_only_who_has_its_token(local_ray):
    from grpc import RpcError, StatusCode, insecure_channel

    path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    token = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not any(token in word for word in ask_family(psutil.Process.cmdline))
    with insecure_channel(ray.get_runtime_context().gcs_address) as channel:
        nodes = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
        assert nodes(b"", metadata=[("authorization", f"Bearer {token}")], timeout=10)
        for metadata in (None, [("authorization", f"Bearer {token[::-1]}")]):
            with pytest.raises(RpcError) as refused:
                nodes(b"", metadata=metadata, timeout=10)
            assert refused.value.code() is StatusCode.UNAUTHENTICATED


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
        async with opened(partial(scripted, delay=0.1)) as (pool, told):
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
    assert len(told) == 1
    assert "was lost, another is starting: The actor is dead because" in told[0]


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
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, told):
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
        assert len(told) == 1


async def test_a_worker_whose_replacements_die_too_is_given_up(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1, replacements=1) as (pool, told):
        for _ in range(2):
            with pytest.raises(WorkerLostError, match="worker process has died"):
                await pool.run(task_of("die"))
        with pytest.raises(EngineStoppedError, match="no worker is left: worker 1 was lost 2"):
            await pool.run(task_of("nap 0"))
        assert len(told) == 1


async def test_what_a_trial_does_to_itself_costs_no_worker(local_ray):
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, told):
        with pytest.raises(WorkerLostError, match="the simulator died"):
            await pool.run(task_of("lose"))
        failed = await pool.run(task_of("unsendable"))
        assert failed.status == "failed"
        assert failed.error.startswith("the worker could not return the result: TypeError: ")
        assert not told
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
    async with opened(partial(stubbed, limits=()), workers=1) as (pool, told):
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
        assert not told


# The whole command's life, in a process of its own.

DRIVER = """
import asyncio, contextlib, json, os, pathlib, signal, sys, tempfile

from llm_planning.experiments.local_pool import LocalPool
from llm_planning.experiments.ray_pool import RayPool
from llm_planning.experiments.scheduler import run_sweep
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.executors import RayExecutor
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.trial import Trial
from llm_planning.own_code import OwnCodeError
from llm_planning.roles import Engines
from llm_serving.scripted import ScriptedEngine

folder, address, trials, victim = sys.argv[1:]
tempfile.tempdir = folder


@contextlib.contextmanager
def recipe():
    option = {"reasoning": "r", "verb": "mine", "quantity": 3, "item": "oak_log"}
    answer = json.dumps({"options": [option]}, separators=(",", ":"))
    engine = ScriptedEngine({"decompose": lambda _: answer}, delay=lambda _: 0.1)
    yield LocalPool(Engines(engine), most=4)


async def main():
    pool = await RayPool.open(
        recipe=recipe, tell=print, address=address or None, workers=1, cpus_per_worker=1
    )
    sweep = [
        Trial(planner="cot", domain="minecraft", task="milk-a-cow", model="m", seed=seed)
        for seed in range(int(trials))
    ]
    content = {"trials": [trial.to_json() for trial in sweep]}

    def watch(progress):
        global victim
        (pathlib.Path(folder) / "done").write_text(str(progress.done))
        if victim and progress.done > 4:
            os.kill(pool.reports[0].pid, signal.SIGKILL)
            victim = ""

    try:
        with Ledger.create(pathlib.Path(folder) / "sweep", content, {}) as ledger:
            await run_sweep(sweep, pool=pool, ledger=ledger, retries=0, watch=watch)
    finally:
        await pool.aclose()


default, environment = signal.getsignal(signal.SIGTERM), dict(os.environ)
try:
    asyncio.run(main())
except KeyboardInterrupt:
    print("interrupted")
assert signal.getsignal(signal.SIGTERM) is default
# What Ray sets by itself and leaves, unless a test before this one has set it already.
left = {"RAY_CLIENT_MODE": "", "PYTHONBREAKPOINT": ""}
assert {**os.environ, **left} == {**environment, **left}
"""


@pytest.fixture
def drive(tmp_path):
    """Starts a driver in a process group of its own and sees to its end."""
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    drivers = []

    def start(*, address="", trials, victim=""):
        folder = Path(tempfile.mkdtemp(prefix="lp-"))  # short, for the sockets in it
        command = [sys.executable, script, folder, address, str(trials), victim]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            cwd=tmp_path,
        )
        drivers.append((process, folder))
        return process, folder

    yield start
    for process, folder in drivers:
        if process.poll() is None:
            process.kill()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def progressed(process, folder, *, done):
    """Waits until a driver has so many results."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        with contextlib.suppress(OSError, ValueError):
            if int((folder / "done").read_text()) >= done:
                return
        time.sleep(0.05)
    pytest.fail("the driver does not get on")


def left_over(session):
    """Processes of a session that are not its leader, by name."""
    found = {}
    for process in psutil.process_iter(["pid", "name"]):
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == session and process.pid != session:
                found[process.pid] = process.info["name"]
    return found


def test_however_a_driver_ends_its_rows_stay_and_its_ray_goes(drive):
    interrupted, folder = drive(trials=1000)
    killed, other = drive(trials=1000)
    progressed(interrupted, folder, done=8)
    progressed(killed, other, done=8)
    running = left_over(killed.pid)
    assert {"raylet", "gcs_server", "ray::Worker"} <= set(running.values())
    # Small processes that look for the others for a minute before they end too.
    agents = {pid for pid, name in running.items() if name.endswith("Agent")}
    killed.kill()
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does
    output, _ = interrupted.communicate(timeout=60)
    assert output == "interrupted\n"
    assert interrupted.returncode == 0
    assert left_over(interrupted.pid) == {}
    assert sorted(path.name for path in folder.iterdir()) == ["done", "sweep"]
    with Ledger.open(folder / "sweep") as ledger:
        assert len(list(ledger.rows())) >= 8
    killed.wait()
    end = time.monotonic() + 20
    while left_over(killed.pid).keys() - agents and time.monotonic() < end:
        time.sleep(0.1)
    assert left_over(killed.pid).keys() <= agents


def test_a_cluster_that_runs_is_used_and_left_as_it_was(local_ray, drive, monkeypatch):
    address = ray.get_runtime_context().gcs_address
    # Without it, Ray would look for the cluster at this machine's address in the network.
    monkeypatch.setenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    process, folder = drive(address=address, trials=30, victim="yes")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(output.splitlines()) == 1
    assert output.startswith("worker 1 was lost, another is starting: ")
    with Ledger.open(folder / "sweep") as ledger:
        assert [row.result.trial.seed for row in ledger.rows()] == list(range(30))
    assert local_ray.nodes() == (Node(cpus=2, gpus=0),)
    assert sorted(path.name for path in folder.iterdir()) == ["done", "sweep"]


OWN = """
from llm_planning import Domain, Outcome, planner


class Here(Domain[int, str]):
    goal = "stay"
    start = describe = actions = step = None


@planner("stay")
async def stay(problem, *, engines, settings, seed):
    return Outcome(success=True, plan=(problem.world.goal,), metrics={}, trace={}, text="")
"""


async def test_own_code_runs_on_workers_as_it_was_when_the_sweep_was_read(
    local_ray, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    sweep = {"model": "none", "planners": "own.py:stay", "domain": "own.py:Here", "tasks": "all"}
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    (trial,) = load_sweep(tmp_path / "sweep.yaml", trust=Trust.of(["."])).trials
    executor = RayExecutor(answers=Answers.FRESH, tell=print, workers=1, cpus_per_worker=1)
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
    async with opened(recipe, workers=1, cpus=2) as (pool, told):
        results = await asyncio.gather(*map(pool.run, trials))
        assert [result.error for result in results] == [None, None]
        assert all(result.usage["decompose"].completion_tokens > 0 for result in results)
        await until(lambda: pool.load().written_tokens > 0)
        assert pool.load().stepping_seconds > 0
        assert not told
