"""A scripted engine in the place of vLLM's, whose load a pool reads."""

from llm_serving.scripted import ScriptedEngine
from llm_serving.vllm_stats import EngineLoad


class LoadedEngine(ScriptedEngine):
    """A scripted engine that tells how full it is: as vLLM's, with room for eight requests."""

    def __init__(self, script, **options):
        super().__init__(script, **options)
        self.in_flight = self.written = 0
        self.preempted = self.cache_tokens = 0

    async def generate(self, request):
        self.in_flight += 1
        try:
            answer = await super().generate(request)
            self.written += len(answer.token_ids)
            return answer
        finally:
            self.in_flight -= 1

    def load(self):
        running = min(8, self.in_flight)
        return EngineLoad(
            running=running,
            waiting=self.in_flight - running,
            capacity=8,
            preempted=self.preempted,
            kv_usage=0.1,
            written_tokens=self.written,
            cache_tokens=self.cache_tokens,
        )
