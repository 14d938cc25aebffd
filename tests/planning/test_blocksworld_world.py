"""Blocksworld: what actions do by both rules, how states read, and what a model may predict."""

from collections import Counter
from random import Random

import pytest

from llm_planning.environments.blocksworld import domain
from llm_planning.environments.blocksworld.blocks import TABLE, BlockAction, Blocks, Goal, Puzzle
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD, TASKS, Blocksworld
from llm_planning.environments.blocksworld.generator import TABLE_6, problems, random_state
from llm_planning.environments.blocksworld.rules import RULES
from llm_planning.environments.blocksworld.solver import UnsolvedError
from llm_planning.settings import SettingsError
from llm_serving.answers import constraint_of, parse

# Two towers, bottom first: a b c, and d e.
START = Blocks.of({"a": TABLE, "b": "a", "c": "b", "d": TABLE, "e": "d"})


def action(text):
    *verb, block = text.split()
    if verb[0] in {"stack", "unstack"} and verb[-1] != "blocks":
        return BlockAction(verb[0], verb[1], block)
    return BlockAction(" ".join(verb), block)


def world(goal=(("c", "e"),), *, rules="variant", texts="english", start=START, clear=()):
    return Blocksworld(Puzzle("test", start, Goal(goal, clear)), rules=rules, texts=texts)


VARIANT = {
    # A pile goes along.
    "stack b e": {"b": "e", "c": "b"},
    "stack c e": {"c": "e"},
    "stack c b": {},
    "put-down b": {"b": TABLE, "c": "b"},
    "unstack blocks a": {"b": TABLE, "c": "b"},
    "stack b d": "block d is not clear: block e stands on it",
    "stack a c": "blocks a and c are in one tower",
    "stack e e": "block e cannot stand on itself",
    "stack a z": "there is no block 'z'",
    "pick-up e": "unknown verb 'pick-up'",
}


@pytest.mark.parametrize(("text", "after"), VARIANT.items())
def test_the_variant_moves_whole_piles(text, after):
    blocks = world()
    step = blocks.step(START, action(text), Random(0))
    if isinstance(after, str):
        assert after in step.obstacle
        assert blocks.feasible(START, action(text)) == step.obstacle
        assert step.state == START
    else:
        assert blocks.feasible(START, action(text)) is None
        assert step.obstacle is None
        assert step.state.below == {**START.below, **after}


def test_an_action_whose_effect_holds_changes_nothing():
    step = world().step(START, action("unstack blocks c"), Random(0))
    assert (step.state, step.obstacle, step.text) == (
        START,
        None,
        "unstack blocks c: that holds already",
    )


STANDARD = {
    "unstack c b": (("a", "b", "d", "e"), "c"),
    "unstack b a": "block b is not clear: block c stands on it",
    "unstack c e": "block c stands on block b",
    "put-down c": "the hand does not hold block c",
    "unstack blocks a": "unknown verb 'unstack blocks'",
}


@pytest.mark.parametrize(("text", "after"), STANDARD.items())
def test_a_hand_takes_clear_blocks_by_the_standard_rules(text, after):
    step = world(rules="standard").step(START, action(text), Random(0))
    if isinstance(after, str):
        assert after in step.obstacle
        assert step.state == START
    else:
        assert (tuple(step.state.below), step.state.held) == after


HANDLESS = {
    "stack c e": {"c": "e"},
    "put-down e": {"e": TABLE},
    "stack b e": "block b is not clear: block c stands on it",
    "stack c d": "block d is not clear: block e stands on it",
    "stack c c": "block c cannot stand on itself",
    "stack c z": "there is no block 'z'",
    "pick-up c": "unknown verb 'pick-up'",
}


@pytest.mark.parametrize(("text", "after"), HANDLESS.items())
def test_without_a_hand_one_clear_block_is_moved(text, after):
    step = world(rules="handless").step(START, action(text), Random(0))
    if isinstance(after, str):
        assert after in step.obstacle
        assert step.state == START
    else:
        assert step.obstacle is None
        assert step.state.below == {**START.below, **after}
        again = world(rules="handless").step(step.state, action(text), Random(0))
        assert (again.state, again.obstacle is None) == (step.state, False)


def test_a_held_block_is_put_down_or_stacked():
    blocks = world(rules="standard")
    held = blocks.step(START, action("unstack c b"), Random(0)).state
    texts = [str(action) for action in blocks.actions(held)]
    assert texts == ["put-down c", "stack c b", "stack c e"]
    assert blocks.feasible(held, action("stack c a")) == (
        "block a is not clear: block b stands on it"
    )
    assert blocks.feasible(held, action("stack c c")) == "block c is not clear: it is held"
    assert blocks.feasible(held, action("unstack e d")) == "the hand holds block c"
    step = blocks.step(held, action("stack c e"), Random(0))
    assert (step.state.below["c"], step.reward, step.done) == ("e", 1.0, True)
    assert blocks.actions(step.state) == ()


@pytest.mark.parametrize("rules", RULES)
def test_possible_actions_are_those_that_change_something(rules):
    chosen = RULES[rules]
    for seed in range(30):
        rng = Random(seed)
        state = random_state("abcdef", rng)
        for _ in range(3):
            changing = [
                action
                for action in chosen.every(state.names)
                if chosen.obstacle(state, action) is None and chosen.apply(state, action) != state
            ]
            possible = chosen.possible(state)
            assert Counter(possible) == Counter(changing)
            state = chosen.apply(state, rng.choice(possible))
            assert state.names == tuple("abcdef")


def test_states_and_goals_in_words():
    goal = (("c", "e"), ("d", TABLE))
    english = world(goal, clear=("c",))
    assert english.describe(START) == (
        "Block c is clear. Block e is clear. Block a is on the table. Block b is on block a. "
        "Block c is on block b. Block d is on the table. Block e is on block d."
    )
    assert english.goal == "Block c is on block e. Block d is on the table. Block c is clear."
    assert english.remainder(START) == "Block c is on block e."
    facts = world(goal, clear=("c",), texts="predicates", rules="standard")
    assert facts.goal == "(on c e) (ontable d) (clear c)"
    held = facts.step(START, action("unstack c b"), Random(0)).state
    assert facts.describe(START).endswith("(ontable d) (on e d) (handempty)")
    assert facts.describe(held).startswith("(clear b) (clear e) (ontable a)")
    assert facts.describe(held).endswith("(on e d) (holding c)")


def test_denied_facts_in_words():
    goal = Goal((("c", "e"),), (), (("clear", "d"), ("on", "b", "a"), ("ontable", "a")))
    blocks = Blocksworld(Puzzle("test", START, goal))
    assert blocks.goal == (
        "Block c is on block e. Block d is not clear. Block b is not on block a. "
        "Block a is not on the table."
    )
    assert blocks.remainder(START) == (
        "Block c is on block e. Block b is not on block a. Block a is not on the table."
    )
    facts = Blocksworld(Puzzle("test", START, goal), texts="predicates")
    assert facts.goal == "(on c e) (not (clear d)) (not (on b a)) (not (ontable a))"
    assert goal.missing(START) == 3
    state = START
    for action in blocks.advise(START):
        state = blocks.step(state, action, Random(0)).state
    assert blocks.success(state)


def test_the_goal_is_reached_by_facts_and_an_empty_hand():
    blocks = world((("c", "e"),), clear=("c",), rules="standard")
    assert not blocks.success(START)
    assert blocks.success(Blocks.of({**START.below, "c": "e"}))
    covered = Blocks.of({**START.below, "c": "e", "b": "c"})
    assert not blocks.success(covered)
    below = {key: under for key, under in covered.below.items() if key != "b"}
    assert not blocks.success(Blocks.of(below, held="b"))


def test_the_score_falls_with_the_actions_that_are_left():
    blocks = world((("a", "e"), ("c", "d")))
    plan = blocks.advise(START)
    scores, state = [], START
    for action in plan:
        scores.append(blocks.score(state))
        state = blocks.step(state, action, Random(0)).state
    assert [*scores, blocks.score(state)] == pytest.approx(
        [done / len(plan) for done in range(len(plan) + 1)]
    )
    assert blocks.traits() == {"problem": "test", "blocks": 5, "optimum": len(plan)}


def test_where_the_start_is_the_goal_every_other_state_scores_nothing():
    blocks = world(tuple(pair for pair in START.on if pair[1] != TABLE))
    assert blocks.score(START) == 1.0
    assert blocks.score(Blocks.of(dict.fromkeys(START.names, TABLE))) == 0.0


def test_an_optimum_that_is_not_found_is_sought_once(monkeypatch):
    blocks = world((("a", "e"), ("c", "d")))
    searches = []

    def search(*_):
        searches.append(1)
        raise UnsolvedError("too long")

    monkeypatch.setattr(domain, "shortest_plan", search)
    assert [blocks.traits()["optimum"] for _ in range(2)] == [None, None]
    assert len(searches) == 1


def test_the_grammar_writes_and_reads_every_action():
    for rules, number in (("variant", 5 * 4 + 2 * 5), ("standard", 2 * 5 + 2 * 5 * 4)):
        grammar = world(rules=rules).grammar
        every = RULES[rules].every("abcde")
        assert len(set(map(str, every))) == number
        assert [grammar.read(grammar.write(action)) for action in every] == every
        assert grammar.instruction.startswith("An option is `")


PREDICTED = {
    # What is claimed of a, b and c, what comes of it, and which claims were not followed.
    ("b", "c", "table"): ("b", "c", TABLE, []),
    ("b", "a", "table"): ("b", TABLE, TABLE, ["b on a"]),
    ("c", "c", "table"): ("c", "a", TABLE, ["b on c"]),
    ("b", "c", "a"): ("b", "c", TABLE, ["c on a"]),
}


@pytest.mark.parametrize(("claimed", "expected"), PREDICTED.items())
def test_predictions_are_read_as_states_that_are_possible(claimed, expected):
    start = Blocks.of({"a": TABLE, "b": "a", "c": TABLE})
    model = world((("a", "b"),), start=start).state_model
    text = '{{"a":"{}","b":"{}","c":"{}"}}'.format(*claimed)
    constraint_of(model.answer)
    state, refused = model.read(start, parse(model.answer, text))
    assert ([state.below[block] for block in "abc"], list(refused)) == (
        list(expected[:3]),
        expected[3],
    )
    assert all(state.base(block) for block in "abc")


def test_a_predicted_hand_holds_one_clear_block():
    start = Blocks.of({"a": TABLE, "b": "a", "c": TABLE})
    model = world((("a", "b"),), start=start, rules="standard").state_model

    def read(**claimed):
        return model.read(start, model.answer(**claimed))

    assert read(a="table", b="hand", c="table")[0] == Blocks.of({"a": TABLE, "c": TABLE}, held="b")
    state, refused = read(a="b", b="hand", c="hand")
    assert state.held is None or state.held not in state.below.values()
    assert state.names == ("a", "b", "c")
    assert refused


def test_worked_examples_are_a_plan():
    for rules in RULES:
        examples = world(rules=rules).example
        assert examples[0][0].startswith("Goal: Block q is on block r. State: Block r is clear.")
        assert examples[-1][1] == "stack q r"


def test_table_6_has_110_problems():
    sizes = Counter(len(problem.start.names) for problem in problems(TABLE_6, seed=1))
    assert sizes == {6: 1, 7: 1, 8: 7, 9: 14, 10: 13, 11: 13, 12: 12, 13: 18, 14: 21, 15: 10}
    assert sizes.total() == 110


def test_problems_follow_their_seed_and_have_something_to_do():
    first, again, other = (problems({6: 3, 9: 4}, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert not {(p.start, p.goal) for p in first} & {(p.start, p.goal) for p in other}
    assert problems({9: 5}, seed=1)[:4] == first[3:]
    assert all(puzzle.goal.missing(puzzle.start) for puzzle in (*first, *other))


def test_every_state_is_equally_likely():
    rng = Random(0)
    drawn = Counter(random_state("abc", rng) for _ in range(13 * 300))
    assert len(drawn) == 13  # 6 of one tower, 6 of two, 1 of three
    assert all(abs(times - 300) < 70 for times in drawn.values())


def opened(task="hard", **settings):
    return BLOCKSWORLD.open(task, BLOCKSWORLD.settings.read(settings))


def test_tasks_and_settings_choose_a_problem():
    assert opened().puzzle.name == "6-1"
    assert opened(problem=110).puzzle.name == "15-10"
    assert opened(problem="3", problem_seed=2).puzzle == problems(TABLE_6, seed=2)[2]
    assert opened("four-blocks", problem=20).puzzle.name == "4-20"
    assert opened("section-4.1.4").puzzle.start.pile("i") == tuple("ifgehjadbc")
    assert {len(opened(task).puzzle.start.names) for task in TASKS} == {6, 4, 10}


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("hard", {"problem": 111}, "problem=111 is not possible: the task hard has 110 problems"),
        ("hard", {"problem": 0}, "problem=0 is not possible"),
        (
            "section-4.1.4",
            {"problem_seed": 2},
            "problem_seed=2 is not possible with the task section-4.1.4: nothing is generated",
        ),
        ("hard", {"problem_seed": 2, "pddl": "x"}, "is not possible with pddl=x"),
    ],
)
def test_impossible_settings_are_refused(task, settings, message):
    with pytest.raises(SettingsError, match=message):
        opened(task, **settings)
