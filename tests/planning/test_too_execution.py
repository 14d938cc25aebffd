"""Algorithm 2 of Tree of Options, its baselines and ToO+: golden traces and hand calculations."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from killing import start
from runs import compact, roles_file, run_in

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.execution.options import (
    Attempt,
    Candidate,
    Executed,
    OptionState,
    PolicyQuestion,
    approach,
    is_shown,
    metrics_of,
)
from llm_planning.execution.policies import Verbs
from llm_planning.execution.sandbox import why_unsealed
from llm_planning.planners.tree_of_options.asking import OptionAsking
from llm_planning.planners.tree_of_options.effects import Effects, EffectStore
from llm_planning.planners.tree_of_options.plus import WatchedTree, _without
from llm_planning.planners.tree_of_options.settings import OptionSettings, PlusSettings
from llm_planning.planners.tree_of_options.specs import SPECS
from llm_planning.registry import find_domain
from llm_planning.roles import Engines
from llm_planning.search import Edge, expanded
from llm_planning.settings import SettingsError
from llm_serving.encoder_engine import EncoderEngine
from llm_serving.scripted import ScriptedEngine

TASK = "obtain-leather"
WORLD = Minecraft(task=TASK)
START = WORLD.start(0)
PLANNERS = {spec.name: spec for spec in SPECS}
WOOD, TABLE = Option("mine", 3, "oak_log"), Option("craft", 1, "crafting_table")
sealed = pytest.mark.skipif(why_unsealed() is not None, reason="programs cannot be sealed here")


def tau(state):
    return OptionState(WORLD.goal, state, WORLD.describe(state))


def asked(option, *, state=START, before=START, m=2, **others):
    return PolicyQuestion(tau=tau(state), option=option, before=tau(before), m=m, **others)


def holding(**items):
    return replace(START, inventory=items)


async def run(name, *, task=TASK, seed=0, engine=None, roles="rules", **settings):
    spec = PLANNERS[name]
    given = spec.settings.read({"roles": str(roles), **settings})
    return await spec.run(
        run_in(Minecraft(task=task), given, engine or EncoderEngine(), task=task, seed=seed)
    )


def attempts_of(outcome, number=0):
    return outcome.trace["executions"][number]["attempts"]


# --- what an option shows, and what leads to it --------------------------------------------------


@pytest.mark.parametrize(
    ("option", "after", "expected"),
    [
        (WOOD, holding(oak_log=3), True),
        (WOOD, holding(oak_log=2), False),
        (Option("kill", 1, "cow"), holding(beef=2), False),  # it was killed for its leather
        (Option("kill", 1, "cow"), holding(beef=2, leather=1), True),
        (Option("smelt", 2, "iron_ore"), holding(iron_ingot=2), True),
        (Option("milk", 1, "cow"), holding(milk_bucket=1), True),
        (Option("collect", 1, "lava"), holding(lava_bucket=1), True),
        (Option("find", 1, "coal_ore"), START, True),
        (Option("find", 1, "cow"), START, False),
        (Option("equip", 1, "shears"), holding(shears=1), False),
    ],
)
def test_what_shows_that_an_option_is_done(option, after, expected):
    assert is_shown(WORLD, asked(option, state=after)) is expected


def test_what_was_held_before_does_not_show():
    held = holding(oak_log=5)
    assert not is_shown(WORLD, asked(WOOD, state=held, before=held))


def test_a_first_policy_is_the_option_and_a_later_one_mends_one_level():
    pickaxe = Option("craft", 1, "stone_pickaxe")
    assert approach(WORLD, asked(pickaxe, m=1)) == (pickaxe,)
    # From bare hands only the logs can be had now: the pickaxe for the stone cannot.
    *lacking, rest = approach(WORLD, asked(pickaxe))
    assert {(option.verb, option.item) for option in lacking} == {("mine", "oak_log")}
    assert rest == pickaxe
    # What was gained since the option was begun is not mined again.
    assert approach(WORLD, asked(WOOD, state=holding(oak_log=2))) == [Option("mine", 1, "oak_log")]
    assert approach(WORLD, asked(Option("kill", 1, "cow"))) == [
        Option("find", 1, "cow"),
        Option("kill", 1, "cow"),
    ]


@pytest.mark.parametrize(
    ("verb", "item"),
    [("shear", "iron_ore"), ("milk", "pig"), ("collect", "leather"), ("cook", "iron_ore")],
)
def test_nothing_leads_to_an_option_without_sense(verb, item):
    """The rules would otherwise carry out what they take it to mean: shear a sheep, milk a cow."""
    option = Option(verb, 1, item)
    assert approach(WORLD, asked(option)) == [option]
    came_another_way = holding(white_wool=1, milk_bucket=1, leather=1, iron_ingot=1)
    assert not is_shown(WORLD, asked(option, state=came_another_way))


def test_whatever_is_held_can_be_equipped():
    helmet = Option("equip", 1, "diamond_helmet")
    assert approach(WORLD, asked(helmet, state=holding(diamond=5, crafting_table=1)))[1:] == [
        helmet
    ]


# --- Algorithm 2 ---------------------------------------------------------------------------------


HOW = "It takes no tool. Walk to a tree and strike its trunk."


def script(*programs):
    """A model that plans one option, writes these programs in turn and believes the feedback."""
    left = list(programs)

    def answer(request):
        match request.role:
            case "decompose":
                option = {"reasoning": "", "verb": "mine", "quantity": 3, "item": "oak_log"}
                return compact({"options": [option]})
            case "explain":
                return compact({"answer": HOW})
            case "code":
                return compact({"explain": "", "code": left.pop(0)})
        raise AssertionError(request.role)

    return answer


@sealed
async def test_algorithm_2_refines_a_program_by_its_feedback(tmp_path):
    """m = 1 names an unknown block, m = 2 does the option, and the skill is kept."""
    wrong = "async function chop(bot) { await mineBlock(bot, 'oak', 3); }"
    right = "async function chopLogs(bot) { await mineBlock(bot, 'oak_log', 3); }"
    model = script(wrong, right)

    def answer(request):
        if request.role == "complete":
            done = "'oak_log': 3" in request.prompt[-1].content
            return compact({"reason": "" if done else "no logs are held", "done": done})
        return model(request)

    engine = ScriptedEngine(answer)
    outcome = await run(
        "cot", engine=engine, roles="llm", execution="programs", skills=str(tmp_path), d=1
    )
    first, second = attempts_of(outcome)
    assert (first["m"], first["done"], first["program"]) == (1, False, wrong)
    assert "oak" in first["feedback"]
    assert first["feedback"] != "done"
    assert (second["m"], second["done"], second["feedback"]) == (2, True, "done")
    codes = [request.prompt[-1].content for request in engine.requests if request.role == "code"]
    assert "There was no attempt yet." in codes[0]
    assert wrong in codes[1]
    assert first["feedback"] in codes[1]
    assert "no logs are held" in codes[1]  # the critique
    (how,) = [
        request.prompt[-1].content for request in engine.requests if request.role == "explain"
    ]
    assert "mine 3 oak_log" in how
    assert [HOW in code for code in codes] == [True, True]  # asked once, and shown each time
    # A skill is called after its option.
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {"mineOakLog"}
    kept = (tmp_path / "mineOakLog" / "1.js").read_text()
    assert "await mineBlock(bot, 'oak_log', 3);" in kept
    record = json.loads((tmp_path / "mineOakLog" / "1.json").read_text())
    assert (record["option"], record["wins"]) == ("mine 3 oak_log", 1)
    assert outcome.metrics["execution_calls"] == 5
    assert outcome.metrics["planning_calls"] == 1


@sealed
@pytest.mark.parametrize(
    ("settings", "number", "asked"),
    [({}, 5, True), ({"retrieved": 2}, 2, True), ({"explanation": "none"}, 5, False)],
)
async def test_what_a_program_is_written_with(settings, number, asked):
    right = "async function chopLogs(bot) { await mineBlock(bot, 'oak_log', 3); }"
    model = script(right)
    engine = ScriptedEngine(
        lambda request: (
            compact({"reason": "", "done": True}) if request.role == "complete" else model(request)
        )
    )
    outcome = await run("cot", engine=engine, roles="llm", execution="programs", d=1, **settings)
    roles = [request.role for request in engine.requests]
    assert ("explain" in roles, HOW in engine.requests[roles.index("code")].prompt[-1].content) == (
        asked,
        asked,
    )
    prompt = engine.requests[roles.index("code")].prompt[-1].content
    seeded = [f"// {skill.description}\n{skill.code}" for skill in WORLD.primitives.seeded]
    assert sum(skill in prompt for skill in seeded) == number
    assert outcome.metrics["execution_calls"] == 2 + asked


@sealed
async def test_rules_do_not_explain(tmp_path):
    file = roles_file(tmp_path, "explain")
    message = "no rules that answer 'explain': let a model answer it"
    with pytest.raises(SettingsError, match=message):
        await run("cot", engine=ScriptedEngine(script("")), roles=file, execution="programs", d=1)


@sealed
async def test_of_what_the_world_does_not_show_no_skill_is_added(tmp_path):
    idle = "async function nothing(bot) {}"
    outcome = await run(
        "cot",
        engine=ScriptedEngine(
            lambda request: (
                compact({"reason": "", "done": True})
                if request.role == "complete"
                else script(idle)(request)
            )
        ),
        roles="llm",
        execution="programs",
        skills=str(tmp_path),
        d=1,
    )
    # The model says that it is done; the world does not show it.
    (only,) = attempts_of(outcome)
    assert (only["done"], only["shown"]) == (True, False)
    assert not list(tmp_path.glob("*/*.js"))


@sealed
async def test_what_is_no_program_is_no_skill_though_the_world_shows_the_option(tmp_path):
    """Coal is in view before anything is done, whatever the model writes."""

    def answer(request):
        if request.role == "decompose":
            seen = {"reasoning": "", "verb": "find", "quantity": 1, "item": "coal_ore"}
            return compact({"options": [seen]})
        if request.role == "complete":
            return compact({"reason": "", "done": True})
        return script("false")(request)

    given = {"execution": "programs", "skills": str(tmp_path), "d": 1}
    outcome = await run("cot", engine=ScriptedEngine(answer), roles="llm", **given)
    (only,) = attempts_of(outcome)
    assert (only["shown"], only["program"]) == (True, "false")
    assert "async function" in only["feedback"]
    assert not list(tmp_path.glob("*/*.js"))


async def test_attempts_are_counted_over_the_whole_task():
    outcome = await run("react-option", task="craft-a-diamond-pickaxe", attempts=5)
    assert len(attempts_of(outcome)) == 5
    assert outcome.metrics["plan_exhausted"] == 0.0
    assert outcome.metrics["attempts"] is None


async def test_each_execution_has_a_world_of_its_own():
    outcome = await run("cot", task="craft-a-compass", executions=3)
    three = [execution["last"] for execution in outcome.trace["executions"]]
    assert len(set(three)) == 3
    alone = await run("cot", task="craft-a-compass")
    assert alone.trace["executions"][0] == outcome.trace["executions"][0]
    assert alone.success == outcome.metrics["won_1"]


def test_metrics_of_executions_by_hand():
    def execution(won, count, minutes):
        attempt = Attempt(
            option=WOOD,
            planned=0,
            m=1,
            done=True,
            shown=True,
            program=None,
            feedback="done",
            actions=(WOOD,),
            seconds=60 * minutes / count,
        )
        return Executed(
            success=won,
            exhausted=not won,
            attempts=(attempt,) * count,
            moves=(),
            last="",
            milestones={},
        )

    metrics = metrics_of(
        [execution(True, 10, 5.0), execution(False, 30, 9.0), execution(True, 20, 8.0)]
    )
    assert (metrics["executions_won"], metrics["won_share"]) == (2, pytest.approx(2 / 3))
    assert (metrics["attempts"], metrics["minutes"]) == (15, 6.5)
    assert (metrics["won_2"], metrics["attempts_2"], metrics["minutes_2"]) == (False, 30, 9.0)
    assert metrics["plan_exhausted"] == pytest.approx(1 / 3)


@sealed
@pytest.mark.parametrize("name", ["too", "cot", "react-option", "too-plus"])
async def test_plain_programs_do_what_verbs_do(name):
    """The tables run verbs: a program of the same calls gives the same trial."""
    file = "configs/too/oracles/independent-20.yaml"
    by_verbs, by_programs = await asyncio.gather(
        *(run(name, seed=7, roles=file, execution=way) for way in ("direct", "programs"))
    )
    assert by_verbs.plan == by_programs.plan
    for attempt, other in zip(attempts_of(by_verbs), attempts_of(by_programs), strict=True):
        assert {**attempt, "program": None, "feedback": ""} == {
            **other,
            "program": None,
            "feedback": "",
        }
    moves = [outcome.trace["executions"][0]["moves"] for outcome in (by_verbs, by_programs)]
    assert moves[0] == moves[1]


@sealed
async def test_skills_carry_out_options_at_the_first_attempt():
    outcome = await run("cot", task="craft-a-compass", execution="skills")
    assert outcome.success
    assert {attempt["m"] for attempt in attempts_of(outcome)} == {1}
    assert all("await" in attempt["program"] for attempt in attempts_of(outcome))


async def test_programs_without_a_seal_are_refused_in_one_line(monkeypatch, caplog):
    monkeypatch.setattr(
        "llm_planning.execution.program_policies.why_unsealed", lambda: "no seccomp here"
    )
    outcome = await run("cot", execution="skills")
    assert outcome.metrics["execution"] == "direct"
    assert outcome.success
    (line,) = caplog.messages
    assert line == "no seccomp here; options are executed as verbs (execution=direct)"


async def test_a_world_without_primitives_refuses_programs_and_has_verbs_for_skills(caplog):
    spec = PLANNERS["too-plus"]
    world = find_domain("blocksworld").open("hard", find_domain("blocksworld").settings())

    def plan(**settings):
        read = spec.settings.read({"roles": "rules", **settings})
        return spec.run(run_in(world, read, EncoderEngine()))

    with pytest.raises(SettingsError, match=r"^execution=programs: .* no `primitives`"):
        await plan(execution="programs")
    assert (await plan()).success
    assert caplog.messages == [
        "this domain has no `primitives`; options are executed as verbs (execution=direct)"
    ]


@sealed
async def test_a_library_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "chop").mkdir()
    (tmp_path / "chop" / "1.json").write_text("[]")
    (tmp_path / "chop" / "1.js").write_text("")
    with pytest.raises(SettingsError, match=r"^skills=.*chop"):
        await run("cot", execution="skills", skills=str(tmp_path))


# --- oracles -------------------------------------------------------------------------------------


async def test_a_wrong_program_is_a_mistaken_option(tmp_path):
    settings = OptionSettings.read({"roles": roles_file(tmp_path, code={"rate": 0.0})})
    ask = OptionAsking(WORLD, Engines(EncoderEngine()), settings, seed=0)
    (wrong,) = await Verbs(ask).write(asked(WOOD, m=1))
    same = [wrong.verb == "mine", wrong.quantity == 3, wrong.item == "oak_log"]
    assert sum(same) == 2


# --- baselines -----------------------------------------------------------------------------------


async def test_react_option_sees_what_the_world_said():
    engine = ScriptedEngine(
        lambda _: compact(
            {"options": [{"reasoning": "", "verb": "kill", "quantity": 1, "item": "cow"}]}
        )
    )
    await run("react-option", engine=engine, roles="llm", refinements=1, attempts=2)
    first, second = (request.prompt[-1].content for request in engine.requests)
    assert "kill 1 cow" not in first
    assert "1. kill 1 cow: kill 1 cow: no cow nearby" in second


async def test_react_action_takes_one_unit_at_a_time():
    outcome = await run("react-action", task="craft-a-compass")
    assert {attempt["option"].split()[1] for attempt in attempts_of(outcome)} == {"1"}
    assert len(attempts_of(outcome)) == 30
    assert outcome.success is False


# --- ToO+ ----------------------------------------------------------------------------------------


def test_an_effect_that_was_seen_is_expected_again():
    effects = Effects(WORLD)
    effects.seen[WOOD] = (START, holding(oak_log=3))
    assert effects.expect(holding(stick=2), WOOD).inventory == {"stick": 2, "oak_log": 3}
    planks = Option("craft", 4, "oak_planks")
    effects.seen[planks] = (holding(oak_log=1), holding(oak_planks=4))
    # It took a log, and none is held.
    assert effects.expect(START, planks) is None
    assert effects.expect(START, TABLE) is None


def test_what_is_expected_is_held_in_the_same_order_in_every_process():
    effects = Effects(WORLD)
    numbers = {"wooden_pickaxe": 1, "crafting_table": 1, "oak_planks": 3, "stick": 2, "furnace": 1}
    effects.seen[TABLE] = (holding(oak_log=3), holding(oak_log=1, **numbers))
    expected = effects.expect(holding(oak_log=4), TABLE)
    assert list(expected.inventory.items()) == [("oak_log", 2), *numbers.items()]


def test_a_failed_option_is_hopeless_until_something_else_is_held_or_in_view():
    effects = Effects(WORLD)
    effects.failed[TABLE] = START
    assert effects.is_hopeless(START, TABLE)
    assert effects.is_hopeless(replace(START, position=(50.0, 64.0, 0.0)), TABLE)
    assert not effects.is_hopeless(holding(oak_log=3), TABLE)
    assert not effects.is_hopeless(START, WOOD)
    cave = ("iron_ore", *START.nearby_blocks)
    assert not effects.is_hopeless(replace(START, nearby_blocks=cave), TABLE)
    assert not effects.is_hopeless(replace(START, nearby_entities=("cow",)), TABLE)
    effects.failed[TABLE] = replace(START, nearby_blocks=cave)
    assert effects.is_hopeless(START, TABLE)  # what is out of view helps nobody


async def test_options_that_worked_are_proposed_last_and_the_latest_first():
    async def propose(_):
        return [Candidate(TABLE, TABLE, "because")]

    stick, planks = Option("craft", 4, "stick"), Option("craft", 4, "oak_planks")
    effects = Effects(WORLD, dict.fromkeys((WOOD, planks, stick, TABLE), (START, START)))
    ask = SimpleNamespace(domain=WORLD, by_name=lambda *_, **__: {"propose": propose})
    names = WatchedTree(tau(START), ask, PlusSettings.read({"k": 2}), effects).propose
    # The table is proposed already, and no more than two are added.
    assert [(candidate.option, candidate.reasoning) for candidate in await names(tau(START))] == [
        (TABLE, "because"),
        (stick, "it worked"),
        (planks, "it worked"),
    ]
    # What is done on this path is not named again.
    done = replace(tau(START), options=(stick,))
    assert [candidate.option for candidate in await names(done)] == [TABLE, planks, WOOD]


def test_a_node_is_left_without_the_option_that_changed_nothing():
    wood, table = Edge(WOOD), Edge(TABLE)
    node = expanded([wood, table])
    assert _without(node, wood) is node
    assert node.edges == [table]
    assert _without(node, table) is None


def options_of(node):
    return [edge["option"] for edge in node["edges"]]


def levels(node):
    """The options of every node of a tree."""
    return [options_of(node), *(level for edge in node["edges"] for level in levels(edge))]


async def test_the_tree_is_gone_on_with_where_an_option_changed_nothing(tmp_path):
    """All proposals are wrong, so many options fail; the rest of their node is searched further."""
    wrong = {"rate": 0.0, "kind": "sticky"}
    file = roles_file(tmp_path, *PLANNERS["too-plus"].roles, propose=wrong)
    outcome = await run("too-plus", task="cook-meat", roles=file, execution="direct", attempts=20)
    failed = {attempt["option"] for attempt in attempts_of(outcome) if not attempt["shown"]}
    kept = new = 0
    for before, after in pairwise(outcome.trace["trees"]):
        if after["visits"] == 10:
            new += 1
            continue
        kept += 1
        now = options_of(after)
        left = [[option for option in then if option not in failed] for then in levels(before)]
        assert now
        assert [option for option in now if option not in failed] in left
        assert any(set(now) < set(then) for then in levels(before))
    assert min(kept, new) >= 1


def test_effects_are_shared_through_a_folder(tmp_path):
    store = EffectStore(tmp_path / "seen")
    assert store.read(WORLD) == {}
    store.add(WORLD, {WOOD: (START, holding(oak_log=3))})
    EffectStore(tmp_path / "seen").add(WORLD, {TABLE: (holding(oak_log=1), holding())})
    assert store.read(WORLD) == {
        WOOD: (START, holding(oak_log=3)),
        TABLE: (holding(oak_log=1), holding()),
    }


def see(folder, who, count):
    """Adds effects of its own and one that all processes share."""
    store = EffectStore(Path(folder))
    for number in range(1, count + 1):
        own = Option("mine", number, f"{who}_log")
        store.add(WORLD, {own: (START, holding(oak_log=number)), WOOD: (START, START)})
    return True


def test_processes_that_see_at_once_lose_nothing(tmp_path):
    count, trees = 12, ("birch", "spruce")
    processes = [start(see, str(tmp_path), tree, count) for tree in trees]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert EffectStore(tmp_path).read(WORLD) == {
        WOOD: (START, START),
        **{
            Option("mine", number, f"{tree}_log"): (START, holding(oak_log=number))
            for tree in trees
            for number in range(1, count + 1)
        },
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "effects.json"]


SEEN = {
    "option": {"verb": "mine", "quantity": 1, "item": "oak_log"},
    "before": START.to_json(),
    "after": START.to_json(),
}


def effects_with(part, **changes):
    return json.dumps({"effects": [SEEN, SEEN | {part: SEEN[part] | changes}]})


BROKEN = {
    "": "Expecting value",
    "[" * 99_999: "nested too deeply",
    "[]": "indices",
    '{"effects": [1]}': "not subscriptable",
    json.dumps({"effects": [SEEN, {"option": SEEN["option"]}]}): "'before' is missing",
    json.dumps({"effects": [SEEN | {"option": {}}]}): "verb is missing",
    json.dumps({"effects": [SEEN | {"after": {}}]}): "biome is missing",
    effects_with("option", verb=[]): "verb is []: Input",
    effects_with("option", quantity=0): "quantity is 0: Input",
    effects_with("after", hunger=float("nan")): "hunger is nan: Input",
    effects_with(
        "after", inventory={"x": 1 << 99}
    ): "inventory.x is 633825300114114700748351602688: Input",
}


@pytest.mark.parametrize(("text", "reason"), BROKEN.items(), ids=BROKEN.values())
def test_a_damaged_file_of_effects_is_named(tmp_path, text, reason):
    (tmp_path / "effects.json").write_text(text)
    with pytest.raises(SettingsError, match=r"^effects: .*effects\.json is damaged") as caught:
        EffectStore(tmp_path).read(WORLD)
    assert reason in str(caught.value)
    assert str(caught.value).endswith("): restore it, or remove it")


def test_a_folder_that_cannot_hold_effects_is_refused_at_the_start(tmp_path):
    (tmp_path / "a-file").touch()
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/effects.json").symlink_to("nowhere")
    (tmp_path / "locked/.lock").mkdir(parents=True)
    for name in ("a-file", "a-file/deeper", "linked", "locked", "n" * 300, "nul\0"):
        with pytest.raises(SettingsError, match=r"^effects=.*: name a folder to write to$"):
            EffectStore(tmp_path / name)


@pytest.mark.parametrize("key", ["skills", "effects"])
async def test_a_folder_without_a_name_is_refused(key):
    with pytest.raises(SettingsError, match=f"{key}=''"):
        await run("too-plus", task="cook-meat", **{key: ""})


async def test_what_one_trial_saw_the_next_predicts_without_asking(tmp_path):
    first, second = [
        await run("too-plus", task="cook-meat", execution="direct", effects=str(tmp_path))
        for _ in range(2)
    ]
    alone = await run("too-plus", task="cook-meat", execution="direct")
    assert first.success
    assert second.success
    assert first.metrics["planning_questions"] == alone.metrics["planning_questions"]
    assert second.metrics["effects_seen"] >= first.metrics["effects_seen"]
    assert len(EffectStore(tmp_path).read(WORLD)) == second.metrics["effects_seen"]


async def test_too_plus_plans_again_where_the_world_falls_short(tmp_path):
    """Predictions are always wrong at first; what was seen is then predicted right."""
    wrong = {"rate": 0.0, "kind": "systematic"}
    file = roles_file(tmp_path, *PLANNERS["too-plus"].roles, dynamics=wrong)
    plain = await run("too", task="cook-meat", roles=file)
    outcome = await run("too-plus", task="cook-meat", roles=file)
    assert (plain.success, outcome.success) == (False, True)
    assert outcome.metrics["searches"] > 1
    assert outcome.metrics["effects_seen"] > 0


async def test_a_repair_stands_beside_the_option_in_too_plus(tmp_path):
    file = roles_file(tmp_path, *PLANNERS["too-plus"].roles, feasibility={"rate": 0.0})
    settings = {"task": "cook-meat", "roles": file, "iter": 1, "d": 1}
    beside = (await run("too-plus", **settings)).trace["trees"][0]["edges"]
    instead = (await run("too", **settings)).trace["tree"]["edges"]
    proposed = {option["candidate"]["proposed"] for option in beside}
    assert proposed <= {option["option"] for option in beside}
    assert len(beside) >= len(instead)
