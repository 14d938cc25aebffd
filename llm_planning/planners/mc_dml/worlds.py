"""Any domain told as a text game, which is what MC-DML plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.domain import DomainError, Step, is_won, observed, settled
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition

if TYPE_CHECKING:
    from random import Random

    from llm_planning.domain import Domain
    from llm_planning.specs import Problem


def as_text_game(problem: Problem[Any]) -> TextGameDomain:
    """The world of a problem: a text game as it is, any other domain told as a text game.

    Raises:
        DomainError: the world hides its state, which MC-DML's searches start from.
    """
    world = problem.world
    if getattr(world, "belief", None) is not None:
        raise DomainError(
            f"{problem.domain} hides its state (it has a belief), which MC-DML's planners would "
            "see: plan there with puct or uct"
        )
    return world if isinstance(world, TextGameDomain) else _DomainAsGame(world, problem.task)


class _DomainAsGame(TextGameDomain):
    """A domain as a game without a highest score. Every end that is not a success is a failure.

    MC-DML's prompts contain no goal, because a game says itself what it is about. So the answer to
    `inventory` says the domain's goal and what its world is.
    """

    def __init__(self, world: Domain[Any, Any], name: str) -> None:
        self.name = name
        self.max_score = 0.0
        self.seconds = GameSeconds()
        self._world = world
        self._named: dict[str, Any] = {}

    async def start(self, seed: int) -> Transition:
        """s_0, without a text."""
        return Transition(await settled(self._world.start(seed)), "", 0.0, None)

    async def actions(self, state: Transition) -> tuple[str, ...]:
        """𝒜(s) in words."""
        if state.ending is not None:
            return ()
        named = {str(action): action for action in await settled(self._world.actions(state.state))}
        self._named.update(named)
        return tuple(named)

    async def play(self, state: Transition, action: str, rng: Random) -> Transition:
        """The transition of the domain's action with this text."""
        return (await self.step(state, action, rng)).state

    async def step(self, state: Transition, action: str, rng: Random) -> Step[Transition]:
        """The domain's step with its obstacle; the state is the step as a transition."""
        step = await settled(self._world.step(state.state, self._named[action], rng))
        won = await is_won(self._world, step.state, done=step.done)
        ending = Ending.VICTORY if won else Ending.FAILURE if step.done else None
        text = step.text or step.obstacle or ""
        made = Transition(step.state, text, step.reward, ending)
        return Step(made, step.reward, ending is not None, text=text, obstacle=step.obstacle)

    async def look(self, state: Transition) -> tuple[str, str]:
        """What an agent sees of the state, and its goal."""
        told = f"Your goal: {self._world.goal} {self._world.about}".rstrip()
        return await observed(self._world, state.state), told
