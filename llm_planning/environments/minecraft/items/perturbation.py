"""Rules that contradict what is known of the game (XENON, Section 5.4, Appendix J.4.3, Figure 21).

The paper leaves three things open, which are decided here. The goals that are perturbed are the
crafted ones of `PRIOR_GOALS`, in an order drawn with the seed. Both kinds of perturbation change
the same items. A new requirement is used up even if it replaces a station, so that it is observed
to leave the inventory.

The paper does not list the pool of new requirements either, the blue dashed box of Figure 21. By
default the pool is the resources: the materials used up on the way to the goals that prior
knowledge can obtain. The paper's own results leave little else: ADAM, which never requires anything
but resources, re-learns 0.83 of seven changed requirements (Table 16), and DECKARD, which proposes
nothing new, 0.49. With the wider pool, `required`, a stick may need a chest or a pickaxe a furnace.
No agent of the paper can propose these before some action has used one up.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.environments.minecraft.items.goals import GOALS_67, PRIOR_GOALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.book.rulebook import ItemRule, RuleBook

Pool: TypeAlias = Literal["resources", "required"]

ITEMS_HIT: Final = (0, 2, 5, 7)
"""Level -> number of perturbed goals; Table 4 counts the rest of the 16: 16, 14, 11 and 9.

Prior knowledge no longer obtains what is built on a perturbed goal, either.
"""

_OTHER_ACTIONS = ("mine", "smelt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbed:
    """A rule book with arbitrary changes.

    Attributes:
        book: the changed rules.
        requirements: the items with a changed requirement, in the order of the perturbation.
        actions: the items with a changed action, in the same order.
    """

    book: RuleBook
    requirements: tuple[str, ...]
    actions: tuple[str, ...]

    @property
    def items(self) -> tuple[str, ...]:
        """All perturbed items, in order; an agent is told that their rules changed (K.6)."""
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

    Levels are cumulative: with one seed, a level makes all changes of the levels below it. A
    changed requirement replaces one required item, in the same quantity, by an item drawn uniformly
    from the pool. The new item has the goal's tier or a lower one, is not required by the goal
    already, and does not need the goal. A changed action is mine or smelt instead of craft.

    Args:
        book: the rules of the game; with all 67 goals.
        requirements: level 0 to 3 of changed requirements.
        actions: level 0 to 3 of changed actions.
        pool: "resources" for the materials that the unperturbed rules use up on the way to
            `PRIOR_GOALS`, "required" for everything that one of the 67 goals needs.

    Raises:
        ValueError: a level is not 0, 1, 2 or 3.
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
) -> ItemRule:
    """The goal's rule with one requirement replaced.

    Args:
        book: the rules of the game, which give the tiers.
        changed: the rules as changed so far, which show what would be a cycle.
        wanted: the pool.
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
