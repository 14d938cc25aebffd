"""A learning run: an agent explores a world, and its graph Ĝ is compared with the true one."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_kernels.files import at_home
from llm_planning.environments.minecraft.controller import SimulatedWorld
from llm_planning.environments.minecraft.goals import goal_set
from llm_planning.environments.minecraft.perturbation import perturb
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld, action_set
from llm_planning.planners.xenon.agent import Agent
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.dependency_graph import DependencyGraph
from llm_planning.planners.xenon.fam import ActionMemory
from llm_planning.planners.xenon.goals import least_attempted
from llm_planning.planners.xenon.graph_initialization import PLANS, Initial, demonstrate
from llm_planning.planners.xenon.graph_notes import notes_on
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.learning_report import Curve, LearningResult, learning_outcome
from llm_planning.planners.xenon.parts import Learner, predicted
from llm_planning.planners.xenon.saved import Saved, run_of, save_knowledge
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from llm_planning.environments.minecraft.perturbation import Perturbed
    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.action_policies import ActionPolicy, Shared
    from llm_planning.planners.xenon.goals import SelectGoal
    from llm_planning.planners.xenon.revision import DependencyStore
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def learn(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: LearningSettings,
    seed: int,
    dependencies: Callable[[Learner], DependencyStore],
    actions: Callable[[Shared[MinecraftAsking]], ActionPolicy],
    goals: Callable[[Learner], SelectGoal],
    guess: Callable[[Learner], Awaitable[Initial]] = predicted,
    closed: bool = False,
) -> Outcome:
    """Lets an agent learn the goals of a task.

    Args:
        problem: its task is a set of goals, such as "67-goals".
        engines: answer the agent's questions; the default one embeds names.
        settings: of the run.
        seed: of perturbations, goals, the oracle's errors and the controller.
        dependencies: keeps and revises Ĝ; a function of `parts`, like the next three.
        actions: chooses and learns actions.
        goals: chooses goals.
        guess: fills Ĝ before the agent acts.
        closed: whether answers may use only the names that the agent is told.

    Raises:
        UnknownGoalSetError: there is no such set.
        SettingsError: the folder of the setting `save` is missing or cannot be written to.
        SavedKnowledgeError: the saved file cannot be read or written, or is of another run.
    """
    game, wanted = game_rules(), goal_set(problem.task)
    perturbed = perturb(
        game,
        requirements=settings.requirements,
        actions=settings.actions,
        pool=settings.pool,
        seed=seed,
    )
    unperturbed = TextWorld(game, goals=wanted, verbs=action_set(settings.verbs))
    told = unperturbed.items if settings.names == "all" else wanted
    names = told if closed else None
    roles = MinecraftAsking(unperturbed, engines, settings, seed=seed, names=names)
    learner = Learner(
        memory=ActionMemory(unperturbed.verbs, x0=settings.x0),
        similar=Similar(engines.default),
        roles=roles,
        k=settings.k,
        knowledge=Knowledge(DependencyGraph(told)),
        settings=settings,
    )
    # Saved files tell agents apart by the names of their parts; "held" means closed.
    parts = [dependencies.__name__, actions.__name__, goals.__name__, *(["held"] if closed else [])]
    run = run_of(settings, agent=parts, task=problem.task, model=engines.name, seed=seed)
    path = Path(at_home(settings.save))
    saved = Saved.resume(path, run, episodes=settings.episodes) if settings.save else None
    policy = actions(learner)
    initial, demonstrated = await _begin(learner, policy, unperturbed, guess)
    before = learner.knowledge.graph.copy()
    progress = Progress(rng=random.Random(f"goals {seed}"))
    if saved:
        learner, progress = _resumed(saved, learner)
    known, store, select = learner.knowledge, dependencies(learner), goals(learner)
    if saved:
        store.state.restore(saved.notes)
        policy.state.restore(saved.notes)
    if settings.initial == "truth":
        select = least_attempted(lambda: [g for g in wanted if g not in known.obtained])
    agent = Agent(
        knowledge=known,
        dependencies=store,
        actions=policy,
        select_goal=lambda: select(known, progress.rng),
        notes=notes_on(known, learner.memory),
    )
    first = game if settings.change_at else perturbed.book
    world = TextWorld(first, goals=wanted, verbs=unperturbed.verbs)
    truth: dict[str, Mapping[str, int]] = {g: first.requirements(g) for g in wanted}
    while progress.episodes < settings.episodes:
        await _episode(
            agent,
            _world(world, settings, seed, progress.episodes),
            settings,
            perturbed=perturbed,
            truth=truth,
            progress=progress,
        )
        progress.episodes += 1
        if settings.save:
            save_knowledge(
                path,
                known,
                learner.memory,
                states=(store.state, policy.state),
                run=run,
                episodes=progress.episodes,
                goals=progress.rng,
                curve=progress.curve.points,
            )
    return learning_outcome(
        LearningResult(
            goals=wanted,
            perturbed=perturbed,
            known=known,
            before=before,
            demonstrated=demonstrated,
            initial=initial,
            curve=progress.curve,
        ),
        task=problem.task,
        settings=settings,
        seed=seed,
        oracles=roles.oracles,
    )


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a run has come.

    Attributes:
        rng: breaks ties between goals.
        episodes: number of finished episodes.
        curve: N_true and the goals obtained over time.
    """

    rng: random.Random
    episodes: int = 0
    curve: Curve = field(default_factory=Curve)


async def _begin(
    learner: Learner,
    actions: ActionPolicy,
    unperturbed: TextWorld,
    guess: Callable[[Learner], Awaitable[Initial]],
) -> tuple[Initial, frozenset[str]]:
    """Fills Ĝ before the first step: human-written plans, then the prior or the truth.

    Returns:
        What was predicted, and the items that the plans obtained.
    """
    known, settings = learner.knowledge, learner.settings
    demonstrate(PLANS[: settings.plans], unperturbed, knowledge=known, actions=actions)
    demonstrated = frozenset(known.demonstrated)
    if settings.initial != "truth":
        return await guess(learner), demonstrated
    for v in unperturbed.items:
        rule = unperturbed.book.rule(v)
        known.graph.require(v, rule.requirements, makes=rule.makes)
    return Initial(), demonstrated


async def _episode(
    agent: Agent,
    world: World,
    settings: LearningSettings,
    *,
    perturbed: Perturbed,
    truth: dict[str, Mapping[str, int]],
    progress: Progress,
) -> None:
    """Runs one episode. At step `change_at` the rules and the truth change."""
    known, begun = agent.knowledge, progress.episodes * settings.steps

    def note(_: object = None) -> None:
        obtained = sum(g in known.obtained for g in truth)
        progress.curve.note(begun + world.steps, known.graph.n_true(truth), obtained)

    note()
    if settings.change_at and perturbed.items and isinstance(world, TextWorld):
        await agent.learn(world, until=settings.change_at, watch=note)
        # If nothing is left to try, the agent waits for the change.
        world.steps = max(world.steps, settings.change_at)
        world.change(perturbed.book)
        agent.forget(perturbed.items)
        truth.update((g, perturbed.book.requirements(g)) for g in truth)
        note()
    await agent.learn(world, until=settings.steps, watch=note)


def _world(text: TextWorld, settings: LearningSettings, seed: int, episode: int) -> World:
    """Returns a fresh world. A controller's random seed depends on the seed and the episode."""
    if settings.controller == "text":
        return text.clone()
    chance = int.from_bytes(hashlib.sha256(f"{seed} {episode}".encode()).digest()[:8], "big")
    return SimulatedWorld(text, profile=settings.controller, horizon=settings.steps, seed=chance)


def _resumed(saved: Saved, learner: Learner) -> tuple[Learner, Progress]:
    """Goes on with a saved run: its knowledge replaces the agent's first beliefs."""
    saved.recall(learner.memory)
    progress = Progress(rng=saved.generator(), episodes=saved.episodes, curve=Curve([*saved.curve]))
    return replace(learner, knowledge=saved.knowledge()), progress
