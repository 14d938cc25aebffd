"""What damages files: tables of (name, function of a path and a generator of random numbers)."""

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

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


@dataclass(frozen=True)
class _Swap:
    """Values that take the places of others, as hypothesis draws them."""

    values: list

    @classmethod
    def of_seed(cls, number: int) -> "_Swap":
        return cls(drawn(VALUES, number=60, start=number))


_SWAP = _Swap.of_seed(7)


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
    value = random.choice(_SWAP.values)
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


def _flip(path: Path, random: Random) -> None:
    content = bytearray(path.read_bytes() or b"x")
    for _ in range(random.choice([1, 2, 20])):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)


def _insert(path: Path, random: Random) -> None:
    content = path.read_bytes()
    at = random.randrange(len(content) + 1)
    odd = random.choice(
        [b"\0", b"\xff\xfe", b"\x1b[2J", b"[/x]", b"\n\n", b"'", b'"', b"{", b"\t", b"\xed\xa0\x80"]
    )
    path.write_bytes(content[:at] + odd + content[at:])


def _cut_out(path: Path, random: Random) -> None:
    content = path.read_bytes()
    first = random.randrange(len(content) + 1)
    path.write_bytes(content[:first] + content[first + random.randrange(1, 40) :])


def _become(make: Callable[[Path], object]) -> Damage:
    def damage(path: Path, random: Random) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
        make(path)

    return damage


def _written(content: bytes) -> Damage:
    return _become(lambda path: path.write_bytes(content))


def _recoded(encoding: str) -> Damage:
    return lambda path, random: path.write_bytes(path.read_bytes().decode().encode(encoding))


ANY_FILE: dict[str, Damage] = {
    "truncated": _truncate,
    "flipped": _flip,
    "inserted": _insert,
    "cut-out": _cut_out,
    "doubled": lambda path, random: path.write_bytes(path.read_bytes() * 2),
    "random": lambda path, random: path.write_bytes(random.randbytes(random.randrange(1, 5_000))),
    "empty": _written(b""),
    "zeros": _written(bytes(5_000)),
    "gone": _become(lambda path: None),
    "folder": _become(Path.mkdir),
    "fifo": _become(os.mkfifo),
    "zero-device": _become(lambda path: path.symlink_to("/dev/zero")),
    "dangling": _become(lambda path: path.symlink_to("nowhere")),
    "loop": _become(lambda path: path.symlink_to(path.name)),
    "unreadable": lambda path, random: path.chmod(0),
    "hole": lambda path, random: os.truncate(path, 1 << 33),
}
"""What can happen to any file."""

FOLDER: dict[str, Damage] = {
    "gone": _become(lambda path: None),
    "empty": _become(Path.mkdir),
    "a-file": _written(b"SQLite format 3\0"),
    "empty-file": _written(b""),
    "fifo": _become(os.mkfifo),
    "zero-device": _become(lambda path: path.symlink_to("/dev/zero")),
    "null-device": _become(lambda path: path.symlink_to("/dev/null")),
    "dangling": _become(lambda path: path.symlink_to("nowhere")),
    "loop": _become(lambda path: path.symlink_to(path.name)),
    "closed": lambda path, random: path.chmod(0),
    "read-only": lambda path, random: path.chmod(0o500),
    "no-entry": lambda path, random: path.chmod(0o600),
    "a-folder-of-each": lambda path, random: [
        _become(Path.mkdir)(one, random) for one in sorted(path.iterdir())
    ],
    "a-fifo-of-each": lambda path, random: [
        _become(os.mkfifo)(one, random) for one in sorted(path.iterdir())
    ],
    "each-empty": lambda path, random: [
        _written(b"")(one, random) for one in sorted(path.iterdir())
    ],
    "each-unreadable": lambda path, random: [
        one.chmod(0) for one in path.iterdir() if not one.is_symlink()
    ],
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
    "latin-1": lambda path, random: path.write_bytes(
        path.read_bytes() + "\n# é\n".encode("latin-1")
    ),
    "byte-order-mark": lambda path, random: path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes()),
    "crlf": lambda path, random: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")),
    "nul-bytes": lambda path, random: path.write_bytes(path.read_bytes().replace(b" ", b"\0")),
    "deep-brackets": _written(b"[" * 100_000),
    "deep-braces": _written(b'{"a":' * 50_000),
    "one-long-line": _written(b"a" * 3_000_000),
}
"""What can happen to any text."""

_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{this}: &{this} [{', '.join([f'*{last}'] * 10)}]\n"
    for last, this in zip("abcdefgh", "bcdefghi", strict=True)
)
YAML: dict[str, Damage] = {
    **ANY_TEXT,
    **{f"swapped-{number}": _swap_yaml for number in range(1, 7)},
    "alias-bomb": _written(_BOMB.encode()),
    "cycle": _written(b"a: &a [*a]\n"),
    "merge": lambda path, random: path.write_text(path.read_text() + "<<: {name: y}\n"),
    "tag": _written(b"!!python/object/apply:os.system ['touch owned']\n"),
    "tagged-value": lambda path, random: path.write_text(
        path.read_text() + "z: !!python/name:os.system\n"
    ),
    "documents": lambda path, random: path.write_text(path.read_text() + "---\n{}\n"),
    "duplicate": lambda path, random: path.write_text(path.read_text() + path.read_text()),
    "list": _written(b"- a\n- b\n"),
    "scalar": _written(b"42\n"),
    "null": _written(b"null\n"),
    "comment": _written(b"# nothing\n"),
    "number-keys": _written(b"1: 2\n2.5: 3\nnull: 4\n"),
    "complex-key": _written(b"? [a, b]\n: c\n"),
    "not-finite": lambda path, random: path.write_text(path.read_text() + "z: .nan\n"),
    "long-number": lambda path, random: path.write_text(path.read_text() + f"z: {'9' * 5000}\n"),
    "tabs": lambda path, random: path.write_text(path.read_text().replace(" ", "\t")),
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
        f"line-{name}": lambda path, random, line=line: path.write_bytes(path.read_bytes() + line)
        for name, line in {
            "list": b"[1]\n",
            "nan": b'{"id": 9, "text": "x", "v": NaN}\n',
            "huge": b'{"id": 9, "text": "x", "v": 1e999}\n',
            "digits": b'{"id": ' + b"9" * 5_000 + b', "text": "x"}\n',
            "deep": b'{"id": 9, "text": "x", "v": ' + b"[" * 90_000 + b"\n",
            "deep-whole": b'{"id": 9, "text": "x", "v": ' + b"[" * 900 + b"]" * 900 + b"}\n",
            "surrogate": b'{"id": 9, "text": "\\ud800"}\n',
            "surrogate-elsewhere": b'{"id": 9, "text": "x", "v": "\\udfff"}\n',
            "nul": b'{"id": 9, "text": "\\u0000"}\n',
            "escape": b'{"id": "\\u001b[2J", "text": "\\u001b]0;x\\u0007"}\n',
            "same-key": b'{"id": 1, "text": "y"}\n',
            "same-field": b'{"id": 9, "text": "x", "text": "y"}\n',
            "blank-text": b'{"id": 9, "text": " "}\n',
            "id-true": b'{"id": true, "text": "x"}\n',
            "markup": b'{"id": "[/x]", "text": "[bold]"}\n',
        }.items()
    },
}
"""What can happen to lines of JSON."""

LINES: dict[str, Damage] = {
    **ANY_TEXT,
    "same-line": lambda path, random: path.write_text(path.read_text() + path.read_text()),
    "escape": lambda path, random: path.write_text(path.read_text() + "\x1b]0;x\x07\x1b[2J\n"),
    "markup": lambda path, random: path.write_text(path.read_text() + "[/x]\n[bold]\n"),
    "blank": _written(b"\n \n\t\n"),
    "separators": lambda path, random: path.write_text("a\u2028b\x0bc\x85d\n", encoding="utf-8"),
}


def table(rows: Iterable[tuple[str, Callable[[Path], object]]]) -> dict[str, Damage]:
    """Damage of one format alone, from a table of its own."""
    return {
        name: lambda path, random, alter=alter: alter(path)
        for name, alter in rows
        if "huge" not in name  # hundreds of megabytes, which take seconds to write
    }


TEMPLATE: dict[str, Damage] = {
    **ANY_TEXT,
    **{
        name: _written(text.encode())
        for name, text in {
            "unknown": "{{ nothing.at.all }}",
            "division": "{{ 1 // 0 }}",
            "syntax": "{% for x in %}",
            "reach": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
            "include": "{% include '/etc/passwd' %}",
            "include-self": "{% include 'oracles.md.j2' %}",
            "extends-self": "{% extends 'oracles.md.j2' %}",
            "import-os": "{{ cycler.__init__.__globals__.os.system('touch owned') }}",
            "escape": "\x1b]0;x\x07\x1b[2J",
            "range": "{% for x in range(10**9) %}{{ x }}{% endfor %}",
            "power": "{{ 'x' * 10**11 }}",
            "macro": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        }.items()
    },
}
"""What can happen to a template."""

_OWN_TEXTS = {
    "raises": "raise RuntimeError('\\x1b[2Jno\\nway')\n",
    "exits": "import sys; sys.exit(0)\n",
    "exits-in-words": "raise SystemExit('gone')\n",
    "interrupts": "raise KeyboardInterrupt\n",
    "prints": "print('owned'); 1/0\n",
    "syntax": "def (:\n",
    "indentation": "if True:\nx\n",
    "missing-import": "import no_such_module_of_mine\n",
    "imports-itself": "import own_domain, own_planner\n",
    "recursion": "def f(): f()\nf()\n",
    "deep": "x = " + "(" * 500 + ")" * 500 + "\n",
    "deeper": "-" * 200_000 + "1\n",
    "name-is-number": "Stairs = idle = 3\n",
    "name-is-class": "class Stairs: pass\nidle = Stairs\n",
    "no-name": "x = 1\n",
    "closes-streams": "import os; os.environ['NO_COLOR'] = '1'\nraise BaseException('odd')\n",
    "group": "raise ExceptionGroup('many', [ValueError('a'), TypeError('b')])\n",
    "bad-str": "class E(Exception):\n    def __str__(self): return 1/0\nraise E()\n",
    "abstract": "from llm_planning import Domain\nclass Stairs(Domain): x = 1\nidle = Stairs\n",
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
    **{name: _written(text.encode()) for name, text in _OWN_TEXTS.items()},
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
