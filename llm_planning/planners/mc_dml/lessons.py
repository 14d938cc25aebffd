"""Lessons of π in text games: which action leads to the end soonest, asked as MC-DML asks `exact`.

They are about generated games that no table plays: `GAMES` of each kind of `LEVELS_TAUGHT`, whose
game seeds begin with `FIRST`. One game in ten is held out. A state is one of the walkthrough's, or
one to which a detour of random actions leads. All agents of the paper are taught alike: a question
has as many turns before it as one of them tells (`TURNS`), and one in four has advice, which is
about any moment of the same game.

An action is right if fewer actions are left after it. That is counted in the states that were
played (`EXPLORED`): a mistake in the kitchen can spoil a game, and it would take minutes to find
that nothing leads on from there. States without a known way are left out.

To make and explore a game takes some 5 seconds, so its moments are kept in the cache.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import logging
from collections import defaultdict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from functools import cache
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from llm_base.files import read_json
from llm_planning.environments.textgame.domain import open_text_game
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.environments.textgame.textworld_making import check_textworld
from llm_planning.planners.any_domain.exercises import left_kind, prior_exercise
from llm_planning.planners.mc_dml.roles import (
    GameSituation,
    GameTurn,
    GameWording,
    Observation,
    observe,
)
from llm_planning.priors import ROLE
from llm_planning.roles.exercises import HELD_OUT, SEEN, USUAL_WAY
from llm_serving.engine import BLOCK
from llm_serving.models.folders import building, cache_folder, is_intact, publish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.roles.exercises import Exercise

logger = logging.getLogger(__name__)

LEVELS_TAUGHT: Final[Mapping[str, Sequence[int]]] = {
    "coin-collector": (205, 207, 210),
    "treasure-hunter": (13, 17, 20),
    "custom": (5, 8, 11),
    "cooking": (1, 3, 5),
}
"""Kind -> the levels of its games, in turns."""

SHARES: Final[Mapping[str, int]] = {
    "coin-collector": 1,
    "treasure-hunter": 1,
    "custom": 2,
    "cooking": 2,
}
"""How often a kind is drawn: games of the last two have two to three times as many moments."""

FIRST: Final = 10_000
"""The `game_seed` of the first game of a kind. No table has so high ones."""

GAMES: Final = 40
"""Games of each kind."""

HELD_OUT_OF: Final = 10
"""Of so many games in a row the last one is held out."""

DETOURS: Final = (0, 1, 2, 3)
"""Random actions after a beginning of the walkthrough; each number is drawn once for each."""

TURNS: Final = (0, 1, 3)
"""The turns that a question tells: without ℳ_i, of MC-DML, of the agents without search."""

ADVISED: Final = 0.25
"""The share of questions that have reflections."""

MOST_ADVICE: Final = 3
"""The most reflections of a question."""

EXPLORED: Final = 1000
"""The most steps that are played to find what is left of a game; 2 ms each."""

# Increase it when the moments of a game change.
_GENERATION = 1
_LONGEST = 16 << 20
_FILE = "moments.json"


class Moment(NamedTuple):
    """A moment of a game that leaves a choice.

    Attributes:
        past: the last turns before it, oldest first: what was seen, and the action.
        seen: what is seen now.
        actions: 𝒜(s).
        right: those after which the fewest actions are left, the one that is taught first.
        left: actions that are left.
    """

    past: Sequence[tuple[Observation, str]]
    seen: Observation
    actions: Sequence[str]
    right: Sequence[str]
    left: int


class GameLessons:
    """Makes lessons of the role `prior` in text games; see `ExerciseMaker`."""

    roles: tuple[str, ...] = (ROLE,)
    taught_words = ""

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes an exercise about a drawn moment of a drawn game; see `ExerciseMaker`."""
        if ROLE not in roles:
            return ()
        kind = rng.choices(list(LEVELS_TAUGHT), [SHARES[kind] for kind in LEVELS_TAUGHT])[0]
        numbers = [n for n in range(GAMES) if (n % HELD_OUT_OF == HELD_OUT_OF - 1) == held_out]
        known = moments(kind, rng.choice(numbers))
        if not known:
            return ()
        moment, turns = rng.choice(known), rng.choice(TURNS)
        pieces = rng.randint(1, MOST_ADVICE) if rng.random() < ADVISED else 0
        situation = GameSituation(
            memory=tuple(
                GameTurn(seen, action, reward=0.0, score=0.0)
                for seen, action in (moment.past[-turns:] if turns else ())
            ),
            observation=moment.seen,
            actions=tuple(moment.actions),
            reflections=tuple(
                dict.fromkeys(_advice(rng.choice(known), rng) for _ in range(pieces))
            ),
        )
        return [
            prior_exercise(
                GameWording(),
                situation,
                way=USUAL_WAY,
                right=moment.right,
                best=moment.right[0],
                kinds={
                    "game": kind,
                    "left": left_kind(moment.left),
                    "turns": str(turns),
                    "games": HELD_OUT if held_out else SEEN,
                },
                dashes=rng.randint(1, BLOCK),
            )
        ]


def _advice(about: Moment, rng: Random) -> str:
    """A reflection such as rules write; every second one is wrong."""
    better = about.right[0]
    worse = rng.choice([action for action in about.actions if action not in about.right])
    if rng.random() < 0.5:
        better, worse = worse, better
    return f"Next time, at move {rng.randint(1, 20)}, {better} is better than {worse}."


@cache
def moments(kind: str, number: int) -> tuple[Moment, ...]:
    """The moments of a game, from the cache if it has them.

    Args:
        kind: of `LEVELS_TAUGHT`.
        number: from 0 to `GAMES`.

    Raises:
        TextGameError: the game cannot be made.
    """
    check_textworld()
    levels = LEVELS_TAUGHT[kind]
    level, seed = levels[number % len(levels)], FIRST + number
    packages = (f"{name} {importlib.metadata.version(name)}" for name in ("textworld", "jericho"))
    revision = ", ".join((f"moments {_GENERATION}", *packages))
    place = cache_folder() / "games" / f"moments-{kind}-{level}-{seed}"
    if not is_intact(place, revision):
        found = _find(kind, level, seed)
        try:
            _keep(found, place, revision)
        except OSError as error:
            logger.warning("the moments of %s are for this process alone: %s", place.name, error)
        return found
    rows: list[list[Any]] = read_json(place / _FILE, most=_LONGEST)
    return tuple(
        Moment([(Observation(*seen), action) for seen, action in past], Observation(*now), *others)
        for past, now, *others in rows
    )


def _keep(found: Sequence[Moment], place: Path, revision: str) -> None:
    with building(place) as workshop:
        built = workshop / "moments"
        built.mkdir()
        (built / _FILE).write_text(json.dumps(found, default=astuple), "utf-8")
        publish(built, place, revision=revision)


def _find(kind: str, level: int, seed: int) -> tuple[Moment, ...]:
    """Plays the game in a thread, as games are coroutines."""

    async def play() -> tuple[Moment, ...]:
        settings = GameSettings(game_seed=seed, level=level, remember="memory")
        async with open_text_game(kind, settings) as game:
            return tuple([moment async for moment in _moments(game, Random(f"{kind} {seed}"))])

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, play()).result()


async def _moments(game: TextGameDomain, rng: Random) -> AsyncIterator[Moment]:
    played = _Played(game)
    ways = {}
    for passed in range(len(game.walkthrough)):
        for detour in DETOURS:
            way = await played.way(game.walkthrough[:passed], detour, rng)
            if way[-1].now.state not in ways:
                ways[way[-1].now.state] = way
                # What was taken on a detour rarely hinders, so most often the walkthrough goes on.
                await played.along(way[-1].now, game.walkthrough[passed:])
    await played.explore([way[-1].now for way in ways.values()])
    left = played.left()
    for state, way in ways.items():
        here = way[-1].now
        actions = await game.actions(here)
        after = [(await played.step(here, action)).state for action in actions]
        right = [
            action
            for action, there in zip(actions, after, strict=True)
            if left.get(there, len(left)) < left.get(state, 0)
        ]
        if 0 < len(right) < len(actions):
            steps = list(pairwise(way))[-max(TURNS) :]
            past = [(await observe(game, before.now), move.action) for before, move in steps]
            yield Moment(past, await observe(game, here), actions, right, left[state])


class _Move(NamedTuple):
    """An action and where it led; the start has no action."""

    action: str
    now: Transition


class _Played:
    """What was played of a game, to count what is left of it."""

    def __init__(self, game: TextGameDomain) -> None:
        self._game = game
        self._known: dict[str, Transition] = {}
        self._before = defaultdict[str, set[str]](set)
        self._won: list[str] = []

    async def step(self, here: Transition, action: str) -> Transition:
        """Plays an action."""
        made = (await self._game.step(here, action, Random(0))).state
        self._before[made.state].add(here.state)
        if made.state not in self._known:
            self._known[made.state] = made
            if self._game.success(made):
                self._won.append(made.state)
        return made

    async def along(self, here: Transition, actions: Sequence[str]) -> list[_Move]:
        """Plays those of the actions that are possible when it is their turn."""
        moves = []
        for action in actions:
            if here.ending is None and action in await self._game.actions(here):
                here = await self.step(here, action)
                moves.append(_Move(action, here))
        return moves

    async def way(self, actions: Sequence[str], detour: int, rng: Random) -> list[_Move]:
        """Actions from the start, and a detour of random ones, which does not end the game."""
        start = await self._game.start(0)
        way = [_Move("", start), *await self.along(start, actions)]
        for _ in range(detour):
            action = rng.choice(await self._game.actions(way[-1].now))
            made = await self.step(way[-1].now, action)
            if made.ending is None:
                way.append(_Move(action, made))
        return way

    async def explore(self, first: Sequence[Transition]) -> None:
        """Plays every action in these states, then in what is known, then breadth first."""
        waiting = deque({here.state: here for here in (*first, *self._known.values())}.values())
        seen = {here.state for here in waiting}
        steps = 0
        while waiting and steps < EXPLORED:
            here = waiting.popleft()
            for action in await self._game.actions(here) if here.ending is None else ():
                made = await self.step(here, action)
                steps += 1
                if made.state not in seen:
                    seen.add(made.state)
                    waiting.append(made)

    def left(self) -> Mapping[str, int]:
        """State -> the fewest actions to victory, as far as was played."""
        left, reached = dict.fromkeys(self._won, 0), deque(self._won)
        while reached:
            after = reached.popleft()
            for state in self._before[after]:
                if state not in left:
                    left[state] = left[after] + 1
                    reached.append(state)
        return left
