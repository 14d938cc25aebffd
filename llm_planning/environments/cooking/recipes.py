"""What a cookbook says and what the game does: directions, executable actions, tools.

Source: XENON, Appendix A.1, for the actions, the tools and what fits what; the game's own grammar
(`tw-cooking` of TextWorld) for the commands. The paper prints one fitting pair, fry: (cook, stove).
In the game a stove fries, an oven roasts, and cutting of all kinds takes a knife; the meal is
prepared and eaten by commands that name no tool, so any tool fits and is left out of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
    """What a cookbook action takes.

    Attributes:
        action: the executable action.
        tools: those that fit.
        command: as the game takes it, with {ingredient} and {tool} left open.
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
"""Cookbook action -> what it takes. Grilling is not here: its tool is not one of the paper's."""

_STEP = re.compile(r"(?P<action>\w+) (?:the )?(?P<ingredient>.+)")


def read_cookbook(text: str) -> tuple[Direction, ...]:
    """The plan that a cookbook provides.

    Args:
        text: what the game says when the cookbook is examined.

    Returns:
        Its directions in order, then eating the meal, which is the goal and goes without saying.

    Raises:
        CookingError: the text is no recipe, or a direction is none that the paper's tools can do.
    """
    _, found, listed = text.partition("Directions:")
    plan: list[Direction] = []
    for line in listed.strip().splitlines():
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
    """What the game is told, once action and tool fit."""
    return RULES[direction.action].command.format(ingredient=direction.ingredient, tool=tool)
