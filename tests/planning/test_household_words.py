"""The words of the policy at home: one prompt as it stands, and how long prompts are."""

import pytest
from household_homes import flat, own_task

from llm_planning.environments.household.domain import Household
from llm_planning.environments.household.home import bundled_home
from llm_planning.environments.household.tasks import TaskMaker, trajectory
from llm_planning.planners.any_domain.roles import ActWording, Situation, Turn
from llm_serving.models import resolve
from llm_serving.models.reading import read_tokenizer

SYSTEM = """\
You tidy a home step by step. Allowed actions: walk to the X, open the X, close the X, grab the X, \
put the X on the Y, put the X inside the Y.

Walk to any room, or to what you see. Walk to a thing to grab it, and to a place to open it or to \
put something there. Hold one thing at most. kitchen: fridge, table. hall: chest, bench.

Goal: Put one pear inside the chest."""

USER = """\
Completed actions: walk to the kitchen, walk to the table

Now: You are in the kitchen, close to the table. You hold nothing. The fridge is closed. On the \
table: a pear, a ball.

Choose an allowed action.

- - -

Your action:"""


def situation(world, state, done=()):
    past = tuple(Turn("You see nothing.", action) for action in done)
    return Situation(past, world.observe(state), tuple(map(str, world.actions(state))))


def texts(chat):
    return [message.content for message in chat]


def test_a_whole_prompt(tmp_path):
    task = own_task(flat(tmp_path), "the pear in the chest")
    world, things = Household(task), task.rules.things
    places = [()] * 4
    places[1] = tuple(things.index(name) for name in ("pear", "ball"))
    state = task.start._replace(room=0, at=1, places=tuple(places))
    asked = situation(world, state, ("walk to the kitchen", "walk to the table"))
    assert texts(ActWording(world).action(asked, dashes=3)) == [SYSTEM, USER]


def test_the_first_prompt_has_no_past(tmp_path):
    task = own_task(flat(tmp_path), "the pear in the chest", hands=2)
    world = Household(task)
    system, user = texts(ActWording(world).action(situation(world, task.start), dashes=1))
    assert "Hold 2 things at most." in system
    assert user.startswith("Now: You are in the ")


@pytest.mark.parametrize("home", ["seen", "unseen"])
def test_prompts_are_short(home):
    """Half of an expert's prompts have at most 330 tokens; a cache keeps half of these."""
    tokenizer = read_tokenizer(resolve("smollm2-135m-instruct").path)
    maker = TaskMaker(bundled_home(home))
    system, whole = [], []
    for number in range(1, 21):
        way = trajectory(maker.training_task(number, seed=1))
        world = Household(way.task)
        wording = ActWording(world)
        for state in way.states:
            done = tuple(map(str, way.actions[: state.steps]))
            chat = texts(wording.action(situation(world, state, done), dashes=1))
            system.append(len(tokenizer.encode(chat[0])))
            whole.append(system[-1] + len(tokenizer.encode(chat[1])))
    assert max(system) <= 160
    assert sorted(whole)[len(whole) // 2] <= 330
    assert max(whole) <= 480
