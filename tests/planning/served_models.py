"""What stands in for vLLM in commands that open models; no test module itself."""

import json

from loaded_engine import LoadedEngine

import llm_planning.commands.sweep_running as sweep_module
from llm_serving import vllm_engine
from llm_serving.request import ModelIdentity

ONE_OPTION = json.dumps(
    {"options": [{"reasoning": "r", "verb": "mine", "quantity": 3, "item": "oak_log"}]},
    separators=(",", ":"),
)
"""The answer of who decomposes any task into one option."""


class Served:
    """The configurations that were opened, and their engines, which answer from one script."""

    def __init__(self, script):
        self.script = script
        self.delay = None
        self.configs = []
        self.engines = []
        self.forgotten = 0

    def __call__(self, config, *, encoder, beside):
        identity = ModelIdentity(name=config.model, revision="r1", dtype="float32")
        engine = LoadedEngine(self.script, delay=self.delay, identity=identity)
        engine.forget_prefixes = self.forget
        self.configs.append(config)
        self.engines.append(engine)
        return engine

    async def forget(self):
        self.forgotten += 1

    @property
    def asked(self):
        return sum(len(engine.requests) for engine in self.engines)


def serve(monkeypatch, folder, script):
    """Lets commands open such engines, in this folder, with a cache in it."""
    served = Served(script)
    monkeypatch.setattr(vllm_engine, "VllmEngine", served)
    monkeypatch.setattr(
        sweep_module,
        "identify",
        lambda name, config: ModelIdentity(name=name, revision="r1", dtype=config.dtype),
    )
    monkeypatch.setenv("LLM_PLANNING_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)
    return served
