"""One trial: what is run, the key that names it, and what came of it."""

from __future__ import annotations

import hashlib
import json
import traceback
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from llm_planning.own_code import told_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.trace import Event
    from llm_serving.request import Usage

_KEY_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Planner x domain x task x models x seed x settings, and the code of the user's own.

    Attributes:
        planner: its name, as `PlannerSpec.recorded_as` has it.
        domain: where it plans.
        task: one of the domain's.
        model: who answers; any name that `find_config` takes, or "none".
        role_models: role -> who answers it, of the roles that another model answers.
        seed: of every draw.
        settings: the planner's and the domain's, all of them, defaults included: two trials are the
            same trial whether or not a default was written down.
        engines: model -> the configuration that its name meant when the sweep was read, as JSON:
            other settings of an engine make another trial. "none" has no configuration.
        source: of a user's own files, the hash; see `running.source_of`.
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

    @classmethod
    def of_version_1(cls, fields: Mapping[str, Any]) -> Self:
        """A trial of a ledger of version 1, in the words of today.

        It knew one other model, for the roles of the world model, and did not know how models were
        configured.
        """
        world = fields["world_model"]
        renamed = {("textgame", name): f"mc-dml-{name}" for name in ("puct", "uct")}
        return cls(
            planner=renamed.get((fields["environment"], fields["planner"]), fields["planner"]),
            domain=fields["environment"],
            task=fields["task"],
            model=fields["model"],
            role_models=dict.fromkeys(("dynamics", "reward", "termination"), world)
            if world
            else {},
            seed=fields["seed"],
            settings=fields["settings"],
        )

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
        """SHA-256, in hexadecimal, of everything above: equal keys are the same trial."""
        content = json.dumps([_KEY_VERSION, self.to_json()], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What came of one attempt at a trial.

    The pool that runs a trial makes it, and the ledger reads it back without its last three fields.

    Attributes:
        trial: what was run.
        status: `done`: the planner ran to its end; `failed`: it raised.
        success: whether the goal was reached; None where nobody judged it.
        plan: the options or actions, in order.
        metrics: numbers and words that describe the run.
        unrepeatable: names of the metrics that another run with the same answers may have
            different; see `Outcome`.
        usage: what it asked, by role.
        error: type and message of what a failed trial raised, None otherwise.
        started: seconds since the epoch.
        seconds: how long this attempt took.
        trace: what the planner says of its decisions, JSON-able; goes to a file beside the ledger.
        events: what happened, one after the other; goes to the same file.
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
        """The result of a trial that something was raised in."""
        return cls(
            trial=trial,
            status="failed",
            usage=usage or {},
            events=events,
            trace={"raised": "".join(traceback.format_exception(error)).splitlines()},
            error=told_of(error),
            started=started,
            seconds=seconds,
        )
