"""MC-DML against its reference: random games, random answers."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition
from llm_planning.planners.any_domain.specs import SPECS as ANY_DOMAIN
from llm_planning.planners.mc_dml.algorithm import McDml, Position, Scene, best_action
from llm_planning.planners.mc_dml.playing import play_by_search
from llm_planning.planners.mc_dml.settings import McDmlSettings, PrunedSettings
from llm_planning.planners.mc_dml.specs import SPECS as MC_DML
from llm_planning.roles import Engines
from llm_planning.search import select_by_puct
from llm_planning.specs import Run

from .drawn import hashed, worlds
from .mc_dml import Node, Roles, Search, Settings, World


def drawn(seed, room, action, *, rooms, paying):
    """A transition: into a room, out of the game, or into a room without actions."""
    number = int(hashed(seed, room, action) * 2**16)
    end = ("won", "blind", "lost", "lost", "lost", *[None] * 11)[number % 16]
    pays = hashed(seed, room, action, "pays") < paying
    return Transition(
        f"{end} {room}{action}" if end else str(number // 16 % rooms),
        f"You {action}.",
        float(number // 16 % 6 - 1) if pays else 0.0,
        {"won": Ending.VICTORY, "lost": Ending.FAILURE}.get(end),
    )


class Game:
    """A deterministic game of a few rooms, drawn by a seed; rewards are whole numbers."""

    name, max_score, walkthrough, objective = "drawn", 10.0, (), ""

    def __init__(self, seed, *, rooms, paying):
        self.seconds = GameSeconds()
        self.rooms = {
            room: {
                action: drawn(seed, room, action, rooms=rooms, paying=paying)
                for action in "abc"[: 1 + int(hashed(seed, room) * 3)]
            }
            for room in map(str, range(rooms))
        }

    def begin(self):
        return Transition("0", "It begins.", 0.0, None)

    def of(self, room):
        return tuple(self.rooms.get(room, ()))

    def made(self, room, action):
        return self.rooms[room][action]

    async def start(self):
        return self.begin()

    async def actions(self, room):
        return self.of(room)

    async def look(self, room):
        return room, "Nothing."

    async def step(self, room, action):
        return self.made(room, action)


@dataclass
class Answers:
    """The same random answers for both: π of ℳ_i, ℳ_c and 𝒜, a reflection of a trajectory."""

    seed: int
    words: int
    asked: list = field(default_factory=list)
    reflected: list = field(default_factory=list)

    def prior(self, recent, memory, actions):
        self.asked.append((recent, memory, tuple(actions)))
        weights = [0.1 + hashed(self.seed, recent, memory, action) for action in actions]
        return [weight / sum(weights) for weight in weights]

    def reflection(self, trajectory):
        self.reflected.append(trajectory)
        return f"advice {int(hashed(self.seed, trajectory) * self.words)}"


def fields_of(observation):
    """An observation as the reference has it."""
    return observation.text, observation.look


def history(turns, last):
    return (
        *(part for turn in turns for part in (fields_of(turn.observation), turn.action)),
        fields_of(last),
    )


class Different(Search):
    """Ours: k different reflections, and no trajectory is reflected on twice."""

    def reflect(self, h):
        known = self.memory
        seen = self.__dict__.setdefault("seen", set())
        if len(known) < self.settings.reflections and h not in seen:
            seen.add(h)
            super().reflect(h)
            if known[-1] in known[:-1]:
                known.pop()


def reference(game, answers, given, rng, *, kind=Different):
    world = World(
        actions=lambda made: game.of(made.state),
        step=lambda made, action: (
            (after := game.made(made.state, action)).reward,
            after,
            (after.text, after.state),
        ),
        failed=lambda made: made.ending is Ending.FAILURE,
    )
    return kind(world, Roles(answers.prior, answers.reflection), given, rng)


def agent(game, answers, given):
    async def prior(asked):
        recent = history(asked.memory, asked.observation)
        return answers.prior(recent, asked.reflections, asked.actions)

    async def reflect(trajectory):
        return answers.reflection(history(trajectory.turns, trajectory.last))

    numbers = {
        "d_min": given.d_min,
        "d_max": given.d_max,
        "delta_d": given.delta_d,
        "gamma": given.discount,
        "simulations_per_action": given.simulations_per_action,
    }
    k = given.reflections
    return McDml(
        domain=TextGameDomain(game),
        settings=McDmlSettings(**numbers, k=k) if k else PrunedSettings(**numbers),
        prior=prior,
        reflect=reflect,
        past=1,
        select=select_by_puct(c=given.c_puct),
    )


def tree_of(root, h):
    """A tree of the package as the reference has it: history -> node."""
    tree = {}
    if root.edges:
        visits = {edge.action: edge.visits for edge in root.edges}
        tree[h] = Node(
            sum(visits.values()),
            visits,
            {edge.action: edge.value for edge in root.edges},
            {edge.action: edge.prior for edge in root.edges},
        )
    for edge in root.edges or ():
        if edge.node is not None:
            below = edge.step.state.state
            tree |= tree_of(edge.node, (*h, edge.action, (below.text, below.state)))
    return tree


def ordered(tree):
    """A tree with the order of its actions."""
    return {h: [list(node.values.items()), node] for h, node in tree.items()}


GAMES = st.builds(
    Game, st.integers(0, 2**32), rooms=st.integers(1, 8), paying=st.sampled_from([0.0, 0.1, 0.5])
)
# Powers of two, so that sums of returns are exact in any order.
NUMBERS = st.builds(
    Settings,
    c_puct=st.sampled_from([0.0, 0.5, 2.0, 50.0]),
    discount=st.sampled_from([0.25, 0.5, 1.0]),
    simulations_per_action=st.sampled_from([1, 4, 12]),
    reflections=st.sampled_from([3, 2, 1, 0]),
    d_min=st.integers(1, 3),
    d_max=st.integers(3, 6),
    delta_d=st.integers(1, 4),
)
ANSWERS = st.builds(Answers, st.integers(0, 2**32), st.sampled_from([2, 1000]))


def test_searches():
    met = Counter()

    @worlds(max_examples=250)
    @given(game=GAMES, given=NUMBERS, answers=ANSWERS, seed=st.integers(0, 9))
    def agree(game, given, answers, seed):
        start = game.begin()
        h = ((start.text, start.state),)
        again = Answers(answers.seed, answers.words)
        here = Position((), Scene(start), 0.0)
        search = asyncio.run(agent(game, answers, given).search(here, rng=Random(seed)))
        # With one reflection at most, the paper's line 12 and ours are the same.
        kind = Search if given.reflections < 2 else Different
        mine = reference(game, again, given, Random(seed), kind=kind)
        best = mine.plan(start, h)
        tree = mine.trees[-1]
        assert ordered(tree_of(search.root, h)) == ordered(tree)
        assert best_action(search.root, Random(seed)) == Random(seed).choice(best)
        assert search.depth == mine.horizon
        assert search.reflections == tuple(mine.memory)
        assert answers.reflected == again.reflected
        # The package asks once for what the reference asks at every visit.
        assert dict.fromkeys(answers.asked) == dict.fromkeys(again.asked)
        met.update(
            deeper=len(mine.trees) > 1,
            reflections=len(mine.memory) > 1,
            deep=any(len(h) > 5 for h in tree),
            paid=max(tree[h].values.values()) > 0,
        )

    agree()
    assert min(met[kind] for kind in ("deeper", "reflections", "deep", "paid")) > 10, met


@worlds(max_examples=40)
@given(game=GAMES, given=NUMBERS, answers=ANSWERS, seed=st.integers(0, 9))
def test_an_episode(game, given, answers, seed):
    """ℳ_i reaches back before the root, ℳ_c does not, and a trajectory begins at the root."""
    again = Answers(answers.seed, answers.words)
    episode, searches = asyncio.run(play_by_search(agent(game, answers, given), moves=3, seed=seed))
    here = game.begin()
    h = ((here.text, here.state),)
    plan, memories = [], []
    while game.of(here.state) and len(plan) < 3:
        stream = f"{seed}/{len(plan)}"
        mine = reference(game, again, given, Random(stream))
        plan.append(Random(f"{stream}/tie").choice(mine.plan(here, h)))
        memories.append(tuple(mine.memory))
        here = game.made(here.state, plan[-1])
        h = (*h, plan[-1], (here.text, here.state))
    assert [move.action for move in episode.moves] == plan
    assert [search.reflections for search in searches] == memories
    assert answers.reflected == again.reflected


def test_the_same_trajectory_again_is_the_papers_to_store_and_not_ours():
    """Line 12 adds each reflection. Ours has no sentence twice, so that k are different."""
    game = Game(0, rooms=1, paying=0.0)
    game.of = lambda room: ("a",) if room == "0" else ()
    game.made = lambda room, action: Transition("lost", "You die.", 0.0, Ending.FAILURE)
    given, start = Settings(simulations_per_action=5, d_min=3, d_max=3), game.begin()
    h = ((start.text, start.state),)
    lengths = []
    for kind in (Search, Different):
        mine = reference(game, Answers(0, 1000), given, Random(0), kind=kind)
        mine.plan(start, h)
        lengths.append(len(mine.memory))
    assert lengths == [3, 1]


# PLANNERS THAT SHOULD AGREE ----------------------------------------------------------------------


@worlds(max_examples=60)
@given(game=GAMES, given=NUMBERS, seed=st.integers(0, 9))
def test_puct_is_mc_dml_puct(game, given, seed):
    """The first decision: `puct` keeps its tree from move to move, `mc-dml-puct` does not."""
    shared = {"gamma": given.discount, "moves": 1}
    # The two name their random streams `search SEED` and `SEED/MOVE`.
    streams = {"puct": f"{seed}/0", "mc-dml-puct": f"search {seed}"}
    simulations = given.simulations_per_action * len(game.of("0"))
    # Of more actions than simulations, `puct` draws those that it tries, and MC-DML does not.
    assume(simulations >= max(map(len, game.rooms.values())))
    deep = {"d_min": given.d_max, "d_max": given.d_max, "C": given.c_puct}
    each = {"simulations_per_action": given.simulations_per_action}
    plain = {
        "depth": given.d_max,
        "c": given.c_puct,
        "simulations": simulations,
        "prior": "uniform",
    }
    rows = []
    for specs, name, own in (
        (ANY_DOMAIN, "puct", plain),
        (MC_DML, "mc-dml-puct", {**deep, **each}),
    ):
        spec = next(spec for spec in specs if spec.name == name)
        run = Run(
            domain="textgame",
            task="drawn",
            world=TextGameDomain(game),
            engines=Engines(None),
            settings=spec.settings.read({**shared, **own}),
            seed=streams[name],
        )
        outcome = asyncio.run(spec.run(run))
        (move,) = outcome.trace["moves"]
        rows.append(move.get("options") or move.get("root"))
    assert rows[0] == rows[1]
