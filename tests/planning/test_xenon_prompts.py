import logging
import re
from dataclasses import replace

import pytest
from runs import compact
from xenon_builders import VERBS, minecraft

from llm_planning.environments.minecraft.book.rulebook import RuleBook
from llm_planning.environments.minecraft.items.goals import GOALS_120
from llm_planning.environments.minecraft.items.text_world import action_set
from llm_planning.planners.xenon.roles import (
    LATEST,
    SHOWN,
    ActionQuestion,
    Analysis,
    CorrectionQuestion,
    Failure,
    NeedsQuestion,
    RankingQuestion,
    requirement_list,
    written,
)
from llm_serving.answers import constraint_of, parse
from llm_serving.models.bundled import bundled_folder
from llm_serving.models.catalogue import CATALOGUE
from llm_serving.models.folders import cache_folder
from llm_serving.scripted import ScriptedEngine

NAMES = ("planks", "stick", "crafting_table", "iron_ingot", "charcoal")
RECIPES = [
    ("iron_pickaxe", {"iron_ingot": 3, "stick": 2, "crafting_table": 1}),
    ("iron_shovel", {"iron_ingot": 1, "stick": 2, "crafting_table": 1}),
    ("iron_ingot", {"iron_ore": 1, "furnace": 1}),
]
KNOWN = [("iron_ingot", "smelt"), ("iron_pickaxe", "craft"), ("iron_shovel", "craft")]
FAILURE = Failure(
    item="charcoal",
    action="craft",
    believed={"logs": 8, "coals": 1},
    inventory={"stick": 4, "logs": 9},
)


def needs(*pairs):
    return compact({"needs": pairs})


def roles_of(script=None, *, names=None, actions=VERBS, seed=0, score=None):
    engine = ScriptedEngine(script or {}, score=score)
    return engine, minecraft(engine, names=names, verbs=actions, seed=seed)


def by_table(table):
    return lambda text, choices: [table[choice] for choice in choices]


async def test_a_prediction_is_shown_examples_as_answers_are_written():
    engine, roles = roles_of({"predict": needs(["planks", 2], ["stick", 1])})
    answer = await roles.predict(NeedsQuestion("ladder", RECIPES))
    assert answer == {"planks": 2, "stick": 1}
    system, user = engine.requests[0].prompt
    *examples, blank, last = user.content.splitlines()
    assert (blank, last) == ("", "ladder:")
    for line, (item, requirements) in zip(examples, RECIPES, strict=True):
        name, _, text = line.partition(": ")
        assert name == item
        assert parse(requirement_list(None), text).requirements() == requirements
        assert re.fullmatch(constraint_of(requirement_list(None)).regex, text)
    assert "ladder" not in system.content
    assert engine.requests[0].sampling.temperature == 0


async def test_without_examples_the_form_is_shown_and_what_is_named_twice_counts_twice():
    engine, roles = roles_of({"predict": needs(["planks", 2], ["stick", 1], ["planks", 3])})
    assert await roles.predict(NeedsQuestion("ladder")) == {"planks": 5, "stick": 1}
    line = engine.requests[0].prompt[1].content.splitlines()[0]
    assert re.fullmatch(constraint_of(requirement_list(None)).regex, line.partition(": ")[2])


async def test_an_item_that_requires_itself_does_not(caplog):
    _, roles = roles_of({"predict": needs(["charcoal", 1], ["logs", 1])})
    with caplog.at_level(logging.INFO):
        assert await roles.predict(NeedsQuestion("charcoal")) == {"logs": 1}
    assert "the answer for charcoal names the item itself" in caplog.text


def test_free_names_are_bounded_and_look_like_items():
    regex = constraint_of(requirement_list(None)).regex
    for name in ("a", "iron_ingot", "x" * 32, "light_weighted_pressure_plate"):
        assert re.fullmatch(regex, needs([name, 64]))
    for name in ("", "Iron", "iron ingot", "iron2", "_iron", "x" * 33):
        assert not re.fullmatch(regex, needs([name, 1]))
    for quantity in (0, 65, -1):
        assert not re.fullmatch(regex, needs(["planks", quantity]))
    assert re.fullmatch(regex, needs(*[["planks", 1]] * 5))
    assert not re.fullmatch(regex, needs(*[["planks", 1]] * 6))


def test_known_names_are_written_and_no_others():
    names = RuleBook.load().closure(GOALS_120)
    assert constraint_of(requirement_list(names)).max_bytes < 250
    model = requirement_list(NAMES)
    assert model is requirement_list(NAMES)
    regex = constraint_of(model).regex
    assert all(re.fullmatch(regex, needs([name, 1])) for name in NAMES)
    assert not re.fullmatch(regex, needs(["oak_planks", 1]))
    assert written({"stick": 2, "planks": 3}) == needs(["stick", 2], ["planks", 3])


async def test_answers_are_held_to_the_names():
    for names, expected in ((None, True), (NAMES, False)):
        engine, roles = roles_of({"predict": needs(), "correct": needs()}, names=names)
        await roles.predict(NeedsQuestion("ladder"))
        await roles.correct(CorrectionQuestion("ladder"))
        for request in engine.requests:
            allowed = re.fullmatch(request.constraint.regex, needs(["oak_planks", 1]))
            assert bool(allowed) is expected


async def test_a_correction_is_told_the_latest_failures():
    engine, roles = roles_of({"correct": needs(["logs", 1])})
    failures = [
        Failure(item="charcoal", action=action, believed={"logs": 8}, inventory={"logs": count})
        for count, action in enumerate(("mine", "mine", "craft", "smelt", "smelt"), start=1)
    ]
    assert await roles.correct(CorrectionQuestion("charcoal", RECIPES, 1, failures)) == {"logs": 1}
    user = engine.requests[0].prompt[1].content
    lines = [line for line in user.splitlines() if "believed" in line]
    assert lines == [
        'craft charcoal, holding 3 logs, believed {"needs":[["logs",8]]}',
        'smelt charcoal, holding 4 logs, believed {"needs":[["logs",8]]}',
        'smelt charcoal, holding 5 logs, believed {"needs":[["logs",8]]}',
    ]
    assert user.startswith("iron_pickaxe: {")
    assert user.endswith("\n\ncharcoal:")


async def test_failures_alike_are_told_once():
    engine, roles = roles_of({"correct": needs()})
    other = replace(FAILURE, action="mine")
    failures = [FAILURE, other, FAILURE, FAILURE]
    await roles.correct(CorrectionQuestion("charcoal", (), 1, failures))
    lines = engine.requests[0].prompt[1].content.partition("Failed attempts:\n")[2].splitlines()
    assert [line.partition(",")[0] for line in lines[:-2]] == ["mine charcoal", "craft charcoal"]


async def test_corrections_are_drawn_each_with_a_seed_of_its_own():
    engine, roles = roles_of({"correct": needs()}, seed=1)
    for item, asking in (("charcoal", 1), ("charcoal", 2), ("torch", 1)):
        await roles.correct(CorrectionQuestion(item, (), asking, [FAILURE]))
    seeds = [request.sampling.seed for request in engine.requests]
    assert seeds[0] != seeds[1]
    assert seeds[0] == seeds[2]
    assert all(request.sampling.temperature > 0 for request in engine.requests)
    for seed, same in ((1, True), (2, False)):
        repeated, again = roles_of({"correct": needs()}, seed=seed)
        await again.correct(CorrectionQuestion("charcoal", (), 1, [FAILURE]))
        assert (repeated.requests[0].sampling.seed == seeds[0]) is same


async def choose(roles, *, options=VERBS, examples=KNOWN, analyses=(), item="torch"):
    question = ActionQuestion(item, tuple(options), tuple(examples), tuple(analyses))
    return await roles.choose(question)


async def test_the_likeliest_option_is_chosen():
    score = by_table({"mine": -1.0, "craft": -2.0, "smelt": -3.0})
    engine, roles = roles_of(score=score)
    assert await choose(roles) == "mine"
    assert await choose(roles, options=("smelt", "craft")) == "craft"
    assert await choose(roles, options=("smelt",)) == "smelt"
    assert [choices for _, choices in engine.scored] == [VERBS]  # one question, asked once
    assert not engine.requests


async def test_of_equal_options_the_first_is_chosen_and_the_question_is_the_same():
    engine, roles = roles_of(score=by_table(dict.fromkeys(VERBS, -1.5)))
    assert await choose(roles, options=("smelt", "mine")) == "smelt"
    assert await choose(roles) == "mine"
    assert len(set(engine.scored)) == 1
    text = engine.scored[0][0]
    assert text.count("Actions: mine, craft, smelt.") == 1
    assert text.endswith("iron_shovel: craft\ntorch:<|end|><|assistant|>")


@pytest.mark.parametrize("options", [(), ("mine", "hunt")])
async def test_options_must_be_actions(options):
    _, roles = roles_of(score=by_table(dict.fromkeys(VERBS, -1.5)))
    with pytest.raises(ValueError, match=r"options .* for torch: .* mine, craft, smelt"):
        await choose(roles, options=options)


async def test_the_latest_analyses_are_told():
    engine, roles = roles_of(score=by_table(dict.fromkeys(VERBS, -1.5)))
    await choose(roles, analyses=[f"mine torch: reason {i}" for i in range(5)], examples=())
    lines = engine.scored[0][0].splitlines()
    assert [line for line in lines if "reason" in line] == [
        f"mine torch: reason {i}" for i in range(5 - LATEST, 5)
    ]


async def test_an_analysis_is_one_bounded_sentence_headed_by_the_attempt():
    engine, roles = roles_of({"analyse": '{"analysis":"It is smelted from logs."}'})
    assert await roles.analyse(FAILURE) == "craft charcoal: It is smelted from logs."
    request = engine.requests[0]
    # Believed requirements come with their counts, other items by name; there are no coals.
    assert request.prompt[1].content == "craft charcoal, holding 9 logs, stick:"
    assert constraint_of(Analysis).max_bytes <= 120
    texts = [line.partition(": ")[2] for line in request.prompt[0].content.splitlines()[-2:]]
    assert all(re.fullmatch(constraint_of(Analysis).regex, text) for text in texts)


async def test_a_full_inventory_is_told_in_part_and_an_empty_one_as_such():
    engine, roles = roles_of({"analyse": '{"analysis":"x"}'})
    full = {f"thing_{i:02}": i + 1 for i in range(40)} | {"logs": 9}
    failure = replace(FAILURE, believed={"logs": 8})
    for inventory in (full, dict(reversed(full.items())), {}):
        await roles.analyse(replace(failure, inventory=inventory))
    whole, reordered, empty = (request.prompt[1].content for request in engine.requests)
    assert whole.startswith("craft charcoal, holding 9 logs, thing_00, thing_01")
    assert whole.count(",") == SHOWN
    assert reordered == whole
    assert empty == "craft charcoal, holding nothing:"


async def test_ranking_scores_the_whole_vocabulary_once():
    table = {name: -float(len(name)) for name in (*NAMES, "diamond")}
    engine, roles = roles_of(names=NAMES, score=by_table(table))
    assert await roles.rank(RankingQuestion("torch", ("stick", "planks"))) == [-5.0, -6.0]
    assert await roles.rank(RankingQuestion("torch", ("charcoal",))) == [-8.0]
    assert len(set(engine.scored)) == 1
    assert engine.scored[0][1] == NAMES
    assert engine.scored[0][0].endswith("To obtain torch, one must have:<|end|><|assistant|>")
    assert await roles.rank(RankingQuestion("torch", ("diamond",))) == [-7.0]


async def test_ranking_without_a_vocabulary_scores_the_candidates():
    engine, roles = roles_of(score=by_table({"stick": -1.0, "coals": -2.0}))
    question = RankingQuestion("torch", ("coals", "stick", "coals"))
    assert await roles.rank(question) == [-2.0, -1.0, -2.0]
    assert engine.scored[0][1] == ("coals", "stick")


@pytest.fixture(scope="module")
def count_tokens():
    """Counts a chat's tokens with the bundled model, or as three characters each without it."""
    model = CATALOGUE["smollm2-135m-instruct"]
    file = bundled_folder(model, cache=cache_folder()) / "tokenizer.json"
    if not file.exists():
        return lambda text: len(text) / 3
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    return lambda text: len(tokenizer.encode(text).ids)


def chat(text):
    """The scripted engine's text in the form of ChatML."""
    for role in ("system", "user", "assistant"):
        text = text.replace(f"<|{role}|>", f"<|im_start|>{role}\n")
    return text.replace("<|end|>", "<|im_end|>\n")


async def test_prompts_are_short(count_tokens):
    """Two processor cores read about 400 tokens a second."""
    script = {
        "predict": needs(),
        "correct": needs(),
        "analyse": '{"analysis":"x"}',
    }
    engine, roles = roles_of(script, score=lambda text, choices: [0.0] * len(choices))
    attempt = Failure(
        item="iron_chestplate",
        action="smelt",
        believed=RECIPES[0][1],
        inventory={f"{name}_{part}": 1 for name in ("iron", "stone") for part in VERBS},
    )
    await choose(roles, item="iron_chestplate")
    await roles.rank(RankingQuestion("iron_chestplate", NAMES))
    await roles.predict(NeedsQuestion("iron_chestplate", RECIPES))
    await roles.analyse(attempt)
    failures = [replace(attempt, action=action) for action in VERBS]
    await roles.correct(CorrectionQuestion("iron_chestplate", RECIPES, 1, failures))
    read = [text for text, _ in engine.scored] + [
        engine.text(request.prompt) for request in engine.requests
    ]
    used = [count_tokens(chat(text)) for text in read]
    assert all(u <= most for u, most in zip(used, (120, 120, 220, 180, 420), strict=True)), used


async def test_many_actions_are_listed_once_for_all_questions(count_tokens):
    actions = action_set(45)
    engine, roles = roles_of(actions=actions, score=lambda text, choices: [0.0] * len(choices))
    await choose(roles, options=actions, item="torch")
    await choose(roles, options=actions[:3], item="piston")
    first, other = (text for text, _ in engine.scored)
    system = first.partition("<|user|>")[0]
    assert other.startswith(system)
    assert count_tokens(chat(first.removeprefix(system))) <= 60


async def test_prompts_are_tidy():
    script = {"predict": needs(), "correct": needs(), "analyse": '{"analysis":"x"}'}
    engine, roles = roles_of(script, score=lambda text, choices: [0.0] * len(choices))
    for examples, known in ((RECIPES, KNOWN), ((), ())):
        await roles.predict(NeedsQuestion("torch", examples))
        failures = [FAILURE] if examples else ()
        await roles.correct(CorrectionQuestion("torch", examples, 1, failures))
        for analyses in ((), ("craft torch: no coal",)):
            await choose(roles, examples=known, analyses=analyses)
    await roles.analyse(FAILURE)
    await roles.rank(RankingQuestion("torch", NAMES))
    contents = [message.content for request in engine.requests for message in request.prompt]
    for text in (*contents, *(text for text, _ in engine.scored)):
        assert not re.search(r"\{\{|\}\}[^\]]|\{%|\n\n\n| \n|\n\Z|\A\n|\n<\|end", text)
