"""Saved runs: files equal byte for byte since format 4 (cooking: 2), and damaged files.

After a change of what agents do: `python tests/planning/test_xenon_saved.py` writes the files anew.
"""

import asyncio
import json
import os
import time
from pathlib import Path

import pytest
from cooking_kitchens import PAPER_KITCHENS, sticky
from hostile.folders import saved_files

from llm_planning.environments.cooking.domain import COOKING
from llm_planning.planners.xenon.cooking import COOKS
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.learning import AGENTS
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge
from llm_planning.planners.xenon.saved import (
    Saved,
    SavedKnowledgeError,
    save_knowledge,
)
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_planning.settings import SettingsError
from llm_serving.scripted import ScriptedEngine

GOLDEN = Path(__file__).parents[1] / "golden" / "xenon"
SAVING = [spec for spec in SPECS if "save" in spec.settings.known_keys()]
LEARNING = {"roles": "table12", "requirements": 3, "pool": "required", "steps": 160}


async def run_and_save(spec, folder, *, episodes):
    path = folder / f"{spec.name}.json"
    cooking = not spec.lacks(COOKING)
    values = {"roles": Path(sticky(folder, 0.3)).name} if cooking else LEARNING
    given = {**values, "episodes": episodes, "save": str(path)}
    prepared = prepare(spec, domain=PAPER_KITCHENS if cooking else None, settings=given)
    await prepared.run(Engines(ScriptedEngine({})), 2)
    return path


@pytest.mark.parametrize("spec", SAVING, ids=lambda spec: spec.name)
async def test_a_run_saves_what_it_always_saved(spec, tmp_path, monkeypatch):
    """In the kitchen it goes on from that; a learning run begins anew."""
    monkeypatch.chdir(tmp_path)
    await run_and_save(spec, tmp_path, episodes=1)
    path = await run_and_save(spec, tmp_path, episodes=2)
    assert path.read_bytes() == (GOLDEN / path.name).read_bytes()
    run = json.loads(path.read_text())["run"]
    assert run["planner" if "planner" in run else "agent"] in {*AGENTS, *COOKS}


# One file by hand ---------------------------------------------------------------------------------

VERBS = ("mine", "craft", "smelt")
RUN = {"task": "67-goals", "seed": 3}


@pytest.fixture
def known():
    known = Knowledge(DependencyGraph(["bowl"]))
    known.obtain("planks", {"logs": 1}, makes=4, kept=set())
    known.demonstrate("stick", {"planks": 2}, makes=4, kept=set())
    return known


@pytest.fixture
def memory():
    memory = ActionMemory(VERBS, x0=2)
    memory.record("craft", "planks", True)
    memory.record("mine", "bowl", False)
    return memory


def save(path, known, memory):
    save_knowledge(path, known, memory, run=RUN, episodes=3)
    return path


@pytest.fixture
def saved(tmp_path, known, memory):
    return save(tmp_path / "known.json", known, memory)


def taken_up(path, *, verbs=VERBS):
    record = Saved.load(path)
    memory = ActionMemory(verbs, x0=2)
    record.recall(memory)
    return record.graph(), memory


def test_graph_and_memory_come_back_as_they_were(saved, known, memory):
    back, restored = taken_up(saved)
    for item in known.graph.items:
        assert back.requirements(item) == known.graph.requirements(item)
        assert back.makes(item) == known.graph.makes(item)
    assert list(back.items) == list(known.graph.items)
    assert restored.to_json() == memory.to_json()
    record = Saved.load(saved)
    assert record.episodes == 3
    assert record.kept == known.kept
    assert list(saved.parent.iterdir()) == [saved]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda text: text[:-40], "no learned knowledge"),
        (lambda text: text.replace('"kept"', '"kepd"'), "kep"),
        (lambda text: text.replace('"format": 4', '"format": 9'), "has format 9, not 4: delete it"),
        (lambda text: text.replace('"logs": 1', '"planks": 1'), "has a cycle"),
        (lambda text: text.replace('"logs": 1', '"logs": 0'), "greater than 0"),
        (lambda text: text.replace('"successes"', '"success"'), "memory.success"),
    ],
)
def test_a_damaged_file_is_one_clear_error(saved, spoil, says):
    saved.write_text(spoil(saved.read_text()))
    with pytest.raises(SavedKnowledgeError, match=says):
        taken_up(saved)


@pytest.mark.parametrize(("name", "alter"), saved_files(), ids=[name for name, _ in saved_files()])
def test_what_was_altered_is_refused_in_one_line(saved, name, alter):
    alter(saved)
    begun = time.process_time()
    with pytest.raises(SavedKnowledgeError) as caught:
        taken_up(saved)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000
    assert time.process_time() - begun < 20


@pytest.mark.parametrize(
    ("other", "says"),
    [({"seed": 4}, "learnt with seed=3, and this run has seed=4"), ({"steps": 9}, "steps")],
)
def test_knowledge_of_another_run_is_not_written_over(saved, other, says):
    with pytest.raises(SavedKnowledgeError, match=says):
        Saved.of(saved, RUN | other)


def test_a_memory_of_other_actions_is_not_taken_up(saved):
    with pytest.raises(
        SavedKnowledgeError, match=r"'mine'.* are not among .*; learn with the verbs"
    ):
        taken_up(saved, verbs=("sing", "dance"))


def test_a_missing_file_or_folder_is_one_clear_error(tmp_path, known, memory):
    assert Saved.of(tmp_path / "none.json", RUN) is None
    with pytest.raises(SavedKnowledgeError, match="cannot read"):
        Saved.load(tmp_path / "none.json")
    with pytest.raises(SavedKnowledgeError, match="cannot write"):
        save(tmp_path / "no" / "x.json", known, memory)
    assert not any(tmp_path.iterdir())


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
        Saved.of(tmp_path / name, RUN)
    assert sorted(tmp_path.iterdir()) == before


def test_a_graph_that_is_deep_and_wide_is_taken_up_in_time():
    rules = {f"i{n}": ({f"i{m}": 1 for m in range(max(0, n - 60), n)}, 1) for n in range(5000)}
    begun = time.process_time()
    graph = DependencyGraph.of(rules)
    assert time.process_time() - begun < 5
    assert len(graph.ancestors("i4999")) == 4999


if __name__ == "__main__":
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for spec in SAVING:
        (GOLDEN / f"{spec.name}.json").unlink(missing_ok=True)
        asyncio.run(run_and_save(spec, GOLDEN, episodes=2))
