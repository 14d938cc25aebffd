"""How plans, trees and reports look in Jupyter, and the progress that `plan` shows there.

Texts of models and worlds are foreign: the template escapes all of them. Colours are those of the
page around a cell, so that light and dark themes both work.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jinja2 import Template

    from llm_planning.outcome import Outcome
    from llm_planning.search.tree import Edge, Node

WIDEST: Final = 4
"""Branches shown below one branch: the most visited, in the tree's order."""

DEEPEST: Final = 12
"""Levels of a tree that are shown."""

LONGEST: Final = 300
"""Characters shown of a label or a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A part of a tree as it is shown.

    Attributes:
        label: the action or the subtask.
        note: its statistics.
        below: the branches shown below it.
        more: the number of branches below it that are not shown.
    """

    label: str
    note: str = ""
    below: tuple[Branch, ...] = ()
    more: int = 0


def outcome_html(outcome: Outcome) -> str:
    """A plan, whether it reached the goal, its tree and its costs."""
    metrics = [(key, _short(value)) for key, value in outcome.metrics.items()]
    return _page("outcome", outcome=outcome, metrics=metrics, tree=traced_tree(outcome.trace))


def tree_html(root: Node[Any, Any]) -> str:
    """The most visited part of a search tree."""
    return _page("tree", tree=searched_tree(root))


def table_html(title: str, header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table of a report."""
    return _page("table", title=title, header=header, lines=lines)


def searched_tree(root: Node[Any, Any]) -> Branch:
    """The shown part of a search tree."""

    def below(node: Node[Any, Any], depth: int) -> tuple[tuple[Branch, ...], int]:
        return _most_visited(
            node.edges or (), visits=lambda edge: edge.visits, branch=branch, depth=depth
        )

    def branch(edge: Edge[Any, Any], depth: int) -> Branch:
        # After an action with several outcomes the tree goes on below the most frequent one.
        node = max(edge.nodes, key=lambda outcome: outcome.visits, default=None)
        drawn, more = below(node, depth + 1) if node is not None else ((), 0)
        others = max(0, len(edge.nodes) - 1)
        note = f"N {edge.visits}, Q {edge.value:.3f}"
        return Branch(
            label=_short(edge.action),
            note=f"{note}, {others} other outcomes" if others else note,
            below=drawn,
            more=more,
        )

    drawn, more = below(root, 1)
    return Branch(
        label="search tree", note=f"N {root.visits}, V {root.value:.3f}", below=drawn, more=more
    )


def traced_tree(trace: Mapping[str, Any]) -> Branch | None:
    """The tree in the trace of an outcome: of options, of subtasks, or of moves; None without."""
    tree = trace.get("tree")
    if isinstance(tree, dict) and {"visits", "value", "edges"} <= tree.keys():
        return _option_branch({"option": "search tree", **tree}, 0)
    if isinstance(tree, dict) and "attempts" in tree:
        return _subtask_branch(tree, 0)
    listed = trace.get("moves")
    moves = [move for move in (listed if isinstance(listed, list) else []) if _is_searched(move)]
    if not moves:
        return None
    branches = tuple(map(_move_branch, moves))
    return Branch(label="search before every move", note=f"{len(moves)} moves", below=branches)


def _is_searched(move: object) -> bool:
    """Whether a search counted the actions of a move; a policy's have no visits."""
    actions = _actions_of(move) if isinstance(move, dict) else None
    return (
        isinstance(actions, list)
        and actions != []
        and all(isinstance(row, dict) and {"action", "N", "Q"} <= row.keys() for row in actions)
    )


def _actions_of(move: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a stranger's trace
    """What a search found out of each action before a move: `root` with MC-DML, else `options`."""
    return move.get("root", move.get("options"))


def _option_branch(edge: Mapping[str, Any], depth: int) -> Branch:
    below, more = _most_visited(
        edge["edges"],
        visits=lambda option: option["visits"],
        branch=_option_branch,
        depth=depth + 1,
    )
    note = f"N {edge['visits']}, Q {edge['value']:.3f}"
    return Branch(label=_short(edge["option"]), note=note, below=below, more=more)


def _subtask_branch(node: Mapping[str, Any], depth: int) -> Branch:
    children = [child for attempt in node["attempts"] for child in attempt]
    drawn = children if depth < DEEPEST else []
    return Branch(
        label=_short(node["subtask"] or "goal"),
        note=", ".join(filter(None, (node["status"], node["reason"]))),
        below=tuple(_subtask_branch(child, depth + 1) for child in drawn),
        more=len(children) - len(drawn),
    )


def _move_branch(move: Mapping[str, Any]) -> Branch:
    below, more = _most_visited(
        _actions_of(move),
        visits=lambda row: row["N"],
        branch=lambda row, _: Branch(
            label=_short(row["action"]), note=f"N {row['N']}, Q {row['Q']:.3f}"
        ),
        depth=1,
    )
    note = _short(move.get("obstacle") or move.get("text") or "")
    return Branch(label=_short(move["action"]), note=note, below=below, more=more)


def _most_visited(
    edges: Iterable[Any],
    *,
    visits: Callable[[Any], int],
    branch: Callable[[Any, int], Branch],
    depth: int,
) -> tuple[tuple[Branch, ...], int]:
    """The most visited edges as branches, in their order, and the number of the others."""
    every = list(edges)
    visited = [edge for edge in every if visits(edge)] if depth <= DEEPEST else []
    chosen = sorted(range(len(visited)), key=lambda i: -visits(visited[i]))[:WIDEST]
    branches = tuple(branch(visited[i], depth) for i in sorted(chosen))
    return branches, len(every) - len(branches)


def _short(value: object) -> str:
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def display() -> Callable[[str], None] | None:
    """Makes a line with a bar under the running cell; None outside of Jupyter.

    Returns:
        Shows a text beside the bar. A text that ends in a full stop is the last, without the bar.
    """
    if "IPython" not in sys.modules:
        return None
    from IPython.core.getipython import get_ipython
    from IPython.display import HTML
    from IPython.display import display as show

    if not hasattr(get_ipython(), "kernel"):
        return None
    # Rich wants ipywidgets for this; a display that is updated needs nothing beyond the kernel.
    handle = show(HTML(_page("progress", line="planning")), display_id=True)
    return lambda text: handle.update(HTML(_page("progress", line=text)))


def _page(kind: str, **values: object) -> str:
    return _template().render(kind=kind, **values)


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = (files(__package__) / "templates" / "notebook.html.j2").read_text(encoding="utf-8")
    return environment.from_string(text)
