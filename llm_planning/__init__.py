"""LLM planners on a model in this process, in your own worlds or in the papers'."""

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
