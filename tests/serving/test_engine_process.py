"""An engine core in a process of its own: who takes one, what ends it, and what it leaves.

That it answers as one in this process does, `test_vllm_engine` holds.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from llm_serving import vllm_process
from llm_serving.config import EngineConfig
from llm_serving.vllm_adapter import VllmCore
from llm_serving.vllm_process import ProcessCore, core_class, remember_check

SCRIPT = Path(__file__).parent / "runners" / "apart.py"
MODEL = "smollm2-135m-instruct"


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A GPU, as torch names it, and an empty cache."""
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vllm_process, "on_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda number: f"card {number % 2}")


def core_of(*, beside=(), **options):
    return core_class(EngineConfig.model_construct(model=MODEL, **options), beside=beside)


@pytest.mark.parametrize("asked", [True, False])
def test_who_asks_for_a_process_gets_it_everywhere(card, asked):
    expected = ProcessCore if asked else VllmCore
    assert core_of(process=asked) is expected
    assert core_of(process=asked, beside=("another",), devices=(0, 1)) is expected


def test_auto_takes_a_process_on_a_gpu_that_was_checked_for_an_engine_that_is_alone(
    card, monkeypatch
):
    assert core_of() is VllmCore, "not checked yet"
    remember_check(passed=True)
    assert core_of() is ProcessCore
    assert core_of(devices=(2,)) is ProcessCore, "the same card once more"
    assert core_of(devices=(1,)) is VllmCore, "another card"
    assert core_of(devices=(0, 2)) is VllmCore
    assert core_of(beside=("another model",)) is VllmCore
    with monkeypatch.context() as patch:
        patch.setattr(vllm_process, "installed_version", lambda: (0, 26))
        assert core_of() is VllmCore, "another vLLM"
        remember_check(passed=True)
        assert core_of() is ProcessCore
    remember_check(passed=False)
    assert core_of() is VllmCore, "it has failed since"
    with monkeypatch.context() as patch:
        patch.setattr(vllm_process, "installed_version", lambda: (0, 26))
        assert core_of() is ProcessCore, "what others found stays"


@pytest.mark.parametrize("damage", ["", "{", "3", "[1, null]"])
def test_a_record_that_is_damaged_says_nothing(card, tmp_path, damage):
    remember_check(passed=True)
    (record,) = (tmp_path / "cache").iterdir()
    record.write_text(damage)
    assert core_of() is VllmCore
    remember_check(passed=True)
    assert core_of() is ProcessCore


def test_auto_stays_in_this_process_on_a_cpu(card, monkeypatch):
    remember_check(passed=True)
    monkeypatch.setattr(vllm_process, "on_gpu", lambda: False)
    assert core_of() is VllmCore


def ended(process):
    """Whether a process is gone within two minutes: nobody may have asked for its end yet."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_script_opens_fails_works_on_after_ctrl_c_and_is_killed(tmp_path):
    """Without a guard for `__main__`; neither of its cores, nor their folders, outlive it."""
    with subprocess.Popen(
        [sys.executable, SCRIPT, tmp_path / "model"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as script:
        try:

            def told(name):
                line = script.stdout.readline()
                assert line, script.stderr.read()[-5000:]
                said, *values = json.loads(line)
                assert said == name
                return values

            told("begun")  # once: no core begins this script anew
            kind, reason, left = told("refused")
            assert (kind, left) == ("KvCacheMemoryError", 0)
            assert "kv_cache_gib" in reason
            assert "No available memory for the cache blocks" in reason
            first, folder = told("open")
            assert any(Path(folder).iterdir())
            told("working")
            os.killpg(script.pid, signal.SIGINT)
            assert told("after Ctrl-C") == [1]
            assert told("closed") == [0]
            assert ended(first)
            assert not Path(folder).exists()
            second, folder, gap = told("open again")
            assert gap < 1e-4, "with an adapter"
            script.kill()
            assert ended(second)
            assert not Path(folder).exists()
            assert "Traceback" not in script.stderr.read()
        finally:
            script.kill()
