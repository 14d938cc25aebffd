"""PUCT with a model's exact prior over actions, beside llm-reasoners' MCTS and its model class.

Twenty problems of four blocks; one search from the start of each, with equally many simulations,
over the same actions, each scored after the same prompt. The peer is given its best: prompts that
are ready, all actions of a state in one padded batch, no gradients, float32 as ours, and a process
of its own with all cores. Log-probabilities are compared before anything is timed.

Install the peer with `pip install --no-deps llm-reasoners==1.0.2 tqdm`, and peft, which it imports.
"""

from __future__ import annotations

import asyncio
import importlib.util
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

from bench_engine import MODEL, engine, forget
from harness import AnswersDifferError, Finding, medians, parser, report

from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.generator import FOUR_BLOCKS, problems
from llm_planning.planners.any_domain.roles import ActWording, Situation
from llm_planning.priors import ROLE, action_prompt, softmax
from llm_planning.roles import Engines, metered
from llm_planning.running import prepare_with, run_planner
from llm_serving.models import resolve
from llm_serving.request import ScoreRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_serving.vllm_engine import VllmEngine

SIMULATIONS = 4
DEPTH = 4
"""The peer's `depth_limit`: its rollouts end there. Ours end at once, with the world's score."""

EXPLORATION = 1.0
REPEATS = 3
TOLERANCE = 1e-3
FASTER = 10.0


@dataclass(frozen=True, slots=True)
class Place:
    """A state of a problem, as the peer's process needs it.

    Attributes:
        prompt: tokens of the question for its prior; none where nothing can be done.
        actions: tokens of each possible action, its terminator included.
        leads_to: numbers of the states that these lead to.
        score: of the state.
        won: whether the goal is reached.
    """

    prompt: tuple[int, ...]
    actions: tuple[tuple[int, ...], ...]
    leads_to: tuple[int, ...]
    score: float
    won: bool


def places(world: Blocksworld, opened: VllmEngine) -> list[Place]:
    """All states that can be reached, the start first."""
    wording, draws = ActWording(world), Random(0)
    states = [world.start(seed=0)]
    numbers = {states[0]: 0}
    found: list[Place] = []
    for state in states:
        actions = tuple(world.actions(state))
        names = tuple(map(str, actions))
        after = [world.step(state, action, draws).state for action in actions]
        for reached in after:
            if reached not in numbers:
                numbers[reached] = len(numbers)
                states.append(reached)
        asked = Situation((), world.describe(state), names)
        found.append(
            Place(
                prompt=action_prompt(opened, wording, asked).token_ids if names else (),
                actions=tuple(map(opened.choice_tokens, names)),
                leads_to=tuple(numbers[reached] for reached in after),
                score=world.score(state),
                won=world.success(state),
            )
        )
    return found


class Ours:
    """The planner `puct` on an engine.

    Args:
        opened: the engine.
        worlds: the problems.
        simulations: of a search.

    Attributes:
        questions: states whose prior was asked for in the last run.
    """

    def __init__(self, opened: VllmEngine, worlds: Sequence[Blocksworld], simulations: int) -> None:
        self._opened = opened
        self._worlds = worlds
        self._simulations = simulations
        self.questions = 0

    def scores(self) -> list[list[float]]:
        """Log-probabilities of the actions of every start, shape [problems][actions]."""

        async def score(world: Blocksworld) -> list[float]:
            state = world.start(seed=0)
            names = tuple(map(str, world.actions(state)))
            asked = Situation((), world.describe(state), names)
            prompt = action_prompt(self._opened, ActWording(world), asked)
            return list((await self._opened.score(ScoreRequest(prompt, names, role=ROLE))).logprobs)

        async def every() -> list[list[float]]:
            return [await score(world) for world in self._worlds]

        return asyncio.run(every())

    def search(self) -> float:
        """Searches once from each start.

        Returns:
            Seconds of all problems.
        """
        forget(self._opened)
        settings = {"simulations": self._simulations, "moves": 1, "c": EXPLORATION}
        self.questions = 0
        begun = perf_counter()
        for world in self._worlds:
            find = partial(prepare_with, "puct", world, settings=settings)
            record = asyncio.run(run_planner(find, metered(Engines(self._opened)), seed=0))
            record.result()
            self.questions += record.usage[ROLE].calls
        return perf_counter() - begun


# THE PEER, in a process of its own ---------------------------------------------------------------


@cache
def peer_model(folder: str, most: int) -> Any:  # noqa: ANN401
    """The peer's model class; `reasoners.lm` itself imports the packages of nine services.

    Args:
        folder: of the model.
        most: actions of a batch.
    """
    package = importlib.util.find_spec("reasoners")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).parent / "lm" / "hf_model.py"
    spec = importlib.util.spec_from_file_location("reasoners.lm.hf_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.HFModel(folder, folder, device="cpu", max_batch_size=most)
    model.model.float()
    return model


def peer_logprobs(model: Any, place: Place) -> list[float]:  # noqa: ANN401
    """Log p(action, terminator | prompt), shape [actions].

    Raises:
        AnswersDifferError: the peer's tokenizer reads the texts as other tokens.
    """
    import torch

    sequences = [place.prompt + action for action in place.actions]
    prefix, *texts = model.tokenizer.batch_decode([place.prompt, *sequences])
    if any(
        tuple(model.tokenizer(text, add_special_tokens=False).input_ids) != tokens
        for text, tokens in zip(texts, sequences, strict=True)
    ):
        raise AnswersDifferError("llm-reasoners reads a prompt as other tokens")
    with torch.no_grad():
        return [float(value) for value in model.get_loglikelihood(prefix, texts)]


class RapProblem:
    """A problem as llm-reasoners asks for it: a world model and a search configuration.

    As in its own Blocksworld, the reward known before a step is the model's for the action; after
    the step, what the state is worth is added.
    """

    def __init__(self, model: Any, found: Sequence[Place]) -> None:  # noqa: ANN401
        self._model = model
        self._places = found
        self._pi: Sequence[float] = ()
        self.questions = 0

    def init_state(self) -> int:
        """The start."""
        return 0

    def step(self, state: int, action: int) -> tuple[int, dict[str, Any]]:
        """The next state, and nothing to pass on to the reward."""
        return self._places[state].leads_to[action], {}

    def is_terminal(self, state: int) -> bool:
        """Whether the goal is reached."""
        return self._places[state].won

    def get_actions(self, state: int) -> Sequence[int]:
        """The possible actions; all are scored together here, for `fast_reward`."""
        place = self._places[state]
        self._pi = softmax(peer_logprobs(self._model, place), temperature=1.0)
        self.questions += 1
        return range(len(place.actions))

    def fast_reward(self, state: int, action: int) -> tuple[float, dict[str, Any]]:  # noqa: ARG002
        """π(a|s), as `get_actions` found it just before."""
        return self._pi[action], {"pi": self._pi[action]}

    def reward(self, state: int, action: int, *, pi: float) -> tuple[float, dict[str, Any]]:
        """π(a|s) and the score of the next state."""
        return pi + self._places[self._places[state].leads_to[action]].score, {}


def peer_scores(folder: str, problems: Sequence[Sequence[Place]]) -> list[list[float]]:
    """Log-probabilities of the actions of every start, shape [problems][actions]."""
    model = peer_model(folder, _most(problems))
    return [peer_logprobs(model, places[0]) for places in problems]


def peer_search(
    folder: str, problems: Sequence[Sequence[Place]], simulations: int
) -> tuple[float, int, int]:
    """Searches once from each start; the model is loaded already.

    Returns:
        Seconds of all problems, number of states whose actions were scored, and torch's threads.
    """
    import torch
    from reasoners.algorithm.mcts import MCTS

    model = peer_model(folder, _most(problems))
    questions, begun = 0, perf_counter()
    for places in problems:
        problem = RapProblem(model, places)
        MCTS(w_exp=EXPLORATION, depth_limit=DEPTH, n_iters=simulations)(problem, problem)
        questions += problem.questions
    return perf_counter() - begun, questions, torch.get_num_threads()


def _most(problems: Sequence[Sequence[Place]]) -> int:
    return max(len(place.actions) for places in problems for place in places)


# -------------------------------------------------------------------------------------------------


def compare(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """The largest difference of two log-probabilities, in nats.

    Raises:
        AnswersDifferError: it is larger than `TOLERANCE`.
    """
    gap = max(
        abs(a - b)
        for row, others in zip(ours, theirs, strict=True)
        for a, b in zip(row, others, strict=True)
    )
    if gap > TOLERANCE:
        raise AnswersDifferError(f"{gap:.2g} nats apart from llm-reasoners")
    return gap


def main() -> None:
    """Compares the numbers, then measures and reports."""
    options = parser(__doc__)
    options.add_argument("--simulations", type=int, default=SIMULATIONS, help="of each search")
    options.add_argument("--problems", type=int, default=20, help="so many of the twenty")
    arguments = options.parse_args()
    puzzles = problems(FOUR_BLOCKS, seed=1)[: arguments.problems]
    worlds = [Blocksworld(puzzle) for puzzle in puzzles]
    with engine() as opened:
        found = [places(world, opened) for world in worlds]
        ours = Ours(opened, worlds, arguments.simulations)
        scores = ours.scores()
        seconds = medians({"puct": ours.search}, repeats=REPEATS)["puct"]
    folder = str(resolve(MODEL).path)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as peer:
        gap = compare(scores, peer.submit(peer_scores, folder, found).result())
        theirs, asked, threads = peer.submit(
            peer_search, folder, found, arguments.simulations
        ).result()
    prompts = [len(place.prompt) for places in found for place in places if place.prompt]
    finding = Finding(
        label=f"llm-reasoners / puct, one search of {arguments.simulations} simulations",
        measured=theirs / seconds,
        unit="x",
        bound="at least",
        target=FASTER,
        details={
            "problems": len(worlds),
            "seconds_puct": seconds,
            "seconds_llm_reasoners": theirs,
            "states_asked_puct": ours.questions,
            "states_asked_llm_reasoners": asked,
            "peer_seconds_a_state_over_ours": theirs / asked * ours.questions / seconds,
            "gap_nats": gap,
            "prompt_tokens_least": min(prompts),
            "prompt_tokens_most": max(prompts),
            "peer_torch_threads": threads,
        },
    )
    report("blocksworld_rap", [finding], as_json=arguments.json)


if __name__ == "__main__":
    main()
