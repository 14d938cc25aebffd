"""A card's engine in outline: what its steps cost the process, and recorded answers.

A step of vLLM on a card is Python that holds the interpreter's lock, with calls in between that let
it go, and a wait for the card. Here the Python counts in vain and the wait sleeps. Everything above
it is real: `VllmEngine` with its tokenizer and its chat template, the dispatcher and its thread,
planners, pool, ledger. Left out are vLLM's parameters of a request, and what copies them.

Who asks gets the answer that fits the pattern of the question. `sweep_emulated.json` has one for
each role of Tree of Options, with the token ids that a one-layer model with random weights wrote on
vLLM (`prefix_cache.random_model`; eight trials of `sweep.py`, all alike).
"""

from __future__ import annotations

import json
import multiprocessing
import re
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Protocol
from unittest import mock

from llm_serving import vllm_engine
from llm_serving.config import EngineConfig
from llm_serving.vllm_adapter import VllmResult
from llm_serving.vllm_stats import StepStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llm_serving.vllm_adapter import VllmJob
    from llm_serving.vllm_engine import VllmEngine

MODEL: Final = "smollm2-135m-instruct"
BLOCK: Final = 32
CACHED: Final = 0.88
"""Share of a prompt in the prefix cache, which has whole blocks: what `prefix_cache` measures."""

_RECORDED = Path(__file__).with_name("sweep_emulated.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a step costs. The defaults reproduce an H200 with the bundled model: 8 ms a step.

    Attributes:
        python: seconds of the processor under the interpreter's lock.
        releases: calls in them that let the lock go.
        wait: seconds for the card, without the lock.
        tokens: written for each request.
    """

    python: float = 0.006
    releases: int = 20
    wait: float = 0.002
    tokens: int = 1

    def pay(self) -> None:
        """Takes as long as a step."""
        for _ in range(self.releases):
            _count_in_vain(self.python / self.releases)
            time.sleep(0)
        time.sleep(self.wait)


def _count_in_vain(seconds: float) -> None:
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        for number in range(300):
            total += number


class Steps(Protocol):
    """Where steps are taken."""

    cost: Cost

    def take(self) -> None:
        """Takes one."""
        ...

    def close(self) -> None:
        """Ends."""
        ...


@dataclass(frozen=True, slots=True)
class StepsHere:
    """Steps in this process, whose lock they hold."""

    cost: Cost = Cost()

    def take(self) -> None:
        """Takes one."""
        self.cost.pay()

    def close(self) -> None:
        """There is nothing to end."""


class StepsApart:
    """Steps in a process of their own, which this one waits for."""

    def __init__(self, cost: Cost = Cost()) -> None:
        self.cost = cost
        spawning = multiprocessing.get_context("spawn")
        self._connection, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_step_for, args=(theirs, cost), daemon=True)
        self._process.start()
        self._connection.recv()

    def take(self) -> None:
        """Takes one."""
        self._connection.send(True)
        self._connection.recv()

    def close(self) -> None:
        """Ends the process."""
        self._connection.send(False)
        self._process.join()


def _step_for(connection: Any, cost: Cost) -> None:  # noqa: ANN401 - its class has no public name
    connection.send(True)
    while connection.recv():
        cost.pay()
        connection.send(True)


class EmulatedCore:
    """What `VllmCore` is to an engine, without vLLM."""

    reads_branches = True
    runner, dtype = "V2", "bfloat16"
    context, block_size = 8192, BLOCK
    cache_tokens, capacity = 10**7, 256

    def __init__(self, steps: Steps) -> None:
        self.stats = StepStats()
        self._steps = steps
        self._left: dict[int, int] = {}
        self._jobs: dict[int, VllmJob] = {}

    def add(self, ticket: int, job: VllmJob) -> None:
        """Takes a job into the running batch."""
        self._jobs[ticket] = job
        self._left[ticket] = len(_answer(job.params.regex))

    def abort(self, tickets: Sequence[int]) -> None:
        """Drops jobs whose callers are gone."""
        for ticket in tickets:
            self._jobs.pop(ticket, None)
            self._left.pop(ticket, None)

    def step(self) -> list[tuple[int, VllmResult]]:
        """Advances every job in flight and returns the finished ones."""
        self._steps.take()
        self.stats.running = len(self._left)
        for ticket in self._left:
            self._left[ticket] -= self._steps.cost.tokens
        ended = [ticket for ticket, left in self._left.items() if left <= 0]
        return [(ticket, self._result(ticket)) for ticket in ended]

    def wake(self) -> None:
        """Nothing: a step ends by itself."""

    def forget_prefixes(self) -> bool:
        """There are none."""
        return True

    def close(self) -> None:
        """Ends the steps."""
        self._steps.close()

    def _result(self, ticket: int) -> VllmResult:
        job = self._jobs.pop(ticket)
        del self._left[ticket]
        read = len(job.token_ids)
        result = VllmResult(
            token_ids=_answer(job.params.regex),
            finish="stop",
            text="",
            prompt_tokens=read,
            cached_tokens=int(CACHED * read) // BLOCK * BLOCK,
            next_logprobs=None,
        )
        self.stats.prompt_tokens += result.prompt_tokens
        self.stats.cached_tokens += result.cached_tokens
        self.stats.written_tokens += len(result.token_ids)
        return result


def recorded() -> dict[str, tuple[str, tuple[int, ...]]]:
    """Role -> the text and the token ids of its answer, the end included."""
    read = json.loads(_RECORDED.read_text(encoding="utf-8"))
    return {role: (answer["text"], tuple(answer["token_ids"])) for role, answer in read.items()}


@lru_cache(maxsize=1024)
def _answer(regex: str) -> tuple[int, ...]:
    """The recorded answer that a pattern allows.

    Raises:
        LookupError: none, or several.
    """
    fitting = [ids for text, ids in recorded().values() if re.fullmatch(regex, text)]
    if len(fitting) != 1:
        raise LookupError(
            f"{len(fitting)} recorded answers fit {regex!r}, not one: questions are others than "
            f"when {_RECORDED.name} was recorded"
        )
    return fitting[0]


@contextmanager
def emulating(steps: Callable[[], Steps]) -> Iterator[None]:
    """Every `VllmEngine` that is opened meanwhile is an emulated one.

    Args:
        steps: makes those of an engine, on the thread that takes them.
    """

    class Core(EmulatedCore):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(steps())

    # An earlier commit, which `--against` runs, has one class of cores.
    chooses = hasattr(vllm_engine, "core_class")
    core = {"core_class": lambda *_, **__: Core} if chooses else {"VllmCore": Core}
    with mock.patch.multiple(vllm_engine, sampling_params=SimpleNamespace, **core):
        yield


@contextmanager
def emulated(steps: Callable[[], Steps]) -> Iterator[VllmEngine]:
    """An emulated engine without a response cache."""
    with (
        emulating(steps),
        closing(vllm_engine.VllmEngine(EngineConfig(model=MODEL, context=8192))) as opened,
    ):
        yield opened
