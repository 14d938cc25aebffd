"""Our `uct` with both players in its tree plays OpenSpiel's MCTSBot, which should be its equal.

Connect four, breakthrough and othello, each game once with each colour, round after round while
time is left. Both have as many simulations for each move in a new tree, one uniform rollout to the
end for each, and the same exploration constant. Both play the bot's final choice: a move that wins
at once, then the most visited one, then the one of the higher return.

The bot's first simulation values the root alone, so it has one more. Also with `solve=False` it
scores a move that ends the game by its outcome, without a bonus; UCT as published gives such a move
the bonus of any other. So we play by both rules, and only by the bot's is everything equal.
"""

from __future__ import annotations

import asyncio
import csv
import os
import statistics
import sys
from dataclasses import astuple, dataclass, fields
from itertools import count, product
from pathlib import Path
from random import Random
from time import process_time
from time import thread_time as clock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyspiel
from harness import Finding, parser, report
from open_spiel.python.algorithms.mcts import MCTSBot, RandomRolloutEvaluator

from llm_planning.environments.bridges.openspiel_games import OpenSpielGame, Position
from llm_planning.experiments.statistics import portion
from llm_planning.planners.any_domain.search_agents import DomainModel, against_best
from llm_planning.search import Node, search, select_by_uct, uct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llm_planning.search import Edge, Select

GAMES = ("connect_four", "breakthrough", "othello")
SIMULATIONS = 100
"""By default, for each move."""

EXPLORATION = 2.0
"""As in OpenSpiel's own examples."""


def _select_as_bot(node: Node[Any, str], edges: Sequence[Edge[Any, str]]) -> Edge[Any, str]:
    """The bot's `SearchNode.uct_value`."""

    def score(edge: Edge[Any, str]) -> float:
        ends = edge.visits and edge.step is not None and edge.step.done
        return edge.value if ends else uct(edge.value, edge.visits, node.visits, EXPLORATION)

    return max(edges, key=score)


RULES: Mapping[str, Select[Any, str]] = {
    "the bot's": _select_as_bot,
    "UCT": select_by_uct(c=EXPLORATION),
}
"""How we select."""

ENDLESS = 10_000
"""Moves; no rollout is cut off."""

MINUTES = 20.0

Player: TypeAlias = "Callable[[Any], int]"
"""Maps a state of OpenSpiel to a move."""


@dataclass(frozen=True, slots=True)
class Played:
    """A game that was played.

    Attributes:
        game: its name in OpenSpiel.
        rule: one of `RULES`.
        ours: our player's number; 0 moves first.
        seed: of all draws.
        simulations: for each move.
        points: 1 for our win, 0.5 for a draw, 0 for a loss.
        our_us: median time of our moves, in microseconds of CPU for a simulation.
        their_us: likewise of the bot's.
    """

    game: str
    rule: str
    ours: int
    seed: int
    simulations: int
    points: float
    our_us: float
    their_us: float


def our_move(name: str, rule: str, player: int, seed: int, *, simulations: int) -> Player:
    """Our search, as one of the players."""
    world = OpenSpielGame(name, player=player)
    game = against_best(world, 1.0)
    rng = Random(seed)

    def move(state: Any) -> int:  # noqa: ANN401
        root: Node[Any, str] = Node()
        model = DomainModel(
            game.sides[0],
            state=Position(tuple(state.history()), state),
            history=(),
            past=(),
            now="",
            prior=None,
            gamma=1.0,
            depth=ENDLESS,
            simulations=simulations,
        )
        asyncio.run(
            search(
                root,
                model,
                select=RULES[rule],
                backup=game.backup,
                simulations=simulations,
                expand_at="second",
                rng=rng,
            )
        )
        return int(state.string_to_action(max(root.edges or (), key=_final).action))

    return move


def _final(edge: Edge[Any, str]) -> tuple[float, int, float]:
    """The bot's `SearchNode.sort_key`."""
    outcome = edge.step.reward if edge.step is not None and edge.step.done else 0.0
    return outcome, edge.visits, edge.visits * edge.value


def their_move(name: str, seed: int, *, simulations: int) -> Player:
    """OpenSpiel's own search."""
    draws = np.random.RandomState(seed)
    rollouts = RandomRolloutEvaluator(1, draws)
    bot = MCTSBot(
        pyspiel.load_game(name),
        EXPLORATION,
        1 + simulations,
        rollouts,
        solve=False,
        random_state=draws,
    )
    return lambda state: int(bot.step(state))


def played(name: str, rule: str, ours: int, seed: int, *, simulations: int) -> Played:
    """Plays a game to its end."""
    players = {
        ours: our_move(name, rule, ours, seed, simulations=simulations),
        1 - ours: their_move(name, seed, simulations=simulations),
    }
    seconds: dict[int, list[float]] = {0: [], 1: []}
    state = pyspiel.load_game(name).new_initial_state()
    while not state.is_terminal():
        player = state.current_player()
        begun = clock()
        move = players[player](state.clone())
        seconds[player].append(clock() - begun)
        state.apply_action(move)
    points = (state.returns()[ours] + 1) / 2
    us = [statistics.median(seconds[player]) / simulations * 1e6 for player in (ours, 1 - ours)]
    return Played(name, rule, ours, seed, simulations, points, *(round(value, 1) for value in us))


def rounds(seconds: float, *, first: int, simulations: int) -> Iterator[Played]:
    """Plays each game by each rule with each colour, round after round in so much CPU time."""
    end = process_time() + seconds
    for seed in count(first):
        for name, rule, ours in product(GAMES, RULES, (0, 1)):
            yield played(name, rule, ours, seed, simulations=simulations)
        if process_time() >= end:
            return


def findings(games: Sequence[Played]) -> list[Finding]:
    """How far a half lies outside of the interval of our share of points, by game and rule."""
    found = []
    for name, rule in product(GAMES, RULES):
        those = [game for game in games if (game.game, game.rule) == (name, rule)]
        if not those:
            continue
        share = portion([game.points for game in those])
        low, high = share.low or 0.0, 1.0 if share.high is None else share.high
        ours = statistics.median(game.our_us for game in those)
        theirs = statistics.median(game.their_us for game in those)
        label = f"{name}, {rule} rule"
        details = {
            f"{label}: games": len(those),
            f"{label}: share of points": share.value,
            f"{label}: interval": f"{low:.3f} to {high:.3f}",
            f"{label}: µs a simulation, ours and theirs": f"{ours:.0f}, {theirs:.0f}",
        }
        finding = Finding(
            label=f"{label}: distance of 50% from the interval of our share of points",
            measured=max(0.0, low - 0.5, 0.5 - high),
            unit="",
            bound="at most",
            target=0.0,
            details=details,
        )
        found.append(finding)
    return found


def main() -> None:
    """Plays, and reports."""
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=MINUTES, help="of CPU time")
    options.add_argument("--first", type=int, default=0, help="seed of the first round")
    options.add_argument("--simulations", type=int, default=SIMULATIONS, help="for each move")
    options.add_argument("--csv", type=Path, help="a file that gets a line for each game")
    arguments = options.parse_args()
    games: list[Played] = []
    with (arguments.csv or Path(os.devnull)).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(field.name for field in fields(Played))
        try:
            for game in rounds(
                60 * arguments.minutes,
                first=arguments.first,
                simulations=arguments.simulations,
            ):
                games.append(game)
                lines.writerow(astuple(game))
                file.flush()
        except KeyboardInterrupt:
            sys.stderr.write("stopped; these are the games that ended\n")
    report("two_players", findings(games), as_json=arguments.json)


if __name__ == "__main__":
    main()
