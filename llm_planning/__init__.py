"""LLM planners on a model in this process, in your own worlds or in the papers'."""

from llm_planning.domain import Domain, Step
from llm_planning.outcome import Outcome
from llm_planning.registry import planner
from llm_planning.session import open_engine, open_uncached_engine, plan

__all__ = [
    "Domain",
    "Outcome",
    "Step",
    "open_engine",
    "open_uncached_engine",
    "plan",
    "planner",
]
