"""Rules that answer what every planner asks about actions: π by hand, errors, and every planner."""

import hashlib
import json
import re
from collections import Counter, defaultdict
from dataclasses import replace
from math import exp, log
from random import Random

import pytest
from any_domain_worlds import Corridor, Tiger, run
from runs import roles_file

from llm_planning.domain import DomainError, Judged, Step
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.state import State
from llm_planning.environments.textgame.domain import TextGameDomain
from llm_planning.environments.textgame.snapshot_game import SnapshotGame
from llm_planning.environments.textgame.trapdoor import TrapDoor
from llm_planning.planners.any_domain.roles import (
    DOTS,
    INSIGHT,
    POLICY,
    THOUGHT,
    ActAsking,
    Situation,
)
from llm_planning.planners.any_domain.settings import PuctSettings
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.planners.mc_dml.roles import ADVICE as REFLECTION
from llm_planning.planners.mc_dml.roles import GENERAL, SENTENCE, Lapse, Observation, Trajectory
from llm_planning.registry import find_domain
from llm_planning.roles import Engines, Oracle, RoleSettings
from llm_planning.roles.domain_rules import CheckedRules, adviser, leading, spread
from llm_planning.running import prepare
from llm_planning.settings import SettingsError
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.scripted import ScriptedEngine

ASKING = {name: spec for name, spec in PLANNERS.items() if spec.roles}
QUICK = {
    "simulations_per_action": 5,
    "simulations": 20,
    "steps": 200,
    "iter": 4,
    "games": 1,
    "episodes": 1,
}


class Rooms(Corridor):
    """A corridor that knows its way; a jump is advised in the middle, and never among actions."""

    def feasible(self, state, action):
        return "too far" if action == "fly" else None

    def advise(self, state):
        left = self.rooms - 1 - state
        return ["fly", *["forward"] * left][: 2 * left]

    def success(self, state):
        return state == self.rooms - 1


class Leaps(Rooms):
    """The same, where the advice names a step that is not listed: two rooms at once."""

    def advise(self, state):
        return ["forward 2"] * ((self.rooms - state) // 2)


def test_shares_by_hand():
    """0.9 to the two right ones of five, 0.1 to the three others."""
    shares = [exp(logprob) for logprob in spread(list("abcde"), {"a", "e", "z"})]
    assert shares == pytest.approx([0.45, 0.1 / 3, 0.1 / 3, 0.1 / 3, 0.45])
    # 19 of 20 are right: 2 · 19 / (19 + 20) to them, and each is twice as likely as the other one.
    first, *others = (exp(logprob) for logprob in spread(range(20), set(range(1, 20))))
    assert first == pytest.approx(1 / 39)
    assert others == pytest.approx([2 / 39] * 19)
    assert spread(["a", "b"], {"a", "b"}) == [log(1 / 2)] * 2
    assert spread(["a", "b"], ()) == [log(1 / 2)] * 2


def test_leading_actions_are_advised_and_feasible():
    world = Minecraft(task="obtain-leather")
    start = world.start(0)
    names = [str(action) for action in world.actions(start)]
    advised = [str(action) for action in world.advise(start)]
    assert advised == ["find 1 cow", "kill 1 cow"]
    # No cow is in sight yet.
    assert leading(world, start, names, seed=0) == ("find 1 cow",)
    assert leading(Rooms(4), 1, ("back", "forward", "fly"), seed=0) == ("forward",)


def test_where_the_advice_names_other_quantities_shorter_ways_count():
    world = Minecraft(task="craft-a-golden-sword")
    state = world.start(0)
    draws = Random(1)
    while Option("mine", 2, "gold_ore") not in world.advise(state)[:1]:
        state = world.step(state, world.advise(state)[0], draws).state
    names = [str(action) for action in world.actions(state)]
    assert "mine 2 gold_ore" not in names
    right = leading(world, state, names, seed=0)
    # One of the two is on the way as well: quantities count.
    assert {f"mine {n} gold_ore" for n in (1, 3, 8)} >= set(right) != set()
    # Of 5 rooms, room 1 is two leaps from the end, rooms 2 and 3 are one.
    assert leading(Leaps(5), 1, ("forward", "back"), seed=0) == ("forward",)
    assert leading(Leaps(5), 2, ("forward", "back"), seed=0) == ()


@pytest.mark.parametrize(
    ("world", "message"),
    [
        (Corridor(), "add `feasible`, `advise` as plain methods"),
        (Tiger(), "hides its state"),
    ],
)
def test_domains_without_advice(world, message):
    with pytest.raises(DomainError, match=message):
        adviser(world, seed=0)


class Odd:
    """A world of which each method returns what a test says."""

    no_search = ""

    def __init__(self, value):
        self.value = value

    def feasible(self, *given):
        return self.value

    step = advise = score = decompose = judge = feasible


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("feasible", None),
        ("feasible", "too far"),
        ("advise", ()),
        ("advise", ["go"]),
        ("score", 0),
        ("score", 0.5),
        ("decompose", []),
        ("judge", Judged("true")),
        ("step", Step("here", reward=-1)),
    ],
)
def test_what_rules_may_be_told(method, value):
    assert getattr(CheckedRules(Odd(value)), method)("state", "action", None) is value


@pytest.mark.parametrize(
    ("method", "value", "message"),
    [
        ("feasible", False, "False, not a text or None"),
        ("advise", None, "None, not a sequence of actions"),
        ("advise", "go", "'go', not a sequence of actions"),
        ("score", None, "None, not a finite number"),
        ("score", float("nan"), "nan, not a finite number"),
        ("decompose", None, "None, not a sequence of subtasks"),
        ("judge", "done", "'done', not a Judged with the verdict 'done', 'true' or 'false'"),
        (
            "judge",
            Judged(True),
            r"Judged\(verdict=True, reason=''\), not a Judged with the verdict",
        ),
        ("step", ("here", 0.0), r"\('here', 0.0\), not a Step"),
        ("step", Step("here", reward=None), "None, not a finite number, as the reward of its Step"),
    ],
)
def test_what_rules_may_not_be_told(method, value, message):
    with pytest.raises(DomainError, match=rf"^Odd\.{method} returned {message}"):
        getattr(CheckedRules(Odd(value)), method)("state", "action", None)


def walked(world, seed, moves=25):
    """The states of a walk that mostly keeps to the advice."""
    rng, state = Random(seed), world.start(seed)
    for _ in range(moves):
        yield state
        possible = list(world.actions(state))
        if not possible or world.success(state):
            return
        advised = [
            action for action in world.advise(state) if world.feasible(state, action) is None
        ]
        state = world.step(
            state, rng.choice(advised if advised and rng.random() < 0.7 else possible), rng
        ).state


def in_its_words(state):
    """The state that the words tell: they round numbers."""
    if not isinstance(state, State):
        return state
    return replace(
        state,
        position=tuple(round(coordinate, 1) for coordinate in state.position),
        health=round(state.health, 1),
        hunger=round(state.hunger, 1),
    )


@pytest.mark.parametrize(
    ("domain", "task"),
    [
        ("minecraft", "cook-meat"),
        ("minecraft", "craft-a-compass"),
        ("blocksworld", "four-blocks"),
        ("multiplication", "product"),
        ("travel", "fly"),
    ],
)
def test_advice_reads_of_a_state_what_its_words_tell(domain, task):
    spec = find_domain(domain)
    texts = {}
    for seed in range(2):
        world = spec.open(task, spec.settings())
        for state in walked(world, seed):
            rounded, words = in_its_words(state), world.describe(state)
            assert world.describe(rounded) == words
            advice = list(world.advise(state))
            assert list(world.advise(rounded)) == texts.setdefault(words, advice) == advice
            # Nor does MC-DML cut them.
            assert not str(Observation("", words, "")).endswith(DOTS)
    assert len(texts) > 3


ACTING = ("puct", "llm-policy", "react", "llm-agent", "reflection-agent", "mc-dml")


async def test_choices_that_are_told_alike_have_the_same_right_actions_whoever_asks(monkeypatch):
    """In a world that tells its whole state, nothing else decides."""
    right, roles, answer = defaultdict(list), set(), Oracle.__call__

    async def heard(self, question):
        roles.add(self.name)
        if self.name != "reflection":
            right[self._rule.situation(question)[0], question.actions].append(question.right)
        return await answer(self, question)

    monkeypatch.setattr(Oracle, "__call__", heard)
    quick = {
        "simulations": 12,
        "simulations_per_action": 1,
        "moves": 3,
        "k": 2,
        "C": 1,
        "depth": 4,
        "d_max": 10,
    }
    for name in ACTING:
        known = {key: quick[key] for key in PLANNERS[name].settings.known_keys() if key in quick}
        await prepare(
            name, domain="minecraft", task="cook-meat", settings={"roles": "rules", **known}
        ).run(Engines(EncoderEngine()), 0)
    assert roles == {"prior", "think", "reflection"}
    assert sum(len(answers) > 1 for answers in right.values()) > 5
    assert all(len(set(answers)) == 1 for answers in right.values())


def choice(actions, right):
    return Situation((), "here", tuple(actions), right=tuple(right))


CHOICE = choice("abc", "b")


def test_right_and_wrong_policies():
    assert POLICY.right(CHOICE) == spread("abc", {"b"})
    drawn = Counter(tuple(POLICY.wrong(CHOICE, Random(n))) for n in range(200))
    assert set(drawn) == {tuple(spread("abc", {"a"})), tuple(spread("abc", {"c"}))}
    # 100 ± 4 standard deviations of √50.
    assert 70 <= min(drawn.values()) <= 100
    assert POLICY.wrong(choice("a", "a"), Random(0)) is None
    # Where nothing is right, π is uniform, whatever the rate.
    lost = choice("ab", "")
    assert POLICY.wrong(lost, Random(0)) is None
    assert POLICY.right(lost) == [log(1 / 2)] * 2


def test_thoughts_and_reflections_are_of_the_languages_of_their_roles():
    for answer in (INSIGHT.right(CHOICE), INSIGHT.wrong(CHOICE, Random(0))):
        assert re.fullmatch(THOUGHT.regex, answer)
    assert INSIGHT.right(CHOICE).endswith("now: b.")
    strange = choice(["Inspect No. 9!"], ["Inspect No. 9!"])
    assert re.fullmatch(THOUGHT.regex, INSIGHT.right(strange))
    failed = Trajectory((), Observation("", "", ""), lapse=Lapse(2, "c", ("a", "b", "c"), ("b",)))
    assert REFLECTION.right(failed) == "Next time, at move 2, b is better than c."
    assert REFLECTION.wrong(failed, Random(0)) in {
        f"Next time, at move 2, {action} is better than c." for action in "ac"
    }
    odd = replace(failed, lapse=Lapse(1, "No!", ("a", "b"), ("b",)))
    blameless = replace(failed, lapse=None)
    assert REFLECTION.right(odd) == REFLECTION.right(blameless) == GENERAL
    assert REFLECTION.wrong(blameless, Random(0)) is None
    for sentence in (REFLECTION.right(failed), GENERAL):
        assert re.fullmatch(SENTENCE.regex, sentence)


def rule_prior(world, *, roles, seed=0, mixture=0.0, temperature=None):
    settings = PuctSettings.read(
        {"roles": str(roles), "prior_mixture": mixture, "prior_temperature": temperature}
    )
    return ActAsking(world, Engines(EncoderEngine()), settings, seed=seed).prior(settings)


def situation(room):
    return Situation((), f"room {room}", ("forward", "back"), state=room)


async def test_the_prior_of_rules_by_hand():
    prior = rule_prior(Rooms(), roles="rules")
    assert await prior(situation(3)) == pytest.approx([0.9, 0.1])
    # ε = 0.2: 0.8 · 0.9 + 0.2 / 2.
    mixed = rule_prior(Rooms(), roles="rules", mixture=0.2)
    assert await mixed(situation(3)) == pytest.approx([0.82, 0.18])
    # Temperature 2 takes roots: 3 : 1.
    soft = rule_prior(Rooms(), roles="rules", temperature=2.0)
    assert await soft(situation(3)) == pytest.approx([0.75, 0.25])
    # At the end nothing is advised.
    assert await prior(situation(9)) == [0.5, 0.5]


async def test_rooms_that_look_the_same_may_differ_in_what_is_right():
    """The order in which they are visited does not matter, and each is asked about once."""
    for rooms in ((0, 9), (9, 0)):
        prior = rule_prior(Rooms(), roles="rules")
        dark = {
            room: await prior(Situation((), "It is dark.", ("forward", "back"), state=room))
            for room in (*rooms, *rooms)
        }
        assert dark[0] == pytest.approx([0.9, 0.1])
        assert dark[9] == [0.5, 0.5]
        assert prior.questions == 2


async def test_where_nothing_is_right_a_model_of_rate_0_has_a_uniform_prior(tmp_path):
    prior = rule_prior(Rooms(), roles=roles_file(tmp_path, prior={"rate": 0.0}))
    assert await prior(situation(9)) == [0.5, 0.5]
    assert await prior(situation(3)) == pytest.approx([0.1, 0.9])


async def test_the_uniform_prior_asks_nobody():
    outcome = await run("llm-policy", Corridor(3), roles="rules", prior="uniform", moves=2)
    assert "oracles" not in outcome.trace


@pytest.mark.parametrize("name", ["puct", "llm-policy", "react"])
async def test_rules_win_where_a_uniform_prior_does_not(name):
    world = Minecraft(task="cook-meat")
    quick = {"simulations": 20, "depth": 5} if name == "puct" else {}
    by_rules = await run(name, world, engine=EncoderEngine(), roles="rules", moves=12, **quick)
    assert by_rules.success is True
    assert len(by_rules.plan) == 6
    assert by_rules.trace["settings"]["roles"] == "rules"
    assert {oracle["role"] for oracle in by_rules.trace["oracles"]} == {*PLANNERS[name].roles}
    if name != "react":
        blind = await run(name, world, prior="uniform", moves=12, **quick)
        assert blind.success is False


async def test_a_thought_of_rules_before_a_model_s_action(tmp_path):
    """Roles are assigned one by one: the rules think, the model acts on the thought."""

    def obey(text, choices):
        (action,) = re.findall(r"leads to the goal now: ([a-z]+)\.", text.rpartition("Now:")[2])
        return [log(0.9 if choice == action else 0.1) for choice in choices]

    engine = ScriptedEngine({}, score=obey)
    roles = roles_file(tmp_path, "think")
    outcome = await run("react", Rooms(4), engine=engine, roles=roles)
    assert outcome.plan == ("forward",) * 3
    assert [oracle["role"] for oracle in outcome.trace["oracles"]] == ["think"]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        (
            "rules",
            "no rules that answer 'prior': add `feasible`, `advise` as plain methods, or let a",
        ),
        ({"prior": {"model": "other"}}, "the model other of role 'prior' is not open"),
    ],
)
async def test_refusals_are_one_line(tmp_path, roles, message):
    if roles != "rules":
        roles = roles_file(tmp_path, **roles)
    with pytest.raises(ValueError, match=message):
        await run("llm-policy", Corridor(), engine=EncoderEngine(), roles=roles)


async def test_rules_that_would_give_a_hidden_state_away_are_refused_in_a_whole_sentence():
    message = (
        r"it hides its state \(it has a belief\), which its rules would give away: let a model"
    )
    with pytest.raises(SettingsError, match=f"no rules that answer 'prior': {message} answer it$"):
        await run("llm-policy", Tiger(), engine=EncoderEngine(), roles="rules")


@pytest.mark.parametrize("name", ASKING)
async def test_every_planner_that_asks_has_rules_in_its_own_world(name):
    spec = ASKING[name]
    quick = {key: QUICK[key] for key in spec.settings.known_keys() if key in QUICK}
    # The options of Tree of Options are carried out once: this task does not need luck.
    task = "cook-meat" if "d" in spec.settings.known_keys() else None
    prepared = prepare(name, task=task, settings={"roles": "rules", **quick})
    outcome = await prepared.run(Engines(ScriptedEngine({})), 0)
    asked = {oracle["role"] for oracle in outcome.trace["oracles"]}
    # Rules that imagine the state, where a planner predicts none, ask their own `dynamics`.
    imagined = {"dynamics"} if "rules_see" in spec.settings.known_keys() else set()
    assert asked <= {*spec.roles} | imagined
    # What an agent learns is not judged, nor are meals of the first ten episodes. Without
    # reprompting nobody frees a controller that is stuck, as it is here.
    stuck = name in {"plan-xenon-no-cre", "plan-xenon-no-actions"}
    assert outcome.success is (None if "episodes" in quick else not stuck)
    assert asked or stuck


@pytest.mark.parametrize("name", ASKING)
async def test_a_file_of_rates_is_taken_by_every_planner(name, tmp_path):
    file = tmp_path / "roles.yaml"
    file.write_text(
        "".join(f"{role}: {{rate: 0.9, kind: sticky}}\n" for role in ASKING[name].roles)
    )
    prepared = prepare(name, settings={"roles": str(file)})
    assert (
        prepared.chosen.to_json()["roles_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    )
    assert all(
        prepared.chosen.planner.assignment.of(role).rate == 0.9 for role in ASKING[name].roles
    )


def test_own_planners_with_role_settings_go_on_to_say_who_answers():
    class Own(RoleSettings):
        width: int = 4

    assert Own().to_json() == {"roles": "llm", "roles_sha256": "", "width": 4}


# Text games ---------------------------------------------------------------------------------------


async def after(world, *actions):
    here = await world.start(0)
    for action in actions:
        here = (await world.step(here, action, Random(0))).state
    return here


@pytest.mark.parametrize(
    ("done", "advised"),
    [
        ((), TrapDoor.walkthrough),
        (("take lantern",), TrapDoor.walkthrough[1:]),
        (("open case",), ("close case", *TrapDoor.walkthrough)),
        # What cannot be undone: the way to victory is found anew.
        (("wind clock",), TrapDoor.walkthrough),
        # Under the ground without the lantern all is lost.
        (("open trap door",), ()),
        (TrapDoor.walkthrough, ()),
    ],
)
async def test_a_game_advises_its_walkthrough_and_the_way_back_to_it(done, advised):
    world = TextGameDomain(SnapshotGame(TrapDoor()))
    assert await world.advise(await after(world, *done)) == advised


async def test_a_game_without_a_walkthrough_says_so():
    outcome = prepare("llm-agent", settings={"roles": "rules"})
    assert outcome.domain.name == "textgame"
    game = SnapshotGame(TrapDoor())
    game.walkthrough = ()
    with pytest.raises(Exception, match="trap-door comes without a walkthrough, so no rule knows"):
        await run("llm-policy", TextGameDomain(game), engine=EncoderEngine(), roles="rules")


async def test_reflections_of_rules_name_the_first_wrong_move(tmp_path):
    """A wrong prior takes the bait; the reflection says what was right at that move."""
    roles = roles_file(tmp_path, "reflection", prior={"rate": 0.0})
    prepared = prepare(
        "reflection-agent",
        task="trap-door",
        settings={"roles": roles, "k": 1, "moves": 6, "remember": "off"},
    )
    outcome = await prepared.run(Engines(EncoderEngine()), 0)
    first, second = outcome.trace["rounds"]
    (reflection,) = second["reflections"]
    number = int(re.search(r"at move (\d+),", reflection)[1])
    assert first["actions"][number - 1] in reflection
    assert json.dumps(outcome.trace["oracles"]).count('"role"') == 2
