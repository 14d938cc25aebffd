"""Random actions, fast: many states together as arrays, or one state by itself.

Both draw evenly from the possible actions without listing them, and change a state exactly as
`Rules` does. In arrays, what no goal names is only counted at each place. That changes no
probability: such things are different things, and none of them matters to the goal.

Shapes: B states, P places, K names of the goal. Place P stands for nowhere.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import numpy as np

from llm_planning.environments.household.rules import NOWHERE, State

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from numpy.typing import NDArray

    from llm_planning.environments.household.rules import Rules

    Ints = NDArray[np.int32]
    Places = NDArray[np.intp]
    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]


FROM_BATCH: Final = 30
"""Rollouts from which a batch of arrays is faster than one after the other."""


class Rollouts:
    """Values of states by rollouts of uniform actions.

    Few are rolled out one after the other. From `FROM_BATCH` on, those of all states that are
    waiting at the same moment are one batch. Each state has draws of its own, so its value does not
    depend on the company.

    Args:
        rules: of the home and the goal.
        each: rollouts of a state; their mean is its value.
        gamma: γ.
        width: the most states that wait at the same moment.
    """

    def __init__(self, rules: Rules, *, each: int, gamma: float, width: int) -> None:
        self._simulator = Simulator(rules)
        self._each = each
        self._gamma = gamma
        self._batched = each * width >= FROM_BATCH
        self._waiting: list[tuple[State, int, int, asyncio.Future[float]]] = []

    async def __call__(self, state: State, depth: int, rng: Random) -> float:
        """Returns the mean of the rollouts, for a reward of 1 at the goal.

        Args:
            state: the start.
            depth: the most actions of a rollout.
            rng: of the actions.
        """
        if not self._batched:
            one = self._simulator.rollout
            returns = [
                one(state, depth=depth, gamma=self._gamma, rng=rng) for _ in range(self._each)
            ]
            return sum(returns) / self._each
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._roll_out)
        value: asyncio.Future[float] = loop.create_future()
        self._waiting.append((state, depth, rng.getrandbits(32), value))
        return await value

    def _roll_out(self) -> None:
        waiting, self._waiting = self._waiting, []
        states, depths, seeds, values = zip(*waiting, strict=True)
        try:
            returns = self._simulator.rollouts(
                states, each=self._each, depths=depths, gamma=self._gamma, seeds=seeds
            )
        # A callback's error would reach nobody, and the leaves would wait for ever.
        except Exception as error:
            for value in values:
                if not value.done():
                    value.set_exception(error)
            return
        for value, mean in zip(values, returns.mean(axis=1).tolist(), strict=True):
            if not value.done():
                value.set_result(mean)


class Simulator:
    """Simulates random actions in a home for one goal.

    Args:
        rules: of the home and the goal.
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._several = frozenset(thing for thing, number in enumerate(rules.number) if number > 1)
        places = len(rules.home.places)
        self._in_room = np.zeros((len(rules.rooms), places + 1), np.int32)
        for room, some in enumerate(rules.rooms):
            self._in_room[room, list(some)] = 1
        self._container = np.array(
            [not rules.always_seen >> place & 1 for place in range(places)] + [False], np.int32
        )

    def rollouts(
        self,
        states: Sequence[State],
        *,
        each: int,
        depths: Sequence[int],
        gamma: float,
        seeds: Sequence[int],
    ) -> Floats:
        """Rolls out uniform actions from several states together.

        Each start draws from a stream of its own. So its returns do not depend on the others.

        Args:
            states: the starts.
            each: rollouts of each.
            depths: actions of a rollout, for each start. It ends earlier with the goal, or with the
                episode.
            gamma: γ.
            seeds: of the actions, for each start.

        Returns:
            Returns of the rollouts, shape [states, each]: γ^(t - 1) if the goal is reached with
            action t, 0 if it is not.
        """
        batch = Batch(self, states, each=each)
        values = np.zeros(len(states) * each)
        running = ~batch.won()
        most = [
            min(depth, self.rules.limit - state.steps)
            for depth, state in zip(depths, states, strict=True)
        ]
        left = np.repeat(most, each)
        steps = max(0, *most)
        drawn = [np.random.default_rng(seed).random((steps, each)) for seed in seeds]
        shares = np.concatenate(drawn, axis=1)
        for step in range(steps):
            won = batch.step(shares[step])
            won &= running & (step < left)
            values[won] = gamma**step
            running &= ~won
            if not running.any():
                break
        return values.reshape(len(states), each)

    def rollout(self, state: State, *, depth: int, gamma: float, rng: Random) -> float:
        """Rolls out uniform actions from one state; see `rollouts`."""
        rules = self.rules
        weight = 1.0
        if rules.success(state):
            return 0.0
        for _ in range(min(depth, rules.limit - state.steps)):
            after = self.step(state, rng.random())
            # Only what is put somewhere can reach the goal.
            if len(after.held) < len(state.held) and rules.success(after):
                return weight
            weight *= gamma
            state = after
        return 0.0

    def step(self, state: State, share: float) -> State:
        """Takes the action number ⌊share · n⌋ of `Rules.actions`, of which there are n.

        Args:
            state: in which the episode goes on.
            share: at least 0, less than 1.
        """
        room, at, opened, held, places, steps = state
        rules = self.rules
        near = rules.rooms[room]
        in_sight = opened | rules.always_seen
        seen = at >= 0 and in_sight >> at & 1
        here = places[at] if seen else ()
        grabs = here if len(held) < rules.hands else ()
        puts = held if seen else ()
        names: Sequence[tuple[int, ...]] = places
        if self._several:
            # A name in sight at several places is one action.
            names = self._names(near, at, here, places, in_sight)
            if grabs and grabs[0] < rules.named:
                grabs = tuple(dict.fromkeys(grabs))
            puts = tuple(dict.fromkeys(puts))
        turns = at >= 0 and not rules.always_seen >> at & 1
        rooms, walks = len(rules.rooms) - 1, 0
        for place in near:
            if place != at:
                walks += 1 + len(names[place]) if in_sight >> place & 1 else 1
        number = int(share * (rooms + walks + turns + len(grabs) + len(puts)))
        if number < rooms:
            return State(number + (number >= room), NOWHERE, opened, held, places, steps + 1)
        number -= rooms
        if number < walks:
            for place in near:
                if place != at:
                    number -= 1 + len(names[place]) if in_sight >> place & 1 else 1
                    if number < 0:
                        return State(room, place, opened, held, places, steps + 1)
        number -= walks
        if number < turns:
            return State(room, at, opened ^ 1 << at, held, places, steps + 1)
        number -= turns
        if number < len(grabs):
            held, here = _moved(grabs[number], held, here)
        else:
            here, held = _moved(puts[number - len(grabs)], here, held)
        return State(room, at, opened, held, (*places[:at], here, *places[at + 1 :]), steps + 1)

    def _names(
        self,
        near: Sequence[int],
        at: int,
        here: Sequence[int],
        places: Sequence[tuple[int, ...]],
        in_sight: int,
    ) -> Sequence[tuple[int, ...]]:
        """The things of each place, without names that are here or at an earlier place."""
        found: list[tuple[int, ...]] = []
        several, named = self._several, self.rules.named
        known = several.intersection(here) if here and here[0] < named else frozenset[int]()
        for place in near:
            things = places[place]
            if things and things[0] < named and place != at and in_sight >> place & 1:
                found = found or list(places)
                found[place] = tuple(one for one in dict.fromkeys(things) if one not in known)
                known |= several.intersection(things)
        return found or places

    @property
    def in_room(self) -> Ints:
        """1 where a place is in a room, shape [rooms, P + 1]."""
        return self._in_room

    @property
    def container(self) -> Ints:
        """1 where a place is a container, shape [P + 1]."""
        return self._container

    @property
    def several(self) -> frozenset[int]:
        """The things of the goal of which there are several."""
        return self._several


def _moved(
    thing: int, to: tuple[int, ...], source: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Both rows of things after one is moved."""
    at = source.index(thing)
    return tuple(sorted((*to, thing))), (*source[:at], *source[at + 1 :])


class Batch:
    """States as arrays, which `step` changes in place.

    Args:
        simulator: of the home and the goal.
        states: the states.
        each: how often each is in the batch; its copies follow one another.

    Attributes:
        room, at: shape [B]; `at` is P for nowhere.
        in_sight: 1 where a place is a surface or open, shape [B, P + 1].
        others: how many things that no goal names lie there, shape [B, P + 1].
        named: how many things of the goal lie there, shape [K, B, P + 1].
        held, others_held: what is held, shapes [K, B] and [B].
    """

    def __init__(self, simulator: Simulator, states: Sequence[State], *, each: int = 1) -> None:
        self._simulator = simulator
        self._rules = rules = simulator.rules
        rows, places, named = len(states), len(rules.home.places), rules.named
        self.room = np.zeros(rows, np.intp)
        self.at = np.full(rows, places, np.intp)
        self.in_sight = np.zeros((rows, places + 1), np.int32)
        self.others = np.zeros((rows, places + 1), np.int32)
        self.named = np.zeros((named, rows, places + 1), np.int32)
        self.held = np.zeros((named, rows), np.int32)
        self.others_held = np.zeros(rows, np.int32)
        for row, state in enumerate(states):
            self._set(row, state)
        if each > 1:
            for name in ("room", "at", "in_sight", "others", "others_held"):
                setattr(self, name, getattr(self, name).repeat(each, axis=0))
            self.named = self.named.repeat(each, axis=1)
            self.held = self.held.repeat(each, axis=1)
        rows *= each
        # The number of a row's first place where arrays of shape [B, P + 1] are flat.
        self._first = np.arange(rows) * (places + 1)
        self._nowhere = places
        # Names at each place, what walking there and to them counts, things and names in the hands.
        self._load = self.others + (self.named > 0).sum(0, dtype=np.int32)
        self._walks = 1 + self.in_sight * self._load
        self._holding = self.others_held + self.held.sum(0, dtype=np.int32)
        self._puts = self.others_held + (self.held > 0).sum(0, dtype=np.int32)

    def _set(self, row: int, state: State) -> None:
        """Writes a state into a row."""
        named = self._rules.named
        self.room[row] = state.room
        if state.at != NOWHERE:
            self.at[row] = state.at
        in_sight = state.opened | self._rules.always_seen
        for place, things in enumerate(state.places):
            self.in_sight[row, place] = in_sight >> place & 1
            wanted = 0
            for thing in things:
                if thing >= named:
                    break
                self.named[thing, row, place] += 1
                wanted += 1
            self.others[row, place] = len(things) - wanted
        for thing in state.held:
            if thing < named:
                self.held[thing, row] += 1
            else:
                self.others_held[row] += 1

    def won(self) -> Bools:
        """Whether the goal is reached, shape [B]."""
        won = np.ones(len(self.room), bool)
        for thing, place, count in self._rules.wanted:
            won &= self.named[thing, :, place] >= count
        return won

    def step(self, shares: Floats) -> Bools:
        """Takes in each state the action number ⌊share · n⌋; see `Simulator.step`.

        Args:
            shares: at least 0, less than 1, shape [B].

        Returns:
            Whether an action reached the goal, shape [B].
        """
        simulator, at = self._simulator, self.at
        rooms, flat = len(self._rules.rooms) - 1, self._first + at
        near = simulator.in_room.take(self.room, 0)
        walks = self._walks * near
        for thing in simulator.several:
            walks -= self._repeated(thing, near, flat)
        walks.put(flat, 0)
        up_to = walks.cumsum(1, dtype=np.int32)
        seen = self.in_sight.take(flat)
        turns = simulator.container.take(at)
        grabs = seen * self._load.take(flat) * (self._holding < self._rules.hands)
        end = up_to[:, -1] + rooms
        number = (shares * (end + turns + grabs + seen * self._puts)).astype(np.int32)

        # Where someone stays, `there` means nothing; who leaves the room goes nowhere in it.
        there = (up_to > (number - rooms)[:, None]).argmax(1)
        leaves = number < rooms
        (staying,) = (number >= end).nonzero()
        there[leaves] = self._nowhere
        there[staying] = at[staying]
        self.at = there
        self.room = np.where(leaves, number + (number >= self.room), self.room)
        won = np.zeros(len(at), bool)
        if len(staying):
            number = number[staying] - end[staying]
            self._act(staying, flat[staying], number, (turns[staying], grabs[staying]), won)
        return won

    def _repeated(self, thing: int, near: Ints, flat: Places) -> Ints:
        """1 where a name in sight is here or at an earlier place too, shape [B, P + 1]."""
        seen = (self.named[thing] > 0) * (near * self.in_sight)
        here = seen.take(flat)
        seen.put(flat, 0)
        repeated: Ints = seen * (seen.cumsum(1, dtype=np.int32) > (1 - here)[:, None])
        return repeated

    def _act(
        self, rows: Places, flat: Places, number: Ints, kinds: tuple[Ints, Ints], won: Bools
    ) -> None:
        """Opens, closes, grabs or puts in the rows that stay where they are.

        Args:
            rows: their numbers, shape [R].
            flat: the numbers of their places in flat arrays.
            number: of the action among those that are possible without walking.
            kinds: how many of these open or close something, and how many then grab something.
            won: set where the goal is reached, shape [B].
        """
        turns, grabs = kinds
        turned = number < turns
        self.in_sight.reshape(-1)[flat[turned]] ^= 1
        moving = ~turned
        mine, here = rows[moving], flat[moving]
        number, grabs = (number - turns)[moving], grabs[moving]
        grabbed = number < grabs
        lie = self.named.reshape(len(self.named), -1)
        # Names to choose from, the goal's first: those that lie here, or those in the hands.
        known = np.where(grabbed, lie[:, here], self.held[:, mine]) > 0
        number -= np.where(grabbed, 0, grabs)
        up_to = known.cumsum(0, dtype=np.int32)
        wanted = up_to[-1] > number
        thing = (up_to > number).argmax(0)
        by = np.where(grabbed, 1, -1)
        self._holding[mine] += by
        other = ~wanted
        self.others.reshape(-1)[here[other]] -= by[other]
        self.others_held[mine[other]] += by[other]
        if wanted.any():
            mine, thing, by = mine[wanted], thing[wanted], by[wanted]
            lie[thing, here[wanted]] -= by
            self.held[thing, mine] += by
            put = mine[by < 0]
            won[put] = True
            for one, place, count in self._rules.wanted:
                won[put] &= self.named[one, put, place] >= count
        load = self.others.take(flat) + (lie[:, flat] > 0).sum(0, dtype=np.int32)
        self._load.put(flat, load)
        self._walks.put(flat, 1 + self.in_sight.take(flat) * load)
        self._puts[rows] = self.others_held[rows] + (self.held[:, rows] > 0).sum(0, dtype=np.int32)
