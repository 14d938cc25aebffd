"""No problem and no world of a table is taught."""

from pathlib import Path
from random import Random

import yaml

from llm_planning.environments.blocksworld.domain import GENERATED
from llm_planning.environments.blocksworld.generator import problems
from llm_planning.environments.minecraft.options import teacher as of_minecraft
from llm_planning.registry import find_domain

CONFIGS = Path(__file__).parents[2] / "configs"
SIZE = 6
"""Of fewer blocks there are so few problems that some are drawn twice."""


def below(content, key):
    """All numbers below a key, at any depth."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from below(value, None if name == key else key)
    elif isinstance(content, list):
        for value in content:
            yield from below(value, key)
    elif key is None and isinstance(content, int):
        yield content


def seeds(key):
    contents = [yaml.safe_load(file.read_text("utf-8")) for file in CONFIGS.rglob("*.yaml")]
    return {number for content in contents for number in below(content, key)}


def test_the_worlds_of_lessons_have_seeds_that_no_table_has():
    used = seeds("seeds")
    assert {1, 1000, 1019} <= used
    assert max(used) < of_minecraft.FIRST_SEED


def test_no_problem_of_a_table_is_a_lesson():
    used = seeds("problem_seed") | {1}
    tables = {
        (problem.start, problem.goal)
        for counts in GENERATED.values()
        for seed in used
        for problem in problems(counts, seed=seed)
        if len(problem.start.names) >= SIZE
    }
    assert len(tables) >= 110
    teacher = find_domain("blocksworld").teacher(None)
    drawn = [
        domain.puzzle
        for number in range(40)
        for domain in teacher.situation(Random(f"lessons 0 {number} 0"), held_out=False).domains
    ]
    assert sum(len(problem.start.names) >= SIZE for problem in drawn) > 80
    assert not any((problem.start, problem.goal) in tables for problem in drawn)


def test_lessons_have_the_sizes_of_the_tables_but_two():
    teacher = find_domain("blocksworld").teacher(None)
    for held_out, sizes in ((False, {*range(3, 16)} - {7, 8}), (True, {*range(4, 16)})):
        here = (teacher.situation(Random(n), held_out=held_out) for n in range(120))
        drawn = {len(situation.state.names) for situation in here}
        assert drawn == sizes if not held_out else {7, 8} < drawn <= {3, *sizes}
