"""The sweeps and published figures of MC-DML: what they run, print and measure."""

import functools

import pytest
from runs import run_in
from textgame_toys import trap_door

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.registry import find_domain, find_planner
from llm_planning.specs import choose
from llm_serving.scripted import ScriptedEngine

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
    return load_sweep(PAPER.folder / f"{sweep}.yaml").trials


def test_every_sweep_has_a_table():
    assert set(PAPER.tables()) == set(SWEEPS)


@pytest.mark.parametrize("sweep", SWEEPS)
def test_a_sweep_loads_a_model_only_where_it_is_asked(sweep):
    asks = {bool(find_planner(trial.planner).roles): trial.model for trial in trials(sweep)}
    # Where others ask, agents that ask nobody have the model's name, so that runs can be paired.
    assert asks.get(True, "smollm2-135m-instruct") == "smollm2-135m-instruct"
    assert asks.get(False) in {None, "none", asks.get(True)}


@pytest.mark.parametrize("sweep", ["table1", "table2", "table3"])
def test_jericho_games_are_played_at_the_papers_settings(sweep):
    papers = {"C": None, "gamma": 0.95, "simulations_per_action": 50, "k": 3}
    papers |= {"d_min": 10, "d_max": 30, "delta_d": 20, "temperature": 0.1}
    papers |= {"prior": "index", "prior_temperature": None}  # which is 5 for `index`
    # The paper does not say how many moves an episode has.
    own = {"moves": 50}
    set_to = {}
    for trial in trials(sweep):
        assert trial.task in JERICHO
        if (sweep, trial.planner) == ("table2", "mc-dml-puct"):
            continue  # PUCT-RL's first search
        played = settings_of(trial)
        assert played["games"] == "story-files"
        for key, value in played.items():
            set_to.setdefault(key, set()).add(value)
    searched = papers.keys() - (set() if sweep == "table1" else {"temperature"})
    assert {key: set_to[key] for key in searched} == {key: {papers[key]} for key in searched}
    assert {key: set_to[key] for key in own} == {key: {value} for key, value in own.items()}


def test_the_first_search_of_puct_rl_is_puct_with_a_uniform_policy_at_depth_10():
    """Of Table 2's rows it is the one that needs no model: 31.9 ± 1.4."""
    played = [settings_of(trial) for trial in trials("table2") if trial.planner == "mc-dml-puct"]
    assert len(played) == 3
    papers = {"d_min": 10, "d_max": 10, "moves": 50, "simulations_per_action": 50, "C": None}
    assert all(
        settings.items() >= papers.items() and "prior" not in settings for settings in played
    )
    (column,) = [
        column for column in PAPER.table("table2").columns if column.key == "puct-rl-search"
    ]
    assert column.where == {"planner": ("mc-dml-puct",), "settings.d_max": (10,)}
    assert PAPER.table("table2").rows[0].published[column.key] == "31.9 ± 1.4"


def settings_of(trial):
    """All of them, whether the sweep names them or not."""
    assert trial.domain == "textgame"
    chosen = choose(find_planner(trial.planner), find_domain(trial.domain), trial.settings)
    return chosen.to_json()


def test_the_twelve_games_are_the_same_for_every_agent():
    games = {}
    for trial in trials("games"):
        key = (trial.task, trial.settings["game_seed"], trial.seed)
        games.setdefault(trial.planner, set()).add(key)
    assert len(set(map(frozenset, games.values()))) == 1
    (played, *_) = games.values()
    assert len(played) == 12 * 3


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
