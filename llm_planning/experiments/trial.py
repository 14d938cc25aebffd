"""One trial: its parts, its key and its result."""

from __future__ import annotations

import hashlib
import json
import traceback
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from llm_planning.own_code import describe_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.events import Event
    from llm_serving.request import Usage

_KEY_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Planner x domain x task x models x seed x settings, and the hash of the user's own code.

    Attributes:
        planner: name of the planner.
        domain: name of the domain.
        task: a task of the domain.
        model: any name that `find_config` takes, or "none".
        role_models: role -> model, for roles with their own model.
        settings: all settings of planner and domain, defaults included, so that a default makes the
            same trial whether or not it was written down.
        engines: model -> its configuration when the sweep was read, as JSON, so that other settings
            of an engine make another trial. "none" has no configuration.
        source: hash of the user's own files; see `running.source_of`.
    """

    planner: str
    domain: str
    task: str
    model: str
    role_models: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        """The trial as JSON values, in a fixed order."""
        return {
            "planner": self.planner,
            "domain": self.domain,
            "task": self.task,
            "model": self.model,
            "role_models": dict(sorted(self.role_models.items())),
            "seed": self.seed,
            "settings": dict(sorted(self.settings.items())),
            "engines": dict(sorted(self.engines.items())),
            "source": self.source,
        }

    @cached_property
    def key(self) -> str:
        """SHA-256 of all fields, in hexadecimal: trials with equal keys are the same."""
        content = json.dumps([_KEY_VERSION, self.to_json()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """The result of one attempt at a trial.

    The pool that runs a trial makes it. The ledger reads it back without its last three fields.

    Attributes:
        status: `done` if the planner ran to its end, `failed` if it raised.
        success: whether the goal was reached; None if it was not judged.
        plan: the options or actions, in order.
        metrics: numbers and words that describe the run.
        unrepeatable: names of the metrics that may differ in another run with the same answers;
            see `Outcome`.
        usage: calls and tokens by role.
        error: type and message of the error of a failed trial; None for a done one.
        started: seconds since the epoch.
        seconds: duration of this attempt.
        trace: the planner's account of its decisions as JSON values; stored beside the ledger.
        events: the recorded events in order; stored in the same file.
        prompts: role -> the fixed texts that its questions began with, as they were asked.
    """

    trial: Trial
    status: Literal["done", "failed"]
    success: bool | None = None
    plan: tuple[str, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    unrepeatable: frozenset[str] = frozenset()
    usage: Mapping[str, Usage]
    error: str | None = None
    started: float
    seconds: float
    trace: Mapping[str, Any] = field(default_factory=dict)
    events: Sequence[Event] = ()
    prompts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def failed(
        cls,
        trial: Trial,
        error: BaseException,
        *,
        started: float,
        seconds: float,
        usage: Mapping[str, Usage] | None = None,
        events: Sequence[Event] = (),
    ) -> Self:
        """The result of a trial that raised an error."""
        return cls(
            trial=trial,
            status="failed",
            usage=usage or {},
            events=events,
            trace={"raised": "".join(traceback.format_exception(error)).splitlines()},
            error=describe_error(error),
            started=started,
            seconds=seconds,
        )
