"""The files of problems in PDDL, read by unified-planning; what cannot be read is refused."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from pathlib import Path
from typing import Any, Final

from llm_base.files import at_home, read_regular
from llm_base.quoting import printable
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl_words import conjuncts
from llm_planning.names import by_number

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
    found = {file.stem: file for file in place.glob("*.pddl") if not file.samefile(of_domain)}
    if not found:
        raise DomainError(
            f"problem={printable(problem)} has no file *.pddl beside the domain: add one"
        )
    return {name: found[name] for name in sorted(found, key=by_number)}


def _read_text(key: str, path: Path) -> str:
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


_UNKNOWN: Final = {
    "(either": "types that are one of several",
    "(:derived": "derived predicates",
    "probabilistic": "effects by chance",
}
"""What is in files of PDDL and cannot be read: how it is written -> what it is."""


def read_model(domain: Path, problem: Path) -> Any:
    """The problem of two files, as unified-planning has it.

    Raises:
        DomainError: a file cannot be read, or the problem is not classical.
    """
    from unified_planning.engines.sequential_simulator import UPSequentialSimulator
    from unified_planning.environment import get_environment
    from unified_planning.io import PDDLReader

    get_environment().credits_stream = None
    # An action may be called as a predicate is.
    get_environment().error_used_name = False
    warnings.filterwarnings("ignore", category=UserWarning, module="unified_planning")
    texts = [_read_text("domain", domain), _goal_last(_read_text("problem", problem))]
    try:
        model = PDDLReader().parse_problem_string(*texts)
    except Exception as error:
        try:
            PDDLReader().parse_problem_string(texts[0])
        except Exception as first:
            raise _unreadable("domain", domain, texts[0], first) from first
        raise _unreadable("problem", problem, texts[1], error) from error
    known = UPSequentialSimulator.supported_kind().features - {"OBJECT_FLUENTS", "STATE_INVARIANTS"}
    beyond = model.kind.features - known - {"UNDEFINED_INITIAL_NUMERIC"}
    if beyond:
        words = ", ".join(sorted(feature.lower().replace("_", " ") for feature in beyond))
        raise DomainError(f"domain={domain} is not classical, it has {words}: name another one")
    if not conjuncts(model.goals):
        raise DomainError(f"problem={problem} has no goal: add conditions to its (:goal ...)")
    if model.environment.expression_manager.And(model.goals).simplify().is_false():
        raise DomainError(f"problem={problem} has a goal that contradicts itself: no plan exists")
    return model


def _goal_last(text: str) -> str:
    """The text of a problem whose goal does not come before its start, as it does in old files."""
    plain = re.sub(r";.*", "", text).lower()
    first, start = plain.find("(:goal"), plain.find("(:init")
    if not 0 <= first < start:
        return text
    depth, end = 0, first
    for end in range(first, start):
        depth += {"(": 1, ")": -1}.get(plain[end], 0)
        if not depth:
            break
    last = plain.rfind(")")
    return plain[:first] + plain[end + 1 : last] + plain[first : end + 1] + plain[last:]


def _unreadable(key: str, path: Path, text: str, error: Exception) -> DomainError:
    why = printable(str(error).strip().partition("\n")[0]) or type(error).__name__
    for sign, meaning in _UNKNOWN.items():
        if sign in text.lower():
            why = f"unified-planning does not know {meaning}, written {sign}"
    return DomainError(f"{key}={path} is not read as PDDL: {why}")
