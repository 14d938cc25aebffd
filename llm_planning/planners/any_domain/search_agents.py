"""The agent that searches before every real move: PUCT and UCT are its settings.

The tree is kept from move to move. Simulations and the real world draw from different random
streams, so no simulation sees what will really happen.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from llm_planning.domain import (
    A,
    Believes,
    Domain,
    DomainError,
    RollsOut,
    S,
    Scores,
    Step,
    Turns,
    check_simulated,
)
from llm_planning.domain_calls import (
    actions_of,
    check_actions,
    check_step,
    finite_wanted,
    in_words,
    is_finite,
    observed,
    settled,
    simulated,
    tests_goal,
    with_goal_as_end,
    wrong_return,
)
from llm_planning.execution.decisions import Decision, best_edge, episode_outcome, statistics_of
from llm_planning.execution.episode import play_decided
from llm_planning.planners.any_domain.roles import ActAsking, Situation, Turn, seen
from llm_planning.planners.any_domain.settings import PuctSettings
from llm_planning.repeatable import (
    digest_of,
    elsewhere,
    is_watched,
    refuse_changed,
    twin_of,
    watched_step,
    without_global_draws,
)
from llm_planning.search import (
    Evaluation,
    ListedActions,
    Node,
    advance,
    advance_turns,
    by_sums,
    by_turns,
    search,
)
from llm_planning.settings import SettingsError
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from llm_planning.domain import History, Soon
    from llm_planning.execution.episode import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.planners.any_domain.settings import UctSettings
    from llm_planning.priors import Policy
    from llm_planning.search import Backup, Edge, Select, Walk
    from llm_planning.specs import Run

_BELIEVED = 100
"""States that are drawn from a belief for a trace. The trace says how often each was drawn."""

_LONGEST_STATE = 200
"""Characters of each drawn state that the trace keeps."""


async def search_agent(
    run: Run[Any, UctSettings], *, select: Callable[..., Select[Any, Any]]
) -> Outcome:
    """Before every move, searches, takes the best action and keeps the tree below it.

    Args:
        run: without settings for the prior, π is uniform.
        select: makes the selection rule from the constant `c`.
    """
    domain, settings, seed = run.world, run.settings, run.seed
    check_simulated(domain)
    game = GAMES[settings.against](domain, settings.gamma)
    prior, oracles = None, list[dict[str, object]]()
    if isinstance(settings, PuctSettings) and settings.prior != "uniform":
        asks = [ActAsking(side, run.engines, settings, seed=seed) for side in game.sides]
        prior = game.prior([ask.prior(settings) for ask in asks])
        oracles = [oracle for ask in asks for oracle in ask.oracles]
    rng = Random(f"search {seed}")
    root: Node[Any, Any] = Node()

    async def decide(
        episode: Episode[Any, Any],
        decisions: Sequence[Decision],  # noqa: ARG001 - the tree tells
    ) -> tuple[Any, Decision] | None:
        nonlocal root
        if episode.moves:
            last = episode.moves[-1]
            root = game.advance(root, last.action, last.step)
        history = tuple((move.action, move.step.seen) for move in episode.moves)
        await _trace_belief(domain, history, seed=seed)
        model = DomainModel(
            game.sides[0],
            state=episode.state,
            history=history,
            past=tuple(Turn(move.seen, str(move.action)) for move in episode.moves),
            now=episode.now,
            prior=prior,
            gamma=settings.gamma,
            depth=settings.depth,
            simulations=settings.simulations,
        )
        await search(
            root,
            model,
            select=select(c=settings.c),
            backup=game.backup,
            simulations=settings.simulations,
            width=settings.width,
            max_depth=None if isinstance(game.sides[0], Scores) else settings.depth,
            # A state that is met only once asks no model. At width 1 the tree is that of `first`.
            expand_at="second",
            rng=rng,
        )
        await model.refuse_drawing()
        edge = best_edge(root, rng)
        return None if edge is None else (edge.action, Decision(statistics_of(root)))

    episode, decisions = await play_decided(
        domain, decide, see=partial(seen, domain), moves=settings.moves, seed=seed
    )
    return await episode_outcome(
        run,
        episode,
        decisions,
        metrics={
            "simulations": settings.simulations * len(decisions),
            **_tried(decisions, settings.simulations),
        },
        oracles=oracles,
    )


def _tried(decisions: Sequence[Decision], simulations: int) -> dict[str, float]:
    """The share of actions that were tried where there were more equal ones than simulations."""
    visits = [
        option.visits != 0
        for options in (decision.options for decision in decisions)
        if len(options) > simulations and len({option.prior for option in options}) == 1
        for option in options
    ]
    return {"actions_tried": round(fmean(visits), 4)} if visits else {}


@dataclass(frozen=True, slots=True)
class Game:
    """Whose moves a tree has.

    Attributes:
        sides: the domain as each of them plays it, ours first.
        mover: the index in `sides` of who moves in a state.
        backup: makes Q.
        advance: finds the root of the next search; see `search.advance`.
    """

    sides: Sequence[Domain[Any, Any]]
    mover: Callable[[Any], int]
    backup: Backup[Any, Any]
    advance: Callable[[Node[Any, Any], Any, Step[Any]], Node[Any, Any]]

    def prior(self, priors: Sequence[Policy[Situation]]) -> Policy[Situation]:
        """π of who moves, from those of the sides; shape [sides]."""
        return lambda situation: priors[self.mover(situation.state)](situation)


def _alone(domain: Domain[Any, Any], gamma: float) -> Game:
    return Game((domain,), lambda _: 0, by_sums(gamma=gamma), advance)


def against_best(domain: Domain[Any, Any], gamma: float) -> Game:
    """A game of two, in which the tree has the moves of both.

    Raises:
        SettingsError: it is no such game, or its opponent cannot be searched.
        DomainError: its `sides` are no pair of domains.
    """
    if not isinstance(domain, Turns):
        raise SettingsError(
            "against=best needs a world that takes turns with an opponent, and this one does not: "
            "leave out against"
        )
    try:
        sides = domain.sides()
    except DomainError as error:
        raise SettingsError(str(error)) from error
    if not (
        isinstance(sides, Sequence)
        and len(sides) == 2
        and all(isinstance(side, Domain) for side in sides)
    ):
        raise wrong_return(domain, "sides", sides, "two domains, ours first")

    def mover(state: object) -> int:
        who = domain.mover(state)
        if who not in (0, 1):
            raise wrong_return(domain, "mover", who, "0 for us or 1 for the opponent")
        return who

    return Game(sides, mover, by_turns(gamma=gamma, mover=mover), advance_turns)


GAMES: Final[Mapping[str, Callable[[Domain[Any, Any], float], Game]]] = {
    "chance": _alone,
    "best": against_best,
}
"""Value of the setting `against` -> how the game is searched."""


async def _trace_belief(domain: Domain[Any, Any], history: History, *, seed: int) -> None:
    """Adds the belief to the trace: description of a state -> how many of `_BELIEVED` draws.

    The draws come from a random stream of their own, so that recording a trace changes nothing.
    """
    trace = tracing()
    if trace is None or not isinstance(domain, Believes):
        return
    rng = Random(f"belief {seed} {len(history)}")
    drawn = [await settled(domain.belief(history, rng)) for _ in range(_BELIEVED)]
    descriptions = [(await in_words(domain, "describe", state))[:_LONGEST_STATE] for state in drawn]
    trace.belief(dict(Counter(descriptions).most_common()))


async def uniform_rollout(
    domain: Domain[S, A],
    state: S,
    rng: Random,
    *,
    gamma: float,
    depth: int,
    take: Callable[[S, A, Random], Soon[Step[S]]] | None = None,
) -> float:
    """The discounted return of at most `depth` uniform actions; see `RollsOut`.

    Args:
        take: takes a step; by default the domain does, and nobody looks at it.
    """
    value = 0.0
    weight = 1.0
    take = take or domain.step
    has_goal = tests_goal(domain)
    for _ in range(depth):
        actions = domain.actions(state)
        # Most worlds list, step and tell at once, and a rollout asks at every step.
        if not isinstance(actions, tuple | list):
            actions = check_actions(domain, await settled(actions))
        if not actions:
            break
        action = actions[int(rng.random() * len(actions))]
        made = take(state, action, rng)
        step = check_step(domain, made if isinstance(made, Step) else await settled(made))
        value += weight * step.reward
        weight *= gamma
        if step.done or (has_goal and (await with_goal_as_end(domain, step)).done):
            break
        state = step.state
    return value


@dataclass
class DomainModel(ListedActions[S, A]):
    """A `SearchModel` over a domain's own dynamics.

    A domain with a belief is searched as a POMDP: simulations begin in states drawn from the
    belief, and a prior reads the actions and observations so far, never the state. In any other
    domain the state is known, and a prior reads what an agent sees of it, without its past. Equal
    views are then one question.

    Attributes:
        state: the episode's present state; unused in a domain with a belief.
        history: (action, observation) pairs of the episode.
        past: the same in words.
        now: what the agent sees at present.
        prior: π; None for the uniform one.
        gamma: γ of the rollouts.
        depth: actions from the root after which a rollout ends.
        simulations: of the search, if it bounds how many actions can be tried.
    """

    domain: Domain[S, A]
    state: S
    history: History
    past: tuple[Turn, ...]
    now: str
    prior: Policy[Situation] | None
    gamma: float
    depth: int
    simulations: int = sys.maxsize

    def __post_init__(self) -> None:
        domain = self.domain
        self._hidden: Believes[S] | None = domain if isinstance(domain, Believes) else None
        self._valued: Scores[S] | None = domain if isinstance(domain, Scores) else None
        self._rollout: Callable[..., Soon[float]] = partial(uniform_rollout, domain)
        self._evaluates = "score" if self._valued else "step or actions"
        if isinstance(domain, RollsOut) and not self._valued:
            self._rollout, self._evaluates = domain.rollout, "rollout"
        self._watched = is_watched(domain)
        self._drawn = elsewhere() if self._watched else None

    def draw_root(self, walk: Walk[S, A]) -> S | Awaitable[S]:
        """Returns the known state, or draws s ~ b(history)."""
        if self._hidden is None:
            return self.state
        draw, rng = partial(self._hidden.belief, self.history), walk.rng
        return without_global_draws(
            self.domain, "belief", partial(draw, rng), again=lambda: draw(twin_of(rng))
        )

    async def legal(self, state: S) -> Sequence[A]:
        """Returns the domain's actions."""
        return await actions_of(self.domain, state)

    async def step(self, state: S, action: A, rng: Random) -> Step[S]:
        """Takes a step of the domain. If it ends the episode, it is paid what the end is worth.

        That is its score, where the domain scores its states and the reward of the step has not
        paid it already: the search evaluates no end.
        """
        step = await simulated(self.domain, state, action, rng)
        if not step.done or self._valued is None:
            return step
        score = await self._value("score", self._valued.score(step.state))
        if score * step.reward > 0 and abs(score) <= abs(step.reward):
            return step
        return step._replace(reward=step.reward + self.gamma * score)

    async def expand(self, node: Node[S, A], walk: Walk[S, A]) -> Sequence[Edge[S, A]]:
        """See `ListedActions`. Of more equal actions than simulations some are drawn first."""
        edges = await super().expand(node, walk)
        if len(edges) <= self.simulations or len({edge.prior for edge in edges}) > 1:
            return edges
        return walk.rng.sample(edges, len(edges))

    async def evaluate(self, node: Node[S, A], walk: Walk[S, A]) -> Evaluation[S, A]:  # noqa: ARG002
        """Returns the domain's score of the state; without a score, rolls out uniform actions."""
        state = walk.state
        before = digest_of(state) if self._watched else None
        if self._valued is not None:
            value = await self._value("score", self._valued.score(state))
        else:
            depth = self.depth - walk.depth
            given = self._rollout(state, walk.rng, gamma=self.gamma, depth=depth)
            value = await self._value("rollout", given)
        if self._watched:
            refuse_changed(self.domain, self._evaluates, state, before)
        return Evaluation(tail=value)

    async def refuse_drawing(self) -> None:
        """Refuses a domain that drew from a global generator in an evaluation.

        Raises:
            DomainError: it did. Somebody drew since this model was made, and it draws again.
        """
        if not self._watched or elsewhere() == self._drawn or self._hidden is not None:
            return
        domain, gamma, depth = self.domain, self.gamma, self.depth
        if self._valued is not None:
            await settled(
                without_global_draws(domain, "score", partial(self._valued.score, self.state))
            )
            return
        rollout = partial(self._rollout, self.state, Random(0), gamma=gamma, depth=depth)
        if self._evaluates == "rollout":
            await settled(without_global_draws(domain, "rollout", rollout))
        else:
            await settled(rollout(take=partial(watched_step, domain)))

    async def _value(self, method: str, given: Soon[float]) -> float:
        value = await settled(given)
        if not is_finite(value):
            raise wrong_return(self.domain, method, value, finite_wanted(value))
        return float(value)

    async def pi(self, node: Node[S, A], walk: Walk[S, A], actions: Sequence[A]) -> Sequence[float]:
        """Asks for π, if there is someone to ask."""
        if self.prior is None:
            return await super().pi(node, walk, actions)
        names = tuple(map(str, actions))
        if self._hidden is None:
            view = await observed(self.domain, walk.state)
            return await self.prior(Situation((), view, names, state=walk.state))
        turns = list(self.past)
        now = self.now
        for edge, step in zip(walk.edges, walk.steps, strict=True):
            turns.append(Turn(now, str(edge.action)))
            now = await seen(self.domain, step)
        return await self.prior(Situation(tuple(turns), now, names))
