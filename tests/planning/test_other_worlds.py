"""A share of the worlds that others made: opened, held to the contract, and played."""

import pytest
from other_worlds import NO_DOMAIN, PLAYED, Tried, play, tried

from llm_planning.environments.bridges import bridge

QUICK = ("CliffWalking-v1", "MiniGrid-Unlock-v0")
"""The worlds of `test_domain_contract.py` are not among them."""
SLOW = (
    *("FrozenLake8x8-v1", "CliffWalkingSlippery-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1"),
    *("Acrobot-v1", "MountainCar-v0", "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-FourRooms-v0"),
    *("MiniGrid-KeyCorridorS3R1-v0", "MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid-Fetch-8x8-N3-v0"),
    *("BabyAI-PutNextLocal-v0", "BabyAI-UnlockPickup-v0", "BabyAI-GoToSeq-v0"),
)
QUICK_GAMES = ("connect_four",)
SLOW_GAMES = (
    *("breakthrough", "othello", "chess", "go", "hex", "backgammon", "checkers", "mancala"),
    *("leduc_poker", "liars_dice", "pig", "oware", "solitaire", "havannah", "y"),
)
QUICK_TEXTS = ("TicTacToe-v0", "GuessTheNumber-v0-train")
SLOW_TEXTS = (
    *("TowerOfHanoi-v0", "FrozenLake-v0-train", "LightsOut-v0", "Sudoku-v0-easy-train", "2048-v0"),
    *("PegJump-v0-raw", "Bandit-v0", "Cryptarithm-v0", "Breakthrough-v0-small", "ConnectFour-v0"),
    *("Nim-v0", "PigDice-v0-short", "KuhnPoker-v0", "UltimateTicTacToe-v0-train", "Othello-v0"),
)


@pytest.fixture(scope="module", autouse=True)
def imported_once():
    """Worlds have processes of their own, which need not import TextArena again."""
    bridge("textarena")


@pytest.mark.parametrize(
    "world",
    [
        *(f"gymnasium:{name}" for name in QUICK),
        *(f"openspiel:{name}" for name in QUICK_GAMES),
        *(f"textarena:{name}" for name in QUICK_TEXTS),
    ],
)
async def test_it_is_played(world):
    assert await play(world) == Tried(world, PLAYED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        *(f"gymnasium:{name}" for name in SLOW),
        *(f"openspiel:{name}" for name in SLOW_GAMES),
        *(f"textarena:{name}" for name in SLOW_TEXTS),
    ],
)
def test_it_is_played_in_a_process_of_its_own(world):
    assert tried(world, limit=250) == Tried(world, PLAYED)


def test_what_is_not_played_says_why():
    refusal = tried("gymnasium:Pendulum-v1")
    assert refusal.found == NO_DOMAIN
    assert "Pendulum-v1 has the actions Box" in refusal.why


def test_a_world_that_takes_too_long_is_ended():
    assert tried("openspiel:chess", limit=0.0).found == "too slow"
