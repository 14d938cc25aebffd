"""The texts of questions about options, and their order.

The texts are the blocks of `templates/`, here and in a planner's folder. A domain's own `wording`
may replace any of them. Two layouts order the same blocks. `cached` puts the blocks that never
change into the system message. The user message goes from what changes rarely to what changes
always: the goal, the background (the part of the state that options rarely change), the options
done (which only grow), the state, the option. So all questions about one node's candidates share
everything up to the option, and questions of one role about different nodes share their beginnings.
`paper` is the order of ToO's Appendix A: who speaks, the state, the goal and the history first, the
rules and the format last.

A model that a simulator taught its roles is asked in short words: `short_variables`.

Minecraft's blocks, in `environments/minecraft/options/prompts`, replace most of those in the
templates of the same names, so an edit here may change nothing in Minecraft.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Predicts, RunsPrograms
from llm_planning.execution.options import OptionState
from llm_planning.roles import Prompt
from llm_planning.roles.options import listed, written_fields
from llm_planning.roles.short import SINCE, difference, state_text
from llm_planning.roles.short import STATE as STATE_IN_SHORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.execution.option_settings import Layout
    from llm_planning.execution.options import OptionDomain
    from llm_planning.roles.seeing import See

NOW = "now"
PREDICTED = "predicted after the option"
START = "at the start, before any option"
"""The moment of the state in a prompt."""

STATE = ("background", "state")
INSTRUCTIONS = ("game", "rules", "format")
"""Blocks that many roles have in this order, as in Appendix A."""

PROPOSED = 3
"""The number of options of a proposal in teaching: k of Table 3."""

OPTIONAL = ("background", "game")
"""Blocks that a prompt has only if the domain has texts for them."""

CHANGING = ("goal", "background", "history", "state", "option", "obstacle", "skills", "attempt")
"""Blocks that differ between questions, those that change rarely first."""


def order(blocks: Sequence[str], layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the blocks of a prompt's system message and of its user message, in order."""
    if layout == "paper":
        return ("role",), tuple(blocks)
    fixed = tuple(block for block in blocks if block not in CHANGING)
    return ("role", *fixed), tuple(block for block in CHANGING if block in blocks)


def compose(
    name: str,
    text: str,
    blocks: Sequence[str],
    domain: OptionDomain[Any, Any],
    layout: Layout,
    *,
    moment: str,
    count: int = 1,
    see: See = "words",
) -> Prompt:
    """Compiles the prompt of one role.

    Args:
        name: of the role, and of the domain's `wording` for it.
        text: the source of its template.
        blocks: of its prompt after the speaker's, in the order of Appendix A. The paper prints no
            prompts of CoT and repair; they are made by analogy. A role sees what its equation
            conditions on.
        domain: its `wording` replaces blocks of the general prompts.
        moment: of the state: `NOW`, `PREDICTED` or `START`.
        count: the number of options to ask for, or the most.
        see: what is shown of the state; a picture alone leaves out all of its words.
    """
    worded = domain.wording
    sources = [
        template("shared"),
        worded.get("shared", ""),
        text,
        worded.get(name, ""),
    ]
    if domain.about:
        sources.insert(0, "{% block game %}\n{{ about }}\n{%- endblock %}\n")
    defined = frozenset(re.findall(r"{%-? *block (\w+)", "".join(sources)))
    if see == "picture":
        sources.append(template("picture"))
        defined -= {"background"}
    present = [block for block in blocks if block in defined or block not in OPTIONAL]
    system, user = order(present, layout)
    constants = {
        "moment": moment,
        "count": count,
        "options": domain.grammar.instruction,
        "fields": listed(domain.grammar.fields),
        "about": domain.about,
        "world": domain,
    }
    constants["primitives"] = domain.primitives.manual if isinstance(domain, RunsPrograms) else ""
    if isinstance(domain, Predicts):
        constants["state_fields"] = listed(written_fields(domain.state_model.answer))
    return Prompt(sources, system=system, user=user, constants=constants)


def fields_of_question(question: Any) -> dict[str, object]:  # noqa: ANN401 - an `OptionState`, or about an option
    """The values of a template."""
    tau = question if isinstance(question, OptionState) else question.tau
    return {
        "goal": tau.goal,
        "state": tau.state,
        "described": tau.described,
        "history": tau.history,
        "option": getattr(question, "option", None),
        "reason": getattr(question, "obstacle", ""),
        "program": getattr(question, "program", ""),
        "feedback": getattr(question, "feedback", ""),
        "critique": getattr(question, "critique", ""),
        "skills": getattr(question, "skills", ""),
        "explanation": getattr(question, "explanation", ""),
    }


def short_variables(world: Any, question: Any) -> dict[str, object]:  # noqa: ANN401
    """What is told of a question in short words (`roles.short`).

    The state says all that the options before it have led to, so these are left out. To judge an
    option, a taught model sees the state before it and what the option changed.

    Args:
        question: an `OptionState`, or a question about an option.
    """
    here = question if isinstance(question, OptionState) else question.before or question.tau
    described = state_text(world, here.state, here.described)
    variables = {
        STATE_IN_SHORT: described,
        "goal": here.goal,
        SINCE: here.since,
        "option": getattr(question, "option", None),
        "obstacle": getattr(question, "obstacle", ""),
    }
    if getattr(question, "before", None) is None or question.tau.since:
        return variables
    after = state_text(world, question.tau.state, question.tau.described)
    return {**variables, **difference(described, after)}


@cache
def template(name: str, package: str = __package__) -> str:
    """The source of a template in `templates/` of a package."""
    return (files(package) / "templates" / f"{name}.j2").read_text("utf-8")
