"""Plans carried out for real: refusals, texts, and the real world's own random stream."""

from random import Random

import pytest

from llm_planning.domain import Domain, Step
from llm_planning.execution.episode import (
    STOP,
    Episode,
    execute,
    milestone_lines,
    play,
    world_draws,
)
from llm_planning.trace import recording


class Stairs(Domain):
    """Up and down; a jump succeeds by chance, and from the third step on there is nothing to do."""

    goal = "Stand on the third step."

    def start(self, seed):
        return 0

    def describe(self, state):
        return f"step {state}"

    def actions(self, state):
        return ["up", "jump"] if state < 3 else []

    def step(self, state, action, rng):
        if action == "up":
            return Step(state + 1, reward=0.5, done=state == 2, text="you climb")
        if action == "jump":
            high = rng.random() < 0.5
            return Step(state + 2 * high, done=high and state >= 1, text="hop" if high else "oops")
        return Step(state, obstacle=f"there is no {action} here")


class Bell(Stairs):
    """The same stairs, won on the second step without an end."""

    def success(self, state):
        return state == 2


class Pit(Bell):
    def step(self, state, action, rng):
        return Step(7, done=True)


class There(Bell):
    """Begins where the goal is reached."""

    def start(self, seed):
        return 2


class AsyncStairs(Stairs):
    async def start(self, seed):
        return seed

    async def describe(self, state):
        return f"soon step {state}"

    async def step(self, state, action, rng):
        return super().step(state, action, rng)


async def test_a_plan_goes_on_after_what_the_world_refuses():
    done = await execute(Stairs(), ["up", "fly", "dig", "up"], seed=0)
    assert [str(move.action) for move in done.moves] == ["up", "fly", "dig", "up"]
    assert (done.success, done.ended, done.last) == (False, False, "step 2")
    assert done.metrics() == {
        "success_basis": "executed",
        "options_executed": 2,
        "first_failed": "fly",
        "first_obstacle": "there is no fly here",
        "reward": 1.0,
    }


@pytest.mark.parametrize(
    ("world", "plan", "moves", "success", "ended"),
    [
        (Stairs, ["up"] * 9, 3, True, True),
        (Bell, ["up"] * 3, 2, True, True),
        (Pit, ["up"] * 2, 1, False, True),
        (There, ["up"], 0, True, True),
        (Stairs, [], 0, False, False),
    ],
)
async def test_a_plan_ends_with_the_episode(world, plan, moves, success, ended):
    done = await execute(world(), plan, seed=0)
    assert (len(done.moves), done.success, done.ended) == (moves, success, ended)
    metrics = done.metrics()
    assert (metrics["first_failed"], metrics["first_obstacle"]) == (None, None)


async def test_methods_may_be_awaited_and_the_world_gets_the_seed():
    done = await execute(AsyncStairs(), ["up"], seed=1)
    assert (done.last, done.moves[0].step.text) == ("soon step 2", "you climb")


async def test_real_chance_is_the_documented_stream():
    for seed in range(8):
        draws = Random(f"world {seed}")
        assert world_draws(seed).random() == Random(f"world {seed}").random()
        done = await execute(Stairs(), ["jump"] * 3, seed=seed)
        expected = ["hop" if draws.random() < 0.5 else "oops" for _ in done.moves]
        assert [move.step.text for move in done.moves] == expected


async def test_nothing_can_be_done_after_the_end():
    episode = await Episode.begin(Stairs(), seed=0)
    for _ in range(3):
        await episode.act("up")
    with pytest.raises(RuntimeError, match="the episode is over, and up can no longer be done"):
        await episode.act("up")


async def test_what_happened_is_written_and_traced():
    with recording() as trace:
        done = await execute(Stairs(), ["up", "fly"], seed=0)
    refusal = "there is no fly here"
    moves = [
        {"action": "up", "reward": 0.5, "text": "you climb", "obstacle": None},
        {"action": "fly", "reward": 0.0, "text": "", "obstacle": refusal},
    ]
    assert done.to_json() == {"moves": moves, "success": False, "ended": False, "last": "step 1"}
    events = [{key: value for key, value in e.items() if key != "at"} for e in trace.events]
    assert events == [{"type": "execution", **move, "done": False} for move in moves]


async def test_who_plays_chooses_by_what_is_seen():
    looked = []

    async def see(step):
        looked.append(step)
        return f"seen {step.state}"

    async def choose(episode):
        assert episode.now == f"seen {episode.state}"
        return "up" if episode.state == 0 else STOP

    episode = await play(Stairs(), choose, seed=0, see=see)
    assert [(move.action, move.seen) for move in episode.moves] == [("up", "seen 0")]
    assert (episode.start, episode.now, episode.over) == (0, "seen 1", False)
    assert looked == [Step(0), episode.moves[0].step]
    # After the last move, `choose` is not called. Without `see`, the episode does not look.
    cut = await play(Stairs(), choose, seed=0, see=see, moves=0)
    assert (cut.moves, cut.now) == ([], "seen 0")
    assert (await execute(Stairs(), ["up"], seed=0)).moves[0].seen is None


class Landings(Stairs):
    """The stairs with two milestones; a jump may be done in part, and then leads one step up."""

    def milestones(self, state):
        return {"first_landing": state >= 1, "second_landing": state >= 4}

    def step(self, state, action, rng):
        if action == "jump":
            return Step(state + 1, obstacle="only one step high")
        return super().step(state, action, rng)


async def test_milestones_count_moves():
    done = await execute(Landings(), ["down", "up", "up"], seed=0)
    assert done.milestones == {"first_landing": 2, "second_landing": None}
    assert done.metrics()["reached_first_landing"] is True
    assert done.metrics()["steps_to_first_landing"] == 2
    assert done.metrics()["reached_second_landing"] is False
    assert done.metrics()["steps_to_second_landing"] is None
    assert done.to_json()["milestones"] == done.milestones
    assert milestone_lines(done.milestones) == [
        "moves to each milestone: first landing 2, second landing not reached"
    ]


async def test_a_milestone_of_the_start_takes_no_move():
    class Above(Landings):
        def start(self, seed):
            return 1

    assert (await execute(Above(), [], seed=0)).milestones["first_landing"] == 0


async def test_without_milestones_nothing_is_said_of_them():
    done = await execute(Stairs(), ["up"], seed=0)
    assert milestone_lines(done.milestones) == []
    assert "milestones" not in done.to_json()
    assert not any(name.startswith(("reached", "steps_to")) for name in done.metrics())


async def test_what_is_done_in_part_is_tried_again():
    done = await execute(Landings(), ["jump", "down", "up"], seed=0, tries=3)
    # Only the jump changes something in spite of an obstacle; "down" is refused, and left.
    assert [move.action for move in done.moves] == ["jump", "jump", "jump", "down", "up"]
