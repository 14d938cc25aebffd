"""Saved knowledge that somebody damaged, or wrote to do harm."""

import os
import random
import time

import pytest
from hostile.folders import saved_files

from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.saved import Saved, SavedKnowledgeError, save_knowledge
from llm_planning.settings import SettingsError

RUN = {"planner": "xenon", "seed": 0}


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "known.json"
    graph = DependencyGraph(["stick", "planks"])
    graph.require("stick", {"planks": 2}, makes=4)
    save_knowledge(
        path,
        Knowledge(graph),
        ActionMemory(["craft"], x0=2),
        FailureNotes(),
        run=RUN,
        episodes=1,
        goals=random.Random(0),
        curve=[(0, 0, 0)],
    )
    return path


def taken_up(path):
    record = Saved.resume(path, RUN, episodes=2)
    memory = ActionMemory(["craft"], x0=2)
    record.recall(memory)
    record.generator().random()
    return record.knowledge()


def test_the_good_file_is_taken_up(saved):
    assert dict(taken_up(saved).graph.requirements("stick")) == {"planks": 2}


@pytest.mark.parametrize(("name", "alter"), saved_files(), ids=[name for name, _ in saved_files()])
def test_what_was_altered_is_refused_in_one_line(saved, name, alter):
    alter(saved)
    begun = time.monotonic()
    with pytest.raises((SavedKnowledgeError, SettingsError)) as told:
        taken_up(saved)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 1000
    assert time.monotonic() - begun < 20


def test_a_graph_that_is_deep_and_wide_is_taken_up_in_time(saved):
    rules = {f"i{n}": ({f"i{m}": 1 for m in range(max(0, n - 60), n)}, 1) for n in range(5000)}
    begun = time.monotonic()
    graph = DependencyGraph.of(rules)
    assert time.monotonic() - begun < 5
    assert len(graph.ancestors("i4999")) == 4999


@pytest.mark.parametrize(
    "name",
    ["pipe", "device", "folder", "nowhere", "missing/known.json", "n" * 300, "a\0b", "~nobody/x"],
)
def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/null")
    (tmp_path / "folder").mkdir()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SettingsError, match="save="):
        Saved.resume(tmp_path / name, RUN, episodes=1)
    assert sorted(tmp_path.iterdir()) == before
