"""Which models a run asks, where the command line leaves it open."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from llm_base.terminal import complain
from llm_planning.endings import UsageError
from llm_planning.model_configs import comes_along, configuration, default_model, model_name
from llm_planning.names import remedy
from llm_planning.roles import RoleSettings
from llm_planning.running import asks_model, models_of_roles
from llm_serving.encoder_engine import NO_MODEL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.running import Prepared
    from llm_planning.specs import PlannerSpec

__all__ = ["NO_MODEL", "default_model_of", "own_models", "stood_in"]


def default_model_of(prepared: Prepared) -> str:
    """The model of a run for which the user names none."""
    if not asks_model(prepared.spec, prepared.chosen):
        return NO_MODEL
    settings, roles = prepared.chosen.planner, prepared.spec.roles
    asked = settings.models_roles(roles) if isinstance(settings, RoleSettings) else roles
    return default_model(asked, domain=prepared.domain.name)


def stood_in(spec: PlannerSpec, given: Mapping[str, object]) -> dict[str, object]:
    """The setting by which rules answer, unless the user says who does; says so on the terminal."""
    profile = spec.settings.profile if issubclass(spec.settings, RoleSettings) else None
    if profile is None or "roles" in given:
        return {}
    complain(f"note: no model: rules with {profile.description} answer (roles={profile.name})")
    return {"roles": profile.name}


def own_models(prepared: Prepared, given: Mapping[str, object]) -> dict[str, str]:
    """Role -> its own model, from the command line and the setting `roles`."""
    roles = prepared.spec.roles
    for role in given:
        if role not in roles:
            raise UsageError(
                f"--role-model {role}: {prepared.spec.name} has no such role; {remedy(role, roles)}"
            )
        if not given[role]:
            raise UsageError(f"--role-model {role}=: name a model after the sign")
    named = {role: model_name(str(name)) for role, name in given.items()}
    filed = models_of_roles(prepared.spec, prepared.chosen)
    for role, name in filed.items():
        config = configuration(name)
        if config is None or role in named:
            continue
        from llm_serving.models import is_bundled_adapter

        bundled = all(map(is_bundled_adapter, config.adapters.values()))
        if not (comes_along(config.model) and bundled):
            raise UsageError(
                f"roles={prepared.chosen.to_json()['roles']}: the model {name} of {role} does not "
                "come with this program, and only a file asks for it: look at it, then add "
                f"--role-model {shlex.quote(f'{role}={name}')}"
            )
    return {**filed, **named}
