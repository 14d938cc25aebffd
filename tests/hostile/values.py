"""What a hostile reader gives for each kind of value: a table, joined by adding a row.

A kind has good values, which the calls of `commands` use, and hostile ones. A value is a function
of the case's `Place`: it makes what the argument names and returns the argument.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from .ground import SENTINEL, Place

Maker = Callable[[Place], str]


@dataclass(frozen=True)
class Kind:
    """A kind of value.

    Attributes:
        hostile: name -> what makes a hostile value.
        writes: whether a command writes what the value names, once all has gone well.
    """

    hostile: dict[str, Maker]
    writes: bool = False


def _said(text: str) -> Maker:
    return lambda place: text


def _texts(**texts: str) -> dict[str, Maker]:
    return {name.replace("_", "-"): _said(text) for name, text in texts.items()}


def _fifo(place: Place) -> str:
    os.mkfifo(place.here / "fifo.yaml")
    return "fifo.yaml"


def _socket(place: Place) -> str:
    # A socket's path may have 107 bytes: it is bound from its folder.
    before = os.getcwd()
    with socket.socket(socket.AF_UNIX) as opened:
        os.chdir(place.here)
        opened.bind("socket.yaml")
        os.chdir(before)
    return "socket.yaml"


def _folder(place: Place) -> str:
    (place.here / "folder.yaml").mkdir()
    return "folder.yaml"


def _full_folder(place: Place) -> str:
    (place.here / "full").mkdir()
    (place.here / "full" / "other.txt").write_text("not yours\n")
    return "full"


def _dangling(place: Place) -> str:
    (place.here / "dangling.yaml").symlink_to("nowhere/at-all")
    return "dangling.yaml"


def _loop(place: Place) -> str:
    (place.here / "loop.yaml").symlink_to("loop2.yaml")
    (place.here / "loop2.yaml").symlink_to("loop.yaml")
    return "loop.yaml"


def _unreadable(place: Place) -> str:
    path = place.here / "unreadable.yaml"
    path.write_text("name: x\n")
    path.chmod(0)
    return path.name


def _closed_folder(place: Place) -> str:
    folder = place.here / "closed"
    folder.mkdir()
    (folder / "sweep.yaml").write_text("name: x\n")
    folder.chmod(0)
    return "closed"


def _in_closed_folder(place: Place) -> str:
    return f"{_closed_folder(place)}/sweep.yaml"


def _read_only_folder(place: Place) -> str:
    folder = place.here / "read-only"
    folder.mkdir()
    folder.chmod(0o500)
    return "read-only"


def _in_read_only_folder(place: Place) -> str:
    return f"{_read_only_folder(place)}/out.csv"


def _empty_file(place: Place) -> str:
    (place.here / "empty.jsonl").touch()
    return "empty.jsonl"


def _device_link(place: Place) -> str:
    (place.here / "zero.yaml").symlink_to("/dev/zero")
    return "zero.yaml"


def _hole(place: Place) -> str:
    """A file of 64 GiB that takes no space."""
    path = place.here / "hole.jsonl"
    path.touch()
    os.truncate(path, 1 << 33)
    return path.name


def _escaped_file(place: Place) -> str:
    name = "a\x1b]0;title\x07\x1b[2Jb.yaml"
    (place.here / name).write_text("name: \x00\n")
    return name


def _not_unicode_file(place: Place) -> str:
    name = os.fsdecode(b"caf\xe9.jsonl")
    (place.here / name).write_bytes(b"\xff\xfe\x00")
    return name


ODD: dict[str, Maker] = {
    **_texts(
        empty="",
        blank="   ",
        nul="a\0b",
        newline="a\nerror: b\n",
        carriage_return="all is well\rx",
        surrogate=os.fsdecode(b"\xff\xfe"),
        half_surrogate="\ud800",
        escape="\x1b[2J\x1b]0;owned\x07",
        c1_escape="\x9b31m",
        markup="[/x]",
        open_markup="[bold red]x[",
        link_markup="[link=file:///etc/passwd]x[/link]",
        percent="%s%n%d",
        braces="{0.__class__}{",
        bidi="\u202egnp.exe",
        line_separator="a\u2028b",
        emoji="👩‍👩‍👧‍👦" * 20,
        long="n" * 300,
        longer="n" * 5_000,
        longest="é" * 60_000,
        tilde="~nosuchuser/x",
        tilde_nul="~\0",
        dots="../../../../../../..",
        dash="-",
        dash_x="-x",
        dashes="--",
        option="--no-such",
        equals="=",
        quote="'; DROP TABLE trials; --",
        glob="*?[",
        backslash="\\\\x\\n",
        none="None",
        yaml="{a: [b",
    ),
}
"""Texts that are odd wherever they stand."""

PATHS: dict[str, Maker] = {
    "fifo": _fifo,
    "socket": _socket,
    "folder": _folder,
    "full-folder": _full_folder,
    "dangling-link": _dangling,
    "link-loop": _loop,
    "unreadable": _unreadable,
    "closed-folder": _closed_folder,
    "in-closed-folder": _in_closed_folder,
    "read-only-folder": _read_only_folder,
    "in-read-only-folder": _in_read_only_folder,
    "empty-file": _empty_file,
    "device-link": _device_link,
    "hole": _hole,
    "escaped-file": _escaped_file,
    "not-unicode-file": _not_unicode_file,
    **_texts(
        zero="/dev/zero",
        full="/dev/full",
        null="/dev/null",
        tty="/dev/tty",
        stdin="/dev/stdin",
        memory="/proc/self/mem",
        root="/",
        here=".",
        missing="no/such/folder/file.yaml",
        missing_file="missing.jsonl",
        through_a_file=f"{SENTINEL}/x.yaml",
        slash=f"{SENTINEL}/",
        text_file=SENTINEL,
        long_name="n" * 300 + ".yaml",
        name_of_255="n" * 250 + ".yaml",
        deep="d/" * 3_000 + "x.yaml",
        url="https://example.invalid/x.yaml",
    ),
}
"""Paths that are no good file, or that cannot be written."""

NUMBERS: dict[str, Maker] = _texts(
    negative="-1",
    nan="nan",
    infinite="inf",
    minus_infinite="-inf",
    huge_float="1e400",
    digits="9" * 5_000,
    minus_digits="-" + "9" * 5_000,
    half="1.5",
    hexadecimal="0x10",
    underscore="1_0",
    exponent="1e1",
    unicode_digits="１",
    arabic_digits="٣",
    superscript="²",
    words="three",
    true="true",
    list="[1]",
)
"""Numbers that most parameters cannot be; none that asks for long work."""

HUGE: dict[str, Maker] = _texts(
    power_70=str(2**70), minus_power_70=str(-(2**70)), power_31=str(2**31), billions="9999999999"
)
"""Numbers of which no work may be made that takes long."""

_COUNT = {**NUMBERS, **HUGE, **_texts(zero="0", blank=" ", empty="")}

MODELS: dict[str, Maker] = {
    **_texts(
        near="smollm2-135m-instruc",
        upper="NONE",
        hub="nobody/no-such-model",
        hub_odd="a/../b",
        hub_deep="a/b/c",
        hub_space="a/b c",
        yaml="missing.yaml",
        just_yaml=".yaml",
        url="https://example.invalid/model",
    ),
    "a-yaml": lambda place: place.good("model.yaml"),
    "a-ledger": lambda place: place.good("ledger"),
    "an-index": lambda place: place.good("index"),
}

NAMES = _texts(
    near="to", upper="TOO", two="too,cot", dotted="too.x", number="7", own="missing.py:x"
)
OWN: dict[str, Maker] = {
    **_texts(
        own_missing="missing.py:Name",
        own_device="/dev/zero.py:Name",
        own_no_member="own_domain.py:",
        own_dunder="own_domain.py:__builtins__",
        own_dotted="own_domain.py:Stairs.goal",
    ),
    "own-other": lambda place: place.good("own_domain.py") + ":dataclass",
    "own-unknown": lambda place: place.good("own_planner.py") + ":nothing",
    "own-domain": lambda place: place.good("own_domain.py") + ":Stairs",
    "own-planner": lambda place: place.good("own_planner.py") + ":idle",
    "own-fifo": lambda place: (os.mkfifo(place.here / "fifo.py"), "fifo.py:Name")[1],
    "own-folder": lambda place: ((place.here / "folder.py").mkdir(), "folder.py:Name")[1],
}

PAIRS = _texts(
    no_equals="novalue",
    no_key="=1",
    no_value="roles=",
    unknown="no_such_setting=1",
    escape_key="\x1b[2J=1",
    markup_key="[/x]=[/x]",
    dunder="__class__=1",
    domain_prefix="domain.=1",
    domain_twice="domain.domain.vocabulary=x",
    sha="roles_sha256=0000",
    nul_value="roles=a\0b",
    surrogate_value="roles=\udcff",
    long_key="k" * 5_000 + "=1",
    spaces=" k = 1 ",
)

KINDS: dict[str, Kind] = {
    "flag": Kind(_texts(on="", off="")),  # a flag's values are its own names
    "choice": Kind({**ODD, **_texts(upper="LOCAL", near="loca", number="1")}),
    "count": Kind(_COUNT),
    "seed": Kind(_COUNT),
    "text": Kind(ODD),
    "texts": Kind(ODD),
    "name": Kind({**ODD, **NAMES}),
    "planner": Kind({**ODD, **NAMES, **OWN}),
    "domain": Kind({**ODD, **NAMES, **OWN}),
    "task": Kind({**ODD, **NAMES}),
    "model": Kind({**ODD, **PATHS, **MODELS}),
    "pairs": Kind({**ODD, **PAIRS}),
    "device": Kind({**ODD, **_texts(near="cup", cuda="cuda", cuda_99="cuda:99", meta="meta")}),
    "address": Kind({**ODD, **_texts(host="256.1.1.1:x", closed="127.0.0.1:9", ray="ray://x:y")}),
    "file": Kind({**ODD, **PATHS}),
    "ledger": Kind({**ODD, **PATHS, "an-index": lambda place: place.good("index")}),
    "ledger to go on with": Kind(
        {**ODD, **PATHS, "an-index": lambda place: place.good("index")}, writes=True
    ),
    "index": Kind({**ODD, **PATHS, "a-ledger": lambda place: place.good("ledger")}),
    "output file": Kind({**ODD, **PATHS, **_texts(suffix="out.exe", upper="OUT.CSV")}, writes=True),
    "output folder": Kind(
        {
            **ODD,
            **PATHS,
            "a-ledger": lambda place: place.good("ledger"),
            "an-index": lambda place: place.good("index"),
        },
        writes=True,
    ),
    "trusted": Kind({**ODD, **PATHS}),
}
"""Kind -> what is given for it."""
