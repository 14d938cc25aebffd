"""`llm-planning roles measure`: how often a model is right at each role in a domain."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python
from rich.table import Table

from llm_kernels.files import TargetError, check_target, write_durably
from llm_planning.cli.options import check_writable_folder
from llm_planning.cli.sweep import SweepOptions
from llm_planning.commands.sweep import carry_out, executor_of
from llm_planning.endings import UsageError, refusing
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.report_text import write_number
from llm_planning.experiments.role_measures import (
    PLANNER,
    RoleMeasure,
    rates,
    rates_file,
    read_measures,
)
from llm_planning.experiments.runs import result_record
from llm_planning.experiments.trial import Trial
from llm_planning.interrupts import heard_while_loading
from llm_planning.model_configs import configuration, split_adapter
from llm_planning.planners.measure.specs import MeasureSettings, exercises_of
from llm_planning.registry import exercise_makers, find_domain, why_unmeasured
from llm_planning.roles.exercises import GENERAL_WORDS
from llm_planning.roles.measuring import digest
from llm_planning.running import REFUSALS, prepare, source_of
from llm_serving.errors import EngineConfigError
from llm_serving.models import adapter_folder, read_adapter, resolve
from llm_serving.terminal import SafeConsole, complain, literal, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llm_planning.experiments.statistics import Estimate
    from llm_planning.roles.exercises import Words
    from llm_planning.specs import DomainSpec

_SHOWN_CONFUSIONS = 5
_LONGEST_CONFUSION = 60


class NotMeasuredError(Exception):
    """A role could not be measured."""


def measure(
    domain: str,
    *,
    model: str,
    roles: Sequence[str],
    questions: int,
    seed: int,
    words: Words | None,
    hold_out: Sequence[str],
    out: Path | None,
    folder: Path | None,
    cache: bool,
    as_json: bool,
) -> None:
    """Measures roles and prints how often each was right; the arguments are the command line's."""
    with (
        refusing(*REFUSALS, TargetError, EngineConfigError),
        heard_while_loading(),
        SafeConsole(stderr=True).waiting("making questions"),
    ):
        if out is not None:
            check_target(out)
        where = find_domain(domain)
        trials = _trials(
            where,
            model=model,
            roles=roles,
            seed=seed,
            questions=questions,
            words=words,
            hold_out=hold_out,
        )
    sweep = _sweep_of(trials)
    folder = folder or Path("sweeps") / sweep["name"]
    check_writable_folder(folder, option="--ledger")
    # One role at a time, so that its seconds are its own; its questions fill the batch.
    executor = executor_of(SweepOptions(cache=cache, concurrency=1))
    carry_out(folder, sweep, executor, deterministic=False)
    with Ledger.open(folder) as ledger:
        results = [(row.result, row.attempts) for row in ledger.rows()]
        revisions = {
            name: str(one["revision"])
            for known in ledger.provenances.values()
            for name, one in known["models"].items()
        }
    failed = [one for one, _ in results if one.status == "failed"]
    found = read_measures(
        result_record(one, attempts=attempts) for one, attempts in results if one.status == "done"
    )
    if found and as_json:
        say(json.dumps(_report(folder, trials[0], found)))
    elif found:
        _show(folder, found)
    if failed:
        role = failed[0].trial.settings["role"]
        raise NotMeasuredError(
            f"the role {role} was not measured: {failed[0].error}; to ask it again, remove {folder}"
        )
    if out is not None:
        about = _about(trials[0], revision=revisions.get(model, "none"))
        write_durably(out, rates_file(found, about=tuple(about)).encode())


def _taught_roles(model: str, domain: DomainSpec) -> Sequence[str]:
    """The roles that a simulator taught a model, if it did so in the words of today.

    Args:
        model: its name.
        domain: where it is asked.

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
    if taught is None or taught.words_sha256 == GENERAL_WORDS:
        return ()
    makers = exercise_makers(domain, words="taught").values()
    if taught.words_sha256 in {maker.taught_words for maker in makers}:
        return taught.roles
    complain(
        f"{model} was taught other words than those of {domain.name}: it is asked as any model"
    )
    return ()


def _trials(
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
    for role in dict.fromkeys(roles or makers):
        asked = words or ("taught" if role in taught else "general")
        one = MeasureSettings.read(
            {"questions": questions, "words": asked, "role": role, "hold_out": hold_out}
        )
        exercises = digest(exercises_of(domain, one, seed=seed))
        prepared = prepare(
            PLANNER,
            domain=domain,
            settings={**one.to_json(), "exercises_sha256": exercises},
        )
        trials.append(
            Trial(
                planner=prepared.spec.recorded_as,
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


def _sweep_of(trials: Sequence[Trial]) -> dict[str, Any]:
    """The trials as a resolved sweep, whose name is safe for a folder and its content's own."""
    first = trials[0]
    keys = hashlib.sha256("".join(one.key for one in trials).encode()).hexdigest()
    names = (re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-40:] for name in (first.domain, first.model))
    return {
        "name": "-".join(("roles", *names, keys[:8])),
        "retries": 0,
        "grids": [
            {
                "model": [one.model],
                "planners": {one.planner: {key: [value] for key, value in one.settings.items()}},
                "domain": [one.domain],
                "tasks": [one.task],
                "seeds": [one.seed],
            }
            for one in trials
        ],
        "trials": [one.to_json() for one in trials],
    }


def _about(trial: Trial, *, revision: str) -> Iterator[str]:
    yield f"How often {trial.model} (revision {revision}) is right in {trial.domain}:"
    yield f"questions of seed {trial.seed}, measured by `llm-planning roles measure`."


def _report(folder: Path, trial: Trial, found: Sequence[RoleMeasure]) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "domain": trial.domain,
        "model": trial.model,
        "seed": trial.seed,
        "roles": {one.role: one.to_json() for one in found},
        "rates": rates(found),
    }


def _show(folder: Path, found: Sequence[RoleMeasure]) -> None:
    console = SafeConsole()
    for one in found:
        console.print(literal(one.role, "bold"))
        table = Table("questions", "right", "of", "share", "95% interval")
        for column in table.columns[1:]:
            column.justify = "right"
        table.add_row(*_cells("all", one.share))
        for aspect, values in one.splits.items():
            table.add_section()
            for value, share in values.items():
                table.add_row(*_cells(f"{aspect}: {value}", share))
        console.print(table)
        for expected, said, count in one.confusions[:_SHOWN_CONFUSIONS]:
            line = f"  {count} x {_shortened(said)} instead of {_shortened(expected)}"
            console.print(literal(line), soft_wrap=True)
        console.print(f"  {one.tokens} tokens, {one.seconds:.1f} s")
        console.print()
    say(f"results: llm-planning sweep report {folder}")


def _cells(what: str, share: Estimate) -> tuple[str, ...]:
    right = round((share.value or 0.0) * share.n)
    texts = [
        "" if value is None else write_number(value, "percent")
        for value in (share.value, share.low, share.high)
    ]
    interval = f"{texts[1]} to {texts[2]}" if texts[1] else share.reason or ""
    return (what, str(right), str(share.n), texts[0], interval)


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_CONFUSION else f"{line[:_LONGEST_CONFUSION]}..."
