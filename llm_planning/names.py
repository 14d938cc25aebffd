"""Help with misspelt names: errors that reject a name propose the nearest known ones."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def remedy(name: str, known: Iterable[str]) -> str:
    """Says which known names to write instead of an unknown one.

    Args:
        name: as the user wrote it.
        known: all names.

    Returns:
        The nearest known names as a question, followed by all of them.
    """
    names = sorted(known)
    # Known names that the written one begins with come before names that only look alike.
    begun = [short for short in names if len(short) > 1 and name.startswith(short)]
    alike = get_close_matches(name, names, n=3, cutoff=0.5)
    near = list(dict.fromkeys((*begun, *alike)))
    question = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{question}known: {', '.join(names)}"
