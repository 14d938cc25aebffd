"""TextWorld Cooking as a domain: an action is an executable action with a tool (XENON, App. A.1).

A subgoal is tried on the next direction of the cookbook. If its action or its tool does not fit, it
is refused: it never reaches the game, where it could ruin the meal for good. Nobody is told before
a try which of them fit, so all that can be said of the next ingredient are actions.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from llm_planning.domain import Domain, Step
from llm_planning.environments.cooking.games import GameSpec, open_kitchens
from llm_planning.environments.cooking.recipes import ACTIONS, RULES, TOOLS, Direction, fits
from llm_planning.settings import Settings
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.environments.cooking.kitchen import Kitchen

TASKS = ("cook-a-meal",)


class KitchenSettings(Settings):
    """Settings of the domain.

    Attributes:
        games: number of different games, with seeds from 1.
        ingredients: of each recipe: 3 make a plan of 8 subgoals. The paper does not say how many.
    """

    games: int = Field(20, ge=1)
    ingredients: int = Field(3, ge=1, le=5)


class Subgoal(NamedTuple):
    """An executable action on an ingredient, with a tool."""

    action: str
    ingredient: str
    tool: str

    def __str__(self) -> str:
        return f"{self.action} {self.ingredient} with {self.tool}"


class Meal(NamedTuple):
    """A meal that is being cooked.

    Attributes:
        recipe: the plan of its cookbook.
        done: number of directions that are carried out.
    """

    game: str
    recipe: tuple[Direction, ...]
    done: int

    @property
    def is_eaten(self) -> bool:
        """Whether the plan is completed."""
        return self.done == len(self.recipe)

    @property
    def direction(self) -> Direction:
        """The next one, of a meal that is not eaten."""
        return self.recipe[self.done]


class Cooking(Domain[Meal, Subgoal]):
    """Real games of TextWorld in which a meal is cooked by the book.

    Args:
        settings: which games there are; by default the paper's 20.
    """

    tasks = TASKS
    goal = "Follow the cookbook, and eat the meal."
    about = (
        "You cook in a kitchen by the directions of a cookbook, in their order. For each direction "
        "you choose an action and a tool; the cookbook's own words are not always an action. "
        f"Actions: {', '.join(ACTIONS)}. Tools: {', '.join(TOOLS)}. A wrong choice is refused and "
        "spoils nothing."
    )

    def __init__(
        self,
        settings: KitchenSettings | None = None,
        *,
        kitchens_of: Callable[[Sequence[GameSpec]], Awaitable[list[Kitchen]]] = open_kitchens,
    ) -> None:
        self.settings = settings or KitchenSettings.read({})
        self._kitchens_of = kitchens_of
        self._kitchens: dict[str, Kitchen] = {}

    async def meals(self, seed: int, most: int) -> list[Meal]:
        """The games in an order that a seed draws, at most so many, each at its beginning.

        Raises:
            CookingError: TextWorld is missing, or a game cannot be made or played.
        """
        settings = self.settings
        numbers = list(range(1, settings.games + 1))
        Random(f"{seed}/games").shuffle(numbers)
        specs = [
            GameSpec(seed=number, ingredients=settings.ingredients) for number in numbers[:most]
        ]
        kitchens = await self._kitchens_of(specs)
        self._kitchens |= {kitchen.name: kitchen for kitchen in kitchens}
        return [Meal(kitchen.name, kitchen.recipe, 0) for kitchen in kitchens]

    async def start(self, seed: int) -> Meal:
        """The beginning of a game that the seed draws."""
        (meal,) = await self.meals(seed, 1)
        return meal

    def describe(self, state: Meal) -> str:
        """The cookbook, and which direction comes next."""
        book = "; ".join(f"{action} the {ingredient}" for action, ingredient in state.recipe)
        if state.is_eaten:
            return f"Cookbook: {book}.\nThe meal is eaten."
        action, ingredient = state.direction
        return (
            f"Cookbook: {book}.\n"
            f"{state.done} of {len(state.recipe)} directions are done. "
            f"Next: {action} the {ingredient}."
        )

    def actions(self, state: Meal) -> Sequence[Subgoal]:
        """Every action with every tool, on the next ingredient; none at the end."""
        if state.is_eaten:
            return ()
        ingredient = state.direction.ingredient
        return [Subgoal(action, ingredient, tool) for action in ACTIONS for tool in TOOLS]

    def step(self, state: Meal, action: Subgoal, rng: Random) -> Step[Meal]:  # noqa: ARG002
        """Carries the next direction out in the game, if the action and the tool fit.

        Raises:
            CookingError: the game did not do what its cookbook says.
        """
        refusal = self.feasible(state, action)
        if refusal is None and not fits(state.direction, action.action, action.tool):
            verb, ingredient = state.direction
            refusal = f"it does not {verb} the {ingredient}"
        if refusal is not None:
            return Step(state, text=refusal, obstacle=refusal)
        reply = self._kitchens[state.game].carry_out(state.done, action.tool)
        after = state._replace(done=state.done + 1)
        return Step(after, float(after.is_eaten), after.is_eaten, text=reply.text)

    def success(self, state: Meal) -> bool:
        """Whether the meal is eaten."""
        return state.is_eaten

    def feasible(self, state: Meal, action: Subgoal) -> str | None:
        """Why a subgoal cannot be tried; None if it can. What fits shows only when it is tried."""
        if state.is_eaten:
            return "the meal is eaten"
        if action.action not in ACTIONS or action.tool not in TOOLS:
            return f"there is no {action.action} with {action.tool}"
        ingredient = state.direction.ingredient
        return None if action.ingredient == ingredient else f"the next is the {ingredient}"

    def score(self, state: Meal) -> float:
        """The share of the directions that are carried out."""
        return state.done / len(state.recipe)

    def advise(self, state: Meal) -> Sequence[Subgoal]:
        """What the rest of the cookbook takes."""
        rules = [(RULES[verb], ingredient) for verb, ingredient in state.recipe[state.done :]]
        return [Subgoal(rule.action, ingredient, rule.tools[0]) for rule, ingredient in rules]


COOKING = DomainSpec(
    name="cooking",
    summary="meals cooked by the book in TextWorld, with an action and a tool a step: XENON",
    kind=Cooking,
    tasks=TASKS,
    settings=KitchenSettings,
    open=lambda _task, settings: Cooking(settings),
)
