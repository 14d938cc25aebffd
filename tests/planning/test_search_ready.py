"""What a descent awaits before it selects: the search driver's `ready`."""

import asyncio
from functools import partial

import pytest

from llm_planning.search import Node, Rollout, discounted_returns, preorder, search


async def test_a_descent_waits_where_a_node_is_not_ready():
    # The hook is called with every node that is passed, the root first, and awaited before select.
    log = []

    def ready(node):
        if node.payload == "a":
            return None
        return wait(node)

    async def wait(node):
        log.append(("waits", node.payload))
        await asyncio.sleep(0)
        log.append(("ready", node.payload))

    def select(node):
        log.append(("select", node.payload))
        return node.children[0]

    async def simulate(leaf):
        return Rollout([leaf.add_child(leaf.payload + "a")])

    root = Node("")
    await search(
        root,
        select=select,
        simulate=simulate,
        returns=partial(discounted_returns, gamma=1.0),
        iterations=3,
        ready=ready,
    )
    # The second iteration passes the root, the third the root and "a", which needs no waiting.
    passes = [("waits", ""), ("ready", ""), ("select", "")]
    assert log == [*passes, *passes, ("select", "a")]


@pytest.mark.parametrize("width", [1, 3])
async def test_an_error_of_the_hook_ends_the_search(width):
    async def fail():
        await asyncio.sleep(0)
        msg = "no answer"
        raise OSError(msg)

    async def simulate(leaf):
        await asyncio.sleep(0)
        return Rollout([leaf.add_child(leaf.payload + letter) for letter in "ab"][:1])

    root = Node("")
    with pytest.raises(OSError, match="no answer"):
        await search(
            root,
            select=lambda node: node.children[0],
            simulate=simulate,
            returns=partial(discounted_returns, gamma=1.0),
            iterations=9,
            width=width,
            ready=lambda node: fail() if node.visits > 2 else None,
        )
    assert root.visits == 3
    assert all(node.in_flight == 0 and not node.pending for node in preorder(root))
