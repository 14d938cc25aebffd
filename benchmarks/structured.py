"""What it costs to hold answers to their form: constrained over free decoding, per ToO role.

32 questions of a role in flight, its grammar compiled. Free decoding writes as many tokens for the
same prompts. The default backend sets the ratio; the others stand beside it on two roles.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import TYPE_CHECKING

from bench_engine import engine, engine_parser, forget, role_calls, timed, together
from harness import Finding, report

from llm_serving.engine import MeteredEngine
from llm_serving.vllm_adapter import VllmJob

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from llm_serving.config import StructuredBackend
    from llm_serving.request import Completion, Request
    from llm_serving.vllm_engine import VllmEngine

ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination")
IN_FLIGHT = 32
DEFAULT: StructuredBackend = "outlines"
PEERS: tuple[StructuredBackend, ...] = ("xgrammar", "guidance")
PEER_ROLES = ("feasibility", "dynamics")


class Recorder(MeteredEngine):
    """The engine, remembering requests and completions."""

    def __init__(self, engine: VllmEngine) -> None:
        super().__init__(engine)
        self.asked: list[tuple[Request, Completion]] = []

    async def generate(self, request: Request) -> Completion:
        """Asks the engine."""
        completion = await super().generate(request)
        self.asked.append((request, completion))
        return completion


async def free(opened: VllmEngine, asked: list[tuple[Request, Completion]]) -> None:
    """Writes as many tokens for the same prompts, unconstrained."""
    from vllm import SamplingParams

    async def write(request: Request, completion: Completion) -> None:
        params = SamplingParams(
            temperature=request.sampling.temperature,
            seed=request.sampling.seed if request.sampling.temperature else None,
            max_tokens=completion.usage.completion_tokens,
            ignore_eos=True,
            detokenize=False,
        )
        await opened.submit(VllmJob(opened.encode(request.prompt).token_ids, (), params))

    await asyncio.gather(*(write(request, completion) for request, completion in asked))


def measure(
    backend: StructuredBackend, roles: Sequence[str], arguments: argparse.Namespace
) -> dict[str, dict[str, float]]:
    """Per role: ratio, answers per second, tokens per answer and the first compile's seconds."""
    figures: dict[str, dict[str, float]] = {}
    with engine(backend, model=arguments.model, dtype=arguments.dtype) as opened:
        for role in roles:
            ratios: list[float] = []
            _, first = timed(together(role_calls(opened, role, 1)))
            _, second = timed(together(role_calls(opened, role, 1)))
            for _ in range(arguments.repeats):
                recorder = Recorder(opened)
                forget(opened)
                calls = role_calls(recorder, role, IN_FLIGHT)  # type: ignore[arg-type]
                _, constrained = timed(together(calls))
                forget(opened)
                begun = time.perf_counter()
                asyncio.run(free(opened, recorder.asked))
                ratios.append((time.perf_counter() - begun) / constrained)
            written = sum(done.usage.completion_tokens for _, done in recorder.asked)
            figures[role] = {
                "ratio": statistics.median(ratios),
                "answers_per_s": IN_FLIGHT / constrained,
                "tokens_per_answer": written / IN_FLIGHT,
                "first_answer_extra_s": first - second,
            }
    return figures


def main() -> None:
    """Measures and reports."""
    options = engine_parser(__doc__)
    options.add_argument("--repeats", type=int, default=3, help="runs per role, the median counts")
    arguments = options.parse_args()
    default = measure(DEFAULT, ROLES, arguments)
    by_backend = {DEFAULT: default} | {peer: measure(peer, PEER_ROLES, arguments) for peer in PEERS}
    findings = [
        Finding(
            label="constrained over free tokens/s, least of the roles",
            measured=min(figures["ratio"] for figures in default.values()),
            unit="x",
            bound="at least",
            target=0.8,
            details={
                f"{backend}_{role}": {key: round(value, 3) for key, value in figures.items()}
                for backend, roles in by_backend.items()
                for role, figures in roles.items()
            },
        )
    ]
    report("structured", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
