"""Rules as answers to MC-DML's questions, for oracles: what π is about, and reflections.

A right reflection names the first move of a trajectory that was not right, and what was right
instead; a wrong one gives as advice another action that was possible then. Right are the actions of
`worlds.game_adviser`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from llm_planning.planners.any_domain.rules import Choice, KnownChoice
from llm_planning.planners.mc_dml.prompts import log, observed, past
from llm_planning.planners.mc_dml.roles import REFLECTION, SENTENCE, reflect
from llm_planning.roles import Rule

if TYPE_CHECKING:
    from random import Random

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.planners.any_domain.rules import RuleAnswers
    from llm_planning.planners.mc_dml.roles import GameSituation, Reflect, Trajectory
    from llm_planning.roles import Engines
    from llm_planning.roles.domain_rules import Advise
    from llm_planning.roles.oracles import Key

GENERAL = "Next time, keep to the way to the goal that the rules of this world know."
"""The reflection where no move was wrong, or where the actions do not fit into the sentence."""


def choice_of(question: GameSituation) -> Choice:
    """The choice that a question for π is about."""
    seen: tuple[Key, ...] = (
        observed(question.observation),
        tuple(past(question.memory)),
        question.actions,
        question.reflections,
    )
    return Choice(question.state, question.actions, seen)


@dataclass(frozen=True, slots=True)
class Lapse:
    """A trajectory that failed, and its first move that was not right.

    Attributes:
        trajectory: in words.
        number: of the move, from 1; 0 if no move was wrong.
        taken: the action of the move.
        choice: what could be done instead; nothing if no move was wrong.
    """

    trajectory: str
    number: int
    taken: str
    choice: KnownChoice

    def wrong(self, rng: Random) -> str | None:
        """A reflection that advises an action that is not right."""
        action = self.choice.wrong(rng)
        return None if action is None else self.advice(action)

    def right(self) -> str:
        """A reflection that advises an action that is right."""
        return self.advice(self.choice.right[0]) if self.number else GENERAL

    def advice(self, action: str) -> str:
        """The reflection that advises an action, in the language `SENTENCE`."""
        sentence = f"Next time, at move {self.number}, {action} is better than {self.taken}."
        return sentence if re.fullmatch(SENTENCE.regex, sentence) else GENERAL


ADVICE: Rule[Lapse, str] = Rule(
    right=Lapse.right,
    wrong=Lapse.wrong,
    situation=lambda lapse: (lapse.trajectory,),
)
"""A reflection on a trajectory that failed."""


def reflection(world: TextGameDomain, answers: RuleAnswers, engines: Engines) -> Reflect:
    """The role that reflects, answered by rules or by a model.

    Args:
        world: the game.
        answers: the roles that rules answer.
        engines: the models.

    Raises:
        SettingsError: the domain has no rules that answer, or the role's own model is not open.
    """
    oracle = answers.oracle(REFLECTION, ADVICE)
    if oracle is None:
        return partial(reflect, engine=engines.of(REFLECTION))

    async def ask(trajectory: Trajectory, /) -> str:
        return await oracle(await _lapse(world, trajectory, answers.advise))

    return ask


async def _lapse(world: TextGameDomain, trajectory: Trajectory, advise: Advise) -> Lapse:
    told = log(trajectory)
    moves = zip(trajectory.states, trajectory.turns, strict=True)
    for number, (state, turn) in enumerate(moves, start=1):
        actions = await world.actions(state)
        right = await advise(state, actions)
        if right and turn.action not in right:
            return Lapse(told, number, turn.action, KnownChoice(actions, (told,), right))
    return Lapse(told, 0, "", KnownChoice((), (told,), ()))
