"""K-shot prompts: the training instructions most similar to a task's, each with a right decision.

Source: LLM-MCTS, Section 2.3. The paper shows the expert's trajectories of the K instructions. The
authors' code shows one step of each: the one whose observation is most similar to the current one.
That step changes with every question, so no two prompts begin alike. Here the steps are chosen once
for a task, so all of its prompts begin with the same examples, and the prefix cache keeps them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from llm_kernels.index import EmbeddingIndex
from llm_planning.environments.household.goals import goal_text
from llm_planning.environments.household.observations import observation_text
from llm_planning.environments.household.tasks import prompt_numbers, trajectories
from llm_planning.planners.llm_mcts.cosine import SIMILARITY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.household.tasks import Trajectory
    from llm_serving.engine import Engine

EXAMPLES: Final = 3
"""K, as in the authors' code; the paper does not say."""

TRAINING_SEED: Final = 1
"""Of the training tasks: all runs share them, so their instructions are embedded once."""


async def similar_instances(instruction: str, *, k: int, engine: Engine) -> list[Trajectory]:
    """The K training tasks whose instructions are most similar, the most similar first.

    Args:
        instruction: ℓ, the goal in words.
        k: K, at least 1.
        engine: embeds the instructions; its cache keeps their vectors.

    Returns:
        The expert's trajectories, shape [k].

    Raises:
        ServingError: the engine failed.
    """
    known = _instances()
    vectors = await engine.embed([instruction, *map(instruction_of, known)], role=SIMILARITY)
    index = EmbeddingIndex(vectors.shape[1])
    index.add(map(str, range(len(known))), vectors[1:])
    return [known[int(match.key)] for match in index.search(vectors[0], k)]


@cache
def _instances() -> tuple[Trajectory, ...]:
    """The training tasks that prompts may show: 200, in the home `seen`."""
    return tuple(trajectories(seed=TRAINING_SEED, numbers=prompt_numbers(seed=TRAINING_SEED)))


def instruction_of(instance: Trajectory) -> str:
    """ℓ_i, the goal in words."""
    return goal_text(instance.task.rules.goal, instance.task.rules.home)


def worked_examples(instances: Sequence[Trajectory]) -> tuple[tuple[str, str], ...]:
    """One decision of each trajectory, as `ActWording` takes them.

    Trajectory i of K, from 0, shows the step at (2 i + 1) / 2K of its length: the first one an
    early decision, the last one a late decision with nearly all that was done before.

    Args:
        instances: the trajectories, shape [K].

    Returns:
        (state in words, action), shape [K].
    """
    count = 2 * len(instances)
    return tuple(
        _decision(one, len(one.actions) * (2 * i + 1) // count) for i, one in enumerate(instances)
    )


def _decision(instance: Trajectory, step: int) -> tuple[str, str]:
    rules = instance.task.rules
    done = ", ".join(map(str, instance.actions[:step]))
    lines = (
        f"Goal: {instruction_of(instance)}",
        *((f"Completed actions: {done}",) if done else ()),
        f"Now: {observation_text(rules.observe(instance.states[step]), rules)}",
    )
    return "\n".join(lines), str(instance.actions[step])
