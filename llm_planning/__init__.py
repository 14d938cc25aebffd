"""LLM planners on a model in this process, in your own worlds or in the papers'."""

from __future__ import annotations

from llm_base.exports import lazy_exports

TYPE_CHECKING = False  # like the one in `typing`, whose import takes some milliseconds
if TYPE_CHECKING:
    from llm_planning.domain import Domain, Step
    from llm_planning.execution.episode import execute
    from llm_planning.model_configs import open_engine, open_uncached_engine
    from llm_planning.outcome import Outcome
    from llm_planning.running import plan
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

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "domain": ["Domain", "Step"],
        "execution.episode": ["execute"],
        "model_configs": ["open_engine", "open_uncached_engine"],
        "outcome": ["Outcome"],
        "running": ["plan"],
        "settings": ["Settings"],
        "specs": ["planner"],
    },
)
