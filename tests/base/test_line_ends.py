"""Lines end at a line feed, a carriage return or both, in texts and in files."""

from io import BytesIO

import pytest

from llm_base.lines import lines_in, lines_of

EVERY = "".join(map(chr, range(256))) + "\u2028\u2029"
"""Every byte's character, and those at which only `str.splitlines` ends a line."""


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("\n", ["\n"]),
        ("a\n\r\r\nb", ["a\n", "\r", "\r\n", "b"]),
        (EVERY, [EVERY[:11], EVERY[11:14], EVERY[14:]]),
        # Both ends of a line may come in different pieces of a file.
        *(
            (f"{'x' * size}\r\n{'y' * size}", ["x" * size + "\r\n", "y" * size])
            for size in (8191, 8192)
        ),
    ],
)
def test_lines_have_their_ends(text, lines):
    assert list(lines_of(text)) == lines
    assert list(lines_in(BytesIO(text.encode()))) == [line.encode() for line in lines]
    assert b"".join(lines_in(BytesIO(text.encode("utf-16")))) == text.encode("utf-16")


def test_a_long_line_comes_in_pieces():
    assert list(lines_in(BytesIO(b"abc\r\nabcd"), longest=3)) == [b"abc", b"\r\n", b"abc", b"d"]


def test_a_file_is_closed_at_the_end_and_when_nobody_reads_on(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"1\n2\n")
    file = path.open("rb")
    lines = lines_in(file)
    assert next(lines) == b"1\n"
    assert not file.closed
    lines.close()
    assert file.closed
