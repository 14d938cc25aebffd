"""Short words: how a model is asked that was taught a role by the world's own rules.

It knows the rules and the form of its answers, so the question's fields alone are told. First comes
what all roles share that are asked in one state: the state, the goal, and what was done since the
state if nobody predicted more. So lessons and the prefix cache read it once. The role's name and
its own fields come last:

    y on b on table
    goal: Block b is on block y.

    judge
    subtask: stack b y

A field that is not shown in a `repr` is told to nobody, nor is one without a value. A world that
has `brief` tells its states by that. All roles of a world have words of one family, so that one
adapter holds them all.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import fields
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from llm_planning.domain import Briefs
from llm_planning.roles.asking import Short
from llm_planning.roles.llm import TOLD, Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llm_planning.domain import Domain

STATE: Final = "described"
"""The field with the state in words, which comes first and without its name."""

SINCE: Final = "since"
"""The field with the options after the state, for planners that predict no states."""

SHARED: Final = (STATE, "goal", SINCE)
"""The fields that all roles share in one state."""

FORM: Final = 2
"""Counts the forms of short words. It rises whenever a role's words change: what a model was taught
in another form it is asked as any model."""

_SYSTEM = "You know this world and what every action does in it."
_TEMPLATE = (
    "{% block system %}" + _SYSTEM + "{%- endblock %}{% block asked %}{{ asked }}{%- endblock %}"
)
_PART = re.compile(r"[,;\n]\s*")


def in_short(role: str, variables: Mapping[str, object]) -> str:
    """A question in short words.

    Args:
        variables: name -> a text, an option, or a sequence of them.

    Example:
        >>> from llm_planning.roles.short import in_short
        >>> print(in_short("toss", {"coin": "penny", "described": "It rains."}))
        It rains.
        <BLANKLINE>
        toss
        coin: penny
    """
    texts = {name: text for name, value in variables.items() if (text := _text(value))}
    lines = {name: text if name == STATE else f"{name}: {text}" for name, text in texts.items()}
    shared = [lines[name] for name in SHARED if name in lines]
    own = [line for name, line in lines.items() if name not in SHARED]
    return "\n".join([*shared, *([""] if shared else []), role, *own])


def short_words(
    role: str,
    world: Domain[Any, Any],
    *,
    values_of: Callable[[Any], Mapping[str, object]] | None = None,
) -> Short[Any]:
    """The short words of a role.

    Args:
        world: where it is asked.
        values_of: maps a question to what is told of it; by default its fields.
    """
    read = values_of or partial(_fields, world)

    def asked(question: Any) -> Mapping[str, object]:  # noqa: ANN401 - the role's question
        variables = read(question)
        told = tuple(name for name, value in variables.items() if _text(value))
        return {"asked": in_short(role, variables), TOLD: told}

    return Short(
        prompt=short_prompt,
        values_of=asked,
        digest=partial(words_of, world),
    )


@cache
def short_prompt() -> Prompt:
    """The prompt of every question in short words; it needs the value `asked`."""
    return Prompt([_TEMPLATE], system=("system",), user=("asked",), constants={})


def words_of(world: Domain[Any, Any]) -> str:
    """SHA-256 of the short words in a world, in hexadecimal; all roles there have the same.

    Args:
        world: its kind counts, and its `mechanics`. Its problem and the language of answers play no
            part.
    """
    named = (FORM, _SYSTEM, type(world).__name__, world.mechanics)
    return hashlib.sha256(repr(named).encode()).hexdigest()


def state_text(world: Domain[Any, Any], state: Any, described: str) -> str:  # noqa: ANN401
    """A state as short words tell it.

    Args:
        world: where it is; its `brief` tells states, if it has that.
        described: the state in words; empty if it is not told.
    """
    return world.brief(state) if described and isinstance(world, Briefs) else described


def difference(before: str, after: str) -> Mapping[str, str]:
    """What is new in a state in words, and what is there no more; `nothing` if all is as before.

    Example:
        >>> from llm_planning.roles.short import difference
        >>> difference("Has: 1 log, 2 coal", "Has: 1 log, 1 coal")
        {'then': '1 coal', 'no more': '2 coal'}
    """
    old, new = _PART.split(before), _PART.split(after)
    came = ", ".join(part for part in new if part not in old)
    went = ", ".join(part for part in old if part not in new)
    return {"then": came or ("" if went else "nothing"), "no more": went}


def _fields(world: Domain[Any, Any], question: Any) -> Mapping[str, object]:  # noqa: ANN401
    variables = {
        field.name: getattr(question, field.name) for field in fields(question) if field.repr
    }
    if STATE in variables and hasattr(question, "state"):
        variables[STATE] = state_text(world, question.state, variables[STATE])
    return variables


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return str(value)
