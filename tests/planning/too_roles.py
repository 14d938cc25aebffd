"""Tree of Options' roles by name."""

from llm_planning.execution.option_settings import PromptSettings
from llm_planning.planners.tree_of_options.roles import OptionRoles


def roles_of(world, *, seed=0, **settings):
    roles = OptionRoles(world, PromptSettings.read(settings), seed=seed)
    return roles.by_name()


def rules_of(world, *, seed):
    return {name: role.rule for name, role in roles_of(world, seed=seed).items() if role.rule}
