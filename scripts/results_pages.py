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
`worlds_not_played` read what `scripts/other_worlds.py` found, `pddl_domains` and `pddl_refused`
what `scripts/pddl_worlds.py` did; `two_players` and `beside_treequest` what the benchmarks of these
names recorded. `printed` reads `docs/results/exports/printed/NAME.csv`: the figures of a report
whose ledger was not kept.
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
from statistics import median
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
from llm_planning.experiments.statistics import (
    NOTHING,
    paired_proportions,
    portion,
    proportion,
    write_estimate,
)
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
    part = _measured_part(report(find_paper(paper), table, runs))
    return Source(
        source=f"Measured from {links}: {len(runs.done)} runs.",
        heads=header(part),
        rows=_rows(part),
        differences=difference_table(part),
        settings=[
            (setting.label, setting.paper, ", ".join(setting.here) or NOTHING)
            for setting in part.settings
            if any(setting.here) or setting.paper != "not stated"
        ],
        notes=part.table.notes,
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
    measures = [
        measure
        for name in names
        for measure in read_measures(read_runs(EXPORTS / f"{name}.parquet").done)
    ]
    models = list(dict.fromkeys(measure.model for measure in measures))
    links = " and ".join(_link(f"{name}.parquet") for name in names)
    source = f"Measured from {links}: {sum(measure.share.n for measure in measures)} questions."

    def by_model(shares: Mapping[tuple[str, ...], Mapping[str, Estimate]]) -> list[list[str]]:
        return [
            [
                *what,
                # Every model is asked the same questions.
                str(max(share.n for share in of.values())),
                *(
                    write_estimate(of[model], "percent") if model in of else NOTHING
                    for model in models
                ),
            ]
            for what, of in shares.items()
        ]

    shares: dict[tuple[str, ...], dict[str, Estimate]] = {}
    kinds: dict[tuple[str, ...], dict[str, Estimate]] = {}
    for measure in measures:
        shares.setdefault((measure.role,), {})[measure.model] = measure.share
        for aspect, values in measure.splits.items():
            for value, share in values.items():
                kinds.setdefault((measure.role, aspect, value), {})[measure.model] = share
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
                [measure.role, measure.model, expected, answer, str(count)]
                for measure in measures
                for expected, answer, count in measure.confusions[:CONFUSIONS]
            ],
        ),
        costs=Source(
            source=source,
            heads=["role", "model", "questions", "tokens", "seconds"],
            rows=[
                [
                    measure.role,
                    measure.model,
                    str(measure.share.n),
                    f"{measure.tokens:,}",
                    f"{measure.seconds:.0f}",
                ]
                for measure in measures
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

    def with_bits(run: RunRecord) -> RunRecord:
        known = run["domain"] == "travel" and run["planner"] in bits
        return {**run, BITS: bits[run["planner"]]} if known else run

    return replace(runs, done=tuple(map(with_bits, runs.done)))


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
def _records(name: str) -> list[dict[str, str]]:
    with (EXPORTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _found_worlds() -> list[dict[str, str]]:
    return _records(OTHERS)


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


PDDL = "pddl.csv"
"""What `scripts/pddl_worlds.py` found: a problem, what came of it, and of the plans."""


def _found_problems() -> list[dict[str, str]]:
    return [
        {**row, "domain": row["problem"].partition("/")[0].removesuffix("_test")}
        for row in _records(PDDL)
    ]


def pddl_domains() -> Source:
    """What was planned in each domain of PDDL, and in all; domains without an open problem last."""
    by_domain: dict[str, list[dict[str, str]]] = {}
    for row in _found_problems():
        by_domain.setdefault(row["domain"], []).append(row)
    rows = {domain: _planned(found) for domain, found in by_domain.items()}
    played = {domain: row for domain, row in rows.items() if row[1] != "0"}
    return Source(
        source=f"By `scripts/pddl_worlds.py`. Data: {_link(PDDL)}.",
        heads=[
            "domain",
            "tried",
            "opened",
            "`drip-react` reached",
            "valid",
            "`uct` reached",
            "valid",
            "length / shortest",
        ],
        rows=[
            ["all", *_planned(_found_problems())],
            *([domain, *played[domain]] for domain in sorted(played)),
        ],
    )


def _planned(found: Sequence[Mapping[str, str]]) -> list[str]:
    """The cells of some problems: counts, and the median of length over shortest."""

    def count(**wanted: str) -> str:
        return str(sum(all(row[key] == is_ for key, is_ in wanted.items()) for row in found))

    known = [row for row in found if row["shortest"] not in {"", "0"}]
    ratios = [int(row["length"]) / int(row["shortest"]) for row in known]
    return [
        str(len(found)),
        count(found="opened"),
        count(planned="True"),
        count(planned="True", valid="True"),
        count(searched="True"),
        count(searched="True", search_valid="True"),
        f"{median(ratios):.2f} ({len(ratios)})" if ratios else NOTHING,
    ]


def pddl_refused() -> Source:
    """Why problems were not opened, and why no plan was found in opened ones, with the domains."""
    by_reason: dict[tuple[str, str], Counter[str]] = {}
    for row in _found_problems():
        if row["found"] != "opened" or row["planned"] != "True":
            why = row["why"].partition(" is not read as PDDL: ")[2] or row["why"] or "out of time"
            why = why.partition(", found ")[0]  # what stands there differs from file to file
            by_reason.setdefault((row["found"], why), Counter())[row["domain"]] += 1
    ordered = sorted(by_reason.items(), key=lambda pair: -pair[1].total())
    return Source(
        source=f"Data: {_link(PDDL)}.",
        heads=["found", "why", "problems", "domains"],
        rows=[
            [kind, why, str(domains.total()), ", ".join(sorted(domains))]
            for (kind, why), domains in ordered
        ],
    )


def two_players() -> Source:
    """Our search of both players against OpenSpiel's, by game and of all together."""
    played = _records("two-players.csv")
    rows = []
    for game in (*dict.fromkeys(row["game"] for row in played), "all"):
        games = [row for row in played if game in (row["game"], "all")]
        points = [float(row["points"]) for row in games]
        counts = [str(points.count(value)) for value in (1.0, 0.5, 0.0)]
        share = write_estimate(portion(points), "percent")
        times = [NOTHING, NOTHING]
        if game != "all":
            times = [_median(games, column, "µs") for column in ("our_us", "their_us")]
        rows.append([game, _one(games, "simulations"), str(len(games)), *counts, share, *times])
    return Source(
        source=f"By `benchmarks/two_players.py`. Data: {_link('two-players.csv')}.",
        heads=[
            *("game", "simulations", "games", "won", "drawn", "lost"),
            *("share of points", "a simulation, ours", "MCTSBot's"),
        ],
        rows=rows,
    )


def beside_treequest() -> Source:
    """Our search beside treequest's, by world."""
    rows = []
    ran = _records("treequest-worlds.csv")
    for world in dict.fromkeys(row["world"] for row in ran):
        runs = [row for row in ran if row["world"] == world]
        pairs = [(row["ours"] == "True", row["theirs"] == "True") for row in runs]
        rates = [
            write_estimate(proportion(sum(won), len(runs)), "percent")
            for won in zip(*pairs, strict=True)
        ]
        difference = write_estimate(paired_proportions(pairs), "percent")
        times = [_median(runs, column, "µs") for column in ("our_us", "their_us")]
        rows.append([world, _one(runs, "simulations"), str(len(runs)), *rates, difference, *times])
    return Source(
        source=f"By `benchmarks/treequest_worlds.py`. Data: {_link('treequest-worlds.csv')}.",
        heads=[
            *("world", "simulations", "runs", "success, ours", "treequest's", "difference"),
            *("a simulation, ours", "treequest's"),
        ],
        rows=rows,
    )


def _one(rows: Sequence[Mapping[str, str]], column: str) -> str:
    """What all rows have in a column."""
    (value,) = {row[column] for row in rows}
    return value


def _median(rows: Sequence[Mapping[str, str]], column: str, unit: str) -> str:
    return f"{median(float(row[column]) for row in rows):,.0f} {unit}"


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
    texts = {}
    for name in environment.list_templates():
        page = RESULTS / name.removesuffix(".j2")
        depth = len(Path(name).parts) - 1
        sources = (
            *(exported, printed, roles, rearrangement, other_worlds, worlds_not_played),
            *(games, pddl_domains, pddl_refused, two_players, beside_treequest),
        )
        template = environment.get_template(
            name, globals={source.__name__: source for source in sources}
        )
        texts[page] = template.render().replace(_ROOT, "../" * depth)
    return texts


_ROOT = "RESULTS/"
"""Stands for `docs/results/` in the links of tables until it is known how deep their page lies."""


def _link(file: str) -> str:
    return f"[{Path(file).name}]({_ROOT}exports/{file})"


def _measured_part(paper: PaperReport) -> PaperReport:
    """The lines, columns and differences that have figures; what is only cited stays."""
    lines = [line for line in paper.lines if line.cited is not None or line.runs.done]
    kept = {
        column.key
        for column in paper.columns
        if column.measure is None
        or any(
            cell.measured and cell.measured.runs
            for line in lines
            for cell in line.cells
            if cell.column.key == column.key
        )
    }
    columns = tuple(column for column in paper.columns if column.key in kept)
    return replace(
        paper,
        table=paper.table.model_copy(update={"columns": columns}),
        lines=tuple(
            replace(line, cells=tuple(cell for cell in line.cells if cell.column.key in kept))
            for line in lines
        ),
        differences=tuple(
            difference for difference in paper.differences if difference.difference.estimate.n
        ),
    )


def _rows(paper: PaperReport) -> list[list[str]]:
    """The lines as texts. Where all figures rest on equally many runs, one column says so."""
    rows = [text_line(line) for line in paper.lines]
    counts = {
        cell.measured.runs
        for line in paper.lines
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
