"""The state after options, predicted one by one; and what rules see where nobody predicts (ours).

Without a world model a question holds s_0 and the options since, [s_0, ω_1, ..., ω_i] (Section
4.4). Whoever answers has to imagine where these lead, which a model does unseen. Rules in a model's
place have two bounds, the setting `rules_see`:

    imagined   the rules of `dynamics` predict state after state, with their errors, anew for every
               question. Errors compound
    initial    the rules see s_0 alone
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import A, S, settled
from llm_planning.planners.tree_of_options.states import OptionQuestion, OptionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.planners.tree_of_options.states import OptionDomain, PredictedState
    from llm_planning.roles import Role

    Predict: TypeAlias = Role[OptionQuestion[S, A], PredictedState[S]]


async def following(
    predict: Predict[S, A], domain: OptionDomain[S, A], tau: OptionState[S, A], option: A
) -> tuple[OptionState[S, A], Mapping[str, int]]:
    """τ_{i+1} with the ŝ_{i+1} of eq. 1, and the item -> count that ω takes away but ŝ_i lacks."""
    found = await predict(OptionQuestion(tau, option))
    described = await settled(domain.describe(found.state))
    options = (*tau.options, option)
    return OptionState(tau.goal, found.state, described, options), found.clipped


def imagining(
    ask: Role[Any, Any], predict: Predict[S, A], domain: OptionDomain[S, A]
) -> Role[Any, Any]:
    """A role that predicts the states after the options of a question before it answers.

    Args:
        ask: answers a question that holds the present state.
        predict: the world model of whoever answers.
        domain: describes the states.
    """

    async def along(tau: OptionState[S, A]) -> OptionState[S, A]:
        known = len(tau.options) - len(tau.since)
        reached = replace(tau, options=tau.options[:known], since=())
        for option in tau.since:
            reached, _ = await following(predict, domain, reached, option)
        return reached

    async def imagined(question: Any) -> Any:  # noqa: ANN401 - an `OptionState`, or about an option
        if isinstance(question, OptionState):
            return await along(question)
        if not question.tau.since:
            return question
        if question.before is None:
            return replace(question, tau=await along(question.tau))
        before = await along(question.before)
        after, _ = await following(predict, domain, before, question.option)
        return replace(question, tau=replace(after, options=question.tau.options), before=before)

    async def answer(question: Any, /) -> Any:  # noqa: ANN401 - likewise
        return await ask(await imagined(question))

    return answer
