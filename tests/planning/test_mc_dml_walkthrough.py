"""Walkthroughs: the statistics of Table 5, and what the first search thinks of a bait (Table 4)."""

from dataclasses import replace

import pytest
from textgame_toys import trap_door

from llm_planning.environments.textgame.domain import TextGameDomain, open_text_game
from llm_planning.environments.textgame.game import (
    Ending,
    GameSeconds,
    Observation,
    TextGameError,
    Transition,
)
from llm_planning.environments.textgame.open_games import GameSettings
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.planners.mc_dml import walkthrough
from llm_planning.planners.mc_dml.episode import ActionStatistics, first_move_metrics
from llm_planning.planners.mc_dml.outcome import Episode
from llm_planning.planners.mc_dml.roles import Turn
from llm_planning.planners.mc_dml.walkthrough import Replay, play_walkthrough
from llm_planning.roles import Engines
from llm_planning.settings import NoSettings
from llm_planning.specs import Problem
from llm_serving.scripted import ScriptedEngine

NOWHERE = Observation("", "", "")


def played(*rewards, choices=None):
    turns = tuple(Turn(NOWHERE, "wait", reward, 0.0) for reward in rewards)
    return Replay(Episode(turns, NOWHERE, None, 0.0, None), choices or (1,) * len(turns))


def test_distances_between_rewards():
    # Rewards at steps 2, 3 and 7: distances 2, 1 and 4, whose mean is 7/3; step 8 follows the last.
    statistics = played(0, 5, 1, 0, 0, 0, 10, 0, choices=(3, 4, 5, 1, 1, 1, 2, 3)).statistics()
    assert statistics == {
        "walkthrough_length": 8,
        "actions_per_step": 20 / 8,
        "steps_per_reward": pytest.approx(7 / 3),
        "max_steps_per_reward": 4,
    }


def test_points_that_are_lost_are_no_reward():
    assert played(0, -5, 2).statistics()["max_steps_per_reward"] == 3


def test_a_walkthrough_without_rewards_has_no_distances():
    assert played(0, 0).statistics() == {
        "walkthrough_length": 2,
        "actions_per_step": 1,
        "steps_per_reward": None,
        "max_steps_per_reward": None,
    }
    assert played().statistics()["actions_per_step"] is None


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


def replay(game, actions):
    return walkthrough.replay(TextGameDomain(game), actions, seed=0)


async def test_nothing_is_played_after_the_end():
    done = await replay(Corridor(), ["on", "dance", "on", "on", "on", "on"])
    assert [turn.action for turn in done.episode.turns] == ["on", "dance", "on", "on"]
    assert [turn.score for turn in done.episode.turns] == [1, 1, 2, 3]
    assert done.choices == (1, 2, 2, 2)
    assert done.episode.ending is Ending.VICTORY


async def test_points_before_the_first_move_are_in_the_score():
    class Generous(Corridor):
        async def start(self):
            return replace(await super().start(), reward=10.0)

    idle = (await replay(Generous(), [])).episode
    assert (idle.score, idle.best_score) == (10.0, 10.0)
    back = (await replay(Generous(), ["back"])).episode
    assert (back.score, back.best_score) == (9.0, 10.0)


async def test_a_walkthrough_may_end_before_the_game():
    done = await replay(Corridor(), ["on", "on"])
    assert done.episode.ending is None
    assert done.episode.last.look == "Room 2."


async def walked(task, **settings):
    given = GameSettings.read({"remember": "memory", **settings})
    async with open_text_game(task, given) as world:
        return await play_walkthrough(
            Problem(domain="textgame", task=task, world=world),
            engines=Engines(ScriptedEngine({})),
            settings=NoSettings(),
            seed=0,
        )


async def test_the_trap_door():
    outcome = await walked("trap-door")
    assert outcome.success is True
    assert outcome.plan[0] == "take lantern"
    # Points for the trap door, the third action, and for the crown, the last one.
    length = len(TrapDoor.walkthrough)
    expected = {"score": 100, "max_score": 100, "normalised_score": 1, "ending": "victory"}
    expected |= {"walkthrough_length": length, "steps_per_reward": length / 2}
    expected |= {"max_steps_per_reward": max(3, length - 3)}
    assert outcome.metrics.items() >= expected.items()
    assert outcome.metrics["actions_per_step"] > 1
    assert "3. open trap door: +25, score 25" in outcome.text


async def test_a_generated_game():
    pytest.importorskip("textworld")
    outcome = await walked("custom", game_seed=1)
    assert outcome.metrics["ending"] == "victory"
    assert outcome.metrics["score"] == outcome.metrics["max_score"]
    assert outcome.metrics["walkthrough_length"] == outcome.metrics["max_steps_per_reward"]
    assert len(outcome.trace["moves"]) == outcome.metrics["walkthrough_length"]


async def test_a_game_without_a_walkthrough():
    problem = Problem(domain="textgame", task="corridor", world=TextGameDomain(Corridor()))
    with pytest.raises(TextGameError, match="corridor comes without a walkthrough"):
        await play_walkthrough(problem, engines=None, settings=NoSettings(), seed=0)


async def test_a_story_file_that_is_not_there(tmp_path):
    with pytest.raises(TextGameError, match="zork1"):
        await walked("zork1", games=str(tmp_path))


def statistics(action, *, q, prior, visits):
    return ActionStatistics(action, q, prior, visits)


async def test_the_greedy_action_beside_the_best_other_one():
    world = trap_door()
    root = [
        statistics("east", q=1.0, prior=0.1, visits=2),
        statistics("open trap door", q=26.0, prior=0.5, visits=9),
        statistics("take lantern", q=60.0, prior=0.3, visits=30),
        statistics("take sword", q=0.0, prior=0.1, visits=0),
    ]
    assert await first_move_metrics(world, root, executed="take lantern", seed=0) == {
        "greedy_first": False,
        "greedy_q": 26.0,
        "greedy_prior": 0.5,
        "greedy_visits": 9,
        "patient_q": 60.0,
        "patient_prior": 0.3,
        "patient_visits": 30,
    }
    taken = await first_move_metrics(world, root[:2], executed="open trap door", seed=0)
    assert taken["greedy_first"] is True
    assert taken["patient_q"] == 1.0
    # Nothing else was visited: there is no other action to stand beside the greedy one.
    alone = await first_move_metrics(world, [root[1], root[3]], executed="open trap door", seed=0)
    assert alone == {
        "greedy_first": True,
        "greedy_q": 26.0,
        "greedy_prior": 0.5,
        "greedy_visits": 9,
    }


async def test_a_bait_that_was_never_visited_was_not_taken():
    world = trap_door()
    root = [
        statistics("east", q=1.0, prior=0.1, visits=2),
        statistics("open trap door", q=0.0, prior=0.05, visits=0),
        statistics("take lantern", q=60.0, prior=0.3, visits=30),
    ]
    assert await first_move_metrics(world, root, executed="take lantern", seed=0) == {
        "greedy_first": False,
        "greedy_q": None,
        "greedy_prior": 0.05,
        "greedy_visits": 0,
        "patient_q": 60.0,
        "patient_prior": 0.3,
        "patient_visits": 30,
    }


async def test_where_nothing_pays_at_once_nobody_is_greedy():
    root = [statistics("on", q=1.0, prior=0.9, visits=2)]
    root += [statistics("dance", q=2.0, prior=0.1, visits=3)]
    # `on` pays in the corridor, `dance` and `back` do not.
    assert (
        await first_move_metrics(TextGameDomain(Corridor()), root[1:], executed="dance", seed=0)
        == {}
    )
    assert (await first_move_metrics(TextGameDomain(Corridor()), root, executed="dance", seed=0))[
        "greedy_visits"
    ] == 2
