"""What is wrong with a sweep file is named with its key, its value and the remedy."""

import pytest

from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.sweep_files import SweepConfigError

GOOD = "planners: too\ntasks: cook-meat\n"
REFUSED = [
    (GOOD + "seedz: 3", "seedz: unknown key 'seedz'", "did you mean seeds"),
    (GOOD + "k: 3", "k: unknown key 'k'; it is a setting, which stands under `settings`"),
    (
        "grids: [{planners: too, task: cook-meat}]",
        "grids[0].task: unknown key",
        "did you mean tasks",
    ),
    (
        GOOD + "exclude: [{seed: 0}, {planners: too}]",
        "exclude[1].planners: unknown key",
        "did you mean planner",
    ),
    ("{planners: tooo, tasks: all}", "planners.tooo: unknown planner 'tooo'", "mean too"),
    (
        "{planners: too, tasks: [cook-meet]}",
        "tasks: unknown task 'cook-meet' of planner too",
        "did you mean cook-meat",
    ),
    (GOOD + "domain: mincraft", "domain: unknown domain 'mincraft'", "did you mean minecraft"),
    (
        "{planners: too, domain: textgame, tasks: all}",
        "domain: planner too needs a domain that",
        "textgame does not",
    ),
    (
        GOOD + "role_models: {dynamic: other/model}",
        "role_models: no planner here asks a role 'dynamic'",
        "did you mean dynamics",
    ),
    (
        GOOD + "role_models: [{dynamics: none.yaml}]",
        "role_models[0].dynamics: 'none.yaml' cannot be run",
    ),
    (GOOD + "model:", "model: no name is written here; write a model's name, or none for no model"),
    (GOOD + "role_models: {dynamics: ~}", "role_models.dynamics: no name is written here"),
    (
        GOOD + "exclude: {task: cook-meet}",
        "exclude[0]: ",
        "matches no trial: unknown task 'cook-meet'",
        "did you mean cook-meat",
    ),
    (
        GOOD + "settings: {iterations: 3}",
        "settings.iterations: planner too in minecraft has no setting",
        "did you mean iter",
    ),
    (
        GOOD + "exclude: {settings: {iterr: 3}}",
        "exclude[0]: ",
        "unknown setting 'iterr'",
        "did you mean iter",
    ),
    (
        GOOD + "settings: {d: [8, 64]}",
        "settings.d: 64 is not possible for too",
        "less than or equal to 32",
    ),
    (
        "planners: {too: {gamma: 1.5}}\ntasks: cook-meat",
        "planners.too.gamma: 1.5 is not possible for too",
    ),
    (GOOD + "settings: {k: '3'}", "settings.k: '3' is a text, but k of too is a number: write 3"),
    (GOOD + "settings: {k: true}", "True is a truth value"),
    (GOOD + "settings: {k: {a: 1}}", "settings.k: unknown key 'a' of a range"),
    (GOOD + "settings: {k: {from: 1}}", "settings.k: {'from': 1} is not a range"),
    (GOOD + "seeds: {from: a, to: b}", "seeds: from 'a' of a range"),
    (GOOD + "seeds: {from: 3, to: 1}", "seeds:", "holds no value"),
    (GOOD + "seeds: {from: 1, to: 3, step: 0}", "seeds:", "positive steps"),
    (GOOD + "settings: {d: {from: 8, to: 15, step: 4}}", "settings.d:", "ends at 12"),
    (GOOD + "seeds: {from: 0, to: 1e300}", "seeds:", "more than 1000000"),
    (GOOD + "seeds: 0", "seeds: 0 seeds are not possible"),
    (GOOD + "seeds: [-1]", "seeds: -1 is not a seed"),
    (GOOD + "seeds: [9223372036854775807]", "is too long"),
    (GOOD + "seeds: [1.5]", "seeds: 1.5 is not a seed"),
    (GOOD + "model: []", "model: [] is not possible"),
    (GOOD + "settings: {k: []}", "settings.k: [] leaves nothing to run"),
    ("planners: {}\ntasks: all", "planners: {} is not possible"),
    ("tasks: all", "`planners` is missing"),
    ("grids: [{planners: too}]", "grids[0]: `tasks` is missing"),
    (GOOD + "grids: []", "grids: [] is not possible"),
    (GOOD + "exclude: {seed: 0}", "exclude: leaves no trial"),
    (GOOD + "exclude: [{}]", "exclude[0]: {} leaves every trial out"),
    (GOOD + "exclude: [{seed: 7}]", "exclude[0]: {'seed': [7]} matches no trial"),
    (GOOD + "grids: [{planners: cot}]", "planners: has no effect: every block"),
    (
        "{planners: {too: {k: 1}}, tasks: cook-meat, settings: {k: 2}}",
        "settings.k: has no effect: every planner",
    ),
    (
        GOOD + "settings: {iter: {from: 1, to: 900000}, width: {from: 1, to: 900000}}",
        "810000000000 trials",
        "at most 1000000",
    ),
    (GOOD + "seeds: 1000000000000", "seeds: 1000000000000 seeds are not"),
    (GOOD + "name: ../up", "name: '../up' names no folder"),
    (GOOD + 'name: "a\\n"', "name: 'a\\n' names no folder"),
    (GOOD + "name: " + 101 * "a", "names no folder"),
    (GOOD + "retries: -1", "retries: -1 is not possible"),
    (GOOD + "retries: '2'", "retries: '2' is not possible"),
    (GOOD + "model: none.yaml", "model: 'none.yaml' cannot be run"),
    (GOOD + "model: ''", "model: '' is not a model's name"),
    (GOOD + "model: [a, 3]", "model[1]: 3 is not possible"),
    (GOOD + "extends: none.yaml", "sweep.yaml: extends: ", "none.yaml: there is no such file"),
    (GOOD + 'extends: "a\\0b"', "extends: 'a\\x00b' is not a file's path"),
    ("[1, 2]", "holds [1, 2]; write a mapping"),
    (GOOD + "<<: {seeds: 1}", "unknown key '<<'"),
    (GOOD + "seeds: [1", "is not YAML", "line 4"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_each_error_names_the_key_the_value_and_the_remedy(tmp_path, case):
    text, *expected = case
    path = tmp_path / "sweep.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SweepConfigError) as caught:
        load_sweep(path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}")
    assert message.isprintable()
    for part in expected:
        assert part in message
    assert len(message) < 1500


def test_an_inherited_mistake_is_reported_where_it_was_written(load, tmp_path):
    with pytest.raises(SweepConfigError, match=r"child\.yaml: extends: .*parent\.yaml: seedz: unk"):
        load(parent="{planners: too, seedz: 3}", child="extends: parent.yaml")
    with pytest.raises(SweepConfigError) as caught:
        load(
            parent="{planners: {too: {k: 99}}, tasks: cook-meat}",
            child="{extends: parent.yaml, seeds: 2}",
        )
    assert str(caught.value).startswith(f"{tmp_path / 'parent.yaml'}: planners.too.k: 99 is not")


def test_what_is_no_readable_file_is_refused(tmp_path):
    with pytest.raises(SweepConfigError, match="is a folder"):
        load_sweep(tmp_path)
    with pytest.raises(SweepConfigError, match="there is no such file"):
        load_sweep(tmp_path / "none.yaml")
    with pytest.raises(SweepConfigError, match="there is no such file"):
        load_sweep("nul\0l.yaml")
    with pytest.raises(SweepConfigError, match="cannot be read: File name too long"):
        load_sweep(tmp_path / f"{300 * 'a'}.yaml")
    with pytest.raises(SweepConfigError, match="cannot be read: it is not a regular file"):
        load_sweep("/dev/null")
    path = tmp_path / "latin.yaml"
    path.write_bytes(GOOD.encode() + b"name: \xe9")
    with pytest.raises(SweepConfigError, match=f"byte {len(GOOD) + 6} is not UTF-8"):
        load_sweep(path)
    path = tmp_path / "two words.yaml"
    path.write_text(GOOD)
    with pytest.raises(SweepConfigError, match="the file's own name, 'two words', names no folder"):
        load_sweep(path)


def test_a_models_own_file_is_checked(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("{model: some/model, context: 512}")
    (trial,) = load(fine=GOOD + "model: mine.yaml").trials
    assert trial.model == "mine.yaml"
    (tmp_path / "mine.yaml").write_text("{model: some/model, contxt: 512}")
    with pytest.raises(SweepConfigError, match=r"model: 'mine.yaml' cannot .*mean `context`"):
        load(bad=GOOD + "model: mine.yaml")
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(SweepConfigError, match=r"model: 'mine.yaml' cannot be run"):
        load(bad=GOOD + "model: mine.yaml")


def test_a_file_that_lies_where_the_sweep_does_is_told_with_its_folder(tmp_path, monkeypatch):
    (tmp_path / "configs" / "mine").mkdir(parents=True)
    (tmp_path / "configs" / "mine" / "roles.yaml").write_text("feasibility: {rate: 0.9}\n")
    path = tmp_path / "configs" / "mine" / "sweep.yaml"
    grid = "{planners: [too], domain: minecraft, tasks: all, model: none, settings: {roles: %s}}"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for named, told in (("configs/mine/none.yaml", False), ("configs/mine/roles.yaml", True)):
        path.write_text(grid % named)
        with pytest.raises(SweepConfigError) as caught:
            load_sweep(path)
        assert str(caught.value).endswith(f"; run it from {tmp_path}") == told
    monkeypatch.chdir(tmp_path)
    assert load_sweep(path).trials
