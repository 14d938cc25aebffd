import io
import sys
import time

import pytest
from rich.table import Table
from rich.text import Text

from llm_base.terminal import SafeConsole, complain, harmless, literal, progress, say

HOSTILE = "a\x1b]0;title\x07b\x9b2J\u202ec\r"
HARMLESS = r"a\x1b]0;title\x07b\x9b2J\u202ec\r"


def test_control_characters_become_visible():
    assert harmless(HOSTILE) == HARMLESS
    assert harmless("two\nlines\tand ☃") == "two\nlines\tand ☃"


def test_lines_are_said_and_a_complaint_is_one(capsys):
    say(f"{HOSTILE}\nnext")
    complain(f"error: {HOSTILE}\nnext")
    out, err = capsys.readouterr()
    assert out == f"{HARMLESS}\nnext\n"
    assert err == f"error: {HARMLESS.removesuffix(chr(92) + 'r')} next\n"


def test_a_key_cannot_pass_for_lines_of_ours(capsys):
    out = io.StringIO()
    SafeConsole(file=out, width=200).print(literal("a\n  1.0000  forged\terror: x"))
    assert out.getvalue() == "a\\n  1.0000  forged\\terror: x\n"
    complain("x" * 10_000)
    assert len(capsys.readouterr().err) < 5_000


def test_a_console_draws_foreign_texts_without_obeying_them():
    out = io.StringIO()
    console = SafeConsole(file=out, force_terminal=True, width=200)
    table = Table("key")
    table.add_row(Text(HOSTILE, style="bold"))
    table.add_row("[/x] [link=http://y]:smile: 'str'[/link]")
    console.print(table)
    console.print(Text(HOSTILE))
    drawn = out.getvalue()
    assert r"\x1b]0;title" in drawn
    assert "\x1b[1m" in drawn  # the console's own styles stay
    assert "[/x] [link=http://y]:smile: 'str'[/link]" in drawn
    for order in ("\x1b]", "\x07", "\x9b", "\u202e"):
        assert order not in drawn


def test_a_literal_takes_the_room_that_it_needs():
    out = io.StringIO()
    table = Table("key")
    table.add_row(literal(HOSTILE))
    SafeConsole(file=out, width=200).print(table)
    assert f" {HARMLESS} " in out.getvalue()
    assert len({len(line) for line in out.getvalue().splitlines()}) == 1


def test_a_reader_that_left_is_told_to_whoever_prints():
    class Left(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        SafeConsole(file=Left()).print("text")


def drawn_in_time(drawn, text, begin):
    """What was drawn from a place on, once the text is there; a spinner turns every 80 ms."""
    deadline = time.monotonic() + 60
    while text not in drawn.getvalue()[begin:]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return drawn.getvalue()[begin:]


def test_bars_take_the_place_of_a_line_while_they_are_drawn(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    drawn = Terminal()
    monkeypatch.setattr(sys, "stderr", drawn)
    monkeypatch.setenv("TERM", "xterm")
    with SafeConsole(stderr=True).waiting("loading"):
        with progress() as bars:
            before = drawn.tell()
            bars.add_task("converting", total=1.0)
            assert "loading" not in drawn_in_time(drawn, "converting", before)
        drawn_in_time(drawn, "loading", drawn.tell())
    ended = drawn.tell()
    time.sleep(0.2)
    assert "loading" not in drawn.getvalue()[ended:]
