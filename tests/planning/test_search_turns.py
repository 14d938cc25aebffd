"""Two players in one tree: the backup by hand, a reference, forced moves, games of OpenSpiel."""

import re
from math import inf, log, sqrt
from random import Random

import pytest
from any_domain_worlds import Corridor, run
from command_line import invoke, refused
from search_worlds import exported, walked

from llm_planning.domain import Domain, DomainError, Step, Turns
from llm_planning.environments.bridges.openspiel_games import OpenSpielGame
from llm_planning.planners.any_domain.search_agents import DomainModel, against_best
from llm_planning.search import (
    Edge,
    Node,
    advance_turns,
    by_sums,
    by_turns,
    search,
    select_by_uct,
)
from llm_planning.settings import SettingsError
from llm_serving.scripted import ScriptedEngine

LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


def mark_of(board):
    """Who moves; x begins."""
    return "xo"[board.count(".") % 2 == 0]


def winner_of(board):
    for line in LINES:
        marks = {board[i] for i in line}
        if len(marks) == 1 and marks != {"."}:
            return marks.pop()
    return ""


def free_of(board):
    return [i for i in range(9) if board[i] == "."]


def after(board, square):
    return board[:square] + mark_of(board) + board[square + 1 :]


class Side(Domain):
    """Noughts and crosses, a move a step, with the rewards of one side."""

    goal = "Make a line."

    def __init__(self, mark, board="." * 9):
        self.mark = mark
        self.board = board
        self.about = f"You are {mark}."

    def start(self, seed):
        return self.board

    def describe(self, board):
        return f"{board[:3]} {board[3:6]} {board[6:]}"

    def actions(self, board):
        return [] if winner_of(board) else free_of(board)

    def step(self, board, action, rng):
        board = after(board, action)
        won = winner_of(board)
        reward = (1.0 if won == self.mark else -1.0) if won else 0.0
        return Step(board, reward, bool(won) or "." not in board)

    def success(self, board):
        return winner_of(board) == self.mark


class Crosses(Side):
    """We are x, and o takes the last free square."""

    def __init__(self, board="." * 9):
        super().__init__("x", board)

    def step(self, board, action, rng):
        step = super().step(board, action, rng)
        return step if step.done else super().step(step.state, free_of(step.state)[-1], rng)

    def sides(self):
        return Side("x"), Side("o")

    def mover(self, board):
        return "xo".index(mark_of(board))


async def searched(board, *, simulations, seed=0, c=1.0, gamma=1.0, width=1):
    """The tree of whoever moves on a board."""
    mark = mark_of(board)
    model = DomainModel(Side(mark), board, (), (), "", None, gamma, depth=9)
    root = Node()
    await search(
        root,
        model,
        select=select_by_uct(c=c),
        backup=by_turns(gamma=gamma, mover=lambda board: int(mark_of(board) != mark)),
        simulations=simulations,
        expand_at="second",
        width=width,
        rng=Random(seed),
    )
    return root


@pytest.mark.parametrize(
    ("method", "value", "says"),
    [
        ("mover", 2, "0 for us or 1"),
        ("mover", None, "0 for us or 1"),
        ("mover", [1], "0 for us or 1"),
        ("sides", None, "two domains"),
        ("sides", (Side("x"),), "two domains"),
        ("sides", (Side("x"), "o"), "two domains"),
    ],
)
async def test_turns_that_are_none_are_said_of_the_world(method, value, says):
    kind = type("Odd", (Crosses,), {method: lambda *_: value})
    with pytest.raises(DomainError, match=rf"^Odd\.{method} returned .*, not {says}"):
        await run("uct", kind(), against="best", simulations=40)


# --- The backup -----------------------------------------------------------------------------------


def test_the_sign_goes_by_who_moves():
    """We move in s, the other in t and once more in u, we in v; from w on 8 are left."""
    a, b, c, d = Edge("a"), Edge("b"), Edge("c"), Edge("d")
    steps = [Step("t", 1.0), Step("u"), Step("v", -2.0), Step("w", 4.0)]
    root = Node()
    backup = by_turns(gamma=0.5, mover=lambda state: int(state in {"t", "u"}))
    walked(backup, root, list(zip((a, b, c, d), steps, strict=True)), 8.0)
    # Ours: R_3 = 4 + 4 = 8;  R_2 = -2 + 4 = 2;  R_1 = 0 + 1 = 1;  R_0 = 1 + 0.5 = 1.5
    assert [edge.value for edge in (a, b, c, d)] == [1.5, -1.0, -2.0, 8.0]
    assert root.value == 1.5
    # The next game ends with b, by which the other wins 3: R_1 = -3;  R_0 = 1 - 1.5 = -0.5
    walked(backup, root, [(a, steps[0]), (b, Step("x", -3.0, done=True))])
    assert (a.value, b.value) == ((1.5 - 0.5) / 2, (-1.0 + 3.0) / 2)
    assert (c.value, d.value) == (-2.0, 8.0)
    assert root.value == a.value


def test_a_walk_without_edges_teaches_our_tail():
    root = Node()
    walked(by_turns(gamma=1.0, mover=lambda _: 1), root, [], 3.0)
    assert root.value == 3.0


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_where_only_we_move_it_is_the_sum(gamma):
    q = []
    for backup in (by_sums(gamma=gamma), by_turns(gamma=gamma, mover=lambda _: 0)):
        edges = [Edge(i) for i in range(3)]
        walked(backup, Node(), [(edge, Step(edge.action, edge.action + 1.0)) for edge in edges], 5)
        q.append([edge.value for edge in edges])
    assert q[0] == q[1]


# --- The search -----------------------------------------------------------------------------------


async def test_six_simulations_by_hand():
    """o wins on 8; after 7, x does.

    | simulation | U(7) | U(8) | taken | return of o |
    |---|---|---|---|---|
    | 1 | ∞ | ∞ | 7, a rollout | -1 |
    | 2 | | ∞ | 8 | 1 |
    | 3 | -1 + 4 √ln 2 = 2.33 | 1 + 4 √ln 2 = 4.33 | 8 | 1 |
    | 4 | -1 + 4 √ln 3 = 3.19 | 1 + 4 √(ln 3 / 2) = 3.96 | 8 | 1 |
    | 5 | -1 + 4 √ln 4 = 3.71 | 1 + 4 √(ln 4 / 3) = 3.72 | 8 | 1 |
    | 6 | -1 + 4 √ln 5 = 4.07 | 1 + 4 √(ln 5 / 4) = 3.54 | 7, then x on 8 | -1 |
    """
    root = await searched("oxxxoxo..", simulations=6, c=4.0)
    seven, eight = root.edges
    assert [(e.action, e.visits, e.value) for e in root.edges] == [(7, 2, -1.0), (8, 4, 1.0)]
    assert [(e.action, e.visits, e.value) for e in seven.node.edges] == [(8, 1, 1.0)]
    assert root.value == pytest.approx(2 / 6)
    assert eight.step.done


class Negamax:
    """UCT of two players without our code: a value is that of whoever moves.

    Attributes:
        n: moves so far -> move -> visits, of nodes that were entered twice.
        q: likewise, the mean returns.
    """

    def __init__(self, board, *, simulations, seed, c, gamma):
        self.c, self.gamma = c, gamma
        self.met = {()}
        self.n: dict = {}
        self.q: dict = {}
        draws = Random(seed)
        for _ in range(simulations):
            self.visit(board, (), Random(draws.getrandbits(64)))

    def visit(self, board, moves, rng):
        if moves not in self.met:
            self.met.add(moves)
            return self.rollout(board, rng)
        n = self.n.setdefault(moves, dict.fromkeys(free_of(board), 0))
        q = self.q.setdefault(moves, dict.fromkeys(free_of(board), 0.0))
        total = sum(n.values())
        scores = {m: q[m] + self.c * sqrt(log(total) / n[m]) if n[m] else inf for m in n}
        move = max(n, key=scores.__getitem__)
        value = self.after_move(after(board, move), lambda b: self.visit(b, (*moves, move), rng))
        n[move] += 1
        q[move] += (value - q[move]) / n[move]
        return value

    def rollout(self, board, rng):
        free = free_of(board)
        move = free[int(rng.random() * len(free))]
        return self.after_move(after(board, move), lambda board: self.rollout(board, rng))

    def after_move(self, board, value_of):
        if winner_of(board):
            return 1.0
        return -self.gamma * value_of(board) if "." in board else 0.0


@pytest.mark.parametrize("board", ["." * 9, "x...o....", "xx..o....", "xo.ox...."])
@pytest.mark.parametrize(("seed", "gamma"), [(0, 1.0), (1, 0.9)])
async def test_the_tree_is_that_of_a_reference(board, seed, gamma):
    """Equal draws, equal visits and equal values at every node."""
    how = {"simulations": 300, "seed": seed, "c": 0.8, "gamma": gamma}
    root, reference = await searched(board, **how), Negamax(board, **how)
    left, compared = [(root, ())], 0
    while left:
        node, moves = left.pop()
        if not node.edges:
            continue
        compared += 1
        assert {edge.action: edge.visits for edge in node.edges} == reference.n[moves]
        assert {edge.action: edge.value for edge in node.edges} == reference.q[moves]
        for edge in node.edges:
            left.extend((child, (*moves, edge.action)) for child in edge.nodes)
    assert compared == len(reference.n) > 10


def minimax(board):
    """The value for whoever moves."""
    if winner_of(board):
        return -1
    return max((-minimax(after(board, square)) for square in free_of(board)), default=0)


@pytest.mark.parametrize(
    ("board", "moves"),
    [
        ("xx.oo....", {2}),  # x wins at once, before it stops o
        ("oo.xx...x", {2}),  # and o
        ("xx..o....", {2}),  # o stops x
        ("oo..x...x", {2}),  # x stops o
        ("x...o...x", {1, 3, 5, 7}),  # o must threaten, or x makes a fork in a corner
        ("x........", {4}),  # o must take the centre
    ],
)
async def test_the_move_of_minimax_is_found(board, moves):
    values = {square: -minimax(after(board, square)) for square in free_of(board)}
    assert {square for square in values if values[square] == max(values.values())} == moves
    root = await searched(board, simulations=3000)
    assert max(root.edges, key=lambda edge: edge.value).action in moves


@pytest.mark.parametrize("width", [2, 5])
async def test_simulations_in_flight_find_it_too(width):
    root = await searched("xx.oo....", simulations=400, width=width)
    assert max(root.edges, key=lambda edge: edge.value).action == 2
    again = await searched("xx.oo....", simulations=400, width=width)
    assert exported(root) == exported(again)


# --- The planners ---------------------------------------------------------------------------------


@pytest.mark.parametrize("planner", ["uct", "puct"])
async def test_a_planner_searches_the_best_answer(planner):
    """o threatens 2 on a board where the o of the world would not take it."""
    how = {"simulations": 300, "moves": 1, "gamma": 1.0, "depth": 9}
    how |= {"prior": "uniform"} if planner == "puct" else {}
    world = Crosses("oo..x...x")
    careful = await run(planner, world, against="best", **how)
    assert careful.plan == ("2",)
    q = {option["action"]: option["Q"] for option in careful.trace["moves"][0]["options"]}
    assert all(q[square] < 0 < q["2"] for square in q if square != "2")
    careless = await run(planner, world, **how)
    q = {option["action"]: option["Q"] for option in careless.trace["moves"][0]["options"]}
    assert sum(q[square] > 0.9 for square in q if square != "2") == 3


async def test_the_tree_is_kept_below_both_moves():
    root = await searched("." * 9, simulations=2000)
    world = Crosses()
    step = world.step("." * 9, 4, Random(0))
    kept = advance_turns(root, 4, step)
    reply = next(edge for edge in root.edges if edge.action == 4).node.edges[-1]
    assert step.state == "....x...o"
    assert kept is reply.node
    assert kept.visits == reply.visits > 10
    assert advance_turns(root, 4, Step("another")).visits == 0
    root.searched = True
    with pytest.raises(RuntimeError, match="await that search"):
        advance_turns(root, 4, step)


async def test_the_prior_is_asked_in_the_place_of_whoever_moves():
    asked = []

    def rate(text, choices):
        asked.append((text, tuple(choices)))
        return [0.0] * len(choices)

    await run(
        "puct",
        Crosses("oo..x...x"),
        engine=ScriptedEngine(lambda request: "", score=rate),
        against="best",
        simulations=40,
        moves=1,
        depth=9,
    )
    x, o = ([text for text, _ in asked if f"You are {mark}." in text] for mark in "xo")
    assert len(x) + len(o) == len(asked)
    assert any("oo. .x. ..x" in text for text in x)
    assert any("oox .x. ..x" in text for text in o)
    assert not any("oo. .x. ..x" in text for text in o)


async def test_a_world_without_turns_is_refused():
    with pytest.raises(SettingsError, match=r"takes turns with an opponent.*leave out against"):
        await run("uct", Corridor(), against="best")


# --- OpenSpiel ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["connect_four", "breakthrough", "mancala", "pig", "backgammon"])
@pytest.mark.parametrize("player", [0, 1])
def test_the_sides_of_a_game_play_it_move_by_move(name, player):
    """Rewards of the sides cancel, and who moves is who OpenSpiel says."""
    world = OpenSpielGame(name, player=player)
    ours, theirs = world.sides()
    assert isinstance(world, Turns)
    assert ours.about != theirs.about
    state = world.start(0)
    draws = Random(0)
    movers = []
    for move in range(40):
        actions = ours.actions(state)
        assert actions == theirs.actions(state)
        if not actions:
            break
        assert (world.mover(state) == 0) == (state.spiel.current_player() == player)
        movers.append(world.mover(state))
        action = draws.choice(actions)
        step, opposed = (side.step(state, action, Random(move)) for side in (ours, theirs))
        assert step.seen == opposed.seen
        assert step.reward == -opposed.reward
        state = step.state
    assert set(movers) == {0, 1}


def test_a_step_of_ours_is_observed_as_the_last_move_of_the_sides():
    world = OpenSpielGame("breakthrough", opponent="mcts:5")
    start = world.start(0)
    step = world.step(start, world.actions(start)[3], Random(0))
    ours, _ = world.sides()
    state = start
    for number in step.state.moves:
        name = state.spiel.action_to_string(number)
        last = ours.step(state, name, Random(1))
        state = last.state
    assert len(step.state.moves) == 2
    assert last.seen == step.seen


async def test_the_tree_of_a_game_is_kept():
    """The second search continues below our move and the answer."""
    ended = await run(
        "uct", OpenSpielGame("tic_tac_toe"), against="best", simulations=200, moves=2, depth=9
    )
    first, second = (sum(o["N"] for o in m["options"]) for m in ended.trace["moves"][:2])
    assert first == 200 < second


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("kuhn_poker", "hides something"),
        ("goofspiel", "hides something"),
        ("coin_game", "pays a player without a loss of the other"),
        ("chinese_checkers(players=3)", "has 3 players, not two"),
        ("2048", "has 1 players, not two"),
    ],
)
def test_opponents_that_cannot_be_searched(name, why):
    with pytest.raises(
        SettingsError, match=rf"against=best .*{re.escape(name)} {why}.*; leave out against"
    ):
        against_best(OpenSpielGame(name, sight="full"), 1.0)


def test_an_opponent_whom_nobody_has_is_a_setting_that_is_not_possible():
    assert "leave out against" in refused("run", "uct", "--model", "none", "--set", "against=best")


def test_by_its_name():
    ended = invoke(
        *("run", "uct", "--domain", "openspiel:tic_tac_toe", "--model", "none"),
        *("--set", "against=best", "--set", "opponent=mcts:50", "--set", "simulations=100"),
    )
    assert ended.exit_code == 0, ended.stderr
