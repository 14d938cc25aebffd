"""One real game with all ingredients at hand, and the episodes that are played in it.

Refused subgoals never reach the game. So every episode visits the same sequence of states: the
first one, then one after each direction of the cookbook. The game is deterministic. A kitchen plays
this sequence once and remembers the game's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llm_planning.environments.cooking.recipes import (
    ACTIONS,
    TOOLS,
    CookingError,
    command,
    fits,
    read_cookbook,
)
from llm_planning.names import remedy

if TYPE_CHECKING:
    from llm_planning.environments.cooking.recipes import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The game's answer to a command.

    Attributes:
        text: the answer in words.
        score: points so far.
        inventory: the player's inventory, in the game's words.
        won: whether the meal was eaten.
        lost: whether the meal can no longer be made.
    """

    text: str
    score: int
    inventory: str
    won: bool
    lost: bool


class Game(Protocol):
    """A game that was started."""

    name: str

    def send(self, command: str) -> Reply:
        """Plays one command."""
        ...


class Kitchen:
    """A game whose player holds all ingredients and the knife and has read the cookbook.

    This is the work of the competent controller of Appendix A.1, done before an episode begins.

    Args:
        game: just started, in a kitchen with all tools; the ingredients are in the inventory.

    Attributes:
        name: of the game.
        recipe: the plan of the cookbook, which ends with eating the meal.
        played: number of directions that the game was given.

    Raises:
        CookingError: the cookbook cannot be read, or an ingredient or the knife is missing.
    """

    def __init__(self, game: Game) -> None:
        self._game = game
        self.name = game.name
        self.recipe = read_cookbook(game.send("examine cookbook").text)
        self.played = 0
        self._answers: list[Reply] = []
        ready = game.send("take knife")
        wanted = {"knife", *(food for _, food in self.recipe[:-2])}
        missing = sorted(item for item in wanted if item not in ready.inventory)
        if missing or ready.lost:
            raise CookingError(
                f"{game.name} begins without {', '.join(missing)} at hand: {ready.inventory!r}"
            )
        self._score = ready.score

    def carry_out(self, position: int, tool: str) -> Reply:
        """Carries out a direction after all of those before it.

        Args:
            position: of the direction in the recipe, from 0.
            tool: a tool that fits.

        Returns:
            The game's answer, remembered from the first time.

        Raises:
            CookingError: the game did not give a point for the direction.
        """
        if position == len(self._answers):
            self._play(self.recipe[position], tool)
        return self._answers[position]

    def _play(self, direction: Direction, tool: str) -> None:
        """Plays the next direction; the game gives a point for each."""
        told = command(direction, tool)
        reply = self._game.send(told)
        self.played += 1
        last = len(self._answers) + 1 == len(self.recipe)
        if reply.lost or reply.score != self._score + len(self._answers) + 1 or reply.won != last:
            raise CookingError(
                f"{self.name} does not do {told!r} as its cookbook says (score {reply.score}): "
                f"{reply.text!r}"
            )
        self._answers.append(reply)


class EpisodeOverError(RuntimeError):
    """The episode is over, so it has no next direction."""


class CookingWorld:
    """One episode: subgoals (executable action, ingredient, tool) against a cookbook's plan.

    A subgoal is tried on the next direction. If it is not valid for it, it is refused: it costs a
    step and does not reach the game, where it could ruin the meal for good.

    Args:
        kitchen: shared by all episodes of one game.
        max_steps: timesteps after which the episode ends.

    Attributes:
        name: of the game.
        recipe: the plan: (cookbook action, ingredient) pairs.
        steps: timesteps so far, refused ones included.
        position: directions carried out so far.
    """

    def __init__(self, kitchen: Kitchen, *, max_steps: int = 50) -> None:
        self._kitchen = kitchen
        self.name = kitchen.name
        self.recipe = kitchen.recipe
        self.max_steps = max_steps
        self.steps = 0
        self.position = 0

    @property
    def direction(self) -> Direction:
        """The next direction.

        Raises:
            EpisodeOverError: the episode is over.
        """
        if self.done:
            raise EpisodeOverError(f"the episode in {self.name} is over: begin another")
        return self.recipe[self.position]

    @property
    def success(self) -> bool:
        """Whether the plan is completed and the meal eaten."""
        return self.position == len(self.recipe)

    @property
    def done(self) -> bool:
        """Whether the episode is over."""
        return self.success or self.steps >= self.max_steps

    def step(self, action: str, ingredient: str, tool: str) -> bool:
        """Tries a subgoal.

        Args:
            action: one of `ACTIONS`.
            ingredient: the ingredient or the meal.
            tool: one of `TOOLS`.

        Returns:
            Whether the subgoal was valid for the next direction, and so was done in the game.

        Raises:
            EpisodeOverError: the episode is over.
            ValueError: the action or the tool does not exist.
            CookingError: the game did not do what its cookbook says.
        """
        direction = self.direction
        for word, known in ((action, ACTIONS), (tool, TOOLS)):
            if word not in known:
                raise ValueError(f"no action or tool is called {word!r}; {remedy(word, known)}")
        self.steps += 1
        if ingredient != direction.ingredient or not fits(direction, action, tool):
            return False
        self._kitchen.carry_out(self.position, tool)
        self.position += 1
        return True
