import random

import numpy as np
import outlines_core
import pytest

from llm_serving.errors import AnswerModelError
from llm_serving.outlines_index import DEAD, INITIAL, MaskStore, OutlinesIndex, TokenVocabulary

END = 0
SPECIAL = 1
DONE = r'\{"done":(fals|tru)e,"note":"[a-c ]{0,3}"\}'


def small_vocabulary(size=None):
    generator = random.Random(5)
    alphabet = list('{}":,abcdeflnorstué 01')
    longer = {"".join(generator.choices(alphabet, k=generator.randint(2, 4))) for _ in range(400)}
    texts = ['{"', '":', '","', "done", "true", "note", "é", "ab", "abc", "cab", *sorted(longer)]
    tokens = [b"", b"", *(bytes([byte]) for byte in range(256))]
    tokens += [text.encode() for text in texts]
    tokens.append(b"ab")  # two tokens that write the same text
    return TokenVocabulary(tokens, ends=(END,), size=size)


def allowed(index, state):
    bits = np.unpackbits(index.mask(state).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(bits).tolist())


@pytest.mark.parametrize(
    "regex", [DONE, r'"[a-cé]{0,5}"', '"(ab|abc){1,3}"', r"\[(1|0)(,(1|0)){0,3}\]"]
)
def test_masks_and_moves_equal_those_of_outlines(regex):
    vocabulary = small_vocabulary()
    ids = {}
    for token, written in enumerate(vocabulary.token_bytes):
        if written:
            ids.setdefault(written, []).append(token)
    theirs = outlines_core.Index(regex, outlines_core.Vocabulary(END, ids))
    ours = OutlinesIndex(regex, vocabulary)
    transitions = theirs.get_transitions()
    pairs = {theirs.get_initial_state(): INITIAL}
    frontier = list(pairs)
    while frontier:
        state = frontier.pop()
        followers = transitions.get(state, {})
        assert allowed(ours, pairs[state]) == set(followers)
        assert ours.is_final(pairs[state]) is theirs.is_final_state(state)
        for token, follower in followers.items():
            if token == END:
                continue
            mine = ours.advance(pairs[state], token)
            if follower not in pairs:
                pairs[follower] = mine
                frontier.append(follower)
            assert pairs[follower] == mine
    assert len(pairs) > 3


@pytest.mark.parametrize(
    ("regex", "language"),
    [
        ("(true|to|t)?", {"", "t", "to", "true"}),
        ("a(bca?)?", {"a", "abc", "abca"}),
        ("7(2(1)?)?", {"7", "72", "721"}),
        ("é?", {"", "é"}),
    ],
)
def test_texts_that_go_on_from_other_texts_are_kept(regex, language):
    vocabulary = small_vocabulary()
    index = OutlinesIndex(regex, vocabulary)
    reached, frontier = set(), [(INITIAL, b"")]
    while frontier:
        state, written = frontier.pop()
        tokens = allowed(index, state)
        if END in tokens:
            reached.add(written.decode())
        frontier += [
            (index.advance(state, token), written + vocabulary.token_bytes[token])
            for token in tokens - {END}
        ]
    assert reached == language


def test_special_tokens_are_never_allowed_and_unknown_moves_are_dead():
    index = OutlinesIndex(DONE, small_vocabulary())
    assert SPECIAL not in allowed(index, INITIAL)
    assert index.advance(INITIAL, SPECIAL) == DEAD
    assert index.advance(INITIAL, 2 + ord("x")) == DEAD
    assert index.advance(INITIAL, 2 + ord("{")) not in {DEAD, INITIAL}


def test_a_mask_is_as_wide_as_the_logits_and_is_worked_out_once():
    vocabulary = small_vocabulary(size=1000)
    index = OutlinesIndex(DONE, vocabulary)
    assert index.mask(INITIAL).shape == (32,)
    assert index.mask(INITIAL).dtype == np.int32
    assert index.mask(INITIAL) is index.mask(INITIAL)
    assert max(allowed(index, INITIAL)) < len(vocabulary.token_bytes)


def test_bytes_that_no_token_writes_and_broken_expressions_are_refused():
    ascii_only = TokenVocabulary([b"", *(bytes([b]) for b in range(128))], ends=(END,))
    assert OutlinesIndex("[a-z]{1,3}", ascii_only).states > 1
    with pytest.raises(AnswerModelError, match="byte by byte"):
        OutlinesIndex("(a|é)", ascii_only)
    with pytest.raises(AnswerModelError, match="simplify the answer model"):
        OutlinesIndex("(a", ascii_only)


def vocabulary_of_all_lengths(seed):
    """Tokens of 1 to 90 bytes: words of a few letters, repeated bytes, twins, and others."""
    rng = random.Random(seed)
    tokens = [b"", b"", *(bytes([byte]) for byte in range(256))]
    for length in (*range(2, 20), 31, 32, 33, 40, 64, 90):
        tokens += [bytes(rng.choices(b"ab ", k=length)) for _ in range(12)]
        tokens += [head + bytes([rng.choice(b"ab -")]) * length for head in (b"", b"a", b'"')]
    return TokenVocabulary([*rng.sample(tokens, len(tokens)), b"ab", b"ab"], ends=(END,))


def test_masks_are_those_of_every_token_by_itself():
    """Whatever is shared between the states of several patterns."""
    vocabulary = vocabulary_of_all_lengths(0)
    for regex in ('"[ab ]{0,3}"', '"[ab ]{0,40}", "[ab ]{1,9}"', r"(ab|a-{9,60}| {1,70})b"):
        index = OutlinesIndex(regex, vocabulary)
        for state in range(INITIAL, index.states):
            expected = {
                token
                for token, written in enumerate(vocabulary.token_bytes)
                if written and index.advance(state, token) != DEAD
            }
            if index.is_final(state):
                expected.add(END)
            assert allowed(index, state) == expected, (regex, state)


def test_patterns_share_the_masks_of_states_that_go_on_alike():
    vocabulary = vocabulary_of_all_lengths(0)
    first, other = (OutlinesIndex(rf'"[ab]{{0,60}}{end}"', vocabulary) for end in ("x", "y"))
    first.mask(first.advance(INITIAL, vocabulary.token_bytes.index(b'"')))
    walks = []
    for tree in vocabulary.tiers:
        walk = tree.live_tokens
        tree.live_tokens = lambda *asked, walk=walk: walks.append(asked) or walk(*asked)
    within = OutlinesIndex('"[ab]{0,59}x"', vocabulary)
    within.mask(within.advance(INITIAL, vocabulary.token_bytes.index(b'"')))
    assert walks == []
    other.mask(other.advance(INITIAL, vocabulary.token_bytes.index(b'"')))
    assert len(walks) == len(vocabulary.tiers)


def test_masks_are_kept_within_their_bytes_the_last_used_ones():
    store = MaskStore(most_bytes=100)
    masks = [np.full(10, i, np.int32) for i in range(4)]
    store.put("a", masks[0])
    store.put("b", masks[1])
    assert store.get("a") is masks[0]
    store.put("c", masks[2])
    assert (store.get("a") is masks[0], store.get("b"), store.get("c") is masks[2]) == (
        True,
        None,
        True,
    )
    assert store.bytes == 80
