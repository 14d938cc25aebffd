"""Measuring a model at a role: drawing questions, counting answers, intervals and rates."""

import asyncio
import json
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from parity_exercises import ParityMaker, exercise, exercises, only, written
from too_roles import rules_of

from llm_planning.distill.course import Course
from llm_planning.domain import DomainError
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.experiments.local_pool import run_trial
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.role_measures import rates, rates_file, read_measures
from llm_planning.experiments.runs import result_record, runs_of
from llm_planning.experiments.summary import summary
from llm_planning.experiments.trial import Trial
from llm_planning.planners.measure.specs import MeasureSettings, exercises_of
from llm_planning.priors import PriorSettings
from llm_planning.registry import exercise_makers
from llm_planning.roles import Engines, Errors, read_roles
from llm_planning.roles.exercises import HELD_OUT, USUAL_WAY, VERDICT
from llm_planning.roles.measuring import (
    PER_STATE,
    Answered,
    Confusion,
    Count,
    by_kind,
    confusions,
    counted,
    counted_items,
    digest,
    draw_exercises,
    draw_held_out,
)
from llm_planning.settings import SettingsError
from llm_serving.cache import CachedEngine
from llm_serving.scripted import ScriptedEngine
from llm_serving.stores import ResponseCache


def numbers(drawn):
    return [int(exercise.prompt[-1].content.split()[1]) for exercise in drawn]


# --- drawing -------------------------------------------------------------------------------------


def test_questions_differ_and_half_of_them_are_held_out():
    drawn = numbers(draw_exercises(ParityMaker(), "parity", count=100, seed=0))
    assert len(set(drawn)) == 100
    assert [number >= 1000 for number in drawn] == [False] * 50 + [True] * 50


def test_questions_tell_whether_they_are_held_out_if_any_is():
    drawn = draw_exercises(ParityMaker(), "parity", count=10, seed=0)
    assert [exercise.kinds["material"] for exercise in drawn] == ["seen"] * 5 + ["held out"] * 5
    assert {"size", "kind"} < drawn[0].kinds.keys()
    drawn = draw_exercises(ParityMaker(held_out=0), "parity", count=10, seed=0)
    assert not any("material" in exercise.kinds for exercise in drawn)


def test_an_exam_is_the_held_out_part():
    maker = ParityMaker()
    exam = numbers(draw_held_out(maker, "parity", count=50, seed=0))
    assert exam == numbers(draw_exercises(maker, "parity", count=100, seed=0))[50:]
    held_out = numbers(Course([[(maker, ("parity",))]], states=1, seed=0).exam(30))
    assert len(set(held_out)) == 30
    assert min(held_out) >= 1000
    assert held_out != exam[:30]


def test_one_draw_asks_little_about_a_state():
    maker = ParityMaker(seen=5000, held_out=0)
    drawn = numbers(draw_exercises(maker, "parity", count=60, seed=0))
    about = Counter(number // 5 for number in drawn)
    # A state may be drawn again, and then it is asked about the numbers that were left.
    assert max(about.values()) <= PER_STATE + 1
    assert maker.states[False] >= 30


def test_the_seed_determines_the_questions():
    first, again, other = (
        digest(draw_exercises(ParityMaker(), "parity", count=20, seed=seed)) for seed in (3, 3, 4)
    )
    assert first == again != other


def test_fewer_questions_keep_what_is_asked_first():
    few, many = (
        numbers(draw_exercises(ParityMaker(held_out=0), "parity", count=count, seed=0))
        for count in (10, 40)
    )
    assert many[:10] == few


@pytest.mark.parametrize(
    ("maker", "expected"),
    [
        (ParityMaker(held_out=0), (40, 0)),
        (ParityMaker(held_out=10), (30, 10)),
        (ParityMaker(seen=10, held_out=10), (10, 10)),
        (ParityMaker(seen=0, held_out=0), (0, 0)),
    ],
)
def test_what_a_maker_has_not_is_not_asked(maker, expected):
    drawn = numbers(draw_exercises(maker, "parity", count=40, seed=0))
    assert (sum(n < 1000 for n in drawn), sum(n >= 1000 for n in drawn)) == expected


def test_the_digest_is_of_questions_and_answers():
    first = exercise("parity", 3)
    assert digest([first]) == digest([exercise("parity", 3)])
    changed = [
        replace(first, answer="{}"),
        replace(first, prompt=first.prompt[1:]),
        exercise("other", 3),
    ]
    assert len({digest([other]) for other in [first, *changed]}) == 4


# --- counting ------------------------------------------------------------------------------------


def answered(expected, answer, **kinds):
    return Answered(kinds=kinds, expected=expected, said=answer, right=expected == answer)


ANSWERS = [
    answered("yes", "yes", goal="seen", verdict="feasible"),
    answered("yes", "no", goal="seen", verdict="feasible"),
    answered("no", "yes", goal="held out", verdict="infeasible"),
    answered("yes", "no", goal="held out", verdict="feasible"),
    answered("no", "no", goal="held out", verdict="infeasible"),
]


def test_right_answers_are_counted_by_every_aspect():
    assert counted(ANSWERS) == Count(2, 5)
    assert by_kind(ANSWERS) == {
        "goal": {"held out": Count(1, 3), "seen": Count(1, 2)},
        "verdict": {"feasible": Count(1, 3), "infeasible": Count(1, 2)},
    }


def test_confusions_are_counted():
    assert confusions(ANSWERS) == [
        Confusion(expected="yes", said="no", count=2),
        Confusion(expected="no", said="yes", count=1),
    ]


# --- the makers of planners ----------------------------------------------------------------------


def test_planners_of_a_family_share_a_maker_and_the_first_planner_counts(monkeypatch):
    asked = []

    def make(domain, words):
        asked.append((domain.name, words))
        return ParityMaker(("prior", "act"))

    late = ParityMaker(("prior", "reflect"))
    only(monkeypatch, puct=make, llm_policy=make, mc_dml=lambda *_: late)
    makers = exercise_makers(DOMAINS["textgame"], words="taught")
    assert asked == [("textgame", "taught")]
    assert list(makers) == ["prior", "act", "reflect"]
    assert makers["reflect"] is late is not makers["prior"]


def test_only_planners_that_fit_the_domain_bring_exercises(monkeypatch):
    only(monkeypatch, too=exercises)
    assert "propose" not in exercise_makers(DOMAINS["textgame"], words="general")
    assert "propose" in exercise_makers(DOMAINS["minecraft"], words="general")


def test_a_measurement_of_other_exercises_is_refused(monkeypatch):
    only(monkeypatch, too=exercises)
    settings = MeasureSettings(role="propose", questions=4)
    drawn = exercises_of(DOMAINS["minecraft"], settings, seed=0)
    same = settings.model_copy(update={"exercises_sha256": digest(drawn)})
    again = exercises_of(DOMAINS["minecraft"], same, seed=0)
    assert numbers(again) == numbers(drawn)
    with pytest.raises(SettingsError, match="are others than when this measurement began"):
        exercises_of(DOMAINS["minecraft"], same, seed=1)
    with pytest.raises(SettingsError, match=r"role 'propos' in minecraft; did you mean"):
        exercises_of(DOMAINS["minecraft"], MeasureSettings(role="propos"), seed=0)


# --- one trial -----------------------------------------------------------------------------------


def digest_of(role):
    return digest(draw_exercises(ParityMaker((role,)), role, count=20, seed=0))


@pytest.fixture
def trial(monkeypatch):
    only(monkeypatch, too=exercises)
    settings = MeasureSettings(
        role="feasibility", questions=20, exercises_sha256=digest_of("feasibility")
    )
    return Trial(
        planner="measure",
        domain="minecraft",
        task="cook-meat",
        model="m",
        settings=settings.to_json(),
    )


def always_even(request):
    return written("even")


async def test_a_trial_counts_what_a_model_that_always_says_the_same_gets_right(trial):
    result = await run_trial(trial, Engines(ScriptedEngine(always_even)))
    drawn = draw_exercises(ParityMaker(("feasibility",)), "feasibility", count=20, seed=0)
    even = sum(number % 2 == 0 for number in numbers(drawn))
    assert 0 < even < 20
    assert result.error is None
    assert result.success is None
    assert (result.metrics["right"], result.metrics["questions"]) == (even, 20)
    assert result.metrics["kinds"]["verdict"] == {
        "feasible": [even, even],
        "infeasible": [0, 20 - even],
    }
    assert result.metrics["confusions"] == [["odd", "even", 20 - even]]
    assert [answer["right"] for answer in result.trace["answers"]] == [
        n % 2 == 0 for n in numbers(drawn)
    ]
    assert result.usage["feasibility"].calls == 20


async def test_a_trial_that_does_not_name_its_exercises_is_refused(trial):
    nameless = replace(trial, settings={**trial.settings, "exercises_sha256": ""})
    result = await run_trial(nameless, Engines(ScriptedEngine(always_even)))
    assert "measure with `llm-planning roles measure`" in result.error


async def test_all_questions_are_in_flight_at_once(trial):
    waiting, everyone = [], asyncio.Event()

    class Together(ScriptedEngine):
        async def generate(self, request):
            waiting.append(request)
            if len(waiting) == 20:
                everyone.set()
            await asyncio.wait_for(everyone.wait(), timeout=120)
            return await super().generate(request)

    result = await run_trial(trial, Engines(Together(always_even)))
    assert (result.error, len(waiting)) == (None, 20)


async def test_a_broken_off_measurement_asks_nothing_twice(trial, tmp_path):
    asked = []

    class Fragile(ScriptedEngine):
        async def generate(self, request):
            if len(asked) == 7 and not self.strong:
                await asyncio.Event().wait()
            asked.append(request)
            return await super().generate(request)

    engine = Fragile(always_even)
    engine.strong = False
    with closing(ResponseCache(tmp_path / "answers.sqlite")) as answers:
        engines = Engines(CachedEngine(engine, answers))
        running = asyncio.create_task(run_trial(trial, engines))
        while answers.stats().entries < 7:  # noqa: ASYNC110 - a store has no event to wait for
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(asked) == 7
        engine.strong = True
        result = await run_trial(trial, engines)
    assert result.metrics["questions"] == len(asked) == len(set(asked)) == 20
    assert result.usage["feasibility"].replayed == 7


@pytest.mark.slow
async def test_the_real_model_answers_every_question_and_repeats_itself(trial, engine):
    first, again = [await run_trial(trial, Engines(engine)) for _ in range(2)]
    assert first.error is None
    assert first.metrics == again.metrics
    assert {answer["said"] for answer in first.trace["answers"]} <= {"even", "odd"}
    hand = sum(answer["said"] == answer["expected"] for answer in first.trace["answers"])
    assert (first.metrics["right"], first.metrics["questions"]) == (hand, 20)
    assert first.usage["feasibility"].completion_tokens > 0


# --- from trials to intervals and rates ----------------------------------------------------------


def record(role="feasibility", model="m", **metrics):
    counts = {
        "right": 8,
        "questions": 10,
        "kinds": {"goal": {"seen": [8, 10]}, "verdict": {"feasible": [2, 3], "infeasible": [6, 7]}},
        "confusions": [["a", "b", 2]],
    }
    return {
        "planner": "measure",
        "model": model,
        "settings.role": role,
        "status": "done",
        "tokens": 5,
        "seconds": 2.0,
        **dict.fromkeys(("success", "options", "calls"), 0),
        **{f"metrics.{key}": value for key, value in {**counts, **metrics}.items()},
    }


def test_shares_have_wilson_s_interval():
    (measure,) = read_measures([record(), {"planner": "too"}])
    # (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n) with p = .8, n = 10, z = 1.959964
    assert (measure.right, measure.share.n, measure.share.value) == (8, 10, 0.8)
    assert measure.share.low == pytest.approx(0.4901625, abs=1e-6)
    assert measure.share.high == pytest.approx(0.9433178, abs=1e-6)
    assert measure.kinds["verdict"]["infeasible"].value == 6 / 7
    assert measure.confusions == [("a", "b", 2)]


def test_an_export_s_texts_are_read_as_well():
    exported = record()
    texts = {key: json.dumps(exported[key]) for key in ("metrics.kinds", "metrics.confusions")}
    assert read_measures([{**exported, **texts}]) == read_measures([exported])


def test_inventions_are_counted_by_the_same_aspects():
    kinds = {"material": {"seen": [0, 5], "held out": [2, 5]}}
    counts = {"metrics.invented": [2, 10], "metrics.invented_kinds": kinds}
    (one,) = read_measures([{**record(), **counts}])
    assert one.invented.value == 0.2
    invented = one.to_json()["invented"]
    assert invented["share"] == 0.2
    assert invented["kinds"]["material"]["held out"]["share"] == 0.4
    assert read_measures([record()])[0].to_json()["invented"] is None


@pytest.mark.parametrize(
    "wrong", [{"right": 11}, {"right": None}, {"kinds": "x"}, {"kinds": {"a": {"b": [2, 1]}}}]
)
def test_counts_that_cannot_be(wrong):
    with pytest.raises(MeasureError, match="measured feasibility has counts that cannot be"):
        read_measures([record(**wrong)])


def test_rates_are_what_an_oracle_reads(tmp_path):
    measures = read_measures([record(), record("prior", kinds={}, right=0)])
    assert rates(measures) == {
        "feasibility": {
            "rate": 0.8,
            "kind": "sticky",
            "rates": {"feasible": 0.6667, "infeasible": 0.8571},
        },
        "prior": {"rate": 0.0, "kind": "sticky"},
    }
    file = tmp_path / "rates.yaml"
    file.write_text(rates_file(measures, about=["of a model\nfoo: bar"]))
    assert file.read_text().startswith("# of a model\\nfoo: bar\n# 10 questions\nfeasibility:\n")
    roles = read_roles(str(file), known=("feasibility", "propose"))
    assert roles.by_role == {
        "feasibility": Errors(
            rate=0.8, kind="sticky", rates={"feasible": 0.6667, "infeasible": 0.8571}
        )
    }


def test_rates_are_of_the_way_in_which_planners_ask_by_default():
    assert PriorSettings().prior == USUAL_WAY
    measures = read_measures([record("prior", kinds={"asked": {"exact": [1, 4], "index": [7, 7]}})])
    assert rates(measures) == {"prior": {"rate": 0.25, "kind": "sticky"}}
    assert "# 4 questions, asked by default: exact\nprior:" in rates_file(measures, about=[])


def test_scores_have_a_rate_of_their_own(tmp_path):
    """No answer has eight right scores, and 60 of 80 scores are right."""
    measures = read_measures([record("reward", right=0, items=[60, 80])])
    assert rates(measures) == {"reward": {"rate": 0.75, "unit": "item", "kind": "sticky"}}
    file = tmp_path / "rates.yaml"
    file.write_text(rates_file(measures, about=[]))
    assert "# 10 questions, 80 items of their answers\nreward:" in file.read_text()
    roles = read_roles(str(file), known=("reward",))
    assert roles.by_role == {"reward": Errors(rate=0.75, unit="item", kind="sticky")}
    assert measures[0].to_json()["items"] == {"right": 60, "all": 80}


def test_items_are_counted():
    some = [replace(answer, items=(n, 8)) for n, answer in enumerate(ANSWERS)]
    assert counted_items(some) == (10, 40)
    assert counted_items(ANSWERS) is None


def test_a_report_has_a_line_for_a_role_and_a_model(trial):
    records = [
        record("propose", "small", right=1),
        record("propose", "large"),
        record("reward", "small", right=5),
        record("reward", "large", right=10),
    ]
    summed = summary(runs_of(records))
    assert summed.by == ("planner", "model", "settings.role")
    assert summed.header[-1] == "right"
    assert [(*cells[1:3], cells[-1]) for cells in summed.cells] == [
        ("small", "propose", "10% [2, 40]"),
        ("large", "propose", "80% [49, 94]"),
        ("small", "reward", "50% [24, 76]"),
        ("large", "reward", "100% [72, 100]"),
    ]
    (group,) = summary(runs_of(records[:2]), by=["role"]).groups
    assert (group.measured["right"].estimate.value, group.measured["right"].estimate.n) == (
        9 / 20,
        20,
    )


async def test_hashes_do_not_split_a_report(trial):
    trials = [
        replace(
            trial,
            settings={**trial.settings, "role": role, "exercises_sha256": digest_of(role)},
        )
        for role in ("propose", "reward")
    ]
    results = [await run_trial(trial, Engines(ScriptedEngine(always_even))) for trial in trials]
    records = [result_record(result, attempts=1) for result in results]
    assert len({record["settings.exercises_sha256"] for record in records}) == 2
    assert summary(runs_of(records)).by == ("planner", "settings.role")


def test_the_verdicts_of_exercises_are_the_kinds_of_the_rules():
    rules = rules_of(DOMAINS["minecraft"].kind(), seed=0)
    makers = exercise_makers(DOMAINS["minecraft"], words="general")
    for role, rule in rules.items():
        if role not in makers:
            continue
        kinds = set(rule.kinds.names if rule.kinds else ())
        drawn = draw_exercises(makers[role], role, count=40 if kinds else 4, seed=0)
        assert {exercise.kinds[VERDICT] for exercise in drawn if VERDICT in exercise.kinds} == kinds


def test_what_counts_as_held_out_may_be_named():
    settings = {"role": "propose", "questions": 12, "hold_out": ["iron_axe"]}
    drawn = exercises_of(DOMAINS["minecraft"], MeasureSettings.read(settings), seed=0)
    held_out = [exercise for exercise in drawn if exercise.kinds["goal"] == HELD_OUT]
    assert held_out
    assert all("Obtain 1 iron_axe." in exercise.prompt[-1].content for exercise in held_out)


def test_names_that_cannot_be_held_out():
    with pytest.raises(DomainError, match="cannot hold out 'comPass'"):
        DOMAINS["minecraft"].holding_out(["comPass"])
    with pytest.raises(DomainError, match="textgame has no teacher, so 'x' cannot be held out"):
        DOMAINS["textgame"].holding_out(["x"])
