import re

import pytest

from llm_planning.environments.minecraft.tasks import TASKS, UnknownTaskError
from llm_planning.planners.registry import PLANNERS, UnknownPlannerError, find_planner
from llm_planning.planners.settings import SettingsError
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.roles import Engines
from llm_serving.scripted import ScriptedEngine


def test_registered_planners():
    of_options = ["too", "too-no-wm", "too-no-fc", "tot-mcts", "cot"]
    assert [name for name, spec in PLANNERS.items() if spec.tasks == tuple(TASKS)] == of_options
    for name, spec in PLANNERS.items():
        assert spec.name == name
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
        assert spec.environment in {"minecraft", "cooking", "textgame"}
        assert spec.tasks
        assert len(spec.summary) < 100


def test_unknown_planner_names_the_nearest():
    with pytest.raises(UnknownPlannerError, match="'tot-mtcs'; did you mean tot-mcts"):
        find_planner("tot-mtcs")
    assert find_planner("cot") is PLANNERS["cot"]


@pytest.mark.parametrize("name", ["too", "cot"])
async def test_unknown_task(name):
    spec = find_planner(name)
    with pytest.raises(UnknownTaskError, match="did you mean milk-a-cow"):
        await spec.run(
            "milk-cow",
            engines=Engines.both(ScriptedEngine({})),
            settings=spec.settings.read({}),
            seed=0,
        )


def test_defaults_are_those_of_table_3():
    assert FeasibleSearchSettings().to_json() == {
        "d": 12,
        "vocabulary": "closed",
        "layout": "cached",
        "k": 3,
        "iter": 10,
        "gamma": 0.95,
        "c": 0.7,
        "width": 1,
        "primary_weight": 1.2,
        "moderate_weight": 1.0,
        "penalty_weight": -1.0,
        "return": "sum",
        "first_play": "zero",
        "infeasible": "repair",
    }


def test_settings_from_texts():
    settings = FeasibleSearchSettings.read(
        {"iter": "4", "gamma": "0.5", "return": "mean", "k": "2", "infeasible": "drop"}
    )
    assert (settings.iterations, settings.gamma, settings.return_) == (4, 0.5, "mean")
    assert FeasibleSearchSettings.read(settings.to_json()) == settings
    assert FeasibleSearchSettings.read({"iterations": 4}).iterations == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gama": 0.9}, r"unknown setting 'gama'; did you mean gamma\?"),
        ({"iters": 3}, r"unknown setting 'iters'; did you mean iter\?"),
        ({"depth": 3}, r"unknown setting 'depth'.*known: c, d, "),
        ({"k": "many"}, r"setting k='many' is not possible: .*integer"),
        ({"k": 0}, r"setting k=0 is not possible: .*greater than or equal to 1"),
        ({"iter": 0}, r"setting iter=0 is not possible"),
        ({"gamma": 1.5}, r"setting gamma=1.5 is not possible: .*less than or equal to 1"),
        ({"c": "nan"}, r"setting c='nan' is not possible"),
        ({"return": "max"}, r"setting return='max' is not possible: .*'sum' or 'mean'"),
        ({"vocabulary": "open"}, r"setting vocabulary='open' is not possible"),
    ],
)
def test_impossible_settings(values, message):
    with pytest.raises(SettingsError, match=message):
        FeasibleSearchSettings.read(values)


def test_key_and_its_field_name_together_are_refused():
    with pytest.raises(SettingsError, match="iter"):
        FeasibleSearchSettings.read({"iter": 3, "iterations": 4})


def test_a_planner_has_no_settings_it_would_ignore():
    for name, key in (("too-no-fc", "infeasible"), ("tot-mcts", "infeasible"), ("cot", "k")):
        with pytest.raises(SettingsError, match=f"unknown setting '{key}'"):
            find_planner(name).settings.read({key: 1})
