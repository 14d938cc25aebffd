"""A model that acts without search: its policy in three ways, and ReAct, by scripted answers."""

import re
from collections import Counter
from math import log

import pytest
from any_domain_worlds import Corridor, Doors, run

from llm_planning.domain import Step
from llm_planning.planners.any_domain.roles import THOUGHT
from llm_planning.settings import SettingsError
from llm_serving.answers import Constraint
from llm_serving.request import Image
from llm_serving.scripted import ScriptedEngine, ScriptError

LEFT = "I want to look behind the door on the left."
RIGHT = "I should follow the arrow to the right door."


def prefer(wanted, p=0.8):
    """Scores one action p and the rest alike."""

    def score(text, choices):
        rest = (1 - p) / (len(choices) - 1)
        return [log(p if choice == wanted else rest) for choice in choices]

    return score


async def test_the_policy_sees_what_is_observed_and_tells_its_options():
    engine = ScriptedEngine({}, score=prefer("open right"))
    outcome = await run("llm-policy", Doors(), engine=engine)
    ((prompt, _),) = engine.scored
    assert "Now:\nYou are outside.\n" in prompt
    assert outcome.trace["ended"] is True
    assert outcome.trace["moves"][0]["options"] == [
        {"action": "open left", "prior": pytest.approx(0.2)},
        {"action": "open right", "prior": pytest.approx(0.8)},
    ]


async def test_a_game_that_meets_the_bound_has_not_ended():
    engine = ScriptedEngine({}, score=prefer("back"))
    outcome = await run("llm-policy", Corridor(4), engine=engine, moves=5)
    assert (outcome.plan, outcome.trace["ended"]) == (("back",) * 5, False)


async def test_a_draw_follows_the_policy():
    engine = ScriptedEngine({}, score=prefer("open right", 0.75))
    plans = [
        (await run("llm-policy", Doors(), engine=engine, seed=seed, choice="sample")).plan
        for seed in range(200)
    ]
    right = Counter(plans)["open right",]
    # 150 ± 4 standard deviations of √37.5.
    assert 125 <= right <= 175


async def test_temperature_sharpens_the_draw():
    engine = ScriptedEngine({}, score=prefer("open right", 0.75))
    sharp = {"choice": "sample", "prior_temperature": 0.05}
    plans = [
        (await run("llm-policy", Doors(), engine=engine, seed=seed, **sharp)).plan
        for seed in range(50)
    ]
    assert set(plans) == {("open right",)}


@pytest.mark.parametrize(
    ("answers", "plan"), [("21212", "open right"), ("11122", "open left"), ("2112", "open left")]
)
async def test_the_majority_decides_and_of_equals_the_first_action(answers, plan):
    engine = ScriptedEngine({"prior": iter(answers)})
    outcome = await run(
        "llm-policy", Doors(), engine=engine, choice="majority", samples=len(answers), seed=7
    )
    assert outcome.plan == (plan,)
    assert [request.sample for request in engine.requests] == list(range(len(answers)))
    assert {request.sampling.seed for request in engine.requests} == {7}
    assert {request.sampling.temperature for request in engine.requests} == {1.0}


async def test_a_refusal_is_told():
    class Locked(Corridor):
        def step(self, state, action, rng):
            if action == "forward":
                return Step(state, obstacle="the door is locked")
            return super().step(state, action, rng)

    engine = ScriptedEngine({}, score=prefer("forward"))
    outcome = await run("llm-policy", Locked(4), engine=engine, moves=2)
    assert "Now:\nthe door is locked\nroom 0\n" in engine.scored[1][0]
    assert outcome.metrics["first_failed"] == "forward"
    assert outcome.metrics["first_obstacle"] == "the door is locked"
    assert outcome.text.startswith("1. forward (reward 0; the door is locked)\n")


# REACT --------------------------------------------------------------------------------------------


async def test_an_action_follows_its_thought_and_thoughts_are_remembered():
    engine = ScriptedEngine({"think": [LEFT, RIGHT]}, score=prefer("forward"))
    outcome = await run("react", Corridor(3), engine=engine)
    assert [move["thought"] for move in outcome.trace["moves"]] == [LEFT, RIGHT]
    first, second = (engine.text(request.prompt) for request in engine.requests)
    acted = [prompt for prompt, _ in engine.scored]
    assert "thought:" not in first
    assert f"Your thought: {LEFT}" in acted[0].split("Possible actions:")[1]
    remembered = f"What happened before:\nroom 0\nYour thought: {LEFT}\n> forward\n\nNow:\nroom 1\n"
    assert remembered in second
    assert remembered in acted[1]
    assert f"Your thought: {RIGHT}" in acted[1].split("Possible actions:")[1]


async def test_the_thought_and_the_action_share_the_beginning_of_their_prompts():
    engine = ScriptedEngine({"think": LEFT}, score=prefer("open right"))
    await run("react", Doors(), engine=engine)
    thought = engine.text(engine.requests[0].prompt)
    acted = engine.scored[0][0]
    shared = thought[: thought.index("What still separates")]
    assert acted.startswith(shared)
    assert "Possible actions:\nopen left\nopen right" in shared


async def test_thoughts_are_greedy_unless_a_temperature_is_set():
    for settings, expected in (({}, 0.0), ({"temperature": 0.7}, 0.7)):
        engine = ScriptedEngine({"think": LEFT}, score=prefer("open right"))
        await run("react", Doors(), engine=engine, seed=5, **settings)
        sampling = engine.requests[0].sampling
        assert (sampling.temperature, sampling.seed) == (expected, 5)


async def test_a_thought_is_one_bounded_sentence():
    assert isinstance(THOUGHT, Constraint)
    for text, allowed in (
        (LEFT, True),
        ("I " + "a" * 157 + ".", True),
        ("I " + "a" * 158 + ".", False),
        ("I see.", False),
        ("You should follow the arrow to the right.", False),
        ("I follow the arrow to the right. Then rest.", False),
    ):
        assert bool(re.fullmatch(THOUGHT.regex, text)) is allowed
        assert len(text.encode()) <= THOUGHT.max_bytes or not allowed
    engine = ScriptedEngine({"think": "Hm."}, score=prefer("open right"))
    with pytest.raises(ScriptError, match="not in the language"):
        await run("react", Doors(), engine=engine)


class DrawnDoors(Doors):
    """Doors of which there are pictures."""

    def draw(self, state, *, size=336):
        return Image(f"{state} {size}".encode())


@pytest.mark.parametrize(
    ("see", "in_words", "pictures"), [("words", True, 0), ("picture", False, 1), ("both", True, 1)]
)
async def test_what_is_seen_is_shown_in_words_or_as_a_picture(see, in_words, pictures):
    engine = ScriptedEngine({"prior": "2", "think": RIGHT})
    await run("react", DrawnDoors(), engine=engine, see=see, prior="sample", moves=1)
    assert {request.role for request in engine.requests} == {"prior", "think"}
    for request in engine.requests:
        _, user = request.prompt
        assert user.images == (Image(b"outside 336"),) * pictures
        assert ("You are outside." in user.content) is in_words
        assert ("The picture shows what you see now." in user.content) is not in_words


async def test_a_domain_that_does_not_draw_shows_no_pictures():
    with pytest.raises(SettingsError, match=r"see=both needs a domain that draws.*see=words"):
        await run("llm-policy", Doors(), engine=ScriptedEngine({}), see="both")
