"""The live page's server: who may ask it, what it shows, and that it writes nothing."""

import hashlib
import json
import signal
import socket
from dataclasses import replace

import pytest
from command_line import invoke, refused
from report_ledgers import PROVENANCE, result_of, trial_of, write_ledger
from viewer_servers import serving
from viewer_sweeps import HOSTILE, several_worlds

from llm_planning.commands import view_sweep
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.progress_file import ProgressFile
from llm_planning.experiments.scheduler import Progress
from llm_planning.experiments.statistics import proportion
from llm_planning.viewer import live_data
from llm_planning.viewer.live_data import LiveSweep

PENDING = trial_of("too", task="minecraft-task", seed=99)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live") / "sweep"
    odd = replace(result_of(trial_of(HOSTILE, seed=7), failed=True), started=1_800_000_000.0)
    return write_ledger(folder, [*several_worlds(), odd], pending=[PENDING])


@pytest.fixture(scope="module")
def server(folder):
    with serving(folder) as running:
        assert running.url == f"http://127.0.0.1:{running.port}/"
        assert running.ask("/").status == 200
        yield running


@pytest.mark.parametrize(
    "host",
    ["example.com", "example.com:80", "127.0.0.1", "127.0.0.1:1", "[::1]", "a.localhost", ""],
)
def test_another_hosts_name_does_not_lead_here(server, host):
    for path in ("/", "/state.json", f"/trials/{'0' * 64}.html"):
        answer = server.ask(path, host=host)
        assert answer.status in {400, 421}
        assert b"by-hand" not in answer.body


def test_this_machines_names_do(server):
    for host in (f"127.0.0.1:{server.port}", f"LOCALHOST:{server.port}"):
        assert server.ask("/state.json", host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_sent(server, method):
    for path in ("/", "/state.json"):
        assert server.ask(path, method=method, Origin="https://example.com").status == 405


def test_no_other_page_may_read_it(server):
    for path in ("/", "/state.json", "/trials/x.html", "/favicon.ico"):
        headers = server.ask(path, Origin="https://example.com").headers
        assert not [name for name in headers if name.startswith("access-control")]
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
    page = server.ask("/").body.decode()
    assert "connect-src &#x27;self&#x27;" in page
    assert "unsafe" not in page.partition("</head>")[0].partition("<style>")[0]


def test_it_listens_on_one_address(server):
    with socket.socket() as asking:
        asking.settimeout(5)
        with pytest.raises(ConnectionRefusedError):
            asking.connect(("127.0.0.2", server.port))


def test_pages_of_trials_are_made_when_asked_for(server):
    newest = server.ask("/state.json").json["newest"]
    traced = next(trial for trial in newest if trial["traced"])
    answer = server.ask(f"/trials/{traced['key']}.html")
    assert answer.status == 200
    assert answer.body.startswith(b"<!doctype html>")
    untraced = next(trial for trial in newest if not trial["traced"])
    for key in (
        untraced["key"],
        "0" * 64,
        "../ledger",
        "..%2f..%2fetc%2fpasswd",
        "%00",
        "x" * 5000,
    ):
        assert server.ask(f"/trials/{key}.html").status in {400, 404}


def test_the_state_is_that_of_the_ledger(server):
    state = server.ask("/state.json").json
    assert (state["total"], state["done"], state["failed"]) == (38, 36, 1)
    too = next(
        group
        for group in state["groups"]
        if (group["planner"], group["domain"]) == ("too", "minecraft")
    )
    estimate = proportion(5, 6)
    assert (too["won"], too["judged"]) == (5, 6)
    assert (too["value"], too["low"], too["high"]) == (estimate.value, estimate.low, estimate.high)
    assert state["newest"][0]["planner"] == HOSTILE
    assert state["errors"] == [["ValueError: no", 1]]
    assert state["process"] == {"state": "absent"}
    assert state["wait"] >= 2.0


def test_it_writes_nothing(folder, server):
    def digests():
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*")
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        }

    before = digests()
    for _ in range(3):
        server.ask("/state.json")
    assert digests() == before


def test_it_follows_the_sweep(tmp_path):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=2), pending=[PENDING])
    with Ledger.open(folder) as reading:
        live = LiveSweep(reading)
        before = live.read()
        with Ledger.resume(folder, PROVENANCE) as writing, ProgressFile(folder) as file:
            writing.record(result_of(PENDING, success=True), attempt=1, final=True)
            file(Progress(total=13, done=5, running=3, seconds=10.0))
            after = live.read()
    assert (before["done"], after["done"], after["total"]) == (12, 13, 13)
    assert after["newest"][0]["key"] == PENDING.key
    assert after["process"]["state"] == "running"
    assert after["process"]["running"] == 3
    assert after["process"]["left"] == 16.0


def test_what_could_not_be_read_once_is_read_again(tmp_path, monkeypatch):
    with Ledger.open(write_ledger(tmp_path / "sweep", several_worlds(seeds=1))) as ledger:
        live, new_rows = LiveSweep(ledger), ledger.new_rows

        def broken(places):
            yield next(new_rows(places))
            raise LedgerError("locked")

        monkeypatch.setattr(ledger, "new_rows", broken)
        with pytest.raises(LedgerError):
            live.read()
        monkeypatch.undo()
        state = live.read()
        assert state["done"] == state["total"] > 1


def test_a_process_that_was_killed_is_not_said_to_run(tmp_path, monkeypatch):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=1), pending=[PENDING])
    with Ledger.open(folder) as ledger, ProgressFile(folder) as file:
        file(Progress(total=7))
        live = LiveSweep(ledger)
        assert live.read()["process"]["state"] == "running"
        now = live_data.time.time()
        monkeypatch.setattr(live_data.time, "time", lambda: now + 3600)
        assert live.read()["process"]["state"] == "silent"
        (folder / "progress.json").write_text("{")
        assert "progress.json cannot be read" in live.read()["process"]["said"]


def test_the_rate_is_over_the_time_that_the_sweep_ran(tmp_path):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=6))
    with Ledger.open(folder) as ledger:
        rate = LiveSweep(ledger).read()["rate"]
    # From the first start to the last end; the sweep is over.
    assert (rate["span"], rate["over"]) == (60.0, 7.0)
    assert sum(rate["counts"]) == 36
    assert rate["counts"][-1] == 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it(folder, number):
    with serving(folder, "--json") as running:
        running.url = json.loads(running.url)["url"]
        assert running.ask("/").status == 200
        code, errors = running.end(number)
    assert code == 130
    assert errors.splitlines() == [
        "note: browsers of this machine can open it; Ctrl-C ends the page",
        "interrupted",
    ]


def test_the_help_says_who_can_open_it():
    helped = " ".join(invoke("view", "--help").stdout.split())
    assert "at a link that every browser of this machine can open, until Ctrl-C" in helped


def test_what_cannot_be_shown_is_refused(folder, tmp_path, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(view_sweep.os, "nice", lambda _: None)
        line = refused("view", folder, "--live", "--port", port)
    assert f"--port {port} cannot be used (Address already in use): name another" in line
    assert "there is no ledger" in refused("view", tmp_path, "--live", code=1)
    monkeypatch.setattr(view_sweep, "find_spec", lambda name: None)
    assert "pip install 'llm-planning[viewer]'" in refused("view", folder, "--live")
