"""Whole games by search: moves, statistics, outcomes, and the bottleneck of Figure 1."""

import asyncio
from dataclasses import replace

import pytest
from mc_dml_games import GraphGame, an_agent, chain, uniform_prior

from llm_planning.domain import Step
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Observation
from llm_planning.environments.textgame.interpreted import InterpretedGame
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.execution import Execution, Move
from llm_planning.planners.mc_dml import episode as episode_module
from llm_planning.planners.mc_dml.episode import ActionStatistics, format_decisions
from llm_planning.planners.mc_dml.outcome import Episode, Spent, game_outcome
from llm_planning.planners.mc_dml.roles import Turn
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.stopwatch import Stopwatch

WON, LOST = Ending.VICTORY, Ending.FAILURE


def play(game, agent, *, moves, seed):
    return episode_module.play(TextGameDomain(game), agent, moves=moves, seed=seed)


def two_rooms():
    return GraphGame(
        {
            "cell": {"dig": ("grave", 0.0, LOST), "leave": ("yard", 1.0, None)},
            "yard": {"back": ("cell", 0.0, None), "climb": ("free", 4.0, WON)},
        }
    )


async def test_a_game_is_searched_anew_before_every_move():
    game = two_rooms()
    situations = []
    failed = []

    async def prior(situation):
        situations.append(situation)
        return [0.5, 0.5]

    async def reflect(trajectory):
        failed.append(trajectory)
        return "do not dig"

    agent = an_agent(prior=prior, reflect=reflect, simulations_per_action=3, depths=(2,))
    episode, decisions = await play(game, agent, moves=9, seed=0)
    assert [turn.action for turn in episode.turns] == ["leave", "climb"]
    assert episode.ending is WON
    assert (episode.score, episode.best_score) == (5.0, 5.0)
    assert episode.last.look == "You are in free."
    cell = Observation("It begins.", "You are in cell.", "Nothing.")
    yard = Observation("You leave.", "You are in yard.", "Nothing.")
    assert episode.turns == (Turn(cell, "leave", 1.0, 1.0), Turn(yard, "climb", 4.0, 5.0))
    # Six simulations each. The first dies: ℳ_c. Then leave, where a rollout walks one more step.
    first, _ = decisions
    assert first.reflections == ("do not dig",)
    assert [one.action for one in first.root] == ["dig", "leave"]
    assert [one.visits for one in first.root] == [1, 5]
    assert (first.root[0].value, first.root[0].prior) == (0.0, 0.5)
    assert (first.depth, first.simulations) == (2, 6)
    # The second search starts with an empty ℳ_c and remembers the move before it.
    roots = [s for s in situations if s.observation == yard and not s.reflections]
    assert roots[-1].memory == (episode.turns[0],)


async def test_an_episode_ends_at_its_horizon():
    agent = an_agent(depths=(1,))
    episode, decisions = await play(chain(9, 1.0), agent, moves=4, seed=0)
    assert (len(episode.turns), len(decisions), episode.ending) == (4, 4, None)
    outcome = game_outcome(TextGameDomain(chain(9, 1.0)), episode, spent=Spent(), header={})
    assert (outcome.success, outcome.metrics["ending"]) == (False, "horizon")


async def test_an_episode_ends_where_nothing_can_be_done():
    episode, _ = await play(chain(3, 1.0), an_agent(), moves=9, seed=0)
    assert (len(episode.turns), episode.ending) == (3, None)


async def test_seeds_decide_between_equal_actions():
    graph = {"s": dict.fromkeys("abc", ("s", 0.0, None))}
    agent = an_agent(simulations_per_action=3, depths=(2,))
    played = [
        [t.action for t in (await play(GraphGame(graph), agent, moves=4, seed=seed))[0].turns]
        for seed in (1, 1, 2)
    ]
    assert played[0] == played[1] != played[2]


async def test_outcome():
    game = two_rooms()
    game.seconds = GameSeconds(0.5, Stopwatch(0.25), 7)
    seen = Observation("A cell.", "", "")
    turns = (Turn(seen, "steal", 3.0, 3.0), Turn(seen, "pay", -1.0, 2.0))
    stolen = Step(None, reward=3.0)
    paid = Step(None, reward=-1.0, done=True, obstacle="Your purse is empty.")
    lived = Execution(
        moves=(Move("steal", stolen), Move("pay", paid)), success=False, ended=True, last=""
    )
    spent = Spent(engine=Stopwatch(1.5), simulations=300, reflections=2, priors=40)
    outcome = game_outcome(
        TextGameDomain(game),
        Episode(turns, Observation("You are dead.", "", ""), LOST, 0.0, lived),
        spent=spent,
        header={"task": "cells", "seed": 3},
        decisions=[{"root": ["first"]}, {"root": ["second"]}],
        text="tables",
    )
    assert outcome.success is False
    assert outcome.plan == ("steal", "pay")
    assert outcome.metrics == {
        "success_basis": "executed",
        "options_executed": 1,
        "first_failed": "pay",
        "first_obstacle": "Your purse is empty.",
        "reward": 2.0,
        "game": "graph",
        "score": 2.0,
        "best_score": 3.0,
        "max_score": 10.0,
        "normalised_score": 0.2,
        "moves": 2,
        "ending": "failure",
        "simulations": 300,
        "seconds_engine": 1.5,
        "seconds_valid_actions": 0.25,
        "seconds_simulation": 0.5,
        "interpreter_steps": 7,
        "reflections": 2,
        "priors": 40,
    }
    assert outcome.trace["moves"][1] == {
        "observation": "A cell.",
        "action": "pay",
        "reward": -1.0,
        "score": 2.0,
        "root": ["second"],
    }
    assert (outcome.trace["seed"], outcome.trace["last"]) == (3, "You are dead.")
    assert outcome.text == "tables\n\ngraph: 2 of 10 points, failure"


async def test_a_game_without_points_has_no_normalised_score():
    game = TextGameDomain(GraphGame({}, max_score=0.0))
    lived = Execution(moves=(), success=True, ended=True, last="")
    episode = Episode((), Observation("", "", ""), WON, 0.0, lived)
    outcome = game_outcome(game, episode, spent=Spent(), header={})
    assert outcome.success is True
    assert outcome.metrics["normalised_score"] is None


@pytest.mark.parametrize("moves", [0, 2])
async def test_points_before_the_first_move_are_in_the_score(moves):
    class Generous(GraphGame):
        async def start(self):
            return replace(await super().start(), reward=10.0)

    game = Generous({"s": {"fall": ("s", -1.0, None)}})
    episode, _ = await play(game, an_agent(), moves=moves, seed=0)
    assert (episode.start, episode.best_score, episode.score) == (10.0, 10.0, 10.0 - moves)


async def test_statistics_are_aligned():
    agent = an_agent(simulations_per_action=3, depths=(2,))
    episode, decisions = await play(two_rooms(), agent, moves=1, seed=0)
    decision = replace(
        decisions[0],
        root=(
            ActionStatistics("dig", -8.124, 0.08, 2),
            ActionStatistics("leave", 14.26, 0.22, 252),
        ),
        reflections=("Never dig.",),
    )
    assert format_decisions(episode.turns, [decision]) == (
        "1. leave (reward 1, score 1; H 2, 6 simulations)\n"
        "                 Q  prior       N\n"
        "   leave     14.26   0.22     252\n"
        "   dig       -8.12   0.08       2\n"
        "   reflection: Never dig."
    )


async def test_seconds_that_several_questions_wait_are_counted_once():
    spent = Spent()

    async def answer(_):
        await asyncio.sleep(0.05)
        return "advice"

    ask = spent.timed(answer)
    assert await asyncio.gather(ask(None), ask(None)) == ["advice", "advice"]
    assert 0.045 < spent.engine.seconds < 0.095
    with pytest.raises(ZeroDivisionError):
        await spent.timed(lambda _: 1 / 0)(None)
    assert spent.engine.seconds < 0.095


BAIT = "open trap door"
ADVICE = "take lantern and light lantern before you open trap door"


async def reading(situation):
    """A policy that reads: the bait is what it likes, unless a reflection names something else.

    The first valid action that a reflection names is nine times as likely as any other; without
    reflections, that is the bait.
    """
    words = " ".join(situation.reflections) or BAIT
    named = sorted((words.index(a), a) for a in situation.actions if a in words)
    liked = named[0][1] if named else ""
    weights = [9.0 if action == liked else 1.0 for action in situation.actions]
    return [weight / sum(weights) for weight in weights]


async def advise(trajectory):
    return ADVICE


def trap_door_agent():
    """MC-DML at the paper's settings, C that of Deephome (20); policy and reflection scripted."""
    return an_agent(
        prior=reading,
        reflect=advise,
        select=select_by_puct(c=20.0),
        depths=(10, 30),
        gamma=0.95,
        simulations_per_action=50,
    )


@pytest.mark.parametrize("seed", range(8))
async def test_a_reflection_leads_past_the_bottleneck(seed, remembered_trap_door):
    agent = trap_door_agent()
    moves = {}
    for name, one in (("forgetful", replace(agent, k=0)), ("reflecting", agent)):
        episode, (decision,) = await play(remembered_trap_door, one, moves=1, seed=seed)
        # The bait's points keep the best Q above 0, so both search with the first H.
        assert decision.depth == 10
        moves[name] = episode.turns[0].action, {s.action: s for s in decision.root}
    action, root = moves["forgetful"]
    assert action == BAIT
    # Six actions: 9 / (9 + 5).
    assert root[BAIT].prior == pytest.approx(9 / 14)
    action, root = moves["reflecting"]
    assert action == "take lantern"
    assert root[BAIT].prior == pytest.approx(1 / 14)
    assert root["take lantern"].prior == pytest.approx(9 / 14)
    # What was found is the crown: Q is above the bait's 25 points at once.
    assert root["take lantern"].value > root[BAIT].value == pytest.approx(25.0)


@pytest.mark.parametrize("seed", range(2))
async def test_what_the_bottleneck_costs_in_the_whole_game(seed, remembered_trap_door):
    """C = 20 for all; PUCT and UCT know neither a policy nor reflections."""
    agent = trap_door_agent()
    won, _ = await play(remembered_trap_door, agent, moves=20, seed=seed)
    assert (won.score, won.ending) == (100.0, WON)
    puct = replace(agent, prior=uniform_prior, k=0)
    uct = replace(puct, select=select_by_uct(c=20.0))
    for other in (replace(agent, k=0), puct, uct):
        lost, _ = await play(remembered_trap_door, other, moves=20, seed=seed)
        assert (lost.score, lost.ending) == (25.0, LOST)


@pytest.fixture(scope="module")
def remembered_trap_door():
    return RememberedGame(InterpretedGame(TrapDoor()), TransitionMemory())
