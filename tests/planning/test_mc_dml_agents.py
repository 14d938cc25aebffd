"""MC-DML, its ablations and its baselines: compositions, settings, whole runs on one engine."""

import math
from dataclasses import replace
from functools import partial

import pytest
from mc_dml_games import chain

from llm_planning.environments.textgame.game import Observation
from llm_planning.environments.textgame.opening import UnknownGameError
from llm_planning.planners.mc_dml import agents
from llm_planning.planners.mc_dml.agents import TextGameRun
from llm_planning.planners.mc_dml.playing import LlmAgentSettings
from llm_planning.planners.mc_dml.roles import Situation
from llm_planning.planners.mc_dml.settings import (
    LlmFixedSettings,
    McDmlSettings,
    PlainSettings,
    ReflectiveFixedSettings,
)
from llm_planning.planners.settings import SettingsError
from llm_planning.roles import Engines
from llm_serving.scripted import ScriptedEngine

ADVICE = "Next time, take the lantern first."
SMALL = {"simulations_per_action": 5, "moves": 3, "remember": "memory", "C": 20}
RUNS = {
    "mc-dml": (agents.MC_DML, McDmlSettings),
    "mc-dml-no-dp": (agents.WITHOUT_DP, ReflectiveFixedSettings),
    "mc-dml-no-mc-dp": (agents.WITHOUT_MC_DP, LlmFixedSettings),
    "mc-dml-no-mc-mi-dp": (agents.WITHOUT_MC_MI_DP, LlmFixedSettings),
    "puct": (agents.PUCT, PlainSettings),
    "uct": (agents.UCT, PlainSettings),
}


def log_probabilities(prompt, actions):
    """A model that likes to open the trap door, until it has read the advice."""
    liked = "take lantern" if ADVICE in prompt else "open trap door"
    return [0.0 if action == liked else -2.0 for action in actions]


def an_engine():
    return ScriptedEngine({"reflection": ADVICE}, score=log_probabilities)


async def play(name, engine, seed=0, **settings):
    composition, model = RUNS[name]
    return await TextGameRun(composition)(
        "trap-door",
        engines=Engines.both(engine),
        settings=model.read({**SMALL, **settings}),
        seed=seed,
    )


@pytest.mark.parametrize("name", RUNS)
async def test_every_agent_plays(name):
    engine = an_engine()
    outcome = await play(name, engine)
    metrics = outcome.metrics
    assert 1 <= metrics["moves"] <= 3
    assert len(outcome.plan) == metrics["moves"] == len(outcome.trace["moves"])
    assert metrics["max_score"] == 100.0
    assert metrics["normalised_score"] == metrics["score"] / 100
    # Six actions are valid at the beginning.
    assert len(outcome.trace["moves"][0]["root"]) == 6
    assert outcome.trace["moves"][0]["simulations"] % 30 == 0
    assert metrics["simulations"] == sum(m["simulations"] for m in outcome.trace["moves"])
    assert outcome.trace["settings"]["C"] == 20
    assert "trap-door" in outcome.text
    asks = name.startswith("mc-dml")
    assert metrics["priors"] == len(engine.scored)
    assert bool(engine.scored) == asks
    reflects = name in {"mc-dml", "mc-dml-no-dp"}
    assert bool(engine.requests) == reflects == bool(metrics["reflections"])
    # Whatever engine was asked took its time.
    assert bool(metrics["seconds_engine"]) == asks
    again = await play(name, an_engine())
    assert again.plan == outcome.plan
    assert again.trace["moves"] == outcome.trace["moves"]


async def test_what_the_model_reads():
    with_all, without_mc, without_both = an_engine(), an_engine(), an_engine()
    await play("mc-dml-no-dp", with_all, moves=2)
    await play("mc-dml-no-mc-dp", without_mc, moves=2)
    await play("mc-dml-no-mc-mi-dp", without_both, moves=2)
    assert any(ADVICE in prompt for prompt, _ in with_all.scored)
    assert not any(ADVICE in prompt for prompt, _ in without_mc.scored)
    # ℳ_i: what was done before the observation, marked by ">".
    assert any("\n> open trap door" in prompt for prompt, _ in without_mc.scored)
    assert not any("\n> open trap door" in prompt for prompt, _ in without_both.scored)


def test_depths():
    assert agents.growing(McDmlSettings()) == (10, 30)
    assert agents.growing(McDmlSettings(d_min=5, d_max=12, delta_d=3)) == (5, 8, 11, 12)
    assert agents.growing(McDmlSettings(d_min=7, d_max=7)) == (7,)
    assert agents.fixed(LlmFixedSettings()) == (15,)


def test_exploration_constants():
    settings = PlainSettings()
    constants = {game: settings.exploration(game) for game in ("zork1", "deephome", "library")}
    assert constants == {"zork1": 50.0, "deephome": 20.0, "library": 20.0}
    assert settings.exploration("detective") == 200.0
    assert PlainSettings.read({"C": "7"}).exploration("detective") == 7.0


@pytest.mark.parametrize(
    ("given", "expected"), [({"game": "my-detective.z5"}, 200.0), ({"C": "7"}, 7.0)]
)
async def test_c_is_that_of_the_game_that_is_played(monkeypatch, given, expected):
    """A story file is played under whatever task is the first."""
    game = chain(3, 1.0)
    game.name = "detective"

    async def opened(task, settings):
        return game

    constants = []

    def by_puct(c):
        constants.append(c)
        return agents.by_puct(c)

    monkeypatch.setattr(agents, "open_game", opened)
    outcome = await TextGameRun(replace(agents.PUCT, select=by_puct))(
        "coin-collector",
        engines=Engines.both(an_engine()),
        settings=PlainSettings.read({**given, "simulations_per_action": 2}),
        seed=0,
    )
    assert constants == [expected]
    assert outcome.trace["task"] == "coin-collector"
    assert outcome.metrics["game"] == outcome.trace["game"] == "detective"


def test_defaults_are_the_papers_but_for_the_prior():
    game = {"game", "games", "game_seed", "level", "state", "remember"}
    own = {key: value for key, value in McDmlSettings().to_json().items() if key not in game}
    assert own == {
        "moves": 50,
        "C": None,
        "gamma": 0.95,
        "simulations_per_action": 50,
        "width": 1,
        "d_min": 10,
        "d_max": 30,
        "delta_d": 20,
        "prior": "exact",
        "prior_temperature": None,
        "k": 3,
    }


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (PlainSettings, "prior"),
        (PlainSettings, "prior_temperature"),
        (LlmAgentSettings, "prior_temperature"),
        (PlainSettings, "k"),
        (LlmFixedSettings, "k"),
        (LlmFixedSettings, "d_min"),
        (ReflectiveFixedSettings, "delta_d"),
        (McDmlSettings, "depth"),
    ],
)
def test_nobody_has_settings_without_effect(settings, key):
    with pytest.raises(SettingsError, match=f"unknown setting '{key}'"):
        settings.read({key: 1})


async def test_the_temperature_of_the_prior_is_the_settings():
    engine = ScriptedEngine({}, score=lambda text, choices: [-float(len(one)) for one in choices])
    here = Situation((), Observation("A cellar.", "", ""), ("up", "down"))
    pis = {}
    for given in (None, 1.0, 4.0):
        settings = LlmFixedSettings.read({"prior_temperature": given})
        pis[given] = await agents.llm(engine, settings, 0)(here)
    assert pis[None] == pis[1.0] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))])
    assert pis[4.0] == pytest.approx([1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5))])


def test_depths_in_the_wrong_order():
    with pytest.raises(SettingsError, match="d_max is below d_min=20: set d_max to at least that"):
        McDmlSettings.read({"d_min": 20, "d_max": 10})


async def test_unknown_game():
    run = partial(TextGameRun(agents.UCT), engines=Engines.both(an_engine()), seed=0)
    with pytest.raises(UnknownGameError, match="did you mean trap-door"):
        await run("trap-dor", settings=PlainSettings())
