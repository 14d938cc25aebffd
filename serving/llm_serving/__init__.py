"""Open-weight models in this process: engines, requests and answers."""

from __future__ import annotations

from llm_base.exports import lazy_exports

TYPE_CHECKING = False  # like the one in `typing`, whose import takes some milliseconds
if TYPE_CHECKING:
    from llm_serving.answers import constraint_of, parse
    from llm_serving.cache import CachedEngine
    from llm_serving.config import EngineConfig
    from llm_serving.encoder import TextEncoder
    from llm_serving.engine import Engine, MeteredEngine, draw
    from llm_serving.errors import ServingError
    from llm_serving.name_matcher import NameMatcher
    from llm_serving.request import (
        Completion,
        Image,
        Message,
        Request,
        Sampling,
        ScoreRequest,
        Scores,
        Usage,
    )
    from llm_serving.scripted import ScriptedEngine
    from llm_serving.stores import ResponseCache
    from llm_serving.vllm_engine import VllmEngine

__all__ = [
    "CachedEngine",
    "Completion",
    "Engine",
    "EngineConfig",
    "Image",
    "Message",
    "MeteredEngine",
    "NameMatcher",
    "Request",
    "ResponseCache",
    "Sampling",
    "ScoreRequest",
    "Scores",
    "ScriptedEngine",
    "ServingError",
    "TextEncoder",
    "Usage",
    "VllmEngine",
    "constraint_of",
    "draw",
    "parse",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "answers": ["constraint_of", "parse"],
        "cache": ["CachedEngine"],
        "config": ["EngineConfig"],
        "encoder": ["TextEncoder"],
        "engine": ["Engine", "MeteredEngine", "draw"],
        "errors": ["ServingError"],
        "name_matcher": ["NameMatcher"],
        "request": [
            "Completion",
            "Image",
            "Message",
            "Request",
            "Sampling",
            "ScoreRequest",
            "Scores",
            "Usage",
        ],
        "scripted": ["ScriptedEngine"],
        "stores": ["ResponseCache"],
        "vllm_engine": ["VllmEngine"],
    },
)
