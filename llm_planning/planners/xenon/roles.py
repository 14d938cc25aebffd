"""The questions that XENON and its baselines ask, whoever answers (XENON, Section 4, App. B, F).

An agent knows these only. `llm_roles` answers them with a language model, `oracle_roles` with the
rules of the unperturbed game and stated error rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from llm_planning.roles import Role

Requirements: TypeAlias = Mapping[str, int]
"""R(v): required item -> quantity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
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
    failures: Sequence[Attempt] = ()


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


Predict: TypeAlias = Role[NeedsQuestion, Requirements]
Correct: TypeAlias = Role[CorrectionQuestion, Requirements]
Choose: TypeAlias = Role[ActionQuestion, str]
Analyse: TypeAlias = Role[Attempt, str]
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
