"""Walkthroughs: the statistics of Table 5, and what the first search thinks of a bait (Table 4)."""

from dataclasses import replace

import pytest
from runs import run_in
from textgame_toys import trap_door

from llm_planning.environments.textgame.domain import TextGameDomain, open_text_game
from llm_planning.environments.textgame.game import (
    Ending,
    GameSeconds,
    TextGameError,
    Transition,
)
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.execution.decisions import ActionStatistics
from llm_planning.planners.mc_dml.playing import first_move_metrics
from llm_planning.planners.mc_dml.roles import GameTurn, Observation, trajectory_of
from llm_planning.planners.mc_dml.walkthrough import (
    play_walkthrough,
    replay,
    walkthrough_statistics,
)
from llm_planning.settings import NoSettings


@pytest.mark.parametrize(
    ("rewards", "choices", "mean_choices", "mean", "longest"),
    [
        # Steps 2, 3 and 7 change the score: distances 1 and 4. The way to step 2 is none, and step
        # 8 follows the last.
        ((0, 5, 1, 0, 0, 0, 10, 0), (3, 4, 5, 1, 1, 1, 2, 3), 20 / 8, 5 / 2, 4),
        # Points are lost at step 2, so there are two steps to step 4.
        ((0, -5, 0, 2), (1, 1, 1, 1), 1, 2, 2),
        # Between one reward and nothing lies nothing.
        ((0, 0, 3), (1, 1, 1), 1, None, None),
        ((0, 0), (1, 1), 1, None, None),
        ((), (), None, None, None),
    ],
)
def test_distances_between_rewards(rewards, choices, mean_choices, mean, longest):
    nowhere = Observation("", "", "")
    turns = [GameTurn(nowhere, "wait", reward, 0.0) for reward in rewards]
    assert walkthrough_statistics(turns, choices) == {
        "walkthrough_length": len(rewards),
        "actions_per_step": mean_choices,
        "steps_per_reward": mean and pytest.approx(mean),
        "max_steps_per_reward": longest,
    }


class Corridor:
    """Three rooms in a row: `on` is worth a point each, and the end of the last one is victory."""

    name = "corridor"
    max_score = 3.0
    walkthrough = ()
    objective = ""
    seconds = GameSeconds()

    async def start(self):
        return Transition("0", "You begin.", 0.0, None)

    async def actions(self, state):
        return ("back", "on")[int(state) == 0 :]

    async def look(self, state):
        return f"Room {state}.", ""

    async def step(self, state, action):
        after = int(state) + {"on": 1, "back": -1}.get(action, 0)
        reward = float(after - int(state))
        return Transition(str(after), "", reward, Ending.VICTORY if after == 3 else None)


async def replayed(game, actions):
    episode, choices = await replay(TextGameDomain(game), actions, seed=0)
    return trajectory_of(episode), choices


async def test_nothing_is_played_after_the_end():
    done, choices = await replayed(Corridor(), ["on", "dance", "on", "on", "on", "on"])
    assert [turn.action for turn in done.turns] == ["on", "dance", "on", "on"]
    assert [turn.score for turn in done.turns] == [1, 1, 2, 3]
    assert choices == [1, 2, 2, 2]
    assert done.ending == "victory"


async def test_a_walkthrough_may_end_before_the_game():
    done, _ = await replayed(Corridor(), ["on", "on"])
    assert done.ending is None
    assert done.last.look == "Room 2."


async def walked(task, **settings):
    given = GameSettings.read({"remember": "memory", **settings})
    async with open_text_game(task, given) as world:
        return await play_walkthrough(run_in(world, NoSettings()))


async def test_the_trap_door():
    outcome = await walked("trap-door")
    assert outcome.success is True
    assert outcome.plan[0] == "take lantern"
    # Points for the trap door, the third action, and for the crown, the last one.
    length = len(TrapDoor.walkthrough)
    expected = {"score": 100, "max_score": 100, "normalised_score": 1, "ending": "victory"}
    expected |= {"walkthrough_length": length}
    expected |= {"steps_per_reward": length - 3, "max_steps_per_reward": length - 3}
    assert outcome.metrics.items() >= expected.items()
    assert outcome.metrics["actions_per_step"] > 1
    assert "3. open trap door: +25, score 25" in outcome.text


async def test_a_generated_game():
    pytest.importorskip("textworld")
    outcome = await walked("custom", game_seed=1)
    assert outcome.metrics["ending"] == "victory"
    assert outcome.metrics["score"] == outcome.metrics["max_score"]
    # Its one reward is the last step's.
    assert outcome.metrics["max_steps_per_reward"] is None
    assert len(outcome.trace["moves"]) == outcome.metrics["walkthrough_length"]


async def test_a_game_without_a_walkthrough():
    run = run_in(TextGameDomain(Corridor()), NoSettings())
    with pytest.raises(TextGameError, match="corridor comes without a walkthrough"):
        await play_walkthrough(run)


async def test_a_story_file_that_is_not_there(tmp_path):
    with pytest.raises(TextGameError, match="zork1"):
        await walked("zork1", games=str(tmp_path))


EAST = ActionStatistics("east", 0.1, 1.0, 2)
BAIT = ActionStatistics("open trap door", 0.5, 26.0, 9)
LANTERN = ActionStatistics("take lantern", 0.3, 60.0, 30)
UNVISITED = ActionStatistics("take sword", 0.1, 0.0, 0)


def statistics(search, which, *, q):
    return {f"{which}_q": q, f"{which}_prior": search.prior, f"{which}_visits": search.visits}


@pytest.mark.parametrize(
    ("root", "executed", "expected"),
    [
        (
            [EAST, BAIT, LANTERN, UNVISITED],
            "take lantern",
            {"greedy_first": False}
            | statistics(BAIT, "greedy", q=26.0)
            | statistics(LANTERN, "patient", q=60.0),
        ),
        (
            [EAST, BAIT],
            "open trap door",
            {"greedy_first": True}
            | statistics(BAIT, "greedy", q=26.0)
            | statistics(EAST, "patient", q=1.0),
        ),
        # No other action was visited, so there is no patient action.
        (
            [BAIT, UNVISITED],
            "open trap door",
            {"greedy_first": True} | statistics(BAIT, "greedy", q=26.0),
        ),
        # An unvisited bait was not taken, and has no Q.
        (
            [EAST, replace(BAIT, value=0.0, visits=0), LANTERN],
            "take lantern",
            {"greedy_first": False}
            | statistics(replace(BAIT, visits=0), "greedy", q=None)
            | statistics(LANTERN, "patient", q=60.0),
        ),
        # Nothing pays at once.
        ([EAST, LANTERN], "east", {}),
    ],
)
async def test_the_greedy_action_beside_the_best_other_one(root, executed, expected):
    assert await first_move_metrics(trap_door(), root, executed=executed, seed=0) == expected
