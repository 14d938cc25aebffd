"""The questions that XENON and its baselines ask, whoever answers (XENON, Section 4, App. B, F, H).

First the questions: an agent knows these only. `llm_roles` answers them with a language model,
`oracle_roles` with the rules of the unperturbed game and stated error rates.

Then the answers of a model: small, typed, and each of a finite language.

Last the prompts: the blocks of `templates/` that each question says, in their order. What never
changes is the system message. Then comes what changes rarely, and the item or the attempt last, so
that questions share long beginnings in the prefix cache. What each question is told follows Figures
9, 12 and 15 to 17; the words are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, create_model

from llm_planning.roles import Prompt, Role
from llm_serving.answers import compact

Requirements: TypeAlias = Mapping[str, int]
"""R(v): required item -> quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One subgoal that failed, as self-correction is told of it (Figures 9 and 12).

    Attributes:
        item: v, what was to be obtained.
        action: a, how.
        believed: R(v, Ĝ) at that moment.
        inventory: item -> count when it failed.
    """

    item: str
    action: str
    believed: Requirements
    inventory: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NeedsQuestion:
    """What does an item need? (Algorithm 2, line 13; Figure 15).

    Attributes:
        item: v.
        examples: the top-K similar experienced items, most similar first, and what they need.
    """

    item: str
    examples: Sequence[tuple[str, Requirements]] = ()


@dataclass(frozen=True, slots=True)
class CorrectionQuestion(NeedsQuestion):
    """What does an item need, given what failed? LLM self-correction (Figure 9).

    Attributes:
        asking: n of the n-th correction of v, from 1; each is a draw of its own.
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
        examples: the top-K similar items with a valid action, most similar first.
        analyses: why earlier attempts failed, in the words of `Roles.analyse`; empty without
            self-correction.
    """

    item: str
    options: tuple[str, ...]
    examples: tuple[tuple[str, str], ...] = ()
    analyses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankingQuestion:
    """Which known items are likely to be required? XENON+ and its last ablation only.

    Attributes:
        item: v.
        candidates: names that the agent knows, at least one.
    """

    item: str
    candidates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StuckQuestion:
    """Is an intervention needed, and which? (Figure 17, second step).

    Attributes:
        caption: what is to be seen, in words; all that the decision is made from.
        task: the controller's present prompt.
        goal_item: what it is to obtain.
    """

    caption: str
    task: str
    goal_item: str


Predict: TypeAlias = Role[NeedsQuestion, Requirements]
Correct: TypeAlias = Role[CorrectionQuestion, Requirements]
Choose: TypeAlias = Role[ActionQuestion, str]
Analyse: TypeAlias = Role[Failure, str]
Rank: TypeAlias = Role[RankingQuestion, Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Everybody an agent can ask.

    Attributes:
        predict: what an item needs.
        correct: what it needs, given what failed.
        choose: which action obtains it.
        analyse: why an attempt failed, in a sentence; LLM self-reflection (Figure 12).
        rank: log-probabilities of the candidates, in nats, in their order.
        oracles: who answers in a model's place, for the record of a run.
    """

    predict: Predict
    correct: Correct
    choose: Choose
    analyse: Analyse
    rank: Rank
    oracles: Sequence[Mapping[str, object]] = ()


MOST_REQUIREMENTS = 5
"""Most items that an answer may name; no rule of the game's goals takes more kinds."""

LONGEST_NAME = 32
"""Characters of a freely written item name; the game's longest goal has 29."""

MOST = 64
"""Largest quantity: a full stack."""

_Quantity: TypeAlias = Annotated[int, Field(ge=1, le=MOST)]
_Name: TypeAlias = Annotated[str, Field(pattern=rf"^[a-z][a-z_]{{0,{LONGEST_NAME - 1}}}$")]


class RequirementList(BaseModel):
    """What an item needs, as pairs: a pair costs half the tokens of an object with two keys."""

    needs: list[tuple[str, int]]

    def requirements(self) -> dict[str, int]:
        """Item -> quantity; what is named more than once counts every time."""
        totals: dict[str, int] = {}
        for item, quantity in self.needs:
            totals[item] = totals.get(item, 0) + quantity
        return totals


class Analysis(BaseModel):
    """Why an attempt failed."""

    analysis: Annotated[str, Field(min_length=1, max_length=100)]


class Description(BaseModel):
    """What a picture shows."""

    description: Annotated[str, Field(min_length=1, max_length=200)]


class Intervention(BaseModel):
    """Whether the controller needs another task for a while, in the order of Figure 17."""

    need_intervention: bool
    thoughts: Annotated[str, Field(max_length=100)]
    task: Annotated[str, Field(max_length=60)]


Decide: TypeAlias = Role[StuckQuestion, Intervention]


@cache
def requirement_list(names: tuple[str, ...] | None) -> type[RequirementList]:
    """The answer model of at most five requirements.

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
    """Requirements as an answer spells them, for a prompt's examples."""
    return compact(RequirementList(needs=list(requirements.items())))


BLOCKS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "predict": (("role", "format"), ("examples", "item")),
    "correct": (("role", "format"), ("examples", "failures", "item")),
    "choose": (("role", "actions"), ("question",)),
    "rank": (("role",), ("question",)),
    "analyse": (("role", "format"), ("attempt",)),
    "caption": (("role", "format"), ("question",)),
    "intervene": (("role", "format"), ("question",)),
    "cooking_tool": (("who", "rules", "format"), ("examples", "failures", "question")),
    "cooking_action": (
        ("who", "rules", "format"),
        ("examples", "options", "failures", "question"),
    ),
}
"""Question -> blocks of its system message and of its user message."""


@cache
def compose(name: str, **lists: tuple[str, ...]) -> Prompt:
    """The prompt of one question, compiled.

    Args:
        name: a key of `BLOCKS`.
        **lists: what never changes and is listed: `actions`, 𝒜, or `tools`.
    """
    templates = files(__package__) / "templates"
    system, user = BLOCKS[name]
    shared = "cooking_shared.j2" if name.startswith("cooking") else "shared.j2"
    return Prompt(
        [(templates / source).read_text("utf-8") for source in (shared, f"{name}.j2")],
        system=system,
        user=user,
        constants={"count": MOST_REQUIREMENTS} | {k: ", ".join(one) for k, one in lists.items()},
    )
