import gzip
import itertools
import os
import shutil
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_samples import (
    PROVENANCE,
    TRACE,
    USAGE,
    failure_of,
    result_of,
    sweep_of_seeds,
    trial_number,
)
from report_ledgers import write_ledger

from llm_planning.experiments.ledger import (
    LEDGER_FILE,
    Ledger,
    LedgerError,
    UnkeepableResultError,
)
from llm_planning.experiments.ledger_files import TraceFolder
from llm_planning.trace_file import summary_of


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "sweeps" / "sample"


@pytest.fixture
def ledger(folder):
    with Ledger.create(folder, sweep_of_seeds(4), PROVENANCE) as opened:
        yield opened


def digest_of(folder, result):
    with Ledger.open(write_ledger(folder, [result])) as kept:
        return kept.content_digest()


# --- what is kept --------------------------------------------------------------------------------


def test_a_result_comes_back_as_it_was_recorded(ledger):
    result = result_of(trial_number(1))
    ledger.record(result, attempt=1, final=True)
    (row,) = ledger.rows()
    assert row.result == replace(result, trace={})
    assert row.attempts == 1
    assert row.trace == ledger.folder / "traces" / f"{result.trial.key}.jsonl.gz"
    assert summary_of(ledger.read_events(row)) == {
        **TRACE,
        "plan": ["find 1 cow", "kill 1 cow"],
        "seed": 1,
    }
    assert ledger.provenances[row.provenance] == PROVENANCE
    assert ledger.sweep == sweep_of_seeds(4)


def test_rows_are_in_the_order_of_the_sweep(ledger):
    for seed in (3, 0, 2):
        ledger.record(result_of(trial_number(seed)), attempt=1, final=True)
    assert [row.result.trial.seed for row in ledger.rows()] == [0, 2, 3]
    assert ledger.finished() == {trial_number(seed).key for seed in (0, 2, 3)}


def test_rows_that_were_read_before_are_not_read_again(ledger):
    seen = set()
    for seed in (0, 3, 2):
        ledger.record(result_of(trial_number(seed)), attempt=1, final=True)
        assert [row.result.trial.seed for row in ledger.new_rows(seen)] == [seed]


def test_failed_attempts_are_counted_until_the_trial_has_its_row(ledger):
    trial, other = trial_number(0), trial_number(1)
    ledger.record(failure_of(trial), attempt=1, final=False)
    ledger.record(failure_of(other), attempt=1, final=False)
    ledger.record(failure_of(trial), attempt=2, final=False)
    assert ledger.attempts() == {trial.key: 2, other.key: 1}
    assert list(ledger.rows()) == []
    ledger.record(failure_of(trial, "OSError: gone"), attempt=3, final=True)
    assert ledger.attempts() == {other.key: 1}
    (row,) = ledger.rows()
    assert row.result == failure_of(trial, "OSError: gone")
    assert row.attempts == 3


def test_a_result_without_a_trace_has_no_file(ledger):
    ledger.record(failure_of(trial_number(0)), attempt=1, final=True)
    (row,) = ledger.rows()
    assert row.trace is None
    assert summary_of(ledger.read_events(row)) == {}
    assert not (ledger.folder / "traces").exists()


def test_texts_that_have_no_utf8_are_kept_escaped(ledger):
    odd = failure_of(
        trial_number(0), "ValueError: \ud800\0", plan=("\udfff",), trace={"said": "\ud800"}
    )
    ledger.record(odd, attempt=1, final=True)
    (row,) = ledger.rows()
    assert (row.result.error, row.result.plan) == ("ValueError: \\ud800\0", ("\\udfff",))
    assert summary_of(ledger.read_events(row)) == {"said": "\ud800"}


ENDLESS = {}
ENDLESS["again"] = ENDLESS


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": ENDLESS},
        {"metrics": {"seen": {1, 2}}},
    ],
)
def test_what_is_no_json_is_refused_and_leaves_nothing(ledger, changes):
    result = result_of(trial_number(0), **changes)
    with pytest.raises(UnkeepableResultError, match="the planner too left a result that cannot"):
        ledger.record(result, attempt=1, final=True)
    assert (ledger.finished(), ledger.attempts()) == (frozenset(), {})
    assert not (ledger.folder / "traces").exists()


def test_nothing_is_recorded_twice(ledger):
    trial = trial_number(0)
    ledger.record(result_of(trial), attempt=1, final=True)
    digest = ledger.content_digest()
    for final, result in ((True, result_of(trial, trace={"new": 1})), (False, failure_of(trial))):
        with pytest.raises(ValueError, match="trial 0 of the sweep has its row already"):
            ledger.record(result, attempt=2, final=final)
    assert ledger.content_digest() == digest
    (row,) = ledger.rows()
    assert summary_of(ledger.read_events(row))["seed"] == 0


def test_attempts_follow_each_other(ledger):
    for attempt in (0, 2):
        with pytest.raises(ValueError, match=f"attempt {attempt} of trial 0 .* follow 0 others"):
            ledger.record(failure_of(trial_number(0)), attempt=attempt, final=False)
    with pytest.raises(ValueError, match="its row is final"):
        ledger.record(result_of(trial_number(0)), attempt=1, final=False)
    with pytest.raises(ValueError, match=r"'seed': 9.* is not in the ledger's sweep"):
        ledger.record(result_of(trial_number(9)), attempt=1, final=True)
    assert ledger.attempts() == {}


def test_a_sweep_has_each_trial_once(folder):
    trial = trial_number(0).to_json()
    with pytest.raises(ValueError, match="each of its trials once"):
        Ledger.create(folder, {"trials": [trial, trial]}, PROVENANCE)
    assert not folder.exists()


def test_threads_share_a_ledger(folder):
    with Ledger.create(folder, sweep_of_seeds(40), PROVENANCE) as ledger:

        def record(seeds):
            for seed in seeds:
                ledger.record(result_of(trial_number(seed)), attempt=1, final=True)

        threads = [threading.Thread(target=record, args=(range(n, 40, 4),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [row.result.trial.seed for row in ledger.rows()] == list(range(40))


# --- traces --------------------------------------------------------------------------------------


def test_a_trace_begins_with_its_trial_and_its_outcome(ledger):
    ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    (row,) = ledger.rows()
    header, outcome, *_ = ledger.read_events(row)
    result = row.result
    assert result.trial.to_json().items() <= header.items()
    assert outcome == {
        "type": "outcome",
        "success": result.success,
        "plan": list(result.plan),
        "metrics": result.metrics,
        "seconds": result.seconds,
    }


def test_the_bytes_of_a_trace_hold_no_time(tmp_path):
    TraceFolder(tmp_path).write("0" * 64, b"a line\n")
    (file,) = tmp_path.iterdir()
    assert file.read_bytes()[4:8] == b"\0\0\0\0"


@pytest.mark.parametrize("harm", ["missing", "cut", "another"])
def test_a_trace_that_is_not_what_was_left_is_reported(ledger, harm):
    ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    (row,) = ledger.rows()
    if harm == "missing":
        row.trace.unlink()
    elif harm == "cut":
        row.trace.write_bytes(row.trace.read_bytes()[:-9])
    else:
        row.trace.write_bytes(gzip.compress(b'{"key":"goal","value":"rule"}\n'))
    with pytest.raises(LedgerError, match=f"the trace {row.trace} ") as caught:
        summary_of(ledger.read_events(row))
    assert not isinstance(caught.value, UnkeepableResultError)


def test_resuming_removes_what_a_killed_run_left_and_nothing_else(folder):
    with Ledger.create(folder, sweep_of_seeds(3), PROVENANCE) as ledger:
        ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    traced, orphan = (trial_number(seed).key for seed in (0, 1))
    left = (f"traces/{orphan}.jsonl.gz", f"traces/{traced}.jsonl.gz.tmp", f"{LEDGER_FILE}.new")
    mine = ("traces/notes.txt", "traces/best.jsonl.gz", "table.csv")
    for name in left + mine:
        (folder / name).write_bytes(b"x")
    Ledger.open(folder).close()
    assert all((folder / name).exists() for name in left)
    Ledger.resume(folder, PROVENANCE).close()
    assert not any((folder / name).exists() for name in left)
    assert all((folder / name).exists() for name in (*mine, f"traces/{traced}.jsonl.gz"))


# --- the digest ----------------------------------------------------------------------------------


def test_the_digest_leaves_out_times_and_what_was_replayed(tmp_path):
    plain = digest_of(tmp_path / "a", result_of(trial_number(0)))
    again = replace(USAGE, cached_tokens=0, replayed=3, seconds=0.0)
    later = result_of(
        trial_number(0),
        started=1.0,
        seconds=9.0,
        usage={"reward": again, "propose": again},
    )
    sweep = {"name": "by-hand", "retries": 0, "trials": [trial_number(0).to_json()]}
    with Ledger.create(tmp_path / "b", sweep, {"x": 1}) as other:
        other.record(later, attempt=1, final=True)
        assert other.content_digest() == plain


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "failed"},
        {"success": None},
        {"plan": ("find 1 cow",)},
        {"metrics": {"nodes": 8}},
        {"usage": {"propose": USAGE}},
        {"usage": {"propose": USAGE, "reward": replace(USAGE, calls=4)}},
        {"usage": {"propose": USAGE, "reward": replace(USAGE, prompt_tokens=4)}},
        {"usage": {"propose": USAGE, "reward": replace(USAGE, completion_tokens=4)}},
        {"trace": {}},
        {"trace": {**TRACE, "goal": "another"}},
        {"error": "ValueError: no plan"},
        {"trial": trial_number(0, width=2)},
    ],
    ids=str,
)
def test_the_digest_holds_everything_else(tmp_path, changes):
    plain = digest_of(tmp_path / "a", result_of(trial_number(0)))
    assert digest_of(tmp_path / "b", result_of(trial_number(0), **changes)) != plain


def test_the_digest_does_not_depend_on_the_order_of_recording_but_on_attempts(tmp_path):
    digests = []
    for number, order in enumerate(itertools.permutations(range(3))):
        with Ledger.create(tmp_path / str(number), sweep_of_seeds(3), PROVENANCE) as ledger:
            for seed in order:
                ledger.record(result_of(trial_number(seed)), attempt=1, final=True)
            digests.append(ledger.content_digest())
    assert len(set(digests)) == 1
    with Ledger.create(tmp_path / "tried", sweep_of_seeds(3), PROVENANCE) as ledger:
        empty = ledger.content_digest()
        ledger.record(failure_of(trial_number(0)), attempt=1, final=False)
        tried = ledger.content_digest()
        for seed in range(3):
            ledger.record(result_of(trial_number(seed)), attempt=2 - bool(seed), final=True)
        assert len({empty, tried, ledger.content_digest(), digests[0]}) == 4
    with Ledger.create(tmp_path / "named", sweep_of_seeds(3, name="x"), PROVENANCE) as ledger:
        assert ledger.content_digest() != empty


# --- opening -------------------------------------------------------------------------------------


def test_a_sweep_is_resumed_with_another_provenance(folder):
    with Ledger.create(folder, sweep_of_seeds(2), PROVENANCE) as ledger:
        ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    newer = {**PROVENANCE, "commit": "beef"}
    for _ in range(2):
        with Ledger.resume(folder, newer, sweep=sweep_of_seeds(2, retries=5)) as ledger:
            assert len(ledger.provenances) == 2
    with Ledger.resume(folder, newer) as ledger:
        ledger.record(result_of(trial_number(1)), attempt=1, final=True)
        commits = [ledger.provenances[row.provenance]["commit"] for row in ledger.rows()]
    assert commits == ["c0ffee", "beef"]


def test_another_sweep_is_refused(folder, ledger):
    ledger.close()
    with pytest.raises(
        LedgerError,
        match="one: 2 of its 4 trials are not in this one, and 0 of this one's 2 are not in it",
    ):
        Ledger.resume(folder, PROVENANCE, sweep=sweep_of_seeds(2))
    Ledger.resume(folder, PROVENANCE).close()  # the lock was given back


def test_a_missing_ledger_is_an_error_that_leaves_no_folder(folder):
    for opening in (Ledger.open, lambda path: Ledger.resume(path, PROVENANCE)):
        with pytest.raises(LedgerError, match=f"no ledger in {folder}"):
            opening(folder)
    assert not folder.exists()


def test_a_second_sweep_does_not_replace_the_first(folder, ledger):
    ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    ledger.close()
    with pytest.raises(LedgerError, match="holds a sweep already: resume it"):
        Ledger.create(folder, sweep_of_seeds(1), PROVENANCE)
    (folder / LEDGER_FILE).rename(folder / "kept.sqlite")
    with pytest.raises(LedgerError, match="what is left of a sweep"):
        Ledger.create(folder, sweep_of_seeds(1), PROVENANCE)
    (folder / "kept.sqlite").rename(folder / LEDGER_FILE)
    with Ledger.open(folder) as again:
        assert len(again.finished()) == 1


def test_a_reader_cannot_record(folder, ledger):
    with (
        Ledger.open(folder) as reader,
        pytest.raises(LedgerError, match="opened for reading: resume the sweep"),
    ):
        reader.record(result_of(trial_number(0)), attempt=1, final=True)
    assert ledger.finished() == frozenset()


def test_a_folder_that_cannot_be_written_is_read(folder, ledger, monkeypatch):
    ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    ledger.close()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with Ledger.open(folder) as reader:
        assert reader.finished() == {trial_number(0).key}
    assert {entry.name for entry in folder.iterdir()} == {LEDGER_FILE, "ledger.lock", "traces"}


@pytest.mark.parametrize("name", ["/{}", "{}/file:a", "{}/a?mode=memory", "{}/a%20#b", "é"])
def test_a_ledger_is_used_by_any_path_that_names_its_folder(tmp_path, monkeypatch, name):
    """SQLite would read an authority, a parameter or a fragment in some of them."""
    monkeypatch.chdir(tmp_path)
    folder = Path(name.format(tmp_path / "sample"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Ledger.create(folder, sweep_of_seeds(2), PROVENANCE) as ledger:
        ledger.record(failure_of(trial_number(0)), attempt=1, final=True)
    with Ledger.resume(folder, PROVENANCE) as ledger:
        ledger.record(failure_of(trial_number(1)), attempt=1, final=True)
    with Ledger.open(folder) as ledger:
        assert ledger.finished() == {trial_number(seed).key for seed in range(2)}
    assert (folder / LEDGER_FILE).read_bytes().startswith(b"SQLite format 3")


def test_a_refusal_to_open_is_not_called_damage(folder, ledger, monkeypatch):
    ledger.close()

    def refusing(*_args, **_options):
        raise sqlite3.OperationalError("invalid uri authority: tmp")

    monkeypatch.setattr(sqlite3, "connect", refusing)
    with pytest.raises(LedgerError, match=r"cannot be used \(invalid uri authority: tmp\): free"):
        Ledger.open(folder)


# --- files that are no ledger, or not any more ---------------------------------------------------


@pytest.mark.parametrize("content", [b"not a database, " * 300, b"{}"])
def test_a_file_that_is_no_database_is_refused_untouched(folder, content):
    folder.mkdir(parents=True)
    (folder / LEDGER_FILE).write_bytes(content)
    for opening in (Ledger.open, lambda path: Ledger.resume(path, PROVENANCE)):
        with pytest.raises(LedgerError, match=r"is damaged \(file is not a database\): restore"):
            opening(folder)
    assert (folder / LEDGER_FILE).read_bytes() == content


def test_damage_is_found_before_anything_is_recorded(folder):
    with Ledger.create(folder, sweep_of_seeds(200), PROVENANCE) as ledger:
        for seed in range(20):
            ledger.record(failure_of(trial_number(seed)), attempt=1, final=True)
    path = folder / LEDGER_FILE
    content = bytearray(path.read_bytes())
    pages = len(content) // 4096
    damages = 0
    for page in range(1, pages):
        harmed = bytearray(content)
        harmed[page * 4096 : page * 4096 + 64] = b"\xff" * 64
        path.write_bytes(harmed)
        with pytest.raises(LedgerError, match="is damaged"):
            Ledger.resume(folder, PROVENANCE)
        damages += 1
    assert damages == pages - 1 > 10
    path.write_bytes(content)
    Ledger.resume(folder, PROVENANCE).close()


def test_a_log_cut_anywhere_keeps_what_was_recorded_before(folder, ledger, tmp_path):
    """Lost power may leave the write-ahead log with any part of the last transaction."""
    ledger.record(result_of(trial_number(0)), attempt=1, final=True)
    log = folder / f"{LEDGER_FILE}-wal"
    before = log.stat().st_size
    ledger.record(result_of(trial_number(1)), attempt=1, final=True)
    after = log.stat().st_size
    assert after > before
    seen = set()
    for size in (*range(before, after, 1031), after - 1, after):
        copy = tmp_path / f"cut-{size}"
        shutil.copytree(folder, copy)
        with (copy / log.name).open("r+b") as file:
            file.truncate(size)
        (copy / f"{LEDGER_FILE}-shm").unlink()
        with Ledger.resume(copy, PROVENANCE) as reopened:
            finished = len(reopened.finished())
            assert [row.result.trial.seed for row in reopened.rows()] == list(range(finished))
            assert len(list((copy / "traces").iterdir())) == finished
        seen.add((size == after, finished))
    assert seen == {(False, 1), (True, 2)}
