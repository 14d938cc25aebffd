import pytest
from runs import run_in

from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.game import Ending, GameSeconds, Transition
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import BAIT, TrapDoor
from llm_planning.planners.mc_dml.baselines import (
    REPEATS,
    play_round,
    play_rounds,
    reflection_agent,
)
from llm_planning.planners.mc_dml.settings import LlmAgentSettings, ReflectionAgentSettings
from llm_serving.scripted import ScriptedEngine

LESSON = "Next time, light the lantern before you open the trap door."
FALL = ("open trap door", "shout", "shout", "shout")


class Policy:
    """A policy that is sure of one action; `choose` names it."""

    def __init__(self, choose):
        self.choose = choose
        self.asked = []

    async def __call__(self, situation):
        self.asked.append(situation)
        wanted = self.choose(situation)
        return [0.0 if action == wanted else -50.0 for action in situation.actions]


def in_order(actions):
    """Takes the actions one after the other, by how many turns are remembered."""
    return lambda situation: actions[len(situation.memory)]


async def played(policy, game, *, seed=0, **settings):
    """The trajectory of one play, and how its moves were chosen."""
    settings = LlmAgentSettings(**{"history": 20, **settings})
    round_ = await play_round(game, policy, settings=settings, seed=seed)
    return round_.trajectory, round_.choices


def the_trap_door():
    return TextGameDomain(SnapshotGame(TrapDoor()))


class Waiting:
    """A game in which nothing ever changes but what it says."""

    name = "waiting"
    max_score = 0.0
    walkthrough = ()
    objective = ""

    def __init__(self, seen=lambda turn: "A room."):
        self.seconds = GameSeconds()
        self.seen = seen

    async def start(self):
        return Transition("0", "Hello.", 0.0, None)

    async def actions(self, state):
        return ("sing", "wait")

    async def look(self, state):
        return self.seen(int(state)), "Nothing."

    async def step(self, state, action):
        turn = int(state) + 1
        return Transition(str(turn), f"{turn} times {action}.", 0.0, None)


async def test_the_policy_is_drawn_from_at_its_temperature():
    async def half(situation):
        return [-1.0, -1.1]

    def waiting(**given):
        return played(half, TextGameDomain(Waiting()), moves=200, history=0, **given)

    trajectory, choices = await waiting()
    # 0.1 nats at temperature 0.1 are a factor of e.
    assert [p for _, p in choices[0].policy] == pytest.approx([0.731059, 0.268941], abs=1e-6)
    drawn = [
        turn.action
        for turn, choice in zip(trajectory.turns, choices, strict=True)
        if choice.by == "policy"
    ]
    assert 0.6 < drawn.count("sing") / len(drawn) < 0.85
    assert (await waiting())[0] == trajectory
    assert (await waiting(seed=1))[0] != trajectory


async def test_after_five_repeats_a_random_action_is_taken():
    policy = Policy(lambda situation: "wait")
    _, choices = await played(policy, TextGameDomain(Waiting()), moves=13)
    by = [choice.by for choice in choices]
    assert by == [*["policy"] * REPEATS, "repeats", *["policy"] * REPEATS, "repeats", "policy"]
    assert [p for _, p in choices[REPEATS].policy] == [0.5, 0.5]
    assert len(policy.asked) == 11


@pytest.mark.parametrize(
    ("choose", "game"),
    [
        (lambda s: ("sing", "wait")[len(s.memory) % 5 == 4], Waiting()),
        (lambda s: "wait", Waiting(seen=lambda turn: f"Room {turn % 2}.")),
    ],
)
async def test_other_actions_or_other_places_are_no_repeats(choose, game):
    _, choices = await played(Policy(choose), TextGameDomain(game), moves=15)
    assert {choice.by for choice in choices} == {"policy"}


async def test_the_last_turns_are_told():
    policy, forgetful = Policy(lambda situation: "wait"), Policy(lambda situation: "wait")
    await played(policy, TextGameDomain(Waiting()), moves=5, history=3)
    memories = [situation.memory for situation in policy.asked]
    assert [len(memory) for memory in memories] == [0, 1, 2, 3, 3]
    assert [turn.observation.text for turn in memories[4]] == [
        f"{i} times wait." for i in (1, 2, 3)
    ]
    await played(forgetful, TextGameDomain(Waiting()), moves=3, history=0)
    assert [situation.memory for situation in forgetful.asked] == [(), (), ()]


@pytest.mark.parametrize(
    ("actions", "moves", "ending", "score", "turns"),
    [
        (FALL, 50, Ending.FAILURE, BAIT, 4),
        (TrapDoor.walkthrough, 50, Ending.VICTORY, TrapDoor.max_score, len(TrapDoor.walkthrough)),
        (TrapDoor.walkthrough, 3, None, BAIT, 3),
    ],
)
async def test_a_game_is_played_until_it_ends(actions, moves, ending, score, turns):
    trajectory, choices = await played(Policy(in_order(actions)), the_trap_door(), moves=moves)
    assert tuple(turn.action for turn in trajectory.turns) == actions[:moves]
    assert (trajectory.ending, trajectory.score) == (ending, score)
    assert len(choices) == turns
    assert ("dead" in trajectory.last.text) == (ending is Ending.FAILURE)


async def rounds_of(lessons, choose, **settings):
    memories = []

    async def reflect(trajectory):
        memories.append(trajectory)
        return lessons[len(memories) - 1]

    rounds = await play_rounds(
        the_trap_door(),
        Policy(choose),
        reflect,
        settings=ReflectionAgentSettings(history=20, **settings),
        seed=0,
    )
    return rounds, memories


async def test_reflections_follow_each_round_but_the_last():
    lessons = ["First lesson.", "Second lesson.", "Third lesson."]
    rounds, memories = await rounds_of(lessons, in_order(FALL))
    assert [played.reflections for played in rounds] == [tuple(lessons[:i]) for i in range(4)]
    assert len(memories) == 3
    assert [turn.action for turn in memories[0].turns] == list(FALL)
    assert "dead" in memories[0].last.text


async def test_equal_reflections_are_kept_once():
    rounds, memories = await rounds_of(["The same."] * 3, in_order(FALL))
    assert [played.reflections for played in rounds] == [(), *[("The same.",)] * 3]
    assert len(memories) == 3


async def test_a_round_that_is_won_is_the_last():
    def choose(situation):
        return in_order(TrapDoor.walkthrough if situation.reflections else FALL)(situation)

    rounds, memories = await rounds_of([LESSON], choose)
    assert [played.trajectory.ending for played in rounds] == [Ending.FAILURE, Ending.VICTORY]
    assert len(memories) == 1


async def run(agent, engine, settings):
    """Plays the trap door as an agent of the catalogue."""
    world = the_trap_door()
    return await agent(run_in(world, settings, engine, domain="textgame", task="trap-door"))


async def test_the_best_score_may_be_of_an_earlier_round():
    def choose(text, choices):
        wanted = "east" if LESSON in text else "open trap door"
        return [0.0 if choice == wanted else -50.0 for choice in choices]

    outcome = await run(
        reflection_agent,
        ScriptedEngine({"reflection": LESSON}, score=choose),
        ReflectionAgentSettings.read({"moves": "1", "k": "1", "prior": "exact"}),
    )
    assert (outcome.metrics["score"], outcome.metrics["best_score"]) == (0.0, BAIT)
