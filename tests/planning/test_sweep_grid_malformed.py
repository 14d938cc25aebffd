"""Ten thousand malformed sweep files: one clear line each, and nothing is written.

Four kinds of 2,500, five to an example: files with one thing surely wrong, files with anything put
anywhere, texts and bytes. The last three may by chance be right; then they load.
"""

import contextlib
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.sweep_files import SweepConfigError, Trust

MALFORMED = settings(
    max_examples=500,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
PARENT = {"planners": "too", "tasks": "cook-meat", "seeds": 2, "retries": 3}
WHOLE = [
    {"planners": "too", "tasks": "cook-meat"},
    {
        "name": "table",
        "model": "smollm2-135m-instruct",
        "role_models": [{}, {"dynamics": "other/model"}],
        "domain": "minecraft",
        "planners": {"too": {"return": "mean", "k": [1, 3]}, "cot": {}},
        "tasks": ["cook-meat", "milk-a-cow"],
        "seeds": {"from": 1, "to": 3},
        "settings": {"d": {"from": 8, "to": 16, "step": 4}},
        "exclude": [
            {"planner": "cot", "settings": {"d": [12, 16]}},
            {"seed": 2, "task": ["cook-meat"]},
        ],
        "retries": 1,
    },
    {
        "extends": "parent.yaml",
        "settings": {"d": [8, 12]},
        "grids": [
            {"planners": ["too", "tot-mcts"], "tasks": "milk-a-cow", "settings": {"k": [1, 3]}},
            {"planners": "cot", "tasks": ["cook-meat"], "seeds": [4, 5]},
        ],
        "exclude": {"seed": 1},
    },
]
KEYS = [
    "name", "extends", "model", "role_models", "planners", "domain", "tasks", "seeds", "settings",
    "exclude", "retries", "grids", "planner", "task", "seed", "from", "to", "step", "too", "cot",
    "tot-mcts", "d", "k", "iter", "gamma", "return", "all", "cook-meat", "milk-a-cow",
]  # fmt: skip
SCALARS = [
    *KEYS, None, True, False, 0, 1, -1, 3, 40, 10**6 + 1, 10**12, 10**17, 2**63, 10**30,
    0.5, -0.0, 1e300, 5e-324, math.nan, math.inf,
    "", " ", ".", "..", "/", "~", "\0", "é\n", "\u2028", "😀", "mean", "drop", "a" * 900,
    "x.yaml", "parent.yaml", "sweep.yaml", "/dev/zero",
]  # fmt: skip
TOKENS = [
    *KEYS, *(f"\n{key}: " for key in KEYS), ": ", ": ", ": ", ":", "- ", "\n- ", "\n", "\n", "\n  ",
    "[", "]", "{", "}", ", ", "'", '"', "&a ", "*a", "!!set ", "!x ", "? ", "| ", "> ", "# ", "<<",
    "---\n", "...\n", "%YAML 1.1\n", "1", "0", "-", ".nan", "1e9", "null", "true", "2020-01-01",
    "\t", "@", "`", "\\", "\x85", "\ufeff", "é", "😀",
]  # fmt: skip


class Tape:
    """Choices read from bytes: one draw of hypothesis decides a whole file, quickly."""

    def __init__(self, tape):
        self.rest = list(tape)

    def number(self, below):
        return (self.rest.pop() if self.rest else 0) % below

    def choice(self, choices):
        return choices[self.number(len(choices))]

    def value(self, depth=0):
        kind = self.number(5) if depth < 3 else 0
        inner = range(self.number(4)) if kind > 2 else ()
        match kind:
            case 3:
                return [self.value(depth + 1) for _ in inner]
            case 4:
                return {str(self.choice(SCALARS)): self.value(depth + 1) for _ in inner}
            case _:
                return self.choice(SCALARS)


FIVE = 5
tapes = st.binary(min_size=20 * FIVE, max_size=40 * FIVE).map(
    lambda tape: [Tape(tape[first::FIVE]) for first in range(FIVE)]
)


@pytest.fixture(scope="module")
def complaint(tmp_path_factory):
    """Writes a file, loads it, and returns what is said about it; None if nothing is."""
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "parent.yaml").write_text(json.dumps(PARENT))

    def load(content):
        file.seek(0)
        file.write(content)
        file.truncate()
        message = None
        try:
            assert load_sweep("sweep.yaml", trust=Trust.of(["other/model"])).trials
        except SweepConfigError as error:
            message = str(error)
            assert message.isprintable(), message
            assert message.startswith(("sweep.yaml: ", "parent.yaml: ")), message
            assert 20 < len(message) < 1500, message
            for word in ("Traceback", "pydantic", "Exception", "TypeError", "ValueError"):
                assert word not in message
        assert sorted(os.listdir(folder)) == ["parent.yaml", "sweep.yaml"]
        return message

    with contextlib.chdir(folder), Path("sweep.yaml").open("wb", buffering=0) as file:
        yield load


def dumped(content):
    text = json.dumps(content, ensure_ascii=False).replace("\u2028", "\\u2028")
    return text.replace("NaN", ".nan").replace("Infinity", ".inf").encode()


def places(value):
    """Every mapping and list in a value, itself included."""
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from places(inner)


@pytest.mark.parametrize("content", WHOLE)
def test_what_is_damaged_below_was_whole(complaint, content):
    assert complaint(dumped(content)) is None


@pytest.mark.slow
@MALFORMED
@given(tapes)
def test_one_mistake_is_always_named(complaint, five):
    for tape in five:
        content = json.loads(json.dumps(tape.choice(WHOLE)))
        place = tape.choice(
            [place for place in places(content) if isinstance(place, dict) and place]
        )
        key = tape.choice(list(place))
        match tape.choice(["unknown", "misspelt", "twice", "impossible"]):
            case "unknown":
                named = "x" + "".join(tape.choice("abcxyz_") for _ in range(tape.number(12)))
                place[named] = tape.value()
            case "misspelt":
                at = tape.number(len(key) + 1)
                named = key[:at] + tape.choice("qQ7_") + key[at:]
                place[named] = place.pop(key)
            case "twice":
                named = key
                place[f"{key}\0"] = tape.value()
            case _:
                named = key
                place[key] = tape.choice([[[{}]], {"zzz": 1}, {"from": 2, "to": 1}])
        message = complaint(dumped(content).replace(b'\\u0000": ', b'": '))
        assert message is not None
        assert named in message


@pytest.mark.slow
@MALFORMED
@given(tapes)
def test_anything_anywhere(complaint, five):
    for tape in five:
        content = json.loads(json.dumps(tape.choice([*WHOLE, {}])))
        for _ in range(1 + tape.number(3)):
            place = tape.choice(list(places(content)))
            if isinstance(place, list):
                place[tape.number(2) :] = [tape.value() for _ in range(tape.number(3))]
            else:
                place[tape.choice([*KEYS, *map(str, place)])] = tape.value()
        complaint(dumped(content))


@MALFORMED
@given(tapes)
def test_any_text(complaint, five):
    for tape in five:
        head = tape.choice(["", "planners: too\ntasks: cook-meat\n"])
        text = head + "".join(tape.choice(TOKENS) for _ in range(len(tape.rest)))
        complaint(text.encode())


@pytest.mark.slow
@MALFORMED
@given(tapes)
def test_any_bytes(complaint, five):
    for tape in five:
        content = bytearray(dumped(tape.choice(WHOLE)))
        for _ in range(1 + tape.number(4)):
            begin = (tape.number(256) * 256 + tape.number(256)) % (len(content) + 1)
            end = begin + tape.number(4)
            lowest, span = tape.choice([(32, 95), (32, 95), (32, 95), (0, 256)])
            content[begin:end] = bytes(lowest + tape.number(span) for _ in range(tape.number(4)))
        complaint(bytes(content))
