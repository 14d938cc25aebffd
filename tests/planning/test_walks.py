"""How much of the project a run needs: the numbers of docs/architecture.md."""

import re
from pathlib import Path

import pytest
import walks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
MODULES = 122
"""Of ours, at most, that a run loads to its first question."""


@pytest.mark.parametrize("name", walks.WALKS)
def test_a_walk_enters_no_more_files_than_the_page_says(name):
    counts = re.search(
        rf"\*\*{re.escape(walks.WALKS[name].title)}\*\* \((\d+)\)", PAGE.read_text(encoding="utf-8")
    )
    assert counts, f"{PAGE.name} has no heading of this walk"
    files = walks.entered(name)
    assert len(files) <= int(counts[1]), sorted(files)


def test_a_run_loads_little_to_its_first_question():
    modules = walks.start().modules
    assert "llm_planning.planners.tree_of_options.algorithm" in modules
    assert len(modules) <= MODULES, modules
