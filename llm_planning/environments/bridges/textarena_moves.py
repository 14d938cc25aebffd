"""What can be done in games of TextArena, and what they draw.

A game takes any text and says afterwards whether it was a move. Which texts are moves is written
here for each game, in the form that its rules print, and from nothing that its player cannot see.
What is not here has no domain: its moves are free text or too many to be listed, its code needs
Python 3.12 (Chess, Checkers), or it fails (FifteenPuzzle, when it is solved).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import combinations, permutations, product
from typing import Any, TypeAlias

import textarena

_DIRECTIONS = ("up", "down", "left", "right")

Moves: TypeAlias = Callable[[Any], Iterable[str]]
"""Names the moves of the player whose turn it is, without brackets, given the game."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A game in all its sizes.

    Attributes:
        moves: what the player whose turn it is may do.
        players: how many play.
        hides: whether the game knows what its player cannot see, such as cards.
        scores: whether its reward is a score, of which nobody says when it wins.
    """

    moves: Moves
    players: int = 1
    hides: bool = False
    scores: bool = False

    def listed(self, game: Any) -> tuple[str, ...]:
        """The possible moves as the game takes them."""
        return tuple(f"[{move}]" for move in self.moves(game))


@contextmanager
def own_chance(seed: int) -> Iterator[Callable[[], bool]]:
    """Seeds the generator that all of Python shares, and gives it back as it was.

    Yields:
        Whether anything was drawn so far.
    """
    before = random.getstate()
    random.seed(seed)
    begun = random.getstate()
    try:
        yield lambda: random.getstate() != begun
    finally:
        random.setstate(before)


def is_refused(game: Any) -> bool:
    """Whether a game calls its last move invalid."""
    player = game.state.game_info[game.state.current_player_id]
    return bool(game.state.error_count or player["invalid_move"])


def _accepted(*moves: str) -> Moves:
    """Those of some moves that a copy of the game takes."""

    def taken(game: Any, move: str) -> bool:
        tried = deepcopy(game)
        tried.step(f"[{move}]")
        return not is_refused(tried)

    def moves_of(game: Any) -> list[str]:
        with own_chance(0):
            return [move for move in moves if taken(_without_wrappers(game), move)]

    return moves_of


def _without_wrappers(game: Any) -> Any:
    while isinstance(game, textarena.Wrapper):
        game = game.env
    return game


def _always(*moves: str) -> Moves:
    return lambda _: moves


def _facts(game: Any) -> Any:
    return game.state.game_state


def _cells(size: int) -> Iterable[tuple[int, int]]:
    return product(range(size), range(size))


def _empty(game: Any) -> list[int]:
    """The numbers of the empty cells of a board, row by row."""
    cells = (cell for row in _facts(game)["board"] for cell in row)
    return [number for number, cell in enumerate(cells) if not cell]


def _slides(game: Any) -> Iterable[str]:
    """The directions in which a tile of 2048 moves."""
    rows = _facts(game)["board"]
    columns = [list(column) for column in zip(*rows, strict=True)]
    for way, lines in zip(_DIRECTIONS, (columns, columns, rows, rows), strict=True):
        to = -1 if way in {"down", "right"} else 1
        if any(game._compress_and_merge(line[::to])[0] != line[::to] for line in lines):
            yield way


def _sudoku(game: Any) -> Iterable[str]:
    board = _facts(game)["board"]
    for row, column in _cells(9):
        for number in range(1, 10):
            if not board[row][column] and game.is_safe(board, row, column, number):
                yield f"{row + 1} {column + 1} {number}"


def _cryptarithm(game: Any) -> Iterable[str]:
    for letter, digit in product(sorted(game.letters), range(10)):
        if digit not in game.digit_used and (digit or letter not in game.first_letters):
            yield f"{letter} {digit}"


def _countdown(game: Any) -> Iterable[str]:
    for (i, j), sign in product(permutations(range(len(game.numbers)), 2), "+-*/"):
        if game._execute_operation(i, j, sign) is not None:
            yield f"{i} {j} {sign}"


def _slitherlink(game: Any) -> Iterable[str]:
    size = max(game.R, game.C) + 1
    for kind, (row, column) in product("hv", _cells(size)):
        if game._valid_edge(kind, row, column):
            yield f"{kind} {row} {column}"


def _ultimate_tic_tac_toe(game: Any) -> Iterable[str]:
    facts = _facts(game)
    for board, cell in product(range(9), range(9)):
        is_open = facts["macro_board"][board // 3][board % 3] == " "
        is_next = facts["next_micro_board"] in {None, board}
        if is_open and is_next and facts["board"][board][cell // 3][cell % 3] == " ":
            yield f"{board} {cell}"


def _nim(game: Any) -> Iterable[str]:
    for pile, size in enumerate(_facts(game)["piles"]):
        yield from (f"{pile} {number}" for number in range(1, size + 1))


def _breakthrough(game: Any) -> Iterable[str]:
    player, size = _turn(game), game.board_size
    ahead = 1 if player == 0 else -1
    for (row, column), aside in product(_cells(size), (-1, 0, 1)):
        to = row + ahead, column + aside
        if game._is_on_board(*to) and game._is_valid_move(player, row, column, *to):
            yield f"{_square(row, column)}{_square(*to)}"


def _square(row: int, column: int) -> str:
    return f"{chr(ord('a') + column)}{row + 1}"


def _othello(game: Any) -> list[str]:
    """Where to place a piece; any text skips where there is no such place."""
    places = game._valid_moves("B" if _turn(game) == 0 else "W")
    return [f"{row}, {column}" for row, column in places] or ["skip"]


def _liars_dice(game: Any) -> Iterable[str]:
    facts = _facts(game)
    bid, dice = facts["current_bid"], sum(facts["remaining_dice"].values())
    if bid["quantity"]:
        yield "Call"
    for number, face in product(range(1, dice + 1), range(1, 7)):
        if game._is_valid_bid(number, face, bid)[0]:
            yield f"Bid: {number}, {face}"


def _chopsticks(game: Any) -> Iterable[str]:
    mine, theirs = (_facts(game)["hands"][player] for player in (_turn(game), 1 - _turn(game)))
    yield from (f"attack {i} {j}" for i, j in product(range(2), repeat=2) if mine[i] and theirs[j])
    for left in range(sum(mine) + 1):
        if [left, sum(mine) - left] != mine:
            yield f"split {left} {sum(mine) - left}"


def _hand(game: Any) -> list[Any]:
    hand: list[Any] = _facts(game)["players"][_turn(game)]["hand"]
    return hand


def _cards(game: Any) -> list[str]:
    return [game._val_to_face(card) for card in _facts(game)["player_hands"][_turn(game)]]


def _turn(game: Any) -> int:
    return int(game.state.current_player_id)


_HANOI = tuple(" ".join(towers) for towers in permutations("ABC", 2))

FAMILIES = {
    # of one player
    "Game2048": Family(moves=_slides),
    "Bandit": Family(moves=lambda game: game.buttons, hides=True),
    "Blackjack": Family(moves=_always("Hit", "Stand"), hides=True, scores=True),
    "Countdown": Family(moves=_countdown),
    "Cryptarithm": Family(moves=_cryptarithm),
    "FrozenLake": Family(moves=_accepted(*_DIRECTIONS)),
    "GuessTheNumber": Family(
        moves=lambda game: (
            str(number)
            for number in range(game.min_number, game.max_number + 1)
            if number not in game.guessed_numbers
        ),
        hides=True,
    ),
    "LightsOut": Family(
        moves=lambda game: (f"{row} {column}" for row, column in _cells(game.size))
    ),
    "PegJump": Family(
        moves=lambda game: (
            f"{start} {end}"
            for start, over, end in game.ALLOWED_MOVES
            for board in [_facts(game)["board"]]
            if board[start] and board[over] and not board[end]
        )
    ),
    "RushHour": Family(
        moves=lambda game: (
            f"{name}{way}"
            for (name, car), way in product(_facts(game)["vehicles"].items(), "+-")
            if game._try_move(car.copy(), way == "+")
        )
    ),
    "Secretary": Family(moves=_always("accept", "continue"), hides=True),
    "Slitherlink": Family(moves=_slitherlink),
    "Sokoban": Family(moves=_accepted(*_DIRECTIONS)),
    "Sudoku": Family(moves=_sudoku),
    "ThreeCardMonte": Family(moves=lambda game: map(str, range(game.num_cups))),
    "TowerOfHanoi": Family(moves=_accepted(*_HANOI)),
    # of several
    "Breakthrough": Family(moves=_breakthrough, players=2),
    "Briscola": Family(
        moves=lambda game: (f"play {place}" for place, _ in enumerate(_hand(game), start=1)),
        players=2,
        hides=True,
    ),
    "Chopsticks": Family(moves=_chopsticks, players=2),
    "ConnectFour": Family(
        moves=lambda game: (
            f"col {column}"
            for column in range(game.num_cols)
            if game._validate_action(f"[col {column}]")[0]
        ),
        players=2,
    ),
    "Crusade": Family(
        moves=lambda game: (move.strip("[]") for move in game._legal_moves_for_player(_turn(game))),
        players=2,
    ),
    "GameOfPureStrategy": Family(moves=_cards, players=2, hides=True),
    "GermanWhist": Family(
        moves=lambda game: (
            f"play {place}"
            for place, card in enumerate(_hand(game), start=1)
            if game._is_valid_play(_turn(game), card)
        ),
        players=2,
        hides=True,
    ),
    "IteratedMatchingPennies": Family(moves=_always("heads", "tails"), players=2),
    "IteratedRockPaperScissors": Family(moves=_always("rock", "paper", "scissors"), players=2),
    "KuhnPoker": Family(
        moves=lambda game: _facts(game)["current_legal_action_tree"], players=2, hides=True
    ),
    "LiarsDice": Family(moves=_liars_dice, players=2, hides=True),
    "Nim": Family(moves=_nim, players=2),
    "Othello": Family(moves=_othello, players=2),
    "PigDice": Family(moves=_always("roll", "hold"), players=2),
    "QuantumTicTacToe": Family(
        moves=lambda game: (f"{a},{b}" for a, b in combinations(_empty(game), 2)), players=2
    ),
    "SimpleTak": Family(moves=lambda game: map(str, _empty(game)), players=2),
    "Snake": Family(moves=_always(*_DIRECTIONS), players=2),
    "Surround": Family(moves=_always(*_DIRECTIONS), players=2),
    "ThreePlayerTicTacToe": Family(moves=lambda game: map(str, _empty(game)), players=3),
    "TicTacToe": Family(moves=lambda game: map(str, _empty(game)), players=2),
    "UltimateTicTacToe": Family(moves=_ultimate_tic_tac_toe, players=2),
    "WildTicTacToe": Family(
        moves=lambda game: (f"{mark} {cell}" for cell in _empty(game) for mark in "XO"), players=2
    ),
}
"""Folder of a game in TextArena -> its family."""

ONLINE = frozenset(
    (
        *("Codenames", "Crosswords", "DontSayIt", "Hangman", "LetterAuction", "SpellingBee"),
        *("WordChains", "WordLadder", "WordSearch", "Wordle"),
        *("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions"),
    )
)
"""Games that download lists of words, or ask a model of OpenRouter."""
