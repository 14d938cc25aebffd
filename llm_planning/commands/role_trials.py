"""The trials that measure a model at roles, as a sweep."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from llm_base.terminal import complain
from llm_planning.endings import UsageError
from llm_planning.experiments.role_measures import PLANNER
from llm_planning.experiments.trial import Trial
from llm_planning.model_configs import configuration, split_adapter
from llm_planning.planners.measure.specs import MeasureSettings, exercises_of
from llm_planning.registry import exercise_makers, why_unmeasured
from llm_planning.roles.exercises import GENERAL_WORDS
from llm_planning.roles.measuring import digest
from llm_planning.running import prepare, source_of
from llm_serving.models import adapter_folder, read_adapter, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_planning.roles.exercises import Words
    from llm_planning.specs import DomainSpec


def _taught_roles(model: str, domain: DomainSpec) -> Sequence[str]:
    """The roles that a simulator taught a model, if it did so in the words of today.

    Raises:
        EngineConfigError: its configuration is missing or impossible.
        ServingError: there is no such model.
    """
    config = configuration(model)
    if config is None:
        return ()
    adapter = split_adapter(model)[1]
    taught = (
        resolve(config.model).taught
        if adapter is None
        else read_adapter(adapter_folder(config.adapters[adapter])).taught
    )
    if taught is None or GENERAL_WORDS in taught.words_sha256:
        return ()
    makers = exercise_makers(domain, words="taught").values()
    if {maker.taught_words for maker in makers} & {*taught.words_sha256}:
        return taught.roles
    complain(
        f"{model} was taught other words than those of {domain.name}: it is asked as any model"
    )
    return ()


def trials_of(
    domain: DomainSpec,
    *,
    model: str,
    roles: Sequence[str],
    seed: int,
    questions: int,
    words: Words | None,
    hold_out: Sequence[str],
) -> list[Trial]:
    """A trial for each role, which names the exercises that it asks by their hash.

    Without `words`, a role is asked in those that the model was taught for it, if it was.

    Raises:
        UsageError: there are no exercises of a role in this domain.
        EngineConfigError: the model's configuration is missing or impossible.
        DomainError: a name cannot be held out.
    """
    makers = exercise_makers(domain, words="general")
    if not makers:
        raise UsageError(f"no planner has exercises in {domain.name}: nothing can be measured")
    for role in roles:
        if role not in makers:
            raise UsageError(f"--role {role}: {why_unmeasured(role, domain, makers)}")
    config = configuration(model)
    engines = {} if config is None else {model: config.model_dump(mode="json")}
    taught = () if words else _taught_roles(model, domain)
    trials = []
    every = exercise_makers(domain.holding_out(hold_out), words="general")
    for role in dict.fromkeys(roles or every):
        asked = words or ("taught" if role in taught else "general")
        settings = MeasureSettings.read(
            {"questions": questions, "words": asked, "role": role, "hold_out": hold_out}
        )
        exercises = digest(exercises_of(domain, settings, seed=seed))
        prepared = prepare(
            PLANNER,
            domain=domain,
            settings={**settings.to_json(), "exercises_sha256": exercises},
        )
        trials.append(
            Trial(
                planner=prepared.spec.name,
                domain=prepared.domain.name,
                task=prepared.task,
                model=model,
                seed=seed,
                settings=to_jsonable_python(prepared.chosen.to_json()),
                engines=engines,
                source=source_of(prepared.spec, prepared.domain),
            )
        )
    return trials


def sweep_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """The trials as a resolved sweep, whose name is safe for a folder and its content's own."""
    first = trials[0]
    keys = hashlib.sha256("".join(trial.key for trial in trials).encode()).hexdigest()
    names = (re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-40:] for name in (first.domain, first.model))
    return {
        "name": "-".join(("roles", *names, keys[:8])),
        "retries": 0,
        "grids": [
            {
                "model": [trial.model],
                "planners": {
                    trial.planner: {key: [value] for key, value in trial.settings.items()}
                },
                "domain": [trial.domain],
                "tasks": [trial.task],
                "seeds": [trial.seed],
            }
            for trial in trials
        ],
        "trials": [trial.to_json() for trial in trials],
    }


def about(trial: Trial, *, revision: str) -> Iterator[str]:
    """What a file of rates says of where they come from, line by line."""
    yield f"How often {trial.model} (revision {revision}) is right in {trial.domain}:"
    yield f"questions of seed {trial.seed}, measured by `llm-planning roles measure`."
