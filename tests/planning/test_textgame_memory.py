"""The transition memory: the same answers, with fewer questions to the game."""

import asyncio

import pytest
from textgame_toys import Numbers, Parities, follow, kept, view, wander

from llm_planning.environments.textgame.game import (
    GameSeconds,
    TextGameError,
)
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.transition_store import TransitionStore


async def test_what_was_asked_once_is_not_asked_again():
    toy = Numbers()
    memory = TransitionMemory()
    plain = await wander(SnapshotGame(Numbers()), seed=1, steps=300)
    first = RememberedGame(SnapshotGame(toy), memory)
    assert await wander(first, seed=1, steps=300) == plain
    # 11 numbers go on, with 2 actions at odd and 3 at even ones.
    assert toy.asked == {"begin": 1, "step": 27, "look": 11, "actions": 11}
    second = RememberedGame(SnapshotGame(toy), memory)
    assert await wander(second, seed=2, steps=300) == await wander(
        SnapshotGame(Numbers()), seed=2, steps=300
    )
    assert toy.asked["step"] == 27
    assert second.seconds == GameSeconds()
    assert first.seconds.steps == 27


async def test_known_answers_do_not_suspend():
    game = RememberedGame(SnapshotGame(Numbers()), TransitionMemory())
    await wander(game, seed=0, steps=300)
    for question in (
        game.actions("number 4"),
        game.look("number 4"),
        game.step("number 4", "double"),
    ):
        with pytest.raises(StopIteration) as answered:
            question.send(None)
        assert answered.value.value is not None


async def test_what_is_asked_for_at_one_moment_is_found_out_once():
    toy = Numbers()
    toy.waiting = asyncio.Event()
    memory = TransitionMemory()
    players = [RememberedGame(SnapshotGame(toy), memory) for _ in range(3)]
    start = await players[0].start()
    asked = [asyncio.create_task(view(player, start.state)) for player in players]
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 1
    # The player who asked first is cancelled, and another one takes over.
    asked[0].cancel()
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 2
    toy.waiting.set()
    first, second = await asyncio.gather(*asked[1:])
    # Who waits for another's question waits all the same.
    assert all(0.005 < player.seconds.valid_actions.seconds < 10.0 for player in players)
    assert first == second == (("You see 1.", "nothing"), ("add", "double"))
    assert first[1] is await players[0].actions(start.state)
    assert (toy.asked["actions"], toy.asked["look"]) == (2, 1)
    assert memory.computing == {}
    assert asked[0].cancelled()


async def test_an_error_reaches_everybody_and_is_not_kept():
    class Broken(Numbers):
        async def valid_actions(self, snapshot):
            actions = await super().valid_actions(snapshot)
            if self.asked["actions"] < 3:
                raise TextGameError("no actions today")
            return actions

    game = RememberedGame(SnapshotGame(Broken()), TransitionMemory())
    start = await game.start()
    failed = await asyncio.gather(
        view(game, start.state), view(game, start.state), return_exceptions=True
    )
    assert [str(error) for error in failed] == ["no actions today"] * 2
    assert await game.actions(start.state) == ("add", "double")


@pytest.mark.parametrize("kept", [None, "numbers.sqlite"])
async def test_the_memory_is_bounded(kept, tmp_path):
    store = TransitionStore(tmp_path / kept) if kept else None
    memory = TransitionMemory(store, limit=4)
    toy = Numbers()
    game = RememberedGame(SnapshotGame(toy), memory)
    for seed in range(3):
        expected = await wander(SnapshotGame(Numbers()), seed=seed, steps=200)
        assert await wander(game, seed=seed, steps=200) == expected
        assert len(memory.states) <= 4
    # What was dropped is on disk, or is played again.
    assert (toy.asked["actions"] == 11) == (kept is not None)
    memory.close()


async def test_a_game_that_goes_another_way_than_the_disk_knows_is_an_error(tmp_path):
    class Slipping(Numbers):
        def key(self, snapshot):
            return f"{super().key(snapshot)}{'0' if snapshot[0] > 1 else ''}"

    path = tmp_path / "numbers.sqlite"
    with kept(path) as game:
        await follow(game, "add", "add")
    message = "numbers does not repeat itself: 'add' led"
    with kept(path, Slipping()) as game, pytest.raises(TextGameError, match=message):
        await game.look("number 3")


async def test_of_a_state_that_the_game_alone_knows_nothing_is_kept_on_disk(tmp_path):
    """No later run could reach such a state from the disk; transitions of known states are kept."""
    inner = SnapshotGame(Numbers())
    await follow(inner, "add", "add")
    with kept(tmp_path / "numbers.sqlite", game=inner) as game:
        memory, store = game.memory, game.memory._store
        assert await view(game, "number 3") == (("You see 3.", "nothing"), ("add", "double"))
        assert (await game.step("number 3", "add")).state == "number 4"
        memory.save()
        known = [store.load(f"number {number}") is not None for number in (1, 3, 4)]
        assert known == [True, False, False]
        # Now a way is known.
        await follow(game, "double", "double", "add")
        memory.save()
        assert store.load("number 4").depth == 2


async def test_valid_actions_are_computed_once_for_each_situation_and_are_those_of_each_state():
    toy, plain = Parities(), Numbers()
    game = RememberedGame(SnapshotGame(toy), TransitionMemory())
    for seed in range(3):
        expected = await wander(SnapshotGame(plain), seed=seed, steps=200)
        assert await wander(game, seed=seed, steps=200) == expected
    assert len(game.memory.states) > 10
    assert toy.asked["actions"] == 2


async def test_players_who_ask_in_the_same_situation_wait_for_one_answer():
    toy = Parities()
    game = RememberedGame(SnapshotGame(toy), TransitionMemory())
    two = (await follow(game, "add")).state
    four = (await follow(game, "add", "double")).state
    toy.waiting = asyncio.Event()
    asking = [asyncio.create_task(game.actions(state)) for state in (two, four, two)]
    await asyncio.sleep(0.01)
    toy.waiting.set()
    assert await asyncio.gather(*asking) == [("add", "double", "wait")] * 3
    assert toy.asked["actions"] == 1


async def test_situations_are_on_disk(tmp_path):
    path = tmp_path / "parities.sqlite"
    toy = Parities()
    with kept(path, toy) as game:
        await game.actions((await follow(game, "add")).state)
    with kept(path, toy) as game:
        eight = await follow(game, "add", "double", "double")
        assert await game.actions(eight.state) == ("add", "double", "wait")
    assert toy.asked["actions"] == 1
