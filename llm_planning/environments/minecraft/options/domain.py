"""Minecraft as a domain: options carried out in the world of options."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from llm_planning.domain import SMALLEST, Domain, Judged, Step, wording_of
from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.options.advice import needed
from llm_planning.environments.minecraft.options.language import (
    ChangeModel,
    OptionGrammar,
    Vocabulary,
    mistaken,
)
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.primitives import MinecraftPrimitives
from llm_planning.environments.minecraft.options.rules import CraftMode, OptionRules, holds
from llm_planning.environments.minecraft.options.state import State, repeated
from llm_planning.environments.minecraft.options.steps import Stations, StepsBefore, unequipped
from llm_planning.environments.minecraft.options.tables import FUEL
from llm_planning.environments.minecraft.options.tasks import MINE_A_DIAMOND, TASKS
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS
from llm_planning.environments.minecraft.options.world import OptionWorld
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from llm_planning.environments.minecraft.options.tasks import Task
    from llm_planning.environments.minecraft.options.verb import Verb
    from llm_planning.roles.exercises import Teacher
    from llm_serving.request import Image

EVERY_TASK: Mapping[str, Task] = {**TASKS, MINE_A_DIAMOND.name: MINE_A_DIAMOND}
"""The eight tasks of Tree of Options and the task of DRIP."""


TICKS_A_SECOND = 20
"""Ticks of the world in a second."""


class MinecraftSettings(Settings):
    """Settings of the domain.

    Attributes:
        vocabulary: with `closed`, models write only words of this world; with `free`, they write
            any item or name, as in Tree of Options.
        options: with `folded`, a craft makes its materials on the way; with `single`, it carries
            out one recipe.
        stations: how a decomposition names a crafting table or a furnace: as `placed`, or as
            `held`.
    """

    vocabulary: Vocabulary = "closed"
    options: CraftMode = "folded"
    stations: Stations = "placed"


class Minecraft(Domain[State, Option]):
    """Options of Minecraft 1.16, from bare hands on a plain.

    Encounters, drops and damage are drawn; recipes and tools come from the rule book.

    Args:
        task: one of `EVERY_TASK`, or a task of one's own.
    """

    tasks = tuple(EVERY_TASK)
    grammar: OptionGrammar
    state_model: ChangeModel
    primitives = MinecraftPrimitives()

    def __init__(
        self,
        *,
        task: str | Task = MINE_A_DIAMOND.name,
        vocabulary: Vocabulary = "closed",
        options: CraftMode = "folded",
        stations: Stations = "placed",
    ) -> None:
        self.task = EVERY_TASK[task] if isinstance(task, str) else task
        self.goal = self.task.goal
        self.options = options
        self.vocabulary: Vocabulary = vocabulary
        self.stations = stations
        self.mechanics = f"{options} {vocabulary} {stations}"
        taught_first = (options, stations) == ("folded", "placed")
        self._rules_line = "" if taught_first else f"Rules: {options} crafts, {stations} stations\n"
        self.grammar, self.state_model = _language(vocabulary)
        self.wording = wording_of(__package__)
        self.world = _world(options)
        self._rules = _rules(options)
        self._steps = StepsBefore(self._rules, stations=stations)
        self._way = len(self.advise(self.task.start))

    def start(self, seed: int) -> State:  # noqa: ARG002 - every world begins alike
        """s_0."""
        return self.task.start

    def describe(self, state: State) -> str:
        """The record of the state (Tree of Options, Appendix A.1)."""
        return str(state)

    def brief(self, state: State) -> str:
        """Where the player is, what is near, what is worn and what is held.

        An option takes at most a stack, so larger numbers do not matter. Settings other than the
        usual ones stand first, so that one model can be taught several.
        """
        counts = {
            kind: sighting.number
            for kind, sighting in state.near.items()
            if sighting.number <= MOST
        }
        near = [
            f"{counts[kind]} {kind}" if kind in counts else kind
            for kind in (*state.nearby_blocks, *state.nearby_entities)
        ]
        worn = ", ".join(filter(None, state.equipment))
        held = [f"{count} {item}" for item, count in state.inventory.items()]
        return (
            f"{self._rules_line}At: {state.biome}, height {state.position[1]:.0f}, {state.time}\n"
            f"Near: {', '.join(near) or 'nothing'}\n"
            + (f"Worn: {worn}\n" if worn else "")
            + f"Has: {', '.join(held) or 'nothing'}"
        )

    def draw(self, state: State, *, size: int = SMALLEST) -> Image:
        """The record of the state as a picture."""
        from llm_planning.environments.minecraft.options.pictures import draw_state

        return draw_state(state, size)

    def actions(self, state: State) -> Sequence[Option]:
        """The feasible options in the quantities of their verbs, without those done and idle."""
        world, held = self.world, state.inventory.keys()
        there = {*held, *state.equipment, *state.nearby_blocks, *state.nearby_entities}
        return [
            option
            for option, needs, near in _candidates(self.options)
            if not any(map(held.isdisjoint, needs))
            and not any(map(there.isdisjoint, near))
            and world.feasible(state, option) is None
            and not (VERBS[option.verb].idle and world.done(state, option))
        ]

    def step(self, state: State, action: Option, rng: Random) -> Step[State]:
        """Carries an option out; a refused option draws nothing."""
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
            time=outcome.ticks / TICKS_A_SECOND,
        )

    def success(self, state: State) -> bool:
        """Whether the task's items are held."""
        return self.world.achieved(state, self.task)

    def milestones(self, state: State) -> Mapping[str, bool]:
        """Which milestones of the task a state shows."""
        return {
            name: any(holds(state, item) for item in items)
            for name, items in self.task.milestones.items()
        }

    def feasible(self, state: State, action: Option) -> str | None:
        """Why an option cannot be carried out; None if it can."""
        return self.world.feasible(state, action)

    def score(self, state: State) -> float:
        """1 - (options still needed / options needed at the start); at least 0."""
        return max(0.0, 1.0 - len(self.advise(state)) / self._way)

    def advise(self, state: State) -> Sequence[Option]:
        """The options that the goal still takes, in an order that works."""
        return needed(self._rules, state, self.task.wanted)

    def named(self, state: State) -> Sequence[Option]:
        """The options that the goal names: those that give its items."""
        return self._steps.goal(state, self.task.wanted)

    def decompose(self, state: State, subtask: Option | None) -> Sequence[Option]:
        """The options immediately before one (*DRIP*, Table 10); for a goal, those it names.

        An option whose item has no word in a closed vocabulary is left out: no answer can name it.
        """
        if subtask is None:
            return self.named(state)
        before = self._steps.before(state, subtask)
        return [option for option in before if self.vocabulary == "free" or option.item in OBJECTS]

    def judge(self, state: State, subtask: Option, parent: Option | None) -> Judged:  # noqa: ARG002
        """Whether an option's result is there, or else whether it can be carried out (Table 11).

        The result counts and not the verb. It does not matter what the option is needed for.
        """
        if self.world.done(state, subtask):
            return Judged("done", "its result is there")
        obstacle = self.world.feasible(state, subtask) or unequipped(state, subtask)
        return (
            Judged("true", "nothing is missing") if obstacle is None else Judged("false", obstacle)
        )

    def approach(self, before: State, state: State, subtask: Option) -> Sequence[Option]:
        """What an option lacks and can be had now, then the rest of the option.

        One call mends one level: a missing pickaxe, but not the logs for that pickaxe as well.
        """
        *lacking, rest = self._steps.approach(before, state, subtask)
        world = self.world
        now = (
            step
            for step in lacking
            if world.feasible(state, step) is None
            and not (VERBS[step.verb].idle and world.done(state, step))
        )
        return [*now, rest]

    def shows(self, before: State, state: State, subtask: Option) -> bool:
        """Whether an option's result came about since it was begun."""
        return VERBS[subtask.verb].shows(self._rules, before, state, subtask)

    def falls_short(self, predicted: State, state: State) -> bool:
        """Whether a state lacks items that were predicted."""
        held = state.inventory
        return any(held.get(item, 0) < count for item, count in predicted.inventory.items())

    def worth_trying(self, then: State, state: State) -> bool:
        """Whether something else is held than then, or something new has come into view."""
        before, now = ({*seen.nearby_blocks, *seen.nearby_entities} for seen in (then, state))
        return super().worth_trying(then, state) or not now <= before

    def again(self, state: State, before: State, after: State) -> State | None:
        """What an option took and gave, taken and given again; a new place comes into view."""
        return repeated(state, before, after)

    def saved(self, state: State) -> Mapping[str, Any]:
        """A state as JSON values."""
        return state.to_json()

    def restored(self, record: Mapping[str, Any]) -> State:
        """The state that `saved` wrote."""
        return State.from_json(record)

    def subject(self, subtask: Option) -> str:
        """The item of an option."""
        return subtask.item

    def in_units(self) -> Minecraft:
        """The same task with single recipes, whose actions are of one unit."""
        return Minecraft(
            task=self.task,
            vocabulary=self.vocabulary,
            options="single",
            stations=self.stations,
        )

    def unit(self, subtask: Option) -> Option:
        """An option with the quantity 1."""
        return replace(subtask, quantity=1)

    def mistakes(self, subtask: Option) -> Mapping[str, Sequence[Option]]:
        """Options with another item, verb or quantity."""
        return mistaken(subtask)


def _open(task: str, settings: MinecraftSettings) -> Minecraft:
    return Minecraft(
        task=task,
        vocabulary=settings.vocabulary,
        options=settings.options,
        stations=settings.stations,
    )


def _teacher(held_out: Sequence[str] | None) -> Teacher[State, Option]:
    return _teacher_under(MinecraftSettings(), held_out)


@cache
def _teacher_under(
    settings: MinecraftSettings, held_out: Sequence[str] | None
) -> Teacher[State, Option]:
    # The teacher makes domains, so it imports this module.
    from llm_planning.environments.minecraft.options.teacher import HELD_OUT_ITEMS, MinecraftTeacher

    if settings.vocabulary != "closed":
        raise SettingsError(f"vocabulary={settings.vocabulary}: lessons are in the closed one")
    return MinecraftTeacher(
        options=settings.options,
        stations=settings.stations,
        held_out=HELD_OUT_ITEMS if held_out is None else tuple(held_out),
    )


MINECRAFT = DomainSpec(
    name="minecraft",
    summary="Options of Minecraft 1.16 from bare hands: eight tasks, and mining a diamond",
    kind=Minecraft,
    tasks=tuple(EVERY_TASK),
    settings=MinecraftSettings,
    open=_open,
    teacher=_teacher,
    teacher_under=_teacher_under,
)


@cache
def _language(vocabulary: Vocabulary) -> tuple[OptionGrammar, ChangeModel]:
    return OptionGrammar(vocabulary), ChangeModel(vocabulary)


@cache
def _rules(options: CraftMode) -> OptionRules:
    return OptionRules(game_rules(), options=options)


_Groups: TypeAlias = tuple[frozenset[str], ...]


@cache
def _candidates(options: CraftMode) -> tuple[tuple[Option, _Groups, _Groups], ...]:
    """Whatever is an action in some state, and groups of which one each must be held, or be near.

    A search lists actions all the time; few of these are left for the rules to refuse.
    """
    rules = _rules(options)
    return tuple(
        (Option(verb.word, quantity, item), *_takes(rules, verb, item))
        for verb in VERBS.values()
        for item in OBJECTS
        if item in verb.names(rules)
        for quantity in verb.quantities
    )


def _takes(rules: OptionRules, verb: Verb, item: str) -> tuple[_Groups, _Groups]:
    if verb.uses(Option(verb.word, 1, item)):
        return (frozenset({item}),), ()
    recipe = verb.takes(rules, (), item)
    if recipe is None:
        return (), ()
    held = [rules.made_of(kinds) for kinds, _ in recipe.consumed]
    fuel = [frozenset(FUEL)] if recipe.burns else []
    # Another source may take other tools.
    near = [recipe.near] if recipe.near else map(rules.made_of, recipe.kept)
    return (*held, *fuel), tuple(map(frozenset, near))


@cache
def _world(options: CraftMode) -> OptionWorld:
    return OptionWorld(game_rules(), seed=0, options=options)
