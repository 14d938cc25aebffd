"""A measured table as Markdown, CSV and JSON, and how its numbers are written."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import asdict
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from llm_planning.experiments.report_verdict import verdict_counts, verdict_text
from llm_planning.experiments.statistics import CONFIDENCE, EMPTY_CELL

if TYPE_CHECKING:
    from llm_planning.experiments.measures import Difference, Measured
    from llm_planning.experiments.paper_report import Cell, Line, PaperReport
    from llm_planning.experiments.published import Form
    from llm_planning.experiments.runs import Runs
    from llm_planning.experiments.statistics import Estimate

NOTHING = "–"
"""The text of a cell without a figure."""

RUNS_HERE = "runs here"
"""Heads the column of a row's runs."""

SENSELESS = "×"
"""The text of a cell that no run can fill."""

_DIGITS = 3
_SMALL = 1e-5
"""Numbers below are written with an exponent."""


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


class TemplateFileError(ValueError):
    """A table's template cannot be filled."""


def markdown(report: PaperReport, *, sweep: object, verbose: bool) -> str:
    """Writes a report as Markdown.

    Args:
        report: the measured table.
        sweep: the folder of the runs, or their export.
        verbose: also the settings, the notes, and why figures are cited only.

    Raises:
        TemplateFileError: the table's own template is wrong.
    """
    # Imported here, as functions that only write numbers do not need it.
    from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined, TemplateError
    from jinja2.loaders import FunctionLoader

    environment = Environment(
        loader=ChoiceLoader(
            [FileSystemLoader(report.paper.folder), FunctionLoader(_packaged_template)]
        ),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, from the project's own files
    )
    environment.filters["cell"] = _escaped
    own = f"{report.name}.md.j2"
    try:
        template = environment.select_template([own, DEFAULT_TEMPLATE])
        return template.render(
            report=report,
            verdict=verdict_text(report),
            verbose=verbose,
            sweep=sweep,
            header=header(report),
            lines=[text_line(line) for line in report.lines],
            differences=difference_table(report),
            confidence=f"{100 * CONFIDENCE:g}%",
            nothing=NOTHING,
            not_as_numbers=NOT_AS_NUMBERS,
        )
    except TemplateError as error:
        raise TemplateFileError(f"{report.paper.folder / own}: {error}") from error


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
    printed = any(one.published is not None for one in report.differences)
    table = [["", "paper", "first − second"]] + [
        [
            f"{one.column.label}: {one.label}",
            NOTHING if one.published is None else str(one.published),
            write_difference(one.difference, one.column.form),
        ]
        for one in report.differences
    ]
    return table if printed else [[name, here] for name, _, here in table]


def published_text(cell: Cell) -> str:
    """A published figure as printed."""
    if cell.column.paper == "drawn":
        return NOT_AS_NUMBERS
    return NOTHING if cell.published is None else str(cell.published)


def measured_text(cell: Cell, line: Line) -> str:
    """A measured figure with its interval, or the reason why there is none."""
    if cell.senseless is not None:
        return SENSELESS
    if cell.measured is None:
        return NOTHING
    return write_measured(cell.measured, cell.column.form, runs=line.runs)


def as_csv(report: PaperReport) -> str:
    """One line for each cell, with unrounded numbers."""
    written = io.StringIO()
    writer = csv.DictWriter(written, _CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for line in report.lines:
        for cell in line.cells:
            writer.writerow(
                {
                    "paper": report.paper.name,
                    "table": report.name,
                    "row": line.label,
                    "column": cell.column.key,
                    "published": None if cell.column.paper == "absent" else published_text(cell),
                    "published_value": cell.published_value,
                    "cited": line.cited or cell.column.cited,
                    **_csv_measured(cell.measured),
                }
            )
    return written.getvalue()


def as_json(report: PaperReport) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "paper": report.paper.name,
        "citation": report.paper.citation,
        "table": report.name,
        "title": report.table.title,
        "confidence": CONFIDENCE,
        "verdict": {"text": verdict_text(report), **verdict_counts(report)},
        "rows": [
            {
                "label": line.label,
                "cited": line.cited,
                "fields": line.fields,
                "cells": {cell.column.key: _json_cell(cell) for cell in line.cells},
            }
            for line in report.lines
        ],
        "left_out": list(report.left_out),
        "differences": [
            {
                "column": one.column.key,
                "first": one.first,
                "second": one.second,
                "published": one.published,
                **asdict(one.difference),
            }
            for one in report.differences
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


def _json_cell(cell: Cell) -> dict[str, Any]:
    return {
        "published": cell.published,
        "published_value": cell.published_value,
        "in_paper": cell.column.paper,
        "cited": cell.column.cited,
        "senseless": cell.senseless,
        "measured": None if cell.measured is None else asdict(cell.measured),
    }


def _csv_measured(measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {}
    estimate: Estimate = measured.estimate
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


def _packaged_template(name: str) -> str | None:
    template = files(__package__) / "templates" / name
    return template.read_text(encoding="utf-8") if template.is_file() else None


def _escaped(text: object) -> str:
    """A text inside a Markdown table's cell."""
    return " ".join(str(text).split()).replace("|", "\\|")


def write_number(value: float, form: Form) -> str:
    """Writes a whole percent, or three significant digits and all that stand before the point."""
    if form == "thousands":
        return f"{_significant(value / 1e3)}k"
    if form == "percent":
        return f"{100 * value:z.0f}%"
    return _significant(value)


def write_estimate(estimate: Estimate, form: Form) -> str:
    """A number and its interval, such as `74% [70, 78]` or `0.912k [0.85k, 0.974k]`."""
    if estimate.value is None:
        return NOTHING
    value = write_number(estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return value
    low, high = (write_number(end, form).removesuffix("%") for end in (estimate.low, estimate.high))
    return f"{value} [{low}, {high}]"


def write_measured(measured: Measured, form: Form, *, runs: Runs) -> str:
    """Writes a measured cell: the number, its interval, and how its runs differ from its line's.

    Args:
        measured: the cell.
        form: of its numbers.
    """
    estimate = measured.estimate
    remarks = []
    if estimate.reason is not None and estimate.value is not None:
        remarks.append(f"no interval: {estimate.reason}")
    elif estimate.reason == EMPTY_CELL:
        remarks.append(f"no finite value: {estimate.reason}")
    if measured.unspent:
        ended = f"{measured.unspent} of {measured.groups}"
        remarks.append(f"{ended} ran out of seeds before B was spent")
    if measured.without:
        remarks.append(f"{measured.without} without a value")
    here = (measured.runs + measured.without, measured.failed, measured.pending)
    if here != (len(runs.done), len(runs.failed), len(runs.pending)):
        remarks.append(write_counts(*here))
    text = write_estimate(estimate, form)
    return f"{text} ({'; '.join(remarks)})" if remarks else text


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
    if difference.alone:
        counts.append(f"{_count(difference.alone, 'run')} without a partner")
    return f"{write_estimate(estimate, form)} ({', '.join(counts)})"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _significant(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) < _SMALL:
        return f"{value:.{_DIGITS}g}"
    places = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    rounded = round(value, places)
    if places <= 0:
        return f"{round(value):,}"
    text = f"{rounded:.{places}f}"
    return text.rstrip("0").rstrip(".")
