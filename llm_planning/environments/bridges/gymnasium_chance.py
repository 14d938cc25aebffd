"""The chance of an environment of Gymnasium: whatever a step draws comes from the step's own seed.

An environment should draw from `np_random`, and that is replaced before each step. Many draw from a
generator of their own, or from those that all of Python shares. A copy and a replay repeat such
draws, so a search would foresee them. They are looked for when a world is opened, and now and then
later; where there are some, each of them is seeded before each step and given back as it was.
"""

from __future__ import annotations

import random
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import ref

import numpy as np

from llm_planning.generators import (
    NUMPY,
    PYTHON,
    SHARED,
    generators_in,
    is_generator,
    reseed,
    restored,
    shared_generators,
    source_of,
    stamp,
)
from llm_planning.repeatable import elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

WATCHED_STEPS, LOOKED_AT = 100, 10
"""Steps of an episode that is watched; after each of the first ones and at the end, new generators
are sought."""

FIRST_LOOK, LOOKS_EVERY = 256, 50_000
"""Generators are looked for again after so many steps, then when the steps have doubled, and at the
latest when so many are taken since the last look."""

Result: TypeAlias = "tuple[int | None, Any, float, bool, bool, Mapping[str, Any]]"
"""The seed of a step's chance, or None if nothing was drawn; the observation, the reward, whether
the episode terminated, whether it was truncated, and the information."""


class Chance:
    """Gives the steps of an environment their chance.

    Attributes:
        own: whether the environment has generators beside `np_random`.
        shared: the generators that it draws from and all of Python shares.
        foreseen: whether a step makes a generator and draws nothing for its seed, so that nobody
            can give it chance.
        renewed: whether steps make generators, so that all are looked for before each step. Else
            they are once after a reset, and before steps that follow a new attribute.
        least_reward: the least reward of a step that ended nothing, among those that were watched.
    """

    def __init__(self) -> None:
        self.own = self.foreseen = self.renewed = False
        self.shared: tuple[Any, ...] = ()
        self.least_reward = inf
        self._steps, self._next_look = 0, FIRST_LOOK

    def watch(self, env: Any, seed: int) -> None:
        """Finds out by an episode what an environment draws from."""
        draws, space = random.Random(f"chance {seed}"), env.action_space
        with restored(shared_generators()), self._noticed(env):
            self.reset(env, seed)
        env.unwrapped.np_random = _generator(0)
        with restored(shared_generators()), self._noticed(env):
            known = generators_of(env)
            for taken in range(1, WATCHED_STEPS + 1):
                number = int(space.start) + draws.randrange(int(space.n))
                drawn, _, reward, *ended, _ = self.step(env, number, lambda: draws.getrandbits(63))
                is_over = any(ended) or taken == WATCHED_STEPS
                if taken <= LOOKED_AT or is_over:
                    before, known = known, generators_of(env)
                    if _has_more(known, before):
                        self.own = self.renewed = True
                        self.foreseen |= drawn is None and taken <= LOOKED_AT
                if any(ended):
                    break
                self.least_reward = min(self.least_reward, reward)

    def reset(self, env: Any, seed: int) -> tuple[Any, Mapping[str, Any]]:
        """Resets an environment; the seed is that of all chance, also where it is not asked for."""
        inner = env.unwrapped
        inner.np_random = _Chance(lambda: seed)
        # It may replace generators, also some that all environments have.
        _FOUND.clear()
        if not self.is_careful:
            before = elsewhere()
            seen, info = env.reset(seed=seed)
            self._compare(before)
        if self.is_careful:
            with self._seeded(generators_of(env) if self.own else (), seed):
                seen, info = env.reset(seed=seed)
        if isinstance(vars(inner).get("_np_random"), _Chance):
            inner.np_random = _generator(seed)
        return _kept(seen), info

    @property
    def is_careful(self) -> bool:
        """Whether something beside `np_random` is seeded."""
        return self.own or bool(self.shared)

    def step(self, env: Any, number: int, seed: Callable[[], int]) -> Result:
        """Steps an environment with chance of its own.

        Args:
            env: it should be replaced if this step finds out what is drawn from beside `np_random`.
            number: the action's.
            seed: gives the seed of chance. It is asked once, and only if the step draws or
                something beside `np_random` is seeded.
        """
        inner = env.unwrapped
        idle, chance = inner.np_random, _Chance(seed)
        inner.np_random = chance
        self._steps += 1
        if self.own or self.shared:
            with self._seeded(self._sources(env), chance.known()) as is_moved:
                seen, reward, terminated, truncated, info = env.step(number)
                drawn = chance.drawn if chance.is_used or is_moved() else None
        else:
            before = elsewhere()
            with self._noticed(env) if self._is_to_look() else nullcontext():
                seen, reward, terminated, truncated, info = env.step(number)
            if before != elsewhere():
                self._compare(before)
            drawn = chance.drawn
        # Whoever copies the environment would have the chance drawn.
        if inner.np_random is not chance and drawn is None:
            self.foreseen = True
        inner.np_random = idle
        return drawn, _kept(seen), float(reward), bool(terminated), bool(truncated), info

    def step_again(self, env: Any, number: int, chance: int) -> Result:
        """Steps an environment with chance that is known; see `step`."""
        return self.step(env, number, lambda: chance)

    def _compare(self, before: tuple[int, int]) -> None:
        """Notes the shared generators that have gone on since they were at these places."""
        for source, place, now in zip((PYTHON, NUMPY), before, elsewhere(), strict=True):
            if place != now and source not in self.shared:
                self.shared = (*self.shared, source)

    def _is_to_look(self) -> bool:
        """Whether this step is one before which generators are looked for again."""
        if self._steps < self._next_look:
            return False
        self._next_look = self._steps + min(self._steps, LOOKS_EVERY)
        return True

    def _sources(self, env: Any) -> Collection[Any]:
        """The environment's own generators; a walk takes long where it holds much."""
        if not self.own or self.renewed:
            return generators_of(env) if self.own else ()
        owner, sources = _FOUND.get(id(env), (None, ()))
        if owner is None or owner() is not env:
            sources = generators_of(env)
        elif self._is_to_look() or _has_more(_named_sources(env), sources):
            before, sources = sources, generators_of(env)
            self.renewed = _has_more(sources, before)
        _FOUND[id(env)] = ref(env), sources
        return sources

    @contextmanager
    def _noticed(self, env: Any) -> Iterator[None]:
        """Finds out whether what is done meanwhile moves other generators."""
        torch = [one for one in shared_generators() if one not in (PYTHON, NUMPY)]
        sources = [*generators_of(env), *torch]
        before = list(map(stamp, sources))
        yield
        for source, begun in zip(sources, before, strict=True):
            if stamp(source) == begun:
                continue
            if source not in torch:
                self.own = True
            elif source not in self.shared:
                self.shared = (*self.shared, source)

    @contextmanager
    def _seeded(self, own: Collection[Any], seed: int) -> Iterator[Callable[[], bool]]:
        """Seeds these generators and the shared ones, and gives them back as they were.

        Yields:
            Whether anything was drawn so far.
        """
        draws = random.Random(seed)
        sources = [*own, *self.shared]
        with restored(sources):
            for source in sources:
                reseed(source, draws.getrandbits(63))
            begun = list(map(stamp, sources))
            yield lambda: begun != list(map(stamp, sources))


_FOUND: Final[dict[int, tuple[ref[Any], Collection[Any]]]] = {}
"""Id of an environment -> a reference to it, and its generators, since any was reset."""


def _has_more(sources: Collection[Any], before: Collection[Any]) -> bool:
    return not set(map(id, before)).issuperset(map(id, sources))


def _kept(seen: Any) -> Any:
    """An observation for ever: some environments return what their next step changes."""
    if type(seen) is np.ndarray and not seen.dtype.hasobject:
        return seen.copy()  # some twenty times as fast
    return seen if isinstance(seen, np.generic) else deepcopy(seen)


class _Chance:
    """The random generator of one step, which is seeded when it is first used."""

    def __init__(self, seed: Callable[[], int]) -> None:
        self.drawn: int | None = None
        self.is_used = False
        self._seed = seed
        self._generator: Any = None

    def known(self) -> int:
        """The seed, which is asked for now."""
        if self.drawn is None:
            self.drawn = self._seed()
        return self.drawn

    def __getattr__(self, name: str) -> Any:
        if self._generator is None:
            self.is_used = True
            self._generator = _generator(self.known())
        return getattr(self._generator, name)


def generators_of(env: Any) -> list[Any]:
    """The generators that an environment can reach, beside its `np_random` and shared ones."""
    usual = vars(env.unwrapped).get("_np_random")
    return generators_in(env, leaving_out=lambda part: part is usual or isinstance(part, _Chance))


def _named_sources(env: Any) -> list[Any]:
    """Those of them that are attributes of the environment, which are found at once."""
    sources = [source_of(value) for value in vars(env.unwrapped).values() if is_generator(value)]
    return [source for source in sources if id(source) not in SHARED]


def _generator(seed: int) -> Any:
    return np.random.Generator(np.random.PCG64(seed))
