"""What an engine of somebody's own returns becomes no plan unless it is what was asked for."""

from contextlib import closing
from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np
import pytest

from llm_serving import checked_engine
from llm_serving.cache import CachedEngine
from llm_serving.checked_engine import CheckedEngine
from llm_serving.engine import Engine, MeteredEngine
from llm_serving.errors import WrongReturnError
from llm_serving.request import (
    Completion,
    EncodedPrompt,
    ModelIdentity,
    Request,
    ScoreRequest,
    Scores,
    Usage,
)
from llm_serving.stores import ResponseCache

ASKED = Usage(calls=1)
SCORED = ScoreRequest("Which way?", ("go north", "go south", "wait"))
FINE = Completion(text="2", token_ids=(), finish="stop", usage=ASKED)


@dataclass(frozen=True)
class Numbers:
    regex: str = "[1-3]"
    max_tokens: int = 2


PICKED = Request(prompt="Which one?", constraint=Numbers(), role="prior")


class Own(Engine):
    """Returns what it is given."""

    identity = ModelIdentity(name="own", revision="1", dtype="none")
    abilities = frozenset({"regex", "scores", "labels", "embeddings"})

    def __init__(self, given):
        self.given = given
        self.asked = 0

    def encode(self, prompt):
        return (
            prompt if isinstance(prompt, EncodedPrompt) else EncodedPrompt(tuple(prompt.encode()))
        )

    async def generate(self, request):
        self.asked += 1
        return self.given

    async def score(self, request):
        self.asked += 1
        return self.given

    async def embed(self, texts, *, role="embed"):
        return self.given


def scores(*logprobs, usage=ASKED, shared=None):
    return Scores(logprobs=logprobs, usage=usage, shared=shared)


@pytest.mark.parametrize("kind", ["answers", "labels"])
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (scores(-1.0, nan, -2.0), r"nan, not a log-probability .* of 'go south'"),
        (scores(nan, nan, nan), r"nan, .* 'go north'"),
        (scores(-1.0, inf, -2.0), "inf, "),
        (scores(-1.0, -1.0, 0.01), r"0\.01, .* 'wait'"),
        (scores(0.2, 0.5, 0.3), r"0\.2, "),
        (scores(-1.0, np.float32(nan), -2.0), "nan"),
        (scores(-1.0, "-2", -2.0), "'-2', "),
        (scores(-1.0, None, -2.0), "None, "),
        (scores(-1.0, True, -2.0), "True, "),
        (scores(-inf, -inf, -inf), r"\(-inf, -inf, -inf\), not a score above -inf"),
        (scores(-1.0), r"\(-1\.0,\), not 3 log-probabilities, one for each choice"),
        (scores(*[-1.0] * 9), "not 3 log-probabilities"),
        (scores(), r"\(\), not 3"),
        (Scores(logprobs="abc", usage=ASKED), "'abc', not 3"),
        (Scores(logprobs=-1.0, usage=ASKED), r"-1\.0, not 3"),
        ((-1.0, -2.0, -3.0), r"\(-1\.0, -2\.0, -3\.0\), not Scores"),
        (None, "None, not Scores"),
        (scores(-1.0, -2.0, -3.0, usage=None), "None, not a Usage"),
        (
            scores(-1.0, -2.0, -3.0, usage=Usage(calls=1, seconds=nan)),
            "as the seconds of its Usage",
        ),
        (scores(-1.0, -2.0, -3.0, shared=7), "7, not a SharedPrompt or None"),
    ],
)
async def test_scores_that_are_none_are_one_line(given, said, kind):
    engine = MeteredEngine(Own(given))
    with pytest.raises(WrongReturnError, match=rf"^Own\.score returned .*{said}") as error:
        await engine.score(replace(SCORED, kind=kind))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(": docs/extending.md says what it returns")
    assert engine.usage == {}, "what was refused is not counted"


@pytest.mark.parametrize(
    "given",
    [
        scores(-1.0, -inf, -3.0),
        scores(-1, -inf, -3),
        scores(*np.array([-1.0, -inf, -3.0], np.float32)),
        Scores(logprobs=[-1.0, -inf, -3.0], usage=ASKED),
        Scores(logprobs=np.array([-1.0, -inf, -3.0]), usage=Usage(calls=np.int64(1))),
    ],
)
async def test_numbers_of_any_library_are_python_s(given):
    checked = await MeteredEngine(Own(given)).score(SCORED)
    assert checked.logprobs == (-1.0, -inf, -3.0)
    assert {type(value) for value in checked.logprobs} == {float}
    assert type(checked.usage.calls) is int


@pytest.mark.parametrize(
    ("given", "said"),
    [
        *(
            (replace(FINE, text=text), f"{text!r}, not a text of the language .*'prior'")
            for text in ("2.", " 2", "4", "", "The answer is 2")
        ),
        (replace(FINE, text="", finish="length"), "'', not a text of the language"),
        (replace(FINE, text=None), "None, not a text, as the text of its Completion"),
        (replace(FINE, text=2), "2, not a text"),
        (replace(FINE, finish="end"), "'end', not 'stop' or 'length'"),
        (replace(FINE, token_ids=None), "None, not whole numbers"),
        (replace(FINE, token_ids=(1, -2)), r"\(1, -2\), not whole numbers"),
        (replace(FINE, token_ids="ab"), "'ab', not whole numbers"),
        (replace(FINE, usage=None), "None, not a Usage"),
        (replace(FINE, usage=Usage(prompt_tokens=-3)), "-3, .* as the prompt_tokens"),
        (replace(FINE, usage=Usage(completion_tokens=1.5)), r"1\.5, .* completion_tokens"),
        (replace(FINE, usage=Usage(calls=None)), "None, .* as the calls"),
        ("2", "'2', not a Completion"),
        ([FINE], "not a Completion"),
    ],
)
async def test_answers_that_are_none_are_one_line(given, said):
    with pytest.raises(WrongReturnError, match=rf"^Own\.generate returned .*{said}") as error:
        await MeteredEngine(Own(given)).generate(PICKED)
    assert "\n" not in str(error.value)


async def test_what_is_right_is_returned_as_it_is():
    assert (await MeteredEngine(Own(replace(FINE, token_ids=[]))).generate(PICKED)) == FINE
    for given in (FINE, replace(FINE, token_ids=(1, 2))):
        assert await MeteredEngine(Own(given)).generate(PICKED) is given
    given = scores(-1.0, -2.0, -3.0)
    assert await MeteredEngine(Own(given)).score(SCORED) is given
    free = replace(FINE, text="Anything at all.", token_ids=np.array([1, 2]))
    answer = await MeteredEngine(Own(free)).generate(replace(PICKED, constraint=None))
    assert (answer.text, answer.token_ids) == ("Anything at all.", (1, 2))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.ones((2, 4)) / 2, r"\(2, 4\), not \(3, dimension\)"),
        (np.ones(4) / 2, r"\(4,\), not"),
        (np.full((3, 4), nan), "nan, not 1, as the length"),
        (np.ones((3, 4)), r"2\.0, not 1"),
        (np.zeros((3, 4)), r"0\.0, not 1"),
        ([[1.0, 0.0], [1.0], [0.0, 1.0]], "not an array of vectors"),
        (None, "not "),
    ],
)
async def test_vectors_that_are_none_are_one_line(given, said):
    with pytest.raises(WrongReturnError, match=rf"^Own\.embed returned .*{said}") as error:
        await MeteredEngine(Own(given)).embed(["a", "b", "c"])
    assert "\n" not in str(error.value)


async def test_lists_of_vectors_are_an_array():
    vectors = await MeteredEngine(Own([[0.6, 0.8], [1, 0]])).embed(["a", "b"])
    assert vectors.dtype == np.float32
    assert (await MeteredEngine(Own(np.zeros((0, 2)))).embed([])).shape == (0, 2)


async def test_prompts_texts_and_methods_are_looked_at_too():
    own = Own(None)
    own.encode = lambda prompt: [1, 2]
    with pytest.raises(WrongReturnError, match=r"^Own\.encode returned \[1, 2\], not an EncodedPr"):
        MeteredEngine(own).encode("x")
    own.decode = lambda tokens: b"x"
    with pytest.raises(WrongReturnError, match=r"^Own\.decode returned b'x', not a text"):
        MeteredEngine(own).decode((1,))
    own.score = lambda request: scores(-1.0, -2.0, -3.0)
    with pytest.raises(WrongReturnError, match=r"^Own\.score returned .*`async def`"):
        await MeteredEngine(own).score(SCORED)


async def test_the_cache_keeps_nothing_that_is_refused(tmp_path):
    with closing(ResponseCache(tmp_path / "responses.sqlite")) as cache:
        for own, ask in (
            (Own(replace(FINE, text="2.")), lambda engine: engine.generate(PICKED)),
            (Own(scores(-1.0, nan, -1.0)), lambda engine: engine.score(SCORED)),
            (Own(scores(-1.0, 0.5, -1.0)), lambda engine: engine.score(SCORED)),
        ):
            engine = MeteredEngine(CachedEngine(own, cache))
            for _ in range(2):
                with pytest.raises(WrongReturnError, match=r"^Own\."):
                    await ask(engine)
            assert own.asked == 2
        assert cache.stats().entries == 0
        own = Own(scores(-1.0, -inf, np.float64(-1.0)))
        for _ in range(2):
            kept = await MeteredEngine(CachedEngine(own, cache)).score(SCORED)
            assert kept.logprobs == (-1.0, -inf, -1.0)
        assert own.asked == 1


async def test_an_engine_is_checked_once_by_who_is_next_to_it(monkeypatch):
    looked, check = [], checked_engine._checked_scores
    monkeypatch.setattr(
        checked_engine, "_checked_scores", lambda *asked: looked.append(asked[0]) or check(*asked)
    )
    own = Own(scores(-1.0, -2.0, -3.0))
    await MeteredEngine(MeteredEngine(CheckedEngine(own))).score(SCORED)
    assert looked == [own]
