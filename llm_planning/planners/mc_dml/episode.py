"""A game played by searching before every move, and the statistics of those searches (Table 4)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from llm_planning.planners.mc_dml.outcome import Episode
from llm_planning.planners.mc_dml.roles import Turn
from llm_planning.planners.mc_dml.search import Position, Search, best_action, observe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_planning.environments.textgame.game import TextGame
    from llm_planning.planners.mc_dml.search import Agent, Searched


@dataclass(frozen=True, slots=True)
class ActionStatistics:
    """An action of the root, as a column of Table 4.

    Attributes:
        action: a.
        value: Q(s, a).
        prior: π(a|s), as it was asked last.
        visits: N(s, a).
    """

    action: str
    value: float
    prior: float
    visits: int


@dataclass(frozen=True, slots=True)
class Decision:
    """How a move was chosen.

    Attributes:
        root: the statistics of every valid action.
        depth: H of the last tree.
        simulations: of all trees.
        reflections: ℳ_c at the end.
    """

    root: tuple[ActionStatistics, ...]
    depth: int
    simulations: int
    reflections: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """For a trace."""
        return {
            "root": [
                {"action": a.action, "Q": a.value, "prior": a.prior, "N": a.visits}
                for a in self.root
            ],
            "depth": self.depth,
            "simulations": self.simulations,
            "reflections": list(self.reflections),
        }


async def play(
    game: TextGame, agent: Agent, *, moves: int, seed: int
) -> tuple[Episode, tuple[Decision, ...]]:
    """Searches, executes the best action, and so on, with a fresh tree for every move.

    Args:
        game: from its start.
        agent: how to search.
        moves: most of them; a state in which nothing can be done ends the episode as well.
        seed: of rollouts and of draws between equal actions.

    Returns:
        The episode, and how each of its moves was chosen.

    Raises:
        TextGameError: the game failed.
        Exception: of whoever answers the agent, unchanged.
    """
    here = await game.start()
    turns: tuple[Turn, ...] = ()
    decisions: list[Decision] = []
    start = score = here.reward
    while len(turns) < moves and here.ending is None:
        if not await game.actions(here.state):
            break
        stream = f"{seed}/{len(turns)}"
        searched = await Search(agent, game, Position(turns, here, score), seed=stream).run()
        decisions.append(_decision(searched))
        action = best_action(searched.root, Random(f"{stream}/tie")).payload.action
        observation = await observe(game, here)
        here = await game.step(here.state, action)
        score += here.reward
        turns = (*turns, Turn(observation, action, here.reward, score))
    return Episode(turns, await observe(game, here), here.ending, start), tuple(decisions)


def format_decisions(turns: Sequence[Turn], decisions: Sequence[Decision]) -> str:
    """Every move with the statistics of its root, best Q first, as an aligned table."""
    blocks = []
    for number, (turn, decision) in enumerate(zip(turns, decisions, strict=True), start=1):
        width = max(len(one.action) for one in decision.root)
        lines = [
            f"{number}. {turn.action} (reward {turn.reward:g}, score {turn.score:g}; "
            f"H {decision.depth}, {decision.simulations} simulations)",
            f"   {'':{width}}  {'Q':>8}  {'prior':>5}  {'N':>6}",
        ]
        ranked = sorted(decision.root, key=lambda one: (-one.value, -one.visits))
        lines.extend(
            f"   {one.action:{width}}  {one.value:8.2f}  {one.prior:5.2f}  {one.visits:6d}"
            for one in ranked
        )
        lines.extend(f"   reflection: {reflection}" for reflection in decision.reflections)
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _decision(searched: Searched) -> Decision:
    return Decision(
        tuple(
            ActionStatistics(child.payload.action, child.value, child.prior, child.visits)
            for child in searched.root.children
        ),
        searched.depth,
        searched.simulations,
        searched.reflections,
    )
