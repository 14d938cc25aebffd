"""How a game is played by search, and what a run reports: its moves, its cost, and Table 4.

At a bottleneck the action that pays at once is a bait (Figure 1). In a game that begins at a
bottleneck, the first search's statistics of the bait tell agents with and without ℳ_c apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from llm_planning.domain import check_simulated
from llm_planning.domain_calls import settled, stepped
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import GameSeconds
from llm_planning.execution.decisions import statistics_of
from llm_planning.execution.episode import play_decided, world_draws
from llm_planning.outcome import Outcome, score_text
from llm_planning.planners.mc_dml.algorithm import McDml, Position, Scene, best_action
from llm_planning.planners.mc_dml.roles import GameAsking, observe, text_of, trajectory_of
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_planning.domain import Domain
    from llm_planning.execution.decisions import ActionStatistics
    from llm_planning.execution.episode import Episode
    from llm_planning.planners.mc_dml.roles import GameTurn
    from llm_planning.planners.mc_dml.settings import GameSearchSettings
    from llm_planning.search import Select
    from llm_planning.specs import Run


async def mc_dml(
    run: Run[Any, GameSearchSettings], *, past: int, select: Callable[..., Select[Scene, Any]]
) -> Outcome:
    """Searches before every move of a game.

    Args:
        run: in a text game, or any other world that does not hide its state. Without settings for
            the prior, π is uniform; without those for reflections, there is no ℳ_c.
        past: turns of ℳ_i before o_t.
        select: makes the selection rule from the constant `c`.

    Raises:
        DomainError: the world hides its state, or its states cannot be simulated.
        SettingsError: `stuck=wait` is for text games, and this is none.
        TextGameError: the game cannot be played.
        ServingError: the engine failed.
    """
    settings, seed = run.settings, run.seed
    if settings.if_stuck and not isinstance(run.world, TextGameDomain):
        raise SettingsError(
            f"setting stuck=wait is not possible: {run.domain} is no text game, where one may "
            "always wait; leave it out"
        )
    ask = GameAsking(run, settings.asking)
    check_simulated(run.world)
    prior = ask.prior(settings.asking, absent=settings.asking.prior_absent)
    agent = McDml(
        domain=run.world,
        settings=settings,
        prior=prior if settings.asking.prior == "uniform" else ask.timed(prior),
        # Without ℳ_c the role is never asked, so it needs no answerer.
        reflect=ask.reflect() if settings.most_reflections else None,
        past=past,
        select=select(c=settings.exploration(game_of(run).name)),
    )
    episode, searches = await play_by_search(agent, moves=settings.moves, seed=seed)
    turns = trajectory_of(episode).turns
    outcome = await game_outcome(
        run,
        episode,
        decisions=[search.to_json() for search in searches],
        seconds_engine=ask.waiting.seconds,
        simulations=sum(search.simulations for search in searches),
        reflections=sum(len(search.reflections) for search in searches),
        priors=prior.questions,
        text=format_searches(turns, searches),
        oracles=ask.oracles,
    )
    if not searches:
        return outcome
    root, executed = searches[0].root, turns[0].action
    first = await first_move_metrics(run.world, root, executed=executed, seed=seed)
    return replace(outcome, metrics={**outcome.metrics, **first})


async def play_by_search(
    agent: McDml, *, moves: int, seed: int
) -> tuple[Episode[Any, Any], list[MoveStatistics]]:
    """Plays a game: searches before every move with a fresh tree, and takes the best action.

    Args:
        moves: the most moves of the episode.
        seed: of the rollouts, of draws between equal actions and of the world.

    Returns:
        The episode, and the search for each of its moves.
    """

    async def decide(
        episode: Episode[Any, Any], searches: Sequence[MoveStatistics]
    ) -> tuple[Any, MoveStatistics] | None:
        text = text_of(episode.moves[-1].step) if episode.moves else ""
        here = Scene(episode.state, text)
        if not await agent.actions(here):
            return None
        stream = f"{seed}/{len(searches)}"
        past = trajectory_of(episode)
        searched = await agent.search(Position(past.turns, here, past.score), rng=Random(stream))
        root = statistics_of(searched.root)
        statistics = MoveStatistics(
            root, searched.depth, searched.simulations, searched.reflections
        )
        return best_action(searched.root, Random(f"{stream}/tie")), statistics

    return await play_decided(
        agent.domain,
        decide,
        see=lambda step: observe(agent.domain, step.state, text_of(step)),
        moves=moves,
        seed=seed,
    )


class Game(NamedTuple):
    """What a report says of a game.

    Attributes:
        max_score: the highest possible score; 0 if unknown.
        seconds: what playing cost; nothing in a world that is no text game.
    """

    name: str
    max_score: float
    seconds: GameSeconds


def game_of(run: Run[Any, Any]) -> Game:
    """The game of a run; any other world is a game named after its task, without points."""
    world = run.world
    if isinstance(world, TextGameDomain):
        return Game(world.name, world.max_score, world.seconds)
    return Game(run.task, 0.0, GameSeconds())


async def game_outcome(
    run: Run[Any, Any],
    episode: Episode[Any, Any],
    *,
    decisions: Sequence[Mapping[str, Any]] = (),
    seconds_engine: float = 0.0,
    simulations: int = 0,
    reflections: int = 0,
    priors: int = 0,
    best_score: float | None = None,
    text: str = "",
    oracles: Sequence[Mapping[str, object]] = (),
) -> Outcome:
    """The outcome of a game.

    Only a game that ended in victory is a success. A game that was cut short is none, whatever its
    score. A game that ended, and of which nothing tells whether it is won, is not judged.

    Args:
        episode: the game as it was played; of several rounds, the last.
        decisions: how each move was chosen, JSON-able; one for each move, or none at all.
        seconds_engine: time with at least one question waiting for its answer.
        simulations: of all searches.
        reflections: number of kept reflections.
        priors: number of questions to the LLM policy.
        best_score: the highest score of all rounds; by default that of this episode.
        text: about the decisions, for people.
        oracles: descriptions of the roles that rules answered.
    """
    trajectory, execution = trajectory_of(episode), await episode.recorded()
    game, ending = game_of(run), trajectory.ending or "horizon"
    # Times and interpreter steps depend on which transitions were remembered.
    work = {
        "seconds_engine": seconds_engine,
        "seconds_valid_actions": game.seconds.valid_actions.seconds,
        "seconds_simulation": game.seconds.simulation,
        "interpreter_steps": game.seconds.steps,
    }
    moves = [
        {
            "observation": str(turn.observation),
            "action": turn.action,
            "reward": turn.reward,
            "score": turn.score,
        }
        for turn in trajectory.turns
    ]
    for move, decision in zip(moves, decisions, strict=bool(decisions)):
        move.update(decision)
    score, most = trajectory.score, game.max_score
    conclusion = f"{game.name}: {score_text(score, most)}, {ending}"
    return Outcome(
        success=execution.success,
        plan=tuple(turn.action for turn in trajectory.turns),
        metrics={
            **execution.metrics(),
            "game": game.name,
            "score": score,
            "best_score": trajectory.best_score if best_score is None else best_score,
            "max_score": most,
            "normalised_score": score / most if most else None,
            "moves": len(trajectory.turns),
            "ending": ending,
            "simulations": simulations,
            **work,
            "reflections": reflections,
            "priors": priors,
        },
        unrepeatable=frozenset(work),
        trace={
            **run.header,
            **({"oracles": list(oracles)} if oracles else {}),
            "game": game.name,
            "moves": moves,
            "last": str(trajectory.last),
            "ending": ending,
        },
        text="\n\n".join(part for part in (text, conclusion) if part),
        verdict=execution.untold,
    )


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
            "root": [action.to_json() for action in self.root],
            "depth": self.depth,
            "simulations": self.simulations,
            "reflections": list(self.reflections),
        }


async def first_move_metrics(
    world: Domain[Any, Any], root: Sequence[ActionStatistics], *, executed: str, seed: int
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
    start = await settled(world.start(seed))
    happening = world_draws(seed)
    named = {str(action): action for action in await settled(world.actions(start))}
    rewards = [
        (await stepped(world, start, named.get(row.action, row.action), happening)).reward
        for row in root
    ]
    if max(rewards) <= 0:
        return {}
    greedy = root[rewards.index(max(rewards))]
    metrics: dict[str, Any] = {
        "greedy_first": executed == greedy.action,
        "greedy_q": greedy.value if greedy.visits else None,
        "greedy_prior": greedy.prior,
        "greedy_visits": greedy.visits,
    }
    others = [row for row in root if row.visits and row is not greedy]
    if others:
        patient = max(others, key=lambda row: row.value or 0.0)
        metrics["patient_q"] = patient.value
        metrics["patient_prior"] = patient.prior
        metrics["patient_visits"] = patient.visits
    return metrics


def format_searches(turns: Sequence[GameTurn], searches: Sequence[MoveStatistics]) -> str:
    """Writes every move with the statistics of its root, best Q first, as an aligned table."""
    blocks = []
    for number, (turn, search) in enumerate(zip(turns, searches, strict=True), start=1):
        width = max(len(row.action) for row in search.root)
        lines = [
            f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
            f"H {search.depth}, {search.simulations} simulations)",
            f"   {'':{width}}  {'Q':>8}  {'prior':>5}  {'N':>6}",
        ]
        ranked = sorted(search.root, key=lambda row: (-(row.value or 0.0), -(row.visits or 0)))
        lines.extend(
            f"   {row.action:{width}}  {row.value:8.2f}  {row.prior:5.2f}  {row.visits:6d}"
            for row in ranked
        )
        lines.extend(f"   reflection: {reflection}" for reflection in search.reflections)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
