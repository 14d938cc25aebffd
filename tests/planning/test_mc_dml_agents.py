"""MC-DML, its ablations and its baselines: compositions, settings, whole runs on one engine."""

import math

import pytest
from any_domain_worlds import Cliff, Guarded
from command_line import invoke
from mc_dml_games import chain, read_golden, rounded
from runs import run_in
from textgame_toys import trap_door

from llm_planning.domain import DomainError, missing_members
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.planners.mc_dml.playing import mc_dml
from llm_planning.planners.mc_dml.settings import (
    FixedDepthSettings,
    McDmlSettings,
    PrunedSettings,
)
from llm_planning.planners.mc_dml.specs import SPECS
from llm_planning.search import select_by_puct
from llm_planning.settings import NoSettings, SettingsError
from llm_planning.trace import recording
from llm_serving.scripted import ScriptedEngine

ADVICE = "Next time, take the lantern first."
# Scripts of these tests like actions, and not labels of actions.
SMALL = {"simulations_per_action": 5, "moves": 3, "C": 20, "prior": "exact"}
AGENTS = {spec.name: spec for spec in SPECS}


def log_probabilities(prompt, actions):
    """A model that likes to open the trap door, until it has read the advice."""
    liked = "take lantern" if ADVICE in prompt else "open trap door"
    return [0.0 if action == liked else -2.0 for action in actions]


def an_engine():
    return ScriptedEngine({"reflection": ADVICE}, score=log_probabilities)


async def play(name, engine, seed=0, **settings):
    spec, given = AGENTS[name], {**SMALL, **settings}
    world = trap_door()
    read = spec.settings.read(
        {key: value for key, value in given.items() if key in spec.settings.known_keys()}
    )
    return await spec.run(
        run_in(world, read, engine, domain="textgame", task="trap-door", seed=seed)
    )


@pytest.mark.parametrize("name", AGENTS)
async def test_every_agent_plays_as_it_always_did(name):
    engine = an_engine()
    with recording() as trace:
        outcome = await play(name, engine, prior_temperature=1.0)
    moves = [{k: v for k, v in m.items() if k != "observation"} for m in outcome.trace["moves"]]
    metrics = {k: v for k, v in outcome.metrics.items() if k not in outcome.unrepeatable}
    played = {
        "plan": outcome.plan,
        "success": outcome.success,
        "metrics": metrics,
        "moves": moves,
        "text": outcome.text,
        "memories": [event["text"] for event in trace.events if event["type"] == "memory"],
    }
    assert rounded(played) == read_golden("trap_door")[name]
    # The roles are those that were asked. Only runs that asked an engine took engine time.
    asked = ("prior",) * bool(engine.scored) + ("reflection",) * bool(engine.requests)
    assert AGENTS[name].roles == asked
    assert bool(outcome.metrics["seconds_engine"]) == bool(asked)


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
    """A story file is played under the first task, whatever that is."""
    game = chain(3, 1.0)
    game.name = "detective"
    constants = []

    def select(*, c):
        constants.append(c)
        return select_by_puct(c=c)

    settings = PrunedSettings.read({**given, "simulations_per_action": 2})
    run = run_in(TextGameDomain(game), settings, an_engine(), task="coin-collector")
    outcome = await mc_dml(run, past=0, select=select)
    assert constants == [expected]
    assert outcome.trace["task"] == "coin-collector"
    assert outcome.metrics["game"] == outcome.trace["game"] == "detective"


async def test_the_prior_is_asked_for_as_set():
    """log p of the six first actions: 0 for the trap door, -2 for the others.

    Section 3.1: the probabilities of an action's tokens, which is `exact` of `SMALL`; Section 4.1:
    their softmax has temperature 5.
    """
    for given, weight in (
        ({}, math.exp(2.0 / 5.0)),
        ({"prior_temperature": 1.0}, math.exp(2.0)),
        ({"prior": "uniform"}, 1.0),
    ):
        outcome = await play("mc-dml-no-mc-dp", an_engine(), moves=1, **given)
        pi = {option["action"]: option["prior"] for option in outcome.trace["moves"][0]["root"]}
        assert pi["open trap door"] == pytest.approx(weight / (weight + 5))
    mixed = await play("mc-dml-no-mc-dp", an_engine(), moves=1, prior_mixture=0.5)
    pi = {option["action"]: option["prior"] for option in mixed.trace["moves"][0]["root"]}
    share = math.exp(0.4) / (math.exp(0.4) + 5)
    assert pi["open trap door"] == pytest.approx(0.5 * share + 0.5 / 6)


def test_depths_in_the_wrong_order():
    with pytest.raises(SettingsError, match="d_max is below d_min=20: set d_max to at least that"):
        McDmlSettings.read({"d_min": 20, "d_max": 10})


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if not spec.needs])
async def test_any_domain_is_played_as_a_game(name):
    spec = AGENTS[name]
    engine = ScriptedEngine(
        {"reflection": ADVICE}, score=lambda text, actions: [-5.0 * ("-" in a) for a in actions]
    )
    given = {key: value for key, value in SMALL.items() if key in spec.settings.known_keys()}
    outcome = await spec.run(run_in(Cliff(), spec.settings.read(given), engine, task="cliff"))
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
    # An agent that fell reflected on the world's words.
    for request in engine.requests:
        assert "You fall." in engine.text(request.prompt)
    assert bool(engine.requests) == (name in {"mc-dml", "mc-dml-no-dp"})


async def test_a_domain_says_what_failed_and_a_state_that_stays_is_no_failure():
    script = iter(["go", "wait", "wait", "go"])

    def liked(text, actions):
        wanted = next(script)
        return [0.0 if action == wanted else -99.0 for action in actions]

    spec = AGENTS["llm-agent"]
    given = spec.settings.read({"moves": 4, "history": 20, "prior": "exact"})
    outcome = await spec.run(run_in(Guarded(), given, ScriptedEngine({}, score=liked)))
    assert (outcome.success, outcome.plan) == (True, ("go", "wait", "wait", "go"))
    assert outcome.metrics["options_executed"] == 3
    assert outcome.metrics["first_failed"] == "go"
    assert outcome.metrics["first_obstacle"] == "The gate is shut."


class Stuck(Cliff):
    def actions(self, place):
        return []


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if not spec.needs])
async def test_where_nothing_can_be_done_nothing_is(name):
    spec = AGENTS[name]
    outcome = await spec.run(run_in(Stuck(), spec.settings.read({}), an_engine()))
    assert (outcome.success, outcome.plan, outcome.metrics["ending"]) == (False, (), "horizon")


class Hidden(Cliff):
    def belief(self, history, rng):
        return 0


@pytest.mark.parametrize("name", [spec.name for spec in SPECS if not spec.needs])
async def test_hidden_states_are_not_for_these_planners(name):
    spec = AGENTS[name]
    with pytest.raises(
        DomainError,
        match=r"^fog hides its state .* plan there with puct or uct, or set sight=full if the "
        "domain has it$",
    ):
        await spec.run(run_in(Hidden(), spec.settings.read({}), an_engine(), domain="fog"))


def test_a_household_that_shows_its_state_is_one_of_their_worlds():
    home = ("mc-dml-uct", "--domain", "household", "--model", "none", "--set", "moves=1")
    hidden = invoke("run", *home)
    assert hidden.exit_code == 1
    assert "or set sight=full if the domain has it" in hidden.stderr
    assert invoke("run", *home, "--set", "sight=full").exit_code == 0


def test_walkthroughs_are_for_worlds_that_have_one():
    lacking = {spec.name for spec in SPECS for need in spec.needs if missing_members(Cliff, need)}
    assert lacking == {"walkthrough"}
    assert not any(missing_members(TextGameDomain, need) for spec in SPECS for need in spec.needs)
    assert AGENTS["walkthrough"].settings is NoSettings
