"""Exercises of the prior in text games: which action is nearer to the end, as MC-DML asks it.

They are about generated games: `GAMES` of each of `ASKED_KINDS`, at its default level. A state is
one of the walkthrough's, or one beside it: a detour of random actions leads there. An action is
right if the advice is shorter after it, or if it wins. The model is told what MC-DML tells it: the
turn before, and no reflections.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import inf
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from llm_planning.environments.textgame.domain import TEXTGAME, open_text_game
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.planners.any_domain.exercises import left_kind, prior_exercise
from llm_planning.planners.mc_dml.lessons import GameLessons
from llm_planning.planners.mc_dml.roles import GameSituation, GameTurn, GameWording, observe
from llm_planning.priors import ROLE
from llm_planning.roles.exercises import USUAL_WAY, WAY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.roles.exercises import Exercise, ExerciseMaker, Words
    from llm_planning.specs import DomainSpec

ASKED_KINDS: Final = ("coin-collector", "treasure-hunter", "custom")
"""Kinds of games in which every mistake can be mended. In the others many cannot, and it takes
minutes to find that nothing leads on from there."""

GAMES: Final = (1, 2, 3, 4, 5, 6)
"""The `game_seed` of the games of each kind."""

DETOURS: Final = (0, 1, 2, 3)
"""Random actions after a beginning of the walkthrough; each number is drawn once for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A moment of a game that leaves a choice.

    Attributes:
        situation: what the model is told; right are the actions after which fewer are left.
        best: the right one that is advised, or the first.
        left: the actions that are left.
    """

    situation: GameSituation
    best: str
    left: int


class GameExercises:
    """Makes exercises of the role `prior` in text games; see `ExerciseMaker`.

    Nothing is held out: asked for what is, it makes none.
    """

    roles: tuple[str, ...] = (ROLE,)
    taught_words = ""

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise of a drawn way of asking about a drawn moment; see `ExerciseMaker`."""
        if held_out or ROLE not in roles:
            return ()
        kind = rng.choice(ASKED_KINDS)
        moment = rng.choice(moments(kind, rng.choice(GAMES)))
        way: Literal["exact", "index"] = rng.choice((USUAL_WAY, "index"))
        return [
            prior_exercise(
                GameWording(),
                moment.situation,
                way=way,
                right=moment.situation.right,
                best=moment.best,
                kinds={WAY: way, "left": left_kind(moment.left), "game": kind},
            )
        ]


@cache
def moments(kind: str, number: int) -> tuple[Moment, ...]:
    """The moments of a generated game; it is played in a thread, as games are coroutines.

    Args:
        kind: of `ASKED_KINDS`.
        number: its `game_seed`.

    Raises:
        TextGameError: the game cannot be made.
    """

    async def play() -> tuple[Moment, ...]:
        settings = GameSettings(game_seed=number, remember="memory")
        async with open_text_game(kind, settings) as game:
            return tuple([moment async for moment in _moments(game, Random(f"{kind} {number}"))])

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, play()).result()


async def _moments(game: TextGameDomain, rng: Random) -> AsyncIterator[Moment]:
    seen = set[str]()
    for passed in range(len(game.walkthrough)):
        for detour in DETOURS:
            way = await _way(game, game.walkthrough[:passed], detour, rng)
            here = way[-1][1]
            if here.state not in seen and (moment := await _moment(game, way)):
                yield moment
            seen.add(here.state)


async def _way(
    game: TextGameDomain, actions: Sequence[str], detour: int, rng: Random
) -> list[tuple[str, Transition]]:
    """Actions and where each led, the start first; a detour does not end the game."""
    here = await game.start(0)
    way = [("", here)]
    for action in actions:
        here = (await game.step(here, action, rng)).state
        way.append((action, here))
    for _ in range(detour):
        action = rng.choice(await game.actions(here))
        made = (await game.step(here, action, rng)).state
        if made.ending is None:
            here = made
            way.append((action, here))
    return way


async def _moment(game: TextGameDomain, way: Sequence[tuple[str, Transition]]) -> Moment | None:
    """The end of a way as a moment; None if it leaves no choice, or nothing leads on from it."""
    here = way[-1][1]
    actions = await game.actions(here)
    left = await _left(game, here)
    nearer = [
        action
        for action in actions
        if await _left(game, (await game.step(here, action, Random(0))).state) < left
    ]
    if not 0 < len(nearer) < len(actions):
        return None
    memory: tuple[GameTurn, ...] = ()
    if len(way) > 1:
        before, (action, _) = way[-2][1], way[-1]
        score = sum(made.reward for _, made in way)
        memory = (GameTurn(await observe(game, before), action, here.reward, score),)
    advised = (await game.advise(here))[0]
    return Moment(
        situation=GameSituation(
            memory, await observe(game, here), actions, state=here, right=tuple(nearer)
        ),
        best=advised if advised in nearer else nearer[0],
        left=int(left),
    )


async def _left(game: TextGameDomain, here: Transition) -> float:
    """How many actions the advice has; infinitely many if nothing leads to victory."""
    if game.success(here):
        return 0
    return len(await game.advise(here)) or inf


def game_exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:
    """The exercises of `prior` in text games: `taught` are lessons, about other games.

    Both ask in the same words, as every model is asked.
    """
    if domain.name != TEXTGAME.name:
        return None
    return GameLessons() if words == "taught" else GameExercises()
