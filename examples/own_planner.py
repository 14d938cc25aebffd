"""A planner of your own: beam search, with a model that says which action is likely."""

import asyncio
from random import Random

from own_domain import Hanoi

from llm_planning import Outcome, Settings, execute, open_engine, plan, planner
from llm_serving import ScoreRequest


class BeamSettings(Settings):
    """How many sequences of actions are kept, and how long they may become."""

    width: int = 4
    depth: int = 10


@planner("beam", settings=BeamSettings, roles=["likely"])
async def beam(run):
    """Keeps the likeliest sequences of actions, until one of them ends the episode."""
    domain, engine, draws = run.world, run.engines.of("likely"), Random(run.seed)

    async def ask(state):
        actions = domain.actions(state)
        prompt = f"Goal: {domain.goal}\n\n{domain.describe(state)}\n\nThe best action:"
        choices = tuple(f" {action}" for action in actions)
        scores = await engine.score(ScoreRequest(prompt, choices, role="likely"))
        return list(zip(actions, scores.logprobs, strict=True))

    start = domain.start(run.seed)
    beams, met, found = [(0.0, [], start)], {start}, None
    for _ in range(run.settings.depth):
        # What is awaited at the same moment is answered in one batch.
        answers = await asyncio.gather(*(ask(state) for _, _, state in beams))
        longer = []
        for (total, sequence, state), likely in zip(beams, answers, strict=True):
            for action, logprob in likely:
                step = domain.step(state, action, draws)
                if step.done:
                    found = [*sequence, action]
                elif step.state not in met:
                    met.add(step.state)
                    longer.append((total + logprob, [*sequence, action], step.state))
        if found or not longer:
            break
        beams = sorted(longer, key=lambda beam: -beam[0])[: run.settings.width]
    # So far all was thought; now the plan is carried out, and the world says what it is worth.
    execution = await execute(domain, found or beams[0][1], seed=run.seed)
    return Outcome(
        success=execution.success,
        plan=tuple(str(move.action) for move in execution.moves),
        metrics={**execution.metrics(), "states_met": len(met)},
        trace=execution.to_json(),
        text="\n".join(str(move.action) for move in execution.moves),
    )


if __name__ == "__main__":
    with open_engine("smollm2-135m-instruct") as engine:
        outcome = asyncio.run(plan(beam, Hanoi(discs=3), engine=engine))
    print(outcome.text, outcome.metrics, sep="\n")
