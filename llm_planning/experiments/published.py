"""What a paper published, as data: the format of the files that hold its tables and figures.

A paper is a folder of `configs` with a `paper.yaml`: its `title`, its `citation` and the `setup`
that its tables share. A table or figure NAME has these files:

    NAME.published.yaml   the published figures, and how each is measured: this module
    NAME.yaml             the sweep that measures it; NAME-*.yaml are smaller or larger ones

A published file, with every key (see `PublishedTable` for what each means):

    title: LLM resources of planning
    names: {too: ToO}                        # names of values in labels and legends
    columns:
      - {key: calls, label: "#APIs", measure: {mean: calls, per: task}, as: thousands}
      - {key: score, label: Score, measure: {mean: metrics.score}, paper: drawn}
      - {key: execution, label: Execution, cited: nothing is executed by programs here}
      - {key: lost, label: lost, measure: {share: {metrics.failure: [framework, judgement]}}}
      - {key: p, label: p-value, measure: {fisher: success, against: {planner: too}}}
      - key: pass-at-b                       # each row may spend what a run of ToO costs
        label: pass@B
        measure: {passed: success, budget: [tokens], per: task, against: {planner: too}}
    rows:
      - {label: ToO, where: {planner: too}, published: {calls: 0.9k, execution: 0.03k}}
      - {label: ReAct, cited: not implemented here, published: {calls: 0.03k}}
      - {each: {planner: [too], settings.k: all}}          # a row for every combination
    compare:
      - {column: calls, first: {planner: too}, second: {planner: tot-mcts}, published: 132}
      - {column: score, first: {planner: too}, second: {planner: tot-mcts}, unit: seed}
    setup:
      - {label: branching factor k, field: settings.k, paper: 3}
    senseless:                               # cells that no run can fill
      - {rows: [ReAct], columns: [execution], why: It executes nothing.}
    plot: {kind: points, x: calls, y: score, colour: planner, marker: settings.k}
    plot: {kind: lines, x: calls, y: score, colour: planner, beside: settings.k}
    plot: {kind: curves, x: steps, y: EGA, panels: [{title: A, where: {seed: 1}, columns: [c]}]}
    notes: ["..."]

The table, a row and a column may have a `where`; a cell measures the runs that fit all three.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from llm_planning.experiments.runs import check_field_name, is_trial_field
from llm_planning.experiments.statistics import Form, Interval  # noqa: TC001 (fields of a model)
from llm_planning.names import remedy

Text: TypeAlias = str | int | float
Scalar: TypeAlias = str | int | float | bool | None
Values: TypeAlias = dict[str, tuple[Scalar, ...]]


def as_tuple(values: object) -> object:
    """Turns a list into a tuple; leaves every other value as it is."""
    return tuple(values) if isinstance(values, list) else values


def _tuples(where: object) -> object:
    if not isinstance(where, Mapping):
        return where
    return {
        field: tuple(values) if isinstance(values, list | tuple) else (values,)
        for field, values in where.items()
    }


def _checked(where: Values) -> Values:
    for field in where:
        check_field_name(field)
    return where


def _of_trial(field: str) -> str:
    if not is_trial_field(field):
        raise ValueError(f"{field!r} is not a field of a trial")
    return field


TrialField: TypeAlias = Annotated[str, AfterValidator(_of_trial)]
CheckedWhere: TypeAlias = Annotated[Values, BeforeValidator(_tuples), AfterValidator(_checked)]
"""Field -> the values that a run may have in it. A file may give one value without a list."""


class Part(BaseModel):
    """A piece of a published file: immutable, and strict about its keys and types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Kind: TypeAlias = Literal[
    "mean", "cost", "median", "portion", "rate", "share", "odds", "fisher", "passed"
]


class Measure(Part):
    """A number that is measured from the runs of a cell.

    Attributes:
        mean: the field whose mean is measured.
        cost: the field, never below zero, whose mean is measured.
        median: the field whose median is measured.
        portion: the field, from 0 to 1, whose mean is measured.
        rate: the field, true or false, whose share of true is measured.
        share: field -> values; the share of runs that have one of them in every field.
        odds: the field, true or false, whose odds are measured: those of the runs in `against`
            over those of the cell.
        fisher: the field, true or false, whose rates in the cell and in `against` are tested for
            equality (Fisher's exact test).
        passed: the field, true or false; the share of groups in which it is true of one of the
            runs that a budget pays for (pass@B).
        budget: the fields whose sum is the cost of a run. The budget is the mean cost of the runs
            in `against`, of each group by itself; runs are made in the order of their seeds.
        against: field -> values that take the place of the row's own; selects the runs that a cell
            is compared with. A cell of these very runs is empty, unless it has a budget.
        interval: of a rate, a share or what passed.
        per: the field whose values group the runs, usually `task`. Groups weigh alike in a mean.
        unit: of a mean or a rate: the field whose values were drawn, such as the file of a learned
            graph, so that runs which share one are not independent. The interval is over its
            values. A cell whose runs share one value is measured as without `unit`.
        within: the value of a group: the `mean` of its runs, the largest (`max`) or the smallest
            (`min`). A rate with `max` is the share of groups in which any run succeeded.
    """

    mean: str | None = None
    cost: str | None = None
    median: str | None = None
    portion: str | None = None
    rate: str | None = None
    share: CheckedWhere | None = None
    odds: str | None = None
    fisher: str | None = None
    passed: str | None = None
    budget: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    against: CheckedWhere | None = None
    interval: Interval = "wilson"
    per: str | None = None
    unit: str | None = None
    within: Literal["mean", "max", "min"] = "mean"

    @property
    def kind(self) -> Kind:
        """The kind of number."""
        return next(kind for kind in _KINDS if getattr(self, kind) is not None)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are measured: several for a share, one otherwise."""
        fields_named = getattr(self, self.kind)
        return (fields_named,) if isinstance(fields_named, str) else tuple(fields_named)

    @property
    def is_share(self) -> bool:
        """Whether every run is a success or none, and the number is their share."""
        return self.kind in {"rate", "share"}

    @model_validator(mode="after")
    def _possible(self) -> Measure:
        if [getattr(self, kind) for kind in _KINDS].count(None) != len(_KINDS) - 1:
            raise ValueError(f"name one of {', '.join(_KINDS[:-1])} and {_KINDS[-1]}")
        if not all(self.fields) or not self.fields:
            raise ValueError(f"{self.kind}: name a field")
        for field in (*self.fields, self.per, self.unit, *self.budget):
            if field is not None:
                check_field_name(field)
        kind = self.kind
        if (kind in {"odds", "fisher", "passed"}) != (self.against is not None):
            raise ValueError(
                "odds, fisher and passed need against, the runs to compare with; others not"
            )
        if (kind == "passed") != bool(self.budget) or (kind == "passed" and self.per is None):
            raise ValueError("passed needs budget, the fields that cost, and per; others no budget")
        by_run = (self.is_share or kind == "passed") and self.unit is None
        if self.interval != "wilson" and not by_run:
            raise ValueError(
                f"interval={self.interval} is for a rate or a share without unit; leave it out"
            )
        if self.unit is not None and (kind not in {"mean", "rate"} or self.within != "mean"):
            raise ValueError("unit is for a mean or a rate")
        if self.per is None and self.within != "mean":
            raise ValueError(f"within={self.within} needs per, the field that groups the runs")
        if kind == "passed" and self.within != "mean":
            raise ValueError(f"within={self.within} is for a mean or a rate; leave it out")
        if self.per is not None and kind not in {"mean", "cost", "rate", "passed"}:
            raise ValueError(f"a {kind} has no groups; leave per out")
        if kind == "rate" and self.per is not None and self.within == "mean":
            raise ValueError("a rate per group needs within: max or min")
        return self


_KINDS: tuple[Kind, ...] = get_args(Kind)


class Column(Part):
    """A quantity.

    Attributes:
        key: its name in the rows' `published`.
        label: its heading.
        where: selects its runs, besides the row's `where`.
        measure: how it is measured; None if it is not.
        cited: why it is not measured; None if it is.
        paper: whether its numbers are `printed` in the paper, only `drawn`, or `absent`.
        form: key `as`: how measured values are written.
        x: its position on the x axis of curves; None if curves do not go through it.
    """

    key: str
    label: str
    where: CheckedWhere = Field(default_factory=dict)
    measure: Measure | None = None
    cited: str | None = None
    paper: Literal["printed", "drawn", "absent"] = "printed"
    form: Form = Field("number", alias="as")
    x: int | float | None = None

    @model_validator(mode="after")
    def _either(self) -> Column:
        if (self.measure is None) == (self.cited is None):
            raise ValueError("give either measure or cited, the reason why there is no measure")
        if self.x is not None and self.measure is None:
            raise ValueError("x is for curves, which go through measured columns; leave it out")
        return self


class Row(Part):
    """A method, a task, a configuration.

    Attributes:
        label: its heading; if left out, it is made from the values of `each`.
        where: selects its runs; None for a row that is only cited.
        cited: why it is not measured; None if it is.
        each: field -> values, or `all` for those that the runs have. There is a row for every
            combination of values; the last field changes fastest.
        published: column -> figure as printed: a number, or a text such as `0.9k`, `85.3 ± 2.1`.
    """

    label: str | None = None
    where: CheckedWhere | None = None
    cited: str | None = None
    each: dict[TrialField, tuple[Scalar, ...] | Literal["all"]] | None = None
    published: dict[str, Text] = Field(default_factory=dict)

    @field_validator("each", mode="before")
    @classmethod
    def _as_tuples_or_all(cls, each: object) -> object:
        values = _tuples(each)
        if not isinstance(values, dict):
            return values
        return {field: "all" if some == ("all",) else some for field, some in values.items()}

    @model_validator(mode="after")
    def _check_kind(self) -> Row:
        if [self.where, self.cited, self.each].count(None) != 2:
            raise ValueError("give one of where, each and cited, the reason why there are no runs")
        if self.each is None and self.label is None:
            raise ValueError("give a label")
        if self.each is not None and self.published:
            raise ValueError("rows made by each have no published figures; write them one by one")
        return self


class Comparison(Part):
    """The difference between two choices of runs, paired where all else is equal.

    Attributes:
        column: the key of the compared column.
        first: field -> value of the minuend's runs.
        second: field -> value of the subtrahend's runs; the same fields.
        unit: the field whose values are independent draws, such as `seed` where all tasks of a seed
            share one oracle. Its values are then what the interval counts, and not their pairs.
            If left out, it is the unit of the column's measure, unless that is compared; without
            one, every pair is a draw of its own.
        label: what is compared; if left out, it is made from the values of both sides.
        published: the difference as printed; None if the paper prints none.
    """

    column: str
    label: str | None = None
    first: dict[TrialField, Scalar]
    second: dict[TrialField, Scalar]
    unit: TrialField | None = None
    published: Text | None = None

    @model_validator(mode="after")
    def _same_fields(self) -> Comparison:
        if not self.first or set(self.first) != set(self.second):
            raise ValueError("first and second must name the same fields")
        if self.unit in self.first:
            raise ValueError(f"unit={self.unit} is compared; name a field that pairs share")
        return self


class Setup(Part):
    """One setting of the experiment.

    Attributes:
        label: the paper's name of it.
        field: the field of a trial that holds it here.
        paper: the paper's value.
    """

    label: str
    field: TrialField
    paper: Scalar


class Panel(Part):
    """One of several pictures side by side, in which rows are curves.

    Attributes:
        title: above the picture.
        where: selects its rows by their fields; all if left out.
        columns: keys of the columns that its curves go through; all with an `x` if left out.
    """

    title: str = ""
    where: CheckedWhere = Field(default_factory=dict)
    columns: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()


class Plot(Part):
    """How a table is drawn.

    Attributes:
        kind: `bars`: every measured column beside the published figures; `points`: one mark a row
            at (x, y); `lines`: the same, joined along x; `curves`: every row is a line through
            the columns that have an `x`, published figures are marks beside it; `heat`: a cell for
            every row and measured column, coloured by its share.
        x: a column, or for lines and points also a field of the rows; for curves the label of the
            x axis.
        y: a column; for curves the label of the y axis.
        colour: the field of the rows that chooses the colour.
        shade: the field whose larger values make a colour darker.
        marker: the field that chooses the shape of marks.
        size: the field whose larger values make marks larger.
        beside: the field whose value is written beside each mark.
        panels: the pictures side by side that curves are drawn in.
    """

    kind: Literal["bars", "points", "lines", "curves", "heat"] = "bars"
    x: str | None = None
    y: str | None = None
    colour: str | None = None
    shade: str | None = None
    marker: str | None = None
    size: str | None = None
    beside: TrialField | None = None
    panels: Annotated[tuple[Panel, ...], BeforeValidator(as_tuple), Field(min_length=1)] = (
        Panel(),
    )

    @model_validator(mode="after")
    def _axes(self) -> Plot:
        if self.kind in {"bars", "heat"}:
            if self.model_fields_set - {"kind"}:
                raise ValueError(f"{self.kind} take no axes, no marks and no panels")
        elif self.x is None or self.y is None:
            raise ValueError(f"{self.kind} need x and y")
        if self.kind == "curves":
            if self.model_fields_set & {"shade", "marker", "size", "beside"}:
                raise ValueError("curves take a colour and no other marks")
        elif "panels" in self.model_fields_set:
            raise ValueError("panels are for curves")
        return self


class Cells(Part):
    """Each of some rows in each of some columns.

    Attributes:
        rows: labels of the rows.
        columns: keys of the columns.
        why: what is said of them, in one sentence.
    """

    rows: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    columns: Annotated[tuple[str, ...], BeforeValidator(as_tuple), Field(min_length=1)]
    why: str

    def have(self, label: str, key: str) -> bool:
        """Whether the cell of a row and a column is one of them."""
        return label in self.rows and key in self.columns


class Senseless(Cells):
    """Cells that no run can fill."""


class NoEvidence(Cells):
    """Cells whose figures are no evidence for the paper or against it, whatever they are.

    Attributes:
        mark: said in the cell: `fitted`, if something was chosen so that the paper's figure comes
            out; `given`, if who answers was told it; `other budget`, if the paper spent more or
            less.
    """

    mark: Literal["fitted", "given", "other budget"]


class PublishedTable(Part):
    """A table or figure of a paper.

    Attributes:
        title: of the table, in few words.
        where: selects its runs.
        columns: its quantities.
        rows: its lines.
        senseless: cells that stay empty for a reason, unlike those that were only not run.
        no_evidence: cells that say nothing of the paper, so that no verdict counts them.
        names: value -> its name in labels and legends.
        compare: differences shown below the table.
        setup: settings shown below the table; they add to the paper's or replace them.
        plot: how it is drawn.
        notes: sentences for the reader.
    """

    title: str
    where: CheckedWhere = Field(default_factory=dict)
    columns: tuple[Column, ...] = Field(min_length=1)
    rows: tuple[Row, ...] = Field(min_length=1)
    senseless: tuple[Senseless, ...] = ()
    no_evidence: tuple[NoEvidence, ...] = ()
    names: dict[str, str] = Field(default_factory=dict)
    compare: tuple[Comparison, ...] = ()
    setup: tuple[Setup, ...] = ()
    plot: Plot = Plot()
    notes: tuple[str, ...] = ()

    @field_validator(
        *("columns", "rows", "senseless", "no_evidence", "compare", "setup", "notes"),
        mode="before",
    )
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
                        f"row {row.label!r} has a figure for {key!r}, which is not a printed "
                        f"column; {remedy(key, printed)}"
                    )
        labels = [str(row.label) for row in self.rows if row.label is not None]
        lists = {"senseless": self.senseless, "no_evidence": self.no_evidence}
        for name, some in ((name, some) for name, listed in lists.items() for some in listed):
            for key in some.columns:
                self.column(key)
            for label in some.rows:
                if label not in labels:
                    raise ValueError(f"{name}: no row {label!r}; {remedy(label, labels)}")
        for comparison in self.compare:
            quantity = self.column(comparison.column).measure
            if quantity is None:
                raise ValueError(f"compare: the column {comparison.column!r} is not measured")
            if quantity.against is not None:
                raise ValueError(f"compare: the column {comparison.column!r} compares already")
            if quantity.kind == "median" or quantity.within != "mean":
                kept = "a median" if quantity.kind == "median" else f"within: {quantity.within}"
                raise ValueError(
                    f"compare: the column {comparison.column!r} has {kept}, and differences are of "
                    "means over pairs; compare a mean, a cost, a portion, a rate or a share"
                )
        self._check_plot()
        return self

    def _check_plot(self) -> None:
        """Makes sure that the drawn columns exist and are measured."""
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
        if plot.kind == "heat" and not all(
            column.measure.is_share or column.form == "percent"
            for column in self.columns
            if column.measure
        ):
            raise ValueError("plot: a heat map colours shares; write `as: percent` where they are")
        if plot.kind in {"bars", "heat"}:
            return
        keys = [column.key for column in self.columns]
        for axis in (plot.x, plot.y):
            if axis in keys and self.column(str(axis)).measure is None:
                raise ValueError(f"plot: the column {axis!r} is not measured")
        self.column(str(plot.y))
        if plot.x not in keys and not is_trial_field(str(plot.x)):
            raise ValueError(f"plot: x={plot.x!r} is neither a column nor a trial's field")

    def column(self, key: str) -> Column:
        """The column with a key.

        Raises:
            ValueError: there is no such column; names the nearest.
        """
        for column in self.columns:
            if column.key == key:
                return column
        known = [column.key for column in self.columns]
        raise ValueError(f"unknown column {key!r}; {remedy(key, known)}")

    @property
    def models(self) -> frozenset[str]:
        """The models by which it selects runs; "none", that of rules, is no model."""
        named = {str(value) for place in _wheres(self.model_dump()) for value in _values(place)}
        return frozenset(named - {"none", "all", "None"})

    def asking(self, model: str) -> PublishedTable:
        """This table with one model in the place of those by which it selects runs."""
        values = self.model_dump(by_alias=True, exclude_unset=True)
        known = self.models
        for place in _wheres(values):
            asked = tuple(
                dict.fromkeys(model if value in known else value for value in _values(place))
            )
            place["model"] = asked if isinstance(place["model"], tuple) else asked[0]
        return type(self).model_validate(values)

    def why_senseless(self, label: str, key: str) -> str | None:
        """Why no run can fill the cell of a row and a column; None if one can."""
        return next((cells.why for cells in self.senseless if cells.have(label, key)), None)

    def mark(self, label: str, key: str) -> str | None:
        """Why the cell of a row and a column is no evidence, in a word or two; None if it is."""
        return next((cells.mark for cells in self.no_evidence if cells.have(label, key)), None)

    def name(self, value: object) -> str:
        """The name of a value in labels and legends."""
        return self.names.get(str(value), str(value))


def _wheres(values: object) -> Iterator[dict[str, Any]]:
    """The mappings inside a table's values that say something of `model`."""
    if isinstance(values, dict):
        if "model" in values:
            yield values
        for value in values.values():
            yield from _wheres(value)
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _wheres(value)


def _values(where: Mapping[str, Any]) -> tuple[Any, ...]:
    model = where["model"]
    return model if isinstance(model, tuple) else (model,)
