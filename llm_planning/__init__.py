"""LLM planners on a model in this process, in your own worlds or in the papers'."""

from __future__ import annotations

TYPE_CHECKING = False  # what `typing` has, without its import
if TYPE_CHECKING:
    from llm_planning.domain import Domain, Step
    from llm_planning.execution import execute
    from llm_planning.outcome import Outcome
    from llm_planning.session import open_engine, open_uncached_engine, plan
    from llm_planning.settings import Settings
    from llm_planning.specs import planner

__all__ = [
    "Domain",
    "Outcome",
    "Settings",
    "Step",
    "execute",
    "open_engine",
    "open_uncached_engine",
    "plan",
    "planner",
]

_HOMES = {
    "Domain": "domain",
    "Outcome": "outcome",
    "Settings": "settings",
    "Step": "domain",
    "execute": "execution",
    "open_engine": "session",
    "open_uncached_engine": "session",
    "plan": "session",
    "planner": "specs",
}
"""Imported when they are asked for: `llm-planning --help` needs none of them."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
