"""A table or figure of a paper, measured: published figures beside those of a ledger's runs.

`report` measures it; the second half writes it as Markdown, CSV and JSON.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.export import csv_line
from llm_planning.experiments.measures import Difference, Measured, compare, measure
from llm_planning.experiments.published import Row
from llm_planning.experiments.report_verdict import printed_value, verdict_counts, verdict_text
from llm_planning.experiments.runs import ROLE_MODELS, Runs, field_values, one_of_equal_seeds
from llm_planning.experiments.statistics import (
    ALL_EQUAL,
    CONFIDENCE,
    EMPTY_CELL,
    NOTHING,
    write_estimate,
)
from llm_planning.notebook import table_html
from llm_serving.encoder_engine import NO_MODEL

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.experiments.papers import Paper
    from llm_planning.experiments.published import Column, Comparison, PublishedTable, Setup, Text
    from llm_planning.experiments.runs import RunRecord
    from llm_planning.experiments.statistics import Form

UNSTATED = "not stated"
"""The paper's value of a setting that the paper does not name."""

MANY = 10
"""So many whole numbers in a row are told by their ends."""


RUNS_HERE = "runs here"
"""Heads the column of a row's runs."""

SENSELESS = "×"
"""The text of a cell that no run can fill."""


DEFAULT_TEMPLATE = "paper_report.md.j2"
NOT_AS_NUMBERS = "not published as numbers"
CITED_ONLY = "cited only"

_CSV_COLUMNS = (
    "paper",
    "table",
    "row",
    "column",
    "published",
    "published_value",
    "measured",
    "low",
    "high",
    "confidence",
    "method",
    "no_interval",
    "runs",
    "without_value",
    "failed",
    "pending",
    "cited",
)


class EmptyReportError(ValueError):
    """A ledger has no run for a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of a table.

    Attributes:
        published: the figure as printed; None if the paper prints none.
        published_value: the number in it; None if there is none.
        measured: the number from the runs; None if it is not measured.
        senseless: why no run can fill it; None if one can, or does.
        mark: why it is no evidence; None if it is (`NoEvidence.mark`).
        equal: number of runs whose seeds all did the same, so that each trial counts once; else 0.
    """

    column: Column
    published: Text | None
    published_value: float | None
    measured: Measured | None
    senseless: str | None = None
    mark: str | None = None
    equal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a table.

    Attributes:
        cited: why it is not measured; None if it is.
        fields: field -> value, for fields that have one value in all of its runs.
        runs: its runs; a column may take fewer.
    """

    label: str
    cited: str | None
    fields: dict[str, Any]
    runs: Runs
    cells: tuple[Cell, ...]

    def cell(self, key: str) -> Cell:
        """The cell of a column."""
        return next(cell for cell in self.cells if cell.column.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedColumn:
    """A difference below a table.

    Attributes:
        first: name of the minuend.
        second: name of the subtrahend.
        published: the difference as printed; None if the paper prints none.
        difference: first minus second.
    """

    column: Column
    first: str
    second: str
    label: str
    published: Text | None
    difference: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingUsed:
    """A setting of the paper and of the runs.

    Attributes:
        label: the paper's name of it, or the field's name.
        paper: the paper's value.
        here: the values in the sweep, in order.
    """

    label: str
    paper: str
    here: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperReport:
    """A measured table.

    Attributes:
        lines: of the table, without those in `left_out`.
        left_out: labels of lines made by `each` without a run in the sweep.
        runs: the runs that the table selects.
        outside: runs of the sweep that no line selects.
        stands_for: the model of the table's file in whose place the runs have another one; "" if
            they have its own.
    """

    paper: Paper
    name: str
    table: PublishedTable
    lines: tuple[Line, ...]
    left_out: tuple[str, ...]
    differences: tuple[ComparedColumn, ...]
    settings: tuple[SettingUsed, ...]
    runs: Runs
    outside: int
    stands_for: str = ""

    @property
    def models(self) -> dict[str, int]:
        """The models of the runs, with those of roles -> how many such runs have ended."""
        ended = Counter(map(_models, self.runs.done + self.runs.failed))
        return {name: ended[name] for name in dict.fromkeys(map(_models, self.runs.all))}

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table."""
        return self.table.columns

    @property
    def methods(self) -> tuple[str, ...]:
        """The distinct methods of the intervals."""
        cells = [cell for line in self.lines for cell in line.cells]
        estimates = [cell.measured.estimate for cell in cells if cell.measured]
        estimates += [compared.difference.estimate for compared in self.differences]
        return tuple(
            dict.fromkeys(estimate.method for estimate in estimates if estimate.low is not None)
        )

    def _repr_html_(self) -> str:
        """The table with its differences, under a cell of Jupyter."""
        title = f"{self.paper.title}: {self.table.title}"
        first = table_html(title, header(self), [text_line(line) for line in self.lines])
        if not self.differences:
            return first
        names, *lines = difference_table(self)
        return first + table_html("", names, lines)


def report(paper: Paper, name: str, runs: Runs) -> PaperReport:
    """Measures a table.

    Where the file selects its runs by one model, and all runs that ask one ask another, that one
    stands in its place.

    Raises:
        PublishedError: the paper has no such table, or its file says something impossible.
        UnknownFieldError: the table asks for a field that no run has.
        MeasureError: the values of a field cannot be measured.
        EmptyReportError: the table selects none of the runs.
    """
    table, stands_for = paper.table(name), ""
    here = {record["model"] for record in runs.all} - {NO_MODEL}
    if len(here) == len(table.models) == 1 and here != table.models:
        (stands_for,), (model,) = table.models, here
        table = table.asking(model)
    about = runs.select(table.where)
    for quantity in filter(None, (column.measure for column in table.columns)):
        for field in filter(None, (*quantity.fields, quantity.per, *quantity.budget)):
            about.check_field(field)
    lines, left_out = [], []
    taken: set[int] = set()
    for written in table.rows:
        for row in _rows(table, written, about):
            fitting = about.select(row.where or {})
            if row.where is not None:
                taken |= {id(record) for record in fitting.all}
            if written.each is not None and not fitting.all:
                left_out.append(str(row.label))
            else:
                lines.append(_line(table, row, fitting, about))
    if not taken:
        raise EmptyReportError(
            f"the sweep has no run for {paper.name} {name}; its planners are "
            f"{', '.join(sorted({record['planner'] for record in runs.all})) or 'none'}"
        )
    return PaperReport(
        paper=paper,
        name=name,
        table=table,
        lines=tuple(lines),
        left_out=tuple(left_out),
        differences=tuple(_compared(table, comparison, about) for comparison in table.compare),
        settings=tuple(_settings((*paper.setup, *table.setup), about)),
        runs=about,
        outside=sum(id(record) not in taken for record in runs.all),
        stands_for=stands_for,
    )


def _models(record: RunRecord) -> str:
    """The models of a run."""
    roles = [
        f"{role}: {record[f'{ROLE_MODELS}{role}']}"
        for role in sorted(
            field.removeprefix(ROLE_MODELS) for field in record if field.startswith(ROLE_MODELS)
        )
    ]
    return f"{record['model']} ({', '.join(roles)})" if roles else str(record["model"])


def models_text(report: PaperReport) -> str:
    """Which models the runs of a report have, in a sentence."""
    counted = [
        f"{'no model' if name == NO_MODEL else name} ({_count(runs, 'run')})"
        for name, runs in report.models.items()
    ]
    instead = f", in the place of {report.stands_for}" if report.stands_for else ""
    return f"Model: {'; '.join(counted)}{instead}."


def _rows(table: PublishedTable, written: Row, runs: Runs) -> Iterable[Row]:
    """The row itself, or the rows that its `each` makes."""
    if written.each is None:
        yield written
        return
    choices = [
        values if values != "all" else field_values(field, runs)
        for field, values in written.each.items()
    ]
    for combination in itertools.product(*choices):
        where = dict(zip(written.each, combination, strict=True))
        label = ", ".join(_value_label(table, field, value) for field, value in where.items())
        yield Row(label=label, where={field: (value,) for field, value in where.items()})


def _value_label(table: PublishedTable, field: str, value: object) -> str:
    key = field.removeprefix("settings.")
    return table.name(value) if key == field else f"{key}={table.name(value)}"


def _line(table: PublishedTable, row: Row, runs: Runs, about: Runs) -> Line:
    return Line(
        label=str(row.label),
        cited=row.cited,
        fields={
            field: values[0] for field, values in (row.where or {}).items() if len(values) == 1
        },
        runs=Runs() if row.where is None else runs,
        cells=tuple(_cell(table, column, row, runs, about) for column in table.columns),
    )


def _cell(table: PublishedTable, column: Column, row: Row, runs: Runs, about: Runs) -> Cell:
    published = row.published.get(column.key)
    fitting = runs.select(column.where)
    measured = _measured(column, row, fitting, about.select(column.where))
    once = measured is not None and measured.done < len(fitting.done)
    return Cell(
        column=column,
        published=published,
        published_value=None if published is None else printed_value(published, column.form),
        measured=measured,
        senseless=None if fitting.all else table.why_senseless(str(row.label), column.key),
        mark=table.mark(str(row.label), column.key),
        equal=len(fitting.done) if once else 0,
    )


def _measured(column: Column, row: Row, runs: Runs, about: Runs) -> Measured | None:
    """The number of a cell; None for what is only cited, and for runs compared with themselves.

    Runs whose own cost is the budget are measured all the same. Equal seeds are one run.

    Args:
        runs: of row and column.
        about: of the table and the column.
    """
    quantity = column.measure
    if row.where is None or quantity is None:
        return None
    if quantity.against is None:
        return measure(one_of_equal_seeds(runs, quantity.fields), quantity)
    beside = about.select({**row.where, **quantity.against})
    compared = beside != runs or quantity.kind == "passed"
    return measure(runs, quantity, beside=beside) if compared else None


def _compared(table: PublishedTable, comparison: Comparison, runs: Runs) -> ComparedColumn:
    column = table.column(comparison.column)
    quantity = column.measure
    if quantity is None:  # the published file was checked when it was read
        raise AssertionError(comparison.column)
    # A setting that the planner does not have is left out.
    first, second = (
        ", ".join(table.name(value) for value in side.values() if value is not None)
        for side in (comparison.first, comparison.second)
    )
    return ComparedColumn(
        column=column,
        first=first,
        second=second,
        label=comparison.label or f"{first} − {second}",
        published=comparison.published,
        difference=compare(runs.select(column.where), quantity, comparison),
    )


def _settings(setups: Iterable[Setup], runs: Runs) -> Iterable[SettingUsed]:
    """The settings that the paper names, then the others that the runs have."""
    named = {setup.field: setup for setup in setups}  # the settings of the table itself come last
    for setup in named.values():
        yield SettingUsed(
            label=setup.label,
            paper=UNSTATED if setup.paper is None else str(setup.paper),
            here=range_texts(field_values(setup.field, runs)),
        )
    fields = (field for record in runs.all for field in record if field.startswith("settings."))
    for field in dict.fromkeys(fields):
        # The hash of a file distinguishes trials, but is not a setting that a user chose.
        if field not in named and not field.endswith("_sha256"):
            yield SettingUsed(
                label=field.removeprefix("settings."),
                paper=UNSTATED,
                here=range_texts(field_values(field, runs)),
            )


def range_texts(values: Iterable[object]) -> tuple[str, ...]:
    """Values of a setting as texts; `MANY` whole numbers without a gap as the first and the last.

    Example:
        >>> from llm_planning.experiments.paper_report import range_texts
        >>> range_texts((0, *range(5, 15), 20, "rules"))
        ('0', '5 to 14', '20', 'rules')
    """
    runs: list[list[object]] = []
    for value in values:
        last = runs[-1][-1] if runs else None
        follows = type(value) is int and type(last) is int and value == last + 1
        if follows:
            runs[-1].append(value)
        else:
            runs.append([value])
    return tuple(
        text
        for run in runs
        for text in ([f"{run[0]} to {run[-1]}"] if len(run) >= MANY else map(str, run))
    )


def markdown(report: PaperReport, *, sweep: object, verbose: bool) -> str:
    """Writes a report as Markdown.

    Args:
        sweep: the folder of the runs, or their export.
        verbose: also the settings, the notes, and why figures are cited only.
    """
    # Imported here, as functions that only write numbers do not need it.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, from the project's own files
    )
    environment.filters["cell"] = table_cell
    template = environment.get_template(DEFAULT_TEMPLATE)
    return template.render(
        report=report,
        verdict=verdict_text(report),
        models=models_text(report),
        verbose=verbose,
        sweep=sweep,
        header=header(report),
        lines=[text_line(line) for line in report.lines],
        differences=difference_table(report),
        confidence=f"{100 * CONFIDENCE:g}%",
        nothing=NOTHING,
        not_as_numbers=NOT_AS_NUMBERS,
    )


def header(report: PaperReport) -> list[str]:
    """Headings of a table in which published and measured figures stand side by side."""
    names = ["", RUNS_HERE]
    for column in report.columns:
        if column.paper == "printed":
            names.append(f"{column.label} ({'paper' if column.measure else CITED_ONLY})")
        if column.measure is not None:
            names.append(f"{column.label} (here)")
    return names


def text_line(line: Line) -> list[str]:
    """The cells of a line, under `header`."""
    done, failed, pending = len(line.runs.done), len(line.runs.failed), len(line.runs.pending)
    cells = [line.label, write_counts(done, failed, pending)]
    if line.cited is not None:
        cells = [f"{line.label} ({CITED_ONLY})", NOTHING]
    for cell in line.cells:
        if cell.column.paper == "printed":
            cells.append(published_text(cell))
        if cell.column.measure is not None:
            cells.append(measured_text(cell, line))
    return cells


def difference_table(report: PaperReport) -> list[list[str]]:
    """The differences of a report, a heading first. The paper's have a column if it prints any."""
    printed = any(compared.published is not None for compared in report.differences)
    table = [["", "paper", "first − second"]] + [
        [
            f"{compared.column.label}: {compared.label}",
            NOTHING if compared.published is None else str(compared.published),
            write_difference(compared.difference, compared.column.form),
        ]
        for compared in report.differences
    ]
    return table if printed else [[name, here] for name, _, here in table]


def published_text(cell: Cell) -> str:
    """A published figure as printed."""
    if cell.column.paper == "drawn":
        return NOT_AS_NUMBERS
    return NOTHING if cell.published is None else str(cell.published)


def measured_text(cell: Cell, line: Line) -> str:
    """A measured figure, its interval, and how its runs differ from those of its line."""
    if cell.senseless is not None:
        return SENSELESS
    measured = cell.measured
    if measured is None:
        return NOTHING
    estimate = measured.estimate
    remarks = [cell.mark] if cell.mark and estimate.value is not None else []
    if estimate.reason == ALL_EQUAL:
        remarks.append(ALL_EQUAL)
    elif estimate.reason is not None and estimate.value is not None:
        remarks.append(f"no interval: {estimate.reason}")
    elif estimate.reason == EMPTY_CELL:
        remarks.append(f"no finite value: {estimate.reason}")
    if measured.unspent:
        ended = f"{measured.unspent} of {measured.groups}"
        remarks.append(f"{ended} ran out of seeds before B was spent")
    if measured.without:
        remarks.append(f"{measured.without} without a value")
    if measured.replayed:
        remarks.append(f"{measured.replayed} of {measured.done} replayed")
    if cell.equal:
        remarks.append(f"{cell.equal} runs, equal for all seeds")
    here = (cell.equal or measured.done, measured.failed, measured.pending)
    if here != (len(line.runs.done), len(line.runs.failed), len(line.runs.pending)):
        remarks.append(write_counts(*here))
    text = write_estimate(estimate, cell.column.form)
    return f"{text} ({'; '.join(remarks)})" if remarks else text


def as_csv(report: PaperReport) -> str:
    """One line for each cell, with unrounded numbers."""
    lines = [csv_line(_CSV_COLUMNS)]
    for line in report.lines:
        for cell in line.cells:
            values = {
                "paper": report.paper.name,
                "table": report.name,
                "row": line.label,
                "column": cell.column.key,
                "published": None if cell.column.paper == "absent" else published_text(cell),
                "published_value": cell.published_value,
                "cited": line.cited or cell.column.cited,
                **_csv_measured(cell.measured),
            }
            row = map(values.get, _CSV_COLUMNS)
            lines.append(csv_line("" if value is None else str(value) for value in row))
    return "".join(lines)


def as_json(report: PaperReport) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "paper": report.paper.name,
        "citation": report.paper.citation,
        "table": report.name,
        "title": report.table.title,
        "confidence": CONFIDENCE,
        "verdict": {"text": verdict_text(report), **verdict_counts(report)},
        "models": report.models,
        "stands_for": report.stands_for,
        "rows": [
            {
                "label": line.label,
                "cited": line.cited,
                "fields": line.fields,
                "cells": {
                    cell.column.key: {
                        "published": cell.published,
                        "published_value": cell.published_value,
                        "in_paper": cell.column.paper,
                        "cited": cell.column.cited,
                        "senseless": cell.senseless,
                        "measured": None if cell.measured is None else asdict(cell.measured),
                    }
                    for cell in line.cells
                },
            }
            for line in report.lines
        ],
        "left_out": list(report.left_out),
        "differences": [
            {
                "column": compared.column.key,
                "first": compared.first,
                "second": compared.second,
                "published": compared.published,
                **asdict(compared.difference),
            }
            for compared in report.differences
        ],
        "settings": [asdict(setting) for setting in report.settings],
        "runs": {
            "done": len(report.runs.done),
            "failed": len(report.runs.failed),
            "pending": len(report.runs.pending),
            "outside": report.outside,
        },
        "notes": list(report.table.notes),
    }


def _csv_measured(measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {}
    estimate = measured.estimate
    return {
        "measured": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "confidence": CONFIDENCE,
        "method": estimate.method,
        "no_interval": estimate.reason,
        "runs": measured.runs,
        "without_value": measured.without,
        "failed": measured.failed,
        "pending": measured.pending,
    }


def table_cell(text: object) -> str:
    """A text inside a Markdown table's cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def write_counts(done: int, failed: int, pending: int) -> str:
    """The number of runs, and of those that failed or are pending."""
    lost = [f"{failed} failed"] if failed else []
    lost += [f"{pending} not run yet"] if pending else []
    return f"{_count(done, 'run')}, {', '.join(lost)}" if lost else _count(done, "run")


def write_difference(difference: Difference, form: Form) -> str:
    """Writes a difference: the number, its interval and the number of pairs or of their units."""
    estimate = difference.estimate
    counted = difference.counted.removeprefix("settings.")
    counts = [_count(estimate.n, counted)]
    if estimate.n == 1:
        counts.append(f"no interval: one {counted}")
    if estimate.reason == ALL_EQUAL:
        counts.append(ALL_EQUAL)
    if difference.alone:
        counts.append(f"{_count(difference.alone, 'run')} without a partner")
    return f"{write_estimate(estimate, form)} ({', '.join(counts)})"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
