"""A text world with an imperfect controller: gathering takes time, and can fail, stall or run out.

It replaces MineRL and Mineflayer, which need a display and a trained low-level policy. The rules
are those of the text world; the controller adds the time that a subgoal takes and its chance of
failure. Results measured in this world must be labelled 'simulated controller'. All numbers are in
`controller_data`, with their sources.

The simulation is simpler than a game in three ways: the controller stalls only when it turns to
another item, reprompting never disturbs a controller that is not stuck, and crafting always takes
the same time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from llm_planning.domain import SMALLEST
from llm_planning.environments.minecraft.items.controller_data import HORIZONS, PROFILES
from llm_planning.environments.minecraft.items.goals import GOAL_GROUPS_67
from llm_planning.environments.minecraft.options.pictures import draw_state
from llm_planning.environments.minecraft.options.state import Sighting, State
from llm_planning.names import remedy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.environments.minecraft.items.controller_data import Gathering
    from llm_planning.environments.minecraft.items.text_world import TextWorld
    from llm_serving.request import Image

LABEL: Final = "simulated controller"
"""The label of tables that were measured in a `SimulatedWorld`."""

_AT_ONCE = frozenset({"craft", "smelt"})

_ON_THE_WAY: Final = (
    "The player is on its way through open country and can move freely.",
    State(
        biome="plains",
        time="day",
        nearby_blocks=("grass_block", "oak_log"),
        nearby_entities=(),
        near={"grass_block": Sighting(24, 1), "oak_log": Sighting(4, 12)},
    ),
)
_IN_WATER: Final = (
    "The player floats in deep water; there is no land, no tree and no stone nearby.",
    State(
        biome="ocean",
        time="day",
        nearby_blocks=("water",),
        nearby_entities=(),
        near={"water": Sighting(64, 0)},
    ),
)
_IN_A_PIT: Final = (
    "The player is at the bottom of a dark flooded pit and does not move.",
    State(
        biome="underground",
        time="midnight",
        nearby_blocks=("water", "stone"),
        nearby_entities=(),
        near={"water": Sighting(8, 0), "stone": Sighting(24, 1)},
        position=(0.0, 20.0, 0.0),
    ),
)


class UnknownProfileError(ValueError):
    """No controller has this name."""


class UnknownGoalError(ValueError):
    """Table 10 of XENON has no such goal."""


def group_of(goal: str) -> str:
    """The group of Table 10 that a goal belongs to.

    Raises:
        UnknownGoalError: the name is not one of the 67 goals; the message proposes the nearest.
    """
    for group, goals in GOAL_GROUPS_67.items():
        if goal in goals:
            return group
    known = [name for goals in GOAL_GROUPS_67.values() for name in goals]
    raise UnknownGoalError(f"unknown goal {goal!r}; {remedy(goal, known)}")


def planning_horizon(goal: str) -> int:
    """Environment steps of an episode with this goal (Appendix J.2.4)."""
    return HORIZONS[group_of(goal)]


class SimulatedWorld:
    """A `World` whose controller takes time and can fail.

    Craft and smelt succeed if the rules allow them (Appendix J.2.2). Any other verb gathers. An
    attempt that the rules do not allow is given up after `Profile.vain` steps. An attempt that they
    allow takes `take` steps for each unit, and `find` steps before the first unit after the
    controller turned to another item. When it turns to another item, the controller can stall: it
    then makes no progress until it is rescued or the episode ends. It searches for an item whose
    supply has run out until the episode ends. The horizon cuts gathering short, without a result.

    Args:
        world: the rules and the action set; the world itself is copied.
        profile: name of the controller in `PROFILES`.
        seed: of all draws; the same calls after the same seed have the same results.
        horizon: environment steps of an episode.
        patience: number of steps after which a stalled attempt returns. With None it lasts until
            the episode ends.

    Raises:
        UnknownProfileError: no controller has this name.

    Attributes:
        steps: environment steps since the episode began; never above the horizon.
    """

    def __init__(
        self,
        world: TextWorld,
        *,
        profile: str,
        seed: int,
        horizon: int,
        patience: int | None = None,
    ) -> None:
        if horizon < 1 or (patience is not None and patience < 1):
            raise ValueError(f"horizon={horizon} and patience={patience} must be at least 1")
        if profile not in PROFILES:
            raise UnknownProfileError(
                f"unknown controller {profile!r}; {remedy(profile, PROFILES)}"
            )
        self._world = world.clone()
        self._profile = PROFILES[profile]
        self._rng = np.random.default_rng(seed)
        self._patience = patience
        self.horizon = horizon
        self.items = world.items
        self.verbs = world.verbs
        self.reset()

    def reset(self) -> None:
        """Begins an episode: empty inventory, step 0, new supplies."""
        self._world.reset()
        self.inventory = self._world.inventory
        self.steps = 0
        self.stalled = False
        self._hopeless = False
        self._pursued: str | None = None
        self._near = False
        self._left = {
            item: int(self._rng.binomial(*gathering.supply))
            for item, gathering in self._profile.items.items()
            if gathering.supply is not None
        }

    def step(self, action: str, item: str) -> Mapping[str, int] | None:
        """Tries to obtain an item once; see `World.step`.

        Returns:
            None if the attempt failed: only the clock has moved, by one step or more. Otherwise
            what left the inventory. At the horizon every attempt fails.
        """
        after = self._world.clone()
        used = after.step(action, item)
        if action in _AT_ONCE:
            done = self._wait(self._profile.make) and used is not None
        else:
            done = self._gather(item, possible=used is not None)
        if not done:
            return None
        self._world = after
        self.inventory = after.inventory
        return used

    def rescue(self) -> bool:
        """Gives the controller another prompt for a moment (CRe, Appendix H).

        The first rescue from a stall succeeds with probability `Profile.rescue`. If it fails, the
        controller stays stuck until the episode ends.

        Returns:
            Whether the controller can move.
        """
        if self.stalled and not self._hopeless:
            self.stalled = bool(self._rng.random() >= self._profile.rescue)
            self._hopeless = self.stalled
        return not self.stalled

    def view(self) -> str:
        """Describes, in one sentence, what an image of the present moment would show."""
        return self._seen()[0]

    def draw(self) -> Image:
        """An image of the present moment: what `view` tells, and the inventory."""
        seen = replace(self._seen()[1], inventory=dict(self.inventory))
        return draw_state(seen, SMALLEST)

    def _seen(self) -> tuple[str, State]:
        if not self.stalled:
            return _ON_THE_WAY
        return _IN_WATER if self._tier() == 0 else _IN_A_PIT

    def _gather(self, item: str, *, possible: bool) -> bool:
        if self.stalled:
            return self._stuck()
        if not possible:
            return self._in_vain()
        gathering = self._profile.gathering(item, self._world.book.tier(item))
        if item != self._pursued:
            self._pursued, self._near = item, False
            fate = self._rng.random()
            if fate < gathering.stall:
                self.stalled, self._hopeless = True, False
                return self._stuck()
            if fate < gathering.stall + gathering.miss:
                return self._in_vain()
        return self._take(item, gathering)

    def _take(self, item: str, gathering: Gathering) -> bool:
        """Takes one unit, after finding the item if it is not near; False if the episode ends."""
        if self._left.get(item, 1) < 1:
            self.steps = self.horizon
            return False
        time = self._rng.exponential(gathering.take)
        if not self._near:
            time += self._rng.exponential(gathering.find)
        if not self._wait(max(1, round(time))):
            return False
        self._near = True
        if item in self._left:
            self._left[item] -= 1
        return True

    def _stuck(self) -> bool:
        self._wait(self.horizon if self._patience is None else self._patience)
        return False

    def _in_vain(self) -> bool:
        self._pursued = None
        self._wait(self._profile.vain)
        return False

    def _wait(self, steps: int) -> bool:
        """Moves the clock by `steps`, or to the horizon; False if the horizon comes first."""
        in_time = self.steps + steps <= self.horizon
        self.steps = min(self.steps + steps, self.horizon)
        return in_time

    def _tier(self) -> int:
        return 0 if self._pursued is None else self._world.book.tier(self._pursued)
