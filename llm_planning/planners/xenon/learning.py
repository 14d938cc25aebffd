"""A learning run: an agent explores a world, and its graph is compared with the truth."""

from __future__ import annotations

import functools
import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llm_planning.environments.minecraft.controller import SimulatedWorld
from llm_planning.environments.minecraft.goals import goal_set
from llm_planning.environments.minecraft.perturbation import perturb
from llm_planning.environments.minecraft.rulebook import RuleBook
from llm_planning.environments.minecraft.text_world import TextWorld
from llm_planning.environments.minecraft.verbs import action_set
from llm_planning.planners.settings import SettingsError
from llm_planning.planners.xenon.agent import Agent, Parts
from llm_planning.planners.xenon.agents import Ingredients
from llm_planning.planners.xenon.choosing import FailureAware
from llm_planning.planners.xenon.goals import least_attempted
from llm_planning.planners.xenon.graph import DependencyGraph
from llm_planning.planners.xenon.initial import Initial, demonstrate
from llm_planning.planners.xenon.knowledge import Knowledge
from llm_planning.planners.xenon.learning_report import Curve, Learnt, learning_outcome
from llm_planning.planners.xenon.llm_roles import llm_roles
from llm_planning.planners.xenon.memory import ActionMemory
from llm_planning.planners.xenon.oracle_roles import oracle_roles
from llm_planning.planners.xenon.plans import PLANS
from llm_planning.planners.xenon.saved import load_saved, save_knowledge
from llm_planning.planners.xenon.similarity import Similar

if TYPE_CHECKING:
    from llm_planning.environments.minecraft.perturbation import Perturbed
    from llm_planning.environments.minecraft.world import World
    from llm_planning.planners.outcome import Outcome
    from llm_planning.planners.xenon.agents import Composition
    from llm_planning.planners.xenon.roles import Roles
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.roles import Engines
    from llm_serving.engine import Engine


@functools.cache
def game_rules() -> RuleBook:
    """The unperturbed rules, read once."""
    return RuleBook.load()


class LearningRun:
    """Lets an agent learn the goals of a task.

    Args:
        composition: the agent.
    """

    def __init__(self, composition: Composition) -> None:
        self._composition = composition

    async def __call__(
        self, task: str, *, engines: Engines, settings: LearningSettings, seed: int
    ) -> Outcome:
        """Learns.

        Args:
            task: a set of goals, such as "67-goals".
            engines: answer the agent's questions; only the first is asked.
            settings: of the run.
            seed: of perturbations, goals, the oracle's errors and the controller.

        Raises:
            UnknownGoalSetError: there is no such set.
            SettingsError: knowledge is to be saved that this agent cannot take up again.
            SavedKnowledgeError: the file of saved knowledge cannot be read or written.
        """
        goals = goal_set(task)
        game = game_rules()
        perturbed = perturb(
            game,
            requirements=settings.requirements,
            actions=settings.actions,
            pool=settings.pool,
            seed=seed,
        )
        unperturbed = TextWorld(game, goals=goals, verbs=action_set(settings.verbs))
        told = unperturbed.items if settings.names == "all" else goals
        given = Ingredients(
            knowledge=Knowledge(DependencyGraph(told)),
            memory=ActionMemory(unperturbed.verbs, x0=settings.x0),
            similar=Similar(engines.options),
            roles=_roles(self._composition, unperturbed, engines.options, settings, seed),
            settings=settings,
        )
        learning = Learning(self._composition, given, goals, seed=seed)
        initial = await learning.begin(unperturbed)
        world = _world(game if settings.change_at else perturbed.book, goals, settings, seed)
        return learning_outcome(
            await learning.explore(world, perturbed, initial),
            task=task,
            settings=settings,
            seed=seed,
        )


class Learning:
    """One agent while it learns.

    Args:
        composition: the agent.
        given: what its parts share; nothing learnt yet.
        goals: V_0.
        seed: of its goals.
    """

    def __init__(
        self, composition: Composition, given: Ingredients, goals: tuple[str, ...], *, seed: int
    ) -> None:
        self._composition = composition
        self._given = given
        self._goals = goals
        self._rng = random.Random(f"goals {seed}")
        self._before = DependencyGraph()
        self._demonstrated: frozenset[str] = frozenset()
        self._episodes = 0

    async def begin(self, unperturbed: TextWorld) -> Initial:
        """Fills Ĝ before the first step: human-written plans, then the prior or the truth.

        Knowledge that an earlier run saved then takes the place of all that.
        """
        given, settings = self._given, self._given.settings
        known = given.knowledge
        actions = self._composition.actions(given)
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
        self._resume()
        return initial

    def _resume(self) -> None:
        path = Path(self._given.settings.save)
        if not path.is_file():
            return
        saved = load_saved(path)
        self._given.memory.restore(saved.memory)
        self._given = replace(self._given, knowledge=saved.knowledge())
        self._rng.setstate(saved.generator())
        self._episodes = saved.episodes

    async def explore(self, world: World, perturbed: Perturbed, initial: Initial) -> Learnt:
        """Acts for all episodes (Algorithm 1)."""
        given, settings = self._given, self._given.settings
        known, goals = given.knowledge, self._goals
        actions = self._composition.actions(given)
        if settings.save and not isinstance(actions, FailureAware):
            raise SettingsError(
                "save needs an agent with FAM: the others' reflections are not kept"
            )
        agent = Agent(
            Parts(
                knowledge=known,
                dependencies=self._composition.dependencies(given),
                actions=actions,
                select_goal=(
                    least_attempted(lambda: [g for g in goals if g not in known.obtained])
                    if settings.initial == "truth"
                    else self._composition.goals(given)
                ),
            ),
            rng=self._rng,
        )
        book = game_rules() if settings.change_at else perturbed.book
        truth = {g: book.requirements(g) for g in goals}
        curve = Curve()

        def note() -> None:
            obtained = sum(g in known.obtained for g in goals)
            done = self._episodes * settings.steps + world.steps
            curve.note(done, known.graph.n_true(truth), obtained)

        note()
        while self._episodes < settings.episodes:
            if self._episodes or world.steps:
                world.reset()
            if settings.change_at and isinstance(world, TextWorld):
                await agent.learn(world, until=settings.change_at, watch=note)
                world.change(perturbed.book)
                agent.forget(perturbed.items)
                truth.update((g, perturbed.book.requirements(g)) for g in goals)
                note()
            await agent.learn(world, until=settings.steps, watch=note)
            self._episodes += 1
            if settings.save:
                save_knowledge(
                    Path(settings.save),
                    known,
                    given.memory,
                    episodes=self._episodes,
                    goals=self._rng.getstate(),
                )
        return Learnt(
            goals=goals,
            perturbed=perturbed,
            known=known,
            before=self._before,
            demonstrated=self._demonstrated,
            initial=initial,
            curve=curve,
        )


def _roles(
    composition: Composition,
    unperturbed: TextWorld,
    engine: Engine,
    settings: LearningSettings,
    seed: int,
) -> Roles:
    if settings.prior == "table12":
        return oracle_roles(unperturbed.book, items=unperturbed.items, seed=seed)
    names = unperturbed.items if composition.held else None
    return llm_roles(engine, names=names, actions=unperturbed.verbs, seed=seed)


def _world(book: RuleBook, goals: tuple[str, ...], settings: LearningSettings, seed: int) -> World:
    verbs = action_set(settings.verbs)
    text = TextWorld(book, goals=goals, verbs=verbs)
    if settings.controller == "text":
        return text
    return SimulatedWorld(text, profile=settings.controller, horizon=settings.steps, seed=seed)
