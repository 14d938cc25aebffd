"""Shortest plans of Blocksworld, against a full search that knows only what a move does."""

from random import Random

import pytest

from llm_planning.environments.blocksworld import solver
from llm_planning.environments.blocksworld.blocks import TABLE, Blocks, Goal
from llm_planning.environments.blocksworld.domain import BLOCKSWORLD, Blocksworld
from llm_planning.environments.blocksworld.generator import TABLE_6, problems, random_state
from llm_planning.environments.blocksworld.rules import RULES
from llm_planning.environments.blocksworld.solver import UnsolvedError, shortest_plan


def towers(*towers):
    """A state of towers, each bottom first."""
    below = {b: u for tower in towers for b, u in zip(tower, (TABLE, *tower[:-1]), strict=True)}
    return Blocks.of(below)


def layers(start, neighbours):
    """The states that can be reached, with the fewest steps to each."""
    steps = {start: 0}
    layer = [start]
    while layer:
        new = [after for state in layer for after in neighbours(state) if after not in steps]
        layer = list(dict.fromkeys(new))
        steps |= dict.fromkeys(layer, steps[start] + 1 + max(steps.values()))
    return steps


def pile_moves(state):
    """Every pile to the table and onto every clear block of another tower, by numbers."""
    base = []
    for block in range(len(state)):
        lowest = block
        while state[lowest] >= 0:
            lowest = state[lowest]
        base.append(lowest)
    clear = [block for block in range(len(state)) if block not in state]
    for block in range(len(state)):
        for onto in (-1, *(other for other in clear if base[other] != base[block])):
            yield (*state[:block], onto, *state[block + 1 :])


def random_denials(names, rng):
    """Some facts that must not hold: places, and up to two by which blocks stand somewhere."""
    apart = {("on", *rng.sample(names, 2)) for _ in range(rng.randrange(3))}
    vague = {(rng.choice(("clear", "ontable")), rng.choice(names)) for _ in range(rng.randrange(3))}
    return tuple(sorted(apart | vague))


def random_goal(names, rng):
    """Some facts of a random state: usually those with `on` only, as in the paper."""
    end = random_state(names, rng)
    plain = rng.random() < 0.5
    return Goal(
        tuple((b, u) for b, u in end.on if (u != TABLE if plain else rng.random() < 0.6)),
        () if plain else tuple(block for block in end.clear if rng.random() < 0.3),
    )


def carried_out(start, goal, rules, plan):
    state = start
    for action in plan:
        assert RULES[rules].obstacle(state, action) is None
        state = RULES[rules].apply(state, action)
    assert state.held is None
    assert not goal.missing(state)
    return len(plan)


@pytest.mark.parametrize(
    ("size", "starts", "goals"), [(3, 15, 5), (4, 15, 5), (5, 15, 5), (6, 3, 25)]
)
def test_the_variant_is_solved_as_by_full_search(size, starts, goals):
    names = "abcdef"[:size]
    for number in range(starts):
        rng = Random(f"{size} {number}")
        start = random_state(names, rng)
        first = tuple("abcdef".find(start.below[name]) for name in names)
        steps = layers(first, pile_moves)
        assert len(steps) == {3: 13, 4: 73, 5: 501, 6: 4051}[size]
        for _ in range(goals):
            goal = random_goal(names, rng)
            optimum = min(
                length
                for state, length in steps.items()
                if all(state[names.index(b)] == "abcdef".find(u) for b, u in goal.on)
                and not any(names.index(b) in state for b in goal.clear)
            )
            plan = shortest_plan(start, goal, "variant")
            assert carried_out(start, goal, "variant", plan) == optimum


@pytest.mark.parametrize(("size", "starts", "goals"), [(3, 8, 5), (4, 6, 8)])
def test_the_standard_rules_are_solved_as_by_full_search(size, starts, goals):
    rules, names = RULES["standard"], "abcd"[:size]
    for number in range(starts):
        rng = Random(f"{size} {number}")
        start = random_state(names, rng)
        if number % 2:
            start = rules.apply(start, rules.possible(start)[0])
        steps = layers(
            start, lambda state: [rules.apply(state, action) for action in rules.possible(state)]
        )
        for _ in range(goals):
            goal = random_goal(names, rng)
            optimum = min(
                length
                for state, length in steps.items()
                if state.held is None and not goal.missing(state)
            )
            plan = shortest_plan(start, goal, "standard")
            assert carried_out(start, goal, "standard", plan) == optimum


@pytest.mark.parametrize("rules", RULES)
def test_goals_that_deny_facts_are_solved_as_by_full_search(rules):
    chosen, names, unreachable = RULES[rules], "abcd", 0
    for number in range(6):
        rng = Random(f"denied {number}")
        start = random_state(names, rng)
        steps = layers(
            start, lambda state: [chosen.apply(state, action) for action in chosen.possible(state)]
        )
        for _ in range(15):
            goal = random_goal(names, rng)
            goal = Goal(goal.on[: rng.randrange(3)], goal.clear, random_denials(names, rng))
            lengths = [
                length
                for state, length in steps.items()
                if state.held is None and not goal.missing(state)
            ]
            if lengths:
                plan = shortest_plan(start, goal, rules)
                assert carried_out(start, goal, rules, plan) == min(lengths)
            else:
                unreachable += 1
                with pytest.raises(UnsolvedError, match="no state reaches the goal"):
                    shortest_plan(start, goal, rules)
    assert 0 < unreachable < 45


def test_without_a_hand_a_plan_has_half_of_the_actions():
    for puzzle in problems({5: 5, 8: 3}, seed=2):
        with_hand = shortest_plan(puzzle.start, puzzle.goal, "standard")
        without = shortest_plan(puzzle.start, puzzle.goal, "handless")
        assert carried_out(puzzle.start, puzzle.goal, "handless", without) * 2 == len(with_hand)


def test_a_right_place_may_come_too_early():
    # Whoever stacks a on b first has x and u in one tower, and can no longer stack x on u.
    start = towers("zxwb", "au", "vj")
    goal = Goal((("a", "b"), ("b", "w"), ("j", "z"), ("u", "a"), ("w", "v"), ("x", "u")))
    plan = [str(action) for action in shortest_plan(start, goal, "variant")]
    assert plan == ["stack x u", "stack j z", "stack w v", "stack a b"]


def test_the_state_of_section_4_1_4_takes_two_actions():
    world = BLOCKSWORLD.open("section-4.1.4", BLOCKSWORLD.settings.read({}))
    assert [str(action) for action in world.advise(world.start(0))] == ["put-down h", "stack i c"]


@pytest.mark.parametrize("rules", RULES)
def test_the_problems_of_table_6_are_solved(rules):
    for puzzle in problems(TABLE_6, seed=1):
        plan = shortest_plan(puzzle.start, puzzle.goal, rules)
        carried_out(puzzle.start, puzzle.goal, rules, plan)


def test_a_search_without_end_is_given_up(monkeypatch):
    puzzle = problems({9: 1}, seed=1)[0]
    world = Blocksworld(puzzle)
    monkeypatch.setattr(solver, "MOST_EXPANDED", 1)
    with pytest.raises(UnsolvedError, match="9 blocks was found among 1 positions"):
        world.advise(puzzle.start)
    assert world.traits() == {"problem": "9-1", "blocks": 9, "optimum": None}
