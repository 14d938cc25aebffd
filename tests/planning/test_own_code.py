"""A user's own file: what a name in it means, and what it is known by."""

import sys

import pytest

import llm_planning.registry as registry
from llm_planning.own_code import OwnCodeError, is_own, load_own, source_hash
from llm_planning.registry import (
    UnknownDomainError,
    UnknownPlannerError,
    find_domain,
    find_planner,
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
async def mine(problem, *, engines, settings, seed):
    '''Does nothing.'''

NUMBER = 3
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "sizes.py").write_text("from .units import LONG\n")
    (tmp_path / "parts" / "units.py").write_text("LONG = 5\n")
    (tmp_path / "helpers_of_own.py").write_text("import json\n")
    (tmp_path / "unrelated.py").write_text("raise SystemExit\n")
    path = tmp_path / "world.py"
    path.write_text(WORLD)
    yield path
    for name in ("helpers_of_own", "parts", "parts.sizes", "parts.units"):
        sys.modules.pop(name, None)


def test_names():
    assert is_own("a/b.py:Name")
    for name in ("too", "b.py", "b.py:", "b.py:1x", "b.txt:Name", ":Name"):
        assert not is_own(name)
        assert load_own(name) is None


def test_a_domain_and_a_planner_of_a_file(file):
    domain = find_domain(f"{file}:Walk")
    assert domain.settings.read({}).to_json() == {"steps": 5}
    assert domain.source.sha256 == source_hash(file)
    spec = find_planner(f"{file}:mine")
    assert (spec.name, spec.summary) == (f"{file}:mine", "Does nothing.")
    assert spec.source == domain.source
    with pytest.raises(UnknownDomainError, match="is no domain"):
        find_domain(f"{file}:NUMBER")
    with pytest.raises(UnknownPlannerError, match="is no planner"):
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
    before = source_hash(file)
    path = file.parent / changed
    path.write_text(path.read_text() + "\n# changed\n")
    assert (source_hash(file) != before) == is_another


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


def test_packages_announce_what_they_add(file, monkeypatch):
    class Announced:
        def __init__(self, name, member):
            self.name = name
            self.member = member

        def load(self):
            return load_own(f"{file}:{self.member}").found

    monkeypatch.setattr(
        registry,
        "entry_points",
        lambda group: [Announced("walk", "Walk" if group.endswith("domains") else "mine")],
    )
    assert find_domain("walk").settings.read({}).to_json() == {"steps": 5}
    assert find_planner("walk").summary == "Does nothing."
    with pytest.raises(UnknownDomainError, match="did you mean walk"):
        find_domain("wolk")
