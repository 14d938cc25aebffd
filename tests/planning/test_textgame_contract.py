"""The contracts of `Interpreter` and `TextGame`, over all interpreters and ways to remember."""

import importlib.util
import random

import pytest
from bell_tower import bell_tower
from jericho_toy import write_toy
from textgame_toys import Numbers, Trails, follow, view, wander

from llm_planning.environments.textgame.game import Ending
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame, StateTable
from llm_planning.environments.textgame.textworld_interpreter import open_textworld
from llm_planning.environments.textgame.textworld_kinds import KINDS
from llm_planning.environments.textgame.transition_store import TransitionStore
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.worker_processes import end_workers

pytestmark = pytest.mark.filterwarnings("ignore:.*is not fully supported")


def remembered(interpreter, store=None, *, snapshots=1000, states=1000):
    game = SnapshotGame(StateTable(interpreter, limit=snapshots))
    return RememberedGame(game, TransitionMemory(store, limit=states))


PLAYERS = {
    "snapshots": lambda game, _: SnapshotGame(game),
    "few snapshots": lambda game, _: SnapshotGame(StateTable(game, limit=1)),
    "remembered": lambda game, _: remembered(game),
    "little remembered": lambda game, _: remembered(game, snapshots=1, states=2),
    "on disk": lambda game, path: remembered(game, TransitionStore(path)),
    "little on disk": lambda game, path: remembered(game, TransitionStore(path), states=2),
    "twice": lambda game, _: RememberedGame(remembered(game), TransitionMemory()),
}


def opened(name, folder):
    """The interpreter of a game; its package may be missing."""
    stories = {"bell tower 3": 3, "bell tower 5": 5}
    of_jericho = name == "jericho" or name in stories
    package = "textworld" if name in KINDS else "jericho" if of_jericho else None
    if package and importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed: pip install 'llm-planning[textgames]'")
    if name in KINDS:
        return open_textworld(name, level=None, seed=1)
    if name in stories:
        return JerichoInterpreter(bell_tower(stories[name]), state="exact")
    if name == "jericho":
        return JerichoInterpreter(write_toy(folder), state="exact")
    return {"numbers": Numbers, "trails": Trails, "trap-door": TrapDoor}[name]()


GAMES = (*KINDS, "trap-door", "jericho", "bell tower 3", "bell tower 5", "numbers")


@pytest.fixture(scope="module", params=GAMES)
def interpreter(request, tmp_path_factory):
    yield opened(request.param, tmp_path_factory.mktemp("game"))
    end_workers()


async def test_a_game_begins_and_is_looked_at(interpreter):
    first = interpreter.begin()
    assert first == interpreter.begin()
    assert (first.ending, first.reward) == (None, 0.0)
    assert first.text
    assert all(interpreter.look(first.state))
    assert interpreter.revision == interpreter.revision.strip() != ""


async def test_a_walkthrough_wins_all_points_by_valid_actions(interpreter):
    transition, score = interpreter.begin(), 0.0
    for action in interpreter.walkthrough:
        assert transition.ending is None
        assert action in await interpreter.valid_actions(transition.state)
        transition = interpreter.step(transition.state, action)
        score += transition.reward
    if interpreter.walkthrough:
        assert transition.ending is Ending.VICTORY
        assert score == interpreter.max_score > 0


async def test_everything_is_a_function_of_key_and_action(interpreter):
    """Walks, then the same states in another order, from the snapshots that came first and last."""
    draw = random.Random(7)
    views, edges, snapshots = {}, {}, {}

    async def visit(snapshot):
        key = interpreter.key(snapshot)
        seen = (interpreter.look(snapshot), await interpreter.valid_actions(snapshot))
        assert views.setdefault(key, seen) == seen
        assert list(seen[1]) == sorted(set(seen[1]))
        assert interpreter.key(snapshot) == key
        snapshots.setdefault(key, []).append(snapshot)
        return key, seen[1]

    def take(snapshot, key, action):
        reached = interpreter.step(snapshot, action)
        transition = (reached.text, reached.reward, reached.ending, interpreter.key(reached.state))
        assert edges.setdefault((key, action), transition) == transition
        return reached

    for _ in range(2):
        snapshot = interpreter.begin().state
        for _ in range(12):
            key, actions = await visit(snapshot)
            reached = take(snapshot, key, draw.choice(actions))
            if reached.ending is not None:
                break
            snapshot = reached.state
    again = [(key, states[i]) for key, states in snapshots.items() for i in (0, -1)]
    draw.shuffle(again)
    for key, snapshot in again[:24]:
        assert await visit(snapshot) == (key, views[key][-1])
        known = [action for state, action in edges if state == key]
        take(snapshot, key, draw.choice(known or views[key][-1]))


@pytest.fixture(scope="module", params=["numbers", "trails", "cooking", "jericho"])
async def played(request, tmp_path_factory):
    """An interpreter, a walk in its game, and the number of steps of the walk."""
    interpreter = opened(request.param, tmp_path_factory.mktemp("game"))
    steps = 10 if request.param in {"cooking", "jericho"} else 60
    yield interpreter, await wander(SnapshotGame(interpreter), seed=0, steps=steps), steps
    end_workers()


@pytest.mark.parametrize("name", PLAYERS)
async def test_every_player_meets_the_same_game(played, name, tmp_path):
    interpreter, transitions, steps = played
    # The second time, only the disk remembers; under a coarse name that may be another state.
    for _ in range(1 if isinstance(interpreter, Trails) else 2):
        game = PLAYERS[name](interpreter, tmp_path / "game.sqlite")
        assert (game.name, game.max_score) == (interpreter.name, interpreter.max_score)
        assert (game.walkthrough, game.objective) == (
            interpreter.walkthrough,
            interpreter.objective,
        )
        assert await wander(game, seed=0, steps=steps) == transitions
        start = await game.start()
        before = [start, *(here for *_, here in transitions)]
        for came, (*seen, action, here) in reversed(list(zip(before, transitions, strict=False))):
            state = start.state if came.ending else came.state
            assert game.knows(state)
            assert [*await view(game, state)] == seen
            assert await game.step(state, action) == here
        close(game)


def close(game):
    if isinstance(game, RememberedGame):
        game.memory.close()


@pytest.mark.parametrize("state", ["number 2", "number 13 (failure)"])
@pytest.mark.parametrize("name", PLAYERS)
async def test_states_that_were_not_reached_are_unknown(name, state, tmp_path):
    game = PLAYERS[name](Numbers(), tmp_path / "game.sqlite")
    assert not game.knows(state)
    for question in (game.look, game.actions, lambda state: game.step(state, "add")):
        with pytest.raises(KeyError) as unknown:
            await question(state)
        assert unknown.value.args == (state,)
    close(game)


@pytest.mark.parametrize("name", PLAYERS)
async def test_an_ended_game_is_refused_without_asking(name, tmp_path):
    for _ in range(2):
        toy = Numbers()
        game = PLAYERS[name](toy, tmp_path / "game.sqlite")
        won = await follow(game, "double", "add", "double", "double")
        lost = await follow(game, "double", "double", "double", "double")
        assert (won.ending, lost.ending) == (Ending.VICTORY, Ending.FAILURE)
        assert won.state == "number 12 (victory)"
        before = toy.asked.copy()
        for ended in (won, lost):
            assert await view(game, ended.state) == (("", ""), ())
            with pytest.raises(ValueError, match="has ended"):
                await game.step(ended.state, "add")
        assert toy.asked == before
        close(game)


@pytest.mark.parametrize("name", PLAYERS)
async def test_the_first_reward_is_the_score_with_which_a_game_begins(name, tmp_path):
    class Ahead(Numbers):
        first_score = 10.0

    game = PLAYERS[name](Ahead(), tmp_path / "game.sqlite")
    assert (await game.start()).reward == 10.0
    close(game)
