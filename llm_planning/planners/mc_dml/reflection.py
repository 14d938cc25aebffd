"""Reflections on trajectories that failed: LLM(h, p_reflection), Algorithm 1 lines 11 and 45."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_planning.planners.mc_dml.prompts import ask_reflection
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Request

if TYPE_CHECKING:
    from llm_planning.planners.mc_dml.roles import Trajectory
    from llm_serving.engine import Engine

ROLE = "reflection"
"""Under which the engine counts these questions."""

# A second N could begin the sentence again, and outlines would take minutes to compile that.
_PATTERN = finite_regex(r"Next time[ ,][^.!?N]{20,189}\.")

SENTENCE = Constraint(_PATTERN.regex, _PATTERN.max_bytes)
"""The language of one sentence of advice, 31 to 200 plain characters with its full stop.

It is written as it is: JSON around it would only cost tokens.
"""


class LlmReflection:
    """A `Reflect`: the model's advice after a failure, one sentence, greedy.

    Args:
        engine: who answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, trajectory: Trajectory) -> str:
        """Asks the model.

        Raises:
            ServingError: the engine failed.
        """
        answer = await self._engine.generate(
            Request(prompt=ask_reflection(trajectory), constraint=SENTENCE, role=ROLE)
        )
        return answer.text.strip()
