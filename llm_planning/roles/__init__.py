"""Roles: the typed questions that planners ask, and the models and rules that answer them."""

from llm_planning.roles.assignment import OwnModel, RoleAssignment, RoleSettings, read_roles
from llm_planning.roles.engines import Engines, metered, usage_by_role
from llm_planning.roles.llm import LlmRole, Prompt, PromptError, Role, ScoringRole, gather
from llm_planning.roles.oracles import Errors, Items, Kinds, Oracle, Rule

__all__ = [
    "Engines",
    "Errors",
    "Items",
    "Kinds",
    "LlmRole",
    "Oracle",
    "OwnModel",
    "Prompt",
    "PromptError",
    "Role",
    "RoleAssignment",
    "RoleSettings",
    "Rule",
    "ScoringRole",
    "gather",
    "metered",
    "read_roles",
    "usage_by_role",
]
