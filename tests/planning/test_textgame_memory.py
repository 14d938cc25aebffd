"""The transition memory: the same game, with less asked of it."""

import asyncio

import pytest
from textgame_toys import Numbers, Trails, follow, view, wander

from llm_planning.environments.textgame.game import (
    GameSeconds,
    TextGameError,
)
from llm_planning.environments.textgame.interpreted import InterpretedGame, Snapshots
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.transition_store import (
    TransitionStore,
)


async def test_what_was_asked_once_is_not_asked_again():
    toy = Numbers()
    memory = TransitionMemory()
    plain = await wander(InterpretedGame(Numbers()), seed=1, steps=300)
    first = RememberedGame(InterpretedGame(toy), memory)
    assert await wander(first, seed=1, steps=300) == plain
    # 11 numbers go on, with 2 actions at odd and 3 at even ones.
    assert toy.asked == {"begin": 1, "step": 27, "look": 11, "actions": 11}
    second = RememberedGame(InterpretedGame(toy), memory)
    assert await wander(second, seed=2, steps=300) == await wander(
        InterpretedGame(Numbers()), seed=2, steps=300
    )
    assert toy.asked["step"] == 27
    assert second.seconds == GameSeconds()
    assert first.seconds.steps == 27


async def test_known_answers_do_not_suspend():
    game = RememberedGame(InterpretedGame(Numbers()), TransitionMemory())
    await wander(game, seed=0, steps=300)
    for question in (
        game.actions("number 4"),
        game.look("number 4"),
        game.step("number 4", "double"),
    ):
        with pytest.raises(StopIteration) as answered:
            question.send(None)
        assert answered.value.value is not None


async def test_an_ended_game_is_refused_by_its_memory_too(tmp_path):
    path = tmp_path / "numbers.sqlite"
    for _ in range(2):
        memory = TransitionMemory(TransitionStore(path))
        toy = Numbers()
        game = RememberedGame(InterpretedGame(toy), memory)
        won = await follow(game, "double", "add", "double", "double")
        assert won.state == "number 12 (victory)"
        assert await view(game, won.state) == (("", ""), ())
        with pytest.raises(ValueError, match="has ended"):
            await game.step(won.state, "add")
        assert toy.asked["look"] == 0
        memory.close()
    assert toy.asked["step"] == 0


async def test_what_is_asked_for_at_one_moment_is_found_out_once():
    toy = Numbers()
    toy.waiting = asyncio.Event()
    memory = TransitionMemory()
    players = [RememberedGame(InterpretedGame(toy), memory) for _ in range(3)]
    start = await players[0].start()
    asked = [asyncio.create_task(view(player, start.state)) for player in players]
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 1
    # Whoever asked first goes away; one of the others takes over.
    asked[0].cancel()
    await asyncio.sleep(0.01)
    assert toy.asked["actions"] == 2
    toy.waiting.set()
    one, two = await asyncio.gather(*asked[1:])
    # Who waits for another's question waits all the same.
    assert all(0.005 < player.seconds.valid_actions.seconds < 10.0 for player in players)
    assert one == two == (("You see 1.", "nothing"), ("add", "double"))
    assert one[1] is await players[0].actions(start.state)
    assert (toy.asked["actions"], toy.asked["look"]) == (2, 1)
    assert memory.computing == {}
    assert asked[0].cancelled()


async def test_an_error_reaches_everybody_and_is_not_kept():
    class Broken(Numbers):
        async def valid_actions(self, snapshot):
            found = await super().valid_actions(snapshot)
            if self.asked["actions"] < 3:
                raise TextGameError("no actions today")
            return found

    game = RememberedGame(InterpretedGame(Broken()), TransitionMemory())
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
    game = RememberedGame(InterpretedGame(toy), memory)
    for seed in range(3):
        expected = await wander(InterpretedGame(Numbers()), seed=seed, steps=200)
        assert await wander(game, seed=seed, steps=200) == expected
        assert len(memory.records) <= 4
    # What was dropped is on disk, or is played again.
    assert (toy.asked["actions"] == 11) == (kept is not None)
    memory.close()


async def test_coarse_states_are_the_same_with_and_without_memory():
    """The first way to a state speaks for it in both, however few snapshots and states are kept."""
    told = []
    for limit in (1, 1000):
        plain = InterpretedGame(Snapshots(Trails(), limit=limit))
        kept = RememberedGame(
            InterpretedGame(Snapshots(Trails(), limit=limit)), TransitionMemory(limit=limit + 1)
        )
        told += [[await wander(game, seed=s, steps=60) for s in range(3)] for game in (plain, kept)]
    assert told[0] == told[1] == told[2] == told[3]
