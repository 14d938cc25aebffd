"""The README's first table says what was recorded."""

from functools import cache
from pathlib import Path

import pytest

from llm_planning.experiments.export import read_export
from llm_planning.experiments.runs import runs_of

ROOT = Path(__file__).parents[2]
OWN, TAUGHT = "model, taught this planner's roles", "model, taught all roles"
MANUAL, NOBODY = "model proposes, rules judge and act", "nobody"
MODELS = {
    "Minecraft": "smollm2-135m-minecraft",
    "Blocksworld": "smollm2-135m-blocksworld",
    "Household": "students/household/adapter",
}
EXPORTS = {
    ("Minecraft", OWN): "too-taught",
    ("Minecraft", TAUGHT): "too-equal-lessons",
    ("Blocksworld", TAUGHT): "drip-taught",
    ("Blocksworld", MANUAL): "drip-taught",
    ("Household", TAUGHT): "llm-mcts-taught-table1",
}
GAMES = {"model, taught π": "students/textgame-long/adapter", NOBODY: "none"}
STUDENTS = {
    "student, taught journeys": ("llm-mcts-students-travel", "route"),
    "student, taught flights": ("llm-mcts-students-travel", "flights"),
    "student, taught products": ("llm-mcts-students-multiplication", "product"),
    "student, taught products of one digit": ("llm-mcts-students-multiplication", "fact"),
}
PLANNERS = {
    "Tree of Options": ["too"],
    "ToO w/o feasibility check": ["too-no-fc"],
    "ReAct over options": ["react-option"],
    "DRIP+ (ours)": ["drip-plus"],
    "LLM-MCTS": ["llm-mcts"],
    "LLM-MCTS+ (ours)": ["llm-mcts-plus"],
    "LLM-MCTS's policy alone": ["llm-mcts-policy"],
    "MC-DML": ["mc-dml"],
    "PUCT, every π equal": ["mc-dml-puct"],
}
IN_BLOCKSWORLD = {"DRIP": ["drip"], "Chain of Thought": ["drip-cot"], "ReAct": ["drip-react"]}
IN_MINECRAFT = {"Chain of Thought": ["cot"]}
IN_TRAVEL = {"L-Policy": ["l-policy"], "L-Model": ["l-model"]}
IN_NUMBERS = {"L-Policy": ["l-policy-multiplication"], "L-Model": ["l-model-multiplication"]}
IN_WORLDS = {
    "Blocksworld": IN_BLOCKSWORLD,
    "Minecraft": IN_MINECRAFT,
    "Air travel": IN_TRAVEL,
    "Multiplication": IN_NUMBERS,
}


def rows():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    start = lines.index("| planner | world | who answers | goals reached |") + 2
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    return [tuple(map(str.strip, line.strip("|").split("|"))) for line in lines[start:end]]


@cache
def exported(name):
    return runs_of(read_export(ROOT / "docs" / "results" / "exports" / f"{name}.parquet"))


def recorded(label, world, answerer):
    """The successes of each planner of a row, run by run."""
    for planner in (PLANNERS | IN_WORLDS.get(world, {}))[label]:
        if answerer in GAMES:
            name, model = "mc-dml-taught", GAMES[answerer]
            roles = None if answerer == NOBODY else "llm"
        elif answerer in STUDENTS:
            name, student = STUDENTS[answerer]
            model, roles = "smollm2-135m-instruct", f"configs/llm_mcts/taught/{student}.yaml"
        else:
            name = EXPORTS[world, answerer]
            model = "smollm2-135m-planner" if answerer == OWN else MODELS[world]
            roles = "configs/drip/oracles/manual.yaml" if answerer == MANUAL else "llm"
        where = {"planner": planner, "model": model, "settings.roles": roles}
        if answerer in GAMES and answerer != NOBODY:
            where["settings.prior_temperature"] = 5  # the paper's
        by_way = {}
        for run in exported(name).select({key: (value,) for key, value in where.items()}).done:
            # A reading of ours has no row, nor has a policy that never draws.
            if run.get("settings.reading") != "redo" and run.get("settings.choice") != "argmax":
                by_way.setdefault(run.get("settings.end"), []).append(bool(run["success"]))
        yield from by_way.values()


@pytest.mark.parametrize("row", rows(), ids=" ".join)
def test_a_row_is_what_was_recorded(row):
    label, world, answerer, share = row
    successes = list(recorded(label, world, answerer))
    assert successes
    assert {f"{sum(won)} of {len(won)}" for won in successes} == {share}
