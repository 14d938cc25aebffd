"""Processes that import what this one imports, and from more folders."""

import os


def importing(*folders):
    """The environment of such a process: the inherited one, with these folders before its own."""
    inherited = filter(None, [os.environ.get("PYTHONPATH")])
    return os.environ | {"PYTHONPATH": os.pathsep.join([*map(str, folders), *inherited])}
