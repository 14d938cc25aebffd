"""The driver where nothing is drawn: golden trees, several simulations in flight, failures."""

import asyncio

import pytest
from golden import golden
from hypothesis import given, settings
from hypothesis import strategies as st
from search_worlds import (
    CertainWorld,
    ChanceWorld,
    Words,
    backed_up,
    exported,
    nodes_of,
    random_pause,
    reward_by_word,
    unmarked,
)

from llm_planning.domain import Step
from llm_planning.search import (
    Edge,
    Evaluation,
    Node,
    best_path,
    by_means,
    by_sums,
    edges_below,
    search,
    select_by_puct,
    select_by_ucb,
)

HALVED = {"select": select_by_ucb(c=5.0), "backup": by_sums(gamma=0.5)}

GOLDEN_REWARDS = {"a": 1.0, "b": 2.0, "aa": 4.0, "ab": 0.0, "ba": 1.0, "bb": 0.0}


SELECT = {"ucb": select_by_ucb, "puct": select_by_puct}


def golden_world(run):
    """The scripted world of a golden file."""
    rewards = run["rewards"]
    if run["world"] == "words":
        return Words(rewards.__getitem__, first_play=run["first_play"])
    return ChanceWorld(
        lambda state, action, rng: Step(state + action, rewards.get(state + action, 0.0)),
        root=lambda rng: "",
        value=lambda state: run["values"].get(state, 0.0),
        priors=run["priors"],
    )


@pytest.mark.parametrize("case", golden("search"))
async def test_golden_trees(case):
    run, root = case.run, Node()
    world = golden_world(run)
    rules = {"select": SELECT[run["select"]](c=run["c"]), "backup": by_sums(gamma=run["gamma"])}
    await search(root, world, **rules, **run["search"])
    best = [edge.action for edge in best_path(root)]
    asked = {"expanded": world.expanded, "evaluated": world.evaluated}
    case.check({**asked, "best": best, "tree": exported(root)})


async def golden_search(simulations):
    root = Node()
    await search(root, Words(GOLDEN_REWARDS.__getitem__), **HALVED, simulations=simulations)
    return root


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
            evaluation = await super().evaluate(node, walk)
            if leaf == "a":
                # Simulation 3 is done before simulation 2, and has to wait for it.
                assert (root.visits, node.visits) == (1, 0)
                gate.set()
            return evaluation

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
            return Evaluation([edge])

    async with asyncio.timeout(60):
        await search(
            root, World(), select=select, backup=by_sums(gamma=1.0), simulations=4, width=2
        )
    assert expanded == [("", 0), ("b", 1), ("c", 1), ("ca", 3)]
    assert next(turns) == "c"  # b, c, c in vain, c: one turn of five is left


async def test_width_one_makes_no_tasks():
    tasks = set()

    class World(CertainWorld):
        async def evaluate(self, node, walk):
            tasks.add(asyncio.current_task())
            await asyncio.sleep(0)
            return Evaluation(tail=1.0)

    await search(Node(), World(), **HALVED, simulations=3)
    assert tasks == {asyncio.current_task()}


async def test_a_dead_end_is_evaluated_at_every_visit():
    tails = iter([1.0, 4.0])

    class World(CertainWorld):
        async def evaluate(self, node, walk):
            return Evaluation(tail=next(tails))

    root = Node()
    await search(root, World(), **HALVED, simulations=2, width=3)
    assert (root.visits, root.value) == (2, 2.5)


async def test_a_tail_counts_behind_the_last_edge():
    class World(CertainWorld):
        async def evaluate(self, node, walk):
            node.edges = [Edge("a", step=Step("a", reward=1.0))]
            return Evaluation(node.edges, tail=4.0)

    root = Node()
    await search(root, World(), **HALVED, simulations=1)
    # R_0 = 1 + 0.5 · 4
    assert (root.value, root.edges[0].value) == (3.0, 3.0)


async def test_an_evaluation_walks_certain_steps_only():
    class World(CertainWorld):
        async def evaluate(self, node, walk):
            node.edges = [Edge("a")]
            return Evaluation(node.edges)

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
    async with asyncio.timeout(60):
        with pytest.raises(AnswerError, match="b has no answer"):
            await search(root, World(), **HALVED, simulations=9, width=2)
    assert unmarked(root)
    assert root.visits == 1


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    "fails", ["draw_root", "before_select", "waiting", "select", "backup", "on_backup"]
)
async def test_an_error_of_any_part_ends_the_search(fails, width):
    root = Node()

    def failing_at_three(part):
        def failing(*given):
            if part == fails and root.visits >= 3:
                raise AnswerError(part)
            return parts[part](*given)

        return failing

    async def waits(node, walk):
        await asyncio.sleep(0)
        hooks["waiting"](node, walk)

    world = Words(reward_by_word, "abc", 3, random_pause(0))
    parts = {
        "draw_root": world.draw_root,
        "before_select": waits,
        "waiting": lambda node, walk: None,
        "select": HALVED["select"],
        "backup": HALVED["backup"],
        "on_backup": lambda walk: None,
    }
    hooks = {part: failing_at_three(part) for part in parts}
    world.draw_root = hooks["draw_root"]
    given = {part: hooks[part] for part in ("before_select", "select", "backup", "on_backup")}
    with pytest.raises(AnswerError, match=fails):
        await search(root, world, **given, simulations=9, width=width)
    assert root.visits == 3
    assert unmarked(root)
    assert world.running == 0


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


@pytest.mark.parametrize(
    ("simulations", "width", "run"), [(None, 1, 4), (None, 2, 5), (3, 1, 3), (3, 2, 3)]
)
async def test_the_clock_ends_a_search(monkeypatch, simulations, width, run):
    """Half a second passes with each backup; what is in flight after two is backed up, too."""
    now, root = [0.0], Node()

    def backed_up(walk):
        now[0] += 0.5

    monkeypatch.setattr("llm_planning.search.driver.perf_counter", lambda: now[0])
    world = Words(GOLDEN_REWARDS.__getitem__)
    bounds = {"simulations": simulations, "seconds": 2.0, "width": width}
    result = await search(root, world, on_backup=backed_up, **HALVED, **bounds)
    assert result == root.visits == run
    assert not root.in_flight


async def test_the_first_simulation_is_always_run_and_something_bounds_a_search():
    root, world = Node(), Words(GOLDEN_REWARDS.__getitem__)
    assert await search(root, world, simulations=None, seconds=1e-9, **HALVED) == 1
    with pytest.raises(ValueError, match="set simulations or seconds"):
        await search(root, world, simulations=None, **HALVED)


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
        values = list(returns(rewards, drawn["gamma"], drawn["backup"]))
        for edge, r_i in zip(walk.edges, values, strict=True):
            credited.setdefault(edge, []).append(r_i)
        credited.setdefault(root, []).append(values[0] if values else walk.tail)

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
    for part in [root, *(edge for _, edge in edges_below(root))]:
        values = credited.get(part, [])
        assert part.visits == len(values)
        mean = sum(values) / len(values) if values else 0.0
        assert part.value == pytest.approx(mean, abs=1e-9)
