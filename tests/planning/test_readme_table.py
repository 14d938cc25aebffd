"""The README's table of what the bundled model reaches says what was recorded."""

from pathlib import Path

from llm_planning.experiments.export import read_export
from llm_planning.experiments.runs import runs_of

ROOT = Path(__file__).parents[2]
WORLDS = ("minecraft", "blocksworld", "household", "travel", "textgame")
PLANNERS = {
    "Tree of Options": "too",
    "ReAct over options": "react-option",
    "Chain of Thought": "cot",
    "DRIP+ (ours)": "drip-plus",
    "LLM-MCTS+ (ours)": "llm-mcts-plus",
    "L-Policy, journeys named at once": "l-policy",
    "L-Model, flights named and searched": "l-model",
    "MC-DML": "mc-dml",
    "PUCT": "puct",
    "the model alone, move by move": "llm-policy",
}


def test_the_first_table_of_the_readme_is_what_was_recorded():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| planner | Minecraft |"))
    heads = [cell.strip() for cell in lines[start].strip("|").split("|")]
    assert heads[1:] == ["Minecraft", "Blocksworld", "Household", "Air travel", "Text games"]
    said = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        label, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        said[label] = cells
    assert said.keys() == PLANNERS.keys()
    runs = runs_of(read_export(ROOT / "docs" / "results" / "exports" / "matrix-models.parquet"))
    for label, planner in PLANNERS.items():
        for world, cell in zip(WORLDS, said[label], strict=True):
            done = runs.select(
                {"planner": (planner,), "domain": (world,), "model": ("smollm2-135m-planner",)}
            ).done
            if cell in {"", "–"}:
                assert not done, (label, world)
            else:
                assert len(done) == 6, (label, world)
                assert int(cell) == sum(bool(run["success"]) for run in done), (label, world)
