"""`VllmEngine`: vLLM in this process, shared by any number of coroutines."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from llm_serving.chat import ChatFormat
from llm_serving.config import EngineConfig
from llm_serving.dispatcher import Dispatcher
from llm_serving.encoder import TextEncoder
from llm_serving.errors import (
    AdapterError,
    EngineConfigError,
    LabelError,
    PromptTooLongError,
    RequestFailedError,
    TooManyImagesError,
)
from llm_serving.models import (
    adapter_folder,
    check_fit,
    merge_adapter,
    read_adapter,
    resolve,
)
from llm_serving.models.merging import merged_revision
from llm_serving.request import (
    AdapterIdentity,
    Completion,
    EncodedPrompt,
    Message,
    ModelIdentity,
    Scores,
    SharedPrompt,
    Usage,
)
from llm_serving.scoring import branch_scores, next_token_logprobs, tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmJob, VllmResult, sampling_params
from llm_serving.vllm_arguments import installed_version, on_gpu, prepare_environment
from llm_serving.vllm_process import core_class
from llm_serving.vllm_stats import EngineLoad, PrefixCacheStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_serving.dispatcher import Activity
    from llm_serving.models import Adapter, ResolvedModel
    from llm_serving.request import Ability, Image, Prompt, Request, ScoreRequest
    from llm_serving.scoring import Scored, Submit, Tokens, Way
    from llm_serving.vllm_adapter import VllmCore

logger = logging.getLogger(__name__)

AGREEMENT = {"float32": 0.01, "bfloat16": 0.5, "float16": 0.1}
"""Nats by which two ways of scoring a choice may differ, by dtype.

Batches of other shapes round otherwise: logits between 16 and 32 are multiples of 1/8 in bfloat16,
of 1/64 in float16. A row of another token is off by nats.
"""


_ABILITIES: frozenset[Ability] = frozenset({"regex", "scores", "labels", "embeddings"})

_PROMPTS_REMEMBERED = 256
"""The most prompts that stay encoded."""


class VllmEngine:
    """An open-weight model in this process behind the `Engine` protocol.

    Building one loads the weights and returns when the engine is ready. One engine serves any
    number of callers on any number of event loops.

    Args:
        config: how the model is served, or just the model's name.
        encoder: embeds texts, and is closed by its owner; None makes one that keeps no vectors.
        beside: what else of this run holds memory of the same GPU (`gpu_sharing`); its engine then
            leaves none of its work running there when it gives way to another.

    Raises:
        UnknownModelError: no such model.
        AdapterError: an adapter cannot be served, or does not fit the model, or there are several
            on a CPU.
        KvCacheMemoryError: the KV cache does not fit.
        UnsupportedEngineError: vLLM is missing or of another version.
        EngineConfigError: the configuration does not fit the model, or vLLM refuses it.

    Example:
        >>> import asyncio
        >>> from llm_serving import Message, Request, Sampling, ScoreRequest, VllmEngine
        >>> engine = VllmEngine("smollm2-135m-instruct")
        >>> chat = (Message("user", "What is the capital of France?"),)
        >>> request = Request(prompt=chat, sampling=Sampling(max_tokens=16))
        >>> "Paris" in asyncio.run(engine.generate(request)).text
        True
        >>> scores = asyncio.run(engine.score(ScoreRequest(chat, ("Paris", "Rome")))).logprobs
        >>> scores[0] > scores[1]
        True
        >>> engine.close()
    """

    def __init__(
        self,
        config: EngineConfig | str,
        *,
        encoder: TextEncoder | None = None,
        beside: Sequence[str] = (),
    ) -> None:
        self.config = EngineConfig(model=config) if isinstance(config, str) else config
        model = resolve(self.config.model)
        adapters = _read_adapters(self.config, model)
        # A CPU serves an adapter merged into the weights, alone.
        merged = bool(adapters) and not on_gpu()
        served = _merged(model, adapters) if merged else model
        self._merged = next(iter(adapters)) if merged else None
        installed_version()
        prepare_environment()
        self._chat = ChatFormat(
            served.path,
            name=model.name,
            template=self.config.chat_template,
            variables=self.config.chat_template_kwargs,
        )
        self.ends = self._chat.ends
        if self.config.structured_backend == "guidance":
            self._check_guidance(model.name)
        core_of = core_class(self.config, beside=beside)
        self._dispatcher: Dispatcher[VllmJob, VllmResult, VllmCore] = Dispatcher(
            lambda: core_of(
                self.config,
                served.path,
                {} if merged else adapters,
                ends=self.ends,
                beside=beside,
            ),
            name="vllm-step",
        )
        core = self._dispatcher.core
        self.context, self.block_size = core.context, core.block_size
        self.identity = ModelIdentity(
            name=model.name,
            revision=model.revision,
            dtype=core.dtype,
            taught=model.taught,
            adapters=tuple(
                AdapterIdentity(
                    name=name,
                    revision=merged_revision(model.revision, adapter.revision),
                    taught=adapter.taught,
                )
                for name, adapter in adapters.items()
            ),
            engine=self._deciding(core.runner),
        )
        pictures: set[Ability] = {"pictures"} if self.config.images_per_prompt else set()
        self.abilities: frozenset[Ability] = _ABILITIES | pictures
        self._owns_encoder = encoder is None
        self._encoder = encoder or TextEncoder(cache=None)
        self._scoring: Literal["auto", "tail", "trie"] = self.config.scoring
        # A trace encodes a prompt again once it is answered, and that takes milliseconds.
        self._encoded = lru_cache(maxsize=_PROMPTS_REMEMBERED)(self._encode)

    def _deciding(self, runner: str) -> str:
        """What decides answers beside the weights."""
        config = self.config
        parts = [runner, config.scoring, str(self.ends), self._chat.digest]
        if self._chat.writes_blanks:  # tells scores from those of choices with that blank
            parts.append("choices=behind")
        if config.kv_dtype != "auto":
            parts.append(f"kv_dtype={config.kv_dtype}")
        if config.max_pixels is not None:
            parts.append(f"max_pixels={config.max_pixels}")
        return " ".join(filter(None, parts))

    @property
    def activity(self) -> Activity:
        """Steps taken, and the time spent inside and outside of them."""
        return self._dispatcher.activity

    @property
    def prefix_cache(self) -> PrefixCacheStats:
        """VLLM's prefix-cache counters since the engine started."""
        stats = self._dispatcher.core.stats
        return PrefixCacheStats(queries=stats.prefix_queries, hits=stats.prefix_hits)

    def load(self) -> EngineLoad:
        """How full the engine is: cheap, and as fresh as the last step."""
        core, in_flight = self._dispatcher.core, self._dispatcher.in_flight
        running = min(core.stats.running, in_flight)
        return EngineLoad(
            running=running,
            waiting=in_flight - running,
            capacity=core.capacity,
            preempted=core.stats.preempted,
            kv_usage=core.stats.kv_usage,
            prompt_tokens=core.stats.prompt_tokens,
            cached_tokens=core.stats.cached_tokens,
            written_tokens=core.stats.written_tokens,
            cache_tokens=core.cache_tokens,
        )

    async def forget_prefixes(self) -> bool:
        """Empties the prefix cache; False if requests in flight still hold some of it."""
        return await self._dispatcher.call(lambda core: core.forget_prefixes())

    def encode(self, prompt: Prompt) -> EncodedPrompt:
        """Applies the chat template and the tokenizer.

        Raises:
            TooManyImagesError: the prompt holds more images than the model's configuration allows.
            RequestFailedError: the chat template fails on this chat.
        """
        if isinstance(prompt, EncodedPrompt):
            self._check_images(prompt.images)
            return prompt
        return self._encoded(prompt if isinstance(prompt, str) else tuple(prompt))

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, those of the chat template included."""
        return self._chat.decode(token_ids)

    def _encode(self, prompt: str | tuple[Message, ...]) -> EncodedPrompt:
        if isinstance(prompt, str):
            return EncodedPrompt(self._chat.plain(prompt))
        images = tuple(image for message in prompt for image in message.images)
        self._check_images(images)
        return EncodedPrompt(self._chat.encode(prompt), images)

    async def submit(self, job: VllmJob) -> VllmResult:
        """Hands vLLM a job as it is: for scoring, checks and benchmarks.

        Raises:
            EngineStoppedError: the engine is closed or died.
        """
        return await self._dispatcher.submit(job)

    async def generate(self, request: Request) -> Completion:
        """See `Engine`."""
        begun = time.perf_counter()
        adapter = self._applied(request.adapter)
        prompt = self.encode(request.prompt)
        sampling, constraint = request.sampling, request.constraint
        max_tokens = sampling.max_tokens if constraint is None else constraint.max_tokens
        self._check_length(prompt, max_tokens)
        result = await self.submit(
            VllmJob(
                prompt.token_ids,
                prompt.images,
                sampling_params(
                    temperature=sampling.temperature,
                    top_p=sampling.top_p,
                    presence_penalty=sampling.presence_penalty,
                    frequency_penalty=sampling.frequency_penalty,
                    max_tokens=max_tokens,
                    seed=_seed_of(request),
                    stop=sampling.stop,
                    regex=None if constraint is None else constraint.regex,
                    ends=self.ends,
                ),
                adapter,
            )
        )
        if result.finish == "error":
            raise RequestFailedError(
                f"vLLM failed on the request of role {request.role!r}: its log says why. One "
                "cause is a constraint whose pattern cannot be compiled"
            )
        # A stop text may be the first that is written: nothing is left then.
        text = result.text if sampling.stop else self._chat.answer(result.token_ids)
        usage = _usage([result], time.perf_counter() - begun)
        return Completion(text=text, token_ids=result.token_ids, finish=result.finish, usage=usage)

    async def score(self, request: ScoreRequest) -> Scores:
        """See `Engine`."""
        begun = time.perf_counter()
        submit = self._submitter(request.adapter)
        choices = request.choices
        if not choices or not all(choices):
            raise ValueError("score needs at least one choice and no empty ones")
        prompt = self.encode(request.prompt)
        if request.kind == "labels":
            scored = await self._label_scores(submit, prompt, choices)
        else:
            scored = await self._answer_scores(submit, prompt, choices)
        logprobs, results = scored
        return self._scores(logprobs, prompt, results, begun)

    async def _answer_scores(
        self, submit: Submit, prompt: EncodedPrompt, choices: Sequence[str]
    ) -> tuple[tuple[float, ...], Sequence[VllmResult]]:
        sequences = self._chat.choices(choices, behind=prompt.token_ids)
        self._check_length(prompt, max(map(len, sequences)) + 1)
        distinct = list(dict.fromkeys(sequences))
        scored = await self._sequence_scores(submit, prompt, distinct)
        by_tokens = dict(zip(distinct, scored.logprobs, strict=True))
        return tuple(by_tokens[tokens] for tokens in sequences), scored.results

    async def _label_scores(
        self, submit: Submit, prompt: EncodedPrompt, labels: Sequence[str]
    ) -> tuple[tuple[float, ...], Sequence[VllmResult]]:
        sequences = self._chat.choices(labels, behind=prompt.token_ids)
        for label, sequence in zip(labels, sequences, strict=True):
            if len(sequence) != 1:
                raise LabelError(
                    f"the label {label!r} is {len(sequence)} tokens of this model, not one: "
                    "choose another label, or score it as an answer"
                )
        tokens = [token for (token,) in sequences]
        self._check_length(prompt, 1)
        logprobs, results = await next_token_logprobs(submit, prompt, list(dict.fromkeys(tokens)))
        return tuple(logprobs[token] for token in tokens), results

    def _scores(
        self,
        logprobs: tuple[float, ...],
        prompt: EncodedPrompt,
        results: Sequence[VllmResult],
        begun: float,
    ) -> Scores:
        """Log-probabilities with what all requests for them cost.

        The requests begin with the prompt, and the first of them leaves it in the cache. So the
        fewest tokens that one found there are those from before the scoring.
        """
        checked = self._checked(logprobs)
        tokens = len(prompt.token_ids)
        found = min(result.cached_tokens for result in results)
        return Scores(
            logprobs=checked,
            usage=_usage(results, time.perf_counter() - begun),
            shared=None
            if prompt.images
            else SharedPrompt(
                tokens=tokens, cached_tokens=min(found, tokens), requests=len(results)
            ),
        )

    def _checked(self, logprobs: tuple[float, ...]) -> tuple[float, ...]:
        """Log-probabilities that are numbers; no cache gets anything else."""
        if any(map(math.isnan, logprobs)):
            raise RequestFailedError(
                f"{self.identity.name} gives NaN: weights are damaged or too large for the dtype"
            )
        return logprobs

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> NDArray[np.float32]:
        """See `Engine`."""
        return await self._encoder.embed(texts)

    def close(self) -> None:
        """Stops the engine; callers still waiting get `EngineStoppedError`."""
        self._dispatcher.close()
        if self._owns_encoder:
            self._encoder.close()

    async def aclose(self) -> None:
        """As `close`, without blocking the event loop: its callers must hear of the end."""
        await asyncio.get_running_loop().run_in_executor(None, self.close)

    def _applied(self, adapter: str | None) -> str | None:
        """The adapter that vLLM applies for a request that names one.

        Raises:
            AdapterError: the engine has no such adapter, or serves merged weights alone.
        """
        self.identity.answering(adapter)
        if self._merged is None:
            return adapter
        if adapter is None:
            raise AdapterError(
                f"on a CPU the engine of {self.identity.name} serves the adapter {self._merged} "
                f"alone, and a request names none: name it, or open another engine for "
                f"{self.identity.name} itself (a role with a model of its own has one)"
            )
        return None

    def _submitter(self, adapter: str | None) -> Submit:
        """Submits jobs for an adapter; raises as `_applied`."""
        applied = self._applied(adapter)

        async def submit(job: VllmJob) -> VllmResult:
            result = await self.submit(replace(job, adapter=applied))
            if result.finish == "error":
                raise RequestFailedError("vLLM failed on a scoring: its log says why")
            return result

        return submit

    async def _sequence_scores(
        self, submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens]
    ) -> Scored:
        if self._scoring == "auto":
            return await self._choose_scoring(submit, prompt, sequences)
        if self._scoring == "trie":
            return await trie_scores(submit, prompt, sequences, ends=self.ends)
        scored = await self.fast_scores(submit, prompt, sequences, ends=self.ends)
        # No choice with its end is certain: 0 is what rows that are not there add up to.
        if scored.gap <= AGREEMENT[self.identity.dtype] and 0.0 not in scored.logprobs:
            return scored
        checked = await trie_scores(submit, prompt, sequences, ends=self.ends)
        self._compare(scored, checked)
        return replace(checked, results=scored.results + checked.results)

    async def _choose_scoring(
        self, submit: Submit, prompt: EncodedPrompt, sequences: Sequence[Tokens]
    ) -> Scored:
        """Scores both ways; from then on the faster one is taken if they agreed.

        A prompt without cached tokens decides nothing, since it is the cache that moves rows.
        """
        checked = await trie_scores(submit, prompt, sequences, ends=self.ends)
        fast = await self.fast_scores(submit, prompt, sequences, ends=self.ends)
        if fast.rows and all(result.cached_tokens for result in fast.results):
            if self._scoring == "auto":  # what another call found wrong stays so
                self._scoring = "tail"
            self._compare(fast, checked)
        return replace(checked, results=checked.results + fast.results)

    @property
    def fast_scores(self) -> Way:
        """The way with the fewest tokens that this engine's model runner has."""
        return branch_scores if self._dispatcher.core.reads_branches else tail_scores

    def _compare(self, fast: Scored, checked: Scored) -> None:
        """Scores by the trie from now on if the fast way is wrong."""
        apart = (abs(a - b) for a, b in zip(fast.logprobs, checked.logprobs, strict=True))
        gap = max(fast.gap, *apart)
        if gap > AGREEMENT[self.identity.dtype]:
            self._scoring = "trie"
            logger.warning(
                "scoring by prompt tails differs from the trie by %.3f nats: the trie is used", gap
            )

    def choice_tokens(self, choice: str, *, behind: Sequence[int] = ()) -> tuple[int, ...]:
        """A choice as the model writes it: its own tokens, then the first that ends a turn."""
        return (*self.own_tokens(choice, behind=behind), self.ends[0])

    def own_tokens(self, text: str, *, behind: Sequence[int] = ()) -> tuple[int, ...]:
        """A text as it follows the tokens of a prompt; see `ChatFormat.tokens`."""
        return self._chat.tokens(text, behind=behind)

    def _check_guidance(self, name: str) -> None:
        tokenizer = self._chat.tokenizer
        eos, end = tokenizer.convert_ids_to_tokens([tokenizer.eos_token_id, self.ends[0]])
        if eos != end:
            raise EngineConfigError(
                f"`structured_backend` = guidance ends answers by {eos} alone, and those of {name} "
                f"end by {end}: take outlines"
            )

    def _check_images(self, images: Sequence[Image]) -> None:
        if len(images) > self.config.images_per_prompt:
            raise TooManyImagesError(images=len(images), allowed=self.config.images_per_prompt)

    def _check_length(self, prompt: EncodedPrompt, answer_tokens: int) -> None:
        if len(prompt.token_ids) + answer_tokens > self.context:
            raise PromptTooLongError(
                prompt_tokens=len(prompt.token_ids),
                answer_tokens=answer_tokens,
                context=self.context,
            )


def _read_adapters(config: EngineConfig, model: ResolvedModel) -> dict[str, Adapter]:
    """The adapters of a configuration, each checked against the model.

    Raises:
        AdapterError: one of them cannot be served, or does not fit.
    """
    adapters = {
        name: read_adapter(adapter_folder(folder)) for name, folder in config.adapters.items()
    }
    for adapter in adapters.values():
        check_fit(adapter, model.path, base_revision=model.revision)
    return adapters


def _merged(model: ResolvedModel, adapters: Mapping[str, Adapter]) -> ResolvedModel:
    """The model with its only adapter merged into its weights.

    On a CPU, vLLM's own way applies the last adapter of a batch to the requests that name none
    (vLLM 0.32; its pull request 48421).

    Raises:
        AdapterError: there are several adapters, or it cannot be merged.
    """
    if len(adapters) > 1:
        raise AdapterError(
            f"{model.name} has {len(adapters)} adapters ({', '.join(adapters)}), and on a CPU an "
            "engine serves one: open an engine for each (a role with a model of its own has one)"
        )
    (adapter,) = adapters.values()
    return merge_adapter(model, adapter, name=model.name)


def _usage(results: Sequence[VllmResult], seconds: float = 0.0) -> Usage:
    return Usage(
        calls=1,
        prompt_tokens=sum(result.prompt_tokens for result in results),
        cached_tokens=sum(result.cached_tokens for result in results),
        completion_tokens=sum(len(result.token_ids) for result in results),
        seconds=seconds,
    )


def _seed_of(request: Request) -> int | None:
    """The seed of this sample of a seeded request; None where the answer is greedy or unseeded."""
    sampling = request.sampling
    if sampling.seed is None or sampling.temperature == 0.0:
        return None
    return (sampling.seed * 1_000_003 + request.sample) % (1 << 63)
