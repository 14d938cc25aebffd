"""Text games as a domain: the transition of an action is the game's answer."""

from __future__ import annotations

from collections import deque
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llm_base.quoting import quote
from llm_planning.domain import Domain, Step
from llm_planning.environments.textgame.game import Ending, TextGameError, Transition
from llm_planning.environments.textgame.open_games import GAME_TASKS, GameSettings, open_game
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence
    from random import Random

    from llm_planning.environments.textgame.game import TextGame

SHORT_WAY = 40
"""The most moves of a walkthrough for which a player who strayed is led back from far (our choice).

Games with longer ones are story files. They hardly ever return to a state, so searching is vain.
"""

SEARCHED, SEARCHED_NEAR = 2000, 100
"""The most steps that are played to find the way back: of a game with a short way, of another."""


class TextGameDomain(Domain[Transition, str]):
    """Text games: TextWorld's, Jericho's and one of our own.

    A state is the transition that led to it, so that it includes the game's answer. Games are
    deterministic: seeds change nothing. The settings say which game is played.

    Attributes:
        name: of the game, which may differ from the task's name.
        max_score: the highest possible score; 0 if unknown.
        walkthrough: actions that win; empty if unknown.
        seconds: the cost of this player's questions.
        first_score: the score with which the game begins; 0 until it has begun.
    """

    tasks = GAME_TASKS
    walkthrough: tuple[str, ...] = ()
    goal = "Win the game, with as many points as possible."
    about = (
        "A text adventure: you tell the game what to do in short commands, and it answers in words."
    )

    def __init__(self, game: TextGame, opening: Sequence[str] = ()) -> None:
        """Takes a game.

        Args:
            game: what is played.
            opening: actions that are played before the player begins. What is left of a walkthrough
                that begins with them is the player's; of another one nothing is known.
        """
        self.name = game.name
        self.max_score = game.max_score
        self._opening = tuple(opening)
        follows = game.walkthrough[: len(self._opening)] == self._opening
        self.walkthrough = game.walkthrough[len(self._opening) :] if follows else ()
        self.seconds = game.seconds
        self.goal = game.objective or self.goal
        self.first_score = 0.0
        self._game = game
        self._way: dict[str, int] = {}
        self._advised: dict[str, tuple[str, ...]] = {}

    async def start(self, seed: int) -> Transition:  # noqa: ARG002
        """The beginning, with the game's last words and, as reward, its first score.

        Raises:
            TextGameError: an action of the opening changes nothing, or ends the game.
        """
        begun = await self._begun()
        self.first_score = begun.reward
        return begun

    async def _begun(self) -> Transition:
        """Where the player begins: the state after the opening, with the score that it has."""
        here = await self._game.start()
        for number, action in enumerate(self._opening, start=1):
            after = await self._game.step(here.state, action)
            if after.ending is not None or after.state == here.state:
                does = "changes nothing" if after.ending is None else "ends the game"
                raise TextGameError(
                    f"opening: action {number}, {quote(action)}, {does} in {self.name}, which "
                    f"answers {quote(after.text)}; write actions that the game takes"
                )
            here = replace(after, reward=here.reward + after.reward)
        return here

    async def describe(self, state: Transition) -> str:
        """The game's answer, then place and inventory if the game goes on."""
        _, look, inventory = await self.look(state)
        # The answer to entering a place contains its description already.
        words = state.text.replace(look, "").strip() if look else state.text
        parts = (words, look, inventory)
        return "\n".join(part for part in parts if part)

    # The game's own coroutine: a second one would cost rollouts as much again.
    def actions(self, state: Transition) -> Coroutine[Any, Any, tuple[str, ...]]:
        """𝒜(s), the valid actions; the game also answers other texts."""
        return self._game.actions(state.state)

    async def step(self, state: Transition, action: str, rng: Random) -> Step[Transition]:  # noqa: ARG002
        """𝒯(s, a), without a draw; the obstacle of an action that changes nothing is the answer."""
        after = await self._game.step(state.state, action)
        obstacle = (after.text or "nothing happens") if after.state == state.state else None
        return Step(
            after, after.reward, after.ending is not None, text=after.text, obstacle=obstacle
        )

    def success(self, state: Transition) -> bool | None:
        """Whether the game ended in victory; None at an end of which nothing tells."""
        return None if state.ending is Ending.OVER else state.ending is Ending.VICTORY

    async def advise(self, state: Transition) -> tuple[str, ...]:
        """The remaining actions to the end of the walkthrough.

        Beside the walkthrough they begin with a shortest way back to it, or to victory.

        Returns:
            The actions; none after the end, and none if no way back was found (`SEARCHED`).

        Raises:
            TextGameError: the game has no walkthrough, or failed.
        """
        if not self.walkthrough:
            raise TextGameError(
                f"{self.name} comes without a walkthrough, so no rule knows what leads to its goal:"
                " let a model answer, or play another game"
            )
        if not self._way:
            self._way = await self._walked()
        here: str = state.state
        if here not in self._advised:
            self._advised[here] = await self._way_from(here)
        return self._advised[here]

    async def _walked(self) -> dict[str, int]:
        """The states of the walkthrough: name -> moves before its last visit."""
        here = await self._begun()
        way = {here.state: 0}
        for number, action in enumerate(self.walkthrough, start=1):
            if here.ending is not None:
                break
            here = await self._game.step(here.state, action)
            way[here.state] = number
        return way

    async def _way_from(self, here: str) -> tuple[str, ...]:
        """The first of the shortest ways to a later state of the walkthrough, and on from there."""
        passed = self._way.get(here, -1)
        left = SEARCHED if len(self.walkthrough) <= SHORT_WAY else SEARCHED_NEAR
        known, waiting = {here}, deque([(here, tuple[str, ...]())])
        while waiting:
            state, way = waiting.popleft()
            for action in await self._game.actions(state):
                transition = await self._game.step(state, action)
                there = self._way.get(transition.state, -1)
                if there > passed:
                    return (*way, action, *self.walkthrough[there:])
                if transition.ending is Ending.VICTORY:
                    return (*way, action)
                left -= 1
                if not left:
                    return ()
                if transition.ending is None and transition.state not in known:
                    known.add(transition.state)
                    waiting.append((transition.state, (*way, action)))
        return ()

    async def look(self, state: Transition) -> tuple[str, str, str]:
        """The game's last answer, and those to `look` and to `inventory`, no turn taken.

        The two others are empty after the end.
        """
        return state.text, *await self._game.look(state.state)


@asynccontextmanager
async def open_text_game(task: str, settings: GameSettings) -> AsyncIterator[TextGameDomain]:
    """Opens a game for one player.

    Args:
        task: one of `GAME_TASKS`.
    """
    async with open_game(task, settings) as game:
        yield TextGameDomain(game, settings.opened_by)


TEXTGAME = DomainSpec(
    name="textgame",
    summary="text games: five kinds of TextWorld's, a trap door, Gull Rock, Jericho's story files",
    kind=TextGameDomain,
    tasks=GAME_TASKS,
    settings=GameSettings,
    open=open_text_game,
)
