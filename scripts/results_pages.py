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
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from results_source import EXPORTS, RESULTS, ROOT, TEMPLATES, Source, link
from results_worlds import (
    beside_treequest,
    games,
    other_worlds,
    pddl_domains,
    pddl_refused,
    two_players,
    worlds_not_played,
)

from llm_planning.environments.household.home import bundled_home
from llm_planning.experiments.export import read_export
from llm_planning.experiments.paper_report import (
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
    write_estimate,
)
from llm_planning.planners.llm_mcts.analysis.description import model_bits, policy_bits

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.experiments.paper_report import PaperReport
    from llm_planning.experiments.runs import RunRecord, Runs
    from llm_planning.experiments.statistics import Estimate


UNCOMMITTED = "from a tree with changes that were not committed"


@cache
def exported(*names: str, paper: str, table: str) -> Source:
    """Measures a table from exports, without the rows and columns that have no runs in them."""
    runs = read_runs(*(EXPORTS / f"{name}.parquet" for name in names))
    links = " and ".join(link(f"{name}.parquet") for name in names)
    part = _measured_part(report(find_paper(paper), table, runs))
    dirty = sum(record.get("provenance.dirty") is True for record in runs.done)
    which = "all" if dirty == len(runs.done) else f"{dirty}"
    remark = f", {which} of them {UNCOMMITTED}" if dirty else ""
    return Source(
        source=f"Measured from {links}: {len(runs.done)} runs{remark}.",
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
        invented: the share of answers that name what does not exist, for every kind.
        confusions: the most frequent wrong answers of each role and model.
        costs: questions, tokens and seconds of each role and model.
    """

    shares: Source
    kinds: Source
    invented: Source
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
    links = " and ".join(link(f"{name}.parquet") for name in names)
    source = f"Measured from {links}: {sum(measure.share.n for measure in measures)} questions."

    def by_model(shares: Mapping[tuple[str, ...], Mapping[str, Estimate]]) -> list[list[str]]:
        return [
            [
                *what,
                # Models that left out the same are asked the same questions.
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
    invented: dict[tuple[str, ...], dict[str, Estimate]] = {}
    for measure in measures:
        shares.setdefault((measure.role,), {})[measure.model] = measure.share
        for aspect, values in measure.splits.items():
            for value, share in values.items():
                kinds.setdefault((measure.role, aspect, value), {})[measure.model] = share
        for aspect, values in measure.invented_kinds.items():
            for value, share in values.items():
                invented.setdefault((measure.role, aspect, value), {})[measure.model] = share
    heads = ["role", "aspect", "value", "questions", *models]
    return RoleSources(
        shares=Source(source=source, heads=["role", "questions", *models], rows=by_model(shares)),
        kinds=Source(source=source, heads=heads, rows=by_model(kinds)),
        invented=Source(source=source, heads=heads, rows=by_model(invented)),
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


NOT_KEPT = "ledger not kept"
"""Stands behind a figure that nobody can measure again."""


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
        source=f"{origin} Data: {link(f'printed/{name}.csv')}.",
        heads=["", *heads],
        rows=[[row, *(found[head] for head in heads)] for row, found in rows.items()],
        mark=NOT_KEPT,
    )


@cache
def read_runs(*paths: Path) -> Runs:
    """The runs of exports."""
    return with_travel(runs_of(record for path in paths for record in read_export(path)))


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
        texts[page] = template.render().replace(ROOT, "../" * depth)
    return texts


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
