"""DRIP's roles: what models read and write, how rules err, votes, and who is to blame."""

from collections import Counter

import pytest
from drip_runs import (
    FIGURE_3,
    SECTION_4_1_4,
    action,
    below,
    blocks,
    renamed,
    roles_file,
    run,
    state,
)
from runs import compact, run_in

from llm_planning.domain import Judged, Step
from llm_planning.execution.episode import Move
from llm_planning.planners.drip.outcome import blame
from llm_planning.planners.drip.roles import (
    Application,
    Decomposition,
    DripRoles,
    Judgement,
    NextAction,
)
from llm_planning.planners.drip.tree import ReasoningTree
from llm_planning.registry import find_planner
from llm_planning.roles import Errors, Oracle
from llm_planning.settings import SettingsError
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.scripted import ScriptedEngine

START = state("y-b-r o")


def subtasks(*texts):
    return compact({"subtasks": [{"option": text} for text in texts]})


def judged(verdict, reason="so it is"):
    return compact({"reason": reason, "verdict": verdict})


def standing(text):
    return compact(dict(sorted(below(text).items())))


SCRIPT = {
    "decompose": [
        subtasks("stack r o", "stack y r"),
        subtasks("unstack blocks r", "put-down r"),
    ],
    "judge": [judged(verdict) for verdict in ("true", "false", "false", "true", "done")]
    + [judged(verdict) for verdict in ("done", "done", "true")],
    "apply": [standing("y-b-r-o"), standing("r-o y-b"), standing("y-r-o b")],
}
"""Figures 3 and 4 as a model would answer."""


async def test_a_model_answers_every_role():
    engine = ScriptedEngine(SCRIPT)
    outcome = await run("drip", FIGURE_3, engine=engine, roles="llm", reading="literal")
    assert outcome.success is True
    assert outcome.plan == ("stack r o", "unstack blocks r", "stack y r")
    assert Counter(request.role for request in engine.requests) == {
        "decompose": 2,
        "judge": 8,
        "apply": 3,
    }
    assert {request.sampling.temperature for request in engine.requests} == {0.0}
    assert {outcome.metrics[f"wrong_{role}"] for role in ("decompose", "judge", "apply")} == {0}
    assert outcome.trace["oracles"] == []


async def test_what_a_model_reads():
    engine = ScriptedEngine(SCRIPT)
    await run("drip", FIGURE_3, engine=engine, roles="llm", reading="literal")
    texts = {}
    for request in engine.requests:
        texts.setdefault(request.role, []).append([turn.content for turn in request.prompt])
    first, second = texts["decompose"]
    assert first[0] == second[0]
    assert FIGURE_3.about in first[0]
    assert FIGURE_3.grammar.instruction in first[0]
    assert FIGURE_3.describe(START) in texts["judge"][0][1]
    assert texts["judge"][4][1].endswith("It serves: stack y r")


async def test_a_domain_s_own_words_replace_blocks():
    words = {"drip": "{% block judge %}\nYou are a crane.\n{%- endblock %}"}
    engine = ScriptedEngine(SCRIPT)
    world = renamed(FIGURE_3, wording=words)
    await run("drip", world, engine=engine, roles="llm", reading="literal")
    (system,) = {
        request.prompt[0].content for request in engine.requests if request.role == "judge"
    }
    assert system.startswith("You are a crane.\n\nBlocks stand in towers")


async def test_react_thinks_and_acts_until_it_says_the_end():
    answers = [{"option": option} for option in ("stack r o", "unstack blocks r", "stack y r")]
    script = {
        "act": [compact({"thought": "so", "next": option}) for option in (*answers, "end")],
        "apply": SCRIPT["apply"],
    }
    engine = ScriptedEngine(script)
    outcome = await run("drip-react", FIGURE_3, engine=engine, roles="llm", end="said")
    assert outcome.success is True
    assert outcome.metrics["ending"] == "goal"
    last = engine.requests[-1].prompt[1].content
    assert last.startswith(f"Goal: {FIGURE_3.goal}\n\nActions so far:\nstack r o\nunstack blocks r")
    assert last.endswith(FIGURE_3.describe(state("y-r-o b")))
    tested = await run("drip-react", FIGURE_3, engine=ScriptedEngine(script), roles="llm")
    assert tested.plan == outcome.plan


async def test_react_that_says_the_end_too_early_fails_and_one_that_tests_does_not(tmp_path):
    roles = roles_file(tmp_path, act={"rate": 0.0, "mistakes": ["dropped"]})
    outcome = await run("drip-react", FIGURE_3, roles=roles, end="said")
    assert (outcome.success, outcome.plan, outcome.metrics["ending"]) == (False, (), "goal")
    assert (outcome.metrics["failure"], outcome.metrics["wrong_act"]) == ("action", 1)
    tested = await run("drip-react", FIGURE_3, roles=roles, moves=4)
    assert (tested.success, tested.metrics["ending"]) == (False, "moves")
    roles = roles_file(tmp_path, act={"rate": 0.5, "mistakes": ["dropped"]})
    tested = await run("drip-react", FIGURE_3, roles=roles)
    assert tested.success is True


async def test_react_hears_that_it_said_the_end_too_early():
    said = compact({"thought": "so", "next": "end"})
    engine = ScriptedEngine({"act": lambda _: said})
    outcome = await run("drip-react", FIGURE_3, engine=engine, roles="llm", moves=3)
    assert (outcome.plan, outcome.metrics["ending"]) == ((), "moves")
    line = "end (the goal is not reached)"
    assert [request.prompt[1].content.count(line) for request in engine.requests] == [0, 1, 2]


async def test_votes_are_asked_at_once_and_the_most_frequent_counts():
    verdicts = iter([judged("false"), judged("true", "a"), judged("true", "b")])
    engine = ScriptedEngine({"decompose": subtasks("stack r o"), "judge": lambda _: next(verdicts)})
    with pytest.raises(Exception, match="apply"):
        await run("drip", FIGURE_3, engine=engine, roles="llm", votes=3)
    ballots = [request for request in engine.requests if request.role == "judge"]
    assert [ballot.sampling.temperature for ballot in ballots] == [0.0, 0.7, 0.7]
    assert len({ballot.sampling.seed for ballot in ballots}) == 3
    assert {request.role for request in engine.requests} == {"decompose", "judge", "apply"}


def oracle(role, world=FIGURE_3, *, seed=0, **errors):
    spec = DripRoles(world, seed=seed).by_name()[role]
    return Oracle(role, spec.rule, errors=Errors(**errors), seed=seed)


GOAL = Decomposition(None, FIGURE_3.goal, START)
NEXT = NextAction(FIGURE_3.goal, START, FIGURE_3.describe(START), ())


async def test_rules_answer_rightly():
    world, described = FIGURE_3, FIGURE_3.describe(START)
    stack = action("stack y r")
    assert await oracle("decompose")(GOAL) == [action("stack r o"), stack]
    about = Decomposition(stack, world.goal, START)
    assert await oracle("decompose")(about) == [action("unstack blocks r"), action("put-down r")]
    after = state("y-b-r-o")
    seen = Decomposition(None, world.goal, after, described=world.describe(after))
    assert await oracle("decompose")(seen) == [stack]
    assert (await oracle("judge")(Judgement(stack, None, START, described))).verdict == "false"
    assert await oracle("apply")(Application(action("stack r o"), START, described)) == after
    assert await oracle("act")(NEXT) == list(world.advise(START)[:1])
    assert await oracle("act")(NextAction(world.goal, state("y-r-o b"), "", ())) == []


async def test_a_wrong_item_is_dropped_or_has_another_block_or_another_verb():
    kinds = {
        "dropped": [()],
        "block": [("stack b o",), ("stack y o",), ("stack r b",), ("stack r y",)],
        "verb": [("put-down r",), ("unstack blocks r",)],
    }
    world = blocks("y-b-r o", "r-o")
    asked = Decomposition(None, world.goal, START)

    async def written(**only):
        return {
            tuple(map(str, await oracle("decompose", world, rate=0, seed=seed, **only)(asked)))
            for seed in range(60)
        }

    items = {kind: await written(unit="item", mistakes=[kind]) for kind in kinds}
    items["any"] = await written()
    assert items == {
        **{kind: set(written) for kind, written in kinds.items()},
        "any": {item for written in kinds.values() for item in written},
    }


async def test_an_answer_errs_in_one_item():
    answers = [await oracle("decompose", rate=0.0, seed=seed)(GOAL) for seed in range(50)]
    kept = [len({"stack r o", "stack y r"} & set(map(str, answer))) for answer in answers]
    assert set(kept) == {1}


def test_an_oracle_tells_the_kinds_of_its_mistakes():
    described = oracle("decompose", mistakes=("verb",)).describe()["oracle"]
    assert described == {
        "rate": 1.0,
        "unit": "answer",
        "kind": "independent",
        "mistakes": ("verb",),
    }


async def test_wrong_verdicts_and_states_differ_from_the_right_ones():
    described = FIGURE_3.describe(START)
    about = Judgement(action("stack r o"), None, START, described)
    verdicts = {(await oracle("judge", rate=0, seed=seed)(about)).verdict for seed in range(30)}
    assert verdicts == {"done", "false"}
    assert Errors(rates={"true": 1.0}).never
    assert not Errors(rates={"true": 0.5}).never
    sure = oracle("judge", rate=0, rates={"true": 1.0})
    assert (await sure(about)).verdict == "true"
    applied = Application(action("stack r o"), START, described)
    states = [await oracle("apply", rate=0, seed=seed)(applied) for seed in range(20)]
    assert state("y-b-r-o") not in states
    assert len(set(states)) > 1


@pytest.mark.parametrize(
    ("role", "who", "message"),
    [
        ("decompose", {"mistakes": ["item"]}, "makes no mistakes of the kind 'item'; known: "),
        ("judge", {"mistakes": ["verb"]}, "role judge has no kinds of mistakes"),
        ("judge", {"rates": {"perhaps": 0.5}}, "role judge has no questions of the kind 'perhaps'"),
    ],
)
async def test_unknown_kinds_are_refused(tmp_path, role, who, message):
    roles = roles_file(tmp_path, **{role: {"rate": 0.5, **who}})
    with pytest.raises(SettingsError, match=message):
        await run("drip", FIGURE_3, roles=roles)


@pytest.mark.parametrize(
    ("role", "kind"),
    [("decompose", "decomposition"), ("judge", "judgement"), ("apply", "application")],
)
async def test_failures_are_blamed_on_the_role_that_erred(tmp_path, role, kind):
    roles = roles_file(tmp_path, **{role: {"rate": 0.3}})
    outcomes = [await run("drip", FIGURE_3, roles=roles, seed=seed) for seed in range(6)]
    failed = [outcome for outcome in outcomes if not outcome.success]
    assert failed
    assert {outcome.metrics["failure"] for outcome in failed} == {kind}
    assert all(outcome.metrics[f"wrong_{role}"] > 0 for outcome in failed)


async def test_nobody_is_blamed_where_the_method_fails_without_any_error(tmp_path):
    """Section 4.1.4: DRIP fails there by itself, so its judge's errors decide nothing."""
    roles = roles_file(tmp_path, judge={"rate": 0.3})
    outcomes = [await run("drip", SECTION_4_1_4, roles=roles, seed=seed) for seed in range(4)]
    assert any(outcome.metrics["wrong_judge"] for outcome in outcomes)
    unerring = (await run("drip", SECTION_4_1_4)).metrics
    assert unerring["failure"] == "framework"
    for outcome in outcomes:
        assert outcome.metrics["failure"] == "framework"
        wrong = outcome.metrics["wrong_judge"]
        as_well = f"wrong answers of judge: {wrong}; without errors {unerring['failure_cause']}"
        assert outcome.metrics["failure_cause"] == as_well or not wrong


def test_decompositions_are_blamed_first():
    wrong = {"judge": 2, "decompose": 1}
    failure = blame(FIGURE_3, START, (), wrong=wrong, ending="depth")
    assert failure == ("decomposition", "wrong answers of decompose: 1")
    assert blame(FIGURE_3, START, (), wrong={}, ending="stuck").cause == "ended: stuck"


@pytest.mark.parametrize(
    ("reason", "obstacle", "cause"),
    [
        ("no water", "the power is cut", "stuck at boil: no water"),
        ("", "the power is cut", "stuck at boil: the power is cut"),
        ("", None, "stuck at boil"),
    ],
)
def test_a_plan_is_stuck_for_a_reason_if_one_is_known(reason, obstacle, cause):
    tree = ReasoningTree("Pour the tea.")
    (boil,) = tree.add_children(tree.root, ["boil"])
    tree.note_judgement(boil, Judged("false", reason))
    moves = [
        Move("boil", Step(1, obstacle="an earlier one")),
        Move("boil", Step(1, obstacle=obstacle)),
        Move("pour", Step(1, obstacle="not now")),
    ]
    failure = blame(object(), 0, moves, wrong={}, ending="stuck", tree=tree)
    assert failure == ("framework", cause)


async def test_a_domain_without_rules_says_what_it_lacks():
    async def judge(state, subtask, parent):
        return Judged("done")

    with pytest.raises(SettingsError, match="no rules that answer 'decompose': add `judge`"):
        await run("drip", renamed(FIGURE_3, judge=judge))
    with pytest.raises(SettingsError, match="no `state_model`, so no model can say"):
        await run(
            "drip", renamed(FIGURE_3, state_model=None), engine=ScriptedEngine({}), roles="llm"
        )


async def test_chain_of_thought_makes_the_same_mistakes(tmp_path):
    async def plan(**errors):
        path = roles_file(tmp_path, decompose={"rate": 0.0, "unit": "item", **errors})
        spec = find_planner("cot")
        given = spec.settings.read({"roles": str(path)})
        outcome = await spec.run(run_in(FIGURE_3, given, EncoderEngine()))
        return outcome.plan

    right = [str(action) for action in FIGURE_3.advise(START)]
    assert await plan(mistakes=["dropped"]) == ()
    verbs = tuple(text.split()[0] for text in right)
    written = await plan(mistakes=["block"])
    assert len(written) == len(right)
    assert tuple(text.split()[0] for text in written) == verbs
    assert not set(written) & set(right)


async def test_a_decomposition_that_is_refused_is_asked_for_in_another_way():
    """Nothing to do is a wrong answer where the goal is not reached."""
    engine = ScriptedEngine({"decompose": lambda _: subtasks()})
    outcome = await run("drip-plus", SECTION_4_1_4, engine=engine, roles="llm", idle=2)
    assert outcome.metrics["ending"] == "stuck"
    assert outcome.metrics["wrong_decompose"] == 6
    described = SECTION_4_1_4.describe(SECTION_4_1_4.start(0))
    asked = "\nWhat comes right before?"
    ways = [
        f"State now:\n{described}\n\nGoal: Block i is on block c.{asked}",
        f"Goal: Block i is on block c.{asked}",
        f"Goal: {SECTION_4_1_4.goal}{asked}",
    ]
    prompts = [request.prompt[1].content for request in engine.requests]
    assert prompts == [*ways, *ways[1:], ways[0]]
    assert [request.sampling.temperature for request in engine.requests] == [0.0, 0.7, 0.7] * 2
