"""The training loop: batches of fresh questions, for a time or a number of batches.

Questions are a pure function of the batch's number, and everything else that a batch depends on is
in the checkpoint. So a training that was killed goes on as if nothing had happened; with a number
of batches and float32 bit for bit. With a time the learning rate follows the clock, which counts
what was spent before as well.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import closing
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from llm_planning.distill.checkpoint import (
    Checkpoint,
    TrainingError,
    read_checkpoint,
    write_checkpoint,
)
from llm_planning.distill.crew import Crew
from llm_planning.distill.tokens import FORCED
from llm_planning.distill.trie import LONGEST_ROW, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from llm_planning.distill.network import Judged, Network
    from llm_planning.distill.tokens import Lesson
    from llm_planning.distill.trie import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a training learns.

    Attributes:
        minutes: it takes, evaluations and what was spent before a break included. The last
            evaluation has its time kept free, as long as the one before it took.
        batches: it takes, instead of a time.
        rate: the highest learning rate.
        warmup: share of the training in which the rate rises; then it falls with a cosine.
        last: share of the highest rate that is left at the end.
        momentum: of AdamW's mean gradient.
        memory: of AdamW's mean squared gradient.
        decay: of the weights, AdamW's.
        clip: the longest gradient; a longer one is scaled down.
        longest_row: tokens that one worker computes at once.
        save_every: seconds between checkpoints.
        examine_every: seconds between evaluations.
    """

    minutes: float | None = None
    batches: int | None = None
    rate: float = 8e-4
    warmup: float = 0.03
    last: float = 0.02
    momentum: float = 0.9
    memory: float = 0.99
    decay: float = 0.0
    clip: float = 1.0
    longest_row: int = LONGEST_ROW
    save_every: float = 60.0
    examine_every: float = 600.0

    def __post_init__(self) -> None:
        if (self.minutes is None) == (self.batches is None):
            raise ValueError("a recipe has either `minutes` or `batches`")

    def spent(self, batch: int, seconds: float, *, kept: float) -> float:
        """The share of the training that is over, 0 to 1.

        One batch is taught in any case: the first evaluation may take all the time.

        Args:
            kept: seconds that are kept free for the last evaluation.
        """
        if batch == 0:
            return 0.0
        if self.batches is not None:
            return min(batch / self.batches, 1.0)
        left = 60 * (self.minutes or 0) - kept
        return min(seconds / left, 1.0) if left > 0 else 1.0

    def rate_at(self, share: float) -> float:
        """The learning rate when a share of the training is over.

        Example:
            >>> from llm_planning.distill.training import Recipe
            >>> recipe = Recipe(batches=100, rate=1.0, warmup=0.1, last=0.0)
            >>> [round(recipe.rate_at(share), 3) for share in (0.05, 0.1, 0.55, 1.0)]
            [0.5, 1.0, 0.5, 0.0]
        """
        if share < self.warmup:
            # The first batch is at share 0 and learns as well.
            return self.rate * max(share / self.warmup, 0.02)
        fallen = (share - self.warmup) / (1 - self.warmup)
        cosine = (1 + math.cos(math.pi * fallen)) / 2
        return self.rate * (self.last + (1 - self.last) * cosine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a training is, after a batch.

    Attributes:
        batch: number of batches learned.
        questions: learned so far.
        computed: tokens that went through the network.
        one_by_one: tokens that would have, question by question.
        loss: of this batch, nats a deciding token.
        rate: the learning rate of this batch.
        right: role -> share of the last `MEMORY` fresh questions whose deciding tokens were all
            the most likely ones, before they were learned.
        seconds: spent so far, breaks left out.
        seconds_left: until the end, estimated where the recipe counts batches.
        questions_per_second: learned, over the whole training.
    """

    batch: int
    questions: int
    computed: int
    one_by_one: int
    loss: float
    rate: float
    right: Mapping[str, float]
    seconds: float
    seconds_left: float
    questions_per_second: float


def train(
    network: Network,
    lessons: Callable[[int], Sequence[Lesson]],
    recipe: Recipe,
    *,
    folder: Path,
    identity: Mapping[str, Any],
    report: Callable[[Progress], None],
    examine: Callable[[Network], Mapping[str, float]],
    workers: int | None = None,
) -> Checkpoint:
    """Trains a network, or goes on where a training of this folder was broken off.

    Args:
        lessons: of each batch, by its number; the same ones whenever it is asked.
        folder: exists, and gets the checkpoint.
        identity: of the model and the questions, JSON-able; a checkpoint of others is refused.
        report: is told of every batch.
        examine: says how good the network is, name -> figure; called now and then and at the end.
        workers: see `Crew`.

    Returns:
        The last checkpoint, with the curve of what `examine` said.

    Raises:
        TrainingError: the checkpoint in the folder is of another training, or damaged; the loss is
            not a number.
    """
    learned = network.learned
    # As a checkpoint gives it back: tuples are lists there.
    meant = json.loads(json.dumps({"identity": dict(identity), "recipe": asdict(recipe)}))
    state = read_checkpoint(folder, learned.flat.device) or Checkpoint.new(learned.flat, meant)
    _check_same(state.meant, meant, folder)
    if state.flat.shape != learned.flat.shape:
        raise TrainingError(f"{folder} holds a training of another size: train in another folder")
    learned.flat.copy_(state.flat)
    state.flat = learned.flat
    learned.refresh()
    before = state.seconds
    begun = saved = perf_counter()
    crew = Crew(network, workers)

    def elapsed() -> float:
        return before + perf_counter() - begun

    def save() -> None:
        state.seconds = elapsed()
        write_checkpoint(folder, state)

    with closing(crew):
        if not state.curve:
            _examine(state, network, examine, elapsed)
        # An evaluation that took less than the one before it leaves time, which nobody teaches in.
        while not state.over and (share := _spent(state, recipe, elapsed())) < 1.0:
            batch = lessons(state.batch)
            rate = recipe.rate_at(share)
            loss, computed = _batch(crew, batch, recipe, state)
            _step(state, crew.gradient, recipe, rate=rate)
            learned.refresh()
            state.batch += 1
            state.questions += len(batch)
            state.computed += computed
            state.one_by_one += sum(lesson.length for lesson in batch)
            now = elapsed()
            report(_progress(state, recipe, loss=loss, rate=rate, seconds=now))
            if now - state.examined >= recipe.examine_every:
                _examine(state, network, examine, elapsed)
            if perf_counter() - saved >= recipe.save_every:
                save()
                saved = perf_counter()
    if not state.curve or state.curve[-1]["questions"] != state.questions:
        _examine(state, network, examine, elapsed)
    state.over = True
    save()
    return state


def shares_right(
    network: Network,
    lessons: Sequence[Lesson],
) -> dict[str, float]:
    """Role -> share of lessons whose deciding tokens are all the most likely ones.

    Each is judged after the right tokens before it, whatever the network itself would have said,
    and without the constraint. So it is a cheap figure for a curve; asking through an engine says
    what the answers are worth.
    """
    right: Counter[str] = Counter()
    with closing(Crew(network, None)) as crew:
        rows = pack(lessons, multiple=crew.size)
        judged = crew.judge(rows)
    for row, judgement in zip(rows, judged, strict=True):
        whole = _whole_answers(row, judgement, lessons)
        right.update(lessons[number].role for number, good in whole.items() if good)
    total = Counter(lesson.role for lesson in lessons)
    return {role: right[role] / count for role, count in total.items()}


def _batch(
    crew: Crew, batch: Sequence[Lesson], recipe: Recipe, state: Checkpoint
) -> tuple[float, int]:
    """Computes the gradient of a batch; returns its loss and the tokens computed."""
    if not batch:
        raise TrainingError("a batch has no questions: check the maker of the exercises")
    total = sum(lesson.importance * sum(lesson.weights) for lesson in batch)
    rows = pack(batch, longest_row=recipe.longest_row, multiple=crew.size)
    judged = crew.teach(rows, scale=1 / total)
    for row, judgement in zip(rows, judged, strict=True):
        for number, right in _whole_answers(row, judgement, batch).items():
            state.count(batch[number].role, right=right)
    loss = sum(judgement.loss for judgement in judged) / total
    if not math.isfinite(loss):
        raise TrainingError("the loss is not a number: lower the learning rate")
    return loss, sum(len(row.tokens) for row in rows)


def _whole_answers(row: Row, judged: Judged, lessons: Sequence[Lesson]) -> dict[int, bool]:
    """Lesson -> whether all of its deciding tokens are the most likely ones."""
    whole: dict[int, bool] = {}
    for number, place, right in zip(row.lessons, row.places, judged.right, strict=True):
        decides = lessons[number].weights[place] > FORCED
        whole[number] = whole.get(number, True) and (right or not decides)
    return whole


def _step(state: Checkpoint, gradient: torch.Tensor, recipe: Recipe, *, rate: float) -> None:
    """One step of AdamW (Loshchilov & Hutter 2019)."""
    with torch.no_grad():
        # Summed up in float32, millions of squares are off by a thousandth.
        size = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
        if not math.isfinite(size):
            raise TrainingError("the gradient is not a number: lower the learning rate")
        gradient.mul_(min(1.0, recipe.clip / max(size, 1e-12)))
        number = state.batch + 1
        state.mean.lerp_(gradient, 1 - recipe.momentum)
        state.square.mul_(recipe.memory).addcmul_(gradient, gradient, value=1 - recipe.memory)
        if recipe.decay:
            state.flat.mul_(1 - rate * recipe.decay)
        unbiased = math.sqrt(1 - recipe.memory**number)
        spread = state.square.sqrt().div_(unbiased).add_(1e-8)
        state.flat.addcdiv_(state.mean, spread, value=-rate / (1 - recipe.momentum**number))


def _examine(
    state: Checkpoint,
    network: Network,
    examine: Callable[[Network], Mapping[str, float]],
    elapsed: Callable[[], float],
) -> None:
    begun = elapsed()
    figures = dict(examine(network))
    state.examined = elapsed()
    state.curve.append(
        {
            "batch": state.batch,
            "questions": state.questions,
            "seconds": round(state.examined, 1),
            "took": round(state.examined - begun, 1),
            "figures": figures,
        }
    )


def _spent(state: Checkpoint, recipe: Recipe, seconds: float) -> float:
    return recipe.spent(state.batch, seconds, kept=state.curve[-1]["took"])


def _progress(
    state: Checkpoint,
    recipe: Recipe,
    *,
    loss: float,
    rate: float,
    seconds: float,
) -> Progress:
    share = _spent(state, recipe, seconds)
    return Progress(
        batch=state.batch,
        questions=state.questions,
        computed=state.computed,
        one_by_one=state.one_by_one,
        loss=loss,
        rate=rate,
        right=dict(state.right),
        seconds=seconds,
        seconds_left=seconds / share - seconds if share else 0.0,
        questions_per_second=state.questions / seconds,
    )


def _check_same(saved: Mapping[str, Any], meant: Mapping[str, Any], folder: Path) -> None:
    for part in ("identity", "recipe"):
        for key in sorted(saved[part].keys() | meant[part].keys()):
            here, there = saved[part].get(key), meant[part].get(key)
            if here != there:
                raise TrainingError(
                    f"{folder} holds a training with {key} {here!r}, not {there!r}: go on with the "
                    "same settings, or train in another folder"
                )
