"""How good a model is at its roles, from trials of the planner `measure`: intervals and rates.

A file of rates is what `--set roles=FILE` takes: rules then answer each role, as often right as the
model was. Its errors are sticky, as a model that is asked the same again answers the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from llm_base.quoting import printable
from llm_planning.experiments.measures import MeasureError
from llm_planning.experiments.statistics import proportion
from llm_planning.roles.exercises import USUAL_WAY, VERDICT, WAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llm_planning.experiments.runs import RunRecord
    from llm_planning.experiments.statistics import Estimate

PLANNER: Final = "measure"
"""The planner of the trials that measure a role."""

_PLACES = 4


class _Metrics(BaseModel):
    """The metrics of a trial that measures a role."""

    model_config = ConfigDict(frozen=True)

    right: NonNegativeInt
    questions: NonNegativeInt
    kinds: dict[str, dict[str, tuple[NonNegativeInt, NonNegativeInt]]]
    confusions: list[tuple[str, str, NonNegativeInt]]
    items: tuple[NonNegativeInt, NonNegativeInt] | None
    invented: tuple[NonNegativeInt, NonNegativeInt] | None
    invented_kinds: dict[str, dict[str, tuple[NonNegativeInt, NonNegativeInt]]] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleMeasure:
    """How often a model was right at one role.

    Attributes:
        share: of right answers among all questions.
        kinds: aspect -> value -> the share among the questions of this kind.
        confusions: (right answer, answer, count) of the most frequent wrong answers.
        items: the right ones among the items of all answers, and all of them; None for a role whose
            answers have no items.
        invented: the share of answers that name what does not exist; None for a role whose answers
            cannot.
        invented_kinds: aspect -> value -> that share among the questions of this kind.
        tokens: read and written.
        seconds: that the questions took.
    """

    role: str
    model: str
    right: int
    share: Estimate
    kinds: Mapping[str, Mapping[str, Estimate]]
    confusions: Sequence[tuple[str, str, int]]
    items: tuple[int, int] | None
    invented: Estimate | None
    invented_kinds: Mapping[str, Mapping[str, Estimate]]
    tokens: int
    seconds: float

    @property
    def usual(self) -> Estimate:
        """The share right where the role is asked as planners ask it by default."""
        return self.kinds.get(WAY, {}).get(USUAL_WAY, self.share)

    @property
    def splits(self) -> dict[str, Mapping[str, Estimate]]:
        """The aspects in `kinds` that split the questions, as they have several values."""
        return {aspect: values for aspect, values in self.kinds.items() if len(values) > 1}

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "questions": self.share.n,
            "right": self.right,
            **_interval(self.share),
            "kinds": _intervals(self.kinds),
            "confusions": [
                {"expected": expected, "said": answer, "count": count}
                for expected, answer, count in self.confusions
            ],
            "items": self.items and {"right": self.items[0], "all": self.items[1]},
            "invented": self.invented
            and {**_interval(self.invented), "kinds": _intervals(self.invented_kinds)},
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
        }


def read_measures(records: Iterable[RunRecord]) -> list[RoleMeasure]:
    """Reads the trials among some records that measured a role, in their order.

    Args:
        records: of done trials, from a ledger or an export.

    Raises:
        MeasureError: the counts of a trial are not counts.
    """
    return [_read(record) for record in records if record["planner"] == PLANNER]


def rates(measures: Iterable[RoleMeasure]) -> dict[str, dict[str, Any]]:
    """Role -> the errors of an oracle that is right as often as the model was.

    If answers have items, such as scores, each errs on its own. Else kinds of questions have rates
    of their own where the role's rule distinguishes them. Where a role is asked in several ways,
    only the one counts that is a planner's default.
    """
    errors: dict[str, dict[str, Any]] = {}
    for measure in measures:
        errors[measure.role] = {"rate": _rate(measure.usual), "kind": "sticky"}
        if measure.items is not None:
            share = proportion(*measure.items)
            errors[measure.role] = {"rate": _rate(share), "unit": "item", "kind": "sticky"}
        elif by_kind := measure.kinds.get(VERDICT):
            errors[measure.role]["rates"] = {kind: _rate(share) for kind, share in by_kind.items()}
    return errors


def rates_file(measures: Sequence[RoleMeasure], *, about: Sequence[str]) -> str:
    """Writes the file that `--set roles=FILE` reads.

    Args:
        measures: of different roles.
        about: lines of a comment that say where the rates come from.
    """
    comments = [f"# {printable(line)}\n" for line in about]
    counted = {measure.role: _counted(measure) for measure in measures}
    parts = [
        f"# {counted[role]}\n"
        + yaml.safe_dump({role: errors}, sort_keys=False, default_flow_style=None, width=100)
        for role, errors in rates(measures).items()
    ]
    return "".join((*comments, *parts))


def _counted(measure: RoleMeasure) -> str:
    """What the rates of a role rest on, for a comment."""
    questions = f"{measure.usual.n} questions"
    if measure.items is not None:
        return f"{questions}, {measure.items[1]} items of their answers"
    return (
        questions
        if measure.usual is measure.share
        else f"{questions}, asked by default: {USUAL_WAY}"
    )


def _read(record: RunRecord) -> RoleMeasure:
    names = _Metrics.model_fields
    values = {name: _plain(record.get(f"metrics.{name}")) for name in names}
    try:
        counts = _Metrics.model_validate(values)
        share = proportion(counts.right, counts.questions)
        kinds = _shares(counts.kinds)
        invented = None if counts.invented is None else proportion(*counts.invented)
        invented_kinds = _shares(counts.invented_kinds or {})
        if counts.items is not None:
            proportion(*counts.items)
    except (ValidationError, ValueError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
        raise MeasureError(
            f"the trial that measured {record.get('settings.role')} has counts that cannot be: "
            f"{reason}"
        ) from error
    return RoleMeasure(
        role=str(record["settings.role"]),
        model=str(record["model"]),
        right=counts.right,
        share=share,
        kinds=kinds,
        confusions=counts.confusions,
        items=counts.items,
        invented=invented,
        invented_kinds=invented_kinds,
        tokens=record["tokens"],
        seconds=record["seconds"],
    )


def _plain(value: object) -> object:
    """A metric as JSON values; an export has nested ones as text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _shares(
    counts: Mapping[str, Mapping[str, tuple[int, int]]],
) -> dict[str, dict[str, Estimate]]:
    return {
        aspect: {value: proportion(*count) for value, count in values.items()}
        for aspect, values in counts.items()
    }


def _intervals(kinds: Mapping[str, Mapping[str, Estimate]]) -> dict[str, Any]:
    return {
        aspect: {
            value: {"questions": share.n, **_interval(share)} for value, share in values.items()
        }
        for aspect, values in kinds.items()
    }


def _interval(share: Estimate) -> dict[str, float | None]:
    return {"share": share.value, "low": share.low, "high": share.high}


def _rate(share: Estimate) -> float:
    return round(share.value or 0.0, _PLACES)
