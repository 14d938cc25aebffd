"""Asks planners' roles about drawn states, with the tiny Qwen2.5-VL behind them."""

import json
from random import Random

from llm_planning.environments.household.domain import HOUSEHOLD, HouseholdSettings
from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.controller import SimulatedWorld
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.state import Change
from llm_planning.execution.options import OptionState
from llm_planning.planners.any_domain.roles import ActWording, Situation
from llm_planning.planners.llm_mcts.specs import SPECS as LLM_MCTS
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.roles import OptionQuestion
from llm_planning.planners.tree_of_options.settings import OptionSearchSettings
from llm_planning.planners.xenon.roles import CAPTION
from llm_planning.roles import Engines
from llm_planning.specs import Run
from llm_serving.request import ScoreRequest
from llm_serving.scripted import ScriptedEngine

HELD = ({}, {"oak_log": 3}, {"cobblestone": 64}, {"iron_ingot": 9, "stick": 2}, {"diamond": 1})
WAYS = ("words", "picture", "both")


async def world_model(engine):
    """Scores of two answers of ToO's world model about states that differ in what is held.

    With a picture alone, the texts of all questions are the same.
    """
    world = Minecraft()
    start, option = world.start(0), Option("craft", 4, "stick")
    nothing = dict.fromkeys(("gained", "lost", "blocks", "entities", "equipped", "conditions"), ())
    answers = [
        json.dumps(nothing | {"gained": held}, separators=(",", ":")) for held in ([], ["x"])
    ]
    likelihoods = {}
    for see in WAYS:
        noting = ScriptedEngine({"dynamics": answers[0]})
        roles = OptionAsking(world, Engines(noting), OptionSearchSettings(see=see), seed=0)
        ask = roles.of(roles.roles.dynamics())
        for held in HELD:
            state = start.apply(Change(gained=held))
            await ask(OptionQuestion(OptionState(world.goal, state), option))
        prompts = [request.prompt for request in noting.requests]
        likelihoods[see] = [
            list((await engine.score(ScoreRequest(prompt, answers))).logprobs) for prompt in prompts
        ]
    return likelihoods


async def policy(engine):
    """π of an actor at home, in places that look different, by what the actor is shown."""
    world = HOUSEHOLD.open("rearrange", HouseholdSettings.read({}))
    rng, state, states = Random(0), world.start(0), []
    for _ in range(4):
        states.append(state)
        state = world.step(state, rng.choice(world.actions(state)), rng).state
    choices = ("walk to the fridge", "open the fridge")
    likelihoods = {}
    for see in WAYS:
        wording = ActWording(world, see=see)
        asked = [Situation((), "You are at home.", choices, state=state) for state in states]
        prompts = [wording.action(situation, dashes=3) for situation in asked]
        likelihoods[see] = [
            list((await engine.score(ScoreRequest(prompt, choices))).logprobs) for prompt in prompts
        ]
    return likelihoods


async def captions(engine):
    """What CRe is told of a controller that is free, and of one that is stuck."""
    world = SimulatedWorld(TextWorld(game_rules()), profile="minerl", seed=0, horizon=3600)
    ask = CAPTION.answered_by(engine)
    free = await ask(world.draw())
    world.stalled = True
    return {"free": free, "stuck": await ask(world.draw()), "stuck again": await ask(world.draw())}


async def episode(engine):
    """A whole episode of LLM-MCTS's policy that sees words and a picture before each action."""
    spec = next(spec for spec in LLM_MCTS if spec.name == "llm-mcts-policy")
    run = Run(
        domain="household",
        task="rearrange",
        world=HOUSEHOLD.open("rearrange", HouseholdSettings.read({})),
        engines=Engines(engine),
        settings=spec.settings.read({"see": "both", "moves": 2, "examples": 0}),
        seed=0,
    )
    outcome = await spec.run(run)
    return {"moves": len(outcome.plan)}
