"""The roles of agents in any domain: π, and the thought before an action.

By rules, the right actions are those of `domain_rules.adviser`. A right π is the `spread` of these,
a wrong π that of one action that is not right. Where no action is right, π is uniform. A right
thought names a right action, a wrong one another.

Prompts are laid out for the prefix cache, from what never changes to what always changes: rules,
the world, goal and examples, what happened, what is seen, the actions, the question. A domain may
replace each of these blocks by its own text: `Domain.wording["act"]`. Of the past, `past` has whole
turns and `done` the actions alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from llm_planning.domain import Believes, Observes
from llm_planning.domain_calls import observed
from llm_planning.priors import ABSENT, MOST_SAID, ROLE, SAMPLES, TEMPERATURE, Prior, make_prior
from llm_planning.roles import Asking, Prompt, Rule, ScoredRole, Short, TextRole
from llm_planning.roles.domain_rules import adviser, informing, spread
from llm_planning.roles.seeing import pictures_of
from llm_planning.roles.short import STATE, short_words, state_text
from llm_serving.answers import Constraint
from llm_serving.patterns import finite_regex
from llm_serving.request import Sampling

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
    from random import Random

    from llm_planning.domain import Domain, Step
    from llm_planning.priors import PriorSettings, Wording
    from llm_planning.roles import Engines, Role, RoleSettings
    from llm_planning.roles.oracles import Key
    from llm_planning.roles.seeing import See
    from llm_serving.engine import Engine
    from llm_serving.request import Message

    Chat: TypeAlias = tuple[Message, Message]

THINK = "think"
"""The role under which the engine counts thoughts."""

# A second I could begin the sentence again, and outlines would take minutes to compile that.
_SENTENCE = finite_regex(r"I [^.!?I]{20,157}\.")
THOUGHT = Constraint(_SENTENCE.regex, _SENTENCE.max_bytes)
"""The language of one thought, 23 to 160 plain characters; JSON around it would cost tokens."""

LONGEST_PAST = 6000
"""The most characters of the past in a prompt."""

DOTS = "..."
"""Stands for text that is left out."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent saw, and the action that it took then.

    Attributes:
        seen: in words.
        action: as it is written.
        thought: before the action; empty for an agent without thoughts.
    """

    seen: str
    action: str
    thought: str = ""

    def __str__(self) -> str:
        parts = (self.seen, self.thought and f"Your thought: {self.thought}", f"> {self.action}")
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision depends on; equal situations get equal answers.

    Attributes:
        past: turns, oldest first; empty if `now` says all that matters.
        now: what the agent sees; empty if it sees nothing at present.
        actions: the possible actions as they are written, at least one.
        thought: about this decision; empty for none.
        state: what is seen now. Rules read it, and a domain draws it; no prompt tells it in words.
        right: the actions that lead to the goal, where rules answer.
    """

    past: tuple[Turn, ...]
    now: str
    actions: tuple[str, ...]
    thought: str = ""
    state: Any = field(default=None, compare=False, repr=False)
    right: tuple[str, ...] = field(default=(), compare=False, repr=False)


class ActWording:
    """The prompts for decisions in a domain; a `priors.Wording` of situations.

    Args:
        domain: its goal, examples and own texts are part of every prompt.
        examples: worked examples, (state in words, action) pairs; by default the domain's own.
        see: what is shown of the present state: its words, its picture, or both.
        drawn: maps a situation to the state that is drawn.

    Raises:
        SettingsError: the domain does not draw its states.
    """

    def __init__(
        self,
        domain: Domain[Any, Any],
        *,
        examples: Iterable[tuple[str, str]] | None = None,
        see: See = "words",
        drawn: Callable[[Situation], object] = lambda situation: situation.state,
    ) -> None:
        own = domain.wording.get("act", "")
        template = (files(__package__) / "templates" / "act.j2").read_text("utf-8")
        examples = tuple(domain.example if examples is None else examples)
        system = (
            "rules",
            *(("about",) if domain.about else ()),
            "goal",
            *(("examples",) if examples else ()),
        )
        constants = {
            "about": domain.about,
            "goal": domain.goal,
            "examples": examples,
            "count": MOST_SAID,
        }

        @cache
        def prompt(user: tuple[str, ...]) -> Prompt:
            return Prompt([template, own], system=system, user=user, constants=constants)

        self._prompt = prompt
        self._now = "picture" if see == "picture" else "now"
        self._look = pictures_of(domain, see)
        self._drawn = drawn

    def actions(self, question: Situation) -> tuple[str, ...]:
        """The actions to choose from."""
        return question.actions

    def key(self, question: Situation) -> Situation:
        """The situation itself."""
        return question

    def action(self, question: Situation, *, dashes: int) -> Chat:
        """Asks for an action as it is written; see `priors.Wording`."""
        return self._about(question, "actions", "line", "action", line=" ".join("-" * dashes))

    def label(self, question: Situation, labels: Sequence[str]) -> Chat:
        """Asks for an action's label; see `priors.Wording`."""
        return self._about(question, "labelled", "label", labels=labels)

    def several(self, question: Situation, labels: Sequence[str]) -> Chat:
        """Asks for labels with their chances; see `priors.Wording`."""
        return self._about(question, "labelled", "several", labels=labels)

    def think(self, question: Situation) -> Chat:
        """Asks for a thought."""
        return self._about(question, "actions", "think")

    def _about(
        self,
        situation: Situation,
        listed: str,
        *question_blocks: str,
        labels: Sequence[str] = (),
        line: str = "",
    ) -> Chat:
        blocks = (
            *(("past",) if situation.past else ()),
            *((self._now,) if situation.now else ()),
            listed,
            *(("thought",) if situation.thought else ()),
            *question_blocks,
        )
        system, user = self._prompt(blocks).messages(
            {
                "past": last_that_fit(map(str, reversed(situation.past))),
                "done": last_that_fit(turn.action for turn in reversed(situation.past)),
                "now": situation.now,
                "actions": situation.actions,
                "labelled": tuple(zip(labels, situation.actions, strict=bool(labels))),
                "thought": situation.thought,
                "line": line,
            }
        )
        return system, replace(user, images=self._look(self._drawn(situation)))


class ShortActing(ActWording):
    """The prompts of a model that was taught π: it names an action without a list of them.

    Every other way of asking has the general words.

    Args:
        domain: where it acts; its states tell all of the past that matters.
    """

    def __init__(self, domain: Domain[Any, Any]) -> None:
        super().__init__(domain)

        def values_of(question: tuple[Situation, int]) -> dict[str, object]:
            situation, dashes = question
            return {
                STATE: state_text(domain, situation.state, situation.now),
                "goal": domain.goal,
                "thought": situation.thought,
                "-": " ".join("-" * dashes),
            }

        self.short: Short[tuple[Situation, int]] = short_words(ROLE, domain, values_of=values_of)

    def action(self, question: Situation, *, dashes: int) -> Chat:
        """Asks for an action; see `priors.Wording`."""
        return self.short.prompt().messages(self.short.values_of((question, dashes)))


def last_that_fit(newest_first: Iterable[str]) -> list[str]:
    """As many of the last texts as fit into `LONGEST_PAST` characters, at least one.

    Args:
        newest_first: the texts; only as many are made as are needed.

    Returns:
        The texts, oldest first. Three dots come first if older texts are left out.
    """
    lines: list[str] = []
    room = LONGEST_PAST
    for text in newest_first:
        if lines and len(text) > room:
            lines.append(DOTS)
            break
        lines.append(text)
        room -= len(text)
    return lines[::-1]


async def seen(domain: Domain[Any, Any], step: Step[Any]) -> str:
    """What an agent sees after a step: the step's text, its obstacle, and a view of the state.

    If a domain has a belief and no `observe`, the state is hidden, and the step's observation
    takes the place of the view.

    Args:
        step: the last step; at the start, a step with s_0 and nothing else.
    """
    if isinstance(domain, Observes) or not isinstance(domain, Believes):
        view = await observed(domain, step.state)
    else:
        view = "" if step.text or step.observation is None else str(step.observation)
    return "\n".join(dict.fromkeys(part for part in (step.text, step.obstacle, view) if part))


class Choice(Protocol):
    """A question about actions, of which rules know the right ones."""

    @property
    def actions(self) -> tuple[str, ...]:
        """As they are written, at least one."""
        ...

    @property
    def right(self) -> tuple[str, ...]:
        """Those that lead to the goal; filled in before rules answer."""
        ...


ChoiceT = TypeVar("ChoiceT", bound=Choice)


def not_right(question: Choice, rng: Random) -> str | None:
    """Draws an action that is not right; None if there is none."""
    others = [action for action in question.actions if action not in question.right]
    return rng.choice(others) if others else None


def policy_rule(situation: Callable[[ChoiceT], tuple[Key, ...]]) -> Rule[ChoiceT, Sequence[float]]:
    """The rule of π: log π over the actions, in nats, shape [actions].

    Args:
        situation: all that an answer depends on, what is seen first.
    """

    def wrong(question: ChoiceT, rng: Random) -> Sequence[float] | None:
        # Where no action is right, the uniform π is the only one that is not wrong.
        action = not_right(question, rng) if question.right else None
        return None if action is None else spread(question.actions, {action})

    return Rule(
        right=lambda question: spread(question.actions, question.right),
        wrong=wrong,
        situation=situation,
    )


def policy(
    asking: Asking,
    wording: Wording[ChoiceT],
    rule: Rule[ChoiceT, Sequence[float]],
    inform: Callable[[], Callable[[ChoiceT], Awaitable[ChoiceT]]],
    *,
    settings: PriorSettings,
    samples: int = SAMPLES,
    absent: float = ABSENT,
) -> Prior[ChoiceT]:
    """π that a planner's settings ask for, by rules or by a model.

    Rules do not follow the way of asking, but `uniform` asks nobody. By default their softmax has
    temperature 1, which keeps the stated shares. States that look the same may differ in what is
    right, so a π of rules is kept for a question together with that.

    Args:
        inform: see `AnyRole`.
        samples: draws of `sample`.
        absent: log-probability of an action that an answer does not contain, in nats.
    """
    kind, mixture = settings.prior, settings.prior_mixture
    if kind == "uniform":
        return Prior(None, wording=wording, temperature=TEMPERATURE[kind], mixture=mixture)

    def score(engine: Engine) -> Role[ChoiceT, Sequence[float]]:
        return make_prior(
            kind, engine, wording=wording, seed=asking.seed, samples=samples, absent=absent
        ).logprobs

    role = ScoredRole(name=ROLE, rule=rule, inform=inform, score=score)
    answer = asking.of(role)
    if asking.errors_of(ROLE) is None:
        temperature = settings.model_temperature
        return Prior(answer, wording=wording, temperature=temperature, mixture=mixture)
    informed = inform()

    async def right(question: ChoiceT) -> Hashable:
        return (await informed(question)).right

    temperature = settings.prior_temperature or 1.0
    return Prior(answer, wording=wording, temperature=temperature, mixture=mixture, beside=right)


def situation_of(question: Situation) -> tuple[Key, ...]:
    """All that an answer of rules depends on."""
    return question.now, tuple(map(str, question.past)), question.actions, question.thought


POLICY: Rule[Situation, Sequence[float]] = policy_rule(situation_of)
"""log π in any domain."""


def _thought(action: str | None) -> str:
    sentence = f"I know by the rules that this leads to the goal now: {action}."
    if action is None or not re.fullmatch(THOUGHT.regex, sentence):
        return "I know no rule that says what leads to the goal from here."
    return sentence


def _wrong_thought(question: Situation, rng: Random) -> str | None:
    action = not_right(question, rng)
    return None if action is None else _thought(action)


INSIGHT: Rule[Situation, str] = Rule(
    right=lambda question: _thought(question.right[0] if question.right else None),
    wrong=_wrong_thought,
    situation=situation_of,
)
"""A thought before an action, in the language `THOUGHT`."""


class ActAsking(Asking):
    """Who answers what an agent asks in a domain.

    Args:
        engines: see `Asking`, as for the others.
        seed: of all draws: the errors, what rules expect of chance, and those of a model.
        see: what is shown of the present state.
    """

    def __init__(
        self,
        domain: Domain[Any, Any],
        engines: Engines,
        settings: RoleSettings,
        *,
        seed: int,
        see: See = "words",
    ) -> None:
        super().__init__(domain, engines, settings, seed=seed)
        self._see = see
        self._wording = ActWording(domain, see=see)
        self._inform = informing(partial(adviser, domain, seed=seed))

    def prior(self, settings: PriorSettings, *, samples: int = SAMPLES) -> Prior[Situation]:
        """π; see `policy`."""
        wording, taught = self._wording, ShortActing(self.domain)
        asks_model = settings.prior != "uniform" and self.errors_of(ROLE) is None
        if asks_model and self._see == "words":
            wording = taught if taught.short.known_to(self.engines.of(ROLE), ROLE) else wording
        return policy(self, wording, POLICY, self._inform, settings=settings, samples=samples)

    def think(self, *, temperature: float) -> Role[Situation, str]:
        """The thought before an action.

        Args:
            temperature: of a model's answer; 0 is greedy.
        """
        role = TextRole(
            name=THINK,
            rule=INSIGHT,
            inform=self._inform,
            prompt=self._wording.think,
            constraint=THOUGHT,
            sampling=lambda _: Sampling(temperature=temperature, seed=self.seed),
        )
        return self.of(role)
