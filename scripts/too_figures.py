"""Draws how plans of Tree of Options and its baselines were executed: Figures 2 and 5 to 9.

    python scripts/too_figures.py sweeps/too-table1 --out docs/results
    python scripts/too_figures.py sweeps/too-table5 --out docs/results       # Figure 9
    python scripts/too_figures.py sweeps/too-single --out . --seed 1000 --where settings.d=20

It reads the traces of a ledger and draws the first execution of one trial of every method and task:
the one with the smallest seed, or with `--seed`. `--where` chooses among trials that differ in
settings; a planner without such a setting is drawn as it is. Each figure is a PNG and an SVG, the
same for the same traces. Figures without a trial are left out. Figure 3 is a table's plot:
`llm-planning report paper too figure3 --plot figure3.svg`.

    Figures 2, 5, 6   x: attempts used; y: options. Dashed: the plan, one attempt an option. Solid:
                      what was executed; an attempt may execute several options on the way to its
                      own. A white mark is an attempt that left its option undone.
    Figure 9          the same of ToO without its parts
    Figure 7          the share of the attempts that each option of a plan took
    Figure 8          the options of a plan beside those that were executed; a white box was not
                      completed. Above it the attempts of the paper, a mean over its runs (Table 1)

Source: Tree of Options, Sections 4.2, C.1 and C.2. The paper does not name the tasks of Figures 5
and 6: here 5 has those that need animals, beside that of Figure 2, and 6 has those that craft tools
first.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import yaml
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from llm_base.files import write_durably
from llm_planning.experiments.ledger import Ledger, LedgerError
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.plots import encoded
from llm_planning.experiments.runs import (
    UnknownFieldError,
    check_field_name,
    runs_of,
    trial_record,
    varying,
)
from llm_planning.trace_file import summary_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from matplotlib.axes import Axes

    from llm_planning.experiments.ledger import LedgerRow
    from llm_planning.experiments.published import PublishedTable

METHODS = ("react-action", "cot", "react-option", "tot-mcts", "too", "too-plus")
"""The planners that are drawn, from left to right."""

ABLATIONS = ("too", "too-no-wm", "too-no-fc")
"""The planners of Figure 9."""

ONE_SHOT = ("cot", "tot-mcts", "too", "too-no-wm", "too-no-fc")
"""Those whose plan is made before it is executed: they have a dashed line."""

DYNAMICS = {
    "too-figure2": (METHODS, ("obtain-leather",)),
    "too-figure5": (METHODS, ("cook-meat", "shear-a-sheep", "milk-a-cow")),
    "too-figure6": (
        METHODS,
        (
            "collect-a-lava-bucket",
            "craft-a-golden-sword",
            "craft-a-compass",
            "craft-a-diamond-pickaxe",
        ),
    ),
    "too-figure9": (
        ABLATIONS,
        ("obtain-leather", "cook-meat", "shear-a-sheep", "milk-a-cow"),
    ),
}
"""The figures of execution dynamics, their planners and their tasks."""

DISTRIBUTION = ("too-figure7", "obtain-leather")

CASE = ("too-figure8", ("cot", "react-option", "tot-mcts", "too"), "obtain-leather")
"""Figure 8: its planners and its task."""

# Okabe's and Ito's colours, which all kinds of colour vision tell apart.
_EXECUTED = "#0072B2"
_PLANNED = "#E69F00"
_BESIDE = "#999999"
_DONE = "#D6E6F2"

_REST = "not in the plan"
_SMALL = 7.0
"""Font size of labels, in points."""


class FigureError(ValueError):
    """A figure cannot be drawn from a ledger."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One execution of an option's policy.

    Attributes:
        actions: the options that it executed, in order; its own if the world was not touched.
        planned: its place in the plan, from 0; None if it is in no plan.
        done: whether the option was completed.
    """

    actions: tuple[str, ...]
    planned: int | None
    done: bool


@dataclass(frozen=True, slots=True)
class Execution:
    """One execution of a plan.

    Attributes:
        plan: its options as texts; empty for a method that plans while it executes.
        attempts: in their order.
        won: whether the world says that the goal was reached.
    """

    plan: tuple[str, ...]
    attempts: tuple[Attempt, ...]
    won: bool

    @property
    def title(self) -> str:
        """How it ended."""
        n = len(self.attempts)
        counted = f"{n} attempt" if n == 1 else f"{n} attempts"
        return f"reached, {counted}" if self.won else f"not reached, {counted}"

    @property
    def levels(self) -> Mapping[str, int]:
        """Option -> its place on the y axis: those of the plan first, then by first attempt."""
        executed = (action for attempt in self.attempts for action in attempt.actions)
        return {
            option: place for place, option in enumerate(dict.fromkeys((*self.plan, *executed)))
        }


def read_executions(
    ledger: Ledger, *, where: Mapping[str, Any], seed: int | None
) -> dict[tuple[str, str], Execution]:
    """The first execution of one trial of every planner and task.

    Args:
        ledger: open.
        where: field of a trial -> the value that it must have, if it has the field.
        seed: of the trials; None for the smallest of each planner and task.

    Raises:
        FigureError: several trials differ in settings alone, or none has executed a plan.
        LedgerError: the ledger cannot be read.
    """
    chosen: dict[tuple[str, str], LedgerRow] = {}
    for row in ledger.rows():
        trial = row.result.trial
        record = trial_record(trial)
        fitting = runs_of([{**record, "status": "done"}]).select(
            {field: (value,) for field, value in where.items() if field in record}
        )
        if row.result.status != "done" or not fitting.done or seed not in {None, trial.seed}:
            continue
        of = (trial.planner, trial.task)
        other = chosen.get(of)
        if other is not None and other.result.trial.seed == trial.seed:
            _refuse_several(other, row)
        if other is None or trial.seed < other.result.trial.seed:
            chosen[of] = row
    found = {}
    for of, row in chosen.items():
        executions = summary_of(ledger.read_events(row)).get("executions")
        if executions:
            plan = row.result.plan if of[0] in ONE_SHOT else ()
            found[of] = _execution(executions[0], plan)
    if not found:
        raise FigureError(
            f"no trial of {ledger.folder} that fits has executed a plan: name a ledger of Tree of "
            "Options, or fewer conditions"
        )
    return found


def _refuse_several(earlier: LedgerRow, other: LedgerRow) -> None:
    trials = [row.result.trial for row in (earlier, other)]
    fields = [field for field in varying(map(trial_record, trials)) if field != "planner"]
    raise FigureError(
        f"{trials[0].planner} has several trials of {trials[0].task} with seed {trials[0].seed}: "
        f"choose by --where {' --where '.join(f'{field}=VALUE' for field in fields)}"
    )


def _execution(trace: Mapping[str, Any], plan: Sequence[str]) -> Execution:
    attempts = tuple(
        Attempt(
            # A trace without the actions of an attempt names its option alone.
            tuple(attempt.get("actions") or [attempt["option"]]),
            attempt["planned"] if attempt["planned"] < len(plan) else None,
            bool(attempt["done"]),
        )
        for attempt in trace["attempts"]
    )
    return Execution(tuple(plan), attempts, bool(trace["won"]))


def dynamics(
    executions: Mapping[tuple[str, str], Execution], methods: Sequence[str], tasks: Sequence[str]
) -> Figure | None:
    """Figures 2, 5, 6 and 9: a row of panels for each task, a panel for each method.

    Returns:
        The figure; None if no method has an execution of any of the tasks.
    """
    methods = [method for method in methods if any((method, task) in executions for task in tasks)]
    rows = [task for task in tasks if any((method, task) in executions for method in methods)]
    if not methods:
        return None
    figure, grid = _canvas(len(rows), len(methods), width=3.5, height=3.0)
    for panels, task in zip(grid, rows, strict=True):
        for axes, method in zip(panels, methods, strict=True):
            execution = executions.get((method, task))
            if execution is None:
                axes.set_axis_off()
            else:
                _draw_dynamics(axes, execution, f"{_name(method)}, {_spaced(task)}")
    axes = grid[0][0]
    handles = [
        *axes.plot([], [], color=_PLANNED, linewidth=3.0, linestyle=(0, (2, 1)), label="planned"),
        *axes.plot([], [], color=_EXECUTED, marker="o", markersize=4, label="executed"),
        *axes.plot(
            [],
            [],
            color=_EXECUTED,
            marker="o",
            markersize=4,
            markerfacecolor="white",
            label="executed, not completed",
        ),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_dynamics(axes: Axes, execution: Execution, title: str) -> None:
    levels = execution.levels
    planned = [levels[option] for option in execution.plan]
    # The actions of an attempt share its step on the x axis; the last one ends it.
    executed = [
        (n + place / len(attempt.actions), levels[action])
        for n, attempt in enumerate(execution.attempts)
        for place, action in enumerate(attempt.actions, start=1)
    ]
    axes.plot(
        range(1, len(planned) + 1), planned, color=_PLANNED, linewidth=3.0, linestyle=(0, (2, 1))
    )
    axes.plot(
        [x for x, _ in executed], [level for _, level in executed], color=_EXECUTED, linewidth=1.2
    )
    for done, face in ((True, _EXECUTED), (False, "white")):
        ends = [
            (n, levels[attempt.actions[-1]])
            for n, attempt in enumerate(execution.attempts, start=1)
            if attempt.done == done
        ]
        axes.scatter(
            [n for n, _ in ends],
            [level for _, level in ends],
            s=16.0,
            facecolors=face,
            edgecolors=_EXECUTED,
            zorder=3,
        )
    axes.set_yticks(range(len(levels)), levels, fontsize=_SMALL, parse_math=False)
    axes.set_xlim(0.0, max(len(planned), len(execution.attempts), 1) + 1.0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.tick_params(axis="x", labelsize=_SMALL)
    axes.set_xlabel("attempts", fontsize=_SMALL)
    axes.set_title(f"{title}\n{execution.title}", fontsize=_SMALL + 1.0, parse_math=False)
    axes.grid(visible=True, linewidth=0.3, alpha=0.6)


def distribution(executions: Mapping[tuple[str, str], Execution], task: str) -> Figure | None:
    """Figure 7: a panel for each method that plans once, a bar for each option of its plan.

    Returns:
        The figure; None if no method has an execution of the task.
    """
    found = {
        method: executions[method, task]
        for method in METHODS
        if method in ONE_SHOT and (method, task) in executions
    }
    if not found:
        return None
    figure, (panels,) = _canvas(1, len(found), width=3.8, height=3.2)
    for axes, (method, execution) in zip(panels, found.items(), strict=True):
        _draw_shares(axes, execution)
        title = f"{_name(method)}, {_spaced(task)}\n{execution.title}"
        axes.set_title(title, fontsize=_SMALL + 1.0, parse_math=False)
    widest = max(axes.get_xlim()[1] for axes in panels)
    for axes in panels:
        axes.set_xlim(0.0, min(1.15, widest))
    return figure


def shares(execution: Execution) -> list[tuple[str, int]]:
    """The options of a plan, numbered, and the attempts that each took.

    Attempts at other options come last, if there are any.
    """
    counts = [0] * len(execution.plan)
    rest = 0
    for attempt in execution.attempts:
        if attempt.planned is None:
            rest += 1
        else:
            counts[attempt.planned] += 1
    named = [f"{place}. {option}" for place, option in enumerate(execution.plan, start=1)]
    return [*zip(named, counts, strict=True), *([(_REST, rest)] if rest else [])]


def _draw_shares(axes: Axes, execution: Execution) -> None:
    counted = shares(execution)
    total = max(1, len(execution.attempts))
    bars = axes.barh(
        range(len(counted)),
        [count / total for _, count in counted],
        color=[_BESIDE if name == _REST else _EXECUTED for name, _ in counted],
    )
    axes.bar_label(bars, [str(count) for _, count in counted], padding=2.0, fontsize=_SMALL)
    axes.set_yticks(
        range(len(counted)), [name for name, _ in counted], fontsize=_SMALL, parse_math=False
    )
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
    axes.tick_params(axis="x", labelsize=_SMALL)
    axes.set_xlabel("share of the attempts", fontsize=_SMALL)


def case(
    executions: Mapping[tuple[str, str], Execution], methods: Sequence[str], task: str
) -> Figure | None:
    """Figure 8: a panel for each method, its plan on the left and what was executed on the right.

    Returns:
        The figure; None if no method has an execution of the task.
    """
    found = {method: executions[method, task] for method in methods if (method, task) in executions}
    if not found:
        return None
    rows = max(
        len(column) for execution in found.values() for column in (execution.plan, steps(execution))
    )
    published = {row.label: row.published for row in find_paper("too").table("table1").rows}
    figure, (panels,) = _canvas(1, len(found), width=3.2, height=0.4 * rows + 0.8)
    for axes, (method, execution) in zip(panels, found.items(), strict=True):
        name = _name(method)
        of = f"{_spaced(task).capitalize()}: {name}"
        title = f"{name}\nhere: {execution.title}\npaper: {published[of]['attempts']} attempts"
        axes.set_title(title, fontsize=_SMALL + 1.0, parse_math=False)
        _draw_case(axes, execution, rows)
    return figure


def steps(execution: Execution) -> list[tuple[str, bool]]:
    """What was executed, in order, and whether it was completed.

    Attempts at the same options with the same end are one step, which says how many there were.
    """
    each = [("\n".join(attempt.actions), attempt.done) for attempt in execution.attempts]
    runs = [(step, len(list(same))) for step, same in groupby(each)]
    return [(text if n == 1 else f"{text} ({n} attempts)", done) for (text, done), n in runs]


def _draw_case(axes: Axes, execution: Execution, rows: int) -> None:
    planned = [(option, _PLANNED, "white") for option in execution.plan]
    executed = [(text, _EXECUTED, _DONE if done else "white") for text, done in steps(execution)]
    axes.set_axis_off()
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(-rows - 0.5, 0.5)
    heads = ("planned" if planned else "planned one by one", "executed")
    for x, head, column in zip((0.25, 0.75), heads, (planned, executed), strict=True):
        axes.text(x, 0.0, head, ha="center", va="center", fontsize=_SMALL, color=_BESIDE)
        for row, (text, edge, face) in enumerate(column, start=1):
            axes.text(
                x,
                -row,
                text,
                ha="center",
                va="center",
                fontsize=_SMALL,
                parse_math=False,
                bbox={"boxstyle": "round", "edgecolor": edge, "facecolor": face},
            )


def _canvas(down: int, across: int, *, width: float, height: float) -> tuple[Figure, Any]:
    """A figure without a display, and its panels, shape [down][across]."""
    figure = Figure(figsize=(width * across, height * down + 0.4), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(down, across, squeeze=False)


def _name(method: str) -> str:
    """The method's name in tables."""
    return _named().name(method)


@cache
def _named() -> PublishedTable:
    return find_paper("too").table("oracles")


def _spaced(task: str) -> str:
    return task.replace("-", " ")


def figures(executions: Mapping[tuple[str, str], Execution]) -> Iterable[tuple[str, Figure]]:
    """Names of files and the figures in them, those that have something to show."""
    # A ledger of ablations has no other figure's methods, but ToO.
    others = {method for method, _ in executions} - {"too"}
    made = {
        name: dynamics(executions, methods, tasks)
        for name, (methods, tasks) in DYNAMICS.items()
        if others.intersection(methods) or not others
    }
    name, task = DISTRIBUTION
    if others.intersection(METHODS) or not others:
        made[name] = distribution(executions, task)
        made[CASE[0]] = case(executions, *CASE[1:])
    return [(name, figure) for name, figure in made.items() if figure is not None]


def _condition(text: str) -> tuple[str, Any]:
    field, equals, value = text.partition("=")
    try:
        check_field_name(field)
    except UnknownFieldError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIELD=VALUE")
    return field, yaml.safe_load(value)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the figures of a ledger.

    Returns:
        0; or 1 with one line on stderr if there is nothing to draw.
    """
    parser = argparse.ArgumentParser(description="Draws Figures 2 and 5 to 9.")
    parser.add_argument("ledger", type=Path, help="folder of a sweep")
    parser.add_argument("--out", type=Path, required=True, help="folder of the pictures")
    parser.add_argument("--seed", type=int, help="of the trials; without it, the smallest")
    parser.add_argument(
        "--where", type=_condition, action="append", default=[], metavar="FIELD=VALUE"
    )
    chosen = parser.parse_args(arguments)
    try:
        with Ledger.open(chosen.ledger) as ledger:
            executions = read_executions(ledger, where=dict(chosen.where), seed=chosen.seed)
    except (FigureError, LedgerError) as error:
        print(error, file=sys.stderr)
        return 1
    chosen.out.mkdir(parents=True, exist_ok=True)
    # Texts stay texts, which keeps the files small and lets a reader search them.
    with mpl.rc_context({"svg.fonttype": "none"}):
        for name, figure in figures(executions):
            for kind in ("png", "svg"):
                path = chosen.out / f"{name}.{kind}"
                write_durably(path, encoded(figure, kind))
                print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
