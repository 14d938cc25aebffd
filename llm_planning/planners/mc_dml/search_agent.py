"""The agent that searches before every move, and the statistics of its searches (Table 4).

At a bottleneck the action that pays at once is a bait (Figure 1). In a game that begins at a
bottleneck, the first search's statistics of the bait tell agents with and without ℳ_c apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.environments.textgame.game import Ending
from llm_planning.execution import episode as execution
from llm_planning.planners.any_domain.decisions import ActionStatistics, statistics_of
from llm_planning.planners.mc_dml.outcome import game_outcome, timed
from llm_planning.planners.mc_dml.roles import GameAsking, trajectory_of
from llm_planning.planners.mc_dml.search import (
    Position,
    SearchParts,
    best_action,
    observe,
    search_move,
)
from llm_planning.planners.mc_dml.settings import (
    DEATH,
    STUCK,
    CrossTrialSettings,
    LabelPriorSettings,
    ReflectionSettings,
)
from llm_planning.planners.mc_dml.worlds import as_text_game
from llm_planning.search import by_sums, by_weighted_returns
from llm_planning.settings import SettingsError
from llm_planning.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.textgame.domain import TextGameDomain
    from llm_planning.environments.textgame.game import Transition
    from llm_planning.outcome import Outcome
    from llm_planning.planners.mc_dml.roles import GameTurn, Trajectory
    from llm_planning.planners.mc_dml.settings import (
        FixedDepthSettings,
        GameSearchSettings,
        PrunedSettings,
    )
    from llm_planning.roles import Engines
    from llm_planning.search import Backup, Select
    from llm_planning.specs import Problem

UNIFORM = LabelPriorSettings.read({"prior": "uniform"})
"""The prior of agents without settings for it."""


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

    An agent without settings for the prior has a uniform π, and one without settings for
    reflections has no ℳ_c.

    Args:
        problem: a text game, or any domain that can be told as a text game.
        engines: answer the roles `prior` and `reflection`, unless rules do.
        settings: of the search.
        seed: of the rollouts and of draws between equal actions.
        past: turns of ℳ_i before o_t.
        select: makes the selection rule from the constant `c`.

    Raises:
        DomainError: the world hides its state.
        SettingsError: `stuck=wait` is for text games, and this is none.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    world = as_text_game(problem)
    waiting = Stopwatch()
    if settings.stuck == "wait" and world is not problem.world:
        raise SettingsError(
            f"setting stuck=wait is not possible: {problem.domain} is no text game, where one may "
            "always wait; leave it out"
        )
    asked = settings if isinstance(settings, LabelPriorSettings) else UNIFORM
    ask = GameAsking(world, engines, asked, seed=seed)
    prior = ask.prior(asked, absent=asked.prior_absent)
    k = settings.k if isinstance(settings, ReflectionSettings) else 0
    # Without ℳ_c the role is never asked, so it needs no answerer.
    reflecting = ask.reflect() if k else _never
    parts = SearchParts(
        prior=prior if asked.prior == "uniform" else timed(prior, waiting),
        past=past,
        reflect=timed(reflecting, waiting),
        k=k,
        select=select(c=settings.exploration(world.name)),
        depths=settings.depths,
        gamma=settings.gamma,
        simulations_per_action=settings.simulations_per_action,
        width=settings.width,
        backup=_backup(settings),
        reward=partial(_reward, death=settings.death_reward),
        reflects_on=_reflects_on(settings),
        stuck=STUCK if settings.stuck == "wait" else (),
    )
    episode, searches = await play_by_search(world, parts, moves=settings.moves, seed=seed)
    turns = trajectory_of(episode).turns
    outcome = await game_outcome(
        problem,
        world,
        episode,
        settings=settings,
        seed=seed,
        decisions=[one.to_json() for one in searches],
        seconds_engine=waiting.seconds,
        simulations=sum(one.simulations for one in searches),
        reflections=sum(len(one.reflections) for one in searches),
        priors=prior.questions,
        text=format_searches(turns, searches),
        oracles=ask.oracles,
    )
    if not searches:
        return outcome
    first = await first_move_metrics(world, searches[0].root, executed=turns[0].action, seed=seed)
    return replace(outcome, metrics={**outcome.metrics, **first})


def _backup(settings: GameSearchSettings) -> Backup[Transition, str]:
    if settings.values == "softmax":
        return by_weighted_returns(gamma=settings.gamma, temperature=settings.value_temperature)
    return by_sums(gamma=settings.gamma)


def _reward(made: Transition, *, death: float | None) -> float:
    return made.reward if death is None or DEATH not in made.text.lower() else death


def _reflects_on(settings: GameSearchSettings) -> frozenset[Ending]:
    at_any = isinstance(settings, CrossTrialSettings) and settings.reflect_at == "end"
    return frozenset(Ending if at_any else {Ending.FAILURE})


async def _never(_: Trajectory, /) -> str:
    raise AssertionError("an agent without ℳ_c does not reflect")


@dataclass(frozen=True, slots=True)
class MoveStatistics:
    """The result of the search for one move. Each action's statistics are a column of Table 4.

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
    """Plays a game: searches before every move with a fresh tree, and takes the best action.

    Args:
        world: the game. A state without actions ends the episode.
        parts: of the search.
        moves: the most moves of the episode.
        seed: of the rollouts, of draws between equal actions and of the world.

    Returns:
        The episode, and the search for each of its moves.

    Raises:
        TextGameError: the game failed.
        Exception: an error of a role, unchanged.
    """
    searches: list[MoveStatistics] = []

    async def choose(episode: execution.Episode[Transition, str]) -> str | execution.Stop:
        if not (parts.stuck or await world.actions(episode.state)):
            return execution.STOP
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
    """The first search's statistics of the greedy action and of the best other action.

    The greedy action is the action of s_0 with the highest reward, if that is above 0. It counts
    even if the search never visited it: such a search has not taken the bait.

    Args:
        world: the game; each action of s_0 is played in it once.
        root: statistics of all actions of s_0.
        executed: a_0.
        seed: of the world.

    Returns:
        greedy_first: whether a_0 is the greedy action.
        greedy_q, greedy_prior, greedy_visits: its Q(s_0, a), π(a|s_0) and N(s_0, a). Q is None if
            the search never visited it.
        patient_q, patient_prior, patient_visits: the same of the visited action with the highest Q
            among the others; missing if no other action was visited.
        An empty mapping if there is no greedy action.
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
    """Writes every move with the statistics of its root, best Q first, as an aligned table."""
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
