"""Goal selectors: DEX and those that it is compared with (XENON, Appendix G)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from llm_planning.planners.xenon.knowledge import Knowledge


SelectGoal: TypeAlias = "Callable[[Knowledge, Random], str | None]"
"""Chooses the next goal v_g; None when nothing is left to try."""


def frontier(known: Knowledge) -> list[str]:
    """Returns F: the items not yet obtained whose requirements in Ĝ are all obtained."""
    return [
        v
        for v in known.graph.items
        if v not in known.obtained and known.graph.requirements(v).keys() <= known.obtained
    ]


def dex(known: Knowledge, rng: Random) -> str | None:
    """Difficulty-based exploration: chooses the easiest item of the least explored frontier.

    F_min are the items of F with the smallest exploration count, C(f) in the paper. The difficulty
    D(f) = L_f counts the distinct items needed to obtain f according to Ĝ, including f. Ties are
    broken uniformly.
    """
    return _easiest(frontier(known), known, rng, explored=known.exploration_count)


def dex_of_unrefuted(c0: int) -> SelectGoal:
    """Returns DEX among the items whose requirements are not refuted, if there are any (XENON+).

    An item whose belief was withdrawn counts as explored 2 c_0 times more: what is proposed instead
    is less likely than the old belief, which may come back.
    """

    def select(known: Knowledge, rng: Random) -> str | None:
        f, refutations = frontier(known), known.refutations
        possible = [v for v in f if not refutations.refutes(v, known.graph.requirements(v))]
        return _easiest(
            possible or f,
            known,
            rng,
            explored=lambda v: known.exploration_count(v) + 2 * c0 * (v in refutations.withdrawn),
        )

    return select


def unobtained(known: Knowledge, rng: Random) -> str | None:
    """Chooses any item not obtained yet, uniformly (SC, ADAM, RAND; Appendix J.1)."""
    return _any([v for v in known.graph.items if v not in known.obtained], rng)


def less_explored_frontier(c0: int) -> SelectGoal:
    """DECKARD: chooses any of {v in F | C(v) <= c_0}, or else any obtained or frontier item."""

    def select(known: Knowledge, rng: Random) -> str | None:
        f = frontier(known)
        fresh = [v for v in f if known.exploration_count(v) <= c0]
        return _any(fresh or sorted({*known.obtained, *f}), rng)

    return select


def least_attempted(missing: Callable[[], list[str]]) -> SelectGoal:
    """Chooses one of the missing items with the fewest attempts (Appendix K.8).

    Args:
        missing: returns the items not yet obtained.
    """

    def select(known: Knowledge, rng: Random) -> str | None:
        items = missing()
        fewest = min((known.attempts.get(v, 0) for v in items), default=0)
        return _any([v for v in items if known.attempts.get(v, 0) == fewest], rng)

    return select


def _easiest(
    f: list[str], known: Knowledge, rng: Random, *, explored: Callable[[str], int]
) -> str | None:
    if not f:
        return None
    fewest = min(map(explored, f))
    f_min = [v for v in f if explored(v) == fewest]
    difficulty = {v: 1 + len(known.graph.ancestors(v)) for v in f_min}
    easiest = min(difficulty.values())
    return rng.choice([v for v in f_min if difficulty[v] == easiest])


def _any(items: list[str], rng: Random) -> str | None:
    return rng.choice(items) if items else None
