"""The words in which the bundled adapter was taught; they go when it is taught again.

One line of `templates/taught.j2` asks, after the state. Nothing else knows of these words but
`asking.py`, in two places.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from llm_planning.domain import Predicts
from llm_planning.execution.option_prompts import PROPOSED, fields_of_question, template
from llm_planning.planners.tree_of_options.roles import (
    FeasibilityAnswer,
    RewardAnswer,
    TerminationAnswer,
)
from llm_planning.planners.tree_of_options.settings import UnpredictedSettings
from llm_planning.roles import Prompt, RoleSpec, Short
from llm_planning.roles.options import one_option, several_options
from llm_serving.answers import constraint_of

if TYPE_CHECKING:
    from llm_planning.execution.options import OptionDomain
    from llm_planning.planners.tree_of_options.asking import OptionAsking

TAUGHT_ORDER = {
    "dynamics": ("state", "option", "dynamics"),
    "propose": ("state", "goal", "propose"),
    "feasibility": ("state", "goal", "option", "feasibility"),
    "repair": ("state", "goal", "option", "obstacle", "repair"),
    "reward": ("state", "goal", "option", "after", "reward"),
    "termination": ("state", "goal", "termination"),
}
"""Role -> the blocks of its user message."""


def in_older_words(spec: Any, ask: OptionAsking[Any, Any]) -> Any:  # noqa: ANN401 - any role
    """The role with the older words as its short ones, if its model was taught these.

    Questions about a state that nobody predicted were not taught.
    """
    taught, domain = ask.engines.of(spec.name).identity.taught, ask.domain
    if (
        taught is None
        or older_digest(domain) not in taught.words_sha256
        or not isinstance(spec, RoleSpec)
        or spec.short is None
    ):
        return spec
    if spec.name not in TAUGHT_ORDER or isinstance(ask.settings, UnpredictedSettings):
        return replace(spec, short=None)
    prompt, digest = partial(_compiled, spec.name, domain), partial(older_digest, domain)
    return replace(spec, short=Short(prompt=prompt, values_of=_fields, digest=digest))


def older_digest(domain: OptionDomain[Any, Any]) -> str:
    """SHA-256 of the older words, in hexadecimal: templates and the languages of the answers."""
    if not isinstance(domain, Predicts):
        return ""
    digest = hashlib.sha256()
    for text in _sources(domain):
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
    digest.update(repr((TAUGHT_ORDER, getattr(domain, "options", None))).encode())
    return digest.hexdigest()


def _compiled(name: str, domain: OptionDomain[Any, Any]) -> Prompt:
    return Prompt(
        _sources(domain),
        system=("role",),
        user=TAUGHT_ORDER[name],
        constants={"count": PROPOSED},
    )


def _sources(domain: OptionDomain[Any, Any]) -> tuple[str, str]:
    return template("taught", __package__), domain.wording.get("taught", "")


def _fields(question: Any) -> dict[str, object]:  # noqa: ANN401 - of any of these roles
    """The values of a template: the state is the one before the option."""
    before = getattr(question, "before", None)
    if before is None:
        return fields_of_question(question)
    after = {"after": question.tau.state, "described_after": question.tau.described}
    return {**fields_of_question(replace(question, tau=before)), **after}
