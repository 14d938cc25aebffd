"""Tables of the results pages, as texts, with what they are from."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from llm_planning.experiments.paper_report import CITED_ONLY, RUNS_HERE, table_cell
from llm_planning.experiments.published import NoEvidence
from llm_planning.experiments.report_verdict import printed_value
from llm_planning.experiments.statistics import NOTHING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TEMPLATES = RESULTS / "templates"
EXPORTS = RESULTS / "exports"


MARKED = re.compile(rf"\(({'|'.join(get_args(NoEvidence.model_fields['mark'].annotation))})\b")
"""Why a figure is no evidence, in its cell."""


class PageError(ValueError):
    """A page cannot be made from its template and data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One table of a page.

    Attributes:
        source: where its figures are from, as a sentence.
        heads: of its columns, the rows' first.
        rows: of texts, each as long as `heads`.
        differences: a second table, of what differs and by how much; its heads first.
        settings: rows of a third: a setting, the paper's value and ours.
        notes: what the published table says about reading it.
        mark: said behind every single figure of it, such as that its ledger was not kept.
    """

    source: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    differences: Sequence[Sequence[str]] = ()
    settings: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()
    mark: str = ""

    @property
    def table(self) -> str:
        """As Markdown, with its source below.

        What all rows or columns have in common is said once: how many runs they rest on, below,
        and that a figure is measured here, nowhere if none is published beside it.
        """
        heads, rows, source = list(self.heads), self.rows, self.source
        if not any(head.endswith(("(paper)", f"({CITED_ONLY})")) for head in heads):
            heads = [head.removesuffix(" (here)") for head in heads]
        counts = {row[1] for row in rows if heads[1:2] == [RUNS_HERE]} - {NOTHING}
        if len(counts) == 1:
            count = counts.pop()
            each = "" if count.endswith(" of each") else " a row"
            source = f"{source.removesuffix('.')}, {count}{each}."
            heads, rows = heads[:1] + heads[2:], [[row[0], *row[2:]] for row in rows]
        return f"{_markdown(heads, rows)}\n\n*{source}*"

    def side(
        self,
        ending: str = "",
        *,
        figures: Literal["here", "paper"] = "here",
        without: Sequence[str] = (),
    ) -> Source:
        """The rows whose names end so, with the figures of one side alone.

        Args:
            ending: of the names; they are told without it.
            figures: measured `here`, or printed in the `paper`.
            without: columns that are left out.

        Raises:
            PageError: there is no such row.
        """
        side = f" ({figures})"
        heads = [head.removesuffix(side) for head in self.heads]
        kept = [
            i
            for i, head in enumerate(self.heads)
            if head.endswith(side) and heads[i] not in without
        ]
        counted = figures == "here" and RUNS_HERE not in without
        first = [0, *(i for i, head in enumerate(heads) if head == RUNS_HERE and counted)]
        rows = []
        for row in self.rows:
            name = row[0].removesuffix(f" ({CITED_ONLY})")
            if name.endswith(ending) and {row[i] for i in kept} != {NOTHING}:
                cells = (row[i] for i in (*first[1:], *kept))
                rows.append([name.removesuffix(ending), *cells])
        if not rows:
            raise PageError(f"no row ends in {ending!r} ({figures}) in: {self.source}")
        return Source(
            source=self.source if figures == "here" else "As the paper prints them.",
            heads=[heads[i] for i in (*first, *kept)],
            rows=rows,
        )

    @property
    def compared(self) -> str:
        """The differences as Markdown."""
        heads, *rows = self.differences
        return _markdown(heads, rows)

    @property
    def settings_table(self) -> str:
        """The settings as Markdown."""
        return _markdown(("setting", "paper", "here"), self.settings)

    def part(self, *columns: str) -> Source:
        """The same with these columns only, and the runs that they rest on.

        Raises:
            PageError: the table has no such column.
        """
        heads = list(self.heads)
        for column in columns:
            if column not in heads:
                raise PageError(f"no column {column!r} in: {self.source}")
        kept = [place for place, head in enumerate(heads) if place == 0 or head == RUNS_HERE]
        kept += [heads.index(column) for column in columns]
        return replace(
            self,
            heads=[heads[place] for place in kept],
            rows=[[row[place] for place in kept] for row in self.rows],
        )

    def having(self, *texts: str) -> Source:
        """The same with the rows only that have one of these texts in a cell.

        Raises:
            PageError: no row has one.
        """
        rows = [row for row in self.rows if any(text in cell for text in texts for cell in row)]
        if not rows:
            raise PageError(f"no row with {texts} in: {self.source}")
        return replace(self, rows=rows)

    def least(self, column: str) -> Source:
        """The rows with the smallest figure of a column."""
        return self._at(column, min)

    def most(self, column: str) -> Source:
        """The rows with the largest figure of a column."""
        return self._at(column, max)

    def _at(self, column: str, end: Callable[[Iterable[float]], float]) -> Source:
        figures = {row[0]: printed_value(self.figure(row[0], column)) for row in self.rows}
        sought = end(figure for figure in figures.values() if figure is not None)
        return replace(self, rows=[row for row in self.rows if figures[row[0]] == sought])

    def without(self, *labels: str) -> Source:
        """The same without these rows.

        Raises:
            PageError: the table has no such row.
        """
        for label in labels:
            if label not in {row[0] for row in self.rows}:
                raise PageError(f"no row {label!r} in: {self.source}")
        return replace(self, rows=[row for row in self.rows if row[0] not in labels])

    def cell(self, row: str, column: str) -> str:
        """A cell as it is printed.

        Raises:
            PageError: the table has no such row or column.
        """
        by_name = {found[0]: found for found in self.rows}
        if row not in by_name or column not in self.heads:
            raise PageError(f"no cell {row!r}, {column!r} in: {self.source}")
        return by_name[row][list(self.heads).index(column)]

    def figure(self, row: str, column: str) -> str:
        """The number of a cell without its interval, with the word that says if it is no evidence.

        Raises:
            PageError: the table has no such row or column.
        """
        number, _, rest = self.cell(row, column).partition(" ")
        found = MARKED.search(rest)
        mark = found[1] if found else self.mark
        return f"{number} ({mark})" if mark else number

    def difference(self, label: str) -> str:
        """A difference with its interval, in points: `-19 [-27, -10]`.

        Raises:
            PageError: the table has no such difference.
        """
        by_label = {row[0]: row[-1] for row in self.differences}
        if label not in by_label:
            raise PageError(f"no difference {label!r} in: {self.source}")
        return by_label[label].partition(" (")[0].replace("%", "")


ROOT = "RESULTS/"
"""Stands for `docs/results/` in the links of tables until it is known how deep their page lies."""


def link(file: str) -> str:
    """A link to a file of `exports`, from any page."""
    return f"[{Path(file).name}]({ROOT}exports/{file})"


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (heads, ["---"] * len(heads), *rows)
    return "\n".join(f"| {' | '.join(map(table_cell, line))} |" for line in lines)
