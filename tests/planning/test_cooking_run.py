"""Runs of many episodes: settings, priors, prompts, statistics, and runs on disk."""

import json

import pytest
from cooking_kitchens import PAPER_KITCHENS, cut_and_cooked, sticky

from llm_planning.environments.cooking.domain import Cooking, KitchenSettings
from llm_planning.environments.cooking.games import GameSpec
from llm_planning.environments.cooking.recipes import RULES, TOOLS
from llm_planning.experiments.papers import find_paper, load_table
from llm_planning.planners.xenon import cooking
from llm_planning.planners.xenon.asking import CookingAsking
from llm_planning.planners.xenon.cooking_agent import CookingEpisode, CookingStep
from llm_planning.planners.xenon.cooking_roles import ToolQuestion
from llm_planning.planners.xenon.roles import ActionQuestion
from llm_planning.planners.xenon.saved import SavedKnowledgeError
from llm_planning.planners.xenon.settings import CookingSettings, XenonCookingSettings
from llm_planning.planners.xenon.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.running import prepare
from llm_planning.settings import SettingsError
from llm_serving.engine import MeteredEngine
from llm_serving.request import ModelIdentity
from llm_serving.scripted import ScriptedEngine

OTHER_MODEL = ModelIdentity(name="other", revision="1", dtype="float32")
AGENTS = {
    spec.name.removesuffix("-cooking"): spec for spec in SPECS if spec.name.endswith("-cooking")
}


async def run(agent, *, seed=0, engine=None, **values):
    given = {"roles": "sticky-40", **values}
    prepared = prepare(AGENTS[agent], domain=PAPER_KITCHENS, settings=given)
    return await prepared.run(Engines(engine or ScriptedEngine({})), seed)


def episode(success, steps, refused=0):
    lost = [CookingStep("chop", "egg", "cook", "knife", False)] * refused
    won = [CookingStep("chop", "egg", "chop", "knife", True)] * (steps - refused)
    return CookingEpisode(game="paper", success=success, steps=(*lost, *won))


def test_statistics_by_hand():
    # Ten episodes of 50 refused steps, except the fourth; then three successes in four.
    first = [episode(False, 50, 50)] * 3 + [episode(True, 20, 12)] + [episode(False, 50, 50)] * 6
    then = [episode(True, 8), episode(False, 50, 46), episode(True, 9, 1), episode(True, 8)]
    assert cooking.statistics(first + then) == {
        "success_rate": 4 / 14,
        "success_rate_after_10": 3 / 4,
        "steps_per_success": (20 + 8 + 9 + 8) / 4,
        "first_success": 4,
        "steps": 9 * 50 + 20 + 8 + 50 + 9 + 8,
        "refused": 9 * 50 + 12 + 46 + 1,
    }
    assert cooking.statistics([episode(False, 2, 2)] * 10) == {
        "success_rate": 0,
        **dict.fromkeys(("success_rate_after_10", "steps_per_success", "first_success")),
        "steps": 20,
        "refused": 20,
    }


async def test_games_are_the_same_for_every_agent_and_differ_by_run():
    world = Cooking(kitchens_of=cut_and_cooked)
    order = [meal.game for meal in await world.meals(0, 100)]
    assert sorted(order) == sorted(GameSpec(seed=i).name for i in range(1, 21))
    assert [meal.game for meal in await world.meals(0, 5)] == order[:5]
    played = [
        [e["game"] for e in (await run(agent, seed=seed, episodes=7, games=5)).trace["episodes"]]
        for agent, seed in (("xenon", 0), ("deckard", 0), ("deckard", 1))
    ]
    assert played[0] == played[1] != played[2]
    assert played[0][:2] == played[0][5:]
    assert set(played[0]) == {GameSpec(seed=i).name for i in range(1, 6)}


async def test_xenon_succeeds_after_the_tenth_episode():
    outcome = await run("xenon", episodes=30)
    assert outcome.metrics["success_rate_after_10"] == 1.0
    assert outcome.success
    assert outcome.metrics["learnt"] == len(RULES)
    assert [oracle["role"] for oracle in outcome.trace["oracles"]] == ["tool", "action"]
    assert len(outcome.plan) == 8
    baseline = await run("deckard", episodes=30)
    assert baseline.metrics["success_rate"] < outcome.metrics["success_rate"]


async def test_xenon_learns_even_from_a_prior_that_is_always_wrong(tmp_path):
    wrong = sticky(tmp_path, 0.0)
    outcome = await run("xenon", roles=wrong, episodes=30)
    assert outcome.metrics["success_rate_after_10"] == 1.0
    assert outcome.metrics["revisions"] >= 5
    hopeless = await run("deckard", roles=wrong, episodes=2)
    assert hopeless.metrics["steps"] == hopeless.metrics["refused"] == 100


@pytest.mark.parametrize("agent", AGENTS)
async def test_perfect_prior_makes_no_mistake(agent):
    outcome = await run(agent, roles="rules", episodes=12)
    assert outcome.success
    assert outcome.metrics["refused"] == 0
    assert outcome.metrics["steps_per_success"] == 8
    # One question for the tool and one for the action of each of the seven cookbook actions.
    assert outcome.metrics["questions"] == 14


@pytest.mark.parametrize("agent", AGENTS)
async def test_a_run_is_a_function_of_its_seed_wherever_it_stops(agent, tmp_path):
    folder = tmp_path / "saved"
    folder.mkdir()
    file, roles = folder / "run.json", sticky(tmp_path, 0.3)
    whole, again, other = [await run(agent, seed=s, episodes=14, roles=roles) for s in (1, 1, 2)]
    assert whole == again
    assert whole.trace != other.trace
    for episodes in (1, 5, 5, 12):
        await run(agent, seed=1, episodes=episodes, roles=roles, save=str(file))
        assert len(json.loads(file.read_text())["episodes"]) == episodes
    moved = file.rename(folder / "moved.json")
    parted = await run(agent, seed=1, episodes=14, roles=roles, save=str(moved))
    assert list(folder.iterdir()) == [moved]
    assert (parted.metrics, parted.plan, parted.text) == (whole.metrics, whole.plan, whole.text)
    for key in ("episodes", "knowledge"):
        assert parted.trace[key] == whole.trace[key]


async def test_every_episode_is_saved(tmp_path, monkeypatch):
    file = tmp_path / "run.json"
    cook, played = cooking.cook, []

    async def stop_at_the_fourth(*world, **parts):
        if len(played) == 3:
            raise KeyboardInterrupt
        played.append(await cook(*world, **parts))
        return played[-1]

    monkeypatch.setattr(cooking, "cook", stop_at_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        await run("xenon", episodes=9, save=str(file))
    assert len(json.loads(file.read_text())["episodes"]) == 3
    monkeypatch.undo()
    resumed = await run("xenon", episodes=9, save=str(file))
    assert resumed.metrics == (await run("xenon", episodes=9)).metrics


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"agent": "sc"}, "learnt with planner=xenon-cooking, and this run has planner=sc-cooking"),
        ({"seed": 1}, "seed=0, and this run has seed=1: name another file"),
        ({"K": 2}, "K=3, and this run has K=2"),
        ({"engine": ScriptedEngine({}, identity=OTHER_MODEL)}, "model=scripted, .* model=other"),
        ({"episodes": 1}, "holds 2 episodes, more than episodes=1"),
    ],
)
async def test_a_run_does_not_go_on_as_another(other, message, tmp_path):
    file = tmp_path / "run.json"
    await run("xenon", episodes=2, save=str(file))
    before = file.read_bytes()
    with pytest.raises(SavedKnowledgeError, match=message):
        await run(**{"agent": "xenon", "episodes": 3, **other}, save=str(file))
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda record: record.update(format=1), "has format 1, not 2"),
        (lambda record: record["knowledge"].update(colour="red"), "knowledge.colour"),
        (lambda record: record["episodes"][0]["steps"][0].pop(), r"episodes\.0\.steps\.0"),
    ],
)
async def test_a_damaged_run(spoil, named, tmp_path):
    file = tmp_path / "run.json"
    await run("xenon", episodes=1, save=str(file))
    record = json.loads(file.read_text())
    spoil(record)
    file.write_text(json.dumps(record))
    with pytest.raises(SavedKnowledgeError, match=named):
        await run("xenon", episodes=2, save=str(file))


async def test_too_few_episodes_are_not_judged():
    outcome = await run("xenon", episodes=10)
    assert outcome.success is None
    assert outcome.metrics["success_rate_after_10"] is None


def test_only_xenon_counts_failures():
    with pytest.raises(SettingsError, match="unknown setting 'x0'"):
        CookingSettings.read({"x0": 2})


def asked(engine=None, *, seed=0, **values):
    settings = CookingSettings.read(values)
    return CookingAsking(Engines(engine or ScriptedEngine({})), settings, seed=seed)


def oracle(roles="sticky-40", seed=0):
    return asked(seed=seed, roles=roles)


async def test_oracle_answers_a_question_once_and_a_correction_afresh():
    ask = oracle(seed=3).predict
    first = await ask(ToolQuestion("fry"))
    again = [await ask(ToolQuestion("fry", [("dice", "knife")])) for _ in range(5)]
    assert {*again, await oracle(seed=3).predict(ToolQuestion("fry"))} == {first}
    corrected = {await ask(ToolQuestion("fry", failures=["x"] * n)) for n in range(40)}
    assert len(corrected) > 1


async def test_oracle_without_the_right_option_takes_another(tmp_path):
    options = ("close", "drop")
    assert await oracle("rules").choose(ActionQuestion("fry", options)) in options
    # If all options are right, it cannot err.
    assert await oracle(sticky(tmp_path, 0.0)).predict(ToolQuestion("eat")) in TOOLS


async def test_model_answers_with_the_likeliest_choice():
    scripted = ScriptedEngine({}, score=lambda _, choices: [-float(len(c)) for c in choices])
    engine = MeteredEngine(scripted)
    roles = asked(engine)
    assert await roles.predict(ToolQuestion("fry")) == "oven"
    assert roles.asked == {"tool": 1}
    # The first of equals.
    assert await roles.choose(ActionQuestion("fry", ("slice", "cook", "drop"))) == "cook"
    assert [choices for _, choices in scripted.scored] == [TOOLS, ("slice", "cook", "drop")]
    assert set(engine.usage) == {"tool", "action"}


async def test_what_the_model_reads():
    engine = ScriptedEngine({}, score=lambda _, choices: [0.0] * len(choices))
    tried = [f"cook with {tool}" for tool in TOOLS]
    roles = asked(engine)
    await roles.predict(ToolQuestion("fry", [("dice", "knife"), ("chop", "knife")], tried))
    await roles.predict(ToolQuestion("roast"))
    await roles.choose(ActionQuestion("fry", ("cook", "eat"), (("dice", "dice"),)))
    (first, _), (second, _), (action, _) = engine.scored
    assert "Known to work: dice: knife; chop: knife." in first
    assert "failed, the latest last: cook with fridge; cook with table; cook with counter." in first
    assert "cook with stove" not in first
    assert "The cookbook says: fry. Which tool does it take?" in first
    assert "Nothing was tried for roast that failed." in second
    assert "Actions to choose from: cook, eat." in action
    assert "\n\n\n" not in first + second + action
    # All questions of a role share a prefix.
    fixed = first.split("Known")[0]
    assert "knife, oven, stove, fridge, table, counter" in fixed
    assert second.startswith(fixed)


async def test_real_similarity_and_model_prior_run_on_an_engine():
    scripted = ScriptedEngine({}, score=lambda _, choices: [-float(i) for i in range(len(choices))])
    engine = MeteredEngine(scripted)
    outcome = await run("xenon", engine=engine, roles="llm", episodes=30)
    # Always answering the first tool and the first action is a poor prior, but enough.
    assert outcome.metrics["success_rate_after_10"] == 1.0
    asked = engine.usage
    assert outcome.metrics["questions"] == asked["tool"].calls + asked["action"].calls
    assert asked["similarity"].calls > 0


async def test_published_table_measures_what_a_run_reports():
    table = load_table(find_paper("xenon").folder / "table6.published.yaml")
    outcome = await run("xenon", episodes=11)
    for column in table.columns:
        for field in column.measure.fields:
            assert field.removeprefix("metrics.") in outcome.metrics
    known = XenonCookingSettings.known_keys() + KitchenSettings.known_keys()
    for setup in table.setup:
        assert setup.field == "seed" or setup.field.removeprefix("settings.") in known
