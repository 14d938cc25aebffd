"""A learning run: an agent explores a world, and its graph is compared with the truth."""

from __future__ import annotations

import functools
import hashlib
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_kernels.files import at_home
from llm_planning.environments.minecraft.controller import SimulatedWorld
from llm_planning.environments.minecraft.goals import goal_set
from llm_planning.environments.minecraft.perturbation import perturb
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.text_world import TextWorld, action_set
from llm_planning.planners.xenon.agent import Agent
from llm_planning.planners.xenon.agents import ACTIONS, DEPENDENCIES, GOALS, Ingredients
from llm_planning.planners.xenon.failure_notes import FailureNotes
from llm_planning.planners.xenon.goals import least_attempted
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import Initial, demonstrate
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.learning_report import Curve, Learnt, learning_outcome
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.plans import PLANS
from llm_planning.planners.xenon.prior import prior_roles
from llm_planning.planners.xenon.saved import Saved, save_knowledge
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_planning.environments.minecraft.perturbation import Perturbed
    from llm_planning.environments.minecraft.text_world import World
    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.agents import Composition
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.roles import Engines
    from llm_planning.specs import Problem


async def learn(
    problem: Problem[Any],
    *,
    engines: Engines,
    settings: LearningSettings,
    seed: int,
    composition: Composition,
) -> Outcome:
    """Lets an agent learn the goals of a task.

    Args:
        problem: its task is a set of goals, such as "67-goals".
        engines: answer the agent's questions; the default one embeds names.
        settings: of the run.
        seed: of perturbations, goals, the oracle's errors and the controller.
        composition: the agent.

    Raises:
        UnknownGoalSetError: there is no such set.
        SettingsError: knowledge is to be saved where it cannot be.
        SavedKnowledgeError: the file of saved knowledge cannot be read or written.
    """
    task, goals, game = problem.task, goal_set(problem.task), game_rules()
    perturbed = perturb(
        game,
        requirements=settings.requirements,
        actions=settings.actions,
        pool=settings.pool,
        seed=seed,
    )
    unperturbed = TextWorld(game, goals=goals, verbs=action_set(settings.verbs))
    told = unperturbed.items if settings.names == "all" else goals
    held_to = told if composition.held else None
    roles = prior_roles(settings.prior, unperturbed, engines, seed=seed, names=held_to)
    given = Ingredients(
        knowledge=Knowledge(DependencyGraph(told)),
        memory=ActionMemory(unperturbed.verbs, x0=settings.x0),
        notes=FailureNotes(),
        similar=Similar(engines.default),
        roles=roles,
        settings=settings,
    )
    learning = Learning(composition, given, task, model=engines.name, seed=seed)
    initial = await learning.begin(unperturbed)
    first = TextWorld(
        game if settings.change_at else perturbed.book, goals=goals, verbs=unperturbed.verbs
    )
    world_of = functools.partial(_world, first, settings, seed)
    return learning_outcome(
        await learning.explore(world_of, perturbed, initial),
        task=task,
        settings=settings,
        seed=seed,
        oracles=roles.oracles,
    )


class Learning:
    """One agent while it learns.

    Args:
        composition: the agent.
        given: what its parts share; nothing learnt yet.
        task: name of the goals.
        model: name of who answers.
        seed: of its goals, the oracle's errors and the controller.

    Raises:
        SettingsError: knowledge is to be saved where it cannot be.
        SavedKnowledgeError: the file belongs to another run.
    """

    def __init__(
        self, composition: Composition, given: Ingredients, task: str, *, model: str, seed: int
    ) -> None:
        self._composition = composition
        self._given = given
        self._goals = goal_set(task)
        self._seed = seed
        self._rng = random.Random(f"goals {seed}")
        self._curve = Curve()
        self._before = DependencyGraph()
        self._demonstrated: frozenset[str] = frozenset()
        self._episodes = 0
        settings = given.settings
        self._path = Path(at_home(settings.save))
        self._run = {
            "agent": composition.described,
            "task": task,
            "model": model,
            "seed": seed,
            **{k: v for k, v in settings.to_json().items() if k not in {"save", "episodes"}},
        }
        self._saved = (
            Saved.resume(self._path, self._run, episodes=settings.episodes)
            if settings.save
            else None
        )

    async def begin(self, unperturbed: TextWorld) -> Initial:
        """Fills Ĝ before the first step: human-written plans, then the prior or the truth.

        Knowledge that an earlier run saved then takes the place of all that.
        """
        given, settings = self._given, self._given.settings
        known = given.knowledge
        actions = ACTIONS[self._composition.actions](given)
        demonstrate(PLANS[: settings.plans], unperturbed, knowledge=known, actions=actions)
        self._demonstrated = frozenset(known.demonstrated)
        if settings.initial == "truth":
            initial = Initial({}, (), ())
            for v in unperturbed.items:
                rule = unperturbed.book.rule(v)
                known.graph.require(v, rule.requirements, makes=rule.makes)
        else:
            initial = await self._composition.guess(given)
        self._before = known.graph.copy()
        if self._saved:
            self._resume(self._saved)
        return initial

    async def explore(
        self, world_of: Callable[[int], World], perturbed: Perturbed, initial: Initial
    ) -> Learnt:
        """Acts for all episodes (Algorithm 1).

        Args:
            world_of: gives the world of an episode, counted from 0.
            perturbed: the rules at the end.
            initial: what was predicted.
        """
        settings, known, goals = self._given.settings, self._given.knowledge, self._goals
        agent = self._agent()
        truth = {
            g: (game_rules() if settings.change_at else perturbed.book).requirements(g)
            for g in goals
        }
        while self._episodes < settings.episodes:
            world = world_of(self._episodes)

            def note(world: World = world) -> None:
                self._curve.note(
                    self._episodes * settings.steps + world.steps,
                    known.graph.n_true(truth),
                    sum(g in known.obtained for g in goals),
                )

            note()
            if settings.change_at and isinstance(world, TextWorld):
                await agent.learn(world, until=settings.change_at, watch=note)
                # An agent that has nothing left to try waits for the change.
                world.steps = max(world.steps, settings.change_at)
                world.change(perturbed.book)
                agent.forget(perturbed.items)
                truth.update((g, perturbed.book.requirements(g)) for g in goals)
                note()
            await agent.learn(world, until=settings.steps, watch=note)
            self._episodes += 1
            self._save()
        return Learnt(
            goals=goals,
            perturbed=perturbed,
            known=known,
            before=self._before,
            demonstrated=self._demonstrated,
            initial=initial,
            curve=self._curve,
        )

    def _agent(self) -> Agent:
        given, goals, parts = self._given, self._goals, self._composition
        known = given.knowledge
        select = (
            least_attempted(lambda: [g for g in goals if g not in known.obtained])
            if given.settings.initial == "truth"
            else GOALS[parts.goals](given)
        )
        return Agent(
            knowledge=known,
            dependencies=DEPENDENCIES[parts.dependencies](given),
            actions=ACTIONS[parts.actions](given),
            select_goal=select,
            notes=given.notes,
            rng=self._rng,
        )

    def _resume(self, saved: Saved) -> None:
        saved.recall(self._given.memory)
        self._given = replace(self._given, knowledge=saved.knowledge(), notes=saved.notes)
        self._rng = saved.generator()
        self._episodes = saved.episodes
        self._curve.points.extend(saved.curve)

    def _save(self) -> None:
        if self._given.settings.save:
            save_knowledge(
                self._path,
                self._given.knowledge,
                self._given.memory,
                self._given.notes,
                run=self._run,
                episodes=self._episodes,
                goals=self._rng,
                curve=self._curve.points,
            )


def _world(text: TextWorld, settings: LearningSettings, seed: int, episode: int) -> World:
    """A fresh world; a controller's luck depends on seed and episode, whatever came before."""
    if settings.controller == "text":
        return text.clone()
    luck = int.from_bytes(hashlib.sha256(f"{seed} {episode}".encode()).digest()[:8], "big")
    return SimulatedWorld(text, profile=settings.controller, horizon=settings.steps, seed=luck)
