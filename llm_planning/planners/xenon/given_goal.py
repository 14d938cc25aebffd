"""One given goal in one episode: Algorithm 1 with a graph that experience does not change.

Long-horizon planning (XENON, Section 5.3) builds on this in `goal_planning`. The runs of
Figure 25 (Appendix K.10) are here. They compare action policies that are given the true graph:

    select-xenon       FAM, and the LLM for an item without a valid action
    select-sc          the LLM, told why earlier attempts failed
    select-llm         the LLM, without memory
    select-random-fam  FAM, and a random action for an item without a valid action
    select-ucb         UCB1 over the actions of each item, with the binary feedback as reward

Experience changes only the action memory, and every episode begins with an empty one. So a valid
action must be found for every subgoal item within the episode. The paper does not say whether its
20 runs of a goal share a memory.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.controller import group_of
from llm_planning.outcome import Outcome
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar
from llm_planning.planners.xenon.settings import AskingSettings, MemorySettings, UcbSettings

if TYPE_CHECKING:
    from collections.abc import Collection

    from llm_planning.environments.minecraft.book.rulebook import RuleBook
    from llm_planning.environments.minecraft.items.domain import ItemWorld
    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.planners.xenon.algorithm import Plan, Subgoal, Xenon
    from llm_planning.planners.xenon.settings import SelectionSettings
    from llm_planning.roles import Asking
    from llm_planning.specs import Run


@dataclass(frozen=True, slots=True)
class GoalAttempt:
    """One episode with a given goal.

    Attributes:
        goal: g.
        success: whether the goal was obtained in time.
        steps: environment steps of the episode.
        plans: the plans in order; each but the last ends with a failure.
        omitted: true requirements for which one of the plans had no subgoal.
    """

    goal: str
    success: bool
    steps: int
    plans: tuple[Plan, ...]
    omitted: frozenset[str]

    @property
    def subgoals(self) -> tuple[Subgoal, ...]:
        """All subgoals that were tried, in order."""
        return tuple(subgoal for plan in self.plans for subgoal in plan.tried)


async def obtain(
    goal: str,
    world: World,
    *,
    agent: Xenon,
    truth: Knowledge,
    until: int,
) -> GoalAttempt:
    """Plans and acts until the goal is obtained or the episode ends.

    If all actions of an item are ruled out, its failures are forgotten. The graph is not revised.

    Args:
        world: at the beginning of an episode.
        agent: plans with knowledge as `fixed_knowledge` returns it.
        truth: the true knowledge, which tells the requirements that a plan leaves out.
        until: the horizon, in environment steps.
    """
    plans: list[Plan] = []
    while world.steps < until and goal not in world.inventory:
        plans += await agent.pursue(goal, world, until=until)
    omitted: set[str] = set()
    for plan in plans:
        needed = {item for _, item in truth.aggregated(goal, plan.inventory)}
        omitted |= needed - {item for _, item in plan.missing}
    return GoalAttempt(
        goal=goal,
        success=goal in world.inventory,
        steps=world.steps,
        plans=tuple(plans),
        omitted=frozenset(omitted),
    )


def fixed_knowledge(graph: DependencyGraph, goal: str, kept: Collection[str]) -> Knowledge:
    """Returns knowledge that experience does not change: all of its items count as obtained.

    Args:
        goal: g, which the graph may lack.
        kept: items that stay when they are required.
    """
    return Knowledge(graph, obtained={*graph.items, goal}, kept={*kept})


def true_knowledge(book: RuleBook, items: Collection[str], goal: str) -> Knowledge:
    """Returns knowledge with 𝒢*, the oracle graph.

    Args:
        items: the nodes of the graph, including all that they require.
        goal: g.
    """
    graph = DependencyGraph()
    kept: set[str] = set()
    for item in items:
        rule = book.rule(item)
        graph.require(item, rule.requirements, makes=rule.makes)
        kept.update(rule.kept)
    return fixed_knowledge(graph, goal, kept)


async def play(
    run: Run[Any, Any],
    world: World,
    *,
    agent: Xenon,
    truth: Knowledge,
    book: RuleBook,
    until: int,
    judged_by: str,
    asking: Asking | None = None,
) -> Outcome:
    """Tries to obtain a goal, and reports the episode.

    Metrics:
        env_steps: environment steps of the episode.
        plan_length: subgoals of the first plan, tried or not.
        subgoals, failed_subgoals: subgoals tried, and those that failed.
        invalid_subgoals: subgoals with an action that never obtains the item.
        invalid_action: whether the last plan tried one of those (Table 15).
        subgoal_omission: whether a plan left out a true requirement.
        group: the goal's group.

    Args:
        run: its task is g.
        world: at the beginning of an episode.
        agent: plans with knowledge as `fixed_knowledge` returns it.
        until: the horizon, in environment steps.
        judged_by: name of the world, as the basis of success.
        asking: who answers; None for nobody.

    Raises:
        UnknownGoalError: there is no such goal.
    """
    goal = run.task
    group = group_of(goal)
    attempt = await obtain(goal, world, agent=agent, truth=truth, until=until)

    def invalid(subgoal: Subgoal) -> bool:
        return subgoal.item not in book or subgoal.action != book.rule(subgoal.item).action

    tried, plans = attempt.subgoals, attempt.plans
    return Outcome(
        success=attempt.success,
        plan=tuple(str(subgoal) for subgoal in tried if subgoal.reached),
        metrics={
            "success_basis": judged_by,
            "env_steps": attempt.steps,
            "plan_length": len(plans[0].missing),
            "subgoals": len(tried),
            "failed_subgoals": sum(not subgoal.reached for subgoal in tried),
            "invalid_subgoals": sum(map(invalid, tried)),
            "invalid_action": any(map(invalid, plans[-1].tried)),
            "subgoal_omission": bool(attempt.omitted),
            "group": group,
        },
        trace={
            "goal": goal,
            "seed": run.seed,
            "settings": run.settings.to_json(),
            "oracles": asking.oracles if asking else [],
            "omitted": sorted(attempt.omitted),
            "plans": [[asdict(subgoal) for subgoal in plan.tried] for plan in plans],
        },
        text=_text(attempt),
    )


def _text(attempt: GoalAttempt) -> str:
    lines = [
        f"step {subgoal.steps}: {subgoal}{'' if subgoal.reached else ' (failed)'}"
        for subgoal in attempt.subgoals
    ]
    end = "obtained" if attempt.success else "not obtained"
    return "\n".join([*lines, f"{attempt.goal} {end} after {attempt.steps} steps"])


# Figure 25 ----------------------------------------------------------------------------------------


async def select(run: Run[ItemWorld, SelectionSettings], *, agent: type[Xenon]) -> Outcome:
    """Obtains one goal with the true graph.

    Args:
        run: its task is the goal item.
    """
    settings = run.settings
    world = run.world.text_world(run.world.rules(run.seed).book)
    # Random+FAM and UCB ask nobody.
    asks = settings if isinstance(settings, AskingSettings) else AskingSettings.read({})
    unperturbed = run.world.text_world(game_rules())
    asking = MinecraftAsking(unperturbed, run.engines, asks, seed=run.seed)
    truth = true_knowledge(world.book, world.items, run.task)
    own: dict[str, Any] = {"c": settings.c} if isinstance(settings, UcbSettings) else {}
    # UCB rules nothing out.
    x0 = settings.x0 if isinstance(settings, MemorySettings) else 1
    chooser = agent(
        knowledge=truth,
        memory=ActionMemory(world.verbs, x0=x0),
        similar=Similar(run.engines.default),
        roles=asking,
        rng=Random(f"actions {run.seed}"),
        k=asks.k,
        **own,
    )
    return await play(
        run,
        world,
        agent=chooser,
        truth=truth,
        book=world.book,
        until=settings.steps,
        judged_by="text world",
        asking=asking,
    )
