"""The skills that come with Minecraft: they carry out any option, and together finish any task."""

import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.primitives import MinecraftPrimitives
from llm_planning.environments.minecraft.options.tasks import PLAINS, TASKS
from llm_planning.environments.minecraft.options.verbs import VERBS
from llm_planning.environments.minecraft.options.vocabulary import OBJECTS
from llm_planning.execution.episode import Episode
from llm_planning.execution.programs import carry_out
from llm_planning.execution.sandbox import why_unsealed
from llm_planning.execution.skills import SkillLibrary

sealed = pytest.mark.skipif(why_unsealed() is not None, reason=str(why_unsealed()))
PRIMITIVES = MinecraftPrimitives()
WHOLE = {path.stem: path for path in Path(__file__).with_name("whole_tasks").glob("*.js")}
"""Task -> a program that finishes it from bare hands. No library has it: it would be the answer."""
BY_VERB = {skill.option: skill.name for skill in PRIMITIVES.seeded if skill.option is not None}


async def embed(texts):
    raise AssertionError("every option has a skill of its own")


@cache
def library():
    return SkillLibrary.open(
        None, seeded=PRIMITIVES.seeded, embed=embed, primitives=PRIMITIVES.version
    )


async def finished(task, seed, *, mode="folded"):
    """One execution of a program for a whole task; the episode and how it ended."""
    domain = Minecraft(task=task, options=mode)
    episode = await Episode.begin(domain, seed=seed)
    program = WHOLE[domain.task.name].read_text("utf-8")
    done = await carry_out(program, episode, PRIMITIVES, skills=PRIMITIVES.seeded, seed=seed)
    return episode, done


@sealed
async def test_none_answers_a_whole_task_in_one_call():
    """Whoever writes a program is shown the nearest skills: an answer there would be copied."""
    answers = []
    for skill in PRIMITIVES.seeded:
        assert skill.task is None
        if skill.option is None:
            episode = await Episode.begin(Minecraft(task="craft-a-compass"), seed=7)
            program = f"async function act(bot) {{ await {skill.name}(bot); }}"
            skills = library().with_callees([skill])
            await carry_out(program, episode, PRIMITIVES, skills=skills, seed=7)
            worlds = {task: Minecraft(task=task) for task in TASKS}
            answers += [
                (skill.name, task) for task, world in worlds.items() if world.success(episode.state)
            ]
    assert answers == []


def test_there_is_one_for_each_verb():
    assert WHOLE.keys() == TASKS.keys()
    assert BY_VERB.keys() == set(VERBS)
    assert library().skills == tuple(sorted(PRIMITIVES.seeded, key=lambda skill: skill.name))


def test_their_digests_are_up_to_date():
    script = Path(__file__).resolve().parents[2] / "scripts" / "minecraft_skills.py"
    subprocess.run([sys.executable, script, "--check"], check=True)


@sealed
@pytest.mark.parametrize("task", TASKS)
async def test_programs_of_them_finish_every_task(task):
    episode, done = await finished(task, seed=1_000)
    assert done.error is None
    assert episode.success


@sealed
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["folded", "single"])
async def test_99_of_100_first_attempts_finish_their_task(mode):
    won = [
        (await finished(task, seed, mode=mode))[0].success for task in TASKS for seed in range(50)
    ]
    assert len(won) == 400
    assert sum(won) >= 396


@sealed
async def test_they_begin_again_after_a_death():
    weak = replace(PLAINS, health=0.5, hunger=10.0, time="midnight")
    deaths = 0
    for seed in range(8):
        episode, done = await finished(replace(TASKS["craft-a-compass"], start=weak), seed)
        deaths += sum("killed by" in (move.step.obstacle or "") for move in episode.moves)
        assert done.error is None
        assert episode.success
    assert deaths > 0


async def test_every_option_has_a_policy_that_takes_its_item_and_quantity():
    for verb in VERBS:
        for item in OBJECTS[::7]:
            policy = await library().policy_for(Option(verb, 3, item), PRIMITIVES)
            assert f'await {BY_VERB[verb]}(bot, "{item}", 3);' in policy.program
            assert policy.skill in policy.skills


async def followed(task, seed, *, mode="folded"):
    """A right plan whose options are carried out by their policies, one execution for each."""
    domain = Minecraft(task=task, options=mode)
    episode = await Episode.begin(domain, seed=seed)
    ends = []
    for option in domain.advise(episode.state):
        if not episode.over:
            policy = await library().policy_for(option, PRIMITIVES)
            done = await carry_out(
                policy.program, episode, PRIMITIVES, skills=policy.skills, seed=seed
            )
            ends.append((str(option), done))
    return episode, ends


@sealed
@pytest.mark.parametrize("mode", ["folded", "single"])
async def test_policies_carry_a_right_plan_out(mode):
    episode, ends = await followed("craft-a-compass", 1_000, mode=mode)
    assert [(option, done.error) for option, done in ends if done.error] == []
    assert episode.success


@sealed
@pytest.mark.parametrize(
    ("option", "gained"),
    [
        (Option("mine", 20, "coal"), {"coal": 20}),
        (Option("kill", 6, "pig"), {"porkchop": 6}),
        (Option("shear", 5, "sheep"), {"white_wool": 5}),
        (Option("milk", 2, "milk_bucket"), {"milk_bucket": 2}),
        (Option("collect", 2, "lava_bucket"), {"lava_bucket": 2}),
        (Option("cook", 2, "beef"), {"cooked_beef": 2}),
    ],
)
async def test_a_policy_goes_on_until_it_has_the_quantity(option, gained):
    tools = {"iron_pickaxe": 1, "stone_sword": 1, "bucket": 2, "shears": 1}
    held = {**tools, "furnace": 1, "coal": 1, "beef": 2}
    task = replace(TASKS["craft-a-compass"], start=replace(PLAINS, inventory=held))
    episode = await Episode.begin(Minecraft(task=task), seed=0)
    policy = await library().policy_for(option, PRIMITIVES)
    done = await carry_out(policy.program, episode, PRIMITIVES, skills=policy.skills, seed=0)
    assert done.error is None
    assert {item: episode.state.inventory[item] >= count for item, count in gained.items()} == (
        dict.fromkeys(gained, True)
    )


@sealed
async def test_policies_of_things_at_hand():
    start = replace(PLAINS, inventory={"dirt": 3, "iron_helmet": 1})
    task = replace(TASKS["craft-a-compass"], start=start)
    episode = await Episode.begin(Minecraft(task=task), seed=0)
    for option in (
        Option("place", 3, "dirt"),
        Option("equip", 1, "iron_helmet"),
        Option("find", 1, "sheep"),
    ):
        policy = await library().policy_for(option, PRIMITIVES)
        done = await carry_out(policy.program, episode, PRIMITIVES, skills=policy.skills, seed=0)
        assert done.error is None
    assert "dirt" not in episode.state.inventory
    assert episode.state.equipment[0] == "iron_helmet"
    assert "sheep" in episode.state.nearby_entities


@sealed
async def test_a_policy_tells_what_its_plan_forgot():
    episode = await Episode.begin(Minecraft(task="craft-a-compass"), seed=0)
    policy = await library().policy_for(Option("mine", 3, "cobblestone"), PRIMITIVES)
    done = await carry_out(policy.program, episode, PRIMITIVES, skills=policy.skills, seed=0)
    assert "stone needs a wooden_pickaxe or better" in str(done)
