"""Tiny games and agents for the tests of MC-DML's search."""

import json
import random
from pathlib import Path

from search_worlds import exported as statistics

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import GameSeconds, Transition
from llm_planning.planners.mc_dml.algorithm import McDml, Position, Scene
from llm_planning.planners.mc_dml.settings import McDmlSettings, PrunedSettings
from llm_planning.search import edges_below, select_by_puct

GOLDEN = Path(__file__).parents[1] / "golden" / "mc_dml"


def rounded(value):
    """JSON values with nine digits after the point: in the last ones, machines may differ."""
    return json.loads(json.dumps(value), parse_float=lambda number: round(float(number), 9))


def read_golden(name):
    """Reads known right values from a golden file."""
    return rounded(json.loads((GOLDEN / f"{name}.json").read_text("utf-8")))


class GraphGame:
    """A game written down: {state: {action: (next state, reward, ending)}}, from the first one."""

    def __init__(self, graph, max_score=10.0):
        self.name = "graph"
        self.max_score = max_score
        self.walkthrough = ()
        self.objective = ""
        self.seconds = GameSeconds()
        self.graph = graph
        self.stepped = []

    async def start(self):
        return Transition(next(iter(self.graph)), "It begins.", 0.0, None)

    async def actions(self, state):
        return tuple(self.graph.get(state, {}))

    async def look(self, state):
        return f"You are in {state}.", "Nothing."

    async def step(self, state, action):
        self.stepped.append((state, action))
        following, reward, ending = self.graph[state][action]
        return Transition(following, f"You {action}.", reward, ending)


def chain(length, reward, ending=None):
    """One way only; the last step is worth something."""
    graph = {f"s{i}": {"go": (f"s{i + 1}", 0.0, None)} for i in range(length - 1)}
    graph[f"s{length - 1}"] = {"go": ("end", reward, ending)}
    return GraphGame(graph)


def random_game(seed, endings, states=25):
    """Two or three actions in each state; each may pay, lead anywhere, or end the game."""
    draw = random.Random(seed)
    return GraphGame(
        {
            f"s{i}": {
                action: (f"s{draw.randrange(states)}", draw.choice([0, 0, 1, 3]), None)
                if draw.random() < 0.8
                else (f"end {i}{action}", 0.0, draw.choice(endings))
                for action in "abc"[: draw.choice([2, 3])]
            }
            for i in range(states)
        }
    )


async def uniform_prior(situation):
    return [1.0 / len(situation.actions)] * len(situation.actions)


def search_parts(**parts):
    given = {
        "prior": uniform_prior,
        "past": 1,
        "reflect": None,
        "k": 3 if parts.get("reflect") else 0,
        "select": select_by_puct(c=1.0),
        "depths": (3,),
        "gamma": 0.5,
        "simulations_per_action": 1,
        "width": 1,
    }
    return {**given, **parts}


def changed(parts, **changes):
    return {**parts, **changes}


def agent(world, parts):
    """MC-DML with these parts, and without ℳ_c for k = 0."""
    given = dict(parts)
    roles = {name: given.pop(name) for name in ("prior", "past", "reflect", "select")}
    depths, k = given.pop("depths"), given.pop("k")
    given |= {"d_min": depths[0], "d_max": depths[-1], "delta_d": max(1, depths[-1] - depths[0])}
    settings = McDmlSettings(**given, k=k) if k else PrunedSettings(**given)
    assert settings.depths == depths
    return McDml(domain=world, settings=settings, **roles)


async def searched(game, parts, seed="0", turns=(), score=0.0):
    position = Position(turns, Scene(await game.start()), score)
    return await agent(TextGameDomain(game), parts).search(position, rng=random.Random(seed))


class Reflects:
    """Reflections are numbered."""

    def __init__(self, sentences=None):
        self.trajectories = []
        self.sentences = sentences

    async def __call__(self, trajectory):
        self.trajectories.append(trajectory)
        number = len(self.trajectories)
        return self.sentences or f"reflection {number}"


def exported(root):
    return statistics(root, lambda edge: (edge.action, edge.step, edge.node and edge.node.memo))


def rows(root):
    """A tree edge by edge."""
    return [[depth, e.action, e.visits, e.value, e.prior] for depth, e in edges_below(root)]


def policy(look, actions, known):
    """Any π will do that depends on the state and on ℳ_c."""
    weights = [1 + random.Random(f"{look}/{action}/{known}").random() for action in actions]
    return [weight / sum(weights) for weight in weights]


async def by_words(situation):
    return policy(situation.observation.look, situation.actions, len(situation.reflections))


async def tell_actions(trajectory):
    return "/".join(turn.action for turn in trajectory.turns)
