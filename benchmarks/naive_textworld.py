"""A generated game as TextWorld's own interface plays it: the naive arm of `textgame`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition

if TYPE_CHECKING:
    from pathlib import Path

_UNCHANGING = ("look", "inventory", "examine")


class NaiveGame:
    """A `TextGame` whose every simulation begins with a copy of the environment.

    It stands where the last step led. Whoever goes on from there steps on; whoever wants to be
    elsewhere gets a copy of the beginning, in which all actions up to there are played again. Every
    step asks TextWorld for the admissible commands anew; `look` and `inventory` are typed where an
    observation is wanted. So a simulation of Algorithm 1 costs one `env.copy()` at most, its own
    steps and two more commands where it expands a node, and nothing is remembered but, for each
    path of actions, where it led.

    Args:
        file: the compiled game.
        name: for people.
        max_score: of the game.

    Attributes:
        copies: of the environment.
    """

    def __init__(self, file: Path, *, name: str, max_score: float) -> None:
        import textworld

        self.name = name
        self.max_score = max_score
        self.walkthrough: tuple[str, ...] = ()
        self.objective = ""
        self.seconds = GameSeconds()
        self.copies = 0
        wanted = textworld.EnvInfos(admissible_commands=True, score=True, won=True, lost=True)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*is not fully supported", append=False)
            self._root: Any = textworld.start(str(file), request_infos=wanted)
        first = self._root.reset()
        self._env: Any = None
        self._stands: str | None = None
        self._start = Transition("", str(first["feedback"]), 0.0, None)
        self._actions = {"": _actions(first)}
        self._seen: dict[str, tuple[str, str]] = {}
        self._scores = {"": int(first["score"])}

    def knows(self, state: str) -> bool:
        """Whether somebody was told of this state."""
        return state in self._actions

    async def start(self) -> Transition:
        """The beginning; a state is named by the actions that led to it."""
        return self._start

    async def actions(self, state: str) -> tuple[str, ...]:
        """What was admissible after the last step into the state."""
        return self._actions[state]

    async def look(self, state: str) -> tuple[str, str]:
        """Looks around, after a copy and all actions before it where it stands elsewhere."""
        if state not in self._seen:
            self._go(state)
            look, inventory = (self._env.step(command)[0] for command in ("look", "inventory"))
            self._seen[state] = str(look["feedback"]), str(inventory["feedback"])
        return self._seen[state]

    async def step(self, state: str, action: str) -> Transition:
        """Plays an action, after a copy and all actions before it where it stands elsewhere."""
        self._go(state)
        seen, _, _ = self._env.step(action)
        self.seconds.steps += 1
        reached = f"{state}\n{action}"
        ending = Ending.VICTORY if seen["won"] else Ending.FAILURE if seen["lost"] else None
        self._stands = reached
        self._actions[reached] = _actions(seen)
        self._scores[reached] = int(seen["score"])
        reward = float(self._scores[reached] - self._scores[state])
        return Transition(reached, str(seen["feedback"]), reward, ending)

    def _go(self, state: str) -> None:
        if state == self._stands:
            return
        self._env = self._root.copy()
        self.copies += 1
        for earlier in state.split("\n")[1:]:
            self._env.step(earlier)
            self.seconds.steps += 1
        self._stands = state


def _actions(seen: Any) -> tuple[str, ...]:  # noqa: ANN401 - a textworld.GameState
    commands = seen["admissible_commands"] or ()
    return tuple(sorted({command for command in commands if command.split()[0] not in _UNCHANGING}))
