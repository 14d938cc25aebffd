"""The files of problems in PDDL."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Final

from llm_base.files import at_home, read_regular
from llm_base.quoting import printable
from llm_planning.domain import DomainError

MOST_BYTES: Final = 10_000_000
"""The largest file that is read."""


def problem_files(domain: str, problem: str) -> dict[str, Path]:
    """Name of a problem -> its file, in the order of the numbers in the names.

    Args:
        domain: file of the domain.
        problem: file of the problem, or a folder of problems.

    Raises:
        DomainError: a file is missing, or the folder has no problem.
    """
    for key, name in {"domain": domain, "problem": problem}.items():
        if not name:
            raise DomainError(f"setting {key} is empty: set it to a file of PDDL")
        if not os.path.exists(at_home(name)):
            raise DomainError(f"{key}={printable(name)} does not exist: set it to a file of PDDL")
    place, of_domain = Path(at_home(problem)), Path(at_home(domain))
    if not place.is_dir():
        return {place.stem: place}
    found = {one.stem: one for one in place.glob("*.pddl") if not one.samefile(of_domain)}
    if not found:
        raise DomainError(
            f"problem={printable(problem)} has no file *.pddl beside the domain: add one"
        )
    return {name: found[name] for name in sorted(found, key=_by_number)}


def read_text(key: str, path: Path) -> str:
    """The text of a file.

    Args:
        key: of the setting that names the file.

    Raises:
        DomainError: it cannot be read.
    """
    try:
        return read_regular(path, most=MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DomainError(f"{key}={path} is not UTF-8 text: write it as such") from error
    except OSError as error:
        raise DomainError(f"{key}={path}: {error.strerror}; set it to a file of PDDL") from error


def hash_of(domain: str, problem: str) -> str:
    """SHA-256 of the files that `problem_files` takes; empty if they cannot be read."""
    hashed = hashlib.sha256()
    try:
        for path in (Path(at_home(domain)), *problem_files(domain, problem).values()):
            content = read_regular(path, most=MOST_BYTES)
            hashed.update(f"{path.name}\0{len(content)}\0".encode() + content)
    except (OSError, ValueError):
        return ""
    return hashed.hexdigest()


def _by_number(name: str) -> list[tuple[int, str]]:
    """Sorts p2 before p10."""
    parts = re.split(r"([0-9]+)", name)
    return [(int(part), "") if place % 2 else (0, part) for place, part in enumerate(parts)]
