"""A prior of known quality in the model's place: right with a stated probability.

An answer is drawn once per seed and question, the same for every agent that asks it. Failures that
the question tells make it another question, so self-correction gets a fresh draw each time.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from llm_planning.environments.cooking.recipes import RULES, TOOLS

if TYPE_CHECKING:
    from collections.abc import Sequence


class OracleTool:
    """Knows the tools, and errs.

    Args:
        accuracy: probability of a right answer; a wrong one is uniform among the others.
        seed: of every draw.
    """

    def __init__(self, *, accuracy: float, seed: int) -> None:
        self._accuracy = accuracy
        self._seed = seed

    async def __call__(
        self,
        cookbook_action: str,
        *,
        examples: Sequence[tuple[str, str]],  # noqa: ARG002 - it knows the rules
        failures: Sequence[str],
    ) -> str:
        """Draws a tool."""
        rng = Random(f"{self._seed}/tool/{cookbook_action}/{len(failures)}")
        return _draw(rng, self._accuracy, RULES[cookbook_action].tools, TOOLS)


class OracleAction:
    """Knows the executable actions, and errs.

    Args:
        accuracy: probability of a right answer; a wrong one is uniform among the other options.
        seed: of every draw.
    """

    def __init__(self, *, accuracy: float, seed: int) -> None:
        self._accuracy = accuracy
        self._seed = seed

    async def __call__(
        self,
        item: str,
        *,
        quantity: int,  # noqa: ARG002 - the protocol is Minecraft's
        examples: Sequence[tuple[str, str]],  # noqa: ARG002 - it knows the rules
        options: Sequence[str],
        analyses: Sequence[str],
    ) -> str:
        """Draws one of the options."""
        asked = ",".join(sorted(options))
        rng = Random(f"{self._seed}/action/{item}/{asked}/{len(analyses)}")
        return _draw(rng, self._accuracy, (RULES[item].action,), options)


def _draw(rng: Random, accuracy: float, right: Sequence[str], options: Sequence[str]) -> str:
    """One option: a right one with the given probability, where there is a choice."""
    fitting = [option for option in options if option in right]
    others = [option for option in options if option not in right]
    is_right = rng.random() < accuracy
    return rng.choice(fitting if fitting and (is_right or not others) else others)
