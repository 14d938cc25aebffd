"""Labels that stand for the actions of a list in an answer, one token each where that is possible.

The paper asks for the index of an action and reads the log-probabilities of one token. A tokenizer
that splits numbers into digits gives 1 and 12 the same first token, so there the labels are
numbers only as long as each is a token of its own, and then capital letters and pairs of them (403
of these are single tokens of SmolLM2, and more of larger vocabularies). A list that is longer than
that gets numbers again, and each is scored as a whole, with the end of the answer.
"""

from __future__ import annotations

from itertools import chain, islice, product
from string import ascii_uppercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llm_serving.engine import Engine
    from llm_serving.request import Prompt


class Labels:
    """Labels in the tokens of one engine.

    Args:
        engine: whose tokenizer decides, and who scores.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Some tokenizers begin every text with a token of their own.
        self._begin = len(engine.encode("").token_ids)
        self._known: dict[int, tuple[str, ...]] = {}

    def of(self, count: int) -> tuple[str, ...]:
        """Distinct labels for a list.

        Args:
            count: entries of the list.

        Returns:
            shape [count], always the same for the same count.
        """
        if count not in self._known:
            numbers = tuple(map(str, range(1, count + 1)))
            found = (tuple(islice(self._single(names), count)) for names in (numbers, _capitals()))
            self._known[count] = next((one for one in found if len(one) == count), numbers)
        return self._known[count]

    async def logprobs(
        self, prompt: Prompt, labels: Sequence[str], *, role: str
    ) -> tuple[float, ...]:
        """Log p(label | prompt), in nats, shape [labels].

        Labels of one token each are scored without the end of the answer, others with it, so that
        1 and 12 are told apart.

        Args:
            prompt: which ends where the answer begins.
            labels: what `of` gave.
            role: whose question this is.
        """
        single = len(tuple(self._single(labels))) == len(labels)
        score = self._engine.score_labels if single else self._engine.score
        return (await score(prompt, labels, role=role)).logprobs

    def _single(self, names: Iterable[str]) -> Iterator[str]:
        """Those names that are one token, and none the token of an earlier one."""
        seen: set[int] = set()
        for name in names:
            tokens = self._engine.encode(name).token_ids[self._begin :]
            if len(tokens) == 1 and tokens[0] not in seen:
                seen.add(tokens[0])
                yield name


def _capitals() -> Iterator[str]:
    pairs = ("".join(pair) for pair in product(ascii_uppercase, repeat=2))
    return chain(ascii_uppercase, pairs)
