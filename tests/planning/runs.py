"""A run in a world that a test made, who answers in it, and how models write answers."""

import json

import yaml

from llm_planning.roles import Engines, metered
from llm_planning.specs import Run


def run_in(world, settings, engine=None, *, domain="test", task="test", seed=0):
    return Run(
        domain=domain,
        task=task,
        world=world,
        engines=metered(Engines(engine)) if engine else Engines(engine),
        settings=settings,
        seed=seed,
    )


def roles_file(folder, *right, **roles):
    """A file of roles: rules answer those that are right, and others as is said."""
    path = folder / "roles.yaml"
    path.write_text(yaml.safe_dump({**dict.fromkeys(right, "rules"), **roles}))
    return str(path)


def compact(value):
    return json.dumps(value, separators=(",", ":"))
