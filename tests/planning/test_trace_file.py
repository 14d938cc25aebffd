import json
import math
from pathlib import Path

import numpy as np
import pytest

from llm_planning.trace import recording
from llm_planning.trace_file import TraceError, decode_trace, encode_trace, summary_of, write_trace

SUMMARY = {
    "goal": "cook meat",
    "steps": [{"option": "find 1 cow", "p": 0.25}, {"option": "kill 1 cow", "p": 0.75}],
    "plan": ("find 1 cow", "kill 1 cow"),
    "mixed": [{"a": 1}, 2],
    "empty": [],
}
HEADER = {"planner": "too", "domain": "minecraft", "task": "cook-meat", "seed": 3}


def sample():
    with recording() as trace:
        trace.memory("☃ \ud800", kind="reflection")
        trace.execution("dig", reward=1.0)
    return trace


def test_a_trace_comes_back_as_it_was_written():
    trace = sample()
    content = encode_trace(SUMMARY, events=trace.events, header=HEADER)
    lines = decode_trace(content)
    assert lines[0] == {"type": "header", "format": "llm-planning trace", "version": 1, **HEADER}
    assert lines[1:3] == trace.events
    assert lines[3:6] == [
        {"type": "summary", "key": "goal", "value": "cook meat"},
        *(
            {"type": "summary", "key": "steps", "index": place, "value": step}
            for place, step in enumerate(SUMMARY["steps"])
        ),
    ]
    assert lines[-1] == {"type": "end", "lines": len(lines)}
    assert summary_of(lines) == {**SUMMARY, "plan": list(SUMMARY["plan"])}
    assert content == content.decode("ascii").encode()


def test_equal_summaries_have_equal_lines():
    first, other = (encode_trace({"node": node}) for node in ({"x": 1, "y": 2}, {"y": 2, "x": 1}))
    assert first == other


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda lines: [], "it is empty"),
        (lambda lines: lines[:-1], "missing"),
        (lambda lines: lines[:2] + lines[3:], "missing"),
        (lambda lines: lines[1:], "is not the header of a trace"),
        (lambda lines: [lines[0], lines[1][:-5], *lines[2:]], "is not JSON"),
        (lambda lines: [lines[0], b"[]", *lines[2:]], r"is \[\], not an object"),
        (lambda lines: [b'{"key":1}'], "is not the header of a trace"),
        (lambda lines: [b"7"], "is 7, not an object"),
        (lambda lines: [b"\xff" * 10_000], "not JSON: 'utf-8' codec can't decode"),
        (lambda lines: [b'"type"'], "'type', not an object"),
        (lambda lines: [b'{"type":' + b"[" * 100_000], "nested too deeply"),
        (
            lambda lines: [lines[0].replace(b'"header"', b'["header"]'), *lines[1:]],
            "is not the type of a line",
        ),
        (lambda lines: [lines[0], b'{"type":"summary"}', *lines[2:]], "lacks its key or its value"),
        (lambda lines: [lines[0].replace(b'"version":1', b'"version":2'), *lines[1:]], "version 2"),
        (lambda lines: [lines[0].replace(b"llm-planning", b"other"), *lines[1:]], "'other trace'"),
    ],
)
def test_what_is_no_whole_trace_is_refused(harm, complaint):
    lines = encode_trace(SUMMARY, events=sample().events).splitlines()
    assert decode_trace(b"\n".join(lines))
    with pytest.raises(TraceError, match=complaint):
        decode_trace(b"\n".join(harm(lines)))


def test_what_is_said_of_a_hostile_trace_is_short():
    header = json.dumps({"type": "header", "format": "\x1b" * 10_000, "version": 10**4000})
    for content in (header.encode(), b"\xff" * 10_000, b"[" + b"7," * 10_000 + b"7]"):
        with pytest.raises(TraceError) as refusal:
            decode_trace(content)
        assert len(str(refusal.value)) < 250
        assert str(refusal.value).isprintable()


def test_a_summary_that_is_a_list_and_none_is_refused():
    line = {"type": "summary", "key": "x", "value": 1}
    with pytest.raises(TraceError, match="'x' is once a list and once a value"):
        summary_of([line, {**line, "index": 0}])


def test_a_summary_that_lacks_a_part_is_refused():
    with pytest.raises(TraceError, match="value"):
        summary_of([{"type": "summary", "key": "goal"}])


def test_a_summary_consists_of_json_values():
    loop = {}
    loop["again"] = loop
    for summary in ({"node": object()}, loop):
        with pytest.raises(TraceError, match="must consist of JSON values"):
            encode_trace(summary)


def test_numbers_of_other_kinds_are_json_s():
    def refuse(constant):
        raise AssertionError(constant)

    with recording() as trace:
        trace.execution("dig", reward=np.float32(0.5))
        trace.execution("dig", reward=math.inf)
        trace.belief({"p": [math.nan, -math.inf]})
    lines = encode_trace({"worst": -math.inf}, events=trace.events).splitlines()
    events = [json.loads(line, parse_constant=refuse) for line in lines]
    assert [events[1]["reward"], events[2]["reward"]] == [0.5, "inf"]
    assert events[3]["belief"] == {"p": ["nan", "-inf"]}
    assert events[4]["value"] == "-inf"


# --- files ---------------------------------------------------------------------------------------


def test_a_trace_is_written_and_replaced(tmp_path):
    path = tmp_path / "trace.jsonl"
    for goal in ("cook", "dig"):
        write_trace(path, sample(), header=HEADER, summary={"goal": goal})
        assert summary_of(decode_trace(path.read_bytes())) == {"goal": goal}
        assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_one_and_its_target_is_written(tmp_path):
    target = tmp_path / "kept.jsonl"
    target.write_text("before")
    link = tmp_path / "trace.jsonl"
    link.symlink_to(target)
    write_trace(link, sample(), header=HEADER, summary={})
    assert link.is_symlink()
    assert decode_trace(target.read_bytes())


def test_a_name_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_trace(Path("trace.jsonl"), sample(), header={}, summary={})
    assert decode_trace((tmp_path / "trace.jsonl").read_bytes())


def test_a_summary_that_is_no_json_leaves_what_was_there(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("before")
    with pytest.raises(TraceError):
        write_trace(path, sample(), header={}, summary={"node": object()})
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
