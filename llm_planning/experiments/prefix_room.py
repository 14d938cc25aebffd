"""Which trials may ask at the same time, so that the prefix cache holds what they asked before.

A trial that goes on begins most prompts as its last one began, and the cache has that beginning
unless other trials' prompts took its place. With more trials than it holds each displaces what
another one needs next, and everything is computed again. So the trials that began first go on until
one of them ends, and the others wait. A trial that waits loses its place, but once.
"""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from llm_planning.roles import Engines
from llm_serving.engine import MeteredEngine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from llm_serving.engine import Engine
    from llm_serving.request import Completion, Prompt, Request, ScoreRequest, Scores

HELD: Final = 0.75
"""Share of the cache for the trials' last prompts. The rest is for what is written after these, and
for what was left there."""


class PrefixRoom:
    """Room for the last prompt of each trial; the trials that began first have it.

    Args:
        tokens: that the prefix cache holds.

    Attributes:
        waiting: questions that wait now.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = HELD * tokens
        self._numbers = itertools.count()
        self._held: dict[int, int] = {}
        self._changed = asyncio.Condition()
        self.waiting = 0

    @asynccontextmanager
    async def trial(self, engines: Engines) -> AsyncIterator[Engines]:
        """The engines of a trial, which wait for its turn, until it ends."""
        number = next(self._numbers)
        self._held[number] = 0
        paced = {id(engine): _PacedEngine(engine, self, number) for engine in engines.different}
        try:
            yield Engines(
                paced[id(engines.default)],
                {role: paced[id(engine)] for role, engine in engines.by_role.items()},
            )
        finally:
            del self._held[number]
            await self._wake()

    async def turn(self, number: int, tokens: int) -> None:
        """Waits until there is room for the prompts of all trials up to this one.

        Args:
            number: of the trial. The first one never waits.
            tokens: of its prompt.
        """
        before, self._held[number] = self._held[number], tokens
        if tokens < before:
            await self._wake()
        if self._fits(number):
            return
        self.waiting += 1
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._fits(number))
        finally:
            self.waiting -= 1

    def _fits(self, number: int) -> bool:
        earlier = [tokens for other, tokens in self._held.items() if other < number]
        return not earlier or sum(earlier) + self._held[number] <= self._tokens

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class _PacedEngine(MeteredEngine):
    """An engine of one trial, which waits for its turn."""

    def __init__(self, engine: Engine, room: PrefixRoom, number: int) -> None:
        super().__init__(engine)
        self._room = room
        self._number = number

    async def generate(self, request: Request) -> Completion:
        """Writes one answer when it is the trial's turn."""
        await self._turn(request.prompt)
        return await super().generate(request)

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores choices when it is the trial's turn."""
        await self._turn(request.prompt)
        return await super().score(request)

    async def _turn(self, prompt: Prompt) -> None:
        await self._room.turn(self._number, len(self.encode(prompt).token_ids))
