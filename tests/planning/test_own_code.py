"""A user's own file: what a name in it means, and what it is known by."""

import asyncio
import importlib
import os
import pickle
import sys

import pytest
from command_line import refused

from llm_planning import Domain, worker_processes
from llm_planning.experiments.ray_worker import Worker
from llm_planning.own_code import OwnCodeError, code_file, describe_error, load_own, own_source
from llm_planning.registry import (
    UnknownNameError,
    find_domain,
    find_planner,
    planners,
    telling_own_lines,
)

WORLD = """
from dataclasses import dataclass
from llm_planning import Domain, planner
import helpers_of_own
from parts.sizes import LONG

@dataclass(frozen=True)
class Walk(Domain):
    steps: int = LONG

@planner("mine")
async def mine(run):
    '''Does nothing.'''

NUMBER = 3
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "sizes.py").write_text("from .units import LONG\n")
    (tmp_path / "parts" / "units.py").write_text("LONG = 5\n")
    (tmp_path / "helpers_of_own.py").write_text("import json\n")
    (tmp_path / "unrelated.py").write_text("raise SystemExit\n")
    path = tmp_path / "world.py"
    path.write_text(WORLD)
    return path


def test_names():
    assert code_file("a/b.py:Name")
    for name in ("too", "b.py", "b.py:", "b.py:1x", "b.txt:Name", ":Name"):
        assert code_file(name) is None
        assert load_own(name) is None


def test_a_domain_and_a_planner_of_a_file(file):
    domain = find_domain(f"{file}:Walk")
    assert domain.settings.read({}).to_json() == {"steps": 5}
    assert domain.source.sha256 == own_source(f"{file}:x").sha256
    spec = find_planner(f"{file}:mine")
    assert (spec.name, spec.summary) == (f"{file}:mine", "Does nothing.")
    assert spec.source == domain.source
    with pytest.raises(UnknownNameError, match="is not a domain"):
        find_domain(f"{file}:NUMBER")
    with pytest.raises(UnknownNameError, match="is not a planner"):
        find_planner(f"{file}:Walk")


@pytest.mark.parametrize(
    ("changed", "is_another"),
    [
        ("world.py", True),
        ("helpers_of_own.py", True),
        ("parts/__init__.py", True),
        ("parts/sizes.py", True),
        ("parts/units.py", True),
        ("unrelated.py", False),
    ],
)
def test_the_hash_is_of_the_file_and_of_what_it_imports_beside_it(file, changed, is_another):
    before = own_source(f"{file}:x").sha256
    path = file.parent / changed
    path.write_text(path.read_text() + "\n# changed\n")
    assert (own_source(f"{file}:x").sha256 != before) == is_another


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("def (", "cannot be read as Python"),
        ("raise OSError('no disk')", "fails: OSError: no disk"),
        ("raise SystemExit(3)", "fails: SystemExit: 3"),
        ("Wolk = 1", "did you mean Wolk"),
    ],
)
def test_a_file_that_will_not_do_is_one_line(tmp_path, content, says):
    path = tmp_path / "bad.py"
    if content is not None:
        path.write_text(content)
    with pytest.raises(OwnCodeError, match=says) as raised:
        load_own(f"{path}:Walk")
    assert "\n" not in str(raised.value)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Installs a package of a version, with entry points of these lines and this module."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(version, *, planners="", domains="", module=""):
        info = tmp_path / "their_worlds.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Name: their-worlds\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(
            f"[llm_planning.planners]\n{planners}\n[llm_planning.domains]\n{domains}\n"
        )
        (tmp_path / "their_worlds.py").write_text(module)
        importlib.invalidate_caches()

    yield install
    for name in ("their_worlds", "helpers_of_own", "parts", "parts.sizes", "parts.units"):
        sys.modules.pop(name, None)


def test_packages_announce_what_they_add(file, package):
    entries = {"planners": "stroll = their_worlds:mine", "domains": "walk = their_worlds:Walk"}
    package("1.0", **entries, module=WORLD)
    domain, spec = find_domain("walk"), find_planner("stroll")
    assert domain.settings.read({}).to_json() == {"steps": 5}
    # A trial finds it again by the name that the package announces.
    assert (spec.name, spec.summary) == ("stroll", "Does nothing.")
    assert spec.source == domain.source
    assert spec.source.origin == "their-worlds 1.0"
    assert planners.source("stroll") == spec.source
    package("1.1", **entries, module=WORLD)
    assert find_planner("stroll").source != spec.source
    assert planners.source("uct") is None
    with pytest.raises(UnknownNameError, match="did you mean walk"):
        find_domain("wolk")


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("walk = 3", "is not a {kind}: "),
        ("walk = int", "is not a {kind}: "),
        ("", "fails: AttributeError: "),
        ("1 / 0", "fails: ZeroDivisionError: "),
        ("raise SystemExit(3)", "fails: SystemExit: 3"),
    ],
)
def test_an_entry_of_a_package_that_will_not_do_is_one_line(package, module, says):
    package("1.0", planners="a = their_worlds:walk", domains="a = their_worlds:walk", module=module)
    entry = r"a \(their_worlds:walk of their-worlds 1\.0\) "
    with pytest.raises(UnknownNameError, match=entry + says.format(kind="planner")) as raised:
        find_planner("a")
    assert "\n" not in str(raised.value)
    with pytest.raises(UnknownNameError, match=entry + says.format(kind="domain")):
        find_domain("a")


def test_a_copy_of_a_planner_of_ours_is_another_planner(tmp_path):
    path = tmp_path / "copied.py"
    path.write_text(
        "from dataclasses import replace\n"
        "from llm_planning.registry import find_planner\n"
        "mine = replace(find_planner('xenon-plus-a1'), name='mine')\n"
    )
    name = f"{path}:mine"
    spec = find_planner(name)
    assert spec.name == name


def in_folders(tmp_path, **helpers):
    """A file w.py in each folder, which has a name of its helper at once and later."""
    for folder, text in helpers.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "helpers.py").write_text(text)
        (tmp_path / folder / "w.py").write_text(
            "import helpers\nNOW = helpers.NAME\n"
            "def later():\n    import helpers, deep.later\n"
            "    return helpers.NAME, deep.later.NAME\n"
        )
        (tmp_path / folder / "deep").mkdir(exist_ok=True)
        (tmp_path / folder / "deep" / "later.py").write_text("from helpers import NAME\n")


@pytest.mark.parametrize("alike", ["w.py", "helpers.py", "deep/later.py"])
def test_modules_of_one_name_in_two_folders_are_refused_by_both_names(tmp_path, alike):
    in_folders(tmp_path, a="NAME = 'a'", b="NAME = 'b'")
    kept = {"w.py", "helpers.py", "deep/later.py"} - {alike}
    for name in kept:
        path = tmp_path / "b" / name
        path.rename(path.with_name(f"b_{path.name}"))
    if alike == "deep/later.py":
        (tmp_path / "b" / "deep" / "b_later.py").write_text("")
    main = tmp_path / "b" / "b_w.py" if alike != "w.py" else tmp_path / "b" / "w.py"
    main.write_text("import helpers" if alike == "helpers.py" else "import deep.later")
    if alike == "w.py":
        main.write_text("NOW = 1")
    assert load_own(f"{tmp_path}/a/w.py:NOW")[0] == "a"
    with pytest.raises(OwnCodeError, match="rename one of them, or run them apart") as raised:
        load_own(f"{main}:NOW")
    first = alike.partition("/")[0]
    assert f"{tmp_path}/b/{alike} and {tmp_path}/a/{first}" in str(raised.value)
    assert load_own(f"{tmp_path}/a/w.py:later")[0]() == ("a", "a")


def test_what_was_edited_is_run_again_with_all_of_its_folder(tmp_path):
    in_folders(tmp_path, a="NAME = 'a'")
    assert load_own(f"{tmp_path}/a/w.py:later")[0]() == ("a", "a")
    in_folders(tmp_path, a="NAME = 'b'")
    assert load_own(f"{tmp_path}/a/w.py:NOW")[0] == "b"
    assert load_own(f"{tmp_path}/a/w.py:later")[0]() == ("b", "b")
    assert not list(tmp_path.rglob("w.*.pyc"))
    # One that is gone is no longer found either.
    (tmp_path / "a" / "helpers.py").unlink()
    with pytest.raises(OwnCodeError, match="No module named 'helpers'"):
        load_own(f"{tmp_path}/a/w.py:NOW")


def test_a_file_that_changes_while_it_is_run_is_refused(tmp_path):
    file = tmp_path / "w.py"
    file.write_text("open(__file__, 'a').write('#')\nNOW = 1\n")
    with pytest.raises(OwnCodeError, match="was changed while it was run"):
        load_own(f"{file}:NOW")


def test_files_of_a_folder_share_their_helpers(tmp_path):
    in_folders(tmp_path, a="class NAME: pass")
    (tmp_path / "a" / "v.py").write_text("from w import NOW, later as LATER\n")
    now = load_own(f"{tmp_path}/a/w.py:NOW")[0]
    assert load_own(f"{tmp_path}/a/v.py:NOW")[0] is now
    assert load_own(f"{tmp_path}/a/v.py:LATER")[0]() == (now, now)
    assert load_own(f"{tmp_path}/a/w.py:NOW")[0] is now


@pytest.mark.parametrize("name", ["json", "sys", "yaml"])
def test_a_helper_with_the_name_of_an_installed_module_is_refused(tmp_path, name):
    (tmp_path / f"{name}.py").write_text("MINE = True\n")
    file = tmp_path / "w.py"
    file.write_text(f"import {name}\nMINE = {name}.MINE\n")
    installed = sys.modules.get(name)
    with pytest.raises(OwnCodeError, match=f"w?/{name}.py and .* are both the module {name}"):
        load_own(f"{file}:MINE")
    assert sys.modules.get(name) is installed


def test_this_project_beside_a_file_is_no_part_of_it(tmp_path):
    (tmp_path / "llm_planning").mkdir()
    (tmp_path / "llm_planning" / "__init__.py").write_text("raise SystemExit\n")
    file = tmp_path / "w.py"
    file.write_text("from llm_planning import Domain as FOUND\n")
    alone = own_source(f"{file}:x").sha256
    assert load_own(f"{file}:FOUND")[0] is Domain
    (tmp_path / "llm_planning" / "__init__.py").write_text("")
    assert own_source(f"{file}:x").sha256 == alone


def test_a_source_is_told_without_running_the_file(file):
    ran = file.with_name("ran")
    file.write_text(f"open({str(ran)!r}, 'w')\nMINE = 1\n")
    source = own_source(f"{file}:MINE")
    assert source.sha256 == own_source(f"{file}:x").sha256
    assert not ran.exists()
    assert load_own(f"{file}:MINE")[1] == source
    assert ran.exists()
    assert own_source("uct") is None


def test_what_is_no_file_of_python_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "huge.py").touch()
    os.truncate(tmp_path / "huge.py", 1 << 40)  # takes no room
    (tmp_path / "deep.py").write_text("(" * 10_000 + ")" * 10_000)
    (tmp_path / "imports.py").write_text("import pipe\n")
    for name in ("pipe", "zero", "huge", "deep", "n" * 300, "a\0b"):
        with pytest.raises(OwnCodeError, match="cannot be read as Python"):
            load_own(f"{tmp_path}/{name}.py:thing")
    # A pipe beside a file is nothing that the file can import.
    with pytest.raises(OwnCodeError, match="fails: ModuleNotFoundError"):
        load_own(f"{tmp_path}/imports.py:thing")


RAISED = {
    "raise StopIteration('x')": "mine.py, line 10: StopIteration: x",
    "next(iter(()))": "mine.py, line 10: StopIteration",
    "list(f() for f in [lambda: next(iter(()))])": "mine.py, line 10: StopIteration",
    "raise StopAsyncIteration('x')": "mine.py, line 10: StopAsyncIteration: x",
    "raise GeneratorExit('x')": "mine.py, line 10: GeneratorExit: x",
    "raise type('Panic', (BaseException,), {})('x')": "mine.py, line 10: Panic: x",
    "raise asyncio.CancelledError('x')": "mine.py, line 10: CancelledError: x",
    "again()": "mine.py, line 12: RecursionError: maximum recursion depth exceeded",
    "(lambda: 1 / 0)()": "mine.py, line 10: ZeroDivisionError: division by zero",
    "exec('1 / 0')": "mine.py, line 10: ZeroDivisionError: division by zero",
    "json.loads('{')": "mine.py, line 10: JSONDecodeError: Expecting property name",
    "parts.helper.helped()": "parts/helper.py, line 2: ValueError: helped",
    "chained()": "mine.py, line 17: TypeError: chained",
    "await grouped()": "mine.py, line 21: ZeroDivisionError: division by zero",
}


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize("width", [1, 2])
def test_an_error_is_told_with_the_line_that_raised_it(tmp_path, monkeypatch, raised, width):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "helper.py").write_text("def helped():\n    raise ValueError('helped')\n")
    kind = "async def" if "await" in raised else "def"
    (tmp_path / "mine.py").write_text(f"""\
import asyncio, json
from llm_planning import Domain
import parts.helper
class Mine(Domain):
    goal = "Fail."
    start = describe = lambda self, *_: ""
    def actions(self, state):
        return "a", "b"
    {kind} step(self, state, action, rng):
        {raised}
def again():
    again()
def chained():
    try:
        parts.helper.helped()
    except ValueError as error:
        raise TypeError("chained") from error
async def grouped():
    async with asyncio.TaskGroup() as group:
        async def failing():
            1 / 0
        group.create_task(failing())
""")
    command = ("run", "uct", "--domain", "mine.py:Mine", "--model", "none")
    line = refused(*command, "--set", f"width={width}", "--set", "simulations=3", code=1)
    assert line.startswith(f"error: {RAISED[raised]}")


def test_a_file_that_fails_is_told_with_the_line(tmp_path):
    (tmp_path / "beside.py").write_text("\n{}['gone']\n")
    (tmp_path / "bad.py").write_text("import beside\n")
    with pytest.raises(
        OwnCodeError, match=r"bad\.py fails: KeyError: 'gone' \(.*/beside\.py, line 2"
    ):
        load_own(f"{tmp_path / 'bad.py'}:Walk")


@pytest.mark.parametrize(
    "command",
    [
        "roles measure mine.py:Mine --model none --questions 2 --ledger ledger",
        "distill mine.py:Mine --out out --batches 1",
        "distill mine.py:Mine --export questions.jsonl --questions 2",
        "run uct --domain mine.py:Mine --model none --set simulations=2",
    ],
)
def test_every_command_tells_the_line(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("""\
from llm_planning import Domain, Step
class Mine(Domain):
    goal = "Fail."
    start = lambda self, seed: 0
    describe = lambda self, state: str(state)
    actions = lambda self, state: ("a", "b")
    feasible = lambda self, state, action: None
    success = lambda self, state: state > 2
    def step(self, state, action, rng):
        return Step({}["gone"])
    def advise(self, state):
        return {}["gone"]
""")
    assert refused(*command.split(), code=1).endswith(
        f"mine.py, line {10 if 'run' in command else 12}: KeyError: 'gone'"
    )


def test_where_others_code_runs_an_error_has_a_line_though_no_line_of_it_is_theirs():
    told = pytest.raises(OwnCodeError, match=r"test_own_code, line \d+: KeyError: 'gone'$")
    with told, telling_own_lines("too", "mine.py:Mine"):
        {}["gone"]
    with pytest.raises(KeyError), telling_own_lines("too", "minecraft"):
        {}["gone"]


def interrupted(*_, **__):
    """What Ctrl-C leaves of a group of tasks."""
    raise BaseExceptionGroup("of two tasks", [ValueError(), KeyboardInterrupt()])


class InterruptedWordsError(ValueError):
    __str__ = interrupted


INTERRUPTED = {
    "a file that is run": lambda: load_own("interrupted.py:Walk"),
    "words of an error": lambda: describe_error(InterruptedWordsError()),
    "a worker of a domain": lambda: worker_processes._answered(pickle.dumps(interrupted)),
    "a worker of Ray": lambda: asyncio.run(Worker(interrupted, ".").start()),
}


@pytest.mark.parametrize("work", INTERRUPTED.values(), ids=INTERRUPTED)
def test_ctrl_c_in_a_group_is_no_error_of_the_code(tmp_path, monkeypatch, work):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interrupted.py").write_text(
        "raise BaseExceptionGroup('of two tasks', [KeyboardInterrupt()])"
    )
    with pytest.raises(BaseExceptionGroup), telling_own_lines("mine.py:Mine"):
        work()
