"""A user's own planners and domains: FILE.py:NAME, run from the file, identified by its content.

Looking up such a name runs the file. Only commands that run planners do that, and only with names
that the user wrote on the command line or trusts in the file of a sweep.

Modules that the file imports from its own folder belong to it: they are run and hashed with it, and
come before installed modules of the same name, as if Python had been started with the file. The
`import` statements show which they are. Modules from outside the folder are not hashed, nor are
those that `importlib` imports, which finds the folder only while the file runs.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import itertools
import os
import re
import sys
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_base.files import read_regular
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import ModuleType

_NAME = re.compile(r"(?P<file>.+\.py):(?P<member>[A-Za-z_]\w*)")

# These packages never belong to a user's file, even one in the root of this project's sources.
_OURS = frozenset({"llm_planning", "llm_serving", "llm_kernels", "llm_base"})


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


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """The object that a name of the form FILE.py:NAME refers to, and its origin."""

    found: Any
    source: CodeSource


def told_of(error: BaseException) -> str:
    """The type of an error of a user's own code, with its message unless that fails itself."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def is_own(name: str) -> bool:
    """Whether a name has the form FILE.py:NAME."""
    return _NAME.fullmatch(name) is not None


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
    return None if file is None else CodeSource(str(file), source_hash(file))


def load_own(name: str) -> LoadedCode | None:
    """Runs the file of a name and returns the member; None for a name of another form.

    A file is run again if it, or a module that it imports from its folder, has changed.

    Raises:
        OwnCodeError: the file is missing, fails or has no such member.
    """
    match, file = _NAME.fullmatch(name), code_file(name)
    if match is None or file is None:
        return None
    tree = _tree(file)
    members = vars(_run(file, tree))
    if match["member"] not in members:
        public = [one for one in members if not one.startswith("_")]
        raise OwnCodeError(
            f"{name}: {file.name} has no such name; {remedy(match['member'], public)}"
        )
    return LoadedCode(members[match["member"]], CodeSource(str(file), _digest(file, tree)))


def source_hash(file: Path) -> str:
    """SHA-256 of a file and of what it imports from its folder, in hexadecimal.

    Raises:
        OwnCodeError: a file cannot be read, or is no Python.
    """
    return _digest(file, _tree(file))


def _digest(file: Path, tree: Mapping[Path, bytes]) -> str:
    digest = hashlib.sha256()
    named = ((str(one.relative_to(file.parent)), content) for one, content in tree.items())
    for name, content in sorted(named):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


class _Folder(MetaPathFinder, Loader):
    """The modules of a user's folder as a package of their own, run from the hashed contents.

    Only these modules find each other by name, at any time and before other modules of that name.
    So two folders may have modules of the same name, also that of an installed one.

    Attributes:
        package: the package's name, unique to this folder with these contents.
        trees: file of a name -> the files that belong to it, with their contents.
    """

    _numbers = itertools.count()

    def __init__(self, path: Path) -> None:
        self.package = f"_own_{next(self._numbers)}"
        self.trees: dict[Path, Mapping[Path, bytes]] = {}
        self._path = path
        self._contents: dict[Path, bytes] = {}
        self._first: set[str] = set()
        self._builtins = {**vars(builtins), "__import__": self._import}
        sys.meta_path.insert(0, self)

    def add(self, file: Path, tree: Mapping[Path, bytes]) -> None:
        """Adds the file of a name, and the files that belong to it."""
        self.trees[file] = tree
        self._contents |= tree
        places = (one.relative_to(self._path) for one in tree)
        self._first |= {place.parts[0].removesuffix(".py") for place in places}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002 - the package's own is known
        target: ModuleType | None = None,  # noqa: ARG002 - nothing is reloaded
    ) -> ModuleSpec | None:
        """Finds a module of the package, as Python finds modules in a folder."""
        package, *parts = fullname.split(".")
        if package != self.package:
            return None
        place = self._path.joinpath(*parts)
        inside, beside = place / "__init__.py", place.parent / f"{place.name}.py"
        if parts and inside in self._contents:
            return spec_from_file_location(
                fullname, inside, loader=self, submodule_search_locations=[str(place)]
            )
        if parts and beside in self._contents:
            return spec_from_file_location(fullname, beside, loader=self)
        if not os.path.isdir(place):
            return None
        spec = ModuleSpec(fullname, self, is_package=True)
        spec.submodule_search_locations = [str(place)]
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module; a module without a file is a folder."""
        file = getattr(module, "__file__", None)
        if file is None:
            return
        vars(module)["__builtins__"] = self._builtins
        code = compile(self._contents[Path(file)], file, "exec", dont_inherit=True)
        # For compiled modules and importlib. Last, so that imports of other modules do not change.
        folder = str(self._path)
        if added := folder not in sys.path:
            sys.path.append(folder)
        try:
            exec(code, vars(module))
        finally:
            if added and folder in sys.path:
                sys.path.remove(folder)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as Python calls it
        locals: Mapping[str, object] | None = None,  # noqa: A002 - likewise
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Imports a module for an `import` statement of these modules."""
        first = name.partition(".")[0]
        if level or first not in self._first:
            return __import__(name, globals, locals, fromlist or (), level)
        found = __import__(f"{self.package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self.package}.{first}"]


_folders: dict[Path, _Folder] = {}


def _run(file: Path, tree: Mapping[Path, bytes]) -> ModuleType:
    """The module of a file, run once as long as no file that was run in its folder changes."""
    folder = _folders.get(file.parent)
    if folder is None or not all(_is_still(*one) for one in folder.trees.items()):
        folder = _folders[file.parent] = _Folder(file.parent)
    folder.add(file, tree)
    name = f"{folder.package}.{file.stem}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file, loader=folder)
    if spec is None:
        raise OwnCodeError(f"{file} is no Python file")
    # Dataclasses and pickle look up the module of a class by its name.
    sys.modules[name] = module = module_from_spec(spec)
    try:
        folder.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise OwnCodeError(f"{file} fails: {told_of(error)}") from error
    return module


def _is_still(file: Path, tree: Mapping[Path, bytes]) -> bool:
    try:
        return _tree(file) == tree
    except OwnCodeError:
        return False


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
            if module and module[0] not in _OURS and os.path.isfile(candidate):
                _gather(candidate, folder, tree)


def _imported(tree: ast.AST, package: Path) -> Iterator[tuple[str, ...]]:
    """Imported names that may be modules of the folder, each as the parts of a path."""
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
