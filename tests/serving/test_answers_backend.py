from types import SimpleNamespace

import numpy as np
import pytest

from llm_serving.errors import UnsupportedEngineError
from llm_serving.vllm_arguments import prepare_environment

prepare_environment()
pytest.importorskip("vllm")

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402
from vllm.v1.structured_output.backend_types import StructuredOutputOptions  # noqa: E402

from llm_serving import outlines_backend  # noqa: E402
from llm_serving.outlines_backend import (  # noqa: E402
    AnswerState,
    OutlinesAnswers,
    answers_end_by,
    install,
    token_vocabulary,
)
from llm_serving.outlines_index import OutlinesIndex, TokenVocabulary  # noqa: E402

END, OTHER_END = 256, 257
VOCABULARY = TokenVocabulary(
    [bytes([byte]) for byte in range(256)] + [b"", b""], ends=(END, OTHER_END)
)


def byte_level_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = [*alphabet, "ab", "Ġab"]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [("a", "b")]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(name, special=True) for name in ("<end>", "<repo>")])
    return PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<end>")


def answer(regex="ab?"):
    return AnswerState(OutlinesIndex(regex, VOCABULARY), VOCABULARY.ends)


def row(state):
    import torch

    bitmask = torch.full((2, VOCABULARY.words), -1, dtype=torch.int32)
    state.fill_bitmask(bitmask, 1)
    assert bitmask[0].eq(-1).all()
    bits = np.unpackbits(bitmask[1].numpy().view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@pytest.mark.parametrize("end", [END, OTHER_END])
def test_an_answer_is_followed_token_by_token_to_any_of_its_ends(end):
    state = answer()
    assert row(state) == {ord("a")}
    assert state.accept_tokens("r", [ord("a")])
    assert row(state) == {ord("b"), END, OTHER_END}
    assert not state.is_terminated()
    assert state.accept_tokens("r", [ord("b"), end])
    assert state.is_terminated()
    assert state.accept_tokens("r", [ord("x")])  # what follows the end is ignored


def test_what_is_not_allowed_changes_nothing():
    state = answer()
    assert not state.accept_tokens("r", [ord("a"), ord("a")])
    assert not state.accept_tokens("r", [END])
    assert row(state) == {ord("a")}


def test_tokens_are_validated_without_being_taken_and_taken_back():
    state = answer()
    assert state.validate_tokens([ord("a"), ord("b"), END, END]) == [ord("a"), ord("b"), END]
    assert state.validate_tokens([ord("b")]) == []
    assert row(state) == {ord("a")}
    state.accept_tokens("r", [ord("a"), END])
    state.rollback(1)
    assert not state.is_terminated()
    assert row(state) == {ord("b"), END, OTHER_END}
    state.rollback(0)
    assert row(state) == {ord("b"), END, OTHER_END}
    state.reset()
    assert row(state) == {ord("a")}


def test_the_vocabulary_is_read_without_special_tokens_and_ends():
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["<turn>", "<b>"])
    ids = tokenizer.convert_tokens_to_ids(["ab", "Ġab", "<b>", "<end>", "<repo>", "<turn>"])
    vocabulary = token_vocabulary(tokenizer, 300, ends=ids[-1:])
    written = vocabulary.token_bytes
    assert [written[i] for i in ids] == [b"ab", b" ab", b"<b>", b"", b"", b""]
    assert vocabulary.ends == (*ids[-1:],)
    assert vocabulary.words == 10
    assert len(vocabulary.written_bytes) == 256


@pytest.fixture
def taken_over(monkeypatch):
    """VLLM's class for an engine's constraints, as `install` leaves it; undone at the end."""
    for owner, name in (
        (outlines_backend.StructuredOutputManager, "__init__"),
        (outlines_backend.backend_outlines, "validate_regex_is_buildable"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    outlines_backend.install.cache_clear()
    yield install
    outlines_backend.install.cache_clear()


def manager_of(additional_config):
    """As an engine makes one while it opens."""
    config = SimpleNamespace(
        model_config=SimpleNamespace(get_vocab_size=lambda: 300),
        additional_config=additional_config,
    )
    return outlines_backend.StructuredOutputManager(config)


def begin(manager, config):
    manager.backend, manager.tokenizer = None, byte_level_tokenizer()


def test_an_engine_gets_the_backend_while_it_opens_and_others_keep_their_own(
    taken_over, monkeypatch
):
    calls = []
    monkeypatch.setattr(outlines_backend.StructuredOutputManager, "__init__", begin)
    monkeypatch.setattr(
        outlines_backend.backend_outlines, "validate_regex_is_buildable", calls.append
    )
    for _ in range(2):
        taken_over()
    ours = manager_of(answers_end_by((END,))).backend
    assert isinstance(ours, OutlinesAnswers)
    assert ours.ends == (END,)
    assert ours.allocate_token_bitmask(4).shape == (4, 10)
    assert manager_of({}).backend is None
    for _ in range(3):
        outlines_backend.backend_outlines.validate_regex_is_buildable("a{1,3}")
    assert calls == ["a{1,3}"]


def test_an_expression_is_compiled_once_and_only_expressions_are_taken():
    tokenizer = byte_level_tokenizer()
    ends = tokenizer.convert_tokens_to_ids(["<end>", "<repo>"])
    backend = OutlinesAnswers(None, tokenizer=tokenizer, vocab_size=300, ends=tuple(ends))
    regex = StructuredOutputOptions.REGEX
    first, second = (backend.compile_grammar(regex, "ab?", {1}) for _ in range(2))
    assert first._index is second._index
    assert first.accept_tokens("r", [tokenizer.convert_tokens_to_ids("ab")])
    assert all(first.validate_tokens([end]) for end in ends)
    with pytest.raises(UnsupportedEngineError, match="JSON"):
        backend.compile_grammar(StructuredOutputOptions.JSON, "{}")
