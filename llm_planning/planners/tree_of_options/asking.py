"""Who answers ToO's roles in one run: models, taught models in their short words, or rules.

Without a world model a question holds s_0 and the options since, [s_0, ω_1, ..., ω_i] (Section
4.4). Whoever answers has to imagine where these lead, which a model does unseen. Rules in a model's
place have two bounds, the setting `rules_see`, which is ours:

    imagined   the rules of `dynamics` predict state after state, with their errors, anew for every
               question. Errors compound; independent ones depend on who imagines, and not on when
    initial    the rules see s_0 alone
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import A, S
from llm_planning.execution.option_prompts import PROPOSED
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.options import OptionState, tau_of
from llm_planning.planners.tree_of_options.older_words import in_older_words, older_digest
from llm_planning.planners.tree_of_options.roles import OptionQuestion, OptionRoles
from llm_planning.planners.tree_of_options.settings import UnpredictedSettings
from llm_planning.roles.short import words_of
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.execution.option_settings import PromptSettings
    from llm_planning.execution.options import Candidate, OptionDomain
    from llm_planning.planners.tree_of_options.roles import PredictedState
    from llm_planning.roles import AnyRole, Engines, Role, RoleRules
    from llm_planning.roles.llm import AnswerT, QuestionT
    from llm_planning.roles.oracles import Key

    Predict: TypeAlias = Role[OptionQuestion[S, A], PredictedState[S]]

logger = logging.getLogger(__name__)


class OptionAsking(PlanAsking[S, A]):
    """Who answers ToO's roles; see `PlanAsking`."""

    roles: OptionRoles[S, A]

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        super().__init__(domain, engines, settings, seed=seed)
        self.roles = OptionRoles(domain, settings, seed=seed)
        _warn_of_other_words(engines, domain)

    def by_name(
        self, names: Sequence[str], k: int, *, moment: str, judged: str
    ) -> Mapping[str, Role[Any, Any]]:
        """Roles by their names; see `OptionRoles.by_name`."""
        specs = self.roles.by_name(k, moment=moment, judged=judged)
        return {
            name: self.propose(k, moment) if name == "propose" else self.of(specs[name])
            for name in names
        }

    def propose(self, k: int, moment: str) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that proposes, with at most k candidates."""
        spec, engine = self.roles.propose(k, moment), self.engines.of("propose")
        taught = engine.identity.taught is not None
        if k < PROPOSED and taught and in_older_words(spec, self).is_taught(engine):
            # A taught model learned to name so many; the first are the best.
            spec = self.roles.propose(PROPOSED, moment)
        propose: Role[OptionState[S, A], Sequence[Candidate[A]]] = self.of(spec)

        async def ask(tau: OptionState[S, A], /) -> Sequence[Candidate[A]]:
            return (await propose(tau))[:k]  # Rules may name more.

        return ask

    def by_model(self, spec: AnyRole[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        """The role by its model; the bundled adapter is asked in the words that it was taught."""
        return super().by_model(in_older_words(spec, self))

    def by_rules(self, spec: RoleRules[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT] | None:
        """The role by rules, which know of a state what `rules_see` says; None by a model.

        Raises:
            SettingsError: the state is to be imagined by rules, but a model answers `dynamics`.
        """
        ask = super().by_rules(spec)
        settings = self.settings
        if (
            ask is None
            or spec.rule is None
            or not isinstance(settings, UnpredictedSettings)
            or settings.rules_see == "initial"
        ):
            return ask
        predict = super().by_rules(self.roles.dynamics())
        if predict is None:
            raise SettingsError(
                f"roles={settings.roles}: rules answer {spec.name!r}, but none of `dynamics` "
                "imagine the state for them: say how often it is right, or set rules_see=initial"
            )
        return imagining(spec.name, spec.rule.situation, ask, predict, self.domain)


def imagining(
    role: str,
    situation: Callable[[Any], tuple[Key, ...]],
    ask: Role[Any, Any],
    predict: Predict[S, A],
    domain: OptionDomain[S, A],
) -> Role[Any, Any]:
    """A role that predicts the states after the options of a question before it answers.

    Args:
        situation: of its question. Roles and candidates that are asked about at once imagine the
            same; whose the prediction is follows from this.
        ask: answers a question that holds the present state.
        predict: the world model of whoever answers.
    """

    async def answer(question: Any, /) -> Any:  # noqa: ANN401 - an `OptionState`, or about an option
        asker = (role, *situation(question))

        async def following(tau: OptionState[S, A], option: A) -> OptionState[S, A]:
            prediction = await predict(OptionQuestion(tau, option, asker=asker))
            return await tau_of(domain, prediction.state, (*tau.options, option))

        async def along(tau: OptionState[S, A]) -> OptionState[S, A]:
            known = len(tau.options) - len(tau.since)
            reached = replace(tau, options=tau.options[:known], since=())
            for option in tau.since:
                reached = await following(reached, option)
            return reached

        if isinstance(question, OptionState):
            return await ask(await along(question))
        if not question.tau.since:
            return await ask(question)
        if question.before is None:
            return await ask(replace(question, tau=await along(question.tau)))
        before = await along(question.before)
        after = await following(before, question.option)
        tau = replace(after, options=question.tau.options)
        return await ask(replace(question, tau=tau, before=before))

    return answer


def _warn_of_other_words(engines: Engines, domain: OptionDomain[Any, Any]) -> None:
    """Says which models are asked as any other although a simulator taught them."""
    for engine in engines.different:
        taught = engine.identity.taught
        if taught and not {words_of(domain), older_digest(domain)} & {*taught.words_sha256}:
            logger.warning(
                "%s was taught in other words, so it is asked as any model: teach it again",
                engine.identity.name,
            )
