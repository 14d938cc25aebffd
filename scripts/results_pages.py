"""Writes the pages of `docs/results` from their templates and from kept data.

    python scripts/results_pages.py [--check]

A template `docs/results/templates/NAME.md.j2` is the prose of the page `docs/results/NAME.md`. It
asks for its tables by name, so that no table is typed:

    {% set runs = exported("xenon-table5", paper="xenon", table="table5") %}
    {{ runs.table }}
    {{ runs.side(", seen home").table }}         some of its rows, as they were measured here
    {{ runs.part("(0,0) (here)").table }}        some of its columns
    {{ runs.figure("XENON", "(0,0) (here)") }}   one figure of it, without its interval
    {{ runs.difference("EGA: XENON − SC") }}     one difference, with its interval

    {% set measured = roles("roles-minecraft") %}
    {{ measured.shares.table }}

`exported` measures a table anew from `docs/results/exports/NAME.parquet`, which `llm-planning sweep
export` wrote, or from several of these. `roles` reads such an export of what `llm-planning roles
measure` recorded. `rearrangement` has the description lengths of a home; `other_worlds` and
`worlds_not_played` read what `scripts/other_worlds.py` found. `printed` reads
`docs/results/exports/printed/NAME.csv`: the figures of a report whose ledger was not kept.
With --check nothing is written; a page that differs from its template and data is an error.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from llm_planning.environments.household.home import bundled_home
from llm_planning.experiments.export import read_export
from llm_planning.experiments.paper_report import (
    CITED_ONLY,
    RUNS_HERE,
    difference_table,
    header,
    report,
    text_line,
)
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.role_measures import read_measures
from llm_planning.experiments.runs import runs_of
from llm_planning.experiments.statistics import NOTHING, write_estimate
from llm_planning.planners.llm_mcts.analysis.description import model_bits, policy_bits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.experiments.paper_report import PaperReport
    from llm_planning.experiments.runs import RunRecord, Runs
    from llm_planning.experiments.statistics import Estimate

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TEMPLATES = RESULTS / "templates"
EXPORTS = RESULTS / "exports"


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
    """

    source: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    differences: Sequence[Sequence[str]] = ()
    settings: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()

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
            source = f"{source.removesuffix('.')}, {counts.pop()}."
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
        """
        side = f" ({figures})"
        heads = [head.removesuffix(side) for head in self.heads]
        kept = [
            i
            for i, head in enumerate(self.heads)
            if head.endswith(side) and heads[i] not in without
        ]
        first = [0, *(i for i, head in enumerate(heads) if head == RUNS_HERE and figures == "here")]
        rows = []
        for row in self.rows:
            name = row[0].removesuffix(f" ({CITED_ONLY})")
            if name.endswith(ending) and {row[i] for i in kept} != {NOTHING}:
                cells = (row[i] for i in (*first[1:], *kept))
                rows.append([name.removesuffix(ending), *cells])
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
        """The same with the rows only whose names have one of these texts.

        Raises:
            PageError: no row's name has one.
        """
        rows = [row for row in self.rows if any(text in row[0] for text in texts)]
        if not rows:
            raise PageError(f"no row with {texts} in: {self.source}")
        return replace(self, rows=rows)

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
        """The number of a cell without its interval.

        Raises:
            PageError: the table has no such row or column.
        """
        return self.cell(row, column).partition(" ")[0]

    def difference(self, label: str) -> str:
        """A difference with its interval, in points: `-19 [-27, -10]`.

        Raises:
            PageError: the table has no such difference.
        """
        by_label = {row[0]: row[-1] for row in self.differences}
        if label not in by_label:
            raise PageError(f"no difference {label!r} in: {self.source}")
        return by_label[label].partition(" (")[0].replace("%", "")


@cache
def exported(*names: str, paper: str, table: str) -> Source:
    """Measures a table from exports, without the rows and columns that have no runs in them."""
    runs = read_runs(*(EXPORTS / f"{name}.parquet" for name in names))
    links = " and ".join(_link(f"{name}.parquet") for name in names)
    made = _measured_part(report(find_paper(paper), table, runs))
    return Source(
        source=f"Measured from {links}: {len(runs.done)} runs.",
        heads=header(made),
        rows=_rows(made),
        differences=difference_table(made),
        settings=[
            (one.label, one.paper, ", ".join(one.here) or NOTHING)
            for one in made.settings
            if any(one.here) or one.paper != "not stated"
        ],
        notes=made.table.notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSources:
    """How good models are at their roles.

    Attributes:
        shares: role x model: the share of right answers.
        kinds: the same for every kind of question.
        confusions: the most frequent wrong answers of each role and model.
        costs: questions, tokens and seconds of each role and model.
    """

    shares: Source
    kinds: Source
    confusions: Source
    costs: Source


CONFUSIONS = 3
"""Wrong answers of a role that a page shows."""


@cache
def roles(*names: str) -> RoleSources:
    """Reads measurements of roles from exports, of one model or of several."""
    found = [
        one for name in names for one in read_measures(read_runs(EXPORTS / f"{name}.parquet").done)
    ]
    models = list(dict.fromkeys(one.model for one in found))
    links = " and ".join(_link(f"{name}.parquet") for name in names)
    source = f"Measured from {links}: {sum(one.share.n for one in found)} questions."

    def by_model(shares: Mapping[tuple[str, ...], Mapping[str, Estimate]]) -> list[list[str]]:
        return [
            [
                *what,
                # Every model is asked the same questions.
                str(max(share.n for share in of.values())),
                *(write_estimate(of[one], "percent") if one in of else NOTHING for one in models),
            ]
            for what, of in shares.items()
        ]

    shares: dict[tuple[str, ...], dict[str, Estimate]] = {}
    kinds: dict[tuple[str, ...], dict[str, Estimate]] = {}
    for one in found:
        shares.setdefault((one.role,), {})[one.model] = one.share
        for aspect, values in one.splits.items():
            for value, share in values.items():
                kinds.setdefault((one.role, aspect, value), {})[one.model] = share
    return RoleSources(
        shares=Source(source=source, heads=["role", "questions", *models], rows=by_model(shares)),
        kinds=Source(
            source=source,
            heads=["role", "aspect", "value", "questions", *models],
            rows=by_model(kinds),
        ),
        confusions=Source(
            source=source,
            heads=["role", "model", "right", "said", "times"],
            rows=[
                [one.role, one.model, expected, said, str(count)]
                for one in found
                for expected, said, count in one.confusions[:CONFUSIONS]
            ],
        ),
        costs=Source(
            source=source,
            heads=["role", "model", "questions", "tokens", "seconds"],
            rows=[
                [one.role, one.model, str(one.share.n), f"{one.tokens:,}", f"{one.seconds:.0f}"]
                for one in found
            ],
        ),
    )


@cache
def printed(name: str) -> Source:
    """Reads the figures of a printed report; the first line of its file says what they are."""
    with (EXPORTS / "printed" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        origin = file.readline().removeprefix("#").strip()
        cells = list(csv.DictReader(file))
    heads = list(dict.fromkeys(cell["column"] for cell in cells))
    rows: dict[str, dict[str, str]] = {}
    for cell in cells:
        rows.setdefault(cell["row"], {})[cell["column"]] = cell["printed"]
    return Source(
        source=f"{origin} Data: {_link(f'printed/{name}.csv')}.",
        heads=["", *heads],
        rows=[[row, *(found[head] for head in heads)] for row, found in rows.items()],
    )


@cache
def read_runs(*paths: Path) -> Runs:
    """The runs of exports. A metric that some of them have is nothing in the others."""
    records = [record for path in paths for record in read_export(path)]
    metrics = {field for record in records for field in record if field.startswith("metrics.")}
    return with_travel(runs_of({**dict.fromkeys(metrics), **record} for record in records))


BITS = "metrics.description_bits"
"""The metric of description length; journeys do not say it."""


def with_travel(runs: Runs) -> Runs:
    """The runs, with the description length of the journeys of L-Policy and L-Model.

    L-Policy has the next city for every pair of n cities, n² log2(n) bits. L-Model has the list of
    flights, log2(n) bits for each; the paper has O(n) flights (Section 4.1).
    """
    folder = files("llm_planning") / "environments" / "travel" / "flights"
    cities, flights = (
        len((folder / f"{name}.csv").read_text("utf-8").splitlines()) - 1  # the first line is heads
        for name in ("cities", "direct_flights")
    )
    bits = {"l-policy": cities**2 * log2(cities), "l-model": flights * log2(cities)}

    def told(one: RunRecord) -> RunRecord:
        known = one["domain"] == "travel" and one["planner"] in bits
        return {**one, BITS: bits[one["planner"]]} if known else one

    return replace(runs, done=tuple(map(told, runs.done)))


def rearrangement() -> Source:
    """What has to be known of the bundled home `seen` (LLM-MCTS, Section 4.2)."""
    home = bundled_home("seen")
    bits = {
        "L-Model: what is where": model_bits(home),
        "L-Policy: one task": policy_bits(home, tasks=1),
        "L-Policy: two composed tasks": policy_bits(home, tasks=2),
    }
    sizes = f"{len(home.things)} things, {len(home.places)} places, {len(home.rooms)} rooms"
    return Source(
        source=f"Computed from a home of {sizes}.",
        heads=["", "bits to know"],
        rows=[[what, f"{length:,.0f}"] for what, length in bits.items()],
    )


OTHERS = "worlds.csv"
"""What `scripts/other_worlds.py` found: a world, what came of it, and why."""


@cache
def _found_worlds() -> list[dict[str, str]]:
    with (EXPORTS / OTHERS).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def other_worlds() -> Source:
    """How many worlds of each source were played, and what came of the others."""
    found = Counter((row["world"].partition(":")[0], row["found"]) for row in _found_worlds())
    kinds = [kind for kind, _ in Counter(row["found"] for row in _found_worlds()).most_common()]
    return Source(
        source=f"By `scripts/other_worlds.py`. Data: {_link(OTHERS)}.",
        heads=["source", "worlds", *kinds],
        rows=[
            [source, str(sum(row)), *map(str, row)]
            for source in dict.fromkeys(source for source, _ in found)
            for row in [[found[source, kind] for kind in kinds]]
        ],
    )


def games(source: str, found: str) -> int:
    """How many games have a world of which this came; their sizes and versions are not counted."""
    prefix = f"{source}:"
    rows = [row for row in _found_worlds() if row["world"].startswith(prefix)]
    return len({_game(row["world"]) for row in rows if row["found"] == found})


def _game(world: str) -> str:
    return world.partition("-v")[0]


def worlds_not_played(kind: str) -> Source:
    """The games of which this came, with their reasons."""
    alike: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in _found_worlds():
        if row["found"] == kind:
            id_ = row["world"].partition(":")[2]
            reason = _game(row["world"]), row["why"].replace(id_, "")
            alike.setdefault(reason, []).append(row)
    return Source(
        source=f"Data: {_link(OTHERS)}.",
        heads=["world", "more like it", "why"],
        rows=[
            [f"`{first['world']}`", str(len(more) or NOTHING), first["why"]]
            for first, *more in alike.values()
        ],
    )


def pages() -> Mapping[Path, str]:
    """Every page: where it lies and what it says.

    Raises:
        PageError: a template asks for a figure that its data do not have.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown, from the project's own files
    )
    made = {}
    for name in environment.list_templates():
        page = RESULTS / name.removesuffix(".j2")
        depth = len(Path(name).parts) - 1
        worlds = (other_worlds, worlds_not_played, games)
        sources = (exported, printed, roles, rearrangement, *worlds)
        template = environment.get_template(name, globals={one.__name__: one for one in sources})
        made[page] = template.render().replace(_ROOT, "../" * depth)
    return made


_ROOT = "RESULTS/"
"""Stands for `docs/results/` in the links of tables until it is known how deep their page lies."""


def _link(file: str) -> str:
    return f"[{Path(file).name}]({_ROOT}exports/{file})"


def _measured_part(made: PaperReport) -> PaperReport:
    """The lines, columns and differences that have figures; what is only cited stays."""
    lines = [line for line in made.lines if line.cited is not None or line.runs.done]
    kept = {
        column.key
        for column in made.columns
        if column.measure is None
        or any(
            cell.measured and cell.measured.runs
            for line in lines
            for cell in line.cells
            if cell.column.key == column.key
        )
    }
    columns = tuple(column for column in made.columns if column.key in kept)
    return replace(
        made,
        table=made.table.model_copy(update={"columns": columns}),
        lines=tuple(
            replace(line, cells=tuple(cell for cell in line.cells if cell.column.key in kept))
            for line in lines
        ),
        differences=tuple(one for one in made.differences if one.difference.estimate.n),
    )


def _rows(made: PaperReport) -> list[list[str]]:
    """The lines as texts. Where all figures rest on equally many runs, one column says so."""
    rows = [text_line(line) for line in made.lines]
    counts = {
        cell.measured.runs
        for line in made.lines
        for cell in line.cells
        if cell.measured is not None
    }
    if len(counts) != 1:
        return rows
    remark = f"({counts.pop()} runs)"
    if not any(cell.endswith(remark) for row in rows for cell in row):
        return rows
    each = f"{remark[1:-1]} of each"
    return [
        [row[0], each if row[1] != NOTHING else NOTHING]
        + [cell.removesuffix(remark).rstrip() for cell in row[2:]]
        for row in rows
    ]


def _markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (heads, ["---"] * len(heads), *rows)
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(text: str) -> str:
    """A text inside a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    """Writes the pages, or compares them.

    Returns:
        0; or 1 if --check finds a page that differs.
    """
    parser = argparse.ArgumentParser(description="Writes docs/results from templates and data.")
    parser.add_argument("--check", action="store_true", help="write nothing, name what differs")
    check = parser.parse_args().check
    differing = []
    for page, text in pages().items():
        if page.is_file() and page.read_text(encoding="utf-8") == text:
            continue
        differing.append(page)
        if not check:
            page.parent.mkdir(parents=True, exist_ok=True)
            page.write_text(text, encoding="utf-8")
    for page in differing:
        print(page.relative_to(RESULTS), "differs" if check else "written")
    return int(check and bool(differing))


if __name__ == "__main__":
    sys.exit(main())
