"""The stores that are tested alike: the response cache and the vector cache."""

import hashlib
import sqlite3
from contextlib import closing

import numpy as np
import pytest

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
        values = {n: store.get(key(n)) for n in numbers}
        return {n: value for n, value in values.items() if value is not None}


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
        vectors = {f"text {n}": np.frombuffer(value, np.float32) for n, value in values.items()}
        kept = store.put(EncoderIdentity(name, f"of {name}"), vectors)
        return {n: kept[f"text {n}"].tobytes() for n in values}

    @staticmethod
    def get(store, numbers):
        texts = {f"text {n}": n for n in numbers}
        tiny = EncoderIdentity("another name", "of tiny")
        assert store.dimension(tiny) in {None, 16}
        kept = store.get(tiny, texts)
        return {texts[text]: vector.tobytes() for text, vector in kept.items()}


def fill(kind, path, numbers):
    with closing(kind.opened(path)) as store:
        wanted = {n: kind.value(n) for n in numbers}
        assert kind.put(store, wanted) == wanted


def read(kind, path, numbers):
    with closing(kind.opened(path)) as store:
        values = kind.get(store, numbers)
        store.stats()
        return values


def altered(path, statement):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


CACHES = pytest.mark.parametrize("kind", [Responses, Vectors])
