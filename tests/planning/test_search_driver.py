import asyncio
import random
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planning.search import (
    Node,
    Rollout,
    discounted_returns,
    forest,
    format_tree,
    greedy_path,
    mean_returns,
    path_to,
    preorder,
    reward_first,
    search,
    select_by_ucb,
    to_json,
    zero_first,
)


@dataclass
class ScriptedPlanner:
    """Options are letters, a node's payload is their word, and its rewards are scripted by word.

    A simulation expands its leaf, then walks to the child of the highest reward and goes on from
    there, down to the depth limit; `pause` is awaited before every expansion.
    """

    rewards: object
    options: str = "ab"
    depth_limit: int = 2
    pause: object = None
    expanded: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    async def simulate(self, leaf):
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        walked = []
        node = leaf
        try:
            while node.depth < self.depth_limit:
                if self.pause is not None:
                    await self.pause(node)
                self.expanded.append(node.payload)
                for letter in self.options:
                    word = node.payload + letter
                    node.add_child(word, reward=self.rewards(word))
                node = max(node.children, key=lambda child: child.reward)
                walked.append(node)
        finally:
            self.running -= 1
        return Rollout(walked)


def reward_by_word(word):
    return random.Random(word).uniform(-1.0, 5.0)


def random_pause(seed):
    draw = random.Random(seed)

    async def pause(node):
        # Zero seconds is a bare turn of the loop, so that short and long waits interleave.
        await asyncio.sleep(draw.choice([0.0, 0.0, 0.0005, 0.001, 0.002]))

    return pause


def by_word(*, c=5.0, first_play=reward_first):
    return {
        "select": select_by_ucb(c=c, first_play=first_play),
        "returns": partial(discounted_returns, gamma=0.5),
    }


def exported(root):
    return to_json(root, str)


def backed_up(node):
    """The tree as selection sees it: without what is still being built."""
    below = [] if node.pending else [backed_up(child) for child in node.children]
    return node.payload, node.visits, node.value, below


def unmarked(root):
    return all(node.in_flight == 0 and not node.pending for node in preorder(root))


GOLDEN_REWARDS = {"a": 1.0, "b": 2.0, "aa": 4.0, "ab": 0.0, "ba": 1.0, "bb": 0.0}


async def golden_search(iterations, *, width=1, first_play=reward_first):
    root = Node("")
    planner = ScriptedPlanner(GOLDEN_REWARDS.__getitem__)
    await search(
        root,
        **by_word(first_play=first_play),
        simulate=planner.simulate,
        iterations=iterations,
        width=width,
    )
    return root


async def test_golden_tree_of_three_iterations():
    # γ = 0.5, c = 5, first play at r̂, depth limit 2.
    # 1. The root is expanded into a (1) and b (2); the rollout walks b, expands it into ba (1) and
    #    bb (0), and walks ba. Rewards [2, 1]: R_0 = 2 + 0.5 · 1 = 2.5, R_1 = 1.
    root = await golden_search(1)
    assert format_tree(root, str) == (
        "ROOT (N:1, Q:2.500)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:1, Q:2.500)\n"
        "2.1. ba (N:1, Q:1.000)\n"
        "2.2. bb (N:0, Q:0.000)"
    )
    # 2. N(τ) = 1 and ln 1 = 0 at the root and at b: b (2.5 > 1), then ba (1 > 0), which is at the
    #    depth limit. The same rewards again leave every Q as it is.
    root = await golden_search(2)
    assert format_tree(root, str) == (
        "ROOT (N:2, Q:2.500)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:2, Q:2.500)\n"
        "2.1. ba (N:2, Q:1.000)\n"
        "2.2. bb (N:0, Q:0.000)"
    )
    # 3. N(τ) = 2, ln 2 = 0.693147, 5 √0.693147 = 4.162773:
    #    a: 1.0 + 4.162773      = 5.162773
    #    b: 2.5 + 4.162773 / √3 = 4.903378
    #    so a, expanded into aa (4) and ab (0), and aa. Rewards [1, 4]: R_0 = 1 + 0.5 · 4 = 3,
    #    R_1 = 4. At the root, Q = 2.5 + (3 - 2.5) / 3 = 2.666667.
    root = await golden_search(3)
    assert format_tree(root, str) == (
        "ROOT (N:3, Q:2.667)\n"
        "1. a (N:1, Q:3.000)\n"
        "1.1. aa (N:1, Q:4.000)\n"
        "1.2. ab (N:0, Q:0.000)\n"
        "2. b (N:2, Q:2.500)\n"
        "2.1. ba (N:2, Q:1.000)\n"
        "2.2. bb (N:0, Q:0.000)"
    )
    assert [node.payload for node in greedy_path(root)] == ["a", "aa"]


async def test_golden_tree_with_first_play_at_zero():
    # As above, but in iteration 3: a: 0 + 4.162773 against b: 4.903378, so b a third time.
    # Then N(b) = 2: ba: 1 + 4.162773 / √3 = 3.403378 against bb: 0 + 4.162773, so bb (reward 0).
    # Rewards [2, 0]: R_0 = 2, R_1 = 0; Q(b) = 2.5 + (2 - 2.5) / 3 = 2.333333.
    root = await golden_search(3, first_play=zero_first)
    assert format_tree(root, str) == (
        "ROOT (N:3, Q:2.333)\n"
        "1. a (N:0, Q:0.000)\n"
        "2. b (N:3, Q:2.333)\n"
        "2.1. ba (N:2, Q:1.000)\n"
        "2.2. bb (N:1, Q:0.000)"
    )


async def test_a_search_goes_on_where_it_stopped():
    planner = ScriptedPlanner(GOLDEN_REWARDS.__getitem__)
    root = Node("")
    for _ in range(3):
        await search(root, **by_word(), simulate=planner.simulate, iterations=1)
    assert exported(root) == exported(await golden_search(3))


async def test_counts_in_flight_while_two_iterations_fly():
    # Width 2. Iteration 2 cannot start before the root is built. Once iteration 1 is backed up (see
    # the golden tree), iterations 2 and 3 fly together: 2 walks b, ba; then N + O = 2 at the root:
    #    a: 1.0 + 4.162773            = 5.162773
    #    b: 2.5 + 4.162773 / √(2 + 1) = 4.903378
    # so 3 walks a, although the completed visits alone (N = 1, no bonus) would send it to b.
    seen = {}
    gate = asyncio.Event()

    class Watched(ScriptedPlanner):
        async def simulate(self, leaf):
            seen[leaf.payload] = {
                node.payload: (node.in_flight, node.pending) for node in preorder(root)
            }
            if leaf.payload == "ba":
                await gate.wait()
            rollout = await super().simulate(leaf)
            if leaf.payload == "a":
                # Iteration 3 is done before iteration 2, and has to wait for it.
                assert (root.visits, leaf.visits) == (1, 0)
                gate.set()
            return rollout

    root = Node("")
    backups = []
    await search(
        root,
        **by_word(),
        simulate=Watched(GOLDEN_REWARDS.__getitem__).simulate,
        iterations=3,
        width=2,
        on_iteration=lambda n: backups.append((n, root.visits, root.children[0].visits)),
    )
    assert seen[""] == {"": (1, True)}
    # Both are launched before either runs, so each sees the marks of both.
    in_flight = {
        "": (2, False),
        "a": (1, True),
        "b": (1, False),
        "ba": (1, True),
        "bb": (0, False),
    }
    assert seen["ba"] == seen["a"] == in_flight
    # Backed up in the order of launch: iteration 2 (b) before iteration 3 (a).
    assert backups == [(1, 1, 0), (2, 2, 0), (3, 3, 1)]
    assert unmarked(root)
    assert exported(root) == exported(await golden_search(3))


async def test_what_is_being_built_is_out_of_sight():
    # Iterations 2 (b) and 3 (c) fly together. When 2 is backed up, c has a child already, but its
    # simulation goes on: iteration 4 comes to c, and must neither expand it nor pass through it.
    root = Node("")
    gate = asyncio.Event()
    simulated = []
    turns = iter("bcccc")

    def select(node):
        if node is not root:
            return node.children[0]
        if (letter := next(turns)) == "c" and root.visits == 2:
            gate.set()
        return node.children["abc".index(letter)]

    async def simulate(leaf):
        simulated.append((leaf.payload, root.visits))
        if leaf is root:
            return Rollout([root.add_child(letter) for letter in "abc"][:1])
        child = leaf.add_child(leaf.payload + "a")
        if leaf.payload == "c":
            await gate.wait()
        return Rollout([child])

    returns = partial(discounted_returns, gamma=1.0)
    async with asyncio.timeout(5):
        await search(root, select=select, simulate=simulate, returns=returns, iterations=4, width=2)
    assert simulated == [("", 0), ("b", 1), ("c", 1), ("ca", 3)]
    assert next(turns) == "c"  # b, c, c in vain, c: one turn of five is left


@pytest.mark.parametrize("width", [1, 4, 8])
async def test_the_tree_does_not_depend_on_how_long_answers_take(width):
    trees = []
    expanded = []
    for seed in range(4):
        root = Node("")
        planner = ScriptedPlanner(reward_by_word, "abc", 5, random_pause(seed))
        await search(root, **by_word(), simulate=planner.simulate, iterations=30, width=width)
        assert unmarked(root)
        assert root.visits == 30
        # Never expanded twice.
        assert len(planner.expanded) == len(set(planner.expanded))
        assert planner.most_running <= width
        assert (planner.most_running > 1) == (width > 1)
        trees.append(exported(root))
        expanded.append(planner.expanded)
    assert all(tree == trees[0] for tree in trees)
    if width > 1:
        # The delays did change the order in which the work was done.
        assert any(order != expanded[0] for order in expanded)


async def test_width_one_is_the_sequential_algorithm():
    """The paper's loop, written once more without the driver."""
    planner = ScriptedPlanner(reward_by_word, "abc", 5)
    select = select_by_ucb(c=5.0, first_play=reward_first)
    expected = Node("")
    for _ in range(40):
        node = expected
        while node.children:
            node = select(node)
        rollout = await planner.simulate(node)
        end = rollout.nodes[-1] if rollout.nodes else node
        walked = path_to(end)[1:]
        expected.visits += 1
        for i, edge in enumerate(walked):
            r_i = sum(0.5**j * later.reward for j, later in enumerate(walked[i:]))
            edge.visits += 1
            edge.value += (r_i - edge.value) / edge.visits
    root = Node("")
    await search(root, **by_word(), simulate=planner.simulate, iterations=40)
    for ours, theirs in zip(preorder(root), preorder(expected), strict=True):
        assert (ours.payload, ours.visits) == (theirs.payload, theirs.visits)
        if ours is not root:
            assert ours.value == pytest.approx(theirs.value)


async def test_width_one_makes_no_tasks():
    tasks = set()

    async def simulate(leaf):
        tasks.add(asyncio.current_task())
        await asyncio.sleep(0)
        return Rollout(tail=1.0)

    await search(Node(""), **by_word(), simulate=simulate, iterations=3)
    assert tasks == {asyncio.current_task()}


async def test_a_terminal_root_is_visited_for_its_tail():
    tails = iter([1.0, 4.0])

    async def simulate(leaf):
        return Rollout(tail=next(tails))

    root = Node("")
    await search(root, **by_word(), simulate=simulate, iterations=2, width=3)
    assert (root.visits, root.value) == (2, 2.5)


async def test_a_tail_counts_behind_the_last_node():
    async def simulate(leaf):
        return Rollout([leaf.add_child("a", reward=1.0)], tail=4.0)

    root = Node("")
    await search(root, **by_word(), simulate=simulate, iterations=1)
    # R_0 = 1 + 0.5 · 4
    assert (root.value, root.children[0].value) == (3.0, 3.0)


class AnswerError(Exception):
    pass


@pytest.mark.parametrize("width", [1, 4])
async def test_an_error_leaves_the_tree_as_the_last_backup_left_it(width):
    cancelled = []
    snapshots = [backed_up(Node(""))]
    cause = ValueError("no such item")

    async def failing_pause(node):
        # From the sixth backup on, a rollout that gets to depth 3 fails half-way.
        await asyncio.sleep(0)
        if len(snapshots) > 6 and node.depth == 3:
            raise AnswerError(node.payload) from cause
        try:
            await asyncio.sleep(0.001)
        except asyncio.CancelledError:
            cancelled.append(node.payload)
            raise

    root = Node("")
    planner = ScriptedPlanner(reward_by_word, "abc", 5, failing_pause)
    with pytest.raises(AnswerError) as caught:
        await search(
            root,
            **by_word(),
            simulate=planner.simulate,
            iterations=50,
            width=width,
            on_iteration=lambda n: snapshots.append(backed_up(root)),
        )
    assert caught.value.__cause__ is cause
    assert planner.running == 0
    assert bool(cancelled) == (width > 1)
    assert unmarked(root)
    assert 6 <= root.visits < 50
    assert backed_up(root) == snapshots[-1]

    planner.pause = None
    await search(
        root, **by_word(), simulate=planner.simulate, iterations=50 - root.visits, width=width
    )
    assert root.visits == 50
    if width == 1:
        whole = Node("")
        planner = ScriptedPlanner(reward_by_word, "abc", 5)
        await search(whole, **by_word(), simulate=planner.simulate, iterations=50)
        assert exported(root) == exported(whole)


async def test_the_first_error_does_not_wait_for_older_iterations():
    async def simulate(leaf):
        if leaf.depth == 0:
            return Rollout([leaf.add_child(letter, reward=1.0) for letter in "ab"][:1])
        if leaf.payload == "a":
            await asyncio.Event().wait()
        msg = "b has no answer"
        raise AnswerError(msg)

    root = Node("")
    async with asyncio.timeout(5):
        with pytest.raises(AnswerError, match="b has no answer"):
            await search(root, **by_word(), simulate=simulate, iterations=9, width=2)
    assert unmarked(root)
    assert root.visits == 1


@pytest.mark.parametrize("width", [1, 4])
async def test_cancelling_a_search_cancels_its_simulations(width):
    snapshots = []
    root = Node("")
    planner = ScriptedPlanner(reward_by_word, "abc", 5)

    stuck = asyncio.Event()

    async def endless_pause(node):
        if root.visits >= 7:
            stuck.set()
            await asyncio.Event().wait()
        await asyncio.sleep(0)

    planner.pause = endless_pause
    running = asyncio.create_task(
        search(
            root,
            **by_word(),
            simulate=planner.simulate,
            iterations=50,
            width=width,
            on_iteration=lambda n: snapshots.append(backed_up(root)),
        )
    )
    async with asyncio.timeout(5):
        await stuck.wait()
    assert planner.running > 0
    assert root.in_flight == width
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert planner.running == 0
    assert unmarked(root)
    assert backed_up(root) == snapshots[-1]


async def test_an_error_of_the_callback_stops_the_search():
    def stop(n):
        msg = "enough"
        raise AnswerError(msg)

    root = Node("")
    planner = ScriptedPlanner(reward_by_word, "abc", 3, random_pause(0))
    with pytest.raises(AnswerError, match="enough"):
        await search(
            root, **by_word(), simulate=planner.simulate, iterations=9, width=3, on_iteration=stop
        )
    assert root.visits == 1
    assert unmarked(root)


async def test_a_tree_is_searched_by_one_search_at_a_time():
    release = asyncio.Event()

    async def simulate(leaf):
        await release.wait()
        return Rollout()

    root = Node("")
    first = asyncio.create_task(search(root, **by_word(), simulate=simulate, iterations=1))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="searched already"):
        await search(root, **by_word(), simulate=simulate, iterations=1)
    release.set()
    await first
    assert root.visits == 1


async def test_width_must_be_positive():
    with pytest.raises(ValueError, match="width is 0"):
        await search(Node(""), **by_word(), simulate=None, iterations=1, width=0)


def test_greedy_path_follows_visited_edges_only():
    root = Node("")
    left, right = root.add_child("a", reward=9.0), root.add_child("b")
    assert greedy_path(root) == []
    right.visits, right.value = 1, -1.0
    assert greedy_path(root) == [right]
    left.visits, left.value = 1, -1.0
    assert greedy_path(root) == [left]
    leaf = left.add_child("aa")
    leaf.visits = 1
    assert greedy_path(root) == [left, leaf]


@st.composite
def drawn_searches(draw):
    return {
        "options": "abc"[: draw(st.integers(1, 3))],
        "depth_limit": draw(st.integers(0, 4)),
        "width": draw(st.integers(1, 5)),
        "iterations": draw(st.integers(0, 25)),
        "select": select_by_ucb(
            c=draw(st.floats(0, 9)),
            first_play=draw(st.sampled_from([zero_first, reward_first])),
        ),
        "credit": partial(
            draw(st.sampled_from([discounted_returns, mean_returns])), gamma=draw(st.floats(0, 1))
        ),
        "seed": draw(st.integers(0, 10_000)),
    }


@settings(max_examples=60, deadline=None)
@given(drawn_searches())
def test_statistics_of_any_search(drawn):
    planner = ScriptedPlanner(
        lambda word: reward_by_word(f"{drawn['seed']}{word}"),
        drawn["options"],
        drawn["depth_limit"],
    )
    recorded = {}
    walks = []

    async def pause(node):
        await asyncio.sleep(0)

    async def simulate(leaf):
        rollout = await planner.simulate(leaf)
        walks.append(path_to(rollout.nodes[-1] if rollout.nodes else leaf))
        return rollout

    def returns(rewards, *, tail):
        # Backups come in the order of launch, answers in any: find the walk by its rewards.
        result = drawn["credit"](rewards, tail=tail)
        walk = next(w for w in walks if [node.reward for node in w[1:]] == rewards)
        walks.remove(walk)
        for node, r_i in zip(walk[1:], result, strict=True):
            recorded.setdefault(node, []).append(r_i)
        recorded.setdefault(root, []).append(result[0] if result else tail)
        return result

    planner.pause = pause
    root = Node("")
    asyncio.run(
        search(
            root,
            select=drawn["select"],
            simulate=simulate,
            returns=returns,
            iterations=drawn["iterations"],
            width=drawn["width"],
        )
    )
    assert root.visits == drawn["iterations"]
    assert unmarked(root)
    for node in preorder(root):
        assert sum(child.visits for child in node.children) <= node.visits
        assert node.visits == len(recorded.get(node, []))
        if node.visits:
            mean = sum(recorded[node]) / node.visits
            assert node.value == pytest.approx(mean, abs=1e-9)
        else:
            assert node.value == 0.0


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
    alone = []
    for name in ("x", "y", "z"):
        root = Node(name)
        planner = ScriptedPlanner(reward_by_word, "abc", 4)
        await search(root, **by_word(), simulate=planner.simulate, iterations=12, width=2)
        alone.append(exported(root))

    def job(name):
        async def run():
            root = Node(name)
            planner = ScriptedPlanner(reward_by_word, "abc", 4, random_pause(name))
            await search(root, **by_word(), simulate=planner.simulate, iterations=12, width=2)
            return exported(root)

        return run

    together = await forest([job(name) for name in ("x", "y", "z")], limit=2)
    assert together == alone
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
