"""A process that runs the code of many folders, one after the other, forgets what it has run."""

import sys
from contextlib import contextmanager

from llm_planning import own_code


@contextmanager
def forgotten():
    """Forgets at the end which files of users were run meanwhile."""
    path = list(sys.path)
    try:
        yield
    finally:
        for folder, tree in own_code._ran.items():
            own_code._forget(tree)
            for name, module in list(sys.modules.items()):
                fields = getattr(module, "__dict__", {})  # a lazy one would load at `getattr`
                places = fields.get("__path__", ()) if fields.get("__file__") is None else ()
                if any(place.startswith(f"{folder}/") for place in places):
                    del sys.modules[name]
        own_code._ran.clear()
        sys.path[:] = path
