"""Random generators: where they are held, how far they have come, and how they are given chance."""

from __future__ import annotations

import gc
import pickle
import random
import sys
from contextlib import contextmanager
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from llm_planning.repeatable import elsewhere

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Source: TypeAlias = Any
"""What has the state of a generator: Python's, NumPy's bit generators and states, PyTorch's."""
State: TypeAlias = Any
Stamp: TypeAlias = Any

MOST_OBJECTS: Final = 20_000
"""Parts of a thing among which its generators are looked for."""

PYTHON: Final[Any] = random.random.__self__  # type: ignore[attr-defined]
NUMPY: Final[Any] = np.random.random.__self__  # type: ignore[attr-defined]
SHARED: Final = frozenset({id(PYTHON), id(NUMPY), id(NUMPY._bit_generator)})
"""Of the generators of `random` and of `numpy.random`, the ids."""

_ATOMS = {int, float, str, bool, type(None)}
_PLAIN = (int, float, str, bytes, bool, complex, type(None), range, np.generic, ModuleType, type)
_HELD = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def generators_in(
    thing: object, *, leaving_out: Callable[[object], bool] = lambda _: False
) -> list[Source]:
    """The generators that something can reach, beside those that all of Python shares.

    Args:
        thing: a world, a state or an environment.
        leaving_out: whether a part of it, and what that holds, is none of its own.

    Returns:
        Each once, in the order of their distance: its own, those that its objects' methods and
        functions hold, and those of its classes and of the modules that define them.
    """
    found: dict[int, Any] = {}
    known: dict[int, Any] = {}
    kinds: set[type | str] = set()
    level: list[Any] = [thing]
    while level and len(known) < MOST_OBJECTS:
        parts: list[Any] = []
        for part in level:
            if type(part) in _ATOMS or id(part) in known or isinstance(part, _PLAIN):
                continue
            known[id(part)] = part
            if type(part) in _LISTS:
                parts += gc.get_referents(part)
                continue
            if leaving_out(part):
                continue
            if is_generator(part):
                source = source_of(part)
                found[id(source)] = source
            elif isinstance(part, FunctionType):
                parts += (part.__closure__, part.__defaults__, part.__kwdefaults__)
            elif isinstance(part, np.ndarray):
                parts += part.ravel().tolist() if part.dtype.hasobject else ()
            else:
                parts += gc.get_referents(part)
                for kind in () if type(part) in kinds else type(part).__mro__:
                    module = kind.__module__
                    if kind not in kinds and module.partition(".")[0] not in _WITHOUT:
                        parts += _held(vars(kind))
                        if module not in kinds and module in sys.modules:
                            parts += filter(is_generator, _held(vars(sys.modules[module])))
                    kinds.update((kind, module))
        level = parts
    return [source for key, source in found.items() if key not in SHARED]


def source_of(generator: Source) -> Source:
    """What has the state of a generator."""
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator


_WITHOUT = {"builtins", "collections", "dataclasses", "gymnasium", "numpy", "random", "typing"}
"""Packages whose classes and modules hold no generator."""


def _held(names: Mapping[str, Any]) -> list[Any]:
    """Of what has a name: generators, those whose methods these are, and lists of things."""
    held = [
        (name, value.__self__ if isinstance(value, _METHODS) else value)
        for name, value in names.items()
        if isinstance(value, _HOLDING) or is_generator(value)
    ]
    return [
        owner
        for name, owner in held
        if is_generator(owner) or (isinstance(owner, _LISTS) and not name.startswith("__"))
    ]


_METHODS = (BuiltinMethodType, MethodType)
_LISTS = (list, tuple, dict)
_HOLDING = (*_METHODS, *_LISTS)


def is_generator(thing: object) -> bool:
    """Whether a thing is a random generator that can be seeded."""
    if isinstance(thing, _HELD):
        # Nobody can seed the generator of the operating system.
        return not isinstance(thing, random.SystemRandom)
    return type(thing).__name__ == "Generator" and type(thing).__module__.startswith("torch")


def shared_generators() -> list[Any]:
    """The generators that all of Python shares; PyTorch's if somebody has imported it."""
    torch = sys.modules.get("torch")
    return [PYTHON, NUMPY, *([torch.default_generator] if torch else [])]


@contextmanager
def restored(sources: Sequence[Any]) -> Iterator[None]:
    """Gives generators back as they were."""
    before = list(map(state_of, sources))
    try:
        yield
    finally:
        for source, state in zip(sources, before, strict=True):
            _restore(source, state)


def stamp(source: Source) -> Stamp:
    """Something that is another one as soon as a generator is drawn from."""
    if source is PYTHON:
        return elsewhere()[0]
    if source is NUMPY:
        return elsewhere()[1]
    state = state_of(source)
    if isinstance(source, random.Random):
        return state
    # A tensor of PyTorch is pickled with its address.
    return pickle.dumps(state if isinstance(state, dict) else state.numpy())


def state_of(source: Source) -> State:
    """The whole state of a generator."""
    if isinstance(source, random.Random):
        return source.getstate()
    if isinstance(source, np.random.BitGenerator):
        return source.state
    if isinstance(source, np.random.RandomState):
        return source.get_state(legacy=False)
    return source.get_state()


def _restore(source: Source, state: State) -> None:
    if isinstance(source, random.Random):
        source.setstate(state)
    elif isinstance(source, np.random.BitGenerator):
        source.state = state
    else:
        source.set_state(state)


def reseed(source: Source, seed: int) -> None:
    """Seeds a generator."""
    if isinstance(source, random.Random):
        source.seed(seed)
    elif isinstance(source, np.random.BitGenerator):
        source.state = type(source)(seed).state
    elif isinstance(source, np.random.RandomState):
        _seed_random_state(source, seed)
    else:
        source.manual_seed(seed)


def _seed_random_state(source: Source, seed: int) -> None:
    name = source.get_state(legacy=False)["bit_generator"]
    if name == "MT19937":
        source.seed(seed % (1 << 32))
    else:
        state = getattr(np.random, name)(seed).state
        source.set_state({**state, "has_gauss": 0, "gauss": 0.0})
