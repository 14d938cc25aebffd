"""What a hostile reader gives for each kind of value: a table, joined by adding a row.

A kind has good values, which the calls of `commands` use, and hostile ones. A value is a function
of the case's `Place`: it makes what the argument names and returns the argument.
"""

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .ground import SENTINEL, Place
from .kinds import Make, link, write

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


def _made(name: str, make: Make, more: str = "") -> Maker:
    """Makes something in the working directory, and names it or what is in it."""

    def maker(place: Place) -> str:
        make(place.here / name)
        return name + more

    return maker


def _good(name: str, member: str = "") -> Maker:
    return lambda place: place.good(name) + member


def _bind(path: Path) -> None:
    # A socket's path may have 107 bytes: it is bound from its folder.
    with socket.socket(socket.AF_UNIX) as opened, contextlib.chdir(path.parent):
        opened.bind(path.name)


def _folder(mode: int, **files: str) -> Make:
    def make(path: Path) -> None:
        path.mkdir()
        for name, text in files.items():
            (path / name.replace("_", ".")).write_text(text)
        path.chmod(mode)

    return make


def _loop(path: Path) -> None:
    path.symlink_to("loop2.yaml")
    path.with_name("loop2.yaml").symlink_to(path.name)


def _unreadable(path: Path) -> None:
    path.write_text("name: x\n")
    path.chmod(0)


def _hole(path: Path) -> None:
    """A file of 8 GiB that takes no space."""
    path.touch()
    os.truncate(path, 1 << 33)


_CLOSED, _READ_ONLY = _folder(0, sweep_yaml="name: x\n"), _folder(0o500)

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
        bidi="\u202egnp.exe",
        line_separator="a\u2028b",
        long="n" * 300,
        longest="é" * 60_000,
        tilde="~nosuchuser/x",
        tilde_nul="~\0",
        dots="../../../../../../..",
        dash="-",
        yaml="{a: [b",
    ),
}
"""Texts that are odd wherever they stand."""

PATHS: dict[str, Maker] = {
    "fifo": _made("fifo.yaml", os.mkfifo),
    "socket": _made("socket.yaml", _bind),
    "folder": _made("folder.yaml", Path.mkdir),
    "full-folder": _made("full", _folder(0o755, other_txt="not yours\n")),
    "dangling-link": _made("dangling.yaml", link("nowhere/at-all")),
    "link-loop": _made("loop.yaml", _loop),
    "unreadable": _made("unreadable.yaml", _unreadable),
    "closed-folder": _made("closed", _CLOSED),
    "in-closed-folder": _made("closed", _CLOSED, "/sweep.yaml"),
    "read-only-folder": _made("read-only", _READ_ONLY),
    "in-read-only-folder": _made("read-only", _READ_ONLY, "/out.csv"),
    "empty-file": _made("empty.jsonl", Path.touch),
    "device-link": _made("zero.yaml", link("/dev/zero")),
    "hole": _made("hole.jsonl", _hole),
    "escaped-file": _made("a\x1b]0;title\x07\x1b[2Jb.yaml", write("name: \x00\n")),
    "not-unicode-file": _made(os.fsdecode(b"caf\xe9.jsonl"), write(b"\xff\xfe\x00")),
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
    huge_float="1e400",
    digits="9" * 5_000,
    half="1.5",
    unicode_digits="１",
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
        hub_odd="a/../b",
    ),
    "a-yaml": _good("model.yaml"),
    "a-ledger": _good("ledger"),
    "an-index": _good("index"),
}

NAMES = _texts(
    near="to", upper="TOO", two="too,cot", dotted="too.x", number="7", own="missing.py:x"
)
OWN: dict[str, Maker] = {
    **_texts(
        own_missing="missing.py:Name",
        own_device="/dev/zero.py:Name",
    ),
    "own-domain": _good("own_domain.py", ":Stairs"),
    "own-planner": _good("own_planner.py", ":idle"),
    "own-fifo": _made("fifo.py", os.mkfifo, ":Name"),
}

PAIRS = _texts(
    no_equals="novalue",
    no_key="=1",
    no_value="roles=",
    unknown="no_such_setting=1",
    escape_key="\x1b[2J=1",
    dunder="__class__=1",
    domain_prefix="domain.=1",
    domain_twice="domain.domain.vocabulary=x",
    sha="roles_sha256=0000",
    nul_value="roles=a\0b",
    surrogate_value="roles=\udcff",
)

KINDS: dict[str, Kind] = {
    "flag": Kind(_texts(on="", off="")),  # a flag's values are its own names
    "lasting flag": Kind({}),  # what runs until a signal ends it; see `SIGNALLED`
    "choice": Kind({**ODD, **_texts(upper="LOCAL", near="loca", number="1")}),
    "count": Kind(_COUNT),
    "pages": Kind({**_COUNT, **_texts(many="all", nothing="none", upper="ALL", some="some")}),
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
    "ledger": Kind({**ODD, **PATHS, "an-index": _good("index")}),
    "ledger to go on with": Kind({**ODD, **PATHS, "an-index": _good("index")}, writes=True),
    "index": Kind({**ODD, **PATHS, "a-ledger": _good("ledger")}),
    "output file": Kind({**ODD, **PATHS, **_texts(suffix="out.exe", upper="OUT.CSV")}, writes=True),
    "output folder": Kind(
        {**ODD, **PATHS, "a-ledger": _good("ledger"), "an-index": _good("index")}, writes=True
    ),
    "trusted": Kind({**ODD, **PATHS}),
}
"""Kind -> what is given for it."""
