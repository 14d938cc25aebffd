"""What `llm-planning run --list` lists: planners by paper, or the tasks and settings of one."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from rich.table import Table

from llm_base.terminal import SafeConsole, complain, literal, say_json
from llm_planning.domain import DomainError
from llm_planning.endings import refusing
from llm_planning.names import Named
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.registry import (
    UnknownNameError,
    domains,
    find_domain,
    find_planner,
    planners,
)
from llm_planning.running import REFUSALS, find_where, fitting_domains
from llm_planning.specs import DomainSpec, PlannerSpec, choose, known_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from llm_planning.registry import Table as NameTable

SpecT = TypeVar("SpecT", bound=Named)

_FILLED_IN = frozenset({"roles_sha256", "pddl_sha256", "home_sha256"})
"""Settings that are not listed, as they only belong to a trial's key."""


def planners_known() -> list[str]:
    """Names of all planners, also of those that installed packages announce."""
    return sorted((*PLANNERS, *planners.announced()))


def print_list(planner: str | None, *, domain: str | None, as_json: bool) -> None:
    """Lists the planners by paper, or the tasks and settings of one."""
    with refusing(*REFUSALS):
        columns, rows = _listed(planner, domain)
    if as_json:
        say_json(rows)
        return
    table = Table(*columns)
    paper = ""
    for row in rows:
        if row.get("paper", "") != paper:
            paper = row["paper"]
            table.add_section()
            table.add_row(literal(paper, "bold"))
        table.add_row(*(literal(row[column]) for column in columns))
    SafeConsole().print(table)


def _listed(
    planner: str | None, domain: str | None
) -> tuple[tuple[str, ...], list[dict[str, str]]]:
    """The columns and the rows of a list."""
    if planner is None:
        others = list(_of_packages(domains))
        world = None if domain is None else find_domain(domain)
        rows = [
            {
                "paper": spec.paper,
                "name": spec.name,
                "domains": ", ".join(_domains_of(spec, others)) if world is None else world.name,
                "summary": spec.summary,
            }
            for spec in (*PLANNERS.values(), *_of_packages(planners))
            if world is None or not spec.lacks(world)
        ]
        return ("name", "domains", "summary"), rows
    return ("kind", "name", "default"), _tasks_and_settings(find_planner(planner), domain)


def _tasks_and_settings(spec: PlannerSpec, domain: str | None) -> list[dict[str, str]]:
    """The tasks of a planner by domain, and the settings in the first domain."""
    named = [domain] if domain else _domains_of(spec, _of_packages(domains))
    places = {name: find_where(spec, domain=name, task=None) for name in named}
    rows = [
        {"kind": f"task of {name}", "name": task, "default": ""}
        for name, where in places.items()
        for task in where.tasks
    ]
    if not places:
        return rows
    (_, first), *others = places.items()
    chosen = choose(spec, first, {}).to_json()
    rows += [
        {"kind": "setting", "name": key, "default": str(chosen[key])}
        for key in known_keys(spec, first)
        if key not in _FILLED_IN | spec.never_read
    ]
    return rows + [
        {"kind": f"setting in {name}", "name": key, "default": str(value)}
        for name, where in others
        for key, value in where.settings.read({}).to_json().items()
        if key not in _FILLED_IN
    ]


def _of_packages(table: NameTable[SpecT]) -> Iterator[SpecT]:
    """The names that installed packages announce; reports unusable ones on standard error."""
    for name in table.announced():
        try:
            yield table.find(name)
        except (UnknownNameError, DomainError) as error:
            complain(f"not listed: {error}")


def _domains_of(spec: PlannerSpec, others: Iterable[DomainSpec]) -> list[str]:
    """Names of the domains in which a planner works, this project's before those of packages."""
    fitting = (*fitting_domains(spec), *(other for other in others if not spec.lacks(other)))
    return [domain.name for domain in fitting]
