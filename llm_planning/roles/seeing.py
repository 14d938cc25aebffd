"""What a role is shown of a state: its words, its picture, or both.

The setting `see` says it. A domain that draws its states (`Domain.draw`) can be shown to a model
that reads images.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llm_planning.domain import Draws
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_serving.request import Image

See: TypeAlias = Literal["words", "picture", "both"]


def pictures_of(domain: object, see: See) -> Callable[[Any], tuple[Image, ...]]:
    """Maps states of a domain to the pictures that a role is shown of them.

    Args:
        domain: draws its states, unless only words are shown.
        see: what is shown.

    Raises:
        SettingsError: the domain cannot draw.
    """
    if see == "words":
        return lambda _: ()
    if not isinstance(domain, Draws):
        raise SettingsError(
            f"setting see={see} needs a domain that draws its states (`draw`); this one does not: "
            "write see=words, or add it (docs/extending.md)"
        )
    return lambda state: (domain.draw(state),)
