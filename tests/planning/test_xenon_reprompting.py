import io
import re

import pytest
from PIL import Image as Pillow
from runs import compact
from xenon_builders import agent

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.controller import SimulatedWorld
from llm_planning.environments.minecraft.items.text_world import TextWorld
from llm_planning.planners.xenon.asking import always_intervene
from llm_planning.planners.xenon.goal_planning import Reprompting, caption_of, in_words
from llm_planning.planners.xenon.roles import (
    CAPTION,
    INTERVENE,
    Description,
    Intervention,
    StuckQuestion,
)
from llm_planning.planners.xenon.settings import RepromptingSettings
from llm_planning.roles import Asking, Engines
from llm_serving.answers import constraint_of
from llm_serving.request import Image
from llm_serving.scripted import ScriptedEngine

STUCK = {
    "need_intervention": True,
    "thoughts": "Water all around.",
    "task": "swim to the shore",
}
QUESTION = StuckQuestion("The player floats in deep water.", "mine coals", "coals")
RIVER = {"caption": '{"description":"A wide river."}'}


def a_controller(*, stalled=False):
    world = SimulatedWorld(
        TextWorld(game_rules()), profile="minerl", seed=0, horizon=3600, patience=600
    )
    world.stalled = stalled
    return world


def test_answers_are_finite():
    for model in (Description, Intervention):
        assert 0 < constraint_of(model).max_bytes < 300
    assert list(Intervention.model_fields) == ["need_intervention", "thoughts", "task"]


async def test_the_decision_is_made_from_the_caption_alone():
    engine = ScriptedEngine({"intervene": compact(STUCK)})
    assert await INTERVENE.answered_by(engine)(QUESTION) == "swim to the shore"
    (decided,) = engine.requests
    assert not any(message.images for message in decided.prompt)
    assert decided.prompt[1].content == (
        "Task: mine coals\nItem: coals\nSeen: The player floats in deep water."
    )


@pytest.mark.parametrize("changes", [{"need_intervention": False}, {"task": ""}, {"task": "  "}])
async def test_the_task_goes_on_without_another(changes):
    engine = ScriptedEngine({"intervene": compact(STUCK | changes)})
    assert await INTERVENE.answered_by(engine)(QUESTION) is None


async def test_a_picture_is_described_in_words():
    picture = Image(b"png")
    engine = ScriptedEngine(RIVER)
    assert await CAPTION.answered_by(engine)(picture) == "A wide river."
    (seen,) = engine.requests
    assert seen.prompt[1].images == (picture,)
    assert seen.role == "caption"
    assert seen.sampling.temperature == 0.0


@pytest.mark.parametrize(
    ("see", "caption", "pictures"),
    [
        ("words", "{words}", 0),
        ("picture", "A wide river.", 1),
        ("both", "{words} A wide river.", 1),
    ],
)
async def test_what_cre_looks_at(see, caption, pictures):
    world, engine = a_controller(stalled=True), ScriptedEngine(RIVER)
    asking = Asking(None, Engines(engine), RepromptingSettings(), seed=0)
    seen = await caption_of(world, asking, see=see)()
    assert seen == caption.format(words=world.view())
    assert [request.prompt[1].images for request in engine.requests] == [(world.draw(),)] * pictures


def test_the_picture_of_a_controller_changes_with_what_its_words_say():
    free, stuck, holding = a_controller(), a_controller(stalled=True), a_controller()
    holding.inventory["logs"] = 3
    drawn = [world.draw().data for world in (free, stuck, holding)]
    assert len(set(drawn)) == 3
    assert free.view() != stuck.view()
    assert a_controller().draw().data == drawn[0]
    assert Pillow.open(io.BytesIO(drawn[0])).size == (336, 336)


@pytest.mark.parametrize("stalled", [False, True])
async def test_only_a_stuck_controller_is_asked_about(stalled):
    world, asked = a_controller(stalled=stalled), []

    async def caption():
        asked.append("caption")
        return "x"

    async def decide(question):
        asked.append(question)

    player = agent(Reprompting, world=world, caption=caption, decide=decide)
    assert await player.tries_again("mine", "coals") is stalled
    assert asked == (["caption", StuckQuestion("x", "mine coals", "coals")] if stalled else [])
    assert world.stalled is stalled


async def test_another_task_rescues_the_controller():
    world = a_controller(stalled=True)
    rescued = []
    world.rescue = lambda: rescued.append(True)
    player = agent(Reprompting, world=world, caption=in_words(world), decide=always_intervene)
    assert await player.tries_again("mine", "coals")
    assert rescued == [True]


async def test_prompts_are_tidy():
    engine = ScriptedEngine(RIVER | {"intervene": compact(STUCK)})
    await CAPTION.answered_by(engine)(Image(b""))
    await INTERVENE.answered_by(engine)(QUESTION)
    for request in engine.requests:
        for message in request.prompt:
            assert not re.search(r"\{\{|\}\}|\{%|\n\n\n| \n|\n\Z|\A\n", message.content)
    examples = engine.requests[1].prompt[0].content.splitlines()
    written = [line for line in examples if line.startswith("{")]
    regex = constraint_of(Intervention).regex
    assert len(written) == 2
    assert all(re.fullmatch(regex, line) for line in written)
