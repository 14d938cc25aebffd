"""Any domain told as a text game, which is what MC-DML plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llm_planning.domain import DomainError, Step, is_won, observed, settled
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition
from llm_planning.roles.domain_rules import adviser

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from llm_planning.domain import Domain
    from llm_planning.roles.domain_rules import Advise
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


def game_adviser(world: TextGameDomain, *, seed: int) -> Advise:
    """Makes a function that says which actions lead to the goal; see `domain_rules.adviser`.

    Args:
        world: as `as_text_game` returns it; the rules of a domain that it tells are asked.
        seed: of what happens after an action.

    Raises:
        DomainError: the domain has no rules for that.
    """
    if not isinstance(world, _DomainAsGame):
        return adviser(world, seed=seed)
    advise = adviser(world.told, seed=seed)

    async def of_told(state: Transition, actions: Sequence[str]) -> tuple[str, ...]:
        return await advise(state.state, actions)

    return of_told


class _DomainAsGame(TextGameDomain):
    """A domain as a game without a highest score. Every end that is not a success is a failure.

    MC-DML's prompts contain no goal, because a game says itself what it is about. So the answer to
    `inventory` says the domain's goal and what its world is.
    """

    def __init__(self, world: Domain[Any, Any], name: str) -> None:
        self.name = name
        self.max_score = 0.0
        self.seconds = GameSeconds()
        self.told = world
        self._named: dict[str, Any] = {}

    async def start(self, seed: int) -> Transition:
        """s_0, without a text."""
        return Transition(await settled(self.told.start(seed)), "", 0.0, None)

    async def actions(self, state: Transition) -> tuple[str, ...]:
        """𝒜(s) in words."""
        if state.ending is not None:
            return ()
        named = {str(action): action for action in await settled(self.told.actions(state.state))}
        self._named.update(named)
        return tuple(named)

    async def play(self, state: Transition, action: str, rng: Random) -> Transition:
        """The transition of the domain's action with this text."""
        return (await self.step(state, action, rng)).state

    async def step(self, state: Transition, action: str, rng: Random) -> Step[Transition]:
        """The domain's step with its obstacle; the state is the step as a transition."""
        step = await settled(self.told.step(state.state, self._named[action], rng))
        won = await is_won(self.told, step.state, done=step.done)
        ending = Ending.VICTORY if won else Ending.FAILURE if step.done else None
        text = step.text or step.obstacle or ""
        made = Transition(step.state, text, step.reward, ending)
        return Step(made, step.reward, ending is not None, text=text, obstacle=step.obstacle)

    async def look(self, state: Transition) -> tuple[str, str]:
        """What an agent sees of the state, and its goal."""
        told = f"Your goal: {self.told.goal} {self.told.about}".rstrip()
        return await observed(self.told, state.state), told
