"""Worlds of other people, as domains or parts of domains of this project.

A world is named by its source and its id there, such as `gymnasium:FrozenLake-v1`. The source alone
is a domain whose tasks are all of its worlds. Nothing of a source is imported unless a name asks
for it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from llm_planning.domain import DomainError

if TYPE_CHECKING:
    from llm_planning.specs import DomainSpec

BRIDGES: Final = {
    "gymnasium": "llm_planning.environments.bridges.gymnasium_worlds",
    "openspiel": "llm_planning.environments.bridges.openspiel_games",
    "pddl": "llm_planning.environments.bridges.pddl",
    "textarena": "llm_planning.environments.bridges.textarena_games",
}
"""Source -> the module whose function `bridge` makes a domain of an id."""


def is_bridged(name: str) -> bool:
    """Whether a domain's name begins with a source."""
    return name.partition(":")[0] in BRIDGES


def bridge(name: str) -> DomainSpec:
    """The domain of a world of other people.

    Args:
        name: its source and its id there, such as `gymnasium:FrozenLake-v1`, or the source alone.

    Raises:
        DomainError: the source's package is not installed, or it has no such world.

    Example:
        >>> from llm_planning.environments.bridges import is_bridged
        >>> is_bridged("gymnasium:FrozenLake-v1"), is_bridged("blocksworld")
        (True, False)
    """
    from llm_planning.environments.bridges.own_words import with_own_words

    source, _, id_ = name.partition(":")
    try:
        spec: DomainSpec = import_module(BRIDGES[source]).bridge(id_)
    except ModuleNotFoundError as error:
        raise DomainError(
            f"{name} needs the package {error.name}: pip install 'llm-planning[worlds]'"
        ) from error
    return with_own_words(spec)
