"""Golden files: runs and what they came to when a person last checked them, as JSON.

`tests/golden/ROOM/NAME.json` holds `why` (the numbers worked out by hand), `run` (what a test of
the room takes) and `found`. `GOLDEN=write pytest ...` puts what the tests find in the place of
`found`: read the difference before it is committed.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "golden"


@dataclass
class Golden:
    """One file."""

    path: Path

    @property
    def run(self):
        return self._content["run"]

    def check(self, found):
        """Compares a run, numbers to ten digits; or writes it down, where that was asked for."""
        found = _rounded(json.loads(json.dumps(found)))
        if os.environ.get("GOLDEN") == "write":
            text = json.dumps(self._content | {"found": found}, indent=1, ensure_ascii=False)
            self.path.write_text(text + "\n", "utf-8")
        assert found == self._content["found"]

    @property
    def _content(self):
        return json.loads(self.path.read_text("utf-8"))


def golden(room):
    """A parameter for every file of a room."""
    paths = sorted((FOLDER / room).glob("*.json"))
    assert paths, f"{room} has no golden files"
    return [pytest.param(Golden(path), id=path.stem) for path in paths]


def _rounded(value):
    if isinstance(value, float):
        return round(value, 10)
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    return [_rounded(inner) for inner in value] if isinstance(value, list) else value
