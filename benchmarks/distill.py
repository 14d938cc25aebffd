"""What teaching costs: questions learned per second, beside peft with transformers.

The questions are those of `llm-planning distill minecraft`. The peer learns them as it usually
does: padded batches of questions of similar length. Both start from one adapter, and a step is the
loss and the gradient of all questions. In float32 the two must agree in both before anything is
timed; then each runs in both types of numbers, and the faster of each counts.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.distill.adapters import LowRank
from llm_planning.distill.architecture import read_model
from llm_planning.distill.course import Course, lessons_of
from llm_planning.distill.crew import Crew
from llm_planning.distill.network import Network
from llm_planning.distill.peft_format import write_adapter
from llm_planning.distill.tokens import LessonTokenizer
from llm_planning.distill.trie import pack
from llm_planning.registry import exercise_makers, find_domain
from llm_serving.models import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.distill.tokens import Lesson
    from llm_planning.roles.exercises import Words

MODEL = "smollm2-135m-instruct"
RANK = 16
STATES = 1
REPEATS = 3
TOGETHER = 16
"""Questions of one padded batch of the peer."""

AGREEMENT = 2e-5
"""Relative difference of the losses, and of the lengths of the gradients."""

FEWER_TOKENS = 5.0
FASTER = 5.0
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def questions(tokenizer: LessonTokenizer, words: Words, states: int) -> list[Lesson]:
    """The lessons of one batch.

    Args:
        tokenizer: of the model.
        words: in which the planner asks.
        states: asked about.
    """
    makers = {
        id(maker): maker
        for maker in exercise_makers(find_domain("minecraft"), words=words).values()
    }
    planners = [(maker, maker.roles) for maker in makers.values() if maker.taught_words]
    return lessons_of(Course([planners], states=states, seed=0).exercises(0), tokenizer)


class Ours:
    """The network of this project, with an adapter that changes something."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        model = read_model(folder, dtype=dtype, device="cpu")
        self.learned = LowRank(model, rank=RANK, alpha=2.0 * RANK, seed=0)
        drawn = torch.Generator().manual_seed(0)
        self.learned.flat.add_(torch.randn(self.learned.flat.shape, generator=drawn), alpha=0.01)
        self.learned.refresh()
        self._network = Network(model, self.learned)

    def step(self, lessons: Sequence[Lesson]) -> tuple[float, float]:
        """Loss, and length of the gradient."""
        with closing(Crew(self._network, None)) as crew:
            rows = pack(lessons, multiple=crew.size)
            loss = sum(judged.loss for judged in crew.teach(rows, scale=1.0))
            return loss, float(crew.gradient.double().norm())


class Peft:
    """The peer: transformers' model with peft's adapter."""

    def __init__(self, folder: Path, adapter: Path, dtype: torch.dtype) -> None:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        base = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        self._model = PeftModel.from_pretrained(base, adapter, is_trainable=True)

    def step(self, lessons: Sequence[Lesson]) -> tuple[float, float]:
        """Loss, and length of the gradient."""
        self._model.zero_grad()
        loss = 0.0
        alike = sorted(lessons, key=lambda lesson: lesson.length)
        for start in range(0, len(alike), TOGETHER):
            loss += self._batch(alike[start : start + TOGETHER])
        squares = [
            float(weights.grad.double().square().sum())
            for weights in self._model.parameters()
            if weights.grad is not None
        ]
        return loss, sum(squares) ** 0.5

    def _batch(self, lessons: Sequence[Lesson]) -> float:
        longest = max(lesson.length for lesson in lessons)
        tokens = torch.zeros(len(lessons), longest, dtype=torch.long)
        mask, weights = torch.zeros_like(tokens), torch.zeros(len(lessons), longest)
        targets = torch.zeros_like(tokens)
        for row, lesson in enumerate(lessons):
            answer = slice(len(lesson.prompt) - 1, lesson.length)
            tokens[row, : lesson.length] = torch.tensor((*lesson.prompt, *lesson.answer[:-1]))
            mask[row, : lesson.length] = 1
            targets[row, answer] = torch.tensor(lesson.answer)
            weights[row, answer] = lesson.importance * torch.tensor(lesson.weights)
        logits = self._model(input_ids=tokens, attention_mask=mask).logits
        chosen = weights > 0
        losses = torch.nn.functional.cross_entropy(
            logits[chosen].float(), targets[chosen], reduction="none"
        )
        loss = (losses * weights[chosen]).sum()
        loss.backward()
        return loss.item()


def timed(step: Callable[[Sequence[Lesson]], object], lessons: Sequence[Lesson]) -> float:
    """Seconds of one step."""
    begun = perf_counter()
    step(lessons)
    return perf_counter() - begun


def compare(name: str, ours: tuple[float, float], theirs: tuple[float, float]) -> None:
    """Refuses to time arms that do not compute the same."""
    for what, our, their in zip(("losses", "gradients"), ours, theirs, strict=True):
        if abs(our - their) > AGREEMENT * abs(their):
            raise AnswersDifferError(f"{name}: the {what} are {our} and {their}")


def main() -> None:
    """Runs the benchmark."""
    command = parser(__doc__)
    command.add_argument("--states", type=int, default=STATES, help="states of a step")
    command.add_argument("--repeats", type=int, default=REPEATS, help="steps of each arm")
    options = command.parse_args()
    folder = resolve(MODEL).path
    tokenizer = LessonTokenizer(folder)
    lessons = questions(tokenizer, "taught", options.states)
    counts = {}
    ways: tuple[Words, ...] = ("taught", "general")
    for words in ways:
        asked = questions(tokenizer, words, options.states)
        counts[words] = (
            sum(lesson.length for lesson in asked) / len(asked),
            sum(len(row.tokens) for row in pack(asked, multiple=2)) / len(asked),
        )
    arms: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        adapter = Path(made)
        for name, dtype in DTYPES.items():
            ours = Ours(folder, dtype)
            write_adapter(adapter, ours.learned, base=MODEL, card={}, dtype=torch.float32)
            arms[f"ours {name}"] = ours
            arms[f"peft {name}"] = Peft(folder, adapter, dtype)
    answers = {name: arm.step(lessons) for name, arm in arms.items()}
    compare("float32", answers["ours float32"], answers["peft float32"])
    seconds = medians(
        {name: lambda arm=arm: timed(arm.step, lessons) for name, arm in arms.items()},
        repeats=options.repeats,
    )
    rates = {name: len(lessons) / spent for name, spent in seconds.items()}
    best = {who: max(rates[f"{who} {name}"] for name in DTYPES) for who in ("ours", "peft")}
    findings = [
        Finding(
            label="questions learned per second, ours over peft with transformers",
            measured=best["ours"] / best["peft"],
            unit="x",
            bound="at least",
            target=FASTER,
            details={
                "questions": len(lessons),
                **{f"{name}, questions/s": rate for name, rate in rates.items()},
                **{f"{name}, loss": loss for name, (loss, _) in answers.items()},
                **{f"{name}, gradient": size for name, (_, size) in answers.items()},
            },
        ),
        *(
            Finding(
                label=f"tokens of a question, one by one over shared beginnings, {words} words",
                measured=alone / shared,
                unit="x",
                bound="at least",
                target=FEWER_TOKENS,
                details={f"{words}, one by one": alone, f"{words}, shared": shared},
            )
            for words, (alone, shared) in counts.items()
        ),
    ]
    report("distill", findings, as_json=options.json)


if __name__ == "__main__":
    main()
