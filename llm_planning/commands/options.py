"""What several commands have in common."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

import typer

from llm_planning.endings import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST: Final = 10**18 - 1
"""Of whole numbers on the command line: those of a YAML file have at most as many digits."""


def named_path(text: str) -> Path:
    """A path that the user names; an empty one would mean the working directory.

    Raises:
        typer.BadParameter: it is empty.
    """
    return Path(name(text))


def name(text: str) -> str:
    """What the user calls a file, a folder or a model.

    Raises:
        typer.BadParameter: it is empty, or nothing can have this name.
    """
    if not text:
        raise typer.BadParameter("it is empty; name a file or a folder")
    try:
        if b"\0" not in os.fsencode(text):
            return text
    except UnicodeEncodeError:
        pass
    raise typer.BadParameter("no file can have this name")


def check_writable_folder(out: Path, *, option: str = "--out") -> None:
    """Finds out before minutes of work whether a folder can be made and written.

    Args:
        option: names it.

    Raises:
        UsageError: it cannot; says why.
    """
    from llm_base.files import LONGEST_NAME

    existing = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
    if not (os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)):
        raise UsageError(f"{option} {out}: {existing} is not a folder that can be written")
    if any(len(os.fsencode(name)) > LONGEST_NAME for name in out.parts):
        raise UsageError(f"{option} {out}: a name in it is longer than {LONGEST_NAME} bytes")


JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Also show how it came about, and every figure.")
]
CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Reuse answers to questions asked before.")
]
RoleModelOption = Annotated[
    list[str],
    typer.Option(metavar="ROLE=MODEL", help="Ask another model for one role; may be repeated."),
]
SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the planner or of its domain; may be repeated.",
    ),
]
SweepFolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", parser=named_path, help="The sweep's folder.")
]


ExecutorKind: TypeAlias = Literal["local", "ray"]
"""Where trials run."""


class Kind(StrEnum):
    """The caches there are."""

    RESPONSES = "responses"
    VECTORS = "vectors"
    TRANSITIONS = "transitions"


def read_pairs(texts: Sequence[str], option: str) -> dict[str, object]:
    """Reads the values of an option, each of which is written as key=value.

    Raises:
        UsageError: one is written otherwise, or a key comes twice.
    """
    pairs: dict[str, object] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: write it as key=value")
        if key in pairs:
            raise UsageError(f"{option} {key} is given twice: {pairs[key]!r} and {value!r}")
        pairs[key] = value
    return pairs
