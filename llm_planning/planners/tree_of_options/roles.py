"""ToO's roles: the texts that each reads and their order, the form of its answer, and who answers.

The texts are the blocks of `templates/`. A domain's own `wording` may replace any of them. Two
layouts order the same blocks. `cached` puts the blocks that never change into the system message.
The user message goes from what changes rarely to what changes always: the goal, the background (the
part of the state that options rarely change), the options done (which only grow), the state, the
option. So all questions about one node's candidates share everything up to the option, and
questions of one role about different nodes share their beginnings. `paper` is the order of
Appendix A: who speaks, the state, the goal and the history first, the rules and the format last.

Minecraft's blocks, in `environments/minecraft/option_prompts`, replace most of those in the
templates of the same names, so an edit here may change nothing in Minecraft.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import A, S
from llm_planning.planners.tree_of_options.rules import missing_for_rules, rules_of
from llm_planning.planners.tree_of_options.states import (
    Candidate,
    Feasibility,
    OptionQuestion,
    PredictedState,
)
from llm_planning.roles import Errors, LlmRole, Oracle, OwnModel, Prompt
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from llm_planning.domain import Grammar
    from llm_planning.planners.tree_of_options.settings import Layout, PromptSettings
    from llm_planning.planners.tree_of_options.states import OptionDomain, OptionState
    from llm_planning.roles import Engines, Role

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")

PROPOSER_TEMPERATURE = 0.2
"""The temperature of the option proposer. Every other role is greedy (Section 4.1)."""

NOW = "now"
PREDICTED = "predicted after the option"
START = "at the start, before any option"
"""The moment of the state in a prompt."""

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
"""Role -> the blocks of its prompt after the speaker's, as in Appendix A.

The paper prints no prompts of CoT and repair; they are made by analogy. Dynamics and termination
see what their equations condition on (eqs. 1 and 4), and termination sees the goal as well.
Feasibility and repair see the whole τ of eq. 3. Without a world model only the options done say
how far the plan is, so termination sees them too.
"""

TAUGHT_ORDER = {
    "dynamics": ("state", "option", "dynamics"),
    "propose": ("state", "goal", "propose"),
    "feasibility": ("state", "goal", "option", "feasibility"),
    "repair": ("state", "goal", "option", "obstacle", "repair"),
    "reward": ("state", "goal", "option", "reward"),
    "termination": ("state", "goal", "termination"),
}
"""Role -> the blocks of the question to a model that a simulator taught, all in the user message.

Such a model knows the rules and the form of its answers, so one line asks. The state comes first:
all questions about one state share it, in teaching and in the prefix cache. The state says all that
the options done have led to, so the history is left out. Roles that see another moment than their
own (START, without a world model) are not taught.
"""

OPTIONAL = ("background", "game")
"""Blocks that a prompt has only if the domain has texts for them."""

CHANGING = ("goal", "background", "history", "state", "option", "obstacle")
"""Blocks that differ between questions, those that change rarely first."""


def order(blocks: Sequence[str], layout: Layout) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the blocks of a prompt's system message and of its user message, in order."""
    if layout == "paper":
        return ("role",), tuple(blocks)
    fixed = tuple(block for block in blocks if block not in CHANGING)
    return ("role", *fixed), tuple(block for block in CHANGING if block in blocks)


def compose(
    name: str, domain: OptionDomain[Any, Any], layout: Layout, *, moment: str, count: int = 1
) -> Prompt:
    """Compiles the prompt of one role.

    Args:
        name: a key of `PAPER_ORDER`.
        domain: its `wording` replaces blocks of the general prompts.
        layout: the order of the blocks.
        moment: of the state: `NOW`, `PREDICTED` or `START`.
        count: the number of options to ask for, or the most.
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


def compose_taught(name: str, domain: OptionDomain[Any, Any], *, count: int = 1) -> Prompt:
    """Compiles the prompt of one role for a model that a simulator taught.

    Args:
        name: a key of `TAUGHT_ORDER`.
        domain: its `wording["taught"]` replaces blocks of `templates/taught.j2`.
        count: the number of options to ask for.
    """
    worded: Mapping[str, str] = getattr(domain, "wording", {})
    return Prompt(
        [_template("taught"), worded.get("taught", "")],
        system=("role",),
        user=TAUGHT_ORDER[name],
        constants={"count": count},
    )


def _listed(names: Iterable[str]) -> str:
    """Joins names as in a sentence: a, b and c."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@cache
def _template(name: str) -> str:
    return (files(__package__) / "templates" / f"{name}.j2").read_text("utf-8")


Reason: TypeAlias = Annotated[str, Field(max_length=60)]
Score: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0, multiple_of=0.1)]


class OptionsAnswer(BaseModel):
    """Several options. The model writes the reason of each before the option."""

    options: list[Any]


class FeasibilityAnswer(BaseModel):
    """Whether an option can be carried out. The model writes the reason first (Appendix A.5)."""

    reason: Reason
    action_valid: bool


class RewardAnswer(BaseModel):
    """The eight scores r_q of the reward predictor (Appendix A.4), each from 0 to 1."""

    success_probability: Score
    reward_estimate: Score
    feasibility: Score
    consistency: Score
    relativity: Score
    reachability: Score
    task_specificity: Score
    redundancy: Score


class TerminationAnswer(BaseModel):
    """Whether a state is terminal (eq. 4)."""

    done: bool


def several_options(grammar: Grammar[Any], least: int, most: int) -> type[OptionsAnswer]:
    """Makes the answer model of `least` to `most` options with their reasons (eq. 2)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    reasoned: Any = create_model("ReasonedOption", reasoning=(Reason, ...), **fields)
    several: Any = Annotated[list[reasoned], Field(min_length=least, max_length=most)]
    return create_model("SeveralOptions", __base__=OptionsAnswer, options=(several, ...))


def one_option(grammar: Grammar[Any]) -> type[BaseModel]:
    """Makes the answer model of a prerequisite (eq. 3)."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in grammar.fields.items()}
    return create_model("PlainOption", __doc__="An option as the domain writes it.", **fields)


class OptionRoles(Generic[S, A]):
    """Makes the roles of one run.

    Every node is expanded once and siblings differ in their option, so no prompt is asked twice.
    With one seed, each proposal then depends on its node's path alone.

    Args:
        domain: the domain to plan in.
        engines: the models that answer.
        settings: who answers each role, and the layout.
        seed: of the run.

    Attributes:
        domain: as given.
        settings: as given.
        seed: as given.
        oracles: the oracles that answer roles, JSON-able.

    Raises:
        SettingsError: `roles` has an unknown role, or asks for rules that the domain lacks.
    """

    def __init__(
        self,
        domain: OptionDomain[S, A],
        engines: Engines,
        settings: PromptSettings,
        *,
        seed: int,
    ) -> None:
        self.domain = domain
        self._engines = engines
        self.settings = settings
        self.seed = seed
        self._drawn = Sampling(temperature=PROPOSER_TEMPERATURE, seed=seed)
        self._who = settings.assignment
        self._rules = rules_of(domain, seed=seed)
        self.oracles: list[dict[str, object]] = []

    def propose(self, k: int, moment: str) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that proposes k candidates ω̃ after τ (eq. 2). Sees goal, state and history."""
        return self._options("propose", moment, least=k, most=k)

    def decompose(self) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        """The role that writes a plan of at most d options from s_0. Sees goal and state."""
        return self._options("decompose", NOW, least=1, most=self.settings.d)

    def feasibility(self, moment: str) -> Role[OptionQuestion[S, A], Feasibility]:
        """The role that judges whether ω̃ is feasible. Sees goal, state, history and option."""

        def read(_: OptionQuestion[S, A], said: FeasibilityAnswer) -> Feasibility:
            return Feasibility(None if said.action_valid else said.reason)

        return self._role("feasibility", moment, FeasibilityAnswer, read)

    def repair(self, moment: str) -> Role[OptionQuestion[S, A], A]:
        """The role that names a prerequisite of an infeasible ω̃ (eq. 3). Sees τ, ω̃ and reason."""
        grammar = self.domain.grammar

        def read(_: OptionQuestion[S, A], said: BaseModel) -> A:
            return grammar.read(said.model_dump())

        return self._role("repair", moment, one_option(grammar), read)

    def dynamics(self) -> Role[OptionQuestion[S, A], PredictedState[S]]:
        """The role that predicts the state after ω (eq. 1). Sees state and option."""
        model = self.domain.state_model

        def read(asked: OptionQuestion[S, A], said: BaseModel) -> PredictedState[S]:
            return PredictedState(*model.read(asked.tau.state, said))

        return self._role("dynamics", NOW, model.answer, read)

    def reward(self, moment: str) -> Role[OptionQuestion[S, A], Mapping[str, float]]:
        """The role that scores ω (eq. 6). Sees goal, state after ω, history and option."""

        def read(_: OptionQuestion[S, A], said: RewardAnswer) -> Mapping[str, float]:
            return said.model_dump()

        return self._role("reward", moment, RewardAnswer, read)

    def termination(self, moment: str) -> Role[OptionState[S, A], bool]:
        """The role that judges whether ŝ is terminal (eq. 4). Sees goal and state.

        Args:
            moment: `NOW`, or `START` without a world model; the role then sees the history as well.
        """

        def read(_: OptionState[S, A], said: TerminationAnswer) -> bool:
            return said.done

        name = "termination" if moment == NOW else "termination-from-start"
        return self._role(name, moment, TerminationAnswer, read)

    def _options(
        self, name: str, moment: str, *, least: int, most: int
    ) -> Role[OptionState[S, A], Sequence[Candidate[A]]]:
        grammar = self.domain.grammar

        def read(_: OptionState[S, A], said: OptionsAnswer) -> Sequence[Candidate[A]]:
            written = [one.model_dump() for one in said.options]
            chosen = [(grammar.read(one), one["reasoning"]) for one in written]
            return [Candidate(option, option, reasoning) for option, reasoning in chosen]

        model = several_options(grammar, least, most)
        role = self._role(name, moment, model, read, count=most, sampling=self._drawn)

        async def ask(question: OptionState[S, A], /) -> Sequence[Candidate[A]]:
            # Rules may propose more than `most`.
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
        """Makes a role with the answerer that the setting `roles` says."""
        role = name.partition("-")[0]
        who = self._who.of(role)
        if isinstance(who, OwnModel) and role not in self._engines.by_role:
            raise SettingsError(
                f"roles={self.settings.roles}: the model {who.model} of role {role!r} is not open: "
                "give the planner Engines(engine, {role: another engine})"
            )
        if isinstance(who, Errors):
            if role not in self._rules:
                raise SettingsError(
                    f"roles={self.settings.roles}: this domain has no rules that answer {role!r}: "
                    f"add {', '.join(missing_for_rules(self.domain))} as plain methods, or let a "
                    "model answer it"
                )
            oracle: Oracle[QuestionT, AnswerT] = Oracle(
                role, self._rules[role], errors=who, seed=self.seed
            )
            self.oracles.append(oracle.describe())
            return oracle
        asked: LlmRole[QuestionT, Any] = LlmRole(
            role,
            prompt=compose(name, self.domain, self.settings.layout, moment=moment, count=count),
            answer=answer,
            engine=self._engines.of(role),
            sampling=sampling,
            tell=told,
        )
        return asked.read(read)


def told(question: Any) -> dict[str, object]:  # noqa: ANN401 - an `OptionState` or about an option
    """The values of a template."""
    tau = question.tau if isinstance(question, OptionQuestion) else question
    return {
        "goal": tau.goal,
        "state": tau.state,
        "described": tau.described,
        "history": tau.history,
        "option": getattr(question, "option", None),
        "reason": getattr(question, "obstacle", ""),
    }
