"""Why does a run in a home fail? The classes of LLM-MCTS, Appendix D, decided by experts.

An action is *lost* if it brings the goal no nearer, as an expert counts who knows the real state.

translation  the instruction was read as another goal.
model        the action helps in the state that the agent held for the likeliest: things lie
             elsewhere than it believes.
policy       it helps in neither state, nor does an action that π liked most.
search       it helps in neither state, though an action that π liked most does (ours). A search
             without a policy likes all alike, so the fault is its own.
time         no action was lost, and there were too few.

A run has the class of most of its lost actions. What the paper calls a translation of an action, an
answer in free words that becomes another action, cannot be told apart here: π has it already, so it
counts as `policy`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from llm_planning.planners.llm_mcts.roles import likeliest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llm_planning.environments.household.belief import Belief
    from llm_planning.environments.household.domain import KnownHousehold
    from llm_planning.environments.household.rules import State
    from llm_planning.execution.decisions import Decision

Loss: TypeAlias = Literal["policy", "model", "search"]

LOSSES: Final[tuple[Loss, ...]] = ("policy", "model", "search")
"""Why an action is lost; of equally frequent ones the first names the run."""


def helps(world: KnownHousehold, state: State, action: str) -> bool:
    """Whether an action brings the goal nearer in a state."""
    rules, expert = world.rules, world.expert
    for candidate in rules.actions(state):
        if str(candidate) == action:
            after = rules.after(state, candidate)
            return not isinstance(after, str) and expert.length(after) < expert.length(state)
    return False


def loss_of(
    action: str, decision: Decision, *, state: State, belief: Belief, world: KnownHousehold
) -> Loss | None:
    """Why an action is lost; None if it helps.

    Args:
        state: the real one.
        belief: the agent's; its goal is the real one.
    """
    if helps(world, state, action):
        return None
    believed = likeliest(belief, world.expert)
    if helps(world, believed, action):
        return "model"
    most = max(option.prior for option in decision.options)
    liked = (option.action for option in decision.options if option.prior == most)
    helpful = any(helps(world, state, choice) or helps(world, believed, choice) for choice in liked)
    return "search" if helpful else "policy"


def failure_metrics(
    moves: Iterable[tuple[str, State]],
    decisions: Sequence[Decision],
    beliefs: Sequence[Belief],
    *,
    world: KnownHousehold,
    success: bool,
    misread: bool,
) -> dict[str, str | int | None]:
    """The metric `failure`, and how many actions were lost for which reason.

    Args:
        moves: the actions with the real states in which they were taken.
        decisions: how they were chosen.
        beliefs: before each of them.
        world: the real home.
        success: whether the run reached the goal; it has no `failure` then.
        misread: whether the agent planned for another goal; nothing else is counted then.
    """
    if misread:
        return {"failure": None if success else "translation"}
    lost = Counter(
        loss_of(action, decision, state=state, belief=belief, world=world)
        for (action, state), decision, belief in zip(moves, decisions, beliefs, strict=True)
    )
    most = max(LOSSES, key=lambda loss: lost[loss])
    failure = None if success else most if lost[most] else "time"
    return {"failure": failure, **{f"lost_{loss}": lost[loss] for loss in LOSSES}}
