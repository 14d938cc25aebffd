"""Monte Carlo tree search over awaited answers: the tree, selection, the driver, backups."""

from llm_planning.search.backup import (
    by_control_variates,
    by_means,
    by_softmax,
    by_sums,
    softmax_value,
)
from llm_planning.search.driver import Leaf, Model, Select, forest, search
from llm_planning.search.selection import (
    argmax,
    puct,
    puct_root_of_quotient,
    select_by_puct,
    select_by_ucb,
    select_by_uct,
    ucb,
    uct,
)
from llm_planning.search.show import format_tree, to_json
from llm_planning.search.tree import Edge, Node, Step, advance, best_path, edges_below, expanded
from llm_planning.search.walk import Draws, Walk

__all__ = [
    "Draws",
    "Edge",
    "Leaf",
    "Model",
    "Node",
    "Select",
    "Step",
    "Walk",
    "advance",
    "argmax",
    "best_path",
    "by_control_variates",
    "by_means",
    "by_softmax",
    "by_sums",
    "edges_below",
    "expanded",
    "forest",
    "format_tree",
    "puct",
    "puct_root_of_quotient",
    "search",
    "select_by_puct",
    "select_by_ucb",
    "select_by_uct",
    "softmax_value",
    "to_json",
    "ucb",
    "uct",
]
