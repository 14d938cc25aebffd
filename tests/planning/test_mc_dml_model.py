"""Priors and reflections of the bundled model, on the real engine that all tests share."""

import functools
import re
from dataclasses import replace
from itertools import takewhile

import pytest
from runs import run_in

from llm_planning import priors
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.planners.mc_dml.roles import (
    SENTENCE,
    GameAsking,
    GameSituation,
    GameTurn,
    GameWording,
    Observation,
    Trajectory,
    observe,
)
from llm_planning.priors import Labels, action_prompt, softmax
from llm_planning.roles import RoleSettings
from llm_serving.engine import MeteredEngine
from llm_serving.request import ScoreRequest

ASKED = GameWording()
make_prior = functools.partial(priors.make_prior, wording=ASKED)
LESSON = "Take the lantern and light it before you open the trap door."


async def fall():
    """The trajectory of Figure 1: the bait, then death in the dark."""
    world = TextGameDomain(SnapshotGame(TrapDoor()))
    here = await world.start(0)
    turns, score = [], 0.0
    for action in ("open trap door", "shout", "feel the wall", "shout"):
        observation = await observe(world, here)
        here = (await world.step(here, action, None)).state
        score += here.reward
        turns.append(GameTurn(observation, action, here.reward, score))
    assert here.ending is Ending.FAILURE
    return Trajectory(tuple(turns), await observe(world, here))


async def beginning(**changes):
    world = TextGameDomain(SnapshotGame(TrapDoor()))
    here = await world.start(0)
    actions = await world.actions(here)
    return GameSituation(
        **({"memory": (), "actions": actions} | changes), observation=await observe(world, here)
    )


async def test_exact_priors_are_the_engine_s_scores(engine):
    situation = await beginning()
    pi = await make_prior("exact", engine)(situation)
    scores = await engine.score(
        ScoreRequest(action_prompt(engine, ASKED, situation), situation.actions)
    )
    assert pi == pytest.approx(softmax(scores.logprobs, temperature=1.0), abs=2e-3)


async def test_each_further_action_costs_its_own_tokens_and_one_more(engine):
    situation = await beginning(reflections=("Mind the gap.",))
    prompt = action_prompt(engine, ASKED, situation)
    assert len(prompt.token_ids) % engine.block_size == 1
    # The same question, a line of another length above it.
    plain = engine.encode(ASKED.action(situation, dashes=1)).token_ids
    assert prompt.token_ids[:100] == plain[:100]
    await engine.score(ScoreRequest(prompt, situation.actions[:1]))
    spent = (await engine.score(ScoreRequest(prompt, situation.actions[1:]))).usage
    own = sum(len(engine.own_tokens(action)) + 1 for action in situation.actions[1:])
    assert spent.prompt_tokens - spent.cached_tokens == own


@pytest.mark.slow
async def test_seventy_actions_have_labels_of_one_token_and_a_prior_each(engine):
    actions = tuple(f"push the button number {i}" for i in range(70))
    labels = Labels(engine).of(70)
    assert len({engine.encode(label).token_ids for label in labels}) == 70
    assert all(len(engine.encode(label).token_ids) == 1 for label in labels)
    situation = GameSituation((), Observation("", "A wall of buttons.", ""), actions)
    pi = await make_prior("index", engine)(situation)
    assert len(pi) == 70
    assert sum(pi) == pytest.approx(1)
    assert min(pi) == pytest.approx(sorted(pi)[49])  # what is not among the 20 likeliest is alike
    assert len(set(pi)) > 10
    # Digits are single tokens of this model, larger numbers are not.
    assert Labels(engine).of(9) == tuple("123456789")
    assert Labels(engine).of(10)[-1] == "J"


@pytest.mark.slow
async def test_samples_and_verbal_answers_are_valid_and_repeat(engine):
    situation = await beginning()
    for kind in ("sample", "verbal"):
        pi = await make_prior(kind, engine, seed=3, samples=4)(situation)
        assert sum(pi) == pytest.approx(1)
        assert len(pi) == len(situation.actions)
        assert len(set(pi)) > 1
        assert await make_prior(kind, engine, seed=3, samples=4)(situation) == pi


async def test_a_new_reflection_costs_only_the_end_of_the_prompt(engine):
    trajectory = await fall()
    before = await beginning(memory=trajectory.turns[:1])
    metered = MeteredEngine(engine)
    prior = make_prior("index", metered)
    await prior(before)
    after = replace(before, reflections=(LESSON,))
    labels = Labels(engine).of(len(before.actions))
    prompts = [
        engine.encode(ASKED.label(situation, labels)).token_ids for situation in (before, after)
    ]
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(*prompts, strict=False)))
    spent = metered.usage["prior"]
    await prior(after)
    usage = metered.usage["prior"]
    cached = usage.cached_tokens - spent.cached_tokens
    assert cached == shared // engine.block_size * engine.block_size
    assert cached > 0.6 * len(prompts[0])
    assert len(prompts[1]) - cached < 100


async def test_a_reflection_on_the_trap_door_is_a_sentence(engine):
    world = TextGameDomain(SnapshotGame(TrapDoor()))
    ask = GameAsking(run_in(world, None, engine), RoleSettings()).reflect()
    reflection = await ask(await fall())
    assert reflection.endswith(".")
    assert 10 < len(reflection) <= SENTENCE.max_bytes
    assert not re.search(r"[.!?\n]", reflection[:-1])
