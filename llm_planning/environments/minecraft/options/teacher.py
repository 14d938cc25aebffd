"""The teacher of Minecraft: states, goals and options to ask about, and what is right there.

A state lies on the way to a goal, or beside it: a walk takes mostly advised options, and now and
then another one: one that fills up a proposal, or what someone may write by mistake. The world
carries out some of the walks. Most are predicted from the start, as in a search, where what was
near stays near. Then something may be added to the inventory or be taken from it. Options are those
that the goal still takes, the same in other quantities, and others of every verb, about things that
are held, near, or neither.

Three things are held out from teaching: some goals, the recipes of some families, and one state in
twenty, by a hash of what a lesson shows of it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Final

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.options.advice import needed
from llm_planning.environments.minecraft.options.domain import EVERY_TASK, Minecraft
from llm_planning.environments.minecraft.options.language import Amount, ChangeModel, Prediction
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.rules import OptionRules
from llm_planning.environments.minecraft.options.tables import FLUIDS
from llm_planning.environments.minecraft.options.tasks import PLAINS, Task
from llm_planning.environments.minecraft.options.verbs import FIND, MINE, VERBS, giver
from llm_planning.environments.minecraft.options.vocabulary import BLOCKS, ENTITIES, ITEMS
from llm_planning.environments.minecraft.options.world import OptionWorld
from llm_planning.names import remedy
from llm_planning.roles.exercises import HELD_OUT, SEEN, Situation

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from random import Random

    from pydantic import BaseModel

    from llm_planning.domain import Judged
    from llm_planning.environments.minecraft.options.rules import CraftMode
    from llm_planning.environments.minecraft.options.state import State
    from llm_planning.environments.minecraft.options.steps import Stations
    from llm_planning.environments.minecraft.options.world import OptionOutcome

TASK: Final = "task"
OTHER: Final = "other"

HELD_OUT_ITEMS: Final = (
    *(f"{tier}_hoe" for tier in ("wooden", "stone", "iron", "golden", "diamond")),
    "clock",
    "shield",
    "stone_sword",
    "cooked_mutton",
    "water_bucket",
)
"""Items that are held out by default: a family of recipes, and goals near to known ones."""

NEW_STATES: Final = 20
"""One state in so many is held out."""

FIRST_SEED: Final = 1 << 40
"""The first seed of the worlds in which outcomes are drawn; tables have lower ones."""

EVIDENCE: Final = 60
"""The most characters of a reason."""

_OUTCOMES_KEPT = 256
_DRAWS = 9
_DRAWS_OF_FIND = 30
_HOPE = 0.1
_OPTIONS = 48
_OTHER_GOALS = 2
_LONGEST_WAY = 16
_DETOUR = 0.2
_FILLED = 0.5
_MISTAKEN = 0.3
_PREDICTED = 0.7
_CHANGED_INVENTORY = 0.3
_TASKS = 0.7
_HELD_OUT = 0.4
_QUANTITIES = (1, 1, 1, 2, 3, 4, 8, 11)
_SHARES = {
    "craft": 8,
    "mine": 7,
    "smelt": 3,
    "cook": 2,
    "find": 4,
    "kill": 3,
    "equip": 1,
    "place": 1,
    "shear": 1,
    "milk": 1,
    "collect": 2,
}
_ASKED = {**_SHARES, **{verb: 1 for verb in VERBS if verb not in _SHARES}}
_FILLERS = ("oak_log", "cobblestone", "dirt", "coal", "grass_block", "stone", "sand", "birch_log")
_COUNTED = 64


class MinecraftTeacher:
    """Draws situations, and knows what is right in them; a `roles.exercises.Teacher`.

    Args:
        options: how much one craft makes; see `CraftMode`.
        stations: how a decomposition names a station; see `MinecraftSettings`.
        held_out: items that are neither goals nor products of options in teaching.

    Raises:
        ValueError: a held-out item is no item of this world, or is the goal of a task.
    """

    def __init__(
        self,
        *,
        options: CraftMode = "folded",
        stations: Stations = "placed",
        held_out: Iterable[str] = HELD_OUT_ITEMS,
    ) -> None:
        self.held_out = frozenset(held_out)
        for item in sorted(self.held_out):
            if item not in ITEMS:
                raise ValueError(f"cannot hold out {item!r}: {remedy(item, ITEMS)}")
        for task in EVERY_TASK.values():
            for kinds in task.wanted:
                if self.held_out.issuperset(kinds):
                    raise ValueError(f"cannot hold out {kinds[0]!r}: it is the goal of {task.name}")
        self._answer = ChangeModel("closed").answer
        self._nothing = self._answer(
            gained=[], lost=[], blocks=[], entities=[], equipped=[], conditions=[]
        )
        self._rules = OptionRules(game_rules(), options=options)
        self._world = OptionWorld(game_rules(), seed=FIRST_SEED, options=options)
        # An option's prediction is asked for by several makers.
        self._outcomes = lru_cache(_OUTCOMES_KEPT)(self._drawn_outcomes)
        rules = self._rules
        self._things = {word: verb.asked_about(rules) for word, verb in VERBS.items()}
        world = partial(Minecraft, options=options, stations=stations)
        tasks = [world(task=task) for task in EVERY_TASK.values()]
        others = [world(task=_obtain(item)) for item in self._obtainable()]
        self._goals: Mapping[str, Sequence[Minecraft]] = {
            TASK: tasks,
            OTHER: [domain for domain in others if domain.task.name not in self.held_out],
            HELD_OUT: [domain for domain in others if domain.task.name in self.held_out],
        }

    def situation(self, rng: Random, *, held_out: bool) -> Situation[State, Option]:
        """Draws a state on or beside the way to a goal, and options to judge there."""
        while True:
            domain = self._goal(rng, held_out=held_out)
            state, since = self._walked(domain, rng, held_out=held_out)
            if rng.random() < _CHANGED_INVENTORY:
                state, since = _meddled(state, rng), None
            if _is_new(state) != held_out:
                continue
            domains = (domain, *self._other_goals(domain, state, rng, held_out=held_out))
            if held_out or self._can_be_taught(domains, state):
                break
        feasible, infeasible = self._options(domain, state, rng, held_out=held_out)
        return Situation(
            domains=domains,
            state=state,
            feasible=feasible,
            infeasible=infeasible,
            new=held_out,
            start=domain.task.start,
            since=since,
        )

    def _can_be_taught(self, domains: Iterable[Minecraft], state: State) -> bool:
        """Whether the way to each goal makes nothing that is held out."""
        return all(
            self.option_kind(option) == SEEN
            for domain in domains
            for option in domain.advise(state)
        )

    def goal_kind(self, domain: Minecraft) -> str:
        """`task`, `other` or `held out`."""
        name = domain.task.name
        return TASK if name in EVERY_TASK else HELD_OUT if name in self.held_out else OTHER

    def option_kind(self, option: Option) -> str:
        """`held out` if the option names or makes a held-out item, otherwise `seen`."""
        made = {
            option.item,
            FLUIDS.get(option.item),
            *VERBS[option.verb].gives(self._rules, option),
        }
        return SEEN if made.isdisjoint(self.held_out) else HELD_OUT

    def is_held_out(self, domain: Minecraft, state: State) -> bool:
        """Whether teaching leaves out this goal, this state, or what the way from it makes."""
        is_new = self.goal_kind(domain) == HELD_OUT or _is_new(state)
        return is_new or not self._can_be_taught((domain,), state)

    def aim(self, state: State, option: Option) -> str:
        """How much of what the option gives is needed and held."""
        item, held = option.item, state.inventory.get(option.item, 0)
        aim = VERBS[option.verb].aim
        return aim.format(item=item, held=held, wanted=held + option.quantity)

    def fillers(self, state: State) -> list[Option]:
        """More of what is at hand."""
        more = (Option(MINE.word, 3, item) for item in _FILLERS if item not in self.held_out)
        return [option for option in more if self._world.feasible(state, option) is None]

    def evidence(self, state: State, option: Option) -> str:
        """What an option lacks; else what it takes, or where it finds what it is about."""
        if obstacle := self._world.feasible(state, option):
            return obstacle
        if lost := _middle([outcome.change.lost for outcome in self._outcomes(state, option)]):
            held = state.inventory
            parts = [f"{count} of {held.get(item, 0)} {item}" for item, count in lost.items()]
            while len(text := f"takes {', '.join(parts)}") > EVIDENCE and len(parts) > 1:
                parts.pop()
            return text[:EVIDENCE]
        return VERBS[option.verb].evidence(self._rules, state, option)[:EVIDENCE]

    def judged(
        self, domain: Minecraft, state: State, subtask: Option, parent: Option | None
    ) -> Judged:
        """The domain's own judgement: a state names what its reason names."""
        return domain.judge(state, subtask, parent)

    def prediction(self, state: State, option: Option) -> BaseModel:
        """The middle of some outcomes; of what a `find` shows, only what was looked for.

        The teacher hopes: what comes into view in one of ten outcomes is found.
        """
        outcomes = self._outcomes(state, option)
        gained, lost = (
            [
                Amount(item=item, count=min(count, 64))
                for item, count in _middle(
                    [getattr(outcome.change, side) for outcome in outcomes]
                ).items()
                if item in ITEMS
            ][:4]
            for side in ("gained", "lost")
        )
        first = outcomes[0].change
        target = [option.item] if _sights(option, state, outcomes) >= _HOPE else []
        change = Prediction(
            gained=gained,
            lost=lost,
            blocks=[kind for kind in target if kind in BLOCKS],
            entities=[kind for kind in target if kind in ENTITIES],
            equipped=[] if first.equipped is None else [first.equipped],
            conditions=_height(outcomes),
        )
        return self._answer.model_validate(change.model_dump())

    def unchanged(self, state: State) -> BaseModel:  # noqa: ARG002 - a change says the same of all
        """The prediction that an option changes nothing."""
        return self._nothing

    def can_follow(self, state: State, option: Option, prediction: BaseModel) -> bool:
        """Whether a predicted change has the effect of some outcome.

        Equipment, height and the count of every item must be within the outcomes. What came into
        view in one of them may be named, and what was looked for must be, if it came in all. What
        is in view already, or the present height, changes nothing. Time, biome, health and hunger
        do not count.
        """
        assert isinstance(prediction, Prediction)
        predicted = prediction.change()
        outcomes = self._outcomes(state, option)
        seen = {*predicted.blocks, *predicted.entities} - {
            *state.nearby_blocks,
            *state.nearby_entities,
        }
        possible = {
            kind
            for outcome in outcomes
            for kind in (*outcome.change.blocks, *outcome.change.entities)
        }
        found_always = _sights(option, state, outcomes) == 1
        if not seen <= possible or (found_always and option.item not in seen):
            return False
        height = None if predicted.height == round(state.position[1]) else predicted.height
        if ([] if height is None else [f"height {height:.0f}"]) != _height(outcomes):
            return False
        changes = [outcome.change for outcome in outcomes]
        return (
            {predicted.equipped} <= {change.equipped for change in changes}
            and _within(predicted.gained, [_writable(change.gained) for change in changes])
            and _within(predicted.lost, [_writable(change.lost) for change in changes])
        )

    def _obtainable(self) -> list[str]:
        """The items that the rules know a way to from bare hands, without the goals of tasks."""
        tasks = {kinds[0] for task in EVERY_TASK.values() for kinds in task.wanted}
        return [
            item
            for item in ITEMS
            if item not in tasks
            and (way := needed(self._rules, PLAINS, [(item,)]))
            and len(way) <= _LONGEST_WAY
            and all(option.item in (*ITEMS, *BLOCKS, *ENTITIES, *FLUIDS) for option in way)
        ]

    def _goal(self, rng: Random, *, held_out: bool) -> Minecraft:
        kind = TASK if rng.random() < _TASKS else OTHER
        if held_out and rng.random() < _HELD_OUT:
            kind = HELD_OUT
        return rng.choice(self._goals[kind])

    def _other_goals(
        self, domain: Minecraft, state: State, rng: Random, *, held_out: bool
    ) -> list[Minecraft]:
        """A goal that is reached, if there is one, and others that are not."""
        kinds = (TASK, OTHER, HELD_OUT) if held_out else (TASK, OTHER)
        known = [goal for kind in kinds for goal in self._goals[kind] if goal is not domain]
        reached = [goal for goal in known if goal.success(state)]
        drawn = dict.fromkeys(self._goal(rng, held_out=held_out) for _ in range(_OTHER_GOALS))
        return [
            *([rng.choice(reached)] if reached else []),
            *(goal for goal in drawn if goal is not domain and goal not in reached),
        ]

    def _walked(
        self, domain: Minecraft, rng: Random, *, held_out: bool
    ) -> tuple[State, tuple[Option, ...] | None]:
        """A state after some steps on the way to a goal, all carried out or all predicted.

        A walk that looks for what is held out ends where it comes to that.

        Returns:
            The state, and the steps from the start that lead there as they most likely go; None if
            other ones or chance led there.
        """
        state, predicting = domain.task.start, rng.random() < _PREDICTED
        known, taken = predicting, []
        if rng.random() < 0.15:
            state, known = self._taken(state, Option(FIND.word, 1, ""), rng), False
        for _ in range(rng.randrange(len(domain.advise(state)) + 2)):
            advised = [
                step for step in domain.advise(state) if domain.feasible(state, step) is None
            ]
            option = advised[0] if advised else None
            if option is None or rng.random() < _DETOUR:
                fillers = self.fillers(state) if rng.random() < _FILLED else []
                if option is not None and rng.random() < _MISTAKEN:
                    fillers = list(rng.choice(list(domain.mistakes(option).values())))
                others = (self._any_option(state, rng) for _ in range(30))
                candidates = chain(rng.sample(fillers, len(fillers)), others)
                fitting = (
                    candidate
                    for candidate in candidates
                    if domain.feasible(state, candidate) is None
                )
                option = rng.choice(advised) if len(advised) > 1 else next(fitting, option)
            if option is None or (held_out and _is_new(state)):
                break
            if predicting:
                predicted = self.prediction(state, option)
                assert isinstance(predicted, Prediction)
                state = state.apply(predicted.change())
            else:
                state = self._taken(state, option, rng)
            taken.append(option)
        return state, tuple(taken) if known else None

    def _taken(self, state: State, option: Option, rng: Random) -> State:
        return self._world.reseeded(rng.getrandbits(64)).step(state, option).state

    def _options(
        self, domain: Minecraft, state: State, rng: Random, *, held_out: bool
    ) -> tuple[list[Option], list[Option]]:
        """Feasible and infeasible options, verb by verb, those that the goal still takes first."""
        advised = domain.advise(state)
        counted = [option for option in advised if len(VERBS[option.verb].lessons) > 1]
        pool = [
            *advised,
            *(replace(option, quantity=rng.choice(_QUANTITIES)) for option in counted),
            *(replace(option, quantity=option.quantity + rng.randint(1, 3)) for option in counted),
            *(self._any_option(state, rng) for _ in range(_OPTIONS)),
        ]
        if held_out and rng.random() < _HELD_OUT:
            family = sorted(self.held_out & {*self._rules.crafts, *self._rules.smelts})
            pool = [*(self._making(item, rng) for item in rng.sample(family, len(family))), *pool]
        split: tuple[list[Option], list[Option]] = ([], [])
        near = {*state.nearby_blocks, *state.nearby_entities}
        for option in dict.fromkeys(pool):
            in_view = option.verb == FIND.word and option.item in near
            if not in_view and (held_out or self.option_kind(option) == SEEN):
                split[domain.feasible(state, option) is not None].append(option)
        # The rare verbs must not drown in the frequent ones.
        return _by_turns(split[0]), _by_turns(split[1])

    def _making(self, item: str, rng: Random) -> Option:
        way = giver(self._rules, item)
        assert way is not None
        return Option(way[0].word, rng.choice(way[0].lessons), item)

    def _any_option(self, state: State, rng: Random) -> Option:
        """An option of any verb, mostly about a thing that the verb can be used on."""
        (verb,) = rng.choices(tuple(_ASKED), tuple(_ASKED.values()))
        held = [*state.inventory, *filter(None, state.equipment)]
        near = [*state.nearby_blocks, *state.nearby_entities]
        possible = self._things[verb]
        close = [thing for thing in (*held, *near) if thing in possible]
        item = rng.choice(close if close and rng.random() < 0.5 else possible)
        return Option(verb, rng.choice(VERBS[verb].lessons), item)

    def _drawn_outcomes(self, state: State, option: Option) -> list[OptionOutcome]:
        draws = _DRAWS_OF_FIND if option.verb == FIND.word else _DRAWS
        seeds = range(FIRST_SEED, FIRST_SEED + draws)
        return [self._world.reseeded(seed).step(state, option) for seed in seeds]


def _obtain(item: str) -> Task:
    return Task(name=item, goal=f"Obtain 1 {item}.", wanted=((item,),), start=PLAINS)


def _meddled(state: State, rng: Random) -> State:
    """The state with some more or fewer items, as another way might have led to it."""
    held = dict(state.inventory)
    for item in list(held):
        if rng.random() < 0.3:
            held[item] = rng.randint(0, held[item] + 4)
    for item in rng.sample(ITEMS, rng.randint(0, 3)):
        held.setdefault(item, rng.choice(_QUANTITIES))
    return replace(state, inventory={item: count for item, count in held.items() if count > 0})


def _by_turns(options: Sequence[Option]) -> list[Option]:
    """The options in rounds, each with at most one option of every verb."""
    seen: Counter[str] = Counter()
    rounds: list[tuple[int, Option]] = []
    for option in options:
        rounds.append((seen[option.verb], option))
        seen[option.verb] += 1
    return [option for _, option in sorted(rounds, key=lambda turn: turn[0])]


def _is_new(state: State) -> bool:
    if state == PLAINS:
        return False
    # What a lesson does not show must not tell two states apart.
    numbers = {kind: seen.number for kind, seen in state.near.items() if seen.number <= _COUNTED}
    near = [(kind, numbers.get(kind)) for kind in (*state.nearby_blocks, *state.nearby_entities)]
    worn = [item for item in state.equipment if item]
    height, held = round(state.position[1]), list(state.inventory.items())
    lesson = (state.biome, height, state.time, near, worn, held)
    digest = blake2b(repr(lesson).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % NEW_STATES == 0


def _middle(changes: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The median count of every item, without items of which the median is 0."""
    counts = {
        item: sorted(change.get(item, 0) for change in changes)[len(changes) // 2]
        for change in changes
        for item in change
    }
    return {item: count for item, count in counts.items() if count}


def _within(predicted: Mapping[str, int], changes: Sequence[Mapping[str, int]]) -> bool:
    """Whether the count of every item lies between the least and the most of all changes."""
    items = {*predicted, *(item for change in changes for item in change)}
    counts = {item: [change.get(item, 0) for change in changes] for item in items}
    return all(min(counts[item]) <= predicted.get(item, 0) <= max(counts[item]) for item in items)


def _writable(change: Mapping[str, int]) -> Mapping[str, int]:
    """What an answer can say of a change: four kinds of item, at most a stack of each."""
    fitting = [(item, min(count, 64)) for item, count in change.items() if item in ITEMS]
    return dict(fitting[:4])


def _sights(option: Option, state: State, outcomes: Sequence[OptionOutcome]) -> float:
    """The share of outcomes in which the option's thing comes into view."""
    before = {*state.nearby_blocks, *state.nearby_entities}
    if option.verb not in {"find", "place"} or option.item in before:
        return 0.0
    after = [{*outcome.state.nearby_blocks, *outcome.state.nearby_entities} for outcome in outcomes]
    return sum(option.item in kinds for kinds in after) / len(after)


def _height(outcomes: Sequence[OptionOutcome]) -> list[str]:
    """The height after the option, if it changes to the same one in all outcomes."""
    heights = {
        outcome.change.height for outcome in outcomes if not outcome.change.lost or outcome.success
    }
    (height, *others) = heights or {None}
    return [] if height is None or others else [f"height {height:.0f}"]
