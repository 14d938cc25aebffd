"""The roles of the agents, π(·|s) and reflections (Section 3.1).

By rules, a right reflection names the first move of a trajectory that was not right, and what was
right instead; a wrong one gives as advice another action that was possible then. Right are the
actions of `worlds.game_adviser`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from llm_planning.planners.any_domain.roles import not_right, policy, policy_rule
from llm_planning.planners.mc_dml.prompts import GameWording, ask_reflection, log, observed, past
from llm_planning.planners.mc_dml.worlds import game_adviser
from llm_planning.priors import ABSENT
from llm_planning.roles import Asking, Rule, TextRole
from llm_planning.roles.domain_rules import informing
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from random import Random

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Ending, Observation, Transition
    from llm_planning.execution.episode import Episode
    from llm_planning.priors import Policy, Prior, PriorSettings
    from llm_planning.roles import Engines, Role, RoleSettings
    from llm_planning.roles.oracles import Key

REFLECTION = "reflection"
"""The role under which the engine counts reflections."""

# A second N could begin the sentence again, and outlines would take minutes to compile that.
_PATTERN = finite_regex(r"Next time[ ,][^.!?N]{20,189}\.")

SENTENCE = Constraint(_PATTERN.regex, _PATTERN.max_bytes)
"""The language of a reflection: one sentence, 31 to 200 plain characters with its full stop."""


@dataclass(frozen=True, slots=True)
class GameTurn:
    """A move of a game: what the agent saw, and the action that it took then.

    Attributes:
        observation: o_t.
        action: a_t.
        reward: r_t, the reward of the action.
        score: the game's score after the action.
    """

    observation: Observation
    action: str
    reward: float
    score: float


@dataclass(frozen=True, slots=True)
class GameSituation:
    """What π(a|s) depends on; equal situations get equal answers.

    Attributes:
        memory: the turns of ℳ_i before o_t, oldest first. One turn makes the paper's
            (o_{t-1}, a_{t-1}, o_t). Empty at the start of a game and without ℳ_i.
        observation: o_t.
        actions: 𝒜(s), at least one.
        reflections: ℳ_c, oldest first.
        state: s. Rules read it; no prompt shows it.
        right: the actions that lead to the goal, where rules answer.
    """

    memory: tuple[GameTurn, ...]
    observation: Observation
    actions: tuple[str, ...]
    reflections: tuple[str, ...] = ()
    state: Transition | None = field(default=None, compare=False, repr=False)
    right: tuple[str, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lapse:
    """A move that was not right.

    Attributes:
        number: of the move, from 1.
        taken: its action.
        actions: those that were possible.
        right: those that led to the goal, at least one.
    """

    number: int
    taken: str
    actions: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trajectory:
    """h: what an agent saw and did in a game.

    Attributes:
        turns: the moves, oldest first.
        last: what the agent sees after the last move.
        ending: how the game ended; None if it goes on.
        start: the score before the first move.
        states: the state before each move. Rules read them; no prompt shows them.
        lapse: the first move that was not right, where rules answer; None if there is none.
    """

    turns: tuple[GameTurn, ...]
    last: Observation
    ending: Ending | None = None
    start: float = 0.0
    states: tuple[Transition, ...] = field(default=(), compare=False, repr=False)
    lapse: Lapse | None = field(default=None, compare=False, repr=False)

    @property
    def score(self) -> float:
        """The score at the end."""
        return self.turns[-1].score if self.turns else self.start

    @property
    def best_score(self) -> float:
        """The highest score at any time, the start included."""
        return max((self.start, *(turn.score for turn in self.turns)))


def trajectory_of(episode: Episode[Transition, str]) -> Trajectory:
    """The trajectory of an episode so far."""
    score = episode.start.reward
    turns = []
    reached = (episode.start, *(move.step.state for move in episode.moves))
    for move in episode.moves:
        score += move.step.reward
        turns.append(GameTurn(move.seen, move.action, move.step.reward, score))
    return Trajectory(
        tuple(turns), episode.now, episode.state.ending, episode.start.reward, reached[:-1]
    )


GamePolicy: TypeAlias = "Policy[GameSituation]"
"""LLM(a | ℳ_i, ℳ_c, p): π, shape [actions], not negative, sum 1."""

Reflect: TypeAlias = "Role[Trajectory, str]"
"""LLM(h, p_reflection): maps a trajectory that failed to advice in one sentence."""


def situation_of(asked: GameSituation) -> tuple[Key, ...]:
    """All that π of rules depends on, what is seen first."""
    seen = observed(asked.observation)
    return seen, tuple(past(asked.memory)), asked.actions, asked.reflections


POLICY: Rule[GameSituation, Sequence[float]] = policy_rule(situation_of)
"""log π in games."""

GENERAL = "Next time, keep to the way to the goal that the rules of this world know."
"""The reflection where no move was wrong, or where the actions do not fit into the sentence."""


def _advice(lapse: Lapse, action: str) -> str:
    sentence = f"Next time, at move {lapse.number}, {action} is better than {lapse.taken}."
    return sentence if re.fullmatch(SENTENCE.regex, sentence) else GENERAL


def _right_advice(asked: Trajectory) -> str:
    return GENERAL if asked.lapse is None else _advice(asked.lapse, asked.lapse.right[0])


def _wrong_advice(asked: Trajectory, rng: Random) -> str | None:
    lapse = asked.lapse
    if lapse is None or (action := not_right(lapse, rng)) is None:
        return None
    return _advice(lapse, action)


ADVICE: Rule[Trajectory, str] = Rule(
    right=_right_advice, wrong=_wrong_advice, situation=lambda asked: (log(asked),)
)
"""A reflection on a trajectory that failed, in the language `SENTENCE`."""


class GameAsking(Asking):
    """Who answers what an agent asks in a game."""

    def __init__(
        self, world: TextGameDomain, engines: Engines, settings: RoleSettings, *, seed: int
    ) -> None:
        super().__init__(world, engines, settings, seed=seed)
        self._adviser = partial(game_adviser, world, seed=seed)

    def prior(self, settings: PriorSettings, *, absent: float = ABSENT) -> Prior[GameSituation]:
        """π; see `any_domain.roles.policy`."""
        inform = informing(self._adviser)
        return policy(self, GameWording(), POLICY, inform, settings=settings, absent=absent)

    def reflect(self) -> Reflect:
        """What to do better (Algorithm 1, lines 11 and 45); a model answers greedily."""
        role = TextRole(
            name=REFLECTION,
            rule=ADVICE,
            inform=self._knowing_lapses,
            prompt=ask_reflection,
            constraint=SENTENCE,
        )
        return self.of(role)

    def _knowing_lapses(self) -> Callable[[Trajectory], Awaitable[Trajectory]]:
        advise, world = self._adviser(), self.domain

        async def informed(asked: Trajectory) -> Trajectory:
            moves = zip(asked.states, asked.turns, strict=True)
            for number, (state, turn) in enumerate(moves, start=1):
                actions = await world.actions(state)
                right = await advise(state, actions)
                if right and turn.action not in right:
                    return replace(asked, lapse=Lapse(number, turn.action, actions, right))
            return asked

        return informed
