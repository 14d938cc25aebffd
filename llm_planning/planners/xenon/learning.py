"""A learning run: an agent explores a world, and its graph Ĝ is compared with the true one."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from llm_base.files import at_home
from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.controller import SimulatedWorld
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.xenon import baselines, plus
from llm_planning.planners.xenon.algorithm import Xenon
from llm_planning.planners.xenon.asking import MinecraftAsking
from llm_planning.planners.xenon.graph import PLANS, DependencyGraph, Initial, demonstrate
from llm_planning.planners.xenon.learning_report import Curve, LearningResult, learning_outcome
from llm_planning.planners.xenon.memory import ActionMemory, Knowledge, Similar
from llm_planning.planners.xenon.notes import notes_on
from llm_planning.planners.xenon.saved import Saved, run_of, save_knowledge
from llm_planning.settings import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llm_planning.environments.minecraft.items.domain import ItemWorld
    from llm_planning.environments.minecraft.items.perturbation import Perturbed
    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.outcome import Outcome
    from llm_planning.planners.xenon.settings import LearningSettings
    from llm_planning.specs import Run

AGENTS: Mapping[str, type[Xenon]] = {
    "xenon": Xenon,
    "sc": baselines.Sc,
    "adam": baselines.Adam,
    "deckard": baselines.Deckard,
    "rand": baselines.Rand,
    "xenon-self-actions": baselines.SelfReflection,
    "xenon-no-actions": baselines.SuccessesOnly,
    "xenon-self-dependencies": baselines.SelfCorrection,
    "xenon-no-dependencies": baselines.AsPredicted,
    "xenon-no-correction": baselines.NoCorrection,
    "xenon-plus-a4": plus.Ranked,
    "xenon-plus": plus.XenonPlus,
}
"""Name -> the agent that saved files mean by it."""


async def learn(
    run: Run[ItemWorld, LearningSettings], *, agent: str, closed: bool = False
) -> Outcome:
    """Lets an agent learn the goals of a world.

    Args:
        run: its world has the goals and the rules.
        agent: one of `AGENTS`.
        closed: whether answers may use only the names that the agent is told.

    Raises:
        SettingsError: the setting `save` names no place where a file can be written, or no rules
            change at `change_at`.
        SavedKnowledgeError: the file cannot be written, or is of another run.
    """
    engines, settings, seed = run.engines, run.settings, run.seed
    identity = run_of(
        settings, run.world.settings, agent=agent, task=run.task, model=engines.name, seed=seed
    )
    path = Path(at_home(settings.save))
    if settings.save:
        Saved.of(path, identity)
    game, wanted, perturbed = game_rules(), run.world.goals, run.world.rules(seed)
    if settings.change_at and not perturbed.items:
        raise SettingsError(
            f"change_at={settings.change_at}: no rules change; give requirements or actions above 0"
        )
    unperturbed = run.world.text_world(game)
    names = unperturbed.items if settings.names == "all" else wanted
    roles = MinecraftAsking(
        unperturbed, engines, settings, seed=seed, names=names if closed else None
    )
    known = Knowledge(DependencyGraph(names))
    memory = ActionMemory(unperturbed.verbs, x0=settings.x0)
    learner = AGENTS[agent](
        knowledge=known,
        memory=memory,
        similar=Similar(engines.default),
        roles=roles,
        rng=random.Random(f"goals {seed}"),
        k=settings.k,
        c0=settings.c0,
        alpha_s=settings.alpha_s,
        alpha_i=settings.alpha_i,
        notes=notes_on(known, memory),
    )
    demonstrate(PLANS[: settings.plans], unperturbed, knowledge=known, succeeded=learner.succeeded)
    demonstrated = frozenset(known.demonstrated)
    if settings.initial == "truth":
        initial = Initial()
        for v in unperturbed.items:
            rule = unperturbed.book.rule(v)
            known.graph.require(v, rule.requirements, makes=rule.makes)
    else:
        initial = await learner.initialise(roles.predict, most=settings.most)
    before = known.graph.copy()
    first = game if settings.change_at else perturbed.book
    world = run.world.text_world(first)
    learning = _Learning(
        agent=learner,
        settings=settings,
        perturbed=perturbed,
        truth={g: first.requirements(g) for g in wanted},
    )
    for episode in range(settings.episodes):
        await learning.play(_world(world, settings, seed, episode), begun=episode * settings.steps)
        if settings.save:
            save_knowledge(path, known, memory, run=identity, episodes=episode + 1)
    return learning_outcome(
        LearningResult(
            goals=wanted,
            perturbed=perturbed,
            known=known,
            before=before,
            demonstrated=demonstrated,
            initial=initial,
            curve=learning.curve,
        ),
        run,
        oracles=roles.oracles,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Learning:
    """A run, and how far it has come.

    Attributes:
        perturbed: the rules, and the items that they change.
        truth: goal -> its requirements now.
        curve: N_true and the goals obtained over time.
        attempts: goal -> how often it was tried, where the graph is known (Appendix K.8).
    """

    agent: Xenon
    settings: LearningSettings
    perturbed: Perturbed
    truth: dict[str, Mapping[str, int]]
    curve: Curve = field(default_factory=Curve)
    attempts: Counter[str] = field(default_factory=Counter)

    async def play(self, world: World, *, begun: int) -> None:
        """Runs one episode. At step `change_at` the rules and the truth change.

        Args:
            world: at the beginning of the episode.
            begun: environment steps of the episodes before.
        """
        known, settings, perturbed = self.agent.knowledge, self.settings, self.perturbed
        explore = self._try_goals if settings.initial == "truth" else self.agent.learn

        def note(_: object = None) -> None:
            obtained = sum(g in known.obtained for g in self.truth)
            self.curve.note(begun + world.steps, known.graph.n_true(self.truth), obtained)

        note()
        if settings.change_at and perturbed.items and isinstance(world, TextWorld):
            await explore(world, until=settings.change_at, watch=note)
            # If nothing is left to try, the agent waits for the change.
            world.steps = max(world.steps, settings.change_at)
            world.change(perturbed.book)
            self.agent.forget(perturbed.items)
            self.truth.update((g, perturbed.book.requirements(g)) for g in self.truth)
            note()
        await explore(world, until=settings.steps, watch=note)

    async def _try_goals(
        self, world: World, *, until: int, watch: Callable[[object], None]
    ) -> None:
        """Tries the least attempted of the goals not yet obtained (Appendix K.8)."""
        agent = self.agent
        while world.steps < until:
            missing = [g for g in self.truth if g not in agent.knowledge.obtained]
            if not missing:
                return
            fewest = min(self.attempts[g] for g in missing)
            goal = agent.rng.choice([g for g in missing if self.attempts[g] == fewest])
            self.attempts[goal] += 1
            watch(await agent.pursue(goal, world, until=until))


def _world(text: TextWorld, settings: LearningSettings, seed: int, episode: int) -> World:
    """Returns a fresh world. A controller's random seed depends on the seed and the episode."""
    if settings.controller == "text":
        return text.clone()
    chance = int.from_bytes(hashlib.sha256(f"{seed} {episode}".encode()).digest()[:8], "big")
    return SimulatedWorld(text, profile=settings.controller, horizon=settings.steps, seed=chance)
