"""Household rearrangement as a domain: things are somewhere, and belong somewhere else.

Source: LLM-MCTS, Section 2.1 and Appendix A.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field, model_validator

from llm_base.files import at_home
from llm_base.yaml_file import file_hash
from llm_planning.domain import SMALLEST, Domain, Step, wording_of
from llm_planning.environments.bridges.virtualhome import installed, is_scene, read_scene
from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.goals import goal_text, read_goal
from llm_planning.environments.household.home import BUNDLED, PACKAGED, read_home
from llm_planning.environments.household.observations import (
    Observation,
    observation_text,
    state_text,
)
from llm_planning.environments.household.rules import Action, State
from llm_planning.environments.household.simulator import Simulator
from llm_planning.environments.household.tasks import TaskClass, TaskMaker
from llm_planning.settings import Settings, SettingsError, identified
from llm_planning.specs import DomainSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.domain import History
    from llm_planning.environments.bridges.virtualhome import Scene
    from llm_planning.environments.household.belief import Prior
    from llm_planning.environments.household.home import Home
    from llm_planning.environments.household.rules import Rules
    from llm_planning.environments.household.tasks import Task
    from llm_serving.request import Image

BeliefName = Literal["uniform", "law"]


class KnownHousehold(Domain[State, Action]):
    """A home whose state is known.

    Nothing is drawn, and every seed has the same start: that of the task.

    Args:
        instruction: the goal in the user's own words.
        scene: that the home is of, if it is one.

    Attributes:
        instruction: as given; by default the goal.
        rules: of the home and the goal.
        wording: the layout of Listing 1 (Appendix F): actions are told in the rules, not listed for
            each state, and of the past only what was done.
    """

    def __init__(self, task: Task, *, instruction: str = "", scene: Scene | None = None) -> None:
        self.rules: Rules = task.rules
        self.expert = Expert(task.rules)
        self.goal = goal_text(task.rules.goal, task.rules.home)
        self.instruction = instruction or self.goal
        self.about = about(task.rules)
        self.wording = wording_of(__package__)
        self._task = task
        self._scene = scene
        self._simulator = Simulator(task.rules)

    def traits(self) -> dict[str, str | int]:
        """What every run's metrics say of the task."""
        return {"problem": self._task.name, "optimum": self.expert.length(self._task.start)}

    def judged(self, actions: Iterable[str]) -> dict[str, int | str | bool]:
        """What VirtualHome's executor says of the actions that were taken in one of its scenes."""
        if self._scene is None:
            return {}
        from llm_planning.environments.bridges.virtualhome_executor import replay

        return replay(self._task, self._scene, actions).metrics

    def start(self, seed: int) -> State:  # noqa: ARG002 - every seed has the same start
        """s_0."""
        return self._task.start

    def describe(self, state: State) -> str:
        """Where everything is, room by room."""
        return state_text(state, self.rules)

    def draw(self, state: State, *, size: int = SMALLEST) -> Image:
        """What is in sight, as a picture; other rooms are dark also where the state is known."""
        return self.draw_seen(self.rules.observe(state), size=size)

    def draw_seen(self, seen: Observation, *, size: int = SMALLEST) -> Image:
        """An observation as a picture."""
        from llm_planning.environments.household.pictures import draw_observation

        return draw_observation(seen, self.rules, size)

    def actions(self, state: State) -> Sequence[Action]:
        """The actions that change the state; none where the goal is reached or the time is up."""
        return self.rules.actions(state)

    def step(self, state: State, action: Action, rng: Random) -> Step[State]:  # noqa: ARG002
        """Takes an action. The reward is 1 where the goal is reached."""
        after = self.rules.after(state, action)
        if isinstance(after, str):
            return Step(state, observation=self._seen(state), obstacle=after)
        won = self.rules.success(after)
        return Step(after, float(won), won or after.steps >= self.rules.limit, self._seen(after))

    def rollout(self, state: State, rng: Random, *, gamma: float, depth: int) -> float:
        """See `RollsOut`: nothing is listed, named or observed on the way."""
        return self._simulator.rollout(state, depth=depth, gamma=gamma, rng=rng)

    def _seen(self, state: State) -> Observation | None:  # noqa: ARG002
        """The observation of a step; None where the state is known."""
        return None

    def with_task(self, task: Task) -> KnownHousehold:
        """The same view of another task."""
        return KnownHousehold(task)

    def first_belief(self, state: State, prior: Prior | None = None) -> Belief:  # noqa: ARG002
        """What is believed at the start: the state itself."""
        return Belief.of_state(self.rules, state)

    def success(self, state: State) -> bool:
        """Whether everything lies where the goal wants it."""
        return self.rules.success(state)

    def feasible(self, state: State, action: Action) -> str | None:
        """Why an action cannot be taken; None if it can."""
        after = self.rules.after(state, action)
        return after if isinstance(after, str) else None

    # A coroutine, so that rules take the first action only: a later walk can be taken at once as
    # well, and would lead away.
    async def advise(self, state: State) -> Sequence[Action]:
        """The expert's plan from a state."""
        return self.expert.plan(state)


class Household(KnownHousehold):
    """A home of which only the room and its open containers are seen.

    Args:
        belief: the prior of `belief`: every place alike, or the law by which things are placed.
        instruction: the goal in the user's own words.
        scene: that the home is of, if it is one.
    """

    def __init__(
        self,
        task: Task,
        *,
        belief: BeliefName = "uniform",
        instruction: str = "",
        scene: Scene | None = None,
    ) -> None:
        super().__init__(task, instruction=instruction, scene=scene)
        self._belief: BeliefName = belief
        places = len(self.rules.home.places)
        uniform: Prior = ((1.0,) * places,) * len(self.rules.things)
        self._prior = self.rules.law if belief == "law" else uniform
        first = self._filled(self.first_belief(task.start))
        self._believed: tuple[History, Belief] = ((), first)
        self._first = self._believed[1]

    def with_task(self, task: Task) -> Household:
        """The same view of another task."""
        return Household(task, belief=self._belief)

    def first_belief(self, state: State, prior: Prior | None = None) -> Belief:
        """b(s_0) after a look around.

        Args:
            state: the start, of which only what is in sight counts.
            prior: of the places of things; by default the domain's own.
        """
        seen = self.rules.observe(state)
        return Belief.at_start(self.rules, self._prior if prior is None else prior, seen)

    def observe(self, state: State) -> str:
        """What is in sight."""
        return observation_text(self.rules.observe(state), self.rules)

    def _seen(self, state: State) -> Observation:
        return self.rules.observe(state)

    def belief(self, history: History, rng: Random) -> State:
        """Draws s ~ b(s). The things that no goal names are drawn once for each history."""
        return self.believed(history).draw(rng)

    def believed(self, history: History) -> Belief:
        """b(s) after a history. The episode begins with a look around, which is no part of it."""
        if self._believed[0] is not history:
            belief = self._first
            for _, observation in history:
                assert isinstance(observation, Observation), observation
                belief = belief.after(observation)
            self._believed = history, self._filled(belief)
        return self._believed[1]

    def _filled(self, belief: Belief) -> Belief:
        return belief.filled(Random(f"others {belief.steps}"))


def about(rules: Rules) -> str:
    """How a home works, and which places its rooms have, in few words: every prompt has them."""
    home = rules.home
    hands = "one thing" if rules.hands == 1 else f"{rules.hands} things"
    rooms = (
        f"{room}: {', '.join(home.places[place].name for place in places) or 'nothing'}."
        for room, places in zip(home.rooms, rules.rooms, strict=True)
    )
    return " ".join(
        (
            "Walk to any room, or to what you see. Walk to a thing to grab it, and to a place to "
            f"open it or to put something there. Hold {hands} at most.",
            *rooms,
        )
    )


TASKS: Final = ("rearrange",)

_NO_FILES: Final = (*BUNDLED, PACKAGED)
"""Homes whose content comes with a version of the project or of the extra."""


class HouseholdSettings(Settings):
    """Settings of the domain.

    Attributes:
        home: `seen`, in which training tasks are set, `unseen`, or a YAML file; `virtualhome`, the
            scene of an extra, or a scene of VirtualHome in a JSON file.
        task_class: the class of the task (Appendix A.2); its key is `class`.
        problem: number of the task in its class.
        problem_seed: of the tasks; each draws others.
        goal: a goal in words or predicates, in the place of a class's.
        hands: how many things can be held at once: one, as in the paper, or two.
        sight: `room` hides what is not in sight; `full` shows the state.
        belief: what a search believes before it has seen anything: every place alike (`uniform`),
            or the home's own `law`.
        limit: actions within which the goal has to be reached.
        home_sha256: hash of the file of `home`, in hexadecimal, so that a changed file makes
            another trial. It is computed; a given value must match the file.
    """

    home: str = "seen"
    task_class: TaskClass = Field("simple", validation_alias="class")
    problem: int = Field(1, ge=1)
    problem_seed: int = Field(1, ge=0)
    goal: str = ""
    hands: int = Field(1, ge=1, le=2)
    sight: Literal["room", "full"] = "room"
    belief: BeliefName = "uniform"
    limit: int = Field(30, ge=1)
    home_sha256: str = ""

    @model_validator(mode="before")
    @classmethod
    def _identify(cls, values: object) -> object:
        if not isinstance(values, dict) or (home := values.get("home", "seen")) in _NO_FILES:
            return values
        return identified(values, "home", file_hash(Path(at_home(str(home)))))


def _open(_: str, settings: HouseholdSettings) -> KnownHousehold:
    scene = _scene(settings.home)
    drawn = _task(read_home(settings.home) if scene is None else scene.home, settings)
    needed = Expert(drawn.rules).length(drawn.start)
    if needed > settings.limit:
        raise SettingsError(
            f"setting limit={settings.limit} is not possible: who knows where everything is needs "
            f"{needed} actions; raise it, or want less"
        )
    if settings.sight == "full":
        return KnownHousehold(drawn, instruction=settings.goal, scene=scene)
    return Household(drawn, belief=settings.belief, instruction=settings.goal, scene=scene)


def _scene(home: str) -> Scene | None:
    """The scene that a setting names; its executor is there as well."""
    if not is_scene(home):
        return None
    scene = read_scene(home)
    installed()
    return scene


def _task(home: Home, settings: HouseholdSettings) -> Task:
    maker = TaskMaker(home, hands=settings.hands, limit=settings.limit)
    number, seed = settings.problem, settings.problem_seed
    if not settings.goal:
        return maker.task(settings.task_class, number, seed=seed)
    if settings.task_class != HouseholdSettings.model_fields["task_class"].default:
        raise SettingsError(
            f"setting class={settings.task_class} is not possible with a goal: a goal of your own "
            "has no class; leave one of them out"
        )
    return maker.own_task(read_goal(settings.goal, home), number, seed=seed)


HOUSEHOLD = DomainSpec(
    name="household",
    summary="things that are somewhere in a home, unseen, and belong elsewhere: LLM-MCTS",
    kind=Household,
    tasks=TASKS,
    settings=HouseholdSettings,
    open=_open,
)
