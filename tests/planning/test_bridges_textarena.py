"""Games of TextArena as domains: moves, chance, copies, success, what is refused."""

import random
from random import Random

import pytest
import textarena
from command_line import invoke
from textarena.envs.registration import ENV_REGISTRY

from llm_planning.domain import DomainError
from llm_planning.environments.bridges import bridge, textarena_games
from llm_planning.environments.bridges.gymnasium_copies import TESTED_STEPS
from llm_planning.environments.bridges.textarena_games import TextArenaGame
from llm_planning.environments.bridges.textarena_moves import FAMILIES, Family, is_refused
from llm_planning.search import TrackedRandom

FAST = ("FrozenLake", "LightsOut", "TowerOfHanoi", "Nim", "TicTacToe", "KuhnPoker", "Blackjack")
"""Games that are tried in every run of the tests; the others are slow ones."""


def id_of(game):
    return next(id_ for id_ in ENV_REGISTRY if ENV_REGISTRY[id_].entry_point.split(".")[-2] == game)


class Counting(textarena.Env):
    """Counts moves: for all copies together, or for each across its resets."""

    moves = 0

    def __init__(self, *, across_resets=False):
        self.across_resets, self.own = across_resets, 0

    def reset(self, num_players, seed=None):
        self.state = textarena.SinglePlayerState(num_players=num_players, seed=seed)
        self.state.reset(game_state={}, player_prompt_function=lambda **_: "Count.")

    def step(self, action):
        Counting.moves += 1
        self.own += 1
        number = self.own if self.across_resets else Counting.moves
        self.state.add_observation(f"{action} {number}", textarena.ObservationType.GAME_MESSAGE)
        return self.state.step()


COUNTING, TIRED = "Counting-v0", "Tired-v0"


@pytest.fixture
def counting(monkeypatch):
    monkeypatch.setitem(FAMILIES, "of_tests", Family(moves=lambda _: ("on",)))
    monkeypatch.setattr(textarena_games, "_family", lambda _: FAMILIES["of_tests"])
    textarena.register(COUNTING, Counting)
    textarena.register(TIRED, Counting, across_resets=True)
    yield
    del ENV_REGISTRY[COUNTING], ENV_REGISTRY[TIRED]


@pytest.mark.parametrize(
    "game",
    [*FAST, *(pytest.param(one, marks=pytest.mark.slow) for one in FAMILIES if one not in FAST)],
)
def test_every_move_that_is_listed_is_taken(game):
    """A game that refuses one is an error of `step`."""
    world = TextArenaGame(id_of(game), sight="full")
    assert world.no_search == ""
    for seed in range(2):
        state, draws = world.start(seed), Random(seed)
        for _ in range(6):
            assert len(set(state.moves)) == len(state.moves)
            assert bool(state.moves) is not bool(state.ended)
            for move in draws.sample(state.moves, min(4, len(state.moves))):
                step = world.step(state, move, draws)
                assert step.obstacle is None
            if step.done:
                break
            state = step.state


def test_moves_are_those_that_the_game_takes():
    """All cells of a board are tried, in every position of a game."""
    world, draws = TextArenaGame("TicTacToe-v0-raw"), Random(1)
    state = world.start(0)
    for _ in range(3):
        for cell in range(9):
            game = textarena_games._copied(state)
            game.step(f"[{cell}]")
            assert is_refused(game) is not (f"[{cell}]" in state.moves)
        state = world.step(state, draws.choice(state.moves), draws).state
    assert len(state.moves) <= 3


def test_steps_are_those_of_the_game():
    world = TextArenaGame("TowerOfHanoi-v0")
    state, draws = world.start(3), Random(0)
    game = textarena.make("TowerOfHanoi-v0")
    game.reset(num_players=1, seed=3)
    assert state.text == game.get_observation()[1].strip()
    for _ in range(8):
        move = draws.choice(state.moves)
        state = world.step(state, move, draws).state
        game.step(move)
        assert state.text == game.get_observation()[1].strip()


def test_chance_comes_from_the_generator_alone():
    world = TextArenaGame("2048-v0-train")
    start, rng = world.start(0), TrackedRandom()
    texts = {world.step(start, start.moves[0], Random(seed)).state.text for seed in range(20)}
    assert len(texts) > 3
    first, second = (world.step(start, start.moves[0], Random(3)) for _ in range(2))
    assert (first.state, first.observation) == (second.state, second.observation)
    lights = TextArenaGame("LightsOut-v0")
    assert lights.step(lights.start(0), "[0 0]", rng).observation is None
    assert not rng.drawn


def test_nothing_leaks_to_the_rest_of_the_process():
    random.seed(5)
    before = random.getstate()
    world = TextArenaGame("Nim-v0")
    state = world.start(1)
    world.step(state, state.moves[0], Random(0))
    assert random.getstate() == before


def test_the_shortest_way_wins_a_game_for_one():
    world = TextArenaGame("TowerOfHanoi-v0")
    state = world.start(0)
    for move in ("[A C]", "[A B]", "[C B]", "[A C]", "[B A]", "[B C]", "[A C]"):
        state = world.step(state, move, Random(0)).state
    assert world.success(state) is True
    assert (state.reward, bool(state.ended)) == (1, True)


@pytest.mark.parametrize(
    ("id_", "reward", "won"),
    [
        *(("LightsOut-v0", 1.0, True), ("LightsOut-v0", 0.9, False)),
        *(("Nim-v0", 1.0, True), ("Nim-v0", 0.0, False)),
        ("Blackjack-v0", 0.4, None),
    ],
)
def test_success_is_what_the_authors_define(id_, reward, won):
    world = TextArenaGame(id_)
    start = world.start(0)
    assert world.success(start) is False
    ended = type(start)(start.past, start.kept, (), "", "It is over.", reward)
    assert world.success(ended) is won


def test_copies_are_tested_then_replays(counting, monkeypatch):
    assert TextArenaGame(TIRED)._at is textarena_games._copied

    def worn(state):
        state.kept[0].own += 1
        return state.kept[0]

    monkeypatch.setattr(textarena_games, "_copied", worn)
    world = TextArenaGame(TIRED)
    assert world._at == world._replayed
    start = world.start(0)
    texts = [world.step(start, "[on]", Random(0)).state.text for _ in range(3)]
    assert texts == ["Count.\n[on] 1"] * 3


def test_a_game_that_does_nothing_twice_is_played_but_not_searched(counting):
    world = TextArenaGame(COUNTING)
    assert "does not do the same twice" in world.no_search
    state = world.start(0)
    for _ in range(TESTED_STEPS):
        left, state = state, world.step(state, "[on]", Random(0)).state
    with pytest.raises(DomainError, match="neither in a copy nor from its start"):
        world.step(left, "[on]", Random(0))


def test_a_game_in_which_nobody_can_move_is_over(monkeypatch):
    monkeypatch.setitem(FAMILIES, "LightsOut", Family(moves=lambda _: ()))
    world = TextArenaGame("LightsOut-v0")
    start = world.start(0)
    assert (start.moves, start.ended, world.success(start)) == ((), "Nobody can move.", False)


def test_a_move_that_is_not_possible_changes_nothing():
    world = TextArenaGame("TicTacToe-v0")
    start = world.start(0)
    step = world.step(start, "[9]", Random(0))
    assert step.state is start
    assert step.obstacle.startswith("it is no possible move; ")


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        (
            "Negotiation-v0",
            "textarena has no game 'Negotiation-v0'; did you mean SimpleNegotiation",
        ),
        ("Wordle-v0", "Wordle-v0 needs the network when it is opened: choose another game"),
        ("Mastermind-v0", "Mastermind-v0 has no list of moves: choose another"),
    ],
)
def test_what_is_no_domain_is_one_line_with_the_remedy(id_, message):
    with pytest.raises(DomainError, match=message) as caught:
        bridge(f"textarena:{id_}").open(id_, textarena_games.TextArenaSettings())
    assert "\n" not in str(caught.value)


def test_a_game_that_fails_says_where(monkeypatch):
    monkeypatch.setitem(FAMILIES, "Nim", Family(moves=lambda _: ("of pile",), players=2))
    with pytest.raises(DomainError, match=r"Nim-v0 refuses \[of pile\], though its rules allow it"):
        TextArenaGame("Nim-v0")


def test_what_is_hidden_is_not_searched_by_chance():
    assert "--set sight=full" in TextArenaGame("Blackjack-v0").no_search
    assert TextArenaGame("Blackjack-v0", sight="full").no_search == ""


def test_a_search_in_a_game():
    ended = invoke(
        *("run", "uct", "--domain", "textarena:TowerOfHanoi-v0-train", "--model", "none"),
        *("--set", "simulations=30", "--set", "moves=3"),
    )
    assert ended.exit_code == 0, ended.stderr
    assert "Goal: Win TowerOfHanoi-v0-train." in ended.stdout
