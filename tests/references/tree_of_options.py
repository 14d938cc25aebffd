"""Tree of Options, Algorithms 1 and 2, slow and in the order of their lines.

The numbers in the margin are the paper's lines; τ is (state, options so far). A role is a callable:
propose(τ), feasible(τ, ω) (the option to take in ω's place, eq. 3, or None to drop it, line 26),
scores(τ, ω) (one a question), dynamics(s, ω), termination(s). What is asked is kept in order.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

Roles = Mapping[str, Callable[..., Any]]
Asked = list[tuple[Any, ...]]


@dataclass
class Edge:
    """(τ, ω): its reward, N, Q, and the node behind it once the dynamics were asked."""

    option: Hashable
    reward: float
    visits: int = 0
    value: float = 0.0
    child: "Node | None" = None
    done: bool = False


@dataclass
class Node:
    """τ with N(τ) and Ω(τ) as proposed; `in_tree` is τ ∈ 𝒯."""

    tau: tuple[Hashable, tuple[Hashable, ...]]
    visits: int = 0
    in_tree: bool = False
    edges: list[Edge] = field(default_factory=list)


def printed(path: list[float], rollout: list[float], gamma: float) -> float:
    """Lines 18 to 20 as they stand: the leaf's R goes up without the rewards on the way to it."""
    return sum(gamma**i * reward for i, reward in enumerate(rollout))


def discounted(path: list[float], rollout: list[float], gamma: float) -> float:
    """§3.1 iv: R_i = Σ γ^(j-i) r(τ_j, ω_j+1), the edge's own reward first."""
    return sum(gamma**i * reward for i, reward in enumerate(path + rollout))


def tree_of_options(
    initial: Hashable,
    roles: Roles,
    *,
    weights: Mapping[str, float],
    length: int,
    iterations: int,
    gamma: float,
    exploration: float,
    returns: Callable[[list[float], list[float], float], float],
    keep_rollouts: bool,
) -> tuple[Node, list[Hashable], Asked]:
    """Algorithm 1: the root, the plan, the questions in order.

    `returns` is what an edge is credited with. `keep_rollouts` is the tree of Appendix A.7, where a
    rollout's options stay with N = 1 and a Q of their own; without it only the leaf is added (12).
    """
    asked: Asked = []

    def ask(role: str, *question: Any) -> Any:
        asked.append((role, *question))
        return roles[role](*question)

    def follow(node: Node, edge: Edge) -> Node:
        if edge.child is None:  # Ours: once, when first followed; 17 leaves open where ŝ is from.
            state = ask("dynamics", node.tau[0], edge.option)  # 28
            edge.done = ask("termination", state)  # 30
            edge.child = Node((state, (*node.tau[1], edge.option)))  # 31
        return edge.child

    def update(edge: Edge, target: float) -> None:
        edge.visits += 1  # Ours: 19 divides by N(τ, ω), which nothing printed counts.
        edge.value += (target - edge.value) / edge.visits  # 19

    def simulate(node: Node, done: bool, level: int) -> tuple[list[float], list[float]]:  # 8
        if done or level > length:  # 9: every way through the body returns, so the loop is an if.
            return [], []
        if not node.in_tree:  # 11
            node.in_tree = True  # 12
            return [], rollout(node, level)  # 13
        node.visits += 1  # 15
        if not node.edges:  # Ours: no option is left.
            return [], []
        log, c = math.log(node.visits), exploration
        edge = max(node.edges, key=lambda e: e.value + c * math.sqrt(log / (e.visits + 1)))  # 16
        child = follow(node, edge)  # 17
        path, rest = simulate(child, edge.done, level + 1)  # 18: the child's `done` (eq. 4)
        path = [edge.reward, *path]
        update(edge, returns(path, rest, gamma))  # 19
        return path, rest  # 20

    def rollout(node: Node, level: int) -> list[float]:  # 22
        taken: list[Edge] = []
        done, i = False, level  # 23
        while not done and i <= length:  # 24: i counts from the root, so L + 1 options fit
            options = [ask("feasible", node.tau, o) for o in ask("propose", node.tau)]  # 25, 26
            node.edges = []
            for option in dict.fromkeys(o for o in options if o is not None):  # Ω is a set
                scores = ask("scores", node.tau, option)
                reward = sum(weights[q] * scores[q] for q in weights)  # 29
                node.edges.append(Edge(option, reward))
            if not node.edges:  # Ours: no option is left.
                break
            if keep_rollouts:
                node.in_tree, node.visits = True, 1  # A.7: N of the root is the iterations'
            edge = max(node.edges, key=lambda e: e.reward)  # 27
            taken.append(edge)
            node, done, i = follow(node, edge), edge.done, i + 1  # 28, 30, 31, 33
        rewards = [edge.reward for edge in taken]  # 32
        for place, edge in enumerate(taken if keep_rollouts else ()):
            update(edge, returns(rewards[place : place + 1], rewards[place + 1 :], gamma))
        return rewards  # 35

    node = root = Node((initial, ()))
    for _ in range(iterations):  # 4
        simulate(root, False, 0)  # 5
    plan: list[Hashable] = []
    while tried := [e for e in node.edges if e.visits]:  # 7: one never tried has no Q to compare
        best = max(tried, key=lambda e: e.value)  # 7, and in 16 and 27: the first of equals
        plan.append(best.option)
        node = follow(node, best)
    return root, plan, asked


def execute_option(
    state: Hashable, option: Hashable, roles: Roles, *, attempts: int
) -> tuple[bool, Hashable]:
    """Algorithm 2: whether the option came to its end, and the state it left."""
    policy = roles["in_option"](state, option, None)  # 3
    for _ in range(attempts):  # 4, 5, 13
        state, feedback = roles["execute"](policy, state)  # 6
        if roles["beta"](state, option):  # 7, 8
            roles["add_skill"](option, policy)  # 9
            return True, state  # 10
        policy = roles["in_option"](state, option, feedback)  # 12: after the last attempt too
    return False, state  # 15
