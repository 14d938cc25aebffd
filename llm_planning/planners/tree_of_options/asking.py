"""Who answers ToO's roles in one run: models, taught models in their short words, or rules.

Without a world model a question holds s_0 and the options since, [s_0, ω_1, ..., ω_i] (Section
4.4). Whoever answers has to imagine where these lead, which a model does unseen. What rules in a
model's place know of it is the setting `rules_see`, which is ours:

    imagined   the rules of `dynamics` predict state after state, with their errors, once for each
               history: all questions of a run about these options are about one state. So the
               answerer has the world model that the planner does without
    anew       the same, but every question has a state of its own where errors are independent: who
               asks decides it, and not when. No two answers then need to fit together
    initial    the rules see s_0 alone
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import A, S
from llm_planning.execution.option_prompts import PROPOSED
from llm_planning.execution.option_roles import PlanAsking
from llm_planning.execution.options import OptionState, tau_of
from llm_planning.planners.tree_of_options.older_words import in_older_words
from llm_planning.planners.tree_of_options.roles import OptionQuestion, OptionRoles
from llm_planning.planners.tree_of_options.settings import UnpredictedSettings
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.execution.option_settings import PromptSettings
    from llm_planning.execution.options import Candidate, OptionDomain
    from llm_planning.roles import AnyRole, Engines, Errors, Role, RoleRules
    from llm_planning.roles.llm import AnswerT, QuestionT

    Follow: TypeAlias = Callable[[Any, OptionState[S, A], A], Awaitable[OptionState[S, A]]]


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
        self._imagined: dict[tuple[Any, ...], OptionState[S, A]] = {}

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

    def errors_of(self, role: str) -> Errors | None:
        """How rules err in a role; who imagines one state for each history errs once in it."""
        errors = super().errors_of(role)
        settings = self.settings
        once = isinstance(settings, UnpredictedSettings) and settings.rules_see == "imagined"
        if errors is None or errors.never or not (once and role == "dynamics"):
            return errors
        sticky = {"kind": "sticky"} if errors.kind == "independent" else {}
        return errors.model_copy(update=sticky)

    def by_model(self, spec: AnyRole[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        """The role by its model; the bundled adapter is asked in the words that it was taught."""
        return super().by_model(in_older_words(spec, self))

    def by_rules(self, spec: RoleRules[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT] | None:
        """The role by rules, which know of a state what `rules_see` says; None by a model.

        Raises:
            SettingsError: the state is to be imagined by rules, but a model answers `dynamics`.
        """
        ask, rule = super().by_rules(spec), spec.rule
        settings = self.settings
        if (
            ask is None
            or rule is None
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

        async def anew(question: Any, tau: OptionState[S, A], option: A) -> OptionState[S, A]:  # noqa: ANN401
            asker = (spec.name, *rule.situation(question))
            prediction = await predict(OptionQuestion(tau, option, asker=asker))
            return await tau_of(self.domain, prediction.state, (*tau.options, option))

        async def once(_: Any, tau: OptionState[S, A], option: A) -> OptionState[S, A]:  # noqa: ANN401
            # A prediction is the same whenever it is asked for (`errors_of`), so keeping it saves
            # time and changes nothing.
            key = (tau.described, *tau.options, option)
            if key not in self._imagined:
                prediction = await predict(OptionQuestion(tau, option))
                after = await tau_of(self.domain, prediction.state, (*tau.options, option))
                self._imagined[key] = after
            return self._imagined[key]

        return imagining(ask, anew if settings.rules_see == "anew" else once)


def imagining(ask: Role[Any, Any], follow: Follow[S, A]) -> Role[Any, Any]:
    """A role that imagines the states after the options of a question before it answers.

    Args:
        ask: answers a question that holds the present state.
        follow: maps a question, a τ and an option to the τ that this question imagines after it.
    """

    async def along(question: Any, tau: OptionState[S, A]) -> OptionState[S, A]:  # noqa: ANN401
        known = len(tau.options) - len(tau.since)
        reached = replace(tau, options=tau.options[:known], since=())
        for option in tau.since:
            reached = await follow(question, reached, option)
        return reached

    async def answer(question: Any, /) -> Any:  # noqa: ANN401 - an `OptionState`, or about an option
        if isinstance(question, OptionState):
            return await ask(await along(question, question))
        if not question.tau.since:
            return await ask(question)
        if question.before is None:
            return await ask(replace(question, tau=await along(question, question.tau)))
        before = await along(question, question.before)
        after = await follow(question, before, question.option)
        tau = replace(after, options=question.tau.options)
        return await ask(replace(question, tau=tau, before=before))

    return answer
