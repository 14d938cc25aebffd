"""Ledgers of strangers: whatever they hold is refused in one line, or is a value like any other."""

import os
import shutil
import tracemalloc
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest
from hostile.ledgers import alterations, make_ledger
from ledger_samples import PROVENANCE, failure_of, result_of, sweep_of_seeds, trial_number
from report_ledgers import write_ledger

from llm_planning.experiments import export as export_module
from llm_planning.experiments import summary as summary_module
from llm_planning.experiments import trial as trial_module
from llm_planning.experiments.export import ExportError, columns, export
from llm_planning.experiments.ledger import LEDGER_FILE, Ledger, LedgerError, UnkeepableResultError
from llm_planning.experiments.measures import MeasureError, measure
from llm_planning.experiments.published import Measure
from llm_planning.experiments.runs import field_values, read_runs, result_record, runs_of
from llm_planning.experiments.summary import summary

ALTERATIONS = dict(alterations())
NOBODY = 65534
CELLS = ("sweep.", "trials.", "provenances.", "prompts.", "results.", "failed_attempts.")
WITHOUT_CELLS = [name for name in ALTERATIONS if not name.startswith(CELLS)]
REFUSED_AT_ONCE = (
    *("an endless view", "a trigger", "an index", "another table", "a virtual table", "statistics"),
    *("another column", "a generated column", "a column less", "another name of a column"),
    *("no rowids", "no table", "a schema", "two tables", "a table on a page", "an endless"),
    *("version ", "another program's", "a hot journal", "half a file"),
    *(f"{LEDGER_FILE} is ", f"{LEDGER_FILE}-journal is a", f"{LEDGER_FILE}-wal is a link"),
    *(f"{LEDGER_FILE}-wal is a pipe", f"{LEDGER_FILE}-shm is a pipe", "a view beside"),
)
"""Beginnings of alterations that leave no ledger."""
REASONS = {
    "an endless view for sweep": "has other tables than version 3: restore",
    "no tables": "has other tables than version 3: restore",
    "an endless schema": "has a schema without an end: restore",
    "no sweep": "is damaged (it holds no sweeps): restore",
    "two sweeps": "is damaged (it holds several sweeps): restore",
    "sweep.content has no name": "(content.name is missing)",
    "trials.content is an object": "is damaged (trial.planner is missing): restore",
    "a trial with a number for an engine": "trial.engines.m is 5: Input should be a valid",
    "a trial with a long setting": "is damaged (string or blob too big): restore",
    "results.metrics has too long a text": "is damaged (string or blob too big): restore",
    "results.metrics has too deep a tree": "is not JSON: recursion limit exceeded",
    "results.started has 1e300": "result.started is 1e+300: Input should be less than",
    "results.content is no UTF-8": "is damaged (Could not decode to UTF-8 column 'result'",
    "results.usage has a list": "is damaged (result.usage is []: Input should be a valid dic",
    "another provenance": "is missing): restore",
    "a trial under another's key": "is not that of its trial): restore",
    "a trace is a bomb": "has more than 268435456 bytes, more than a trace may have: restore it",
    "a trace is a pipe": "cannot be read (it is not a regular file): restore it",
    f"{LEDGER_FILE} is a pipe": "is no regular file: name the folder of a sweep",
    "another program's": "is another program's database: restore",
    "version 7": "has version 7, and this program reads 3: restore",
    "results.content is a text": "is damaged (result is not JSON: EOF",
    "results.plan has an object": "result.plan is {'a': 1}: Input should be a valid",
    "results.usage has an unknown count": "result.usage.value.cals is 1: Extra inputs are not",
    "a hot journal": "is another program's: restore the ledger from a",
}
"""Alteration -> part of what is said of it."""


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good") / "ledger"
    make_ledger(folder)
    return folder


@pytest.fixture
def folder(good, tmp_path):
    """A copy to be altered, beside a file that nobody may touch."""
    (tmp_path / "sentinel.txt").write_text("untouched")
    shutil.copytree(good, tmp_path / "ledger")
    yield tmp_path / "ledger"
    with suppress(OSError):
        for path in (tmp_path / "ledger", tmp_path / "ledger" / "traces"):
            path.chmod(0o755)
    assert (tmp_path / "sentinel.txt").read_text() == "untouched"


def readings(place):
    """Everything that is ever asked of a ledger that is open."""
    return {
        "sweep": lambda ledger: ledger.sweep,
        "finished": lambda ledger: (ledger.finished(), ledger.attempts()),
        "rows": lambda ledger: list(ledger.rows()),
        "provenances": lambda ledger: ledger.provenances,
        "digest": Ledger.content_digest,
        "summary": lambda ledger: summary(read_runs(ledger)).cells,
        "csv": partial(export, path=place / "rows.csv"),
        "parquet": partial(export, path=place / "rows.parquet"),
    }


def refusals(folder):
    """Reading -> why it was refused."""
    messages = {}
    try:
        with Ledger.open(folder) as ledger:
            for name, read in readings(folder.parent).items():
                try:
                    read(ledger)
                except LedgerError as error:
                    messages[name] = str(error)
    except LedgerError as error:
        messages["open"] = str(error)
    return messages


def test_the_good_one_is_read(folder):
    assert refusals(folder) == {}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ALTERATIONS)
def test_an_altered_ledger_is_read_and_resumed_or_refused_in_a_line(folder, name):
    ALTERATIONS[name](folder)
    messages = refusals(folder)
    assert (
        not any("free disk space" in message for message in messages.values())
        or "link to itself" in name
    )
    if name in WITHOUT_CELLS:
        try:
            Ledger.resume(folder, PROVENANCE).close()
        except LedgerError as error:
            messages["resume"] = str(error)
    assert all(message.isprintable() and ": " in message for message in messages.values())
    if name.startswith(REFUSED_AT_ONCE):
        assert {"open", "resume"} <= messages.keys()
    assert name not in REASONS or any(REASONS[name] in message for message in messages.values())


def test_the_table_has_what_is_said():
    assert REASONS.keys() <= ALTERATIONS.keys()


def test_traces_elsewhere_are_not_removed(folder, tmp_path):
    """A link in a stranger's folder may lead to the traces of another sweep."""
    other = tmp_path / "other"
    shutil.move(folder / "traces", other)
    orphan = other / f"{'a' * 64}.jsonl.gz"
    orphan.write_text("another sweep's")
    (folder / "traces").symlink_to(other)
    with pytest.raises(LedgerError, match="it is a link: put the folder itself there"):
        Ledger.resume(folder, PROVENANCE)
    assert orphan.read_text() == "another sweep's"
    assert refusals(folder) == {}


def test_a_link_for_a_trace_is_replaced_not_followed(folder, tmp_path):
    with Ledger.resume(folder, PROVENANCE) as ledger:
        pending = next(trial for trial in ledger.trials if trial.key not in ledger.finished())
        path = folder / "traces" / f"{pending.key}.jsonl.gz"
        path.symlink_to(tmp_path / "sentinel.txt")
        path.with_name(f"{path.name}.tmp").symlink_to(tmp_path / "sentinel.txt")
        attempt = ledger.attempts().get(pending.key, 0) + 1
        ledger.record(result_of(pending), attempt=attempt, final=True)
        assert not path.is_symlink()
        assert [len(ledger.read_events(row)) > 0 for row in ledger.rows()] == [True, False, True]


def test_a_link_to_a_ledger_is_read_and_not_written(folder, tmp_path):
    link = tmp_path / "link"
    link.mkdir()
    (link / LEDGER_FILE).symlink_to(folder / LEDGER_FILE)
    with Ledger.open(link) as ledger:
        assert len(ledger.trials) == 4
    with pytest.raises(LedgerError, match="is a link: name the folder of the ledger that it lea"):
        Ledger.resume(link, PROVENANCE)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_may_not_be_read(folder):
    """The folders of pytest are root's alone."""
    child = os.fork()
    if child == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        refused = 0
        for opening in (Ledger.open, lambda path: Ledger.resume(path, PROVENANCE)):
            try:
                opening(folder)
            except LedgerError as error:
                refused += "Permission denied" in str(error)
            except BaseException:
                os._exit(9)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


# --- what a ledger does not take -----------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"plan": (1, 2)},
        {"success": "yes"},
        {"started": float("nan")},
        {"started": -1.0},
        {"seconds": float("inf")},
        {"usage": {"propose": replace(result_of(trial_number(0)).usage["propose"], calls=-1)}},
        {"unrepeatable": frozenset({7})},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_no_reader_takes_is_not_written(tmp_path, changes):
    refused(tmp_path, "the planner too left a result that cannot be kept .*: its plan", **changes)


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        (
            "it has more than 2097152 bytes",
            {"metrics": {"words": "x" * 2**20}, "plan": ("x" * 2**20,)},
        ),
        ("its trace has more than 1000 bytes", {"trace": {"words": "x" * 1000}}),
    ],
    ids=["bytes", "trace"],
)
def test_what_is_too_large_is_not_written(tmp_path, monkeypatch, why, changes):
    monkeypatch.setattr(trial_module, "LONGEST_TRACE", 1000)
    message = (
        rf"the planner too left a result that cannot be kept \({why}\): its plan, metrics and "
    )
    refused(tmp_path, message, **changes)


def refused(folder, message, **changes):
    """Records a result that is not kept, whose trial can fail in its stead."""
    with Ledger.create(folder / "s", sweep_of_seeds(1), PROVENANCE) as ledger:
        with pytest.raises(UnkeepableResultError, match=message):
            ledger.record(
                result_of(trial_number(0), **{"trace": {}, **changes}), attempt=1, final=True
            )
        assert list(ledger.rows()) == []
        ledger.record(failure_of(trial_number(0)), attempt=1, final=True)


@pytest.mark.parametrize(
    ("why", "sweep"),
    [
        ("it has more than 2097152 bytes", {"trials": [trial_number(0, x="x" * 2**21)]}),
        ("it has more than 2097152 bytes", {"name": "x" * 2**21}),
        (
            "it is not JSON: unexpected end of hex escape .*",
            {"trials": [trial_number(0, x="\ud800")]},
        ),
    ],
    ids=["trial", "sweep", "half a character"],
)
def test_a_sweep_that_no_reader_takes_is_not_begun(tmp_path, why, sweep):
    content = {"name": "s", "retries": 0, "trials": []} | sweep
    content["trials"] = [trial.to_json() for trial in content["trials"]]
    with pytest.raises(LedgerError, match=rf"cannot be kept in .* \({why}\): give fewer, shorter"):
        Ledger.create(tmp_path / "s", content, PROVENANCE)
    assert not (tmp_path / "s").exists()


def test_a_ledger_takes_no_more_memory_than_its_largest_row(tmp_path):
    """Fifty rows of 300 kB, of which one at a time is read."""
    with Ledger.create(tmp_path / "s", sweep_of_seeds(50), PROVENANCE) as ledger:
        for seed in range(50):
            large = {"metrics": {"words": "x" * 300_000}, "trace": {}, "prompts": {}}
            ledger.record(result_of(trial_number(seed), **large), attempt=1, final=True)
        tracemalloc.start()
        assert sum(len(row.result.metrics["words"]) for row in ledger.rows()) == 15_000_000
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
        tracemalloc.stop()


def test_rows_are_those_of_when_they_were_asked_for(tmp_path):
    """Whoever reads slowly holds nobody up, and is held up by nobody."""
    folder = tmp_path / "s"
    with Ledger.create(folder, sweep_of_seeds(4), PROVENANCE) as ledger, Ledger.open(folder) as two:
        for seed in range(2):
            ledger.record(result_of(trial_number(seed)), attempt=1, final=True)
        slow = [ledger.rows(), two.rows()]
        keys_read = [[next(rows).key] for rows in slow]
        ledger.record(result_of(trial_number(2)), attempt=1, final=True)
        for rows, keys in zip(slow, keys_read, strict=True):
            keys.extend(row.key for row in rows)
        assert keys_read == [[trial_number(seed).key for seed in range(2)]] * 2
        assert len(list(two.rows())) == 3


def test_a_metric_that_is_nested_too_deeply_is_not_written(tmp_path):
    deep = []
    for _ in range(200):
        deep = [deep]
    with (
        Ledger.create(tmp_path / "s", sweep_of_seeds(1), PROVENANCE) as ledger,
        pytest.raises(UnkeepableResultError, match="recursion limit exceeded"),
    ):
        ledger.record(result_of(trial_number(0), metrics={"x": deep}), attempt=1, final=True)


# --- values that are allowed, and odd ------------------------------------------------------------


def test_settings_of_any_json_value_are_grouped_and_listed(tmp_path):
    odd = [[1, {"a": 2}], [1, {"a": 2}], {"b": []}, True, 1, 1.5, float("nan"), None]
    results = [result_of(trial_number(n, x=value)) for n, value in enumerate(odd)]
    with Ledger.open(write_ledger(tmp_path / "s", results)) as ledger:
        groups = summary(read_runs(ledger), by=["x"]).groups
        assert [group.done for group in groups] == [2, 1, 1, 1, 1, 1, 1]
        assert [group.values[0] for group in groups][:5] == [[1, {"a": 2}], {"b": []}, True, 1, 1.5]
        assert len(field_values("settings.x", read_runs(ledger))) == 6


def test_as_many_groups_as_trials_look_at_each_run_as_often_as_few(monkeypatch):
    """One group for each of 400 trials, or one for all."""
    looked = []
    get = summary_module.distinct
    monkeypatch.setattr(summary_module, "distinct", lambda value: looked.append(1) or get(value))
    calls = []
    for values in ([0] * 400, range(400)):
        results = [result_of(trial_number(seed, x=x)) for seed, x in enumerate(values)]
        runs = runs_of(result_record(result, attempts=1) for result in results)
        looked.clear()
        assert len(summary(runs, by=["x"]).groups) == len(set(values))
        calls.append(len(looked))
    assert 0 < calls[1] <= calls[0]


@pytest.mark.parametrize("value", [10**400, -(10**200), [7]])
def test_a_metric_that_is_no_number_is_not_averaged(value):
    runs = runs_of([result_record(result_of(trial_number(0), metrics={"x": value}), attempts=1)])
    with pytest.raises(MeasureError, match=r"metrics\.x is .* in a run of too, not a number up to"):
        measure(runs, Measure(mean="metrics.x"))


def test_names_without_utf8_are_exported_escaped(tmp_path):
    folder = write_ledger(tmp_path / "s", [result_of(trial_number(0), metrics={"\ud800": 1})])
    with Ledger.open(folder) as ledger:
        assert "metrics.\\ud800" in {column.name for column in columns(ledger)}
        for ending in ("csv", "parquet"):
            assert export(ledger, tmp_path / f"rows.{ending}") == 1


def test_a_table_has_so_many_cells(tmp_path, monkeypatch):
    results = [result_of(trial_number(n), metrics={f"m{n}": n}) for n in range(3)]
    with Ledger.open(write_ledger(tmp_path / "s", results)) as ledger:
        cells = sum(len(column.values) for column in columns(ledger))
        monkeypatch.setattr(export_module, "MOST_CELLS", cells - 1)
        with pytest.raises(ExportError, match=f"more than {cells - 1} cells"):
            export(ledger, tmp_path / "rows.csv")
        assert not (tmp_path / "rows.csv").exists()


@pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
def test_an_export_goes_to_regular_files(folder, tmp_path, kind):
    path = tmp_path / "rows.csv"
    {
        "pipe": os.mkfifo,
        "folder": os.mkdir,
        "link": lambda path: path.symlink_to("/dev/null"),
    }[kind](path)
    with Ledger.open(folder) as ledger, pytest.raises(ExportError, match="cannot write"):
        export(ledger, path)
