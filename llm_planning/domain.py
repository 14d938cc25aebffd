"""What a world is to a planner: the contract that every domain implements.

A domain says how it starts, which actions are possible, what a step does, how a state reads and
when the goal is reached. `docs/extending.md` walks through one. A domain is deterministic given
seed, state and `rng`. Its states are plain, unchanging data. All chance in a step comes from `rng`:
a step that draws nothing counts as certain and is never simulated twice.

All other members of a domain are optional. A planner names the ones that it needs (`Need`). If a
domain lacks one, the planner refuses it with one line.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
)

from llm_kernels.quoting import shown

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from random import Random

    from pydantic import BaseModel

__all__ = [
    "Domain",
    "DomainError",
    "Grammar",
    "Judged",
    "Need",
    "OneOf",
    "StateModel",
    "Step",
    "Verdict",
    "settled",
]

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")
Soon: TypeAlias = T | Awaitable[T]
"""A value, or an awaitable of it: a domain's methods may be `async`."""


SMALLEST: Final = 336
"""The least side of a picture, in pixels: 12 x 12 of the squares that Qwen2.5-VL makes a token."""


class DomainError(ValueError):
    """A domain cannot be opened, or lacks something that a planner needs."""


# A named tuple is made several times as fast as a frozen dataclass, and a search makes millions.
class Step(NamedTuple, Generic[S]):
    """The result of an action in a domain.

    Attributes:
        state: s', the state after the action.
        reward: r, a number in the domain's own unit.
        done: whether the episode ends here.
        observation: o, what an agent sees of s'. Steps with equal observations lead to one node.
            None if the agent sees s' itself.
        text: what the world says, for people and models.
        obstacle: why the action was refused, or carried out only in part; None for neither.
        luck: a control variate: the part of this and later rewards that is due to chance, in units
            of reward. Its expectation must be 0.
        time: how long the action took, in seconds of the world.

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
    time: float = 0.0

    @property
    def seen(self) -> Hashable:
        """The observation, or the state if there is no observation; it identifies the outcome."""
        return self.state if self.observation is None else self.observation


Verdict: TypeAlias = Literal["done", "true", "false"]
"""What is found of a subtask: its effect holds already; it can be carried out now; it cannot."""


class Judged(NamedTuple):
    """The executability of a subtask in a state (DRIP, Section 3.2 and Tables 8 and 11).

    Attributes:
        verdict: see `Verdict`.
        reason: why, in a few words.
    """

    verdict: Verdict
    reason: str = ""


class Domain(ABC, Generic[S, A]):
    """A world to plan in; subclass it.

    A state is plain data that never changes; it is hashable unless the steps have observations. An
    action is hashable. A model reads and writes it as `str(action)`.

    A subclass may add these optional members. If the constructor sets one, the class declares it
    (`grammar: Grammar`), so that planners know of it before there is an instance:

        success(state) -> bool | None: whether the goal is reached; None at an end of which nothing
            tells. Without it, an episode that ends (`Step.done`) is won.
        score(state) -> float: the value of a state at the end of a simulation. Without it, searches
            roll out with uniform actions.
        observe(state) -> str: what an agent sees, if that is less than `describe` says.
        look(state) -> (str, str, str): what the world said last, what is around and what is at
            hand. Without it, MC-DML tells a step's text, the view of the state and the goal.
        first_score: the points with which an episode begins.
        brief(state) -> str: the complete state in few words, for a model that was taught the world
            (`roles.short`). Parts of it are lines, or end with a comma or a semicolon.
        mechanics: what an action does and how an answer is written, where settings decide that. A
            model that was taught one `mechanics` is asked as any model in another.
        draw(state, *, size=336) -> Image: what an agent sees of a state as a picture of size x size
            pixels, for models that read images. Equal states give equal bytes, and nothing is in
            the picture that `observe` does not say. Other sizes are a `DomainError`.
        belief(history, rng) -> S: draws s ~ b(s) given (action, observation) pairs, oldest first.
            A domain with a belief is searched as a POMDP. Its steps must have observations. What is
            seen before the first action is not among the pairs: the belief begins with it.
        grammar: the `Grammar` of all its options, for planners that propose options.
        state_model: the `StateModel` of a model's predictions.
        wording: question -> Jinja2 source; blocks that replace those of a planner's own prompts.
        example: (state in words, action) pairs, worked examples for prompts.
        advise(state) -> sequence of actions: the remaining actions to the goal by the rules, in an
            order that works. With it, `feasible`, `success` and `score`, rules answer the roles of
            planners in a model's place (`--set roles=rules`). All methods must then be plain
            functions. If `advise` is a coroutine function, rules know the next action only.
        feasible(state, action) -> str | None: why an action cannot be carried out; None if it can.
        decompose(state, subtask) -> sequence of actions: the subtasks right before `subtask`, in
            the order in which they are needed; None is the goal. It is empty where nothing comes
            before. DRIP plans backwards with it and with `judge`.
        named(state) -> sequence of actions: the subtasks that the goal itself names, such as to
            mine a diamond. With it, nobody is asked what comes right before the goal.
        judge(state, subtask, parent) -> Judged: whether the effect of a subtask holds, or it can be
            carried out. `parent` is the subtask that it was decomposed from; None if that is the
            goal.
        remainder(state) -> str: the part of the goal that is open, in words. Without it, the goal.
        spared(state, action) -> action: the action in the place of `action` that undoes nothing of
            the goal that is reached.
        mistakes(subtask) -> mapping: kind of mistake -> the subtasks that someone may write by
            mistake in the place of `subtask`, at least one for each kind. Oracles err so, item by
            item.
        approach(before, state, subtask) -> sequence of actions: how to go on with a subtask that
            was begun in the state `before` and is not done. Without it, the subtask once more.
        shows(before, state, subtask) -> bool: whether a state shows the effect of a subtask that
            was begun in `before`. Without it, only what the world carried out completely is done.
        falls_short(predicted, state) -> bool: whether a state lacks what was predicted. Without
            it, whether the two differ.
        again(state, before, after) -> state: the state after an action that once led from `before`
            to `after`; None if that does not tell. Without it, only an equal state tells.
        saved(state), restored(record) -> state: a state as JSON values, and back, for planners that
            keep what they saw in a folder.
        subject(subtask) -> str: what a wrong belief about a subtask is about, such as its item.
            Without it, the subtask itself.
        primitives: the `Primitives` of programs that carry out subtasks.
        in_units() -> domain: the same world at its smallest actions, for planners without temporal
            abstraction; its `unit(subtask) -> action` makes one of them of a subtask.
        milestones(state) -> mapping: name in snake_case -> whether a state shows that the milestone
            is passed, always the same names. The record of an episode says when each was first
            passed.
        traits: mapping of name -> number or word, which joins the metrics of every run, such as
            `optimum`, the fewest actions from the start to the goal.
        judged(actions) -> mapping: what another simulator says of the actions that were taken, as
            they are written; it joins the metrics of the run.
        lessons: `roles.exercises.Lessons`, one for each role of your own that `roles measure` and
            `distill` ask about here; a class attribute.
        teacher(held_out) -> Teacher: static; makes what `llm-planning distill` teaches with, a
            `roles.exercises.Teacher`. `held_out` has the names that are left out; None leaves out
            what the domain leaves out by default.

    Attributes:
        tasks: names that the constructor takes as `task`; empty for a domain with one task.
        goal: the goal in words.
        about: what the world is and how it works, in words: the fixed part of every prompt.
        no_plan: why no plan can reach the goal; empty where one may. If it is not empty, it is the
            result of every run: no planner is asked.

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
    no_plan: str = ""

    @abstractmethod
    def start(self, seed: int) -> Soon[S]:
        """Returns s_0. All differences between instances of the world come from the seed."""

    @abstractmethod
    def describe(self, state: S) -> Soon[str]:
        """Returns the complete state in words, for a model."""

    @abstractmethod
    def actions(self, state: S) -> Soon[Sequence[A]]:
        """Returns the possible actions: each once, in a fixed order; none at the end."""

    @abstractmethod
    def step(self, state: S, action: A, rng: Random) -> Soon[Step[S]]:
        """Takes an action.

        Args:
            state: any state from `start` or `step`.
            action: usually one of `actions`. An impossible action leaves the state as it is, and
                `Step.obstacle` says why.
            rng: the source of all chance.
        """


class Grammar(Protocol[A]):
    """A finite language of options, written as the fields of an answer.

    Attributes:
        told: how an option is written, a sentence for a prompt.
    """

    told: str

    def __hash__(self) -> int:
        """Forms of answers are kept by their grammar."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """Maps the fields that a model fills in to their types, whose language is finite."""
        ...

    def read(self, answer: Mapping[str, Any]) -> A:
        """Returns the option that the fields name."""
        ...

    def write(self, option: A) -> Mapping[str, Any]:
        """Returns the fields of an option, which `read` reads."""
        ...


class OneOf(Generic[A]):
    """The `Grammar` of a short list of options.

    Args:
        options: all of them; their texts differ.
    """

    def __init__(self, options: Sequence[A]) -> None:
        self._options = {str(option): option for option in options}
        for text, count in Counter(map(str, options)).items():
            if count > 1:
                raise DomainError(f"two options are written {shown(text)}: give each its own text")
        self.told = f"An option is one of: {', '.join(self._options)}."
        self.fields: Mapping[str, Any] = {"option": Literal[tuple(self._options)]}

    def read(self, answer: Mapping[str, Any]) -> A:
        """Returns the option with this text."""
        return self._options[answer["option"]]

    def write(self, option: A) -> Mapping[str, Any]:
        """Returns the fields of an option, which `read` reads."""
        return {"option": str(option)}


class StateModel(Protocol[S]):
    """The form in which a model predicts what an option does to a state.

    Attributes:
        answer: the shape of a prediction, of a finite language: a whole state, or its change.
    """

    answer: type[BaseModel]

    def read(self, state: S, prediction: BaseModel) -> tuple[S, Mapping[str, int]]:
        """Reads a prediction.

        Args:
            state: the state before the option.
            prediction: an answer.

        Returns:
            The predicted state, and item -> count that the prediction takes away but `state` lacks.
        """
        ...


@dataclass(frozen=True, slots=True)
class Need:
    """An optional member of `Domain` that a planner needs.

    Attributes:
        member: its name.
        said: what a domain with this member does, such as "names its options".
    """

    member: str
    said: str

    def met_by(self, domain: type[Domain[Any, Any]]) -> bool:
        """Whether a domain's class has or declares the member."""
        declared = (inspect.get_annotations(kind) for kind in domain.__mro__)
        return getattr(domain, self.member, None) is not None or any(
            self.member in one for one in declared
        )


async def settled(value: Soon[T]) -> T:
    """Returns the result of a domain's method, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value


async def is_won(domain: Domain[S, Any], state: S, *, done: bool) -> bool | None:
    """Whether a state reaches the goal; None if the domain cannot tell.

    Args:
        domain: its `success` decides; without it, every end is a success.
        state: the last state.
        done: whether the episode ended there.
    """
    success = getattr(domain, "success", None)
    if success is None:
        return done
    won = success(state)
    # Most worlds tell at once, and a rollout asks at every step.
    if inspect.isawaitable(won):
        won = await won
    return None if won is None else bool(won)


async def observed(domain: Domain[S, Any], state: S) -> str:
    """Returns what an agent sees of a state: by `observe`, or without it by `describe`."""
    see = getattr(domain, "observe", None) or domain.describe
    return await settled(see(state))


History: TypeAlias = "tuple[tuple[Any, Hashable], ...]"
"""(action, observation) pairs since the start, oldest first."""
