"""What VirtualHome's own executor says of the actions of an episode.

Each action becomes lines of a script, such as `[FIND] <cup> (2014)` and `[GRAB] <cup> (2014)`. The
executor of `virtualhome-eval` takes or refuses them. It knows nothing of what is in sight and has
two hands; those rules are this project's (`rules.py`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from llm_planning.environments.bridges.virtualhome import installed
from llm_planning.environments.household.rules import CLOSE, GRAB, OPEN, WALK, State

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from llm_planning.environments.bridges.virtualhome import Scene
    from llm_planning.environments.household.rules import Action
    from llm_planning.environments.household.tasks import Task

_MODULES: Final = "virtualhome_eval.simulation.evolving_graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One action, as the executor took it.

    Attributes:
        action: as it is written.
        lines: of the script.
        refusal: why the executor did not take it; empty if it did.
    """

    action: str
    lines: tuple[str, ...]
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """An episode, as the executor took it.

    Attributes:
        steps: the actions that the rules of this project take, up to the first refusal.
        reached: whether the goal holds in the executor's scene after them.
    """

    steps: tuple[Step, ...]
    reached: bool

    @property
    def refusal(self) -> str:
        """The first refusal with its action; empty if there is none."""
        return next((f"{step.action}: {step.refusal}" for step in self.steps if step.refusal), "")

    @property
    def metrics(self) -> dict[str, int | str | bool]:
        """For the metrics of a run."""
        refused = sum(bool(step.refusal) for step in self.steps)
        return {
            "executor_accepted": len(self.steps) - refused,
            "executor_refused": refused,
            "executor_refusal": self.refusal,
            "executor_reached": self.reached,
        }


def replay(task: Task, scene: Scene, actions: Iterable[Action | str]) -> Replay:
    """Has VirtualHome's executor carry out what was done in a task.

    Args:
        task: of the scene's home.
        actions: what was done, from the start on. Those that the rules of this project refuse
            changed nothing, and are left out.

    Raises:
        HomeError: the extra is missing.
    """
    return _Replay(task, scene).of(actions)


def _modules() -> tuple[ModuleType, ModuleType, ModuleType]:
    """Imports the executor; its package sets the seed of all random numbers, which is undone."""
    installed()
    before = random.getstate()
    try:
        environment, execution, scripts = (
            import_module(f"{_MODULES}.{name}") for name in ("environment", "execution", "scripts")
        )
    finally:
        random.setstate(before)
    return environment, execution, scripts


class _Replay:
    def __init__(self, task: Task, scene: Scene) -> None:
        self._rules, self._state, self._scene = task.rules, task.start, scene
        environment, execution, self._scripts = _modules()
        graph = environment.EnvironmentGraph(_prepared(task.start, scene))
        self._world: Any = environment.EnvironmentState(graph, {}, instance_selection=True)
        self._execution: Any = execution
        self._graph: Any = graph
        self._relations: Any = environment.Relation
        self._classes = {node.id: node.class_name for node in scene.graph.nodes}
        self._held: list[tuple[int, int]] = []
        self._lie: list[list[tuple[int, int]]] = [[] for _ in scene.places]
        for thing, name in enumerate(self._rules.things):
            home_thing = scene.home.things.index(name)
            number = self._rules.number[thing]
            for node, place in zip(
                scene.things[home_thing][:number],
                scene.home.starts[home_thing][:number],
                strict=True,
            ):
                self._lie[place].append((thing, node))

    def of(self, actions: Iterable[Action | str]) -> Replay:
        steps: list[Step] = []
        for sentence in actions:
            action = self._named(str(sentence))
            after = self._rules.after(self._state, action) if action else ""
            if action is None or isinstance(after, str):
                continue
            lines = tuple(self._lines(action, after))
            refusal = self._executed(lines)
            steps.append(Step(action=str(action), lines=lines, refusal=refusal))
            if refusal:
                break
            self._state = after
        return Replay(steps=tuple(steps), reached=self._reached())

    def _named(self, sentence: str) -> Action | None:
        """The possible action with this sentence."""
        return next(
            (action for action in self._rules.actions(self._state) if str(action) == sentence), None
        )

    def _lines(self, action: Action, after: State) -> list[str]:
        """An action as lines of a script; what it moves is moved here as well."""
        home, rules, scene = self._rules.home, self._rules, self._scene
        if action.verb == WALK:
            if action.item in home.rooms:
                return [self._line("WALK", scene.rooms[after.room])]
            things = dict(self._lie[after.at])
            thing = rules.things.index(action.item) if action.item in rules.things else -1
            return [self._line("WALK", things.get(thing, scene.places[after.at]))]
        place = scene.places[self._state.at]
        if action.verb in {OPEN, CLOSE}:
            return [self._line(action.verb.upper(), place)]
        thing = rules.things.index(action.item)
        if action.verb == GRAB:
            found = next(pair for pair in self._lie[self._state.at] if pair[0] == thing)
            self._lie[self._state.at].remove(found)
            self._held.append(found)
            return [self._line("FIND", found[1]), self._line("GRAB", found[1])]
        found = next(pair for pair in self._held if pair[0] == thing)
        self._held.remove(found)
        self._lie[self._state.at].append(found)
        verb = "PUTIN" if action.relation == "inside" else "PUTBACK"
        return [self._line(verb, found[1], place)]

    def _line(self, verb: str, *nodes: int) -> str:
        return " ".join((f"[{verb}]", *(f"<{self._classes[node]}> ({node})" for node in nodes)))

    def _executed(self, lines: Iterable[str]) -> str:
        """Executes lines; why one of them was refused, or an empty text."""
        for line in lines:
            executor = self._execution.ScriptExecutor(self._graph, {})
            script = self._scripts.read_script_from_list_string([line])
            taken, self._world = executor.execute_one_step(script, self._world)
            if not taken:
                return executor.info.get_error_string() or f"{line} is refused"
        return ""

    def _reached(self) -> bool:
        """Whether the goal holds in the executor's scene."""
        for thing, place, count in self._rules.wanted:
            home_thing = self._rules.home.things.index(self._rules.things[thing])
            container = self._rules.home.places[place].container
            relation = self._relations.INSIDE if container else self._relations.ON
            there = sum(
                self._scene.places[place]
                in {
                    node.id
                    for node in self._world.get_nodes_from(self._world.get_node(node_id), relation)
                }
                for node_id in self._scene.things[home_thing]
            )
            if there < count:
                return False
        return True


def _prepared(start: State, scene: Scene) -> dict[str, Any]:
    """The scene's graph as an episode begins.

    The agent stands in its room, with free hands. Containers are closed, and switched off, since
    what runs cannot be opened.
    """
    agent = min(node.id for node in scene.graph.nodes if node.class_name == "character")
    closed = {
        node for node, place in zip(scene.places, scene.home.places, strict=True) if place.container
    }
    nodes = []
    for node in scene.graph.nodes:
        values: dict[str, Any] = node.model_dump()
        if node.id in closed:
            values["states"] = ["CLOSED", *(set(values["states"]) - {"OPEN", "CLOSED", "ON"})]
        if node.id == agent:
            values["states"] = []
        nodes.append(values)
    edges = [
        edge.model_dump() for edge in scene.graph.edges if agent not in {edge.from_id, edge.to_id}
    ]
    edges.append({"from_id": agent, "relation_type": "INSIDE", "to_id": scene.rooms[start.room]})
    return {"nodes": nodes, "edges": edges}
