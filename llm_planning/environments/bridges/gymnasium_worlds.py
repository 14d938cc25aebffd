"""Environments of Gymnasium, MiniGrid and BabyAI as domains, if they have finitely many actions.

All chance comes from the step's `rng`: the environment's own generator is replaced before each
step. A step that leaves this generator as it was is certain.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from enum import EnumType
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.util import find_spec
from inspect import getdoc
from io import StringIO
from math import inf
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np

from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.bridges.grids import grid_text
from llm_planning.environments.bridges.gymnasium_copies import (
    FORESEEN,
    NOT_TWICE,
    Copies,
    frozen,
    mask_of,
)
from llm_planning.environments.bridges.gymnasium_teachers import teacher_of
from llm_planning.environments.bridges.own_words import BridgeSettings, Sight, sees_too_much
from llm_planning.generators import restored, shared_generators
from llm_planning.names import remedy
from llm_planning.own_code import describe_error
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from random import Random

    from llm_planning.environments.bridges.gymnasium_copies import Kept
    from llm_planning.environments.bridges.gymnasium_teachers import Teacher

_NO_CHANCE = 0
_SECTIONS = ("Description", "Action Space", "Rewards")
_ACTION = re.compile(
    r"^\s*(?:[-*]\s*(\d+)\s*:?\s+(\w[^\n]*)|\|\s*(\d+)\s*\|\s*(\w[^|]*))", re.MULTILINE
)
_HIGHLIGHTED = re.compile(r"\x1b\[[\d;]*m(.)\x1b\[0m")
_PACKAGES = ("minigrid",)
"""Packages whose import registers environments."""


class GymnasiumSettings(BridgeSettings):
    """Settings of a world of Gymnasium.

    Attributes:
        sight: what a search sees of a world that shows its agent a part: nothing (`own`), so that
            it is refused, or the whole state (`full`). Who only acts sees the part in any case.
    """

    sight: Sight = "own"


@dataclass(frozen=True, slots=True)
class Moment:
    """A state.

    Attributes:
        past: the seed of the start, and each action with the seed of its chance. It decides
            the rest.
        kept: the environment at this moment, if it is kept.
        seen: what the agent observes.
        mask: which actions are possible, shape [actions]; empty if all are.
        total: the return so far.
        ended: `terminated`, `truncated`, or empty while the episode lasts.
        gained: the last reward.
        least_reward: the least of the rewards before the last one; infinite if there was none.
        most_reward: the greatest of them; minus infinity if there was none.
    """

    past: tuple[tuple[int, int], ...] = field(repr=False)
    kept: Kept = field(compare=False, repr=False)
    seen: Any = field(compare=False, repr=False)
    mask: tuple[bool, ...] = field(compare=False, repr=False)
    total: float = field(default=0.0, compare=False)
    ended: str = field(default="", compare=False)
    gained: float = field(default=0.0, compare=False)
    least_reward: float = field(default=inf, compare=False)
    most_reward: float = field(default=-inf, compare=False)


class GymnasiumWorld(Domain[Moment, str]):
    """One environment.

    Args:
        task: its id.
        sight: see `GymnasiumSettings`.

    Attributes:
        advise: names the next action, in an environment that has a teacher (`teacher_of`). It is a
            coroutine function, for nobody knows the rest where chance decides.

    Raises:
        DomainError: there is no such environment, it cannot be made here, or its actions cannot be
            listed.
    """

    advise: Callable[[Moment], Awaitable[Sequence[str]]]

    def __init__(self, task: str = "FrozenLake-v1", *, sight: Sight = "own") -> None:
        self._task, self._sight = task, sight
        self._opened = _opened(task)
        self._env, self._copies = self._opened.env, self._opened.copies.fresh()
        self._number = _named_actions(self._env)
        self._threshold = self._env.spec.reward_threshold
        self._partial = hasattr(self._env.unwrapped, "agent_view_size")
        self.about = _about(self._env)
        self.goal = _goal(self._env)
        if (teacher := teacher_of(self._env, self._copies)) is not None:
            self.advise = partial(self._advised, teacher)

    @property
    def no_search(self) -> str:  # type: ignore[override]
        """Why this environment cannot be searched, or is not to be; empty if it is."""
        copies, task = self._copies, self._task
        if not copies.agree and copies.error:
            return f"{task} cannot be searched, as its step raises {describe_error(copies.error)}"
        if not copies.agree:
            return f"{task}: {NOT_TWICE}"
        if self._opened.copies.chance.foreseen:
            return f"{task} {FORESEEN}"
        if self._sight == "own" and self._partial:
            return sees_too_much(task, "shows its agent a part of the world")
        if self._sight == "own" and self._opened.hides:
            return sees_too_much(task, "hides from its agent how it goes on")
        return ""

    def start(self, seed: int) -> Moment:
        """s_0: the environment after `reset(seed=seed)`."""
        kept, seen, info = self._copies.begin(seed)
        return Moment(((seed, 0),), kept, seen, mask_of(info))

    def describe(self, state: Moment) -> str:
        """All of the state, in a grid or in the environment's own words, if it has such."""
        return _text(self._copies.to_see(state), state.seen, whole=True)

    def observe(self, state: Moment) -> str:
        """What the agent sees."""
        return _text(self._copies.to_see(state), state.seen, whole=False)

    def remainder(self, state: Moment) -> str:
        """The mission, if this start has one."""
        mission = getattr(self._copies.to_see(state).unwrapped, "mission", "")
        return f"{str(mission).strip().capitalize()}." if mission else self.goal

    def actions(self, state: Moment) -> Sequence[str]:
        """The names of the possible actions."""
        if state.ended:
            return ()
        return [
            name for place, name in enumerate(self._number) if not state.mask or state.mask[place]
        ]

    def step(self, state: Moment, action: str, rng: Random) -> Step[Moment]:
        """Takes an action; what it draws comes from `rng`."""
        if action not in self._number:
            return Step(state, obstacle=f"there is no such action; {remedy(action, self._number)}")
        if action not in self.actions(state):
            return Step(state, obstacle="it is not possible now")
        number = self._number[action]
        after, drawn = self._taken(state, number, rng)
        whole = self.describe(after) if drawn and self._partial else ""
        return Step(
            after,
            reward=after.gained,
            done=bool(after.ended),
            observation=(frozen(after.seen), whole) if drawn else None,
            text="Time is up." if after.ended == "truncated" else "",
        )

    def success(self, state: Moment) -> bool | None:
        """What the authors define: the return reaches their threshold, or the end is rewarded.

        Without a threshold, nothing tells where each step is paid, for then the last one is, too;
        where a step before was paid as much as the end; and where steps cost and the end does not
        pay.
        """
        if not state.ended:
            return False
        if self._threshold is not None:
            return bool(state.total >= self._threshold)
        # Where the first step ends the episode, other episodes tell.
        least = state.least_reward if state.least_reward < inf else self._copies.chance.least_reward
        is_paid = 0 < least < inf
        if state.ended == "truncated":
            return None if is_paid else False
        if state.gained > 0:
            return None if is_paid or state.gained <= state.most_reward else True
        return None if least < 0 else False

    async def _advised(self, teacher: Teacher, state: Moment) -> Sequence[str]:
        number = None if state.ended else teacher.number(state)
        return [name for name, own in self._number.items() if own == number]

    def _taken(self, state: Moment, number: int, rng: Random) -> tuple[Moment, bool]:
        """The moment after an action, and whether the environment drew anything."""
        kept, (chance, seen, reward, terminated, truncated, info) = self._copies.step(
            state, number, rng
        )
        after = Moment(
            (*state.past, (number, _NO_CHANCE if chance is None else chance)),
            kept,
            seen,
            mask_of(info),
            total=state.total + reward,
            ended="terminated" if terminated else "truncated" if truncated else "",
            gained=reward,
            least_reward=min(state.least_reward, state.gained) if len(state.past) > 1 else inf,
            most_reward=max(state.most_reward, state.gained) if len(state.past) > 1 else -inf,
        )
        return after, chance is not None


def bridge(id_: str) -> DomainSpec:
    """One environment as a domain, or all that are registered if no id is given.

    Raises:
        DomainError: there is no such environment.
    """
    known = _registered()
    if id_ and id_ not in known:
        raise DomainError(f"gymnasium has no environment {id_!r}; {remedy(id_, known)}")
    return DomainSpec(
        name=f"gymnasium:{id_}" if id_ else "gymnasium",
        summary=f"{id_}, an environment of Gymnasium" if id_ else "The environments of Gymnasium",
        kind=GymnasiumWorld,
        tasks=(id_,) if id_ else known,
        settings=GymnasiumSettings,
        open=lambda task, settings: GymnasiumWorld(task, sight=settings.sight),
    )


@dataclass(frozen=True)
class _Opened:
    """An environment that was opened in this process.

    Attributes:
        spec: by which it was registered.
        env: after a reset; it is never stepped.
        copies: as they were tested.
    """

    spec: Any
    env: Any
    copies: Copies

    @cached_property
    def hides(self) -> bool:
        """See `Copies.hide`: it takes thousands of steps, so it waits until somebody searches."""
        return self.copies.fresh().hide(partial(_text, whole=False))


_OPENED: Final[dict[str, _Opened]] = {}


def _opened(task: str) -> _Opened:
    """An environment with its tests, which are made once in a process.

    An id may be registered anew, with other arguments or another class, and is tested anew then.
    """
    kept = _OPENED.get(task)
    if kept is None or kept.spec is not gymnasium.registry.get(task):
        env = _made(task)
        copies = Copies(env).fresh()
        kept = _OPENED[task] = _Opened(gymnasium.registry.get(task), env, copies)
    return kept


@cache
def _registered() -> tuple[str, ...]:
    for package in filter(find_spec, _PACKAGES):
        import_module(package)
    return tuple(gymnasium.registry)


def _made(task: str) -> Any:
    _registered()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            env = gymnasium.make(task, disable_env_checker=True)
            if "ansi" in env.metadata.get("render_modes", ()):
                env = gymnasium.make(task, disable_env_checker=True, render_mode="ansi")
            with redirect_stdout(StringIO()), restored(shared_generators()):
                env.reset(seed=0)
        except Exception as error:
            first = str(error).strip().partition("\n")[0]
            raise DomainError(f"{task} cannot be made here: {first}") from error
    if not isinstance(env.action_space, gymnasium.spaces.Discrete):
        raise DomainError(
            f"{task} has the actions {env.action_space}, which cannot be listed: only environments "
            "with a Discrete action space are domains"
        )
    return env


def _named_actions(env: Any) -> dict[str, int]:
    """Name of an action -> its number: from an enum, the documentation, or the number alone."""
    space = env.action_space
    numbers = range(int(space.start), int(space.start + space.n))
    named = getattr(env.unwrapped, "actions", None)
    if isinstance(named, EnumType):
        members: Mapping[str, Any] = named.__members__
        found = {int(member.value): name for name, member in members.items()}
    else:
        part = _section(getdoc(type(env.unwrapped)) or "", "Action Space")
        found = {
            int(match[1] or match[3]): (match[2] or match[4]).strip().lower()
            for match in _ACTION.finditer(part)
        }
    names = [found.get(number, "") for number in numbers]
    if not all(names) or len(set(names)) < len(names):
        names = [f"action {number}" for number in numbers]
    return dict(zip(names, numbers, strict=True))


def _section(text: str, title: str) -> str:
    """A section of an environment's documentation, without its title."""
    found = re.search(rf"^ *#+ {title}\s*\n(.*?)(?=^ *#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _about(env: Any) -> str:
    """What the environment's documentation says of the world, its actions and its rewards."""
    text = getdoc(type(env.unwrapped)) or ""
    return "\n\n".join(part for title in _SECTIONS if (part := _section(text, title)))


def _goal(env: Any) -> str:
    if hasattr(env.unwrapped, "mission"):
        return "Do what the mission says."
    threshold = env.spec.reward_threshold
    if threshold is None:
        return "Collect as much reward as possible."
    return f"Collect a reward of {threshold:g} or more in all."


def _text(env: Any, seen: Any, *, whole: bool) -> str:
    """A state in words: a grid with its legend, the environment's own text, or its numbers."""
    inner = env.unwrapped
    if hasattr(inner, "agent_view_size"):
        return grid_text(inner, None if whole else seen)
    if inner.render_mode == "ansi":
        text = _HIGHLIGHTED.sub(r"[\1]", str(env.render()))
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"Observation: {_numbers(seen)}"


def _numbers(seen: Any) -> str:
    if isinstance(seen, Mapping):
        return "; ".join(f"{key}: {_numbers(value)}" for key, value in seen.items())
    if isinstance(seen, tuple):
        return ", ".join(map(_numbers, seen))
    array = np.asarray(seen)
    if array.dtype.kind == "f":
        return np.array2string(array, precision=3, suppress_small=True, separator=", ")
    return str(array.tolist())
