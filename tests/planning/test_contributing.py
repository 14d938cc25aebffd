"""The pages for people who contribute or cite: what they say works and agrees."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from command_line import invoke

from llm_planning import registry
from llm_planning.experiments import papers
from llm_planning.roles.measuring import ask_all, draw_exercises
from llm_serving.scripted import ScriptedEngine

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
FILE = re.compile(r"`([\w/.]+)`(?:, [^`]*?)?:\n\n```(?:python|yaml)\n(.*?)```", re.DOTALL)
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


# CONTRIBUTING -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder with the files of the page, whose tables are found there too."""
    for name, text in FILE.findall(PAGE):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(papers, "config_folder", lambda: tmp_path / "configs" / "models")
    return tmp_path


def commands():
    blocks = [text for kind, text in BLOCK.findall(PAGE) if kind == "console"]
    return [line[2:] for text in blocks for line in text.splitlines() if line.startswith("$ ")]


def test_every_block_is_a_file_or_a_command():
    kinds = [kind for kind, _ in BLOCK.findall(PAGE)]
    assert set(kinds) == {"python", "yaml", "console"}
    assert len(FILE.findall(PAGE)) == kinds.count("python") + kinds.count("yaml")


def test_every_command_works_in_order(folder):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    outputs = {}
    for command in commands():
        program, *arguments = shlex.split(command, comments=True)
        if program == "make":
            assert set(arguments) <= targets
        elif program == "python":
            ended = subprocess.run(
                [sys.executable, *arguments], capture_output=True, text=True, check=True
            )
            outputs[command] = ended.stdout
        else:
            assert program == "llm-planning"
            ended = invoke(*arguments)
            assert ended.exit_code == 0, ended.output
            outputs[command] = ended.stdout
    runs = [text for command, text in outputs.items() if command.startswith("llm-planning run")]
    assert len(runs) == 2
    assert all("The goal is reached" in text for text in runs)
    model, rules = outputs["python doubt.py"].splitlines()
    assert model == "model: True"
    assert 0.8 < float(rules.split()[1]) < 1
    lines = Path("doubts.jsonl").read_text("utf-8").splitlines()
    assert len({json.loads(line)["messages"][-1]["content"] for line in lines}) == 2
    table = outputs["llm-planning report paper switches speed"]
    assert re.search(r"\| greedy \| 3 .*50% .*100%", table), table


async def test_a_role_of_ones_own_is_measured_in_either_words(folder):
    """A model that always says yes is right about every switch that is off."""
    engine = ScriptedEngine({"doubt": '{"good":true}'})
    for words in ("general", "taught"):
        maker = registry.exercise_makers(registry.find_domain("doubt.py:Doubtful"), words=words)
        asked = draw_exercises(maker["doubt"], "doubt", count=12, seed=0)
        answers = await ask_all(asked, engine)
        off = ["off" in exercise.prompt[-1].content for exercise in asked]
        assert [answer.right for answer in answers] == off
        assert len(asked) == 12
        assert len(set(off)) == 2


def test_links_of_the_pages_lead_somewhere():
    for name in ("CONTRIBUTING.md", "CHANGELOG.md"):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", (ROOT / name).read_text("utf-8")):
            assert (ROOT / target).exists(), f"{name}: {target}"


# CITATION AND CHANGELOG ---------------------------------------------------------------------------


def test_the_citation_has_the_fields_of_its_format():
    assert CITATION["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= CITATION.keys()
    assert CITATION["type"] == "software"
    for entry in (CITATION, *CITATION["references"]):
        assert entry["title"]
        for author in entry["authors"]:
            assert author.keys() in ({"name"}, {"family-names", "given-names"})
    kinds = {"unpublished", "conference-paper"}
    assert {entry["type"] for entry in CITATION["references"]} <= kinds


def test_the_version_is_the_same_everywhere():
    version = PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert CITATION["version"] == version
    assert re.findall(r"^## (\d\S*)", changes, re.MULTILINE)[0] == version
    assert CITATION["license"] == PROJECT["license"]
