"""The trace of a run: its events in order. docs/trace-format.md describes them.

Planners need no argument for it. Inside `recording()` there is a current trace, to which searches,
engines and executions add their events. Events are plain values. They become text when the run is
over: see `trace_file`.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from llm_planning.events import Events
from llm_planning.trace_tree import TreeNotes, note_question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from llm_planning.search.tree import Node
    from llm_serving.request import Usage
    from llm_serving.vllm_stats import EngineLoad

LOAD_EVERY = 0.25
"""The least seconds between two `load` events."""


@runtime_checkable
class Gauge(Protocol):
    """An engine that reports its load."""

    def load(self) -> EngineLoad:
        """Returns the number of running and of waiting requests, and the capacity."""
        ...


_TRACE: ContextVar[Trace | None] = ContextVar("trace", default=None)
_TREE: ContextVar[TreeNotes | None] = ContextVar("tree", default=None)
"""The notes of the tree that the current task searched last. A later search may continue it."""


def tracing() -> Trace | None:
    """Returns the trace of the caller's run, or None outside of `recording()`."""
    return _TRACE.get()


@contextmanager
def recording(*, gauges: Sequence[Gauge] = ()) -> Iterator[Trace]:
    """Records the events of the code inside and of the tasks that it starts, and no others.

    Args:
        gauges: engines whose load is recorded, at most every `LOAD_EVERY` seconds.
    """
    trace = Trace(gauges)
    token = _TRACE.set(trace)
    try:
        yield trace
    finally:
        _TRACE.reset(token)
        _TREE.set(None)


@contextmanager
def recording_beside(name: str) -> Iterator[None]:
    """Records a problem that is planned beside others, outside of `recording()` nothing.

    Its events join the run's when all problems before it, in the order of the calls, have ended.
    """
    whole = _TRACE.get()
    if whole is None:
        yield
        return
    part = whole.beside()
    part.add("problem", name=name)
    token = _TRACE.set(part)
    _TREE.set(None)
    try:
        yield
    finally:
        _TRACE.reset(token)
        _TREE.set(None)
        whole.join(part)


class _Loads:
    """Engines whose load is looked at now and then.

    Args:
        gauges: the engines.
    """

    def __init__(self, gauges: Sequence[Gauge]) -> None:
        self._gauges = gauges
        self._looked = -math.inf

    def due(self, now: float) -> Iterator[EngineLoad]:
        """Yields the loads if the last ones are `LOAD_EVERY` seconds old."""
        if self._gauges and now - self._looked >= LOAD_EVERY:
            self._looked = now
            for gauge in self._gauges:
                yield gauge.load()


class Trace(Events):
    """The trace of one run.

    Args:
        gauges: see `recording`.
    """

    def __init__(self, gauges: Sequence[Gauge] = ()) -> None:
        super().__init__()
        self._loads = _Loads(gauges)
        self._trees = 0
        self._prompts: dict[tuple[str, str], str] = {}
        self._beside: list[Trace] = []
        self._ended: set[Trace] = set()

    def beside(self) -> Trace:
        """Begins the trace of a part of this run, which runs beside others; see `join`."""
        part = Trace()
        part._begun, part._loads = self._begun, self._loads
        self._beside.append(part)
        return part

    def join(self, part: Trace) -> None:
        """Adds the events of a part that has ended, or keeps them until those before it have.

        Trees get the next numbers, and a system message that is known is not added again.
        """
        self._ended.add(part)
        while self._beside and self._beside[0] in self._ended:
            first = self._beside.pop(0)
            self._ended.remove(first)
            known = set(self._prompts.values())
            for event in first.events:
                if "tree" in event:
                    event["tree"] += self._trees
                if event["type"] != "prompt" or event["id"] not in known:
                    self.events.append(event)
            self._trees += first._trees
            self._prompts |= first._prompts

    def belief(self, belief: Mapping[str, Any] | str) -> None:
        """Adds what the agent believes from now on.

        Args:
            belief: in words, or JSON-able, such as place -> probability.
        """
        self.add("belief", belief=belief if isinstance(belief, str) else dict(belief))

    def memory(self, text: str, *, kind: str) -> None:
        """Adds a text that the agent remembers from now on.

        Args:
            kind: of the memory, such as "reflection".
        """
        self.add("memory", kind=kind, text=text)

    def execution(
        self,
        action: object,
        *,
        reward: float = 0.0,
        text: str = "",
        obstacle: str | None = None,
        done: bool = False,
    ) -> None:
        """Adds a real action and its step; see `Step`."""
        result = {"reward": reward, "text": text, "obstacle": obstacle, "done": done}
        self.add("execution", action=str(action), **result)

    def search(self, root: Node[Any, Any]) -> TreeNotes:
        """Begins the notes of a search, before it starts."""
        tree = _TREE.get()
        if tree is None or tree.trace is not self or not tree.goes_on_from(root):
            before = 0 if tree is None or tree.trace is not self else tree.earlier
            tree = TreeNotes(self, self._trees, root, before)
            self._trees += 1
            _TREE.set(tree)
        tree.begin(root)
        return tree

    def question(self, usage: Usage, **fields: object) -> None:
        """Adds a question that was just answered, and the engines' load if that is due.

        The line of a question that a simulation asked names the node, when that has a line.
        """
        now = self.now()
        event = {
            "type": "role",
            "at": round(now - usage.seconds, 6),
            **fields,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
            "replayed": usage.replayed,
            "seconds": usage.seconds,
            "simulation": None,
        }
        self.events.append(event)
        note_question(self, event)
        for load in self._loads.due(now):
            self.add("load", batch=load.running, waiting=load.waiting, capacity=load.capacity)

    def prompt(self, text: str, model: str, count: Callable[[str], int | None]) -> str:
        """Returns the id of a system message, and adds the message at its first use.

        Args:
            text: the system message.
            model: the name of the model that reads it.
            count: counts its tokens; called once.
        """
        id_ = self._prompts.get((text, model))
        if id_ is None:
            id_ = hashlib.sha256(f"{model}\0{text}".encode("utf-8", "replace")).hexdigest()[:16]
            self._prompts[text, model] = id_
            self.add("prompt", id=id_, model=model, text=text, tokens=count(text))
        return id_
