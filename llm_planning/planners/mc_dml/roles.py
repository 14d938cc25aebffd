"""What MC-DML asks: π(·|s) and reflections (Section 3.1), the words, and the rules that know both.

The paper puts ℳ_c before ℳ_i (Appendix C). Here prompts are laid out for the prefix cache, from
what changes rarely to what changes always: instructions, o_{t-1}, a_{t-1}, o_t, 𝒜(s), ℳ_c, for
`exact` a line of dashes, question. So siblings share o_{t-1}, and a new reflection changes only the
prompt's end. Texts are bounded in characters and in turns; three dots stand for the rest.

By rules, a right reflection names the first move of a trajectory that was not right, and what was
right instead; a wrong one gives as advice another action that was possible then. Right are the
actions of `domain_rules.adviser`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from llm_planning.domain import Believes, DomainError, Looks
from llm_planning.domain_calls import observed, settled
from llm_planning.planners.any_domain.roles import (
    DOTS,
    last_that_fit,
    not_right,
    policy,
    policy_rule,
)
from llm_planning.priors import ABSENT, MOST_SAID
from llm_planning.roles import Asking, Prompt, Rule, TextRole
from llm_planning.roles.domain_rules import adviser, informing
from llm_planning.stopwatch import Stopwatch
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Sequence
    from random import Random

    from llm_planning.domain import Domain, Step
    from llm_planning.execution.episode import Episode
    from llm_planning.priors import Policy, Prior, PriorSettings
    from llm_planning.roles import Role, RoleSettings
    from llm_planning.roles.llm import AnswerT, QuestionT
    from llm_planning.roles.oracles import Key
    from llm_planning.specs import Run
    from llm_serving.request import Message

    Chat: TypeAlias = tuple[Message, Message]

Ending: TypeAlias = Literal["victory", "failure", "over"]
"""How a game ends; `over` is an end of which nothing tells whether it is won."""

# WHAT IS SEEN -------------------------------------------------------------------------------------

LONGEST_TEXT = 600
"""The most characters of what the world says. Its beginning is left out: the news comes last."""

LONGEST_LOOK = 800
"""The most characters of what is around, and of what is at hand."""


@dataclass(frozen=True, slots=True)
class Observation:
    """o: what the world says, augmented by the answers to `look` and `inventory` (Section 4.1)."""

    text: str
    look: str
    inventory: str

    def __str__(self) -> str:
        """At most three lines: what the world says, what is around, what is at hand.

        On entering a place a game describes it, as `look` does again. So the first line leaves out
        what the other two say.
        """
        text, look, inventory = map(_one_line, (self.text, self.look, self.inventory))
        text = "" if text in look else _without(_without(text, look), inventory)
        parts = (
            last_of(text, LONGEST_TEXT),
            first_of(look, LONGEST_LOOK),
            first_of(inventory, LONGEST_LOOK),
        )
        return "\n".join(line for line in parts if line)


async def observe(domain: Domain[Any, Any], state: Any, text: str = "") -> Observation:  # noqa: ANN401
    """O(s).

    In a domain without `look`, the view of the state is what is around. MC-DML's prompts contain no
    goal, because a game says itself what it is about. So the goal and what the world is are told as
    what is at hand.

    Args:
        state: s.
        text: what the world said on the way to the state; a domain with `look` says it itself.
    """
    if isinstance(domain, Looks):
        return Observation(*await settled(domain.look(state)))
    goal = f"Your goal: {domain.goal} {domain.about}".rstrip()
    return Observation(text, await observed(domain, state), goal)


def text_of(step: Step[Any]) -> str:
    """What the world says after a step: its text, or why nothing was done."""
    return step.text or step.obstacle or ""


@dataclass(frozen=True, slots=True)
class GameTurn:
    """A move of a game: what the agent saw, and the action that it took then.

    Attributes:
        observation: o_t.
        action: a_t, as it is written.
        reward: r_t, the reward of the action.
        score: the game's score after the action.
    """

    observation: Observation
    action: str
    reward: float
    score: float

    def __str__(self) -> str:
        return f"{self.observation}\n> {self.action}"


@dataclass(frozen=True, slots=True)
class GameSituation:
    """What π(a|s) depends on; equal situations get equal answers.

    Attributes:
        memory: the turns of ℳ_i before o_t, oldest first. One turn makes the paper's
            (o_{t-1}, a_{t-1}, o_t). Empty at the start of a game and without ℳ_i.
        observation: o_t.
        actions: 𝒜(s) as they are written, at least one.
        reflections: ℳ_c, oldest first.
        state: s. Rules read it; no prompt shows it.
        right: the actions that lead to the goal, where rules answer.
    """

    memory: tuple[GameTurn, ...]
    observation: Observation
    actions: tuple[str, ...]
    reflections: tuple[str, ...] = ()
    state: Any = field(default=None, compare=False, repr=False)
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
    states: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    lapse: Lapse | None = field(default=None, compare=False, repr=False)

    @property
    def score(self) -> float:
        """The score at the end."""
        return self.turns[-1].score if self.turns else self.start

    @property
    def best_score(self) -> float:
        """The highest score at any time, the start included."""
        return max((self.start, *(turn.score for turn in self.turns)))


def ending_of(*, won: bool | None, done: bool) -> Ending | None:
    """How a game ended; None if it goes on.

    Args:
        won: whether the goal is reached; None if nothing tells.
        done: whether the world ended the game.
    """
    if won:
        return "victory"
    if not done:
        return None
    return "over" if won is None else "failure"


def trajectory_of(episode: Episode[Any, Any]) -> Trajectory:
    """The trajectory of an episode so far."""
    start = score = episode.domain.first_score
    turns = []
    for move in episode.moves:
        score += move.step.reward
        turns.append(GameTurn(move.seen, str(move.action), move.step.reward, score))
    reached = (episode.start, *(move.step.state for move in episode.moves))
    ending = ending_of(won=episode.success, done=episode.over)
    return Trajectory(tuple(turns), episode.now, ending, start, reached[:-1])


GamePolicy: TypeAlias = "Policy[GameSituation]"
"""LLM(a | ℳ_i, ℳ_c, p): π, shape [actions], not negative, sum 1."""

Reflect: TypeAlias = "Role[Trajectory, str]"
"""LLM(h, p_reflection): maps a trajectory that failed to advice in one sentence."""

# THE WORDS ----------------------------------------------------------------------------------------

LOGGED_TURNS = 12
"""The most turns of a trajectory in the question for a reflection: the last ones."""


class GameWording:
    """The prompts for π, the paper's p_action.probs."""

    def actions(self, situation: GameSituation) -> tuple[str, ...]:
        """𝒜(s)."""
        return situation.actions

    def key(self, situation: GameSituation) -> Hashable:
        """The situation without rewards and scores, which no prompt contains."""
        seen = tuple((turn.observation, turn.action) for turn in situation.memory)
        return seen, situation.observation, situation.actions, situation.reflections

    def action(self, situation: GameSituation, *, dashes: int) -> Chat:
        """Asks for an action as it is written in 𝒜(s)."""
        return self._about(situation, "actions", "line", "action", line=" ".join("-" * dashes))

    def label(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """Asks for the label of an action."""
        return self._about(situation, "labelled", "label", labels=labels)

    def several(self, situation: GameSituation, labels: Sequence[str]) -> Chat:
        """Asks for labels with their chances."""
        return self._about(situation, "labelled", "several", labels=labels)

    def _about(
        self,
        situation: GameSituation,
        listed: str,
        *question_blocks: str,
        labels: Sequence[str] = (),
        line: str = "",
    ) -> Chat:
        blocks = (
            *(("past",) if situation.memory else ()),
            "now",
            listed,
            *(("reflections",) if situation.reflections else ()),
            *question_blocks,
        )
        return _compose("act", blocks).messages(
            {
                "past": past(situation.memory),
                "now": str(situation.observation),
                "actions": situation.actions,
                "labelled": tuple(zip(labels, situation.actions, strict=bool(labels))),
                "reflections": situation.reflections,
                "line": line,
            }
        )


def ask_reflection(trajectory: Trajectory) -> Chat:
    """Asks for a reflection on h, the paper's p_reflection."""
    return _compose("reflect", ("record", "question")).messages({"log": log(trajectory)})


@cache
def _compose(name: str, user: tuple[str, ...]) -> Prompt:
    source = files(__package__) / "templates" / f"{name}.j2"
    return Prompt(
        [source.read_text("utf-8")], system=("role",), user=user, constants={"count": MOST_SAID}
    )


def past(turns: Sequence[GameTurn]) -> list[str]:
    """The turns of ℳ_i before o_t as they are told; see `last_that_fit`.

    Args:
        turns: oldest first.
    """
    return last_that_fit(map(str, reversed(turns)))


def log(trajectory: Trajectory) -> str:
    """Writes h: the first observation, then each action, its reward and what the world said to it.

    A long trajectory is cut to its last `LOGGED_TURNS` turns.
    """
    turns = trajectory.turns[-LOGGED_TURNS:]
    if not turns:
        return str(trajectory.last)
    lines = [DOTS] if len(turns) < len(trajectory.turns) else []
    lines.append(str(turns[0].observation))
    answers = [*(turn.observation for turn in turns[1:]), trajectory.last]
    for turn, answer in zip(turns, answers, strict=True):
        lines.append(f"> {turn.action} (reward {turn.reward:g}, score {turn.score:g})")
        if text := last_of(_one_line(answer.text), LONGEST_TEXT):
            lines.append(text)
    return "\n".join(lines)


def last_of(text: str, most: int) -> str:
    """Cuts a text to at most `most` characters. Dots stand for its beginning if it is longer."""
    if len(text) <= most:
        return text
    kept = text[len(DOTS) - most :]
    return DOTS + kept[kept.find(" ") + 1 :]


def first_of(text: str, most: int) -> str:
    """Cuts a text to at most `most` characters. Dots stand for its end if it is longer."""
    if len(text) <= most:
        return text
    kept = text[: most - len(DOTS)]
    return kept[: kept.rfind(" ") if " " in kept else None] + DOTS


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _without(text: str, part: str) -> str:
    return _one_line(text.replace(part, " ")) if part else text


# THE ROLES ----------------------------------------------------------------------------------------

REFLECTION = "reflection"
"""The role under which the engine counts reflections."""

# A second N could begin the sentence again, and outlines would take minutes to compile that.
_PATTERN = finite_regex(r"Next time[ ,][^.!?N]{20,189}\.")

SENTENCE = Constraint(_PATTERN.regex, _PATTERN.max_bytes)
"""The language of a reflection: one sentence, 31 to 200 plain characters with its full stop."""


def situation_of(situation: GameSituation) -> tuple[Key, ...]:
    """All that π of rules depends on, what is seen first."""
    return (
        str(situation.observation),
        tuple(past(situation.memory)),
        situation.actions,
        situation.reflections,
    )


POLICY: Rule[GameSituation, Sequence[float]] = policy_rule(situation_of)
"""log π in games."""

GENERAL = "Next time, keep to the way to the goal that the rules of this world know."
"""The reflection where no move was wrong, or where the actions do not fit into the sentence."""


def _advice(lapse: Lapse, action: str) -> str:
    sentence = f"Next time, at move {lapse.number}, {action} is better than {lapse.taken}."
    return sentence if re.fullmatch(SENTENCE.regex, sentence) else GENERAL


def _wrong_advice(trajectory: Trajectory, rng: Random) -> str | None:
    lapse = trajectory.lapse
    if lapse is None or (action := not_right(lapse, rng)) is None:
        return None
    return _advice(lapse, action)


ADVICE: Rule[Trajectory, str] = Rule(
    right=lambda h: GENERAL if h.lapse is None else _advice(h.lapse, h.lapse.right[0]),
    wrong=_wrong_advice,
    situation=lambda h: (log(h),),
)
"""A reflection on a trajectory that failed, in the language `SENTENCE`."""


class GameAsking(Asking):
    """Who answers what an agent asks in a game.

    Attributes:
        waiting: runs while at least one question waits for its answer.

    Raises:
        DomainError: the world hides its state, which MC-DML's searches start from.
    """

    def __init__(self, run: Run[Any, Any], settings: RoleSettings) -> None:
        if isinstance(run.world, Believes):
            raise DomainError(
                f"{run.domain} hides its state (it has a belief), which MC-DML's planners "
                "would see: plan there with puct or uct, or set sight=full if the domain has it"
            )
        super().__init__(run.world, run.engines, settings, seed=run.seed)
        self.waiting = Stopwatch()
        self._adviser = partial(adviser, run.world, seed=run.seed)

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
        return self.timed(self.of(role))

    def timed(self, role: Role[QuestionT, AnswerT]) -> Role[QuestionT, AnswerT]:
        """The role; `waiting` runs while it is asked."""

        async def ask(question: QuestionT, /) -> AnswerT:
            with self.waiting.running():
                return await role(question)

        return ask

    def _knowing_lapses(self) -> Callable[[Trajectory], Awaitable[Trajectory]]:
        advise, world = self._adviser(), self.domain

        async def informed(trajectory: Trajectory) -> Trajectory:
            moves = zip(trajectory.states, trajectory.turns, strict=True)
            for number, (state, turn) in enumerate(moves, start=1):
                actions = tuple(map(str, await settled(world.actions(state))))
                right = await advise(state, actions)
                if right and turn.action not in right:
                    return replace(trajectory, lapse=Lapse(number, turn.action, actions, right))
            return trajectory

        return informed
