"""A home: rollouts beside one of objects, and a decision beside one that asks node by node.

Rollouts are of uniform random actions. The peer is a home as a newcomer writes it: rooms, places
and things are objects, the possible actions are listed anew for every step, and a rollout begins
with a copy of the home. Both walk by the same draws, and their walks are compared before
anything is timed. Tasks are the first of each class and home. Seconds are those the thread spent
computing.

The decision is the first of one task: Algorithm 1 of LLM-MCTS with the planner's defaults and the
bundled model's exact π. Ours asks for π at a node's second visit, several nodes at the same moment,
and the prefix cache keeps what prompts share. The peer asks when a node is made, one node after
another, and computes the prompt again for every action. Both search with the same draws. With one
simulation in flight, N, Q and π of all actions have to be equal; with several, the action.

The peer would take hours. Its search is answered by tail scoring. One in `SAMPLED` of its questions
is asked in its own way too: the log-probabilities are compared, and its seconds per token, times
the tokens of all its questions, are the peer's seconds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random
from time import perf_counter
from time import thread_time as clock
from typing import TYPE_CHECKING

from bench_engine import engine, forget, plain_scores
from harness import AnswersDifferError, Finding, medians, parser, report
from naive_home import ObjectHome

from llm_planning.environments.household.domain import Household
from llm_planning.environments.household.home import BUNDLED, bundled_home
from llm_planning.environments.household.observations import observation_text
from llm_planning.environments.household.rules import NOWHERE
from llm_planning.environments.household.simulator import Rollouts, Simulator
from llm_planning.environments.household.tasks import CLASSES, TaskMaker
from llm_planning.execution.decisions import best_edge, statistics_of
from llm_planning.planners.any_domain.roles import ActWording
from llm_planning.planners.llm_mcts.algorithm import Tree
from llm_planning.planners.llm_mcts.prior import make_policy, similar_instances, worked_examples
from llm_planning.planners.llm_mcts.roles import Past
from llm_planning.planners.llm_mcts.settings import LlmMctsSettings
from llm_planning.roles import Engines
from llm_planning.search import Node, by_sums, search, select_by_puct
from llm_serving.engine import MeteredEngine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.household.rules import Action, State
    from llm_planning.environments.household.tasks import Task
    from llm_planning.execution.decisions import ActionStatistics
    from llm_planning.planners.any_domain.roles import Situation
    from llm_planning.planners.llm_mcts.prior import PolicyKind
    from llm_planning.priors import Prior
    from llm_planning.search.driver import ExpandAt
    from llm_serving.engine import Engine
    from llm_serving.request import ScoreRequest, Scores
    from llm_serving.vllm_engine import VllmEngine

DEPTH = 30
REPEATS = 5
ROLLOUTS = 20
"""Of each task, one by one and with objects."""

SETTINGS = LlmMctsSettings()
WIDTH = 8
SAMPLED = 40
TOLERANCE = 1e-3
"""Nats, and differences of π."""

PAPER = 67.83
"""Seconds of a decision in the paper (Table 3), with GPT-3.5."""


def same_walks(task: Task) -> None:
    """Walks by the same draws in both forms.

    Raises:
        AnswersDifferError: they come to different states.
    """
    rules, draws = task.rules, Random(1)
    simulator = Simulator(rules)
    state = task.start
    objects = ObjectHome.of(rules, state)
    while not (objects.won() or state.steps >= rules.limit):
        share = draws.random()
        state = simulator.step(state, share)
        actions = objects.actions()
        objects.act(actions[int(share * len(actions))])
        place = objects.at and objects.at.name
        known = None if state.at == NOWHERE else rules.home.places[state.at].name
        lie = [tuple(sorted(thing.number for thing in place.things)) for place in objects.places]
        agree = (
            place == known
            and objects.room == rules.home.rooms[state.room]
            and tuple(lie) == state.places
        )
        if not agree:
            raise AnswersDifferError(f"{task.name}: the walks differ after action {state.steps}")


def one_by_one(tasks: Sequence[Task]) -> float:
    """Seconds of `ROLLOUTS` rollouts of each task, each by itself."""
    simulators = [(Simulator(task.rules), task.start) for task in tasks]
    rng = Random(1)
    begun = clock()
    for simulator, start in simulators:
        for _ in range(ROLLOUTS):
            simulator.rollout(start, depth=DEPTH, gamma=0.95, rng=rng)
    return clock() - begun


def with_objects(tasks: Sequence[Task]) -> float:
    """Seconds of `ROLLOUTS` rollouts of each task with objects."""
    homes = [ObjectHome.of(task.rules, task.start) for task in tasks]
    draw = Random(1).random
    begun = clock()
    for home in homes:
        for _ in range(ROLLOUTS):
            home.rollout(draw, depth=DEPTH)
    return clock() - begun


# A DECISION --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision, and what it took.

    Attributes:
        action: that was chosen.
        options: the statistics of all actions.
        seconds: of the search.
        questions: for π.
    """

    action: str
    options: tuple[ActionStatistics, ...]
    seconds: float
    questions: int


async def decide(
    world: Household, policy: Prior[Situation] | None, *, ask: ExpandAt, width: int
) -> Decided:
    """Decides at the start of a task.

    The first simulation adds the root, and π is asked for there, in both ways of asking. So their
    later simulations have the same draws.

    Args:
        world: the home. Every place is believed to be as likely as any other.
        policy: π; None for the uniform one.
        ask: the visit of a node at which π is asked for.
        width: simulations in flight at once.
    """
    rules, start, rng = world.rules, world.start(0), Random("search")
    belief = world.first_belief(start).filled(Random("others"))
    root: Node[State, Action] = Node()
    model = Tree(
        rules=rules,
        draw=belief.draw,
        actions=rules.actions,
        past=Past((), observation_text(belief.now, rules), belief),
        policy=policy,
        see=rules.observe,
        rollout=Rollouts(
            rules,
            each=SETTINGS.rollouts,
            gamma=SETTINGS.gamma,
        ),
        depth=SETTINGS.depth,
        reward=SETTINGS.goal_reward,
    )

    async def simulate(simulations: int, at: ExpandAt) -> None:
        await search(
            root,
            model,
            select=select_by_puct(c=SETTINGS.c),
            backup=by_sums(gamma=SETTINGS.gamma),
            simulations=simulations,
            width=width,
            max_depth=SETTINGS.depth,
            expand_at=at,
            rng=rng,
        )

    begun = perf_counter()
    await simulate(1, "first")
    await simulate(SETTINGS.simulations - 1, ask)
    best = best_edge(root, rng)
    seconds = perf_counter() - begun
    assert best is not None
    questions = 0 if policy is None else policy.questions
    return Decided(str(best.action), statistics_of(root), seconds, questions)


class NodeByNode(MeteredEngine):
    """Counts what an engine without a cache computes that scores every action by itself.

    Args:
        engine: answers.

    Attributes:
        tokens: that it would compute.
        tokens_once: that it would compute if it computed each prompt once.
        sampled: (seconds, tokens) of the questions that were asked so.
        gap: the largest difference of their log-probabilities, in nats.
    """

    def __init__(self, engine: VllmEngine) -> None:
        super().__init__(engine)
        self._opened = engine
        self.tokens = self.tokens_once = 0
        self.sampled: list[tuple[float, int]] = []
        self.gap = 0.0
        self._asked = 0

    async def score(self, request: ScoreRequest) -> Scores:
        """Scores as ours, and some of the questions plainly."""
        scores = await super().score(request)
        choices = request.choices
        encoded = self._opened.encode(request.prompt)
        prompted = len(encoded.token_ids)
        own = (self._opened.choice_tokens(c, behind=encoded.token_ids) for c in choices)
        written = sum(map(len, own))
        self.tokens += len(choices) * prompted + written
        self.tokens_once += prompted + written
        self._asked += 1
        if self._asked % SAMPLED == 1:
            begun = perf_counter()
            plainly, tokens = await plain_scores(self._opened, encoded, choices)
            self.sampled.append((perf_counter() - begun, tokens))
            gaps = (abs(a - b) for a, b in zip(plainly, scores.logprobs, strict=True))
            self.gap = max(self.gap, *gaps)
        return scores

    @property
    def seconds(self) -> float:
        """What its questions would take."""
        seconds, tokens = map(sum, zip(*self.sampled, strict=True))
        return self.tokens * seconds / tokens


def same_statistics(decided: Decided, other: Decided) -> bool:
    """Whether two searches agree in N, Q and π of every action."""
    pairs = zip(decided.options, other.options, strict=True)
    return decided.action == other.action and all(
        (a.action, a.visits, a.value) == (b.action, b.visits, b.value)
        and abs(a.prior - b.prior) < TOLERANCE
        for a, b in pairs
    )


def decision(task: Task) -> Finding:
    """Compares the searches of one decision with the bundled model, and times them.

    Raises:
        AnswersDifferError: they do not choose the same action, or log-probabilities differ.
    """
    world = Household(task)
    with engine() as opened:
        similar = similar_instances(world.goal, k=SETTINGS.examples, engine=opened)
        wording = ActWording(world, examples=worked_examples(asyncio.run(similar)))

        def run(asked: Engine, kind: PolicyKind, ask: ExpandAt, width: int) -> Decided:
            forget(opened)
            policy = make_policy(kind, Engines(asked), wording=wording, seed=0)
            return asyncio.run(decide(world, policy, ask=ask, width=width))

        # What is compiled at a first answer is compiled before.
        run(opened, "cosine", "second", WIDTH)
        ours = MeteredEngine(opened)
        lazily = run(ours, "exact", "second", WIDTH)
        in_turn = run(opened, "exact", "second", 1)
        drawn = run(opened, "cosine", "second", WIDTH)
        peer = NodeByNode(opened)
        created = run(peer, "exact", "first", 1)
    if peer.gap > TOLERANCE:
        raise AnswersDifferError(f"log-probabilities are {peer.gap} nats apart")
    if not same_statistics(created, in_turn):
        raise AnswersDifferError("asked at the second visit, the tree is another")
    if lazily.action != created.action:
        raise AnswersDifferError(f"{lazily.action!r} is chosen, not {created.action!r}")
    usage = ours.usage["prior"]
    return Finding(
        label=f"one decision of {SETTINGS.simulations} simulations, node by node over ours",
        measured=peer.seconds / lazily.seconds,
        unit="x",
        bound="at least",
        target=8,
        details={
            "task": task.name,
            "action": lazily.action,
            "seconds": lazily.seconds,
            "seconds_one_in_flight": in_turn.seconds,
            "seconds_with_drawn_answers": drawn.seconds,
            "seconds_of_the_paper": PAPER,
            "seconds_node_by_node": peer.seconds,
            "seconds_sampled": sum(seconds for seconds, _ in peer.sampled),
            "questions": lazily.questions,
            "questions_at_creation": created.questions,
            "tokens": usage.prompt_tokens - usage.cached_tokens,
            "tokens_node_by_node": peer.tokens,
            "tokens_node_by_node_each_prompt_once": peer.tokens_once,
            "tokens_sampled": sum(tokens for _, tokens in peer.sampled),
            "gap_nats": peer.gap,
        },
    )


def without_a_model(tasks: Sequence[Task]) -> float:
    """Seconds of a decision at the start of each task, without a model."""
    worlds = [Household(task) for task in tasks]
    begun = clock()
    for world in worlds:
        asyncio.run(decide(world, None, ask="second", width=1))
    return clock() - begun


def main() -> None:
    """Runs the benchmark."""
    options = parser(__doc__)
    options.add_argument("--no-model", action="store_true", help="leave out what asks the model")
    arguments = options.parse_args()
    makers = [TaskMaker(bundled_home(name)) for name in BUNDLED]
    tasks = [maker.task(name, 1, seed=1) for maker in makers for name in CLASSES]
    for task in tasks:
        same_walks(task)
    seconds = medians(
        {
            "one by one": lambda: one_by_one(tasks),
            "objects": lambda: with_objects(tasks),
            "decisions": lambda: without_a_model(tasks),
        },
        repeats=REPEATS,
    )
    # Hardly a random rollout reaches its goal, so nearly all have `DEPTH` actions.
    alone = len(tasks) * ROLLOUTS * DEPTH
    single, objects = alone / seconds["one by one"], alone / seconds["objects"]
    report(
        "household",
        [
            Finding(
                label="actions per second one by one",
                measured=single,
                unit="/s",
                bound="at least",
                target=200_000,
                details={"one by one over objects": single / objects},
            ),
            Finding(
                label=f"a decision of {SETTINGS.simulations} simulations without a model",
                measured=1000 * seconds["decisions"] / len(tasks),
                unit="ms",
                bound="at most",
                target=30,
            ),
            *([] if arguments.no_model else [decision(tasks[0])]),
        ],
        as_json=arguments.json,
    )


if __name__ == "__main__":
    main()
