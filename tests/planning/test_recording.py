"""What planners ask, draw and decide without a model is what was recorded."""

import asyncio
import json

import pytest
import recording

from llm_planning.planners.catalogue import PLANNERS

DIGESTS = json.loads((recording.GOLDEN / "digests.json").read_text())
FULL = {path.stem: path for path in recording.GOLDEN.glob("*.json") if path.stem != "digests"}


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    return {trial.name: trial for trial in recording.trials(tmp_path_factory.mktemp("roles"))}


def test_every_planner_is_recorded(trials):
    assert {trial.prepared.spec.name for trial in trials.values()} == set(PLANNERS) - {"measure"}
    assert trials.keys() == {name for name in DIGESTS if not name.startswith("exercises")}


@pytest.mark.parametrize("planner", sorted(FULL))
def test_a_trial_kept_in_full_is_the_same(planner, trials):
    kept = FULL[planner].read_text()
    same = {part: recording.digest(value) for part, value in json.loads(kept).items()}
    name = next(name for name, digest in DIGESTS.items() if digest == same)
    assert recording.in_full(asyncio.run(recording.record(trials[name]))) == kept


@pytest.mark.parametrize("who", [*recording.ANSWERERS, "table12", "sticky-40"])
def test_a_share_is_the_same(who, trials):
    of_planner = {
        trial.prepared.spec.name: name for name, trial in trials.items() if f" {who} " in name
    }
    for name in of_planner.values():
        parts = asyncio.run(recording.record(trials[name]))
        digests = {part: recording.digest(value) for part, value in parts.items()}
        assert digests == DIGESTS[name], name
