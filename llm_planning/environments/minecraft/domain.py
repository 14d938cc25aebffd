"""Minecraft as a domain: options carried out in the world of options."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from llm_planning.domain import Domain, Step
from llm_planning.environments.minecraft.option_language import (
    ChangeModel,
    Option,
    OptionGrammar,
    Vocabulary,
)
from llm_planning.environments.minecraft.option_rules import OptionRules, Reading, needed
from llm_planning.environments.minecraft.option_world import OptionWorld
from llm_planning.environments.minecraft.rulebook import game_rules
from llm_planning.environments.minecraft.state import State
from llm_planning.environments.minecraft.tasks import MINE_A_DIAMOND, TASKS
from llm_planning.environments.minecraft.vocabulary import OBJECTS, VERBS
from llm_planning.settings import Settings
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.tasks import Task

EVERY_TASK: Mapping[str, Task] = {**TASKS, MINE_A_DIAMOND.name: MINE_A_DIAMOND}
"""The eight tasks of Tree of Options, and that of DRIP."""

QUANTITIES = (1, 3, 8)
"""The quantities of actions, for planners that choose among actions (our choice): one, what a
recipe of tools needs, and what a furnace needs."""


class MinecraftSettings(Settings):
    """Settings of the domain.

    Attributes:
        vocabulary: `closed` holds items and names to the world's words; `free` lets a model write
            any, as in Tree of Options.
        options: what one craft does: `folded`, it makes on the way what it is made of; `single`, it
            is one recipe.
    """

    vocabulary: Vocabulary = "closed"
    options: Reading = "folded"


class Minecraft(Domain[State, Option]):
    """Options of Minecraft 1.16, from bare hands on a plain.

    What is met, dropped and suffered is drawn; recipes and tools are those of the rule book.

    Args:
        task: one of `EVERY_TASK`.
        vocabulary: see `MinecraftSettings`.
        options: see `MinecraftSettings`.
    """

    tasks = tuple(EVERY_TASK)
    grammar: OptionGrammar
    state_model: ChangeModel

    def __init__(
        self,
        *,
        task: str = MINE_A_DIAMOND.name,
        vocabulary: Vocabulary = "closed",
        options: Reading = "folded",
    ) -> None:
        self.task = EVERY_TASK[task]
        self.goal = self.task.goal
        self.options = options
        self.grammar, self.state_model = _language(vocabulary)
        self.wording = _wording()
        self.world = _world(options)
        self._rules = _rules(options)
        self._way = len(self.advise(self.task.start))

    def start(self, seed: int) -> State:  # noqa: ARG002 - every world begins alike
        """s_0."""
        return self.task.start

    def describe(self, state: State) -> str:
        """The record of the state (Tree of Options, Appendix A.1)."""
        return str(state)

    def actions(self, state: State) -> Sequence[Option]:
        """The options that are feasible and not done yet, in the quantities `QUANTITIES`."""
        candidates = [
            Option(verb, quantity, item)
            for verb in VERBS
            for item in OBJECTS
            for quantity in (QUANTITIES if verb in {"mine", "smelt"} else QUANTITIES[:1])
        ]
        world = self.world
        return [
            option
            for option in candidates
            if world.feasible(state, option) is None
            and not (option.verb in {"find", "equip"} and world.done(state, option))
        ]

    def step(self, state: State, action: Option, rng: Random) -> Step[State]:
        """Carries an option out; nothing is drawn for one that is refused."""
        if refusal := self.world.feasible(state, action):
            return Step(state, text=refusal, obstacle=refusal)
        outcome = self.world.reseeded(rng.getrandbits(64)).step(state, action)
        won = self.success(outcome.state)
        return Step(
            outcome.state,
            reward=float(won),
            done=won,
            text=outcome.obstacle or f"{action}: done in {outcome.ticks} ticks",
            obstacle=outcome.obstacle,
        )

    def success(self, state: State) -> bool:
        """Whether the task's items are held."""
        return self.world.achieved(state, self.task)

    def feasible(self, state: State, action: Option) -> str | None:
        """Why an option cannot be carried out; None if it can."""
        return self.world.feasible(state, action)

    def score(self, state: State) -> float:
        """The share of the options that were needed at the start and are needed no longer."""
        return max(0.0, 1.0 - len(self.advise(state)) / self._way)

    def advise(self, state: State) -> Sequence[Option]:
        """The options that the rules still ask for, in an order that works."""
        return needed(self._rules, state, self.task.wanted)


def _open(task: str, settings: MinecraftSettings) -> Minecraft:
    return Minecraft(task=task, vocabulary=settings.vocabulary, options=settings.options)


MINECRAFT = DomainSpec(
    name="minecraft",
    summary="Options of Minecraft 1.16 from bare hands: eight tasks, and mining a diamond",
    kind=Minecraft,
    tasks=tuple(EVERY_TASK),
    settings=MinecraftSettings,
    open=_open,
)


@cache
def _language(vocabulary: Vocabulary) -> tuple[OptionGrammar, ChangeModel]:
    return OptionGrammar(vocabulary), ChangeModel(vocabulary)


@cache
def _rules(options: Reading) -> OptionRules:
    return OptionRules(game_rules(), options=options)


@cache
def _world(options: Reading) -> OptionWorld:
    return OptionWorld(game_rules(), seed=0, options=options)


@cache
def _wording() -> Mapping[str, str]:
    """Question -> the blocks that word it for Minecraft."""
    folder = files(__package__) / "wording"
    return {
        file.name.removesuffix(".j2"): file.read_text("utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".j2")
    }
