"""What a world is to a planner: the contract that every domain implements.

A domain says how it starts, what can be done, what a step does, how it is told to a model and when
it is won. `docs/extending.md` walks through one. It is deterministic given seed, state and `rng`,
its states are plain data that nobody changes, and all chance in a step comes from `rng`: a step
that draws nothing is taken for certain and never simulated twice.

What a domain can do beyond that is optional. A planner names what it needs (`Need`), and is refused
in one line where it is missing.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from random import Random

    from pydantic import BaseModel

__all__ = ["Domain", "DomainError", "Grammar", "Need", "OneOf", "StateModel", "Step", "settled"]

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")
OptionT_co = TypeVar("OptionT_co", covariant=True)
Soon: TypeAlias = T | Awaitable[T]
"""A value or an awaitable of one: a domain's methods may be `async`."""


class DomainError(ValueError):
    """A domain cannot be opened, or does not offer what is asked of it."""


# A named tuple is made several times as fast as a frozen dataclass, and a search makes millions.
class Step(NamedTuple, Generic[S]):
    """What an action does in a domain.

    Attributes:
        state: s', the state after the action.
        reward: r, a number in the domain's own unit.
        done: whether the episode ends here.
        observation: o, what is seen of s'; two steps with equal observations lead to one node. None
            where s' itself is seen.
        text: what the world says, for people and models.
        obstacle: why the action was not carried out, or fell short; None if all of it was done.
        luck: a control variate: how much of the reward and of what follows is owed to chance, in
            units of reward; its expectation must be 0.

    Example:
        >>> from llm_planning import Step
        >>> step = Step("hall", reward=1.0, text="The door opens.")
        >>> step.state, step.done, step.obstacle
        ('hall', False, None)
        >>> Step("cell", obstacle="The door is locked.").reward
        0.0
    """

    state: S
    reward: float = 0.0
    done: bool = False
    observation: Hashable = None
    text: str = ""
    obstacle: str | None = None
    luck: float = 0.0

    @property
    def seen(self) -> Hashable:
        """What tells this outcome from others."""
        return self.state if self.observation is None else self.observation


class Domain(ABC, Generic[S, A]):
    """A world to plan in; subclass it.

    A state is plain data: hashable unless the domain gives observations, never changed. An action
    is hashable; `str(action)` is what a model reads and writes.

    Optional members, absent here, which a subclass may add. One that is set in the constructor is
    declared in the class (`grammar: Grammar`), so that it is known before there is an instance:

        success(state) -> bool: whether the goal is reached. Without it, an episode that ends
            (`Step.done`) is won.
        score(state) -> float: what a state is worth to a search that goes no deeper. Without it,
            searches roll out with uniform actions.
        observe(state) -> str: what an agent sees, where that is less than `describe` says.
        belief(history, rng) -> S: draws s ~ b(s) given (action, observation) pairs, oldest first;
            a domain that has it is searched as a POMDP. Its steps must carry observations.
        grammar: the `Grammar` of all its options, for planners that propose some.
        state_model: the `StateModel` in which a model predicts.
        wording: question -> Jinja2 source; blocks that replace those of a planner's own prompts.
        example: (state in words, action) pairs, worked examples for prompts.
        advise(state) -> sequence of actions: what the rules still ask for on the way to the goal,
            in an order that works. With it, `feasible`, `success` and `score`, rules answer the
            roles of planners in a model's place (`--set roles=rules`); all methods are then plain
            functions.
        feasible(state, action) -> str | None: why an action cannot be carried out.

    Attributes:
        tasks: names that the constructor takes as `task`; empty for a domain with one task.
        goal: what is to be reached, in words.
        about: what the world is and how it works, in words: the fixed part of every prompt.

    Example:
        >>> from random import Random
        >>> from llm_planning import Domain, Step
        >>> class Stairs(Domain):
        ...     goal = "Stand on the second step."
        ...
        ...     def start(self, seed):
        ...         return 0
        ...
        ...     def describe(self, state):
        ...         return f"You stand on step {state}."
        ...
        ...     def actions(self, state):
        ...         return ["up"] if state < 2 else []
        ...
        ...     def step(self, state, action, rng):
        ...         return Step(state + 1, reward=float(state == 1), done=state == 1)
        >>> stairs = Stairs()
        >>> stairs.step(stairs.start(seed=0), "up", Random(0)).state
        1
    """

    tasks: ClassVar[Sequence[str]] = ()
    goal: str
    about: str = ""

    @abstractmethod
    def start(self, seed: int) -> Soon[S]:
        """s_0. The seed is the world's: whatever differs between its instances comes from it."""

    @abstractmethod
    def describe(self, state: S) -> Soon[str]:
        """The state in words, complete, for a model."""

    @abstractmethod
    def actions(self, state: S) -> Soon[Sequence[A]]:
        """What can be done: without repetitions, always in the same order; nothing at the end."""

    @abstractmethod
    def step(self, state: S, action: A, rng: Random) -> Soon[Step[S]]:
        """What an action does.

        Args:
            state: any state that `start` or `step` gave.
            action: usually one of `actions`; one that is impossible leaves the state as it is and
                says why in `Step.obstacle`.
            rng: the source of all chance.
        """


class Grammar(Protocol[OptionT_co]):
    """A finite language of options, written as the fields of an answer.

    Attributes:
        told: how an option is written, a sentence for a prompt.
    """

    told: str

    @property
    def fields(self) -> Mapping[str, Any]:
        """Maps the fields that a model fills in to their types, whose language is finite."""
        ...

    def read(self, answer: Mapping[str, Any]) -> OptionT_co:
        """Returns the option that the fields name."""
        ...


class OneOf(Generic[A]):
    """The `Grammar` of a short list of options.

    Args:
        options: all of them; their texts differ.
    """

    def __init__(self, options: Sequence[A]) -> None:
        self._options = {str(option): option for option in options}
        self.told = f"An option is one of: {', '.join(self._options)}."
        self.fields: Mapping[str, Any] = {"option": Literal[tuple(self._options)]}

    def read(self, answer: Mapping[str, Any]) -> A:
        """Returns the option with this text."""
        return self._options[answer["option"]]


class StateModel(Protocol[S]):
    """The form in which a model predicts what an option does to a state.

    Attributes:
        answer: the shape of a prediction, of a finite language: a whole state, or its change.
    """

    answer: type[BaseModel]

    def read(self, state: S, prediction: BaseModel) -> tuple[S, Mapping[str, int]]:
        """Returns the predicted state, and what it takes away although it is missing."""
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a planner needs of a domain.

    Attributes:
        member: the optional member of `Domain` that gives it.
        said: what a domain with it does, such as "names its options".
    """

    member: str
    said: str

    def met_by(self, domain: type[Domain[Any, Any]]) -> bool:
        """Whether a domain has it, or declares that its instances do."""
        declared = (inspect.get_annotations(kind) for kind in domain.__mro__)
        return getattr(domain, self.member, None) is not None or any(
            self.member in one for one in declared
        )


async def settled(value: Soon[T]) -> T:
    """Returns what a domain's method gave, awaited where it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def is_won(domain: Domain[S, Any], state: S, *, done: bool) -> bool:
    """Whether a state reaches the goal.

    Args:
        domain: whose `success` decides; without one, every end is a success.
        state: the last one.
        done: whether the episode ended there.
    """
    success = getattr(domain, "success", None)
    return done if success is None else bool(await settled(success(state)))


async def observed(domain: Domain[S, Any], state: S) -> str:
    """Returns what an agent sees of a state: `observe`, or else `describe`."""
    see = getattr(domain, "observe", None) or domain.describe
    return await settled(see(state))


History: TypeAlias = "tuple[tuple[Any, Hashable], ...]"
"""(action, observation) pairs since the start, oldest first."""
