"""MC-DML, its ablations and its baselines: compositions, settings, whole runs on one engine."""

import math

import pytest
from mc_dml_games import chain
from textgame_toys import trap_door

from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.planners.mc_dml.agents import SPECS, SearchRun, by_puct
from llm_planning.planners.mc_dml.playing import LlmAgentSettings
from llm_planning.planners.mc_dml.settings import (
    FixedDepthSettings,
    McDmlSettings,
    PrunedSettings,
    ReflectiveFixedSettings,
)
from llm_planning.roles import Engines
from llm_planning.settings import NoSettings, SettingsError
from llm_planning.specs import Problem
from llm_serving.scripted import ScriptedEngine

ADVICE = "Next time, take the lantern first."
SMALL = {"simulations_per_action": 5, "moves": 3, "C": 20}
AGENTS = {spec.name: spec for spec in SPECS}
SEARCHES = [
    spec.name for spec in SPECS if issubclass(spec.settings, PrunedSettings | FixedDepthSettings)
]


def log_probabilities(prompt, actions):
    """A model that likes to open the trap door, until it has read the advice."""
    liked = "take lantern" if ADVICE in prompt else "open trap door"
    return [0.0 if action == liked else -2.0 for action in actions]


def an_engine():
    return ScriptedEngine({"reflection": ADVICE}, score=log_probabilities)


async def play(name, engine, seed=0, **settings):
    spec = AGENTS[name]
    world = trap_door()
    return await spec.run(
        Problem(domain="textgame", task="trap-door", world=world),
        engines=Engines(engine),
        settings=spec.settings.read({**SMALL, **settings}),
        seed=seed,
    )


@pytest.mark.parametrize("name", SEARCHES)
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
    asks = name not in {"mc-dml-puct", "mc-dml-uct"}
    assert metrics["priors"] == len(engine.scored)
    assert bool(engine.scored) == asks
    reflects = name in {"mc-dml", "mc-dml-no-dp"}
    assert AGENTS[name].roles == ("prior", "reflection")[: asks + reflects]
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
    assert McDmlSettings().depths == (10, 30)
    assert McDmlSettings(d_min=5, d_max=12, delta_d=3).depths == (5, 8, 11, 12)
    assert McDmlSettings(d_min=7, d_max=7).depths == (7,)
    assert FixedDepthSettings().depths == (15,)


def test_exploration_constants():
    settings = PrunedSettings()
    constants = {game: settings.exploration(game) for game in ("zork1", "deephome", "library")}
    assert constants == {"zork1": 50.0, "deephome": 20.0, "library": 20.0}
    assert settings.exploration("detective") == 200.0
    assert PrunedSettings.read({"C": "7"}).exploration("detective") == 7.0


@pytest.mark.parametrize(("given", "expected"), [({}, 200.0), ({"C": "7"}, 7.0)])
async def test_c_is_that_of_the_game_that_is_played(given, expected):
    """A story file is played under whatever task is the first."""
    game = chain(3, 1.0)
    game.name = "detective"
    constants = []

    def select(c):
        constants.append(c)
        return by_puct(c)

    outcome = await SearchRun(past=0, select=select)(
        Problem(domain="textgame", task="coin-collector", world=TextGameDomain(game)),
        engines=Engines(an_engine()),
        settings=PrunedSettings.read({**given, "simulations_per_action": 2}),
        seed=0,
    )
    assert constants == [expected]
    assert outcome.trace["task"] == "coin-collector"
    assert outcome.metrics["game"] == outcome.trace["game"] == "detective"


def test_defaults_are_the_papers_but_for_the_prior():
    assert McDmlSettings().to_json() == {
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
        "prior_mixture": 0.0,
        "k": 3,
    }


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        (PrunedSettings, "prior"),
        (PrunedSettings, "prior_temperature"),
        (LlmAgentSettings, "prior_temperature"),
        (PrunedSettings, "k"),
        (FixedDepthSettings, "k"),
        (FixedDepthSettings, "d_min"),
        (ReflectiveFixedSettings, "delta_d"),
        (McDmlSettings, "depth"),
    ],
)
def test_nobody_has_settings_without_effect(settings, key):
    with pytest.raises(SettingsError, match=f"unknown setting '{key}'"):
        settings.read({key: 1})


async def test_the_prior_is_asked_for_as_set():
    """log p of the six first actions: 0 for the trap door, -2 for the others."""
    for given, weight in (
        ({}, math.exp(2.0)),
        ({"prior_temperature": 4.0}, math.exp(0.5)),
        ({"prior": "uniform"}, 1.0),
    ):
        outcome = await play("mc-dml-no-mc-dp", an_engine(), moves=1, **given)
        pi = {one["action"]: one["prior"] for one in outcome.trace["moves"][0]["root"]}
        assert pi["open trap door"] == pytest.approx(weight / (weight + 5))
    mixed = await play("mc-dml-no-mc-dp", an_engine(), moves=1, prior_mixture=0.5)
    pi = {one["action"]: one["prior"] for one in mixed.trace["moves"][0]["root"]}
    share = math.exp(2.0) / (math.exp(2.0) + 5)
    assert pi["open trap door"] == pytest.approx(0.5 * share + 0.5 / 6)


def test_depths_in_the_wrong_order():
    with pytest.raises(SettingsError, match="d_max is below d_min=20: set d_max to at least that"):
        McDmlSettings.read({"d_min": 20, "d_max": 10})


class Cliff(Domain):
    """A walk of three steps beside a cliff, which is told in no game's words."""

    goal = "Reach the hut."
    about = "A path beside a cliff."

    def start(self, seed):
        return 0

    def describe(self, place):
        return f"You are at milestone {place}."

    def actions(self, place):
        return [] if place in {-1, 3} else [+1, -1]

    def step(self, place, action, rng):
        if action == +1:
            return Step(place + 1, reward=float(place == 2), done=place == 2)
        return Step(-1, done=True, text="You fall.")

    def success(self, place):
        return place == 3


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if not spec.needs])
async def test_any_domain_is_played_as_a_game(name):
    spec = AGENTS[name]
    engine = ScriptedEngine(
        {"reflection": ADVICE}, score=lambda text, actions: [-5.0 * ("-" in a) for a in actions]
    )
    given = {key: value for key, value in SMALL.items() if key in spec.settings.known_keys()}
    outcome = await spec.run(
        Problem(domain="cliff", task="cliff", world=Cliff()),
        engines=Engines(engine),
        settings=spec.settings.read(given),
        seed=0,
    )
    assert (outcome.success, outcome.plan) == (True, ("1", "1", "1"))
    assert (outcome.metrics["game"], outcome.metrics["score"]) == ("cliff", 1.0)
    assert outcome.metrics["success_basis"] == "executed"
    assert (outcome.metrics["options_executed"], outcome.metrics["first_failed"]) == (3, None)
    assert outcome.trace["last"] == (
        "You are at milestone 3.\nYour goal: Reach the hut. A path beside a cliff."
    )
    for text, actions in engine.scored:
        assert "You are at milestone" in text
        assert "Your goal: Reach the hut. A path beside a cliff." in text
        assert actions == ("1", "-1")
    # Whoever fell reflected, on what the world said.
    for request in engine.requests:
        assert "You fall." in engine.text(request.prompt)
    assert bool(engine.requests) == (name in {"mc-dml", "mc-dml-no-dp"})


class Guarded(Cliff):
    """A gate that opens to whoever waits; to wait again changes nothing, and is no failure."""

    def start(self, seed):
        return (0, False)

    def describe(self, place):
        return f"You are at milestone {place[0]}."

    def actions(self, place):
        return [] if place[0] else ["go", "wait"]

    def step(self, place, action, rng):
        if action == "wait":
            return Step((0, True), text="The gate is open.")
        if place[1]:
            return Step((1, True), reward=1.0, done=True)
        return Step(place, obstacle="The gate is shut.")

    def success(self, place):
        return place[0] == 1


async def test_a_domain_says_what_failed_and_a_state_that_stays_is_no_failure():
    script = iter(["go", "wait", "wait", "go"])

    def liked(text, actions):
        wanted = next(script)
        return [0.0 if action == wanted else -99.0 for action in actions]

    spec = AGENTS["llm-agent"]
    outcome = await spec.run(
        Problem(domain="gate", task="gate", world=Guarded()),
        engines=Engines(ScriptedEngine({}, score=liked)),
        settings=spec.settings.read({"moves": 4, "history": 20}),
        seed=0,
    )
    assert (outcome.success, outcome.plan) == (True, ("go", "wait", "wait", "go"))
    assert outcome.metrics["options_executed"] == 3
    assert outcome.metrics["first_failed"] == "go"
    assert outcome.metrics["first_obstacle"] == "The gate is shut."


class Hidden(Cliff):
    def belief(self, history, rng):
        return 0


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if not spec.needs])
async def test_hidden_states_are_not_for_these_planners(name):
    spec = AGENTS[name]
    with pytest.raises(DomainError, match=r"^fog hides its state .* plan there with puct or uct$"):
        await spec.run(
            Problem(domain="fog", task="cliff", world=Hidden()),
            engines=Engines(an_engine()),
            settings=spec.settings.read({}),
            seed=0,
        )


def test_walkthroughs_are_for_worlds_that_have_one():
    assert [spec.name for spec in SPECS if not all(n.met_by(Cliff) for n in spec.needs)] == [
        "walkthrough"
    ]
    assert all(need.met_by(TextGameDomain) for spec in SPECS for need in spec.needs)
    assert AGENTS["walkthrough"].settings is NoSettings
