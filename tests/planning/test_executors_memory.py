"""A sweep holds one set of models at a time."""

import gc
import weakref
from contextlib import contextmanager

from ledger_samples import PROVENANCE, result_of, sweep_of_seeds, trial_number

from llm_planning.experiments import executors
from llm_planning.experiments.executors import Models, run_groups
from llm_planning.experiments.ledger import Ledger
from llm_planning.experiments.pool import PoolLoad


class Pool:
    """Ends every trial at once; stands for the memory of a set of models."""

    limit = 1

    async def run(self, trial):
        return result_of(trial)

    def load(self):
        return PoolLoad()

    async def aclose(self):
        pass


class Watching:
    """An executor that sees which earlier pools are alive when it opens the next."""

    def __init__(self):
        self.pools, self.alive = [], []

    @contextmanager
    def open(self, models):
        gc.collect()
        self.alive.append([pool() is not None for pool in self.pools])
        pool = Pool()
        self.pools.append(weakref.ref(pool))

        async def opened():
            return pool

        yield opened


def test_a_set_of_models_is_gone_when_the_next_is_opened(tmp_path, monkeypatch):
    trials = [trial_number(seed) for seed in range(3)]
    monkeypatch.setattr(
        executors.Models, "of", lambda trial: Models(((f"model {trial.seed}", None),))
    )
    executor = Watching()
    with Ledger.create(tmp_path / "sweep", sweep_of_seeds(3), PROVENANCE) as ledger:
        run_groups(trials, executor=executor, ledger=ledger, retries=0, watch=lambda _: None)
        assert len(ledger.finished()) == 3
    assert executor.alive == [[], [False], [False, False]]
