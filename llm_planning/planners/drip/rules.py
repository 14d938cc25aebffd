"""A domain's rules as answers to DRIP's questions, for oracles.

A right decomposition is the domain's; a wrong one has a mistake in one of its subtasks, and with
`unit: item` each subtask errs on its own. Of an open goal, the subtasks that are done are left out.
A wrong verdict is one of the two others. A wrong state is the one after another action. A right
next action is the first advised one that can be carried out, or the end if the goal is reached; a
wrong one is a mistake for it, and to leave it out is to say that the goal is reached.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any, Generic, get_args

from llm_planning.domain import A, Judged, S, Verdict
from llm_planning.roles import Items, Kinds, Rule, on_the_way
from llm_planning.roles.mistakes import Mistakes, names_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_planning.planners.drip.questions import (
        Application,
        Decomposition,
        Judgement,
        NextAction,
    )

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

OTHERS = 8
"""The most other actions that are tried for a state that is wrong."""


def rules_of(domain: Any, *, seed: int) -> Mapping[str, Rule[Any, Any]]:  # noqa: ANN401
    """Maps each role to its rule: the domain's right and wrong answers.

    Args:
        domain: with `decompose`, `judge` and `step` as plain methods; `act` needs `advise`,
            `feasible` and `success` as well.
        seed: of the chance in predictions.
    """
    answers: _Answers[Any, Any] = _Answers(domain, seed)
    return {
        "decompose": answers.decomposing(),
        "judge": Rule(
            right=answers.judge,
            wrong=answers.misjudge,
            situation=lambda asked: (
                str(asked.subtask),
                None if asked.parent is None else str(asked.parent),
                asked.described,
            ),
            kinds=Kinds(names=VERDICTS, of=lambda asked: answers.judge(asked).verdict),
        ),
        "apply": Rule(
            right=answers.apply,
            wrong=answers.misapply,
            situation=lambda asked: (str(asked.subtask), asked.described),
        ),
        "act": answers.acting(),
    }


class _Answers(Generic[S, A]):
    """Right and wrong answers of one run."""

    def __init__(self, domain: Any, seed: int) -> None:  # noqa: ANN401
        self._domain = domain
        self._seed = seed

    def decomposing(self, kinds: Sequence[str] = ()) -> Rule[Decomposition[S, A], list[A]]:
        """The rule of `decompose` whose mistakes are of these kinds; of all, if there are none."""
        mistakes: Mistakes[A] = Mistakes(self._domain, kinds)
        return Rule(
            right=self.decompose,
            wrong=lambda asked, rng: mistakes.anywhere(self.decompose(asked), rng),
            situation=lambda asked: (asked.subject, asked.described),
            items=Items(
                names=lambda asked: names_of(self.decompose(asked)),
                spoil=lambda _, plan, name, rng: mistakes.in_plan(plan, name, rng),
            ),
            only=self.decomposing,
        )

    def acting(self, kinds: Sequence[str] = ()) -> Rule[NextAction[S, A], list[A]]:
        """The rule of `act` whose mistakes are of these kinds. The end is an empty list."""
        mistakes: Mistakes[A] = Mistakes(self._domain, kinds)

        def wrong(asked: NextAction[S, A], rng: Random) -> list[A] | None:
            right = self.act(asked)
            return mistakes.anywhere(right, rng) if right else self._any(asked.state, rng)

        return Rule(
            right=self.act,
            wrong=wrong,
            situation=lambda asked: (asked.described,),
            only=self.acting,
        )

    def decompose(self, asked: Decomposition[S, A]) -> list[A]:
        """The subtasks of the domain; of what is open of the goal, those that are not done."""
        subtasks = list(self._domain.decompose(asked.state, asked.subtask))
        whole = asked.goal == self._domain.goal and not asked.described
        if asked.subtask is not None or whole:
            return subtasks
        return [
            one for one in subtasks if self._domain.judge(asked.state, one, None).verdict != "done"
        ]

    def judge(self, asked: Judgement[S, A]) -> Judged:
        """The domain's verdict."""
        judged: Judged = self._domain.judge(asked.state, asked.subtask, asked.parent)
        return judged

    def misjudge(self, asked: Judgement[S, A], rng: Random) -> Judged:
        """One of the other verdicts."""
        right = self.judge(asked).verdict
        return Judged(rng.choice([one for one in VERDICTS if one != right]), "a guess")

    def apply(self, asked: Application[S, A]) -> S:
        """The state after the subtask in the world of the run's seed."""
        return self._after(asked, asked.subtask)

    def misapply(self, asked: Application[S, A], rng: Random) -> S:
        """A state after another action that differs from the right one; else an unchanged one."""
        right = self.apply(asked)
        others = [one for one in self._domain.actions(asked.state) if one != asked.subtask]
        for other in rng.sample(others, min(OTHERS, len(others))):
            if (state := self._after(asked, other)) != right:
                return state
        return asked.state

    def act(self, asked: NextAction[S, A]) -> list[A]:
        """The next advised action; nothing if the goal is reached."""
        domain = self._domain
        return [] if domain.success(asked.state) else on_the_way(domain, asked.state)[:1]

    def _any(self, state: S, rng: Random) -> list[A]:
        actions = self._domain.actions(state)
        return [rng.choice(actions)] if actions else []

    def _after(self, asked: Application[S, A], action: A) -> S:
        draws = Random(f"{self._seed} predicted {asked.described} {action}")
        after: S = self._domain.step(asked.state, action, draws).state
        return after
