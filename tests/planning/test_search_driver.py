"""The driver where nothing is drawn: golden trees, several simulations in flight, failures."""

import asyncio
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import (
    CertainWorld,
    Words,
    backed_up,
    exported,
    nodes_of,
    random_pause,
    reward_by_word,
    unmarked,
)

from llm_planning.search import (
    Edge,
    Leaf,
    Node,
    Step,
    best_path,
    by_means,
    by_sums,
    edges_below,
    forest,
    format_tree,
    search,
    select_by_ucb,
)

HALVED = {"select": select_by_ucb(c=5.0), "backup": by_sums(gamma=0.5)}

GOLDEN_REWARDS = {"a": 1.0, "b": 2.0, "aa": 4.0, "ab": 0.0, "ba": 1.0, "bb": 0.0}


async def golden_search(simulations, *, width=1, first_play=1.0):
    root = Node()
    world = Words(GOLDEN_REWARDS.__getitem__, first_play=first_play)
    await search(root, world, **HALVED, simulations=simulations, width=width)
    return root


async def test_golden_tree_of_three_simulations():
    # γ = 0.5, c = 5, first play at r̂, depth limit 2.
    # 1. The root is expanded into a (1) and b (2); the rollout walks b, expands it into ba (1) and
    #    bb (0), and walks ba. Rewards [2, 1]: R_0 = 2 + 0.5 · 1 = 2.5, R_1 = 1.
    root = await golden_search(1)
    assert format_tree(root) == (
        "ROOT (N:1, Q:2.500)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:1, Q:2.500)\n"
        "2.1. a (N:1, Q:1.000)\n"
        "2.2. b (N:0, Q:0.000)"
    )
    # 2. N(τ) = 1 and ln 1 = 0 at the root and at b: b (2.5 > 1), then ba (1 > 0), which is at the
    #    depth limit. The same rewards again leave every Q as it is.
    root = await golden_search(2)
    assert format_tree(root) == (
        "ROOT (N:2, Q:2.500)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:2, Q:2.500)\n"
        "2.1. a (N:2, Q:1.000)\n"
        "2.2. b (N:0, Q:0.000)"
    )
    # 3. N(τ) = 2, ln 2 = 0.693147, 5 √0.693147 = 4.162773:
    #    a: 1.0 + 4.162773      = 5.162773
    #    b: 2.5 + 4.162773 / √3 = 4.903378
    #    so a, expanded into aa (4) and ab (0), and aa. Rewards [1, 4]: R_0 = 1 + 0.5 · 4 = 3,
    #    R_1 = 4. At the root, Q = 2.5 + (3 - 2.5) / 3 = 2.666667.
    root = await golden_search(3)
    assert format_tree(root) == (
        "ROOT (N:3, Q:2.667)\n"
        "1. a (N:1, Q:3.000)\n"
        "1.1. a (N:1, Q:4.000)\n"
        "1.2. b (N:0, Q:0.000)\n"
        "2. b (N:2, Q:2.500)\n"
        "2.1. a (N:2, Q:1.000)\n"
        "2.2. b (N:0, Q:0.000)"
    )
    assert [edge.step.state for edge in best_path(root)] == ["a", "aa"]


async def test_golden_tree_with_first_play_at_zero():
    # As above, but in simulation 3: a: 0 + 4.162773 against b: 4.903378, so b a third time.
    # Then N(b) = 2: ba: 1 + 4.162773 / √3 = 3.403378 against bb: 0 + 4.162773, so bb (reward 0).
    # Rewards [2, 0]: R_0 = 2, R_1 = 0; Q(b) = 2.5 + (2 - 2.5) / 3 = 2.333333.
    root = await golden_search(3, first_play=0.0)
    assert format_tree(root) == (
        "ROOT (N:3, Q:2.333)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:3, Q:2.333)\n"
        "2.1. a (N:2, Q:1.000)\n"
        "2.2. b (N:1, Q:0.000)"
    )


async def test_a_search_goes_on_where_it_stopped():
    world = Words(GOLDEN_REWARDS.__getitem__)
    root = Node()
    for _ in range(3):
        await search(root, world, **HALVED, simulations=1)
    assert exported(root) == exported(await golden_search(3))


def counts(node, word=""):
    """Word -> visits in flight of the edge that ends it and of its node, whether it is built."""
    yield word, (node.in_flight, node.pending)
    for edge in node.edges or ():
        here = word + edge.action
        yield f"-{here}", edge.in_flight
        if edge.node is not None:
            yield from counts(edge.node, here)


async def test_counts_in_flight_while_two_simulations_fly():
    # Width 2. Simulation 2 cannot start before the root is built. Once 1 is backed up (see the
    # golden tree), 2 and 3 fly together: 2 walks b, ba; then N + O = 2 at the root:
    #    a: 1.0 + 4.162773            = 5.162773
    #    b: 2.5 + 4.162773 / √(2 + 1) = 4.903378
    # so 3 walks a, although the completed visits alone (N = 1, no bonus) would send it to b.
    seen = {}
    gate = asyncio.Event()

    class Watched(Words):
        async def evaluate(self, node, walk):
            leaf = walk.state
            if leaf == "ba":
                seen[leaf] = dict(counts(root))
                await gate.wait()
            found = await super().evaluate(node, walk)
            if leaf == "a":
                # Simulation 3 is done before simulation 2, and has to wait for it.
                assert (root.visits, node.visits) == (1, 0)
                gate.set()
            return found

        async def expand(self, node, walk):
            seen[walk.state] = dict(counts(root))
            return await super().expand(node, walk)

    root = Node()
    backups = []

    def on_backup(walk):
        backups.append((root.visits, walk.edges[0].action, [e.visits for e in root.edges]))

    world = Watched(GOLDEN_REWARDS.__getitem__)
    await search(root, world, **HALVED, simulations=3, width=2, on_backup=on_backup)
    assert seen[""] == {"": (1, True)}
    # Both are launched before either runs, so each sees the marks of both.
    in_flight = {
        "": (2, False),
        "-a": 1,
        "a": (1, True),
        "-b": 1,
        "b": (1, False),
        "-ba": 1,
        "ba": (1, True),
        "-bb": 0,
    }
    assert seen["a"] == in_flight
    assert seen["ba"] == in_flight
    # Backed up in the order of launch: simulation 2 (b) before simulation 3 (a).
    assert backups == [(1, "b", [0, 1]), (2, "b", [0, 2]), (3, "a", [1, 2])]
    assert unmarked(root)
    assert exported(root) == exported(await golden_search(3))


async def test_what_is_being_built_is_out_of_sight():
    # Simulations 2 (b) and 3 (c) fly together. When 2 is backed up, c has an edge already, but its
    # simulation goes on: simulation 4 comes to c, and must neither expand it nor pass through it.
    root = Node()
    gate = asyncio.Event()
    expanded = []
    turns = iter("bcccc")

    def select(node, edges):
        if node is not root:
            return edges[0]
        if (letter := next(turns)) == "c" and root.visits == 2:
            gate.set()
        return edges["abc".index(letter)]

    class World(CertainWorld):
        async def expand(self, node, walk):
            expanded.append((walk.state, root.visits))
            return [Edge(letter) for letter in ("abc" if node is root else "a")]

        async def evaluate(self, node, walk):
            edge = node.edges[0]
            edge.step = Step(walk.state + "a")
            if walk.state == "c":
                await gate.wait()
            return Leaf([edge])

    async with asyncio.timeout(5):
        await search(
            root, World(), select=select, backup=by_sums(gamma=1.0), simulations=4, width=2
        )
    assert expanded == [("", 0), ("b", 1), ("c", 1), ("ca", 3)]
    assert next(turns) == "c"  # b, c, c in vain, c: one turn of five is left


@pytest.mark.parametrize("width", [1, 4, 8])
async def test_the_tree_does_not_depend_on_how_long_answers_take(width):
    trees = []
    expanded = []
    for seed in range(4):
        root = Node()
        world = Words(reward_by_word, "abc", 5, random_pause(seed))
        await search(root, world, **HALVED, simulations=30, width=width)
        assert unmarked(root)
        assert root.visits == 30
        # Never expanded twice.
        assert len(world.expanded) == len(set(world.expanded))
        assert world.most_running <= width
        assert (world.most_running > 1) == (width > 1)
        trees.append(exported(root))
        expanded.append(world.expanded)
    assert all(tree == trees[0] for tree in trees)
    if width > 1:
        # The delays did change the order in which the work was done.
        assert any(order != expanded[0] for order in expanded)


async def test_width_one_is_the_sequential_algorithm():
    """The paper's loop, written once more without the driver."""
    select = HALVED["select"]
    expected = Node()
    world = Words(reward_by_word, "abc", 5)
    for _ in range(40):
        node, nodes, walked = expected, [expected], []
        while node.edges:
            walked.append(select(node, node.edges))
            node = walked[-1].follow(walked[-1].step)
            nodes.append(node)
        while len(walked) < 5:
            word = "".join(edge.action for edge in walked)
            node.edges = await world.edges_of(word)
            walked.append(max(node.edges, key=lambda edge: edge.step.reward))
            node = walked[-1].follow(walked[-1].step)
            nodes.append(node)
        for node in nodes:
            node.visits += 1
        for i, edge in enumerate(walked):
            r_i = sum(0.5**j * later.step.reward for j, later in enumerate(walked[i:]))
            edge.visits += 1
            edge.value += (r_i - edge.value) / edge.visits
    root = Node()
    await search(root, Words(reward_by_word, "abc", 5), **HALVED, simulations=40)
    for (depth, ours), (other, theirs) in zip(
        edges_below(root), edges_below(expected), strict=True
    ):
        assert (depth, ours.action, ours.visits) == (other, theirs.action, theirs.visits)
        assert ours.value == pytest.approx(theirs.value)
    for ours, theirs in zip(nodes_of(root), nodes_of(expected), strict=True):
        assert ours.visits == theirs.visits


async def test_width_one_makes_no_tasks():
    tasks = set()

    class World(CertainWorld):
        async def evaluate(self, node, walk):
            tasks.add(asyncio.current_task())
            await asyncio.sleep(0)
            return Leaf(tail=1.0)

    await search(Node(), World(), **HALVED, simulations=3)
    assert tasks == {asyncio.current_task()}


async def test_a_dead_end_is_evaluated_at_every_visit():
    tails = iter([1.0, 4.0])

    class World(CertainWorld):
        async def evaluate(self, node, walk):
            return Leaf(tail=next(tails))

    root = Node()
    await search(root, World(), **HALVED, simulations=2, width=3)
    assert (root.visits, root.value) == (2, 2.5)


async def test_a_tail_counts_behind_the_last_edge():
    class World(CertainWorld):
        async def evaluate(self, node, walk):
            node.edges = [Edge("a", step=Step("a", reward=1.0))]
            return Leaf(node.edges, tail=4.0)

    root = Node()
    await search(root, World(), **HALVED, simulations=1)
    # R_0 = 1 + 0.5 · 4
    assert (root.value, root.edges[0].value) == (3.0, 3.0)


async def test_an_evaluation_walks_certain_steps_only():
    class World(CertainWorld):
        async def evaluate(self, node, walk):
            node.edges = [Edge("a")]
            return Leaf(node.edges)

    root = Node()
    with pytest.raises(RuntimeError, match=r"Edge\('a', N=0.*has no certain step"):
        await search(root, World(), **HALVED, simulations=1)
    assert (root.edges, root.visits) == (None, 0)


class AnswerError(Exception):
    pass


@pytest.mark.parametrize("width", [1, 4])
async def test_an_error_leaves_the_tree_as_the_last_backup_left_it(width):
    cancelled = []
    snapshots = [backed_up(Node())]
    cause = ValueError("no such item")

    async def failing_pause(word):
        # From the sixth backup on, a rollout that gets to depth 3 fails half-way.
        await asyncio.sleep(0)
        if len(snapshots) > 6 and len(word) == 3:
            raise AnswerError(word) from cause
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            cancelled.append(word)
            raise

    root = Node()
    world = Words(reward_by_word, "abc", 5, failing_pause)
    with pytest.raises(AnswerError) as caught:
        await search(
            root,
            world,
            **HALVED,
            simulations=50,
            width=width,
            on_backup=lambda walk: snapshots.append(backed_up(root)),
        )
    assert caught.value.__cause__ is cause
    assert world.running == 0
    assert bool(cancelled) == (width > 1)
    assert unmarked(root)
    assert 6 <= root.visits < 50
    assert backed_up(root) == snapshots[-1]

    world.pause = None
    await search(root, world, **HALVED, simulations=50 - root.visits, width=width)
    assert root.visits == 50
    if width == 1:
        whole = Node()
        await search(whole, Words(reward_by_word, "abc", 5), **HALVED, simulations=50)
        assert exported(root) == exported(whole)


async def test_the_first_error_does_not_wait_for_older_simulations():
    class World(CertainWorld):
        async def expand(self, node, walk):
            if walk.state == "a":
                await asyncio.Event().wait()
            if walk.state == "b":
                msg = "b has no answer"
                raise AnswerError(msg)
            return [Edge("a"), Edge("b")]

    root = Node()
    async with asyncio.timeout(5):
        with pytest.raises(AnswerError, match="b has no answer"):
            await search(root, World(), **HALVED, simulations=9, width=2)
    assert unmarked(root)
    assert root.visits == 1


@pytest.mark.parametrize("width", [1, 4])
async def test_cancelling_a_search_cancels_its_simulations(width):
    snapshots = []
    root = Node()
    world = Words(reward_by_word, "abc", 5)
    stuck = asyncio.Event()

    async def endless_pause(word):
        if root.visits >= 7:
            stuck.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    world.pause = endless_pause
    running = asyncio.create_task(
        search(
            root,
            world,
            **HALVED,
            simulations=50,
            width=width,
            on_backup=lambda walk: snapshots.append(backed_up(root)),
        )
    )
    async with asyncio.timeout(5):
        await stuck.wait()
    assert world.running > 0
    assert root.searched
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert world.running == 0
    assert unmarked(root)
    assert backed_up(root) == snapshots[-1]


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("fails", ["draw_root", "before_select", "select", "backup", "on_backup"])
async def test_an_error_of_any_part_ends_the_search(fails, width):
    root = Node()

    def failing_at_three(part):
        def failing(*given):
            if part == fails and root.visits >= 3:
                raise AnswerError(part)
            return parts[part](*given)

        return failing

    world = Words(reward_by_word, "abc", 3, random_pause(0))
    parts = {
        "draw_root": world.draw_root,
        "before_select": lambda node, walk: None,
        "select": HALVED["select"],
        "backup": HALVED["backup"],
        "on_backup": lambda walk: None,
    }
    hooks = {part: failing_at_three(part) for part in parts}
    world.draw_root = hooks.pop("draw_root")
    with pytest.raises(AnswerError, match=fails):
        await search(root, world, **hooks, simulations=9, width=width)
    assert root.visits == 3
    assert unmarked(root)
    assert world.running == 0


async def test_a_tree_is_searched_by_one_search_at_a_time():
    release = asyncio.Event()

    class World(CertainWorld):
        async def evaluate(self, node, walk):
            await release.wait()
            return Leaf()

    root = Node()
    first = asyncio.create_task(search(root, World(), **HALVED, simulations=1))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="searched already"):
        await search(root, World(), **HALVED, simulations=1)
    release.set()
    await first
    assert root.visits == 1


async def test_a_search_whose_descent_waits_has_its_tree_as_well():
    # Between two simulations of width 1 nothing is in flight; the search goes on all the same.
    waiting, release = asyncio.Event(), asyncio.Event()

    async def before_select():
        waiting.set()
        await release.wait()

    root = Node()
    world = Words(GOLDEN_REWARDS.__getitem__)
    waits = {"before_select": lambda node, walk: before_select()}
    first = asyncio.create_task(search(root, world, **HALVED, **waits, simulations=2))
    await waiting.wait()
    assert root.visits == 1
    with pytest.raises(RuntimeError, match="searched already"):
        await search(root, world, **HALVED, simulations=1)
    release.set()
    await first
    assert root.visits == 2


async def test_width_must_be_positive():
    with pytest.raises(ValueError, match="width is 0"):
        await search(Node(), CertainWorld(), **HALVED, simulations=1, width=0)


@st.composite
def drawn_searches(draw):
    return {
        "options": "abc"[: draw(st.integers(1, 3))],
        "depth_limit": draw(st.integers(0, 4)),
        "width": draw(st.integers(1, 5)),
        "simulations": draw(st.integers(0, 25)),
        "c": draw(st.floats(0, 9)),
        "first_play": draw(st.sampled_from([0.0, 1.0])),
        "backup": draw(st.sampled_from([by_sums, by_means])),
        "gamma": draw(st.floats(0, 1)),
        "seed": draw(st.integers(0, 10_000)),
    }


def returns(rewards, gamma, backup):
    """R_i by the double sum of the definition."""
    m = len(rewards)
    for i in range(m):
        total = sum(gamma ** (j - i) * rewards[j] for j in range(i, m))
        weight = sum(gamma ** (j - i) for j in range(i, m))
        yield total if backup is by_sums else total / weight


@settings(max_examples=60, deadline=None)
@given(drawn_searches())
def test_statistics_of_any_search(drawn):
    async def pause(word):
        await asyncio.sleep(0)

    world = Words(
        lambda word: reward_by_word(f"{drawn['seed']}{word}"),
        drawn["options"],
        drawn["depth_limit"],
        pause,
        drawn["first_play"],
    )
    passed, credited = {}, {}

    def on_backup(walk):
        rewards = [step.reward for step in walk.steps]
        for node in walk.nodes:
            passed[node] = passed.get(node, 0) + 1
        found = list(returns(rewards, drawn["gamma"], drawn["backup"]))
        for edge, r_i in zip(walk.edges, found, strict=True):
            credited.setdefault(edge, []).append(r_i)
        credited.setdefault(root, []).append(found[0] if found else walk.tail)

    root = Node()
    asyncio.run(
        search(
            root,
            world,
            select=select_by_ucb(c=drawn["c"]),
            backup=drawn["backup"](gamma=drawn["gamma"]),
            simulations=drawn["simulations"],
            width=drawn["width"],
            on_backup=on_backup,
        )
    )
    assert root.visits == drawn["simulations"]
    assert unmarked(root)
    for node in nodes_of(root):
        assert node.visits == passed.get(node, 0)
        assert sum(edge.visits for edge in node.edges or ()) <= node.visits
    for one in [root, *(edge for _, edge in edges_below(root))]:
        found = credited.get(one, [])
        assert one.visits == len(found)
        mean = sum(found) / len(found) if found else 0.0
        assert one.value == pytest.approx(mean, abs=1e-9)


async def test_forest_returns_results_in_order_and_bounds_the_crowd():
    running = most_running = drawn = finished = 0

    async def job(i):
        nonlocal running, most_running, finished
        running += 1
        most_running = max(most_running, running)
        await asyncio.sleep(0.001 * (i % 3))
        running -= 1
        finished += 1
        return i * i

    def jobs():
        nonlocal drawn
        for i in range(12):
            assert drawn <= finished + 3  # drawn when its turn comes, not before
            drawn += 1
            yield partial(job, i)

    assert await forest(jobs(), limit=4) == [i * i for i in range(12)]
    assert most_running == 4


async def test_forest_runs_searches_side_by_side():
    def words(name, pause=None):
        return Words(lambda word: reward_by_word(name + word), "abc", 4, pause)

    alone = []
    for name in ("x", "y", "z"):
        root = Node()
        await search(root, words(name), **HALVED, simulations=12, width=2)
        alone.append(exported(root))

    def job(name):
        async def run():
            root = Node()
            world = words(name, random_pause(name))
            await search(root, world, **HALVED, simulations=12, width=2)
            return exported(root)

        return run

    together = await forest([job(name) for name in ("x", "y", "z")], limit=2)
    assert together == alone
    assert alone[0] != alone[1]
    assert await forest([], limit=2) == []


async def test_the_first_error_of_a_forest_cancels_the_rest():
    cancelled, started = [], []

    async def wait(i):
        started.append(i)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(i)
            raise

    async def fail():
        await asyncio.sleep(0)
        msg = "trial 2"
        raise AnswerError(msg)

    jobs = [partial(wait, 0), partial(wait, 1), fail, partial(wait, 3)]
    with pytest.raises(AnswerError, match="trial 2"):
        await forest(jobs, limit=3)
    assert sorted(cancelled) == started == [0, 1]


async def test_forest_limit_must_be_positive():
    with pytest.raises(ValueError, match="limit is 0"):
        await forest([], limit=0)
