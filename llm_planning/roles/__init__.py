"""Roles: the typed questions that planners ask, and the models and rules that answer them."""

from llm_planning.roles.asking import (
    AnyRole,
    Asking,
    RoleRules,
    RoleSpec,
    ScoredRole,
    Short,
    TextRole,
)
from llm_planning.roles.assignment import (
    OwnModel,
    Profile,
    RoleAssignment,
    RoleSettings,
    by_fallible,
    by_model,
    read_roles,
)
from llm_planning.roles.domain_rules import (
    CheckedRules,
    DomainWithRules,
    missing_for_rules,
    on_the_way,
)
from llm_planning.roles.engines import Engines, metered, usage_by_role
from llm_planning.roles.language import OptionLanguage
from llm_planning.roles.llm import LlmRole, Prompt, PromptError, Role, ScoringRole, gather
from llm_planning.roles.oracles import Errors, Items, Kinds, Oracle, Rule
from llm_planning.roles.walks import RuleWalks

__all__ = [
    "AnyRole",
    "Asking",
    "CheckedRules",
    "DomainWithRules",
    "Engines",
    "Errors",
    "Items",
    "Kinds",
    "LlmRole",
    "OptionLanguage",
    "Oracle",
    "OwnModel",
    "Profile",
    "Prompt",
    "PromptError",
    "Role",
    "RoleAssignment",
    "RoleRules",
    "RoleSettings",
    "RoleSpec",
    "Rule",
    "RuleWalks",
    "ScoredRole",
    "ScoringRole",
    "Short",
    "TextRole",
    "by_fallible",
    "by_model",
    "gather",
    "metered",
    "missing_for_rules",
    "on_the_way",
    "read_roles",
    "usage_by_role",
]
