"""Plans of Fast Downward, a planner in processes of its own that end when their time is up."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from llm_planning.domain import DomainError

SECONDS: Final = 10
"""The most computing time for a plan."""

WAIT: Final = 12
"""How many times as long it may take on a machine with other work."""

MEMORY: Final = "2G"
"""The most memory for a plan, as Fast Downward reads it."""

Way: TypeAlias = Literal["first", "shortest"]
"""`first` is a plan of LAMA's first search, `shortest` one with the fewest actions (LM-cut)."""


class NoPlanError(DomainError):
    """No plan was found."""


def can_plan() -> bool:
    """Whether the planner is installed."""
    return find_spec("up_fast_downward") is not None


def plan_of(model: Any, way: Way, *, seconds: int = SECONDS) -> tuple[str, ...]:
    """The actions of a plan.

    Args:
        model: a problem of unified-planning. If the plan shall be the shortest, costs play no part.
        way: by which it is found.
        seconds: of computing time, the most.

    Raises:
        NoPlanError: there is none, or none was found in time.
        DomainError: the planner is not installed.
    """
    if not can_plan():
        raise DomainError(
            "plans of PDDL problems need Fast Downward: pip install 'llm-planning[worlds]'"
        )
    from up_fast_downward import FastDownwardOptimalPDDLPlanner, FastDownwardPDDLPlanner

    if way == "shortest":
        model = model.clone()
        model.clear_quality_metrics()
    planner = FastDownwardPDDLPlanner() if way == "first" else FastDownwardOptimalPDDLPlanner()
    if not planner.supports(model.kind):
        beyond = ", ".join(sorted(model.kind.features - planner.supported_kind().features)).lower()
        raise NoPlanError(f"{planner.name} does not know {beyond.replace('_', ' ')}")
    command = planner._get_cmd
    planner._get_cmd = lambda *files: _kept_apart(
        command(*files), Path(files[-1]).parent, seconds=seconds
    )
    found = planner.solve(model, timeout=WAIT * seconds)
    if found.plan is None:
        why = found.status.name.lower().replace("_", " ")
        raise NoPlanError(f"{planner.name} finds no plan in {seconds} seconds: {why}")
    return tuple(
        " ".join((one.action.name, *map(str, one.actual_parameters))) for one in found.plan.actions
    )


def _kept_apart(command: list[Any], folder: Path, *, seconds: int) -> list[Any]:
    """A command of Fast Downward within limits, with nothing in or from the working directory."""
    python, driver, *others = command
    # Its driver finds its own modules by the path alone, as the command line has a safe path.
    paths = ("env", "PYTHONSAFEPATH=1", f"PYTHONPATH={driver.parent}")
    limits = ("--overall-time-limit", f"{seconds}s", "--overall-memory-limit", MEMORY)
    return [*paths, python, driver, "--sas-file", str(folder / "output.sas"), *limits, *others]
