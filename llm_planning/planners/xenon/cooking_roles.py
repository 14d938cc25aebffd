"""The two questions of the cooking domain, and a language model that answers them (App. A.1).

Which tool does a cookbook action require? It is asked before an episode. Which executable action
carries it out? It is asked at each timestep, by the protocol of the Minecraft agents. Both answers
come from a closed set, so the model is not made to write: the answer is the choice to which it
gives the highest exact log-probability, the earlier of equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, TypeVar

from llm_planning.environments.cooking.recipes import TOOLS
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from llm_planning.planners.xenon.roles import ChooseAction
    from llm_serving.engine import Engine

P = ParamSpec("P")
T = TypeVar("T")

RECENT = 3
"""Failures that a prompt tells: long histories do not help a language model (Section 4.2)."""


class PredictTool(Protocol):
    """Which tool does a cookbook action require?"""

    async def __call__(
        self, cookbook_action: str, *, examples: Sequence[tuple[str, str]], failures: Sequence[str]
    ) -> str:
        """Predicts the tool.

        Args:
            cookbook_action: v.
            examples: the top-K similar cookbook actions that succeeded, most similar first, and
                their tools.
            failures: what failed before, oldest first; empty without self-correction.

        Returns:
            One of `TOOLS`.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CookingRoles:
    """Everybody a cooking agent can ask."""

    predict: PredictTool
    choose: ChooseAction


class Counted(Generic[P, T]):
    """The same question, counted.

    Args:
        ask: who answers.

    Attributes:
        calls: how often it was asked.
    """

    def __init__(self, ask: Callable[P, Awaitable[T]]) -> None:
        self._ask = ask
        self.calls = 0

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Asks."""
        self.calls += 1
        return await self._ask(*args, **kwargs)


class LlmTool:
    """The model predicts the tool."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(
        self, cookbook_action: str, *, examples: Sequence[tuple[str, str]], failures: Sequence[str]
    ) -> str:
        """Scores all tools."""
        return await _most_likely(
            self._engine,
            "tool",
            TOOLS,
            {"item": cookbook_action, "examples": examples, "failures": failures[-RECENT:]},
        )


class LlmAction:
    """The model chooses the executable action."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(
        self,
        item: str,
        *,
        quantity: int,  # noqa: ARG002 - the protocol is Minecraft's; here it is always 1
        examples: Sequence[tuple[str, str]],
        options: Sequence[str],
        analyses: Sequence[str],
    ) -> str:
        """Scores the options."""
        return await _most_likely(
            self._engine,
            "action",
            options,
            {
                "item": item,
                "examples": examples,
                "options": options,
                "failures": analyses[-RECENT:],
            },
        )


async def _most_likely(
    engine: Engine, role: str, choices: Sequence[str], given: Mapping[str, object]
) -> str:
    messages = cooking_prompt(role).messages(given)
    scores = await engine.score(messages, choices, role=role)
    best = max(scores.logprobs)
    return choices[scores.logprobs.index(best)]


@cache
def cooking_prompt(role: str) -> Prompt:
    """The prompt of one role, compiled: what never changes first, then what does.

    Args:
        role: `tool` or `action`.
    """
    templates = files(__package__) / "templates"
    sources = ("cooking_shared.j2", f"cooking_{role}.j2")
    user = {"tool": ("examples", "failures", "question")}.get(
        role, ("examples", "options", "failures", "question")
    )
    return Prompt(
        [(templates / source).read_text("utf-8") for source in sources],
        system=("who", "rules", "format"),
        user=user,
        constants={"tools": ", ".join(TOOLS)},
    )
