"""From a sweep file to trials: products counted by hand, exclusions, inheritance."""

import json
import textwrap

import pytest
from command_line import refused

from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.experiments import grid
from llm_planning.experiments.grid import load_sweep
from llm_planning.experiments.grid_file import sweep_name
from llm_planning.experiments.sweep_files import SweepConfigError
from llm_planning.model_configs import find_config
from llm_planning.registry import find_domain, find_planner
from llm_planning.specs import choose

GOOD = "planners: too\ntasks: cook-meat\n"
MODEL = "smollm2-135m-instruct"


def cells(sweep, *keys):
    return [tuple(trial.settings[key] for key in keys) for trial in sweep.trials]


def test_the_smallest_sweep_is_one_trial_with_all_its_settings(load):
    sweep = load(small="{planners: too, tasks: cook-meat}")
    (trial,) = sweep.trials
    assert (sweep.name, sweep.retries) == ("small", 2)
    assert (trial.planner, trial.domain, trial.task) == ("too", "minecraft", "cook-meat")
    assert (trial.model, trial.role_models, trial.seed, trial.source) == (MODEL, {}, 0, "")
    whole = choose(find_planner("too"), find_domain("minecraft"), {}).to_json()
    assert trial.settings == json.loads(json.dumps(whole))
    assert trial.settings["iter"] == 10
    assert trial.engines == {MODEL: find_config(MODEL).model_dump(mode="json")}


def test_a_table_of_planners_by_tasks_by_seeds(load):
    sweep = load(
        table="""
        {planners: [cot, tot-mcts, too], domain: minecraft, tasks: all, seeds: 5, retries: 0}
        """
    )
    assert len(sweep.trials) == 3 * 9 * 5
    assert len({trial.key for trial in sweep.trials}) == 135
    assert [trial.seed for trial in sweep.trials[:6]] == [0, 1, 2, 3, 4, 0]
    assert [trial.task for trial in sweep.trials[:45:5]] == [*TASKS, "mine-a-diamond"]
    assert [trial.planner for trial in sweep.trials[::45]] == ["cot", "tot-mcts", "too"]
    assert sweep.retries == 0


def test_a_planners_own_settings_take_the_place_of_the_shared_ones(load):
    sweep = load(
        own="""
        planners: {too: {return: mean, d: [2, 3]}, cot: }
        tasks: cook-meat
        settings: {d: 8}
        """
    )
    assert [(t.planner, t.settings["d"]) for t in sweep.trials] == [
        ("too", 2),
        ("too", 3),
        ("cot", 8),
    ]
    assert sweep.trials[0].settings["return"] == "mean"


def test_models_and_those_of_roles_are_a_product_too(load):
    sweep = load(
        models=f"""
        model: [{MODEL}, other/model]
        role_models: [{{}}, {{dynamics: other/model}}]
        planners: [too, cot]
        tasks: cook-meat
        """
    )
    assert [(t.planner, t.model, t.role_models) for t in sweep.trials] == [
        ("too", MODEL, {}),
        ("cot", MODEL, {}),
        ("too", MODEL, {"dynamics": "other/model"}),
        ("too", "other/model", {}),
        ("cot", "other/model", {}),
    ], "a role's own model is no other trial where it is the model itself or nobody asks the role"
    both, alone = sweep.trials[2], sweep.trials[3]
    assert set(both.engines) == {MODEL, "other/model"}
    assert set(alone.engines) == {"other/model"}


def test_a_model_s_file_that_is_edited_makes_other_trials(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keys = []
    for context, name in ((512, "mine.yaml"), (512, "mine.yaml"), (1024, "mine.YAML")):
        (tmp_path / name).write_text(f"{{model: some/model, context: {context}}}")
        (trial,) = load(edited=GOOD + f"model: {name}").trials
        assert trial.engines[name]["context"] == context
        keys.append(trial.key)
    assert keys[0] == keys[1] != keys[2]


def test_the_engine_without_a_model_has_no_configuration(load):
    (trial,) = load(without=GOOD + "model: none\nsettings: {roles: rules}").trials
    assert (trial.model, trial.engines) == ("none", {})


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ("3", [0, 1, 2]),
        ("[7, 3, 7]", [7, 3]),
        ("{from: 5, to: 7}", [5, 6, 7]),
        ("{from: 0, to: 20, step: 10}", [0, 10, 20]),
    ],
)
def test_seeds_are_a_count_a_list_or_a_range(load, seeds, expected):
    sweep = load(seeds=f"{{planners: cot, tasks: cook-meat, seeds: {seeds}}}")
    assert [trial.seed for trial in sweep.trials] == expected


def test_a_range_of_tenths_stays_in_tenths(load):
    sweep = load(
        tenths="""
        planners: too
        tasks: cook-meat
        settings: {gamma: {from: 0.1, to: 0.7, step: 0.1}}
        """
    )
    assert cells(sweep, "gamma") == [(0.1,), (0.2,), (0.3,), (0.4,), (0.5,), (0.6,), (0.7,)]


def test_equal_trials_are_run_once_however_they_are_written(load):
    sweep = load(
        twice="""
        tasks: cook-meat
        grids:
          - {planners: too, settings: {gamma: [1, 1.0]}}
          - {planners: too, settings: {gamma: 1.0, k: 3}}
          - {planners: too, settings: {gamma: 1.0, k: 4}}
        """
    )
    assert cells(sweep, "gamma", "k") == [(1.0, 3), (1.0, 4)]


def test_blocks_take_what_they_do_not_say_from_the_top(load):
    sweep = load(
        blocks="""
        tasks: [cook-meat, milk-a-cow]
        seeds: 3
        settings: {d: [8, 12]}
        grids:
          - {planners: [too, tot-mcts], settings: {k: [1, 3]}}
          - {planners: cot, seeds: 1}
          - {planners: cot, tasks: shear-a-sheep, settings: {d: 4}}
        """
    )
    counts = [2 * 2 * 2 * 2 * 3, 2 * 2, 3]
    assert len(sweep.trials) == sum(counts) == 55
    assert {t.settings["d"] for t in sweep.trials[:-3]} == {8, 12}
    assert {(t.task, t.settings["d"]) for t in sweep.trials[-3:]} == {("shear-a-sheep", 4)}


EXCLUSIONS = [
    ("{seed: [0, 2]}", 24 - 16),
    ("{seed: {from: 1, to: 2}}", 8),
    ("{settings: {k: 3.0}}", 12),
    ("{settings: {gamma: 0.95, k: 1}}", 12),
    ("{settings: {infeasible: repair}}", 12),
    ("{planner: too, settings: {k: [1, 3]}, task: cook-meat}", 24 - 6),
    ("{planner: too, settings: {k: 1}, task: cook-meat, seed: 1}", 23),
    ("[{planner: too, seed: 0}, {task: cook-meat, seed: [0, 1]}]", 24 - 4 - 8 + 2),
    (f"{{model: {MODEL}, role_models: {{}}, seed: 0}}", 16),
    ("{domain: minecraft, seed: 0}", 16),
    ("[]", 24),
]


@pytest.mark.parametrize("written", ["None", "none"])
def test_no_model_is_one_model_however_it_is_written(load, written):
    text = (
        "{planners: too, settings: {roles: rules}, tasks: cook-meat, "
        f"role_models: {{dynamics: {written}}}, model: "
    )
    (right,), (trial,) = load(right=text + "none}").trials, load(given=text + f"{written}}}").trials
    assert (trial.model, trial.role_models, trial.key) == ("none", {}, right.key)
    (ruled,) = load(given=text + f"{MODEL}}}").trials
    assert ruled.role_models == {}
    (other,) = load(given=text.replace("rules", "llm") + f"{MODEL}}}").trials
    assert other.role_models == {"dynamics": "none"}
    excluded = f"[none, {MODEL}], exclude: {{model: {written}}}}}"
    assert [trial.model for trial in load(given=text + excluded).trials] == [MODEL]


def test_no_model_is_refused_where_it_must_answer(load, tmp_path):
    text = "{planners: {uct: {}, %s}, domain: textgame, tasks: trap-door, model: none%s}"
    with pytest.raises(SweepConfigError) as caught:
        load(none=text % ("react: {}", ""))
    line = refused("run", "react", "--model", "none", code=1).removeprefix("error: ")
    assert str(caught.value) == f"{tmp_path / 'none.yaml'}: planners.react: {line}"
    # Rules answer; nobody is asked; another model is; it is left out.
    assert len(load(fine=text % ("react: {roles: rules}", "")).trials) == 2
    assert len(load(fine=text % ("puct: {prior: uniform}", "")).trials) == 2
    assert len(load(fine=text % ("react: {}", f", role_models: {{think: {MODEL}}}")).trials) == 2
    assert len(load(fine=text % ("react: {}", ", exclude: {planner: react}")).trials) == 1
    # XENON asks nobody about what it knows, such as what a log takes.
    knows = "{planners: xenon, domain: minecraft-items, tasks: all, model: none}"
    assert load(fine=knows).trials
    home = "{planners: {llm-mcts: {selection: uct, state_prior: uniform}}, tasks: all, model: none}"
    assert load(fine=home).trials


@pytest.mark.parametrize(("exclude", "left"), EXCLUSIONS)
def test_exclusions_counted_by_hand(load, exclude, left):
    sweep = load(
        exclusions=f"""
        planners: [too, tot-mcts]
        tasks: [cook-meat, milk-a-cow]
        seeds: 3
        settings: {{k: [1, 3]}}
        exclude: {exclude}
        """
    )
    assert len(sweep.trials) == left


def test_an_exclusion_leaves_exactly_the_others(load):
    text = "{planners: too, tasks: cook-meat, seeds: 2, settings: {k: [1, 2]}%s}"
    whole = load(whole=text % "").trials
    left = load(left=text % ", exclude: {settings: {k: 2}, seed: 0}").trials
    assert [t.key for t in whole if (t.settings["k"], t.seed) != (2, 0)] == [t.key for t in left]


def test_an_exclusion_of_the_top_holds_in_the_blocks_that_it_concerns(load):
    sweep = load(
        top="""
        tasks: cook-meat
        seeds: 2
        exclude: [{planner: cot, seed: 1}]
        grids: [{planners: cot}, {planners: too}, {planners: cot, settings: {d: 3}, exclude: []}]
        """
    )
    assert [(t.planner, t.seed) for t in sweep.trials] == [
        ("cot", 0),
        ("too", 0),
        ("too", 1),
        ("cot", 0),
        ("cot", 1),
    ]


def test_what_is_excluded_need_not_be_possible(load):
    text = "{planners: too, tasks: cook-meat, settings: {k: [1, 99]}%s}"
    assert cells(load(fine=text % ", exclude: {settings: {k: 99}}"), "k") == [(1,)]
    with pytest.raises(SweepConfigError, match=r"settings\.k: 99 is not possible for too"):
        load(bad=text % ", exclude: {settings: {k: 1}}")


def test_a_child_takes_what_it_does_not_say_from_its_parents(load):
    sweep = load(
        oldest="{model: one/model, planners: [too, cot], tasks: all, retries: 7, name: oldest}",
        middle="{extends: oldest.yaml, planners: too, settings: {k: [1, 2], d: 3}, seeds: 2}",
        child="{extends: middle.yaml, settings: {d: [4, 5]}, tasks: cook-meat}",
    )
    assert sweep.name == "child"
    assert sweep.retries == 7
    assert {trial.model for trial in sweep.trials} == {"one/model"}
    assert {trial.planner for trial in sweep.trials} == {"too"}
    assert cells(sweep, "k", "d")[::2] == [(1, 4), (1, 5), (2, 4), (2, 5)]
    assert len(sweep.trials) == 2 * 2 * 2


def test_a_childs_keys_hold_in_the_blocks_of_its_parent(load):
    sweep = load(
        parent="{tasks: cook-meat, seeds: 4, grids: [{planners: too}, {planners: cot, seeds: 1}]}",
        child="{extends: parent.yaml, model: my/model, seeds: 2}",
    )
    assert [(t.planner, t.model, t.seed) for t in sweep.trials] == [
        ("too", "my/model", 0),
        ("too", "my/model", 1),
        ("cot", "my/model", 0),
    ]


def test_a_childs_blocks_take_the_place_of_its_parents_grid(load):
    sweep = load(
        parent="{planners: [too, cot], domain: minecraft, tasks: all, seeds: 9}",
        child="{extends: parent.yaml, tasks: cook-meat, grids: [{planners: cot, seeds: 2}]}",
    )
    assert [(t.planner, t.task, t.seed) for t in sweep.trials] == [
        ("cot", "cook-meat", 0),
        ("cot", "cook-meat", 1),
    ]


def test_a_parent_is_found_from_its_childs_folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "base.yaml").write_text("{planners: cot, tasks: cook-meat}")
    child = tmp_path / "deep" / "child.yaml"
    child.write_text("extends: ../base.yaml")
    assert len(load_sweep(str(child)).trials) == 1


def test_circles_are_refused(load, tmp_path):
    with pytest.raises(SweepConfigError, match=r"extends: goes in a circle: .* -> .* -> "):
        load(one="extends: two.yaml", two="extends: one.yaml")
    with pytest.raises(SweepConfigError, match="circle"):
        load(itself="extends: ./itself.yaml")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "target.yaml")
    with pytest.raises(SweepConfigError, match="circle"):
        load(target="extends: link.yaml")


def test_the_example_of_the_documentation_is_one(load):
    blocks = grid.__doc__.split("\n\n")
    example, joined = (block for block in blocks if block.startswith("    "))
    sweep = load(base="retries: 5", example=example)
    too, tot = 2 * 2 * 3, 2 * 3 - 2
    assert len(sweep.trials) == (too + tot) * (2 * 3 - 1) == 80
    assert (sweep.name, sweep.retries) == ("too-scaling", 2)
    assert {trial.settings["return"] for trial in sweep.trials} == {"mean"}
    sweep = load(joined=f"tasks: cook-meat\nseeds: 2\n{textwrap.dedent(joined)}")
    assert len(sweep.trials) == 2 * 2 * 2 * 2 + 2


def test_the_source_gives_the_same_trials_again(load, tmp_path):
    sweep = load(
        parent="""
        {domain: minecraft, tasks: all, seeds: {from: 3, to: 9, step: 2},
         exclude: {planner: cot, seed: 5}}
        """,
        child="""
        extends: parent.yaml
        settings: {d: [8, 12]}
        grids: [{planners: {too: {gamma: {from: 0.5, to: 0.9, step: 0.2}}}}, {planners: cot}]
        """,
    )
    again = tmp_path / "again.yaml"
    again.write_text(sweep.source, encoding="utf-8")
    assert load_sweep(again) == sweep
    document = json.loads(json.dumps(sweep.to_json()))
    assert document["trials"] == [trial.to_json() for trial in sweep.trials]
    assert document["grids"][0]["exclude"] == []
    assert len(sweep.trials) == 9 * 4 * 2 * 3 + 9 * 3 * 2


def test_settings_are_shared_but_a_trial_is_its_own_json(load):
    first, second = load(two="{planners: cot, tasks: cook-meat, seeds: 2}").trials
    first.to_json()["settings"]["d"] = 99
    assert second.settings["d"] == 32


def test_a_sweep_s_name_is_read_without_looking_anything_up(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("{planners: nobodys.py:planner, tasks: all}")
    assert sweep_name(path) == "mine"
    path.write_text("{name: other, planners: nobodys.py:planner, tasks: all}")
    assert sweep_name(path) == "other"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    path = tmp_path / "mark.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert len(load_sweep(path).trials) == 1


def test_a_default_that_is_written_down_makes_the_same_trial(load):
    plain = load(plain="{planners: puct, tasks: cook-meat}")
    written = load(written="{planners: puct, tasks: cook-meat, settings: {roles: llm}}")
    assert written.trials == plain.trials
    both = load(both="{planners: puct, tasks: cook-meat, settings: {roles: [llm, rules]}}")
    assert [trial.settings["roles"] for trial in both.trials] == ["llm", "rules"]
    left = load(
        left="{planners: puct, tasks: cook-meat, settings: {roles: [llm, rules]}, "
        "exclude: {settings: {roles: llm}}}"
    )
    assert left.trials == both.trials[1:]
