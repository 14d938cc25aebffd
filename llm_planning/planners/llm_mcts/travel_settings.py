"""Settings of L-Policy and L-Model, which plan journeys (Section 4.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field

from llm_planning.roles import RoleSettings, by_model

if TYPE_CHECKING:
    from llm_planning.settings import ReadWhen

ROUTE: Final = "route"
FLIGHTS: Final = "flights"
"""The roles: all cities of a journey in one answer; the direct flights out of a city."""

MOST_LISTED: Final = 25
"""The most flights that one answer may name."""


class RouteSettings(RoleSettings):
    """Settings of L-Policy.

    Attributes:
        temperature: of the model's answers; 0 is greedy.
    """

    known_roles = (ROUTE, FLIGHTS)
    read_when: ClassVar[ReadWhen] = {"temperature": [by_model(ROUTE)]}

    temperature: float = Field(0.0, ge=0.0, allow_inf_nan=False)


class FlightSearchSettings(RouteSettings):
    """Settings of L-Model. The paper states none of them.

    Attributes:
        listed: the most flights that the model names of a city; rules name all.
        expansions: the most cities whose flights are looked at.
        width: cities that are asked about at once; it does not change the journey.
    """

    read_when: ClassVar[ReadWhen] = {
        "temperature": [by_model(FLIGHTS)],
        "listed": [by_model(FLIGHTS)],
    }

    listed: int = Field(20, ge=1, le=MOST_LISTED)
    expansions: int = Field(100, ge=1)
    width: int = Field(64, ge=1)
