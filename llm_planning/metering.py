"""What one trial or run spends on engines that others use too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_planning.roles import Engines
from llm_serving.engine import MeteredEngine
from llm_serving.request import Usage

if TYPE_CHECKING:
    from llm_serving.engine import Counters


def metered(engines: Engines) -> Engines:
    """The same engines with counters of their own; one engine stays one."""
    options = MeteredEngine(engines.options)
    if engines.world is engines.options:
        return Engines.both(options)
    return Engines(options=options, world=MeteredEngine(engines.world))


def usage_by_role(engines: Engines) -> dict[str, Usage]:
    """What was asked of either engine, by role."""
    meters: list[Counters] = [engines.options.counters]
    if engines.world is not engines.options:
        meters.append(engines.world.counters)
    usage: dict[str, Usage] = {}
    for meter in meters:
        for role, spent in meter.roles.items():
            usage[role] = usage.get(role, Usage()) + spent
    return usage
