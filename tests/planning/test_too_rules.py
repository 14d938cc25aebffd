"""Tree of Options with a domain's rules in the model's place: oracles of stated error rate."""

from dataclasses import replace
from random import Random

import pytest
from any_domain_worlds import Kettle
from golden import golden
from runs import roles_file, run_in
from too_roles import rules_of

from llm_planning.domain import DomainError, Step
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.tasks import PLAINS
from llm_planning.execution.options import OptionState, PolicyQuestion
from llm_planning.planners.drip.roles import DripRoles
from llm_planning.planners.drip.specs import SPECS as DRIP
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.roles import Feasibility, OptionQuestion, is_near
from llm_planning.planners.tree_of_options.specs import SPECS
from llm_planning.roles import Engines, Errors, Oracle
from llm_planning.roles.oracles import oracle_lines
from llm_planning.settings import SettingsError
from llm_planning.trace import recording
from llm_serving.encoder_engine import EncoderEngine

PLANNERS = {spec.name: spec for spec in SPECS}
TASK = "cook-meat"
WORLD = Minecraft(task=TASK)
START = OptionState(WORLD.goal, PLAINS, str(PLAINS))
WOOD, TABLE = Option("mine", 3, "oak_log"), Option("craft", 1, "crafting_table")


async def plan(name, *, seed=0, roles="rules", world=WORLD, **settings):
    spec = PLANNERS[name]
    given = spec.settings.read({"roles": str(roles), **settings})
    return await spec.run(run_in(world, given, EncoderEngine(), task=TASK, seed=seed))


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "react-action"])
async def test_right_rules_reach_the_goal_without_a_model(name):
    outcome = await plan(name)
    assert outcome.success is True
    assert outcome.metrics["success_basis"] == "executed"
    assert outcome.metrics["options_executed"] == len(outcome.plan) == 6
    described = outcome.trace["oracles"]
    imagines = {"dynamics"} if "rules_see" in PLANNERS[name].settings.known_keys() else set()
    assert {oracle["role"] for oracle in described} <= {*PLANNERS[name].roles, *imagines}
    (line,) = oracle_lines(described)
    assert line.endswith(
        ": rate 1.0, unit answer, kind independent; "
        "drawn by (seed, role, *situation, asking), seed 0"
    )
    assert "the goal is reached" in outcome.text


@pytest.mark.parametrize("seed", range(8))
async def test_without_shows_a_prediction_is_of_a_world_without_an_obstacle(seed):
    outcome = await plan("too", world=Kettle(), seed=seed)
    assert outcome.plan[:3] == ("fill", "boil", "pour")
    predict = rules_of(Kettle(), seed=seed)["dynamics"].right
    tau = OptionState(Kettle.goal, 1, "1 of 3 done")
    assert predict(OptionQuestion(tau, "boil")).state == 2
    assert predict(OptionQuestion(tau, "pour")).state == 1


async def test_where_nothing_shows_the_effect_the_first_world_is_predicted():
    predict = rules_of(Kettle(fails=1.0), seed=0)["dynamics"].right
    tau = OptionState(Kettle.goal, 1, "1 of 3 done")
    assert predict(OptionQuestion(tau, "boil")).state == 1


async def test_rules_that_say_whether_instead_of_why_not_are_refused():
    class Whether(Kettle):
        def feasible(self, state, action):
            return super().feasible(state, action) is None

    message = r"^Whether\.feasible returned True, not a text or None: docs/extending\.md"
    with pytest.raises(DomainError, match=message):
        await plan("too", world=Whether())


def by_errors(folder, kind):
    """A file of roles: rules, of which a third of all verdicts are wrong; None for no errors."""
    roles = ("propose", "feasibility", "repair", "dynamics", "reward", "code", "complete")
    errs = f"{{rate: 0.67, kind: {kind}}}" if kind else "rules"
    file = folder / f"{kind}.yaml"
    file.write_text("\n".join([*(f"{role}: rules" for role in roles), f"termination: {errs}"]))
    return file


async def test_a_verdict_that_is_drawn_anew_opens_branches_again(tmp_path):
    same = {"roles": by_errors(tmp_path, "independent"), "d": 6, "return": "mean"}
    lengths = dict.fromkeys(("asked", "kept"), 0)
    for ends in lengths:
        for seed in range(8):
            lengths[ends] += len((await plan("too", seed=seed, ends=ends, **same)).plan)
    assert lengths["asked"] > lengths["kept"]


@pytest.mark.parametrize("case", golden("too_events"))
async def test_a_run_tells_what_it_always_told(case):
    """All but the time of an event and the repr of an internal state."""
    with recording() as trace:
        await plan("too", **case.run)
    case.check(
        [
            {key: value for key, value in event.items() if key not in {"at", "observation"}}
            for event in trace.events
        ]
    )


def test_answers_by_hand():
    rules = rules_of(WORLD, seed=0)
    table = OptionQuestion(START, TABLE)
    assert rules["feasibility"].right(table) == Feasibility(
        "needs 1 oak_log or another kind, has 0"
    )
    assert rules["feasibility"].wrong(table, Random(0)) == Feasibility()
    assert rules["feasibility"].right(OptionQuestion(START, WOOD)) == Feasibility()
    assert rules["repair"].right(table) == rules["propose"].right(START)[0].option
    after = rules["dynamics"].right(OptionQuestion(START, WOOD)).state
    assert after.inventory == {"oak_log": 3}
    assert rules["termination"].right(START) is False
    assert rules["termination"].wrong(START, Random(0)) is True
    judged = rules["reward"].right(
        OptionQuestion(OptionState(WORLD.goal, after, str(after)), WOOD, before=START)
    )
    # The plan of six still asks for a fourth log, so nothing is done of it yet.
    assert judged["reachability"] == 1.0
    assert judged["reward_estimate"] == WORLD.score(after)
    assert judged["redundancy"] == 1.0 - judged["relativity"]
    wrong = rules["propose"].wrong(START, Random(0))
    assert not {candidate.option for candidate in wrong} & set(WORLD.advise(PLAINS))


def test_wrong_scores_are_no_scores_that_count_as_right():
    reward = rules_of(WORLD, seed=0)["reward"]
    question = OptionQuestion(START, WOOD, before=START)
    right, wrong = reward.right(question), reward.wrong(question, Random(0))
    assert right.keys() == wrong.keys() == set(reward.items.names(question))
    assert all(abs(wrong[name] - right[name]) > 0.2 for name in right)
    draws = [reward.wrong(question, Random(seed)) for seed in range(20)]
    assert len({draw["feasibility"] for draw in draws}) > 4  # not always the opposite


async def test_scores_err_one_by_one():
    rule = rules_of(WORLD, seed=0)["reward"]
    question = OptionQuestion(START, WOOD, before=START)
    right = rule.right(question)
    near = 0
    for seed in range(100):
        oracle = Oracle("reward", rule, errors=Errors(rate=0.75, unit="item"), seed=seed)
        scores = await oracle(question)
        kept = [name for name in right if scores[name] == right[name]]
        assert kept == [name for name in right if is_near(scores[name], right[name])]
        near += len(kept)
    # 600 of 800, ± 4 standard deviations of √(800 · 0.75 · 0.25) = 12.2.
    assert 551 <= near <= 649


def without_a_model(folder, *, rules_see="imagined", dynamics="rules", seed=0):
    """The roles of a planner that knows s_0 and the options since."""
    file = folder / "roles.yaml"
    roles = ("propose", "feasibility", "repair", "reward", "termination")
    content = "".join(f"{role}: rules\n" for role in roles)
    file.write_text(f"{content}dynamics: {dynamics}\n")
    settings = PLANNERS["too-no-wm"].settings.read({"roles": str(file), "rules_see": rules_see})
    return OptionAsking(WORLD, Engines(EncoderEngine()), settings, seed=seed)


DONE_WOOD = OptionState(WORLD.goal, PLAINS, str(PLAINS), (WOOD,), since=(WOOD,))


@pytest.mark.parametrize(
    ("see", "rate", "feasible"),
    [
        ("imagined", 1.0, 5),
        ("imagined", 0.0, 1),
        ("anew", 1.0, 5),
        ("anew", 0.0, 2),
        ("initial", 1.0, 0),
    ],
)
async def test_without_predictions_rules_know_what_they_imagine(tmp_path, see, rate, feasible):
    """Wood makes the table possible; the outcome of another option does not, unless it is wood."""
    count = 0
    for seed in range(5):
        roles = without_a_model(tmp_path, rules_see=see, dynamics=f"{{rate: {rate}}}", seed=seed)
        verdict = await roles.of(roles.roles.feasibility("at the start"))(
            OptionQuestion(DONE_WOOD, TABLE)
        )
        count += verdict.obstacle is None
        assert roles.asked == {"feasibility": 1}  # what is imagined is no question of the planner
    assert count == feasible


async def asked_for_a_reward(ask, question):
    return await ask.of(ask.roles.reward("at the start"))(question)


async def test_a_reward_compares_what_is_imagined_before_and_after(tmp_path):
    after = replace(DONE_WOOD, options=(WOOD, TABLE), since=(WOOD, TABLE))
    question = OptionQuestion(replace(after, options=(WOOD,)), TABLE, before=DONE_WOOD)
    scores = {
        see: await asked_for_a_reward(without_a_model(tmp_path, rules_see=see), question)
        for see in ("imagined", "initial")
    }
    assert scores["imagined"]["feasibility"] == 1.0
    assert scores["imagined"]["reward_estimate"] == WORLD.score(table_made())
    assert scores["initial"]["feasibility"] == 0.0
    assert scores["initial"]["reward_estimate"] == WORLD.score(PLAINS)


def table_made():
    rules = rules_of(WORLD, seed=0)["dynamics"]
    after = rules.right(OptionQuestion(START, WOOD)).state
    wood = OptionState(WORLD.goal, after, str(after), (WOOD,))
    return rules.right(OptionQuestion(wood, TABLE)).state


async def test_who_imagines_has_to_be_said(tmp_path):
    with pytest.raises(SettingsError, match="set rules_see=initial"):
        await plan("tot-mcts", roles=roles_file(tmp_path, "propose"))


async def test_an_ablation_of_the_world_model_pays_for_wrong_predictions(tmp_path):
    """What ToO's world model gets wrong, whoever does without it gets wrong as well."""
    file = roles_file(tmp_path, *PLANNERS["too"].roles, dynamics={"rate": 0.0})
    for name in ("too", "too-no-wm", "tot-mcts"):
        assert (await plan(name, roles=file, iter=2)).success is False


@pytest.mark.parametrize("see", ["imagined", "anew", "initial"])
async def test_rules_that_imagine_once_answer_about_one_state_of_a_history(
    tmp_path, monkeypatch, see
):
    """Who plans without a world model and answers consistently has one state for each history."""
    states, answer = {}, Oracle.__call__

    async def heard(self, question):
        if self.name in {"propose", "feasibility", "repair", "termination"}:
            tau = question if isinstance(question, OptionState) else question.tau
            states.setdefault(tau.options, set()).add(tau.described)
        return await answer(self, question)

    monkeypatch.setattr(Oracle, "__call__", heard)
    file = roles_file(tmp_path, *PLANNERS["too"].roles, dynamics={"rate": 0.5})
    await plan("too-no-wm", roles=file, rules_see=see, d=4, iter=3)
    assert max(map(len, states)) > 2
    most = max(map(len, states.values()))
    assert most > 1 if see == "anew" else most == 1
    distinct = len({described for seen in states.values() for described in seen})
    assert distinct == 1 if see == "initial" else distinct > 4


async def test_rules_that_imagine_once_err_once_and_say_so(tmp_path):
    """The oracle of a run is told with the kind of its errors that is really drawn."""
    file = roles_file(tmp_path, *PLANNERS["too"].roles, dynamics={"rate": 0.5})
    for see, kind in (("imagined", "sticky"), ("anew", "independent")):
        told = (await plan("too-no-wm", roles=file, rules_see=see, d=2, iter=1)).trace["oracles"]
        (dynamics,) = [oracle for oracle in told if oracle["role"] == "dynamics"]
        assert dynamics["oracle"]["kind"] == kind


EXECUTING = [name for name in PLANNERS if name != "react-action"]


@pytest.mark.parametrize("name", EXECUTING)
async def test_nobody_hears_from_the_world_whether_an_option_is_done(tmp_path, name):
    """Where `complete` is always wrong, every planner hears the opposite of what the world shows.

    ToO+ leaves an option that the world refuses without asking, which tells it nothing new.
    """
    roles = (*PLANNERS[name].roles, "dynamics")
    file = roles_file(tmp_path, *roles, complete={"rate": 0.0})
    outcome = await plan(name, roles=file, execution="direct", attempts=8)
    attempts = outcome.trace["executions"][0]["attempts"]
    assert attempts
    for attempt in attempts:
        refused = attempt["feedback"] != "done"
        assert attempt["done"] != attempt["shown"] or (name == "too-plus" and refused)


@pytest.mark.parametrize("name", EXECUTING)
async def test_options_alone_are_carried_out_and_nothing_else(name):
    """A later attempt does what rules say is lacking, unless options are carried out alone."""
    outcome = await plan(name, execution="alone", world=Minecraft(task="milk-a-cow"), d=12)
    assert outcome.metrics["execution"] == "alone"
    for attempt in outcome.trace["executions"][0]["attempts"]:
        assert attempt["actions"] in ([attempt["option"]], [])


async def test_what_an_option_lacks_is_done_by_its_execution_unless_it_is_alone(tmp_path):
    """A table from bare hands: later attempts fetch the wood for it, or they do not."""

    class Hasty(Minecraft):
        def advise(self, state):
            return [TABLE]

    made = {}
    for execution in ("direct", "alone"):
        outcome = await plan("cot", world=Hasty(task=TASK), execution=execution)
        attempts = outcome.trace["executions"][0]["attempts"]
        made[execution] = [attempt["shown"] for attempt in attempts]
    assert made == {"direct": [False, True], "alone": [False] * 4}


@pytest.mark.parametrize("d", [1, 3, 32])
async def test_the_one_answer_of_cot_has_at_most_d_options(d):
    """Rules name all six options of the task; a plan ends at d, whoever writes it."""
    outcome = await plan("cot", d=d)
    assert len(outcome.plan) == outcome.metrics["options_planned"] == min(d, 6)
    assert outcome.success == (d > 6)


PREDICTS = {"dynamics", "apply"}
"""The roles that say what an action does; rules carry it out in a world of their own."""

RUNS = [
    pytest.param(spec, settings, id="-".join((spec.name, *settings.values())))
    for spec in (*SPECS, *DRIP)
    for settings in (
        [{"rules_see": "imagined"}, {"rules_see": "anew"}, {"rules_see": "initial"}]
        if "rules_see" in spec.settings.known_keys()
        else [{}]
    )
]


@pytest.mark.parametrize(("spec", "settings"), RUNS)
async def test_worlds_that_agree_in_a_question_get_the_same_answer(monkeypatch, spec, settings):
    """Every question of a run, asked again where nothing that is done has an effect."""
    asked, answer = [], Oracle.__call__

    async def heard(self, question):
        asked.append((self.name, question, self._rule.right(question)))
        return await answer(self, question)

    monkeypatch.setattr(Oracle, "__call__", heard)
    small = {"roles": "rules", "execution": "direct", "iter": 2}
    known = {key: value for key, value in small.items() if key in spec.settings.known_keys()}
    await spec.run(run_in(WORLD, spec.settings.read(known | settings), EncoderEngine()))
    idle = WORLD.in_units() if spec.name == "react-action" else Minecraft(task=TASK)
    idle.step = lambda state, action, rng: Step(state, obstacle="nothing works here")
    options, subtasks = rules_of(idle, seed=0), DripRoles(idle, seed=0).by_name()
    assert asked
    for role, question, right in asked:
        of_options = isinstance(question, OptionState | OptionQuestion | PolicyQuestion)
        rule = options[role] if of_options else subtasks[role].rule
        assert role in PREDICTS or rule.right(question) == right


def test_the_kinds_of_questions_by_what_is_right():
    rules = rules_of(WORLD, seed=0)
    wood, table = (OptionQuestion(START, option) for option in (WOOD, TABLE))
    for role in ("feasibility", "dynamics"):
        kinds = rules[role].kinds
        assert kinds.names == ("feasible", "infeasible")
        assert (kinds.of(wood), kinds.of(table)) == ("feasible", "infeasible")
    end = rules["termination"].kinds
    assert end.names == ("done", "not done")
    assert end.of(START) == "not done"
    assert {role for role, rule in rules.items() if rule.kinds} == {
        "feasibility",
        "dynamics",
        "termination",
        "complete",
    }
