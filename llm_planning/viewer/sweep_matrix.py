"""Why a planner has no trials in a domain of a sweep."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llm_planning.registry import why_named_unfit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LONGEST = 200
"""Characters of a clause that are quoted."""


@dataclass(frozen=True, slots=True)
class Absence:
    """Why there are no trials.

    Attributes:
        kind: `unfit` if the planner cannot plan in the domain, `excluded` by the sweep's file, or
            `unasked` for.
        reason: in one sentence.
    """

    kind: Literal["unfit", "excluded", "unasked"]
    reason: str


def absences(
    sweep: Mapping[str, Any], present: Iterable[tuple[str, str]]
) -> dict[str, dict[str, Absence]]:
    """Planner -> domain -> why the sweep has no trial of the two, for every such pair.

    Args:
        sweep: as a ledger has it. A stranger may have written it, so nothing in it is relied on.
        present: planner and domain of the sweep's trials.
    """
    pairs = dict.fromkeys(present)
    planners = dict.fromkeys(planner for planner, _ in pairs)
    domains = dict.fromkeys(domain for _, domain in pairs)
    missing = {
        planner: {
            domain: _reason(planner, domain, sweep)
            for domain in domains
            if (planner, domain) not in pairs
        }
        for planner in planners
    }
    return {planner: reasons for planner, reasons in missing.items() if reasons}


def _reason(planner: str, domain: str, sweep: Mapping[str, Any]) -> Absence:
    unfit = why_named_unfit(planner, domain)
    if unfit is not None:
        return Absence("unfit", unfit)
    clause = next(_excluding(planner, domain, sweep), None)
    if clause is None:
        return Absence("unasked", f"the sweep has no trials of {planner} in {domain}")
    written = json.dumps(clause, ensure_ascii=False)
    cut = written if len(written) <= _LONGEST else f"{written[:_LONGEST]}…"
    return Absence("excluded", f"the sweep excludes {planner} in {domain}: {cut}")


def _excluding(planner: str, domain: str, sweep: Mapping[str, Any]) -> Iterator[object]:
    """The clauses of `exclude` that name a pair, in blocks that ask for it otherwise."""
    for block in _listed(sweep.get("grids")):
        if not isinstance(block, dict):
            continue
        asked = block.get("planners")
        if planner not in _listed(asked) or domain not in _listed(block.get("domain", domain)):
            continue
        for clause in _listed(block.get("exclude", [])):
            if not (isinstance(clause, dict) and clause.keys() & {"planner", "domain"}):
                continue
            named = planner in _listed(clause.get("planner", planner))
            if named and domain in _listed(clause.get("domain", domain)):
                yield clause


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | dict) else [value]
