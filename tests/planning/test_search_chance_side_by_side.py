"""Worlds of chance while simulations run side by side: late answers, cancellations, failures."""

import asyncio
import random

import pytest
from search_worlds import (
    BY_STATE,
    UCT,
    ChanceWorld,
    exported,
    nodes_of,
    random_pause,
    scripted,
    unmarked,
)

from llm_planning.domain import Step
from llm_planning.search import (
    Node,
    edges_below,
    search,
)


@pytest.mark.parametrize("width", [2, 5])
async def test_a_descent_that_is_put_off_begins_again_with_the_same_draws(width):
    drawn = []

    def root_state(rng):
        drawn.append(rng.random())
        return "s"

    def steps(state, action, rng):
        return Step(state, observation=rng.randrange(2))

    world = ChanceWorld(steps, root=root_state, pause=random_pause(1))
    seeds = random.Random(3)
    await search(Node(), world, **UCT, simulations=40, width=width, rng=random.Random(3))
    launches = [random.Random(seeds.getrandbits(64)).random() for _ in range(40)]
    assert list(dict.fromkeys(drawn)) == launches
    assert len(drawn) > 40
    # The descent starts again at once: no other simulation begins in between.
    assert sorted(drawn, key=launches.index) == drawn


def mixed_steps(state, action, rng):
    """Action a draws, b is certain; half of what happens is seen."""
    if action == "b":
        return Step(state // 2, 0.5, observation=state % 2)
    state = rng.randrange(8)
    return Step(state, float(state), observation=state // 4, done=state == 7)


def mixed_world(pause):
    return ChanceWorld(
        mixed_steps,
        actions=lambda state: "ab" if state % 3 else "abc"[: 1 + state % 2],
        root=lambda rng: rng.randrange(1, 7),
        value=float,
        pause=pause,
    )


@pytest.mark.parametrize("expand_at", ["first", "second"])
@pytest.mark.parametrize("width", [1, 4, 8])
async def test_the_tree_of_a_world_of_chance_does_not_depend_on_delays(width, expand_at):
    trees = []
    for seed in range(3):
        root = Node()
        await search(
            root,
            mixed_world(random_pause(seed)),
            **UCT,
            simulations=80,
            width=width,
            max_depth=4,
            expand_at=expand_at,
            rng=random.Random(11),
        )
        assert unmarked(root)
        assert root.visits == 80
        for node in nodes_of(root):
            assert sum(edge.visits for edge in node.edges or ()) <= node.visits
        for _, edge in edges_below(root):
            assert edge.visits == sum(node.visits for node in edge.nodes)
        trees.append(exported(root))
    assert trees[0] == trees[1] == trees[2]


@pytest.mark.parametrize("expand_at", ["first", "second"])
@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("last", [3, 17, 40])
async def test_a_cancelled_search_of_a_world_of_chance_leaves_no_trace(width, expand_at, last):
    # The tree is the same as that of a search that had no more simulations to begin with: what
    # descents have added to nodes is taken off as well.
    root, whole = Node(), Node()
    others = asyncio.all_tasks()
    stuck = asyncio.Event()
    pause = random_pause(width)

    async def pause_and_stick(state):
        if root.visits >= last:
            stuck.set()
            await asyncio.Event().wait()
        await pause(state)

    options = {**UCT, "width": width, "max_depth": 4, "expand_at": expand_at}
    begun = search(
        root, mixed_world(pause_and_stick), **options, simulations=80, rng=random.Random(5)
    )
    running = asyncio.create_task(begun)
    async with asyncio.timeout(60):
        await stuck.wait()
    for _ in range(100):
        await asyncio.sleep(0)  # until nothing goes on
    assert root.searched
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() == others
    assert unmarked(root)
    assert last <= root.visits < 80
    await search(whole, mixed_world(None), **options, simulations=root.visits, rng=random.Random(5))
    assert exported(root) == exported(whole)
    await search(root, mixed_world(pause), **options, simulations=80, rng=random.Random(6))
    await search(whole, mixed_world(None), **options, simulations=80, rng=random.Random(6))
    assert exported(root) == exported(whole)


async def test_edges_that_a_cancelled_simulation_added_are_taken_off():
    # Three fly together: the first in x, the second in y, for which c is added to the root.
    stuck = asyncio.Event()

    async def pause(state):
        if state == "end":
            stuck.set()
            await asyncio.Event().wait()

    root = Node()
    world = ChanceWorld(
        lambda state, action, rng: Step("end", observation=state + action),
        actions=lambda state: BY_STATE.get(state, "a"),
        root=scripted("xxxyyyy"),
        pause=pause,
    )
    running = asyncio.create_task(search(root, world, **UCT, simulations=9, width=3))
    async with asyncio.timeout(60):
        await stuck.wait()
    assert [edge.action for edge in root.edges] == ["a", "b", "c"]
    assert [edge.in_flight for edge in root.edges] == [1, 1, 1]
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert [edge.action for edge in root.edges] == ["a", "b"]
    assert unmarked(root)


@pytest.mark.parametrize("width", [1, 3])
async def test_edges_that_a_failed_descent_added_are_taken_off(width):
    # 1 and 2 draw x, 3 draws y and adds c to the root, then its step fails.
    def steps(state, action, rng):
        if state == "y":
            raise OSError("the line is dead")
        return Step("end", done=True)

    root = Node()
    world = ChanceWorld(steps, actions=BY_STATE.get, root=scripted("xxxxxy" * 9))
    with pytest.raises(OSError, match="dead"):
        await search(root, world, **UCT, simulations=9, width=width)
    assert world.expanded == ["x", "y"]
    assert [edge.action for edge in root.edges] == ["a", "b"]
    assert unmarked(root)
