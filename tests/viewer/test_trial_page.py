"""What is in a page: its policy, its data, its build; and what a damaged trace leaves of it."""

import base64
import filecmp
import gzip
import hashlib
import json
import re
import shutil
import subprocess
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from traces import EVIL, asked, learning, lines_of, run, written

import llm_planning.viewer
from llm_planning.cli import main
from llm_planning.trace_file import TraceError, encode_trace
from llm_planning.viewer.columns import KINDS, Columns
from llm_planning.viewer.difference import first_difference
from llm_planning.viewer.reading import read_trace
from llm_planning.viewer.trial_page import trial_page

WEB = Path(__file__).parents[2] / "web"
PAGES = Path(llm_planning.viewer.__file__).parent / "pages"


class Seen(HTMLParser):
    """The elements of a page, as a browser would read it."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.blocks, self.texts = [], {}, {}
        self._open = None
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._open = (tag, dict(attrs).get("id"))

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open and self._open[0] in {"script", "style"}:
            tag, id_ = self._open
            if id_:
                self.blocks[id_.removeprefix("block-")] = gzip.decompress(base64.b64decode(data))
            else:
                self.texts[tag] = self.texts.get(tag, "") + data


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Makes the trace of a run, once."""
    folder = tmp_path_factory.mktemp("ran")
    return cache(lambda name: run(name, folder))


def page_of(path):
    return Seen(trial_page([read_trace(path)]).decode())


def test_no_text_of_a_trace_is_html(tmp_path):
    path = written(tmp_path / "t.jsonl", asked())
    html = trial_page([read_trace(path)]).decode()
    assert "onerror" not in html.split("<title>")[1].split("</title>")[1]
    assert unescape(html.split("<title>")[1].split("</title>")[0]).startswith(EVIL)
    page = page_of(path)
    outside = [tag for tag, _ in page.tags if tag not in {"meta", "script", "style"}]
    assert outside == ["html", "head", "title", "body", "noscript"]
    about = json.loads(page.blocks["0-about"])
    assert about["plan"] == [EVIL]
    assert about["header"]["task"] == EVIL
    assert EVIL in json.loads(page.blocks["0-texts-0"])


def test_the_policy_lets_nothing_in_but_the_pages_own_script_and_style(tmp_path):
    page = page_of(written(tmp_path / "t.jsonl", asked()))
    policy = next(attrs["content"] for tag, attrs in page.tags if "http-equiv" in attrs)

    def digest(text):
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    assert policy.split("; ") == [
        "default-src 'none'",
        f"script-src 'sha256-{digest(page.texts['script'])}'",
        f"style-src 'sha256-{digest(page.texts['style'])}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert not any({"src", "href"} & set(attrs) for _, attrs in page.tags)


def column(page, name):
    kind, offset, length = json.loads(page.blocks["0-about"])["columns"][name]
    return np.frombuffer(page.blocks["0-columns"], f"<{kind}", length, offset)


def test_columns_have_what_the_trace_says(ran):
    path = ran("uct")
    page, lines = page_of(path), lines_of(path)
    strings = json.loads(page.blocks["0-about"])["strings"]
    moments = [(line["type"], line["at"]) for line in lines if line["type"] in KINDS]
    kinds = [KINDS[kind] for kind in column(page, "moment_kind")]
    assert list(zip(kinds, column(page, "moment_at"), strict=True)) == moments
    # A line repeats the edges of its node where one has another prior.
    actions = {
        (line["tree"], line["node"], place): action
        for line in lines
        if line["type"] == "edges"
        for place, action in enumerate(line["actions"])
    }
    assert [strings[at] for at in column(page, "edge_action")] == list(actions.values())
    updates = [line for line in lines if line["type"] in {"simulation", "decision"}]
    assert list(column(page, "update_n")) == [n for line in updates for n in line["N"]]
    assert list(column(page, "update_q")) == [q for line in updates for q in line["Q"]]
    assert sum(line["type"] == "node" for line in lines) == len(column(page, "node_tree"))


def test_questions_belong_to_the_nodes_that_asked_them(tmp_path):
    events = asked()
    lost = dict(events[5], node=7, edge="7.0")
    nobody = {key: events[4][key] for key in events[4] if key not in {"tree", "node"}}
    path = written(tmp_path / "t.jsonl", [*events, lost, nobody | {"simulation": None}])
    page = page_of(path)
    strings = json.loads(page.blocks["0-about"])["strings"]
    assert list(column(page, "question_node")) == [0, 0, -1, -1]
    assert list(column(page, "question_edge")) == [-1, 0, -1, -1]
    about = [strings[at] for at in column(page, "question_about")]
    assert about == ["", EVIL, EVIL, ""]
    wrong = dict(events[4], node="x")
    read = page_of(written(tmp_path / "wrong.jsonl", [*events, wrong]))
    assert list(column(read, "question_node")) == [0, 0]
    (sentence,) = json.loads(read.blocks["0-about"])["damage"]
    assert sentence.startswith("1 of its `role` lines")


def test_tree_of_options_tells_its_rewards_and_untried_options(ran):
    page = page_of(ran("too"))
    about = json.loads(page.blocks["0-about"])
    texts = json.loads(page.blocks["0-texts-0"])
    details = [json.loads(texts[at]) for at in column(page, "edge_detail") if at]
    assert all("reachability" in detail["scores"] and detail["candidate"] for detail in details)
    assert len(details) == len(column(page, "edge_node"))
    # The options that no simulation took have nodes of their own.
    assert len(column(page, "node_tree")) == len(details) + 1 > about["nodes"]


def test_the_outcome_is_the_first_thing(ran):
    for name, success in {"too": True, "drip": True, "uct": False}.items():
        about = json.loads(page_of(ran(name)).blocks["0-about"])
        assert about["success"] is success
        assert about["plan"]
        assert about["seconds"] > 0


def test_the_plan_of_a_trace_that_is_cut_off_is_what_was_carried_out(ran, tmp_path):
    path = tmp_path / "cut.jsonl"
    lines = [line for line in lines_of(ran("too")) if line["type"] not in {"outcome", "end"}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    about = json.loads(page_of(path).blocks["0-about"])
    assert (about["success"], about["seconds"], about["metrics"]) == (None, None, {})
    assert about["plan"][-1] == "cook 1 cooked_porkchop"


def test_a_list_of_lines_is_a_trace(tmp_path):
    path = tmp_path / "t.json"
    lines = lines_of(written(tmp_path / "t.jsonl", asked()))
    path.write_text(json.dumps(lines, indent=1))
    assert read_trace(path).events == lines[1:-1]
    assert read_trace(path).damage == ()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda content: content[: len(content) // 2], "It is cut off"),
        (lambda content: b"\n".join(content.split(b"\n")[1:]), "Its header is missing"),
        (lambda content: content.replace(b'"N":[1]', b'"N":["x"]'), "1 of its `simulation` lines"),
        (lambda content: content.replace(b'"edges":["0.0"]', b'"edges":["7.7"]'), "2 of its `sim"),
        (lambda content: content.replace(b'"version":1', b'"version":9'), "version 9"),
        (lambda content: content.replace(b"\n", b"\n]\n", 3), "3 of its lines cannot be read"),
        (lambda content: content + b"7\n", "1 of its lines are no objects"),
        (lambda content: gzip.compress(content)[:-200], "compressed bytes are cut off"),
    ],
)
def test_a_damaged_trace_opens_as_far_as_it_goes_and_says_so(tmp_path, harm, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(harm(written(path, asked()).read_bytes()))
    about = json.loads(page_of(path).blocks["0-about"])
    assert any(message in sentence for sentence in about["damage"]), about["damage"]
    assert about["nodes"] >= 1


def test_a_broken_line_hides_no_end(tmp_path):
    path = written(tmp_path / "t.jsonl", asked())
    lines = path.read_bytes().split(b"\n")
    lines[3] = b"]"
    path.write_bytes(b"\n".join(lines))
    assert read_trace(path).damage == ("1 of its lines cannot be read and are left out: 4.",)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"{}", b"[1]", b"\x1f\x8b", b"PNG\0", b"[[["])
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, capfd, content):
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    assert main(["view", str(path), "--out", str(tmp_path / "page.html")]) == 1
    _, error = capfd.readouterr()
    assert error.startswith(f"error: {path} is not a trace")
    assert error.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_missing_trace_is_named(tmp_path):
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none.jsonl")


def test_the_command_names_the_page_after_the_trace(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "t.jsonl", asked())
    assert main(["view", "t.jsonl", "--json"]) == 0
    out, error = capfd.readouterr()
    assert json.loads(out)["page"] == "t.html"
    assert error == ""
    assert (tmp_path / "t.html").read_bytes().startswith(b"<!doctype html>")


def test_the_first_difference_is_found():
    events = asked("x")
    assert first_difference(events, [{**event, "at": 9.0} for event in events]) is None
    other = [{**event} for event in events]
    place = next(at for at, event in enumerate(other) if event["type"] == "decision")
    other[place] = {**other[place], "N": [1, 1]}
    difference = first_difference(events, other)
    moments = [event["type"] for event in events[:place]]
    assert difference.moments == (sum(kind in KINDS for kind in moments),) * 2
    assert (difference.field, difference.values) == ("N", ([2, 0], [1, 1]))
    assert first_difference(events, events[:-2]).kinds == ("execution", None)
    lacking = [{**event} for event in events]
    lacking[place]["note"] = None
    difference = first_difference(events, lacking)
    assert (difference.field, difference.values) == ("note", (None, None))


def test_a_learnt_graph_is_moments_of_the_replay():
    columns = Columns(learning("x"))
    content, places = columns.packed()
    kind, first, length = places["moment_kind"]
    kinds = np.frombuffer(content, dtype=kind, count=length, offset=first)
    expected = ["graph", "execution", "graph", "graph", "execution", "graph"]
    assert [KINDS[kind] for kind in kinds] == expected
    assert columns.unused == {}


def test_numbers_without_a_form_in_json_reach_the_page(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text(
        '{"type":"summary","key":"worst","value":NaN}\n'
        '{"type":"summary","key":"best","value":[Infinity]}\n'
    )
    about = json.loads(page_of(path).blocks["0-about"], parse_constant=pytest.fail)
    assert about["summary"] == {"worst": "nan", "best": ["inf"]}


def test_what_cannot_be_used_is_counted_and_changes_nothing():
    events = asked("x")
    wrong = [
        {
            "type": "simulation",
            "at": 0.1,
            "tree": 0,
            "nodes": [0, 9],
            "edges": [],
            "N": [],
            "Q": [],
        },
        {"type": "node", "at": 0.1, "tree": -1, "id": 0, "edge": None, "observation": None},
        {"type": "edges", "at": 0.1, "tree": 0, "node": 0, "actions": 3, "priors": [0.5]},
        {"type": "load", "at": "soon", "batch": 1, "waiting": 0, "capacity": 1},
        {"type": "belief", "at": []},
        {"type": "unknown"},
    ]
    columns = Columns([*events, *wrong])
    assert columns.unused == dict.fromkeys(("simulation", "node", "edges", "load", "belief"), 1)
    assert columns.packed() == Columns(events).packed()
    assert encode_trace({}, events=events)


def test_the_committed_pages_are_those_that_the_sources_build(tmp_path):
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("node or npm is missing")
    if not (WEB / "node_modules").is_dir():
        installed = subprocess.run(["npm", "ci", "--silent"], cwd=WEB, check=False, timeout=240)
        if installed.returncode:
            pytest.skip("npm ci fails here: what builds the pages cannot be had")
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=WEB, check=True, timeout=60)
    built = sorted(path.name for path in tmp_path.iterdir())
    assert built == sorted(path.name for path in PAGES.iterdir())
    same, different, unread = filecmp.cmpfiles(tmp_path, PAGES, built, shallow=False)
    assert (sorted(same), different, unread) == (built, [], [])


def test_sources_make_no_html_and_ask_no_network():
    for path in (WEB / "src").rglob("*.ts"):
        code = path.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", code), (
            path
        )
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", code), path


def test_a_run_that_was_broken_off_says_so_on_its_page(tmp_path):
    raised = {"type": "summary", "key": "raised", "value": ["Traceback", "KeyError: 'x'", ""]}
    about = json.loads(page_of(written(tmp_path / "t.jsonl", [raised])).blocks["0-about"])
    assert about["damage"] == ["The run was broken off: KeyError: 'x'"]
