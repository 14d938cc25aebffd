"""One real game with all ingredients at hand.

Refused subgoals never reach the game. So every episode visits the same sequence of states: the
first one, then one after each direction of the cookbook. The game is deterministic. A kitchen plays
this sequence once and remembers the game's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llm_planning.environments.cooking.recipes import CookingError, command, read_cookbook

if TYPE_CHECKING:
    from llm_planning.environments.cooking.recipes import Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The game's answer to a command.

    Attributes:
        score: points so far.
        inventory: the player's inventory, in the game's words.
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
        line = command(direction, tool)
        reply = self._game.send(line)
        self.played += 1
        last = len(self._answers) + 1 == len(self.recipe)
        if reply.lost or reply.score != self._score + len(self._answers) + 1 or reply.won != last:
            raise CookingError(
                f"{self.name} does not do {line!r} as its cookbook says (score {reply.score}): "
                f"{reply.text!r}"
            )
        self._answers.append(reply)
