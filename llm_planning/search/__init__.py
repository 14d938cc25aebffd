"""Monte Carlo tree search over awaited answers: the tree, selection rules, returns, the driver."""

from llm_planning.search.driver import (
    Ready,
    Returns,
    Rollout,
    Simulate,
    forest,
    greedy_path,
    search,
)
from llm_planning.search.returns import discounted_returns, mean_returns
from llm_planning.search.selection import (
    argmax,
    puct,
    puct_root_of_quotient,
    reward_first,
    select_by_puct,
    select_by_ucb,
    select_by_uct,
    ucb,
    uct,
    zero_first,
)
from llm_planning.search.show import format_tree, to_json
from llm_planning.search.tree import Node, path_to, preorder

__all__ = [
    "Node",
    "Ready",
    "Returns",
    "Rollout",
    "Simulate",
    "argmax",
    "discounted_returns",
    "forest",
    "format_tree",
    "greedy_path",
    "mean_returns",
    "path_to",
    "preorder",
    "puct",
    "puct_root_of_quotient",
    "reward_first",
    "search",
    "select_by_puct",
    "select_by_ucb",
    "select_by_uct",
    "to_json",
    "ucb",
    "uct",
    "zero_first",
]
