"""Environments at a moment: what is stepped next is taken, replayed or copied.

A search takes most of its steps in rollouts, each from a state that nobody visits again. So the
first step from a state takes the state's own environment. Who comes back gets the state replayed
from its start, in an environment that nobody needs any more: that costs some steps, a copy many.
Where a replay does not do what the original does, states are copied.

Neither is believed: both are tested when a world is opened. Where both are right, and a reset takes
longer than a copy, as it does where a level is drawn, a replay begins with a copy of the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from copy import deepcopy
from io import StringIO
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from llm_planning.domain import DomainError

if TYPE_CHECKING:
    from llm_planning.environments.bridges.gymnasium_worlds import Moment

TESTED_STEPS: Final = 10
"""Actions by which replays and copies are tested."""

NOT_TWICE: Final = (
    "this world does not do the same twice, neither in a copy nor from its start, so it "
    "cannot be searched: let a planner act in it, such as react or llm-policy"
)

_TESTED_STARTS = 2
_TIMES = 3
_FREE = 64

Taken: TypeAlias = "tuple[int, int]"
"""An action's number, and the seed of its chance."""


class Kept:
    """The environment of a state, as long as it is there; whoever leaves the state frees it.

    Attributes:
        env: not stepped since the state; None if it was taken.
        taken: whether a step was taken from the state.
    """

    __slots__ = ("_free", "env", "taken")

    def __init__(self, env: Any, free: deque[Any]) -> None:
        self.env = env
        self.taken = False
        self._free = free

    def __del__(self) -> None:
        if self.env is not None:
            self._free.append(self.env)


class Copies:
    """Gives environments at a moment.

    Args:
        first: an environment; it is copied and never stepped.

    Attributes:
        replays: whether an environment that is reset and stepped again does the same.
        copies: whether a copy does.
        error: what the environment itself raised in one of these steps; None if nothing.
    """

    def __init__(self, first: Any) -> None:
        self._first = first
        self._free: deque[Any] = deque(maxlen=_FREE)
        self._starts: dict[int, Any] = {}
        self._copies_starts = False
        self.error: Exception | None = None
        self.replays = self._agrees(self._in_a_replay)
        self.copies = self._agrees(_in_a_copy)
        if self.replays and self.copies:
            self._copies_starts = _seconds(lambda: deepcopy(first)) < _seconds(
                lambda: self.begin(0)
            )

    @property
    def agree(self) -> bool:
        """Whether a state can be left more than once."""
        return self.replays or self.copies

    def begin(self, seed: int) -> tuple[Kept, Any, Mapping[str, Any]]:
        """An environment after its reset, the observation and the information."""
        env = self._free.pop() if self._free else deepcopy(self._first)
        # Some worlds print how they come about.
        with redirect_stdout(StringIO()):
            seen, info = env.reset(seed=seed)
        return self.keep(env), seen, info

    def keep(self, env: Any) -> Kept:
        """The environment of a new state."""
        return Kept(env, self._free)

    def to_step(self, state: Moment) -> Any:
        """An environment at this moment that nobody else has.

        Raises:
            DomainError: the state was left before, and replays and copies are both wrong.
        """
        kept = state.kept
        if self.replays or not (self.copies or kept.taken):
            env, kept.env, kept.taken = kept.env, None, True
            return self._replayed(state) if env is None else env
        if not self.copies:
            raise DomainError(NOT_TWICE)
        return deepcopy(kept.env)

    def to_see(self, state: Moment) -> Any:
        """An environment at this moment, which is not to be stepped."""
        if state.kept.env is None:
            state.kept.env = self._replayed(state)
        return state.kept.env

    def _replayed(self, state: Moment) -> Any:
        if not self.replays:
            raise DomainError(NOT_TWICE)
        (seed, _), *taken = state.past
        return self._at(seed, taken)[0]

    def _at(self, seed: int, taken: Sequence[Taken]) -> tuple[Any, Any]:
        """An environment after these steps, and the result of the last."""
        env = self._start(seed)
        results = [stepped_again(env, *step) for step in taken]
        return env, results[-1] if results else None

    def _start(self, seed: int) -> Any:
        if self._copies_starts and seed in self._starts:
            return deepcopy(self._starts[seed])
        kept, *_ = self.begin(seed)
        env, kept.env = kept.env, None
        if self._copies_starts:
            self._starts[seed] = deepcopy(env)
        return env

    def _agrees(self, again: Callable[[Any, int, Sequence[Taken]], Any]) -> bool:
        """Whether the last of some steps ends in `again` as it ends in the original."""
        try:
            for seed in range(_TESTED_STARTS):
                draws, env = Random(f"copies {seed}"), deepcopy(self._first)
                with redirect_stdout(StringIO()):
                    env.reset(seed=seed)
                space, taken = env.action_space, list[Taken]()
                for _ in range(TESTED_STEPS):
                    number = int(space.start) + draws.randrange(int(space.n))
                    taken.append((number, draws.getrandbits(63)))
                    try:
                        other = again(env, seed, taken)
                    finally:
                        result = self._original(env, taken[-1])
                    if not same(other, result):
                        return False
                    if result[3] or result[4]:
                        break
        except Exception:
            # A foreign environment may raise anything when it is copied.
            return False
        return True

    def _original(self, env: Any, step: Taken) -> Any:
        """The result of a step that is no repetition; keeps its error."""
        try:
            return stepped_again(env, *step)
        except Exception as error:
            self.error = error
            raise

    def _in_a_replay(self, _env: Any, seed: int, taken: Sequence[Taken]) -> Any:
        env, result = self._at(seed, taken)
        # The next replay is made in an environment that was used.
        self._free.append(env)
        return result


class _Chance:
    """The random generator of one step, which is seeded when it is first used."""

    def __init__(self, seed: Callable[[], int]) -> None:
        self.drawn: int | None = None
        self._seed = seed
        self._generator: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._generator is None:
            self.drawn = self._seed()
            self._generator = _generator(self.drawn)
        return getattr(self._generator, name)


def _generator(seed: int) -> Any:
    return np.random.Generator(np.random.PCG64(seed))


def stepped(
    env: Any, number: int, seed: Callable[[], int]
) -> tuple[int | None, Any, float, bool, bool, Any]:
    """Steps an environment with chance of its own.

    Args:
        seed: gives the seed of chance; it is asked once, and only if the step draws.

    Returns:
        The seed, or None if nothing was drawn; the observation, the reward, whether the episode
        terminated, whether it was truncated, and the information.
    """
    chance = _Chance(seed)
    env.unwrapped.np_random = chance
    seen, reward, terminated, truncated, info = env.step(number)
    # Whoever copies the environment would have the chance drawn.
    env.unwrapped.np_random = _generator(0)
    return chance.drawn, seen, float(reward), bool(terminated), bool(truncated), info


def stepped_again(
    env: Any, number: int, chance: int
) -> tuple[int | None, Any, float, bool, bool, Any]:
    """Steps an environment with chance that is known; see `stepped`."""
    return stepped(env, number, lambda: chance)


def same(first: Any, second: Any) -> bool:
    """Whether two observations or results are equal, arrays included."""
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(np.array_equal(first, second))


def _seconds(do: Callable[[], object]) -> float:
    """How long something takes, the least of some times."""
    times = []
    for _ in range(_TIMES):
        begun = perf_counter()
        do()
        times.append(perf_counter() - begun)
    return min(times)


def _in_a_copy(env: Any, _seed: int, taken: Sequence[Taken]) -> Any:
    # The first copy must not change what the second one is made of.
    stepped_again(deepcopy(env), *taken[-1])
    return stepped_again(deepcopy(env), *taken[-1])
