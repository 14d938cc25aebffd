"""The hooks of a search: `before_select`, `on_backup`, and the notes of evaluations."""

import asyncio
import random

import pytest
from search_worlds import CertainWorld, ChanceWorld, Words

from llm_planning.domain import Step
from llm_planning.search import Edge, Evaluation, Node, by_sums, search, select_by_uct


class Chain(CertainWorld):
    async def expand(self, node, walk):
        await asyncio.sleep(0)
        return [Edge("a"), Edge("b")]


FIRST = {"select": lambda node, edges: edges[0], "backup": by_sums(gamma=1.0)}


async def test_a_descent_waits_where_a_node_is_not_ready():
    # The hook is called with every node that is passed, the root first, and awaited before select.
    log = []

    def before_select(node, walk):
        if walk.state == "a":
            return None
        return wait(walk.state)

    async def wait(state):
        log.append(("waits", state))
        await asyncio.sleep(0)
        log.append(("ready", state))

    def select(node, edges):
        log.append(("select", "" if node is root else "a"))
        return edges[0]

    root = Node()
    await search(
        root,
        Chain(),
        select=select,
        backup=by_sums(gamma=1.0),
        simulations=3,
        before_select=before_select,
    )
    # The second simulation passes the root, the third the root and "a", which needs no waiting.
    passes = [("waits", ""), ("ready", ""), ("select", "")]
    assert log == [*passes, *passes, ("select", "a")]


@pytest.mark.parametrize("width", [1, 4])
async def test_what_a_failed_descent_changed_before_it_selected_is_put_back(width):
    # As in MC-DML: when memory has grown, the model asks anew for π and notes that.
    root = Node()

    async def renew(node):
        await asyncio.sleep(0)
        for edge in node.edges:
            edge.prior = root.visits
        node.memo = root.visits

    def select(node, edges):
        if root.visits > 2:
            raise OSError("no choice")
        return edges[0]

    hooks = []
    with pytest.raises(OSError, match="no choice"):
        await search(
            root,
            Chain(),
            select=select,
            backup=by_sums(gamma=1.0),
            simulations=9,
            width=width,
            before_select=lambda node, walk: renew(node),
            on_backup=lambda walk: hooks.append((root.memo, root.edges[0].prior)),
        )
    assert root.visits == 3
    assert (root.memo, [edge.prior for edge in root.edges]) == (hooks[-1][0], [hooks[-1][1]] * 2)
    assert root.memo < 3


@pytest.mark.parametrize("width", [1, 4])
async def test_notes_come_to_on_backup_in_the_order_of_launch(width):
    pauses = random.Random(0)
    made = []

    class Reflecting(Words):
        async def evaluate(self, node, walk):
            await asyncio.sleep(pauses.choice([0.0, 0.001, 0.002]))
            made.append(walk.state)
            return Evaluation(note=f"{walk.state!r} failed")

    notes = []
    world = Reflecting(lambda word: 0.0, "abc", 3)
    await search(
        Node(),
        world,
        select=select_by_uct(c=1.0),
        backup=by_sums(gamma=1.0),
        simulations=13,
        width=width,
        on_backup=lambda walk: notes.append(walk.note),
    )
    # Nothing is gained, so UCT takes what was tried least, in order: the root, its three letters,
    # then three below each.
    words = ["", "a", "b", "c", "aa", "ba", "ca", "ab", "bb", "cb", "ac", "bc", "cc"]
    assert sorted(made) == sorted(words)
    assert notes == [f"{word!r} failed" for word in words]
    assert (made == words) == (width == 1)


async def test_on_backup_sees_the_walk_and_the_tree_after_it():
    seen = []

    def on_backup(walk):
        rewards = [step.reward for step in walk.steps]
        actions = "".join(edge.action for edge in walk.edges)
        seen.append((actions, walk.launched, rewards, root.visits, root.value, walk.depth))

    root = Node()
    rewards = {"a": 1.0, "b": 2.0, "aa": 0.0, "ab": 3.0, "ba": 1.0, "bb": 0.0}
    await search(
        root, Words(rewards.__getitem__), **FIRST, simulations=2, width=2, on_backup=on_backup
    )
    # 1: the rollout from the root walks b (2) and ba (1). 2: the descent takes a, the rollout ab.
    assert seen == [("ba", 0, [2.0, 1.0], 1, 3.0, 2), ("ab", 1, [1.0, 3.0], 2, 3.5, 2)]


async def test_a_search_leaves_others_their_turn():
    # Evaluations that never wait must not keep the event loop to themselves.
    turns = []

    async def other():
        while True:
            turns.append(root.visits)
            await asyncio.sleep(0)

    root = Node()
    world = ChanceWorld(lambda state, action, rng: Step(state + action))
    beside = asyncio.create_task(other())
    await search(root, world, **(FIRST | {"select": select_by_uct(c=1.0)}), simulations=2_000)
    beside.cancel()
    assert len(set(turns)) > 2


async def test_a_search_that_goes_on_does_not_repeat_its_draws():
    found = []

    class Drawing(CertainWorld):
        async def evaluate(self, node, walk):
            return Evaluation(note=walk.rng.random())

    async def drawn(root):
        found.clear()
        await search(
            root, Drawing(), **FIRST, simulations=5, on_backup=lambda walk: found.append(walk.note)
        )
        return tuple(found)

    root = Node()
    first, second = await drawn(root), await drawn(root)
    assert len({*first, *second}) == 10
    # The seed is N(root).
    assert await drawn(Node()) == first
    later = Node()
    later.visits = 5
    assert await drawn(later) == second
