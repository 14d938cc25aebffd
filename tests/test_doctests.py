"""Every example of a docstring runs, and every Python block of the pages."""

import ast
import asyncio
import doctest
import inspect
import re
from pathlib import Path
from textwrap import dedent
from typing import Literal

import pytest

import llm_kernels
import llm_planning
import llm_serving.encoder
from llm_planning import open_uncached_engine, plan
from llm_planning.own_code import load_file
from llm_planning.settings import when
from llm_planning.trace import tracing
from llm_serving.scripted import ScriptedEngine

ROOT = Path(__file__).resolve().parents[1]
LAYERS = (llm_kernels, llm_serving, llm_planning)
SOURCES = ("base", "kernels", "serving", "llm_planning", "scripts", "examples", "benchmarks")
PROMPT = re.compile(r"^[ ]*>>> ", re.MULTILINE)


def docstrings(text):
    """(Line, text) of each text that stands alone: docstrings, of whatever is inside what."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(ast.Constant(str(documented))):
                yield node.lineno, documented


def examples():
    """Place -> the docstring with an example."""
    files = [file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*.py"))]
    return {
        f"{file.relative_to(ROOT)}:{line}": documented
        for file in files
        if PROMPT.search(text := file.read_text("utf-8"))
        for line, documented in docstrings(text)
        if PROMPT.search(documented)
    }


EXAMPLES = examples()


class KeptOpen:
    """A shared engine or encoder, which examples close and other tests go on using."""

    def __init__(self, shared):
        self._shared = shared

    def __getattr__(self, name):
        return getattr(self._shared, name)

    def close(self):
        pass


@pytest.fixture
def model(monkeypatch, engine):
    """Instead of loading a model, an example gets the one that all tests share."""
    monkeypatch.setattr(llm_serving, "VllmEngine", lambda _: KeptOpen(engine))


@pytest.fixture
def encoder(monkeypatch, text_encoder):
    """Likewise, of the encoder."""
    for home in (llm_serving, llm_serving.encoder):
        monkeypatch.setattr(home, "TextEncoder", lambda **_: KeptOpen(text_encoder))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(tmp_path))


def run_example(place, documented):
    """The number of lines that ran, and what fails, for somebody who has imported nothing yet."""
    names = {"__name__": "__main__"}
    example = doctest.DocTestParser().get_doctest(documented, names, place, None, None)
    messages = []
    doctest.DocTestRunner(verbose=False).run(example, out=messages.append)
    return len(example.examples), "".join(messages)


@pytest.mark.parametrize("place", EXAMPLES)
def test_the_example_runs(request, place):
    documented = EXAMPLES[place]
    assert "doctest:" not in documented, "an example needs no directives"
    for loaded, fixture in (("VllmEngine(", "model"), ("TextEncoder(", "encoder")):
        if loaded in documented:
            request.getfixturevalue(fixture)
    ran, failures = run_example(place, documented)
    assert ran == len(PROMPT.findall(documented))
    assert not failures


def test_every_prompt_of_the_sources_is_in_an_example():
    """None is lost in a text that is no docstring, or in a folder that is not looked through."""
    files = [file for file in ROOT.rglob("*.py") if file.relative_to(ROOT).parts[0] in SOURCES]
    prompts = sum(len(PROMPT.findall(file.read_text("utf-8"))) for file in files)
    assert sum(len(PROMPT.findall(documented)) for documented in EXAMPLES.values()) == prompts
    assert {place.partition("/")[0] for place in EXAMPLES} >= set(SOURCES[:4])
    assert len(EXAMPLES) > 70


def test_a_wrong_example_is_seen():
    source = (
        'class A:\n    def b():\n        def _c():\n            "About.\\n\\n>>> 1 + 1\\n3\\n"\n'
    )
    ((line, documented),) = docstrings(source)
    assert line == 4
    ran, failures = run_example("here", documented)
    assert ran == 1
    assert "Expected:\n    3\nGot:\n    2\n" in failures


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_each_exported_name_has_an_example(layer):
    for name in layer.__all__:
        documented = inspect.getdoc(getattr(layer, name))
        assert "\nExample:\n" in documented, name
        assert PROMPT.search(documented), name


# PAGES --------------------------------------------------------------------------------------------

BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def blocks():
    """Place -> a block of Python of README or a page; CONTRIBUTING's are files of its own test."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {
        f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, found.start()) + 1}": dedent(found[2])
        for page in pages
        for text in [page.read_text("utf-8")]
        for found in BLOCK.finditer(text)
    }


BLOCKS = blocks()


def is_run_elsewhere(place):
    """Whether a block is a file of words, which `test_bridges_own_words.py` runs."""
    return BLOCKS[place].startswith("# lake.py\n")


def given(page):
    """What the blocks of a page leave out, as its text says."""
    if page == "docs/extending.md":
        files = (ROOT / "examples" / f"own_{kind}.py" for kind in ("domain", "planner"))
        own = [load_file(file)[0] for file in files]
        scores = ScriptedEngine({}, score=lambda _, choices: [0.0] * len(choices))
        names = {"plan": plan, "engine": scores, "Literal": Literal, "when": when}
        return {**own[0], **own[1], **names}
    return {"tracing": tracing, "reflection": "no"} if page == "docs/trace-format.md" else {}


@pytest.mark.parametrize("place", [place for place in BLOCKS if not is_run_elsewhere(place)])
def test_the_block_of_a_page_runs(request, monkeypatch, place):
    """In place of a model rules answer; what is awaited at the top is, as in a notebook."""

    def ruled(planner, problem, *, settings=None, **options):
        settings = {**settings, "roles": "rules"} if planner == "too" else settings
        return plan(planner, problem, settings=settings, **options)

    monkeypatch.setattr(llm_planning, "plan", ruled)
    monkeypatch.setattr(llm_planning, "open_engine", lambda _: open_uncached_engine("none"))
    if "TextEncoder" in BLOCKS[place]:
        request.getfixturevalue("encoder")
    names = {"__name__": "__main__", **given(place.partition(":")[0])}
    code = compile(BLOCKS[place], place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if inspect.iscoroutine(running := eval(code, names)):
        asyncio.run(running)


def test_the_blocks_of_the_pages_are_found():
    assert {place.partition(":")[0] for place in BLOCKS} >= {"README.md", "docs/extending.md"}
    assert len(BLOCKS) > 10
    assert sum(map(is_run_elsewhere, BLOCKS)) == 1
