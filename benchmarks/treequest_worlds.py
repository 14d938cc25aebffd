"""Our `uct` beside treequest's standard MCTS on the same copies of worlds of Gymnasium.

Before each move both grow a new tree by as many simulations and take the action with the highest
mean return. A simulation of treequest is one generated child. What generates it is ours: the next
state, and a score in [0, 1], which is the return along the way to that state and of a random
rollout from there. So both take their steps in the same world, by the same bridge.

What its interface leaves unequal: a leaf is expanded by all of its actions before the tree is
entered again; a node keeps one drawn outcome of an action, where ours has a node for each; and the
exploration is weighted by a softmax of the scores of siblings.
"""

from __future__ import annotations

import asyncio
import csv
import os
import statistics
from collections import defaultdict
from dataclasses import astuple, dataclass, fields
from functools import cache, partial
from itertools import product
from pathlib import Path
from random import Random
from time import thread_time as clock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from harness import Finding, parser, report
from treequest import StandardMCTS

from llm_planning.environments.bridges.gymnasium_worlds import GymnasiumWorld
from llm_planning.execution.decisions import best_edge
from llm_planning.execution.episode import world_draws
from llm_planning.experiments.statistics import paired_proportions
from llm_planning.planners.any_domain.search_agents import DomainModel
from llm_planning.search import Node, by_sums, search, select_by_uct

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.bridges.gymnasium_worlds import Moment


class Limits(NamedTuple):
    """How a world is played.

    Attributes:
        moves: the most real ones.
        samples: treequest's of each action; its default is 2, and 1 shows all without chance.
    """

    moves: int
    samples: int


WORLDS = {"MiniGrid-Empty-5x5-v0": Limits(12, 1), "FrozenLake-v1": Limits(30, 2)}
RUNS = 200
SIMULATIONS = 100
"""By default, for each move."""

EXPLORATION = 1.0
GAMMA = 0.95
DEPTH = 10

Choose: TypeAlias = "Callable[[GymnasiumWorld, Moment, Random], str]"
"""Searches from a state, and returns the action that is taken."""


@dataclass(frozen=True, slots=True)
class Ran:
    """Both searches in a world.

    Attributes:
        world: its id.
        seed: of both.
        simulations: for each move.
        ours: whether ours reached the goal.
        theirs: whether treequest did.
        our_us: median time of our moves, in microseconds of CPU for a simulation.
        their_us: likewise of treequest's.
    """

    world: str
    seed: int
    simulations: int
    ours: bool
    theirs: bool
    our_us: float
    their_us: float


def our_choice(world: GymnasiumWorld, state: Moment, rng: Random, *, simulations: int) -> str:
    """As `uct` decides, from a new tree."""
    root: Node[Moment, str] = Node()
    model = DomainModel(
        world,
        state,
        history=(),
        past=(),
        now="",
        prior=None,
        gamma=GAMMA,
        depth=DEPTH,
        simulations=simulations,
    )
    asyncio.run(
        search(
            root,
            model,
            select=select_by_uct(c=EXPLORATION),
            backup=by_sums(gamma=GAMMA),
            simulations=simulations,
            max_depth=DEPTH,
            expand_at="second",
            rng=rng,
        )
    )
    edge = best_edge(root, rng)
    return edge.action if edge else ""


class Grown(NamedTuple):
    """What a node of treequest keeps.

    Attributes:
        action: that led to it.
        depth: actions from the root.
        gained: the discounted return from the root.
    """

    action: str
    state: Moment
    depth: int
    gained: float


def their_choice(
    world: GymnasiumWorld, state: Moment, rng: Random, *, simulations: int, samples: int
) -> str:
    """As treequest searches; the action of the highest mean score below the root."""
    start = Grown("", state, 0, 0.0)

    def generate(action: str, parent: Grown | None) -> tuple[Grown, float]:
        before = start if parent is None else parent
        if before.state.ended or before.depth == DEPTH:
            return before, before.gained
        step = world.step(before.state, action, rng)
        depth = before.depth + 1
        gained = before.gained + GAMMA**before.depth * step.reward
        return Grown(action, step.state, depth, gained), gained + rolled_out(step.state, depth)

    def rolled_out(now: Moment, depth: int) -> float:
        value = 0.0
        while not now.ended and depth < DEPTH:
            step = world.step(now, rng.choice(actions), rng)
            value += GAMMA**depth * step.reward
            now, depth = step.state, depth + 1
        return value

    actions = list(world.actions(state))
    mcts: Any = StandardMCTS(samples_per_action=samples, exploration_weight=EXPLORATION)
    tree = mcts.init_tree()
    for _ in range(simulations):
        tree = mcts.step(tree, {name: partial(generate, name) for name in actions}, inplace=True)
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for child in tree.tree.root.children:
        number = child.expand_idx
        scores[child.state.action] += [tree.value_sums[number] / tree.visit_counts[number]]
    means = {action: statistics.fmean(found) for action, found in scores.items()}
    best = max(means.values())
    return rng.choice([action for action, value in means.items() if value == best])


@cache
def opened(name: str) -> GymnasiumWorld:
    """A world, whose copies are tested when it is opened."""
    return GymnasiumWorld(name, sight="full")


def ran(name: str, seed: int, *, simulations: int) -> Ran:
    """Runs both in a world."""
    choices: list[Choose] = [
        partial(our_choice, simulations=simulations),
        partial(their_choice, simulations=simulations, samples=WORLDS[name].samples),
    ]
    won, us = [], []
    world = opened(name)
    for choose in choices:
        seconds: list[float] = []
        rng = Random(seed)

        draws = world_draws(seed)
        state = world.start(seed)
        while not state.ended and len(seconds) < WORLDS[name].moves:
            begun = clock()
            action = choose(world, state, rng)
            seconds.append(clock() - begun)
            state = world.step(state, action, draws).state
        won.append(bool(world.success(state)))
        us.append(round(statistics.median(seconds) / simulations * 1e6, 1))
    return Ran(name, seed, simulations, *won, *us)


def findings(runs: Sequence[Ran]) -> list[Finding]:
    """The lower bound of what our rate of success is above treequest's, world by world."""
    found = []
    for name in WORLDS:
        those = [run for run in runs if run.world == name]
        if not those:
            continue
        difference = paired_proportions([(run.ours, run.theirs) for run in those])
        details = {
            f"{name}: runs": len(those),
            f"{name}: success of ours": sum(run.ours for run in those),
            f"{name}: success of treequest": sum(run.theirs for run in those),
            f"{name}: difference": difference.value,
            f"{name}: µs a simulation, ours": statistics.median(run.our_us for run in those),
            f"{name}: µs a simulation, treequest's": statistics.median(
                run.their_us for run in those
            ),
        }
        finding = Finding(
            label=f"{name}: success of ours - treequest's, lower bound",
            measured=difference.low,
            unit="",
            bound="at least",
            target=-0.05,
            details=details,
        )
        found.append(finding)
    return found


def main() -> None:
    """Runs, and reports."""
    options = parser(__doc__)
    options.add_argument("--runs", type=int, default=RUNS, help="in each world")
    options.add_argument("--simulations", type=int, default=SIMULATIONS, help="for each move")
    options.add_argument("--csv", type=Path, help="a file that gets a line for each run")
    arguments = options.parse_args()
    runs: list[Ran] = []
    with (arguments.csv or Path(os.devnull)).open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(field.name for field in fields(Ran))
        for name, seed in product(WORLDS, range(arguments.runs)):
            runs.append(ran(name, seed, simulations=arguments.simulations))
            lines.writerow(astuple(runs[-1]))
            file.flush()
    report("treequest_worlds", findings(runs), as_json=arguments.json)


if __name__ == "__main__":
    main()
