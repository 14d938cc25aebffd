"""A user's own planners and domains: FILE.py:NAME, run from the file, identified by its content.

Looking up such a name runs the file. Only commands that run planners do that, and only with names
that the user wrote on the command line or trusts in the file of a sweep.

The file is imported under its own name, with its folder at the end of Python's path. Modules that
it imports from its folder belong to it and are hashed with it; the `import` statements show which
they are. Modules from outside the folder are not hashed. What else the code reads from its folder,
modules that `importlib` imports among it, is noted by `data_files`.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from llm_base.files import read_regular
from llm_planning.data_files import OURS, changed_files, files_read, watch
from llm_planning.interrupts import was_interrupted
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Iterator, Mapping
    from types import ModuleType

T = TypeVar("T")

_NAME = re.compile(r"(?P<file>.+\.py):(?P<member>[A-Za-z_]\w*)")

_LONGEST = 1 << 24
"""Bytes of a Python file, at most."""


class OwnCodeError(ValueError):
    """A user's file is missing, fails when it is run, or lacks the member that is named."""


@dataclass(frozen=True, slots=True)
class CodeSource:
    """The origin of a planner or a domain that is not this project's.

    Attributes:
        origin: the user's file, absolute; or an installed package and its version.
        sha256: of the file and of everything that it imports from its own folder, or of the
            package's name and version; trials with different values are different trials.
    """

    origin: str
    sha256: str


def describe_error(error: BaseException) -> str:
    """The type of an error of a user's own code, with its message unless that fails itself.

    Of a group, also its first error.

    Example:
        >>> from llm_planning.own_code import describe_error
        >>> describe_error(ExceptionGroup("of two tasks", [ValueError("no"), KeyError("door")]))
        'ExceptionGroup: of two tasks (2 sub-exceptions), the first ValueError: no'
    """
    name = type(error).__name__
    try:
        described = f"{name}: {error}".removesuffix(": ")
    except BaseException as failure:
        if was_interrupted(failure):
            raise
        described = name
    if isinstance(error, BaseExceptionGroup):
        return f"{described}, the first {describe_error(error.exceptions[0])}"
    return described


async def unexiting(work: Awaitable[T]) -> T:
    """Awaits work in a task of its own; a `sys.exit` in it is an error, and leaves no event loop.

    Raises:
        RuntimeError: code in it called `sys.exit`.
    """
    try:
        return await work
    except SystemExit as error:
        raise RuntimeError(describe_error(error)).with_traceback(error.__traceback__) from None


def is_ours(thing: object) -> bool:
    """Whether the class of a thing is one of this project's; the message of an error is for users.

    Args:
        thing: an error, or a domain.
    """
    kind: Any = type(thing)
    return _is_ours(kind)


@cache
def _is_ours(kind: Any) -> bool:  # noqa: ANN401 - a class, which mypy does not take as hashable
    return kind.__module__.partition(".")[0] in OURS


def locate_error(error: BaseException, names: Iterable[str]) -> str:
    """`describe_error` behind the place in a user's own code where the error was raised.

    The place is the last line in a file of the names, or in one beside it that it imports, as FILE
    has it there, of the error, else of what caused it; without one, the last line anywhere, with
    its module. An error that crossed a process has no place. Of a group of tasks, its first error
    is told; of a `StopIteration` that Python put into another error, as it does at the end of a
    coroutine and of a generator, the `StopIteration`.
    """
    if isinstance(error, BaseExceptionGroup) and error.exceptions[0].__traceback__:
        return locate_error(error.exceptions[0], names)
    if (cause := error.__cause__) is not None and _STOPPED.fullmatch(describe_error(error)):
        return locate_error(cause, names)
    files = _own_files(names)
    places = [_lines_of(part) for part in _chain(error)]
    theirs = (line for lines in places for line in reversed(lines) if line[0] in files)
    anywhere = (line for lines in places for line in reversed(lines))
    line = next(theirs, None) or next(anywhere, None)
    if line is None:
        return describe_error(error)
    file, module, number = line
    return f"{files.get(file, module)}, line {number}: {describe_error(error)}"


def _chain(error: BaseException) -> list[BaseException]:
    """An error, the first of its group, and what caused it; each once."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        if isinstance(following, BaseExceptionGroup):
            following = following.exceptions[0]
        else:
            following = following.__cause__
    return chain


def _lines_of(error: BaseException) -> list[tuple[str, str | None, int]]:
    """Files, modules and lines that an error came through, the one that raised it last."""
    return [
        (frame.f_code.co_filename, frame.f_globals.get("__name__"), number)
        for frame, number in traceback.walk_tb(error.__traceback__)
    ]


_STOPPED = re.compile(r"RuntimeError: (async )?(coroutine|generator) raised Stop(Async)?Iteration")
"""What Python says of a `StopIteration` that would end whatever awaits or iterates."""


def _own_files(names: Iterable[str]) -> dict[str, str]:
    """The files of these names and those that were run beside them -> as the user has them."""
    files: dict[str, str] = {}
    for name in names:
        if (file := code_file(name)) is not None:
            named = Path(name.rpartition(":")[0])
            beside = _ran.get(file.parent, {})
            files |= {
                str(path): str(named.parent / path.relative_to(file.parent)) for path in beside
            }
            files[str(file)] = str(named)
    return files


def code_file(name: str) -> Path | None:
    """The file that looking up a name runs, links resolved; None for a name of another form.

    As in Python, its imports are found beside the file itself, not beside a link to it.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        return Path(os.path.realpath(match["file"]))
    except ValueError:  # no file can have this name, as reading it will report
        return Path(match["file"]).absolute()


def own_source(name: str) -> CodeSource | None:
    """The origin of a name, without running its file; None for a name of another form.

    Raises:
        OwnCodeError: the file, or one that it imports, cannot be read or is no Python.
    """
    file = code_file(name)
    return None if file is None else CodeSource(str(file), _digest(file, _tree(file)))


def load_own(name: str) -> tuple[Any, CodeSource] | None:
    """Runs the file of a name, as `load_file` does; None for a name of another form.

    Returns:
        The member that is named, and its origin.

    Raises:
        OwnCodeError: the file cannot be run, or has no such member.
    """
    file = code_file(name)
    if file is None:
        return None
    (members, source), member = load_file(file), name.rpartition(":")[2]
    if member not in members:
        public = [known for known in members if not known.startswith("_")]
        raise OwnCodeError(f"{name}: {file.name} has no such name; {remedy(member, public)}")
    return members[member], source


def load_file(file: Path) -> tuple[Mapping[str, Any], CodeSource]:
    """Runs a file, again if it or a module that it imports from its folder has changed.

    Args:
        file: absolute, links resolved.

    Returns:
        What it defines, by name, and its origin.

    Raises:
        OwnCodeError: the file is missing or fails; or a module of it has the name of one of another
            folder.
    """
    tree = _tree(file)
    return vars(_run(file, tree)), CodeSource(str(file), _digest(file, tree))


def _digest(file: Path, tree: Mapping[Path, bytes]) -> str:
    digest = hashlib.sha256()
    named = ((str(path.relative_to(file.parent)), content) for path, content in tree.items())
    for name, content in sorted(named):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


_ran: dict[Path, dict[Path, bytes]] = {}
"""Folder -> the files that belong to those of it that were run, with the contents that were run."""

_data: dict[Path, dict[str, str]] = {}
"""Folder -> what `read_at_import` returns."""


def read_at_import(names: Iterable[str]) -> dict[str, str]:
    """What the files of names read from their folders while they were run, with the hash of each.

    Args:
        names: of planners and domains; those of another form are passed over.
    """
    folders = dict.fromkeys(file.parent for name in names if (file := code_file(name)))
    return {path: sha for folder in folders for path, sha in _data.get(folder, {}).items()}


def changed_since(files: Iterable[str]) -> OwnCodeError:
    """The error of a sweep whose own code, or what it reads, is no longer what it was."""
    files = dict.fromkeys(files)
    are, they, them = ("is", "it", "it") if len(files) == 1 else ("are", "they", "them")
    return OwnCodeError(
        f"{' and '.join(files)} {are} not what {they} {'was' if are == 'is' else 'were'} when the "
        f"sweep began: put {them} back, or begin the sweep anew in another folder"
    )


def _run(file: Path, tree: dict[Path, bytes]) -> ModuleType:
    """The module of a file, run once as long as nothing that belongs to it changes."""
    known = _ran.setdefault(file.parent, {})
    edited = any(tree.get(path, content) != content for path, content in known.items())
    edited = edited or bool(changed_files(_data.get(file.parent, {})))
    gone = not all(map(os.path.isfile, known))
    if edited or gone or (file in known and not tree.keys() <= known.keys()):
        # All of the folder, as its modules may have imported each other.
        _forget([*known, *map(Path, map(os.path.abspath, _data.pop(file.parent, ())))])
        known.clear()
    if file in known and file.stem in sys.modules:
        return sys.modules[file.stem]
    _forget(tree.keys() - known.keys())
    _refuse_taken(file, tree)
    importlib.invalidate_caches()
    if (folder := str(file.parent)) not in sys.path:
        sys.path.append(folder)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # it is somebody's folder
    watch(file.parent, tree)
    try:
        with files_read() as read:
            module = sys.modules.get(file.stem) or _executed(file)
        if _tree(file) != tree:
            raise OwnCodeError(f"{file} was changed while it was run: run the command again")
    except BaseException as error:
        _forget(tree)
        if isinstance(error, OwnCodeError) or was_interrupted(error):
            raise
        inside = [(path, number) for path, _, number in _lines_of(error) if Path(path) in tree]
        place = "({}, line {})".format(*inside[-1]) if inside else ""
        raise OwnCodeError(f"{file} fails: {describe_error(error)} {place}".rstrip()) from error
    finally:
        sys.dont_write_bytecode = before
    known |= tree
    _data.setdefault(file.parent, {}).update(read.hashes())
    return module


def _executed(file: Path) -> ModuleType:
    """The module of a file, which has its name though an installed one may be called alike."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise OwnCodeError(f"{file} is no Python file")
    sys.modules[file.stem] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _forget(paths: Iterable[Path]) -> None:
    """Lets modules be run anew."""
    files = set(map(str, paths))
    for name, module in list(sys.modules.items()):
        # Not by `getattr`, for which lazy modules of libraries load whatever they can.
        if getattr(module, "__dict__", {}).get("__file__") in files:
            del sys.modules[name]


def _refuse_taken(file: Path, tree: Mapping[Path, bytes]) -> None:
    """Makes sure that the names of modules mean those of this folder.

    Raises:
        OwnCodeError: a file of another folder, or an installed module, has one of the names.
    """
    for path in tree:
        name = path.relative_to(file.parent).parts[0].removesuffix(".py")
        # The file itself is run whatever is installed, unless that is already imported.
        if path == file and name not in sys.modules:
            continue
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or [str(spec.origin)]) if spec else ():
            if os.path.realpath(os.path.dirname(place) or place) != str(file.parent):
                raise OwnCodeError(
                    f"{path} and {place} are both the module {name}, and Python knows one module "
                    "of a name: rename one of them, or run them apart"
                )


def _tree(file: Path) -> dict[Path, bytes]:
    """A file and the files of its folder that it imports, with their contents."""
    tree: dict[Path, bytes] = {}
    _gather(file, file.parent, tree)
    return tree


def _gather(file: Path, folder: Path, tree: dict[Path, bytes]) -> None:
    if file in tree:
        return
    try:
        tree[file] = content = read_regular(file, most=_LONGEST)
        parsed = ast.parse(content)
    except OSError as error:
        raise OwnCodeError(f"{file} cannot be read as Python: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OwnCodeError(f"{file} cannot be read as Python: {error}") from error
    for module in _imported(parsed, file.parent.relative_to(folder)):
        place = folder.joinpath(*module)
        for candidate in (place.with_suffix(".py"), place / "__init__.py"):
            if module and module[0] not in OURS and os.path.isfile(candidate):
                _gather(candidate, folder, tree)


def _imported(tree: ast.AST, package: Path) -> Iterator[tuple[str, ...]]:
    """Imported names that may be modules of the folder, each as the parts of a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = tuple(alias.name.split("."))
                yield from (parts[: i + 1] for i in range(len(parts)))
        elif isinstance(node, ast.ImportFrom):
            up = package.parts[: len(package.parts) - node.level + 1] if node.level else ()
            base = (*up, *(node.module.split(".") if node.module else ()))
            yield from (base[: i + 1] for i in range(len(base)))
            yield from ((*base, alias.name) for alias in node.names)
