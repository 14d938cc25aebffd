"""Exercises of the three roles at home.

`prior`: what the expert does next, who knows where everything is. The paper's fine-tuned policy
learns to do as the expert does on its trajectories (Sections 2.2 and 3.1). Learned alone, these
give the hidden away: the expert goes where a thing is, and never looks in vain. So two of three
pasts here are those of a seeker, who sees as little as the policy. It imagines where things are,
does what the expert would do if that were right, and imagines anew when it sees otherwise; now and
then it does anything else. The right answer is always the expert's. Held out are the novel classes
of the home `seen`, and all classes in the home `unseen`. An answer is right if the expert needs one
action less after it. Where the thing that comes next was not seen yet, nobody could know, and a
share below 100% is the best possible.

`goal`: instructions in several wordings, and what they want. A reading is right if its predicates
are those of the goal, in any order; each also counts on its own. Where something is to be new, the
home is `unseen`.

`position`: where may a thing be? A model is asked as LLM-MCTS+ asks it, for the `exact`
probabilities of all places, of which the likeliest is its answer; or as LLM-MCTS does, for one of
its `samples`, which may name several places. An answer is right if the home's law has the thing lie
there, in every place that it names. Lessons answer with a place that is drawn by the law, so that
probabilities are learned. What `exact` calibrates with, words for no thing in particular, may be
anywhere: then calibration leaves the law as it is. `exact` shows no home, so its lessons are about
the home `seen`. Where something is to be new, the home is `unseen`.

A third of the lessons is of the home `seen`, in training tasks; the others are of drawn homes
(`environments/household/drawn.py`). Nothing of the home `unseen` is taught.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from llm_planning.environments.household.belief import Belief
from llm_planning.environments.household.domain import HOUSEHOLD, Household
from llm_planning.environments.household.drawn import HOMES, drawn_home, drawn_task
from llm_planning.environments.household.goals import Wanted, amount_text, goal_text
from llm_planning.environments.household.home import BUNDLED, bundled_home
from llm_planning.environments.household.rules import GRAB, PUT, Rules, State
from llm_planning.environments.household.tasks import CLASSES, TaskMaker
from llm_planning.planners.any_domain.exercises import left_kind, prior_exercise
from llm_planning.planners.any_domain.roles import ActWording, Situation, Turn
from llm_planning.planners.llm_mcts.interpretation import ROLE as GOAL
from llm_planning.planners.llm_mcts.interpretation import (
    Formal,
    Instruction,
    answer_model,
    formal,
    goal_role,
)
from llm_planning.planners.llm_mcts.positions import NEUTRAL, position_chat, state_prior
from llm_planning.planners.llm_mcts.positions import ROLE as POSITION
from llm_planning.priors import ROLE
from llm_planning.roles.exercises import USUAL_WAY, WAY, Exercise, Grade, exercise_of
from llm_planning.roles.options import listed
from llm_planning.search import argmax
from llm_serving.engine import BLOCK

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from random import Random

    from llm_planning.environments.household.expert import Expert
    from llm_planning.environments.household.home import Home
    from llm_planning.environments.household.rules import Action
    from llm_planning.environments.household.tasks import Task
    from llm_planning.roles.exercises import ExerciseMaker, Words
    from llm_planning.specs import DomainSpec
    from llm_serving.engine import Engine


EXPERT, BY_LAW, ANYWHERE = "expert", "by law", "anywhere"
WALKERS: Final = (EXPERT, BY_LAW, ANYWHERE)
"""Whose pasts are asked about, each as often: the expert's, and those of seekers who imagine things
where the home's law has them, or anywhere."""

SLIPS: Final = 0.1
"""Probability that a seeker does anything instead."""

ASKED: Final = 4
"""Moments of one way that are asked about, at most; the more, the fewer tasks are learned from."""

TASKS: Final = 2
"""Tasks that π is asked about, for each home in which the other roles are asked: it learns last."""

INSTRUCTIONS: Final = 2
"""Instructions that are asked about in one home: they share its names."""

AT_SEEN: Final = 1 / 3
"""Share of the lessons that are of the home `seen`."""

AT_ONCE: Final = (2, 3)
"""The most things that a goal of lessons wants: of π, and of `goal`. To bring three stays new."""

NOTHING: Final = 1 / 8
"""Share of the lessons of `exact` that are about no thing in particular."""

_HELD_OUT: Final = (
    *(("seen", name) for name in CLASSES if name.startswith("novel")),
    *(("unseen", name) for name in CLASSES),
)
_SEED: Final = 1
"""Of the tasks, whose numbers are drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A moment of a way through a task.

    Attributes:
        state: s.
        belief: what was seen so far.
        done: the actions so far.
    """

    state: State
    belief: Belief
    done: tuple[Action, ...]


class HomeExercises(ABC):
    """Makes exercises of one role at home, in the words in which every model is asked."""

    roles: tuple[str, ...]
    taught_words = ""

    @classmethod
    def at_home(cls, domain: DomainSpec, words: Words) -> ExerciseMaker | None:  # noqa: ARG003
        """The maker, if the domain is a home."""
        return cls() if domain.name == HOUSEHOLD.name else None

    def about_one_state(
        self, rng: Random, *, roles: Sequence[str], held_out: bool
    ) -> Sequence[Exercise]:
        """Makes exercises about one state; see `ExerciseMaker`."""
        return self.make(rng, held_out=held_out) if self.roles[0] in roles else ()

    @abstractmethod
    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes exercises of the role about one state."""


class PolicyExercises(HomeExercises):
    """Makes exercises of the role `prior`.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.llm_mcts.exercises import PolicyExercises
        >>> made = PolicyExercises().make(Random(1), held_out=False)
        >>> [exercise.brief for exercise in made][:2]
        ['walk to the living room', 'walk to the cellphone']
    """

    roles = (ROLE,)

    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes exercises about some moments of each way, of which all prompts begin alike."""
        return [made for _ in range(TASKS) for made in _on_a_way(rng, held_out=held_out)]


def _on_a_way(rng: Random, *, held_out: bool) -> Iterator[Exercise]:
    """Exercises about some moments of one way through a task."""
    task, kinds = _task(rng, held_out=held_out)
    world = Household(task)
    wording = ActWording(world)
    way = list(_way(task, world.expert, rng, walker=rng.choice(WALKERS)))
    for moment in rng.sample(way, min(ASKED, len(way))):
        yield _exercise(moment, world, wording, kinds=kinds, dashes=rng.randint(1, BLOCK))


def _task(rng: Random, *, held_out: bool) -> tuple[Task, dict[str, str]]:
    """Draws a task, with its home and its class."""
    if held_out:
        where, name = rng.choice(_HELD_OUT)
        task = _maker(where).task(name, rng.getrandbits(32), seed=_SEED)
        return task, {"home": where, "class": name}
    home = _lesson_home(rng)
    task = _lesson_task(home, rng, most=AT_ONCE[0])
    size = "simple" if len(task.rules.goal) == 1 else "comp"
    return task, {"home": _kind(home), "class": size}


def _kind(home: Home) -> str:
    """`seen`, `unseen` or `drawn`."""
    return home.name if home.name in BUNDLED else "drawn"


def _lesson_home(rng: Random) -> Home:
    if rng.random() < AT_SEEN:
        return bundled_home("seen")
    return drawn_home(rng.randrange(HOMES))


def _lesson_task(home: Home, rng: Random, *, most: int) -> Task:
    """Draws a task that may be taught.

    Args:
        most: of a drawn home, how many things it wants; one or two in `seen`.
    """
    if home.name == "seen":
        return _maker("seen").training_task(rng.getrandbits(32), seed=_SEED)
    return drawn_task(home, rng.randint(1, most), rng)


@cache
def _maker(home: str) -> TaskMaker:
    return TaskMaker(bundled_home(home))


def _way(task: Task, expert: Expert, rng: Random, *, walker: str) -> Iterator[_Moment]:
    """The moments before the actions of a walker."""
    rules, state = task.rules, task.start
    places = len(rules.home.places)
    prior = rules.law if walker == BY_LAW else ((1.0,) * places,) * len(rules.things)
    belief = Belief.at_start(rules, prior, rules.observe(state))
    meant = state if walker == EXPERT else _imagined(belief, state, rng)
    done: tuple[Action, ...] = ()
    while not rules.ended(state):
        yield _Moment(state=state, belief=belief, done=done)
        slips = walker != EXPERT and rng.random() < SLIPS
        action = rng.choice(rules.actions(state)) if slips else expert.plan(meant)[0]
        state, meant = _after(rules, state, action), _after(rules, meant, action)
        belief = belief.after(rules.observe(state))
        if rules.observe(meant) != belief.now:
            meant = _imagined(belief, state, rng)
        done += (action,)


def _imagined(belief: Belief, state: State, rng: Random) -> State:
    """The state with the things of the goal where a belief has them; the others stay."""
    named = belief.rules.named
    both = zip(belief.draw(rng).places, state.places, strict=True)
    return state._replace(
        places=tuple(
            (
                *(thing for thing in drawn if thing < named),
                *(thing for thing in real if thing >= named),
            )
            for drawn, real in both
        )
    )


def _after(rules: Rules, state: State, action: Action) -> State:
    after = rules.after(state, action)
    assert isinstance(after, State), after
    return after


def _exercise(
    moment: _Moment, world: Household, wording: ActWording, *, kinds: dict[str, str], dashes: int
) -> Exercise:
    state, rules, expert = moment.state, world.rules, world.expert
    plan = expert.plan(state)
    actions = rules.actions(state)
    right = [
        str(action) for action in actions if expert.length(_after(rules, state, action)) < len(plan)
    ]
    situation = Situation(
        tuple(Turn("", str(action)) for action in moment.done),
        world.observe(state),
        tuple(map(str, actions)),
        state=moment.belief,
    )
    known = "seen" if _is_known(moment, rules, plan) else "unseen"
    return prior_exercise(
        wording,
        situation,
        way=USUAL_WAY,
        right=right,
        best=str(plan[0]),
        kinds={**kinds, "left": left_kind(len(plan)), "thing": known},
        dashes=dashes,
    )


def _is_known(moment: _Moment, rules: Rules, plan: Sequence[Action]) -> bool:
    """Whether the thing that the expert handles next is held, or was seen where it is."""
    state = moment.state
    for action in plan:
        if action.verb in {GRAB, PUT}:
            return action.verb == PUT or moment.belief.seen[state.at] is not None
        state = _after(rules, state, action)
    return True


def _joined(form: str) -> Callable[[Sequence[Wanted], Home], str]:
    """Writes each predicate in a form, and lists them."""

    def write(goal: Sequence[Wanted], home: Home) -> str:
        relation = {place.name: place.relation for place in home.places}
        sentence = listed(
            form.format(
                what=amount_text(wanted.number, wanted.thing),
                there=relation[wanted.place],
                wanted=wanted,
            )
            for wanted in goal
        )
        return f"{sentence[0].upper()}{sentence[1:]}."

    return write


WORDINGS: Final[Mapping[str, Callable[[Sequence[Wanted], Home], str]]] = {
    "as tasks say it": goal_text,
    "wishes": _joined("I want {what} {there} the {wanted.place}"),
    "places first": _joined("{there} the {wanted.place} goes {what}"),
    "belongings": _joined("the {wanted.thing} belongs {there} the {wanted.place}"),
}
"""Kind of wording -> how it says a goal; tasks want one thing of a name."""


class GoalExercises(HomeExercises):
    """Makes exercises of the role `goal`."""

    roles = (GOAL,)

    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes exercises about some tasks of one home, in drawn wordings."""
        home = bundled_home("unseen") if held_out else _lesson_home(rng)
        return [self._about(home, rng, held_out=held_out) for _ in range(INSTRUCTIONS)]

    def _about(self, home: Home, rng: Random, *, held_out: bool) -> Exercise:
        task = (
            _maker("unseen").task(rng.choice(CLASSES), rng.getrandbits(32), seed=_SEED)
            if held_out
            else _lesson_task(home, rng, most=AT_ONCE[1])
        )
        wording = rng.choice(tuple(WORDINGS))
        goal = task.rules.goal
        role = goal_role(home)

        def grade(written: Formal) -> Grade:
            read = written.wanted()
            counts = (len({*read} & {*goal}), len({*read, *goal}))
            return Grade(set(read) == set(goal), role.brief(read), counts)

        question = Instruction(WORDINGS[wording](goal, home), goal)
        answer = answer_model(home)(goal=formal(goal))
        kinds = {"wording": wording, "predicates": str(len(goal))}
        return exercise_of(role, question, answer, kinds=kinds, grade=grade)


WAYS: Final[tuple[Literal["exact", "samples"], ...]] = (USUAL_WAY, "samples")
"""The ways of asking that ask."""


class PositionExercises(HomeExercises):
    """Makes exercises of the role `position`.

    Example:
        >>> from random import Random
        >>> from llm_planning.planners.llm_mcts.exercises import PositionExercises
        >>> made = PositionExercises().make(Random(1), held_out=False)
        >>> [exercise.brief for exercise in made]
        ['on the cabinet']
    """

    roles = (POSITION,)

    def make(self, rng: Random, *, held_out: bool) -> Sequence[Exercise]:
        """Makes an exercise about a drawn thing that tasks may want, asked in a drawn way."""
        way = rng.choice(WAYS)
        if held_out:
            home = bundled_home("unseen")
        else:
            home = bundled_home("seen") if way == USUAL_WAY else _lesson_home(rng)
        number, wanted = rng.choice(home.goals)
        thing, law = home.things[number], home.law[number]
        positions = [f"{place.relation} the {place.name}" for place in home.places]
        answer = positions[argmax(law) if held_out else rng.choices(range(len(law)), law)[0]]
        rules = Rules(home, [Wanted(thing, home.places[wanted].name)])

        async def ask(engine: Engine) -> str:
            weights, *_ = await state_prior(rules, way, engine=engine, samples=1)
            # A sample gives all places that it names the same weight.
            best = max(weights)
            named = [p for p, weight in enumerate(weights) if weight == best]
            return ", ".join(positions[p] for p in named)

        def grade(answer: str) -> Grade:
            named = answer.split(", ")
            return Grade(all(law[positions.index(position)] > 0 for position in named), answer)

        made = Exercise(
            role=POSITION,
            prompt=position_chat(home, thing, way),
            answer=answer,
            brief=answer,
            kinds={WAY: way, "home": _kind(home)},
            ask=ask,
            grade=grade,
        )
        if not held_out and way == USUAL_WAY and rng.random() < NOTHING:
            anywhere = rng.choice(positions)
            prompt = position_chat(home, rng.choice(NEUTRAL), way)
            return [replace(made, prompt=prompt, answer=anywhere, brief=anywhere)]
        return [made]
