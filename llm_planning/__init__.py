"""Published LLM planners and their baselines on a model in this process."""

from llm_planning.session import open_engine, open_uncached_engine, plan

__all__ = ["open_engine", "open_uncached_engine", "plan"]
