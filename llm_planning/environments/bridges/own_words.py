"""A user's own words for worlds of other people: `--set words=FILE.py`.

The file defines one or both of

    def state(text, state): ...   # -> what is said of a state
    def action(name): ...         # -> what an action is called

`text` is what the bridge says of the state; `state` is the bridge's own, such as
`gymnasium_worlds.Moment`. The same state must always be said alike.
"""

from __future__ import annotations

import os
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import model_validator

from llm_planning.domain import Domain, DomainError, NamesOptions, Observes, Step
from llm_planning.interrupts import was_interrupted
from llm_planning.names import remedy
from llm_planning.own_code import describe_error, load_file, own_source
from llm_planning.settings import Settings, identified

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from random import Random

    from llm_planning.specs import DomainSpec

StateWords: TypeAlias = "Callable[[str, Any], str]"
ActionWords: TypeAlias = "Callable[[str], str]"
Sight: TypeAlias = Literal["own", "full"]
"""What a search sees of a world that hides something from its players."""

_FUNCTIONS = ("state", "action")


def sees_too_much(task: str, hides: str) -> str:
    """Why a world is not searched with `sight=own`."""
    return (
        f"{task} {hides}, and a search would see all of it: add --set sight=full if that is meant"
    )


class BridgeSettings(Settings):
    """The settings of every world of other people.

    Attributes:
        words: a Python file of yours that says states and actions in other words.
        words_sha256: hash of this file and of what it imports from its folder, so that a changed
            file makes another trial. It is computed; a given value must match the file.
    """

    words: str = ""
    words_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify_words(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        source = own_source(f"{file}:state") if (file := values.get("words")) else None
        if file and source is None:
            raise ValueError("it is no Python file: give the path of a file that ends with .py")
        return identified(values, "words", source.sha256 if source else "")


class _InOwnWords(Domain[Any, str]):
    """A world in a user's words; a subclass passes on what else the world is."""

    def __init__(self, world: Any, say: Mapping[str, Any], file: str) -> None:
        self._world = world
        self._state: StateWords = say.get("state", lambda text, _: text)
        self._action: ActionWords = say.get("action", str)
        self._file = file

    def start(self, seed: int) -> Any:
        return self._world.start(seed)

    def describe(self, state: Any) -> str:
        return self._said("state", self._state, self._world.describe(state), state)

    def actions(self, state: Any) -> Sequence[str]:
        return tuple(self._by_name(state))

    def step(self, state: Any, action: str, rng: Random) -> Step[Any]:
        names = self._by_name(state)
        if action not in names:
            return Step(state, obstacle=f"there is no such action; {remedy(action, names)}")
        step: Step[Any] = self._world.step(state, names[action], rng)
        return step

    def _by_name(self, state: Any) -> dict[str, str]:
        """The user's name of each possible action -> the world's.

        Raises:
            DomainError: two actions have one name.
        """
        actions = self._world.actions(state)
        names = {self._said("action", self._action, name): name for name in actions}
        if len(names) < len(actions):
            raise DomainError(f"words={self._file}: `action` calls two alike: tell them apart")
        return names

    def _said(self, function: str, say: Callable[..., object], *of: object) -> str:
        try:
            words = say(*of)
        except BaseException as error:
            if was_interrupted(error):
                raise
            failure = describe_error(error)
            raise DomainError(f"words={self._file}: `{function}` fails: {failure}") from error
        if not isinstance(words, str):
            raise DomainError(f"words={self._file}: `{function}` gives {words!r}: return a text")
        return words


def in_own_words(world: Domain[Any, Any], file: str) -> Domain[Any, Any]:
    """A world in the words of a user's file, which is run.

    Raises:
        DomainError: the file defines no words, or names actions that a grammar names.
        OwnCodeError: the file cannot be run.
    """
    defined, _ = load_file(Path(os.path.realpath(file)))
    say = {name: defined[name] for name in _FUNCTIONS if callable(defined.get(name))}
    if not say:
        raise DomainError(f"words={file} defines neither `state(text, state)` nor `action(name)`")
    if "action" in say and isinstance(world, NamesOptions):
        raise DomainError(
            f"words={file} defines `action`, but here a grammar names actions: define `state` only"
        )
    public = (name for name in dir(world) if not name.startswith("_"))
    members: dict[str, object] = {
        name: property(attrgetter(f"_world.{name}"))
        for name in public
        if name not in vars(_InOwnWords)
    }
    if isinstance(world, Observes):
        members["observe"] = lambda self, state: self._said(
            "state", self._state, self._world.observe(state), state
        )
    kind: type[_InOwnWords] = type("InOwnWords", (_InOwnWords,), members)
    return kind(world, say, file)


def with_own_words(spec: DomainSpec) -> DomainSpec:
    """A source's domain that is opened in a user's words if its settings name some."""

    def open_(task: str, settings: Any) -> Any:
        world: Any = spec.open(task, settings)
        return in_own_words(world, settings.words) if settings.words else world

    return replace(spec, open=open_)
