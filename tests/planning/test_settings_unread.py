"""A setting that nothing in a run reads is refused, and what is refused changes nothing."""

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Literal, get_args, get_origin

import pytest
from command_line import invoke
from cooking_kitchens import PAPER_KITCHENS
from recording import Babbler

from llm_planning.environments.travel.domain import TRAVEL
from llm_planning.experiments.grid import _Product
from llm_planning.experiments.grid_file import resolve_file
from llm_planning.experiments.instead import Instead, Replacing
from llm_planning.experiments.papers import find_paper, papers
from llm_planning.experiments.sweep_files import packaged_sweeps
from llm_planning.model_configs import config_folder
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.roles import Engines, RoleSettings, by_model
from llm_planning.running import prepare
from llm_planning.settings import SettingsError, UnreadSettingError, when
from llm_planning.specs import choose, planner


class BeamSettings(RoleSettings):
    known_roles = ("likely",)
    read_when = {"votes": [when("choice", "majority")], "heat": [by_model("likely")]}  # noqa: RUF012

    choice: Literal["argmax", "majority"] = "argmax"
    votes: int = 5
    heat: float = 0.0


UNIFORM, RULES = {"prior": "uniform"}, {"roles": "rules"}
OPTIONS = {"domain": "minecraft", "task": "obtain-leather"}
GAME = {"domain": "textgame", "task": "trap-door"}
HOME = {"domain": "household"}

REFUSED = [
    ("react-option", OPTIONS, {"d": 1}, "d=1 does nothing in react-option: it makes no plan"),
    ("react-action", OPTIONS, {"execution": "programs"}, "execution='programs' does nothing"),
    ("react-action", OPTIONS, {"refinements": 1}, "refinements=1 does nothing in react-action"),
    ("react-action", OPTIONS, {"skills": "none"}, "skills='none' does nothing in react-action"),
    ("react-action", OPTIONS, {"options": "single"}, "options='single' does nothing"),
    ("too-no-wm", OPTIONS, {"see": "picture"}, "see='picture' .* it predicts no states"),
    ("too", OPTIONS, {"see": "both", **RULES}, "see='both' .* a model that answers `dynamics`"),
    ("too", OPTIONS, {"layout": "paper", **RULES}, "layout='paper' .* with roles=rules"),
    ("too", OPTIONS, {"skills": "none"}, "only execution=skills or programs reads it"),
    ("too", OPTIONS, {"retrieved": 3}, "with execution=direct: only execution=programs reads it"),
    ("cot", OPTIONS, {"explanation": "none", "execution": "skills"}, "only execution=programs"),
    (
        "cot",
        OPTIONS,
        {"explanation": "none", "execution": "programs", **RULES},
        "with roles=rules: only a model that answers `code` reads it",
    ),
    ("too-plus", OPTIONS, {"infeasible": "drop"}, "infeasible='drop' does nothing in too-plus"),
    ("select-sc", {}, {"x0": 9}, "x0=9 does nothing in select-sc"),
    ("select-llm", {}, {"x0": 9}, "x0=9 does nothing in select-llm"),
    ("select-llm", {}, {"K": 9}, "K=9 does nothing in select-llm: it asks without examples"),
    ("select-sc", {}, {"K": 9, "roles": "table12"}, "with roles=table12: only a model that"),
    ("plan-xenon-no-actions", {}, {"x0": 9}, "x0=9 does nothing in plan-xenon-no-actions"),
    ("plan-xenon", {}, {"most": 9}, "most=9 .* with graph=truth: only graph=initial reads it"),
    ("plan-xenon", {}, {"see": "both", "roles": "table12"}, "see='both' .* `caption` reads it"),
    ("deckard", {}, {"alpha_s": 9}, "alpha_s=9 does nothing in deckard: only revision by analogy"),
    ("rand", {}, {"alpha_i": 9}, "alpha_i=9 does nothing in rand"),
    ("sc", {}, {"c0": 9}, "c0=9 does nothing in sc"),
    ("adam", {}, {"most": 9}, "most=9 does nothing in adam: it asks for no requirements"),
    ("xenon", {}, {"pool": "required"}, "pool='required' .* only requirements above 0 reads it"),
    ("xenon", {}, {"right_action": 0.9, **RULES}, "with roles=rules: only roles=table12 reads"),
    ("llm-mcts", HOME, {"cosine_scale": 2.0, "prior": "cosine", **RULES}, "with roles=rules"),
    (
        "llm-mcts",
        HOME,
        {"policy_samples": 9},
        "only prior=cosine or cosine-each or nearest or sample reads",
    ),
    ("llm-mcts", HOME, {"examples": 1, **UNIFORM}, "examples=1 .* with prior=uniform"),
    ("llm-mcts", HOME, {"prior": "cosine", **RULES}, "prior='cosine' .* a model that answers"),
    ("llm-mcts", HOME, {"see": "both", "selection": "uct"}, "only selection=puct reads it"),
    ("llm-mcts", HOME, {"position_samples": 9, "state_prior": "uniform"}, "state_prior=samples"),
    ("llm-mcts", HOME, {"position_temperature": 0.1, **RULES}, "answers `position` reads it"),
    ("llm-mcts", HOME, {"value_temperature": 1.0}, "with values=mean: only values=softmax"),
    ("llm-mcts", HOME, {"prior_mixture": 0.1, "selection": "uct"}, "prior_mixture=0.1 does"),
    ("llm-mcts-policy", HOME, {"votes": 7, "choice": "argmax"}, "votes=7 .* choice=majority"),
    ("llm-policy", GAME, {"samples": 7}, "only choice=majority or prior=sample reads it"),
    ("llm-policy", GAME, {"choice": "majority", **RULES}, "choice='majority' .* roles=rules"),
    ("llm-policy", GAME, {"choice": "majority", **UNIFORM}, "prior='uniform' .* choice=majority"),
    ("llm-policy", GAME, {"see": "both", **RULES}, "see='both' .* a model that answers `prior`"),
    ("react", GAME, {"temperature": 1.0, **RULES}, "temperature=1.0 .* answers `think` reads it"),
    ("puct", GAME, {"prior_temperature": 2.0, **UNIFORM}, "only a prior other than uniform"),
    ("mc-dml", GAME, {"delta_d": 5, "d_max": 10}, "delta_d=5 .* only a d_max above d_min"),
    ("llm-agent", GAME, {"history": 1, **RULES}, "history=1 .* only who may err in `prior`"),
    ("drip", OPTIONS, {"tries": 2}, "tries=2 .* only execution=skills or programs reads it"),
    ("drip", OPTIONS, {"most": 2, **RULES}, "most=2 .* a model that answers `decompose`"),
    ("drip-react", OPTIONS, {"votes": 3, **RULES}, "votes=3 .* only who may err in `apply`"),
    ("l-model", {}, {"listed": 5, **RULES}, "listed=5 .* a model that answers `flights`"),
    ("l-policy", {}, {"temperature": 0.5, **RULES}, "temperature=0.5 .* answers `route` reads it"),
]


@pytest.mark.parametrize(("planner", "where", "settings", "message"), REFUSED)
def test_a_setting_that_does_nothing_is_refused_in_one_line(planner, where, settings, message):
    with pytest.raises(SettingsError, match=message) as refused:
        prepare(planner, settings=settings, **where)
    assert re.fullmatch(r"setting \w+=.* does nothing in .*; leave it out", str(refused.value))


@pytest.mark.parametrize(
    ("planner", "where", "settings"),
    [
        ("llm-mcts-policy", HOME, {"votes": 7, "choice": "majority"}),
        ("llm-mcts-policy", HOME, {"votes": 5, "choice": "argmax"}),
        ("react-option", OPTIONS, {"d": 12, "execution": "skills", "skills": "none"}),
        ("xenon", {}, {"change_at": 9, "actions": 1}),
        ("llm-policy", GAME, {"samples": 7, "prior": "sample"}),
    ],
)
def test_what_is_read_is_accepted_and_so_is_a_default(planner, where, settings):
    chosen = prepare(planner, settings=settings, **where).chosen
    assert settings.items() <= chosen.to_json().items()


@planner("beam", settings=BeamSettings, roles=["likely"])
async def beam(run):
    """Keeps the likeliest."""


def test_a_planner_of_ones_own_says_when_it_reads_a_setting():
    assert choose(beam, TRAVEL, {"votes": 7, "choice": "majority"}).planner.votes == 7
    with pytest.raises(UnreadSettingError, match="votes=7 does nothing in beam with choice=argmax"):
        choose(beam, TRAVEL, {"votes": 7})
    with pytest.raises(UnreadSettingError, match="only a model that answers `likely` reads it"):
        choose(beam, TRAVEL, {"heat": 0.5, "roles": "rules"})


def test_settings_that_do_not_fit_together_are_named():
    message = "^these settings are not possible: .*controller=minerl needs steps"
    with pytest.raises(SettingsError, match=message):
        prepare("xenon", settings={"controller": "minerl"})


def test_what_a_planner_never_reads_is_not_listed():
    listed = invoke("run", "react-option", "--list").stdout
    assert "executions" in listed
    assert not re.search(r"setting +│? *d\b", listed)


def test_a_sweep_refuses_it_where_it_stands(load):
    with pytest.raises(ValueError, match=r"settings\.d: setting d=8 does .*, or exclude it$"):
        load(
            sweep="""
            model: none
            domain: minecraft
            tasks: cook-meat
            planners: [cot, react-option]
            settings: {roles: rules, execution: direct, d: 8}
            """
        )


def test_every_setting_of_a_trial_may_be_written_down():
    for spec in PLANNERS.values():
        where = {"domain": "minecraft"} if "too" in spec.name else {}
        prepared = prepare(spec, settings={}, **where)
        written = prepared.chosen.to_json()
        again = prepare(spec, domain=prepared.domain, settings=written)
        assert again.chosen == prepared.chosen


TABLED = {
    sweep
    for paper in map(find_paper, papers())
    for table in paper.tables()
    for sweep in paper.sweeps(table)
}
"""Sweeps that `test_report_published.py` reads wholly."""
OTHERS = {name: path for name, path in packaged_sweeps().items() if path not in TABLED}


@pytest.mark.parametrize("path", OTHERS.values(), ids=OTHERS)
def test_every_cell_of_a_packaged_sweep_is_read(path, monkeypatch):
    """Of a long list the first value stands for all, such as of the numbers of problems."""
    monkeypatch.chdir(config_folder().parents[1])
    for where, entries in resolve_file(path).blocks:
        (product,) = _Product.all_of(where, entries, Replacing(Instead()))
        for row in product.rows:
            few = {
                key: replace(
                    setting, value=setting.value[:1] if len(setting.value) > 6 else setting.value
                )
                for key, setting in row.settings.items()
            }
            assert list(product._settings(replace(row, settings=few)))


# EVERY PLANNER AND EVERY SETTING -----------------------------------------------------------------

BLOCKS = {"domain": "blocksworld", "task": "four-blocks"}
LEARNING = {"roles": "table12", "steps": 90, "x0": 1, "c0": 1}
CONTEXTS = {
    "puct": (GAME, {"simulations": 3, "moves": 2}, [{}, UNIFORM, RULES]),
    "uct": (GAME, {"simulations": 3, "moves": 2}, [{}]),
    "llm-policy": (OPTIONS, {"moves": 1}, [{}, UNIFORM, RULES, {"choice": "majority"}]),
    "react": (OPTIONS, {"moves": 1}, [{}, UNIFORM, RULES]),
    "mc-dml": (
        GAME,
        {"simulations_per_action": 2, "moves": 2},
        [{}, UNIFORM, {"values": "softmax"}, {"d_min": 5, "d_max": 5, **RULES}],
    ),
    "llm-agent": (GAME, {"moves": 2}, [{}, UNIFORM, RULES]),
    "too": (
        OPTIONS,
        {"iter": 2, "d": 2, "attempts": 2, "k": 2, "execution": "direct"},
        [{}, RULES],
    ),
    "drip": (
        BLOCKS,
        {"budget": 9, "decompositions": 9, "moves": 9},
        [{}, RULES, {"end": "tested"}],
    ),
    "llm-mcts": (
        HOME,
        {"simulations": 3, "moves": 1},
        [
            {},
            UNIFORM,
            RULES,
            {"prior": "cosine"},
            {"selection": "uct"},
            {"state_prior": "uniform"},
            {"values": "softmax"},
            {"choice": "majority"},
        ],
    ),
    "l-policy": ({}, {}, [{}, RULES]),
    "l-policy-multiplication": ({}, {}, [{}, RULES]),
    "xenon": ({}, LEARNING, [{}, {"c0": 3}]),
    "select-xenon": ({"task": "compass"}, {"roles": "table12", "steps": 60}, [{}]),
    "plan-xenon": ({"task": "wooden_pickaxe"}, {"roles": "table12"}, [{}, {"graph": "initial"}]),
    "xenon-cooking": ({"domain": PAPER_KITCHENS}, {"roles": "sticky-40", "episodes": 2}, [{}]),
}
"""The first planner that shares a kind of run -> where it runs, its settings, and more of them."""

GROUPS = {
    "mc-dml": "mc-dml-no-dp mc-dml-no-mc-dp mc-dml-no-mc-mi-dp mc-dml-puct mc-dml-uct walkthrough",
    "llm-agent": "reflection-agent",
    "too": "too-no-wm too-no-fc tot-mcts cot react-option react-action too-plus",
    "drip": "drip-plus drip-react drip-cot plan-and-solve",
    "llm-mcts": "llm-mcts-plus llm-mcts-policy",
    "l-policy": "l-model",
    "l-policy-multiplication": "l-model-multiplication",
    "xenon": " ".join(n for n, spec in PLANNERS.items() if "initial" in spec.settings.model_fields),
    "select-xenon": " ".join(name for name in PLANNERS if name.startswith("select-")),
    "plan-xenon": "plan-xenon-no-cre plan-xenon-no-actions plan-oracle-actions",
    "xenon-cooking": "sc-cooking deckard-cooking",
}
KINDS = {member: kind for kind in CONTEXTS for member in (kind, *GROUPS.get(kind, "").split())}

ELSEWHERE = {
    # Where a subtask comes apart into nothing.
    "attempts": "test_drip_algorithm.py",
    "empty": "test_drip_algorithm.py",
    # Where a model says what an action does.
    "votes": "test_drip_roles.py",
    # Where programs run, which takes a sealed process.
    "skills": "test_too_execution.py",
    "retrieved": "test_too_execution.py",
    "explanation": "test_too_execution.py",
    "tries": "test_drip_programs.py",
    # Read with the settings themselves.
    "roles_sha256": "test_roles.py",
}


def watched(settings, seen):
    """The settings, which count which of their fields a run reads."""

    class Watched(type(settings)):
        def __getattribute__(self, name):
            seen[name] += 1
            return super().__getattribute__(name)

    return Watched.model_validate(settings.model_dump(by_alias=False))


async def result(prepared, settings):
    """All that a run says but its settings and its seconds."""
    chosen = replace(prepared.chosen, planner=settings)
    outcome = await replace(prepared, chosen=chosen).run(Engines(Babbler()), 0)
    metrics = {k: v for k, v in outcome.metrics.items() if k not in outcome.unrepeatable}
    # This counts by c0 what some agents do not look at.
    metrics.pop("inadmissible", None)
    trace = {key: value for key, value in outcome.trace.items() if key != "settings"}
    return json.dumps([outcome.success, outcome.plan, metrics, trace], default=str)


def others(settings, key, field):
    """Settings with another value of a key that is possible."""
    value = settings.to_json()[key]
    if get_origin(field.annotation) is Literal:
        tried = [choice for choice in get_args(field.annotation) if choice != value]
    elif isinstance(value, int | float):
        tried = [value + 1 if isinstance(value, int) else value / 3 + 0.1]
    else:
        tried = [0.7, "none"]
    for choice in tried:
        try:
            yield settings.read({**settings.to_json(), key: choice})
        except SettingsError:
            continue


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "measure"])
async def test_a_setting_is_read_or_it_changes_nothing(name):
    where, small, contexts = CONTEXTS[KINDS[name]]
    spec, seen, fields = PLANNERS[name], Counter(), PLANNERS[name].settings.model_fields
    known = dict(zip(spec.settings.known_keys(), fields.items(), strict=True))
    for context in contexts:
        if not context.keys() <= known.keys():
            continue
        given = {key: value for key, value in {**small, **context}.items() if key in known}
        prepared = prepare(
            spec, settings={k: v for k, v in given.items() if k not in spec.never_read}, **where
        )
        settings = prepared.chosen.planner
        usual = await result(prepared, watched(settings, seen))
        for key, (_, field) in known.items():
            if settings.missing_reader(key, spec.read_when) is None:
                continue
            for other in others(settings, key, field):
                if other.missing_reader(key, spec.read_when) is not None:
                    assert await result(prepared, other) == usual, (context, key, other)
    unread = {key for key, (field, _) in known.items() if not seen[field]}
    assert unread - spec.never_read <= ELSEWHERE.keys()
