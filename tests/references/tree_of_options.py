"""Tree of Options, Algorithms 1 and 2, slow and in the order of their lines.

The numbers in the margin are the paper's lines; τ is (state, options so far). A role is a callable:
propose(τ), feasible(τ, ω) (the option to take in ω's place, eq. 3, or None to drop it, line 26),
dynamics(τ, ω) (ŝ), scores(τ, ω, ŝ) (one a question), termination(τ). What is asked is kept.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

Roles = Mapping[str, Callable[..., Any]]
Asked = list[tuple[Any, ...]]


@dataclass
class Node:
    """τ with N(τ), Ω(τ) as proposed and `done` once asked; `in_tree` is τ ∈ 𝒯."""

    tau: tuple[Hashable, tuple[Hashable, ...]]
    done: bool | None = None
    visits: int = 0
    in_tree: bool = False
    edges: "list[Edge]" = field(default_factory=list)


@dataclass
class Edge:
    """(τ, ω): its reward, N, Q, and the node behind it."""

    option: Hashable
    reward: float
    child: Node
    visits: int = 0
    value: float = 0.0


def discounted(rewards: list[float], gamma: float) -> float:
    """§3.1 iv: R_i = Σ γ^(j-i) r(τ_j, ω_j+1). Printed (18, 20, 32) is the rollout's share alone."""
    return sum(gamma**i * reward for i, reward in enumerate(rewards))


def tree_of_options(
    initial: Hashable,
    roles: Roles,
    *,
    weights: Mapping[str, float],
    length: int,
    iterations: int,
    gamma: float,
    exploration: float,
    returns: Callable[[list[float], float], float] = discounted,
    untried: Callable[[Edge], float] = lambda _: 0.0,
) -> tuple[Node, list[Hashable], Asked]:
    """Algorithm 1: the root, the plan, the questions in order.

    What an edge is credited with and the Q of an `untried` option are open: A.7 cannot come about
    by the equations.
    """
    asked: Asked = []

    def ask(role: str, *question: Any) -> Any:
        asked.append((role, *question))
        return roles[role](*question)

    def is_done(node: Node) -> bool:
        if node.done is None:  # Ours: one answer a node; 30 is local to a rollout, and asks again
            node.done = ask("termination", node.tau)  # 30, §3.1 iii
        return node.done

    def simulate(node: Node, level: int) -> list[float]:  # 8
        if is_done(node) or level >= length:  # 9: l ≤ L would let τ_L+1 grow, and 2 returns τ_L
            return []
        if not node.in_tree:  # 11
            return rollout(node, level)  # 12, 13
        node.visits += 1  # 15
        if not node.edges:
            return []  # Ours: no option is left

        def ucb(edge: Edge) -> float:
            q = edge.value if edge.visits else untried(edge)
            return q + exploration * math.sqrt(math.log(node.visits) / (edge.visits + 1))

        edge = max(node.edges, key=ucb)  # 16, as in 7 and 27: the first of equals
        return update([edge], [edge.reward, *simulate(edge.child, level + 1)])  # 17-20

    def rollout(node: Node, level: int) -> list[float]:  # 22
        taken: list[Edge] = []
        while not is_done(node) and level + len(taken) < length:  # 23, 24, 33
            node.in_tree = True  # 12: A.7 keeps every node of a rollout; N(τ) is 0
            node.edges = expanded(node)
            if not node.edges:
                break  # Ours: no option is left
            taken.append(max(node.edges, key=lambda edge: edge.reward))  # 27
            node = taken[-1].child  # 31
        # A.7 prints N = 1 and a Q for each option of a rollout.
        return update(taken, [edge.reward for edge in taken])  # 32, 35

    def expanded(node: Node) -> list[Edge]:
        tau, edges = node.tau, []
        proposed = dict.fromkeys(ask("propose", tau))  # 25: a set, each once
        options = [ask("feasible", tau, option) for option in proposed]  # 26, eq. 3
        for option in dict.fromkeys(option for option in options if option is not None):  # a set
            state = ask("dynamics", tau, option)  # 28: of every option (§3.1 ii), as A.4 scores ŝ
            scores = ask("scores", tau, option, state)
            reward = sum(c * scores[q] for q, c in weights.items())  # 29
            edges.append(Edge(option, reward, Node((state, (*tau[1], option)))))  # 31
        return edges

    def update(edges: list[Edge], rewards: list[float]) -> list[float]:  # 19
        for place, edge in enumerate(edges):
            edge.visits += 1  # 19 divides by N(τ, ω), which nothing printed counts
            edge.value += (returns(rewards[place:], gamma) - edge.value) / edge.visits
        return rewards

    node = root = Node((initial, ()), done=False)  # 5
    for _ in range(iterations):  # 4
        simulate(root, 0)  # 5
    plan: list[Edge] = []
    while tried := [edge for edge in node.edges if edge.visits]:  # 7: untried ones have no Q
        plan.append(max(tried, key=lambda edge: edge.value))  # 7
        node = plan[-1].child
    return root, [edge.option for edge in plan], asked


def execute_option(state: Hashable, option: Hashable, roles: Roles, *, attempts: int) -> Any:
    """Algorithm 2: whether the option came to its end, and the state it left."""
    policy = roles["in_option"](state, option, None)  # 3
    for _ in range(attempts):  # 4, 5, 13
        state, feedback = roles["execute"](policy, state)  # 6
        if roles["beta"](state, option):  # 7, 8
            roles["add_skill"](option, policy)  # 9
            return True, state  # 10
        policy = roles["in_option"](state, option, feedback)  # 12: after the last attempt too
    return False, state  # 15
