"""A Z-machine story of our own, assembled by hand (Z-Machine Standards Document 1.1, version 5).

Its parser reads the first letter of a command. `l` and `i` tell the turn, `s` and `t` mark an
object, `r` tells a random number, `d` and `w` end the game, `z` is an instruction that no machine
has, which `v` meets after it won; everything else is answered by "ok".
"""

import importlib.util
import shutil
from hashlib import md5
from pathlib import Path

import pytest

from llm_planning.environments.cooking.games import GameSpec, make_game
from llm_planning.environments.textgame.jericho_machine import Story

needs_jericho = pytest.mark.skipif(
    importlib.util.find_spec("jericho") is None,
    reason="Jericho is not installed: pip install 'llm-planning[textgames]'",
)

_BUFFER, _GLOBALS, _OBJECTS = 0x40, 0xC0, 0x2A0
_STATIC, _CODE = 0x330, 0x340
_LETTER, _NUMBER, _TURN = 0x11, 0x12, 0x13
_NEW_LINE = b"\xbb"


def write_toy(folder: Path) -> Story:
    """The story, written."""
    file = folder / "toy.z5"
    content = _assembled()
    file.write_bytes(content)
    return Story(
        file,
        md5(content, usedforsecurity=False).hexdigest(),
        "toy",
        seed=7,
        grammar="s;t;zap;nothing;greet OBJ;transcript",
        word_length=9,
    )


def write_kitchen(folder: Path) -> Story:
    """A game of TextWorld's: by such a file name Jericho knows how its score is read."""
    file = folder / "tw-kitchen.z8"
    shutil.copy(make_game(GameSpec(seed=1, ingredients=2)), file)
    grammar = "take/carry OBJ;discard/drop OBJ;drop OBJ;look;quit;put OBJ on OBJ"
    digest = md5(file.read_bytes(), usedforsecurity=False).hexdigest()
    return Story(file, digest, "kitchen", seed=1, grammar=grammar, word_length=9)


def _assembled():
    memory = bytearray(_CODE)
    memory[0] = 5
    words = {0x02: 1, 0x04: _CODE, 0x06: _CODE, 0x08: _STATIC, 0x0A: _OBJECTS, 0x0C: _GLOBALS}
    words |= {0x0E: _STATIC, _OBJECTS + 126 + 12: _OBJECTS + 126 + 14}
    for address, value in words.items():
        memory[address : address + 2] = value.to_bytes(2, "big")
    memory[0x12:0x18] = b"261122"
    memory[_BUFFER] = 100
    memory[_STATIC : _STATIC + 4] = bytes([0, 9, 0, 0])  # a dictionary without words
    story = bytes(memory) + _code()
    story += bytes(-len(story) % 4)
    length = (len(story) // 4).to_bytes(2, "big")
    return story[:0x1A] + length + story[0x1C:]


def _code():
    tell_turn = _print("turn ") + bytes([0xE6, 0xBF, _TURN])
    answers = {
        "l": tell_turn,
        "i": tell_turn,
        "s": bytes([0x0B, 1, 3]) + _print("set three"),
        "t": bytes([0x0B, 1, 4]) + _print("set four"),
        "r": bytes([0xE7, 0x7F, 100, _NUMBER, 0xE6, 0xBF, _NUMBER]),
        "d": _print("****  You have died  ****"),
        "w": _print("****  You have won  ****"),
        "z": bytes([0, 0, 0]),
        "v": _print("****  You have won  ****") + bytes([0, 0, 0]),
    }
    buffer = _BUFFER.to_bytes(2, "big")
    code = bytearray(_print("ready") + _NEW_LINE)
    loop = len(code)
    code += bytes([0x95, _TURN])  # inc
    code += bytes([0xE2, 0x17, *buffer, 1, 0])  # storeb: nothing was typed yet
    code += bytes([0xE4, 0x1F, *buffer, 0, 0x10])  # aread
    code += bytes([0xD0, 0x1F, *buffer, 2, _LETTER])  # loadb
    for letter, words in answers.items():
        answer = words + _NEW_LINE
        # je: to the next letter if it is not this one.
        code += bytes([0x41, _LETTER, ord(letter), 0x00, len(answer) + 3 + 2]) + answer
        code += _jump(loop - len(code))
    code += _print("ok") + _NEW_LINE
    return bytes(code + _jump(loop - len(code)))


def _jump(distance):
    return bytes([0x8C, *(distance - 1).to_bytes(2, "big", signed=True)])


def _print(text):
    symbols = []
    for letter in text:
        if letter == " ":
            symbols.append(0)
        elif "a" <= letter <= "z":
            symbols.append(ord(letter) - ord("a") + 6)
        else:
            symbols += [5, 6, ord(letter) >> 5, ord(letter) & 31]
    symbols += [5] * (-len(symbols) % 3)
    triples = [symbols[at : at + 3] for at in range(0, len(symbols), 3)]
    words = [(first << 10) | (second << 5) | third for first, second, third in triples]
    words[-1] |= 0x8000
    return b"\xb2" + b"".join(word.to_bytes(2, "big") for word in words)
