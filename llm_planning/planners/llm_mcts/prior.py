"""π(a|h) from sampled answers in free words, and the worked examples that they are drawn with.

Source: LLM-MCTS, Section 2.3. M answers are drawn. α_i is the first action of answer i, in words
that need not be an admissible action's. It counts for each admissible action by the cosine
similarity of their sentence embeddings:

    π̂(a|h) = λ 1/|A| + (1 - λ) softmax_a(Σ_i CosineSim(α_i, a) - η)

η is the mean of the sum over all admissible actions. It cancels in the softmax. This π̂ is flat:
where five answers agree, their action has some fifteen times the weight of one that has nothing in
common with them, and there are dozens of those. The authors' code is sharp: it takes the softmax of
every answer by itself, of 100 (cos - mean), and then the mean of these.

cosine        the paper's formula.
cosine-each   the authors' code, in the search.
nearest       the authors' code, in the baseline without search: each answer is the admissible
              action that is most similar to it, and one of the answers is taken.

The K worked examples are training instructions most similar to a task's, each with a right
decision. The paper shows the expert's trajectories of the K instructions. The authors' code shows
one step of each: the one whose observation is most similar to the current one. That step changes
with every question, so no two prompts begin alike. Here the steps are chosen once for a task, so
all of its prompts begin with the same examples, and the prefix cache keeps them.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from llm_kernels.index import EmbeddingIndex
from llm_planning.environments.household.goals import goal_text
from llm_planning.environments.household.observations import observation_text
from llm_planning.environments.household.rules import CLOSE, GRAB, OPEN, PUT, WALK
from llm_planning.environments.household.tasks import prompt_numbers, trajectories
from llm_planning.priors import ROLE, Prior, PriorKind, action_prompt, make_prior
from llm_serving.answers import Constraint
from llm_serving.engine import draw
from llm_serving.patterns import finite_regex, or_words
from llm_serving.request import Request, Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from llm_planning.environments.household.tasks import Trajectory
    from llm_planning.planners.any_domain.roles import Situation
    from llm_planning.priors import Wording
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine


PolicyKind: TypeAlias = Literal[PriorKind, "cosine", "cosine-each", "nearest"]
"""How π is found: a way of asking of `priors`, or answers in free words."""

SIMILARITY: Final = "similarity"
"""The role under which the engine counts embeddings."""

SAMPLES: Final = 5
"""M, as in the authors' code; the paper does not say."""

TEMPERATURE: Final = 0.6
"""Temperature of the answers, as in the authors' code; the paper does not say."""

ANSWERS: Final = Sampling(temperature=TEMPERATURE)

MIXTURE: Final = 0.5
"""λ, as in the authors' code; the paper does not say."""

SCALE: Final[Mapping[PolicyKind, float]] = MappingProxyType({"cosine": 1.0, "cosine-each": 100.0})
"""What multiplies the similarities in the softmax; `nearest` has none."""

# Words of letters, three at most. Blanks anywhere in a name would make outlines compile "put" for a
# second, because each of them could begin "inside the".
_NAME: Final = "[A-Za-z]{2,12}( [a-z]{2,12}){0,2}"
_ACTION: Final = finite_regex(
    f"(({WALK}|{OPEN}|{CLOSE}|{GRAB}) the {_NAME}|{PUT} the {_NAME} (inside|on) the {_NAME})"
)


def language(actions: Iterable[str]) -> Constraint:
    """The language of α_i: an action of Appendix A.4 with free names, which the home need not have.

    Admissible actions with odd names can be written as well.
    """
    answer = or_words(_ACTION, actions)
    return Constraint(answer.regex, answer.max_bytes)


def make_policy(
    kind: PolicyKind,
    engines: Engines,
    *,
    wording: Wording[Situation],
    temperature: float | None = None,
    mixture: float = MIXTURE,
    samples: int = SAMPLES,
    sampling: Sampling = ANSWERS,
    scale: float | None = None,
    seed: int = 0,
) -> Prior[Situation]:
    """Makes π of a kind.

    Args:
        engines: the engine of `prior` answers, the default one embeds.
        temperature: of the softmax; by default that of `priors`, and 1 for answers in free words.
        mixture: λ.
        samples: M, the number of draws; also of `sample`.
        sampling: of answers in free words, but for its seed.
        scale: of the similarities; by default `SCALE` of the kind. Other kinds have none.
    """
    weigh: Callable[[NDArray[np.float64]], list[float]]
    match kind:
        case "cosine":
            weigh = partial(log_policy, scale=scale or SCALE[kind])
        case "cosine-each":
            weigh = partial(log_policy_of_each, scale=scale or SCALE[kind])
        case "nearest":
            weigh = log_shares
        case _:
            return make_prior(
                kind,
                engines.of(ROLE),
                wording=wording,
                temperature=temperature,
                mixture=mixture,
                seed=seed,
                samples=samples,
            )
    drawn = replace(sampling, seed=seed)
    free_words = _FreeWords(engines, wording=wording, samples=samples, sampling=drawn)

    async def estimate(question: Situation) -> Sequence[float]:
        return weigh(await free_words.similarities(question))

    return Prior(estimate, wording=wording, temperature=temperature or 1.0, mixture=mixture)


def log_policy(similarities: NDArray[np.float64], *, scale: float) -> list[float]:
    """Σ_i CosineSim(α_i, a) - η, which is log π̂ without the mixture, up to a constant.

    Args:
        similarities: CosineSim(α_i, a), shape [samples, actions].
        scale: a factor of the similarities, 1 in the paper.

    Returns:
        Shape [actions].
    """
    total = scale * similarities.sum(axis=0)
    eta = total.mean()
    weights: list[float] = (total - eta).tolist()
    return weights


def log_policy_of_each(similarities: NDArray[np.float64], *, scale: float) -> list[float]:
    """Log of the mean over i of softmax_a(scale (CosineSim(α_i, a) - η_i)), as the authors' code.

    η_i is the mean of CosineSim(α_i, a) over the actions.

    Args:
        similarities: CosineSim(α_i, a), shape [samples, actions].
        scale: a factor of the similarities, 100 in the authors' code.

    Returns:
        Shape [actions].
    """
    weights = scale * (similarities - similarities.mean(axis=1, keepdims=True))
    each = weights - np.logaddexp.reduce(weights, axis=1, keepdims=True)
    mean: list[float] = (np.logaddexp.reduce(each, axis=0) - np.log(len(each))).tolist()
    return mean


def log_shares(similarities: NDArray[np.float64]) -> list[float]:
    """Log of the share of answers to which each action is the nearest, the first of equals.

    Args:
        similarities: CosineSim(α_i, a), shape [samples, actions].

    Returns:
        Shape [actions], -inf for an action that is the nearest to no answer.
    """
    samples, actions = similarities.shape
    nearest = np.bincount(similarities.argmax(axis=1), minlength=actions)
    with np.errstate(divide="ignore"):
        shares: list[float] = np.log(nearest / samples).tolist()
    return shares


class _FreeWords:
    """How similar drawn answers in free words are to the admissible actions."""

    def __init__(
        self,
        engines: Engines,
        *,
        wording: Wording[Situation],
        samples: int,
        sampling: Sampling,
    ) -> None:
        self._engine = engines.of(ROLE)
        self._vectors = Vectors(engines.default)
        self._wording = wording
        self._samples = samples
        self._sampling = sampling

    async def similarities(self, question: Situation) -> NDArray[np.float64]:
        """CosineSim(α_i, a), shape [samples, actions]."""
        actions = self._wording.actions(question)
        request = Request(
            prompt=action_prompt(self._engine, self._wording, question),
            sampling=self._sampling,
            constraint=language(actions),
            role=ROLE,
        )
        answers = [answer.text for answer in await draw(self._engine, request, self._samples)]
        vectors = await self._vectors.of([*answers, *actions])
        similar: NDArray[np.float64] = vectors[: len(answers)] @ vectors[len(answers) :].T
        return similar


class Vectors:
    """Unit vectors of texts. Each text is embedded once."""

    def __init__(self, engine: Engine) -> None:
        self._embed = partial(engine.embed, role=SIMILARITY)
        self._known: dict[str, NDArray[np.float64]] = {}
        self._learning = asyncio.Lock()

    async def of(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """The vectors of texts, shape [texts, D].

        Raises:
            ServingError: the engine failed.
        """
        listed = list(texts)
        async with self._learning:
            new = list(dict.fromkeys(text for text in listed if text not in self._known))
            if new:
                vectors = (await self._embed(new)).astype(np.float64)
                self._known.update(zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in listed])


EXAMPLES: Final = 3
"""K, as in the authors' code; the paper does not say."""

TRAINING_SEED: Final = 1
"""Of the training tasks: all runs share them, so their instructions are embedded once."""


async def similar_instances(instruction: str, *, k: int, engine: Engine) -> list[Trajectory]:
    """The K training tasks whose instructions are most similar, the most similar first.

    Args:
        instruction: ℓ, the goal in words.
        k: K, at least 1.
        engine: embeds the instructions; its cache keeps their vectors.

    Returns:
        The expert's trajectories, shape [k].

    Raises:
        ServingError: the engine failed.
    """
    known = _instances()
    vectors = await engine.embed([instruction, *map(instruction_of, known)], role=SIMILARITY)
    index = EmbeddingIndex(vectors.shape[1])
    index.add(map(str, range(len(known))), vectors[1:])
    return [known[int(match.key)] for match in index.search(vectors[0], k)]


@cache
def _instances() -> tuple[Trajectory, ...]:
    """The training tasks that prompts may show: 200, in the home `seen`."""
    return tuple(trajectories(seed=TRAINING_SEED, numbers=prompt_numbers(seed=TRAINING_SEED)))


def instruction_of(instance: Trajectory) -> str:
    """ℓ_i, the goal in words."""
    return goal_text(instance.task.rules.goal, instance.task.rules.home)


def worked_examples(instances: Sequence[Trajectory]) -> tuple[tuple[str, str], ...]:
    """One decision of each trajectory, as `ActWording` takes them.

    Trajectory i of K, from 0, shows the step at (2 i + 1) / 2K of its length: the first one an
    early decision, the last one a late decision with nearly all that was done before.

    Args:
        instances: the trajectories, shape [K].

    Returns:
        (state in words, action), shape [K].
    """
    count = 2 * len(instances)
    return tuple(
        _decision(instance, len(instance.actions) * (2 * i + 1) // count)
        for i, instance in enumerate(instances)
    )


def _decision(instance: Trajectory, step: int) -> tuple[str, str]:
    rules = instance.task.rules
    done = ", ".join(map(str, instance.actions[:step]))
    lines = (
        f"Goal: {instruction_of(instance)}",
        *((f"Completed actions: {done}",) if done else ()),
        f"Now: {observation_text(rules.observe(instance.states[step]), rules)}",
    )
    return "\n".join(lines), str(instance.actions[step])
