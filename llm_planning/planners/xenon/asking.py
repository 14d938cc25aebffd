"""Who answers XENON's questions: models, rules, or an oracle with the errors of Table 12."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llm_planning.planners.xenon.beliefs import TABLE_12, Beliefs
from llm_planning.planners.xenon.cooking_roles import ACTION, TOOL
from llm_planning.planners.xenon.roles import ESCAPE, MinecraftRoles, chosen
from llm_planning.roles import Asking, Errors, Oracle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.items.text_world import TextWorld
    from llm_planning.planners.xenon.roles import (
        ActionQuestion,
        Analyse,
        Choose,
        Correct,
        Failure,
        NeedsQuestion,
        Predict,
        Rank,
        Requirements,
        StuckQuestion,
    )
    from llm_planning.planners.xenon.settings import CookingSettings, MinecraftSettings
    from llm_planning.roles import Engines, Role, RoleRules, Rule


class MinecraftAsking(Asking):
    """Who answers in Minecraft. A role is made when it is first wanted.

    With roles=table12 an oracle errs as a 7B model does; see `beliefs`. Each of its answers depends
    on the seed and the question, not on what was asked before.

    Args:
        world: the unperturbed game; its rules answer.
        seed: of draws and errors.
        names: the item names that an answer may use; None allows any name.
    """

    settings: MinecraftSettings

    def __init__(
        self,
        world: TextWorld,
        engines: Engines,
        settings: MinecraftSettings,
        *,
        seed: int,
        names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(world, engines, settings, seed=seed)
        self.roles = MinecraftRoles(world, seed=seed, names=names)

    @cached_property
    def predict(self) -> Predict:
        """What an item requires."""
        return self.of(self.roles.predict())

    @cached_property
    def correct(self) -> Correct:
        """What an item requires, given what failed."""
        return self.of(self.roles.correct())

    @cached_property
    def choose(self) -> Choose:
        """Which action obtains an item."""
        return self.of(self.roles.choose())

    @cached_property
    def analyse(self) -> Analyse:
        """Why an attempt failed, in a sentence."""
        return self.of(self.roles.analyse())

    @cached_property
    def rank(self) -> Rank:
        """Log-probabilities of candidates, in nats, in their order."""
        return self.of(self.roles.rank())

    @property
    def oracles(self) -> list[dict[str, object]]:
        """The oracles that were asked, JSON-able, in the order of their first questions.

        With roles=table12 they are two, whether they were asked or not.
        """
        if self._is_table_12:
            return [self._beliefs.describe(), self._action.describe()]
        made = {oracle["role"]: oracle for oracle in super().oracles}
        return [made[role] for role in self.asked if role in made]

    def by_rules(self, spec: RoleRules[Any, Any]) -> Role[Any, Any] | None:
        """See `Asking.by_rules`. Table 12 says nothing of captions."""
        if not self._is_table_12:
            return super().by_rules(spec)
        answers: Mapping[str, Role[Any, Any]] = {
            "predict": self._predicted,
            "correct": self._beliefs.correct,
            "choose": self._action,
            "analyse": without_reason,
            "rank": self._beliefs.rank,
            "intervene": always_intervene,
        }
        return answers.get(spec.name)

    @property
    def _is_table_12(self) -> bool:
        return self.settings.roles == self.settings.profile.name

    async def _predicted(self, question: NeedsQuestion, /) -> Requirements:
        return self.roles.named(await self._beliefs.predict(question))

    @cached_property
    def _beliefs(self) -> Beliefs:
        world = self.domain
        return Beliefs(world.book, items=world.items, seed=self.seed, rates=TABLE_12)

    @cached_property
    def _action(self) -> Oracle[ActionQuestion, str]:
        errors = Errors(rate=self.settings.right_action, kind="sticky")
        return Oracle("action", convinced(self.roles.actions), errors=errors, seed=self.seed)


def convinced(actions: Mapping[str, str]) -> Rule[ActionQuestion, str]:
    """Chooses as `chosen` does, and returns to what it was taught once it is told of failures.

    A slip is mended by the first analysis, whatever it says. A perturbed rule is never found: every
    analysis leads back to the action of the unperturbed game. This is fitted to the paper's
    finding that self-correction repeats its errors (Table 5: (○,△) .93, with perturbed actions
    .12).

    Args:
        actions: item -> its action in the unperturbed game.
    """
    at_first = chosen(actions)

    def wrong(question: ActionQuestion, rng: Random) -> str | None:
        return (at_first.right(question) if question.analyses else None) or at_first.wrong(
            question, rng
        )

    return replace(
        at_first,
        wrong=wrong,
        situation=lambda question: (question.item, *sorted({*question.options})),
    )


async def without_reason(failure: Failure, /) -> str:
    """Says which action failed, without a reason."""
    return f"{failure.action} {failure.item} failed: the action is wrong or something is missing"


async def always_intervene(_: StuckQuestion, /) -> str:
    """CRe that is always right: it is only asked about a controller that is stuck."""
    return ESCAPE


class CookingAsking(Asking):
    """Who answers in the kitchen.

    Attributes:
        predict: which tool a cookbook action requires.
        choose: which executable action carries it out.
    """

    def __init__(self, engines: Engines, settings: CookingSettings, *, seed: int) -> None:
        super().__init__(None, engines, settings, seed=seed)
        self.predict = self.of(TOOL)
        self.choose = self.of(ACTION)
