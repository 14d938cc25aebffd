"""How an episode at home is played, and what a run reports.

Every planner of a home acts move by move. The real observation updates what it believes and what
its policy reads (Sections 2.2 to 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from llm_planning.environments.household.observations import observation_text
from llm_planning.execution.decisions import Decision, episode_outcome
from llm_planning.execution.episode import play_decided
from llm_planning.planners.llm_mcts.analysis.description import model_bits, policy_bits
from llm_planning.planners.llm_mcts.analysis.failures import failure_metrics
from llm_planning.planners.llm_mcts.interpretation import reached_as_read, translated
from llm_planning.planners.llm_mcts.roles import HomeAsking, Past
from llm_planning.planners.llm_mcts.settings import HomeSettings, SearchSettings
from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.belief import Prior as Places
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.observations import Observation
    from llm_planning.environments.household.rules import Action, State
    from llm_planning.execution.episode import Episode
    from llm_planning.outcome import Outcome
    from llm_planning.specs import Run


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


class Choice(NamedTuple):
    """The next action."""

    action: Action
    decision: Decision
    simulations: int = 0


async def play_at_home(
    run: Run[KnownHousehold, HomeSettings],
    asking: HomeAsking,
    decide: Callable[[Mind], Awaitable[Choice | None]],
    *,
    places: Places | None,
) -> Outcome:
    """Plays an episode.

    Args:
        decide: chooses each action; None if none is possible.
        places: where things may be; None if no belief is needed but that of rules.
    """
    settings, seed = run.settings, run.seed
    real, world = run.world.rules, asking.world
    rules = world.rules
    start = world.start(seed)
    known = world.first_belief(start)
    mind = Mind(
        world.first_belief(start, places),
        Past((), observation_text(known.now, rules), known),
    )
    beliefs: list[Belief] = []
    seconds = 0.0
    ended = asking.unmet

    async def next_move(
        episode: Episode[State, Action],
        choices: Sequence[Choice],  # noqa: ARG001 - the mind tells
    ) -> tuple[Action, Choice] | None:
        nonlocal mind, seconds, ended
        if episode.moves:
            last = episode.moves[-1]
            seen = translated(real.observe(last.step.state), real, rules)
            mind = mind.then(last.action, seen)
        ended = ended or reached_as_read(mind.belief) or ""
        if ended:
            return None
        if (trace := tracing()) is not None and places is not None:
            trace.belief(believed_places(mind.belief))
        since = perf_counter()
        choice = await decide(mind)
        seconds += perf_counter() - since
        if choice is None:
            return None
        beliefs.append(mind.belief)
        return choice.action, choice

    episode, choices = await play_decided(run.world, next_move, moves=settings.moves, seed=seed)
    decisions = [choice.decision for choice in choices]
    misread = bool(asking.unmet) or world is not run.world
    states = (start, *(move.step.state for move in episode.moves))
    outcome = await episode_outcome(
        run,
        episode,
        decisions,
        metrics={
            **run.world.traits(),
            "misread": misread,
            **failure_metrics(
                zip((str(move.action) for move in episode.moves), states, strict=False),
                decisions,
                beliefs,
                world=run.world,
                success=bool(episode.success),
                misread=misread,
            ),
            "description_bits": (
                model_bits(real.home)
                if isinstance(settings, SearchSettings)
                else policy_bits(real.home, tasks=len(real.goal))
            ),
            "simulations": sum(choice.simulations for choice in choices),
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


def believed_places(belief: Belief) -> dict[str, dict[str, float]]:
    """Where the things of the goal may be, for a trace: thing -> position -> probability."""
    rules = belief.rules
    places = [f"{place.relation} the {place.name}" for place in rules.home.places]
    positions: dict[str, dict[str, float]] = {}
    for thing in range(rules.named):
        if thing in belief.hidden:
            chances: Sequence[float] = belief.probabilities(thing)
        else:
            chances = [float(thing in (things or ())) for things in belief.seen]
        positions[rules.things[thing]] = {
            place: round(chance, 4) for place, chance in zip(places, chances, strict=True) if chance
        }
    return positions
