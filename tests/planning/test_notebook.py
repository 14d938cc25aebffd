"""What Jupyter shows: plans, trees, reports, progress; and the tour."""

import asyncio
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from report_ledgers import resources, result_of, trial_of, write_ledger

from llm_planning import Domain, Outcome, Step, notebook, open_engine, plan
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import report
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.runs import read_runs
from llm_planning.experiments.summary import summary
from llm_planning.search import Edge, Node, expanded

ROOT = Path(__file__).resolve().parents[2]
TOUR = ROOT / "examples" / "tour.ipynb"
VILE = '<script>alert("1")</script>&<img src=x onerror=y>'


class Page(HTMLParser):
    """The tags and the text of a page; every tag must be closed."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.open, self.words = [], [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def outcome(**fields):
    return Outcome(
        **{"success": True, "plan": (), "metrics": {}, "trace": {}, "text": "", **fields}
    )


def grown(action, *, visits, below=()):
    edge = Edge(action, step=Step("state"))
    edge.visits, edge.value = visits, visits / 10
    edge.node = expanded(below)
    return edge


class Vile(Domain):
    """A world that writes markup."""

    goal = VILE

    def start(self, seed):
        return 0

    def describe(self, state):
        return VILE

    def actions(self, state):
        return [VILE, "wait"]

    def step(self, state, action, rng):
        return Step(state + 1, reward=1.0, done=True, text=VILE)


def test_what_a_world_writes_is_no_markup():
    with open_engine("none") as engine:
        outcome = asyncio.run(plan("uct", Vile(), engine=engine, settings={"simulations": 8}))
    assert VILE in outcome.plan + tuple(outcome.trace["moves"][0])
    page = Page(outcome._repr_html_())
    assert {"script", "img"}.isdisjoint(page.tags)
    assert VILE in page.text


@pytest.mark.parametrize(
    "html",
    [
        outcome(plan=(VILE,), metrics={VILE: VILE}, text=VILE)._repr_html_(),
        expanded([grown(VILE, visits=2)])._repr_html_(),
        notebook.table_html(VILE, [VILE], [[VILE]]),
        notebook._page("progress", line=VILE),
    ],
    ids=["outcome", "tree", "table", "progress"],
)
def test_nothing_foreign_is_markup(html):
    page = Page(html.replace("<progress></progress>", ""))
    assert {"script", "img"}.isdisjoint(page.tags)
    assert VILE in page.text


@pytest.mark.parametrize(
    ("success", "words"),
    [(True, "✓ The goal is reached"), (False, "✗ The goal is not reached"), (None, "Not judged")],
)
def test_an_outcome_says_whether_the_goal_is_reached(success, words):
    assert words in Page(outcome(success=success)._repr_html_()).text


def test_a_verdict_in_words_stands_beside_it():
    page = Page(outcome(success=None, verdict=VILE)._repr_html_())
    assert f"Not judged {VILE}" in page.text


@pytest.mark.parametrize("planner", ["uct", "mc-dml-uct"])
def test_a_search_before_every_move_has_its_tree(planner):
    settings = {"moves": 2, ("simulations" if planner == "uct" else "simulations_per_action"): 4}
    with open_engine("none") as engine:
        outcome = asyncio.run(plan(planner, "trap-door", engine=engine, settings=settings))
    tree = notebook.traced_tree(outcome.trace)
    assert [move.label for move in tree.below] == list(outcome.plan)
    assert all(re.match(r"N \d+, Q ", action.note) for move in tree.below for action in move.below)
    assert "search before every move 2 moves" in Page(outcome._repr_html_()).text


def test_a_plan_stands_in_order_beside_its_costs():
    page = Page(outcome(plan=("dig", "eat"), metrics={"calls": 12, "cost": 0.123456})._repr_html_())
    assert page.tags.count("li") == 2
    assert "dig eat" in page.text
    assert "calls 12 cost 0.1235" in page.text
    assert "The plan is empty." in Page(outcome()._repr_html_()).text


def test_a_tree_shows_its_most_visited_part_and_counts_the_rest():
    below = [grown(f"act{i}", visits=i) for i in range(7)]
    page = Page(expanded(below)._repr_html_())
    assert re.findall(r"act\d", page.text) == ["act3", "act4", "act5", "act6"]
    assert "3 more" in page.text
    assert "N 6, Q 0.600" in page.text


def test_a_deep_tree_ends_with_the_number_of_what_is_below():
    edges = []
    for depth in range(40, 0, -1):
        edges = [grown(f"level{depth}", visits=1, below=edges)]
    text = Page(expanded(edges)._repr_html_()).text
    assert re.findall(r"level\d+", text)[-1] == f"level{notebook.DEEPEST}"
    assert text.endswith("1 more")


def test_after_a_chance_step_the_most_frequent_outcome_is_shown():
    edge = Edge("throw")
    for seen, visits in (("one", 1), ("six", 3)):
        node = edge.follow(Step(seen))
        node.visits, node.edges = visits, [grown(f"after {seen}", visits=1)]
    edge.visits = 4
    text = Page(expanded([edge])._repr_html_()).text
    assert "after six" in text
    assert "after one" not in text
    assert "1 other outcomes" in text


def test_an_unexpanded_tree_is_a_line():
    assert "search tree N 0, V 0.000" in Page(Node()._repr_html_()).text


@pytest.mark.parametrize(
    ("planner", "settings", "words"),
    [
        ("too", {"roles": "rules"}, "search tree N 10"),
        ("drip", {"roles": "rules"}, "goal closed"),
    ],
)
async def test_a_planners_tree_is_in_its_outcome(planner, settings, words):
    with open_engine("none") as engine:
        planned = await plan(planner, "cook-meat", engine=engine, settings=settings)
    assert planned.success
    page = Page(planned._repr_html_())
    assert words in page.text
    assert all(page.text.count(str(action)) >= 2 for action in planned.plan)


@pytest.mark.parametrize(
    "trace",
    [
        {"moves": 3},
        {"moves": ["up"]},
        {"moves": [{"action": "up"}]},
        {"moves": [{"action": "up", "options": [{"action": "up", "prior": 0.5}]}]},
        {"tree": "oak"},
        {"tree": {"edges": []}},
    ],
    ids=["number", "texts", "no-options", "a-policys", "text", "no-visits"],
)
def test_a_trace_without_a_search_has_no_tree(trace):
    assert notebook.traced_tree(trace) is None
    assert "search" not in Page(outcome(trace=trace)._repr_html_()).text


# REPORTS ------------------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path):
    trials = [trial_of(name, task="cook-meat") for name in ("too", VILE)]
    spent = resources(planning=1)
    results = [result_of(trial, success=True, **spent) for trial in trials]
    folder = write_ledger(tmp_path / "made", results)
    with Ledger.open(folder) as ledger:
        return read_runs(ledger)


def test_a_sweeps_summary_is_a_table(runs):
    page = Page(summary(runs)._repr_html_())
    assert page.tags.count("tr") == 3
    assert "script" not in page.tags
    assert f"{VILE} 1 0 0 100%" in page.text


def test_a_papers_table_has_its_figures_and_its_differences(runs):
    paper = report(find_paper("too"), "table2", runs)
    page = Page(paper._repr_html_())
    lines = len(paper.lines) + 1
    assert page.tags.count("tr") == lines + (len(paper.differences) + 1 if paper.differences else 0)
    assert paper.table.title in page.text
    assert page.text.count("(here)") == sum(column.measure is not None for column in paper.columns)


# PROGRESS -----------------------------------------------------------------------------------------


async def test_a_script_shows_no_progress(capsys):
    with open_engine("none") as engine:
        await plan("uct", Vile(), engine=engine, settings={"simulations": 8})
    assert capsys.readouterr() == ("", "")


class Slow(Vile):
    """A world whose one step takes longer than two pictures are apart."""

    begun = cancelled = False

    async def step(self, state, action, rng):
        Slow.begun = True
        try:
            await asyncio.sleep(0.6)
        except asyncio.CancelledError:
            Slow.cancelled = True
            raise
        return super().step(state, action, rng)


@pytest.fixture
def cell(monkeypatch):
    """The pages shown under the cell of a kernel."""
    displayed = []
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: SimpleNamespace(kernel=1))
    handle = SimpleNamespace(update=lambda page: displayed.append(page.data))
    monkeypatch.setattr(
        "IPython.display.display", lambda page, display_id: displayed.append(page.data) or handle
    )
    return displayed


async def test_a_kernel_shows_what_a_plan_costs_while_it_runs(cell):
    with open_engine("none") as engine:
        await plan("uct", Slow(), engine=engine, settings={"simulations": 1})
    texts = [Page(page.replace("<progress></progress>", "[bar]")).text for page in cell]
    assert "[bar] planning: 0 calls, 0 tokens written" in texts[1]
    assert re.search(r"Took \d+\.\d s, 0 calls, 0 tokens written\.$", texts[-1])
    assert "[bar]" not in texts[-1]


async def test_an_interrupted_cell_leaves_no_plan_running(cell):
    Slow.begun = False
    with open_engine("none") as engine:
        planning = asyncio.create_task(
            plan("uct", Slow(), engine=engine, settings={"simulations": 1})
        )
        while not Slow.begun:  # noqa: ASYNC110 - a plan has no event to wait for
            await asyncio.sleep(0.01)
        planning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await planning
    assert Slow.cancelled


# THE TOUR -----------------------------------------------------------------------------------------


def test_the_tour_is_committed_without_outputs():
    cells = json.loads(TOUR.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.slow
def test_the_tour_ends_with_success(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    import nbformat
    from nbclient import NotebookClient

    tour = nbformat.read(TOUR, as_version=4)
    # The kernel is this Python, whatever kernels are installed for the user.
    client = NotebookClient(
        tour,
        timeout=240,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    printed = {cell.id: cell.outputs for cell in tour.cells if cell.cell_type == "code"}
    pages = [
        str(output.data.get("text/html", ""))
        for outputs in printed.values()
        for output in outputs
        if output.output_type in {"execute_result", "display_data"}
    ]
    assert sum("✓ The goal is reached" in page for page in pages) >= 3
    last = [output for output in tour.cells[-1].outputs if output.output_type == "stream"]
    assert "".join(output.text for output in last).startswith("the world says: True")
    assert str(sys.prefix) not in TOUR.read_text("utf-8")
