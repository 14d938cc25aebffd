"""Which trials may ask at the same time, so that the prefix cache keeps what each will ask again.

A trial whose prompts grow begins each as its last one began. The cache has that beginning unless
other trials' prompts took its place. With more trials than it has room for, each displaces what
another one asks next, and every prompt is computed from its first token. So the trials that began
first go on, and the others wait until there is room. What a waiting trial had may be displaced. It
is computed again once, when its turn comes.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from llm_planning.roles import Engines
from llm_serving.engine import MeteredEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_serving.engine import Engine
    from llm_serving.request import Completion, Request, ScoreRequest, Scores

HELD: Final = 0.75
"""Share of the cache for what trials ask again. The rest is for what is asked once."""


class PrefixRoom:
    """Room in one engine's prefix cache; the trials that began first have it.

    A trial holds as many tokens as its prompt has in common with its last one of the same role.
    What the oldest trial's prompt has, too, such as instructions, is counted there alone.

    Args:
        tokens: how many the prefix cache holds.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = HELD * tokens
        self._numbers = itertools.count()
        self._held: dict[int, int] = {}
        self._last: dict[int, dict[str, Sequence[int]]] = {}
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def waiting(self) -> int:
        """Questions that wait for room now."""
        return len(self._waiters)

    @contextmanager
    def trial(self, engines: Engines) -> Iterator[Engines]:
        """The engines of a trial, which wait for room, until it ends."""
        number = next(self._numbers)
        self._held[number], self._last[number] = 0, {}
        paced = {
            id(engine): _PacedEngine(engine, self, number)
            if "scores" in engine.abilities
            else engine
            for engine in engines.different
        }
        try:
            yield Engines(
                paced[id(engines.default)],
                {role: paced[id(engine)] for role, engine in engines.by_role.items()},
            )
        finally:
            del self._held[number], self._last[number]
            self._wake()

    async def enter(self, number: int, role: str, prompt: Sequence[int]) -> None:
        """Waits until there is room for what a trial asks again, and all trials before it do.

        Args:
            number: of the trial. The oldest never waits.
            role: that asks.
            prompt: token ids.
        """
        if number not in self._held:
            return  # a question that outlives its trial displaces nothing for long
        again = common(prompt, self._last[number].get(role, ()))
        oldest = min(self._last)
        if number != oldest:
            again -= min(again, common(prompt, self._last[oldest].get(role, ())))
        self._last[number][role] = prompt
        self._hold(number, again)
        try:
            while not self._fits(number):
                waiter = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)
        except asyncio.CancelledError:
            if number in self._held:
                self._hold(number, 0)
            raise

    def _hold(self, number: int, tokens: int) -> None:
        before, self._held[number] = self._held[number], tokens
        if tokens < before:
            self._wake()

    def _fits(self, number: int) -> bool:
        if number not in self._held:
            return True
        earlier = [tokens for other, tokens in self._held.items() if other < number]
        return not any(earlier) or sum(earlier) + self._held[number] <= self._tokens

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the longest common beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


class _PacedEngine(MeteredEngine):
    """An engine of one trial, which waits for room."""

    def __init__(self, engine: Engine, room: PrefixRoom, number: int) -> None:
        super().__init__(engine)
        self._room = room
        self._number = number

    async def generate(self, request: Request) -> Completion:
        """Writes one answer when there is room."""
        await self._enter(request)
        return await super().generate(request)

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores choices when there is room."""
        await self._enter(request)
        return await super().score(request)

    async def _enter(self, request: Request | ScoreRequest) -> None:
        tokens = self.encode(request.prompt).token_ids
        await self._room.enter(self._number, request.role, tokens)
