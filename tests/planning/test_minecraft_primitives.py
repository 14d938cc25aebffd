"""Minecraft's control primitives: options of calls, calls of options, and what a program sees."""

import json
import re

import pytest

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import MOST, Option
from llm_planning.environments.minecraft.options.primitives import MinecraftPrimitives
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS
from llm_planning.execution.episode import Episode
from llm_planning.execution.programs import carry_out, entry_of
from llm_planning.execution.sandbox import CallError, why_unsealed

sealed = pytest.mark.skipif(why_unsealed() is not None, reason=str(why_unsealed()))
PRIMITIVES = MinecraftPrimitives()
PLACE = {"x": 1.0, "y": 64.0, "z": 0.0}


@pytest.mark.parametrize(
    ("name", "arguments", "option"),
    [
        ("mineBlock", ["oak_log", 3], "mine 3 oak_log"),
        ("mineBlock", ["oak_log"], "mine 1 oak_log"),
        ("mineBlock", ["oak_log", None], "mine 1 oak_log"),
        ("craftItem", ["compass", 1.0], "craft 1 compass"),
        ("smeltItem", ["iron_ore", 7], "smelt 7 iron_ore"),
        ("cookItem", ["beef", 2], "cook 2 beef"),
        ("killMob", ["cow", 64], "kill 64 cow"),
        ("equipItem", ["iron_pickaxe"], "equip 1 iron_pickaxe"),
        ("exploreUntil", ["cow"], "find 1 cow"),
        ("fillBucket", ["lava"], "collect 1 lava"),
        ("placeItem", ["furnace"], "place 1 furnace"),
        ("placeItem", ["furnace", PLACE], "place 1 furnace"),
        ("placeItem", ["dirt", PLACE, 3], "place 3 dirt"),
        ("useOnMob", ["shears", "sheep"], "shear 1 sheep"),
        ("useOnMob", ["bucket", "cow", 2], "milk 2 cow"),
    ],
)
def test_a_call_is_an_option(name, arguments, option):
    assert str(PRIMITIVES.action(name, arguments)) == option


@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("mineBlok", ["oak_log"], "unknown function 'mineBlok'; did you mean mineBlock"),
        (7, [], "unknown function 7"),
        ("mineBlock", [], "mineBlock(bot, name, count): name must be a name"),
        ("mineBlock", ["oak log"], "name must be a name such as \"oak_log\", not 'oak log'"),
        ("mineBlock", [3, "oak_log"], "count must be a whole number from 1 to 64, not 'oak_log'"),
        ("mineBlock", ["a" * 65], "name must be a name"),
        ("mineBlock", ["oak_log", 0], "count must be a whole number from 1 to 64, not 0"),
        ("mineBlock", ["oak_log", 65], "not 65"),
        ("mineBlock", ["oak_log", 2.5], "not 2.5"),
        ("mineBlock", ["oak_log", True], "not True"),
        ("mineBlock", ["oak_log", float("nan")], "not nan"),
        ("mineBlock", ["oak_log", float("inf")], "not inf"),
        ("mineBlock", ["oak_log", -(10**400)], "count must be"),
        ("smeltItem", ["iron_ore", "coal", 3], "it takes at most 3 arguments, not 4"),
        ("placeItem", ["dirt", [1, 2, 3]], "placeItem(bot, name, position): position must be"),
        ("placeItem", ["dirt", {"x": 1, "y": "2", "z": 3}], "position must be a place"),
        ("useOnMob", ["sword", "cow"], "item must be shears or bucket, not 'sword'"),
        ("useOnMob", ["shears"], "mob must be a name"),
    ],
)
def test_impossible_arguments_are_one_clear_line(name, arguments, complaint):
    with pytest.raises(CallError, match=re.escape(complaint)) as error:
        PRIMITIVES.action(name, arguments)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300


def called(program):
    """The call of a plain program, as the host gets it."""
    name, arguments = re.search(r"await (\w+)\(bot, (.*)\);", program).groups()
    place = json.dumps(PLACE)
    listed = arguments.replace("bot.entity.position.offset(1, 0, 0)", place)
    return name, json.loads(f"[{listed}]")


def test_the_plain_program_of_every_option_is_a_call_of_it():
    for verb in VERBS:
        for item in OBJECTS:
            for quantity in (1, 3, MOST):
                option = Option(verb, quantity, item)
                program = PRIMITIVES.plain(option)
                assert entry_of(program) == "act"
                assert PRIMITIVES.action(*called(program)) == option


def test_what_no_function_takes_has_no_plain_program():
    with pytest.raises(CallError, match="unknown verb 'fly'"):
        PRIMITIVES.plain(Option("fly", 1, "cow"))


async def both(task, options, seed, *, mode="folded"):
    """Options taken directly, and by their plain programs, in the same world."""
    domain = Minecraft(task=task, options=mode)
    direct = await Episode.begin(domain, seed=seed)
    by_program = await Episode.begin(domain, seed=seed)
    for option in options:
        if not direct.over:
            await direct.act(option)
            program = PRIMITIVES.plain(option)
            await carry_out(program, by_program, PRIMITIVES, seed=seed)
    return direct, by_program


WALK = [
    Option("kill", 2, "pig"),
    Option("mine", 4, "oak_log"),
    Option("craft", 1, "wooden_pickaxe"),
    Option("equip", 3, "wooden_pickaxe"),
    Option("mine", 11, "cobblestone"),
    Option("place", 2, "cobblestone"),
    Option("craft", 1, "furnace"),
    Option("smelt", 1, "porkchop"),
    Option("cook", 1, "porkchop"),
    Option("find", 2, "sheep"),
    Option("shear", 1, "white_wool"),
    Option("milk", 1, "milk"),
    Option("collect", 1, "water_bucket"),
    Option("mine", 1, "no such thing"),
]
"""Every verb, refused options among them."""


@sealed
async def test_plain_programs_take_the_same_steps():
    assert {option.verb for option in WALK} == set(VERBS)
    direct, by_program = await both("craft-a-compass", WALK, seed=0)
    assert by_program.state == direct.state
    # What no name can be is refused before it is an action.
    assert by_program.moves == direct.moves[:-1]


@sealed
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["folded", "single"])
@pytest.mark.parametrize(("seed", "task"), list(enumerate(TASKS)))
async def test_plain_programs_take_the_same_steps_to_every_task(task, seed, mode):
    domain = Minecraft(task=task, options=mode)
    options = domain.advise(domain.start(seed))
    direct, by_program = await both(task, options, seed, mode=mode)
    assert by_program.state == direct.state
    assert by_program.moves == direct.moves
    assert len(direct.moves) > 1


async def ran(body, seed=0):
    episode = await Episode.begin(Minecraft(task="craft-a-compass"), seed=seed)
    program = f"async function act(bot) {{ {body} }}"
    return await carry_out(program, episode, PRIMITIVES, seed=0), episode


@sealed
async def test_the_bot_sees_the_state():
    done, episode = await ran("""
      const say = (value) => bot.chat(JSON.stringify(value));
      say([bot.inventory.count("oak_log"), bot.inventory.count("toString"), bot.inventory.items()]);
      say(await mineBlock(bot, "oak_log", 3));
      say([bot.inventory.count("oak_log"), bot.inventory.items()]);
      say([bot.sees("pig"), bot.sees("plains"), bot.sees("cow"), bot.sees("constructor")]);
      say([bot.nearby("pig"), bot.nearby("cow")]);
      say([bot.biome, bot.timeOfDay, bot.health, bot.food]);
      const there = bot.entity.position.offset(1, 2, 3).offset(0, 0, 1);
      say([there.x, there.y, there.z]);
      await equipItem(bot, "oak_log");
      say([bot.wears("oak_log"), bot.equipment]);
    """)
    assert done.error is None
    state = episode.state
    assert list(map(json.loads, done.messages)) == [
        [0, 0, []],
        True,
        [3, [{"name": "oak_log", "count": 3}]],
        [True, True, False, False],
        [{"count": 4, "distance": 9}, None],
        ["plains", state.time, 20, state.hunger],
        [1, 66, 4],
        [True, [None, None, None, None, "oak_log", None]],
    ]


@sealed
@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('await mineBlock("oak_log", 3);', "Error: mineBlock: the first argument must be bot"),
        ('await mineBlock(bot, "iron_ore");', "Error: mine 1 iron_ore: no iron_ore nearby"),
        ("bot.health = 20; bot = 3; await mineBlok(bot);", "ReferenceError: mineBlok"),
        ("mineBlock = 3; await mineBlock(bot, 3);", "Error: mineBlock(bot, name, count): name"),
    ],
)
async def test_mistakes_of_a_program_are_told(body, error):
    done, _ = await ran(body)
    assert done.error.startswith(error)


@sealed
async def test_the_functions_cannot_be_defined_anew():
    episode = await Episode.begin(Minecraft(task="craft-a-compass"), seed=0)
    program = "async function mineBlock(bot) {} async function act(bot) { await mineBlock(bot); }"
    done = await carry_out(program, episode, PRIMITIVES, seed=0)
    assert done.error is not None
    assert not episode.moves


def test_a_model_is_told_every_function():
    names = set(re.findall(r'^    "(\w+)",$', PRIMITIVES.prelude, re.MULTILINE))
    assert names == set(re.findall(r"^- (\w+)\(", PRIMITIVES.manual, re.MULTILINE))
    for name in names:
        with pytest.raises(CallError, match=rf"{name}\(bot, "):
            PRIMITIVES.action(name, [None])
