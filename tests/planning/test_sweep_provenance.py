import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llm_planning.experiments import provenance
from llm_planning.experiments.provenance import (
    MOST_TEXTS,
    checkout,
    collect_provenance,
    fixed_texts,
    versions,
)
from llm_serving.request import ModelIdentity

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="asks git")


def git(folder, *command):
    named = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", "-C", folder, *named, *command], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    root = tmp_path / "repository"
    (root / "llm_planning").mkdir(parents=True)
    (root / "llm_planning" / "cli.py").write_text("one = 1\n")
    git(root.parent, "init", "-q", str(root))
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return root


def test_everything_that_a_result_depends_on_is_gathered():
    models = [ModelIdentity(name="tiny", revision="r1", dtype="float32")]
    known = collect_provenance(models=models, deterministic=True)
    assert json.loads(json.dumps(known)) == known
    assert known["models"] == {"tiny": {"revision": "r1", "dtype": "float32"}}
    assert known["deterministic"] is True
    assert known["versions"] == versions()
    assert known["system"] == platform.platform()
    assert known["cpu"]
    assert isinstance(known["gpus"], list)
    assert collect_provenance(models=models, deterministic=True) == known


@pytest.mark.parametrize(
    ("options", "given", "stated"), [((), "5", "5"), ((), "", "random"), (("-E",), "5", "random")]
)
def test_the_hash_seed_is_the_one_that_python_took(options, given, stated):
    code = (
        f"import sys; sys.path[:0] = {sys.path!r}; from llm_planning.experiments import provenance;"
        "print(provenance.collect_provenance(models=(), deterministic=False)['hash_seed'])"
    )
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": given},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == stated


def test_versions_are_those_of_the_installed_libraries():
    installed = versions()
    assert installed["python"] == platform.python_version()
    for library in ("llm-planning", "outlines-core"):
        assert installed[library] == importlib.metadata.version(library)
    assert None not in installed.values()


def test_the_fixed_texts_of_a_role_are_those_of_its_prompts_each_once():
    asked = [("propose", "a"), ("reward", "b"), ("propose", "c"), ("embed", None), ("propose", "a")]
    events = [{"type": "prompt", "id": id_, "text": f"You {id_}."} for id_ in "abc"]
    events += [{"type": "role", "role": role, "system": id_} for role, id_ in asked]
    events.append({"type": "load", "batch": 1})
    assert fixed_texts(events) == {"propose": ("You a.", "You c."), "reward": ("You b.",)}


def test_a_role_that_words_every_question_anew_does_not_fill_the_ledger():
    events = [
        event
        for number in range(3 * MOST_TEXTS)
        for event in (
            {"type": "prompt", "id": str(number), "text": f"State {number}"},
            {"type": "role", "role": "talk", "system": str(number)},
        )
    ]
    assert len(fixed_texts(events)["talk"]) == MOST_TEXTS


@needs_git
def test_a_checkout_knows_its_commit_and_whether_its_sources_changed(repository):
    commit = git(repository, "rev-parse", "HEAD")
    assert checkout(repository) == (commit, False)
    (repository / "notes.txt").write_text("a sweep's results beside the sources")
    assert checkout(repository) == (commit, False)
    added = repository / "llm_planning" / "new.py"
    added.write_text("")
    assert checkout(repository) == (commit, True)
    added.unlink()
    (repository / "llm_planning" / "cli.py").write_text("one = 2\n")
    assert checkout(repository) == (commit, True)


@needs_git
def test_a_package_installed_inside_another_repository_is_no_checkout(repository):
    inside = repository / ".venv" / "site-packages"
    inside.mkdir(parents=True)
    assert checkout(inside) == (None, None)


def test_without_a_repository_or_without_git_there_is_no_commit(tmp_path, monkeypatch):
    assert checkout(tmp_path) == (None, None)
    monkeypatch.setattr(provenance.shutil, "which", lambda name: None)
    assert checkout(Path(__file__).parents[2]) == (None, None)
