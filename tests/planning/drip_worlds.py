"""Blocks for DRIP's tests: a small Blocksworld of the paper's variant."""

from random import Random
from typing import Literal, NamedTuple

from pydantic import create_model

from llm_planning.domain import Domain, Judged, OneOf, Step

TABLE = "table"


class Act(NamedTuple):
    verb: str
    block: str
    onto: str = ""

    def __str__(self):
        return " ".join(filter(None, (self.verb, self.block, self.onto)))


def towers(text):
    """The supports of a text such as "c-b a", each tower from its top."""
    return tuple(
        sorted(
            (block, below)
            for tower in text.split()
            for block, below in zip(tower.split("-"), [*tower.split("-")[1:], TABLE], strict=True)
        )
    )


def chain(on, block):
    """The blocks from a block down to the table."""
    found = [block]
    while (below := on[found[-1]]) != TABLE:
        found.append(below)
    return found


class Blocks(Domain):
    def __init__(self, start, goal):
        self.initial = towers(start)
        self.wanted = {a: b for a, b in towers(goal) if b != TABLE}
        self.goal = self.remainder(())
        names = [block for block, _ in self.initial]
        self.names = names
        self.all = [
            *(Act("stack", a, b) for a in names for b in names if a != b),
            *(Act("unstack blocks", a) for a in names),
            *(Act("put-down", a) for a in names),
        ]
        self.grammar = OneOf(self.all)
        place = Literal[(*names, TABLE)]
        answer = create_model("Places", **dict.fromkeys(names, (place, ...)))
        self.state_model = type("Model", (), {"answer": answer, "read": self.read})()

    def read(self, state, said):
        return tuple(sorted(said.model_dump().items())), {}

    def start(self, seed):
        return self.initial

    def describe(self, state):
        return ", ".join(f"{a} on {b}" for a, b in state)

    def actions(self, state):
        return [one for one in self.all if self.judge(state, one, None).verdict == "true"]

    def success(self, state):
        on = dict(state)
        return all(on[a] == b for a, b in self.wanted.items())

    def step(self, state, action, rng):
        on = dict(state)
        above = {below: block for block, below in state}
        if action.verb == "stack":
            if on[action.block] == action.onto:
                return Step(state)
            if action.onto in above or chain(on, action.block)[-1] == chain(on, action.onto)[-1]:
                return Step(state, obstacle="impossible")
            on[action.block] = action.onto
        elif action.verb == "put-down":
            on[action.block] = TABLE
        elif action.block in above:
            on[above[action.block]] = TABLE
        after = tuple(sorted(on.items()))
        return Step(after)

    def decompose(self, state, subtask):
        if subtask is None:
            order, on = [], self.wanted
            while len(order) < len(on):
                order += [
                    a for a, b in on.items() if a not in order and (b not in on or b in order)
                ]
            return [Act("stack", a, on[a]) for a in order]
        if subtask.verb == "stack":
            return [Act("unstack blocks", subtask.onto), Act("put-down", subtask.onto)]
        return []

    def judge(self, state, subtask, parent):
        on = dict(state)
        above = {below: block for block, below in state}
        verb, block, onto = subtask
        if verb == "stack":
            if on[block] == onto:
                return Judged("done")
            if onto in above:
                return Judged("false", f"{onto} is not clear")
            if chain(on, block)[-1] == chain(on, onto)[-1]:
                return Judged("false", "same tower")
            return Judged("true")
        if verb == "put-down":
            if parent is not None and parent.verb == "stack":
                apart = chain(on, parent.block)[-1] != chain(on, parent.onto)[-1]
            else:
                apart = on[block] == TABLE
            return Judged("done" if apart else "true")
        return Judged("true" if block in above else "done")

    def feasible(self, state, action):
        return self.step(state, action, None).obstacle

    def spared(self, state, action):
        if action.verb != "put-down":
            return action
        on, block = dict(state), action.block
        while on[block] == self.wanted.get(block):
            block = on[block]
        return Act("put-down", block)

    def remainder(self, state):
        on = dict(state)
        return ", ".join(f"{a} on {b}" for a, b in self.wanted.items() if on.get(a) != b)

    def mistakes(self, subtask):
        others = [name for name in self.names if name not in subtask]
        blocks = [Act(subtask.verb, name, subtask.onto) for name in others]
        if subtask.verb == "stack":
            blocks += [Act("stack", subtask.block, name) for name in others]
        verbs = [Act(v, subtask.block) for v in ("unstack blocks", "put-down") if v != subtask.verb]
        verbs += [] if subtask.onto else [Act("stack", subtask.block, name) for name in others]
        return {"block": blocks, "verb": verbs}


def generated(count, seed):
    """A random problem: towers of a random order, cut at random places."""
    rng = Random(f"blocks {count} {seed}")

    def drawn():
        names = [chr(97 + i) for i in range(count)]
        rng.shuffle(names)
        return "".join(n + ("-" if rng.random() < 0.75 else " ") for n in names).strip("- ")

    return Blocks(drawn(), drawn())
