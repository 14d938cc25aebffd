"""Games of TextArena as domains: we are player 0, the others play uniformly among their moves.

All chance comes from the step's `rng`: TextArena draws from the generators that all of Python
shares, so they are seeded around each step and then given back. A step that draws nothing is
certain. A state is a game that nobody plays on: a move is made in a copy. Copies are tested when a
game is opened; where they differ, a game is replayed from its start.
"""

from __future__ import annotations

import random
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from random import Random
from typing import TYPE_CHECKING, Any

import textarena
from textarena.envs.registration import ENV_REGISTRY

from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.bridges.gymnasium_copies import NOT_TWICE, TESTED_STEPS
from llm_planning.environments.bridges.own_words import BridgeSettings, Sight, sees_too_much
from llm_planning.environments.bridges.textarena_moves import (
    FAMILIES,
    ONLINE,
    Family,
    is_refused,
    own_chance,
)
from llm_planning.names import remedy
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_SUCH_AS = "TowerOfHanoi-v0 or Nim-v0"
_PLAYER = 0
_NO_CHANCE = 0
_TESTED_STARTS = 2


class TextArenaSettings(BridgeSettings):
    """Settings of a game of TextArena.

    Attributes:
        sight: what a search sees of a game that hides something: nothing (`own`), so that it is
            refused, or all of it (`full`).
    """

    sight: Sight = "own"


@dataclass(frozen=True, slots=True)
class Moment:
    """A state, at our turn or at the end.

    Attributes:
        past: the seed of the start, and each move with the seed of its chance. It decides the rest.
        kept: the game at this moment, never played on; empty if it was.
        moves: what we may do.
        text: what we see.
        ended: why the game ended; empty while it lasts.
        reward: ours at the end.
    """

    past: tuple[tuple[str, int], ...] = field(repr=False)
    kept: list[Any] = field(compare=False, repr=False)
    moves: tuple[str, ...] = field(compare=False, repr=False)
    text: str = field(compare=False, repr=False)
    ended: str = field(default="", compare=False)
    reward: float = field(default=0.0, compare=False)


class TextArenaGame(Domain[Moment, str]):
    """One game.

    Args:
        task: its id.
        sight: see `TextArenaSettings`.

    Raises:
        DomainError: its moves cannot be listed, or it cannot be made.
    """

    def __init__(self, task: str = "TowerOfHanoi-v0", *, sight: Sight = "own") -> None:
        self._task = task
        self._family = family = _family(task)
        try:
            self._first = textarena.make(task)
            self.start(0)
        except Exception as error:
            raise DomainError(f"{task} cannot be made here: {error}") from error
        others = family.players - 1
        self.about = f"This is the game {task} of TextArena."
        if others:
            self.about += f" You are player {_PLAYER}, and {others} more play at random."
        self.goal = "Collect the highest score you can." if family.scores else f"Win {task}."
        self._at: Callable[[Moment], Any] = _copied
        self.no_search = self._why_not_searched()
        if family.hides and sight == "own" and not self.no_search:
            self.no_search = sees_too_much(task, "hides something from its player")

    def start(self, seed: int) -> Moment:
        """The game at our first turn."""
        game = deepcopy(self._first)
        # Some games print how they come about.
        with own_chance(seed), redirect_stdout(StringIO()):
            game.reset(num_players=self._family.players, seed=seed)
            self._let_others_play(game)
        return self._moment((("", seed),), game, "")

    def describe(self, state: Moment) -> str:
        """What we see, in the game's own words; its id says how much of the past is in it."""
        return state.text

    def actions(self, state: Moment) -> Sequence[str]:
        """Our possible moves."""
        return state.moves

    def step(self, state: Moment, action: str, rng: Random) -> Step[Moment]:
        """Makes a move, and lets the others play until it is our turn again."""
        if action not in state.moves:
            return Step(state, obstacle=f"it is no possible move; {remedy(action, state.moves)}")
        # Others draw in any case; a game that does nothing twice can be asked only once.
        once = self._family.players > 1 or self._at is _taken
        after, drawn = self._after(state, action, rng.getrandbits(63) if once else _NO_CHANCE)
        if drawn and not once:
            after, _ = self._after(state, action, rng.getrandbits(63))
        known = drawn and not self._family.hides
        observation = after.text if known else None
        return Step(after, after.reward, bool(after.ended), observation, text=after.ended)

    def success(self, state: Moment) -> bool | None:
        """Alone, the whole reward of 1, as less is for a part; else any reward above 0.

        Nothing tells where the reward is a score.
        """
        if not state.ended:
            return False
        if self._family.scores:
            return None
        return state.reward >= 1 if self._family.players == 1 else state.reward > 0

    def _after(self, state: Moment, action: str, chance: int) -> tuple[Moment, bool]:
        """The moment after a move, and whether anything was drawn."""
        game = self._at(state)
        drawn = self._play(game, action, chance)
        return self._moment((*state.past, (action, chance)), game, state.text), drawn

    def _play(self, game: Any, action: str, chance: int) -> bool:
        """Makes a move of ours and those of the others, and says whether anything was drawn.

        Raises:
            DomainError: TextArena fails, or refuses what its rules allow.
        """
        with own_chance(chance) as is_drawn:
            try:
                game.step(action)
                refused = is_refused(game)
                self._let_others_play(game)
            except Exception as error:
                kind = type(error).__name__
                raise DomainError(f"{self._task} fails at {action}: {kind}: {error}") from error
            if refused:
                raise DomainError(f"{self._task} refuses {action}, though its rules allow it")
            return is_drawn()

    def _let_others_play(self, game: Any) -> None:
        """Uniform moves of the others, which the chance of the step decides."""
        while not game.state.done and game.state.current_player_id != _PLAYER:
            if not (moves := self._family.listed(game)):
                return
            game.step(random.choice(moves))

    def _moment(self, past: tuple[tuple[str, int], ...], game: Any, before: str) -> Moment:
        # Nobody reads these, and every copy would have them.
        game.state.logs.clear()
        for player, waiting in game.state.observations.items():
            if player != _PLAYER:
                waiting.clear()
        ended = game.state.done
        if ended or not (moves := self._family.listed(game)):
            reason = game.state.game_info[_PLAYER].get("reason") if ended else "Nobody can move."
            reward = float((game.state.rewards or {}).get(_PLAYER, 0.0))
            return Moment(past, [game], (), f"{before}\n{reason}", str(reason), reward)
        _, seen = game.get_observation()
        text = (
            seen if isinstance(seen, str) else "\n".join([before, *(str(part[1]) for part in seen)])
        )
        return Moment(past, [game], moves, text.strip())

    def _replayed(self, state: Moment) -> Any:
        (_, seed), *taken = state.past
        again = self.start(seed).kept[0]
        for action, chance in taken:
            self._play(again, action, chance)
            again.get_observation()
        return again

    def _why_not_searched(self) -> str:
        """Why no copy can be trusted; chooses how copies are made."""
        for way in (_copied, self._replayed):
            self._at = way
            if all(map(self._agrees, range(_TESTED_STARTS))):
                return ""
        self._at = _taken
        return f"{self._task}: {NOT_TWICE}"

    def _agrees(self, seed: int) -> bool:
        """Whether copies of a game go on as the game itself does."""
        draws, state, original = Random(f"copies {seed}"), self.start(seed), self.start(seed)
        for _ in range(TESTED_STEPS):
            if not state.moves:
                break
            action, chance = draws.choice(state.moves), draws.getrandbits(63)
            (state, _), (again, _) = (self._after(state, action, chance) for _ in range(2))
            self._play(original.kept[0], action, chance)
            original = self._moment(state.past, original.kept[0], original.text)
            if not _facts(state) == _facts(again) == _facts(original):
                return False
        return True


def bridge(id_: str) -> DomainSpec:
    """One game as a domain, or all that are registered if no id is given.

    Raises:
        DomainError: there is no such game.
    """
    known = tuple(ENV_REGISTRY)
    if id_ and id_ not in known:
        raise DomainError(f"textarena has no game {id_!r}; {remedy(id_, known)}")
    return DomainSpec(
        name=f"textarena:{id_}" if id_ else "textarena",
        summary=f"{id_}, a game of TextArena" if id_ else "The games of TextArena",
        kind=TextArenaGame,
        tasks=(id_,) if id_ else known,
        settings=TextArenaSettings,
        open=lambda task, settings: TextArenaGame(task, sight=settings.sight),
    )


def _family(task: str) -> Family:
    """What is known of a game.

    Raises:
        DomainError: its moves are not listed.
    """
    # As in `textarena.envs.Nim.env:NimEnv`.
    game = str(ENV_REGISTRY[task].entry_point).split(".")[-2]
    if game in FAMILIES:
        return FAMILIES[game]
    why = "needs the network when it is opened" if game in ONLINE else "has no list of moves"
    raise DomainError(f"{task} {why}: choose another game, such as {_SUCH_AS}")


def _facts(state: Moment) -> tuple[object, ...]:
    return state.text, state.moves, state.ended, state.reward


def _copied(state: Moment) -> Any:
    (game,) = state.kept
    # Most of a game is what it said, which never changes.
    messages = chain.from_iterable(getattr(game, "full_observations", {}).values())
    return deepcopy(game, {id(message): message for message in messages})


def _taken(state: Moment) -> Any:
    """The game itself, so that nobody comes back to the state.

    Raises:
        DomainError: the state was left before.
    """
    if not state.kept:
        raise DomainError(NOT_TWICE)
    return state.kept.pop()
