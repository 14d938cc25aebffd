import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_serving.patterns import (
    PLAIN_CHARACTERS,
    characters,
    choice,
    finite_regex,
    integers,
    listing,
    repetition,
    sequence,
    words,
)


@pytest.mark.parametrize(
    ("least", "most", "regex"),
    [
        (0, 9, "[0-9]"),
        (1, 64, "([1-9]|[1-5][0-9]|6[0-4])"),
        (0, 20, "([0-9]|1[0-9]|20)"),
        (7, 7, "7"),
        (-1, 1, "(-1|[01])"),
        (95, 1203, "(9[5-9]|[1-9][0-9]{2}|1([01][0-9]{2}|20[0-3]))"),
    ],
)
def test_integer_ranges_by_hand(least, most, regex):
    assert integers(least, most).regex == regex


def test_integer_ranges_against_counting():
    generator = random.Random(3)
    for _ in range(300):
        low, high = sorted(generator.randint(-1500, 1500) for _ in range(2))
        pattern = integers(low, high)
        matcher = re.compile(pattern.regex)
        for value in {*range(-20, 21), *range(low - 12, low + 13), *range(high - 12, high + 13)}:
            assert (matcher.fullmatch(str(value)) is not None) is (low <= value <= high)
        assert not any(map(matcher.fullmatch, ("-0", "00", "+1", "01", "")))
        assert pattern.max_bytes == max(len(str(low)), len(str(high)))


@given(st.integers(-(10**30), 10**30), st.integers(0, 10**30), st.integers(-(10**30), 10**31))
def test_large_integer_ranges(low, width, value):
    matches = re.fullmatch(integers(low, low + width).regex, str(value)) is not None
    assert matches is (low <= value <= low + width)


@given(
    st.sets(st.text("ab-]^\\[é.", max_size=5), min_size=1, max_size=12),
    st.text("ab-]^\\[é.", max_size=5),
)
def test_words_match_exactly_themselves(texts, other):
    pattern = words(texts)
    assert all(re.fullmatch(pattern.regex, text) for text in texts)
    assert (re.fullmatch(pattern.regex, other) is not None) is (other in texts)
    assert pattern.max_bytes == max(len(text.encode()) for text in texts)


def test_words_share_beginnings_and_ends():
    assert words(["iron_axe", "iron_ore"]).regex == "iron_(ax|or)e"
    assert words(["a", "ab"]).regex == "a(b)?"
    assert words(f"x{digit}y" for digit in "0123").regex == "x[0-3]y"


def test_free_text_is_printable_ascii_that_needs_no_escape():
    pattern = characters(0, 1)
    matched = [chr(code) for code in range(0x300) if re.fullmatch(pattern.regex, chr(code))]
    assert "".join(matched) == PLAIN_CHARACTERS
    assert len(matched) == 93


def test_combinators_count_bytes_and_states():
    pair = sequence([words(["é"]), characters(0, 3)])
    assert (pair.max_bytes, pair.size) == (5, 5)
    listed = listing(pair, 0, 4)
    assert listed.max_bytes == 4 * 5 + 3
    assert re.fullmatch(listed.regex, "é,éabc,é,é")
    assert re.fullmatch(listed.regex, "")
    three = listing(words(["é"]), 2, 3)
    assert [n for n in range(6) if re.fullmatch(three.regex, ",".join("é" * n))] == [2, 3]
    assert repetition(words(["ab"]), 2, 3).max_bytes == 6
    assert choice([words(["a"]), words(["bcd"])]).max_bytes == 3


SMALL = st.integers(0, 3)
LEAVES = (
    st.builds(words, st.sets(st.text("ab,", max_size=3), min_size=1, max_size=3))
    | st.builds(lambda least, more: characters(least, least + more), SMALL, SMALL)
    | st.builds(lambda least, more: integers(least - 2, least + more), SMALL, st.integers(0, 200))
)


@pytest.mark.parametrize("build", [sequence, choice])
@given(st.lists(LEAVES, min_size=1, max_size=3), SMALL, SMALL)
@settings(deadline=None)
def test_examples_belong_to_the_language(build, parts, least, more):
    part = build(parts)
    for pattern in (
        part,
        repetition(part, least, least + more),
        listing(part, least, least + more),
    ):
        matches = [re.fullmatch(pattern.regex, text) for text in pattern.examples]
        assert matches
        assert all(matches)
        assert max(len(text.encode()) for text in pattern.examples) <= pattern.max_bytes


@pytest.mark.parametrize(
    ("regex", "inside", "outside"),
    [
        ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
        (r"\d{1,2}(px|em)?", ["7", "12em"], ["123", "px"]),
        ("[^a-z]", ["A", " "], ["a", '"', "\\"]),
        (".", ["x", "."], ["", '"', "é"]),
        ("[à-ü]", ["é"], ["e"]),
        (r"[\w.-]{1,2}?", ["a.", "_-"], ["a b"]),
        (r'["\\]', ['\\"', "\\\\"], ['"', "\\"]),
        ("", [""], ["a"]),
        ("(?:a|(bc)){0,1}", ["", "a", "bc"], ["b", "abc"]),
    ],
)
def test_finite_expressions_as_json_spells_them(regex, inside, outside):
    pattern = finite_regex(regex)
    assert all(re.fullmatch(pattern.regex, text) for text in inside)
    assert not any(re.fullmatch(pattern.regex, text) for text in outside)


@pytest.mark.parametrize(
    "regex",
    ["a*", "(a|b+)", r"(a)\1", r"\bword", "a^b", "(?i:a)", "[^ -~]", "[\x00-\uffff]", "a{3}+"],
)
def test_expressions_without_a_finite_portable_language_are_refused(regex):
    with pytest.raises(ValueError, match=r"repeat|uses|class|flags"):
        finite_regex(regex)


def test_expressions_must_keep_to_the_bounds_in_characters():
    assert finite_regex("[a-z]{2,4}", 2, 4).max_bytes == 4
    with pytest.raises(ValueError, match="2 to 4 characters"):
        finite_regex("[a-z]{2,4}", 3, 4)
    with pytest.raises(ValueError, match="2 to 4 characters"):
        finite_regex("[a-z]{2,4}", 0, 3)
