"""Ledgers made by hand, for the tests of reports."""

import textwrap

from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.paper_report import report
from llm_planning.experiments.papers import find_paper
from llm_planning.experiments.runs import read_runs
from llm_planning.experiments.trial import Trial, TrialResult
from llm_serving.request import Usage

PROVENANCE = {"commit": "0123abc", "model": {"name": "scripted"}}


def trial_of(planner, *, task="mine", seed=0, **settings):
    return Trial(
        planner=planner,
        domain="minecraft",
        task=task,
        model="small",
        seed=seed,
        settings=settings,
    )


def result_of(trial, *, calls=1, success=None, failed=False, plan=("a", "b"), **metrics):
    """A result whose calls read 100 tokens and write 10 each."""
    return TrialResult(
        trial=trial,
        status="failed" if failed else "done",
        success=success,
        plan=() if failed else plan,
        metrics=metrics,
        usage={
            "propose": Usage(
                calls=calls, prompt_tokens=100 * calls, completion_tokens=10 * calls, seconds=0.5
            )
        },
        trace={},
        error="ValueError: no" if failed else None,
        started=1.0,
        seconds=2.0,
    )


def resources(*, planning, execution=0):
    """The metrics of Tree of Options that say how many calls were which: 110 tokens each."""
    return {
        "planning_calls": planning,
        "planning_tokens": 110 * planning,
        "execution_calls": execution,
        "execution_tokens": 110 * execution,
    }


def write_ledger(folder, results, *, pending=(), **more):
    """A ledger with these results, trials that were not run, and more keys of its sweep."""
    trials = [*(result.trial for result in results), *pending]
    sweep = {"name": "by-hand", "retries": 0, "trials": [trial.to_json() for trial in trials]}
    with Ledger.create(folder, sweep | more, PROVENANCE) as ledger:
        for result in results:
            ledger.record(result, attempt=1, final=True)
    return folder


def report_of(folder, file, results, *, pending=()):
    """The report of a table on these results; `file` is what its published file says."""
    paper = folder / "configs" / "p"
    paper.mkdir(parents=True)
    (paper / "paper.yaml").write_text("title: P\ncitation: c")
    (paper / "t.published.yaml").write_text(textwrap.dedent(file))
    write_ledger(folder / "sweep", results, pending=pending)
    with Ledger.open(folder / "sweep") as ledger:
        return report(find_paper("p", folder / "configs"), "t", read_runs(ledger))
