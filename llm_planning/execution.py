"""Plans carried out in a domain's real dynamics: success is what the world says.

Whatever really happens in a trial is drawn from one stream of its seed, `world_draws`, which no
planner draws from: a plan that was lucky in simulations need not be lucky here.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Generic

from llm_planning.domain import A, S, Step, is_won, settled
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llm_planning.domain import Domain


def world_draws(seed: int) -> Random:
    """The chance of what really happens in the trial of this seed: `Random("world SEED")`."""
    return Random(f"world {seed}")


@dataclass(frozen=True, slots=True)
class Move(Generic[S, A]):
    """An action and what it did.

    Attributes:
        action: a.
        step: s', r and what the world said.
    """

    action: A
    step: Step[S]

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

    Attributes:
        domain: the same.
        state: where it is.
        moves: what was done, oldest first.
        success: whether the goal is reached, as the domain says.
        over: whether nothing more can happen.
    """

    def __init__(self, domain: Domain[S, A], start: S, *, seed: int) -> None:
        self.domain = domain
        self.state = start
        self.moves: list[Move[S, A]] = []
        self.success = False
        self.over = False
        self._draws = world_draws(seed)

    @classmethod
    async def begin(cls, domain: Domain[S, A], *, seed: int) -> Episode[S, A]:
        """Starts the world of a trial.

        Args:
            domain: whose dynamics are the real ones.
            seed: of the trial; the world begins with it, and its chance is `world_draws`.
        """
        episode = cls(domain, await settled(domain.start(seed)), seed=seed)
        episode.over = episode.success = await is_won(domain, episode.state, done=False)
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
        self.moves.append(Move(action, step))
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
        return step

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


async def execute(domain: Domain[S, A], plan: Iterable[A], *, seed: int) -> Execution[S, A]:
    """Carries a plan out, from the start of the trial's world.

    An action that the world refuses leaves the world as it is, and the plan goes on with the next.

    Args:
        domain: whose dynamics are the real ones.
        plan: actions, in order.
        seed: of the trial.
    """
    episode = await Episode.begin(domain, seed=seed)
    for action in plan:
        if episode.over:
            break
        await episode.act(action)
    return await episode.recorded()
