"""XENON from its paper: Algorithms 1 to 4, with Section 3, and Appendices C, E.2, G and J.4.

Slow and plain, so that it can be read beside the paper. "A.N" is line N of Algorithm A.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

PICKAXES = ("wooden_pickaxe", "stone_pickaxe", "iron_pickaxe", "diamond_pickaxe")  # App. C


class Roles(NamedTuple):
    """What the language model, the embedding, the controller and chance answer."""

    requirements: Callable[[str, list[tuple[str, dict[str, int]]]], dict[str, int]]  # v, examples
    action: Callable[[str, list[tuple[str, str]], list[str]], str]  # v, (u, a) of similar, OP_cand
    similarity: Callable[[str, str], float]
    act: Callable[[Counter[str], str, str], Counter[str]]  # (a, v) once: the inventory after it
    draw: Callable[[Sequence[str]], str]


class Settings(NamedTuple):
    """The numbers of Table 7 (x0 as in the main text)."""

    x0: int = 2
    c0: int = 3
    alpha_s: int = 2
    alpha_i: int = 8
    k: int = 3
    actions: tuple[str, ...] = ("mine", "craft", "smelt")
    episodes: int = 1
    horizon: int = 3000  # actions in an episode (J.4.2)


@dataclass
class Xenon:
    """The agent: what it believes, remembers, wanted and did."""

    roles: Roles
    settings: Settings
    graph: dict[str, dict[str, int]] = field(default_factory=dict)  # Ĝ: item to what it needs
    experienced: dict[str, dict[str, int]] = field(default_factory=dict)  # R_exp
    resources: set[str] = field(default_factory=set)  # consumed when crafting other items
    counts: dict[str, int] = field(default_factory=dict)  # C
    memory: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # S, F of (v, a)
    goals: list[str] = field(default_factory=list)
    subgoals: list[tuple[str, int, str, bool]] = field(default_factory=list)
    steps: int = 0

    def learn(self, wanted: Iterable[str]) -> None:
        """Algorithm 1."""
        self.initialise(wanted)  # 1.1
        for _ in range(self.settings.episodes):  # 1.3
            held, self.steps, goal = Counter[str](), 0, None  # 1.4
            while self.steps < self.settings.horizon:  # 1.6
                goal = goal or self.select_goal()  # 1.5, 1.17
                if goal is None:
                    break  # Reading: without a frontier the episode ends
                for a, q, u in self.plan(goal, held):  # 1.9
                    held, success = self.execute(held, a, q, u)  # 1.10-11
                    self.subgoals.append((a, q, u, bool(success)))
                    if success is None:
                        break  # Reading: what the end of the episode cuts short is not judged
                    s, f = self.memory.get((u, a), (0, 0))
                    self.memory[u, a] = (s + success, f + (not success))  # 1.12
                    if not success:  # 1.13
                        if all(self.invalid(u, op) for op in self.settings.actions):  # 1.14
                            self.revise(u)  # 1.15
                            self.reset(u)  # 1.16
                            goal = None  # 1.17
                        break  # 1.18
                else:
                    goal = None  # J.4.2: a goal that is reached makes room for another

    def plan(self, goal: str, held: Counter[str]) -> Iterable[tuple[str, int, str]]:
        """All subgoals with their actions, before the first is carried out."""
        return [(self.select_action(u), q, u) for q, u in self.aggregate(goal, held)]  # 1.7-8

    def reset(self, u: str) -> None:
        for op in self.settings.actions:
            self.memory[u, op] = (0, 0)  # 1.16

    def execute(
        self, held: Counter[str], a: str, q: int, u: str
    ) -> tuple[Counter[str], bool | None]:
        """J.4.1: (a, u) is done again and again until q more of u are held."""
        wanted = held[u] + q
        while held[u] < wanted:
            if self.steps >= self.settings.horizon:
                return held, None
            self.steps += 1  # Reading: an attempt that fails is a step, too
            after = self.roles.act(held, a, u)
            if after[u] <= held[u]:
                return held, False  # Reading: the first attempt that gains nothing ends it
            if u not in self.experienced:  # App. C: the first time only
                used = {i: n - after[i] for i, n in held.items() if n > after[i]}
                if a == "mine":  # App. C: the best pickaxe held, if any; nothing is consumed
                    used = dict.fromkeys([p for p in PICKAXES if held[p]][-1:], 1)
                self.resources |= {i for i in used if a != "mine"}
                self.experienced[u] = self.graph[u] = used
            held = after
        return held, True

    def aggregate(self, goal: str, held: Counter[str]) -> list[tuple[int, str]]:
        """Section 3: what is missing for the goal, each item after what it needs."""
        order: list[str] = []

        def visit(v: str) -> None:  # Reading: depth first, in the order of each requirement set
            for u in self.graph[v]:
                if u not in order:
                    visit(u)
            order.append(v)

        visit(goal)
        need = Counter({goal: 1})
        for v in reversed(order):
            need[v] = max(0, need[v] - held[v]) if v != goal else 1
            for u, q in self.graph[v].items():
                # Reading: q for each unit of v; a pickaxe stays, so the largest q is enough.
                stays = max(need[u], q if need[v] else 0)
                need[u] = stays if u in PICKAXES else need[u] + q * need[v]
        return [(need[v], v) for v in order if need[v]]

    def select_goal(self) -> str | None:
        """DEX (App. G); reading: without a frontier the episode ends."""
        seen = self.experienced
        # Reading: L_f is the length of the list of Section 3 for an empty inventory, all levels.
        frontier = {
            v: (self.explored(v), len(self.aggregate(v, Counter())))
            for v in self.graph
            if v not in seen and all(u in seen for u in self.graph[v])
        }
        if not frontier:
            return None
        easiest = [v for v in frontier if frontier[v] == min(frontier.values())]
        self.goals.append(self.roles.draw(easiest))
        return self.goals[-1]

    def explored(self, v: str) -> int:
        return self.counts[v]  # C(f)

    def initialise(self, wanted: Iterable[str]) -> None:
        """Algorithm 2; `experienced` and `resources` hold what the human-written plans taught."""
        self.graph = {v: {} for v in [*wanted, *self.experienced]}  # 2.1
        self.graph |= self.experienced  # 2.2-10
        waiting = [v for v in self.graph if v not in self.experienced]
        while waiting:  # 2.12
            v = waiting.pop(0)  # 2.13; reading: known first, asked first
            examples = [(u, self.graph[u]) for u in self.similar(v, self.experienced)]  # 2.14
            predicted = self.roles.requirements(v, examples)  # 2.15
            waiting += [u for u in predicted if u not in self.graph and u != v]
            self.graph |= {u: {} for u in predicted if u not in self.graph}  # 2.18-19
            if not any(u in [v, *self.descendants(v)] for u in predicted):
                self.graph[v] = dict(predicted)  # 2.16-17; E.2: empty where it closes a cycle
        self.counts = dict.fromkeys(self.graph, 1)  # 1.1

    def revise(self, v: str) -> None:
        """Algorithm 3."""
        self.counts[v] += 1  # Reading: Section 4.1 counts before it compares; 3.1 is silent
        below, inadmissible = self.descendants(v), self.counts[v] > self.settings.c0  # 3.1-2
        if inadmissible:
            new = dict.fromkeys(self.resources, self.settings.alpha_i)  # 3.3
        else:  # 3.10
            alike = self.similar(v, self.experienced)  # 3.11
            amount = self.settings.alpha_s * self.counts[v]
            candidates = [u for w in alike for u in self.graph[w]]  # 3.12
            new = {u: amount if u in self.resources else 1 for u in candidates}  # 3.13-18
        # Reading: nothing that needs v is proposed for v, so that the graph stays acyclic.
        fits = [u for u in self.graph if u in new and u not in [v, *below]]
        self.graph[v] = {u: new[u] for u in fits}  # 3.4-6, 3.19
        for w in below if inadmissible else ():  # 3.7-8; reading: found once, in the graph's order
            self.revise(w)  # 3.9

    def descendants(self, v: str) -> list[str]:
        """All items that need v, directly or through others."""
        found = [v]
        for u in found:
            found += [w for w in self.graph if u in self.graph[w] and w not in found]
        return [w for w in self.graph if w in found[1:]]

    def select_action(self, v: str) -> str:
        """Algorithm 4."""
        for op in self.settings.actions:
            if self.valid(v, op):  # 4.1-2, 4.4
                return op  # 4.5-6; reading: the first, should there be two
        pairs = [(u, op) for u, op in self.memory if self.valid(u, op)]  # 4.8-12
        near = self.similar(v, dict.fromkeys(u for u, _ in pairs))  # 4.13-14
        examples = [(u, op) for u in near for w, op in pairs if w == u]  # 4.15
        candidates = [op for op in self.settings.actions if not self.invalid(v, op)]  # 4.3, 4.16
        return self.roles.action(v, examples, candidates or list(self.settings.actions))  # 4.17-20

    def valid(self, v: str, op: str) -> bool:  # 4.2
        return self.memory.get((v, op), (0, 0))[0] > 0 and not self.invalid(v, op)

    def invalid(self, v: str, op: str) -> bool:
        s, f = self.memory.get((v, op), (0, 0))
        return s - f <= -self.settings.x0  # 4.3

    def similar(self, v: str, among: Iterable[str]) -> list[str]:
        """The K items most like v, the most like first."""
        others = [u for u in among if u != v]
        return sorted(others, key=lambda u: -self.roles.similarity(v, u))[: self.settings.k]
