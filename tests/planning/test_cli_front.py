"""`llm-planning` as a process: how fast it helps, and how it ends whatever happens to it."""

import asyncio
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from command_line import invoke, refused

import llm_serving.models
from llm_planning import endings
from llm_planning.commands.app import app
from llm_planning.experiments import sweep_files
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.sweep_files import find_sweep, packaged_sweeps
from llm_planning.interrupts import was_interrupted
from llm_serving.cache_file import CacheError

COMMAND = (sys.executable, "-m", "llm_planning.cli")
QUICK = ("minecraft", "requirements", "torch", "--json")


def shell(script, *arguments, **environment):
    """Runs the command, "$@", in a shell, which knows closed, full and broken streams."""
    return subprocess.run(
        ["bash", "-c", script, "bash", *COMMAND, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=120,
    )


def helps():
    """Every command that has a help, as its words."""
    commands = [()]
    for words in commands:
        command = typer.main.get_command(app)
        for word in words:
            command = command.commands[word]
        commands += [(*words, name) for name in getattr(command, "commands", ())]
    return commands


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("sweep", "run")], ids=" ".join)
def test_help_takes_half_a_second_of_a_core(words):
    # The least of up to ten: whatever else a machine does takes time, and never gives any.
    least = math.inf
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*COMMAND, *words, "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        assert b"Usage: llm-planning" in done.stdout
        least = min(least, spent)
        if least <= 0.5:
            break
    assert least <= 0.5


def test_no_help_imports_what_only_work_needs():
    heavy = {"numpy", "torch", "vllm", "transformers", "jinja2", "yaml", "sqlite3", "scipy"}
    heavy |= {"pydantic", "rich", "importlib.metadata", "secrets"}
    code = (
        "import contextlib, io, sys\nfrom llm_planning.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    codes = {{main([*words, '--help']) for words in {helps()}}}\n"
        f"print(codes, {heavy} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{0} set()"
    assert len(helps()) > 20


def test_the_package_is_the_command():
    arguments = [sys.executable, "-m", "llm_planning", "minecraft", "requirements", "torhc"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: unknown item 'torhc'; did you mean torch")


def test_the_package_gives_its_names_when_they_are_asked_for():
    code = (
        "import sys, llm_planning\n"
        "before = [name for name in sys.modules if name.startswith('llm_planning.')]\n"
        "from llm_planning import *\n"
        "print(before, sorted(set(llm_planning.__all__) - set(globals())), plan.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] [] llm_planning.running"


# --- what the command line says ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing command (see llm-planning --help)"),
        (("sweep",), "missing command (see llm-planning sweep --help)"),
        (("rnu",), "no such command 'rnu'"),
        (("run", "\x1b[31mtoo\nmany"), "unknown planner"),
        (("run", "--sed", "1"), "no such option: --sed"),
        (("run", "--seed"), "'--seed' requires an argument"),
        (("run", "too", "--seed", "-1"), "invalid value for '--seed'"),
        (("run", "too", "--seed", str(2**70)), "invalid value for '--seed'"),
        (("models", "path"), "missing argument 'NAME'"),
        (("index", "build", "x"), "missing option '--out'"),
        (("cache", "clear", "--only", "all"), "invalid value for '--only'"),
        (("index", "search", "x", "y", "-k", str(2**70)), "invalid value for '-k'"),
        (("sweep", "run", "x", "--samples", "-1"), "invalid value for '--samples'"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_one_line(arguments, message):
    assert message in refused(*arguments)


def test_the_exit_codes_are_told():
    helped = " ".join(invoke("--help").stdout.split())
    for code in ("0 done", "1 a file", "2 the command line", "70 a bug", "130 interrupted"):
        assert code in helped


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (endings.UsageError("no"), 2, "error: no"),
        (PermissionError(13, "Permission denied", "a/b"), 1, "error: a/b: Permission denied"),
        (OSError("odd"), 1, "error: OSError: odd"),
        (MemoryError(), 1, "error: out of memory"),
        (RecursionError("too deep"), 1, "error: RecursionError: too deep"),
        (ModuleNotFoundError("No module named 'ray'"), 1, "No module named 'ray'"),
        (ValueError("a\nb\x1b[2J"), 70, r"error: ValueError: a b\x1b[2J (this is a bug; "),
        (KeyboardInterrupt(), 130, "interrupted"),
        (CacheError("no room"), 1, "error: no room, or run with `--no-cache`"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_is_one_line(monkeypatch, error, code, message):
    def fail(_):
        raise error

    monkeypatch.setattr(llm_serving.models, "locate", fail)
    ended = invoke("models", "list")
    assert (ended.exit_code, ended.stdout) == (code, "")
    (line,) = ended.stderr.splitlines()
    assert message in line
    if code not in {2, 130}:
        monkeypatch.setenv(endings.TRACEBACK, "1")
        errors = invoke("models", "list").stderr
        assert "Traceback" in errors
        assert errors.endswith(f"{line}\n")
        assert "\x1b" not in errors


# --- standard streams ----------------------------------------------------------------------------

printing = pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [(QUICK, ""), (QUICK, "1"), (("--help",), "1"), (QUICK[:-1], "")],
    ids=["json", "json-unbuffered", "help-unbuffered", "table"],
)


@printing
def test_a_full_disk_under_standard_output_is_one_line(arguments, unbuffered):
    done = shell('"$@" > /dev/full', *arguments, PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 1
    message = "error: standard output cannot be written: No space left on device"
    assert done.stderr.splitlines() == [message]


@printing
def test_a_reader_that_left_is_no_news(arguments, unbuffered):
    done = shell('"$@" | true; exit ${PIPESTATUS[0]}', *arguments, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=["latin-1", "C"],
)
def test_characters_that_an_encoding_lacks_are_escapes(environment):
    done = shell('"$@"', "run", "too", "--list", **environment)
    assert (done.returncode, done.stderr) == (0, "")
    done = shell('"$@"', "minecraft", "requirements", "雪", **environment)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert r"\u" in line or r"\x" in line


# --- Ctrl-C --------------------------------------------------------------------------------------

READY = (
    "import os, sys\nfrom llm_planning.cli import main\nos.write(2, b'ready\\n')\nsys.exit(main())"
)


@pytest.mark.parametrize("delay", [0.01, 0.1, 0.3, 0.6, 1.0])
def test_ctrl_c_while_modules_are_imported_ends_it(delay):
    arguments = [sys.executable, "-c", READY, "run", "--list"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    # It may be faster, or be ending: then Python has put the system's own handler back.
    was_ending = out and process.returncode == -signal.SIGINT
    assert process.returncode in {0, 130} or was_ending
    assert err in {b"", b"interrupted\n"}


def test_what_libraries_make_of_ctrl_c_is_still_that(monkeypatch):
    def swallowing(_):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("the engine died") from interrupt

    monkeypatch.setattr(llm_serving.models, "locate", swallowing)
    ended = invoke("models", "list")
    assert (ended.exit_code, ended.stderr) == (130, "interrupted\n")
    assert was_interrupted(BaseExceptionGroup("two", [ValueError(), KeyboardInterrupt()]))
    assert not was_interrupted(ValueError())


def test_a_command_runs_under_python_s_own_handler(monkeypatch):
    """Or asyncio would not cancel what it runs."""
    seen = []

    def look(_):
        seen.append(signal.getsignal(signal.SIGINT))
        asyncio.run(asyncio.sleep(0))
        return SimpleNamespace(path="here")

    monkeypatch.setattr(llm_serving.models, "locate", look)
    assert invoke("models", "list").exit_code == 0
    assert set(seen) == {signal.default_int_handler}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


LOADING = """
import os, sys, time
from llm_planning import cli, interrupts
import llm_serving.models

def swallow(_):
    with interrupts.heard_while_loading():
        while True:
            try:
                os.write(2, b'ready\\n')
                time.sleep(60)
            except KeyboardInterrupt:
                os.write(2, b'swallowed\\n')

llm_serving.models.locate = swallow
sys.exit(cli.main())
"""


def test_another_ctrl_c_ends_loading_that_swallows_the_first():
    arguments = [sys.executable, "-c", LOADING, "models", "list"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE) as process:
        assert process.stderr.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"swallowed\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130


# --- sweeps by name ------------------------------------------------------------------------------


def test_packaged_sweeps_are_found_by_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    packaged = packaged_sweeps()
    assert find_sweep("too/figure3-small") == find_sweep("figure3-small")
    papers = {"drip", "llm_mcts", "too", "mc_dml", "xenon"}
    assert {name.partition("/")[0] for name in packaged} == papers | {"matrix"}
    assert load_sweep(packaged["too/figure3-small"]).trials
    for path in packaged.values():
        assert re.search(r"^(planners|extends|grids):", path.read_text(), re.MULTILINE), path
    result = invoke("sweep", "run", "figure3-small", "--dry-run", "--json")
    assert (result.exit_code, json.loads(result.stdout)["total"]) == (0, 32)
    Path("figure3-small").write_text("planners: cot\ntasks: milk-a-cow\n")
    assert find_sweep("figure3-small") == Path("figure3-small")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("table2", "mc_dml/table2 or too/table2 or xenon/table2"),
        ("too/figure3-smal", "did you mean too/figure3"),
        ("x" * 300, "there is no such file and no such sweep"),
        (".", "is a folder"),
    ],
)
def test_a_sweep_that_is_not_there_is_one_line(tmp_path, monkeypatch, name, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused("sweep", "run", name)


def test_what_doctor_and_reports_propose_exists_outside_the_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path / "none"))
    printed = invoke("doctor").stdout + invoke("report", "paper", "too").stdout
    proposed = re.findall(r"llm-planning ([^`\n]+)", printed)
    assert any(words.startswith("models fetch") for words in proposed)
    sweeps = [words.removeprefix("sweep run ") for words in proposed if "sweep run" in words]
    assert sweeps
    assert all(os.path.isfile(sweep_files.find_sweep(name)) for name in sweeps)
