"""What the worlds of a run share, and whether they keep anything on disk.

A world that is slow to open, or that remembers what it computed, keeps this in an object of a class
of its own, and asks for the object by `shared`. Who runs planners makes the scope, and knows no
world.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Shareable(Protocol):
    """What is shared."""

    def close(self) -> None:
        """Ends it, with its scope."""
        ...


T = TypeVar("T", bound=Shareable)


class _Scope:
    """What is shared in a scope, by its class; for the process that began it.

    A child process can use neither the interpreters nor the open files of its parent.
    """

    def __init__(self, closes: ExitStack) -> None:
        self.closes = closes
        self.process = os.getpid()
        self.made: dict[object, Any] = {}


_scope: ContextVar[_Scope | None] = ContextVar("what worlds share", default=None)
_on_disk = ContextVar("worlds keep things on disk", default=True)


@contextmanager
def sharing(*, on_disk: bool = True) -> Iterator[None]:
    """A context in which worlds share what `shared` makes; its end closes that.

    Tasks that are started in the context inherit it. An inner context shares what the outer one
    does.

    Args:
        on_disk: whether worlds may read and write files of what they remember, as far as the outer
            context allows it.
    """
    outer, was_on_disk = _here(), _on_disk.get()
    with ExitStack() as closes:
        _on_disk.set(was_on_disk and on_disk)
        if outer is None:
            _scope.set(_Scope(closes))
        try:
            yield
        finally:
            _on_disk.set(was_on_disk)
            if outer is None:
                _scope.set(None)


def shared(make: Callable[[], T]) -> T | None:
    """What worlds share here, made by its class when it is first asked for; None outside `sharing`.

    Args:
        make: the class.
    """
    scope = _here()
    if scope is None:
        return None
    if make not in scope.made:
        scope.made[make] = scope.closes.enter_context(closing(make()))
    value: T = scope.made[make]
    return value


def on_disk() -> bool:
    """Whether a world may keep on disk what it remembers."""
    return _on_disk.get()


def _here() -> _Scope | None:
    scope = _scope.get()
    return scope if scope is not None and scope.process == os.getpid() else None
