"""The questions for π and for the thought before an action: types, prompts, and the thought's role.

Prompts are laid out for the prefix cache, from what never changes to what always changes: rules,
the world, goal and examples, what happened, what is seen, the actions, the question. A domain may
replace each of these blocks by its own text: `Domain.wording["act"]`. Of the past, `past` has whole
turns and `done` the actions alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import observed
from llm_planning.priors import MOST_SAID
from llm_planning.roles import Prompt
from llm_planning.roles.seeing import looking
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from llm_planning.domain import Domain, Step
    from llm_planning.roles.seeing import See
    from llm_serving.engine import Engine
    from llm_serving.request import Message

    Chat: TypeAlias = tuple[Message, Message]

THINK = "think"
"""The role under which the engine counts thoughts."""

# A second I could begin the sentence again, and outlines would take minutes to compile that.
_SENTENCE = finite_regex(r"I [^.!?I]{20,157}\.")
THOUGHT = Constraint(_SENTENCE.regex, _SENTENCE.max_bytes)
"""The language of one thought, 23 to 160 plain characters; JSON around it would cost tokens."""

LONGEST_PAST = 6000
"""The most characters of the past in a prompt."""

DOTS = "..."
"""Stands for text that is left out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent saw, and the action that it took then.

    Attributes:
        seen: in words.
        action: as it is written.
        thought: before the action; empty for an agent without thoughts.
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
        past: turns, oldest first; empty if `now` says all that matters.
        now: what the agent sees; empty if it sees nothing at present.
        actions: the possible actions as they are written, at least one.
        thought: about this decision; empty for none.
        state: what is seen now. Rules read it, and a domain draws it; no prompt tells it in words.
    """

    past: tuple[Turn, ...]
    now: str
    actions: tuple[str, ...]
    thought: str = ""
    state: Any = field(default=None, compare=False, repr=False)


class ActWording:
    """The prompts for decisions in a domain; a `priors.Wording` of situations.

    Args:
        domain: its goal, examples and own texts are part of every prompt.
        examples: worked examples, (state in words, action) pairs; by default the domain's own.
        see: what is shown of the present state: its words, its picture, or both.
        drawn: maps a situation to the state that is drawn.

    Raises:
        SettingsError: the domain does not draw its states.
    """

    def __init__(
        self,
        domain: Domain[Any, Any],
        *,
        examples: Iterable[tuple[str, str]] | None = None,
        see: See = "words",
        drawn: Callable[[Situation], object] = lambda situation: situation.state,
    ) -> None:
        own = getattr(domain, "wording", {}).get("act", "")
        template = (files(__package__) / "templates" / "act.j2").read_text("utf-8")
        examples = tuple(getattr(domain, "example", ()) if examples is None else examples)
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
        self._now = "picture" if see == "picture" else "now"
        self._look = looking(domain, see)
        self._drawn = drawn

    def actions(self, question: Situation) -> tuple[str, ...]:
        """The actions to choose from."""
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
            *((self._now,) if situation.now else ()),
            listed,
            *(("thought",) if situation.thought else ()),
            *asked,
        )
        system, user = self._prompt(blocks).messages(
            {
                "past": last_that_fit(map(str, reversed(situation.past))),
                "done": last_that_fit(turn.action for turn in reversed(situation.past)),
                "now": situation.now,
                "actions": situation.actions,
                "labelled": tuple(zip(labels, situation.actions, strict=bool(labels))),
                "thought": situation.thought,
                "line": line,
            }
        )
        return system, replace(user, images=self._look(self._drawn(situation)))


async def write_thought(
    situation: Situation, /, *, engine: Engine, wording: ActWording, temperature: float, seed: int
) -> str:
    """Asks a model for a thought.

    Args:
        situation: the decision that the thought is about.
        engine: answers the role `think`.
        wording: of the question.
        temperature: of the answer; 0 is greedy.
        seed: of the answer.

    Returns:
        A sentence of `THOUGHT`.
    """
    answer = await engine.generate(
        Request(
            prompt=wording.think(situation),
            sampling=Sampling(temperature=temperature, seed=seed),
            constraint=THOUGHT,
            role=THINK,
        )
    )
    return answer.text


def last_that_fit(newest_first: Iterable[str]) -> list[str]:
    """As many of the last texts as fit into `LONGEST_PAST` characters, at least one.

    Args:
        newest_first: the texts; only as many are made as are needed.

    Returns:
        The texts, oldest first. Three dots come first if older texts are left out.
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
    """What an agent sees after a step: the step's text, its obstacle, and a view of the state.

    If a domain has a belief and no `observe`, the state is hidden, and the step's observation
    takes the place of the view.

    Args:
        domain: where the step was taken.
        step: the last step; at the start, a step with s_0 and nothing else.
    """
    believed, observable = (getattr(domain, name, None) for name in ("belief", "observe"))
    if believed is None or observable is not None:
        shown = await observed(domain, step.state)
    else:
        shown = "" if step.text or step.observation is None else str(step.observation)
    return "\n".join(dict.fromkeys(part for part in (step.text, step.obstacle, shown) if part))
