"""What makes a search in a text game fast: remembered transitions, and priors scored together.

Simulations: the first move of five generated games is searched with a uniform prior, once as
TextWorld's own interface plays (a copy of the environment per simulation, the valid actions
computed at every step) and once with snapshots and the transition memory. Both grow the same trees,
or nothing is timed. The naive arm runs few simulations: a copy, which dominates, costs the same in
the first and the last of them, so a few tell what one costs. The other arm runs the paper's number
three times, with three seeds, from an empty memory that the three share: the ratio is that of all
three. That of the first search alone, which fills the memory, is told beside it, for all games and
for each.

Priors: states of one game with at least 15 actions, as a search asks about them. Exact priors of
all of them at the same moment, of one after the other, and, for the first few, each action by
a request of its own with `prompt_logprobs`, which switches vLLM's prefix cache off. These requests
have the prompt without the filler that makes ours cheap to score.
"""

from __future__ import annotations

import asyncio
import statistics
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias

from bench_engine import engine, forget, in_turn, lengths, plain_scores, timed, together
from harness import AnswersDifferError, Finding, medians, parser, report
from naive_textworld import NaiveGame

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.remembered import RememberedGame, TransitionMemory
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.textworld_interpreter import open_textworld
from llm_planning.environments.textgame.textworld_kinds import KINDS
from llm_planning.environments.textgame.textworld_making import GAME_FILE
from llm_planning.planners.mc_dml.algorithm import McDml, Position, Scene
from llm_planning.planners.mc_dml.roles import GameTurn, GameWording, observe
from llm_planning.planners.mc_dml.settings import FixedDepthSettings
from llm_planning.priors import action_prompt, make_prior
from llm_planning.search import edges_below, select_by_puct
from llm_serving.models.folders import cache_folder
from llm_serving.request import ScoreRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from llm_planning.environments.textgame.game import TextGame
    from llm_planning.planners.mc_dml.algorithm import GameNode
    from llm_planning.planners.mc_dml.roles import GamePolicy, GameSituation
    from llm_serving.engine import Engine
    from llm_serving.request import EncodedPrompt
    from llm_serving.vllm_engine import VllmEngine

GAME_SEED = 1
WIDE = ("cooking", 8)
"""Kind and level of the game whose states have many actions."""

DEPTH, EXPLORATION = 10, 3.0
FEW, PAPERS, RUNS = 2, 50, 3
"""Simulations per action of the root: those that the naive arm can run, and the paper's; seeds."""

LEAST_ACTIONS, WAITING, SCORED_PLAINLY = 15, 8, 3
REPEATS = 3
TOLERANCE = 2e-2

Rows: TypeAlias = "list[Sequence[float]]"
Written: TypeAlias = "Callable[[Engine, GameSituation], EncodedPrompt]"
Asking: TypeAlias = "Callable[[GameSituation], Coroutine[Any, Any, Sequence[float]]]"


QUESTIONS = GameWording()


async def uniform(situation: GameSituation) -> Sequence[float]:
    """Returns 1 / |𝒜|."""
    return [1.0 / len(situation.actions)] * len(situation.actions)


def searching(game: TextGame, per_action: int, *, prior: GamePolicy = uniform) -> McDml:
    """PUCT of one depth, sequential."""
    return McDml(
        domain=TextGameDomain(game),
        settings=FixedDepthSettings(depth=DEPTH, simulations_per_action=per_action),
        prior=prior,
        reflect=None,
        past=1,
        select=select_by_puct(c=EXPLORATION),
    )


async def first_move(game: TextGame, per_action: int, *, seed: str = "0") -> GameNode:
    """The tree of the first move."""
    position = Position((), Scene(await game.start()), 0.0)
    return (await searching(game, per_action).search(position, rng=Random(seed))).root


def remembering(kind: str) -> RememberedGame:
    """A game of the default level, begun, with an empty memory."""
    interpreter = open_textworld(kind, level=None, seed=GAME_SEED)
    return RememberedGame(SnapshotGame(interpreter), TransitionMemory())


def naive(game: RememberedGame) -> NaiveGame:
    """The same game as TextWorld plays it."""
    file = cache_folder() / "games" / f"text-{game.name}" / GAME_FILE
    return NaiveGame(file, name=game.name, max_score=game.max_score)


def tree(root: GameNode) -> list[tuple[str, int, int, float, float]]:
    """Every edge: action, depth, N, Q and r, which is 0 of an action that was not taken."""
    return [
        (edge.action, depth, edge.visits, edge.value, edge.step.reward if edge.step else 0.0)
        for depth, edge in edges_below(root)
    ]


def same_tree(kind: str) -> int:
    """Checks that both arms grow the same tree.

    Returns:
        |𝒜(s_0)|.

    Raises:
        AnswersDifferError: they do not.
    """
    quick = remembering(kind)
    wanted = tree(asyncio.run(first_move(naive(quick), FEW)))
    root = asyncio.run(first_move(quick, FEW))
    found = tree(root)
    if wanted != found:
        pairs = zip(wanted, found, strict=False)
        apart = next((pair for pair in pairs if pair[0] != pair[1]), (len(wanted), len(found)))
        raise AnswersDifferError(f"the trees of {quick.name} differ, first here: {apart}")
    return root.visits // FEW


def simulating(kind: str, actions: int) -> dict[str, float]:
    """What a simulation costs.

    Returns:
        naive, remembered: seconds per simulation of each arm.
        first, last: those of the first and the last seed of ours.
        copies: of the environment, per simulation of the naive arm.
    """

    def ran(game: TextGame, per_action: int, seed: int = 0) -> float:
        return timed(first_move(game, per_action, seed=str(seed)))[1]

    by_seed: list[list[float]] = []
    copies: list[int] = []

    def naively() -> float:
        game = naive(remembering(kind))
        seconds = ran(game, FEW)
        copies.append(game.copies)
        return seconds

    def remembered() -> float:
        game = remembering(kind)
        by_seed.append([ran(game, PAPERS, seed) for seed in range(RUNS)])
        return sum(by_seed[-1])

    seconds = medians({"naive": naively, "remembered": remembered}, repeats=REPEATS)
    many = actions * PAPERS
    return {
        "naive": seconds["naive"] / (actions * FEW),
        "remembered": seconds["remembered"] / (many * RUNS),
        "first": statistics.median(times[0] for times in by_seed) / many,
        "last": statistics.median(times[-1] for times in by_seed) / many,
        "copies": statistics.median(copies) / (actions * FEW),
    }


def simulations() -> Finding:
    """Simulations per second with the transition memory over those of the naive form.

    The ratio is that of three searches that share a memory, over all kinds. In the details are that
    of each kind, and those of the first search, from an empty memory, and of the last one.
    """
    width = {kind: same_tree(kind) for kind in KINDS}
    taken = {kind: simulating(kind, width[kind]) for kind in KINDS}
    # A kind counts as often as its root has actions, as in the paper's number of simulations.
    total = {
        arm: sum(taken[kind][arm] * width[kind] for kind in KINDS)
        for arm in ("naive", "remembered", "first", "last")
    }
    return Finding(
        label=f"simulations per second: transition memory of {RUNS} searches over the naive form",
        measured=total["naive"] / total["remembered"],
        unit="x",
        bound="at least",
        target=20,
        details={
            "depth": DEPTH,
            "ratio_first_search": total["naive"] / total["first"],
            "ratio_last_search": total["naive"] / total["last"],
            **{
                f"{kind}_{name}": value
                for kind in KINDS
                for name, value in (
                    ("simulations_per_search", width[kind] * PAPERS),
                    ("copies_per_naive_simulation", taken[kind]["copies"]),
                    ("per_second_naive", 1 / taken[kind]["naive"]),
                    ("per_second", 1 / taken[kind]["remembered"]),
                    ("ratio", taken[kind]["naive"] / taken[kind]["remembered"]),
                    ("ratio_first_search", taken[kind]["naive"] / taken[kind]["first"]),
                    ("ratio_last_search", taken[kind]["naive"] / taken[kind]["last"]),
                )
            },
        },
    )


class Asked:
    """A uniform prior that remembers which states with many actions it was asked about."""

    def __init__(self) -> None:
        self.situations: list[GameSituation] = []

    async def __call__(self, situation: GameSituation) -> Sequence[float]:
        """Returns 1 / |𝒜|."""
        if len(situation.actions) >= LEAST_ACTIONS:
            self.situations.append(situation)
        return await uniform(situation)


async def wide_position(world: TextGameDomain) -> Position:
    """The first state of a walkthrough with many actions.

    Raises:
        RuntimeError: there is none.
    """
    here = await world.start(0)
    turns: tuple[GameTurn, ...] = ()
    score = here.reward
    for action in world.walkthrough:
        if len(await world.actions(here)) >= LEAST_ACTIONS:
            return Position(turns, Scene(here), score)
        observation = await observe(world, here)
        here = (await world.step(here, action, Random(0))).state
        score += here.reward
        turns = (*turns, GameTurn(observation, action, here.reward, score))
    raise RuntimeError(f"no state of the walkthrough of {world.name} has {LEAST_ACTIONS} actions")


async def situations() -> list[GameSituation]:
    """The first states with many actions that a search in the wide game asks about.

    Raises:
        RuntimeError: it asks about too few.
    """
    kind, level = WIDE
    interpreter = open_textworld(kind, level=level, seed=GAME_SEED)
    game = RememberedGame(SnapshotGame(interpreter), TransitionMemory())
    position = await wide_position(TextGameDomain(game))
    prior = Asked()
    await searching(game, FEW, prior=prior).search(position, rng=Random("0"))
    if len(prior.situations) < WAITING:
        raise RuntimeError(
            f"only {len(prior.situations)} states with {LEAST_ACTIONS} actions were asked about, "
            f"of {WAITING}: search longer"
        )
    return prior.situations[:WAITING]


def priors(opened: VllmEngine, waiting: Sequence[GameSituation]) -> Finding:
    """Exact priors of all waiting states together over those of one state after the other."""
    found: dict[str, Rows] = {}

    def ran(name: str) -> float:
        forget(opened)
        prior = make_prior("exact", opened, wording=QUESTIONS)
        questions = [prior(situation) for situation in waiting]
        found[name], seconds = timed((together if name == "together" else in_turn)(questions))
        return seconds

    seconds = medians(
        {"together": lambda: ran("together"), "in_turn": lambda: ran("in_turn")}, repeats=REPEATS
    )
    gap = _gap(found["together"], found["in_turn"])
    if gap > TOLERANCE:
        raise AnswersDifferError(f"priors are {gap} apart")
    return Finding(
        label=f"exact priors of {len(waiting)} states together over one state after the other",
        measured=seconds["in_turn"] / seconds["together"],
        unit="x",
        bound="at least",
        target=2,
        details={
            "seconds_together": seconds["together"],
            "seconds_in_turn": seconds["in_turn"],
            "gap_of_priors": gap,
            "actions": " ".join(str(len(question.actions)) for question in waiting),
            **lengths(opened, [asked(opened, question) for question in waiting]),
        },
    )


def beside_plain(opened: VllmEngine, scored: Sequence[GameSituation]) -> Finding:
    """Exact log-probabilities of actions over a `prompt_logprobs` request for each action.

    Each arm reads the prompt that is cheapest for it: ours the filled one, the other the shortest.
    That both ways give the same numbers is checked on the shortest.
    """

    async def ours(write: Written, situation: GameSituation) -> Sequence[float]:
        request = ScoreRequest(write(opened, situation), situation.actions)
        return (await opened.score(request)).logprobs

    def ran(ask: Asking) -> tuple[Rows, float]:
        forget(opened)
        return timed(together([ask(situation) for situation in scored]))

    found, plainly = ran(partial(plain, opened))
    arms = {"exact": lambda: ran(partial(ours, asked))[1]}
    exact = medians(arms, repeats=REPEATS)["exact"]
    gap = _gap(found, ran(partial(ours, shortest))[0])
    if gap > TOLERANCE:
        raise AnswersDifferError(f"log-probabilities are {gap} nats apart")
    return Finding(
        label=f"exact scoring over plain prompt_logprobs, {len(scored)} states",
        measured=plainly / exact,
        unit="x",
        bound="at least",
        target=15,
        details={
            "seconds_plain": plainly,
            "seconds_exact": exact,
            "gap_nats": gap,
            "actions_scored": " ".join(str(len(question.actions)) for question in scored),
            "block_size": opened.block_size,
            **{
                f"{arm}_{name}": tokens
                for arm, write in (("plain", shortest), ("exact", asked))
                for name, tokens in lengths(
                    opened, [write(opened, question) for question in scored]
                ).items()
            },
        },
    )


def asked(opened: Engine, situation: GameSituation) -> EncodedPrompt:
    """What `exact` asks."""
    return action_prompt(opened, QUESTIONS, situation)


def shortest(opened: Engine, situation: GameSituation) -> EncodedPrompt:
    """What `exact` asks, without a filler."""
    return opened.encode(QUESTIONS.action(situation, dashes=1))


async def plain(opened: VllmEngine, situation: GameSituation) -> Sequence[float]:
    """One request per action, as vLLM offers it."""
    scores, _ = await plain_scores(opened, shortest(opened, situation), situation.actions)
    return scores


def _gap(rows: Rows, other: Rows) -> float:
    return max(
        abs(a - b)
        for row, others in zip(rows, other, strict=True)
        for a, b in zip(row, others, strict=True)
    )


def main() -> None:
    """Compares the answers, then measures and reports."""
    options = parser(__doc__)
    options.add_argument(
        "--without-model", action="store_true", help="measure the simulations only"
    )
    arguments = options.parse_args()
    findings = [simulations()]
    if not arguments.without_model:
        waiting = asyncio.run(situations())
        with engine() as opened:
            findings.append(priors(opened, waiting))
            findings.append(beside_plain(opened, waiting[:SCORED_PLAINLY]))
    report("textgame", findings, as_json=arguments.json)


if __name__ == "__main__":
    main()
