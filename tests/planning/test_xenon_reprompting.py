import json
import re

import pytest

from llm_planning.planners.xenon.goal_planning import (
    Reprompter,
    image_reprompter,
    text_caption,
    text_reprompter,
)
from llm_planning.planners.xenon.prompts import Description, Intervention
from llm_planning.roles import Engines
from llm_serving.answers import constraint_of
from llm_serving.request import Image
from llm_serving.scripted import ScriptedEngine

STUCK = {
    "need_intervention": True,
    "thoughts": "Water all around.",
    "task": "swim to the shore",
}


def answer(fields):
    return json.dumps(fields, separators=(",", ":"))


def test_answers_are_finite():
    for model in (Description, Intervention):
        assert 0 < constraint_of(model).max_bytes < 300
    assert list(Intervention.model_fields) == ["need_intervention", "thoughts", "task"]


async def test_the_picture_is_described_and_the_decision_made_from_text():
    picture = Image(b"png")
    engine = ScriptedEngine(
        {
            "caption": '{"description":"The player floats in deep water."}',
            "intervene": answer(STUCK),
        }
    )
    task = await image_reprompter(Engines(engine)).consider(
        picture, task="chop a tree", goal_item="logs"
    )
    assert task == "swim to the shore"
    seen, decided = engine.requests
    assert seen.prompt[1].images == (picture,)
    assert not any(message.images for message in decided.prompt)
    assert decided.prompt[1].content == (
        "Task: chop a tree\nItem: logs\nSeen: The player floats in deep water."
    )
    assert {request.sampling.temperature for request in engine.requests} == {0.0}


async def test_a_world_without_pictures_tells_what_is_seen():
    engine = ScriptedEngine({"intervene": answer(STUCK)})
    observation = "The player floats\n  in deep water."
    task = await text_reprompter(Engines(engine)).consider(
        observation, task="mine", goal_item="coals"
    )
    assert task == "swim to the shore"
    assert engine.requests[0].prompt[1].content.endswith("Seen: The player floats in deep water.")


@pytest.mark.parametrize("changes", [{"need_intervention": False}, {"task": ""}, {"task": "  "}])
async def test_the_task_goes_on_without_another(changes):
    engine = ScriptedEngine({"intervene": answer(STUCK | changes)})
    assert (
        await text_reprompter(Engines(engine)).consider("x", task="mine", goal_item="coals") is None
    )


async def test_any_roles_answer():
    async def decide(question):
        return f"{question.caption}|{question.task}|{question.goal_item}"

    reprompter = Reprompter(text_caption, decide)
    assert await reprompter.consider("a b", task="t", goal_item="g") == "a b|t|g"


async def test_prompts_are_tidy():
    engine = ScriptedEngine({"caption": '{"description":"x"}', "intervene": answer(STUCK)})
    await image_reprompter(Engines(engine)).consider(Image(b""), task="mine", goal_item="coals")
    for request in engine.requests:
        for message in request.prompt:
            assert not re.search(r"\{\{|\}\}|\{%|\n\n\n| \n|\n\Z|\A\n", message.content)
    examples = engine.requests[1].prompt[0].content.splitlines()
    written = [line for line in examples if line.startswith("{")]
    regex = constraint_of(Intervention).regex
    assert len(written) == 2
    assert all(re.fullmatch(regex, line) for line in written)
