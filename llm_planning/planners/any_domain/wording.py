"""What a model is told before it decides, and how: π's questions, and the thought before an action.

Everything is laid out for the prefix cache, from what never changes to what always does: rules, the
world, goal and examples, what happened, what is seen, the actions, the question. A domain's own
texts may replace each of these blocks: `Domain.wording["act"]`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import observed
from llm_planning.priors import MOST_SAID
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.domain import Domain, Step
    from llm_serving.request import Message

    Chat: TypeAlias = tuple[Message, Message]

LONGEST_PAST = 6000
"""Characters told of what happened before, however long ago it began."""

DOTS = "..."


@dataclass(frozen=True, slots=True)
class Turn:
    """What was seen, and what was done on it.

    Attributes:
        seen: in words.
        action: as it is written.
        thought: that came before the action; empty where nobody thinks.
    """

    seen: str
    action: str
    thought: str = ""

    def __str__(self) -> str:
        parts = (self.seen, self.thought and f"Your thought: {self.thought}", f"> {self.action}")
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision depends on; equal situations get equal answers.

    Attributes:
        past: oldest first; none where `now` says all that matters.
        now: what is seen; empty where only the past tells.
        actions: the possible ones as they are written, at least one.
        thought: about this decision.
    """

    past: tuple[Turn, ...]
    now: str
    actions: tuple[str, ...]
    thought: str = ""


class ActWording:
    """The questions of a domain's decisions; a `priors.Wording` of situations.

    Args:
        domain: whose goal, examples and own texts are told.
    """

    def __init__(self, domain: Domain[Any, Any]) -> None:
        own = getattr(domain, "wording", {}).get("act", "")
        template = (files(__package__) / "templates" / "act.j2").read_text("utf-8")
        examples = tuple(getattr(domain, "example", ()))
        system = (
            "rules",
            *(("about",) if domain.about else ()),
            "goal",
            *(("examples",) if examples else ()),
        )
        constants = {
            "about": domain.about,
            "goal": domain.goal,
            "examples": examples,
            "count": MOST_SAID,
        }

        @cache
        def prompt(user: tuple[str, ...]) -> Prompt:
            return Prompt([template, own], system=system, user=user, constants=constants)

        self._prompt = prompt

    def actions(self, question: Situation) -> tuple[str, ...]:
        """Those of the situation."""
        return question.actions

    def key(self, question: Situation) -> Situation:
        """The situation itself."""
        return question

    def action(self, question: Situation, *, dashes: int) -> Chat:
        """Asks for an action as it is written; see `priors.Wording`."""
        return self._about(question, "actions", "line", "action", line=" ".join("-" * dashes))

    def label(self, question: Situation, labels: Sequence[str]) -> Chat:
        """Asks for an action's label; see `priors.Wording`."""
        return self._about(question, "labelled", "label", labels=labels)

    def several(self, question: Situation, labels: Sequence[str]) -> Chat:
        """Asks for labels with their chances; see `priors.Wording`."""
        return self._about(question, "labelled", "several", labels=labels)

    def think(self, question: Situation) -> Chat:
        """Asks for a thought."""
        return self._about(question, "actions", "think")

    def _about(
        self,
        situation: Situation,
        listed: str,
        *asked: str,
        labels: Sequence[str] = (),
        line: str = "",
    ) -> Chat:
        blocks = (
            *(("past",) if situation.past else ()),
            *(("now",) if situation.now else ()),
            listed,
            *(("thought",) if situation.thought else ()),
            *asked,
        )
        return self._prompt(blocks).messages(
            {
                "past": last_that_fit(map(str, reversed(situation.past))),
                "now": situation.now,
                "actions": situation.actions,
                "labelled": tuple(zip(labels, situation.actions, strict=bool(labels))),
                "thought": situation.thought,
                "line": line,
            }
        )


def last_that_fit(newest_first: Iterable[str]) -> list[str]:
    """As many of the last texts as `LONGEST_PAST` characters hold, at least one.

    Args:
        newest_first: the texts, of which no more are made than are needed.

    Returns:
        Oldest first; three dots before them where older ones are left out.
    """
    lines: list[str] = []
    room = LONGEST_PAST
    for said in newest_first:
        if lines and len(said) > room:
            lines.append(DOTS)
            break
        lines.append(said)
        room -= len(said)
    return lines[::-1]


async def seen(domain: Domain[Any, Any], step: Step[Any]) -> str:
    """What an agent sees after a step: what the world says or objects, and what it shows.

    Where a domain has a belief and no `observe`, the state is hidden, and only the step's
    observation is shown.

    Args:
        domain: that made the step.
        step: the last one; for the beginning, one with s_0 and nothing else.
    """
    believed, observable = (getattr(domain, name, None) for name in ("belief", "observe"))
    if believed is None or observable is not None:
        shown = await observed(domain, step.state)
    else:
        shown = "" if step.text or step.observation is None else str(step.observation)
    return "\n".join(dict.fromkeys(part for part in (step.text, step.obstacle, shown) if part))
