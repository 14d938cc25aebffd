"""One trial: what is run, the key that names it, and what came of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_serving.request import Usage

_KEY_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Planner x environment x task x model x seed x settings.

    Attributes:
        planner: a registered name.
        environment: where it plans.
        task: one of the planner's tasks.
        model: who answers; any name that `find_config` takes.
        world_model: who answers the world model's roles, if that is another model.
        seed: of every draw.
        settings: the planner's settings, all of them, defaults included: two trials are the same
            trial whether or not a default was written down.
    """

    planner: str
    environment: str
    task: str
    model: str
    world_model: str | None = None
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The trial as JSON values, in a fixed order."""
        return {
            "planner": self.planner,
            "environment": self.environment,
            "task": self.task,
            "model": self.model,
            "world_model": self.world_model,
            "seed": self.seed,
            "settings": dict(sorted(self.settings.items())),
        }

    @cached_property
    def key(self) -> str:
        """SHA-256, in hexadecimal, of everything above: equal keys are the same trial."""
        content = json.dumps([_KEY_VERSION, self.to_json()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What came of one trial, the attempts that failed included.

    Attributes:
        trial: what was run.
        status: `done`: the planner ran to its end; `failed`: it raised.
        success: whether the goal was reached; None where nobody judged it.
        plan: the options or actions, in order.
        metrics: numbers and words that describe the run.
        usage: what it asked, by role.
        trace: everything that was decided, JSON-able; goes to a file beside the ledger.
        error: type and message of what a failed trial raised, None otherwise.
        started: seconds since the epoch.
        seconds: how long this attempt took.
    """

    trial: Trial
    status: Literal["done", "failed"]
    success: bool | None
    plan: tuple[str, ...]
    metrics: Mapping[str, Any]
    usage: Mapping[str, Usage]
    trace: Mapping[str, Any]
    error: str | None
    started: float
    seconds: float
