"""The rules of the unperturbed game as answers to XENON's questions, for the setting `roles`.

A right answer is the rule book's. A wrong list of requirements has mistakes of the kinds of Table
12, and a wrong action is any other. Unlike `prior=table12`, the setting states how often each role
errs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llm_planning.planners.xenon.rules import TABLE_12, Beliefs, chosen
from llm_planning.roles import Errors, Oracle, OwnModel, Rule
from llm_planning.roles.domain_rules import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.rulebook import RuleBook
    from llm_planning.planners.xenon.roles import (
        CorrectionQuestion,
        Failure,
        NeedsQuestion,
        RankingQuestion,
        Requirements,
        StuckQuestion,
    )
    from llm_planning.planners.xenon.settings import AskedSettings
    from llm_planning.roles import Engines, Role

ESCAPE = "get out of here"
"""The temporary task of a controller that is stuck."""

_WRONG = 1 - TABLE_12.right_items

MISTAKES = replace(
    TABLE_12,
    right_items=0.0,
    exact=0.0,
    unnecessary=TABLE_12.unnecessary / _WRONG,
    omitted=TABLE_12.omitted / _WRONG,
    nonexistent=TABLE_12.nonexistent / _WRONG,
)
"""The errors of Table 12 among the answers whose required items are wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The roles that no model answers.

    Attributes:
        roles: role -> who answers it.
        oracles: descriptions of the oracles that have been asked, for the record of a run. The
            list grows, because not every planner asks every role.
    """

    roles: Mapping[str, Role[Any, Any]]
    oracles: Sequence[Mapping[str, object]]


def answered_by_rules(
    settings: AskedSettings, engines: Engines, rules: Mapping[str, Rule[Any, Any]], *, seed: int
) -> Answered:
    """Returns the roles that rules answer by the setting `roles`.

    A role with a model of its own that is not open is among them; it raises a `SettingsError` when
    it is asked, because not every planner asks every role.

    Args:
        settings: of the run.
        engines: the models.
        rules: role -> its right and wrong answers.
        seed: of the errors.

    Raises:
        SettingsError: the setting is not possible.
    """
    roles: dict[str, Role[Any, Any]] = {}
    oracles: list[Mapping[str, object]] = []
    for role, rule in rules.items():
        match settings.assignment.of(role):
            case Errors() as errors:
                oracle: Oracle[Any, Any] = Oracle(role, rule, errors=errors, seed=seed)
                roles[role] = _noted(oracle, oracles)
            case OwnModel() if role not in engines.by_role:
                roles[role] = _unopened(settings, role, engines)
    return Answered(roles=roles, oracles=oracles)


def _noted(oracle: Oracle[Any, Any], oracles: list[Mapping[str, object]]) -> Role[Any, Any]:
    """The oracle, which adds its description to a list when it is first asked."""

    async def ask(question: object, /) -> object:
        description = oracle.describe()
        if description not in oracles:
            oracles.append(description)
        return await oracle(question)

    return ask


def _unopened(settings: AskedSettings, role: str, engines: Engines) -> Role[Any, Any]:
    async def refuse(_: object, /) -> None:
        settings.errors_of(role, opened=engines.by_role)

    return refuse


def rules_of(book: RuleBook, *, items: Sequence[str], seed: int) -> dict[str, Rule[Any, Any]]:
    """Maps the roles of an agent in Minecraft to right and wrong answers.

    Args:
        book: the unperturbed rules.
        items: names of the world; mistakes are drawn from them.
        seed: of the run.
    """
    beliefs = Beliefs(book, items=items, seed=seed, rates=MISTAKES)

    def needs(question: NeedsQuestion) -> Requirements:
        return book.requirements(question.item) if question.item in book.rules else {}

    def other_needs(question: NeedsQuestion, rng: Random) -> Requirements:
        return beliefs.mistaken(question.item, rng)

    def corrected(question: CorrectionQuestion) -> tuple[str, int]:
        return (question.item, question.asking)

    def ranked(question: RankingQuestion) -> Sequence[float]:
        return spread(question.candidates, _required(book, question.item))

    def misranked(question: RankingQuestion, rng: Random) -> Sequence[float] | None:
        required = _required(book, question.item)
        others = [one for one in question.candidates if one not in required]
        return spread(question.candidates, {rng.choice(others)}) if others else None

    def analysed(failure: Failure) -> str:
        return _analysis(failure, book, blames_action=_is_wrong(failure, book))

    def misjudged(failure: Failure, _: Random) -> str:
        return _analysis(failure, book, blames_action=not _is_wrong(failure, book))

    return {
        "predict": Rule(right=needs, wrong=other_needs, situation=lambda asked: (asked.item,)),
        "correct": Rule(right=needs, wrong=other_needs, situation=corrected),
        "choose": chosen({item: rule.action for item, rule in book.rules.items()}),
        "analyse": Rule(
            right=analysed,
            wrong=misjudged,
            situation=lambda failure: (
                failure.item,
                failure.action,
                tuple(sorted(failure.inventory.items())),
            ),
        ),
        "rank": Rule(
            right=ranked,
            wrong=misranked,
            situation=lambda asked: (asked.item, asked.candidates),
        ),
    }


def _required(book: RuleBook, item: str) -> frozenset[str]:
    return frozenset(book.requirements(item)) if item in book.rules else frozenset()


def _is_wrong(failure: Failure, book: RuleBook) -> bool:
    """Whether the action never obtains the item."""
    return failure.item not in book.rules or book.rule(failure.item).action != failure.action


def _analysis(failure: Failure, book: RuleBook, *, blames_action: bool) -> str:
    """Says that the action is wrong, or that something is missing, and what is right instead."""
    known = failure.item in book.rules
    if blames_action:
        right = f"; {book.rule(failure.item).action} does" if known else ""
        reason = f"{failure.action} never obtains it{right}"
    else:
        lacking = [
            f"{count} {item}"
            for item, count in (book.requirements(failure.item) if known else {}).items()
            if failure.inventory.get(item, 0) < count
        ]
        reason = f"it requires {' and '.join(lacking)}" if lacking else "something is missing"
    return f"{failure.action} {failure.item}: {reason}"


def _escape(_: StuckQuestion) -> str:
    return ESCAPE


def _go_on(_: StuckQuestion, rng: Random) -> str:  # noqa: ARG001 - there is one wrong answer
    return ""


INTERVENTION: Rule[StuckQuestion, str] = Rule(
    right=_escape,
    wrong=_go_on,
    situation=lambda asked: (asked.goal_item, asked.task, asked.caption),
)
"""The temporary task of a controller. It is only asked about one that is stuck, so "" is wrong."""
