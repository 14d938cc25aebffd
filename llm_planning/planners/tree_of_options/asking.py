"""Who answers ToO's roles in one run: models, taught models in their short words, or rules."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.imagining import imagining
from llm_planning.planners.tree_of_options.older_words import in_older_words, older_digest
from llm_planning.planners.tree_of_options.program_roles import ProgramRoles
from llm_planning.planners.tree_of_options.prompts import PROPOSED
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.settings import PromptSettings, UnpredictedSettings
from llm_planning.roles import Asking, usage_by_role
from llm_planning.roles.short import words_of
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from llm_planning.planners.tree_of_options.states import Candidate, OptionDomain, OptionState
    from llm_planning.roles import AnyRole, Engines, Role, RoleRules
    from llm_planning.roles.asking import AnswerT, QuestionT

logger = logging.getLogger(__name__)


class OptionAsking(Asking, Generic[S, A]):
    """Who answers ToO's roles.

    Args:
        domain: the domain to plan in.
        engines: the models that answer.
        settings: who answers each role, and the layout.
        seed: of the run.

    Attributes:
        roles: of planning.
        programs: the roles of execution.
    """

    settings: PromptSettings

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        super().__init__(domain, engines, settings, seed=seed)
        self.roles: OptionRoles[S, A] = OptionRoles(domain, settings, seed=seed)
        self.programs: ProgramRoles[S, A] = ProgramRoles(self.roles)
        _warn_of_other_words(engines, domain)

    def propose(self, k: int, moment: str) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that proposes, with at most k candidates."""
        spec = in_older_words(self.roles.propose(k, moment), self)
        if k < PROPOSED and spec.is_taught(self.engines.of(spec.name)):
            # A taught model learned to name so many; the first are the best.
            spec = self.roles.propose(PROPOSED, moment)
        return first(k, self.of(spec))

    def decompose(self) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that writes a plan, with at most d options."""
        return first(self.settings.d, self.of(self.roles.decompose()))

    def of(self, spec: AnyRole[QuestionT, AnswerT], *, votes: int = 1) -> Role[QuestionT, AnswerT]:
        """See `Asking.of`; the bundled adapter is asked in the words that it was taught."""
        return super().of(in_older_words(spec, self), votes=votes)

    def by_rules(self, spec: RoleRules[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT] | None:
        """The role by rules, which know of a state what `rules_see` says; None by a model.

        Raises:
            SettingsError: the state is to be imagined by rules, but a model answers `dynamics`.
        """
        ask = super().by_rules(spec)
        settings = self.settings
        if (
            ask is None
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
        return imagining(ask, predict, self.domain)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds the descriptions of skills, shape [texts, D]."""
        return await self.engines.default.embed(texts, role="skills")

    def tokens(self, roles: Container[str]) -> tuple[int, int]:
        """The calls of models for these roles so far, and their tokens, read and written."""
        spent = [one for role, one in usage_by_role(self.engines).items() if role in roles]
        return (
            sum(one.calls for one in spent),
            sum(one.prompt_tokens + one.completion_tokens for one in spent),
        )


def first(
    most: int, propose: Role[OptionState[S, A], Sequence[Candidate[A]]]
) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
    """A role that names at most so many options; rules may name more."""

    async def ask(question: OptionState[S, A], /) -> Sequence[Candidate[A]]:
        return (await propose(question))[:most]

    return ask


def _warn_of_other_words(engines: Engines, domain: OptionDomain[Any, Any]) -> None:
    """Says which models are asked as any other although a simulator taught them."""
    for engine in engines.different:
        taught = engine.identity.taught
        known = (words_of(domain), older_digest(domain))
        if taught is not None and taught.words_sha256 not in known:
            logger.warning(
                "%s was taught in other words, so it is asked as any model: teach it again",
                engine.identity.name,
            )
