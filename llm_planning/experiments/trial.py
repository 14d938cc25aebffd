"""One trial: its parts, its key, its result, and what a ledger keeps of it."""

from __future__ import annotations

import hashlib
import json
import re
import traceback
from collections.abc import Mapping  # noqa: TC003 (a field of a trial)
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, FailFast, Field

from llm_planning.own_code import describe_error, is_ours, locate_error
from llm_planning.trace_file import encode_trace, outcome_json
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.events import Event

LONGEST_CONTENT = 2**21
"""Bytes of the JSON of a trial, of its result or of a sweep, at most."""

LONGEST_TRACE = 2**28
"""Bytes of a trace's lines, at most: a small file can unpack to more than the memory holds."""

Count: TypeAlias = Annotated[int, Field(ge=0, le=2**53)]
"""A number of things that is exact as a float."""

Seconds: TypeAlias = Annotated[float, Field(ge=0, lt=1e10)]
"""A duration of up to three centuries."""

Moment: TypeAlias = Annotated[float, Field(ge=0, lt=253_402_300_800)]
"""Seconds since the epoch, before the year 10000."""

_KEY_VERSION = 2

# A backslash that is itself escaped, a pair of surrogates, or the backslash of a lone surrogate.
_SURROGATE = re.compile(r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\(?=ud[89a-f])")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Planner x domain x task x models x seed x settings, and the hash of the user's own code.

    Attributes:
        model: any name that `find_config` takes, or "none".
        role_models: role -> model, for roles with their own model.
        settings: all settings of planner and domain, defaults included, so that a default makes the
            same trial whether or not it was written down.
        engines: model -> its configuration when the sweep was read, as JSON, so that other settings
            of an engine make another trial. "none" has no configuration.
        source: hash of the user's own files; see `running.source_of`.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True, defer_build=True)

    planner: str
    domain: str
    task: str
    model: str
    role_models: Mapping[str, str] = field(default_factory=dict)
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)
    engines: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
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

    The pool that runs a trial makes it. The ledger reads back what `KeptResult` has of it.

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
        files: what the user's own code read from its folder, from the working directory -> hash;
            None for what it wrote there.
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
    files: Mapping[str, str | None] = field(default_factory=dict)

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
        names = trial.planner, trial.domain
        theirs = trial.source and not is_ours(error)
        return cls(
            trial=trial,
            status="failed",
            usage=usage or {},
            events=events,
            trace={"raised": "".join(traceback.format_exception(error)).splitlines()},
            error=locate_error(error, names) if theirs else describe_error(error),
            started=started,
            seconds=seconds,
        )

    def trace_lines(self) -> bytes | None:
        """The trace as a file has it; None if the planner left none.

        Raises:
            ValueError: it holds a value that is not JSON, or is too large.
        """
        if not (self.trace or self.events):
            return None
        ended = outcome_json(
            success=self.success,
            plan=self.plan,
            metrics=self.metrics,
            unrepeatable=self.unrepeatable,
            seconds=self.seconds,
        )
        lines = encode_trace(
            self.trace,
            events=self.events,
            header=self.trial.to_json(),
            outcome=ended if self.status == "done" else None,
        )
        if len(lines) > LONGEST_TRACE:
            raise ValueError(f"its trace has more than {LONGEST_TRACE} bytes")
        return lines


class _KeptUsage(BaseModel):
    """`Usage` with bounds."""

    model_config = ConfigDict(extra="forbid", strict=True)

    calls: Count
    prompt_tokens: Count
    cached_tokens: Count
    completion_tokens: Count
    replayed: Count
    seconds: Seconds


class KeptResult(BaseModel):
    """What a ledger keeps of a `TrialResult`; a stranger may have written it."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    status: Literal["done", "failed"]
    success: bool | None
    plan: Annotated[tuple[str, ...], FailFast()]
    metrics: dict[str, Any]
    unrepeatable: Annotated[frozenset[str], FailFast()]
    usage: dict[str, _KeptUsage]
    error: str | None
    started: Moment
    seconds: Seconds
    files: dict[str, str | None] = {}

    @classmethod
    def encode(cls, result: TrialResult) -> str:
        """The JSON of a result, which `model_validate_json` takes.

        Raises:
            TypeError: a value is not JSON.
            ValueError: a value is not JSON or not possible, or the whole is too large.
            RecursionError: a value is nested too deeply.
        """
        fields = {name: getattr(result, name) for name in cls.model_fields}
        fields["unrepeatable"] = sorted(result.unrepeatable)
        fields["usage"] = {role: asdict(spent) for role, spent in result.usage.items()}
        if not fields["files"]:
            del fields["files"]  # as nearly always
        content = with_utf8(limited(json.dumps(fields)))
        cls.model_validate_json(content)
        return content

    def of(self, trial: Trial) -> TrialResult:
        """The result of a trial, without its trace, events and prompts."""
        usage = {role: Usage(**dict(spent)) for role, spent in self.usage.items()}
        return TrialResult(trial=trial, **(dict(self) | {"usage": usage}))


def with_utf8(content: str) -> str:
    """JSON in ASCII whose texts have UTF-8: the escape of a lone surrogate becomes its text."""
    return _SURROGATE.sub(lambda match: match[1] or r"\\", content)


def limited(content: str) -> str:
    """A text in ASCII that a ledger takes.

    Raises:
        ValueError: it is longer.
    """
    if len(content) > LONGEST_CONTENT:
        raise ValueError(f"it has more than {LONGEST_CONTENT} bytes")
    return content
