"""Runs the checks one after the other, within a time, and writes what each found as it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from llm_base.files import make_folder, write_durably
from llm_planning.gpu_check.checks import PACKING, PROCESS
from llm_serving.vllm_arguments import on_gpu
from llm_serving.vllm_process import remember_check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO

BENCHMARKS = (
    "action_logprobs",
    "structured",
    "batching",
    "prefix_cache",
    "masks",
)
"""Scripts of `benchmarks/`, which only a checkout has."""

_RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
_LOGGING = {"VLLM_LOGGING_LEVEL": "INFO", "VLLM_LOGGING_STREAM": "ext://sys.stderr"}
"""vLLM's log is kept apart from what a check says, on standard output."""

LINES = "gpu-check.jsonl"
"""The file of what the steps said."""

_FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
_TAIL = 20
_LOOK = 0.2
_KILLING = 10.0
_LEAST = 5.0
"""Seconds: between two looks at what a step has said; that killed processes have to end; below
which a step does not begin."""

Verdict = Literal["right", "wrong", "failed", "cut off", "not run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is made in one process.

    Attributes:
        seconds: that it gets of a budget, at most.
        check: of `CHECKS`; "" for a benchmark.
        script: of `benchmarks/`.
        arguments: of the script; {out} is the folder of the results, {seconds} the time of the
            step less what its last size takes.
        environment: of the process.
    """

    seconds: float
    check: str = ""
    script: str = ""
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def _check(name: str, seconds: float, *, runner: str = "") -> Step:
    return Step(seconds=seconds, check=name, environment={_RUNNER: runner} if runner else {})


_SIMILARITY = ("--lines", "/dev/stdout", "--record", "{out}/similarity.json")
STEPS: Mapping[str, Step] = {
    "machine": _check("machine", 60),
    "kernel": _check("kernel", 60),
    "benchmark-similarity_gpu": Step(
        seconds=100, script="similarity_gpu", arguments=("--seconds", "{seconds}", *_SIMILARITY)
    ),
    "engine-7b": _check("engine-7b", 210),
    "scores-7b-v1": _check("scores-7b", 90, runner="0"),
    "engine-135m-process": _check("engine-135m-process", 110),
    "engine-135m": _check("engine-135m", 90),
    "benchmark-similarity_gpu-shapes": Step(
        seconds=60, script="similarity_gpu", arguments=("--tune",)
    ),
    PROCESS: _check(PROCESS, 300),
    "opens-eagerly": _check("opens-eagerly", 120),
    "opens": _check("opens", 150),
    "scores": _check("scores", 150),
    "scores-v1": _check("scores", 150, runner="0"),
    "scores-v2": _check("scores", 150, runner="1"),
    **{
        name: _check(name, 200)
        for name in (
            "scores-preempted",
            "closes",
            "two-engines",
            "constrained",
            "constrained-guidance",
            "adapters",
            "alone-and-together",
        )
    },
    **{f"benchmark-{name}": Step(seconds=600, script=name) for name in BENCHMARKS},
    PACKING: _check(PACKING, 40),
}
"""In the order of their worth; what is right comes before what is fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a step.

    Attributes:
        verdict: "failed" where it ended without an answer or took longer than it may, "cut off"
            where the time for all steps was up.
        reason: of any other verdict than "right".
        printed: what it printed beside lines of JSON, such as tables.
    """

    name: str
    verdict: Verdict
    seconds: float = 0.0
    figures: dict[str, Any] = field(default_factory=dict)
    reason: str = ""
    printed: str = ""


def names_of_checks(*, quick: bool) -> list[str]:
    """All steps in their order; the quick ones are no benchmarks."""
    return [name for name, step in STEPS.items() if step.check or not quick]


def run_checks(
    names: Sequence[str],
    *,
    model: str,
    out: Path,
    limit: float,
    notify: Callable[[str], None],
    minutes: float | None = None,
    python: Sequence[str] = (sys.executable,),
) -> list[Outcome]:
    """Runs steps, each in a process of its own; one that dies ends no other.

    What a step says is in `out` at once: a line of JSON each in gpu-check.jsonl, its log in
    NAME.log. The report of all steps so far is written anew whenever one ends.

    Args:
        names: of `STEPS`.
        out: the folder of the results; those of an earlier call are replaced.
        limit: seconds for each step.
        notify: gets a line before each step and after it.
        minutes: for all steps together; each gets its own `seconds` of them at most. What is left
            then is not run. None for any time.
        python: begins the command of each process.
    """
    make_folder(out)
    outcomes: list[Outcome] = []
    begun = time.monotonic()
    with (out / LINES).open("w", encoding="utf-8") as lines:

        def keep(row: Mapping[str, Any]) -> None:
            at = round(time.monotonic() - begun, 1)
            lines.write(json.dumps({"at": at, "step": name, **row}) + "\n")
            lines.flush()

        for number, name in enumerate(names):
            seconds, budget = limit, None
            if minutes is not None:
                kept = STEPS[PACKING].seconds if PACKING in names[number + 1 :] else 0
                budget = 60 * minutes - (time.monotonic() - begun) - kept
                seconds = min(limit, STEPS[name].seconds, budget)
            if seconds < _LEAST and seconds == budget:
                outcome = Outcome(name=name, verdict="not run", reason="the time for all was up")
            else:
                notify(f"{name} ...")
                running = _Running(name, out=out, model=model, python=python, keep=keep)
                outcome = running.outcome(seconds, cut=seconds == budget)
                notify(f"  {outcome.verdict} in {outcome.seconds:.0f} s")
            keep({"verdict": outcome.verdict, "seconds": outcome.seconds, "reason": outcome.reason})
            outcomes.append(outcome)
            write_report(outcomes, out)
    return outcomes


def remember(outcomes: Sequence[Outcome]) -> None:
    """Records for `process: auto` whether this GPU has passed, if that was looked at.

    It has where an engine core in a process of its own gave right answers, and nothing was wrong.
    """
    verdicts = {outcome.name: outcome.verdict for outcome in outcomes}
    looked = [verdicts[name] for name in (PROCESS, "engine-135m-process") if name in verdicts]
    if not on_gpu() or not {"right", "wrong", "failed"} & set(looked):
        return
    remember_check(passed="right" in looked and not any(map(_is_bad, verdicts.values())))


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """1 if an answer is wrong or a step failed; what was not run, or cut off, is neither."""
    return int(any(_is_bad(outcome.verdict) for outcome in outcomes))


def _is_bad(verdict: Verdict) -> bool:
    return verdict in {"wrong", "failed"}


@dataclass
class _Running:
    """A step while it runs."""

    name: str
    out: Path
    model: str
    python: Sequence[str]
    keep: Callable[[Mapping[str, Any]], None]
    rows: list[dict[str, Any]] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    unread: bytes = b""

    def outcome(self, seconds: float, *, cut: bool) -> Outcome:
        """Runs it for so long at most; `cut` where the time for all steps is up then."""
        step = STEPS[self.name]
        environment = _LOGGING | dict(step.environment)
        if step.script:
            script = _FOLDER / f"{step.script}.py"
            if not script.is_file():
                reason = "benchmarks/ is in a checkout alone"
                return Outcome(name=self.name, verdict="not run", reason=reason)
            most = max(1, round(seconds - 20))
            given = [each.format(out=self.out, seconds=most) for each in step.arguments]
            command = [*self.python, str(script), "--json", *given]
            # A script imports from its own folder; its tables are wide.
            environment |= {"PYTHONSAFEPATH": "", "COLUMNS": "120"}
        else:
            module = "llm_planning.gpu_check.checks"
            command = [*self.python, "-m", module, step.check, self.model, str(self.out)]
        begun = time.monotonic()
        with TemporaryDirectory(prefix="gpu-check-", ignore_cleanup_errors=True) as scratch:
            # Whatever a step that is killed leaves behind goes with the folder.
            given_environment = os.environ | environment | {"TMPDIR": scratch}
            code = self._ended(command, given_environment, Path(scratch) / "said", seconds)
        taken = time.monotonic() - begun
        verdict = self._verdict(code, cut=cut, checked=bool(step.check))
        reasons = [
            f"{row['about']}: {row['reason']}" if row.get("about") else row["reason"]
            for row in self.rows
            if row.get("reason")
        ]
        if code != 0:
            end = f"not ended after {seconds:.0f} s" if code is None else f"exit code {code}"
            reasons += [end, *self._logged()]
        elif verdict == "failed":
            reasons.append("it ended without an answer")
        elif verdict == "not run" and not reasons:
            reasons.append("nothing was measured here")
        return Outcome(
            name=self.name,
            verdict=verdict,
            seconds=taken,
            figures=self._figures(),
            reason="\n".join(reasons),
            printed="\n".join(self.printed),
        )

    def _verdict(self, code: int | None, *, cut: bool, checked: bool) -> Verdict:
        rights = [row.get("right") for row in self.rows]
        if False in rights:
            return "wrong"
        if code is None:
            return "cut off" if cut else "failed"
        if code != 0 or (checked and not rights):
            return "failed"
        if checked:
            return "right" if True in rights else "not run"
        unmeasured = bool(self.rows) and self.rows[-1].get("ratio", 0) is None
        return "not run" if unmeasured else "right"

    def _figures(self) -> dict[str, Any]:
        """Of a check; of one that asks several things, by what it asks; a benchmark's last row."""
        if not STEPS[self.name].check:
            return self.rows[-1] if self.rows else {}
        figures: dict[str, Any] = {}
        for row in self.rows:
            figures |= {row["about"]: row["figures"]} if row["about"] else row["figures"]
        return figures

    def _logged(self) -> list[str]:
        log = self.out / f"{self.name}.log"
        return log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]

    def _ended(
        self, command: Sequence[str], environment: Mapping[str, str], said: Path, limit: float
    ) -> int | None:
        """Exit code of the process, None where it took too long.

        Whatever runs in its session would hold memory of the GPU, and is killed.
        """
        with (
            (self.out / f"{self.name}.log").open("wb") as log,
            said.open("ab") as output,  # which several processes may write to
            said.open("rb") as heard,
            subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,
            ) as child,
        ):
            try:
                end = time.monotonic() + limit
                while child.poll() is None and (left := end - time.monotonic()) > 0:
                    with suppress(subprocess.TimeoutExpired):
                        child.wait(min(_LOOK, left))
                    self._hear(heard)
                return child.poll()
            finally:
                _kill(child.pid)
                child.wait()
                self._hear(heard)
                if self.unread:  # it ended, or was killed, within a line
                    self.printed.append(self.unread.decode("utf-8", "replace"))

    def _hear(self, heard: BinaryIO) -> None:
        """Keeps the lines that have been said whole since the last time."""
        *lines, self.unread = (self.unread + heard.read()).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace")
            with suppress(ValueError):
                row = json.loads(text)
                if isinstance(row, dict):
                    self.rows.append(row)
                    self.keep(row)
                    continue
            self.printed.append(text)


def _kill(session: int) -> None:
    """Kills the processes of a session, and waits until their memory is free."""
    deadline = time.monotonic() + _KILLING
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
    while (left := [*_members(session)]) and time.monotonic() < deadline:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.02)


def _members(session: int) -> Iterator[int]:
    """Processes of a session that live."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            # State, parent, group and session follow the name, which may hold any sign.
            state, _, _, own, *_ = (process / "stat").read_text().rpartition(")")[2].split()
            if own == str(session) and state not in {"Z", "X"}:
                yield int(process.name)


def write_report(outcomes: Sequence[Outcome], folder: Path) -> str:
    """Writes gpu-check.json and gpu-check.txt whole, and returns the text."""
    lines = []
    for outcome in outcomes:
        lines.append(f"{outcome.name:<31} {outcome.verdict:<8} {outcome.seconds:7.1f} s")
        lines += [f"    {line}" for line in outcome.reason.splitlines()]
        lines += [f"    {name}: {value}" for name, value in outcome.figures.items()]
        lines += [f"    {line}" for line in outcome.printed.splitlines()]
    text = "\n".join(lines) + "\n"
    content = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
    write_durably(folder / "gpu-check.json", content.encode())
    write_durably(folder / "gpu-check.txt", text.encode())
    return text
