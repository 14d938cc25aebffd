"""Ways to choose actions that ask no language model (XENON, Appendix K.10).

    RandomFam   any action that has not repeatedly failed; what worked is reused
    Ucb         UCB1 over the actions of each item, with the binary feedback as reward

The other three of Figure 25 are `choosing.FailureAware` (XENON), `choosing.SelfReflecting` (SC) and
`choosing.Forgetful` (LLM without memory).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llm_planning.planners.xenon.choosing import Remembering

if TYPE_CHECKING:
    from random import Random

    from llm_planning.planners.xenon.memory import ActionMemory


class RandomFam(Remembering):
    """Random+FAM: Algorithm 4 with a uniform draw in the place of the LLM.

    Args:
        memory: FAM.
        rng: draws.
    """

    def __init__(self, memory: ActionMemory, *, rng: Random) -> None:
        super().__init__(memory)
        self._rng = rng

    async def choose(self, item: str) -> str:
        """Reuses the valid action, or draws one of those that are not invalid."""
        return self._memory.valid(item) or self._rng.choice(self._memory.candidates(item))


class Ucb(Remembering):
    """UCB1 (Auer, Cesa-Bianchi, Fischer 2002), a bandit for each item.

    An action that was not tried yet comes first. Then, with n = S(a, v) + F(a, v) and N(v) the sum
    of n over all actions, the action with the highest

        S(a, v) / n + c sqrt(ln N(v) / n)

    Ties are broken uniformly at random. The paper states neither formula nor constant.

    Args:
        memory: counts S and F; its classification into valid and invalid is not used.
        c: exploration weight; sqrt(2) in UCB1.
        rng: breaks ties.
    """

    def __init__(self, memory: ActionMemory, *, c: float, rng: Random) -> None:
        super().__init__(memory)
        self._c = c
        self._rng = rng

    async def choose(self, item: str) -> str:
        """The action with the highest upper confidence bound."""
        scores = self.scores(item)
        best = max(scores.values())
        return self._rng.choice([action for action, score in scores.items() if score == best])

    def scores(self, item: str) -> dict[str, float]:
        """Action -> its upper confidence bound; infinite if it was not tried."""
        memory = self._memory
        tried = {a: memory.successes(a, item) + memory.failures(a, item) for a in memory.actions}
        total = sum(tried.values())
        return {
            a: memory.successes(a, item) / n + self._c * math.sqrt(math.log(total) / n)
            if n
            else math.inf
            for a, n in tried.items()
        }

    def exhausted(self, item: str) -> bool:  # noqa: ARG002 - asked of every policy
        """Never: a bandit rules nothing out."""
        return False
