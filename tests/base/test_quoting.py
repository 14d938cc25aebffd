import re

import pytest

from llm_base.quoting import LONGEST_VALUE, printable, quote, shortened


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cafétière → 東", "cafétière → 東"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x9b31m\u2028\u202e", r"\x9b31m\u2028\u202e"),
    ],
)
def test_control_characters_become_escapes(text, expected):
    assert printable(text) == expected
    assert printable(text).isprintable()


@pytest.mark.parametrize("value", ["sofa", "a\nb", 3, None, ["sofa", 3], {"sofa": (1, 2)}])
def test_a_short_value_is_quoted_as_python_writes_it(value):
    assert quote(value) == repr(value)


def test_a_text_is_one_line_and_dots_show_where_it_was_cut():
    assert shortened(" a\n\tb  c ", 5) == "a b c"
    assert shortened("a b\nc d", 5) == "a b c..."


def nested(depth):
    return [nested(depth - 1)] if depth else []


@pytest.mark.parametrize(
    "value", ["x" * 100, "\x1b" * 50, 10**100, list(range(1000)), {"k" * 90: "v" * 90}, nested(500)]
)
def test_a_long_or_deep_value_is_shortened(value):
    text = quote(value)
    assert len(text) <= LONGEST_VALUE
    assert text.isprintable()
    assert re.search(r"\.\.\.", text)
