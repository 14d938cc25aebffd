"""Description lengths of rearrangement, in bits: what a model and what a policy has to know.

Source: LLM-MCTS, Section 4.2. A home has n things, m containers and surfaces, and k rooms. The
paper gives orders; the constants here are 1. Programs of constant size are not counted.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_planning.environments.household.home import Home


def model_bits(home: Home) -> float:
    """The bits of "located in": n log2(m + k) + m log2(k), thus O((m + n) log(m + k)).

    Each thing is in one of the places and rooms, each place in one of the rooms.

    Example:
        >>> from llm_planning.environments.household.home import bundled_home
        >>> from llm_planning.planners.llm_mcts.analysis.description import model_bits
        >>> round(model_bits(bundled_home("seen")))
        407
    """
    n, m, k = len(home.things), len(home.places), len(home.rooms)
    return n * log2(m + k) + m * log2(k)


def policy_bits(home: Home, *, tasks: int) -> float:
    """The bits of a policy for every composed task: (m n)^N log2(m + k).

    A task is a thing and a place, and its policy a row of actions of bounded length, each of
    log2(m + k) bits.

    Args:
        home: where the tasks are.
        tasks: N, how many are composed.

    Example:
        >>> from llm_planning.environments.household.home import bundled_home
        >>> from llm_planning.planners.llm_mcts.analysis.description import policy_bits
        >>> [round(policy_bits(bundled_home("seen"), tasks=n)) for n in (1, 2)]
        [6347, 9171269]
    """
    n, m, k = len(home.things), len(home.places), len(home.rooms)
    return float(m * n) ** tasks * log2(m + k)
