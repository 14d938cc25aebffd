"""Item-level Minecraft as two domains: an action obtains one kind of item, or nothing (XENON, J.4).

A verb and an item are tried on the inventory, without space or chance. `minecraft-items` asks for
one item of Table 10, `minecraft-goals` for all of a set, which XENON's agents learn one by one. In
both the rules of some items may contradict those of the game.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from pydantic import AfterValidator, Field

from llm_planning.domain import Domain, Step
from llm_planning.environments.minecraft.book.rulebook import game_rules, substitutes
from llm_planning.environments.minecraft.items.goals import GOAL_SETS, GOALS_67
from llm_planning.environments.minecraft.items.halves import left_out
from llm_planning.environments.minecraft.items.perturbation import Perturbed, Pool, perturb
from llm_planning.environments.minecraft.items.text_world import TextWorld, action_set
from llm_planning.settings import Settings, When
from llm_planning.specs import DomainSpec, check_task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random
    from typing import ClassVar

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.settings import ReadWhen

ActionSetSize: TypeAlias = Annotated[int, AfterValidator(lambda size: len(action_set(size)))]


class ItemSettings(Settings):
    """Settings of both domains.

    Attributes:
        requirements: perturbation level r of the required items, 0 to 3 (XENON, Table 4).
        actions: perturbation level a of the actions.
        pool: where perturbed requirements come from: `resources`, or any item that is `required`.
        verbs: size of the action set 𝒜 (XENON, Appendix K.9).
    """

    read_when: ClassVar[ReadWhen] = {
        "pool": [
            When("requirements", "requirements above 0", lambda settings: settings.requirements > 0)
        ],
    }

    requirements: int = Field(0, ge=0, le=3)
    actions: int = Field(0, ge=0, le=3)
    pool: Pool = "resources"
    verbs: ActionSetSize = 3


class ItemAction(NamedTuple):
    """One try to obtain an item."""

    verb: str
    item: str

    def __str__(self) -> str:
        return f"{self.verb} {self.item}"


class Holdings(NamedTuple):
    """What is held.

    Attributes:
        inventory: (item, count) pairs, sorted; each count is above 0.
        seed: draws the rules that are perturbed; 0 if none are.
    """

    inventory: tuple[tuple[str, int], ...]
    seed: int


class ItemWorld(Domain[Holdings, ItemAction]):
    """Items of Minecraft 1.16 from bare hands; what both domains share.

    An execution of the right verb takes an item's materials and gives as many of it as a recipe
    makes. Stations and tools must be held and stay. Whatever else is tried changes nothing.

    Args:
        among: the items of the world, together with everything they need.
        settings: the rules and the action set.
    """

    goals: tuple[str, ...]

    def __init__(
        self, goals: Sequence[str], among: Sequence[str], settings: ItemSettings | None
    ) -> None:
        self.goals = tuple(goals)
        self.settings = settings or ItemSettings.read({})
        self._among = tuple(among)
        self._verbs = action_set(self.settings.verbs)
        self._rules = cache(self._drawn_rules)
        self._worlds = cache(lambda seed: self.text_world(self.rules(seed).book))
        self._needs = cache(lambda seed: _needs_of(self._worlds(seed)))
        self._lengths = cache(lambda seed: len(self.advise(Holdings((), seed))))
        self.about = (
            "Items of Minecraft 1.16 are obtained one kind at a time. An action is a verb and an "
            f"item; the verbs are {', '.join(self._verbs)}. It succeeds if the verb is right and "
            "all that the item requires is held. Materials are used up; a crafting table, a "
            "furnace and tools are kept."
        )

    def text_world(self, book: RuleBook) -> TextWorld:
        """A fresh episode under some rules, for planners that take many steps."""
        return TextWorld(book, goals=self._among, verbs=self._verbs)

    def rules(self, seed: int) -> Perturbed:
        """The rules of the world that a seed draws, and which items they change."""
        return self._rules(seed if self._is_perturbed else 0)

    def start(self, seed: int) -> Holdings:
        """Nothing is held; the seed draws the perturbed rules."""
        return Holdings((), seed if self._is_perturbed else 0)

    def describe(self, state: Holdings) -> str:
        """What is held."""
        held = ", ".join(f"{count} {item}" for item, count in state.inventory)
        return f"Inventory: {held or 'nothing'}"

    def actions(self, state: Holdings) -> Sequence[ItemAction]:
        """What obtains an item now, requirements before what needs them; nothing at the end."""
        if self.success(state):
            return ()
        held = dict(state.inventory)
        return [
            ItemAction(verb, item)
            for item, (verb, needs) in self._needs(state.seed).items()
            if verb in self._verbs and not any(need.lacking(held) for need in needs)
        ]

    def step(self, state: Holdings, action: ItemAction, rng: Random) -> Step[Holdings]:  # noqa: ARG002
        """Obtains an item, or says why not."""
        if refusal := self.feasible(state, action):
            return Step(state, text=refusal, obstacle=refusal)
        world = self._worlds(state.seed).holding(dict(state.inventory))
        world.step(action.verb, action.item)
        after = Holdings(tuple(sorted(world.inventory.items())), state.seed)
        won = self.success(after)
        made = world.inventory[action.item]
        return Step(after, float(won), won, text=f"{action}: now {made} are held")

    def success(self, state: Holdings) -> bool:
        """Whether all goals are held."""
        held = dict(state.inventory)
        return all(goal in held for goal in self.goals)

    def feasible(self, state: Holdings, action: ItemAction) -> str | None:
        """Why an attempt obtains nothing; None if it succeeds."""
        rules, held = self._needs(state.seed), dict(state.inventory)
        if action.verb not in self._verbs:
            return f"{action.verb} is not one of {', '.join(self._verbs)}"
        if action.item not in rules:
            return f"nothing here is called {action.item}"
        verb, needs = rules[action.item]
        if verb != action.verb:
            return f"to {action.verb} does not give {action.item}"
        lacking = [f"{need.number} {need.item}" for need in needs if need.lacking(held)]
        return f"{action} requires {', '.join(lacking)}" if lacking else None

    def score(self, state: Holdings) -> float:
        """1 - (attempts still needed / attempts needed at the start); at least 0."""
        return max(0.0, 1.0 - len(self.advise(state)) / self._lengths(state.seed))

    def advise(self, state: Holdings) -> Sequence[ItemAction]:
        """The attempts that the goals still take, requirements first."""
        book, held = self._worlds(state.seed).book, dict(state.inventory)
        spent, stays = Counter[str](), dict.fromkeys(self.goals, 1)
        way: list[ItemAction] = []
        for item in reversed(book.closure(self.goals)):
            lacking = spent[item] + stays.get(item, 0) - held.get(item, 0)
            if lacking < 1:
                continue
            rule = book.rule(item)
            times = math.ceil(lacking / rule.makes)
            way += [ItemAction(rule.action, item)] * times
            for needed, count in rule.consumed.items():
                spent[needed] += times * count
            for needed, count in rule.kept.items():
                if not any(tool in held for tool in substitutes(needed)[1:]):
                    stays[needed] = max(stays.get(needed, 0), count)
        return way[::-1]

    @property
    def _is_perturbed(self) -> bool:
        return bool(self.settings.requirements or self.settings.actions)

    def _drawn_rules(self, seed: int) -> Perturbed:
        settings = self.settings
        return perturb(
            game_rules(),
            requirements=settings.requirements,
            actions=settings.actions,
            pool=settings.pool,
            seed=seed,
        )


class _Need(NamedTuple):
    """A required item, how many, and the better tools that serve as well."""

    item: str
    number: int
    better: tuple[str, ...]

    def lacking(self, held: Mapping[str, int]) -> bool:
        return held.get(self.item, 0) < self.number and not any(
            tool in held for tool in self.better
        )


def _needs_of(world: TextWorld) -> dict[str, tuple[str, tuple[_Need, ...]]]:
    """Item -> its verb and what it requires."""
    rules = {item: world.book.rule(item) for item in world.items}
    return {
        item: (
            rule.action,
            (
                *(_Need(needed, count, ()) for needed, count in rule.consumed.items()),
                *(
                    _Need(needed, count, substitutes(needed)[1:])
                    for needed, count in rule.kept.items()
                ),
            ),
        )
        for item, rule in rules.items()
    }


class MinecraftItems(ItemWorld):
    """One item of Minecraft 1.16, from bare hands.

    Args:
        task: the item, one of `GOALS_67`.
        settings: the rules and the action set; by default the game's, and three verbs.

    Attributes:
        item: to be held.

    Example:
        >>> from llm_planning.environments.minecraft.items.domain import MinecraftItems
        >>> world = MinecraftItems("stick")
        >>> [str(action) for action in world.advise(world.start(0))]
        ['mine logs', 'craft planks', 'craft stick']
    """

    tasks = GOALS_67
    item: str

    def __init__(self, task: str, settings: ItemSettings | None = None) -> None:
        check_task(task, known=GOALS_67, of="minecraft-items")
        super().__init__((task,), GOALS_67, settings)
        self.task = self.item = task
        self.goal = f"Hold {task}."


class MinecraftGoals(ItemWorld):
    """A set of items of Minecraft 1.16, from bare hands.

    Args:
        task: the set, one of `GOAL_SETS`.
    """

    tasks = tuple(GOAL_SETS)

    def __init__(self, task: str, settings: ItemSettings | None = None) -> None:
        check_task(task, known=tuple(GOAL_SETS), of="minecraft-goals")
        super().__init__(GOAL_SETS[task], GOAL_SETS[task], settings)
        self.task = task
        self.goal = f"Hold all of these at once: {', '.join(self.goals)}."


MINECRAFT_GOALS = DomainSpec(
    name="minecraft-goals",
    summary="sets of Minecraft's items, whose rules are learnt and may be unusual: XENON",
    kind=MinecraftGoals,
    tasks=MinecraftGoals.tasks,
    settings=ItemSettings,
    open=MinecraftGoals,
    leaving_out=left_out,
)

MINECRAFT_ITEMS = DomainSpec(
    name="minecraft-items",
    summary="one of 67 items of Minecraft, by a verb and an item at a time: XENON",
    kind=MinecraftItems,
    tasks=MinecraftItems.tasks,
    settings=ItemSettings,
    open=MinecraftItems,
    leaving_out=left_out,
)
