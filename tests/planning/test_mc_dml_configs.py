"""The sweeps and published figures of MC-DML: what they run, print and measure."""

import functools

import pytest
from runs import run_in
from textgame_toys import trap_door

from llm_planning.environments.textgame.textworld_kinds import LEVELS
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.sweep_files import Trust
from llm_planning.registry import find_planner
from llm_serving.scripted import ScriptedEngine

STUDENTS = ["students/textgame/adapter", "students/textgame-long/adapter"]
PAPER = find_paper("mc_dml")
JERICHO = {
    *("zork1", "deephome", "ludicorp", "pentari", "detective"),
    *("library", "balances", "temple", "ztuu"),
}
SWEEPS = sorted(
    path.stem
    for path in PAPER.folder.glob("*.yaml")
    if path.suffixes == [".yaml"] and path.stem != "paper"
)


@functools.cache
def trials(sweep):
    trust = Trust.of(STUDENTS)
    return load_sweep(PAPER.folder / f"{sweep}.yaml", trust=trust).trials


def test_every_sweep_has_a_table():
    assert set(PAPER.tables()) == {sweep.removesuffix("-asked") for sweep in SWEEPS}


@pytest.mark.parametrize("sweep", [name for name in SWEEPS if "taught" not in name])
def test_a_sweep_loads_a_model_only_where_it_is_asked(sweep):
    asks = {bool(find_planner(trial.planner).roles): trial.model for trial in trials(sweep)}
    # Where others ask, agents that ask nobody have the model's name, so that runs can be paired.
    assert asks.get(True, "smollm2-135m-instruct") == "smollm2-135m-instruct"
    assert asks.get(False) in {None, "none", asks.get(True)}


def test_the_twelve_games_are_the_same_for_every_agent():
    games = {}
    for trial in trials("games"):
        key = (trial.task, trial.settings["game_seed"], trial.seed)
        games.setdefault(trial.planner, set()).add(key)
    assert len(set(map(frozenset, games.values()))) == 1
    (played, *_) = games.values()
    assert len(played) == 12 * 3


def test_the_taught_model_plays_the_same_games_as_the_untaught_one_and_as_puct():
    games = {}
    for trial in trials("taught"):
        key = (trial.task, trial.settings.get("level"), trial.settings.get("game_seed"))
        games.setdefault((trial.model, trial.planner), set()).add(key)
        if trial.task in LEVELS:
            assert trial.settings["level"] in LEVELS[trial.task]
        if trial.model != "none":
            assert trial.settings["prior"] == "exact"
    played = games["none", "mc-dml-puct"]
    assert len(played) == 4 * 8 + 1
    asking = {planner for model, planner in games if model == "smollm2-135m-instruct"}
    for student in STUDENTS:
        assert asking == {planner for model, planner in games if model == student}
    assert len(asking) == 6
    for (model, planner), keys in games.items():
        ruled = model == "none" and planner in asking
        assert keys < played if ruled else keys == played


def test_fresh_games_are_others_of_the_same_kinds_and_levels():
    games = {
        sweep: {
            (trial.task, trial.settings["level"], trial.settings["game_seed"])
            for trial in trials(sweep)
            if trial.task in LEVELS
        }
        for sweep in ("taught", "taught-fresh")
    }
    assert len(games["taught"]) == len(games["taught-fresh"]) == 4 * 8
    assert not games["taught"] & games["taught-fresh"]
    kinds = [{(task, level) for task, level, _ in played} for played in games.values()]
    assert kinds[0] == kinds[1]


def test_table_5_is_of_the_papers_games_and_another_of_those_that_are_here():
    assert {trial.task for trial in trials("table5")} == JERICHO
    assert not {trial.task for trial in trials("generated")} & JERICHO
    papers, ours = (
        [column.key for column in PAPER.table(table).columns] for table in ("table5", "generated")
    )
    assert papers == ours


@pytest.mark.parametrize(
    ("planner", "tables"),
    [
        ("mc-dml-puct", ["table1", "table2", "table3", "table4", "games", "priors", "search"]),
        ("walkthrough", ["table5", "generated"]),
    ],
)
async def test_every_metric_that_is_measured_is_reported(planner, tables):
    spec = find_planner(planner)
    given = {"moves": 2, "simulations_per_action": 2} if planner == "mc-dml-puct" else {}
    world = trap_door()
    outcome = await spec.run(run_in(world, spec.settings.read(given), ScriptedEngine({})))
    for table in tables:
        for column in PAPER.table(table).columns:
            for field in column.measure.fields if column.measure else ():
                if field.startswith("metrics."):
                    assert field.removeprefix("metrics.") in outcome.metrics
