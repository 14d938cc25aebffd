"""What a paper published, as data: how its tables and figures are written down here.

A paper is a folder of `configs` with a `paper.yaml`: its `title`, its `citation` and the `setup`
that its tables share. A table or figure NAME of it is

    NAME.published.yaml   the published figures, and how each is measured: this module
    NAME.yaml             the sweep that measures it; NAME-*.yaml are smaller or larger ones
    NAME.md.j2            how it is told, if the default template will not do

A published file, with every key (see `PublishedTable` for what each means):

    title: LLM resources of planning
    names: {too: ToO}                        # how values are called in labels and legends
    columns:
      - {key: calls, label: "#APIs", measure: {mean: calls, per: task}, as: thousands}
      - {key: score, label: Score, measure: {mean: metrics.score}, paper: drawn}
      - {key: execution, label: Execution, cited: nothing is executed by programs here}
    rows:
      - {label: ToO, where: {planner: too}, published: {calls: 0.9k, execution: 0.03k}}
      - {label: ReAct, cited: not implemented here, published: {calls: 0.03k}}
      - {each: {planner: [too], settings.k: all}}          # a row for every combination
    compare:
      - {column: calls, first: {planner: too}, second: {planner: tot-mcts}}
    setup:
      - {label: branching factor k, field: settings.k, paper: 3}
    plot: {kind: points, x: calls, y: score, colour: planner, marker: settings.k}
    plot: {kind: curves, x: steps, y: EGA, panels: [{title: A, where: {seed: 1}, columns: [c]}]}
    notes: ["..."]

`where` may stand at the table, a row and a column; a cell measures the runs that fit all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from llm_planning.experiments.runs import check_field_name, is_trial_field
from llm_planning.names import remedy
from llm_planning.registry import recorded_as

Text: TypeAlias = str | int | float
Scalar: TypeAlias = str | int | float | bool | None
Values: TypeAlias = dict[str, tuple[Scalar, ...]]


def as_tuple(values: object) -> object:
    """A list of a file as the tuple that it becomes."""
    return tuple(values) if isinstance(values, list) else values


class Part(BaseModel):
    """A piece of a published file: immutable, and strict about its keys and types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Selecting(Part):
    where: Values = Field(default_factory=dict)

    @field_validator("where", mode="before")
    @classmethod
    def _as_tuples(cls, where: object) -> object:
        return _tuples(where)

    @field_validator("where")
    @classmethod
    def _known(cls, where: Values) -> Values:
        return _checked(where)


class Measure(Part):
    """A number that is measured, from the runs of a cell.

    Attributes:
        mean: the field whose mean it is.
        median: the field whose median it is.
        rate: the field, true or false, whose share of true it is.
        per: the field whose values group the runs, usually `task`. Groups weigh alike in a mean.
        within: what stands for a group: the `mean` of its runs, or its best (`max`) or worst
            (`min`). A rate with `max` is the share of groups in which any run succeeded.
    """

    mean: str | None = None
    median: str | None = None
    rate: str | None = None
    per: str | None = None
    within: Literal["mean", "max", "min"] = "mean"

    @property
    def kind(self) -> Literal["mean", "median", "rate"]:
        """Which number."""
        return "mean" if self.mean else "median" if self.median else "rate"

    @property
    def field(self) -> str:
        """Of which field."""
        return self.mean or self.median or self.rate or ""

    @model_validator(mode="after")
    def _possible(self) -> Measure:
        if [self.mean, self.median, self.rate].count(None) != 2 or not self.field:
            raise ValueError("name one of mean, median and rate")
        for field in (self.field, self.per):
            if field is not None:
                check_field_name(field)
        if self.per is None and self.within != "mean":
            raise ValueError(f"within={self.within} needs per, the field that groups the runs")
        if self.kind == "median" and self.per is not None:
            raise ValueError("a median knows no groups; leave per out")
        if self.kind == "rate" and self.per is not None and self.within == "mean":
            raise ValueError("a rate per group needs within: max or min")
        return self


class Column(_Selecting):
    """A quantity.

    Attributes:
        key: its name in the rows' `published`.
        label: its heading.
        where: which runs it is about, besides the row's.
        measure: how it is measured; None where it is not.
        cited: why it is not measured; None where it is.
        paper: whether the paper has it `printed` as numbers, `drawn` only, or not at all
            (`absent`).
        form: key `as`: how measured values are written.
        x: where it stands on the x axis of curves; None where it is none of their points.
    """

    key: str
    label: str
    measure: Measure | None = None
    cited: str | None = None
    paper: Literal["printed", "drawn", "absent"] = "printed"
    form: Literal["number", "thousands", "percent"] = Field("number", alias="as")
    x: int | float | None = None

    @model_validator(mode="after")
    def _either(self) -> Column:
        if (self.measure is None) == (self.cited is None):
            raise ValueError("give it either measure or cited, the reason why it has none")
        if self.x is not None and self.measure is None:
            raise ValueError("x is for curves, which go through measured columns; leave it out")
        return self


class Row(Part):
    """A method, a task, a configuration.

    Attributes:
        label: its heading; made from the values of `each` where it is left out.
        where: which runs it is about; None for a row that is only cited.
        cited: why it is not measured; None where it is.
        each: field -> values, or `all` that the runs have: instead of one row, one for every
            combination; the last field changes fastest.
        published: column -> figure as printed: a number, or a text such as `0.9k`, `85.3 ± 2.1`.
    """

    label: str | None = None
    where: Values | None = None
    cited: str | None = None
    each: dict[str, tuple[Scalar, ...] | Literal["all"]] | None = None
    published: dict[str, Text] = Field(default_factory=dict)

    @field_validator("where", mode="before")
    @classmethod
    def _as_tuples(cls, where: object) -> object:
        return _tuples(where)

    @field_validator("each", mode="before")
    @classmethod
    def _as_tuples_or_all(cls, each: object) -> object:
        values = _tuples(each)
        if not isinstance(values, dict):
            return values
        return {field: "all" if some == ("all",) else some for field, some in values.items()}

    @field_validator("where")
    @classmethod
    def _known(cls, where: Values | None) -> Values | None:
        return None if where is None else _checked(where)

    @model_validator(mode="after")
    def _one_kind(self) -> Row:
        if [self.where, self.cited, self.each].count(None) != 2:
            raise ValueError("give it one of where, each and cited, the reason why it has none")
        if self.each is None and self.label is None:
            raise ValueError("give it a label")
        if self.each is not None and self.published:
            raise ValueError("rows made by each have no published figures; write them one by one")
        for field in self.each or {}:
            if not is_trial_field(field):
                raise ValueError(f"each takes fields of a trial, not {field!r}")
        return self


class Comparison(Part):
    """The difference between two choices of runs, paired where all else is equal.

    Attributes:
        column: what is compared.
        first: field -> value of the minuend.
        second: field -> value of the subtrahend; the same fields.
    """

    column: str
    first: dict[str, Scalar]
    second: dict[str, Scalar]

    @field_validator("first", "second")
    @classmethod
    def _as_recorded(cls, chosen: dict[str, Scalar]) -> dict[str, Scalar]:
        return {field: _as_recorded(field, value) for field, value in chosen.items()}

    @model_validator(mode="after")
    def _same_fields(self) -> Comparison:
        if not self.first or set(self.first) != set(self.second):
            raise ValueError("first and second must name the same fields")
        for field in self.first:
            if not is_trial_field(field):
                raise ValueError(f"first and second take fields of a trial, not {field!r}")
        return self


class Setup(Part):
    """One setting of the experiment.

    Attributes:
        label: how the paper calls it.
        field: the trial's field that holds it here.
        paper: the paper's value.
    """

    label: str
    field: str
    paper: Scalar

    @field_validator("field")
    @classmethod
    def _of_trial(cls, field: str) -> str:
        if not is_trial_field(field):
            raise ValueError(f"{field!r} is no field of a trial")
        return field


class Panel(_Selecting):
    """One picture of several, in which some of the rows are curves.

    Attributes:
        title: above it.
        where: which rows it shows, by their fields; every row if left out.
        columns: keys of those that its curves go through; all that have an `x` if left out.
    """

    title: str = ""
    columns: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()


class Plot(Part):
    """How a table is drawn.

    Attributes:
        kind: `bars`: every measured column beside the published figures; `points`: one mark a row
            at (x, y); `lines`: the same, joined along x; `curves`: every row is a line through
            the columns that have an `x`, published figures are marks beside it.
        x: a column, or for lines and points also a field of the rows; for curves what the `x` of
            the columns counts, in words.
        y: a column; for curves what these columns measure, in words.
        colour: the field of the rows that colours them.
        shade: the field that makes a colour darker with its value.
        marker: the field that gives them shapes.
        size: the field that makes marks larger with its value.
        panels: the pictures side by side that curves are drawn in.
    """

    kind: Literal["bars", "points", "lines", "curves"] = "bars"
    x: str | None = None
    y: str | None = None
    colour: str | None = None
    shade: str | None = None
    marker: str | None = None
    size: str | None = None
    panels: Annotated[tuple[Panel, ...], BeforeValidator(as_tuple)] = (Panel(),)

    @model_validator(mode="after")
    def _axes(self) -> Plot:
        if self.kind == "bars":
            if self.model_fields_set - {"kind"}:
                raise ValueError("bars take no axes, no marks and no panels")
        elif self.x is None or self.y is None:
            raise ValueError(f"{self.kind} need x and y")
        if self.kind == "curves":
            if self.model_fields_set & {"shade", "marker", "size"}:
                raise ValueError("curves take a colour and no other marks")
            if not self.panels:
                raise ValueError("panels: give at least one, or leave them out")
        elif "panels" in self.model_fields_set:
            raise ValueError("panels are for curves")
        return self


class PublishedTable(_Selecting):
    """A table or figure of a paper.

    Attributes:
        title: of the table, in few words.
        columns: its quantities.
        rows: its lines.
        names: value -> how it is called.
        compare: differences told below the table.
        setup: settings told below it, besides those of the paper, and in their place.
        plot: how it is drawn.
        notes: what the reader must know.
        where: which runs it is about.
    """

    title: str
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)
    names: dict[str, str] = Field(default_factory=dict)
    compare: tuple[Comparison, ...] = ()
    setup: tuple[Setup, ...] = ()
    plot: Plot = Plot()
    notes: tuple[str, ...] = ()

    @field_validator("columns", "rows", "compare", "setup", "notes", mode="before")
    @classmethod
    def _lists(cls, values: object) -> object:
        return as_tuple(values)

    @model_validator(mode="after")
    def _consistent(self) -> PublishedTable:
        keys = [column.key for column in self.columns]
        if len(set(keys)) < len(keys):
            raise ValueError(f"two columns have the same key: {', '.join(keys)}")
        printed = [column.key for column in self.columns if column.paper == "printed"]
        for row in self.rows:
            for key in row.published:
                if key not in printed:
                    raise ValueError(
                        f"row {row.label!r} has a figure for {key!r}, which is no printed column; "
                        f"{remedy(key, printed)}"
                    )
        for comparison in self.compare:
            if self.column(comparison.column).measure is None:
                raise ValueError(f"compare: the column {comparison.column!r} is not measured")
        self._check_plot()
        return self

    def _check_plot(self) -> None:
        """Makes sure that what is drawn is there and measured."""
        plot = self.plot
        placed = [column.key for column in self.columns if column.x is not None]
        if plot.kind == "curves":
            if not placed:
                raise ValueError("plot: curves go through columns that have an x; give one")
            for key in (key for panel in plot.panels for key in panel.columns):
                if key not in placed:
                    raise ValueError(f"plot: no column {key!r} has an x; {remedy(key, placed)}")
            return
        if placed:
            raise ValueError(f"the x of column {placed[0]!r} is for a plot of the kind curves")
        if plot.kind == "bars":
            return
        keys = [column.key for column in self.columns]
        for axis in (plot.x, plot.y):
            if axis in keys and self.column(str(axis)).measure is None:
                raise ValueError(f"plot: the column {axis!r} is not measured")
        self.column(str(plot.y))
        if plot.x not in keys and not is_trial_field(str(plot.x)):
            raise ValueError(f"plot: x={plot.x!r} is neither a column nor a trial's field")

    def column(self, key: str) -> Column:
        """The column of this key.

        Raises:
            ValueError: there is none; names the nearest.
        """
        for column in self.columns:
            if column.key == key:
                return column
        known = [column.key for column in self.columns]
        raise ValueError(f"unknown column {key!r}; {remedy(key, known)}")

    def name(self, value: object) -> str:
        """How a value is called."""
        names = {str(recorded_as(name)): told for name, told in self.names.items()}
        return names.get(str(value), str(value))


def _tuples(where: object) -> object:
    if not isinstance(where, Mapping):
        return where
    return {
        field: tuple(
            _as_recorded(field, value)
            for value in (values if isinstance(values, list | tuple) else (values,))
        )
        for field, values in where.items()
    }


def _as_recorded(field: str, value: Any) -> Any:  # noqa: ANN401  (any value of a file)
    """A planner's name as ledgers have it; the values of other fields as they are."""
    return recorded_as(value) if field == "planner" else value


def _checked(where: Values) -> Values:
    for field in where:
        check_field_name(field)
    return where
