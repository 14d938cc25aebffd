"""ToO's roles: which texts each of them reads, in which order, who answers it, and how.

The texts are the blocks of `templates/`, in which a domain's own `wording` replaces what it says
better. Two layouts order the same blocks. `cached` puts whatever does not change into the system
message, then goes from what changes rarely to what changes always: the goal, the background (that
part of the state that options rarely change), the options done (which only grow), the state, the
option. All questions about one node's candidates then share everything up to the option, and
questions of one role about different nodes share their beginnings. `paper` is the order of
Appendix A: who speaks, the state, the goal and the history first, the rules and the format last.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from llm_planning.planners.tree_of_options import answers
from llm_planning.planners.tree_of_options.rules import missing_for_rules, rules_of
from llm_planning.planners.tree_of_options.trajectory import Candidate, Transition, Verdict
from llm_planning.roles import Errors, LlmRole, Oracle, OwnModel, Prompt
from llm_planning.search.tree import A, S
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pydantic import BaseModel

    from llm_planning.planners.tree_of_options.settings import Layout, PromptSettings
    from llm_planning.planners.tree_of_options.trajectory import Considered, Trajectory
    from llm_planning.planners.tree_of_options.world import OptionDomain
    from llm_planning.roles import Engines, Role

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

PROPOSER_TEMPERATURE = 0.2
"""Of the option proposer; every other role is greedy (Section 4.1)."""

NOW = "now"
PREDICTED = "predicted after the option"
START = "at the start, before any option"
"""The moment that the state in a prompt is of."""

_GREEDY = Sampling(temperature=0.0)

_STATE = ("background", "state")
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

OPTIONAL = ("background", "game")
"""Blocks that are said only where a domain words them."""

CHANGING = ("goal", "background", "history", "state", "option", "obstacle")
"""What differs between questions, from rarely to always."""


def order(blocks: Sequence[str], layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The blocks of a prompt's system message and of its user message."""
    if layout == "paper":
        return ("role",), tuple(blocks)
    fixed = tuple(block for block in blocks if block not in CHANGING)
    return ("role", *fixed), tuple(block for block in CHANGING if block in blocks)


def compose(
    name: str, domain: OptionDomain[Any, Any], layout: Layout, *, moment: str, count: int = 1
) -> Prompt:
    """The prompt of one role, compiled.

    Args:
        name: a key of `PAPER_ORDER`.
        domain: whose wording is used where it has one.
        layout: which order.
        moment: what the state is of: `NOW`, `PREDICTED` or `START`.
        count: how many options are asked for, or may be at most.
    """
    own = name.partition("-")[0]
    worded: Mapping[str, str] = getattr(domain, "wording", {})
    sources = [
        text for source in ("shared", own) for text in (_template(source), worded.get(source, ""))
    ]
    if domain.about:
        sources.insert(0, "{% block game %}\n{{ about }}\n{%- endblock %}\n")
    said = frozenset(re.findall(r"{%-? *block (\w+)", "".join(sources)))
    blocks = [block for block in PAPER_ORDER[name] if block in said or block not in OPTIONAL]
    system, user = order(blocks, layout)
    constants = {
        "moment": moment,
        "count": count,
        "options": domain.grammar.told,
        "fields": _listed(domain.grammar.fields),
        "about": domain.about,
        "world": domain,
    }
    model = getattr(domain, "state_model", None)
    if model is not None:
        constants["state_fields"] = _listed(model.answer.model_fields)
    return Prompt(sources, system=system, user=user, constants=constants)


def _listed(names: Iterable[str]) -> str:
    """Names as a sentence says them: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@cache
def _template(name: str) -> str:
    return (files(__package__) / "templates" / f"{name}.j2").read_text("utf-8")


class Questions(Generic[S, A]):
    """Makes the roles of one run.

    Every node is expanded once and siblings differ in their option, so no prompt is asked twice and
    one seed makes each proposal a function of its node's path alone.

    Args:
        domain: what is planned in.
        engines: the models that answer.
        settings: `k`, where options are proposed, comes with the role.
        seed: of the run.

    Attributes:
        oracles: who answers in a model's place, JSON-able.

    Raises:
        SettingsError: `roles` names what there is not, or rules that the domain does not have.
    """

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        self._domain = domain
        self._engines = engines
        self._settings = settings
        self._seed = seed
        self._drawn = Sampling(temperature=PROPOSER_TEMPERATURE, seed=seed)
        self._who = settings.assignment
        self._rules = rules_of(domain, seed=seed)
        self.oracles: list[dict[str, object]] = []

    def propose(self, k: int, moment: str) -> Role[Trajectory[S, A], Sequence[Candidate[A]]]:
        """Names k candidates ω̃ from τ (eq. 2): goal, state, history."""
        return self._options("propose", moment, least=k, most=k)

    def decompose(self) -> Role[Trajectory[S, A], Sequence[Candidate[A]]]:
        """A whole plan of at most d options from s_0: goal, state."""
        return self._options("decompose", NOW, least=1, most=self._settings.d)

    def feasibility(self, moment: str) -> Role[Considered[S, A], Verdict]:
        """Whether ω̃ can be carried out after τ: goal, state, history, option."""

        def read(_: Considered[S, A], said: answers.Feasibility) -> Verdict:
            return Verdict(None if said.action_valid else said.reason)

        return self._role("feasibility", moment, answers.Feasibility, read)

    def repair(self, moment: str) -> Role[Considered[S, A], A]:
        """The prerequisite ω of an infeasible ω̃ (eq. 3): goal, state, history, option, reason."""
        grammar = self._domain.grammar

        def read(_: Considered[S, A], said: BaseModel) -> A:
            return grammar.read(said.model_dump())

        return self._role("repair", moment, answers.one_option(grammar), read)

    def dynamics(self) -> Role[Considered[S, A], Transition[S]]:
        """What ω makes of ŝ (eq. 1): state, option."""
        model = self._domain.state_model

        def read(asked: Considered[S, A], said: BaseModel) -> Transition[S]:
            return Transition(*model.read(asked.trajectory.state, said))

        return self._role("dynamics", NOW, model.answer, read)

    def reward(self, moment: str) -> Role[Considered[S, A], Mapping[str, float]]:
        """The scores r_q of ω after τ (eq. 6): goal, state that ω leads to, history, option."""

        def read(_: Considered[S, A], said: answers.Evaluation) -> Mapping[str, float]:
            return said.model_dump()

        return self._role("reward", moment, answers.Evaluation, read)

    def termination(self, moment: str) -> Role[Trajectory[S, A], bool]:
        """Whether ŝ is terminal (eq. 4): goal, state; without a world model, the history as well.

        Args:
            moment: `NOW`, or `START` where no state is predicted.
        """

        def read(_: Trajectory[S, A], said: answers.Termination) -> bool:
            return said.done

        name = "termination" if moment == NOW else "termination-from-start"
        return self._role(name, moment, answers.Termination, read)

    def _options(
        self, name: str, moment: str, *, least: int, most: int
    ) -> Role[Trajectory[S, A], Sequence[Candidate[A]]]:
        grammar = self._domain.grammar

        def read(_: Trajectory[S, A], said: answers.Options) -> Sequence[Candidate[A]]:
            written = [one.model_dump() for one in said.options]
            chosen = [(grammar.read(one), one["reasoning"]) for one in written]
            return [Candidate(option, option, reasoning) for option, reasoning in chosen]

        model = answers.options(grammar, least, most)
        role = self._role(name, moment, model, read, count=most, sampling=self._drawn)

        async def ask(question: Trajectory[S, A], /) -> Sequence[Candidate[A]]:
            # Rules advise as many as there are.
            return (await role(question))[:most]

        return ask

    def _role(
        self,
        name: str,
        moment: str,
        answer: type[Any],
        read: Callable[[QuestionT, Any], AnswerT],
        *,
        count: int = 1,
        sampling: Sampling = _GREEDY,
    ) -> Role[QuestionT, AnswerT]:
        """The role, answered by whom the setting `roles` says."""
        role = name.partition("-")[0]
        who = self._who.of(role)
        if isinstance(who, OwnModel) and role not in self._engines.by_role:
            raise SettingsError(
                f"roles={self._settings.roles}: nobody opened {who.model} for {role!r}: give the "
                "planner Engines(engine, {role: another engine})"
            )
        if isinstance(who, Errors):
            if role not in self._rules:
                raise SettingsError(
                    f"roles={self._settings.roles}: this domain has no rules that answer {role!r}: "
                    f"add {', '.join(missing_for_rules(self._domain))} as plain methods, or let a "
                    "model answer it"
                )
            oracle: Oracle[QuestionT, AnswerT] = Oracle(
                role, self._rules[role], errors=who, seed=self._seed
            )
            self.oracles.append(oracle.describe())
            return oracle
        asked: LlmRole[QuestionT, Any] = LlmRole(
            role,
            prompt=compose(name, self._domain, self._settings.layout, moment=moment, count=count),
            answer=answer,
            engine=self._engines.of(role),
            sampling=sampling,
            tell=_told,
        )
        return asked.read(read)


def _told(question: Any) -> dict[str, object]:  # noqa: ANN401 - a trajectory, or about an option
    """What a template is given."""
    trajectory = getattr(question, "trajectory", question)
    return {
        "goal": trajectory.goal,
        "state": trajectory.state,
        "described": trajectory.described,
        "history": trajectory.history,
        "option": getattr(question, "option", None),
        "reason": getattr(question, "obstacle", ""),
    }
