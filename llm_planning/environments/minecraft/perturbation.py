"""Rules that contradict what is known of the game (XENON, Section 5.4, Appendix J.4.3, Figure 21).

What is not in the paper and is decided here: which goals are hit (the crafted among `PRIOR_GOALS`,
in an order drawn by the seed), that both kinds of perturbation hit the same items, and that a new
requirement is used up even if it takes the place of a station, so that it is seen to leave the
inventory.

Nor does the paper say what is in the pool of new requirements, the blue dashed box of Figure 21.
By default these are resources: what is used up on the way to the goals that prior knowledge can
obtain. Its own results leave little else: ADAM, which never requires anything but resources,
re-learns 0.83 of seven changed requirements (Table 16), and DECKARD, which proposes nothing new,
0.49. With the wider pool, `required`, a stick may need a chest or a pickaxe a furnace, which no
agent of the paper can propose as long as nothing has used one up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.goals import GOALS_67, PRIOR_GOALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.rulebook import Rule, RuleBook

Pool: TypeAlias = Literal["resources", "required"]

ITEMS_HIT: Final = (0, 2, 5, 7)
"""Level -> how many goals it hits; Table 4 counts the others of the 16: 16, 14, 11 and 9.

What is built on a goal that is hit is not obtained by prior knowledge any more, either.
"""

_OTHER_ACTIONS = ("mine", "smelt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """A rule book with arbitrary changes.

    Attributes:
        book: the rules that hold.
        requirements: the items that need something else, in the order they were hit.
        actions: the items that another action obtains, in the same order.
    """

    book: RuleBook
    requirements: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def items(self) -> tuple[str, ...]:
        """All items that were hit, in order: what an agent is told that rules changed (K.6)."""
        return max(self.requirements, self.actions, key=len)


def perturb(
    book: RuleBook,
    *,
    requirements: int = 0,
    actions: int = 0,
    pool: Pool = "resources",
    seed: int = 0,
) -> Perturbed:
    """Changes the rules of a few goals that prior knowledge would obtain.

    Levels are cumulative: with one seed, a level changes all that the levels below it change, and
    in the same way. In a changed requirement, one required item is replaced, in the same quantity,
    by one drawn uniformly from those of the pool that are of the goal's tier or below, that the
    goal does not need yet and that do not need the goal. A changed action is mine or smelt instead
    of craft.

    Args:
        book: the rules of the game; with all 67 goals.
        requirements: level 0 to 3 of changed requirements.
        actions: level 0 to 3 of changed actions.
        pool: "resources", what the unperturbed rules use up on the way to `PRIOR_GOALS`; or
            "required", whatever one of the 67 goals needs.
        seed: of all that is drawn.

    Returns:
        The changed rules and what was hit.

    Raises:
        ValueError: a level is not 0, 1, 2 or 3.
        UnknownItemError: a goal is not in the book.
    """
    candidates = [goal for goal in PRIOR_GOALS if book.rule(goal).action == "craft"]
    order = random.Random(f"{seed}:items").sample(candidates, k=ITEMS_HIT[-1])
    hit = _hit(order, requirements), _hit(order, actions)
    changed = book
    wanted = _resources(book) if pool == "resources" else _required(book)
    draws = random.Random(f"{seed}:requirements")
    for goal in hit[0]:
        changed = changed.replaced([_needs_another(goal, book, changed, wanted, draws)])
    draws = random.Random(f"{seed}:actions")
    changed = changed.replaced(
        replace(changed.rule(goal), action=draws.choice(_OTHER_ACTIONS)) for goal in hit[1]
    )
    return Perturbed(book=changed, requirements=hit[0], actions=hit[1])


def _hit(order: Sequence[str], level: int) -> tuple[str, ...]:
    if level not in range(len(ITEMS_HIT)):
        raise ValueError(f"there is no perturbation level {level}; levels: 0, 1, 2, 3")
    return tuple(order[: ITEMS_HIT[level]])


def _resources(book: RuleBook) -> set[str]:
    return {item for v in book.closure(PRIOR_GOALS) for item in book.rule(v).consumed}


def _required(book: RuleBook) -> set[str]:
    return {item for goal in GOALS_67 for item in book.requirements(goal)}


def _needs_another(
    goal: str, book: RuleBook, changed: RuleBook, wanted: set[str], draws: random.Random
) -> Rule:
    """The goal's rule with one requirement replaced.

    Args:
        goal: the item that is hit.
        book: the rules of the game, which say what tier an item is of.
        changed: the rules as changed so far, which say what would be a cycle.
        wanted: the pool.
        draws: the source of chance.
    """
    rule = changed.rule(goal)
    pool = sorted(
        item
        for item in wanted
        if book.tier(item) <= book.tier(goal)
        and item not in rule.requirements
        and goal not in changed.closure([item])
    )
    old = draws.choice(sorted(rule.requirements))
    new = draws.choice(pool)
    return replace(
        rule,
        consumed={
            **{item: count for item, count in rule.consumed.items() if item != old},
            new: rule.requirements[old],
        },
        kept={item: count for item, count in rule.kept.items() if item != old},
    )
