"""What foreign files hold reaches the terminal as text: no escapes, no markup, nothing hidden."""

import contextlib
import io
import json
import logging
import re
import sys
from contextlib import closing
from dataclasses import asdict, replace

import numpy as np
import pytest
from command_line import invoke
from report_ledgers import result_of, trial_of, write_ledger

from llm_base import terminal
from llm_base.terminal import LineHandler, SafeConsole, progress
from llm_kernels import EmbeddingIndex
from llm_planning import watching
from llm_planning.experiments.display import Display
from llm_planning.experiments.pool import PoolLoad
from llm_planning.experiments.scheduler import Progress
from llm_serving.models import resolve
from llm_serving.request import Completion, ModelIdentity, Usage
from llm_serving.stores import EncoderIdentity, ResponseCache, VectorCache

EVIL = "a\x1b]0;t\x07\x1b[2J\x9b1m\u202e[/x][link=http://y]b[/link] :smile:"
HARMLESS = r"a\x1b]0;t\x07\x1b[2J\x9b1m\u202e[/x][link=http://y]b[/link] :smile:"


@pytest.fixture(autouse=True)
def wide(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))


def harmless(text):
    """A text without the orders of Rich's own, which must hold no other."""
    text = re.sub(r"\x1b\[[0-9;?]*[mhlAKG]", "", text)
    assert all(c.isprintable() or c in "\n\r" for c in text), ascii(text)
    return text


def printed(*arguments, code=0):
    ended = invoke(*arguments)
    assert ended.exit_code == code, ended.output
    assert "\x1b" not in ended.output
    return harmless(ended.output)


@pytest.fixture
def ledger(tmp_path):
    trials = [trial_of("too", d=2, mode=EVIL), trial_of("too", d=3, mode="b")]
    results = [
        replace(result_of(trials[0], failed=True), error=f"ValueError: {EVIL}"),
        result_of(trials[1]),
    ]
    return write_ledger(tmp_path / "swept", results)


def test_errors_and_settings_of_a_ledger(ledger):
    assert HARMLESS in printed("sweep", "status", ledger)
    assert HARMLESS in printed("sweep", "report", ledger, "--by", "mode")
    assert json.loads(printed("sweep", "status", ledger, "--json"))["errors"] == {
        f"ValueError: {EVIL}": 1
    }
    printed("report", "paper", "too", "table2", "--from", ledger)
    assert HARMLESS in printed("sweep", "report", ledger, "--by", EVIL, code=2)


def test_keys_and_metadata_of_an_index(tmp_path):
    index = EmbeddingIndex(3, metadata={"encoder": {"name": EVIL, "revision": EVIL}})
    index.add([EVIL], np.eye(3)[:1])
    index.save(tmp_path / "index")
    assert HARMLESS in printed("index", "search", tmp_path / "index", "sofa", code=1)


@pytest.fixture(scope="module")
def encoder():
    return resolve("all-minilm-l6-v2")


def test_matches_of_an_index(encoder, tmp_path):
    known = EncoderIdentity("all-minilm-l6-v2", encoder.revision)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "models").symlink_to(encoder.path.parent)
    # What was searched before needs no model.
    with closing(VectorCache(tmp_path / "cache" / "vectors-2.sqlite")) as vectors:
        vectors.put(known, {EVIL: np.eye(384, dtype=np.float32)[0]})
    index = EmbeddingIndex(384, metadata={"encoder": asdict(known)})
    index.add([f"{EVIL}\n", "b"], np.eye(384)[:2])
    index.save(tmp_path / "index")
    lines = printed("index", "search", tmp_path / "index", EVIL)
    assert lines.count(HARMLESS) == 2
    assert len(lines.splitlines()) == 3


def test_names_in_the_caches(tmp_path):
    answers = ResponseCache(tmp_path / "cache" / "responses-2.sqlite")
    answer = Completion(text="", token_ids=(), finish="stop", usage=Usage(calls=1))
    answers.put(bytes(32), answer, ModelIdentity(name=EVIL, revision=EVIL, dtype=EVIL))
    answers.close()
    vectors = VectorCache(tmp_path / "cache" / "vectors-2.sqlite")
    vectors.put(EncoderIdentity(EVIL, EVIL), {"x": np.eye(384, dtype=np.float32)[0]})
    vectors.close()
    lines = printed("cache", "show")
    assert lines.count(HARMLESS) >= 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", EVIL),
        ("sweep", "run", EVIL),
        ("report", "paper", EVIL),
        (EVIL,),
        ("run", f"--{EVIL}"),
    ],
)
def test_what_is_typed(arguments):
    assert r"\x1b]0;t" in printed(*arguments, code=2).replace("\\\\", "\\")


def test_names_of_planners_that_packages_announce(tmp_path, monkeypatch):
    (tmp_path / "their.dist-info").mkdir()
    (tmp_path / "their.dist-info" / "METADATA").write_text("Name: their\nVersion: 1\n")
    (tmp_path / "their.dist-info" / "entry_points.txt").write_text(
        "[llm_planning.planners]\nstroll = their_strolls:stroll\nlost = their_strolls:lost\n"
    )
    (tmp_path / "their_strolls.py").write_text(
        "from llm_planning import planner\n"
        f"@planner('theirs', summary={EVIL!r})\n"
        "async def stroll(run): pass\n"
        f"def __getattr__(name): raise RuntimeError({EVIL!r})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    ended = invoke("run", "--list")
    assert HARMLESS in harmless(ended.stdout)
    assert HARMLESS in harmless(ended.stderr)


def test_the_name_of_a_sweep_that_runs():
    out = io.StringIO()
    load = PoolLoad(
        running=1, waiting=0, written_tokens=1, prompt_tokens=1, cached_tokens=0, preempted=0
    )
    with Display(SafeConsole(file=out, force_terminal=True, width=300), name=EVIL) as shows:
        shows(Progress(total=2, kept=0, done=1, failed=0, running=1, load=load))
    assert HARMLESS in harmless(out.getvalue())


def test_signs_of_life_and_bars(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    out = Terminal()
    with SafeConsole(file=out, force_terminal=True, width=300).waiting(EVIL):
        pass
    assert HARMLESS in harmless(out.getvalue())
    drawn = Terminal()
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setenv("TERM", "xterm")
    with progress() as bars:
        bars.add_task(EVIL, total=1)
        bars.refresh()
    assert r"a\x1b]0;t" in harmless(drawn.getvalue())
    assert "[/x][link=" in drawn.getvalue()


def test_long_work_is_silent_where_no_terminal_is():
    out = io.StringIO()
    with SafeConsole(file=out, width=300).waiting("loading") as work:
        work.update(EVIL)
    assert out.getvalue() == ""


def test_a_run_says_on_a_terminal_how_far_it_is(monkeypatch):
    lines = []
    monkeypatch.setattr(terminal.Waiting, "update", lambda _, line: lines.append(line))
    monkeypatch.setattr(watching, "EVERY", 0.005)
    where = ("--task", "trap-door", "--set", "moves=2", "--model", "none")
    ended = invoke("run", "mc-dml-puct", *where)
    assert (ended.exit_code, ended.stderr) == (0, "")
    assert any(re.match(r"planning: simulation \d+, 0 calls, 0 tokens", line) for line in lines)
    assert any(re.match(r"planning: \d+ actions? taken, ", line) for line in lines)


def test_what_is_logged():
    err = io.StringIO()
    log = logging.Logger("theirs")
    log.addHandler(LineHandler())
    with contextlib.redirect_stderr(err):
        log.warning("lost %s\nand found", EVIL)
        try:
            raise ValueError(EVIL)
        except ValueError:
            log.exception("again")
        log.warning("%d", EVIL)
        log.warning("lost %s\nand found", EVIL)
    first, second, third = harmless(err.getvalue()).splitlines()
    assert first == f"note: lost {HARMLESS} and found"
    assert second == f"note: again: ValueError: {HARMLESS}"
    assert third == "note: %d"
