"""ToO's roles: which texts each of them reads, in which order, who answers it, and how.

The texts are the blocks of `templates/`. Two layouts order the same blocks. `cached` puts whatever
does not change into the system message, then goes from what changes rarely to what changes always:
the goal, the surroundings, the options done (which only grow), the belongings, the option. All
questions about one node's candidates then share everything up to the option, and questions of one
role about different nodes share their beginnings. `paper` is the order of Appendix A: who speaks,
the state, the goal and the history first, the rules and the format last.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel

from llm_planning.environments.minecraft.vocabulary import VERBS
from llm_planning.planners.tree_of_options import answers
from llm_planning.roles import LlmRole, Prompt
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from llm_planning.planners.tree_of_options.settings import Layout, PromptSettings
    from llm_planning.roles import Engines, Role
    from llm_serving.engine import Engine

AnswerT = TypeVar("AnswerT", bound=BaseModel)

PROPOSER_TEMPERATURE = 0.2
"""Of the option proposer; every other role is greedy (Section 4.1)."""

NOW = "now"
PREDICTED = "predicted after the option"
START = "at the start, before any option"
"""The moment that the state in a prompt is of."""

_GREEDY = Sampling(temperature=0.0)

_STATE = ("surroundings", "belongings")
_INSTRUCTIONS = ("game", "rules", "format")

PAPER_ORDER = {
    "propose": (*_STATE, "goal", "history", "options", *_INSTRUCTIONS),
    "feasibility": (*_STATE, "goal", "history", "option", *_INSTRUCTIONS),
    "repair": (*_STATE, "goal", "history", "option", "obstacle", "options", *_INSTRUCTIONS),
    "dynamics": (*_STATE, "option", *_INSTRUCTIONS),
    "reward": ("option", *_STATE, "goal", "history", "rules", "format"),
    "termination": (*_STATE, "goal", "rules", "format"),
    "termination-from-start": (*_STATE, "goal", "history", "rules", "format"),
    "decompose": (*_STATE, "goal", "options", *_INSTRUCTIONS),
}
"""Blocks of each prompt after the speaker's, as in Appendix A; CoT's and repair's by analogy.

Dynamics and termination see what their equations condition on (eqs. 1 and 4; a termination needs
the goal besides), feasibility and repair the whole τ of eq. 3. Where no state is predicted, only
the options done tell how far the plan is, and termination sees them too.
"""

CHANGING = ("goal", "surroundings", "history", "belongings", "option", "obstacle")
"""What differs between questions, from rarely to always."""


def order(name: str, layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The blocks of a prompt's system message and of its user message."""
    blocks = PAPER_ORDER[name]
    if layout == "paper":
        return ("role",), blocks
    fixed = tuple(block for block in blocks if block not in CHANGING)
    return ("role", *fixed), tuple(block for block in CHANGING if block in blocks)


@cache
def compose(name: str, layout: Layout, moment: str, count: int) -> Prompt:
    """The prompt of one role, compiled.

    Args:
        name: a key of `PAPER_ORDER`.
        layout: which order.
        moment: what the state is of: `NOW`, `PREDICTED` or `START`.
        count: how many options are asked for, or may be at most.
    """
    templates = files(__package__) / "templates"
    own = f"{name.partition('-')[0]}.j2"
    system, user = order(name, layout)
    return Prompt(
        [(templates / source).read_text("utf-8") for source in ("shared.j2", own)],
        system=system,
        user=user,
        constants={"moment": moment, "count": count, "verbs": ", ".join(VERBS)},
    )


class Questions:
    """Makes the roles of one run.

    Every node is expanded once and siblings differ in their option, so no prompt is asked twice and
    one seed makes each proposal a function of its node's path alone.

    Args:
        engines: who answers.
        settings: `k`, where options are proposed, comes with the role.
        seed: of the run.
    """

    def __init__(self, engines: Engines, settings: PromptSettings, *, seed: int) -> None:
        self._engines = engines
        self._settings = settings
        self._drawn = Sampling(temperature=PROPOSER_TEMPERATURE, seed=seed)

    def propose(self, k: int, moment: str) -> Role[answers.Proposal]:
        """Names k candidates ω̃ from τ (eq. 2): goal, state, history."""
        answer = answers.proposal(k, self._settings.vocabulary)
        return self._role(
            "propose", answer, self._engines.options, moment, count=k, sampling=self._drawn
        )

    def feasibility(self, moment: str) -> Role[answers.Feasibility]:
        """Whether ω̃ can be carried out after τ: goal, state, history, option."""
        return self._role("feasibility", answers.Feasibility, self._engines.options, moment)

    def repair(self, moment: str) -> Role[answers.PlainOption]:
        """The prerequisite ω of an infeasible ω̃ (eq. 3): goal, state, history, option, reason."""
        answer = answers.repair(self._settings.vocabulary)
        return self._role("repair", answer, self._engines.options, moment)

    def dynamics(self) -> Role[answers.Prediction]:
        """What ω changes in ŝ (eq. 1): state, option."""
        answer = answers.prediction(self._settings.vocabulary)
        return self._role("dynamics", answer, self._engines.world, NOW)

    def reward(self, moment: str) -> Role[answers.Evaluation]:
        """The scores r_q of ω after τ (eq. 6): goal, state, history, option."""
        return self._role("reward", answers.Evaluation, self._engines.world, moment)

    def termination(self) -> Role[answers.Termination]:
        """Whether ŝ is terminal (eq. 4): goal, state."""
        return self._role("termination", answers.Termination, self._engines.world, NOW)

    def termination_from_start(self) -> Role[answers.Termination]:
        """Whether the options done since s_0 reach the goal: goal, state, history."""
        return self._role("termination-from-start", answers.Termination, self._engines.world, START)

    def decompose(self) -> Role[answers.Decomposition]:
        """A whole plan of at most d options from s_0: goal, state."""
        d = self._settings.d
        answer = answers.decomposition(d, self._settings.vocabulary)
        return self._role(
            "decompose", answer, self._engines.options, NOW, count=d, sampling=self._drawn
        )

    def _role(
        self,
        name: str,
        answer: type[AnswerT],
        engine: Engine,
        moment: str,
        *,
        count: int = 1,
        sampling: Sampling = _GREEDY,
    ) -> LlmRole[AnswerT]:
        return LlmRole(
            name.partition("-")[0],
            prompt=compose(name, self._settings.layout, moment, count),
            answer=answer,
            engine=engine,
            sampling=sampling,
        )
