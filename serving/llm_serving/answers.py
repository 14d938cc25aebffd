"""Constrained answers: the exact finite language of an answer model, and how its texts are read.

An answer is compact JSON: keys in the order of the model's fields, no blanks between tokens, every
field written, one spelling for each value. The language is read off the schema that Pydantic
itself validates with, so a text of the language always parses, and writing the parsed instance
gives the same text again. Free text consists of printable ASCII without the quote and the
backslash, so that its bound in characters is a bound in bytes; literals may hold any character.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from llm_serving.errors import AnswerModelError
from llm_serving.patterns import (
    Pattern,
    characters,
    choice,
    finite_regex,
    integers,
    listing,
    sequence,
    words,
)

LARGEST_GRID = 10_000
"""Most points that a grid of numbers may have: they are spelled out one by one."""

LARGEST_LANGUAGE = 50_000
"""Most automaton states that an answer model may need; beyond it compiling takes seconds."""

Answer = TypeVar("Answer", bound=BaseModel)
_Schema: TypeAlias = Mapping[str, Any]
_Definitions: TypeAlias = Mapping[str, _Schema]


@dataclass(frozen=True, slots=True)
class Constraint:
    """A finite language that an answer must belong to.

    Attributes:
        regex: matches exactly the language, as a whole text.
        max_bytes: length of the longest answer in UTF-8.
    """

    regex: str
    max_bytes: int

    @property
    def max_tokens(self) -> int:
        """Enough for any answer: a token holds a byte or more, and the terminator is one."""
        return self.max_bytes + 1


_constraints: WeakKeyDictionary[type[BaseModel], Constraint] = WeakKeyDictionary()


def constraint_of(model: type[BaseModel]) -> Constraint:
    """The language of an answer model, worked out once and kept as long as the class lives.

    Supported are booleans, literals, enumerations, None, bounded integers, floats and decimals on
    a bounded grid (`multiple_of`, for decimals also `decimal_places`), bounded strings (optionally
    with a finite `pattern`), bounded lists and tuples, nested models, and unions of these.

    Returns:
        What `Request.constraint` takes: a regular expression of the whole answer, and the bound
        on its length.

    Raises:
        AnswerModelError: the language is infinite or too large, a type is not supported, or a
            validator, serializer or setting of the model keeps a text of the language from being
            read and written back unchanged.

    Example:
        >>> from pydantic import BaseModel, Field
        >>> from llm_serving import constraint_of
        >>> class Step(BaseModel):
        ...     verb: str = Field(pattern="mine|craft", max_length=5)
        ...     count: int = Field(ge=1, le=64)
        >>> constraint_of(Step).max_bytes
        27
    """
    if (known := _constraints.get(model)) is not None:
        return known
    model.model_rebuild()
    pattern = _read(model.__pydantic_core_schema__, model.__name__, {})
    if pattern.size > LARGEST_LANGUAGE:
        _refuse(
            model.__name__,
            f"needs an automaton of about {pattern.size} states, more than {LARGEST_LANGUAGE}",
            "lower the bounds of its strings and lists",
        )
    for text in pattern.examples:
        _check_round_trip(model, text)
    constraint = Constraint(pattern.regex, pattern.max_bytes)
    _constraints[model] = constraint
    return constraint


def parse(model: type[Answer], text: str) -> Answer:
    """Reads an answer; every text of the model's language is read.

    Args:
        text: what an engine answered under `constraint_of(model)`.

    Raises:
        pydantic.ValidationError: the text is not an answer, as when it was cut off.

    Example:
        >>> from pydantic import BaseModel, Field
        >>> from llm_serving import parse
        >>> class Step(BaseModel):
        ...     count: int = Field(ge=1, le=64)
        >>> parse(Step, '{"count":3}').count
        3
    """
    return model.model_validate_json(text)


def compact(answer: BaseModel) -> str:
    """Writes an answer as the text of the language that it is read from."""
    return answer.model_dump_json(by_alias=True)


def _refuse(path: str, problem: str, remedy: str) -> NoReturn:
    raise AnswerModelError(f"{path}: {problem}; {remedy}")


def _check_round_trip(model: type[BaseModel], text: str) -> None:
    try:
        written = compact(parse(model, text))
    except ValidationError as error:
        first = error.errors()[0]
        _refuse(
            ".".join(map(str, (model.__name__, *first["loc"]))),
            f"refuses {text} of its own language ({first['msg']})",
            "drop the setting that does so, or narrow the type of the field",
        )
    if written != text:
        _refuse(
            model.__name__,
            f"reads {text} but writes {written}",
            "drop the setting, excluded field, alias or ambiguous union that changes it",
        )


def _read(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    """The language of one Pydantic core schema.

    Args:
        schema: a node of the core schema.
        path: the field that it belongs to, for complaints.
        definitions: schemas that a reference may still name; those being read are left out.
    """
    kind = schema["type"]
    if kind.startswith("function"):
        _refuse(
            path,
            f"is checked by {_validator(schema)} after it was written",
            "state bounds with Field on the bare type, and check what goes beyond them elsewhere",
        )
    if kind not in _READERS:
        _refuse(
            path,
            f"has the unsupported type {kind!r}",
            "use bool, Literal, Enum, None, a model, a bounded int, float, Decimal, str, list or "
            "tuple, or a union of these (for a mapping: a list of pairs, or a model)",
        )
    if "serialization" in schema or schema.get("computed_fields"):
        _refuse(path, "has a serializer or computed field", "write the plain fields only")
    return _READERS[kind](schema, path, definitions)


def _validator(schema: _Schema) -> str:
    function = schema["function"]
    function = function["function"] if isinstance(function, Mapping) else function
    return str(getattr(getattr(function, "func", function), "__name__", function))


def _definitions(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    added = {definition["ref"]: definition for definition in schema["definitions"]}
    return _read(schema["schema"], path, {**definitions, **added})


def _definition_ref(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    reference = schema["schema_ref"]
    if reference not in definitions:
        _refuse(path, "contains itself", "unroll the recursion to a fixed depth")
    others = {name: definition for name, definition in definitions.items() if name != reference}
    return _read(definitions[reference], path, others)


def _inner(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    return _read(schema["schema"], path, definitions)


def _model(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    if schema.get("custom_init"):
        _refuse(path, "has an __init__ of its own", "leave reading to Pydantic")
    return _read(schema["schema"], path, definitions)


def _model_fields(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    parts = []
    for name, field in schema["fields"].items():
        key = to_json(field.get("serialization_alias", name)).decode()
        value = _read(field["schema"], f"{path}.{name}", definitions)
        parts.append(sequence([words([f"{key}:"]), value]))
    return _bracketed("{", parts, "}")


def _bracketed(opening: str, parts: list[Pattern], closing: str) -> Pattern:
    separated = [sequence([words([","]), part]) for part in parts[1:]]
    return sequence([words([opening]), *parts[:1], *separated, words([closing])])


def _bool(_schema: _Schema, _path: str, _definitions: _Definitions) -> Pattern:
    return words(["false", "true"])


def _none(_schema: _Schema, _path: str, _definitions: _Definitions) -> Pattern:
    return words(["null"])


def _literal(schema: _Schema, _path: str, _definitions: _Definitions) -> Pattern:
    return words(to_json(value).decode() for value in schema["expected"])


def _enum(schema: _Schema, _path: str, _definitions: _Definitions) -> Pattern:
    return words(to_json(member).decode() for member in schema["members"])


def _nullable(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    return choice([words(["null"]), _read(schema["schema"], path, definitions)])


def _union(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    members = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
    shapes = [_shape(member, definitions) for member in members]
    if schema.get("mode", "smart") != "smart" or len(set(shapes)) < len(shapes):
        _refuse(
            path,
            "is a union whose members cannot be told apart by shape",
            "give each a JSON type or a set of keys of its own, or name a discriminator",
        )
    return choice([_read(member, path, definitions) for member in members])


def _shape(schema: _Schema, definitions: _Definitions) -> object:
    """What tells one member of a union from another; members with equal shapes are ambiguous."""
    while schema["type"] == "definition-ref" and schema["schema_ref"] in definitions:
        schema = definitions[schema["schema_ref"]]
    match schema["type"]:
        case "model" if schema["schema"]["type"] == "model-fields":
            return frozenset(schema["schema"]["fields"])
        case "list" | "tuple":
            return "array"
        case "str" | "decimal":  # a decimal is written as a string
            return "string"
        case "literal":
            return tuple(schema["expected"])
        case kind:
            return kind


def _tagged_union(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    return choice([_read(member, path, definitions) for member in schema["choices"].values()])


def _list(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    if schema.get("max_length") is None:
        _refuse(path, "is a list without a longest length", "add Field(max_length=...)")
    item = _read(schema.get("items_schema", {"type": "any"}), f"{path}[]", definitions)
    return _array(item, schema)


def _array(item: Pattern, schema: _Schema) -> Pattern:
    items = listing(item, schema.get("min_length") or 0, schema["max_length"])
    return sequence([words(["["]), items, words(["]"])])


def _tuple(schema: _Schema, path: str, definitions: _Definitions) -> Pattern:
    items = [
        _read(item, f"{path}[{index}]", definitions)
        for index, item in enumerate(schema["items_schema"])
    ]
    if "variadic_item_index" not in schema:
        return _bracketed("[", items, "]")
    if schema.get("max_length") is None:
        _refuse(path, "is a tuple without a longest length", "add Field(max_length=...)")
    return _array(items[0], schema)


def _str(schema: _Schema, path: str, _definitions: _Definitions) -> Pattern:
    least, most = schema.get("min_length") or 0, schema.get("max_length")
    quote = words(['"'])
    if (regex := schema.get("pattern")) is not None:
        try:
            text = finite_regex(regex, least, most)
        except ValueError as error:
            _refuse(path, f"has the pattern {regex!r}, which {error}", "make it a finite one")
        return sequence([quote, text, quote])
    if most is None:
        _refuse(path, "is a string without a longest length", "add Field(max_length=...)")
    if least > most:
        _refuse(path, f"has no string of {least} to {most} characters", "widen its bounds")
    return sequence([quote, characters(least, most), quote])


def _int(schema: _Schema, path: str, _definitions: _Definitions) -> Pattern:
    step = schema.get("multiple_of", 1)
    least, most = _multiples(schema, path, Fraction(step))
    if step == 1:
        return integers(least, most)
    return words(str(k * step) for k in _points(least, most, path))


def _float(schema: _Schema, path: str, _definitions: _Definitions) -> Pattern:
    step = Fraction(str(schema.get("multiple_of", 0)))
    least, most = _multiples(schema, path, step)
    return words(to_json(float(k * step)).decode() for k in _points(least, most, path))


def _decimal(schema: _Schema, path: str, _definitions: _Definitions) -> Pattern:
    places = schema.get("decimal_places")
    unit = 0 if places is None else Decimal(1).scaleb(-places)
    step = Decimal(str(schema.get("multiple_of", unit)))
    least, most = _multiples(schema, path, Fraction(step))
    return words(to_json(k * step).decode() for k in _points(least, most, path))


def _multiples(schema: _Schema, path: str, step: Fraction) -> tuple[int, int]:
    """First and last k for which k * step lies within a number's bounds."""
    kind = schema["type"]
    if step <= 0:
        _refuse(path, f"is a {kind} of any precision", "add Field(multiple_of=0.1), for example")
    bound = {
        name: Fraction(str(schema[name])) / step
        for name in ("ge", "gt", "le", "lt")
        if schema.get(name) is not None and math.isfinite(schema[name])
    }
    lowest = [math.ceil(bound["ge"])] if "ge" in bound else []
    lowest += [math.floor(bound["gt"]) + 1] if "gt" in bound else []
    highest = [math.floor(bound["le"])] if "le" in bound else []
    highest += [math.ceil(bound["lt"]) - 1] if "lt" in bound else []
    if not (lowest and highest):
        _refuse(path, f"is a {kind} without bounds on both sides", "add Field(ge=..., le=...)")
    if max(lowest) > min(highest):
        _refuse(path, f"is a {kind} without any value between its bounds", "widen them")
    return max(lowest), min(highest)


def _points(least: int, most: int, path: str) -> range:
    if most - least >= LARGEST_GRID:
        _refuse(
            path,
            f"is a grid of {most - least + 1} points, more than {LARGEST_GRID}",
            "take a larger multiple_of or narrower bounds",
        )
    return range(least, most + 1)


_READERS: Mapping[str, Callable[[_Schema, str, _Definitions], Pattern]] = {
    "bool": _bool,
    "decimal": _decimal,
    "default": _inner,
    "definition-ref": _definition_ref,
    "definitions": _definitions,
    "enum": _enum,
    "float": _float,
    "int": _int,
    "list": _list,
    "literal": _literal,
    "model": _model,
    "model-fields": _model_fields,
    "none": _none,
    "nullable": _nullable,
    "str": _str,
    "tagged-union": _tagged_union,
    "tuple": _tuple,
    "union": _union,
}
