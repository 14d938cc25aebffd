"""A quick share of the cases; that the tables are complete; that the judge sees what it should."""

import sys
from random import Random

import pytest

from .cases import inside, processes
from .commands import CALLS, LASTING, UnknownKindError, commands, kind_of, read_call
from .ending import Ending, faults, left_behind, tree_of
from .formats import FORMATS
from .ground import Ground
from .inside import run_process
from .running import Runner
from .tricks import Case
from .values import KINDS


@pytest.mark.slow
def test_a_share_of_the_cases():
    within, alone = 150, 5
    failed, met = [], []

    def note(verdict):
        met.append(verdict)
        if verdict.faults:
            failed.append(verdict.text())

    with Runner() as runner:
        specs = [*inside(within, seed=0, slow=False), *processes(alone, seed=0)]
        runner.run(specs, note)
    assert len(met) == within + alone
    assert not failed, "\n\n".join(failed)
    codes = {verdict.ending.code for verdict in met}
    assert {0, 1, 2} <= codes


def test_every_command_has_a_good_call_and_every_parameter_a_kind():
    called = {read_call(line).command for line in CALLS}
    assert called == set(commands()) - LASTING
    for known in commands().values():
        assert {parameter.kind for parameter in known} <= KINDS.keys()


def test_a_parameter_without_a_kind_is_told():
    assert kind_of("run", "new_option", bool) == "flag"
    assert kind_of("run", "new_option", int | None) == "count"
    with pytest.raises(UnknownKindError, match="'new_option' of `run`: name its kind"):
        kind_of("run", "new_option", str)


def test_formats_have_names_of_their_own_and_known_commands():
    assert len({form.name for form in FORMATS}) == len(FORMATS)
    for form in FORMATS:
        for line in form.calls:
            assert "{}" in line or form.in_cache or form.inside or "story" in line
            assert read_call(line.replace("{}", "x")).command in commands()


def test_cases_are_the_same_for_the_same_seed():
    drawn = inside(2_000, seed=3)
    assert inside(2_000, seed=3) == drawn
    assert inside(100, seed=3) != inside(100, seed=4)
    assert len({spec.name for spec in drawn}) > 1_960
    assert {spec.family for spec in processes(100, seed=3)} >= {"signal", "stream", "value"}


def ended(code=0, out=b"", err=b"", seconds=0.1, raised=""):
    return Ending(code, out, err, seconds, raised)


@pytest.mark.parametrize(
    "ending",
    [
        ended(),
        ended(out=b"a\n\tb\n"),
        ended(code=2, err=b"error: no such thing\n"),
        ended(code=1, err=b"note: no\nerror: no\n"),
        ended(code=130, err=b"interrupted\n"),
    ],
)
def test_good_endings(ending):
    assert faults(ending) == []


@pytest.mark.parametrize(
    ("ending", "fault"),
    [
        (ended(code=None, seconds=20.0), "still running"),
        (ended(code=3, err=b"error: x\n"), "exit code 3"),
        (ended(code=70, err=b"error: x (this is a bug)\n"), "exit code 70"),
        (ended(code=-11), "exit code -11"),
        (ended(seconds=21.0), "took 21.0 s"),
        (
            ended(code=1, err=b"Traceback (most recent call last):\n  x\n"),
            "a traceback on standard err",
        ),
        (ended(out=b"Traceback (most recent call last):\n"), "a traceback on standard out"),
        (ended(out=b"\x1b[2J"), "control characters on standard output"),
        (ended(out=b"a\rb"), "control characters on standard output"),
        (ended(code=1, err=b"error: \xc2\x9b31m\n"), "control characters on standard error"),
        (ended(code=1, err=b"error: \xff\n"), "standard error is not UTF-8"),
        (ended(code=2), "0 lines"),
        (ended(code=2, err=b"error: a\nerror: b\n"), "2 lines"),
        (ended(code=2, err=b"no such thing\n"), "does not begin"),
        (ended(code=2, err=b"error: \n"), "does not begin"),
        (ended(code=130, err=b"interrupted\nagain\n"), "2 lines"),
        (ended(err=b"error: a\n"), "exit code 0"),
        (ended(raised="KeyError()"), "raised KeyError"),
    ],
)
def test_bad_endings(ending, fault):
    assert any(fault in found for found in faults(ending))


PROGRAMS = {
    "print('fine')": "",
    "1/0": "a traceback on standard error",
    "while True: pass": "still running",
    "open('sentinel.txt', 'w')": "changed: here/sentinel.txt",
    "import os; os.remove('sentinel.txt')": "removed: here/sentinel.txt",
    "open('left', 'w')": "left behind: here/left",
    "open('out.csv', 'w')": "",
    "open('out.csv', 'w'); import sys; sys.exit('error: no')": "left behind: here/out.csv",
    "open('out.csv.part', 'w')": "unfinished: here/out.csv.part",
    "import os; open(os.environ['LLM_PLANNING_CACHE'] + '/kept', 'w')": "",
    "import os; open(os.environ['LLM_PLANNING_CACHE'] + '/.x.part', 'w')": "unfinished: cache/.x",
    "import tempfile; tempfile.mkstemp()": "left behind: tmp/",
    "print('\\x1b[31mred')": "control characters",
    "import subprocess; subprocess.Popen(['sleep', '60'])": "processes that outlive the command",
}


@pytest.mark.parametrize(("program", "fault"), PROGRAMS.items())
def test_judged_processes(program, fault, tmp_path):
    place = Ground(tmp_path).place("case", Random(0))
    limit = 1.0 if "while" in program else 20.0
    case = Case([], place, place.environment, writes={"here/out.csv"}, limit=limit)
    before = tree_of(place.root)
    ending = run_process(case, (sys.executable, "-c", program))
    found = faults(ending) + left_behind(
        before,
        tree_of(place.root),
        code=ending.code,
        writes=case.writes,
        caches=case.caches,
        root=place.root,
        logs=False,
    )
    assert bool(found) == bool(fault)
    assert fault in "\n".join(found)
    place.remove()
