"""The training loop: learning, stopping, going on, and what it refuses."""

import math
import os
import signal
import subprocess
import sys
import time
from random import Random

import pytest
import torch
from distill_peers import AllMatrices, lesson, opened, single_threaded, small_llama

from llm_planning.distill.adapters import LowRank
from llm_planning.distill.checkpoint import FILE, TrainingError, read_checkpoint
from llm_planning.distill.training import Recipe, shares_right, train

one_thread = pytest.fixture(autouse=True, scope="module")(single_threaded)
small = pytest.fixture(scope="module")(small_llama)


def fresh(number):
    """Questions that can be learned: the last token of the prompt says the answer."""
    rng = Random(f"lessons/{number}")
    prompts = [[1, 2, *(rng.randrange(9) for _ in range(3))] for _ in range(24)]
    return [lesson(prompt, [prompt[-1] + 40, 0], role="ab"[prompt[-1] % 2]) for prompt in prompts]


def trained(
    small,
    folder,
    *,
    report=lambda _: None,
    learned=LowRank,
    identity=None,
    workers=2,
    examine=None,
    **options,
):
    folder.mkdir(exist_ok=True)
    how = {"rank": 8, "alpha": 16, "seed": 0} if learned is LowRank else {}
    network = opened(small, learned, **how)
    recipe = Recipe(**{"rate": 5e-3, "longest_row": 80, "warmup": 0.1, **options})
    state = train(
        network,
        fresh,
        recipe,
        folder=folder,
        identity=identity or {},
        report=report,
        examine=examine or (lambda network: shares_right(network, fresh("held out"))),
        workers=workers,
    )
    return state, network


class StoppedError(Exception):
    """Stands for whatever breaks a training off."""


def stop_at(batch):
    def report(progress):
        if progress.batch == batch:
            raise StoppedError

    return report


@pytest.mark.parametrize("learned", [LowRank, AllMatrices])
def test_two_halves_are_one_whole_bit_for_bit(small, tmp_path, learned):
    whole, _ = trained(small, tmp_path / "whole", learned=learned, batches=8)
    with pytest.raises(StoppedError):
        trained(
            small,
            tmp_path / "halves",
            learned=learned,
            batches=8,
            save_every=0.0,
            report=stop_at(5),
        )
    kept = read_checkpoint(tmp_path / "halves", torch.device("cpu"))
    assert kept.batch == 4
    # Seconds between checkpoints are part of the recipe, so they are the same in both halves.
    again, _ = trained(small, tmp_path / "halves", learned=learned, batches=8, save_every=0.0)
    assert torch.equal(again.flat, whole.flat)
    assert torch.equal(again.square, whole.square)
    assert again.right == whole.right
    assert again.questions == whole.questions == 8 * 24
    assert again.curve[-1]["figures"] == whole.curve[-1]["figures"]


def test_it_learns(small, tmp_path):
    reports = []
    state, _ = trained(
        small, tmp_path / "run", batches=60, report=reports.append, examine_every=0.01
    )
    assert len(state.curve) > 2
    assert state.curve[-1]["figures"]["b"] > 0.9
    assert reports[-1].loss < 0.3 * reports[0].loss
    assert reports[-1].right["b"] > reports[0].right["b"]
    assert reports[-1].computed < reports[-1].one_by_one
    assert [progress.batch for progress in reports] == list(range(1, 61))
    assert reports[-1].seconds_left == 0.0


def test_workers_learn_the_same(small, tmp_path):
    alone, _ = trained(small, tmp_path / "one", batches=1, workers=1)
    three, _ = trained(small, tmp_path / "three", batches=1, workers=3)
    assert torch.allclose(alone.mean, three.mean, atol=1e-5 * float(alone.mean.abs().max()))
    with pytest.raises(ValueError, match="workers=0: at least one computes"):
        trained(small, tmp_path / "none", batches=1, workers=0)


class Clock:
    """A batch takes a second, and an exam what it says, however busy this machine is."""

    def __init__(self, monkeypatch, *exams):
        self.now, self.reports, self._exams = 100.0, [], iter(exams)
        monkeypatch.setattr("llm_planning.distill.training.perf_counter", lambda: self.now)

    def report(self, progress):
        self.reports.append(progress)
        self.now += 1.0

    def examine(self, _):
        self.now += next(self._exams)
        return {"b": 0.5}


def test_a_training_takes_its_time(small, tmp_path, monkeypatch):
    clock = Clock(monkeypatch, 1.0, 1.0)
    trained(small, tmp_path / "run", minutes=0.25, report=clock.report, examine=clock.examine)
    assert clock.now == 100.0 + 15.0
    rates = [progress.rate for progress in clock.reports]
    assert rates[0] < max(rates)
    assert rates[-1] < 0.2 * max(rates)


def test_a_training_that_is_over_stays_so(small, tmp_path, monkeypatch):
    """Even where the last exam took less time than was kept free for it."""
    clock = Clock(monkeypatch, 4.0, 0.0, 0.0)
    how = {"minutes": 0.2, "report": clock.report, "examine": clock.examine}
    once, _ = trained(small, tmp_path / "run", **how)
    assert once.seconds < 12.0
    again, _ = trained(small, tmp_path / "run", **how)
    assert again.batch == once.batch == 4
    assert again.curve == once.curve
    assert torch.equal(again.flat, once.flat)


@pytest.mark.parametrize(("minutes", "exam", "batches"), [(0.5, 10.0, 10), (0.1, 10.0, 1)])
def test_the_last_exam_is_within_the_time(small, tmp_path, monkeypatch, minutes, exam, batches):
    """Unless the exams alone take longer: then one batch is taught between them."""
    clock = Clock(monkeypatch, exam, exam)
    state, _ = trained(
        small, tmp_path / "run", minutes=minutes, report=clock.report, examine=clock.examine
    )
    assert len(clock.reports) == batches
    assert clock.now - 100.0 == 2 * exam + batches
    assert [point["took"] for point in state.curve] == [exam, exam]


def test_another_training_in_the_folder_is_refused(small, tmp_path):
    trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")})
    trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")})
    with pytest.raises(TrainingError, match=r"a training with rate 0\.005, not 0\.1"):
        trained(small, tmp_path / "run", batches=1, identity={"roles": ("a", "b")}, rate=0.1)
    with pytest.raises(TrainingError, match=r"a training with roles \['a', 'b'\], not None"):
        trained(small, tmp_path / "run", batches=1)


def test_a_damaged_checkpoint_is_refused(small, tmp_path):
    trained(small, tmp_path / "run", batches=1)
    whole = (tmp_path / "run" / FILE).read_bytes()
    (tmp_path / "run" / FILE).write_bytes(whole[:-10])
    with pytest.raises(TrainingError, match="remove it to train from the beginning"):
        trained(small, tmp_path / "run", batches=1)


def test_a_loss_that_is_no_number_ends_the_training(small, tmp_path):
    with pytest.raises(TrainingError, match="lower the learning rate"):
        trained(small, tmp_path / "run", batches=50, rate=1e30, clip=1e30)


def test_recipes_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="either `minutes` or `batches`"):
        Recipe()


def test_the_rate_rises_and_falls():
    recipe = Recipe(minutes=10, rate=1.0, warmup=0.1, last=0.1)
    rates = [recipe.rate_at(share / 100) for share in range(101)]
    assert rates[0] == pytest.approx(0.02)
    assert max(rates) == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2)
    assert rates[100] == pytest.approx(0.1)


CHILD = """
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_distill_training import trained
slowly = lambda _: time.sleep(0.02)  # so that it is killed in time, however late somebody looks
trained(Path({small!r}), Path({folder!r}), batches=60, save_every=0.0, report=slowly)
"""


@pytest.mark.kills
@pytest.mark.slow
def test_a_killed_training_goes_on_bit_for_bit(small, tmp_path):
    """SIGKILL at any moment, again and again, until it is through."""
    root = os.path.dirname(__file__)
    # Other tests of this process may have changed how torch computes, so that has a child too.
    code = CHILD.format(tests=root, small=str(small), folder=str(tmp_path / "whole"))
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)
    whole = read_checkpoint(tmp_path / "whole", torch.device("cpu"))
    folder = tmp_path / "killed"
    code = CHILD.format(tests=root, small=str(small), folder=str(folder))
    rng, kills = Random(0), 0
    while True:
        child = subprocess.Popen([sys.executable, "-c", code], cwd=root)
        while child.poll() is None and not (folder / FILE).exists():
            time.sleep(0.005)
        before = read_checkpoint(folder, torch.device("cpu")).batch if kills else 0
        while child.poll() is None:
            time.sleep(rng.random() * 0.05)
            state = read_checkpoint(folder, torch.device("cpu"))
            if state.batch >= before + 3 and kills < 2:
                child.send_signal(signal.SIGKILL)
                kills += 1
                break
        if child.wait() == 0:
            break
    assert kills == 2
    state = read_checkpoint(folder, torch.device("cpu"))
    assert state.batch == 60
    assert torch.equal(state.flat, whole.flat)
    assert state.right == whole.right


def test_a_batch_is_taught_however_long_the_first_evaluation_took(small, tmp_path):
    state, _ = trained(small, tmp_path / "late", minutes=1e-9)
    assert (state.batch, state.questions) == (1, 24)
