"""Which actions are possible, found by joining the facts that hold.

A list of all groundings grows with the power of an action's parameters. Here the parameters take
their values from facts, the rarest first, as in a join of tables.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

Fact: TypeAlias = tuple[str, ...]
"""A predicate and its arguments."""

Term: TypeAlias = int | str
"""An argument: the number of an action's parameter, or the name of an object."""

Atom: TypeAlias = tuple[str, tuple[Term, ...]]
"""A predicate and its arguments."""


class Facts:
    """Facts that hold, by their predicate and by each of their arguments.

    Args:
        facts: of some predicates.
        lasting: facts of other predicates.
    """

    def __init__(self, facts: Iterable[Fact], lasting: Facts | None = None) -> None:
        self._lasting = lasting
        self._found: dict[tuple[str, int, str], dict[Fact, None]] = defaultdict(dict)
        for fact in facts:
            for place, value in enumerate(fact):
                self._found[fact[0], place, value][fact] = None

    def like(self, atom: Atom, bound: Sequence[str | None]) -> Mapping[Fact, None]:
        """The fewest facts among which are all that an atom can be."""
        predicate, terms = atom
        values = (predicate, *(bound[term] if isinstance(term, int) else term for term in terms))
        return min(
            (self._of(predicate, place, value) for place, value in enumerate(values) if value),
            key=len,
        )

    def _of(self, predicate: str, place: int, value: str) -> Mapping[Fact, None]:
        found = self._found.get((predicate, place, value))
        if found is None:
            return {} if self._lasting is None else self._lasting._of(predicate, place, value)
        return found


@dataclass(frozen=True, slots=True)
class Schema:
    """An action without its arguments.

    Attributes:
        name: of the action.
        domains: parameter -> the objects of its type, with their place in the problem.
        present: the preconditions that are joined: facts that have to hold.
        others: the other preconditions, expressions of unified-planning.
        may_conflict: whether its effects can contradict each other.
    """

    name: str
    domains: Mapping[str, Mapping[str, int]]
    present: tuple[Atom, ...]
    others: tuple[Any, ...]
    may_conflict: bool

    def about(self, predicates: Collection[str]) -> Schema:
        """The schema with only those preconditions that are about some predicates."""
        return replace(self, present=tuple(one for one in self.present if one[0] in predicates))

    def matches(self, facts: Facts) -> Iterator[tuple[str, ...]]:
        """The arguments with which the joined preconditions hold, each once, in any order."""
        return self._joined(facts, self.present, (None,) * len(self.domains))

    def _joined(
        self, facts: Facts, atoms: tuple[Atom, ...], bound: tuple[str | None, ...]
    ) -> Iterator[tuple[str, ...]]:
        if not atoms:
            pairs = zip(bound, self.domains.values(), strict=True)
            yield from product(*(tuple(all_) if one is None else (one,) for one, all_ in pairs))
            return
        likes = [facts.like(atom, bound) for atom in atoms]
        rarest = min(range(len(atoms)), key=lambda number: len(likes[number]))
        others = (*atoms[:rarest], *atoms[rarest + 1 :])
        for fact in likes[rarest]:
            extended = self._extended(atoms[rarest], fact, bound)
            if extended is not None:
                yield from self._joined(facts, others, extended)

    def _extended(
        self, atom: Atom, fact: Fact, bound: tuple[str | None, ...]
    ) -> tuple[str | None, ...] | None:
        """The values of the parameters if an atom is this fact; None if it cannot be."""
        extended, domains = list(bound), tuple(self.domains.values())
        for term, value in zip(atom[1], fact[1:], strict=True):
            known = term if isinstance(term, str) else extended[term]
            if known is None and isinstance(term, int) and value in domains[term]:
                extended[term] = value
            elif known != value:
                return None
        return tuple(extended)

    def place(self, arguments: tuple[str, ...]) -> tuple[int, ...]:
        """By which arguments are sorted: the places of the objects in the problem."""
        pairs = zip(self.domains.values(), arguments, strict=True)
        return tuple(domain[argument] for domain, argument in pairs)
