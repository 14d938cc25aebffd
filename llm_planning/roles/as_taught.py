"""Is a taught model asked as its lessons asked?

A lesson's prompt is made of parts: the blocks of its templates and, in short words, its lines. A
card records the parts of each role (`Card.parts`). A question with a part that no lesson had is
asked otherwise: with worked examples, with a thought, for a label in the place of an action, or in
the words of another planner. What a model answers then says little of what it was taught.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Final

from llm_serving.request import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_serving.request import ModelIdentity, Prompt

logger = logging.getLogger(__name__)

_REMEDIES: Final[Mapping[str, str]] = {
    "examples": "examples=0",
    "labelled": "prior=exact",
    "label": "prior=exact",
    "several": "prior=exact",
    "picture": "see=words",
}
"""Part -> the setting that leaves it out."""


def strange_parts(model: ModelIdentity, role: str, prompt: Prompt) -> tuple[str, ...]:
    """The names of the parts of a question that no lesson of its role had.

    There are none if the model was not taught the role, or if nobody recorded its lessons' parts.
    """
    lessons = model.taught.parts.get(role) if model.taught else None
    if lessons is None:
        return ()
    return tuple(
        dict.fromkeys(
            part.partition("#")[0] for part in parts_of_chat(prompt) if part not in lessons
        )
    )


def note_if_strange(model: ModelIdentity, role: str, prompt: Prompt) -> None:
    """Says, once in a process, that a model is asked a role otherwise than it was taught."""
    if strange := strange_parts(model, role, prompt):
        _note(model.name, role, strange)


@cache
def _note(model: str, role: str, strange: tuple[str, ...]) -> None:
    remedies = dict.fromkeys(_REMEDIES.get(part, "") for part in strange)
    advice = f"set {' and '.join(remedies)}"
    logger.warning(
        "%s was taught %s otherwise than it is asked: no lesson had %s in these words; %s",
        model,
        role,
        ", ".join(strange),
        advice if all(remedies) else "docs/distillation.md says how it was taught",
    )


def parts_of_chat(prompt: Prompt) -> tuple[str, ...]:
    """The parts of a chat; none of a text or of tokens, of which nothing is known."""
    turns = prompt if isinstance(prompt, tuple) else ()
    return tuple(part for turn in turns if isinstance(turn, Message) for part in turn.parts)
