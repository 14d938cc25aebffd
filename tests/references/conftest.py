"""The comparisons use worlds of `tests/planning`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "planning"))
