"""Problems of Blocksworld as PDDL files, as PlanBench and the planning competitions write them.

A file says which blocks there are, how they stand at the start, and what has to hold at the end.
`pddl_text.py` reads its parentheses, `pddl_problem.py` what they say.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llm_base.files import at_home, read_regular
from llm_planning.environments.blocksworld.blocks import goal_text, state_text
from llm_planning.environments.blocksworld.pddl_problem import domain_name, read_problem
from llm_planning.environments.pddl_text import (
    MOST_BYTES,
    PddlError,
    PddlFile,
    read_file,
)
from llm_planning.names import by_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.blocksworld.blocks import Puzzle
    from llm_planning.environments.blocksworld.rules import RuleName
    from llm_planning.environments.pddl_text import Expression

MOST_PROBLEMS: Final = 10_000
"""The most problems of a folder."""


def read_problems(name: str, *, rules: RuleName | None = None) -> Mapping[str, Puzzle | PddlError]:
    """Reads the problems of a file or a folder.

    Args:
        name: a file, or a folder whose files `*.pddl` are read in the order of their numbers. Files
            of a folder that define a domain alone are no problems; they say which operators the
            problems of this domain have.
        rules: by which the problems are planned; None for those of the dialect of each.

    Returns:
        Name of the file -> its problem, or why it has none; at least one.

    Raises:
        PddlError: there is no problem in the folder, or none in the only file.
    """
    files = _files(name)
    if not os.path.isdir(at_home(name)):
        only = read_file(files[0])
        return {only.path.name: read_problem(only, rules=rules, domains={})}
    read = [_file(path) for path in files]
    domains: dict[str, list[list[Expression]]] = defaultdict(list)
    for file in read:
        if isinstance(file, PddlFile) and file.domain is not None:
            domains[domain_name(file.domain)].append(file.domain)
    problems: dict[str, Puzzle | PddlError] = {}
    for path, file in zip(files, read, strict=True):
        if isinstance(file, PddlError):
            problems[path.name] = file
        elif file.problem is not None or file.domain is None:
            try:
                problems[path.name] = read_problem(file, rules=rules, domains=domains)
            except PddlError as error:
                problems[path.name] = error
    if not problems:
        raise PddlError(f"pddl={name} has no problem: name a folder with files *.pddl, or a file")
    return problems


def _file(path: Path) -> PddlFile | PddlError:
    try:
        return read_file(path)
    except PddlError as error:
        return error


def hash_of(name: str) -> str:
    """SHA-256 of the files that `read_problems` reads, with their names; empty if it cannot."""
    hashed = hashlib.sha256()
    try:
        for path in _files(name):
            hashed.update(_hashed(path, alone=not os.path.isdir(at_home(name))))
    except (OSError, ValueError, PddlError):
        return ""
    return hashed.hexdigest()


def _hashed(path: Path, *, alone: bool) -> bytes:
    """What is hashed of a file; one of several that cannot be read has its name only.

    Raises:
        OSError, ValueError: the file is alone and cannot be read.
    """
    try:
        content = read_regular(path, most=MOST_BYTES)
    except (OSError, ValueError):
        if alone:
            raise
        return f"{path.name}\0-\0".encode()
    return f"{path.name}\0{len(content)}\0".encode() + content


def _files(name: str) -> list[Path]:
    place = at_home(name)
    if not os.path.isdir(place):
        return [Path(place)]
    try:
        files = [entry for entry in os.listdir(place) if entry.lower().endswith(".pddl")]
    except OSError as error:
        raise PddlError(f"pddl={name} cannot be read: {error.strerror}") from error
    if len(files) > MOST_PROBLEMS:
        raise PddlError(f"pddl={name} has {len(files)} files, more than {MOST_PROBLEMS}")
    return [Path(place, entry) for entry in sorted(files, key=by_number)]


def write_problem(puzzle: Puzzle) -> str:
    """A problem as the text of a file, which `read_problems` reads.

    Example:
        >>> from llm_planning.environments.blocksworld.blocks import Blocks, Goal, Puzzle
        >>> from llm_planning.environments.blocksworld.pddl import write_problem
        >>> start = Blocks.of({"a": "b", "b": "table"})
        >>> print(write_problem(Puzzle("little", start, Goal((("b", "a"),)))))
        (define (problem blocks-little)
          (:domain blocksworld-4ops)
          (:objects a b)
          (:init (clear a) (on a b) (ontable b) (handempty))
          (:goal (and (on b a))))
        <BLANKLINE>
    """
    return (
        f"(define (problem blocks-{re.sub('[^a-z0-9-]+', '-', puzzle.name.lower())})\n"
        "  (:domain blocksworld-4ops)\n"
        f"  (:objects {' '.join(puzzle.start.names)})\n"
        f"  (:init {state_text(puzzle.start, texts='predicates', hand=True)})\n"
        f"  (:goal (and {goal_text(puzzle.goal, texts='predicates')})))\n"
    )
