"""The empirical policy of LLM-MCTS against hand calculations, and the choice of K examples."""

import asyncio
import re

import numpy as np
import pytest
from household_homes import flat, own_task

from llm_planning.environments.household.domain import Household
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import TaskMaker, prompt_numbers
from llm_planning.planners.any_domain.roles import ActWording, Situation, Turn
from llm_planning.planners.llm_mcts.prior import (
    instruction_of,
    language,
    log_policy,
    log_policy_of_each,
    log_shares,
    make_policy,
    similar_instances,
    worked_examples,
)
from llm_planning.roles import Engines
from llm_serving.scripted import ScriptedEngine

ACTIONS = ("walk to the hall", "open the fridge", "grab the apple")
HERE = Situation((), "You are in the kitchen.", ACTIONS)
PLANE = {
    "walk to the hall": (1.0, 0.0),
    "open the fridge": (0.0, 1.0),
    "grab the apple": (0.6, 0.8),
    "walk to the corridor": (1.0, 0.0),
    "grab the red apple": (0.6, 0.8),
}
SIMILAR = np.array([[1.0, 0.0, 0.6], [0.6, 0.8, 1.0]])
"""Of "walk to the corridor" and "grab the red apple" to the actions."""


class InThePlane(ScriptedEngine):
    """Embeds texts by a table."""

    async def embed(self, texts, *, role="embed"):
        self.embedded.append(tuple(texts))
        await asyncio.sleep(0)
        return np.array([PLANE[text] for text in texts], np.float32)


def two_answers(request):
    return ("walk to the corridor", "grab the red apple")[request.sample]


@pytest.fixture
def wording(tmp_path):
    return ActWording(Household(own_task(flat(tmp_path), "the pear in the chest")))


def test_the_papers_formula_by_hand():
    # Sums 1.6, 0.8 and 1.6; η = 4/3.
    assert log_policy(SIMILAR, scale=1.0) == pytest.approx([4 / 15, -8 / 15, 4 / 15])
    assert log_policy(SIMILAR, scale=10.0) == pytest.approx([8 / 3, -16 / 3, 8 / 3])


def test_the_authors_formula_by_hand():
    # exp(5) : 1 : exp(3) = 0.87560 : 0.00590 : 0.11850, and exp(3) : exp(4) : exp(5).
    shares = np.exp(log_policy_of_each(SIMILAR, scale=5.0))
    assert shares == pytest.approx([0.48282, 0.12531, 0.39187], abs=1e-5)
    sharp = log_policy_of_each(np.array([[1.0, -1.0]]), scale=1e4)
    assert sharp == [0.0, -2e4]


def test_an_answer_is_its_nearest_action():
    similar = np.array([[0.1, 0.9, 0.2], [0.5, 0.4, 0.5], [0.0, 0.2, 0.1]])
    assert np.exp(log_shares(similar)).tolist() == pytest.approx([1 / 3, 2 / 3, 0.0])


@pytest.mark.parametrize(
    ("kind", "scale", "expected"),
    [
        # exp(1.6) : exp(0.8) : exp(1.6) = 0.40827 : 0.18345 : 0.40827
        ("cosine", None, [0.37080, 0.25839, 0.37080]),
        ("cosine-each", 5.0, [0.40807, 0.22932, 0.36260]),
        ("cosine-each", None, [0.41667, 0.16667, 0.41667]),
        ("nearest", None, [0.41667, 0.16667, 0.41667]),
    ],
)
async def test_half_of_the_policy_is_uniform(kind, scale, expected, wording):
    engine = InThePlane({"prior": two_answers})
    policy = make_policy(
        kind, Engines(engine), wording=wording, mixture=0.5, samples=2, scale=scale
    )
    assert await policy(HERE) == pytest.approx(expected, abs=1e-5)


async def test_what_is_asked_and_embedded_once(wording):
    engine = InThePlane({"prior": two_answers})
    policy = make_policy("cosine", Engines(engine), wording=wording, samples=2, seed=7)
    later = Situation((Turn("", "close the fridge"),), "You are in the kitchen.", ACTIONS[:2])
    await asyncio.gather(policy(HERE), policy(later), policy(HERE))
    assert policy.questions == 2
    assert [request.sample for request in engine.requests] == [0, 1, 0, 1]
    assert {
        (request.sampling.temperature, request.sampling.seed) for request in engine.requests
    } == {(0.6, 7)}
    assert sorted(text for texts in engine.embedded for text in texts) == sorted(PLANE)


async def test_another_engine_answers_than_embeds(wording):
    answers, embeds = ScriptedEngine({"prior": two_answers}), InThePlane({})
    engines = Engines(embeds, {"prior": answers})
    await make_policy("cosine", engines, wording=wording, samples=2)(HERE)
    assert len(answers.requests) == 2
    assert len(embeds.embedded) == 1


async def test_the_usual_kinds_are_asked_as_ever(wording):
    engine = ScriptedEngine({}, score=lambda prompt, choices: [0.0, -1.0, -2.0])
    exact = make_policy("exact", Engines(engine), wording=wording, mixture=0.0)
    assert await exact(HERE) == pytest.approx([0.66524, 0.24473, 0.09003], abs=1e-5)
    uniform = make_policy("uniform", Engines(engine), wording=wording)
    assert await uniform(HERE) == pytest.approx([1 / 3] * 3)
    assert len(engine.scored) == 1


def test_the_language_of_an_answer(tmp_path):
    free = language(()).regex
    for home in ("seen", "unseen"):
        task = TaskMaker(bundled_home(home)).task("novel-comp-3", 1, seed=1)
        state = task.start
        for action in task.rules.actions(state):
            assert re.fullmatch(free, str(action)), action
    for answer in (
        "put the Chinese food inside the fridge",
        "walk to the dining room",
        "put the very red apple on the old kitchen table",
    ):
        assert re.fullmatch(free, answer), answer
    for answer in ("put the apple", "walk to the", "eat the apple", "grab the apple."):
        assert not re.fullmatch(free, answer), answer
    odd = "put the TV remote control 2 on the dining room kitchen counter 2"
    assert not re.fullmatch(free, odd)
    assert language(["walk to the TV", odd]).max_bytes >= len(odd)
    assert re.fullmatch(language(["walk to the TV", odd]).regex, odd)
    assert language(["walk to the TV"]) == language(())


# EXAMPLES ----------------------------------------------------------------------------------------


APPLE = "Put one apple inside the fridge."


class Words(ScriptedEngine):
    """Embeds a text by which of these words it has."""

    async def embed(self, texts, *, role="embed"):
        self.embedded.append(tuple(texts))
        words = ("Put", "apple", "inside", "fridge")
        words_of_texts = (re.findall(r"\w+", text) for text in texts)
        return np.array([[float(word in text) for word in words] for text in words_of_texts])


async def test_the_most_similar_instructions():
    engine = Words({})
    examples = await similar_instances(APPLE, k=3, engine=engine)
    # Of instructions with the same of these words, the first comes first.
    assert [instruction_of(example) for example in examples] == [
        "Put one apple inside the fridge and one folder on the bed.",
        "Put one chocolate syrup on the coffee table and one apple inside the fridge.",
        "Put one bar soap inside the bathroom cabinet and one apple inside the fridge.",
    ]
    assert len(engine.embedded[0]) == 201
    numbers = {f"seen training {number}" for number in prompt_numbers(seed=1)}
    assert {example.task.name for example in examples} <= numbers


async def test_examples_are_laid_out_like_a_question():
    instances = await similar_instances(APPLE, k=2, engine=Words({}))
    examples = worked_examples(instances)
    assert [action for _, action in examples] == ["walk to the bedroom", "walk to the fridge"]
    for (question, action), example, share in zip(examples, instances, (1 / 4, 3 / 4), strict=True):
        step = int(share * len(example.actions))
        world, state = Household(example.task), example.states[step]
        past = tuple(Turn("", str(done)) for done in example.actions[:step])
        asked = Situation(past, world.observe(state), tuple(map(str, world.actions(state))))
        system, user = ActWording(world, examples=()).action(asked, dashes=1)
        layout = f"{system.content}\n{user.content}".replace("\n\n", "\n")
        assert f"\n{question}\nChoose an allowed action.\n" in layout
        assert (action, step) == (str(example.actions[step]), state.steps)


def test_examples_follow_the_goal_and_precede_it(wording):
    world = Household(TaskMaker(bundled_home("seen")).task("simple", 1, seed=1))
    examples = (("Goal: one\nNow: here", "walk"), ("Goal: two\nNow: there", "run"))
    system, _ = ActWording(world, examples=examples).action(HERE, dashes=1)
    assert system.content.endswith(
        f"Goal: {world.goal}\n\nExamples with other goals:\n\n"
        "Goal: one\nNow: here\nYour action: walk\n\nGoal: two\nNow: there\nYour action: run\n\n"
        f"Your goal again: {world.goal}"
    )


@pytest.mark.slow
async def test_the_bundled_model_answers(engine):
    examples = await similar_instances(APPLE, k=3, engine=engine)
    assert all("apple" in instruction_of(example) for example in examples)
    task = TaskMaker(bundled_home("unseen")).task("simple", 1, seed=1)
    world = Household(task)
    asked = Situation(
        (), world.observe(task.start), tuple(map(str, task.rules.actions(task.start)))
    )
    wording = ActWording(world, examples=worked_examples(examples))
    shares = {}
    for kind in ("cosine", "cosine-each"):
        policy = make_policy(kind, Engines(engine), wording=wording, mixture=0.5, seed=3)
        shares[kind] = await policy(asked)
        assert sum(shares[kind]) == pytest.approx(1.0)
        assert min(shares[kind]) >= 0.5 / len(asked.actions)
    assert max(shares["cosine-each"]) > max(shares["cosine"])
