"""The planners of a home: LLM-MCTS, LLM-MCTS+ and the policy alone.

Each acts move by move. LLM-MCTS and LLM-MCTS+ search before each move, and the real observation
updates their belief (Sections 2.2 to 2.4).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from math import inf
from random import Random
from statistics import fmean
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from llm_planning.domain import Step
from llm_planning.environments.household.observations import observation_text
from llm_planning.execution.episode import STOP, play
from llm_planning.planners.any_domain.decisions import (
    ActionStatistics,
    Decision,
    episode_outcome,
    statistics_of,
    visited,
)
from llm_planning.planners.any_domain.roles import Situation
from llm_planning.planners.any_domain.search_agents import best_edge
from llm_planning.planners.llm_mcts.asking import HomeAsking
from llm_planning.planners.llm_mcts.description import model_bits, policy_bits
from llm_planning.planners.llm_mcts.failures import failure_metrics
from llm_planning.planners.llm_mcts.interpretation import reached_as_read, translated
from llm_planning.planners.llm_mcts.search import (
    BelievedHome,
    GoalRegression,
    Past,
    UniformRollouts,
    by_regret,
)
from llm_planning.planners.llm_mcts.settings import SearchSettings
from llm_planning.search import (
    Node,
    advance,
    argmax,
    by_sums,
    by_weighted_returns,
    search,
    select_by_puct,
    select_by_uct,
)
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.belief import Prior as Places
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Action, State
    from llm_planning.execution.episode import Episode, Stop
    from llm_planning.outcome import Outcome
    from llm_planning.planners.llm_mcts.settings import (
        LlmMctsPlusSettings,
        LlmMctsSettings,
        PolicySettings,
    )
    from llm_planning.roles import Engines
    from llm_planning.search import Backup, Edge, Select
    from llm_planning.specs import Problem


@dataclass(frozen=True, slots=True)
class Mind:
    """What an agent believes, and what it has seen and done.

    Attributes:
        belief: b(s), which the search draws from.
        past: h, which the policy reads.
        last: the last action and what was seen then; None at the start.
    """

    belief: Belief
    past: Past
    last: tuple[Action, Observation] | None = None

    def then(self, action: Action, seen: Observation) -> Mind:
        """The mind after a real action and what is seen then."""
        return Mind(self.belief.after(seen), self.past.then(action, seen), (action, seen))


_SELECTION: Final = {"puct": select_by_puct, "uct": select_by_uct}


class Choice(NamedTuple):
    """The next action.

    Attributes:
        action: to take.
        how: it was chosen.
        simulations: that were run for it.
    """

    action: Action
    how: Decision
    simulations: int = 0


class Decide(Protocol):
    """Chooses the next action."""

    async def __call__(self, mind: Mind) -> Choice | None:
        """Returns the choice; None if no action is possible."""
        ...


async def llm_mcts(
    problem: Problem[KnownHousehold], *, engines: Engines, settings: LlmMctsSettings, seed: int
) -> Outcome:
    """LLM-MCTS: Algorithm 1 before every move, with a new tree.

    Raises:
        ServingError: the engine failed.
    """
    asking = HomeAsking(problem, engines, settings, seed=seed)
    await asking.ask_for_goal()
    if settings.selection == "puct":
        await asking.ask_for_policy()
    places = await asking.ask_for_places(settings)
    rules = asking.world.rules
    rng = Random(f"search {seed}")
    value = UniformRollouts(
        rules,
        each=settings.rollouts,
        depth=settings.depth,
        gamma=settings.gamma,
        width=settings.width,
    )
    rule: Callable[..., Select[State, Action]] = _SELECTION[settings.selection]
    select = rule(c=settings.c)
    means: Backup[State, Action] = by_sums(gamma=settings.gamma)
    weighted: Backup[State, Action] = by_weighted_returns(
        gamma=settings.gamma, temperature=settings.value_temperature
    )

    async def decide(mind: Mind) -> Choice | None:
        belief = mind.belief.filled(Random(f"others {seed} {mind.belief.steps}"))
        draw = belief.draw if settings.states == "simulation" else _always(belief.draw(rng))
        root: Node[State, Action] = Node()
        model = BelievedHome(
            rules,
            draw=draw,
            actions=rules.actions,
            past=mind.past,
            policy=asking.policy,
            see=rules.observe if settings.histories == "observations" else lambda _: (),
            value=value,
            reward=settings.goal_reward,
        )
        simulations = await search(
            root,
            model,
            select=select,
            backup=means if settings.values == "mean" else weighted,
            simulations=settings.most,
            seconds=settings.seconds or inf,
            width=settings.width,
            max_depth=settings.depth,
            expand_at=settings.ask,
            rng=rng,
        )
        tried = visited(root)
        if not tried:
            return None
        best = best_edge(root, rng) if settings.ties == "draw" else max(tried, key=_by_value)
        assert best is not None
        return Choice(best.action, Decision(statistics_of(root)), simulations)

    return await _play(problem, asking, decide, places=places)


def _always(state: State) -> Callable[[Random], State]:
    return lambda _: state


def _by_value(edge: Edge[State, Action]) -> tuple[float, float]:
    return edge.value, edge.prior


def _by_visits(edge: Edge[State, Action]) -> tuple[int, float]:
    return edge.visits, edge.value


async def llm_mcts_plus(
    problem: Problem[KnownHousehold], *, engines: Engines, settings: LlmMctsPlusSettings, seed: int
) -> Outcome:
    """LLM-MCTS+ (ours): rollouts by goal regression, Q as a regret, one tree for the episode.

    Raises:
        ServingError: the engine failed.
    """
    asking = HomeAsking(problem, engines, settings, seed=seed)
    await asking.ask_for_goal()
    await asking.ask_for_policy()
    places = await asking.ask_for_places(settings)
    world = asking.world
    value = GoalRegression(world.expert, world.rules, gamma=settings.gamma)
    select: Select[State, Action] = select_by_puct(c=settings.c)
    backup = by_regret(value, gamma=settings.gamma, reward=settings.goal_reward)
    rng = Random(f"search {seed}")
    root: Node[State, Action] = Node()

    async def decide(mind: Mind) -> Choice | None:
        nonlocal root
        if mind.last is not None:
            action, seen = mind.last
            root = advance(root, action, Step(mind.belief.certain, observation=seen))
        model = BelievedHome(
            world.rules,
            # What no goal names is left out until it is seen, so a kept tree stays true.
            draw=mind.belief.draw,
            actions=world.rules.useful,
            past=mind.past,
            policy=asking.policy,
            see=world.rules.observe,
            value=value,
            reward=settings.goal_reward,
        )
        simulations = await search(
            root,
            model,
            select=select,
            backup=backup,
            simulations=settings.most,
            seconds=settings.seconds or inf,
            width=settings.width,
            # A history that is met only once asks no model.
            expand_at="second",
            rng=rng,
        )
        tried = visited(root)
        if not tried:
            return None
        best = max(tried, key=_by_visits)
        return Choice(best.action, Decision(statistics_of(root)), simulations)

    return await _play(problem, asking, decide, places=places)


async def policy_alone(
    problem: Problem[KnownHousehold], *, engines: Engines, settings: PolicySettings, seed: int
) -> Outcome:
    """The baseline without search: every action comes from the policy of LLM-MCTS.

    Raises:
        ServingError: the engine failed.
    """
    asking = HomeAsking(problem, engines, settings, seed=seed)
    await asking.ask_for_goal()
    askings = count(1)

    async def anew(_: Situation) -> int:
        return next(askings)

    # Each vote is an answer of its own, which may err by itself.
    await asking.ask_for_policy(beside=anew)
    policy = asking.policy or _even
    rules = asking.world.rules
    draws = Random(f"policy {seed}")

    async def decide(mind: Mind) -> Choice | None:
        actions = rules.actions(mind.belief.certain)
        if not actions:
            return None
        names = tuple(map(str, actions))
        turns, now, belief = mind.past
        situation = Situation(turns, now, names, state=belief)
        asked = settings.votes if settings.choice == "majority" else 1
        answers = [await policy(situation) for _ in range(asked)]
        if settings.choice == "argmax":
            best = argmax(answers[0])
        else:
            votes = Counter(draws.choices(range(len(names)), pi)[0] for pi in answers)
            best = votes.most_common(1)[0][0]
        mean = map(fmean, zip(*answers, strict=True))
        return Choice(actions[best], Decision(tuple(map(ActionStatistics, names, mean))))

    return await _play(problem, asking, decide, places=None)


async def _even(situation: Situation) -> Sequence[float]:
    """π of somebody who knows nothing."""
    return [1.0 / len(situation.actions)] * len(situation.actions)


async def _play(
    problem: Problem[KnownHousehold],
    asking: HomeAsking,
    decide: Decide,
    *,
    places: Places | None,
) -> Outcome:
    """Plays an episode.

    Args:
        problem: what to plan.
        asking: those who were asked.
        decide: chooses each action.
        places: where things may be; None if no belief is needed but that of rules.
    """
    settings, seed = asking.settings, asking.seed
    real, world = problem.world.rules, asking.world
    rules = world.rules
    start = world.start(seed)
    known = world.first_belief(start)
    mind = Mind(
        world.first_belief(start, places),
        Past((), observation_text(known.now, rules), known),
    )
    choices: list[Choice] = []
    beliefs: list[Belief] = []
    seconds = 0.0
    ended = asking.unmet

    async def choose(episode: Episode[State, Action]) -> Action | Stop:
        nonlocal mind, seconds, ended
        if episode.moves:
            last = episode.moves[-1]
            seen = translated(real.observe(last.step.state), real, rules)
            mind = mind.then(last.action, seen)
        ended = ended or reached_as_read(mind.belief) or ""
        if ended:
            return STOP
        if (trace := tracing()) is not None and places is not None:
            trace.belief(told(mind.belief))
        since = perf_counter()
        found = await decide(mind)
        seconds += perf_counter() - since
        if found is None:
            return STOP
        choices.append(found)
        beliefs.append(mind.belief)
        return found.action

    episode = await play(problem.world, choose, moves=settings.moves, seed=seed)
    decisions = [one.how for one in choices]
    misread = bool(asking.unmet) or world is not problem.world
    states = (start, *(move.step.state for move in episode.moves))
    outcome = await episode_outcome(
        problem,
        episode,
        decisions,
        settings=settings,
        seed=seed,
        metrics={
            **problem.world.traits(),
            "misread": misread,
            **failure_metrics(
                zip((str(move.action) for move in episode.moves), states, strict=False),
                decisions,
                beliefs,
                world=problem.world,
                success=bool(episode.success),
                misread=misread,
            ),
            "description_bits": (
                model_bits(real.home)
                if isinstance(settings, SearchSettings)
                else policy_bits(real.home, tasks=len(real.goal))
            ),
            "simulations": sum(one.simulations for one in choices),
            "questions": 0 if asking.policy is None else asking.policy.questions,
            "seconds_decision": seconds / max(1, len(choices)),
        },
        oracles=asking.oracles,
    )
    # What the clock ends is never the same again.
    timed = isinstance(settings, SearchSettings) and settings.seconds is not None
    return replace(
        outcome,
        unrepeatable=frozenset(outcome.metrics if timed else {"seconds_decision"}),
        text="\n\n".join(filter(None, (outcome.text, ended))),
    )


def told(belief: Belief) -> dict[str, dict[str, float]]:
    """Where the things of the goal may be, for a trace: thing -> position -> probability."""
    rules = belief.rules
    places = [f"{place.relation} the {place.name}" for place in rules.home.places]
    found: dict[str, dict[str, float]] = {}
    for thing in range(rules.named):
        if thing in belief.hidden:
            chances: Sequence[float] = belief.probabilities(thing)
        else:
            chances = [float(thing in (things or ())) for things in belief.seen]
        found[rules.things[thing]] = {
            place: round(chance, 4) for place, chance in zip(places, chances, strict=True) if chance
        }
    return found
