"""Lessons of π from traces: hand-made ones, those of real searches, and what is refused."""

import json
from random import Random

import pytest
from command_line import invoke, refused
from runs import run_in

from llm_planning.environments.blocksworld.blocks import Puzzle
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD, Blocksworld
from llm_planning.planners.any_domain.exercises import IMPORTANCE
from llm_planning.planners.any_domain.trace_exercises import TracedPrior, Tried, shares_of
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.registry import exercise_makers
from llm_planning.roles.short import words_of
from llm_planning.trace_file import TraceError, encode_trace
from llm_planning.viewer.reading import read_trace
from llm_serving.models import read_card
from llm_serving.request import ModelIdentity, Taught
from llm_serving.scripted import ScriptedEngine

HEADER = {
    "planner": "uct",
    "domain": "blocksworld",
    "task": "four-blocks",
    "model": "none",
    "seed": 0,
    "settings": {"problem": 1, "simulations": 10},
}
"""Its first problem: c on d on a, beside b; a should stand on b, and d on c."""

START = (
    *("stack a b", "stack b c", "stack c b", "stack d b"),
    *("unstack blocks a", "unstack blocks d", "put-down c", "put-down d"),
)
THEN = (
    *("stack a b", "stack a c", "stack b c", "stack b d", "stack c b", "stack c d", "stack d b"),
    *("stack d c", "unstack blocks a", "put-down d"),
)
"""The actions at the start, and those after `put-down c`."""


def searched(action, tried, *, actions, **changed):
    """A move before which these actions have N and Q, and the others none."""
    options = [
        {"action": action, "N": tried.get(action, (0, 0.0))[0], "Q": tried.get(action, (0, 0.0))[1]}
        for action in actions
    ]
    move = {"action": action, "reward": 0.0, "text": f"{action}: done", "options": options}
    return move | changed


LEVEL = searched("put-down c", dict.fromkeys(START, (1, 0.2)), actions=START)
CLEAR = searched(
    "stack a b",
    {"stack a b": (4, 0.5), "stack d c": (2, 0.6), "put-down d": (4, 0.1)},
    actions=THEN,
)
"""V = 0.36, so the shares are 4 · 0.14 : 2 · 0.24 = 7 : 6."""


@pytest.fixture
def rules():
    return exercise_makers(BLOCKSWORLD, words="taught")["prior"]


@pytest.fixture
def write(tmp_path):
    """Writes a trace."""

    def written(*moves, **header):
        path = tmp_path / "made.jsonl"
        path.write_bytes(encode_trace({"moves": list(moves)}, header=HEADER | header))
        return path

    return written


def test_shares_are_visits_times_advantage():
    tried = [("a", 4, 0.5), ("b", 2, 0.6), ("c", 4, 0.1), ("d", 0, 0.0)]
    shares = shares_of([Tried(action=a, N=n, Q=q) for a, n, q in tried])
    assert shares == {"a": pytest.approx(7 / 13), "b": pytest.approx(6 / 13)}
    assert shares_of([Tried(action=a, N=3, Q=0.1) for a in "abc"]) == {}
    assert shares_of([Tried(action="a", N=0, Q=0.0)]) == {}


def test_lessons_of_a_small_trace_are_exactly_these(write, rules):
    """Two decisions: in the first no action stands out."""
    prior = TracedPrior(rules, BLOCKSWORLD, [read_trace(write(LEVEL, CLEAR))])
    assert (len(prior.decisions), prior.held_out, prior.level) == (1, 0, 1)
    lessons = prior.about_one_state(Random(0), roles=("prior",), held_out=False)
    assert [(lesson.role, lesson.answer, lesson.importance) for lesson in lessons] == [
        ("prior", "stack a b", pytest.approx(IMPORTANCE * 7 / 13)),
        ("prior", "stack d c", pytest.approx(IMPORTANCE * 6 / 13)),
    ]
    ((_, asked),) = {lesson.prompt for lesson in lessons}
    assert asked.content.rstrip(" -") == (
        "d on a on table; b on table; c on table"
        "\ngoal: Block a is on block b. Block d is on block c.\n\nprior\n-:"
    )
    assert prior.about_one_state(Random(0), roles=("act",), held_out=False) == ()
    exam = prior.about_one_state(Random(0), roles=("prior",), held_out=True)
    assert [exercise.prompt for exercise in exam] == [
        exercise.prompt
        for exercise in rules.about_one_state(Random(0), roles=("prior",), held_out=True)
    ]


async def test_a_lesson_has_the_words_in_which_puct_asks_a_taught_model(write, rules):
    """The question at the root of a search, but for the number of dashes."""
    prior = TracedPrior(rules, BLOCKSWORLD, [read_trace(write(LEVEL, CLEAR))])
    (decision,) = prior.decisions
    assert prior.taught_words == words_of(decision.world)
    taught = Taught(roles=("prior",), words_sha256=(prior.taught_words,))
    identity = ModelIdentity(name="student", revision="1", dtype="float32", taught=taught)
    engine = ScriptedEngine({}, score=lambda _, choices: [0.0] * len(choices), identity=identity)
    domain = Blocksworld(Puzzle("here", decision.state, decision.world.puzzle.goal))
    settings = PLANNERS["puct"].settings.read({"simulations": 2, "moves": 1})
    await PLANNERS["puct"].run(run_in(domain, settings, engine))
    text, choices = engine.scored[0]
    assert set(choices) == set(THEN)
    lesson = prior.about_one_state(Random(0), roles=("prior",), held_out=False)[0]
    assert lesson.prompt[1].content.rstrip(" -") in text


def test_what_is_held_out_is_not_taught(write, rules):
    """The start of the 13th problem is one of the states that are held out; 7 blocks are, too."""
    teacher = BLOCKSWORLD.teacher(None)
    for settings in ({"problem": 13}, {"problem": 2}):
        task = "four-blocks" if settings["problem"] == 13 else "hard"
        world = BLOCKSWORLD.open(task, BLOCKSWORLD.settings.read(settings))
        start = world.start(0)
        actions = [str(action) for action in world.actions(start)]
        move = searched(actions[0], {actions[0]: (3, 0.9), actions[1]: (1, 0.1)}, actions=actions)
        assert teacher.is_held_out(world, start)
        with pytest.raises(TraceError, match="0 decisions teach, 1 are held out"):
            TracedPrior(rules, BLOCKSWORLD, [read_trace(write(move, task=task, settings=settings))])


REFUSED = {
    "another planner": ({"planner": "too", "settings": {}}, [{"action": "a"}], "such as that of"),
    "foreign code": ({"planner": "evil.py:plan"}, [], "planner 'evil.py:plan' is none of this"),
    "another world": ({"domain": "minecraft"}, [], "domain 'minecraft' is another world than"),
    "another task": ({"task": "hrad"}, [], "unknown task 'hrad'"),
    "another setting": ({"settings": {"problem": 21}}, [], "problem=21 is not possible"),
    "other words": ({"settings": {"rules": "standard"}}, [], "its world ('standard') has other"),
    "nothing": ({}, [], "0 decisions teach, 0 are held out"),
    "negative visits": (
        {},
        [searched("put-down c", {"put-down c": (-1, 0.0)}, actions=START)],
        "move 1: options.6.N is -1",
    ),
    "no number": ({}, [LEVEL | {"reward": "much"}], "move 1: reward is 'much'"),
    "other actions": (
        {},
        [LEVEL | {"options": CLEAR["options"]}],
        "move 1, 'put-down c', does not",
    ),
    "another effect": ({}, [LEVEL | {"text": "it falls"}], "move 1, 'put-down c', does not go"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_traces_are_refused_in_one_line(name, write, tmp_path):
    header, moves, says = REFUSED[name]
    out = tmp_path / "taught"
    path = write(*moves, **header)
    assert says in refused("distill", "blocksworld", "--from-traces", path, "--out", out)
    assert not out.exists()


def test_files_that_are_no_traces_are_refused_in_one_line(write, tmp_path):
    cut = write(LEVEL, CLEAR)
    cut.write_bytes(cut.read_bytes()[:-40])
    (tmp_path / "empty").mkdir()
    for path, options, says in (
        (cut, (), "1 of its lines cannot be read"),
        (tmp_path / "none.jsonl", (), "cannot be read"),
        (tmp_path / "empty", (), "name the folder of a sweep"),
        (cut, ("--role", "act"), "add --role prior"),
    ):
        assert says in refused(
            *("distill", "blocksworld", "--from-traces", path, *options),
            *("--export", tmp_path / "chats.jsonl"),
        )


def test_a_world_without_short_words_learns_from_no_trace(write, tmp_path):
    line = refused(
        *("distill", "household", "--from-traces", write(LEVEL)),
        *("--export", tmp_path / "chats.jsonl"),
    )
    assert "household has no role that searches teach" in line


@pytest.mark.slow  # it trains a tiny model for a batch or two
def test_a_real_search_teaches_an_adapter(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("llm_planning.commands.distill_teaching.EXAM", 2)
    path = tmp_path / "searches" / "UCT.JSONL"
    path.parent.mkdir()
    planned = invoke(
        *("run", "uct", "--domain", "blocksworld", "--task", "four-blocks", "--model", "none"),
        *("--set", "simulations=50", "--set", "c=0.05", "--trace", str(path)),
    )
    assert planned.exit_code == 0, planned.stderr
    out = tmp_path / "taught"
    ended = invoke(
        *("distill", "blocksworld", "--from-traces", str(path.parent), "--role", "prior"),
        *("--model", tiny, "--out", str(out), "--minutes", "0.01", "--rank", "4", "--json"),
    )
    assert ended.exit_code == 0, ended.stderr
    assert "3 decisions teach, 0 are held out, in 0 no action stands out" in ended.stderr
    card = read_card(out / "adapter")
    assert card.to_json() == json.loads(ended.stdout)["card"]
    assert card.roles == ("prior",)
    assert [trace["decisions"] for trace in card.recipe["traces"]] == [3]
    (words,) = card.words_sha256
    assert words == exercise_makers(BLOCKSWORLD, words="taught")["prior"].taught_words
