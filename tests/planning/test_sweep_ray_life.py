"""The life of a Ray that is started here: who else reaches it, and what it leaves behind."""

import contextlib
import ipaddress
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil
import pytest
from ray_pools import opened, ray_folder, stubbed

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.ray_cluster import Node

ray = pytest.importorskip("ray", reason="Ray is optional: pip install 'llm-planning[ray]'")

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
        addresses = set(ask_family(listening))
        used = set(ask_family(written))
    names = {psutil.Process().name(), "gcs_server", "raylet", "ray::Worker"}
    assert names <= {name for name, _ in addresses}
    assert [entry for entry in addresses if not entry[1].is_loopback] == []
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

    token = os.environ["RAY_AUTH_TOKEN"]
    assert not any(token in word for word in ask_family(psutil.Process.cmdline))
    with insecure_channel(ray.get_runtime_context().gcs_address) as channel:
        nodes = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetAllNodeInfo")
        assert nodes(b"", metadata=[("authorization", f"Bearer {token}")], timeout=10)
        for metadata in (None, [("authorization", f"Bearer {token[::-1]}")]):
            with pytest.raises(RpcError) as refused:
                nodes(b"", metadata=metadata, timeout=10)
            assert refused.value.code() is StatusCode.UNAUTHENTICATED


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
        recipe=recipe, notify=print, address=address or None, workers=1, cpus_per_worker=1
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
    processes = {}
    for process in psutil.process_iter(["pid", "name"]):
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == session and process.pid != session:
                processes[process.pid] = process.info["name"]
    return processes


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
    # A worker that was just starting sees a moment later that its Ray is gone.
    end = time.monotonic() + 5
    while left_over(interrupted.pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert left_over(interrupted.pid) == {}
    assert sorted(path.name for path in folder.iterdir()) == ["done", "sweep"]
    with Ledger.open(folder / "sweep") as ledger:
        assert len(list(ledger.rows())) >= 8
    killed.wait()
    end = time.monotonic() + 20
    while left_over(killed.pid).keys() - agents and time.monotonic() < end:
        time.sleep(0.1)
    assert left_over(killed.pid).keys() <= agents


def test_a_cluster_that_runs_is_used_and_left_as_it_was(local_ray, drive):
    address = ray.get_runtime_context().gcs_address
    process, folder = drive(address=address, trials=30, victim="yes")
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert len(output.splitlines()) == 1
    assert output.startswith("worker 1 was lost, another is starting: ")
    with Ledger.open(folder / "sweep") as ledger:
        assert [row.result.trial.seed for row in ledger.rows()] == list(range(30))
    assert local_ray.nodes() == (Node(cpus=2, gpus=0),)
    assert sorted(path.name for path in folder.iterdir()) == ["done", "sweep"]
