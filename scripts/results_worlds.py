"""Tables of worlds that others made, and of searches that others wrote."""

from __future__ import annotations

import csv
from collections import Counter
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

from results_source import EXPORTS, Source, link

from llm_planning.experiments.statistics import (
    NOTHING,
    paired_proportions,
    portion,
    proportion,
    write_estimate,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
        source=f"By `scripts/other_worlds.py`. Data: {link(OTHERS)}.",
        heads=["source", "worlds", *kinds],
        rows=[
            [source, str(sum(row)), *map(str, row)]
            for source in dict.fromkeys(source for source, _ in found)
            for row in [[found[source, kind] for kind in kinds]]
        ],
    )


def games(source: str, found: str | None = None) -> int:
    """How many games have a world of which this came, or any; sizes and versions do not count."""
    prefix = f"{source}:"
    rows = [row for row in _found_worlds() if row["world"].startswith(prefix)]
    return len({_game(row["world"]) for row in rows if found in {None, row["found"]}})


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
        source=f"Data: {link(OTHERS)}.",
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
        source=f"By `scripts/pddl_worlds.py`. Data: {link(PDDL)}.",
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
        source=f"Data: {link(PDDL)}.",
        heads=["found", "why", "problems", "domains"],
        rows=[
            [kind, why, str(domains.total()), ", ".join(sorted(domains))]
            for (kind, why), domains in ordered
        ],
    )


def two_players() -> Source:
    """Our search of both players against OpenSpiel's, by game and rule."""
    played = _records("two-players.csv")
    rows = []
    for game, rule in dict.fromkeys((row["game"], row["rule"]) for row in played):
        games = [row for row in played if (game, rule) == (row["game"], row["rule"])]
        points = [float(row["points"]) for row in games]
        ends = ", ".join(str(points.count(value)) for value in (1.0, 0.5, 0.0))
        share = write_estimate(portion(points), "percent")
        times = [_median(games, column, "µs") for column in ("our_us", "their_us")]
        rows.append([game, rule, _one(games, "simulations"), str(len(games)), ends, share, *times])
    return Source(
        source=f"By `benchmarks/two_players.py`. Data: {link('two-players.csv')}.",
        heads=[
            *("game", "our rule of ends", "simulations", "games", "won, drawn, lost"),
            *("share of points", "a simulation, ours", "MCTSBot's"),
        ],
        rows=rows,
    )


def beside_treequest() -> Source:
    """Our search beside treequest's, by world and simulations a move."""
    rows = []
    ran = _records("treequest-worlds.csv")
    for case in dict.fromkeys((row["world"], row["simulations"]) for row in ran):
        runs = [row for row in ran if (row["world"], row["simulations"]) == case]
        pairs = [(row["ours"] == "True", row["theirs"] == "True") for row in runs]
        rates = [
            write_estimate(proportion(sum(won), len(runs)), "percent")
            for won in zip(*pairs, strict=True)
        ]
        difference = write_estimate(paired_proportions(pairs), "percent")
        times = [_median(runs, column, "µs") for column in ("our_us", "their_us")]
        rows.append([*case, str(len(runs)), *rates, difference, *times])
    return Source(
        source=f"By `benchmarks/treequest_worlds.py`. Data: {link('treequest-worlds.csv')}.",
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
