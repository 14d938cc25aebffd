"""Registers this project's domains with Gymnasium, which calls this when it is imported.

It runs in the middle of that import, so it needs nothing of Gymnasium but `register`.
"""

from __future__ import annotations

from gymnasium.envs.registration import register

from llm_planning.environments.catalogue import DOMAINS

_OPEN = "llm_planning.environments.bridges.outwards:open_environment"


def register_domains() -> None:
    """Registers every domain: `minecraft-goals` as `llm_planning/MinecraftGoals-v0`."""
    for name in DOMAINS:
        # Gymnasium adds the namespace: the entry point's name.
        register(f"{name.title().replace('-', '')}-v0", entry_point=_OPEN, kwargs={"domain": name})
