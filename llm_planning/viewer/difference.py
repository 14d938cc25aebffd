"""Where two traces first differ, apart from times and loads."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from llm_planning.trace_tree import repeatable_fields
from llm_planning.viewer.columns import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_planning.events import Event

_TYPES_APART = frozenset({"load", "outcome", "summary"})
_QUESTIONS = frozenset({"prompt", "role"})
"""Left out if only one of the runs asked a model."""


@dataclass(frozen=True)
class Difference:
    """The first lines of two traces that are not alike.

    Attributes:
        moments: the moment of each trace that it belongs to.
        kinds: the type of each trace's line; None where the trace has ended.
        field: the name of the first field that differs; None if the types do.
        values: of that field in each.
    """

    moments: tuple[int, int]
    kinds: tuple[str | None, str | None]
    field: str | None
    values: tuple[Any, Any]


def first_difference(left: Sequence[Event], right: Sequence[Event]) -> Difference | None:
    """The first lines that differ; None if all that can be compared is equal."""
    asked = all(any(event["type"] == "role" for event in events) for events in (left, right))
    apart = _TYPES_APART if asked else _TYPES_APART | _QUESTIONS
    for (place, mine), (at, theirs) in zip_longest(
        _comparable(left, apart), _comparable(right, apart), fillvalue=(-1, None)
    ):
        if mine == theirs:
            continue
        kinds = (mine["type"] if mine else None, theirs["type"] if theirs else None)
        field = None
        if mine and theirs and kinds[0] == kinds[1]:
            keys = dict.fromkeys((*mine, *theirs))
            # A key that is missing in one trace may be null in the other.
            field = next(key for key in keys if _at(mine, key) != _at(theirs, key))
        values = ((mine or {}).get(field), (theirs or {}).get(field)) if field else (None, None)
        return Difference((place, at), kinds, field, values)
    return None


def _at(event: Event, key: str) -> list[Any]:
    """The value of a field, if it is there."""
    return [event[key]] if key in event else []


def _comparable(
    events: Sequence[Event], types_apart: frozenset[str]
) -> Iterator[tuple[int, Event]]:
    """Each line that can be compared, without what may differ, and the moment it belongs to."""
    moment = 0
    for event in events:
        if event["type"] in types_apart:
            continue
        fields = repeatable_fields(event)
        fields.pop("model", None)
        yield moment, fields
        moment += event["type"] in KINDS
