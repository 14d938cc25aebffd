import csv
import itertools
import json
import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from ledger_samples import (
    PROVENANCE,
    USAGE,
    failure_of,
    result_of,
    sweep_of_seeds,
    trial_number,
)
from pyarrow import parquet

from llm_planning.experiments.export import ExportError, columns, export
from llm_planning.experiments.ledger import Ledger

STARTED = datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)


@pytest.fixture
def ledger(tmp_path):
    """Two planners' rows: with other settings, other metrics, and one that failed."""
    alone = replace(trial_number(1), planner="cot", settings={"d": 10, "layout": "paper"})
    trials = [trial_number(0), alone, trial_number(2)]
    sweep = {"name": "s", "retries": 0, "trials": [trial.to_json() for trial in trials]}
    with Ledger.create(tmp_path / "s", sweep, PROVENANCE) as opened:
        metrics = {"nodes": 7.5, "basis": "predicted", "odd": 1, "judged": True, "huge": 2**70}
        opened.record(result_of(trials[0], metrics=metrics), attempt=1, final=True)
        metrics = {"nodes": 3, "odd": "none, yet", "list": [1, "a"]}
        opened.record(
            result_of(alone, success=None, metrics=metrics, plan=('say "hi", twice', "né\ud800")),
            attempt=1,
            final=True,
        )
        opened.record(failure_of(trials[2], usage={}), attempt=1, final=False)
        opened.record(failure_of(trials[2], "E: a\nb", usage={}), attempt=2, final=True)
        yield opened


def table(path):
    """Column -> values, as pyarrow reads a Parquet file."""
    return parquet.read_table(path).to_pydict()


def test_the_columns_of_a_parquet_file(ledger, tmp_path):
    assert export(ledger, tmp_path / "rows.parquet") == 3
    kinds = {
        field.name: str(field.type) for field in parquet.read_schema(tmp_path / "rows.parquet")
    }
    expected = {
        "key": "string",
        "planner": "string",
        "seed": "int64",
        "settings.k": "int64",
        "settings.c": "double",
        "settings.layout": "string",
        "success": "bool",
        "attempts": "int64",
        "seconds": "double",
        "metrics.nodes": "double",
        "metrics.basis": "string",
        "metrics.odd": "string",
        "metrics.judged": "bool",
        "metrics.huge": "string",
        "metrics.list": "string",
        "calls": "int64",
        "usage.propose.prompt_tokens": "int64",
        "plan": "list<element: string>",
        "started": "timestamp[us, tz=UTC]",
        "provenance": "string",
        "provenance.versions.python": "string",
    }
    assert {name: kinds[name] for name in expected} == expected
    assert not any(name.startswith("provenance.templates") for name in kinds)


def test_the_values_of_a_parquet_file(ledger, tmp_path):
    export(ledger, tmp_path / "rows.parquet")
    read = table(tmp_path / "rows.parquet")
    assert {
        name: read[name]
        for name in (
            *("planner", "seed", "settings.k", "settings.d", "success", "status", "attempts"),
            *("metrics.nodes", "metrics.odd", "metrics.judged", "metrics.huge", "metrics.list"),
            *("calls", "usage.propose.calls", "plan", "error", "started", "provenance.commit"),
        )
    } == {
        "planner": ["too", "cot", "too"],
        "seed": [0, 1, 2],
        "settings.k": [2, None, 2],
        "settings.d": [None, 10, None],
        "success": [True, None, None],
        "status": ["done", "done", "failed"],
        "attempts": [1, 1, 2],
        "metrics.nodes": [7.5, 3.0, None],
        "metrics.odd": ["1", "none, yet", None],
        "metrics.judged": [True, None, None],
        "metrics.huge": [str(2**70), None, None],
        "metrics.list": [None, '[1, "a"]', None],
        "calls": [6, 6, 0],
        "usage.propose.calls": [3, 3, None],
        "plan": [["find 1 cow", "kill 1 cow"], ['say "hi", twice', "né\\ud800"], []],
        "error": [None, None, "E: a\nb"],
        "started": [STARTED] * 3,
        "provenance.commit": ["c0ffee"] * 3,
    }
    key = trial_number(0).key
    assert (read["key"][0], read["trace"][0]) == (key, f"traces/{key}.jsonl.gz")
    assert read["trace"][2] is None
    assert read["tokens"][0] == 2 * (USAGE.prompt_tokens + USAGE.completion_tokens)


def test_a_csv_file_says_the_same(ledger, tmp_path):
    assert export(ledger, tmp_path / "rows.CSV") == 3
    with (tmp_path / "rows.CSV").open(encoding="utf-8", newline="") as file:
        first, second, third = csv.DictReader(file)
    assert (first["success"], second["success"], third["success"]) == ("true", "", "")
    assert (first["seed"], first["settings.c"], second["settings.k"]) == ("0", "1.5", "")
    assert json.loads(second["plan"]) == ['say "hi", twice', "né\\ud800"]
    assert (second["metrics.odd"], third["error"]) == ("none, yet", "E: a\nb")
    assert first["started"] == "2023-11-14T22:13:20.250000+00:00"
    assert len(first) == len(columns(ledger))


def test_fields_of_one_family_stand_together(ledger):
    families = [column.name.partition(".")[0] for column in columns(ledger)]
    runs = [family for family, _ in itertools.groupby(families)]
    assert len(runs) == len(set(runs)) < len(families)
    assert runs[0] == "key"


def mean_nodes_in_pandas(pandas, path):
    frame = getattr(pandas, f"read_{path.suffix[1:]}")(path)
    assert pandas.to_datetime(frame["started"])[0] == STARTED
    return frame.groupby("planner")["metrics.nodes"].mean().to_dict()


def mean_nodes_in_polars(polars, path):
    frame = getattr(polars, f"read_{path.suffix[1:]}")(path)
    assert frame["success"].to_list() == [True, None, None]
    return dict(frame.group_by("planner").agg(polars.col("metrics.nodes").mean()).rows())


def mean_nodes_in_duckdb(duckdb, path):
    means = 'SELECT planner, avg("metrics.nodes"), epoch(min(started))'
    rows = duckdb.sql(f"{means} FROM '{path}' GROUP BY planner").fetchall()
    assert {started for _, _, started in rows} == {STARTED.timestamp()}
    return {planner: nodes for planner, nodes, _ in rows}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize(
    ("library", "mean_nodes"),
    [
        ("pandas", mean_nodes_in_pandas),
        ("polars", mean_nodes_in_polars),
        ("duckdb", mean_nodes_in_duckdb),
    ],
)
def test_other_libraries_read_it(ledger, tmp_path, library, mean_nodes, ending):
    module = pytest.importorskip(library)
    path = tmp_path / f"rows.{ending}"
    export(ledger, path)
    assert mean_nodes(module, path) == {"too": 7.5, "cot": 3.0}


def test_another_ending_is_refused(ledger, tmp_path):
    with pytest.raises(ExportError, match=r"unknown ending '.parket'; did you mean .parquet\?"):
        export(ledger, tmp_path / "rows.parket")
    with pytest.raises(ExportError, match=r"the folder .* is missing"):
        export(ledger, tmp_path / "nowhere" / "rows.csv")
    assert not (tmp_path / "nowhere").exists()


def test_a_sweep_without_results_has_nothing_to_export(tmp_path):
    with (
        Ledger.create(tmp_path / "s", sweep_of_seeds(1), PROVENANCE) as ledger,
        pytest.raises(ExportError, match=r"no trial in .* has finished yet"),
    ):
        export(ledger, tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_is_replaced_whole_or_not_at_all(ledger, tmp_path, monkeypatch, ending):
    path = tmp_path / f"rows.{ending}"
    path.write_text("the one before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(ExportError, match="No space left"):
            export(ledger, path)
    assert path.read_text() == "the one before"
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name, "s"}
    export(ledger, path)
    assert path.read_bytes() != b"the one before"
