"""What a story says of itself in words: how it ended, and how many points it gave.

Jericho reads the ending and the score of a story at addresses and by texts that it knows of one
release. It knows nothing of other stories, and calls two games lost that print that they are won.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from llm_planning.environments.textgame.game import Ending

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Infocom's and Inform's last words stand between stars on a line of their own.
_STARRED = re.compile(r"^[^\S\n]*\*{3,}[^\S\n]*(\S.*?)[^\S\n]*\*{3,}[^\S\n]*$", re.MULTILINE)
_WON = re.compile(r"\byou(?:'ve| have)?(?: both| all)? (?:won|win)\b|\bvictory\b", re.IGNORECASE)
_LOST = re.compile(r"\b(?:died|dead|killed|lost|lose|failed|perished)\b", re.IGNORECASE)

_LAST_QUESTION = re.compile(
    r"\b(?:would (?:you|i) like to|do you (?:want|wish) to|type|time for \w+ to)\s+restart\b"
    r".{1,200}\b(?:restore|quit|end)\b",
    re.IGNORECASE | re.DOTALL,
)
_QUESTION_LENGTH = 600
"""The last question stands in so many characters at the end of an answer."""

_POINTS = re.compile(
    r"\bscored? (?:\w+ ){0,3}?(-?\d+)(?: points?)?"
    r"(?:,? ?\(?(?:out of|total of)(?: an?)?(?: possible| maximum)?(?: of)? (\d+))?",
    re.IGNORECASE,
)

_GLOBALS, _FLAGS = 0x0C, 0x01
_COUNTS_TIME = 0x02


class Points(NamedTuple):
    """Points as a story tells them.

    Attributes:
        most: the highest possible score; 0 if the story does not say.
    """

    score: int
    most: int


def printed_ending(words: str) -> Ending | None:
    """How a game ended, by what stands between stars; None if that says neither or both."""
    last = " ".join(_STARRED.findall(words))
    won, lost = bool(_WON.search(last)), bool(_LOST.search(last))
    if won == lost:
        return None
    return Ending.VICTORY if won else Ending.FAILURE


def asks_what_now(words: str) -> bool:
    """Whether a story asks its last question: to restart, to restore or to quit."""
    return _LAST_QUESTION.search(words[-_QUESTION_LENGTH:]) is not None


def points_in(words: str) -> Points | None:
    """The points in an answer to `score`, or in last words; None if there are none.

    Example:
        >>> from llm_planning.environments.textgame.story_verdicts import points_in
        >>> points_in("You have so far scored 2 out of a possible 5, in 3 turns.")
        Points(score=2, most=5)
        >>> points_in("Your score is 10 (total of 350 points), in 7 moves.")
        Points(score=10, most=350)
    """
    found = _POINTS.search(" ".join(words.split()))
    return Points(int(found[1]), int(found[2] or 0)) if found else None


def status_score(memory: NDArray[np.uint8]) -> int | None:
    """The score of the status line, which a story of version 3 keeps in its second variable.

    Source: the Z-Machine Standards Document 1.1, 8.2.3 and 11.1.

    Args:
        memory: uint8, [bytes of dynamic memory].

    Returns:
        None for other versions, and for a status line that tells the time.
    """
    if memory[0] > 3 or memory[_FLAGS] & _COUNTS_TIME:
        return None
    at = int.from_bytes(memory[_GLOBALS : _GLOBALS + 2].tobytes()) + 2
    return int.from_bytes(memory[at : at + 2].tobytes(), signed=True)
