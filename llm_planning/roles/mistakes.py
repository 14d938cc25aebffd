"""Mistakes in a plan, item by item: an action is left out, or another one is written instead.

The domain says what may be written instead (`domain.Errs`): in Blocksworld another block or
another verb, in Minecraft another item, verb or quantity. Rates are then comparable: a subtask of a
decomposition, an action of a whole plan and a single next action err in the same ways.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from llm_base.quoting import quote
from llm_planning.domain import A, Errs
from llm_planning.names import remedy
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.roles.oracles import Key

DROPPED = "dropped"
"""The kind of mistake that leaves an action out."""


class Mistakes(Generic[A]):
    """The mistakes in a domain.

    Args:
        domain: with `mistakes`; without it, actions are only left out.
        kinds: the kinds that are made; all of the domain's if there are none.
    """

    def __init__(self, domain: Any, kinds: Sequence[str] = ()) -> None:  # noqa: ANN401
        self._domain = domain
        self._kinds = kinds

    def of(self, action: A) -> Mapping[str, Sequence[A]]:
        """Maps each kind to what is written instead; nothing for `DROPPED`.

        Raises:
            SettingsError: the domain does not know one of the kinds.
        """
        known: dict[str, Sequence[A]] = {DROPPED: ()}
        if isinstance(self._domain, Errs):
            known |= self._domain.mistakes(action)
        for kind in self._kinds:
            if kind not in known:
                raise SettingsError(
                    f"mistakes: this domain makes no mistakes of the kind {quote(kind)}; "
                    f"{remedy(kind, known)}"
                )
        return {kind: known[kind] for kind in self._kinds or known}

    def replace(self, action: A, rng: Random) -> A | None:
        """Draws a kind, then what is written instead of an action; None if it is left out."""
        kinds = self.of(action)
        written = kinds[rng.choice(tuple(kinds))]
        return rng.choice(written) if written else None

    def in_plan(self, plan: Sequence[A], name: Key, rng: Random) -> list[A]:
        """A plan with a mistake in the first action that reads so.

        Args:
            name: the text of one of them.
        """
        mistaken = list(plan)
        place = next((i for i, action in enumerate(mistaken) if str(action) == name), None)
        if place is not None:
            other = self.replace(mistaken[place], rng)
            mistaken[place : place + 1] = [] if other is None else [other]
        return mistaken

    def anywhere(self, plan: Sequence[A], rng: Random) -> list[A] | None:
        """A plan with a mistake in one of its actions; None if it has none."""
        return self.in_plan(plan, str(rng.choice(plan)), rng) if plan else None


def names_of(plan: Sequence[object]) -> tuple[str, ...]:
    """The texts of a plan's actions, each once: the names of its items."""
    return tuple(dict.fromkeys(map(str, plan)))
