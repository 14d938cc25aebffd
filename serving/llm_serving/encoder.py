"""`TextEncoder`: unit vectors of texts, for similarity by meaning."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llm_base.files import at_home
from llm_serving.errors import EncoderError, EngineStoppedError, TextError
from llm_serving.models import names_folder, resolve
from llm_serving.models.local import check_modules
from llm_serving.models.reading import quiet_transformers, reading_model
from llm_serving.stores import EncoderIdentity, VectorCache, vector_cache_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from numpy.typing import NDArray

    from llm_serving.models import ResolvedModel

logger = logging.getLogger(__name__)

DEFAULT_ENCODER = "all-minilm-l6-v2"

# Tokens of a batch, padding included: a CPU computes no faster with more, and pads more.
_CPU_BATCH = 1024
_GPU_BATCH = 32_768
# Tokens of a text at most; a model may have no limit of its own.
_MOST_TOKENS = 32_768


@dataclass(frozen=True, slots=True)
class _Job:
    """One caller's texts, and the future that it awaits."""

    texts: tuple[str, ...]
    done: Future[NDArray[np.float32]]


class TextEncoder:
    """A sentence-transformers model in this process, read from the disk alone.

    The model is loaded when the first text comes whose vector is not in the cache. Every distinct
    text is encoded once, in one batch with texts of about as many tokens. A vector depends in its
    last bits on that batch (by 2e-7 a component with the bundled encoder), because matrix products
    of another shape add up in another order. So the cache gives every later call the vector that
    was computed first, in this process and all others, bit for bit. Without a cache the last bits
    differ from call to call.

    All methods may be called by several threads and event loops at once. An object does not
    survive `fork`: a child makes its own.

    Args:
        model: a bundled name, a local folder or a hub id.
        cache: file of the vector cache; "shared" is `vector_cache_path()`, None keeps nothing.

    Raises:
        UnknownModelError: by its methods, when a vector is first needed: no model has this name.
        EncoderError: by its methods too: the model cannot be loaded as a sentence encoder.

    Example:
        >>> from llm_serving import TextEncoder
        >>> encoder = TextEncoder(cache=None)
        >>> tea, coffee, market = encoder.encode(
        ...     ["a cup of tea", "a mug of coffee", "the stock market fell"]
        ... )
        >>> bool(tea @ coffee > tea @ market)
        True
        >>> encoder.close()
    """

    def __init__(
        self, model: str = DEFAULT_ENCODER, *, cache: Path | Literal["shared"] | None = "shared"
    ) -> None:
        # It means the same model from every working directory.
        self._name = os.path.realpath(at_home(model)) if names_folder(model) else model
        self._cache_path = vector_cache_path() if cache == "shared" else cache
        self._opening = threading.RLock()
        self._cache: VectorCache | None = None
        self._model: Any = None
        self._dimension: int | None = None
        # One batch at a time: a fast tokenizer refuses to be used by two threads at once.
        self._computing = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="encoder")
        self._gate = threading.Lock()
        self._waiting: list[_Job] = []
        self._closed = False

    @property
    def identity(self) -> EncoderIdentity:
        """Which model computes the vectors; a missing bundled model is fetched, but not loaded.

        Raises:
            UnknownModelError: no model has this name.
            ModelFetchError: it could not be fetched.
        """
        return EncoderIdentity(self._name, self._found.revision)

    @property
    def dimension(self) -> int:
        """The dimension of every vector; known without the model once the cache has one."""
        if self._dimension is None:
            cache = self._opened()
            known = None if cache is None else cache.dimension(self.identity)
            self._dimension = known or self._forward(["dimension"]).shape[1]
        return self._dimension

    def encode(
        self, texts: Sequence[str], *, report: Callable[[int], object] | None = None
    ) -> NDArray[np.float32]:
        """Unit vectors of texts.

        Of a text that is longer than the model reads (256 tokens for the bundled one), only the
        beginning counts; words of a script that the model does not know are all the same to it. A
        warning says so of texts whose vectors are not in the cache.

        Args:
            texts: any number of them; equal ones are encoded once.
            report: called with the number of distinct texts that are done, whenever it changes.

        Returns:
            Shape [texts, dimension].

        Raises:
            TextError: a text is empty, not a string, or not valid Unicode.
            EncoderError: the model cannot be loaded as a sentence encoder.
            EngineStoppedError: the encoder was closed.
            CacheError: the cache cannot be used.
        """
        _check(texts)
        with self._gate:
            self._check_open()
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        vectors = self._vectors(dict.fromkeys(texts), report or (lambda _: None))
        return np.stack([vectors[text] for text in texts])

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, as `encode`; callers who wait at the same time share batches."""
        _check(texts)
        job = _Job(tuple(texts), Future())
        with self._gate:
            self._check_open()
            self._waiting.append(job)
            self._thread.submit(self._serve)
        return await asyncio.wrap_future(job.done)

    def close(self) -> None:
        """Closes the encoder once every call that waits has its answer."""
        with self._gate:
            self._closed = True
        self._thread.shutdown()
        with self._opening:
            if self._cache is not None:
                self._cache.close()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineStoppedError(f"the encoder {self._name} was closed: make another")

    def _serve(self) -> None:
        """Answers all calls that wait at this moment; later calls are the next batch."""
        with self._gate:
            jobs, self._waiting = self._waiting, []
        jobs = [job for job in jobs if job.done.set_running_or_notify_cancel()]
        texts = dict.fromkeys(text for job in jobs for text in job.texts)
        try:
            vectors = self._vectors(texts, lambda _: None)
            for job in jobs:
                job.done.set_result(
                    np.stack([vectors[text] for text in job.texts])
                    if job.texts
                    else np.zeros((0, self.dimension), np.float32)
                )
        except BaseException as error:  # every call that waits must get the error
            for job in jobs:
                if not job.done.done():
                    job.done.set_exception(error)

    def _vectors(
        self, texts: dict[str, None], report: Callable[[int], object]
    ) -> dict[str, NDArray[np.float32]]:
        """The vector of every distinct text, from the cache or computed and kept."""
        cache = self._opened()
        vectors = {} if cache is None else cache.get(self.identity, texts)
        report(len(vectors))
        for batch in self._batches([text for text in texts if text not in vectors]):
            computed = dict(zip(batch, self._forward(batch), strict=True))
            # Batch by batch, so that an encoder which is killed has lost one of them.
            vectors |= computed if cache is None else cache.put(self.identity, computed)
            report(len(vectors))
        return vectors

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        """Texts by falling number of tokens, in batches of about equal size when padded.

        sentence-transformers takes 32 texts in the order of their characters. On 400 sentences of
        papers that computes 89% more tokens than there are, and this 11%.
        """
        if not texts:
            return
        model = self._loaded()
        with self._computing, _reading(self._name):
            token_ids = model.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
            longest = max(1, min(model.max_seq_length, _MOST_TOKENS))
        cut = sum(len(ids) > longest for ids in token_ids)
        if cut:
            logger.warning(
                "%d of %d texts have more tokens than the %d that %s reads: their ends are cut off",
                cut,
                len(texts),
                longest,
                self._name,
            )
        unknown = sum(model.tokenizer.unk_token_id in ids for ids in token_ids)
        if unknown:
            logger.warning(
                "%d of %d texts have words that %s does not know, and all such words are alike to "
                "it: take an encoder that reads their language",
                unknown,
                len(texts),
                self._name,
            )
        lengths = [max(1, min(len(ids), longest)) for ids in token_ids]
        budget = _CPU_BATCH if model.device.type == "cpu" else _GPU_BATCH
        order = sorted(range(len(texts)), key=lambda i: -lengths[i])
        while order:
            size = max(1, budget // lengths[order[0]])
            yield [texts[i] for i in order[:size]]
            del order[:size]

    def _forward(self, texts: list[str]) -> NDArray[np.float32]:
        """Unit vectors of texts, computed in one batch."""
        model = self._loaded()
        with self._computing, _reading(self._name):
            vectors: NDArray[np.float32] = model.encode(
                texts,
                batch_size=len(texts),
                normalize_embeddings=True,
                convert_to_numpy=True,
                show_progress_bar=False,
            )
        if vectors.shape != (len(texts), vectors.shape[-1]):
            raise EncoderError(f"{self._name} gives no vector per text: its modules are damaged")
        if not np.isfinite(vectors).all():
            raise EncoderError(f"{self._name} gives NaN or Inf: its weights are damaged")
        return vectors.astype(np.float32, copy=False)

    @cached_property
    def _found(self) -> ResolvedModel:
        return resolve(self._name)

    def _opened(self) -> VectorCache | None:
        with self._opening:
            if self._cache is None and self._cache_path is not None:
                self._cache = VectorCache(self._cache_path)
            return self._cache

    def _loaded(self) -> Any:  # noqa: ANN401 - a sentence-transformers class
        with self._opening:
            if self._model is None:
                self._model = _load(self._found)
            return self._model


def _load(resolved: ResolvedModel) -> Any:  # noqa: ANN401 - a sentence-transformers class
    # Any other model would be given a pooling layer of sentence-transformers' own choice.
    if not os.path.isfile(resolved.path / "modules.json"):
        raise EncoderError(
            f"{resolved.name} is not a sentence encoder: {resolved.path} has no modules.json. Take "
            f"a model of sentence-transformers, such as {DEFAULT_ENCODER}"
        )
    check_modules(resolved.path)
    from sentence_transformers import SentenceTransformer

    with _reading(resolved.name), quiet_transformers():
        model = SentenceTransformer(
            str(resolved.path), device=None, local_files_only=True, trust_remote_code=False
        )
        # A text that spells a special token, such as [SEP], holds no such token.
        model.tokenizer.split_special_tokens = True
    # Weights in half precision would give vectors of three digits.
    return model.float()


def _reading(name: str) -> AbstractContextManager[None]:
    return reading_model(
        lambda reason: EncoderError(f"{name} cannot be used as a sentence encoder: {reason}")
    )


def _check(texts: Sequence[str]) -> None:
    if isinstance(texts, str):
        raise TextError(f"texts must be a list of strings, not the string {texts!r}")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TextError(f"text {number} is a {type(text).__name__}, not a string: {text!r}")
        if not text.strip():
            raise TextError(f"text {number} is empty: {text!r} has no meaning to be found by")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise TextError(f"text {number} is not valid Unicode: {error}") from error
