"""The directions of a cookbook, and the executable actions and tools that carry them out.

The actions, the tools and which of them fit are from XENON, Appendix A.1; the commands are from the
grammar of TextWorld's `tw-cooking`. The paper prints one fitting pair, fry: (cook, stove). In the
game a stove fries, an oven roasts, and every cut takes a knife. The commands that prepare and eat
the meal name no tool, so any tool fits.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from llm_base.lines import lines_of
from llm_serving.errors import ServingError

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTIONS = ("chop", "close", "cook", "dice", "drop", "eat", "examine", "slice", "prepare")
"""The executable action space 𝒜 (Appendix A.1)."""

TOOLS = ("knife", "oven", "stove", "fridge", "table", "counter")
"""The available tools (Appendix A.1)."""

MEAL = "meal"


class CookingError(ServingError):
    """A game cannot be made, opened or played as its cookbook says."""


class Direction(NamedTuple):
    """One step of a cookbook's plan: a cookbook action and what it is done to."""

    action: str
    ingredient: str


@dataclass(frozen=True, slots=True)
class Rule:
    """What carries out a cookbook action.

    Attributes:
        command: the game's command, with {ingredient} and {tool} left open.
    """

    action: str
    tools: tuple[str, ...]
    command: str


def _with_tool(action: str, tool: str) -> Rule:
    return Rule(action, (tool,), f"{action} {{ingredient}} with {{tool}}")


RULES: Mapping[str, Rule] = {
    "chop": _with_tool("chop", "knife"),
    "dice": _with_tool("dice", "knife"),
    "slice": _with_tool("slice", "knife"),
    "fry": _with_tool("cook", "stove"),
    "roast": _with_tool("cook", "oven"),
    "prepare": Rule("prepare", TOOLS, "prepare {ingredient}"),
    "eat": Rule("eat", TOOLS, "eat {ingredient}"),
}
"""Cookbook action -> its rule. Grilling is left out: its tool is not one of the paper's."""

_STEP = re.compile(r"(?P<action>\w+) (?:the )?(?P<ingredient>.+)")


def read_cookbook(text: str) -> tuple[Direction, ...]:
    """Reads the plan from a cookbook.

    Returns:
        The directions in order, and then eating the meal, which a cookbook does not mention.

    Raises:
        CookingError: the text is not a recipe, or the paper's tools cannot do a direction.
    """
    _, found, listed = text.partition("Directions:")
    plan: list[Direction] = []
    for line in lines_of(listed.strip()):
        step = _STEP.fullmatch(line.strip())
        if step is None:
            break
        plan.append(Direction(step["action"], step["ingredient"]))
    if not found or not plan or plan[-1] != ("prepare", MEAL):
        raise CookingError(f"the cookbook holds no recipe that ends in a meal: {text!r}")
    for direction in plan:
        if direction.action not in RULES:
            raise CookingError(
                f"the cookbook says {' '.join(direction)!r}, but the known cookbook actions are "
                f"{', '.join(RULES)}: make the game without a place to {direction.action}"
            )
    return (*plan, Direction("eat", MEAL))


def fits(direction: Direction, action: str, tool: str) -> bool:
    """Whether an executable action and a tool are valid for a direction's cookbook action."""
    rule = RULES[direction.action]
    return action == rule.action and tool in rule.tools


def command(direction: Direction, tool: str) -> str:
    """Returns the game's command for a direction and a tool that fits."""
    return RULES[direction.action].command.format(ingredient=direction.ingredient, tool=tool)
