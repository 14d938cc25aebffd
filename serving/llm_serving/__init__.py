"""Open-weight models in this process: engines, what is asked of them, and what they answer."""

from __future__ import annotations

TYPE_CHECKING = False  # what `typing` has, without its import
if TYPE_CHECKING:
    from llm_serving.answers import constraint_of, parse
    from llm_serving.cache import CachedEngine
    from llm_serving.config import EngineConfig
    from llm_serving.encoder import TextEncoder
    from llm_serving.engine import Engine, MeteredEngine, draw
    from llm_serving.errors import ServingError
    from llm_serving.name_matcher import NameMatcher
    from llm_serving.request import Completion, Image, Message, Request, Sampling, Scores, Usage
    from llm_serving.response_store import ResponseCache
    from llm_serving.scripted import ScriptedEngine
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

_HOMES = {
    "CachedEngine": "cache",
    "Completion": "request",
    "Engine": "engine",
    "EngineConfig": "config",
    "Image": "request",
    "Message": "request",
    "MeteredEngine": "engine",
    "NameMatcher": "name_matcher",
    "Request": "request",
    "ResponseCache": "response_store",
    "Sampling": "request",
    "Scores": "request",
    "ScriptedEngine": "scripted",
    "ServingError": "errors",
    "TextEncoder": "encoder",
    "Usage": "request",
    "VllmEngine": "vllm_engine",
    "constraint_of": "answers",
    "draw": "engine",
    "parse": "answers",
}
"""Imported when they are asked for: most of what uses this package needs few of them."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
