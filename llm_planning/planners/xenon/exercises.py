"""Exercises of XENON's questions about items, with right answers from the recipe book.

What counts as right:

    predict  the items that the book requires, in its quantities
    choose   the book's action; asked without failures, and told analyses of some
    analyse  names the book's action, if another one was tried; else all that is missing
    correct  as `predict`, told how attempts failed

Lessons are about the items that are not held out (`DomainSpec.held_out`). Whatever else they name,
as an example, as a belief or in an inventory, is not held out either. So a lesson names a held-out
item in one case only: a taught item's own recipe requires it. All rules are those of the game; no
lesson tells of a perturbed one.

Failures are those that the book explains. As XENON does, a player tries an item while it holds all
that it believes to be required, and more. The attempt fails as the action is another one, or as the
belief leaves out something that is not held by chance. An item that requires nothing is never
corrected.

An answer is invented if it names what the book lacks; of an analysis, names with an underscore
count.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from llm_planning.environments.minecraft.book.rulebook import game_rules
from llm_planning.environments.minecraft.items.domain import ItemWorld
from llm_planning.environments.minecraft.items.goals import GOALS_120
from llm_planning.environments.minecraft.items.text_world import (
    ACTION_SET_SIZES,
    ACTIONS,
    TextWorld,
    action_set,
)
from llm_planning.planners.xenon.beliefs import MISTAKES, Beliefs
from llm_planning.planners.xenon.roles import (
    LATEST,
    LONGEST_ANALYSIS,
    ActionQuestion,
    Analysis,
    CorrectionQuestion,
    Failure,
    MinecraftRoles,
    NeedsQuestion,
    RequirementList,
    action_values,
    choose_prompt,
)
from llm_planning.roles.exercises import Exercise, Grade, exercise_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

    from llm_planning.planners.xenon.roles import Requirements
    from llm_planning.roles import RoleSpec
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec
    from llm_serving.engine import Engine

IMPORTANCE: Final = 3.0
"""Weight of lessons of `choose` in the loss: their answers have one token or two."""

OF_GOALS, OTHER = "needed for a goal", "other"
"""Kinds of items: those of the tables' worlds, and the rest of the book."""

NO_FAILURES, FAILURES = "no failure", "failures"
"""What a question of `choose` tells."""

ACTION, MISSING = "the action", "something missing"
"""What an attempt failed of."""

_OF_GOALS = 0.7
_K = 3
_KNOWN = (0, 8, 16, 64)
_TRUE = 0.4
_BY_CHANCE = 0.3
_EXTRA = (0, 0, 0, 1, 3, 9)
_MOST_OTHERS = 6
_FAILED = 3
_DRAWS = 20
_NAME = re.compile(r"[a-z]+(?:_[a-z]+)+")
_RULES_WORDS = re.compile(r"never obtains it; ([a-z]+) does")


def item_exercises(domain: DomainSpec, words: Words) -> ExerciseMaker | None:  # noqa: ARG001
    """The exercises of a domain of items; every model is asked in the same words."""
    return _maker(domain.held_out) if issubclass(domain.kind, ItemWorld) else None


class ItemExercises:
    """Makes the exercises; a `roles.exercises.ExerciseMaker`.

    Args:
        held_out: items that lessons neither ask about nor name, unless a taught recipe does.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.xenon.exercises import ItemExercises
        >>> maker = ItemExercises(frozenset())
        >>> made = maker.about_one_state(Random(1), roles=["predict"], held_out=False)
        >>> [exercise.brief for exercise in made]
        ['4 gold_ingot, 1 redstone, 1 crafting_table']
    """

    roles = ("predict", "choose", "analyse", "correct")
    taught_words = ""

    def __init__(self, held_out: frozenset[str]) -> None:
        self._book = book = game_rules()
        self._of_goals = frozenset(book.closure(GOALS_120))
        self._taught = tuple(sorted(book.rules.keys() - held_out))
        self._left_out = tuple(sorted(held_out))
        self._roles = {
            size: MinecraftRoles(TextWorld(book, goals=book.rules, verbs=action_set(size)), seed=0)
            for size in ACTION_SET_SIZES
        }
        self._beliefs = Beliefs(book, items=self._taught, seed=0, rates=MISTAKES)
        self._world = TextWorld(book, goals=book.rules, verbs=ACTIONS)

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one item; see `ExerciseMaker`."""
        items = self._left_out if held_out else self._taught
        if not items:
            return ()
        needed = [item for item in items if item in self._of_goals]
        item = rng.choice(needed if needed and rng.random() < _OF_GOALS else items)
        makers = {
            "predict": self._predictions,
            "choose": self._choices,
            "analyse": self._analyses,
            "correct": self._corrections,
        }
        return [
            exercise for role in roles if role in makers for exercise in makers[role](item, rng)
        ]

    def _predictions(self, item: str, rng: Random) -> Iterator[Exercise]:
        question = NeedsQuestion(item, self._required_by_similar(item, rng))
        yield self._requiring(self._drawn(rng)[0].predict(), question)

    def _choices(self, item: str, rng: Random) -> Iterator[Exercise]:
        roles, actions = self._drawn(rng)
        right = roles.actions[item]
        tried = [rng.choice(actions) for _ in range(rng.randint(1, LATEST))]
        attempts = {action: self._failure(item, action, rng) for action in dict.fromkeys(tried)}
        failures = [failure for action in tried if (failure := attempts[action])]
        analyse = roles.analyse()
        reasons = tuple(reason for failure in failures if (reason := analyse.right(failure)))
        for analyses in ((), reasons) if reasons else ((),):
            examples = tuple((u, roles.actions[u]) for u in self._similar(item, rng))
            question = ActionQuestion(item, actions, examples, analyses)

            async def ask(engine: Engine, question: ActionQuestion = question) -> str:
                return await roles.choose().answered_by(engine)(question)

            yield Exercise(
                role="choose",
                prompt=choose_prompt(actions).messages(action_values(question)),
                answer=right,
                brief=right,
                kinds={**self._kinds(item), "told": FAILURES if analyses else NO_FAILURES},
                importance=IMPORTANCE,
                ask=ask,
                grade=lambda answer: Grade(answer == right, answer),
            )

    def _analyses(self, item: str, rng: Random) -> Iterator[Exercise]:
        roles, actions = self._drawn(rng)
        right, spec = roles.actions[item], roles.analyse()
        for action in (rng.choice([other for other in actions if other != right]), right):
            failure = self._failure(item, action, rng)
            if failure is None:
                continue
            sentence = (spec.right(failure) or "").removeprefix(f"{action} {item}: ")
            # The constraint on answers cuts off what is longer.
            if len(sentence) > LONGEST_ANALYSIS:
                continue
            missing = () if action != right else tuple(roles.lacking(failure))
            yield exercise_of(
                spec,
                failure,
                Analysis(analysis=sentence),
                brief=sentence,
                kinds={**self._kinds(item), "because of": MISSING if missing else ACTION},
                grade=partial(self._grade_analysis, right=right, missing=missing),
            )

    def _corrections(self, item: str, rng: Random) -> Iterator[Exercise]:
        roles, actions = self._drawn(rng)
        right = roles.actions[item]
        known = self._failure(item, right, rng)
        if known is None:
            return
        # All actions failed before an item is corrected; the latest are told.
        tried = [right, *rng.sample([action for action in actions if action != right], _FAILED - 1)]
        rng.shuffle(tried)
        failures = [
            Failure(item=item, action=action, believed=known.believed, inventory=known.inventory)
            for action in tried
        ]
        examples = self._required_by_similar(item, rng)
        question = CorrectionQuestion(item, examples, rng.randint(1, _FAILED), failures)
        yield self._requiring(roles.correct(), question)

    def _requiring(self, spec: RoleSpec[Any, Requirements], question: NeedsQuestion) -> Exercise:
        required = self._book.requirements(question.item)

        def grade(written: RequirementList) -> Grade:
            given = spec.read(question, written)
            invented = any(name not in self._book for name in given)
            return Grade(given == required, listed(given), invented=invented)

        return exercise_of(
            spec,
            question,
            RequirementList(needs=list(required.items())),
            brief=listed(required),
            kinds=self._kinds(question.item),
            grade=grade,
        )

    def _grade_analysis(self, written: Analysis, *, right: str, missing: Sequence[str]) -> Grade:
        sentence = written.analysis.lower()
        plain = sentence.replace("_", " ")
        if missing:
            found = all(_says(plain, name.replace("_", " ")) for name in missing)
        elif says := _RULES_WORDS.search(sentence):
            found = says[1] == right
        else:
            found = any(_says(plain, form) for form in forms_of(right))
        invented = any(name not in self._book for name in _NAME.findall(sentence))
        return Grade(found, written.analysis, invented=invented)

    def _failure(self, item: str, action: str, rng: Random) -> Failure | None:
        """A drawn attempt at an item that the book lets fail; None if none is found."""
        required = self._book.requirements(item)
        for _ in range(_DRAWS):
            believed = required if rng.random() < _TRUE else self._mistaken(item, rng)
            held = {u: q + rng.choice(_EXTRA) for u, q in believed.items()}
            for u, q in required.items():
                if u not in held and rng.random() < _BY_CHANCE:
                    held[u] = q + rng.choice(_EXTRA)
            others = [u for u in self._taught if u in self._of_goals and u != item]
            for u in rng.sample(others, min(len(others), rng.randint(0, _MOST_OTHERS))):
                held.setdefault(u, 1 + rng.choice(_EXTRA))
            if self._world.holding(dict(held)).step(action, item) is None:
                return Failure(item=item, action=action, believed=believed, inventory=held)
        return None

    def _mistaken(self, item: str, rng: Random) -> Requirements:
        """A wrong belief whose items can be held: an attempt waits for all of them."""
        believed = self._beliefs.mistaken(item, rng)
        return {u: q for u, q in believed.items() if u in self._book}

    def _required_by_similar(self, item: str, rng: Random) -> list[tuple[str, Requirements]]:
        return [(u, self._book.requirements(u)) for u in self._similar(item, rng)]

    def _similar(self, item: str, rng: Random) -> list[str]:
        """At most K taught items of those that an agent may know, most similar first.

        Names are similar that have words in common; a lesson has no embeddings.
        """
        others = [u for u in self._taught if u != item]
        known = rng.sample(others, min(len(others), rng.choice(_KNOWN)))
        words = {*item.split("_")}
        return sorted(known, key=lambda u: -len(words.intersection(u.split("_"))))[:_K]

    def _drawn(self, rng: Random) -> tuple[MinecraftRoles, tuple[str, ...]]:
        """The roles where an action set has a drawn size, and its actions."""
        size = rng.choice(ACTION_SET_SIZES)
        return self._roles[size], action_set(size)

    def _kinds(self, item: str) -> dict[str, str]:
        return {"item": OF_GOALS if item in self._of_goals else OTHER}


def _says(sentence: str, words: str) -> bool:
    return re.search(rf"\b{words}\b", sentence) is not None


_maker = cache(ItemExercises)


def listed(requirements: Requirements) -> str:
    """Requirements in a few words.

    Example:
        >>> from llm_planning.planners.xenon.exercises import listed
        >>> listed({"planks": 2, "stick": 1})
        '2 planks, 1 stick'
    """
    return ", ".join(f"{q} {u}" for u, q in requirements.items()) or "nothing"


def forms_of(verb: str) -> tuple[str, ...]:
    """How a sentence may write a verb.

    Example:
        >>> from llm_planning.planners.xenon.exercises import forms_of
        >>> forms_of("mine")
        ('mine', 'mines', 'mined', 'mining')
    """
    stem = verb.removesuffix("e")
    return (verb, f"{verb}s", f"{stem}ed", f"{stem}ing")
