"""The pages of a sweep: what they hold, what they leave out and say, and what a stranger wrote."""

import json
import re
import shutil
from contextlib import suppress
from dataclasses import replace

import pytest
from command_line import invoke, refused
from hostile.ledgers import alterations, make_ledger
from report_ledgers import result_of, trial_of, write_ledger
from viewer_sweeps import EXCLUDED, HOSTILE, block_of, several_worlds

from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.runs import read_runs, read_trials
from llm_planning.experiments.summary import summary
from llm_planning.viewer import sweep_data as module
from llm_planning.viewer.live_data import LiveSweep
from llm_planning.viewer.sweep_data import spread
from llm_planning.viewer.sweep_pages import write_pages

ALTERATIONS = dict(alterations())
SOME = [*ALTERATIONS][::6]
"""The tests of ledgers have all of them."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    pending = [trial_of("too", task="minecraft-task", seed=99)]
    folder = tmp_path_factory.mktemp("worlds") / "sweep"
    return write_ledger(folder, several_worlds(), pending=pending, grids=EXCLUDED)


@pytest.fixture(scope="module")
def data(worlds):
    page = worlds.parent / "alone.html"
    assert invoke("view", worlds, "--out", page).exit_code == 0
    return block_of(page, "sweep")


def test_every_number_is_that_of_the_report(worlds, data):
    with Ledger.open(worlds) as ledger:
        runs = read_runs(ledger)
    (grouping,) = data["groupings"]
    for by, groups in (
        (("planner",), grouping["groups"]),
        (("planner", "domain"), grouping["domains"]),
        (("planner", "domain", "task"), grouping["tasks"]),
    ):
        expected = summary(runs, by=by).groups
        assert [tuple(listed["values"]) for listed in groups] == [
            group.values for group in expected
        ]
        for listed, group in zip(groups, expected, strict=True):
            assert (listed["done"], listed["pending"]) == (group.done, group.pending)
            for name, measured in group.measured.items():
                estimate = measured.estimate
                assert listed[name]["value"] == estimate.value
                assert (listed[name]["low"], listed[name]["high"]) == (
                    estimate.low,
                    estimate.high,
                )
    assert data["counts"]["total"] == 37
    assert data["counts"]["pending"] == 1
    assert data["spent"]["calls"] == 6 * (1 + 2 + 3 + 4 + 5 + 6)


def test_empty_cells_say_why(data):
    reasons = {
        (planner, domain): (absence["kind"], absence["reason"])
        for planner, domains in data["absent"].items()
        for domain, absence in domains.items()
    }
    assert reasons == {
        ("too", "textgame"): (
            "unfit",
            "planner too needs a domain that names its options and has a model of its state; "
            "textgame does not",
        ),
        ("cot", "textgame"): (
            "unfit",
            "planner cot needs a domain that names its options; textgame does not",
        ),
        ("cot", "blocksworld"): (
            "excluded",
            'the sweep excludes cot in blocksworld: {"planner": ["cot"]}',
        ),
    }


@pytest.mark.parametrize(
    "grids", [None, 5, [], [5], [{"planners": 5}], [{"planners": ["cot"], "exclude": "x"}]]
)
def test_reasons_of_a_stranger_are_not_relied_on(grids):
    missing = module.absences({"grids": grids}, [("cot", "minecraft"), ("uct", "blocksworld")])
    assert missing["cot"]["blocksworld"].kind == "unasked"


def test_leads_are_told(data):
    leads = {lead["domain"]: lead for lead in data["groupings"][0]["leads"]}
    assert leads["minecraft"]["first"] == ["too"]
    assert leads["blocksworld"]["first"] == ["uct"]
    assert leads["textgame"]["second"] is None
    assert leads["minecraft"]["difference"]["n"] == 6


def test_settings_that_are_swept_can_be_compared(tmp_path):
    results = [
        result_of(trial_of("too", k=k, d=d, seed=seed), success=k == 3)
        for k in (1, 3)
        for d in (8, 16)
        for seed in range(2)
    ]
    page = tmp_path / "page.html"
    invoke("view", write_ledger(tmp_path / "sweep", results), "--out", page)
    data = block_of(page, "sweep")
    assert [grouping["by"] for grouping in data["groupings"]] == [
        ["planner"],
        ["planner", "d"],
        ["planner", "k"],
        ["planner", "d", "k"],
    ]
    assert data["groupings"][0]["pooled"] == [["d", 2], ["k", 2]]
    assert [column["name"] for column in data["trials"]["fields"]][-2:] == ["d", "k"]


def test_trials_are_listed_by_columns(data):
    trials = data["trials"]
    planner = trials["fields"][0]
    assert [planner["values"][place] for place in planner["at"][:6]] == ["too"] * 6
    outcomes = [trials["outcome"]["values"][place] for place in trials["outcome"]["at"]]
    assert outcomes[:6] == ["success"] * 5 + ["no success"]
    assert outcomes[-1] == "not run"
    assert trials["numbers"]["calls"][:3] == [1, 2, 3]
    assert trials["numbers"]["calls"][-1] is None
    assert trials["traced"] == [1] * 36 + [0]
    assert trials["paged"] == [0] * 37


def test_pages_of_trials_lie_beside(worlds, tmp_path):
    out = tmp_path / "pages"
    ended = invoke("view", worlds, "--trials", "8", "--out", out)
    assert ended.stdout == (
        f"{out}/index.html: 37 trials; 8 of 36 that left a trace have a page of their own\n"
        f"pages of all: llm-planning view {worlds} --trials all\n"
    )
    listing = block_of(out / "index.html", "sweep")["trials"]
    paged = {key for key, has in zip(listing["keys"], listing["paged"], strict=True) if has}
    assert {f"{key}.html" for key in paged} == {path.name for path in (out / "trials").iterdir()}
    # The first of each of the six cells, then the second of two.
    planners = [
        listing["fields"][0]["at"][place] for place, has in enumerate(listing["paged"]) if has
    ]
    assert len(paged) == 8
    assert len(planners) == 8
    with Ledger.open(worlds) as ledger:
        first = [trial.record["seed"] for trial in spread(read_trials(ledger), 8)]
    assert first == [0] * 6 + [1] * 2


@pytest.mark.parametrize(("most", "pages"), [("all", 36), ("none", 0), ("7", 7)])
def test_how_many_pages(worlds, tmp_path, most, pages):
    ended = invoke("view", worlds, "--trials", most, "--out", tmp_path / "out", "--json")
    assert json.loads(ended.stdout) == {
        "page": f"{tmp_path}/out/index.html",
        "trials": 37,
        "traces": 36,
        "pages": pages,
    }
    assert len(list((tmp_path / "out").rglob("*.html"))) == pages + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "-1"], "write `all`, `none` or a whole number"),
        (["--port", "5"], "--port is for --live: leave it out"),
        (["--live", "--out", "x"], "--out is for pages without --live, which writes none"),
        (["--live", "--trials", "3"], "--trials is for a sweep without --live: leave it out"),
        (
            ["other.jsonl"],
            "OTHER is for two traces: leave it out; to compare sweeps, join what "
            "`llm-planning sweep export` writes of each",
        ),
        (["--out", "/dev/null/x"], "--out /dev/null/x: /dev/null is not a folder that can be wr"),
        (["--out", "/dev/null/x.html"], "/dev/null is not a folder that can be written"),
    ],
)
def test_what_does_not_fit_is_refused(worlds, arguments, message):
    assert message in refused("view", worlds, *arguments)


def test_a_lost_trace_leaves_a_note_and_no_page(tmp_path):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=1))
    lost, damaged, *_ = sorted((folder / "traces").iterdir())
    lost.unlink()
    damaged.write_bytes(b"nothing")
    ended = invoke("view", folder, "--trials", "all")
    assert ended.exit_code == 0
    assert ended.stderr.count("note: no page of a trial: the trace ") == 2
    assert "4 of 6 that left a trace" in ended.stdout
    assert len(list((folder / "pages" / "trials").iterdir())) == 4
    assert sum(block_of(folder / "pages" / "index.html", "sweep")["trials"]["paged"]) == 4


def test_a_run_that_fails_leaves_nothing(tmp_path, monkeypatch):
    folder = write_ledger(tmp_path / "sweep", several_worlds(seeds=1))
    (folder / "pages" / "index.html").mkdir(parents=True)
    assert "that is a folder" in invoke("view", folder).stderr
    (folder / "pages" / "index.html").rmdir()
    (folder / "pages").rmdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("llm_planning.viewer.sweep_pages.write_durably", full)
    assert "No space left" in refused("view", folder, code=1)
    assert not (folder / "pages").exists()


def test_a_metric_that_is_no_number_is_refused_before_anything_is_written(tmp_path):
    odd = result_of(replace(trial_of("measure"), task="propose"), right="many", questions=3)
    folder = write_ledger(tmp_path / "sweep", [odd])
    assert "has counts that cannot be" in refused("view", folder, code=1)
    assert not (folder / "pages").exists()


def test_texts_of_a_stranger_are_data(tmp_path):
    odd = replace(
        result_of(trial_of(HOSTILE, task=HOSTILE, weight=float("nan"), path=HOSTILE), failed=True),
        error=HOSTILE * 100,
    )
    folder = write_ledger(
        tmp_path / "sweep", [odd, result_of(trial_of(HOSTILE, seed=1), success=True)]
    )
    page = tmp_path / "page.html"
    assert invoke("view", folder, "--out", page).exit_code == 0
    text = page.read_text()
    assert "onerror=" not in text
    assert re.search(r"default-src &#x27;none&#x27;|default-src 'none'", text)
    data = block_of(page, "sweep")
    assert data["groupings"][0]["groups"][0]["values"] == [HOSTILE]
    assert data["errors"][0][0].endswith("more characters)")
    weights = next(column for column in data["trials"]["fields"] if column["name"] == "planner")
    assert weights["values"] == [HOSTILE]


def test_many_trials_are_told_to_be_many(worlds, monkeypatch, tmp_path):
    monkeypatch.setattr(module, "MOST_ROWS", 10)
    page = tmp_path / "page.html"
    invoke("view", worlds, "--out", page)
    data = block_of(page, "sweep")
    assert (len(data["trials"]["keys"]), data["unlisted"]) == (10, 27)
    assert data["counts"]["total"] == 37


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "ledger"
    make_ledger(folder)
    return folder


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", SOME)
def test_an_altered_ledger_is_shown_or_refused_in_a_line(good, tmp_path, name):
    folder = shutil.copytree(good, tmp_path / "ledger")
    ALTERATIONS[name](folder)
    messages = []
    index = tmp_path / "out" / "index.html"
    for read in (
        lambda ledger: write_pages(ledger, index, most=10),
        lambda ledger: json.dumps(LiveSweep(ledger).read(), allow_nan=False),
    ):
        try:
            with Ledger.open(folder) as ledger:
                read(ledger)
        except (LedgerError, MeasureError) as error:
            messages.append(str(error))
    assert all(message.isprintable() for message in messages)
    if index.exists():
        block_of(index, "sweep")
    else:
        assert messages
        assert not index.parent.exists()
    with suppress(OSError):
        folder.chmod(0o755)
