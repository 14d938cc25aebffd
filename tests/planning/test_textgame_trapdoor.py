"""The trap door: its bottleneck, checked over all of its states."""

from dataclasses import replace

import pytest

from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.trapdoor import BAIT, MOVES_IN_THE_DARK, TREASURE, TrapDoor

GAME = TrapDoor()


async def moves(scene):
    return [(a, GAME.step(scene, a)) for a in await GAME.valid_actions(scene)]


async def reachable(first, *, aside):
    """All scenes that can be reached without acting on the things in `aside`."""
    states, left = {first}, [first]
    while left:
        played = await moves(left.pop())
        after = {p.state for action, p in played if action.rpartition(" ")[2] not in aside}
        left.extend(after - states)
        states |= after
    return states


@pytest.fixture(scope="module")
async def scenes():
    aside = {"bread", "sword", "cupboard", "sand"}
    return await reachable(GAME.begin().state, aside=aside)


def play(*actions):
    played = GAME.begin()
    rewards = []
    for action in actions:
        played = GAME.step(played.state, action)
        rewards.append(played.reward)
    return played, rewards


async def test_the_first_room_is_figure_1_in_other_words():
    start = GAME.begin()
    assert await GAME.valid_actions(start.state) == (
        *("east", "open case", "open trap door"),
        *("take lantern", "take sword", "wind clock"),
    )
    rewards = {action: played.reward for action, played in await moves(start.state)}
    assert [action for action, reward in rewards.items() if reward] == ["open trap door"]
    assert rewards["open trap door"] == BAIT < TREASURE


def test_the_walkthrough_wins_every_point():
    played, rewards = play(*GAME.walkthrough)
    assert played.ending is Ending.VICTORY
    assert rewards == [0, 0, 25, 0, 0, 75]
    assert sum(rewards) == GAME.max_score == 100


async def test_the_bait_kills_after_any_actions(scenes):
    """From every state above the ground in which the lantern is not in hand."""
    baited = [s for s in scenes if s.room in {"living room"} and s.lantern != "hand"]
    assert len(baited) == 16
    for scene in baited:
        alive = {GAME.step(scene, "open trap door").state}
        for move in range(1, MOVES_IN_THE_DARK + 1):
            played = [p for fallen in alive for _, p in await moves(fallen)]
            assert {p.ending for p in played} == {
                Ending.FAILURE if move == MOVES_IN_THE_DARK else None
            }
            assert {p.reward for p in played} == {0.0}
            alive = {p.state for p in played}


@pytest.mark.parametrize("late", [0, 1, 2])
def test_light_in_time_saves(late):
    played, _ = play("take lantern", "open trap door", *["shout"] * late, "light lantern")
    assert played.ending is None
    assert played.state.moves_in_the_dark == 0
    assert "Cellar" in played.text


def test_light_too_late_does_not():
    played, rewards = play("take lantern", "open trap door", "shout", "north", "drop lantern")
    assert played.ending is Ending.FAILURE
    assert rewards == [0, 25, 0, 0, 0]


def test_a_lantern_left_behind_is_as_deadly():
    dark, _ = play("take lantern", "light lantern", "open trap door", "drop lantern", "north")
    assert "pitch dark" in dark.text
    dead, _ = play(
        *("take lantern", "light lantern", "open trap door", "drop lantern", "north"),
        *("south", "south", "south"),
    )
    assert dead.ending is Ending.FAILURE


async def test_all_states(scenes):
    assert len({GAME.key(scene) for scene in scenes}) == len(scenes)
    numbers = set()
    for scene in scenes:
        actions = await GAME.valid_actions(scene)
        assert list(actions) == sorted(set(actions))
        if scene.ending is not None:
            assert actions == ()
            continue
        numbers.add(len(actions))
        for action, played in await moves(scene):
            assert played.state != scene, (scene, action)
            worth = {"open trap door": BAIT, "take crown": TREASURE}.get(action, 0.0)
            assert played.reward == worth
            assert (played.ending is Ending.VICTORY) == (action == "take crown")
    assert min(numbers) >= 2
    assert max(numbers) <= 12
    # Neither points twice: below the ground there is no trap door to open.
    assert all(s.room not in {"living room", "kitchen"} for s in scenes if s.ending)


async def test_what_is_not_valid_takes_no_time():
    scene = GAME.begin().state
    dark = GAME.step(scene, "open trap door").state
    for action in ("open sesame", "take crown", "look", ""):
        for at in (scene, dark):
            played = GAME.step(at, action)
            assert (played.state, played.reward, played.ending) == (at, 0.0, None)


def test_look_and_inventory():
    scene = GAME.begin().state
    look, inventory = GAME.look(scene)
    assert "lantern" in look
    assert inventory == "You carry nothing."
    carried = replace(scene, lantern="hand", lit=True, bread="hand")
    look, inventory = GAME.look(carried)
    assert "lantern" not in look
    assert inventory == "You carry: bread, lantern (burning)."
