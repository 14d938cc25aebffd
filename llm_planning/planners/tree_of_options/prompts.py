"""The texts of ToO's questions and their order.

The texts are the blocks of `templates/`. A domain's own `wording` may replace any of them. Two
layouts order the same blocks. `cached` puts the blocks that never change into the system message.
The user message goes from what changes rarely to what changes always: the goal, the background (the
part of the state that options rarely change), the options done (which only grow), the state, the
option. So all questions about one node's candidates share everything up to the option, and
questions of one role about different nodes share their beginnings. `paper` is the order of
Appendix A: who speaks, the state, the goal and the history first, the rules and the format last.

A model that a simulator taught its roles knows the rules and the form of its answers, so one line
of `templates/taught.j2` asks. The state comes first: all questions about one state share it, in
teaching and in the prefix cache. It says all that the options done have led to, so the history is
left out. To judge an option, a taught model sees the state before it and what the option changed.

Minecraft's blocks, in `environments/minecraft/option_prompts`, replace most of those in the
templates of the same names, so an edit here may change nothing in Minecraft.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from llm_planning.planners.tree_of_options.answers import (
    FeasibilityAnswer,
    RewardAnswer,
    TerminationAnswer,
    one_option,
    several_options,
)
from llm_planning.planners.tree_of_options.states import OptionState
from llm_planning.roles import Prompt
from llm_serving.answers import constraint_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from llm_planning.planners.tree_of_options.settings import Layout
    from llm_planning.planners.tree_of_options.states import OptionDomain
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

TAUGHT_ORDER = {
    "dynamics": ("state", "option", "dynamics"),
    "propose": ("state", "goal", "propose"),
    "feasibility": ("state", "goal", "option", "feasibility"),
    "repair": ("state", "goal", "option", "obstacle", "repair"),
    "reward": ("state", "goal", "option", "after", "reward"),
    "termination": ("state", "goal", "termination"),
}
"""Role -> the blocks of its user message.

Roles that see the state at the start (without a world model) are not taught.
"""

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
        name: of the role, and of the template with its texts.
        blocks: of its prompt after the speaker's, in the order of Appendix A. The paper prints no
            prompts of CoT and repair; they are made by analogy. A role sees what its equation
            conditions on.
        domain: its `wording` replaces blocks of the general prompts.
        layout: the order of the blocks.
        moment: of the state: `NOW`, `PREDICTED` or `START`.
        count: the number of options to ask for, or the most.
        see: what is shown of the state; a picture alone leaves out all of its words.
    """
    worded: Mapping[str, str] = getattr(domain, "wording", {})
    sources = [
        text for source in ("shared", name) for text in (_template(source), worded.get(source, ""))
    ]
    if domain.about:
        sources.insert(0, "{% block game %}\n{{ about }}\n{%- endblock %}\n")
    said = frozenset(re.findall(r"{%-? *block (\w+)", "".join(sources)))
    if see == "picture":
        sources.append(_template("picture"))
        said -= {"background"}
    told = [block for block in blocks if block in said or block not in OPTIONAL]
    system, user = order(told, layout)
    constants = {
        "moment": moment,
        "count": count,
        "options": domain.grammar.told,
        "fields": listed(domain.grammar.fields),
        "about": domain.about,
        "world": domain,
    }
    constants["primitives"] = getattr(getattr(domain, "primitives", None), "told", "")
    model = getattr(domain, "state_model", None)
    if model is not None:
        constants["state_fields"] = listed(written_fields(model.answer))
    return Prompt(sources, system=system, user=user, constants=constants)


def written_fields(answer: type[BaseModel]) -> list[str]:
    """The names of an answer's fields as a model writes them."""
    return [field.alias or name for name, field in answer.model_fields.items()]


def listed(names: Iterable[str]) -> str:
    """Joins names as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def compose_taught(name: str, domain: OptionDomain[Any, Any], *, count: int = 1) -> Prompt:
    """Compiles the prompt of one role for a model that a simulator taught.

    Args:
        name: a key of `TAUGHT_ORDER`.
        domain: its `wording["taught"]` replaces blocks of `templates/taught.j2`.
        count: the number of options to ask for.
    """
    return Prompt(
        _taught_sources(domain),
        system=("role",),
        user=TAUGHT_ORDER[name],
        constants={"count": count},
    )


def taught_words(domain: OptionDomain[Any, Any]) -> str:
    """SHA-256 of the words in which a taught model is asked, in hexadecimal.

    It covers the templates and the languages of the answers. A model that was taught other words
    has to be taught again.

    Args:
        domain: as it is planned in; its goal and its state play no part.
    """
    digest = hashlib.sha256()
    for text in _taught_sources(domain):
        digest.update(text.encode())
    answers = (
        domain.state_model.answer,
        several_options(domain.grammar, PROPOSED, PROPOSED),
        one_option(domain.grammar),
        FeasibilityAnswer,
        RewardAnswer,
        TerminationAnswer,
    )
    for answer in answers:
        digest.update(constraint_of(answer).regex.encode())
    # What an option does is part of what was taught, such as Minecraft's folded crafts.
    digest.update(repr((TAUGHT_ORDER, getattr(domain, "options", None))).encode())
    return digest.hexdigest()


def _taught_sources(domain: OptionDomain[Any, Any]) -> tuple[str, str]:
    worded: Mapping[str, str] = getattr(domain, "wording", {})
    return _template("taught"), worded.get("taught", "")


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


def fields_of_taught(question: Any) -> dict[str, object]:  # noqa: ANN401 - likewise
    """The values of a template for a taught model: the state is the one before the option."""
    before = getattr(question, "before", None)
    if before is None:
        return fields_of_question(question)
    after = {"after": question.tau.state, "described_after": question.tau.described}
    return {**fields_of_question(replace(question, tau=before)), **after}


@cache
def _template(name: str) -> str:
    return (files(__package__) / "templates" / f"{name}.j2").read_text("utf-8")
