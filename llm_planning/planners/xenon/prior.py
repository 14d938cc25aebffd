"""Who is asked in Minecraft: the model, or the oracle that errs at the rates of Table 12."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.llm_roles import llm_roles
from llm_planning.planners.xenon.oracle_roles import oracle_roles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.minecraft.text_world import TextWorld
    from llm_planning.planners.xenon.roles import NeedsQuestion, Predict, Requirements, Roles
    from llm_planning.planners.xenon.settings import Prior
    from llm_planning.roles import Engines


def prior_roles(
    prior: Prior,
    world: TextWorld,
    engines: Engines,
    *,
    seed: int,
    names: Sequence[str] | None = None,
) -> Roles:
    """Everybody an agent can ask.

    Args:
        prior: who answers.
        world: of the unperturbed rules.
        engines: the models.
        seed: of draws and errors.
        names: what answers are held to; None allows any name.
    """
    if prior == "model":
        return llm_roles(engines, names=names, actions=world.verbs, seed=seed)
    roles = oracle_roles(world.book, items=world.items, seed=seed)
    return roles if names is None else replace(roles, predict=_held_to(names, roles.predict))


def _held_to(names: Sequence[str], predict: Predict) -> Predict:
    """Leaves out of a prediction what is none of these names, as a model's constraint does."""

    async def held(question: NeedsQuestion, /) -> Requirements:
        answer = await predict(question)
        return {u: n for u, n in answer.items() if u in names}

    return held
