"""Whole games by search: moves, statistics, outcomes, and the bottleneck of Figure 1."""

import asyncio
import time
from dataclasses import replace

import pytest
from mc_dml_games import GraphGame, agent, chain, changed, read_golden, search_parts, uniform_prior
from runs import run_in

from llm_planning.domain import Step
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.execution.decisions import ActionStatistics
from llm_planning.execution.episode import Episode, Move
from llm_planning.outcome import score_text
from llm_planning.planners.mc_dml.playing import format_searches, game_outcome, play_by_search
from llm_planning.planners.mc_dml.roles import GameAsking, Observation, trajectory_of
from llm_planning.roles import RoleSettings
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.settings import NoSettings
from llm_planning.stopwatch import Stopwatch

WON, LOST = Ending.VICTORY, Ending.FAILURE
NOTHING = Observation("", "", "")


async def play(game, parts, *, moves, seed=0):
    """The trajectory, and the search for each of its moves."""
    planner = agent(TextGameDomain(game), parts)
    episode, searches = await play_by_search(planner, moves=moves, seed=seed)
    return trajectory_of(episode), searches


async def outcome_of(game, *moves, last=NOTHING, ending=None, **given):
    """The outcome of an episode with these moves."""
    world = TextGameDomain(game)
    episode = Episode(world, Transition("cell", "", 0.0, None), seed=3)
    episode.moves, episode.now = list(moves), last
    episode.state = Transition("cell", "", 0.0, ending)
    episode.success, episode.over = ending is WON, ending is not None
    run = run_in(world, NoSettings(), task="cells", seed=3)
    return await game_outcome(run, episode, **given)


def two_rooms():
    return GraphGame(
        {
            "cell": {"dig": ("grave", 0.0, LOST), "leave": ("yard", 1.0, None)},
            "yard": {"back": ("cell", 0.0, None), "climb": ("free", 4.0, WON)},
        }
    )


@pytest.mark.parametrize(("rooms", "moves"), [(9, 4), (3, 3)])
async def test_an_episode_ends_at_its_horizon_and_where_nothing_can_be_done(rooms, moves):
    game = chain(rooms, 1.0)
    trajectory, searches = await play(game, search_parts(depths=(1,)), moves=moves + (rooms < 4))
    assert (len(trajectory.turns), len(searches), trajectory.ending) == (moves, moves, None)
    assert (await outcome_of(game)).metrics["ending"] == "horizon"


async def test_the_outcome_of_a_game():
    game = two_rooms()
    game.seconds = GameSeconds(0.5, Stopwatch(0.25), 7)
    seen = Observation("A cell.", "", "")
    paid = Step(None, reward=-1.0, done=True, obstacle="Your purse is empty.")
    outcome = await outcome_of(
        game,
        Move("steal", Step(None, reward=3.0), seen),
        Move("pay", paid, seen),
        last=Observation("You are dead.", "", ""),
        ending=LOST,
        seconds_engine=1.5,
        simulations=300,
        reflections=2,
        priors=40,
        decisions=[{"root": ["first"]}, {"root": ["second"]}],
        text="tables",
    )
    golden = read_golden("outcome")
    assert outcome.metrics == golden["metrics"]
    assert outcome.trace == golden["trace"]
    assert (outcome.success, outcome.plan) == (False, ("steal", "pay"))
    assert outcome.unrepeatable == {
        *("seconds_engine", "seconds_valid_actions", "seconds_simulation", "interpreter_steps")
    }
    assert outcome.text == "tables\n\ngraph: 2 of 10 points, failure"
    assert [score_text(1.0, None), score_text(0.0, 1)] == ["1 point", "0 of 1 point"]


async def test_a_game_without_points_has_no_normalised_score():
    outcome = await outcome_of(GraphGame({}, max_score=0.0), ending=WON)
    assert outcome.success is True
    assert outcome.metrics["normalised_score"] is None


@pytest.mark.parametrize("moves", [0, 2])
async def test_points_before_the_first_move_are_in_the_score(moves):
    class Generous(GraphGame):
        async def start(self):
            return replace(await super().start(), reward=10.0)

    game = Generous({"s": {"fall": ("s", -1.0, None)}})
    played, _ = await play(game, search_parts(), moves=moves)
    assert (played.start, played.best_score, played.score) == (10.0, 10.0, 10.0 - moves)


async def test_statistics_are_aligned():
    parts = search_parts(simulations_per_action=3, depths=(2,))
    trajectory, (search,) = await play(two_rooms(), parts, moves=1)
    root = (ActionStatistics("dig", 0.08, -8.124, 2), ActionStatistics("leave", 0.22, 14.26, 252))
    decision = replace(search, root=root, reflections=("Never dig.",))
    assert format_searches(trajectory.turns, [decision]) == (
        "1. leave (reward 1, score 1; H 2, 6 simulations)\n"
        "                 Q  prior       N\n"
        "   leave     14.26   0.22     252\n"
        "   dig       -8.12   0.08       2\n"
        "   reflection: Never dig."
    )


async def test_seconds_that_several_questions_wait_are_counted_once():
    asking = GameAsking(run_in(TextGameDomain(two_rooms()), None), RoleSettings())

    async def answer(_):
        await asyncio.sleep(0.05)
        return "advice"

    ask = asking.timed(answer)
    begun = time.perf_counter()
    assert await asyncio.gather(ask(None), ask(None)) == ["advice", "advice"]
    waited = asking.waiting.seconds
    assert 0.045 < waited <= time.perf_counter() - begun
    with pytest.raises(ZeroDivisionError):
        await asking.timed(lambda _: 1 / 0)(None)
    assert waited < asking.waiting.seconds < time.perf_counter() - begun


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
    return search_parts(
        prior=reading,
        reflect=advise,
        select=select_by_puct(c=20.0),
        depths=(10, 30),
        gamma=0.95,
        simulations_per_action=50,
    )


@pytest.mark.parametrize("seed", range(3))
async def test_a_reflection_leads_past_the_bottleneck(seed, remembered_trap_door):
    parts = trap_door_agent()
    moves = {}
    for name, chosen in (("forgetful", changed(parts, k=0)), ("reflecting", parts)):
        trajectory, (search,) = await play(remembered_trap_door, chosen, moves=1, seed=seed)
        # The bait's points keep the best Q above 0, so both search with the first H.
        assert search.depth == 10
        moves[name] = trajectory.turns[0].action, {s.action: s for s in search.root}
    action, root = moves["forgetful"]
    assert action == BAIT
    # Six actions: 9 / (9 + 5).
    assert root[BAIT].prior == pytest.approx(9 / 14)
    action, root = moves["reflecting"]
    assert action == "take lantern"
    assert root[BAIT].prior == pytest.approx(1 / 14)
    assert root["take lantern"].prior == pytest.approx(9 / 14)
    # The search found the crown: Q is above the bait's 25 points.
    assert root["take lantern"].value > root[BAIT].value == pytest.approx(25.0)


@pytest.mark.parametrize("seed", range(2))
async def test_what_the_bottleneck_costs_in_the_whole_game(seed, remembered_trap_door):
    """C = 20 for all; PUCT and UCT know neither a policy nor reflections."""
    parts = trap_door_agent()
    won, _ = await play(remembered_trap_door, parts, moves=20, seed=seed)
    assert (won.score, won.ending) == (100.0, WON)
    puct = changed(parts, prior=uniform_prior, k=0)
    uct = changed(puct, select=select_by_uct(c=20.0))
    for other in (changed(parts, k=0), puct, uct):
        lost, _ = await play(remembered_trap_door, other, moves=20, seed=seed)
        assert (lost.score, lost.ending) == (25.0, LOST)


@pytest.fixture(scope="module")
def remembered_trap_door():
    return RememberedGame(SnapshotGame(TrapDoor()), TransitionMemory())
