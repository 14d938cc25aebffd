"""What an agent leaves in the trace of a run: its subgoals, and Ĝ whenever it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from llm_planning.trace import tracing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from llm_planning.environments.minecraft.items.text_world import World
    from llm_planning.planners.xenon.algorithm import Subgoal
    from llm_planning.planners.xenon.memory import ActionMemory, Knowledge


class Belief(NamedTuple):
    """What an agent believes of one item v.

    Attributes:
        requires: R(v).
        action: the action that is known to obtain v; None if none is.
        learnt: whether experience or a demonstration has shown R(v).
        revisions: C(v), which grows when all actions fail at v.
    """

    requires: Mapping[str, int]
    action: str | None
    learnt: bool
    revisions: int


class _Traced(NamedTuple):
    """A belief, C(v) when the agent began to have it, and what the trace says of it."""

    belief: Belief
    since: int
    line: dict[str, object]


class GraphNotes:
    """Adds events `graph` to the trace of the run.

    A belief is wrong if all actions have failed at its item since the agent has it.

    Args:
        beliefs: returns items with their present beliefs, at least those that have changed since it
            was called last.
    """

    def __init__(self, beliefs: Callable[[], Iterator[tuple[str, Belief]]]) -> None:
        self._beliefs = beliefs
        self._traced: dict[str, _Traced] = {}

    def trace_changes(self) -> None:
        """Adds an event with the beliefs that have changed since the last one, if any have."""
        if (trace := tracing()) is None:
            return
        changed = {}
        for item, belief in self._beliefs():
            last = self._traced.get(item)
            if last is not None and belief == last.belief:
                continue
            since = belief.revisions
            if last is not None and belief.requires == last.belief.requires:
                since = min(since, last.since)
            line = _line(belief, wrong=belief.revisions > since)
            self._traced[item] = _Traced(belief, since, line)
            if last is None or line != last.line:
                changed[item] = line
        if changed:
            trace.add("graph", items=changed)


def notes_on(knowledge: Knowledge, memory: ActionMemory) -> GraphNotes:
    """Makes the notes on an agent in Minecraft, from what it knows of items and of actions."""
    seen: tuple[int, ...] = ()

    def beliefs() -> Iterator[tuple[str, Belief]]:
        nonlocal seen
        graph, actions = knowledge.graph, memory.known()
        # Most steps change no belief, and to look at all of them takes longer than a step.
        now = (
            graph.changes,
            len(graph.items),
            len(knowledge.obtained),
            len(knowledge.demonstrated),
            len(actions),
            sum(knowledge.revisions.values()),
        )
        if now == seen:
            return
        seen, learnt = now, knowledge.succeeded
        for v in graph.items:
            required, revisions = graph.requirements(v), knowledge.revision_count(v)
            yield v, Belief(required, actions.get(v), v in learnt, revisions)

    return GraphNotes(beliefs)


def _line(belief: Belief, *, wrong: bool) -> dict[str, object]:
    known = "learnt" if belief.learnt else "wrong" if wrong else "predicted"
    return {"requires": dict(belief.requires), "action": belief.action, "known": known}


def note_step(subgoal: Subgoal, goal: str, world: World, *, failed: bool, done: bool) -> None:
    """Adds a subgoal to the trace of the run, as a real step.

    Args:
        subgoal: with its outcome.
        goal: what it was for.
        world: afterwards.
    """
    if (trace := tracing()) is None:
        return
    item = subgoal.item
    obstacle = None
    if not subgoal.reached:
        obstacle = "the attempt failed" if failed else "the episode ended"
    held = f"{world.inventory.get(item, 0)} {item} after {subgoal.steps} steps, for {goal}"
    trace.execution(subgoal, text=held, obstacle=obstacle, done=done)
