"""Lines of files that others wrote: they end at a line feed or a carriage return, nowhere else."""

import json

import pandas
import pytest

from llm_planning.commands.index import _entries
from llm_planning.environments.blocksworld.pddl import read_problems
from llm_planning.environments.cooking.recipes import read_cookbook
from llm_planning.environments.travel.files import GraphError, read_graph
from llm_planning.experiments.export import Column, read_export, to_csv
from llm_planning.trace_file import decode_trace
from llm_planning.viewer.reading import read_trace

NO_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""What ends a line for `str.splitlines` alone."""

ODD = "x".join(NO_ENDS).join("ab")

ends = pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])


def json_lines(*values, end="\n"):
    return "".join(f"{json.dumps(value, ensure_ascii=False)}{end}" for value in values).encode()


@ends
def test_problems_of_blocks(tmp_path, end):
    path = tmp_path / "problem.pddl"
    path.write_bytes(
        f"(define (problem p) ; {ODD} (:goal (on b a)){end}"
        f"(:domain blocksworld-4ops) (:objects a b){end}"
        f"(:init (ontable a) (ontable b) (clear a) (clear b) (handempty)) ; {ODD} ({end}"
        f"(:goal (and (on a b)))) ; {ODD} (on b a)".encode()
    )
    assert read_problems(str(path))["problem.pddl"].goal.on == (("a", "b"),)


@ends
def test_cookbooks(end):
    book = end.join(("Directions:", f"  chop the {ODD} carrot", "  prepare meal", "", "More."))
    assert read_cookbook(book)[0] == ("chop", f"{ODD} carrot")


@ends
def test_traces(tmp_path, end):
    lines = (
        {"type": "header", "format": "llm-planning trace", "version": 1, "planner": "p"},
        {"type": "memory", "at": 0.0, "kind": "note", "text": ODD},
        {"type": "end", "lines": 3},
    )
    path = tmp_path / "trace.jsonl"
    path.write_bytes(json_lines(*lines, end=end))
    assert decode_trace(path.read_bytes()) == list(lines)
    read = read_trace(path)
    assert read.damage == ()
    assert [event["text"] for event in read.events if event["type"] == "memory"] == [ODD]


@ends
def test_texts_and_json_lines(tmp_path, end):
    path = tmp_path / "entries"
    path.write_bytes(f"{ODD}{end}second{end}".encode())
    assert _entries(path) == ([ODD, "second"], [None, None])
    values = {"text": ODD}, {"text": "second"}
    path = path.with_suffix(".jsonl")
    path.write_bytes(json_lines(*values, end=end))
    assert _entries(path) == ([ODD, "second"], list(values))


@ends
def test_tables(tmp_path, end):
    (tmp_path / "direct_flights.csv").write_bytes(f"from,to{end}1,2{end}".encode())
    cities = ("id,name,country,population", "1,One,Here,7", "2,Two,Here,7", f"3,Th{ODD}ree,Here,7")
    (tmp_path / "cities.csv").write_bytes(end.join(cities).encode())
    with pytest.raises(GraphError, match=r"cities\.csv: line 4: name is 'Tha"):
        read_graph(tmp_path, end)


def test_tables_of_results(tmp_path):
    path = tmp_path / "export.csv"
    texts = [
        ODD,
        "b\r\nc",
        "\r",
        "stuck\rtry again",
        "b\n",
        '"',
        " a\0b ",
        "\x1e\ufeff\u2029",
        '\\"',
    ]
    columns = {"planner": texts, "provenance.note\rtwo": texts}
    columns |= {key: ["1"] * len(texts) for key in ("task", "seed", "status", "provenance")}
    path.write_bytes(to_csv([Column(name=n, kind="text", values=v) for n, v in columns.items()]))
    for name in ("planner", "provenance.note\rtwo"):
        assert [row[name] for row in read_export(path)] == texts
        assert pandas.read_csv(path)[name].tolist() == texts
