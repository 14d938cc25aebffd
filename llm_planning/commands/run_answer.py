"""What `llm-planning run` answers, to people and as JSON."""

from __future__ import annotations

import textwrap
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llm_base.terminal import SafeConsole, literal, say
from llm_planning.outcome import score_text
from llm_planning.roles.oracles import oracle_lines
from llm_serving.request import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llm_planning.outcome import Outcome
    from llm_planning.running import PlannerRun, Prepared

_MOST_LINES = 24
"""Of steps, or of what else a planner found; `-v` shows more."""

_LAST_LINES = 8
"""Of these, at the end: a long run is judged by it."""

_GOAL_LINES = 2
"""Of a goal, about."""

_LEFT_OUT = " ... (-v shows all)"

_WIDEST_ACTION = 44
_NARROWEST = 60

_TRACED = ("problems", "executions")
"""Parts of a trace that `--json` prints: each problem, or each execution with its programs, what
the world said of them, and its verdict."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan, and what the world said of it.

    Attributes:
        action: an option or an action.
        text: the world's words; None where the step was not taken.
        obstacle: why it was refused or done only in part; None if it was done.
    """

    action: str
    text: str | None = None
    reward: float = 0.0
    obstacle: str | None = None

    def __str__(self) -> str:
        """What the world said, on one line."""
        if self.text is None:
            return ""
        words = " ".join((self.text if self.obstacle is None else self.obstacle).split())
        words = words.replace(f"{self.action}: ", "") or "done"
        if self.obstacle is not None:
            return f"failed: {words}"
        return f"({self.reward:+g}) {words}" if self.reward else words


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A run that came to its end.

    Attributes:
        model: answers the roles that have no model of their own.
        models: role -> its own model.
    """

    prepared: Prepared
    record: PlannerRun
    outcome: Outcome
    model: str
    models: Mapping[str, str]

    @property
    def steps(self) -> list[Step]:
        """What was done in the world, or else the plan: of several executions, the first one."""
        outcome = self.outcome
        if "executions" in outcome.trace:
            return list(map(_step_of, outcome.trace["executions"][0]["attempts"]))
        done = [
            Step(event["action"], event["text"], event["reward"], event["obstacle"])
            for event in self.record.events
            if event["type"] == "execution"
        ]
        # Some planners play several times, and the last time is what they answer.
        last = done[len(done) - len(outcome.plan) :]
        if [step.action for step in last] == [*outcome.plan] or not outcome.plan:
            return last
        return done or [Step(action) for action in outcome.plan]

    @property
    def total(self) -> Usage:
        """Of all roles."""
        return sum(self.record.usage.values(), Usage())

    def to_json(self) -> dict[str, Any]:
        """All that `--json` prints."""
        outcome = self.outcome
        return {
            "success": outcome.success,
            "verdict": self._verdict(len(self.steps)),
            "planner": self.prepared.spec.name,
            "domain": self.prepared.domain.name,
            "task": self.prepared.task,
            "goal": outcome.trace.get("goal"),
            "model": self.model,
            "metrics": dict(outcome.metrics),
            "plan": list(outcome.plan),
            "steps": [asdict(step) for step in self.steps],
            **{key: outcome.trace[key] for key in _TRACED if key in outcome.trace},
            "text": outcome.text,
            "oracles": list(outcome.trace.get("oracles", ())),
            "seconds": round(self.record.seconds, 3),
            "usage": {
                "total": _counts(self.total),
                "roles": {role: _counts(usage) for role, usage in self.record.usage.items()},
            },
        }

    def show(self, *, verbose: bool) -> None:
        """Prints it: the goal, the plan with what the world said, the verdict, cost, who answered.

        Args:
            verbose: also how it was found, every metric, and the cost by role.
        """
        console, outcome, prepared = SafeConsole(), self.outcome, self.prepared
        heading = f"{prepared.task} in {prepared.domain.name}, planned by {prepared.spec.name}"
        console.print(literal(heading, "bold"), soft_wrap=True)
        steps = self.steps
        width = max(console.width, _NARROWEST)
        if goal := " ".join(str(outcome.trace.get("goal", "")).split()):
            if not verbose:
                goal = textwrap.shorten(goal, _GOAL_LINES * (width - 5), placeholder=_LEFT_OUT)
            console.print(literal(f"Goal: {goal}"))
        console.print()
        lines = _numbered(steps) if steps else outcome.text.splitlines()
        for line in lines if verbose else _shortened(lines, width):
            console.print(literal(line), soft_wrap=True)
        if lines:
            console.print()
        style = {True: "bold green", False: "bold red", None: "bold"}[outcome.success]
        console.print(literal(self._verdict(len(steps)), style), soft_wrap=True)
        console.print(literal(f"Cost: {self._cost()}"), soft_wrap=True)
        console.print(literal(f"Answered by: {'; '.join(self._answering())}"), soft_wrap=True)
        if verbose:
            say(f"\n{outcome.text}\n" if steps else "")
            for key, value in outcome.metrics.items():
                console.print(literal(f"{key}: {value}"), soft_wrap=True)
            for line in oracle_lines(outcome.trace.get("oracles", ())):
                console.print(literal(f"oracle of {line}"), soft_wrap=True)
            self._show_usage(console)

    def _verdict(self, steps: int) -> str:
        metrics, success = self.outcome.metrics, self.outcome.success
        if self.outcome.verdict:
            return self.outcome.verdict
        if success is None:
            return "No goal was judged; -v shows every figure."
        verdict = "The goal is reached" if success else "The goal is not reached"
        facts = [f"{steps} {'step' if steps == 1 else 'steps'}"] if steps else []
        if (score := metrics.get("score")) is not None:
            facts.append(score_text(score, metrics.get("max_score")))
        if (optimum := metrics.get("optimum")) is not None:
            facts.append(f"the fewest are {optimum}")
        if metrics.get("minutes"):
            facts.append(f"{metrics['minutes']:.1f} minutes of the world")
        if metrics.get("executions", 1) > 1:
            facts.append(f"{metrics['executions_won']} of {metrics['executions']} executions won")
        if (share := metrics.get("actions_tried")) is not None:
            facts.append(f"{share:.2%} of the actions were tried: raise simulations")
        if (why := metrics.get("judging_failed")) is not None:
            facts.append(f"which the world failed to judge ({why})")
        if not success:
            limit = self._limit()
            cause = metrics.get("failure_cause") or metrics.get("failure") or ""
            # Where a limit is the cause, it is said once, with its value.
            facts += filter(None, [limit, "" if limit.startswith(cause) else cause])
        return f"{verdict}{': ' if facts else ''}{', '.join(facts)}."

    def _limit(self) -> str:
        """The setting that ended a run before it reached the goal; empty if none is known to."""
        metrics = self.outcome.metrics
        settings = self.prepared.chosen.planner.to_json()
        ending = str(metrics.get("ending", "horizon"))
        if ending == "horizon" and not self.outcome.trace.get("ended"):
            counts = (("moves", metrics.get("moves")), ("attempts", metrics.get("attempts_1")))
            spent = (key for key, count in counts if count and count == settings.get(key))
            ending = next(spent, "")
        values = (settings[key] for key in (ending, f"max_{ending}") if key in settings)
        return next((f"ran out of {ending} ({value})" for value in values), "")

    def _cost(self) -> str:
        total, seconds = self.total, f"{self.record.seconds:.1f} s"
        if not total.calls:
            return f"no model was asked; {seconds}"
        calls = f"{total.calls:,} {'call' if total.calls == 1 else 'calls'}"
        if total.replayed:
            calls += f" ({total.replayed:,} from the cache)"
        if self.model == "none" and not self.models:
            return f"no model was asked, only the encoder ({calls}); {seconds}"
        return (
            f"{calls}, {total.prompt_tokens:,} tokens read and "
            f"{total.completion_tokens:,} written; {seconds}"
        )

    def _answering(self) -> Iterator[str]:
        """Who answered which roles."""
        ruled = self.outcome.trace.get("oracles", ())
        for erring, who in ((False, "rules"), (True, "rules that err (-v says how)")):
            roles = [rule["role"] for rule in ruled if _errs(rule["oracle"]) is erring]
            if roles:
                yield f"{who} ({', '.join(roles)})"
        asked: dict[str, list[str]] = {}
        for role, usage in self.record.usage.items():
            if usage.calls:
                asked.setdefault(self.models.get(role, self.model), []).append(role)
        for model, roles in asked.items():
            yield f"{'the encoder' if model == 'none' else model} ({', '.join(roles)})"
        if not (ruled or asked):
            yield "nobody, as nothing was asked"

    def _show_usage(self, console: SafeConsole) -> None:
        from rich.table import Table

        table = Table("role", "calls", "replayed", "prompt tokens", "cached", "written", "seconds")
        for column in table.columns[1:]:
            column.justify = "right"
        for role, usage in [*self.record.usage.items(), ("total", self.total)]:
            tokens = usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens
            counts = map(str, (usage.calls, usage.replayed, *tokens))
            table.add_row(literal(role), *counts, f"{usage.seconds:.1f}")
        console.print(table)


def _step_of(attempt: Mapping[str, Any]) -> Step:
    option, feedback = attempt["option"], attempt["feedback"]
    if not attempt["done"]:
        return Step(option, feedback, obstacle=feedback)
    return Step(option, feedback if feedback == "done" else f"done after: {feedback}")


def _errs(oracle: Mapping[str, Any]) -> bool:
    return oracle.get("rate") != 1.0 or bool(oracle.get("rates"))


def _numbered(steps: Sequence[Step]) -> list[str]:
    """The steps with what the world said."""
    digits = len(str(len(steps)))
    column = min(max(len(step.action) for step in steps), _WIDEST_ACTION)
    return [
        f"{number:{digits + 2}}. {step.action:{column}}  {step}".rstrip()
        for number, step in enumerate(steps, start=1)
    ]


def _shortened(lines: Sequence[str], width: int) -> Iterable[str]:
    lines = [line if len(line) <= width else f"{line[: width - 3]}..." for line in lines]
    left = len(lines) - _MOST_LINES
    if left <= 1:
        return lines
    first = _MOST_LINES - _LAST_LINES
    return (*lines[:first], f"  ... {left} more, which -v shows ...", *lines[-_LAST_LINES:])


def _counts(usage: Usage) -> dict[str, int]:
    return {
        "calls": usage.calls,
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
    }
