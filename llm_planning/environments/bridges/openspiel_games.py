"""Games of OpenSpiel as domains: one player plans, the others play as a setting says.

A state is a position that nobody plays on: a move is made in a clone. Clones are tested when a game
is opened; where they differ, a position is replayed from its start. Games of simultaneous moves are
played in turns, by OpenSpiel's own conversion. A step is our move and all that follows until it is
our turn again: chance, by its odds, and the moves of the others. Where a search looks for the best
moves of an opponent, a step is one move of whoever's turn it is, and chance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pyspiel
from pydantic import Field

from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.bridges.own_words import BridgeSettings, Sight, sees_too_much
from llm_planning.names import remedy
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TESTED_MOVES: Final = 10
"""Moves by which clones are tested when a game is opened."""

EXPLORATION: Final = 2.0
"""The constant of UCT in an opponent that searches: OpenSpiel's own default in its examples."""

_MCTS_MEMORY = 0


class OpenSpielSettings(BridgeSettings):
    """Settings of a game of OpenSpiel.

    Attributes:
        player: who we are, from 0.
        opponent: how the others play: `uniform`, or `mcts:N` by OpenSpiel's search of N
            simulations.
        sight: what a search sees of a game with hidden information: nothing (`own`), so that it is
            refused, or all of it (`full`).
    """

    player: int = Field(0, ge=0)
    opponent: str = Field("uniform", pattern=r"^(uniform|mcts:[1-9]\d{0,5})$")
    sight: Sight = "own"


@dataclass(frozen=True, slots=True)
class Position:
    """A state: a position that is cloned and never played on.

    Attributes:
        moves: all actions from the start, those of chance and of the others included.
        spiel: OpenSpiel's state.
    """

    moves: tuple[int, ...]
    spiel: Any = field(compare=False, repr=False)


class OpenSpielGame(Domain[Position, str]):
    """One game, seen by one of its players.

    Args:
        task: its name, with parameters in brackets where it takes some: `breakthrough(rows=6)`.
        player: see `OpenSpielSettings`.
        opponent: see `OpenSpielSettings`.
        sight: see `OpenSpielSettings`.

    Raises:
        DomainError: there is no such game or player, or it cannot be played in turns.
    """

    def __init__(
        self,
        task: str = "tic_tac_toe",
        *,
        player: int = 0,
        opponent: str = "uniform",
        sight: Sight = "own",
    ) -> None:
        self._task = task
        self._game = _loaded(task)
        players = self._game.num_players()
        if player >= players:
            raise DomainError(f"player={player}: {task} has {players} players, counted from 0")
        self._kind = self._game.get_type()
        self.player = player
        self._simulations = int(opponent.removeprefix("mcts:")) if opponent != "uniform" else 0
        self._clone: Callable[[Position], Any] = _cloned
        self._listed: tuple[Position | None, dict[str, int]] = (None, {})
        name = self._kind.long_name
        others = "" if players == 1 else f" There are {players} players; you are player {player}."
        self.about = f"The game is {name}.{others}"
        self.goal = f"Win {name}." if self._wins else f"End {name} with the highest return you can."
        self.no_search = self._why_not_searched(task)
        if self._hides and sight == "own" and not self.no_search:
            self.no_search = sees_too_much(task, "hides something from its players")

    def start(self, seed: int) -> Position:
        """The position at our first turn."""
        return self._until_a_choice(self._game.new_initial_state(), Random(seed))

    def describe(self, state: Position) -> str:
        """The whole position, as OpenSpiel prints it."""
        return str(state.spiel)

    def observe(self, state: Position) -> str:
        """What the player who moves may see; at an end, what ours may."""
        player = self.player if state.spiel.is_terminal() else state.spiel.current_player()
        if self._kind.provides_observation_string:
            return str(state.spiel.observation_string(player))
        if self._kind.provides_information_state_string:
            return str(state.spiel.information_state_string(player))
        return str(state.spiel)

    def actions(self, state: Position) -> Sequence[str]:
        """The legal moves of the player whose turn it is, in OpenSpiel's words."""
        return tuple(self._legal(state))

    def step(self, state: Position, action: str, rng: Random) -> Step[Position]:
        """Makes a move, and lets chance and the others move until an action is chosen again."""
        legal = self._legal(state)
        if action not in legal:
            return Step(state, obstacle=f"this move is not legal; {remedy(action, legal)}")
        now = self._clone(state)
        now.apply_action(legal[action])
        after = self._until_a_choice(now, rng)
        reward = self._return(after.spiel) - self._return(state.spiel)
        return Step(
            after,
            reward,
            after.spiel.is_terminal(),
            observation=(str(after.spiel), after.moves[-1:]),
        )

    def rollout(self, state: Position, rng: Random, *, gamma: float, depth: int) -> float:
        """See `RollsOut`: no move is named, and only the first position is cloned."""
        now, before = self._clone(state), self._return(state.spiel)
        value, weight = 0.0, 1.0
        for _ in range(depth):
            if now.is_terminal():
                break
            legal = now.legal_actions()
            now.apply_action(legal[int(rng.random() * len(legal))])
            self._play_others(now, rng)
            after = self._return(now)
            value += weight * (after - before)
            weight *= gamma
            before = after
        return value

    def sides(self) -> tuple[OpenSpielTurns, OpenSpielTurns]:
        """See `Turns`."""
        if self._game.num_players() != 2:
            why = f"has {self._game.num_players()} players, not two"
        elif not self._wins:
            why = "pays a player without a loss of the other"
        elif self._hides:
            why = "hides something, which an opponent in the tree would see"
        else:
            ours, theirs = (
                OpenSpielTurns(self._task, player=n) for n in (self.player, 1 - self.player)
            )
            return ours, theirs
        raise DomainError(f"against=best is not sound: {self._task} {why}; leave out against")

    def mover(self, state: Position) -> int:
        """See `Turns`."""
        return int(state.spiel.current_player() != self.player)

    def success(self, state: Position) -> bool | None:
        """Whether our return is above an even share; nothing tells where returns are no contest."""
        if not state.spiel.is_terminal():
            return False
        returns = state.spiel.returns()
        even = sum(returns) / len(returns)
        return bool(returns[self.player] > even) if self._wins else None

    @property
    def _hides(self) -> bool:
        return bool(self._kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION)

    @property
    def _wins(self) -> bool:
        """Whether somebody wins at the expense of the others."""
        contest = (pyspiel.GameType.Utility.ZERO_SUM, pyspiel.GameType.Utility.CONSTANT_SUM)
        return self._game.num_players() > 1 and self._kind.utility in contest

    def _return(self, spiel: Any) -> float:
        return float(spiel.returns()[self.player])

    def _legal(self, state: Position) -> dict[str, int]:
        """The moves by name; the number is added where two are called alike."""
        if state is self._listed[0]:
            return self._listed[1]
        spiel = state.spiel
        names: dict[str, int] = {}
        player = spiel.current_player()
        for number in () if spiel.is_terminal() else spiel.legal_actions():
            name = spiel.action_to_string(player, number)
            names[f"{name} ({number})" if name in names else name] = number
        # A rollout asks for the actions of a state, and then takes one of them.
        self._listed = (state, names)
        return names

    def _chooses(self, player: int) -> bool:
        """Whether a player's moves are actions here."""
        return player == self.player

    def _until_a_choice(self, spiel: Any, rng: Random) -> Position:
        self._play_others(spiel, rng)
        return Position(tuple(spiel.history()), spiel)

    def _play_others(self, spiel: Any, rng: Random) -> None:
        while not (spiel.is_terminal() or self._chooses(spiel.current_player())):
            spiel.apply_action(self._others_move(spiel, rng))

    def _others_move(self, spiel: Any, rng: Random) -> int:
        if spiel.is_chance_node():
            moves, odds = zip(*spiel.chance_outcomes(), strict=True)
            move: int = rng.choices(moves, odds)[0]
            return move
        legal = spiel.legal_actions()
        if not self._simulations:
            return int(rng.choice(legal))
        seed = rng.getrandbits(31)
        rollouts = pyspiel.RandomRolloutEvaluator(1, seed)
        bot = pyspiel.MCTSBot(
            self._game, rollouts, EXPLORATION, self._simulations, _MCTS_MEMORY, False, seed, False
        )
        return int(bot.step(spiel))

    def _why_not_searched(self, task: str) -> str:
        """Why no copy can be trusted; chooses how copies are made."""
        if self._kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
            return (
                f"{task} draws its chance by itself, so no state of it can be searched: let a "
                "planner act in it, such as react or llm-policy"
            )
        for way in (_cloned, partial(_replayed, self._game)):
            self._clone = way
            if self._clones_agree():
                return ""
        return (
            f"{task} does not do the same twice, neither in a clone nor from its start, so it "
            "cannot be searched: let a planner act in it, such as react or llm-policy"
        )

    def _clones_agree(self) -> bool:
        """Whether a position and its clones go on alike."""
        draws = Random("clones")
        state = self.start(0)
        for _ in range(TESTED_MOVES):
            if not (legal := self._legal(state)):
                break
            move = legal[draws.choice(tuple(legal))]
            try:
                before = str(state.spiel)
                first, second = self._clone(state), self._clone(state)
                first.apply_action(move)
                if str(state.spiel) != before:
                    return False
                second.apply_action(move)
            except pyspiel.SpielError:
                return False
            if str(first) != str(second) or first.returns() != second.returns():
                return False
            state = self._until_a_choice(first, draws)
        return True


class OpenSpielTurns(OpenSpielGame):
    """A game move by move, with the returns of one of its players; see `Turns.sides`."""

    def _chooses(self, player: int) -> bool:
        return player >= 0


def bridge(id_: str) -> DomainSpec:
    """One game as a domain, or all that are registered if no name is given.

    Raises:
        DomainError: there is no such game.
    """
    known = tuple(pyspiel.registered_names())
    if id_ and id_.partition("(")[0] not in known:
        raise DomainError(f"openspiel has no game {id_!r}; {remedy(id_, known)}")
    return DomainSpec(
        name=f"openspiel:{id_}" if id_ else "openspiel",
        summary=f"{id_}, a game of OpenSpiel" if id_ else "The games of OpenSpiel",
        kind=OpenSpielGame,
        tasks=(id_,) if id_ else known,
        settings=OpenSpielSettings,
        open=lambda task, settings: OpenSpielGame(
            task, player=settings.player, opponent=settings.opponent, sight=settings.sight
        ),
    )


def _loaded(task: str) -> Any:
    try:
        game = pyspiel.load_game(task)
        dynamics = game.get_type().dynamics
        if dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS:
            game = pyspiel.convert_to_turn_based(game)
        elif dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL:
            raise DomainError(f"{task} is no game in turns, so nobody can plan its moves")
        state = game.new_initial_state()
        if not state.is_chance_node():
            state.legal_actions()
    except (pyspiel.SpielError, RuntimeError, IndexError) as error:
        first = str(error).strip().partition("\n")[0]
        raise DomainError(f"{task} cannot be loaded: {first}") from error
    return game


def _cloned(state: Position) -> Any:
    return state.spiel.clone()


def _replayed(game: Any, state: Position) -> Any:
    spiel = game.new_initial_state()
    for move in state.moves:
        spiel.apply_action(move)
    return spiel
