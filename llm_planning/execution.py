"""Plans carried out in a domain's real dynamics: success is what the world says.

Whatever really happens in a trial is drawn from one stream of its seed, `world_draws`, which no
planner draws from: a plan that was lucky in simulations need not be lucky here.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from llm_planning.domain import A, S, Step, is_won, settled
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.domain import Domain

See: TypeAlias = Callable[[Step[S]], Awaitable[Any]]
"""What an agent sees after a step."""


def world_draws(seed: int) -> Random:
    """The chance of what really happens in the trial of this seed: `Random("world SEED")`."""
    return Random(f"world {seed}")


@dataclass(frozen=True, slots=True)
class Move(Generic[S, A]):
    """An action and what it did.

    Attributes:
        action: a.
        step: s', r and what the world said.
        seen: what the agent saw before; None where nobody looks.
    """

    action: A
    step: Step[S]
    seen: Any = None

    def to_json(self) -> dict[str, Any]:
        """For a trace; the state is left out."""
        return {
            "action": str(self.action),
            "reward": self.step.reward,
            "text": self.step.text,
            "obstacle": self.step.obstacle,
        }


class Episode(Generic[S, A]):
    """A domain lived through once; what is done here cannot be undone.

    It ends where a step says so, and where the goal is reached.

    Args:
        domain: whose dynamics are the real ones.
        start: s_0.
        seed: of the trial.
        see: what the agent sees, asked once before each action and once at the end; None where
            nobody looks.

    Attributes:
        domain: the same.
        start: the same.
        state: where it is.
        now: what is seen there.
        moves: what was done, oldest first.
        success: whether the goal is reached, as the domain says.
        over: whether nothing more can happen.
    """

    def __init__(
        self, domain: Domain[S, A], start: S, *, seed: int, see: See[S] | None = None
    ) -> None:
        self.domain = domain
        self.start = start
        self.state = start
        self.now: Any = None
        self.moves: list[Move[S, A]] = []
        self.success = False
        self.over = False
        self._draws = world_draws(seed)
        self._see = see

    @classmethod
    async def begin(
        cls, domain: Domain[S, A], *, seed: int, see: See[S] | None = None
    ) -> Episode[S, A]:
        """Starts the world of a trial.

        Args:
            domain: whose dynamics are the real ones.
            seed: of the trial; the world begins with it, and its chance is `world_draws`.
            see: what the agent sees; at the start, of a step with s_0 and nothing else.
        """
        episode = cls(domain, await settled(domain.start(seed)), seed=seed, see=see)
        episode.over = episode.success = await is_won(domain, episode.state, done=False)
        await episode._look(Step(episode.state))
        return episode

    async def act(self, action: A) -> Step[S]:
        """Takes an action for real.

        Raises:
            RuntimeError: the episode is over.
        """
        if self.over:
            raise RuntimeError(f"the episode is over, and {action} can no longer be done")
        step = await settled(self.domain.step(self.state, action, self._draws))
        self.state = step.state
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
        self.over = step.done or self.success
        await self._look(step)
        return step

    async def _look(self, step: Step[S]) -> None:
        if self._see is not None:
            self.now = await self._see(step)

    async def recorded(self) -> Execution[S, A]:
        """What happened so far."""
        return Execution(
            moves=tuple(self.moves),
            success=self.success,
            ended=self.over,
            last=await settled(self.domain.describe(self.state)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution(Generic[S, A]):
    """What came of a plan.

    Attributes:
        moves: every action that was tried, in order; those the world refused are among them.
        success: whether the goal was reached, as the domain says.
        ended: whether the episode ended; otherwise the plan did.
        last: the last state in words.
    """

    moves: tuple[Move[S, A], ...]
    success: bool
    ended: bool
    last: str

    @property
    def reward(self) -> float:
        """Σ r, undiscounted."""
        return sum(move.step.reward for move in self.moves)

    @property
    def first_failed(self) -> Move[S, A] | None:
        """The first action that was not carried out, or fell short."""
        return next((move for move in self.moves if move.step.obstacle is not None), None)

    def metrics(self) -> dict[str, Any]:
        """What a ledger keeps: success rests on the world; how much was done, and what failed.

        Returns:
            success_basis: "executed".
            options_executed: how many actions were carried out completely.
            first_failed, first_obstacle: the first that was not, and the world's reason; None
                where there is none.
            reward: their sum, undiscounted.
        """
        failed = self.first_failed
        return {
            "success_basis": "executed",
            "options_executed": sum(move.step.obstacle is None for move in self.moves),
            "first_failed": failed and str(failed.action),
            "first_obstacle": failed and failed.step.obstacle,
            "reward": self.reward,
        }

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "moves": [move.to_json() for move in self.moves],
            "success": self.success,
            "ended": self.ended,
            "last": self.last,
        }


async def play(
    domain: Domain[S, A],
    choose: Callable[[Episode[S, A]], Awaitable[A | None]],
    *,
    seed: int,
    see: See[S] | None = None,
    moves: float = math.inf,
) -> Episode[S, A]:
    """Plays an episode: chooses, acts, and so on, until it is over.

    Args:
        domain: whose dynamics are the real ones.
        choose: the next action in an episode that is not over; None ends the play.
        seed: of the trial.
        see: see `Episode`.
        moves: the most actions that are taken.

    Returns:
        The episode as it was left.
    """
    episode = await Episode.begin(domain, seed=seed, see=see)
    while not episode.over and len(episode.moves) < moves:
        action = await choose(episode)
        if action is None:
            break
        await episode.act(action)
    return episode


async def execute(domain: Domain[S, A], plan: Iterable[A], *, seed: int) -> Execution[S, A]:
    """Carries a plan out, from the start of the trial's world.

    An action that the world refuses leaves the world as it is, and the plan goes on with the next.
    The plan ends early where the episode does.

    Args:
        domain: whose dynamics are the real ones.
        plan: actions, in order.
        seed: of the trial, an integer; the world begins with it, and its chance is drawn from it.

    Returns:
        Every action that was tried with the step that it led to, and whether the goal was reached.

    Raises:
        Exception: whatever the domain raises.

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

    async def planned(_: Episode[S, A]) -> A | None:
        return next(actions, None)

    return await (await play(domain, planned, seed=seed)).recorded()
