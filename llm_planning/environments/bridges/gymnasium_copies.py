"""Environments at a moment: what is stepped next is taken, replayed or copied.

A search takes most of its steps in rollouts, each from a state that nobody visits again. So the
first step from a state takes the state's own environment. Who comes back gets the state replayed
from its start, in an environment that nobody needs any more: that costs some steps, a copy many.
Where a replay does not do what the original does, states are copied.

Neither is believed: both are tested when a world is opened. Where both are right, and a reset takes
longer than a copy, as it does where a level is drawn, a replay begins with a copy of the start.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from copy import copy, deepcopy
from functools import partial
from io import StringIO
from itertools import cycle
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from llm_planning.domain import DomainError
from llm_planning.environments.bridges.gymnasium_chance import Chance

if TYPE_CHECKING:
    from llm_planning.environments.bridges.gymnasium_chance import Result
    from llm_planning.environments.bridges.gymnasium_worlds import Moment

TESTED_STEPS: Final = 10
"""Actions by which replays and copies are tested."""

NOT_TWICE: Final = (
    "this world does not do the same twice, neither in a copy nor from its start, so it "
    "cannot be searched: let a planner act in it, such as react or llm-policy"
)

FORESEEN: Final = (
    "draws in a step from a generator that the step itself makes, so that a search would foresee "
    "its chance: let a planner act in it, such as react or llm-policy"
)

SIGHT_STARTS: Final = 256
"""Starts among which equal observations are looked for."""

SIGHT_MEMBERS, SIGHT_STEPS, SIGHT_BUDGET = 8, 24, 4000
"""How many pasts are compared at a time, by how many steps, and how many steps are taken in all."""

SIGHT_CHANCES: Final = (0, 0, 1, 2, 0, 3, 1, 5)
"""First steps whose chance differs, in one comparison after the other."""

_TESTED_STARTS = 2
_TIMES = 3
_FREE = 64

Taken: TypeAlias = "tuple[int, int]"
"""An action's number, and the seed of its chance."""

Told: TypeAlias = "Callable[[Any, Any], str]"
"""What the agent is told, of an environment and an observation."""


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
        chance: what its steps draw.
    """

    def __init__(self, first: Any) -> None:
        self._first = first
        self._free: deque[Any] = deque(maxlen=_FREE)
        self._starts: dict[int, Any] = {}
        self._copies_starts = False
        self.error: Exception | None = None
        self.chance = Chance()
        self._watch()
        self.replays = True
        self.replays = self._agrees(self._in_a_replay)
        self.copies = self._agrees(self._in_a_copy)
        if self.replays and self.copies:
            self._copies_starts = _seconds(lambda: deepcopy(first)) < _seconds(
                lambda: self.begin(0)
            )

    def fresh(self) -> Copies:
        """What was found out, for others who begin now: none of the environments in use."""
        fresh = copy(self)
        fresh.chance = copy(self.chance)
        fresh._free, fresh._starts = deque(maxlen=_FREE), {}
        return fresh

    @property
    def agree(self) -> bool:
        """Whether a state can be left more than once."""
        return self.replays or self.copies

    def begin(self, seed: int) -> tuple[Kept, Any, Mapping[str, Any]]:
        """An environment after its reset, the observation and the information."""
        env = self._unused()
        # Some worlds print how they come about.
        with redirect_stdout(StringIO()):
            seen, info = self.chance.reset(env, seed)
        return Kept(env, self._free), seen, info

    def step(self, state: Moment, number: int, rng: Random) -> tuple[Kept, Result]:
        """Steps from a state: the environment of the next one, and the result; see `Chance.step`.

        Raises:
            DomainError: the state was left before, and replays and copies are both wrong.
        """
        was_careful = self.chance.is_careful
        env = self._to_step(state)
        result = self.chance.step(env, number, lambda: rng.getrandbits(63))
        if self.agree and self.chance.is_careful is not was_careful:
            # What this step has drawn was not its own chance, so it is taken again.
            env = self._to_step(state)
            result = self.chance.step(env, number, lambda: rng.getrandbits(63))
        return Kept(env, self._free), result

    def hide(self, told: Told) -> bool:
        """Whether equal pasts are seen to go on differently by equal actions and equal chance.

        A past is what the agent saw since the start, and what it did. Starts that look alike are
        compared, and what chance may have changed unseen in the first steps. A world that shows
        its whole state is never found. One that hides something may not be, where no two starts
        look alike or what is hidden shows late.

        Args:
            told: see `Told`.
        """
        taken = 0
        alike = defaultdict[Hashable, list[int]](list)
        with suppress(Exception), redirect_stdout(StringIO()):
            for seed in range(SIGHT_STARTS):
                alike[self._past(seed)].append(seed)
            groups = sorted(alike.values(), key=len, reverse=True)
            for walk, differing in enumerate(cycle(SIGHT_CHANCES)):
                if taken >= SIGHT_BUDGET:
                    break
                if not (several := [group for group in groups if len(group) > 1 or differing]):
                    continue
                group = several[walk % len(several)]
                seeds = [group[member % len(group)] for member in range(SIGHT_MEMBERS)]
                pasts = partial(self._pasts, seeds, walk, differing)
                taken += sum(map(len, found := pasts()))
                # To tell a state often takes as long as many steps.
                if _differ(found, differing) and _differ(pasts(told), differing):
                    return True
        return False

    def _pasts(
        self, seeds: Sequence[int], walk: int, differing: int, told: Told | None = None
    ) -> list[tuple[Hashable, ...]]:
        """What is seen from some starts by equal actions; the first chances are each one's own."""
        pasts = []
        for member, seed in enumerate(seeds):
            draws, own = Random(f"sight {walk}"), Random(f"sight {walk} {member}")
            steps = [(draws.random(), draws.getrandbits(63)) for _ in range(SIGHT_STEPS)]
            steps[:differing] = [(place, own.getrandbits(63)) for place, _ in steps[:differing]]
            pasts.append(self._past(seed, steps, told))
        return pasts

    def _past(
        self, seed: int, steps: Sequence[tuple[float, int]] = (), told: Told | None = None
    ) -> tuple[Hashable, ...]:
        """What is seen from a start on, by actions that are a share of the possible ones."""
        env = self._unused()
        first, many = int(env.action_space.start), int(env.action_space.n)
        seen, info = self.chance.reset(env, seed)
        past: list[Hashable] = [(frozen(seen), mask_of(info), told and told(env, seen))]
        for place, chance in steps:
            numbers = [number for number, possible in enumerate(mask_of(info)) if possible]
            numbers = numbers or list(range(many))
            number = first + numbers[int(place * len(numbers))]
            _, seen, *paid, info = self.chance.step_again(env, number, chance)
            past.append((frozen(seen), mask_of(info), told and told(env, seen), *paid))
            if any(paid[1:]):
                break
        self._free.append(env)
        return tuple(past)

    def _unused(self) -> Any:
        """An environment that nobody needs, to be reset; a used one only where that is as good."""
        return self._free.pop() if self.replays and self._free else deepcopy(self._first)

    def _to_step(self, state: Moment) -> Any:
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
        results = [self.chance.step_again(env, *step) for step in taken]
        return env, results[-1] if results else None

    def _start(self, seed: int) -> Any:
        if self._copies_starts and seed in self._starts:
            return deepcopy(self._starts[seed])
        kept, *_ = self.begin(seed)
        env, kept.env = kept.env, None
        if self._copies_starts:
            self._starts[seed] = deepcopy(env)
        return env

    def _watch(self) -> None:
        """Finds out what steps draw; what fails here fails again, where it is told."""
        with suppress(Exception), redirect_stdout(StringIO()):
            for seed in range(_TESTED_STARTS):
                self.chance.watch(deepcopy(self._first), seed)

    def _agrees(self, again: Callable[[Any, int, Sequence[Taken]], Any]) -> bool:
        """Whether the last of some steps ends in `again` as it ends in the original."""
        try:
            for seed in range(_TESTED_STARTS):
                draws, env = Random(f"copies {seed}"), deepcopy(self._first)
                with redirect_stdout(StringIO()):
                    self.chance.reset(env, seed)
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
            return self.chance.step_again(env, *step)
        except Exception as error:
            self.error = error
            raise

    def _in_a_replay(self, _env: Any, seed: int, taken: Sequence[Taken]) -> Any:
        env, result = self._at(seed, taken)
        # The next replay is made in an environment that was used.
        self._free.append(env)
        return result

    def _in_a_copy(self, env: Any, _seed: int, taken: Sequence[Taken]) -> Any:
        # The first copy must not change what the second one is made of.
        self.chance.step_again(deepcopy(env), *taken[-1])
        return self.chance.step_again(deepcopy(env), *taken[-1])


def same(first: Any, second: Any) -> bool:
    """Whether two observations or results are equal, arrays and what is no number included."""
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, tuple):
        return len(first) == len(second) and all(map(same, first, second))
    may_be_nan = np.asarray(first).dtype.kind in "fc" and np.asarray(second).dtype.kind in "fc"
    return bool(np.array_equal(first, second, equal_nan=may_be_nan))


def _differ(pasts: Sequence[tuple[Hashable, ...]], differing: int) -> bool:
    """Whether two of them begin alike, up to the chance that differs, and do not end alike."""
    after: dict[Hashable, Hashable] = {}
    begun = differing + 1
    return any(past[begun:] != after.setdefault(past[:begun], past[begun:]) for past in pasts)


def frozen(seen: Any) -> Hashable:
    """An observation as a key: equal ones are equal, arrays included."""
    if isinstance(seen, Mapping):
        return tuple((key, frozen(value)) for key, value in seen.items())
    if isinstance(seen, tuple | list):
        return tuple(map(frozen, seen))
    if isinstance(seen, np.ndarray):
        return frozen(seen.tolist()) if seen.dtype.hasobject else seen.tobytes()
    return frozenset(map(frozen, seen)) if isinstance(seen, set) else seen


def mask_of(info: Mapping[str, Any]) -> tuple[bool, ...]:
    """Which actions are possible; empty if all are."""
    return tuple(map(bool, info.get("action_mask", ())))


def _seconds(do: Callable[[], object]) -> float:
    """How long something takes, the least of some times."""
    times = []
    for _ in range(_TIMES):
        begun = perf_counter()
        do()
        times.append(perf_counter() - begun)
    return min(times)
