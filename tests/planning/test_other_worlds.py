"""A share of the worlds that others made: opened, held to the contract, and played."""

import pytest
from other_worlds import NO_DOMAIN, PLAYED, Tried, play, tried

QUICK = (
    *("FrozenLake-v1", "CliffWalking-v1", "MiniGrid-Unlock-v0"),
    *("BabyAI-OpenDoor-v0",),
)
SLOW = (
    *("FrozenLake8x8-v1", "CliffWalkingSlippery-v1", "Taxi-v4", "Blackjack-v1", "CartPole-v1"),
    *("Acrobot-v1", "MountainCar-v0", "MiniGrid-LavaCrossingS9N1-v0", "MiniGrid-FourRooms-v0"),
    *("MiniGrid-KeyCorridorS3R1-v0", "MiniGrid-MultiRoom-N2-S4-v0", "MiniGrid-Fetch-8x8-N3-v0"),
    *("BabyAI-PutNextLocal-v0", "BabyAI-UnlockPickup-v0", "BabyAI-GoToSeq-v0"),
)
QUICK_GAMES = ("connect_four", "2048", "kuhn_poker", "matrix_rps")
SLOW_GAMES = (
    *("breakthrough", "othello", "chess", "go", "hex", "backgammon", "checkers", "mancala"),
    *("leduc_poker", "liars_dice", "pig", "oware", "solitaire", "havannah", "y"),
)


@pytest.mark.parametrize(
    "world",
    [*(f"gymnasium:{name}" for name in QUICK), *(f"openspiel:{name}" for name in QUICK_GAMES)],
)
async def test_it_is_played(world):
    assert await play(world) == Tried(world, PLAYED)


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [*(f"gymnasium:{name}" for name in SLOW), *(f"openspiel:{name}" for name in SLOW_GAMES)],
)
def test_it_is_played_in_a_process_of_its_own(world):
    assert tried(world, limit=250) == Tried(world, PLAYED)


def test_what_is_not_played_says_why():
    found = tried("gymnasium:Pendulum-v1")
    assert found.found == NO_DOMAIN
    assert "Pendulum-v1 has the actions Box" in found.why


def test_a_world_that_takes_too_long_is_ended():
    assert tried("openspiel:chess", limit=0.0).found == "too slow"
