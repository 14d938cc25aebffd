"""Monte Carlo tree search over awaited answers: the tree, selection, the driver, backups."""

from llm_planning.search.backup import (
    Backup,
    by_means,
    by_softmax,
    by_sums,
    by_turns,
    by_weighted_returns,
    softmax_value,
)
from llm_planning.search.driver import Evaluation, SearchModel, search
from llm_planning.search.listed import ListedActions
from llm_planning.search.selection import (
    Select,
    argmax,
    puct,
    select_by_puct,
    select_by_ucb,
    select_by_uct,
    ucb,
    uct,
)
from llm_planning.search.tree import (
    Edge,
    Node,
    advance,
    advance_turns,
    best_path,
    edges_below,
    expanded,
    format_tree,
)
from llm_planning.search.walk import Checkpoint, TrackedRandom, Walk

__all__ = [
    "Backup",
    "Checkpoint",
    "Edge",
    "Evaluation",
    "ListedActions",
    "Node",
    "SearchModel",
    "Select",
    "TrackedRandom",
    "Walk",
    "advance",
    "advance_turns",
    "argmax",
    "best_path",
    "by_means",
    "by_softmax",
    "by_sums",
    "by_turns",
    "by_weighted_returns",
    "edges_below",
    "expanded",
    "format_tree",
    "puct",
    "search",
    "select_by_puct",
    "select_by_ucb",
    "select_by_uct",
    "softmax_value",
    "ucb",
    "uct",
]
