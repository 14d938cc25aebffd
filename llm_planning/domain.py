"""What a world is to a planner: the contract that every domain implements.

A domain says how it starts, which actions are possible, what a step does, how a state reads and
when the goal is reached. `docs/extending.md` walks through one. A domain is deterministic given
seed, state and `rng`. Its states are plain, unchanging data. All chance in a step comes from `rng`:
a step that draws nothing counts as certain and is never simulated twice.

What more a domain can do is a Protocol here, such as `Believes`. A planner names those that it
needs. If a domain lacks one, the planner refuses it with one line.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
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
    runtime_checkable,
)

from llm_base.quoting import quote

if TYPE_CHECKING:
    from collections.abc import Hashable
    from random import Random

    from pydantic import BaseModel

    from llm_serving.request import Image

__all__ = [
    "Advises",
    "Believes",
    "Briefs",
    "Checks",
    "Decomposes",
    "Domain",
    "DomainError",
    "Draws",
    "Errs",
    "Grammar",
    "HasUnits",
    "Judged",
    "Looks",
    "NamesGoal",
    "NamesOptions",
    "Observes",
    "OneOf",
    "Predicts",
    "RollsOut",
    "RunsPrograms",
    "Saves",
    "Scores",
    "Shows",
    "StateModel",
    "Step",
    "Succeeds",
    "Turns",
    "Verdict",
    "ability_text",
    "check_goal",
    "check_simulated",
    "missing_members",
]

S = TypeVar("S")
A = TypeVar("A")
T = TypeVar("T")
S_contra = TypeVar("S_contra", contravariant=True)
A_contra = TypeVar("A_contra", contravariant=True)
S_co = TypeVar("S_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)
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
        reason: why, in a few words.
    """

    verdict: Verdict
    reason: str = ""


class Domain(ABC, Generic[S, A]):
    """A world to plan in; subclass it.

    A state is plain data that never changes; it is hashable unless the steps have observations. An
    action is hashable. A model reads and writes it as `str(action)`.

    Beside four methods everything has a default. What has none is a member of one of the Protocols
    below, such as `Succeeds`, `Believes` or `Advises`: a domain that has their members is one of
    them. If the constructor sets a member, the class declares it (`grammar: Grammar`), so that
    planners know of it before there is an instance.

    Attributes:
        tasks: names that the constructor takes as `task`; empty for a domain with one task.
        goal: the goal in words.
        about: what the world is and how it works, in words: the fixed part of every prompt.
        no_plan: why no plan can reach the goal; empty where one may. If it is not empty, it is the
            result of every run: no planner is asked.
        no_search: why its states cannot be simulated, in one line; empty where they can. Planners
            that only act play such a world, too.
        wording: question -> Jinja2 source; blocks that replace those of a planner's own prompts.
        example: (state in words, action) pairs, worked examples for prompts.
        mechanics: what an action does and how an answer is written, where settings decide that. A
            model that was taught one `mechanics` is asked as any model in another.
        first_score: the points with which an episode begins.
        lessons: `roles.exercises.Lessons`, one for each role of your own that `roles measure` and
            `distill` ask about here.

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
    no_search: str = ""
    wording: Mapping[str, str] = MappingProxyType({})
    example: Sequence[tuple[str, str]] = ()
    mechanics: str = ""
    first_score: float = 0.0
    lessons: ClassVar[Sequence[Any]] = ()

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

    def traits(self) -> Mapping[str, Any]:
        """Name -> number or word, which joins the metrics of every run; by default nothing.

        `optimum` is the fewest actions from the start to the goal.
        """
        return {}

    def milestones(self, state: S) -> Soon[Mapping[str, bool]]:  # noqa: ARG002
        """Maps names in snake_case, always the same, to whether a state shows they are passed.

        The record of an episode says when each was first passed. By default there are none.
        """
        return {}

    def judged(self, actions: Sequence[str]) -> Mapping[str, Any]:  # noqa: ARG002
        """What another simulator says of the actions that were taken, for the run's metrics."""
        return {}

    def remainder(self, state: S) -> str:  # noqa: ARG002
        """The part of the goal that is open, in words; by default the goal."""
        return self.goal

    def spared(self, state: S, action: A) -> A:  # noqa: ARG002
        """The action in an action's place that undoes nothing of the goal that is reached.

        By default the action itself.
        """
        return action

    def approach(self, before: S, state: S, subtask: A) -> Sequence[A]:  # noqa: ARG002
        """How to go on with a subtask that was begun in the state `before` and is not done.

        By default the subtask once more.
        """
        return (subtask,)

    def falls_short(self, predicted: S, state: S) -> bool:
        """Whether a state lacks what was predicted; by default, whether the two differ."""
        return bool(predicted != state)

    def worth_trying(self, then: S, state: S) -> bool:
        """Whether what failed in the state `then` may succeed in another one.

        By default, whether one of the two lacks something of the other.
        """
        return self.falls_short(then, state) or self.falls_short(state, then)

    def again(self, state: S, before: S, after: S) -> S | None:
        """The state after an action that once led from `before` to `after`; None if unknown.

        By default only an equal state tells.
        """
        return after if state == before else None

    def subject(self, subtask: A) -> str:
        """What a wrong belief about a subtask is about, such as its item; by default itself."""
        return str(subtask)


@runtime_checkable
class Succeeds(Protocol[S_contra]):
    """Tests its goal. Without it, an episode that ends is won."""

    def success(self, state: S_contra) -> Soon[bool | None]:
        """Whether the goal is reached; None at an end of which nothing tells."""
        ...


@runtime_checkable
class Scores(Protocol[S_contra]):
    """Values states. Without it, searches roll out with uniform actions."""

    def score(self, state: S_contra) -> Soon[float]:
        """The value of a state at the end of a simulation."""
        ...


@runtime_checkable
class RollsOut(Protocol[S_contra]):
    """Takes uniform actions faster than step by step."""

    def rollout(self, state: S_contra, rng: Random, *, gamma: float, depth: int) -> float:
        """The discounted return of at most `depth` uniform actions, from a state.

        Draws and result are those of step after step, each by the action
        `actions[int(rng.random() * len(actions))]`.
        """
        ...


@runtime_checkable
class Observes(Protocol[S_contra]):
    """Shows agents less than `describe` says."""

    def observe(self, state: S_contra) -> Soon[str]:
        """What an agent sees of a state, in words."""
        ...


@runtime_checkable
class Looks(Protocol[S_contra]):
    """Says apart what is seen, as text games do; else MC-DML tells the view and the goal."""

    def look(self, state: S_contra) -> Soon[tuple[str, str, str]]:
        """What the world said last, what is around, and what is at hand."""
        ...


@runtime_checkable
class Draws(Protocol[S_contra]):
    """Draws its states, for models that read images."""

    def draw(self, state: S_contra, *, size: int = SMALLEST) -> Image:
        """What an agent sees of a state as a picture.

        Equal states give equal bytes, and nothing is in the picture that `observe` does not say.

        Args:
            size: of a side, in pixels; not every size is drawn.

        Raises:
            DomainError: there is no picture of this size.
        """
        ...


@runtime_checkable
class Believes(Protocol[S_co]):
    """Hides its state: it is searched as a POMDP, and its steps must have observations."""

    def belief(self, history: History, rng: Random) -> Soon[S_co]:
        """Draws s ~ b(s).

        Args:
            history: what was done and observed. What is seen before the first action is no part of
                it: the belief begins with that.
            rng: draws the state.
        """
        ...


@runtime_checkable
class Briefs(Protocol[S_contra]):
    """Tells its states in short words, for a model that was taught the world (`roles.short`)."""

    def brief(self, state: S_contra) -> str:
        """The complete state in few words; parts of it are lines, or end with a comma or `;`."""
        ...


@runtime_checkable
class NamesOptions(Protocol[A]):
    """Names its options, for planners that propose some."""

    grammar: Grammar[A]


@runtime_checkable
class Predicts(Protocol[S]):
    """Has a model of its state.

    Attributes:
        state_model: the form of a prediction.
    """

    state_model: StateModel[S]


@runtime_checkable
class Advises(Protocol[S_contra, A_co]):
    """Knows a way to its goal.

    With it, `Checks`, `Succeeds` and `Scores`, rules answer the roles of planners in a model's
    place (`--set roles=rules`). All these methods are plain functions then. If `advise` is a
    coroutine function, rules know the next action only.
    """

    def advise(self, state: S_contra) -> Soon[Sequence[A_co]]:
        """The remaining actions to the goal by the rules, in an order that works."""
        ...


@runtime_checkable
class Checks(Protocol[S_contra, A_contra]):
    """Says what is possible without a try."""

    def feasible(self, state: S_contra, action: A_contra) -> str | None:
        """Why an action cannot be carried out; None if it can."""
        ...


@runtime_checkable
class Decomposes(Protocol[S_contra, A]):
    """Says what comes right before a subtask and judges subtasks, as DRIP plans."""

    def decompose(self, state: S_contra, subtask: A | None) -> Sequence[A]:
        """The subtasks right before a subtask, or before the goal, in the order of their need.

        Args:
            state: the present one; s_0 for a question that does not describe it.
        """
        ...

    def judge(self, state: S_contra, subtask: A, parent: A | None) -> Judged:
        """Whether the effect of a subtask holds, or it can be carried out.

        Args:
            parent: what it was decomposed from; None if that is the goal.
        """
        ...


@runtime_checkable
class NamesGoal(Protocol[S_contra, A_co]):
    """Has a goal that names subtasks, so that nobody is asked what comes right before it."""

    def named(self, state: S_contra) -> Sequence[A_co]:
        """The subtasks that the goal itself names, such as to mine a diamond."""
        ...


@runtime_checkable
class Shows(Protocol[S_contra, A_contra]):
    """Shows effects. Without it, only what the world carried out completely is done."""

    def shows(self, before: S_contra, state: S_contra, subtask: A_contra) -> bool:
        """Whether a state shows the effect of a subtask that was begun in `before`."""
        ...


@runtime_checkable
class Errs(Protocol[A]):
    """Knows the mistakes that someone may make, so that oracles err item by item."""

    def mistakes(self, subtask: A) -> Mapping[str, Sequence[A]]:
        """Kind of mistake -> what may be written in a subtask's place, at least one for each."""
        ...


@runtime_checkable
class RunsPrograms(Protocol):
    """Runs programs that carry out subtasks.

    Attributes:
        primitives: what a program may call: `execution.programs.Primitives`.
    """

    primitives: Any


@runtime_checkable
class HasUnits(Protocol):
    """Has actions of one unit, for planners without temporal abstraction."""

    def in_units(self) -> Any:  # noqa: ANN401
        """The same world at its smallest actions; its `unit(subtask)` makes one of a subtask."""
        ...


@runtime_checkable
class Turns(Protocol[S, A]):
    """Takes turns with an opponent, whose gain is our loss.

    A `step` of the domain is our move and all that follows until our next one. With this a search
    looks for the opponent's best moves instead.
    """

    def sides(self) -> tuple[Domain[S, A], Domain[S, A]]:
        """The game move by move, as we play it and as the opponent does.

        In both, `actions` are those of the player who moves, `observe` says what that player sees,
        and a step is one move and what chance brings until the next. It is observed as a `step`
        of ours that ends with it. Rewards, and scores if there are any, are those of the side.

        Raises:
            DomainError: the opponent's moves cannot be searched here; says why.
        """
        ...

    def mover(self, state: S) -> int:
        """Whose turn it is: 0 for us, 1 for the opponent; any of them at an end."""
        ...


@runtime_checkable
class Saves(Protocol[S]):
    """Keeps states in files, for planners that remember what they saw."""

    def saved(self, state: S) -> Any:  # noqa: ANN401
        """A state as JSON values."""
        ...

    def restored(self, record: Any) -> S:  # noqa: ANN401
        """The state of a record.

        Raises:
            ValueError: it is not the record of a state.
        """
        ...


def check_simulated(domain: Domain[Any, Any]) -> None:
    """Refuses to simulate a domain whose states cannot be.

    Raises:
        DomainError: says why.
    """
    if domain.no_search:
        raise DomainError(domain.no_search)


def check_goal(domain: Domain[Any, Any]) -> None:
    """Refuses a domain that does not say its goal, or has no `wording`; its constructor may set it.

    Raises:
        DomainError: there is no goal, or it is no text; or the `wording` is no mapping.
    """
    if not isinstance(goal := getattr(domain, "goal", None), str):
        raise DomainError(
            f"{type(domain).__name__}.goal is {quote(goal)}, not a text: say what is to be reached"
        )
    if not isinstance(wording := domain.wording, Mapping):
        raise DomainError(
            f"{type(domain).__name__}.wording is {quote(wording)}, not a mapping from questions to "
            "blocks: docs/extending.md says more"
        )


def missing_members(domain: type[Domain[Any, Any]], ability: type) -> list[str]:
    """The members of one of the Protocols that a class neither has nor declares.

    Example:
        >>> from llm_planning.domain import Decomposes, missing_members
        >>> from llm_planning.environments.multiplication.domain import Multiplication
        >>> missing_members(Multiplication, Decomposes)
        ['decompose', 'judge']
    """
    declared = {name for kind in domain.__mro__ for name in inspect.get_annotations(kind)}
    members = (*inspect.get_annotations(ability), *vars(ability))
    return [
        name
        for name in members
        if not (name.startswith("_") or name in declared) and getattr(domain, name, None) is None
    ]


def ability_text(ability: type) -> str:
    """What a domain with one of the Protocols does, by the first words of the docstring.

    Example:
        >>> from llm_planning.domain import NamesOptions, ability_text
        >>> ability_text(NamesOptions)
        'names its options'
    """
    first = re.split(r"[,.:]", inspect.getdoc(ability) or ability.__name__)[0]
    return first[:1].lower() + first[1:]


class Grammar(Protocol[A]):
    """A finite language of options, written as the fields of an answer.

    Attributes:
        instruction: how an option is written, a sentence for a prompt.
    """

    instruction: str

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
                raise DomainError(f"two options are written {quote(text)}: give each its own text")
        self.instruction = f"An option is one of: {', '.join(self._options)}."
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


@cache
def wording_of(package: str) -> Mapping[str, str]:
    """A `Domain.wording`: the templates in `prompts/` of a package, by their names."""
    return {
        file.name.removesuffix(".j2"): file.read_text("utf-8")
        for file in (files(package) / "prompts").iterdir()
        if file.name.endswith(".j2")
    }


History: TypeAlias = "tuple[tuple[Any, Hashable], ...]"
"""(action, observation) pairs since the start, oldest first."""
