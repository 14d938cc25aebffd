"""Draws small faults, puts each into a copy of the project, and says which ones its tests find.

    python scripts/mutants.py --room search --count 25 --seed 0 --json before.json
    python scripts/mutants.py --room search --from before.json --json after.json

The second form takes up the mutants of an earlier run, in this tree or in another (`--tree`), where
their code may have moved: a mutant is known by its function, its line and what it changes.
`--renamed OLD=NEW` helps where a name has changed. `--under` puts words before each run of pytest,
such as `nice -n 10`. What is tested is a copy in a temporary folder; the tree is only read.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOMS = {
    "search": ("llm_planning/search/*.py", "tests/planning/test_search*.py"),
    "scoring": (
        "serving/llm_serving/scoring*.py",
        "tests/serving/test_scoring.py tests/serving/test_vllm_engine.py "
        "tests/serving/test_model_runners.py",
    ),
    "ledger": ("llm_planning/experiments/ledger*.py", "tests/planning/test_ledger*.py"),
    "revision": (
        "llm_planning/planners/xenon/algorithm.py llm_planning/planners/xenon/plus.py "
        "llm_planning/planners/xenon/memory.py llm_planning/planners/xenon/graph.py",
        "tests/planning/test_xenon*.py",
    ),
}
"""Room -> globs of its sources, and of its tests."""

_FLIPS = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.And, ast.Or)),
)
OTHER: dict[type[ast.AST], Any] = {
    **{node: other for pair in _FLIPS for node, other in (pair, pair[::-1])},
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
}
"""Operator -> what takes its place."""

LEFT_OUT = (ast.JoinedStr, ast.AnnAssign, ast.arguments)
"""What holds no mutants: texts have no exact places, annotations do nothing."""


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes:
        function: that holds it, with its classes.
        line: of the source, without its indentation.
        before: the code that is replaced, as `ast` writes it.
        after: what replaces it.
        nth: of those with the same function, line, `before` and `after`.
        kind: of the syntax that changes.
        file: relative to the tree.
        number: of the line in the file.
        begin, end: bytes of the file that are replaced.
    """

    function: str
    line: str
    before: str
    after: str
    nth: int
    kind: str
    file: str
    number: int
    begin: int
    end: int

    def keys(self) -> list[tuple[str, ...]]:
        """What it is known by, the surest first."""
        name = self.function.rpartition(".")[2]
        where = [(self.function, self.line), (name, self.line), (name, ""), ("", self.line)]
        return [(*place, self.before, self.after) for place in [*where, ("", "")]]


def changes(node: ast.AST) -> Iterator[str]:
    """What may stand in a node's place."""
    match node:
        case ast.Compare(left, [first, *more], right) if type(first) in OTHER:
            yield f"({ast.unparse(ast.Compare(left, [OTHER[type(first)](), *more], right))})"
        case ast.BinOp(left, operator, right) if type(operator) in OTHER:
            yield f"({ast.unparse(ast.BinOp(left, OTHER[type(operator)](), right))})"
        case ast.BoolOp(operator, values):
            yield f"({ast.unparse(ast.BoolOp(OTHER[type(operator)](), values))})"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"({ast.unparse(operand)})"
        case ast.Constant(bool(value)):
            yield str(not value)
        case ast.Constant(int() | float() as number):
            yield from (f"({number + 1})", f"({number - 1})")
        case ast.Return(ast.expr() as value) if ast.unparse(value) != "None":
            yield "return None"
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield "pass"
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "pass"
        case ast.Expr(value) if not isinstance(value, ast.Constant):
            yield "pass"


def nodes(node: ast.AST, function: str = "") -> Iterator[tuple[str, Any]]:
    """Every node that may change, with the function that holds it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, LEFT_OUT) or getattr(child, "arg", "") == "strict":
            continue
        inner = function
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}".lstrip(".")
        elif function:  # a module's own statements are tables and imports
            yield function, child
        yield from nodes(child, inner)


def mutants_of(tree: Path, globs: str) -> Iterator[Mutant]:
    """All faults that could be made in the files of a tree, in their order."""
    seen: Counter[tuple[str, ...]] = Counter()
    for path in sorted({path for glob in globs.split() for path in tree.glob(glob)}):
        lines = path.read_bytes().splitlines(keepends=True)
        starts = [0, *accumulate(map(len, lines))]
        for function, node in nodes(ast.parse(b"".join(lines))):
            for after in changes(node):
                line = lines[node.lineno - 1].decode().strip()
                key = (function, line, ast.unparse(node), after)
                seen[key] += 1
                yield Mutant(
                    *key,
                    nth=seen[key] - 1,
                    kind=type(node).__name__,
                    file=path.relative_to(tree).as_posix(),
                    number=node.lineno,
                    begin=starts[node.lineno - 1] + node.col_offset,
                    end=starts[node.end_lineno - 1] + node.end_col_offset,
                )


def draw(here: list[Mutant], count: int, *, seed: int) -> list[Mutant]:
    """Some faults, of each kind equally many as far as there are."""
    drawn: Counter[str] = Counter()
    ranked = []
    for mutant in random.Random(seed).sample(here, len(here)):
        drawn[mutant.kind] += 1
        ranked.append((drawn[mutant.kind], mutant))
    return [mutant for _, mutant in sorted(ranked, key=lambda pair: pair[0])[:count]]


def find(mutant: Mutant, here: list[Mutant]) -> Mutant | None:
    """The same fault in other code; None if there is none, or more than one."""
    for level, key in enumerate(mutant.keys()):
        same = [mutant for mutant in here if mutant.keys()[level] == key]
        if same and (level < 2 or len(same) == 1):
            return same[min(mutant.nth, len(same) - 1)]
    return None


def renamed(mutant: Mutant, names: list[str]) -> Mutant:
    """A mutant in today's names, each `OLD=NEW`."""

    def today(text: str) -> str:
        for old, new in (name.split("=") for name in names):
            text = re.sub(rf"\b{re.escape(old)}\b", new, text)
        return text

    return replace(
        mutant,
        function=today(mutant.function),
        line=today(mutant.line),
        before=today(mutant.before),
        after=today(mutant.after),
    )


class Copy:
    """A copy of a tree with an environment of its own that looks there first."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root = folder / "tree"
        out = (".git", ".venv", ".hypothesis", "__pycache__", ".*_cache")
        shutil.copytree(tree, self.root, ignore=shutil.ignore_patterns(*out))
        venv.create(self.root / ".venv", symlinks=True)
        theirs = tree / ".venv" if (tree / ".venv").exists() else Path(sys.prefix)
        library = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
        first = [str(self.root / layer) for layer in ("", "base", "kernels", "serving")]
        rest = f"import site; site.addsitedir({str(theirs / library)!r})"
        (self.root / ".venv" / library / "copy.pth").write_text("\n".join([*first, rest]))
        if (theirs / "vision").exists():
            (self.root / ".venv" / "vision").symlink_to(theirs / "vision")

    def test(self, under: str, words: list[str], *, limit: float) -> tuple[bool, str]:
        """Whether the tests pass, and the last line they say."""
        # What `under` waits for does not count.
        within = ["timeout", "--foreground", "--signal=KILL", str(limit)]
        python = str(self.root / ".venv" / "bin" / "python")
        with subprocess.Popen(
            [*shlex.split(under), *within, python, "-m", "pytest", *words],
            cwd=self.root,
            # A path of the caller's would stand before the copy.
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                lines = process.communicate()[0].strip().splitlines()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        return process.returncode == 0, (failed or lines or ["nothing was said"])[-1]

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Has the fault in the copy for a while."""
        path = self.root / mutant.file
        source = path.read_bytes()
        path.write_bytes(source[: mutant.begin] + mutant.after.encode() + source[mutant.end :])
        try:
            yield
        finally:
            path.write_bytes(source)


def main() -> int:
    """Returns 1 if the tests fail without a mutant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--room", required=True, choices=ROOMS)
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", dest="earlier", type=Path, help="JSON of an earlier run")
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--json", type=Path, help="writes what came of each mutant")
    parser.add_argument("--under", default="", help="words before each run of pytest")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tree = options.tree.resolve()
    sources, tests = ROOMS[options.room]
    here = list(mutants_of(tree, sources))
    drawn: list[tuple[Mutant, Mutant | None]]
    if options.earlier is None:
        drawn = [(mutant, mutant) for mutant in draw(here, options.count, seed=options.seed)]
    else:
        rows = json.loads(options.earlier.read_text())["mutants"]
        before = [Mutant(**{name: row[name] for name in Mutant.__annotations__}) for row in rows]
        drawn = [(mutant, find(renamed(mutant, options.renamed), here)) for mutant in before]
    files = [str(path.relative_to(tree)) for glob in tests.split() for path in tree.glob(glob)]
    words = ["-x", "-q", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    words += files
    results: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Copy(tree, Path(folder))
        begun = time.monotonic()
        passed, output = copy.test(options.under, words, limit=3600)
        limit = 4 * (time.monotonic() - begun) + 30
        print(f"{options.room}: {len(here)} possible; without any: {output}", flush=True)
        if not passed:
            return 1
        for mutant, found in drawn:
            outcome, output = "lost", "not in this tree, or not once"
            if found is not None:
                with copy.mutated(found):
                    survived, output = copy.test(options.under, words, limit=limit)
                outcome = "survived" if survived else "killed"
            results.append({**asdict(found or mutant), "outcome": outcome, "said": output})
            place = f"{(found or mutant).file}:{(found or mutant).number}"
            print(f"{outcome:8} {place}  {mutant.before!r} -> {mutant.after!r}", flush=True)
            if options.json:
                report = {"room": options.room, "mutants": results}
                options.json.write_text(json.dumps(report, indent=1) + "\n")
    counts = Counter(result["outcome"] for result in results)
    print(*(f"{counts[outcome]} {outcome}" for outcome in ("killed", "survived", "lost")), sep=", ")
    return 0


if __name__ == "__main__":
    sys.exit(main())
