"""vLLM, 0.26 to 0.33, behind the calls of a dispatcher: its `LLMEngine`, stepped in this process.

vLLM is imported when an engine is opened: it reads its environment then. What an engine is told is
in `vllm_arguments`; how it is stepped in a process of its own, in `vllm_process`.
"""

from __future__ import annotations

import dataclasses
import gc
import hashlib
import io
import logging
import threading
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from llm_serving.errors import PromptTooLongError, ServingError
from llm_serving.vllm_arguments import (
    check_images,
    engine_arguments,
    start_error,
)
from llm_serving.vllm_stats import StepStats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.config import EngineConfig
    from llm_serving.models import Adapter
    from llm_serving.request import Image


@dataclass(frozen=True, slots=True)
class VllmJob:
    """One prompt, to be answered once.

    Attributes:
        token_ids: shape [T].
        images: in the order of their placeholders.
        params: vLLM's `SamplingParams`, for this job alone: vLLM may write into them.
        adapter: name of the adapter that vLLM applies; None for the weights as they were loaded.
    """

    token_ids: tuple[int, ...]
    images: tuple[Image, ...]
    params: Any
    adapter: str | None = None


@dataclass(frozen=True, slots=True)
class VllmResult:
    """vLLM's answer to a `VllmJob`.

    Attributes:
        token_ids: shape [answer], the terminator included.
        finish: "stop", "length", or "error" where vLLM failed on this request.
        text: the answer where the job has stop texts, for which vLLM watches; else "".
        prompt_tokens: T with image placeholders expanded.
        cached_tokens: prompt tokens read from the prefix cache.
        next_logprobs: log-probability by token id at the first new position, where asked for.
        tail_logprobs: of the prompt's last tokens, log p(token | tokens before it): entry -i is the
            i-th token's from the end. As many as were computed; empty where not asked for.
        branch_logprobs: shape [rows, ids], what `branch_params` asked for; None where not asked
            for, and where the prefix cache reaches into the rows.
    """

    token_ids: tuple[int, ...]
    finish: Literal["stop", "length", "error"]
    text: str
    prompt_tokens: int
    cached_tokens: int
    next_logprobs: Mapping[int, float] | None
    tail_logprobs: Sequence[float] = ()
    branch_logprobs: NDArray[np.float32] | None = None


class VllmCore:
    """vLLM's engine in this process, behind the calls that a dispatcher makes.

    Args:
        path: folder of the weights.
        adapters: name -> adapter that vLLM applies to the weights of requests that name it.
        ends: the tokens that end an answer.
        beside: what else of this run holds memory of the same GPU, in words.
    """

    takes_turns = True
    """Whether engines beside it wait until its steps are over."""

    def __init__(
        self,
        config: EngineConfig,
        path: Path,
        adapters: Mapping[str, Adapter],
        *,
        ends: Sequence[int],
        beside: Sequence[str] = (),
    ) -> None:
        from vllm import EngineArgs, SamplingParams

        arguments = engine_arguments(
            config,
            path,
            ranks=[adapter.rank for adapter in adapters.values()],
            beside=beside if self.takes_turns else (),
            known=frozenset(field.name for field in dataclasses.fields(EngineArgs)),
        )
        self._loras = lora_requests(adapters)
        self.stats = StepStats()
        self.engine: Any = None
        try:
            with _STEPPING, _quiet():
                from llm_serving.block_hashes import install as hash_prompts_once

                hash_prompts_once()
                _begin_graph_pool()
                _forget_gpus()
                vllm_config = EngineArgs(**arguments).create_engine_config()
                check_images(config, reads_images=vllm_config.model_config.is_multimodal_model)
                if config.structured_backend == "outlines":
                    from llm_serving.outlines_backend import answers_end_by
                    from llm_serving.outlines_backend import install as answer_by_outlines

                    answer_by_outlines()
                    vllm_config.additional_config |= answers_end_by(ends)
                second = vllm_config.use_v2_model_runner
                if not second:
                    extension = f"{__name__}.{WithoutRanks.__qualname__}"
                    vllm_config.parallel_config.worker_extension_cls = extension
                self.engine = self._start(vllm_config)
                for lora in self._loras.values():
                    self.engine.add_lora(lora)
                if not second:
                    self.engine.collective_rpc(WithoutRanks.skip_ranks.__name__)
        except Exception as error:  # vLLM and the libraries below it raise any exception
            if self.engine is not None:
                self.close()
            if isinstance(error, ServingError):
                raise
            raise start_error(error, config, beside) from error
        self.context: int = vllm_config.model_config.max_model_len
        self.block_size: int = vllm_config.cache_config.block_size
        self.cache_tokens: int = (vllm_config.cache_config.num_gpu_blocks or 0) * self.block_size
        self.capacity: int = vllm_config.scheduler_config.max_num_seqs
        self.dtype = str(vllm_config.model_config.dtype).removeprefix("torch.")
        self.runner: Literal["V1", "V2"] = "V2" if second else "V1"
        self.reads_branches = (
            second and "prompt_logprob_token_ids" in SamplingParams.__annotations__
        )

    def _start(self, vllm_config: Any) -> Any:  # noqa: ANN401 - vLLM's `VllmConfig`, `LLMEngine`
        engine = llm_engine(vllm_config, self.stats, multiprocess_mode=False)
        _LIVE.add(id(self))
        return engine

    def add(self, ticket: int, job: VllmJob) -> None:
        """Hands a job to vLLM's scheduler.

        Raises:
            PromptTooLongError: with its image placeholders expanded, the prompt and its longest
                answer exceed the context.
        """
        prompt: dict[str, Any] = {"prompt_token_ids": list(job.token_ids)}
        if job.images:
            pictures, names = zip(*(_open(image) for image in job.images), strict=True)
            prompt["multi_modal_data"] = {"image": list(pictures)}
            prompt["multi_modal_uuids"] = {"image": list(names)}
        (rendered,) = self.engine.renderer.render_cmpl([prompt])
        prompt_tokens, answer_tokens = len(rendered["prompt_token_ids"]), job.params.max_tokens
        if prompt_tokens + answer_tokens > self.context:
            raise PromptTooLongError(
                prompt_tokens=prompt_tokens, answer_tokens=answer_tokens, context=self.context
            )
        lora = None if job.adapter is None else self._loras[job.adapter]
        if self.reads_branches and (rows := job.params.prompt_logprob_token_ids) is not None:
            # vLLM numbers them from the beginning, where images have made the prompt longer.
            job.params.prompt_logprob_start = prompt_tokens - 1 - len(rows)
        self.engine.add_request(str(ticket), rendered, job.params, lora_request=lora)

    def abort(self, tickets: Sequence[int]) -> None:
        """Frees the blocks of jobs whose callers are gone."""
        self.engine.abort_request([str(ticket) for ticket in tickets])

    def step(self) -> list[tuple[int, VllmResult]]:
        """One forward pass over everything in flight."""
        with _STEPPING:
            outputs = self.engine.step()
            if len(_LIVE) > 1:
                _wait_for_gpu()  # asynchronous scheduling leaves a batch running
        if not outputs and not self.engine.engine_core.engine_core.scheduler.running:
            # All wait for constraints that are compiled in threads, which need Python's lock.
            time.sleep(_NAP)
        return self._finished(outputs)

    def _finished(self, outputs: Sequence[Any]) -> list[tuple[int, VllmResult]]:
        """Those of vLLM's outputs that are whole answers."""
        results = [(int(each.request_id), _read(each)) for each in outputs if each.finished]
        for _, result in results:
            self.stats.prompt_tokens += result.prompt_tokens
            self.stats.cached_tokens += result.cached_tokens
            self.stats.written_tokens += len(result.token_ids)
        return results

    def wake(self) -> None:
        """Nothing: a step ends by itself here."""

    def close(self) -> None:
        """Shuts vLLM's executor down, and gives its memory back.

        A compiled model is pinned by a hook of torch until vLLM's engine is collected.
        """
        with _STEPPING:
            _LIVE.discard(id(self))
            engine, self.engine = self.engine, None
            with _keeping_groups() if _LIVE else nullcontext():
                engine.engine_core.shutdown()
            del engine
            gc.collect()
            _empty_gpu_cache()

    def forget_prefixes(self) -> bool:
        """Empties the prefix cache; False if requests in flight still hold blocks."""
        done: bool = self.engine.reset_prefix_cache()
        return done


def _forget_gpus() -> None:
    """Lets the next engine of this process have other GPUs than the one before it.

    vLLM keeps the numbers of the first engine's GPUs for the process, and refuses any others.
    """
    from vllm.platforms import interface

    interface._assigned_physical_gpu_ids = None


def llm_engine(vllm_config: Any, stats: StepStats, *, multiprocess_mode: bool) -> Any:  # noqa: ANN401
    """VLLM's `LLMEngine`, whose core steps in this process or in one of its own."""
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.executor import Executor

    return LLMEngine(
        vllm_config=vllm_config,
        executor_class=Executor.get_class(vllm_config),
        log_stats=True,
        stat_loggers=[stats.logger()],
        multiprocess_mode=multiprocess_mode,
    )


class WithoutRanks:
    """What vLLM adds to its worker on the model runner V1, in whichever process that is."""

    model_runner: Any

    def skip_ranks(self) -> None:
        """Spares prompts that are scored the rank of each of their tokens, which no answer says.

        vLLM's model runner V1 counts it over the whole vocabulary.
        """
        import torch
        from vllm.v1.outputs import LogprobsTensors

        sampler = self.model_runner.sampler
        gather = sampler.gather_logprobs

        def gathered(logprobs: Any, count: int, token_ids: Any) -> Any:  # noqa: ANN401
            if count:
                return gather(logprobs, count, token_ids)
            own = token_ids.unsqueeze(-1)
            ranks = torch.zeros_like(token_ids)
            return LogprobsTensors(own.to(torch.int32), logprobs.gather(-1, own), ranks)

        sampler.gather_logprobs = gathered


def lora_requests(adapters: Mapping[str, Adapter]) -> dict[str, Any]:
    """VLLM's `LoRARequest` of each adapter, by the adapter's name.

    vLLM's prefix cache tells adapters apart by the name and the path that they have there, and its
    slots by their number. So the name there holds the adapter's content.
    """
    if not adapters:
        return {}
    from vllm.lora.request import LoRARequest

    return {
        name: LoRARequest(
            lora_name=f"{name}@{adapters[name].revision}",
            lora_int_id=number,
            lora_path=str(adapters[name].path),
        )
        for number, name in enumerate(sorted(adapters), start=1)
    }


def sampling_params(
    *,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int | None,
    stop: Sequence[str],
    regex: str | None,
    ends: Sequence[int],
    presence_penalty: float = 0.0,
    frequency_penalty: float = 0.0,
) -> Any:  # noqa: ANN401 - vLLM's own class, not imported before an engine exists
    """VLLM's parameters of a drawn answer; `ends` are the tokens that end it."""
    from vllm.sampling_params import StructuredOutputsParams

    return _params(
        temperature=temperature,
        top_p=top_p,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        max_tokens=max_tokens,
        seed=seed,
        stop=list(stop) or None,
        stop_token_ids=list(ends),
        detokenize=bool(stop),
        structured_outputs=None if regex is None else StructuredOutputsParams(regex=regex),
    )


def next_token_params(token_ids: Sequence[int]) -> Any:  # noqa: ANN401
    """Parameters that ask for log p(token | prompt) of at most `MAX_LABELS` tokens."""
    return _params(
        temperature=0.0, max_tokens=1, detokenize=False, logprob_token_ids=list(token_ids)
    )


def uncached_params() -> Any:  # noqa: ANN401
    """Parameters that ask for the log-probabilities of all of the prompt's tokens.

    They switch reading the prefix cache off.
    """
    return _params(
        temperature=0.0, max_tokens=1, detokenize=False, prompt_logprobs=0, flat_logprobs=True
    )


def tail_params(token_ids: Sequence[int]) -> Any:  # noqa: ANN401
    """As `next_token_params`, with the log-probabilities of the prompt's own uncached tokens.

    `prompt_logprobs` alone switches reading the prefix cache off.
    """
    return _params(
        temperature=0.0,
        max_tokens=1,
        detokenize=False,
        logprob_token_ids=list(token_ids),
        prompt_logprobs=0,
        skip_reading_prefix_cache=False,
        flat_logprobs=True,
    )


def branch_params(token_ids: Sequence[int], rows: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
    """As `next_token_params`, with the log-probabilities of other ids at the prompt's last tokens.

    Only where `VllmCore.reads_branches`.

    Args:
        token_ids: asked about as the next token.
        rows: row i from the end has what is asked about in the place of the prompt's i-th token
            from the end; at most `MAX_LABELS` ids each.
    """
    options = {"prompt_logprob_token_ids": [list(row) for row in rows]} if rows else {}
    return _params(
        temperature=0.0,
        max_tokens=1,
        detokenize=False,
        logprob_token_ids=list(token_ids),
        skip_reading_prefix_cache=False,
        **options,
    )


def _params(**options: Any) -> Any:  # noqa: ANN401
    """VLLM's parameters of a request that is answered once, when it is finished.

    They are for one request alone, so vLLM need not copy what they hold.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, skip_clone=True, **options)


_STEPPING = threading.Lock()
"""Held by the engine that steps, opens or closes. What a forward pass reads is a variable of the
process in vLLM, so two engines of one process must not step at once."""

_NAP = 0.001
"""Seconds between two looks whether a constraint is compiled, as in vLLM's own loop."""

_LIVE: set[int] = set()
"""Identities of the cores that are open."""


def _begin_graph_pool() -> None:
    """Gives the next engine a pool of its own for its CUDA graphs.

    vLLM has one for the process, and engines that step on streams of their own may not share it.
    """
    from vllm.platforms import current_platform

    type(current_platform)._global_graph_pool = None


@contextmanager
def _keeping_groups() -> Iterator[None]:
    """Keeps vLLM from tearing down the process groups, which all engines of a process share."""
    from vllm.v1.engine import core

    cleanup = core.cleanup_dist_env_and_memory
    core.cleanup_dist_env_and_memory = lambda: None
    try:
        yield
    finally:
        core.cleanup_dist_env_and_memory = cleanup


def _wait_for_gpu() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.synchronize()


def _empty_gpu_cache() -> None:
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


_FINISHES: dict[str, Literal["stop", "length"]] = {"stop": "stop", "length": "length"}


@lru_cache(maxsize=32)
def _open(image: Image) -> tuple[Any, str]:
    """A Pillow image, and the name under which vLLM caches it.

    Scoring sends an image once with each choice. Decoding and hashing its pixels each time would
    hold the stepping thread up for tens of milliseconds.
    """
    from PIL import Image as Pillow

    opened = Pillow.open(io.BytesIO(image.data)).convert("RGB")
    return opened, hashlib.sha256(image.data).hexdigest()


def _read(output: Any) -> VllmResult:  # noqa: ANN401 - vLLM's RequestOutput
    answer = output.outputs[0]
    cached = output.num_cached_tokens or 0
    rows = output.prompt_logprobs
    return VllmResult(
        token_ids=tuple(answer.token_ids),
        finish=_FINISHES.get(answer.finish_reason, "error"),
        text=answer.text,
        prompt_tokens=len(output.prompt_token_ids),
        cached_tokens=cached,
        next_logprobs=(
            {token: entry.logprob for token, entry in answer.logprobs[0].items()}
            if answer.logprobs
            else None
        ),
        tail_logprobs=() if rows is None else _tail(rows, output.prompt_token_ids, cached),
        branch_logprobs=getattr(output, "prompt_token_id_logprobs", None),  # since vLLM 0.31
    )


def _tail(rows: Any, prompt: Sequence[int], cached: int) -> list[float]:  # noqa: ANN401
    """The log-probabilities of the prompt's tokens that were computed, read from the end.

    vLLM's model runner V1 returns a row for every token but the first, those of cached tokens
    uninitialised; V2 only the rows that it computed. A request that was preempted in the middle of
    its prompt has other rows than its cached tokens tell, and none of them is believed.

    Args:
        rows: vLLM's `FlatLogprobs`; the first is empty, the first entry of each other one is the
            prompt's own token.
        prompt: token ids, shape [T].
        cached: tokens that were read from the prefix cache when the request began.
    """
    computed = len(prompt) - 1 - cached
    if len(rows.start_indices) - 1 not in {len(prompt) - 1, computed}:
        return []
    starts = rows.start_indices[len(rows.start_indices) - computed :] if computed > 0 else []
    own = prompt[len(prompt) - computed :] if computed > 0 else []
    if [rows.token_ids[start] for start in starts] != list(own):
        return []
    return [rows.logprobs[start] for start in starts]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences the logs of vLLM and transformers, whose complaints the error that follows repeats.

    Where the user has asked vLLM for more than its errors, nothing is silenced.
    """
    from transformers.utils import logging as transformers_logging

    vllm_logger = logging.getLogger("vllm")
    level, verbosity = vllm_logger.level, transformers_logging.get_verbosity()
    if level == logging.ERROR:
        vllm_logger.setLevel(logging.CRITICAL)
        transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        vllm_logger.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
