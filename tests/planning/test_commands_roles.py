"""`llm-planning roles measure`, on scripted answers, and a search at the rates that it measured."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from command_line import answer, refused
from command_line import invoke as command
from parity_exercises import ParityMaker, exercises, number_in, only, parity, written
from served_models import serve

import llm_planning.commands.role_trials as roles_module
from llm_planning.experiments.ledger import Ledger
from llm_planning.roles.measuring import draw_exercises
from llm_serving.errors import ServingError
from llm_serving.request import Taught

TAUGHT = Taught(roles=("reward",), words_sha256=("a1",))
MEASURE = ("roles", "measure", "minecraft")
ROLES = ("propose", "feasibility", "repair", "dynamics", "reward", "termination")


def answering(answer_to):
    """A script that answers the number of each question."""
    return lambda request: written(answer_to(number_in(request)))


def resolve(name):
    return SimpleNamespace(taught=TAUGHT if "taught" in name else None)


@pytest.fixture
def served(monkeypatch, tmp_path):
    """A model that knows which numbers are even unless they end in 7."""
    monkeypatch.setattr(roles_module, "resolve", resolve)
    only(monkeypatch, too=exercises)
    script = answering(lambda number: "even" if number % 10 == 7 else parity(number))
    return serve(monkeypatch, tmp_path, script)


def invoke(*arguments):
    return command("roles", "measure", *arguments)


def right_by_hand(role, count):
    drawn = draw_exercises(ParityMaker(ROLES), role, count=count, seed=0)
    numbers = [int(request.prompt[-1].content.split()[1]) for request in drawn]
    return sum(number % 10 != 7 for number in numbers)


def test_every_role_is_measured_and_kept(served, tmp_path):
    printed = answer(*MEASURE, "--questions", "40")
    assert served.asked == 40 * len(ROLES)
    assert {key: printed[key] for key in ("domain", "model", "seed")} == {
        "domain": "minecraft",
        "model": "smollm2-135m-instruct",
        "seed": 0,
    }
    assert list(printed["roles"]) == list(ROLES)
    for role, measured in printed["roles"].items():
        assert (measured["questions"], measured["right"]) == (40, right_by_hand(role, 40))
        assert measured["share"] == measured["right"] / 40
        assert 0 < measured["low"] < measured["share"] <= measured["high"] <= 1
        assert measured["tokens"] > 0
        assert measured["seconds"] >= 0
        wrong = {"expected": "odd", "said": "even", "count": 40 - measured["right"]}
        assert measured["confusions"] == [wrong] * (measured["right"] < 40)
        kinds = measured["kinds"]["material"]
        assert [kinds[value]["questions"] for value in ("held out", "seen")] == [20, 20]
    judged = printed["roles"]["feasibility"]["kinds"]["verdict"]
    assert judged["feasible"]["share"] == 1.0
    assert printed["rates"]["feasibility"]["rates"]["feasible"] == 1.0
    assert printed["rates"]["feasibility"]["rates"]["infeasible"] < 1.0
    with Ledger.open(tmp_path / printed["folder"]) as ledger:
        rows = list(ledger.rows())
        assert [row.result.trial.settings["role"] for row in rows] == list(ROLES)
        assert ledger.read_events(rows[0])


def test_the_same_measurement_is_read_again_and_another_one_asks_only_what_is_new(served):
    reward = *MEASURE, "--role", "reward", "--questions"
    first = answer(*reward, "10")
    assert served.asked == 10
    again = answer(*reward, "10")
    assert (again, served.asked) == (first, 10)
    more = answer(*reward, "30")
    assert more["folder"] != first["folder"]
    # The first questions are the same ones, and the response cache has their answers.
    assert served.asked == 30


def test_two_models_get_the_same_questions(served):
    reward = *MEASURE, "--role", "reward", "--questions", "10"
    first, second = (answer(*reward, "--model", name) for name in ("m", "n"))
    hashes = []
    for printed in (first, second):
        with Ledger.open(Path(printed["folder"])) as ledger:
            hashes.append(ledger.trials[0].settings["exercises_sha256"])
    assert hashes[0] == hashes[1]
    assert first["folder"] != second["folder"]


def words_of(ended):
    with Ledger.open(Path(json.loads(ended.stdout)["folder"])) as ledger:
        return {trial.settings["role"]: trial.settings["words"] for trial in ledger.trials}


def test_a_model_is_asked_in_the_words_that_it_was_taught(served, monkeypatch):
    maker = ParityMaker(("reward", "propose"), taught_words=TAUGHT.words_sha256[0])
    only(monkeypatch, too=lambda domain, words: maker)
    asked = ("minecraft", "--questions", "2", "--model", "a-taught-one", "--json")
    # It was taught rewards alone.
    assert words_of(invoke(*asked)) == {"reward": "taught", "propose": "general"}
    assert set(words_of(invoke(*asked, "--words", "general")).values()) == {"general"}
    maker.taught_words = "other words today"
    ended = invoke(*asked)
    assert set(words_of(ended).values()) == {"general"}
    assert "was taught other words" in ended.stderr


def test_a_model_that_was_taught_the_general_words_is_asked_without_a_remark(served, monkeypatch):
    monkeypatch.setattr(roles_module, "GENERAL_WORDS", TAUGHT.words_sha256[0])
    asked = ("minecraft", "--role", "reward", "--questions", "2", "--model", "a-taught-one")
    ended = invoke(*asked, "--json")
    assert words_of(ended) == {"reward": "general"}
    assert "other words" not in ended.stderr


def test_what_is_printed(served):
    asked = ("minecraft", "--role", "feasibility", "--role", "propose", "--questions", "10")
    ended = invoke(*asked)
    assert ended.exit_code == 0, ended.stderr
    lines = ended.stdout.splitlines()
    right = right_by_hand("feasibility", 10)
    both = right + right_by_hand("propose", 10)
    heading = f"{both} of 20 answers of smollm2-135m-instruct are right: {both / 20:.0%}."
    assert lines[0] == heading
    rows = {line.split()[1]: line.split()[3:8:2] for line in lines if "│" in line}
    assert list(rows) == ["feasibility", "propose"]
    assert rows["feasibility"] == [str(right), "10", f"{10 * right}%"]
    assert lines[-2].startswith("Files: sweeps/roles-minecraft-")
    assert lines[-1].startswith("Next: llm-planning sweep report sweeps/roles-minecraft-")
    more = invoke(*asked, "--verbose").stdout.splitlines()
    assert any("verdict: infeasible" in line for line in more)
    assert any("material: held out" in line for line in more)
    assert not any("kind: number" in line for line in more)  # which all of them are
    assert any(line.endswith("x even instead of odd") for line in more)
    assert {lines[0], *lines[-2:]} <= {*more}
    report = command("sweep", "report", lines[-1].split()[-1])
    assert report.exit_code == 0
    head, *cells = [line for line in report.stdout.splitlines() if "│" in line or "┃" in line]
    assert head.split()[1:4:2] == ["planner", "role"]
    assert "right" in head
    assert "exercises" not in head
    assert f"{10 * right}%" in cells[0]


def test_search_at_a_model_s_own_rates_without_the_model(served, tmp_path):
    file = tmp_path / "rates.yaml"
    ended = invoke("minecraft", "--questions", "40", "--out", file)
    assert ended.exit_code == 0, ended.stderr
    text = file.read_text()
    assert "smollm2-135m-instruct (revision r1) is right in minecraft" in text
    kept = yaml.safe_load(text)
    assert kept["propose"] == {"rate": right_by_hand("propose", 40) / 40, "kind": "sticky"}
    assert set(kept["termination"]["rates"]) == {"done", "not done"}
    asked = served.asked
    run = ("run", "too", "--task", "cook-meat", "--model", "none", "--set", f"roles={file}")
    printed = answer(*run)
    assert served.asked == asked
    assert printed["usage"]["total"]["calls"] == 0
    oracles = {rule["role"]: rule["oracle"] for rule in printed["oracles"]}
    assert oracles["feasibility"] == {**kept["feasibility"], "unit": "answer"}
    assert oracles["propose"]["rate"] == kept["propose"]["rate"]
    assert answer(*run)["plan"] == printed["plan"]
    other = command("run", "cot", *run[2:])
    assert other.exit_code == 1
    assert "decompose" not in kept


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("minecarft",), "unknown domain 'minecarft'; did you mean minecraft"),
        (("textgame",), "no planner has exercises in textgame: nothing can be measured"),
        (("minecraft", "--role", "reword"), "--role reword: no planner has exercises of it in"),
        (("minecraft", "--role", "reword"), "did you mean reward"),
        (("minecraft", "--model", "none.yaml"), "no model configuration none.yaml"),
        (("minecraft", "--questions", "0"), "invalid value for '--questions'"),
        (("minecraft", "--words", "loud"), "invalid value for '--words'"),
        (("minecraft", "--hold-out", "comPass"), "cannot hold out 'comPass'"),
        (("minecraft", "--out", "no/such/file"), "no/such"),
        (("minecraft", "--ledger", "a.py/b"), "a.py is not a folder that can be written"),
    ],
)
def test_what_cannot_be_measured_is_one_line(served, tmp_path, arguments, message):
    (tmp_path / "a.py").write_text("")
    assert message in refused("roles", "measure", *arguments)
    assert served.engines == []
    assert sorted(path.name for path in tmp_path.iterdir()) in (["a.py"], ["a.py", "cache"])


def test_a_role_that_fails_leaves_no_rates(served, tmp_path):
    def answer_to(number):
        if number >= 1000:
            raise ServingError("the prompt is too long")
        return parity(number)

    served.script = answering(answer_to)
    file = tmp_path / "rates.yaml"
    arguments = ("minecraft", "--role", "reward", "--questions", "4", "--out", file)
    ended = invoke(*arguments, "--ledger", "kept")
    assert (ended.exit_code, ended.stdout, file.exists()) == (1, "", False)
    assert ended.stderr.splitlines()[-1] == (
        "error: the role reward was not measured: ServingError: the prompt is too long; to ask it "
        "again, remove kept"
    )


def test_only_roles_measure_measures(served, tmp_path):
    """Elsewhere nothing would tell a resumed run that its questions are others now."""
    file = tmp_path / "compare.yaml"
    file.write_text(
        "name: compare\nplanners: measure\ndomain: minecraft\ntasks: [cook-meat]\nretries: 0\n"
        "settings: {role: [reward, repair], questions: 6}\n"
    )
    printed = answer("sweep", "run", file)
    assert (printed["done"], printed["failed"], served.asked) == (0, 2, 0)
    status = answer("sweep", "status", "sweeps/compare")
    assert all("measure with `llm-planning roles measure`" in error for error in status["errors"])
    assert command("run", "measure", "--domain", "minecraft", "--model", "none").exit_code == 2
