"""Short words: how a model is asked that was taught a role by the world's own rules.

It knows the rules and the form of its answers, so the question's fields alone are told. First comes
what all roles share that are asked in one state: the state in words, then the goal. So lessons and
the prefix cache read it once. The role's name and its own fields come last:

    Block y is on block b. Block b is on the table.
    goal: Block b is on block y.

    judge
    subtask: stack b y

A field that is not shown in a `repr` is told to nobody, nor is one without a value.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from llm_planning.roles.asking import Short
from llm_planning.roles.llm import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from llm_planning.roles.asking import RoleSpec

STATE: Final = "described"
"""The field with the state in words, which comes first and without its name."""

SHARED: Final = (STATE, "goal")
"""The fields that all roles share in one state."""

_SYSTEM = "You know this world and what every action does in it."
_TEMPLATE = (
    "{% block system %}" + _SYSTEM + "{%- endblock %}{% block asked %}{{ asked }}{%- endblock %}"
)


def in_short(role: str, question: Any) -> str:  # noqa: ANN401 - a dataclass
    """A question in short words.

    Args:
        role: its name.
        question: its fields are texts, options, or sequences of them.

    Example:
        >>> from dataclasses import dataclass, field
        >>> from llm_planning.roles.short import in_short
        >>> @dataclass(frozen=True)
        ... class Move:
        ...     coin: str
        ...     described: str
        ...     vote: int = field(default=0, repr=False)
        >>> print(in_short("toss", Move(coin="penny", described="It rains.")))
        It rains.
        <BLANKLINE>
        toss
        coin: penny
    """
    values = {one.name: _text(getattr(question, one.name)) for one in fields(question) if one.repr}
    told = {name: text for name, text in values.items() if text}
    shared = [
        told[name] if name == STATE else f"{name}: {told[name]}" for name in SHARED if name in told
    ]
    own = [f"{name}: {text}" for name, text in told.items() if name not in SHARED]
    return "\n".join([*shared, *([""] if shared else []), role, *own])


def short_words(role: str, digest: Callable[[], str]) -> Short[Any]:
    """The short words of a role.

    Args:
        role: its name.
        digest: see `Short`.
    """

    def tell(question: object) -> Mapping[str, object]:
        return {"asked": in_short(role, question)}

    return Short(prompt=_prompt, tell=tell, digest=digest)


@cache
def _prompt() -> Prompt:
    return Prompt([_TEMPLATE], system=("system",), user=("asked",), constants={})


def digest_of(specs: Iterable[RoleSpec[Any, Any]], *, world: object) -> str:
    """SHA-256 of what is taught in short words, in hexadecimal: the world, roles and their fields.

    The language of the answers plays no part, as it may differ between a world's problems.

    Args:
        specs: the roles that are taught together.
        world: where they are asked. Its kind counts, and `options`, if what an option does there
            depends on a setting.
    """
    told = [(one.name, *(part.name for part in fields(one.asks) if part.repr)) for one in specs]
    named = (_SYSTEM, type(world).__name__, getattr(world, "options", None), told)
    return hashlib.sha256(repr(named).encode()).hexdigest()


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return "; ".join(map(str, value))
    return str(value)
