"""DRIP's roles: what each is asked, in which words, what it answers, and what the rules say.

The texts are the blocks of `templates/drip.j2`; a domain's `wording["drip"]` may replace any. What
never changes is in the system message: the task, the world, the language of options, the rules and
the form of the answer. The user message begins with what changes least.

By rules, a right decomposition is the domain's; a wrong one has a mistake in one of its subtasks,
and with `unit: item` each subtask errs on its own. Of an open goal, the subtasks that are done are
left out. A wrong verdict is one of the two others. A wrong state is the one after another action. A
right next action is the first advised one that can be carried out, or the end if the goal is
reached; a wrong one is a mistake for it, and to leave it out is to say that the goal is reached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence  # noqa: TC003 (a dataclass's field)
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from importlib.resources import files
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, get_args

from pydantic import BaseModel, Field, create_model

from llm_planning.domain import A, Judged, Predicts, S, Verdict
from llm_planning.planners.drip.settings import TreeSettings
from llm_planning.roles import CheckedRules, Items, Kinds, Prompt, RoleSpec, Rule, on_the_way
from llm_planning.roles.mistakes import Mistakes, names_of
from llm_planning.roles.options import (
    REASON,
    Reason,
    listed,
    one_option,
    reasoned,
    written_fields,
)
from llm_planning.roles.short import short_words
from llm_planning.settings import SettingsError
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_planning.domain import Domain, Grammar, StateModel

    class DripDomain(Domain[S, A]):
        """A domain that decomposes and judges."""

        grammar: Grammar[A]
        state_model: StateModel[S]

        def decompose(self, state: S, subtask: A | None) -> Sequence[A]:
            """The subtasks right before a subtask; None is the goal."""
            ...

        def judge(self, state: S, subtask: A, parent: A | None) -> Judged:
            """Whether a subtask is done or executable."""
            ...


DRAWN = 0.7
"""The temperature of a vote, and of a decomposition that is asked for again (our choice). Every
other answer is greedy."""

END = "end"
"""What ReAct writes in the place of an action at its goal."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

MOST: Final[int] = TreeSettings.model_fields["most"].default
"""The most subtasks of a decomposition, as planners ask by default."""

OTHERS = 8
"""The most other actions that are tried for a state that is wrong."""


_MODELS_KEPT = 64


@dataclass(frozen=True, slots=True)
class Decomposition(Generic[S, A]):
    """decompose(n): which subtasks come right before this one?

    Attributes:
        subtask: g; None for the goal.
        goal: what is to be reached, in words: the whole goal, or what is open of it.
        state: what rules answer from: S_t where `described` or `goal` tells of it, otherwise S_0.
        described: S_t in words; empty for DRIP, which decomposes without looking at the state.
        asking: how often this was asked about before in this state.
    """

    subtask: A | None
    goal: str
    state: S = field(repr=False)
    described: str = ""
    asking: int = field(default=0, repr=False)

    @property
    def subject(self) -> str:
        """What is decomposed, in words."""
        return self.goal if self.subtask is None else str(self.subtask)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[S, A]):
    """executability(g, S_t): is the subtask done, executable or neither?

    Attributes:
        subtask: g.
        parent: the subtask that g was decomposed from; None if that is the goal.
        state: S_t.
        described: S_t in words.
        vote: the number of the vote, from 0.
    """

    subtask: A
    parent: A | None
    state: S = field(repr=False)
    described: str
    vote: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class Application(Generic[S, A]):
    """apply(g, S_t): what is the state after the subtask?

    Attributes:
        subtask: g.
        state: S_t.
        described: S_t in words.
        vote: the number of the vote, from 0.
    """

    subtask: A
    state: S = field(repr=False)
    described: str
    vote: int = field(default=0, repr=False)


@dataclass(frozen=True, slots=True)
class NextAction(Generic[S, A]):
    """ReAct: which action comes next, or is the goal reached?

    Attributes:
        goal: in words.
        state: S_t.
        described: S_t in words.
        history: the actions so far, in words, with a mark if they were refused, and the end if it
            was said too early.
    """

    goal: str
    state: S = field(repr=False)
    described: str
    history: Sequence[str]


@dataclass(frozen=True, slots=True)
class Applied(Generic[S]):
    """What became of an action.

    Attributes:
        state: S_{t+1}.
        obstacle: why the action was refused; None if it was not.
        certain: whether the step drew nothing, so that the plan can be simulated again.
    """

    state: S
    obstacle: str | None = None
    certain: bool = True


class JudgementAnswer(BaseModel):
    """Executability. The model writes the reason first."""

    reason: Reason
    verdict: Verdict


@lru_cache(_MODELS_KEPT)
def several_subtasks(grammar: Grammar[Any], most: int) -> type[BaseModel]:
    """Makes the answer model of a decomposition into at most so many subtasks."""
    option = one_option(grammar)
    several: Any = Annotated[list[option], Field(max_length=most)]  # type: ignore[valid-type]
    return create_model("Subtasks", subtasks=(several, ...))


@lru_cache(_MODELS_KEPT)
def next_action(grammar: Grammar[Any], *, reason: int = REASON) -> type[BaseModel]:
    """Makes the answer model of ReAct: a thought, then an action or `END`."""
    thought: Any = Annotated[str, Field(max_length=reason)]
    option = one_option(grammar)
    following: Any = Literal["end"] | option
    return create_model("Thought", thought=(thought, ...), next=(following, ...))


class DripRoles(Generic[S, A]):
    """The roles in one domain.

    Args:
        seed: of the answers that are drawn, and of the chance in predictions.
    """

    def __init__(self, domain: DripDomain[S, A], *, seed: int) -> None:
        self.domain = domain
        self._rules: Any = CheckedRules(domain)
        self._seed = seed
        self._prompt = cache(self._compiled)

    def by_name(self) -> Mapping[str, RoleSpec[Any, Any]]:
        """Role -> what it is, as planners ask by default."""
        several = (self.decompose(MOST), self.judge(), self.apply(), self.act())
        return {spec.name: spec for spec in several}

    def decompose(self, most: int) -> RoleSpec[Decomposition[S, A], Sequence[A]]:
        """Which subtasks come right before a subtask: `decompose` of Algorithm 1.

        Args:
            most: the most subtasks that a model writes.
        """
        grammar = self.domain.grammar

        def read(_: Decomposition[S, A], written: Any) -> Sequence[A]:  # noqa: ANN401
            return [grammar.read(subtask.model_dump()) for subtask in written.subtasks]

        rules = ("options", "decomposition_rules", "decomposition_format")
        return RoleSpec(
            name="decompose",
            asks=Decomposition,
            # Without `described`, `target` has no state (Table 7).
            prompt=partial(self._prompt, ("decomposer", "about", *rules), ("target",)),
            writes=partial(several_subtasks, grammar, most),
            read=read,
            short=short_words("decompose", self.domain) if most == MOST else None,
            sampling=lambda question: self._sampling(question.asking),
            rule=self._decompose_rule(),
            needs=("decompose", "judge"),
            options=lambda subtasks: subtasks,
            same=lambda answer, other: Counter(answer) == Counter(other),
            brief=lambda subtasks: ", ".join(map(str, subtasks)) or "nothing",
        )

    def judge(self, *, reason: int = REASON) -> RoleSpec[Judgement[S, A], Judged]:
        """Whether a subtask is done, executable or neither: its executability.

        Args:
            reason: the most characters of a model's reason.
        """
        rules = ("judgement_rules", "judgement_format")
        return RoleSpec(
            name="judge",
            asks=Judgement,
            prompt=partial(
                self._prompt, ("judge", "about", *rules), ("state", "subtask", "parent")
            ),
            writes=lambda: reasoned(JudgementAnswer, reason),
            read=lambda _, written: Judged(written.verdict, written.reason),
            short=short_words("judge", self.domain) if reason == REASON else None,
            sampling=lambda question: self._sampling(question.vote),
            rule=Rule(
                right=self._judged,
                wrong=self._misjudged,
                situation=lambda question: (
                    str(question.subtask),
                    None if question.parent is None else str(question.parent),
                    question.described,
                ),
                kinds=Kinds(names=VERDICTS, of=lambda question: self._judged(question).verdict),
            ),
            needs=("judge",),
            same=lambda answer, other: answer.verdict == other.verdict,
            brief=lambda judged: judged.verdict,
        )

    def apply(self) -> RoleSpec[Application[S, A], S]:
        """What the state is after a subtask: `apply` of Algorithm 1."""
        model = self.domain.state_model if isinstance(self.domain, Predicts) else None

        def writes() -> type[BaseModel]:
            if model is None:
                raise SettingsError(
                    "this domain has no `state_model`, so no model can say what a subtask does: "
                    "let rules answer `apply`"
                )
            written: type[BaseModel] = model.answer
            return written

        def read(question: Application[S, A], written: BaseModel) -> S:
            state: S = model.read(question.state, written)[0]
            return state

        rules = ("application_rules", "application_format")
        return RoleSpec(
            name="apply",
            asks=Application,
            prompt=partial(self._prompt, ("actuator", "about", *rules), ("state", "subtask")),
            writes=writes,
            read=read,
            short=short_words("apply", self.domain),
            sampling=lambda question: self._sampling(question.vote),
            rule=Rule(
                right=lambda question: self._after(question, question.subtask),
                wrong=self._misapplied,
                situation=lambda question: (str(question.subtask), question.described),
            ),
            needs=("actions", "step", "describe"),
            same=lambda answer, other: answer == other,
        )

    def act(self, *, reason: int = REASON) -> RoleSpec[NextAction[S, A], Sequence[A]]:
        """Which action ReAct takes next; no action says that the goal is reached.

        Args:
            reason: the most characters of a model's thought.
        """
        grammar = self.domain.grammar

        def read(_: NextAction[S, A], written: Any) -> Sequence[A]:  # noqa: ANN401
            return [] if written.next == END else [grammar.read(written.next.model_dump())]

        rules = ("options", "action_rules", "action_format")
        return RoleSpec(
            name="act",
            asks=NextAction,
            prompt=partial(self._prompt, ("actor", "about", *rules), ("goal", "history", "state")),
            writes=partial(next_action, grammar, reason=reason),
            read=read,
            short=short_words("act", self.domain) if reason == REASON else None,
            rule=self._act_rule(),
            needs=("actions", "step", "feasible", "advise", "success"),
            options=lambda actions: actions,
            # Several actions may be right, but only one verdict on the end.
            same=lambda answer, other: bool(answer) == bool(other),
            brief=lambda actions: str(actions[0]) if actions else END,
        )

    def _compiled(self, system: tuple[str, ...], user: tuple[str, ...]) -> Prompt:
        domain = self.domain
        worded = domain.wording.get("drip", "")
        model = domain.state_model if isinstance(domain, Predicts) else None
        constants = {
            "about": domain.about,
            "options": domain.grammar.instruction,
            "fields": listed(domain.grammar.fields),
            "state_fields": listed(written_fields(model.answer)) if model else "",
            "world": domain,
        }
        blocks = tuple(block for block in system if block != "about" or domain.about)
        return Prompt([_template(), worded], system=blocks, user=user, constants=constants)

    def _sampling(self, number: int) -> Sampling:
        """Of the first answer greedy; every other is drawn by a seed of its own."""
        if number == 0:
            return Sampling(temperature=0.0)
        return Sampling(temperature=DRAWN, seed=Random(f"{self._seed} {number}").getrandbits(31))

    def _decompose_rule(self, kinds: Sequence[str] = ()) -> Rule[Decomposition[S, A], Sequence[A]]:
        """The rule of `decompose` whose mistakes are of these kinds; of all, if there are none."""
        mistakes: Mistakes[A] = Mistakes(self.domain, kinds)
        return Rule(
            right=self._decomposed,
            wrong=lambda question, rng: mistakes.anywhere(self._decomposed(question), rng),
            situation=lambda question: (question.subject, question.described),
            items=Items(
                names=lambda question: names_of(self._decomposed(question)),
                spoil=lambda _, plan, name, rng: mistakes.in_plan(plan, name, rng),
            ),
            only=self._decompose_rule,
        )

    def _decomposed(self, question: Decomposition[S, A]) -> list[A]:
        """The subtasks of a subtask; of what is open of the goal, those that are not done."""
        subtasks = list(self._rules.decompose(question.state, question.subtask))
        whole = question.goal == self.domain.goal and not question.described
        if question.subtask is not None or whole:
            return subtasks
        return [
            subtask
            for subtask in subtasks
            if self._rules.judge(question.state, subtask, None).verdict != "done"
        ]

    def _judged(self, question: Judgement[S, A]) -> Judged:
        judged: Judged = self._rules.judge(question.state, question.subtask, question.parent)
        return judged

    def _misjudged(self, question: Judgement[S, A], rng: Random) -> Judged:
        right = self._judged(question).verdict
        return Judged(rng.choice([verdict for verdict in VERDICTS if verdict != right]), "a guess")

    def _after(self, question: Application[S, A], action: A) -> S:
        """The state after an action in the world of the run's seed."""
        draws = Random(f"{self._seed} predicted {question.described} {action}")
        after: S = self._rules.step(question.state, action, draws).state
        return after

    def _misapplied(self, question: Application[S, A], rng: Random) -> S:
        """A state after another action that differs from the right one; else an unchanged one."""
        right = self._after(question, question.subtask)
        others = [
            action for action in self._rules.actions(question.state) if action != question.subtask
        ]
        for other in rng.sample(others, min(OTHERS, len(others))):
            if (state := self._after(question, other)) != right:
                return state
        return question.state

    def _act_rule(self, kinds: Sequence[str] = ()) -> Rule[NextAction[S, A], Sequence[A]]:
        """The rule of `act` whose mistakes are of these kinds."""
        mistakes: Mistakes[A] = Mistakes(self.domain, kinds)

        def right(question: NextAction[S, A]) -> Sequence[A]:
            reached = self._rules.success(question.state)
            return [] if reached else on_the_way(self._rules, question.state)[:1]

        def wrong(question: NextAction[S, A], rng: Random) -> Sequence[A] | None:
            if known := right(question):
                return mistakes.anywhere(known, rng)
            actions = self._rules.actions(question.state)
            return [rng.choice(actions)] if actions else []

        return Rule(
            right=right,
            wrong=wrong,
            situation=lambda question: (question.described,),
            only=self._act_rule,
        )


@cache
def _template() -> str:
    return (files(__package__) / "templates" / "drip.j2").read_text("utf-8")
