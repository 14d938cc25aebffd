"""Whether a world can be stepped again: looked at while others' worlds are stepped.

A search keeps states, comes back to them, and foresees whatever is not chance to it. So a step

- leaves the state that it is given as it is,
- draws all chance from `rng`,
- does the same again, given the same state, action and draws.

Where one of these fails, a search answers wrongly and nothing shows it. So each step of a world
that is not this project's own is looked at, and the first fault is an error of one line.

What stays undetected: chance that a step draws seldom from a generator of its own, from the
system or from another library's (torch), unless one of the steps that are repeated differs.
"""

from __future__ import annotations

import copy
import inspect
import marshal
import pickle
import random
import sys
from contextlib import suppress
from ctypes import c_uint64
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache
from io import BytesIO
from random import Random
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from llm_base.quoting import quote
from llm_planning.domain import A, Domain, DomainError, S, Step
from llm_planning.own_code import is_ours
from llm_planning.search.walk import TrackedRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from llm_planning.domain import Soon

T = TypeVar("T")

_OFTEN: Final = 6
"""So many first simulated steps of a class of worlds are taken so many times more."""

_ALWAYS: Final = 16
"""So many are taken twice."""

_EACH: Final = 512
"""Later, one of so many is."""


def is_watched(domain: Domain[Any, Any]) -> bool:
    """Whether the steps of a world are looked at.

    Those of this project's own worlds are tested instead. A world that cannot be simulated keeps no
    states, and a step of it cannot be tried again.
    """
    return not is_ours(domain) and not domain.no_search


def watched_step(domain: Domain[S, A], state: S, action: A, rng: Random) -> Soon[Step[S]]:
    """Takes a step, and makes sure that it drew from `rng` only and left its state as it was.

    Raises:
        DomainError: it did not; names class and remedy.
    """
    if not is_watched(domain):
        return domain.step(state, action, rng)
    before, drawn = digest_of(state), elsewhere()
    step = domain.step(state, action, rng)
    if not isinstance(step, Step):
        return _watched_later(domain, step, state, before) if inspect.isawaitable(step) else step
    refuse_changed(domain, "step", state, before)
    if elsewhere() != drawn:
        _refuse_drawing(domain, "step", lambda: domain.step(state, action, twin_of(rng)))
    return step


async def _watched_later(domain: Domain[S, A], step: Any, state: S, before: Hashable) -> Step[S]:  # noqa: ANN401
    # Others draw while this one waits, so nobody can tell who drew.
    made: Step[S] = await step
    refuse_changed(domain, "step", state, before)
    return made


# THE SAME AGAIN -----------------------------------------------------------------------------------


def repetitions(domain: Domain[Any, Any]) -> int:
    """How often the next simulated step of a world is taken once more.

    The first steps are, since a search takes a step that drew nothing only once; later, a few are.
    """
    if not is_watched(domain):
        return 0
    number = _simulated.get(type(domain), 0) + 1
    _simulated[type(domain)] = number
    if number <= _OFTEN:
        return _OFTEN
    return int(number <= _ALWAYS or not number % _EACH)


_simulated: dict[type, int] = {}
"""Class of worlds -> its simulated steps in this process."""


class Repeated(Generic[S, A]):
    """A simulated step that is taken several times, each time by the same draws of `rng`.

    Args:
        state: that all are taken from.
        words: `steady_words` of the state before.
        step: the first one, which counts.

    Raises:
        DomainError: the world says something else of the state, though the state is the same.
    """

    def __init__(
        self, domain: Domain[S, A], state: S, action: A, words: tuple[object, ...], step: Step[S]
    ) -> None:
        self._domain, self._state, self._action, self._step = domain, state, action, step
        if steady_words(domain, state) != words:
            raise DomainError(
                f"{type(domain).__name__}.step changed what `describe` or `actions` say of the "
                "state that it was given: keep all that changes in the state, not in the world"
            )
        self._words = steady_words(domain, step.state)
        from llm_planning.generators import generators_in, stamp

        self._stamp = stamp
        self._kept = generators_in(domain)
        self._places = list(map(stamp, self._kept))
        self._carried = [list(map(stamp, generators_in(at))) for at in (state, step.state)]

    def again(self, step: Step[S], *, drew: bool) -> None:
        """Refuses a world whose step did two things, or whose chance a search would foresee.

        Args:
            drew: whether the step drew from `rng`.

        Raises:
            DomainError: names class and remedy.
        """
        method = f"{type(self._domain).__name__}.step"
        if steady_words(self._domain, self._step.state) != self._words:
            raise DomainError(
                f"{type(self._domain).__name__}.describe or actions said two things of one state: "
                "let them go by the state alone, without chance"
            )
        if list(map(self._stamp, self._kept)) != self._places:
            raise DomainError(_drew(method, "a generator that the world keeps"))
        before, after = self._carried
        if before != after and not drew:
            raise DomainError(_drew(method, "a generator in its state"))
        differing = [
            name
            for name in ("reward", "done", "observation", "text", "obstacle")
            if _differ(getattr(step, name), getattr(self._step, name))
        ]
        if not _is_alike(self._domain, step.state, self._step.state):
            differing.append("state")
        if differing:
            raise DomainError(
                f"{method} did two things with {quote(str(self._action))} in one state, by the "
                f"same draws of `rng` ({' and '.join(differing)} of its Step differ): draw all "
                "chance from `rng`, and change nothing in the world"
            )


def _drew(method: str, source: str) -> str:
    ours = "Random(seed)" if method.endswith(".start") else "rng"
    return (
        f"{method} drew from {source}, which is not `{ours}`: the same run comes out differently, "
        f"or a search foresees the draw. Draw from `{ours}`, or seed that generator from it each "
        "time (docs/extending.md says how)"
    )


def refuse_unlike_starts(domain: Domain[S, Any], seed: int, start: S, again: S) -> None:
    """Refuses a world that started in two ways from one seed.

    Raises:
        DomainError: it did.
    """
    if not _is_alike(domain, start, again):
        raise DomainError(
            f"{type(domain).__name__}.start made two states of the seed {seed}: draw whatever "
            "differs between starts from Random(seed)"
        )


def _is_alike(domain: Domain[S, Any], one: S, other: S) -> bool:
    """Whether two states are one: they are equal, hold the same or, as objects may, read so."""
    if not _differ(one, other):
        return True
    with suppress(ValueError):
        _marshalled((one, other))
        return False
    return words_of(domain, one) == words_of(domain, other)


def _differ(one: object, other: object) -> bool:
    with suppress(Exception):
        if one == other:
            return False
    digest = _pickled(one)
    return digest is None or digest != _pickled(other)


def steady_words(domain: Domain[S, Any], state: S) -> tuple[object, ...]:
    """As `words_of`; saying them changes nothing.

    Raises:
        DomainError: it did.
    """
    before = digest_of(state)
    words = words_of(domain, state)
    refuse_changed(domain, "describe or actions", state, before)
    return words


def words_of(domain: Domain[S, Any], state: S) -> tuple[object, ...]:
    """What a world says of a state; nothing, if it has to wait for its words."""
    said: list[object] = []
    for tell in (domain.describe, domain.actions):
        words: Any = tell(state)
        if inspect.iscoroutine(words):
            try:
                words.send(None)
            except StopIteration as done:
                words = done.value
            else:
                words.close()
                words = ()
        said.append(words if isinstance(words, str) else tuple(map(str, words)))
    return tuple(said)


# CHANCE FROM ELSEWHERE ----------------------------------------------------------------------------


def elsewhere() -> tuple[int, int]:
    """How far the generators of `random` and of `numpy.random` have come; a draw moves them."""
    python, numpy = _places()
    return python.value, numpy.value


class _Place(Protocol):
    """The place of a Mersenne Twister, and a word of it, which each round of them changes."""

    @property
    def value(self) -> int: ...


@cache
def _places() -> tuple[_Place, _Place]:
    import numpy as np

    inside: Any = random
    python, numpy = inside._inst, np.random.get_bit_generator()  # type: ignore[attr-defined]

    def of_python() -> int:
        first, *_, place = python.getstate()[1]
        return int(place | first << 32)

    def of_numpy() -> int:
        state = numpy.state["state"]
        return int(state["key"][-1]) | int(state["pos"]) << 32

    return (
        _place_at(id(python) + object.__basicsize__, of_python),
        _place_at(numpy.ctypes.state_address + 4 * 623, of_numpy),
    )


def _place_at(address: int, ask: Callable[[], int]) -> _Place:
    """Reads a place where it lies in memory: to ask the generator takes 200 times as long.

    Where the number does not lie there, it is asked for.
    """
    if sys.implementation.name == "cpython":
        place = c_uint64.from_address(address)
        if place.value == ask():
            return place
    return _Asked(ask)


@dataclass(frozen=True)
class _Asked:
    ask: Callable[[], int]

    @property
    def value(self) -> int:
        return self.ask()


def _refuse_drawing(domain: Domain[Any, Any], method: str, call: Callable[[], object]) -> None:
    """Refuses a world if a call of it draws from a global generator that it has not seeded itself.

    It seemed to draw. But other threads draw from these generators, too, such as the engine's.

    Args:
        call: makes the call again, by equal draws of `rng` each time.
    """
    from llm_planning.generators import reseed, restored, shared_generators, state_of

    if (type(domain), method) in _seeding:
        return
    shared = shared_generators()[:2]
    found: list[list[bytes | None]] = []
    moved = [False, False]
    with restored(shared):
        for seed in range(2):
            for source in shared:
                reseed(source, seed)
            begun = elsewhere()
            call()
            moved = [place != at for place, at in zip(elsewhere(), begun, strict=True)]
            found.append([_pickled(state_of(source)) for source in shared])
    for name, has_moved, one, other in zip(_NAMES, moved, *found, strict=True):
        if has_moved and one != other:
            raise DomainError(_drew(f"{type(domain).__name__}.{method}", name))
    if any(moved):
        _seeding.add((type(domain), method))


_seeding: set[tuple[type, str]] = set()
"""Methods that seed a global generator from what they are given, and then draw from it."""

_NAMES: Final = ("Python's `random`", "`numpy.random`")


def without_global_draws(
    domain: Domain[Any, Any],
    method: str,
    call: Callable[[], T],
    again: Callable[[], T] | None = None,
) -> T:
    """Calls a method of a world, and makes sure that it drew from no global generator.

    Args:
        call: the call.
        again: the same, without a trace in what was given to it; by default the call.

    Raises:
        DomainError: it drew from one.
    """
    if not is_watched(domain):
        return call()
    drawn = elsewhere()
    value = call()
    if elsewhere() != drawn:
        _refuse_drawing(domain, method, again or call)
    return value


def twin_of(rng: Random) -> Random:
    """A generator with the same draws to come. Making it is no draw of the first one."""
    return rng.twin() if isinstance(rng, TrackedRandom) else copy.copy(rng)


# STATES THAT STAY AS THEY ARE ---------------------------------------------------------------------


def refuse_changed(domain: Domain[S, Any], method: str, state: S, before: Hashable | None) -> None:
    """Refuses a world that changed a state which it was given.

    Args:
        method: of the domain, which was given the state.
        before: `digest_of` the state before.

    Raises:
        DomainError: the state is another one now.
    """
    if before == digest_of(state) or _reads_alike(domain, before, state):
        return
    raise DomainError(
        f"{type(domain).__name__}.{method} changed the state that it was given, which others still "
        "use: make a new one, such as by copy.deepcopy(state), and change that"
    )


def digest_of(state: object) -> Hashable | None:
    """What changes if a state does; None for one that cannot change, or of which nothing tells."""
    kind = state.__class__
    how = _how.get(kind)
    if how is None:
        how = _how[kind] = _best_for(state)
    try:
        return how(state)
    except Exception:
        return _pickled(state)


_how: dict[type, Callable[[Any], Hashable | None]] = {}
"""Class of states -> its digest."""


def _best_for(state: object) -> Callable[[Any], Hashable | None]:
    if state.__class__ in _FIXED or isinstance(state, Enum):
        return _nothing
    if state.__class__ not in _CONTAINERS and _is_value(state):
        return _hashed
    with suppress(ValueError):
        _marshalled(state)
        return _marshalled
    with suppress(Exception):
        if _has_members_alone(state) and _marshalled_members(state):
            return _marshalled_members
    if any("__getstate__" in vars(base) for base in type(state).__mro__[:-1]):
        # What it leaves out may change, too.
        return lambda state: _pickled((state, vars(state)))
    return _pickled


_FIXED: Final[frozenset[type]] = frozenset({int, str, bytes, float, bool, complex, type(None)})
_CONTAINERS: Final[frozenset[type]] = frozenset({tuple, list, dict, set, frozenset})


def _is_value(state: object) -> bool:
    """Whether the hash of a state tells all that is in it."""
    if state.__class__ in _FIXED or isinstance(state, Enum):
        return True
    if isinstance(state, tuple | frozenset):
        return not hasattr(state, "__dict__") and all(map(_is_value, state))
    if is_dataclass(state) and not isinstance(state, type):
        made: Any = vars(type(state)).get("__hash__")
        # Written by the decorator, not by a person.
        is_whole = made is not None and made.__code__.co_filename == "<string>"
        return is_whole and all(
            field.compare and _is_value(getattr(state, field.name)) for field in fields(state)
        )
    return False


def _hashed(state: object) -> Hashable | None:
    # A field that holds a value in one state may hold a list in the next.
    return hash(state) if _is_value(state) else _pickled(state)


def _nothing(_: object) -> None:
    return None


def _marshalled(state: Any) -> bytes:  # noqa: ANN401 - states are anybody's
    # From version 3 on the bytes tell how often a part is referred to, too.
    return marshal.dumps(state, 2)


def _marshalled_members(state: Any) -> bytes:  # noqa: ANN401 - likewise
    """All of an object that has nothing but members; see `_has_members_alone`."""
    return marshal.dumps(vars(state), 2)


def _has_members_alone(state: Any) -> bool:  # noqa: ANN401 - likewise
    """Whether an object has nothing but members: no slots, no items, no pickling of its own."""
    kind = type(state)
    if any(_OWN & vars(base).keys() for base in kind.__mro__[:-1]):
        return False
    _, _, members, *items = (*state.__reduce_ex__(2), None, None)[:5]
    return members is vars(state) and not any(item is not None for item in items)


_OWN: Final = frozenset({"__slots__", "__reduce__", "__reduce_ex__", "__getstate__"})


def _pickled(state: object) -> bytes | None:
    """A state as bytes; None if nothing writes it.

    What cannot be written, such as an object of a local class, a lock or a generator, is told by
    its address.
    """
    with suppress(Exception):
        return pickle.dumps(state, pickle.HIGHEST_PROTOCOL)
    written = BytesIO()
    with suppress(Exception):
        _LoosePickler(written, pickle.HIGHEST_PROTOCOL).dump(state)
        return written.getvalue()
    return None


class _LoosePickler(pickle.Pickler):
    def persistent_id(self, value: object) -> int | None:
        """Tells what cannot be written by its address."""
        if isinstance(value, _WRITTEN):
            return None
        with suppress(Exception):
            if not isinstance(value, type | FunctionType | ModuleType):
                value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
                return None
        if len(_told_by_address) > _MOST_TOLD:
            _told_by_address.clear()
        _told_by_address[id(value)] = value
        return id(value)


_WRITTEN: Final[tuple[type, ...]] = (*_FIXED, *_CONTAINERS)
_MOST_TOLD: Final = 500
_told_by_address: dict[int, object] = {}
"""The last ones, so that a state can be read again."""


class _LooseUnpickler(pickle.Unpickler):
    def persistent_load(self, pid: int) -> object:
        return _told_by_address[pid]


def _reads_alike(domain: Domain[S, Any], before: object, state: S) -> bool:
    """Whether only what nobody reads changed, such as a value that was kept for the next time."""
    with suppress(Exception):
        return words_of(domain, _read(before, type(state))) == words_of(domain, state)
    return False


def _read(written: Any, kind: type[S]) -> S:  # noqa: ANN401 - likewise
    """An object from its digest."""
    if _how[kind] is not _marshalled_members or written[:1] == b"\x80":
        made: S = _LooseUnpickler(BytesIO(written)).load()
        return made
    made = kind.__new__(kind)
    vars(made).update(marshal.loads(written))
    return made
