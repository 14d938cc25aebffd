"""What damages files: tables of (name, function of a path and a generator of random numbers)."""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .kinds import KINDS, Make, link, write

Damage = Callable[[Path, Random], object]


def drawn(strategy: st.SearchStrategy, *, number: int, start: int) -> list:
    """Examples of a hypothesis strategy, the same for the same start."""
    found: list = []

    @seed(start)
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: object) -> None:
        found.append(value)

    collect()
    return found


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            *("", "~nosuchuser/x", "[/x]", "\x1b[2J", "\0", "../..", "/dev/zero", "nan", "-1"),
            *("x" * 5_000, -1, 0, 2**31, 2**63, 1e308, -0.0),
        ]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
"""Values of any type, as JSON and YAML have them."""


_SWAPS = drawn(VALUES, number=60, start=7)
"""Values that take the places of others."""


def _paths(tree: object, path: tuple = ()) -> Iterable[tuple]:
    """The places of all values in a tree of lists and mappings."""
    yield path
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(tree, list):
        for index, inner in enumerate(tree):
            yield from _paths(inner, (*path, index))


def swapped(tree: object, random: Random) -> object:
    """A tree in which one value is another, is gone, or has a neighbour that nobody knows."""
    path = random.choice(list(_paths(tree)))
    value = random.choice(_SWAPS)
    if not path:
        return value
    above = tree
    for key in path[:-1]:
        above = above[key]
    match random.randrange(4), above:
        case 0, dict() | list():
            del above[path[-1]]
        case 1, dict():
            above[random.choice([*map(str, above), "no_such_key", "", "\x1b[2J"])] = value
        case 2, dict():
            above[str(path[-1]) + "s"] = above.pop(path[-1])
        case _:
            above[path[-1]] = value
    return tree


def _swap_json(path: Path, random: Random) -> None:
    path.write_text(json.dumps(swapped(json.loads(path.read_bytes()), random)))


def _swap_json_line(path: Path, random: Random) -> None:
    lines = path.read_text().splitlines()
    number = random.randrange(len(lines))
    lines[number] = json.dumps(swapped(json.loads(lines[number]), random))
    path.write_text("\n".join(lines))


def _swap_yaml(path: Path, random: Random) -> None:
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(swapped(tree, random)), errors="surrogatepass")


def _truncate(path: Path, random: Random) -> None:
    os.truncate(path, random.randrange(max(1, path.stat().st_size)))


def _spoiled(change: Callable[[bytes, Random], bytes]) -> Damage:
    return lambda path, random: path.write_bytes(change(path.read_bytes(), random))


def _flip(content: bytes, random: Random) -> bytes:
    flipped = bytearray(content or b"x")
    for _ in range(random.choice([1, 2, 20])):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    return bytes(flipped)


def _insert(content: bytes, random: Random) -> bytes:
    at = random.randrange(len(content) + 1)
    odd = random.choice(
        [b"\0", b"\xff\xfe", b"\x1b[2J", b"[/x]", b"\n\n", b"'", b'"', b"{", b"\t", b"\xed\xa0\x80"]
    )
    return content[:at] + odd + content[at:]


def _cut_out(content: bytes, random: Random) -> bytes:
    first = random.randrange(len(content) + 1)
    return content[:first] + content[first + random.randrange(1, 40) :]


def _written(content: str | bytes) -> Damage:
    return lambda path, random: write(content)(path)


def _added(text: str) -> Damage:
    return _spoiled(lambda content, random: content + text.encode())


def _recoded(encoding: str) -> Damage:
    return _spoiled(lambda content, random: content.decode(errors="replace").encode(encoding))


def table(rows: Iterable[tuple[str, Make]]) -> dict[str, Damage]:
    """Damage that nothing is drawn for."""
    return {
        name: lambda path, random, alter=alter: alter(path)
        for name, alter in rows
        if "huge" not in name  # hundreds of megabytes, which take seconds to write
    }


def _each(make: Make) -> Damage:
    """The same with every file of a folder."""
    return lambda path, random: [make(file) for file in sorted(path.iterdir())]


ANY_FILE: dict[str, Damage] = {
    **table(KINDS.items()),
    "truncated": _truncate,
    "flipped": _spoiled(_flip),
    "inserted": _spoiled(_insert),
    "cut-out": _spoiled(_cut_out),
    "doubled": _spoiled(lambda content, random: content * 2),
    "random": _spoiled(lambda content, random: random.randbytes(random.randrange(1, 5_000))),
    "unreadable": lambda path, random: path.chmod(0),
    "hole": lambda path, random: os.truncate(path, 1 << 33),
}
"""What can happen to any file."""

FOLDER: dict[str, Damage] = {
    **table(KINDS.items()),
    "a-file": _written(b"SQLite format 3\0"),
    "null-device": lambda path, random: link("/dev/null")(path),
    "closed": lambda path, random: path.chmod(0),
    "read-only": lambda path, random: path.chmod(0o500),
    "no-entry": lambda path, random: path.chmod(0o600),
    "a-folder-of-each": _each(KINDS["a folder"]),
    "a-fifo-of-each": _each(KINDS["a pipe"]),
    "each-empty": _each(KINDS["empty"]),
    "each-unreadable": _each(lambda path: path.is_symlink() or path.chmod(0)),
    "odd-names": lambda path, random: [
        (path / name).write_bytes(b"x")
        for name in ("\x1b[2J", "a\nb", os.fsdecode(b"\xff"), ".x.part", "[:x].sqlite", "x.sqlite")
    ],
}
"""What can happen to a folder."""

ANY_TEXT: dict[str, Damage] = {
    **ANY_FILE,
    "utf-16": _recoded("utf-16"),
    "utf-32": _recoded("utf-32-be"),
    "latin-1": _spoiled(lambda content, random: content + "\n# é\n".encode("latin-1")),
    "byte-order-mark": _spoiled(lambda content, random: b"\xef\xbb\xbf" + content),
    "crlf": _spoiled(lambda content, random: content.replace(b"\n", b"\r\n")),
    "nul-bytes": _spoiled(lambda content, random: content.replace(b" ", b"\0")),
    "deep-brackets": _written("[" * 100_000),
    "deep-braces": _written('{"a":' * 50_000),
    "one-long-line": _written("a" * 3_000_000),
}
"""What can happen to any text."""

_ENDLESS = frozenset({"a pipe", "a device", "hole", "a-fifo-of-each"})
MODEL_FILE = {name: damage for name, damage in ANY_TEXT.items() if name not in _ENDLESS}
MODEL_FOLDER = {name: damage for name, damage in FOLDER.items() if name not in _ENDLESS}
"""What can happen to a model, whose folder the command names."""

_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 10)}]\n"
    for last, this in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_yaml for number in range(1, 7)},
    "alias-bomb": _written(_BOMB.encode()),
    "cycle": _written(b"a: &a [*a]\n"),
    "merge": _added("<<: {name: y}\n"),
    "tag": _written(b"!!python/object/apply:os.system ['touch owned']\n"),
    "tagged-value": _added("z: !!python/name:os.system\n"),
    "documents": _added("---\n{}\n"),
    "duplicate": ANY_FILE["doubled"],
    "list": _written(b"- a\n- b\n"),
    "scalar": _written(b"42\n"),
    "null": _written(b"null\n"),
    "comment": _written(b"# nothing\n"),
    "number-keys": _written(b"1: 2\n2.5: 3\nnull: 4\n"),
    "complex-key": _written(b"? [a, b]\n: c\n"),
    "not-finite": _added("z: .nan\n"),
    "long-number": _added(f"z: {'9' * 5000}\n"),
    "tabs": _spoiled(lambda content, random: content.replace(b" ", b"\t")),
    "deep-flow": _written(b"a: " + b"[" * 500 + b"]" * 500),
    "deep-block": _written("".join(f"{' ' * level}a:\n" for level in range(500)).encode()),
}
"""What can happen to YAML."""

JSON: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_json for number in range(1, 9)},
    "list": _written(b"[1, 2]"),
    "scalar": _written(b"42"),
    "null": _written(b"null"),
    "nan": _written(b"NaN"),
    "long-number": _written(b'{"format": ' + b"9" * 5_000 + b"}"),
    "duplicate-keys": _written(b'{"format": 3, "format": 3}'),
    "half-surrogate": _written(b'{"format": "\\ud800"}'),
}
JSON_LINES: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_json_line for number in range(1, 9)},
    **{
        f"line-{name}": _added(f"{line}\n")
        for name, line in {
            "list": "[1]",
            "nan": '{"id": 9, "text": "x", "v": NaN}',
            "huge": '{"id": 9, "text": "x", "v": 1e999}',
            "digits": '{"id": ' + "9" * 5_000 + ', "text": "x"}',
            "deep": '{"id": 9, "text": "x", "v": ' + "[" * 90_000,
            "deep-whole": '{"id": 9, "text": "x", "v": ' + "[" * 900 + "]" * 900 + "}",
            "surrogate": '{"id": 9, "text": "\\ud800"}',
            "surrogate-elsewhere": '{"id": 9, "text": "x", "v": "\\udfff"}',
            "nul": '{"id": 9, "text": "\\u0000"}',
            "escape": '{"id": "\\u001b[2J", "text": "\\u001b]0;x\\u0007"}',
            "same-key": '{"id": 1, "text": "y"}',
            "same-field": '{"id": 9, "text": "x", "text": "y"}',
            "blank-text": '{"id": 9, "text": " "}',
            "id-true": '{"id": true, "text": "x"}',
            "markup": '{"id": "[/x]", "text": "[bold]"}',
        }.items()
    },
}
"""What can happen to lines of JSON."""

LINES: dict[str, Damage] = {
    **ANY_TEXT,
    "same-line": ANY_FILE["doubled"],
    "escape": _added("\x1b]0;x\x07\x1b[2J\n"),
    "markup": _added("[/x]\n[bold]\n"),
    "blank": _written("\n \n\t\n"),
    "separators": _written("a\u2028b\x0bc\x85d\n"),
}


def _swap_cell(path: Path, random: Random) -> None:
    """Puts an odd value in the place of another, adds one, or leaves one out."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    line = random.choice(lines)
    odd = random.choice(
        [
            *("", '"', '""', '"a', "a,b", "-1", "1e3", " 7 ", "٣", "9" * 5_000, "\x1b[2J", "[/x]"),
            *("nan", "1", "2", "Bonn", "x" * 200, "\0", "a\nb", "\r", "~nobody/x", "\u200b"),
        ]
    )
    place = random.randrange(len(line))
    match random.randrange(3):
        case 0:
            line.insert(place, odd)
        case 1:
            del line[place]
        case _:
            line[place] = odd
    path.write_text("\n".join(",".join(cells) for cells in lines) + "\n")


CSV: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_cell for number in range(1, 13)},
    "only-heads": _spoiled(lambda content, random: content.partition(b"\n")[0] + b"\n"),
    "no-heads": _spoiled(lambda content, random: content.partition(b"\n")[2]),
    "open-quote": _added('9,"'),
    "semicolons": _spoiled(lambda content, random: content.replace(b",", b";")),
    "long-field": _added("9," + "x" * 200_000 + ",FR,1\n"),
    "blank-lines": _spoiled(lambda content, random: content.replace(b"\n", b"\n\n")),
}
"""What can happen to values that are separated by commas."""


def _swap_fact(path: Path, random: Random) -> None:
    """Leaves a fact out, says one that is foreign, or puts others in its place."""
    lines = path.read_text().splitlines()
    number = random.choice([place for place, line in enumerate(lines) if line.startswith("(")][1:])
    lines[number] = random.choice(
        [
            *("", "(", ")", "()", "(())", "(at a b)", "(on a a)", "(on b a)", "(on a nobody)"),
            *("(holding a)", "(not (clear a))", "(= (cost) 1)", "(ontable a b)", "(clear \x1b[2J)"),
            *("(:init)", "(:goal (or (on a b) (on b a)))", "(:objects table - truck)", "(" * 900),
        ]
    )
    path.write_text("\n".join(lines))


PDDL: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_fact for number in range(1, 13)},
    "another-domain": _written(
        "(define (problem p) (:domain logistics) (:objects t - truck) (:init (at t t)) (:goal ()))"
    ),
    "a-domain": _written("(define (domain blocksworld-4ops) (:predicates (clear ?x)))"),
    "comment": _written("; nothing\n"),
    "many-blocks": _written(
        f"(define (problem p) (:objects {' '.join(f'b{n}' for n in range(20_000))})"
        " (:init) (:goal (and)))"
    ),
    "unsolvable": _spoiled(lambda content, random: content.replace(b"(on a b)", b"(on b b)")),
}
"""What can happen to a problem in PDDL with a fact on each line."""


_OWN_TEXTS = {
    "raises": "raise RuntimeError('\\x1b[2Jno\\nway')\n",
    "exits": "import sys; sys.exit(0)\n",
    "interrupts": "raise KeyboardInterrupt\n",
    "recursion": "def f(): f()\nf()\n",
    "bad-str": "class E(Exception):\n    def __str__(self): return 1/0\nraise E()\n",
}
_STEPS = {
    "start-raises": ("return 0", "raise ValueError('\\x1b[2Jno')"),
    "start-none": ("return 0", "return None"),
    "unhashable": ("return 0", "return []"),
    "describe-raises": ('return f"You', 'raise RuntimeError("no\\nway"); return f"You'),
    "actions-none": ('return ["up", "down"]', "return None"),
    "actions-empty": ('return ["up", "down"]', "return []"),
    "actions-same": ('return ["up", "down"]', 'return ["up", "up"]'),
    "actions-text": ('return ["up", "down"]', 'return "up"'),
    "actions-objects": ('return ["up", "down"]', "return [object(), {}]"),
    "actions-escape": ('return ["up", "down"]', 'return ["\\x1b[2J", "[/x]"]'),
    "actions-surrogate": ('return ["up", "down"]', 'return ["\\ud800", "b"]'),
    "step-none": ("return Step(at", "return None or (at"),
    "step-tuple": ("return Step(at, reward=float(at == self.steps)", "return dict(at=at, reward=0"),
    "step-raises": ("return Step(at", "1/0; return Step(at"),
    "reward-nan": ("reward=float(at == self.steps)", "reward=float('nan')"),
    "reward-infinite": ("reward=float(at == self.steps)", "reward=float('inf')"),
    "reward-text": ("reward=float(at == self.steps)", "reward='much'"),
    "state-nan": ("at += 1", "at = float('nan')"),
    "not-finite-steps": ("steps: int = 3", "steps: float = float('nan')"),
    "no-default": ("steps: int = 3", "steps: int"),
    "odd-type": ("steps: int = 3", "steps: object = object()"),
    "system-exit": ("return Step(at", "raise SystemExit(0); return Step(at"),
    "interrupt": ("return Step(at", "raise KeyboardInterrupt; return Step(at"),
}
CODE: dict[str, Damage] = {
    **ANY_TEXT,
    **{name: _written(text) for name, text in _OWN_TEXTS.items()},
}
DOMAIN: dict[str, Damage] = {
    **CODE,
    **{
        name: lambda path, random, old=old, new=new: path.write_text(
            path.read_text().replace(old, new)
        )
        for name, (old, new) in _STEPS.items()
    },
}
"""What a user's own file may do wrong."""
