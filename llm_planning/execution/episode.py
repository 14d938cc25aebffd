"""Episodes in a domain's real dynamics: they act move by move, or carry out a plan.

All real chance of a trial comes from one random stream of its seed, `world_draws`. No planner draws
from it, so a plan that was lucky in simulations need not be lucky here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from llm_planning.domain import A, S, Step
from llm_planning.domain_calls import (
    actions_of,
    in_words,
    is_won,
    settled,
    started,
    stepped,
    tests_goal,
    truth_of,
    wrong_return,
)
from llm_planning.repeatable import digest_of, is_watched, refuse_changed
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from llm_planning.domain import Domain

DecisionT = TypeVar("DecisionT")

See: TypeAlias = Callable[[Step[S]], Awaitable[Any]]
"""Maps a step to what an agent sees after it."""


def world_draws(seed: int) -> Random:
    """Makes the random generator of the real world of a trial: `Random("world SEED")`."""
    return Random(f"world {seed}")


@dataclass(frozen=True, slots=True)
class Move(Generic[S, A]):
    """A real action and its step.

    Attributes:
        action: a.
        step: s', r and what the world said.
        seen: what the agent saw before the action; None if the episode has no `see`.
    """

    action: A
    step: Step[S]
    seen: Any = None

    def to_json(self) -> dict[str, Any]:
        """For a trace, without the state."""
        return {
            "action": str(self.action),
            "reward": self.step.reward,
            "text": self.step.text,
            "obstacle": self.step.obstacle,
        }


class Episode(Generic[S, A]):
    """One run through a domain's real dynamics. An action here cannot be undone.

    It ends when a step is `done`, and when the goal is reached.

    Args:
        domain: the real dynamics.
        start: s_0.
        see: maps a step to what the agent sees; called once at the start and after each action.
            None for an agent that does not look.

    Attributes:
        now: what the agent sees at present; None without `see`.
        moves: the moves so far, oldest first.
        success: whether the goal is reached, as the domain says; None if it cannot tell.
        milestones: milestone of the domain -> the number of moves after which it was first reached;
            None if it was not.
        draws: all chance of the world.
    """

    def __init__(
        self, domain: Domain[S, A], start: S, *, seed: int, see: See[S] | None = None
    ) -> None:
        self.domain = domain
        self.start = start
        self.state = start
        self.now: Any = None
        self.moves: list[Move[S, A]] = []
        self.success: bool | None = False
        self.over = False
        self.milestones: dict[str, int | None] = {}
        self.draws = world_draws(seed)
        self._see = see
        self._begun = self._digest()

    @classmethod
    async def begin(
        cls, domain: Domain[S, A], *, seed: int, see: See[S] | None = None
    ) -> Episode[S, A]:
        """Starts the world of a trial.

        Args:
            seed: of the trial; the world starts from it, and its chance is `world_draws`.
            see: see `Episode`. At the start it gets a step with s_0 and nothing else.
        """
        episode = cls(domain, await started(domain, seed), seed=seed, see=see)
        episode.success = await is_won(domain, episode.state, done=False)
        episode.over = bool(episode.success)
        await episode._note_milestones()
        await episode._look(Step(episode.state))
        return episode

    async def act(self, action: A) -> Step[S]:
        """Takes an action for real.

        Raises:
            RuntimeError: the episode is over.
            DomainError: the domain's `step` returned no step.
        """
        if self.over:
            raise RuntimeError(f"the episode is over, and {action} can no longer be done")
        self._refuse_changed()
        step = await stepped(self.domain, self.state, action, self.draws)
        self.state = step.state
        self._begun = self._digest()
        self.moves.append(Move(action, step, self.now))
        if (trace := tracing()) is not None:
            trace.execution(
                action,
                reward=step.reward,
                text=step.text,
                obstacle=step.obstacle,
                done=step.done,
            )
        self.success = await is_won(self.domain, step.state, done=step.done)
        self.over = step.done
        await self._note_milestones()
        await self._look(step)
        return step

    def _digest(self) -> Hashable | None:
        return digest_of(self.state) if is_watched(self.domain) else None

    def _refuse_changed(self) -> None:
        """Refuses a domain of which another method than `step` changed the present state."""
        if is_watched(self.domain):
            readers = "describe, observe, actions, milestones, success or score"
            refuse_changed(self.domain, readers, self.state, self._begun)

    async def close(self) -> None:
        """Ends the episode if nothing can be done any more, and nothing tells whether it is won."""
        if tests_goal(self.domain):
            return
        if not await actions_of(self.domain, self.state):
            self.over, self.success = True, None

    async def _note_milestones(self) -> None:
        milestones = await settled(self.domain.milestones(self.state))
        if not (
            isinstance(milestones, Mapping)
            and all(isinstance(name, str) for name in milestones)
            and all(truth_of(is_passed) is not None for is_passed in milestones.values())
        ):
            wanted = "a mapping from names to True or False"
            raise wrong_return(self.domain, "milestones", milestones, wanted)
        for name, is_passed in milestones.items():
            if self.milestones.get(name) is None:
                self.milestones[name] = len(self.moves) if is_passed else None

    async def _look(self, step: Step[S]) -> None:
        if self._see is not None:
            self.now = await self._see(step)

    async def recorded(self) -> Execution[S, A]:
        """Returns the record of the episode so far."""
        return Execution(
            moves=tuple(self.moves),
            success=self.success,
            ended=self.over,
            last=await in_words(self.domain, "describe", self.state),
            milestones=dict(self.milestones),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Generic[S, A]):
    """The record of an episode.

    Attributes:
        moves: every action that was tried, in order, refused actions included.
        success: whether the goal was reached, as the domain says; None if it cannot tell.
        ended: whether the episode ended; False if the agent or its plan stopped before that.
        last: the last state in words.
        milestones: see `Episode`; empty in a domain without milestones.
    """

    moves: tuple[Move[S, A], ...]
    success: bool | None
    ended: bool
    last: str
    milestones: Mapping[str, int | None] = field(default_factory=dict)

    @property
    def reward(self) -> float:
        """Σ r, undiscounted."""
        return sum(move.step.reward for move in self.moves)

    @property
    def untold(self) -> str:
        """Why nothing tells of the goal where nothing can be done any more; else empty."""
        done = bool(self.moves) and self.moves[-1].step.done
        if self.success is not None or done or not self.ended:
            return ""
        return (
            "No action is possible any more, and nothing tells whether that is the goal: let the "
            "last step be `done`, or add `success` to the domain."
        )

    @property
    def first_failed(self) -> Move[S, A] | None:
        """The first action that the world refused or carried out only in part."""
        return next((move for move in self.moves if move.step.obstacle is not None), None)

    def metrics(self) -> dict[str, Any]:
        """The metrics of an execution, for the ledger.

        Returns:
            success_basis: "executed", because the world judges success, or "not judged".
            options_executed: number of actions that were carried out completely.
            first_failed, first_obstacle: the first other action, and the world's reason; None if
                there is none.
            reward: Σ r, undiscounted.
            reached_NAME, steps_to_NAME: for each milestone whether it was reached, and after how
                many moves; None if it was not.
        """
        failed = self.first_failed
        return {
            "success_basis": "not judged" if self.success is None else "executed",
            "options_executed": sum(move.step.obstacle is None for move in self.moves),
            "first_failed": failed and str(failed.action),
            "first_obstacle": failed and failed.step.obstacle,
            "reward": self.reward,
            **milestone_metrics(self.milestones),
        }

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "moves": [move.to_json() for move in self.moves],
            "success": self.success,
            "ended": self.ended,
            "last": self.last,
            **({"milestones": dict(self.milestones)} if self.milestones else {}),
        }


def milestone_metrics(milestones: Mapping[str, int | None]) -> dict[str, Any]:
    """Of each milestone whether it was reached, and after how many moves, for the ledger."""
    return {
        **{f"reached_{name}": at is not None for name, at in milestones.items()},
        **{f"steps_to_{name}": at for name, at in milestones.items()},
    }


def milestone_lines(milestones: Mapping[str, int | None]) -> list[str]:
    """Says for people after how many moves each milestone was reached; empty without any."""
    if not milestones:
        return []
    counts = (
        f"{name.replace('_', ' ')} {'not reached' if at is None else at}"
        for name, at in milestones.items()
    )
    return [f"moves to each milestone: {', '.join(counts)}"]


class Stop(Enum):
    """What a player chooses who does not act any more; every other value may be an action."""

    STOP = "stop"


STOP: Final = Stop.STOP


async def play(
    domain: Domain[S, A],
    choose: Callable[[Episode[S, A]], Awaitable[A | Stop]],
    *,
    seed: int,
    see: See[S] | None = None,
    moves: float = math.inf,
) -> Episode[S, A]:
    """Plays an episode: chooses an action and takes it, until the episode is over.

    Args:
        choose: maps an episode to the next action, or to `STOP`.
        moves: the most actions.

    Returns:
        The episode, over or stopped.
    """
    episode = await Episode.begin(domain, seed=seed, see=see)
    while not episode.over and len(episode.moves) < moves:
        action = await choose(episode)
        if isinstance(action, Stop):
            break
        await episode.act(action)
    if not episode.over:
        await episode.close()
    return episode


async def play_decided(
    domain: Domain[S, A],
    decide: Callable[[Episode[S, A], Sequence[DecisionT]], Awaitable[tuple[A, DecisionT] | None]],
    *,
    seed: int,
    see: See[S] | None = None,
    moves: float = math.inf,
) -> tuple[Episode[S, A], list[DecisionT]]:
    """Plays an episode, and keeps how each of its moves was decided.

    Args:
        decide: maps an episode and the decisions so far to the next action and how it was decided;
            to None if there is none.
        moves: the most actions.

    Returns:
        The episode, and the decisions, one for each of its moves.
    """
    decisions: list[DecisionT] = []

    async def choose(episode: Episode[S, A]) -> A | Stop:
        decided = await decide(episode, decisions)
        if decided is None:
            return STOP
        action, how = decided
        decisions.append(how)
        return action

    return await play(domain, choose, seed=seed, see=see, moves=moves), decisions


async def execute(
    domain: Domain[S, A], plan: Iterable[A], *, seed: int, tries: int = 1
) -> Execution[S, A]:
    """Carries a plan out, from the start of the trial's world.

    An action that the world refuses leaves the world as it is, and the plan goes on with the next.
    The plan stops early if the episode ends.

    Args:
        plan: actions, in order.
        seed: of the trial, an integer; the world starts from it, and draws its chance from it.
        tries: how often at most an action is taken that the world carries out only in part.

    Returns:
        Every tried action with its step, and whether the goal was reached.

    Raises:
        Exception: an error of the domain, unchanged.

    Example:
        >>> import asyncio
        >>> from llm_planning import Domain, Step, execute
        >>> class Stairs(Domain):
        ...     goal = "Stand on the second step."
        ...
        ...     def start(self, seed):
        ...         return 0
        ...
        ...     def describe(self, state):
        ...         return f"step {state}"
        ...
        ...     def actions(self, state):
        ...         return ["up"]
        ...
        ...     def step(self, state, action, rng):
        ...         if action != "up":
        ...             return Step(state, obstacle=f"there is no way {action}")
        ...         return Step(state + 1, reward=0.5, done=state == 1)
        >>> done = asyncio.run(execute(Stairs(), ["up", "down", "up"], seed=0))
        >>> done.success, done.reward, done.last
        (True, 1.0, 'step 2')
        >>> done.first_failed.step.obstacle
        'there is no way down'
    """
    actions = iter(plan)

    tried = 0

    async def planned(episode: Episode[S, A]) -> A | Stop:
        nonlocal tried
        if tried < tries and _is_open(episode):
            tried += 1
            return episode.moves[-1].action
        tried = 1
        return next(actions, STOP)

    return await (await play(domain, planned, seed=seed)).recorded()


def _is_open(episode: Episode[Any, Any]) -> bool:
    """Whether the last action was carried out only in part; a refused one changes nothing."""
    if not episode.moves or episode.moves[-1].step.obstacle is None:
        return False
    before = episode.moves[-2].step.state if len(episode.moves) > 1 else episode.start
    return bool(episode.state != before)
