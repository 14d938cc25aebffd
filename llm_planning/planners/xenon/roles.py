"""XENON's roles in Minecraft: what each is asked, in which words, and what the rules say.

Each question is put in words by blocks of `templates/` (XENON, Sections 4.1, 4.2, Appendices B, E,
F and H). The system message is what never changes. The user message begins with what changes rarely
and ends with the item or the attempt, so that questions share long beginnings in the prefix cache.
Figures 9, 12 and 15 to 17 say what each question tells; the words are ours.

Requirements are written in a finite language and decoded greedily. Corrections are drawn: a model
that is told of the same failures again would repeat itself for ever. Actions and candidates are
scored: the answer follows from exact log-probabilities. All actions, or the whole vocabulary, are
scored at once, and the options are compared afterwards. Unlike Figure 16, the prompt names neither
the options left nor the quantity wanted. Neither matters to which action obtains an item. So all
agents ask the same question about an item, and the response cache answers it from the second time
on.

By rules, a right answer is the rule book's. A wrong list of requirements has mistakes of the kinds
of Table 12, and a wrong action is any other. A wrong ranking prefers something that is not
required. A wrong analysis blames the action where something is missing, or the other way round.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from llm_planning.environments.minecraft.book.rulebook import substitutes
from llm_planning.planners.xenon.beliefs import MISTAKES, MOST, Beliefs
from llm_planning.roles import Prompt, Role, RoleSpec, Rule, ScoredRole, ScoringRole
from llm_planning.roles.domain_rules import spread
from llm_serving.answers import compact
from llm_serving.request import Image, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from random import Random

    from llm_planning.environments.minecraft.items.text_world import TextWorld
    from llm_planning.roles.oracles import Key
    from llm_serving.engine import Engine

logger = logging.getLogger(__name__)

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

ESCAPE: Final = "get out of here"
"""The temporary task of a controller that is stuck, by rules."""

CORRECTION_TEMPERATURE = 0.7
"""The paper states no temperature for corrections."""

LATEST = 3
"""Failures or analyses that a prompt tells: long prompts confuse a model (Section 4.2)."""

SHOWN = 12
"""Kinds of item that a prompt tells of an inventory."""

MOST_REQUIREMENTS = 5
"""Most items that an answer may name; no rule of the game's goals takes more kinds."""

LONGEST_ANALYSIS = 100
"""Characters of an analysis."""

LONGEST_NAME = 32
"""Characters of a freely written item name; the game's longest goal has 29."""

_Quantity: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
_Name: TypeAlias = Annotated[str, Field(pattern=rf"^[a-z][a-z_]{{0,{LONGEST_NAME - 1}}}$")]


# Questions ----------------------------------------------------------------------------------------

Requirements: TypeAlias = Mapping[str, int]
"""R(v): required item -> quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One subgoal that failed, as self-correction is told of it (Figures 9 and 12).

    Attributes:
        item: v, the item that the subgoal was to obtain.
        action: a, the action that failed.
        believed: R(v, Ĝ) at that moment.
        inventory: item -> count at that moment.
    """

    item: str
    action: str
    believed: Requirements
    inventory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NeedsQuestion:
    """What does an item require? (Algorithm 2, line 15; Figure 15).

    Attributes:
        item: v.
        examples: the K most similar experienced items and their requirements, most similar first.
    """

    item: str
    examples: Sequence[tuple[str, Requirements]] = ()


@dataclass(frozen=True, slots=True)
class CorrectionQuestion(NeedsQuestion):
    """What does an item require, given what failed? LLM self-correction (Figure 9).

    Attributes:
        asking: the number of this correction of v, from 1; each correction is drawn anew.
        failures: recent failed attempts at v, oldest first.
    """

    asking: int = 1
    failures: Sequence[Failure] = ()


@dataclass(frozen=True, slots=True)
class ActionQuestion:
    """Which action obtains an item? (Algorithm 4, line 19; Figures 12 and 16).

    Attributes:
        item: v.
        options: the actions to choose from, at least one; the answer is one of them.
        examples: the K most similar items with a valid action, and that action, most similar first.
        analyses: why earlier attempts failed, as the role `analyse` puts it; empty without
            self-correction.
    """

    item: str
    options: tuple[str, ...]
    examples: tuple[tuple[str, str], ...] = ()
    analyses: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RankingQuestion:
    """Which known items does an item probably require? Asked by XENON+ and `xenon-plus-a4`.

    Attributes:
        item: v.
        candidates: names that the agent knows, at least one.
    """

    item: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StuckQuestion:
    """Does a controller need another task for a while, and which? (Figure 17, second step).

    Attributes:
        caption: what the controller sees, in words.
        task: the controller's present prompt.
        goal_item: the item that the controller is to obtain.
    """

    caption: str
    task: str
    goal_item: str


Predict: TypeAlias = Role[NeedsQuestion, Requirements]
Correct: TypeAlias = Role[CorrectionQuestion, Requirements]
Choose: TypeAlias = Role[ActionQuestion, str]
Analyse: TypeAlias = Role[Failure, str]
Rank: TypeAlias = Role[RankingQuestion, Sequence[float]]
Decide: TypeAlias = Role[StuckQuestion, str | None]


class Chooses(Protocol):
    """Who answers which action obtains an item."""

    @property
    def choose(self) -> Choose:
        """The role."""
        ...


# Answers ------------------------------------------------------------------------------------------


class RequirementList(BaseModel):
    """An item's requirements as pairs: a pair costs half the tokens of an object with two keys."""

    needs: list[tuple[str, int]]

    def requirements(self) -> dict[str, int]:
        """Returns item -> quantity; the quantities of an item named twice are added."""
        totals: dict[str, int] = {}
        for item, quantity in self.needs:
            totals[item] = totals.get(item, 0) + quantity
        return totals


class Analysis(BaseModel):
    """Why an attempt failed."""

    analysis: Annotated[str, Field(min_length=1, max_length=LONGEST_ANALYSIS)]


class Description(BaseModel):
    """What a picture shows."""

    description: Annotated[str, Field(min_length=1, max_length=200)]


class Intervention(BaseModel):
    """Whether a controller needs another task for a while; the fields are in Figure 17's order."""

    need_intervention: bool
    thoughts: Annotated[str, Field(max_length=100)]
    task: Annotated[str, Field(max_length=60)]


@cache
def requirement_list(names: tuple[str, ...] | None) -> type[RequirementList]:
    """Returns the answer model of at most five requirements.

    Args:
        names: the names that may be written; None allows any of lower-case letters and underscores.
    """
    name: Any = _Name if names is None else Literal[names]
    needs: Any = Annotated[list[tuple[name, _Quantity]], Field(max_length=MOST_REQUIREMENTS)]
    return create_model(
        RequirementList.__name__,
        __base__=RequirementList,
        __doc__=RequirementList.__doc__,
        needs=(needs, ...),
    )


def written(requirements: Mapping[str, int]) -> str:
    """Returns requirements as an answer spells them, for a prompt's examples."""
    return compact(RequirementList(needs=list(requirements.items())))


@cache
def compose(
    name: str,
    system: tuple[str, ...],
    user: tuple[str, ...],
    *,
    shared: str = "shared",
    **lists: tuple[str, ...],
) -> Prompt:
    """Compiles the prompt of one question.

    Args:
        name: of its template.
        system: the blocks of the system message.
        user: the blocks of the user message.
        shared: the template with the blocks of several questions.
        **lists: the lists that are the same in every question: `actions`, 𝒜, or `tools`.
    """
    templates = files(__package__) / "templates"
    return Prompt(
        [(templates / f"{source}.j2").read_text("utf-8") for source in (shared, name)],
        system=system,
        user=user,
        constants={"count": MOST_REQUIREMENTS}
        | {k: ", ".join(names) for k, names in lists.items()},
    )


class MinecraftRoles:
    """The roles of an agent in Minecraft.

    Args:
        world: the unperturbed game, which a model could have read about.
        seed: of drawn corrections and of mistakes.
        names: the item names that an answer may use (XENON+); None allows any, as in the paper.
    """

    def __init__(self, world: TextWorld, *, seed: int, names: Sequence[str] | None = None) -> None:
        self._world = world
        self._seed = seed
        self._names = None if names is None else tuple(dict.fromkeys(names))

    def predict(self) -> RoleSpec[NeedsQuestion, Requirements]:
        """What an item requires."""
        return RoleSpec(
            name="predict",
            asks=NeedsQuestion,
            prompt=partial(compose, "predict", ("role", "format"), ("examples", "item")),
            values_of=_needs_values,
            writes=partial(requirement_list, self._names),
            read=_without_itself,
            rule=self._requiring(lambda asked: (asked.item,)),
        )

    def correct(self) -> RoleSpec[CorrectionQuestion, Requirements]:
        """What an item requires, given what failed.

        Each correction of an item is a draw of its own: the same failures may lead elsewhere.
        """
        return RoleSpec(
            name="correct",
            asks=CorrectionQuestion,
            prompt=partial(
                compose, "correct", ("role", "format"), ("examples", "failures", "item")
            ),
            values_of=_correction_values,
            writes=partial(requirement_list, self._names),
            read=_without_itself,
            sampling=lambda asked: Sampling(
                temperature=CORRECTION_TEMPERATURE, seed=self._seed * 10_007 + asked.asking
            ),
            rule=self._requiring(lambda asked: (asked.item, asked.asking)),
        )

    def choose(self) -> ScoredRole[ActionQuestion, str]:
        """Which action obtains an item: the likeliest option, the first of equals."""
        return ScoredRole(
            name="choose",
            score=partial(_likeliest_action, tuple(dict.fromkeys(self._world.verbs))),
            rule=chosen(self.actions),
        )

    def analyse(self) -> RoleSpec[Failure, str]:
        """Why an attempt failed, in a sentence; LLM self-reflection (Figure 12)."""
        return RoleSpec(
            name="analyse",
            asks=Failure,
            prompt=partial(compose, "analyse", ("role", "format"), ("attempt",)),
            values_of=lambda failure: {"attempt": _told(failure)},
            writes=lambda: Analysis,
            read=lambda failure, written: f"{failure.action} {failure.item}: {written.analysis}",
            rule=Rule(
                right=lambda failure: self._analysis(
                    failure, blames_action=self._is_wrong(failure)
                ),
                wrong=lambda failure, _: self._analysis(
                    failure, blames_action=not self._is_wrong(failure)
                ),
                situation=lambda failure: (
                    failure.item,
                    failure.action,
                    tuple(sorted(failure.inventory.items())),
                ),
            ),
        )

    def rank(self) -> ScoredRole[RankingQuestion, Sequence[float]]:
        """Log p(candidate | item), as a whole answer, in nats, in the candidates' order (XENON+).

        A model scores the whole vocabulary in every question; without one, the candidates only.
        """
        return ScoredRole(
            name="rank",
            score=partial(_ranking, self._names or ()),
            rule=Rule(
                right=lambda asked: spread(asked.candidates, self._needs(asked.item)),
                wrong=self._misranked,
                situation=lambda asked: (asked.item, asked.candidates),
            ),
        )

    @cached_property
    def actions(self) -> Mapping[str, str]:
        """Item -> the action that obtains it."""
        return {item: rule.action for item, rule in self._world.book.rules.items()}

    def lacking(self, failure: Failure) -> Requirements:
        """What an attempt lacked by the rule book; a better tool serves as well."""
        held = failure.inventory
        return {
            item: count
            for item, count in self._needs(failure.item).items()
            if held.get(item, 0) < count and not any(tool in held for tool in substitutes(item)[1:])
        }

    def named(self, requirements: Requirements) -> Requirements:
        """Leaves other names out of an answer, as the constraint on a model's answer does."""
        names = self._names
        return {u: n for u, n in requirements.items() if names is None or u in names}

    def _requiring(self, situation: Callable[[Any], tuple[Key, ...]]) -> Rule[Any, Requirements]:
        return Rule(
            right=lambda asked: self.named(self._needs(asked.item)),
            wrong=lambda asked, rng: self.named(self._beliefs.mistaken(asked.item, rng)),
            situation=situation,
        )

    def _needs(self, item: str) -> Requirements:
        """The requirements of the rule book; none of an item that it lacks."""
        book = self._world.book
        return book.requirements(item) if item in book else {}

    @cached_property
    def _beliefs(self) -> Beliefs:
        world = self._world
        return Beliefs(world.book, items=world.items, seed=self._seed, rates=MISTAKES)

    def _misranked(self, asked: RankingQuestion, rng: Random) -> Sequence[float] | None:
        required = self._needs(asked.item)
        others = [item for item in asked.candidates if item not in required]
        return spread(asked.candidates, {rng.choice(others)}) if others else None

    def _is_wrong(self, failure: Failure) -> bool:
        """Whether the action never obtains the item."""
        return self.actions.get(failure.item) != failure.action

    def _analysis(self, failure: Failure, *, blames_action: bool) -> str:
        """Says that the action is wrong, or that something is missing, and what is right."""
        if blames_action:
            right = self.actions.get(failure.item)
            does = "" if right is None else f"; {right} does"
            reason = f"{failure.action} never obtains it{does}"
        else:
            lacking = [f"{count} {item}" for item, count in self.lacking(failure).items()]
            reason = f"it requires {' and '.join(lacking)}" if lacking else "something is missing"
        return f"{failure.action} {failure.item}: {reason}"


CAPTION: RoleSpec[Image, str] = RoleSpec(
    name="caption",
    asks=Image,
    prompt=partial(compose, "caption", ("role", "format"), ("question",)),
    values_of=lambda _: {},
    show=lambda image: (image,),
    writes=lambda: Description,
    read=lambda _, written: written.description,
)
"""What a controller sees, in words (Figure 17, first step); its model reads images."""

INTERVENE: RoleSpec[StuckQuestion, str | None] = RoleSpec(
    name="intervene",
    asks=StuckQuestion,
    prompt=partial(compose, "intervene", ("role", "format"), ("question",)),
    writes=lambda: Intervention,
    read=lambda _, written: written.task.strip() or None if written.need_intervention else None,
    rule=Rule(
        right=lambda _: ESCAPE,
        wrong=lambda _, __: "",
        situation=lambda asked: (asked.goal_item, asked.task, asked.caption),
    ),
)
"""Which other task a controller needs; None if it needs none or the answer names none.

It is only asked about a controller that is stuck, so by rules "" is wrong.
"""


def chosen(actions: Mapping[str, str]) -> Rule[ActionQuestion, str]:
    """The right action, and any other, drawn anew for each analysis that it is told.

    Args:
        actions: item -> its right action; for an item that is not listed, every action is wrong.
    """

    def right(question: ActionQuestion) -> str | None:
        action = actions.get(question.item)
        return action if action in question.options else None

    def wrong(question: ActionQuestion, rng: Random) -> str | None:
        others = sorted({*question.options} - {actions.get(question.item)})
        return rng.choice(others) if others else None

    def situation(question: ActionQuestion) -> tuple[str | int, ...]:
        return (question.item, *sorted({*question.options}), len(question.analyses))

    return Rule(right=right, wrong=wrong, situation=situation)


def choose_prompt(actions: tuple[str, ...]) -> Prompt:
    """The prompt of `choose` where these are all actions."""
    return compose("choose", ("role", "actions"), ("question",), actions=actions)


def _likeliest_action(actions: tuple[str, ...], engine: Engine) -> Choose:
    # An agent asks the same about an item until its examples change, with fewer options left.
    score = _remembered(
        ScoringRole(
            "choose",
            prompt=choose_prompt(actions),
            choices=lambda question: question.options,
            engine=engine,
            values_of=action_values,
        )
    )

    async def choose(question: ActionQuestion, /) -> str:
        if not question.options or not {*actions}.issuperset(question.options):
            raise ValueError(
                f"options {list(question.options)} for {question.item}: give at least one, each "
                f"of the actions {', '.join(actions)}"
            )
        whole = replace(question, options=actions, analyses=question.analyses[-LATEST:])
        return max(question.options, key=(await score(whole)).__getitem__)

    return choose


def _ranking(names: tuple[str, ...], engine: Engine) -> Rank:
    score: Role[RankingQuestion, Mapping[str, float]] = _remembered(
        ScoringRole(
            "rank",
            prompt=compose("rank", ("role",), ("question",)),
            choices=lambda question: question.candidates,
            engine=engine,
        )
    )

    async def rank(question: RankingQuestion, /) -> Sequence[float]:
        whole = tuple(dict.fromkeys((*names, *question.candidates)))
        logprobs = await score(replace(question, candidates=whole))
        return [logprobs[candidate] for candidate in question.candidates]

    return rank


def _remembered(role: Role[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
    """Returns the same role, which asks each question only once."""
    answers: dict[QuestionT, AnswerT] = {}

    async def ask(question: QuestionT, /) -> AnswerT:
        if question not in answers:
            answers[question] = await role(question)
        return answers[question]

    return ask


def _needs_values(question: NeedsQuestion) -> dict[str, object]:
    lines = (f"{u}: {written(requirements)}" for u, requirements in question.examples)
    return {"item": question.item, "examples": "\n".join(lines)}


def _correction_values(question: CorrectionQuestion) -> dict[str, object]:
    failures = _latest(
        f"{_told(failed)}, believed {written(failed.believed)}" for failed in question.failures
    )
    return {**_needs_values(question), "failures": failures or "none"}


def action_values(question: ActionQuestion) -> dict[str, object]:
    """The values of the prompt of `choose`."""
    examples = "\n".join(f"{u}: {action}" for u, action in question.examples)
    analyses = "\n".join(question.analyses)
    return {"item": question.item, "examples": examples, "analyses": analyses}


def _without_itself(question: NeedsQuestion, answer: RequirementList) -> Requirements:
    """Returns the requirements of an answer without the item itself.

    An edge from an item to itself is a cycle. The cycle check of Appendix E.2 would discard the
    whole answer for it, although the rest can be right.
    """
    requirements = answer.requirements()
    if requirements.pop(question.item, None) is not None:
        logger.info("the answer for %s names the item itself; it is left out", question.item)
    return requirements


def _latest(texts: Iterable[str]) -> str:
    """Returns the latest different texts, one a line, in the order of their last mention."""
    distinct = dict.fromkeys(reversed(list(texts)))
    return "\n".join(reversed(list(islice(distinct, LATEST))))


def _told(failure: Failure) -> str:
    """Returns the failed action and the inventory in words.

    Items believed to be required come first, with their counts. Of the other items some names
    follow: their counts change with every step and do not explain the failure.
    """
    inventory, believed = failure.inventory, failure.believed
    needed = [f"{inventory[u]} {u}" for u in believed if inventory.get(u)]
    others = sorted(u for u in inventory if u not in believed)
    shown = [*needed, *islice(others, max(0, SHOWN - len(needed)))]
    return f"{failure.action} {failure.item}, holding {', '.join(shown) or 'nothing'}"
