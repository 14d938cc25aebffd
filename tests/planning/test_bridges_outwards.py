"""Domains of this project as environments of Gymnasium."""

import pickle
from copy import deepcopy

import gymnasium
import numpy as np
import pytest
from any_domain_worlds import AsyncCorridor, Corridor
from gymnasium.envs import registration
from gymnasium.utils.env_checker import check_env
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.bridges import outwards
from llm_planning.environments.bridges.outwards import register_domains, to_gymnasium

WORLDS = ("Minecraft", "Blocksworld", "Household", "Travel", "Multiplication", "Textgame")


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(registration, "registry", dict(registration.registry))
    register_domains()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("world", WORLDS)
def test_gymnasiums_own_check_passes(world):
    env = gymnasium.make(f"llm_planning/{world}-v0", render_mode="ansi", disable_env_checker=True)
    check_env(env.unwrapped, skip_close_check=True)
    env.close()


@pytest.mark.parametrize("kind", [Corridor, AsyncCorridor])
def test_a_text_and_its_number_are_one_action(kind):
    env = to_gymnasium(kind())
    _, info = env.reset(seed=1)
    moment = env.save()
    by_number = env.step(len(info["actions"]) - 1)
    env.restore(moment)
    by_text = env.step(info["actions"][-1])
    assert by_number[:4] == by_text[:4]
    assert info["action_mask"].sum() == len(info["actions"])
    env.close()


def test_a_restored_moment_goes_on_as_it_did():
    """Chance included: Minecraft draws what a search for things finds."""
    env = gymnasium.make("llm_planning/Minecraft-v0", task="cook-meat").unwrapped
    _, info = env.reset(seed=3)
    for _ in range(3):
        *_, info = env.step(info["advised"])
    moment = env.save()

    def walk(info):
        steps = []
        for _ in range(4):
            seen, reward, ended, _, info = env.step(info["advised"])
            steps.append((seen, reward, ended, info["text"]))
            if ended:
                break
        return steps

    first = walk(info)
    _, again = env.restore(moment)
    assert walk(again) == first
    assert len({seen for seen, *_ in first}) > 1
    env.close()


def test_the_advised_way_reaches_the_goal():
    env = gymnasium.make("llm_planning/Blocksworld-v0", task="hard").unwrapped
    _, info = env.reset(seed=0)
    ended = False
    while not ended:
        _, _, ended, truncated, info = env.step(info["advised"])
        assert not truncated
    assert info["success"] is True
    assert info["advised"] is None
    assert info["actions"] == ()
    env.close()


def test_what_is_impossible_changes_nothing():
    env = to_gymnasium(Corridor())
    seen, _ = env.reset(seed=0)
    for action in ("fly", 500, -1):
        again, reward, ended, _, info = env.step(action)
        assert (again, reward, ended) == (seen, 0.0, False)
        assert info["obstacle"] == "there is no such action now: see info['actions']"


def test_more_actions_than_are_numbered():
    env = gymnasium.make("llm_planning/Minecraft-v0", most=2).unwrapped
    with pytest.raises(DomainError, match=r"actions are possible, and .* numbers 2: make it with"):
        env.reset(seed=0)


def test_a_setting_and_a_task_of_the_domain():
    env = gymnasium.make("llm_planning/Multiplication-v0", digits=2).unwrapped
    assert env.domain is not None
    with pytest.raises(ValueError, match="unknown setting 'digit'"):
        gymnasium.make("llm_planning/Multiplication-v0", digit=2)
    with pytest.raises(ValueError, match="unknown task 'add' of multiplication"):
        gymnasium.make("llm_planning/Multiplication-v0", task="add")


def test_several_problems_are_no_environment(tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}.pddl").write_text(
            f"(define (problem {name}) (:domain blocksworld) (:objects a b)"
            " (:init (on-table a) (on b a) (clear b)) (:goal (and (on-table b))))"
        )
    with pytest.raises(DomainError, match="the settings name several problems"):
        gymnasium.make("llm_planning/Blocksworld-v0", pddl=str(tmp_path))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("mode", "chosen"),
    [
        ("sync", {}),
        ("async", {}),
        ("async", {"shared_memory": False}),
        ("async", {"copy": False}),
    ],
)
def test_a_vector_of_environments_does_what_each_does(mode, chosen):
    """The first is solved and begins again by itself; the second tries what is impossible."""
    name = "llm_planning/Blocksworld-v0"
    several = gymnasium.make_vec(
        name, num_envs=2, vectorization_mode=mode, vector_kwargs=chosen, task="hard"
    )
    each = [gymnasium.make(name, task="hard") for _ in range(2)]
    seen, infos = several.reset(seed=3)
    alone = [env.reset(seed=3 + place) for place, env in enumerate(each)]
    assert several.observation_space.contains(tuple(seen))
    ended = begun = False
    while not begun:
        assert tuple(seen) == tuple(one for one, *_ in alone)
        assert list(infos["actions"]) == [info["actions"] for *_, info in alone]
        begun = ended
        first = 0 if ended else infos["actions"][0].index(infos["advised"][0])
        seen, rewards, ends, _, infos = several.step(np.array([first, 511]))
        alone = [
            (*env.reset()[:1], 0.0, False, False, {}) if ended and not place else env.step(action)
            for place, (env, action) in enumerate(zip(each, (first, 511), strict=True))
        ]
        if not begun:
            assert (*rewards,) == tuple(one[1] for one in alone)
            assert infos["obstacle"][1] == "there is no such action now: see info['actions']"
        ended = bool(ends[0])
    assert seen[0] == alone[0][0]
    several.close()
    for env in each:
        env.close()


def test_an_observation_that_memory_has_no_room_for(monkeypatch):
    monkeypatch.setattr(outwards, "MOST_BYTES", 10)
    texts = outwards.Texts()
    memory = create_shared_memory(texts, n=1)
    write_to_shared_memory(texts, 0, "ä" * 5, memory)
    read = read_from_shared_memory(texts, memory, n=1)
    assert (read[0], read[:], len(read)) == ("ä" * 5, ("ä" * 5,), 1)
    kept = deepcopy(read)
    write_to_shared_memory(texts, 0, "", memory)
    assert (read[0], kept) == ("", ("ä" * 5,))
    with pytest.raises(DomainError, match=r"12 bytes, .* room for 10: add vector_kwargs"):
        write_to_shared_memory(texts, 0, "ä" * 6, memory)


def test_the_space_of_texts_is_one():
    texts = outwards.Texts()
    for other in (outwards.Texts(), pickle.loads(pickle.dumps(texts)), deepcopy(texts)):
        assert other == texts
    assert texts != gymnasium.spaces.Text(5)
    assert repr(texts) == "Texts()"
    samples = []
    for _ in range(2):
        texts.seed(3)
        samples.append(texts.sample())
    assert samples[0] == samples[1]
    assert samples[0] in texts


def test_a_copy_of_an_environment_goes_on_alone():
    env = gymnasium.make("llm_planning/Minecraft-v0", task="cook-meat")
    _, info = env.reset(seed=3)
    twin = deepcopy(env)
    for _ in range(3):
        first, second = env.step(info["advised"]), twin.step(info["advised"])
        assert first[:4] == second[:4]
        info = first[4]
    before = env.unwrapped.save()
    twin.step(info["advised"])
    assert env.unwrapped.save() == before
    twin.close()
    env.step(info["advised"])
    env.close()
    env.close()


def test_an_environment_ends_where_the_goal_is_reached_and_states_stay():
    class Steps(Domain):
        goal = "Stand on step 2."

        def start(self, seed):
            return {"at": 0}

        def describe(self, state):
            return f"step {state['at']}"

        def actions(self, state):
            return ["up", "jump"]

        def step(self, state, action, rng):
            if action == "up":
                return Step({"at": state["at"] + 1}, reward=0.5)
            state["at"] += 2
            return Step(state)

        def success(self, state):
            return state["at"] == 2

    env = to_gymnasium(Steps())
    env.reset(seed=0)
    assert env.step("up")[2] is False
    _, reward, ended, _, info = env.step("up")
    assert (reward, ended, info["success"]) == (0.5, True, True)
    env.reset(seed=0)
    with pytest.raises(DomainError, match=r"^Steps\.step changed the state"):
        env.step("jump")
