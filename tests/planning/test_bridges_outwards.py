"""Domains of this project as environments of Gymnasium."""

import gymnasium
import pytest
from any_domain_worlds import AsyncCorridor, Corridor
from gymnasium.envs import registration
from gymnasium.utils.env_checker import check_env

from llm_planning.domain import DomainError
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
