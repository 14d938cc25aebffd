"""A world of your own: a class that says how it starts, what can be done, and what that does."""

import asyncio
from dataclasses import dataclass

from llm_planning import Domain, Step, open_engine, plan


@dataclass
class Hanoi(Domain):
    """Towers of Hanoi: the whole tower has to go from peg A to peg C."""

    discs: int = 3
    goal = "Bring all discs to peg C. Never put a disc on a smaller one."

    # A state names the peg of each disc, the smallest first: in AAC, only the largest is on C.
    def start(self, seed):
        return "A" * self.discs

    def describe(self, pegs):
        stacks = {peg: [i + 1 for i, on in enumerate(pegs) if on == peg] for peg in "ABC"}
        return "\n".join(f"Peg {peg}, from the top: {on or 'empty'}" for peg, on in stacks.items())

    def actions(self, pegs):
        tops = {peg: pegs.find(peg) % (len(pegs) + 1) for peg in "ABC"}  # of an empty peg, discs
        moves = [
            (tops[here], other) for here in "ABC" for other in "ABC" if tops[here] < tops[other]
        ]
        return [f"move disc {disc + 1} to peg {peg}" for disc, peg in moves]

    def step(self, pegs, action, rng):
        if action not in self.actions(pegs):
            return Step(pegs, obstacle="that disc is not on top, or the one below is smaller")
        disc, peg = int(action.split()[2]) - 1, action[-1]
        pegs = pegs[:disc] + peg + pegs[disc + 1 :]
        done = set(pegs) == {"C"}
        return Step(pegs, reward=float(done), done=done)


if __name__ == "__main__":
    with open_engine("smollm2-135m-instruct") as engine:
        outcome = asyncio.run(plan("puct", Hanoi(discs=3), engine=engine))
    print(outcome.text)
