"""What is known of one verb of options, as one record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.environments.minecraft.options.rules import holds
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Mapping, Sequence

    from llm_planning.environments.minecraft.options.option import Option
    from llm_planning.environments.minecraft.options.rules import OptionRules, Recipe
    from llm_planning.environments.minecraft.options.state import Attempt, State

Use: TypeAlias = "Callable[[OptionRules, State, Option], Attempt | str]"
Names: TypeAlias = "Callable[[OptionRules], Collection[str]]"
Gives: TypeAlias = "Callable[[OptionRules, Option], Mapping[str, int]]"
Takes: TypeAlias = "Callable[[OptionRules, Container[str], str], Recipe | None]"
Sources: TypeAlias = "Callable[[OptionRules, str], Sequence[str]]"
There: TypeAlias = "Callable[[State, State, Option], bool]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb of options.

    Attributes:
        use: (rules, state, option) -> the obstacle in words, or an attempt.
        names: rules -> the names that it can be used with in some state.
        gives: (rules, option) -> item -> the least number that the option gives.
        besides: an item that must be held as well for an option to be done; for what comes in
            another way, too.
        there: (state before, state, option) -> whether the result is there, for verbs that give no
            items. Before and after are one state if nothing was begun.
        idle: whether an option that is done already changes nothing.
        sources: (rules, item) -> the names by which the verb gives an item; none if it does not.
        rank: of several verbs that give an item, the one with the lowest is advised.
        takes: (rules, kinds in view, name) -> what one unit of an option takes; None if the rules
            do not know.
        uses: option -> how many of its own item it takes.
        stays: whether the player stays near what was placed.
        singly: whether advice takes one unit at a time, since it may give enough.
        lacking: option -> what it lacks if it is begun and not done; by default what it takes to
            hold what it gives.
        function: of a program; see `primitives`.
        parameters: of that function, after `bot`. A count may always follow.
        tool: the first argument of a function that takes an `item` and a `mob`.
        manual: what a model is told of the function.
        quantities: of actions, for planners that choose among actions.
        examples: rules -> what lessons ask about; by default `names`, where they have a word.
        lessons: the quantities in lessons; one alone if the quantity does not matter.
        aim: of an option in lessons: a text with `item`, `held` and `wanted`.
        evidence: (rules, state, option) -> why an option that takes nothing can be carried out.
    """

    word: str
    use: Use
    names: Names
    gives: Gives = lambda _, option: {option.item: option.quantity}
    besides: str | None = None
    there: There | None = None
    idle: bool = False
    sources: Sources = lambda _, __: ()
    rank: int = 0
    takes: Takes = lambda _, __, ___: None
    uses: Callable[[Option], int] = lambda _: 0
    stays: bool = False
    singly: bool = False
    lacking: Callable[[Option], Sequence[Option]] | None = None
    function: str
    parameters: tuple[str, ...] = ("name", "count")
    tool: str | None = None
    manual: str
    quantities: tuple[int, ...] = (1,)
    examples: Names | None = None
    lessons: tuple[int, ...] = (1, 1, 1, 2, 3, 4)
    aim: str = "{item} near"
    evidence: Callable[[OptionRules, State, Option], str] = lambda _, __, ___: "nothing is missing"

    def promises(self, rules: OptionRules, option: Option) -> Mapping[str, int]:
        """What an option gives; nothing if its verb cannot be used with its item."""
        return self.gives(rules, option) if option.item in self.names(rules) else {}

    def done(self, rules: OptionRules, state: State, option: Option) -> bool:
        """Whether the result of an option is held, or in view, in its quantity."""
        if self.there is not None:
            return self.there(state, state, option)
        wanted = self.promises(rules, option)
        return (
            bool(wanted)
            and (self.besides is None or holds(state, self.besides))
            and all(
                max(state.inventory.get(item, 0), item in state.equipment) >= count
                for item, count in wanted.items()
            )
        )

    def shows(self, rules: OptionRules, before: State, state: State, option: Option) -> bool:
        """Whether the result of an option came about since `before`, in its quantity.

        A block that was put down shows whatever its number.
        """
        if self.there is not None:
            return self.there(before, state, replace(option, quantity=1))
        wanted = self.promises(rules, option)
        return bool(wanted) and all(
            state.inventory.get(item, 0) - before.inventory.get(item, 0) >= count
            for item, count in wanted.items()
        )

    def asked_about(self, rules: OptionRules) -> Sequence[str]:
        """What lessons ask about."""
        return [name for name in (self.examples or self.names)(rules) if name in OBJECTS]
