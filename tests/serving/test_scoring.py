"""How rows of a prompt are read, by hand and on a model that is a table of random numbers."""

import math
import random
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from llm_serving.request import EncodedPrompt
from llm_serving.scoring import branch_scores, plain_scores, tail_scores, trie_scores
from llm_serving.vllm_adapter import VllmResult, _tail, sampling_params

END, OTHER_END, VOCABULARY = 9, 8, 10


def flat(prompt, first):
    """What vLLM's `FlatLogprobs` has from a position on: its own token, then a likelier one."""
    rows = range(first, len(prompt))
    return SimpleNamespace(
        start_indices=[0, *(2 * i for i in range(len(rows)))],
        token_ids=[token for position in rows for token in (prompt[position], -1)],
        logprobs=[value for position in rows for value in (-float(position), 0.0)],
    )


PROMPT = [50, 51, 52, 53, 54, 55, 56, 57]


def test_rows_of_the_first_runner_are_read_behind_the_cached_ones():
    """V1: a row for every token but the first, those of cached tokens uninitialised."""
    assert _tail(flat(PROMPT, 1), PROMPT, cached=0) == [-1, -2, -3, -4, -5, -6, -7]
    assert _tail(flat(PROMPT, 1), PROMPT, cached=4) == [-5, -6, -7]


def test_rows_of_the_second_runner_are_those_that_it_computed():
    assert _tail(flat(PROMPT, 5), PROMPT, cached=4) == [-5, -6, -7]
    assert _tail(flat(PROMPT, 8), PROMPT, cached=7) == []


def test_rows_are_not_believed_where_their_number_or_their_tokens_are_others():
    """A request that was preempted after six tokens begins its rows again there."""
    assert _tail(flat(PROMPT, 7), PROMPT, cached=4) == []
    shifted = flat(PROMPT, 5)
    shifted.token_ids[2:4] = [55, -1]
    assert _tail(shifted, PROMPT, cached=4) == []


@cache
def table(prompt):
    """Log-probabilities of all tokens after a prompt."""
    logits = np.random.default_rng(list(prompt)).normal(size=VOCABULARY)
    return logits - np.log(np.exp(logits).sum())


class Engine:
    """Answers from the table; the first `cached` tokens have no rows."""

    def __init__(self, cached):
        self.cached, self.jobs = cached, []

    async def __call__(self, job):
        self.jobs.append(job)
        prompt, params = job.token_ids, job.params
        cached = min(self.cached, len(prompt) - 1)
        branch = None
        rows = params.prompt_logprob_token_ids
        if rows is not None and len(prompt) - 1 - len(rows) >= cached:
            branch = np.full((len(rows), max(map(len, rows))), -np.inf, np.float32)
            for i, row in enumerate(rows):
                begun = prompt[: len(prompt) - len(rows) + i]
                branch[i, : len(row)] = [table(begun)[token] for token in row]
        return VllmResult(
            token_ids=(0,),
            finish="length",
            text="",
            prompt_tokens=len(prompt),
            cached_tokens=cached,
            next_logprobs={token: table(prompt)[token] for token in params.logprob_token_ids or ()},
            tail_logprobs=[table(prompt[:i])[prompt[i]] for i in range(cached + 1, len(prompt))]
            if params.prompt_logprobs is not None
            else (),
            branch_logprobs=branch,
        )


def right(prompt, sequence, ends):
    spelt = sum(table(prompt + sequence[:i])[token] for i, token in enumerate(sequence))
    return spelt + math.log(sum(math.exp(table(prompt + sequence)[end]) for end in ends))


@pytest.mark.parametrize("way", [trie_scores, tail_scores, branch_scores])
@pytest.mark.parametrize("ends", [(END,), (END, OTHER_END)])
async def test_every_way_gives_the_sum_over_a_choice_and_all_ends(way, ends):
    rng = random.Random(0)
    for _ in range(40):
        prompt = tuple(rng.choices(range(8), k=rng.randint(1, 9)))
        sequences = list(
            {tuple(rng.choices(range(3), k=rng.randint(1, 4))) for _ in range(rng.randint(1, 8))}
        )
        engine = Engine(rng.randint(0, len(prompt) + 2))
        scored = await way(engine, EncodedPrompt(prompt), sequences, ends=ends)
        expected = [right(prompt, sequence, ends) for sequence in sequences]
        assert scored.logprobs == pytest.approx(expected, abs=1e-5)
        assert scored.gap < 1e-5
        assert len(scored.results) == len(engine.jobs)


async def test_choices_that_begin_others_need_no_request_where_rows_hold_branches():
    sequences = [(1,), (1, 2), (1, 2, 3), (4,)]
    prompt = EncodedPrompt((5, 6, 7))
    for way, requests in ((branch_scores, 2), (tail_scores, 4), (trie_scores, 5)):
        engine = Engine(0)
        await way(engine, prompt, sequences, ends=(END,))
        assert len(engine.jobs) == requests


@pytest.mark.parametrize("way", [plain_scores, trie_scores, tail_scores, branch_scores])
async def test_no_two_requests_share_their_parameters_which_vllm_may_write_into(way):
    engine = Engine(0)
    await way(engine, EncodedPrompt((5, 6)), [(1,), (1, 2), (4,)], ends=(END, OTHER_END))
    assert len({id(job.params) for job in engine.jobs}) == len(engine.jobs) > 1


def test_vllm_copies_nothing_that_the_parameters_of_a_request_hold():
    pytest.importorskip("vllm")
    params = sampling_params(
        temperature=0.0, top_p=1.0, max_tokens=1, seed=None, stop=(), regex="a", ends=(END,)
    )
    assert params.clone().structured_outputs is params.structured_outputs


async def test_requests_that_disagree_about_a_token_are_noticed():
    class Drifting(Engine):
        async def __call__(self, job):
            result = await super().__call__(job)
            if len(self.jobs) == 2:
                result.branch_logprobs[0] += 0.25
            return result

    sequences = [(1, 2), (3, 4)]
    engine = Drifting(0)
    scored = await branch_scores(engine, EncodedPrompt((5, 6)), sequences, ends=(END,))
    assert scored.gap == pytest.approx(0.25, abs=1e-5)
