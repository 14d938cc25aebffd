import re
import typing
from dataclasses import replace

import pytest
from pydantic import create_model

from llm_planning.domain import Domain, OneOf
from llm_planning.environments.minecraft.options.domain import Minecraft
from llm_planning.environments.minecraft.options.option import Option
from llm_planning.environments.minecraft.options.state import Change
from llm_planning.environments.minecraft.options.tasks import TASKS
from llm_planning.execution.option_prompts import NOW, PREDICTED, START
from llm_planning.execution.option_settings import Layout, PromptSettings
from llm_planning.execution.options import OptionState
from llm_planning.planners.tree_of_options.roles import OptionRoles
from llm_planning.planners.tree_of_options.settings import ROLES

NAMES = (*ROLES, "decompose", "termination-from-start", "explain", "code", "complete")
LAYOUTS = typing.get_args(Layout)
TASK = TASKS["craft-a-compass"]
WOOD, PLANKS = Option("mine", 3, "oak_log"), Option("craft", 4, "oak_planks")
STONE, IRON = Option("mine", 8, "cobblestone"), Option("mine", 3, "iron_ore")
MINECRAFT = Minecraft(task=TASK.name)
START_TRAJECTORY = OptionState(TASK.goal, TASK.start)


def after(trajectory, option, **change):
    return replace(
        trajectory,
        state=trajectory.state.apply(Change(**change)),
        options=(*trajectory.options, option),
    )


FIRST = after(START_TRAJECTORY, WOOD, gained={"oak_log": 3})
SECOND = after(FIRST, PLANKS, gained={"oak_planks": 4}, lost={"oak_log": 1})


def composed(name, layout, moment, count, domain=MINECRAFT):
    roles = OptionRoles(domain, PromptSettings.read({"layout": layout, "d": count}), seed=0)
    if name == "propose":
        return roles.propose(count, moment).prompt()
    if name in ("feasibility", "repair", "reward", "termination"):
        return getattr(roles, name)(moment).prompt()
    if name == "termination-from-start":
        return roles.termination(START).prompt()
    return roles.by_name()[name].prompt()


def ask(name, layout="cached", *, trajectory=SECOND, option=STONE, reason="no pickaxe", moment=NOW):
    return composed(name, layout, moment, 3).messages(
        {
            "goal": trajectory.goal,
            "state": trajectory.state,
            "history": trajectory.history,
            "option": option,
            "reason": reason,
            "program": "",
            "feedback": "",
            "skills": "",
            "explanation": "",
        }
    )


def text(messages):
    return "\n".join(f"[{message.role}]\n{message.content}" for message in messages)


def paragraphs(messages):
    return sorted(block for message in messages for block in message.content.split("\n\n"))


@pytest.mark.parametrize("name", NAMES)
def test_layouts_say_the_same(name):
    cached, paper = (ask(name, layout) for layout in LAYOUTS)
    assert paragraphs(cached) == paragraphs(paper)
    assert cached != paper


@pytest.mark.parametrize("name", NAMES)
def test_paper_layout_ends_with_rules_and_format(name):
    system, user = (message.content.split("\n\n") for message in ask(name, "paper"))
    speaker, *fixed = ask(name)[0].content.split("\n\n")
    assert system == [speaker]
    assert user[-2:] == fixed[-2:]
    assert "compact JSON" in user[-1]


@pytest.mark.parametrize("name", NAMES)
def test_system_message_never_changes(name):
    assert ask(name, trajectory=FIRST)[0] == ask(name, trajectory=SECOND, option=IRON)[0]


def shared_prefix(text, other):
    length = 0
    while text[length : length + 1] == other[length : length + 1] != "":
        length += 1
    return text[:length]


@pytest.mark.parametrize("name", ["feasibility", "dynamics", "repair"])
def test_candidates_of_one_node_share_everything_up_to_the_option(name):
    first, other = (text(ask(name, option=option)) for option in (STONE, IRON))
    assert shared_prefix(first, other).endswith("Option: mine ")
    paper = [text(ask(name, "paper", option=option)) for option in (STONE, IRON)]
    assert len(shared_prefix(first, other)) > 2 * len(shared_prefix(*paper))


def test_rewards_of_one_node_share_everything_up_to_the_inventory():
    first = after(FIRST, PLANKS, gained={"oak_planks": 4})
    other = after(FIRST, STONE, gained={"cobblestone": 8})
    texts = [
        text(
            composed("reward", "cached", PREDICTED, 1).messages(
                {
                    "goal": FIRST.goal,
                    "state": child.state,
                    "history": FIRST.history,
                    "option": child.options[-1],
                }
            )
        )
        for child in (first, other)
    ]
    assert shared_prefix(*texts).endswith("Inventory (2/36): {'oak_log': 3, '")


@pytest.mark.parametrize("name", ["propose", "feasibility", "repair", "reward"])
def test_parent_and_child_share_everything_up_to_the_new_option(name):
    shared = shared_prefix(text(ask(name, trajectory=FIRST)), text(ask(name, trajectory=SECOND)))
    assert shared.endswith("1. mine 3 oak_log\n")


def test_state_record_is_complete_and_once():
    for layout in LAYOUTS:
        prompt = text(ask("propose", layout))
        for line in str(SECOND.state).splitlines():
            assert prompt.count(line) == 1


def test_prompts_ask_for_as_many_options_as_set():
    assert "you name 5 options" in text(composed("propose", "cached", NOW, 5).messages(given()))
    assert "At most 9 options" in text(composed("decompose", "cached", NOW, 9).messages(given()))


def given():
    return {"goal": TASK.goal, "state": TASK.start, "history": START_TRAJECTORY.history}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_prompts_are_tidy(name, layout):
    prompt = text(ask(name, layout))
    assert not re.search(r"[{}]{2}|\{%|\n{3}| \n|\n\Z", prompt)
    # The fixed part pays for itself through the prefix cache, but a small model must follow it.
    # The functions of a program take more words than a rule.
    assert len(ask(name)[0].content) < (4000 if name == "code" else 2000)


class Gate(Domain):
    """A domain that words nothing itself."""

    goal = "Open the gate."
    about = "A gate opens with its key."
    grammar = OneOf(("take the key", "open the gate"))
    state_model = type("Model", (), {"answer": create_model("GateIs", open=(bool, ...))})
    start = describe = actions = step = None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_domain_is_asked_in_general_words(name, layout):
    prompt = composed(name, layout, NOW, 2, domain=Gate())
    messages = prompt.messages(
        {
            "goal": Gate.goal,
            "described": "The gate is shut.",
            "history": "none",
            "option": "open the gate",
            "reason": "no key",
            "state": None,
            "program": "",
            "feedback": "",
            "skills": "",
            "explanation": "",
        }
    )
    asked = text(messages)
    # How an option is done does not depend on the state.
    assert asked.count("The gate is shut.") == (name != "explain")
    assert "Minecraft" not in asked
    judged = name.startswith(("reward", "termination"))
    assert ("A gate opens with its key." in asked) == (not judged)
    named = name in ("propose", "repair", "decompose")
    assert ("one of: take the key, open the gate" in asked) == named
    assert not re.search(r"[{}]{2}|\{%|\n{3}| \n|\n\Z", asked)


@pytest.mark.parametrize("name", ["feasibility", "dynamics", "propose"])
def test_what_a_craft_does_on_the_way_is_told_where_it_does_it(name):
    folded, single = (
        composed(name, "cached", NOW, 3, domain=Minecraft(task=TASK.name, options=reading))
        .messages(given() | {"option": PLANKS})[0]
        .content
        for reading in ("folded", "single")
    )
    assert "on the way" in folded
    assert "on the way" not in single
    assert len(single) < len(folded)
