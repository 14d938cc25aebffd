"""Trials, results and sweeps for the tests of the ledger; no test module itself."""

from llm_planning.experiments.trial import Trial, TrialResult
from llm_serving.request import Usage

PROVENANCE = {"commit": "c0ffee", "versions": {"python": "3.11"}}
TRACE = {
    "goal": "cook meat",
    "steps": [{"option": "find 1 cow", "p": 0.25}, {"option": "kill 1 cow", "p": 0.75}],
    "plan": ("find 1 cow", "kill 1 cow"),
}
USAGE = Usage(
    calls=3, prompt_tokens=90, cached_tokens=40, completion_tokens=12, replayed=1, seconds=0.5
)


def trial_number(seed, **settings):
    return Trial(
        planner="too",
        domain="minecraft",
        task="cook-meat",
        model="tiny",
        seed=seed,
        settings={"k": 2, "c": 1.5, **settings},
    )


def sweep_of_seeds(count, **more):
    trials = [trial_number(seed).to_json() for seed in range(count)]
    return {"name": "sample", "retries": 1, "trials": trials, **more}


def result_of(trial, /, **changes):
    values = {
        "trial": trial,
        "status": "done",
        "success": True,
        "plan": ("find 1 cow", "kill 1 cow"),
        "metrics": {"nodes": 7, "success_basis": "predicted", "share": 0.5},
        "usage": {"propose": USAGE, "reward": USAGE},
        "trace": {**TRACE, "seed": trial.seed},
        "error": None,
        "started": 1_700_000_000.25,
        "seconds": 2.5,
    }
    return TrialResult(**(values | changes))


def failure_of(trial, /, error="ValueError: no plan", **changes):
    nothing = {"success": None, "plan": (), "metrics": {}, "trace": {}}
    return result_of(trial, status="failed", error=error, **(nothing | changes))
