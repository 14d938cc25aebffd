"""The texts of DRIP's questions. A domain's `wording["drip"]` may replace any block.

What never changes is in the system message: the task, the world, the language of options, the rules
and the form of the answer. The user message begins with what changes least.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from llm_planning.planners.tree_of_options.prompts import listed, written_fields
from llm_planning.roles import Prompt

if TYPE_CHECKING:
    from llm_planning.planners.drip.questions import DripDomain

SYSTEM = {
    "decompose": ("decomposer", "about", "options", "decomposition_rules", "decomposition_format"),
    "judge": ("judge", "about", "judgement_rules", "judgement_format"),
    "apply": ("actuator", "about", "application_rules", "application_format"),
    "act": ("actor", "about", "options", "action_rules", "action_format"),
}
"""Role -> the blocks of its system message; `about` is left out if the domain says nothing."""

USER = {
    "decompose": ("target",),
    "judge": ("state", "subtask", "parent"),
    "apply": ("state", "subtask"),
    "act": ("goal", "history", "state"),
}
"""Role -> the blocks of its user message. Without `described`, `target` has no state (Table 7)."""


def compose(name: str, domain: DripDomain[Any, Any]) -> Prompt:
    """Compiles the prompt of one role.

    Args:
        name: a key of `SYSTEM`.
        domain: its `wording["drip"]` replaces blocks of the general prompts.
    """
    worded: str = getattr(domain, "wording", {}).get("drip", "")
    model = getattr(domain, "state_model", None)
    constants = {
        "about": domain.about,
        "options": domain.grammar.told,
        "fields": listed(domain.grammar.fields),
        "state_fields": listed(written_fields(model.answer)) if model else "",
        "world": domain,
    }
    system = tuple(block for block in SYSTEM[name] if block != "about" or domain.about)
    return Prompt([_template(), worded], system=system, user=USER[name], constants=constants)


@cache
def _template() -> str:
    return (files(__package__) / "templates" / "drip.j2").read_text("utf-8")
