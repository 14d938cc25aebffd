"""A game played by searching before every move, and the statistics of those searches (Table 4).

At a bottleneck the action that pays at once is a bait (Figure 1). What the first search made of it,
in a game that begins at one, is what tells agents with and without ℳ_c apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning import execution
from llm_planning.planners.any_domain.decisions import ActionStatistics, statistics_of
from llm_planning.planners.mc_dml.outcome import game_outcome, timed
from llm_planning.planners.mc_dml.prompts import GameWording, reflect
from llm_planning.planners.mc_dml.roles import trajectory_of
from llm_planning.planners.mc_dml.search import (
    Position,
    SearchParts,
    best_action,
    observe,
    search_move,
)
from llm_planning.planners.mc_dml.settings import ReflectionSettings
from llm_planning.planners.mc_dml.worlds import as_text_game
from llm_planning.priors import PriorSettings, prior_as_set
from llm_planning.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.outcome import Outcome
    from llm_planning.planners.mc_dml.roles import GameTurn
    from llm_planning.planners.mc_dml.settings import FixedDepthSettings, PrunedSettings
    from llm_planning.roles import Engines
    from llm_planning.search import Select
    from llm_planning.specs import Problem

UNIFORM = PriorSettings.read({"prior": "uniform"})
"""π of those who have no setting for it."""


async def search_agent(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: PrunedSettings | FixedDepthSettings,
    seed: int,
    past: int,
    select: Callable[..., Select[Transition, str]],
) -> Outcome:
    """Searches before every move of a game.

    What an agent has no setting for, it does without: π is uniform, or ℳ_c stays empty.

    Args:
        problem: a text game, or any domain that is told as one.
        engines: who answers `prior` and `reflection`.
        settings: of the search.
        seed: of rollouts and of draws between equal actions.
        past: turns of ℳ_i before o_t.
        select: makes the selection rule of the constant `c`.

    Raises:
        DomainError: the world hides its state.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    world = as_text_game(problem)
    waiting = Stopwatch()
    asked = settings if isinstance(settings, PriorSettings) else UNIFORM
    prior = prior_as_set(asked, engines.of("prior"), wording=GameWording(), seed=seed)
    parts = SearchParts(
        prior=prior if asked.prior == "uniform" else timed(prior, waiting),
        past=past,
        reflect=timed(partial(reflect, engine=engines.of("reflection")), waiting),
        k=settings.k if isinstance(settings, ReflectionSettings) else 0,
        select=select(c=settings.exploration(world.name)),
        depths=settings.depths,
        gamma=settings.gamma,
        simulations_per_action=settings.simulations_per_action,
        width=settings.width,
    )
    episode, searches = await play_by_search(world, parts, moves=settings.moves, seed=seed)
    trajectory = trajectory_of(episode)
    outcome = game_outcome(
        problem,
        world,
        trajectory,
        await episode.recorded(),
        settings=settings,
        seed=seed,
        decisions=[one.to_json() for one in searches],
        seconds_engine=waiting.seconds,
        simulations=sum(one.simulations for one in searches),
        reflections=sum(len(one.reflections) for one in searches),
        priors=prior.questions,
        text=format_searches(trajectory.turns, searches),
    )
    if not searches:
        return outcome
    first = await first_move_metrics(
        world, searches[0].root, executed=trajectory.turns[0].action, seed=seed
    )
    return replace(outcome, metrics={**outcome.metrics, **first})


@dataclass(frozen=True, slots=True)
class MoveStatistics:
    """What the search for a move came to; of each action, a column of Table 4.

    Attributes:
        root: the statistics of every valid action.
        depth: H of the last tree.
        simulations: of all trees.
        reflections: ℳ_c at the end.
    """

    root: tuple[ActionStatistics, ...]
    depth: int
    simulations: int
    reflections: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "root": [one.to_json() for one in self.root],
            "depth": self.depth,
            "simulations": self.simulations,
            "reflections": list(self.reflections),
        }


async def play_by_search(
    world: TextGameDomain, parts: SearchParts, *, moves: int, seed: int
) -> tuple[execution.Episode[Transition, str], list[MoveStatistics]]:
    """Searches, executes the best action, and so on, with a fresh tree for every move.

    Args:
        world: from its start.
        parts: of the search.
        moves: most of them; a state in which nothing can be done ends the episode as well.
        seed: of rollouts, of draws between equal actions and of what happens in the world.

    Returns:
        The episode, and the search for each of its moves.

    Raises:
        TextGameError: the game failed.
        Exception: of whoever answers, unchanged.
    """
    searches: list[MoveStatistics] = []

    async def choose(episode: execution.Episode[Transition, str]) -> str | None:
        if not await world.actions(episode.state):
            return None
        stream = f"{seed}/{len(episode.moves)}"
        past = trajectory_of(episode)
        position = Position(past.turns, episode.state, past.score)
        found = await search_move(parts, world, position, rng=Random(stream))
        searches.append(
            MoveStatistics(
                statistics_of(found.root), found.depth, found.simulations, found.reflections
            )
        )
        return best_action(found.root, Random(f"{stream}/tie"))

    episode = await execution.play(
        world, choose, see=lambda step: observe(world, step.state), moves=moves, seed=seed
    )
    return episode, searches


async def first_move_metrics(
    world: TextGameDomain, root: Sequence[ActionStatistics], *, executed: str, seed: int
) -> dict[str, Any]:
    """What the first search thinks of the greedy action and of the best other one.

    Which action is greedy is the game's to say, whether the search visited it or not: a search that
    never did has not taken the bait.

    Args:
        world: that was searched; each action of s_0 is played in it once.
        root: statistics of all actions of s_0.
        executed: a_0.
        seed: of what happens in the world.

    Returns:
        greedy_first: whether a_0 is the greedy action, the one with the highest r > 0.
        greedy_q, greedy_prior, greedy_visits: its Q(s_0, a), None if it was never visited,
            π(a|s_0) and N(s_0, a).
        patient_q, patient_prior, patient_visits: those of the visited action with the highest Q
            among the others; missing where no other was visited.
        Nothing at all where no action pays at once.
    """
    start = await world.start(seed)
    happening = execution.world_draws(seed)
    rewards = [(await world.play(start, one.action, happening)).reward for one in root]
    if max(rewards) <= 0:
        return {}
    greedy = root[rewards.index(max(rewards))]
    metrics: dict[str, Any] = {
        "greedy_first": executed == greedy.action,
        "greedy_q": greedy.value if greedy.visits else None,
        "greedy_prior": greedy.prior,
        "greedy_visits": greedy.visits,
    }
    others = [one for one in root if one.visits and one is not greedy]
    if others:
        patient = max(others, key=lambda one: one.value or 0.0)
        metrics["patient_q"] = patient.value
        metrics["patient_prior"] = patient.prior
        metrics["patient_visits"] = patient.visits
    return metrics


def format_searches(turns: Sequence[GameTurn], searches: Sequence[MoveStatistics]) -> str:
    """Every move with the statistics of its root, best Q first, as an aligned table."""
    blocks = []
    for number, (turn, found) in enumerate(zip(turns, searches, strict=True), start=1):
        width = max(len(one.action) for one in found.root)
        lines = [
            f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
            f"H {found.depth}, {found.simulations} simulations)",
            f"   {'':{width}}  {'Q':>8}  {'prior':>5}  {'N':>6}",
        ]
        ranked = sorted(found.root, key=lambda one: (-(one.value or 0.0), -(one.visits or 0)))
        lines.extend(
            f"   {one.action:{width}}  {one.value:8.2f}  {one.prior:5.2f}  {one.visits:6d}"
            for one in ranked
        )
        lines.extend(f"   reflection: {reflection}" for reflection in found.reflections)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
