"""A user's own planners and domains: FILE.py:NAME, run from the file, known by its content.

Whoever looks such a name up runs the file. Only commands that run planners do, and only with names
that the user wrote on the command line or in a sweep's YAML.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"(?P<file>.+\.py):(?P<member>[A-Za-z_]\w*)")


class OwnCodeError(ValueError):
    """A user's file is missing, raises when it is run, or lacks what is named."""


@dataclass(frozen=True, slots=True)
class OwnCode:
    """Where something of the user's comes from.

    Attributes:
        file: absolute.
        sha256: of the file and of everything that it imports from its own folder; a change of any
            of them makes other trials.
    """

    file: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Own:
    """What a name of the form FILE.py:NAME means."""

    found: Any
    code: OwnCode


def is_own(name: str) -> bool:
    """Whether a name has the form FILE.py:NAME."""
    return _NAME.fullmatch(name) is not None


def load_own(name: str) -> Own | None:
    """Runs the file of a name and takes the member out of it; None for a name of another form.

    The file's folder is where its own imports are found, as if Python had been started with it.

    Raises:
        OwnCodeError: the file is missing or fails, or has no such member.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    file = Path(match["file"]).absolute()
    code = OwnCode(file, source_hash(file))
    members = vars(_run(code))
    if match["member"] not in members:
        public = [one for one in members if not one.startswith("_")]
        raise OwnCodeError(
            f"{name}: {file.name} has no such name; {remedy(match['member'], public)}"
        )
    return Own(members[match["member"]], code)


def source_hash(file: Path) -> str:
    """SHA-256 of a file and of what it imports from its folder, in hexadecimal.

    Raises:
        OwnCodeError: a file cannot be read, or is no Python.
    """
    digest = hashlib.sha256()
    for name, content in sorted(_sources(file, file.parent, {})):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@cache
def _run(code: OwnCode) -> Any:  # noqa: ANN401
    """The module of a file, run once for each content."""
    file, folder = code.file, str(code.file.parent)
    name = f"_own_{file.stem}_{code.sha256[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise OwnCodeError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickle look a class's module up by its name.
    sys.modules[name] = module
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise OwnCodeError(f"{file} fails: {type(error).__name__}: {error}") from error
    return module


def _sources(file: Path, folder: Path, seen: dict[Path, bytes]) -> Iterator[tuple[str, bytes]]:
    """A file and those of its folder that it imports, each once, with their names in the folder."""
    if file in seen:
        return
    try:
        seen[file] = content = file.read_bytes()
        tree = ast.parse(content)
    except (OSError, SyntaxError, ValueError) as error:
        raise OwnCodeError(f"{file} cannot be read as Python: {error}") from error
    yield str(file.relative_to(folder)), content
    for module in _imported(tree, file.parent.relative_to(folder)):
        place = folder.joinpath(*module)
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if module and candidate.is_file():
                yield from _sources(candidate, folder, seen)


def _imported(tree: ast.AST, package: Path) -> Iterator[tuple[str, ...]]:
    """What may be a module of the folder, as the parts of its path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                parts = tuple(one.name.split("."))
                yield from (parts[: i + 1] for i in range(len(parts)))
        elif isinstance(node, ast.ImportFrom):
            up = package.parts[: len(package.parts) - node.level + 1] if node.level else ()
            base = (*up, *(node.module.split(".") if node.module else ()))
            yield from (base[: i + 1] for i in range(len(base)))
            yield from ((*base, one.name) for one in node.names)
