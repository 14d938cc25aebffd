"""Domains of this project as environments of Gymnasium, which are saved and restored at any moment.

After `register_domains()`, `gymnasium.make("llm_planning/Household-v0")` opens one. Actions are
numbers of the actions that are possible now, or their texts. Observations are texts.
"""

from __future__ import annotations

import asyncio
import inspect
import multiprocessing
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from copy import deepcopy
from ctypes import c_char, c_uint32
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

import gymnasium
import numpy as np
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from llm_planning.domain import Advises, Domain, DomainError
from llm_planning.domain_calls import is_won, observed, settled, started, stepped
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.specs import check_task

if TYPE_CHECKING:
    from llm_planning.domain import Soon, T

MOST_ACTIONS: Final = 512
"""Actions that an environment numbers; a state with more is refused."""

MOST_BYTES: Final = 1 << 16
"""Room for an observation in the memory that the processes of a vector share."""


class Texts(gymnasium.Space[str]):  # type: ignore[misc]
    """The space of all texts."""

    def __init__(self) -> None:
        super().__init__((), str)

    @property
    def is_np_flattenable(self) -> bool:
        """A text is no array."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:  # noqa: ARG002
        """Some text; no state needs to read so."""
        return f"text {self.np_random.integers(1 << 30)}"

    def contains(self, x: Any) -> bool:
        """Whether this is a text."""
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts)

    def __hash__(self) -> int:
        return hash(Texts)

    def __repr__(self) -> str:
        return "Texts()"


class SharedTexts(Sequence[str]):
    """The texts of a vector of environments in other processes, as they are now.

    A copy has them as they were.

    Args:
        memory: for each text its length in bytes, and room for `MOST_BYTES` of UTF-8.
    """

    def __init__(self, memory: Sequence[tuple[Any, Any]]) -> None:
        self._memory = memory

    def __len__(self) -> int:
        return len(self._memory)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        length, room = self._memory[index]
        return bytes(room[: length.value]).decode()

    def __deepcopy__(self, memo: Mapping[int, Any]) -> tuple[str, ...]:
        return tuple(self)


@create_shared_memory.register(Texts)  # type: ignore[untyped-decorator]
def _room_for_texts(_space: Texts, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return [(ctx.Value(c_uint32), ctx.Array(c_char, MOST_BYTES)) for _ in range(n)]


@read_from_shared_memory.register(Texts)  # type: ignore[untyped-decorator]
def _shared_texts(_space: Texts, shared_memory: Any, n: int = 1) -> SharedTexts:  # noqa: ARG001
    return SharedTexts(shared_memory)


@write_to_shared_memory.register(Texts)  # type: ignore[untyped-decorator]
def _share_text(_space: Texts, index: int, value: str, shared_memory: Any) -> None:
    written = value.encode()
    if len(written) > MOST_BYTES:
        raise DomainError(
            f"an observation has {len(written)} bytes, and shared memory has room for {MOST_BYTES}:"
            " add vector_kwargs={'shared_memory': False}"
        )
    length, room = shared_memory[index]
    room[: len(written)] = written
    length.value = len(written)


class Saved(NamedTuple):
    """An environment at a moment.

    Attributes:
        state: the domain's.
        chance: the state of the generator of all further chance.
        ended: whether the episode is over.
    """

    state: Any
    chance: Mapping[str, Any]
    ended: bool


class DomainEnvironment(gymnasium.Env[str, "int | str"]):  # type: ignore[misc]
    """A domain as an environment.

    A step takes an action's text, or its number among those that are possible now
    (`info["actions"]`, `info["action_mask"]`). What is impossible changes nothing, and
    `info["obstacle"]` says why. `info["advised"]` is the teacher's next action, in a domain that
    has one. An episode is never truncated: wrap it in `TimeLimit`.

    Args:
        domain: the domain.
        most: the number of actions.
        render_mode: `ansi`, or None for no pictures.
        runner: runs the domain's coroutines, if it was opened by one.
        opened: is closed with the environment.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - Gymnasium declares it so

    def __init__(
        self,
        domain: Domain[Any, Any],
        *,
        most: int = MOST_ACTIONS,
        render_mode: str | None = None,
        runner: asyncio.Runner | None = None,
        opened: AsyncExitStack | None = None,
    ) -> None:
        self.domain = domain
        self.render_mode = render_mode
        self.action_space = gymnasium.spaces.Discrete(most)
        self.observation_space = Texts()
        self._runner = runner or asyncio.Runner()
        self._opened: AsyncExitStack | None = opened or AsyncExitStack()
        self._state: Any = None
        self._actions: dict[str, Any] = {}
        self._ended = True

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins an episode; the seed is that of the domain's start, and of all chance."""
        super().reset(seed=seed, options=dict(options or {}))
        begun = int(self.np_random.integers(1 << 31)) if seed is None else seed
        self._state, self._ended = self._runner.run(started(self.domain, begun)), False
        return self._seen(), self._info("", None)

    def step(self, action: int | str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Takes an action, by its text or its number."""
        names = list(self._actions)
        if not isinstance(action, str):
            action = names[action] if 0 <= action < len(names) else ""
        if action not in self._actions:
            obstacle = "there is no such action now: see info['actions']"
            return self._seen(), 0.0, self._ended, False, self._info("", obstacle)
        rng = Random(int(self.np_random.integers(1 << 62)))
        step = self._runner.run(stepped(self.domain, self._state, self._actions[action], rng))
        self._state, self._ended = step.state, step.done
        info = self._info(step.text, step.obstacle)
        self._ended = self._ended or not self._actions
        return self._seen(), float(step.reward), self._ended, False, info

    def save(self) -> Saved:
        """This moment, for `restore`; nothing that is done later changes it."""
        return Saved(self._state, self.np_random.bit_generator.state, self._ended)

    def restore(self, saved: Saved) -> tuple[str, dict[str, Any]]:
        """Goes back to a moment: the same actions do the same again."""
        self._state, chance, self._ended = saved
        self.np_random.bit_generator.state = chance
        return self._seen(), self._info("", None)

    def render(self) -> str | None:
        """All of the state in words, if `render_mode` is `ansi`."""
        if self.render_mode != "ansi":
            return None
        return str(self._now(self.domain.describe(self._state)))

    def __deepcopy__(self, memo: dict[int, Any]) -> DomainEnvironment:
        """This moment in an environment of its own; the domain is closed with the original."""
        twin = DomainEnvironment(
            self.domain,
            most=int(self.action_space.n),
            render_mode=self.render_mode,
            runner=self._runner,
        )
        twin._opened = None
        twin.spec = self.spec
        twin._np_random = deepcopy(self._np_random, memo)
        twin._np_random_seed = self._np_random_seed
        twin._state, twin._actions, twin._ended = self._state, self._actions, self._ended
        return twin

    def close(self) -> None:
        """Closes the domain."""
        if self._opened is not None:
            self._runner.run(self._opened.aclose())
            self._runner.close()
        self._opened = None

    def _seen(self) -> str:
        return str(self._runner.run(observed(self.domain, self._state)))

    def _info(self, text: str, obstacle: str | None) -> dict[str, Any]:
        """What is told beside the observation; also finds the actions that are possible now."""
        domain, state = self.domain, self._state
        found = () if self._ended else self._now(domain.actions(state))
        if len(found) > self.action_space.n:
            raise DomainError(
                f"{len(found)} actions are possible, and the environment numbers "
                f"{self.action_space.n}: make it with most={len(found)}"
            )
        self._actions = {str(action): action for action in found}
        mask = np.zeros(int(self.action_space.n), np.int8)
        mask[: len(self._actions)] = 1
        advised = self._now(domain.advise(state)) if isinstance(domain, Advises) else ()
        return {
            "actions": tuple(self._actions),
            "action_mask": mask,
            "goal": domain.remainder(state),
            "text": text,
            "obstacle": obstacle,
            "advised": str(advised[0]) if advised and not self._ended else None,
            "success": self._runner.run(is_won(domain, state, done=self._ended)),
        }

    def _now(self, value: Soon[T]) -> T:
        """The result of a domain's method, which may be a coroutine function."""
        return self._runner.run(settled(value)) if inspect.isawaitable(value) else value


def to_gymnasium(
    domain: Domain[Any, Any], *, most: int = MOST_ACTIONS, render_mode: str | None = None
) -> DomainEnvironment:
    """A domain as an environment of Gymnasium.

    Args:
        domain: any.
        most: the most actions that a state of it has.
        render_mode: `ansi` to render states as texts.

    Example:
        >>> from llm_planning.environments.bridges.outwards import to_gymnasium
        >>> from llm_planning.environments.multiplication.domain import Multiplication
        >>> env = to_gymnasium(Multiplication())
        >>> seen, info = env.reset(seed=0)
        >>> moment = env.save()
        >>> first = env.step(0)[0]
        >>> _ = env.restore(moment)
        >>> env.step(0)[0] == first
        True
    """
    return DomainEnvironment(domain, most=most, render_mode=render_mode)


def register_domains() -> None:
    """Tells Gymnasium every domain: `minecraft-goals` as `llm_planning/MinecraftGoals-v0`."""
    for name in DOMAINS:
        gymnasium.register(
            f"llm_planning/{name.title().replace('-', '')}-v0",
            entry_point=f"{__name__}:{open_environment.__name__}",
            kwargs={"domain": name},
        )


def open_environment(
    *,
    domain: str,
    task: str | None = None,
    most: int = MOST_ACTIONS,
    render_mode: str | None = None,
    **settings: object,
) -> DomainEnvironment:
    """What `gymnasium.make` makes of a domain's name, its task and its settings.

    Raises:
        DomainError: the settings name several problems.
        SettingsError: a setting is unknown or impossible.
        UnknownTaskError: the domain has no such task.
    """
    spec = DOMAINS[domain]
    runner, opened = asyncio.Runner(), AsyncExitStack()
    task = task or spec.tasks[0]
    check_task(task, known=spec.tasks, of=domain)
    world: Any = spec.open(task, spec.settings.read(settings))
    if isinstance(world, AbstractAsyncContextManager) and not isinstance(world, Domain):
        world = runner.run(opened.enter_async_context(world))
    elif inspect.isawaitable(world):
        world = runner.run(settled(world))
    if not isinstance(world, Domain):
        raise DomainError(f"{domain}: the settings name several problems, an environment is one")
    return DomainEnvironment(
        world, most=most, render_mode=render_mode, runner=runner, opened=opened
    )
