"""What the authors' published code of MC-DML does and the paper does not: a setting for each."""

import math

import pytest
from any_domain_worlds import Cliff
from mc_dml_games import GraphGame, Reflects, search_parts, searched
from runs import run_in
from test_mc_dml_priors import make_prior, situation

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, Transition
from llm_planning.planners.mc_dml.playing import mc_dml
from llm_planning.planners.mc_dml.settings import McDmlSettings, PrunedSettings
from llm_planning.search import select_by_puct, select_by_uct
from llm_planning.settings import SettingsError
from llm_serving.scripted import ScriptedEngine

WON, LOST = Ending.VICTORY, Ending.FAILURE
AUTHORS = {
    "moves": 100,
    "d_min": 15,
    "d_max": 15,
    "values": "softmax",
    "death_reward": -10,
    "stuck": "wait",
    "prior_absent": -5,
    "reflect_at": "end",
}


class Deadly(GraphGame):
    """Its answer to what leads to `dead` is how Inform's stories tell a death."""

    async def step(self, state, action):
        transition = await super().step(state, action)
        if transition.ending is not LOST:
            return transition
        return Transition(
            transition.state, "*** You have died ***", transition.reward, transition.ending
        )


def a_bait():
    """`a` pays 3 and kills at once; `b` pays 1 and wins a move later, for nothing more."""
    return Deadly(
        {
            "hall": {"a": ("dead", 3.0, LOST), "b": ("stairs", 1.0, None)},
            "stairs": {"y": ("won", 0.0, WON)},
        }
    )


async def played(game, *, name="bait", engine=None, **given):
    """A game by `mc-dml-puct`, or with an engine by MC-DML."""
    kind = McDmlSettings if engine else PrunedSettings
    game.name = name
    settings = {"C": 20, "simulations_per_action": 4, "d_min": 3, "d_max": 3, "moves": 3, **given}
    run = run_in(TextGameDomain(game), kind.read(settings), engine or ScriptedEngine({}))
    return await mc_dml(run, past=1, select=select_by_puct)


def test_all_of_them_together():
    settings = McDmlSettings.read(AUTHORS)
    assert settings.depths == (15,)
    assert settings.value_temperature == 10.0


@pytest.mark.parametrize(("given", "action"), [({}, "a"), ({"death_reward": -10}, "b")])
async def test_a_death_costs_in_the_search_and_not_in_the_score(given, action):
    outcome = await played(a_bait(), **given)
    assert outcome.plan[0] == action
    q = {option["action"]: option["Q"] for option in outcome.trace["moves"][0]["root"]}
    assert q == {"a": given.get("death_reward", 3), "b": 1.0}
    assert outcome.metrics["score"] == {"a": 3.0, "b": 1.0}[action]


async def test_returns_are_weighted_by_their_softmax_by_hand():
    """Of the one action's two returns, 8 and 0, the first weighs e^(8/10) times as much."""
    game = GraphGame(
        {
            "hall": {"a": ("fork", 0.0, None)},
            "fork": {"x": ("won", 8.0, WON), "y": ("no", 0.0, WON)},
        }
    )
    parts = search_parts(
        select=select_by_uct(c=1.0),
        simulations_per_action=3,
        gamma=1.0,
        values="softmax",
    )
    root = (await searched(game, parts)).root
    returns = [8.0, 8.0, 0.0] if root.edges[0].moments.count(8.0) == 2 else [8.0, 0.0, 0.0]
    weights = [math.exp(value / 10) for value in returns]
    expected = sum(w * value for w, value in zip(weights, returns, strict=True)) / sum(weights)
    assert root.edges[0].value == pytest.approx(expected)
    assert expected > sum(returns) / 3
    mean = await played(a_bait(), values="mean", death_reward=-10)
    soft = await played(a_bait(), values="softmax", death_reward=-10)
    assert mean.plan == soft.plan == ("b", "y")


@pytest.mark.parametrize(
    ("reflect_at", "lessons"), [("failure", ["lost"]), ("end", ["won", "lost"])]
)
async def test_reflections_at_failures_or_at_any_end(reflect_at, lessons):
    reflect = Reflects()
    parts = search_parts(
        reflect=reflect,
        reflect_at=reflect_at,
        simulations_per_action=4,
        select=select_by_puct(c=20.0),
    )
    await searched(a_bait(), parts)
    ends = [
        "lost" if "died" in trajectory.last.text else "won" for trajectory in reflect.trajectories
    ]
    assert sorted(ends) == sorted(lessons)


class Quiet(GraphGame):
    """In the cellar nothing is valid, and waiting leads out."""

    async def actions(self, state):
        return () if state == "cellar" else await super().actions(state)


def a_cellar():
    return Quiet(
        {
            "hall": {"down": ("cellar", 0.0, None)},
            "cellar": {
                "wait": ("garden", 5.0, None),
                "yes": ("cellar", 0.0, None),
                "no": ("cellar", 0.0, None),
            },
            "garden": {"go": ("won", 0.0, WON)},
        }
    )


async def test_where_nothing_is_valid_one_stops_or_waits_says_yes_or_no():
    stopped = await played(a_cellar())
    assert (stopped.plan, stopped.metrics["ending"]) == (("down",), "horizon")
    waited = await played(a_cellar(), stuck="wait")
    assert (waited.plan, waited.success) == (("down", "wait", "go"), True)
    in_the_cellar = waited.trace["moves"][1]["root"]
    assert [option["action"] for option in in_the_cellar] == ["wait", "yes", "no"]
    assert waited.trace["moves"][0]["root"][0]["Q"] > 0


async def test_waiting_is_for_text_games():
    run = run_in(Cliff(), PrunedSettings.read({"stuck": "wait"}), domain="cliff")
    with pytest.raises(SettingsError, match="stuck=wait is not possible: cliff is no text game"):
        await mc_dml(run, past=0, select=select_by_puct)


@pytest.mark.parametrize("absent", [-10.0, -5.0])
async def test_an_absent_label_by_hand(absent):
    """Of 21 labels with the same log p = log(1/21) the last is absent; temperature 5."""
    actions = tuple(f"go to room {number}" for number in range(21))
    engine = ScriptedEngine({}, score=lambda prompt, labels: [0.0] * len(labels))
    pi = await make_prior("index", engine, absent=absent)(situation(actions))
    kept = math.exp(math.log(1 / 21) / 5)
    assert pi[-1] == pytest.approx(math.exp(absent / 5) / (20 * kept + math.exp(absent / 5)))
    assert pi[0] == pytest.approx(pi[19])
    assert pi[0] > pi[-1]


async def test_a_search_asks_with_the_set_absence():
    actions = {f"go {number:02}": (f"room {number}", 0.0, None) for number in range(21)}
    game = GraphGame(
        {"hall": actions, **{f"room {n}": {"x": ("won", 1.0, WON)} for n in range(21)}}
    )
    least = {}
    for absent in (-10, -5):
        engine = ScriptedEngine(
            {"reflection": "Next time, go another way and not this one."},
            score=lambda prompt, labels: [0.0] * len(labels),
        )
        outcome = await played(game, engine=engine, prior_absent=absent, moves=1)
        least[absent] = min(option["prior"] for option in outcome.trace["moves"][0]["root"])
    assert least[-5] > least[-10] > 0
