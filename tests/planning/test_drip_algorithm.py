"""Algorithm 1 by hand: Figures 3 and 4, the state of Section 4.1.4, and its two readings."""

import pytest
from drip_runs import (
    FIGURE_3,
    SECTION_4_1_4,
    action,
    blocks,
    renamed,
    roles_file,
    run,
    run_with_events,
)

from llm_planning.domain import Judged
from llm_planning.planners.drip.roles import DRAWN
from llm_serving.scripted import ScriptedEngine

GOAL, FIRST, SECOND, CLEAR, DOWN = range(5)


async def test_who_answered_that_nothing_comes_before_is_not_asked_the_same_again(tmp_path):
    """A model that answers greedily would say so again. Later askings are drawn by other seeds."""
    engine = ScriptedEngine({"decompose": lambda _: '{"subtasks":[]}'})
    file = roles_file(tmp_path, decompose="llm")
    outcome = await run("drip", FIGURE_3, engine=engine, roles=file, attempts=3)
    assert outcome.metrics["ending"] == "stuck"
    first, *others = (request.sampling for request in engine.requests)
    assert first.temperature == 0.0
    assert [sampling.temperature for sampling in others] == [DRAWN, DRAWN]
    assert len({sampling.seed for sampling in others}) == 2


async def test_figures_3_and_4():
    """Lines 2 to 29 by hand.

    Level 1 decomposes the goal. Red can go on orange, and goes there; yellow cannot go on red. As
    one of two was applied, the other is judged once more (l.16). Level 2 decomposes it; red is
    cleared, and then red and yellow are in different towers. Both subtasks are judged again (l.22),
    then their parent, which is applied (l.23). Without `redo`, 2 + 1 + 2 + 2 + 1 judgements.
    """
    outcome, events = await run_with_events("drip", FIGURE_3, reading="literal")
    assert outcome.success is True
    assert outcome.plan == ("stack r o", "unstack blocks r", "stack y r")
    assert events == [
        (GOAL, None, None, "open", []),
        (FIRST, "stack r o", None, "open", []),
        (SECOND, "stack y r", None, "open", []),
        (FIRST, "stack r o", "true", "open", []),
        (FIRST, "stack r o", "true", "closed", [1]),
        (SECOND, "stack y r", "false", "open", []),
        (SECOND, "stack y r", "false", "open", []),
        (CLEAR, "unstack blocks r", None, "open", []),
        (DOWN, "put-down r", None, "open", []),
        (CLEAR, "unstack blocks r", "true", "open", []),
        (CLEAR, "unstack blocks r", "true", "closed", [2]),
        (DOWN, "put-down r", "done", "closed", []),
        (SECOND, "stack y r", "true", "open", []),
        (SECOND, "stack y r", "true", "closed", [3]),
        (GOAL, None, None, "closed", []),
    ]
    counts = ("ending", "decompositions", "judgements", "depth", "actions", "excess", "refused")
    assert [outcome.metrics[count] for count in counts] == ["goal", 2, 8, 2, 3, 0, 0]


async def test_a_pass_goes_on_with_the_next_subtask_in_the_new_state():
    """Lines 6 to 19 by hand: the first pass finds a blocked, then moves b and, further on, e.

    The second pass begins at the front again and finds c free. 3 + 1 judgements, and 3 of line 22.
    """
    world = blocks("b-c a d e f", "a-c b-d e-f")
    assert [str(action) for action in world.decompose(None, None)] == [
        "stack a c",
        "stack b d",
        "stack e f",
    ]
    outcome, events = await run_with_events("drip", world, reading="literal")
    assert outcome.plan == ("stack b d", "stack e f", "stack a c")
    assert [(subtask, verdict) for _, subtask, verdict, status, _ in events if status == "closed"][
        :-1
    ] == [("stack b d", "true"), ("stack e f", "true"), ("stack a c", "true")]
    assert outcome.metrics["judgements"] == 3 + 1 + 3


async def test_redo_judges_the_roots_children_after_each_level():
    outcome, events = await run_with_events("drip", FIGURE_3, reading="redo")
    assert outcome.plan == ("stack r o", "unstack blocks r", "stack y r")
    assert outcome.metrics["judgements"] == 8 + 2 + 2
    assert events[7:9] == [
        (FIRST, "stack r o", "done", "closed", [1]),
        (SECOND, "stack y r", "false", "open", []),
    ]


async def test_the_tree_is_told():
    outcome = await run("drip", FIGURE_3)
    assert outcome.text.splitlines() == [
        f"✓ {FIGURE_3.goal}",
        "├─ ✓ stack r o [1] true: block o is clear and in another tower",
        "└─ ✓ stack y r [3] true: block r is clear and in another tower",
        "   ├─ ✓ unstack blocks r [2] true: what stands on block r can always be put down",
        "   └─ ✓ put-down r done: blocks y and r are in different towers",
        "",
        "carried out: the goal is reached",
    ]
    tree = outcome.trace["tree"]
    assert tree["status"] == "closed"
    (children,) = tree["attempts"]
    assert [child["subtask"] for child in children] == ["stack r o", "stack y r"]
    assert [child["steps"] for child in children[1]["attempts"][0]] == [[2], []]


async def test_the_literal_reading_undoes_what_section_4_1_4_has_achieved():
    outcome = await run("drip", SECTION_4_1_4, reading="literal")
    assert outcome.success is False
    assert outcome.plan == ("put-down c", "stack i c")
    assert outcome.metrics["ending"] == "goal"
    assert outcome.metrics["failure"] == "framework"
    assert outcome.metrics["failure_cause"] == "put-down c undid stack c b"
    assert outcome.metrics["excess"] is None
    assert "failure: framework (put-down c undid stack c b)" in outcome.text


async def test_redo_does_it_again_from_the_top_of_the_tower():
    """Each level puts one block of the chain c-b-d-a-j-h back in its place, at two actions each."""
    outcome = await run("drip", SECTION_4_1_4, reading="redo")
    assert outcome.success is True
    assert outcome.plan == (
        *("put-down c", "stack i c", "put-down b", "stack c b", "put-down d", "stack b d"),
        *("put-down a", "stack d a", "put-down j", "stack a j", "put-down h", "stack j h"),
    )
    assert outcome.metrics["excess"] == 12 - 2
    assert outcome.metrics["decompositions"] == 7
    assert outcome.metrics["depth"] == 2


@pytest.mark.parametrize(
    ("limits", "ending", "actions"),
    [
        ({"max_depth": 4}, "depth", 6),
        ({"budget": 5}, "budget", 5),
        ({"decompositions": 3}, "decompositions", 4),
    ],
)
async def test_running_out_of_a_limit_is_a_flagged_failure(limits, ending, actions):
    outcome = await run("drip", SECTION_4_1_4, reading="redo", **limits)
    assert outcome.success is False
    assert outcome.metrics["ending"] == ending
    assert outcome.metrics["failure"] == "limit"
    assert outcome.metrics["failure_cause"] == f"ran out of {ending}"
    assert len(outcome.plan) == actions


def with_nothing_to_do(world, **answers):
    """A world whose rules decompose an action so, in the place of its own subtasks."""
    right = world.decompose

    def decompose(state, subtask):
        if str(subtask) in answers:
            return [action(answer) for answer in answers[str(subtask)]]
        return right(state, subtask)

    return renamed(world, decompose=decompose)


async def test_a_subtask_that_equals_one_above_it_is_dropped():
    world = with_nothing_to_do(FIGURE_3, **{"stack y r": ["stack y r", "unstack blocks r"]})
    outcome, events = await run_with_events("drip", world)
    assert outcome.success is True
    subtasks = [subtask for _, subtask, verdict, *_ in events if verdict is None]
    assert subtasks[3:4] == ["unstack blocks r"]


async def test_an_empty_decomposition_fails_its_node():
    world = with_nothing_to_do(FIGURE_3, **{"stack y r": []})
    outcome = await run("drip", world, reading="literal")
    assert (outcome.metrics["ending"], outcome.metrics["decompositions"]) == ("stuck", 2)
    assert outcome.success is False
    again = await run("drip", world, reading="redo", max_depth=4)
    assert (again.metrics["ending"], again.metrics["decompositions"]) == ("depth", 4)


async def test_or_gives_it_up():
    world = with_nothing_to_do(FIGURE_3, **{"stack y r": []})
    outcome, events = await run_with_events("drip", world, empty="close")
    assert outcome.metrics["ending"] == "goal"
    assert (SECOND, "stack y r", "false", "given up", []) in events
    assert outcome.success is False


async def test_a_refused_action_is_not_in_the_plan():
    """The judge holds everything for possible; the world refuses, and the subtask comes apart."""
    right = FIGURE_3.judge

    def judge(state, subtask, parent):
        judged = right(state, subtask, parent)
        return judged if judged.verdict == "done" else Judged("true", "why not")

    outcome = await run("drip", renamed(FIGURE_3, judge=judge))
    assert outcome.success is True
    assert outcome.plan == ("stack r o", "unstack blocks r", "stack y r")
    assert outcome.metrics["refused"] > 0


async def test_nothing_to_do_is_a_plan_without_actions():
    outcome = await run("drip", blocks("a-b c", "a-b"))
    assert (outcome.success, outcome.plan) == (True, ())
    assert outcome.metrics["ending"] == "goal"
