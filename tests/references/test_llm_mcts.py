"""LLM-MCTS against its reference: episodes of every variant, and searches in random homes.

The reference has a home and a belief of its own. The package's answer for a model here: π by its
expert, and the words in which a model would read what is seen.
"""

import asyncio
from collections import Counter
from math import isclose
from random import Random

import pytest
from household_homes import named, own_task
from hypothesis import given
from hypothesis import strategies as st
from llm_mcts_runs import run, statistics, tiny_task

from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.domain import Household
from llm_planning.environments.household.expert import Expert
from llm_planning.environments.household.observations import Observation, observation_text
from llm_planning.environments.household.simulator import Rollouts
from llm_planning.planners.llm_mcts.algorithm import Tree
from llm_planning.planners.llm_mcts.roles import Past, best_action
from llm_planning.search import (
    Node,
    by_sums,
    by_weighted_returns,
    edges_below,
    search,
    select_by_puct,
    select_by_uct,
)

from . import household
from .drawn import hashed, worlds
from .llm_mcts import Algorithm1, T


def as_reference(rules, state):
    """The home and the state, by names."""
    home, places = rules.home, [place.name for place in rules.home.places]
    things = rules.things
    own = household.Home(
        rooms={
            room: [places[p] for p in range(len(places)) if home.places[p].room == number]
            for number, room in enumerate(home.rooms)
        },
        containers={place.name for place in home.places if place.container},
        number=dict(zip(home.things, home.number, strict=True)),
        goal=[(wanted.thing, wanted.place, wanted.number) for wanted in rules.goal],
        hands=rules.hands,
        limit=rules.limit,
    )
    return own, household.State(
        room=home.rooms[state.room],
        near=places[state.at] if state.at >= 0 else None,
        open=frozenset(place for p, place in enumerate(places) if state.opened >> p & 1),
        hands=tuple(things[thing] for thing in state.held),
        lie={
            place: tuple(things[thing] for thing in state.places[p])
            for p, place in enumerate(places)
        },
        steps=state.steps,
    )


def as_package(seen, rules):
    """What the reference saw, by numbers."""
    places = {place.name: p for p, place in enumerate(rules.home.places)}
    thing = rules.things.index
    return Observation(
        rules.home.rooms.index(seen.room),
        places.get(seen.near, -1),
        tuple(map(thing, seen.hands)),
        tuple((places[place], thing(name)) for place, name in seen.wanted),
        tuple((places[place], tuple(map(thing, some))) for place, some in seen.shown.items()),
    )


def by_law(rules):
    """Thing -> place -> weight, as the home's file has it."""
    home = rules.home
    return {
        thing: {place.name: law[p] for p, place in enumerate(home.places)}
        for thing, law in zip(home.things, home.law, strict=True)
    }


def floored_law(own, law):
    """C.2 for a model that knows the law: probabilities, at least 0.001; others anywhere.

    No thing of the goal begins where the goal wants it.
    """
    prior = {thing: dict.fromkeys(own.room_of, 1.0) for thing in own.things}
    for thing in own.named:
        ends = {place for wanted, place, _ in own.goal if wanted == thing}
        weights = {p: 0.0 if p in ends else w for p, w in law[thing].items()}
        total = sum(weights.values())
        prior[thing] = {p: max(w / total, 1e-3) for p, w in weights.items()}
    return prior


def episode(task, *, seed, simulations, moves, prior, states, ties, **variant):
    """Plays an episode with Algorithm 1: the actions, and what each decision came to."""
    rules, expert = task.rules, Expert(task.rules)
    home, state = as_reference(rules, task.start)
    rng = Random(f"search {seed}")
    seen = (home.observe(state),)
    prior_of = floored_law(home, by_law(rules))

    def pi(seen, actions):
        if prior == "uniform":
            return [1 / len(actions)] * len(actions)
        # The oracle believes what the domain does; it gives the right action .9, and λ is .5.
        known = Belief.at_start(rules, rules.law, as_package(seen[0], rules))
        for observation in seen[1:]:
            known = known.after(as_package(observation, rules))
        right = str(best_action(known, expert))
        even = 0.5 / len(actions)
        return [even + 0.5 * (0.9 if a == right else 0.1 / (len(actions) - 1)) for a in actions]

    plan, statistics_of = [], []
    while home.actions(state) and len(plan) < moves:
        belief = household.Belief(home, prior_of, seen)
        now = belief.filled(Random(f"others {seed} {len(plan)}"))
        draw = now.draw
        if states == "decision":
            once = now.draw(rng)
            draw = lambda _, once=once: once  # noqa: E731
        search = Algorithm1(home, draw, seen, pi, **variant)
        statistics_of.append(search.search(simulations, rng))
        tried = {a: v for a, v in search.policy[()].items() if search.n[(), a]}
        highest = max(search.q[(), a] for a in tried)  # 8
        equals = [a for a in tried if search.q[(), a] == highest]
        if ties == "draw":
            (action,) = rng.choices(equals, [search.policy[()][a] for a in equals])
        else:
            action = max(equals, key=lambda a: search.policy[()][a])
        plan.append(action)
        state = home.after(state, action)
        seen = (*seen, home.observe(state))
    return plan, statistics_of


PAPER = {
    "selection": "puct",
    "depth": 20,
    "prior": "exact",
    "states": "simulation",
    "histories": "observations",
    "values": "mean",
    "ask": "second",
    "ties": "draw",
}
AUTHORS = {
    "states": "decision",
    "histories": "actions",
    "values": "softmax",
    "ask": "first",
    "ties": "prior",
}
VARIANTS = {
    "paper": {},
    **{f"{key} of the authors": {key: value} for key, value in AUTHORS.items()},
    "authors": AUTHORS,
    "short": {"depth": 6},
    "no policy": {"prior": "uniform"},
    "uct": {"selection": "uct", "prior": "uniform"},
    "uct of the authors": {**AUTHORS, "selection": "uct", "prior": "uniform"},
}
# π is asked about what was seen, of which histories of actions have several.
VARIANTS["histories of the authors"]["prior"] = "uniform"


@pytest.mark.parametrize(
    ("name", "number"), [*((name, 4) for name in VARIANTS), ("paper", 1), ("authors", 1)]
)
async def test_an_episode(tmp_path, name, number):
    variant = VARIANTS[name]
    task = tiny_task(tmp_path, number=number)
    chosen = {**PAPER, **variant, "c": 8.0, "simulations": 80, "moves": 5}
    outcome = await run(
        "llm-mcts",
        Household(task, belief="law"),
        seed=number,
        roles="rules",
        state_prior="exact",
        **chosen,
    )
    plan, decisions = episode(task, seed=number, **chosen)
    assert list(outcome.plan) == plan
    assert len(plan) > 1
    for theirs, mine in zip(statistics(outcome), decisions, strict=True):
        assert theirs.keys() == mine.keys()
        for action, numbers in theirs.items():
            assert numbers == pytest.approx(mine[action])
    assert any(q > 0 for decision in decisions for _, q, _ in decision.values())


# RANDOM HOMES ------------------------------------------------------------------------------------

HOME = """\
rooms:
  kitchen: {{containers: [fridge], surfaces: [table]}}
  hall: {{containers: [chest], surfaces: [bench]}}
things:
  food: {{names: [pear], lie: {{fridge: {0}, bench: {1}, chest: {2}}}, goals: [table]}}
  rest: {{names: [hat], lie: {{fridge: {3}, bench: {4}}}, goals: [table]}}
"""
GOALS = [
    "the pear on the table",
    "the pear in the fridge",
    "the pear on the bench",
    "the pear on the table and the hat in the chest",
]


def drawn_task(seed, folder):
    """A home, a goal, and a state from which an expert needs a few actions."""
    name = f"h{int(hashed(seed, 'home') * 8)}"
    home = named(name, HOME.format(*(1 + int(hashed(name, n) * 4) for n in range(5))), folder)
    goal = GOALS[int(hashed(seed, "goal") * len(GOALS))]
    number, hands = 1 + int(hashed(seed, "number") * 20), 1 + seed % 2
    task = own_task(home, goal, number=number, hands=hands, limit=12)
    state, expert = task.start, Expert(task.rules)
    while expert.length(state) > 1 + int(hashed(seed, "left") * 8):
        known = Belief.of_state(task.rules, state)
        state = task.rules.after(state, best_action(known, expert))._replace(steps=0)
    return task.rules, state


def tree_of(node, h=(), *, keyed):
    """A tree of the package as the reference has it: history -> action -> N, Q and π.

    A key is `Observation.key`, of numbers.
    """
    tree = {}
    if node.edges:
        tree[h] = {str(edge.action): (edge.visits, edge.value, edge.prior) for edge in node.edges}
    for edge in node.edges or ():
        for seen, below in edge.outcomes.items():
            step = (str(edge.action), seen.key if keyed else None)
            tree |= tree_of(below, (*h, step), keyed=keyed)
    return tree


def numbered(h, rules):
    """A history of the reference with keys of numbers."""
    return tuple((a, key and key_in_numbers(key, rules)) for a, key in h)


def key_in_numbers(key, rules):
    room, near, hands, wanted, shown = key
    seen = household.Seen(room, near, hands, dict.fromkeys(shown, ()), wanted)
    return as_package(seen, rules).key


def test_searches_in_random_homes(tmp_path):
    met = Counter()

    @worlds(max_examples=200)
    @given(
        seed=st.integers(0, 2**32),
        depth=st.sampled_from([6, 3]),
        c=st.sampled_from([2.0, 0.5]),
        simulations=st.sampled_from([24, 12]),
        ask=st.sampled_from(["second", "first"]),
        values=st.sampled_from(["mean", "softmax"]),
        histories=st.sampled_from(["observations", "actions"]),
        selection=st.sampled_from(["puct", "uct"]),
        states=st.sampled_from(["simulation", "decision"]),
    )
    def agree(seed, depth, c, simulations, ask, values, histories, selection, states):
        rules, state = drawn_task(seed, tmp_path)
        first = rules.observe(state)
        prior = [[hashed(seed, t, p) for p in range(4)] for t in range(len(rules.things))]
        belief = Belief.at_start(rules, prior, first).filled(Random(seed))
        home, start = as_reference(rules, state)
        places = [place.name for place in rules.home.places]
        weighed = {
            thing: dict(zip(places, row, strict=True))
            for thing, row in zip(rules.things, prior, strict=True)
        }
        believed = household.Belief(home, weighed, (home.observe(start),)).filled(Random(seed))
        draw, own_draw = belief.draw, believed.draw
        if states == "decision":
            once, own_once = draw(Random(seed)), own_draw(Random(seed))
            draw, own_draw = (lambda _: once), (lambda _: own_once)
        # π reads what was seen, of which histories of actions have several.
        reads = histories == "observations"

        def weights(texts, actions):
            read = texts if reads else len(texts)
            some = [0.1 + hashed(seed, read, str(action)) for action in actions]
            return [weight / sum(some) for weight in some]

        def pi(seen, actions):
            read = [observation_text(as_package(one, rules), rules) for one in seen]
            return weights(read, actions)

        async def policy(asked):
            return weights([*(turn.seen for turn in asked.past), asked.now], asked.actions)

        # Powers of two: a mean of returns is exact.
        gamma, reward = 0.5, 8.0
        mine = Algorithm1(
            home,
            own_draw,
            (home.observe(start),),
            pi,
            depth=depth,
            c=c,
            ask=ask,
            values=values,
            histories=histories,
            selection=selection,
            gamma=gamma,
            reward=reward,
        )
        mine.search(simulations, Random(seed))
        backup = by_sums(gamma=gamma)
        if values == "softmax":
            backup = by_weighted_returns(gamma=gamma, temperature=T)
        root = Node()
        model = Tree(
            rules=rules,
            draw=draw,
            actions=rules.actions,
            past=Past((), observation_text(first, rules), belief),
            policy=policy,
            see=rules.observe if reads else lambda _: (),
            rollout=Rollouts(rules, each=1, gamma=gamma),
            depth=depth,
            reward=reward,
        )
        asyncio.run(
            search(
                root,
                model,
                select=(select_by_puct if selection == "puct" else select_by_uct)(c=c),
                backup=backup,
                simulations=simulations,
                max_depth=depth,
                expand_at=ask,
                rng=Random(seed),
            )
        )
        tree = tree_of(root, keyed=reads)
        expected = {
            numbered(h, rules): {a: (mine.n[h, a], mine.q[h, a], p) for a, p in policy.items()}
            for h, policy in mine.policy.items()
        }
        assert tree.keys() == expected.keys()
        for h, edges in tree.items():
            assert list(edges) == list(expected[h])
            for (n, q, p), (mine_n, mine_q, mine_p) in zip(
                edges.values(), expected[h].values(), strict=True
            ):
                assert (n, p) == (mine_n, mine_p)
                assert isclose(q, mine_q, rel_tol=1e-12 if values == "softmax" else 0.0)
        met.update(
            gained=any(q > 0 for edges in tree.values() for _, q, _ in edges.values()),
            deep=max(map(len, tree)) > 2,
            split=any(len(edge.nodes) > 1 for _, edge in edges_below(root)),
        )

    agree()
    assert min(met[kind] for kind in ("gained", "deep", "split")) > 5, met
