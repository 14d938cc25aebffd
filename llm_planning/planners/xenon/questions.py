"""The questions that XENON and its baselines ask (XENON, Section 4, Appendices A, B, F and H).

An agent knows only these questions. `roles` and `cooking_roles` have their words and the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llm_planning.roles import Role

Requirements: TypeAlias = Mapping[str, int]
"""R(v): required item -> quantity."""

MOST = 64
"""Largest quantity that an answer may name: a full stack."""


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
    """What does an item require? (Algorithm 2, line 13; Figure 15).

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
    analyses: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """Which tool does a cookbook action require? (Appendix A).

    Attributes:
        item: v, the cookbook action.
        examples: the K most similar cookbook actions that succeeded, and their tools, most similar
            first.
        failures: failed attempts, oldest first; empty without self-correction.
    """

    item: str
    examples: Sequence[tuple[str, str]] = ()
    failures: Sequence[str] = ()


Predict: TypeAlias = Role[NeedsQuestion, Requirements]
Correct: TypeAlias = Role[CorrectionQuestion, Requirements]
Choose: TypeAlias = Role[ActionQuestion, str]
Analyse: TypeAlias = Role[Failure, str]
Rank: TypeAlias = Role[RankingQuestion, Sequence[float]]
Decide: TypeAlias = Role[StuckQuestion, str | None]
