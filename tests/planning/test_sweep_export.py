import csv
import gzip
import json
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from ledger_samples import (
    PROVENANCE,
    failure_of,
    result_of,
    sweep_of_seeds,
    trial_number,
)
from pyarrow import parquet

from llm_planning.experiments import export as export_module
from llm_planning.experiments.export import ExportError, export, provenances_of, read_export
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.runs import result_record

GOLDEN = Path(__file__).parents[1] / "golden"
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


def test_a_csv_file_is_the_golden_one(ledger, tmp_path):
    assert export(ledger, tmp_path / "rows.CSV") == 3
    assert (tmp_path / "rows.CSV").read_bytes() == (GOLDEN / "export.csv").read_bytes()


def test_a_parquet_file_has_the_golden_types_and_the_values_of_the_csv_file(ledger, tmp_path):
    assert export(ledger, tmp_path / "rows.parquet") == 3
    table = parquet.read_table(tmp_path / "rows.parquet")
    types = {field.name: str(field.type) for field in table.schema}
    assert types == json.loads((GOLDEN / "export-types.json").read_text("utf-8"))
    with (GOLDEN / "export.csv").open(encoding="utf-8", newline="") as file:
        for row, cells in zip(table.to_pylist(), csv.DictReader(file), strict=True):
            assert row.pop("started") == datetime.fromisoformat(cells.pop("started"))
            texts = {name: json.dumps(value) for name, value in row.items() if value is not None}
            written = {name: row[name] for name in texts if isinstance(row[name], str)}
            assert texts | written == {name: cell for name, cell in cells.items() if cell}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_export_is_read_as_records(ledger, tmp_path, ending):
    path = tmp_path / f"rows.{ending}"
    export(ledger, path)
    records = read_export(path)
    for record, row in zip(records, ledger.rows(), strict=True):
        known = result_record(row.result, attempts=row.attempts)
        known = {name: value for name, value in known.items() if value is not None}
        odd = {"metrics.odd", "metrics.huge", "metrics.list"}  # of mixed kinds, and so texts
        assert {k: v for k, v in known.items() if k not in odd}.items() <= record.items()
    assert records[0]["provenance.commit"] == "c0ffee"
    assert records[1]["metrics.list"] == '[1, "a"]'
    assert not records[0].keys() & {"plan", "key", "settings.layout"}


HEAD = b"planner,task,seed,status,provenance\n"
LARGE = 2000


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_provenance_keeps_what_is_true_and_what_is_text(tmp_path, ending):
    trial = trial_number(0)
    told = {"commit": "12e45", "deterministic": True, "dirty": None, "versions": {"python": "3.1"}}
    sweep = {"name": "s", "retries": 0, "trials": [trial.to_json()]}
    with Ledger.create(tmp_path / "s", sweep, told) as opened:
        opened.record(result_of(trial), attempt=1, final=True)
        export(opened, tmp_path / f"rows.{ending}")
    (provenance,) = provenances_of(read_export(tmp_path / f"rows.{ending}")).values()
    assert provenance == {"commit": "12e45", "deterministic": True, "versions.python": "3.1"}
    packed = tmp_path / f"ROWS.{ending.upper()}.GZ"
    packed.write_bytes(gzip.compress((tmp_path / f"rows.{ending}").read_bytes()))
    assert read_export(packed) == read_export(tmp_path / f"rows.{ending}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.txt", b""),
        ("missing.csv", None),
        ("rows.csv", b""),
        ("rows.csv", b"planner,task\ntoo\n"),
        ("rows.csv", b"planner,task,seed,status\ntoo,cook-meat,0,done\n"),
        ("rows.csv", b"\xff"),
        ("rows.csv.gz", b"\x1f\x8b"),
        ("rows.parquet", b"PAR1"),
        ("rows.csv", HEAD + bytes(LARGE)),
        ("rows.csv.gz", gzip.compress(HEAD + bytes(LARGE), mtime=0)),
    ],
)
def test_what_is_no_export_is_refused(tmp_path, monkeypatch, name, content):
    monkeypatch.setattr(export_module, "LARGEST", LARGE)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ExportError, match=f"cannot read .*{name}"):
        read_export(tmp_path / name)


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


def test_a_file_is_replaced_whole_or_not_at_all(ledger, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
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
