"""What can be typed into a Z-machine story: lines of a state, and keys that no text shows."""

from __future__ import annotations

import re

from llm_planning.environments.textgame.game import TextGameError

OUTSIDE = frozenset(
    {
        *("undo", "save", "restore", "restor", "restart", "restar", "quit", "q"),
        *("script", "unscript", "unscri", "noscript", "noscri", "recording", "replay"),
        *("transcript", "transcrip", "transc"),
    }
)
"""Verbs that use what a snapshot does not hold, or end the machine; also cut to 6 or 9 letters."""

ENTER, SPACE = "press enter", "press space"
"""How the keys are written that no text shows. At a prompt for a line, Enter is an empty line."""

_KEYS = {ENTER: "", SPACE: " "}
_BETWEEN_COMMANDS = re.compile(r"[.,;:]|\b(?:then|and)\b")
_LONGEST_COMMAND = 198
# A backslash begins an order to the interpreter; some never end.
_LETTERS = frozenset(map(chr, (*range(0x20, 0x7F), *range(0xA1, 0x100)))) - {"\\"}


def verbs_of(command: str) -> set[str]:
    """The first word of each command in a line, which may hold several commands."""
    parts = _BETWEEN_COMMANDS.split(command.lower())
    return {part.split()[0] for part in parts if part.strip()}


def outside_of(command: str) -> list[str]:
    """The verbs of a command that are in `OUTSIDE`, sorted."""
    return sorted(verbs_of(command) & OUTSIDE)


def checked(command: str) -> str:
    """A command for the machine, with single blanks between its words; `ENTER` is an empty line.

    Raises:
        TextGameError: the command has a verb of `OUTSIDE`, or is too long, or has a character that
            no story reads.
    """
    text = " ".join(command.split())
    if outside := outside_of(text):
        raise TextGameError(
            f"the command {command!r} is refused: {outside[0]!r} reaches files or earlier turns, "
            "which are not part of the game's state"
        )
    if len(text) > _LONGEST_COMMAND:
        raise TextGameError(
            f"the command {command[:40]!r}... has {len(text)} bytes, but the Z-machine reads "
            f"{_LONGEST_COMMAND} at most: shorten it"
        )
    return _readable(text)


def key_of(command: str) -> str:
    """The key that a command means where a story waits for one: its first letter; "" is Enter.

    Raises:
        TextGameError: no story reads the letter.
    """
    return _readable(" ".join(command.split()))[:1]


def _readable(text: str) -> str:
    if strange := sorted(set(text) - _LETTERS):
        raise TextGameError(
            f"the command {text[:40]!r} is refused: no story reads {strange[0]!r}; write it with "
            "the letters of Western Europe"
        )
    return _KEYS.get(text, text)
