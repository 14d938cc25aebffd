"""Tree of Options against its reference: random options, random answers."""

import asyncio
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from llm_planning.domain import Domain, Step
from llm_planning.environments.blocksworld.domain import Blocksworld
from llm_planning.environments.blocksworld.generator import draw_problem
from llm_planning.execution.episode import Episode
from llm_planning.execution.option_settings import ExecutionSettings
from llm_planning.execution.options import Candidate, Completion, Executing, OptionState
from llm_planning.execution.policies import Feedback
from llm_planning.planners.tree_of_options.algorithm import TreeOfOptions
from llm_planning.planners.tree_of_options.baselines import TreeOfThoughts, Unchecked, Unpredicted
from llm_planning.planners.tree_of_options.roles import Feasibility, PredictedState
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.planners.tree_of_options.specs import SPECS
from llm_planning.roles import Engines
from llm_planning.search import best_path
from llm_planning.specs import Run
from llm_serving.scripted import ScriptedEngine

from .tree_of_options import discounted, execute_option, tree_of_options

PLANNERS = {
    "too": TreeOfOptions,
    "too-no-wm": Unpredicted,
    "too-no-fc": Unchecked,
    "tot-mcts": TreeOfThoughts,
}
PRIMARY = ("reward_estimate", "reachability", "relativity", "consistency")
MODERATE = ("feasibility", "success_probability", "task_specificity")
PENALTY = ("redundancy",)


def averaged(rewards, gamma):
    """A mean per step, which the Q printed in Appendix A.7 look like (`return=mean`)."""
    return discounted(rewards, gamma) / discounted([1.0] * len(rewards), gamma)


def hashed(*key):
    """A number in [0, 1) for a key."""
    return int.from_bytes(blake2b(repr(key).encode(), digest_size=4).digest(), "big") / 2**32


@dataclass
class World:
    """Hashed answers for both algorithms. `asked` keeps the package's questions."""

    seed: int
    k: int
    options: int
    infeasible: float
    done: float
    asked: list = field(default_factory=list)

    def drawn(self, *key):
        return f"o{int(hashed(self.seed, *key) * self.options)}"

    def propose(self, tau):
        return [self.drawn("propose", tau, place) for place in range(self.k)]

    def obstacle(self, tau, option):
        return "no" if hashed(self.seed, "feasible", tau, option) < self.infeasible else None

    def repair(self, tau, option):
        return self.drawn("repair", tau, option)

    def dynamics(self, tau, option):
        """Of states and options alone (eq. 1)."""
        return int(hashed(self.seed, "dynamics", tau[0], option) * 9)

    def scores(self, tau, option, state):
        key = (self.seed, tau[1], option, state)
        return {
            option: int(hashed(*key, option) * 5) / 4 for option in (*PRIMARY, *MODERATE, *PENALTY)
        }

    def termination(self, tau):
        return hashed(self.seed, "termination", tau) < self.done


class Roles:
    """The package's roles, answered by a world; the moments of its questions say nothing here."""

    def __init__(self, world):
        self.world = world
        self.domain = SimpleNamespace(goal="goal", describe=str)

    def ask(self, role, *question):
        self.world.asked.append((role, *question))
        return getattr(self.world, role)(*question)

    def by_name(self, names, k, *, moment, judged):
        assert k == self.world.k
        return {name: getattr(self, name)() for name in names}

    def propose(self):
        async def ask(tau):
            return [
                Candidate(option, option)
                for option in self.ask("propose", (tau.state, tau.options))
            ]

        return ask

    def feasibility(self):
        async def ask(asked):
            tau = asked.tau
            return Feasibility(self.ask("obstacle", (tau.state, tau.options), asked.option))

        return ask

    def repair(self):
        async def ask(asked):
            tau = asked.tau
            return self.ask("repair", (tau.state, tau.options), asked.option)

        return ask

    def dynamics(self):
        async def ask(asked):
            tau = asked.tau
            return PredictedState(self.ask("dynamics", (tau.state, tau.options), asked.option))

        return ask

    def reward(self):
        async def ask(asked):
            before = (asked.before.state, asked.before.options)
            return self.ask("scores", before, asked.option, asked.tau.state)

        return ask

    def termination(self):
        async def ask(tau):
            return self.ask("termination", (tau.state, tau.options))

        return ask


def searched(planner, world, read):
    """The package's tree and plan."""
    algorithm = PLANNERS[planner]
    model = algorithm(OptionState("goal", 0), Roles(world), FeasibleSearchSettings.read(read))
    root = asyncio.run(model.search())
    return edges_of(root), [edge.action for edge in best_path(root)]


def edges_of(node):
    """The edges of a node of the package: option, N, Q, reward, state, whether it is the end."""
    return [
        (
            edge.action,
            edge.visits,
            edge.value,
            edge.step.reward,
            edge.step.state.tau.state,
            edge.node.memo.done if edge.node else None,
            edges_of(edge.node) if edge.node else [],
        )
        for edge in node.edges
    ]


def read_off(node):
    """The same of the reference's tree."""
    return [
        (
            edge.option,
            edge.visits,
            edge.value,
            edge.reward,
            edge.child.tau[0],
            edge.child.done,
            read_off(edge.child),
        )
        for edge in node.edges
    ]


def roles_of(planner, world, infeasible):
    """The reference's roles: the ablations answer without asking (Section 4.4)."""
    algorithm = PLANNERS[planner]

    def feasible(tau, option):
        if issubclass(algorithm, Unchecked) or world.obstacle(tau, option) is None:
            return option
        return world.repair(tau, option) if infeasible == "repair" else None

    def initial(tau, _):
        return tau[0]

    return {
        "propose": world.propose,
        "feasible": feasible,
        "dynamics": initial if issubclass(algorithm, Unpredicted) else world.dynamics,
        "scores": world.scores,
        "termination": world.termination,
    }


def asked_of(planner, asked):
    """The reference's questions that its planner asks: see `roles_of`."""
    algorithm = PLANNERS[planner]
    silent = {"feasible"} if issubclass(algorithm, Unchecked) else set()
    silent |= {"dynamics"} if issubclass(algorithm, Unpredicted) else set()
    return [question for question in asked if question[0] not in silent]


quarters = st.integers(-8, 8).map(lambda number: number / 4)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(
    planner=st.sampled_from(tuple(PLANNERS)),
    world=st.builds(
        World,
        seed=st.integers(0, 2**32),
        k=st.integers(2, 4),
        options=st.integers(3, 9),
        infeasible=st.floats(0, 0.6),
        done=st.floats(0, 0.3),
    ),
    d=st.integers(2, 5),
    iterations=st.integers(3, 12),
    gamma=st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    c=st.floats(0, 32),
    each=st.tuples(quarters, quarters, quarters),
    return_=st.sampled_from(["sum", "mean"]),
    first_play=st.sampled_from(["zero", "reward"]),
    infeasible=st.sampled_from(["repair", "drop"]),
    ends=st.sampled_from(["asked", "kept"]),
)
def test_all_planners_of_the_family_are_the_reference(
    planner, world, d, iterations, gamma, c, each, return_, first_play, infeasible, ends
):
    """Equal trees, plans and questions in order. All numbers but UCB's are exact in binary.

    By default `return=sum` is Section 3.1 iv, `first_play=zero` its equations, `infeasible=repair`
    eq. 3 (`drop`: line 26). `mean` and `reward` fit Appendix A.7. With `ends=asked` the package
    asks of an end again when it comes back there, and here hears the same.
    """
    primary, moderate, penalty = each
    tree, plan = searched(
        planner,
        world,
        {
            "k": world.k,
            "d": d,
            "iter": iterations,
            "gamma": gamma,
            "c": c,
            "primary_weight": primary,
            "moderate_weight": moderate,
            "penalty_weight": penalty,
            "return": return_,
            "first_play": first_play,
            "infeasible": infeasible,
            "ends": ends,
        },
    )
    root, expected, questions = tree_of_options(
        0,
        roles_of(planner, world, infeasible),
        weights={
            **dict.fromkeys(PRIMARY, primary),
            **dict.fromkeys(MODERATE, moderate),
            **dict.fromkeys(PENALTY, penalty),
        },
        length=d,
        iterations=iterations,
        gamma=gamma,
        exploration=c,
        returns={"sum": discounted, "mean": averaged}[return_],
        untried=lambda edge: edge.reward if first_play == "reward" else 0.0,
    )
    assert tree == read_off(root)
    assert plan == expected
    asked = [
        ("feasible" if role == "obstacle" else role, *question)
        for role, *question in world.asked
        if role != "repair"
    ]
    if ends == "asked":
        asked = list(dict.fromkeys(asked))
    assert asked == asked_of(planner, questions)


def without_errors(name, puzzle, **read):
    """Plan and tree of a planner in Blocksworld, all of whose roles rules answer."""
    spec = next(spec for spec in SPECS if spec.name == name)
    run = Run(
        domain="blocksworld",
        task=puzzle.name,
        world=Blocksworld(puzzle),
        engines=Engines(ScriptedEngine({})),
        settings=spec.settings.read({"roles": "rules", **read}),
        seed=0,
    )
    outcome = asyncio.run(spec.run(run))
    return outcome.plan, outcome.trace["tree"]["visits"], below(outcome.trace["tree"])


def below(node):
    """The edges of a node, without the words of its states."""
    keys = ("option", "visits", "value", "reward", "scores", "done")
    return [(*(edge[key] for key in keys), below(edge)) for edge in node["edges"]]


@settings(deadline=None, max_examples=25, derandomize=True)
@given(
    size=st.integers(3, 5),
    seed=st.integers(0, 2**32),
    d=st.integers(2, 6),
    return_=st.sampled_from(["sum", "mean"]),
    c=st.floats(0, 8),
)
def test_without_errors_and_chance_the_ablations_are_too(size, seed, d, return_, c):
    """In Blocksworld, where nothing is drawn, all four have one tree.

    Rules propose what can be carried out, so the feasibility check passes all of it. Without a
    world model they imagine the options so far, by the steps by which it predicts them one by one,
    and so answer about the same states (`rules_see=imagined`).
    """
    puzzle = draw_problem(size, "drawn", Random(seed))
    read = {"d": d, "c": c, "iter": 6, "return": return_, "first_play": "reward"}
    whole = without_errors("too", puzzle, **read)
    assert whole[0]
    for name in ("too-no-fc", "too-no-wm", "tot-mcts"):
        assert without_errors(name, puzzle, **read) == whole


class Hashed(Domain):
    """A world for Algorithm 2: hashed steps, and hashed effects of options."""

    goal = "goal"

    def __init__(self, seed, done):
        self.seed, self.done = seed, done

    def start(self, seed):
        return 0

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return ("a", "b")

    def step(self, state, action, rng):
        return Step(int(hashed(self.seed, "step", state, action) * 9))

    def success(self, state):
        return False

    def shows(self, before, state, option):
        return hashed(self.seed, "shows", state, option) < self.done


@dataclass
class HashedPolicies:
    """Policies of up to three actions. `asked` and `skills` are what the package did."""

    world: Hashed
    asked: list = field(default_factory=list)
    skills: list = field(default_factory=list)
    name = "hashed"

    def in_option(self, state, option, feedback):
        self.asked.append((state, option, feedback))
        key = (self.world.seed, state, option, feedback)
        return tuple("ab"[int(hashed(*key, i) * 2)] for i in range(int(hashed(*key) * 4)))

    def execute(self, policy, state):
        for action in policy:
            state = self.world.step(state, action, None).state
        return state, f"{policy} led to {state}"

    async def write(self, question):
        self.policy = self.in_option(question.tau.state, question.option, question.feedback or None)
        return self.policy

    async def run(self, policy, episode):
        for action in policy:
            await episode.act(action)
        return Feedback(f"{policy} led to {episode.state}", tuple(episode.moves))

    async def judged(self, question):
        return Completion(self.world.shows(None, question.tau.state, question.option))

    async def note(self, question, *, shown):
        if shown:
            self.skills.append((question.option, self.policy))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    done=st.floats(0, 1),
    attempts=st.integers(1, 5),
    options=st.lists(st.sampled_from("xyz"), min_size=1, max_size=3),
)
def test_options_are_executed_as_in_algorithm_2(seed, done, attempts, options):
    """Equal verdicts, states, questions and skills, where the world shows what β says.

    The package adds a skill when the world shows it, and does not ask for the policy that line 12
    makes after the last attempt, which nobody executes.
    """
    world = Hashed(seed, done)
    policies, reference = HashedPolicies(world), HashedPolicies(world)
    roles = {
        "in_option": reference.in_option,
        "execute": reference.execute,
        "beta": lambda state, option: world.shows(None, state, option),
        "add_skill": lambda *skill: reference.skills.append(skill),
    }

    async def executed():
        running = Executing(
            world,
            policies,
            ExecutionSettings.read({"refinements": attempts, "attempts": 100}),
            await Episode.begin(world, seed=0),
        )
        return [(await running.execute(option, 0), running.episode.state) for option in options]

    expected, asked, state = [], [], 0
    for option in options:
        reference.asked.clear()
        verdict, state = execute_option(state, option, roles, attempts=attempts)
        expected.append((verdict, state))
        asked += reference.asked[:attempts]
    assert asyncio.run(executed()) == expected
    assert policies.asked == asked
    assert policies.skills == reference.skills
