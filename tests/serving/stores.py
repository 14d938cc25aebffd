"""The stores that are tested alike: the response cache, the vector cache, saved indexes."""

import hashlib
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from llm_kernels import EmbeddingIndex, IndexFileError
from llm_serving.cache_file import CacheError
from llm_serving.request import Completion, ModelIdentity, Scores, Usage
from llm_serving.stores import (
    EncoderIdentity,
    ResponseCache,
    VectorCache,
    response_cache_path,
    vector_cache_path,
)

USAGE = Usage(calls=1, prompt_tokens=3, cached_tokens=1, completion_tokens=2)


def key(number):
    return hashlib.sha256(str(number).encode()).digest()


class Responses:
    """Answers: scores, short texts, and texts that are worth compressing."""

    opened, named, path_of = ResponseCache, "response cache", response_cache_path
    only = "responses"

    @staticmethod
    def value(number):
        if number % 3 == 0:
            return Scores(logprobs=(-0.5, -1 / (number + 3)), usage=USAGE)
        text = f"né {number} " * (1 if number % 3 == 1 else 200)
        return Completion(text=text, token_ids=(number, 7), finish="stop", usage=USAGE)

    @staticmethod
    def put(store, values, name="tiny"):
        model = ModelIdentity(name=name, revision=f"of {name}", dtype="float32")
        return {n: store.put(key(n), value, model) for n, value in values.items()}

    @staticmethod
    def get(store, numbers):
        found = {n: store.get(key(n)) for n in numbers}
        return {n: value for n, value in found.items() if value is not None}


class Vectors:
    """Unit vectors, compared bit for bit."""

    opened, named, path_of = VectorCache, "vector cache", vector_cache_path
    only = "vectors"

    @staticmethod
    def value(number):
        wave = np.cos(np.linspace(0.1, 1.0, 16) + number)
        return (wave / np.linalg.norm(wave)).astype(np.float32).tobytes()

    @staticmethod
    def put(store, values, name="tiny"):
        vectors = {f"text {n}": np.frombuffer(one, np.float32) for n, one in values.items()}
        kept = store.put(EncoderIdentity(name, f"of {name}"), vectors)
        return {n: kept[f"text {n}"].tobytes() for n in values}

    @staticmethod
    def get(store, numbers):
        texts = {f"text {n}": n for n in numbers}
        tiny = EncoderIdentity("another name", "of tiny")
        assert store.dimension(tiny) in {None, 16}
        kept = store.get(tiny, texts)
        return {texts[text]: vector.tobytes() for text, vector in kept.items()}


class Index:
    """A saved index; filling it is a save."""

    value = Vectors.value

    @staticmethod
    def fill(path, numbers):
        index = EmbeddingIndex(16)
        vectors = [np.frombuffer(Index.value(n), np.float32) for n in numbers]
        index.add(map(str, numbers), vectors, list(numbers))
        index.save(path)

    @staticmethod
    def read(path, numbers):
        index = EmbeddingIndex.load(path)
        assert [index.payload(one) for one in index.keys] == list(map(int, index.keys))
        return {n: index.vector(str(n)).tobytes() for n in numbers if str(n) in index}


def fill(kind, path, numbers):
    if kind is Index:
        Index.fill(path, numbers)
        return
    with closing(kind.opened(path)) as store:
        wanted = {n: kind.value(n) for n in numbers}
        assert kind.put(store, wanted) == wanted


def read(kind, path, numbers):
    if kind is Index:
        return Index.read(path, numbers)
    with closing(kind.opened(path)) as store:
        found = kind.get(store, numbers)
        store.stats()
        return found


def files(path):
    """The files of a store, apart from locks and logs."""
    below = [one for one in path.iterdir() if one.name != "index.lock"] if path.is_dir() else [path]
    return sorted(below)


def altered(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


CACHES = pytest.mark.parametrize("kind", [Responses, Vectors])
STORES = pytest.mark.parametrize("kind", [Responses, Vectors, Index])
REFUSALS = (CacheError, IndexFileError)
