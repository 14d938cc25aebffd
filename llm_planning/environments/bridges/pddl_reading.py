"""Files of PDDL, read by unified-planning; what it cannot read or simulate is refused in a line."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, Final

from unified_planning.engines.sequential_simulator import UPSequentialSimulator
from unified_planning.environment import get_environment
from unified_planning.io import PDDLReader

from llm_base.quoting import printable
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl_files import read_text
from llm_planning.environments.bridges.pddl_words import conjuncts

if TYPE_CHECKING:
    from pathlib import Path

# The simulator knows the global environment only. An action may be called as a predicate is, and
# a function may be without a value.
get_environment().credits_stream = None
get_environment().error_used_name = False
warnings.filterwarnings("ignore", category=UserWarning, module="unified_planning")

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
    texts = [read_text("domain", domain), _goal_last(read_text("problem", problem))]
    try:
        model = _parsed(*texts)
    except Exception as error:
        try:
            _parsed(texts[0])
        except Exception as first:
            raise _unreadable("domain", domain, texts[0], first) from first
        raise _unreadable("problem", problem, texts[1], error) from error
    known = UPSequentialSimulator.supported_kind().features - {"OBJECT_FLUENTS", "STATE_INVARIANTS"}
    beyond = model.kind.features - known - {"UNDEFINED_INITIAL_NUMERIC"}
    if beyond:
        words = ", ".join(sorted(one.lower().replace("_", " ") for one in beyond))
        raise DomainError(f"domain={domain} is not classical, it has {words}: name another one")
    if not conjuncts(model.goals):
        raise DomainError(f"problem={problem} has no goal: add conditions to its (:goal ...)")
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


def _parsed(*texts: str) -> Any:
    return PDDLReader().parse_problem_string(*texts)


def _unreadable(key: str, path: Path, text: str, error: Exception) -> DomainError:
    why = printable(str(error).strip().partition("\n")[0]) or type(error).__name__
    for sign, meaning in _UNKNOWN.items():
        if sign in text.lower():
            why = f"unified-planning does not know {meaning}, written {sign}"
    return DomainError(f"{key}={path} is not read as PDDL: {why}")
