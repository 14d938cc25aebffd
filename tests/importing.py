"""Processes that import what tests import."""

import os
from pathlib import Path


def importing(*folders):
    """The environment of a process that imports from these folders, from `tests`, and as here."""
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    paths = [*map(str, folders), str(Path(__file__).parent), *inherited]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
