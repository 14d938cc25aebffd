"""The sweeps and published figures of MC-DML: what they run, print and measure."""

import functools

import pytest
from textgame_toys import trap_door

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.wording import printed_value
from llm_planning.registry import find_domain, find_planner
from llm_planning.roles import Engines
from llm_planning.specs import Problem, choose
from llm_serving.scripted import ScriptedEngine

PAPER = find_paper("mc_dml")
JERICHO = {
    *("zork1", "deephome", "ludicorp", "pentari", "detective"),
    *("library", "balances", "temple", "ztuu"),
}
ABLATIONS = {"mc-dml", "mc-dml-no-dp", "mc-dml-no-mc-dp", "mc-dml-no-mc-mi-dp"}
SEARCHES = ABLATIONS | {"mc-dml-puct", "mc-dml-uct"}
KINDS = {"coin-collector", "treasure-hunter", "simple", "custom", "cooking"}
SIZES = {
    "table1": 5 * 9 * 3,
    "table2": 3,
    "table3": 4 * 4 * 3,
    "table4": 2 * 5,
    "table5": 9 + 5 * 3 + 1,
    "generated": 5 * 3 + 1,
    "games": 8 * 12 * 3,
    "priors": (4 + 3 + 1 + 2) * 12 * 3,
}
"""Trials of each sweep: agents x games x seeds."""


@functools.cache
def trials(sweep):
    return load_sweep(PAPER.folder / f"{sweep}.yaml").trials


def printed(table):
    return {
        row.label: {key: printed_value(value) for key, value in row.published.items()}
        for row in PAPER.table(table).rows
        if row.published
    }


def column(table, key):
    return [figures.get(key) for figures in printed(table).values()]


def test_every_sweep_is_counted():
    files = {path.stem for path in PAPER.folder.glob("*.yaml")} - {"paper"}
    assert {name for name in files if not name.endswith(".published")} == set(SIZES)
    assert set(PAPER.tables()) == set(SIZES) - {"generated"}


@pytest.mark.parametrize("sweep", SIZES)
def test_the_grids_have_the_trials_that_their_tables_need(sweep):
    assert len(trials(sweep)) == SIZES[sweep]
    asks = {trial.planner == "walkthrough": trial.model for trial in trials(sweep)}
    assert asks in ({True: "none"}, {False: "smollm2-135m-instruct"})


@pytest.mark.parametrize("sweep", ["table1", "table2", "table3"])
def test_jericho_games_are_played_at_the_papers_settings_but_for_prior_and_moves(sweep):
    papers = {"C": None, "gamma": 0.95, "simulations_per_action": 50, "k": 3}
    papers |= {"d_min": 10, "d_max": 30, "delta_d": 20, "temperature": 0.1}
    # The paper's prior is `index`, and it does not say how many moves an episode has.
    own = {"prior": "exact", "moves": 50}
    set_to = {}
    for trial in trials(sweep):
        assert trial.task in JERICHO
        played = settings_of(trial)
        assert played["games"] == "story-files"
        for key, value in played.items():
            set_to.setdefault(key, set()).add(value)
    searched = papers.keys() - (set() if sweep == "table1" else {"temperature"})
    assert {key: set_to[key] for key in searched} == {key: {papers[key]} for key in searched}
    assert {key: set_to[key] for key in own} == {key: {value} for key, value in own.items()}


def settings_of(trial):
    """All of them, whether the sweep names them or not."""
    assert trial.domain == "textgame"
    chosen = choose(find_planner(trial.planner), find_domain(trial.domain), trial.settings)
    return chosen.to_json()


def test_with_and_without_cross_trial_memory_search_the_bottleneck_alike():
    depths, others = {}, set()
    for trial in trials("table4"):
        played = settings_of(trial)
        depths[trial.planner] = played.get("depth", played.get("d_min"))
        others.add((trial.task, played["C"], played["moves"], played["prior"]))
    assert depths == {"mc-dml": 10, "mc-dml-no-mc-dp": 10}
    # The paper's C of Zork1, whose state Table 4 shows.
    assert others == {("trap-door", None, 1, "index")}


def test_the_ablations_are_on_the_papers_four_games():
    assert {trial.planner for trial in trials("table3")} == ABLATIONS
    assert {trial.task for trial in trials("table3")} == {"zork1", "deephome", "detective", "ztuu"}


def test_the_twelve_games_are_the_same_for_every_agent():
    games = {}
    for trial in trials("games"):
        key = (trial.task, trial.settings["game_seed"], trial.seed)
        games.setdefault(trial.planner, set()).add(key)
        assert trial.settings["moves"] == 20
    assert set(games) == SEARCHES | {"llm-agent", "reflection-agent"}
    assert len(set(map(frozenset, games.values()))) == 1
    (played, *_) = games.values()
    assert len(played) == 12 * 3
    assert len({kind for kind, _, _ in played}) == 4


def test_the_twelve_games_have_one_level_one_c_and_one_budget_for_each_kind():
    levels, searched = {}, {}
    for trial in (*trials("games"), *trials("priors")):
        played = settings_of(trial)
        levels.setdefault(trial.task, set()).add(played["level"])
        if trial.planner in SEARCHES:
            given = (played["C"], played["simulations_per_action"])
            searched.setdefault(trial.task, set()).add(given)
    assert levels == {
        "coin-collector": {205},
        "treasure-hunter": {13},
        "custom": {5},
        "cooking": {1},
    }
    assert searched == {
        "coin-collector": {(5.0, 50)},
        "treasure-hunter": {(5.0, 50)},
        "custom": {(5.0, 25)},
        "cooking": {(5.0, 10)},
    }


def test_the_part_without_story_files_is_a_part_of_table_5():
    whole = {trial.key: trial.task for trial in trials("table5")}
    part = {trial.key for trial in trials("generated")}
    assert part < set(whole)
    assert {task for key, task in whole.items() if key not in part} == JERICHO
    assert {trial.task for trial in trials("generated")} == KINDS | {"trap-door"}


def test_table_1_as_it_was_printed():
    assert list(printed("table1")) == [
        *("Zork1", "Deephome", "Ludicorp", "Pentari", "Detective"),
        *("Library", "Balances", "Temple", "Ztuu"),
    ]
    assert column("table1", "mc-dml") == [48.66, 67, 19.67, 70, 346.67, 21, 10, 8, 23.67]
    assert column("table1", "llm") == [0, 1, 4, 5, 30, 6, 10, 8, 0]
    assert column("table1", "reflection") == [5, 1, 4, 5, 30, 6, 10, 8, 5]
    assert column("table1", "puct-rl") == [38.2, 28.6, 18, 64, 322, 19, 10, 8, 5]
    assert column("table1", "mc-lave-rl") == [45.2, 35, 22.8, 68, 330, 19, 10, 8, 7]
    assert column("table1", "drrn") == [32.6, 1, 13.8, 27.2, 197.8, 17, 10, 7.4, 21.6]
    assert column("table1", "kg-a2c-hard") == [40.2, 20, 19.8, 44, 338, 17, 10, 8, 5]
    assert column("table1", "mc-q-bert") == [41.6, 8, 22.8, 58, 330, 19, 10, 8, 11.8]
    spread = PAPER.table("table1").rows[0].published["mc-dml"]
    assert spread == "48.66 ± 1.89"


def test_table_2_as_it_was_printed():
    rows = [list(figures.values()) for figures in printed("table2").values()]
    assert rows == [
        [31.9, 36.6, 30.4, 36.6, 48.66],
        [35.8, 37.4, 36.1, 38.2, None],
        [35.3, 39.0, 41.2, 43.0, None],
        [35.2, 38.2, 43.8, 45.2, None],
    ]


def test_table_3_as_it_was_printed():
    assert {game: list(figures.values()) for game, figures in printed("table3").items()} == {
        "Zork1": [48.66, 48, 38, 31.67],
        "Deephome": [67, 67.4, 64.33, 51],
        "Detective": [346.67, 334, 323.33, 320],
        "Ztuu": [23.67, 7.8, 7, 6.33],
    }


def test_table_4_as_it_was_printed():
    with_memory, without = (list(row.values()) for row in printed("table4").values())
    assert with_memory == [
        *(4.41, 11.41, 9.31, 14.26, 0.00, -8.12, -1.42),
        *(0.16, 0.13, 0.10, 0.22, 0.10, 0.08, 0.17),
        *(21, 39, 27, 252, 6, 2, 3),
    ]
    assert without == [
        *(13.02, 9.92, 8.38, 12.66, 3.17, -1.85, 4.73),
        *(0.24, 0.20, 0.21, 0.10, 0.10, 0.05, 0.06),
        *(176, 36, 72, 34, 17, 5, 10),
    ]


def test_table_5_as_it_was_printed():
    assert list(map(list, (row.values() for row in printed("table5").values()))) == [
        [15.96, 396, 9.12, 51, 350],
        [19.47, 327, 5.90, 53, 300],
        [14.52, 364, 3.69, 45, 150],
        [5.16, 49, 6.43, 16, 70],
        [7.16, 51, 1.96, 5, 360],
        [7.73, 52, 3.67, 6, 30],
        [23.18, 122, 13.44, 54, 50],
        [15.25, 182, 21.38, 46, 35],
        [33.96, 84, 4.53, 14, 100],
    ]


def test_agents_that_are_not_implemented_are_cited():
    cited = {one.key for one in PAPER.table("table1").columns if one.cited}
    assert cited == {"drrn", "kg-a2c-hard", "mc-q-bert", "puct-rl", "mc-lave-rl"}


@pytest.mark.parametrize(
    ("planner", "tables"),
    [
        ("mc-dml-puct", ["table1", "table2", "table3", "table4", "games", "priors"]),
        ("walkthrough", ["table5"]),
    ],
)
async def test_every_metric_that_is_measured_is_reported(planner, tables):
    spec = find_planner(planner)
    given = {"moves": 2, "simulations_per_action": 2} if planner == "mc-dml-puct" else {}
    world = trap_door()
    outcome = await spec.run(
        Problem(domain="textgame", task="trap-door", world=world),
        engines=Engines(ScriptedEngine({})),
        settings=spec.settings.read(given),
        seed=0,
    )
    for table in tables:
        for one in PAPER.table(table).columns:
            if one.measure is not None and one.measure.field.startswith("metrics."):
                assert one.measure.field.removeprefix("metrics.") in outcome.metrics
