"""The skill library: what it keeps, what it finds, and what damages it."""

import json
import os
import re
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from killing import apart, at_call, kill_everywhere, start

from llm_planning.execution.skill_files import Skill, SkillError, read_skills
from llm_planning.execution.skills import SkillLibrary

VERSION = "0" * 64
WORDS = ("mine", "craft", "iron", "ore", "compass", "log", "kill", "cow")
PRIMITIVES = SimpleNamespace(arguments=lambda option: (option.split()[2], int(option.split()[1])))


async def embed(texts):
    """Vectors of the words that a text has; the last entry keeps them from being zero."""
    embed.asked.append(list(texts))
    return np.array([[*(word in text.lower() for word in WORDS), 0.1] for text in texts], "float32")


@pytest.fixture(autouse=True)
def asked():
    embed.asked = []
    return embed.asked


def opened(folder=None, *, seeded=(), primitives=VERSION):
    return SkillLibrary.open(folder, seeded=seeded, embed=embed, primitives=primitives)


def code_of(name, body=""):
    return f"async function {name}(bot) {{ {body} }}"


def skill_of(name, description, *, number=1, option=None, body="", **others):
    code = code_of(name, body)
    given = {"primitives": VERSION, **others}
    return Skill(
        name=name, number=number, code=code, description=description, option=option, **given
    )


MINE = skill_of("mineItem", "Mine ore or log", option="mine")
CRAFT = skill_of(
    "craftCompass", "Craft a compass", body="await mineItem(bot); await makeTable (bot)"
)
TABLE = skill_of("makeTable", "Make a table", body="// craftCompass(bot)")
SEEDED = (MINE, CRAFT, TABLE)


async def test_the_nearest_descriptions_come_first():
    library = opened(seeded=SEEDED)
    assert [skill.name for skill in await library.nearest("mine 3 iron_ore", 2)] == [
        "mineItem",
        "makeTable",
    ]
    assert (await library.nearest("Craft 1 compass.", 1)) == [CRAFT]
    assert len(await library.nearest("mine")) == 3


async def test_each_description_is_embedded_once(asked):
    library = opened(seeded=SEEDED)
    await library.nearest("mine 1 log")
    await library.nearest("mine 2 log")
    library.add(code_of("a"), description="Kill a cow")
    assert [skill.name for skill in await library.nearest("kill 1 cow", 1)] == ["a"]
    assert asked == [
        ["mine 1 log", "Craft a compass", "Make a table", "Mine ore or log"],
        ["mine 2 log"],
        ["kill 1 cow", "Kill a cow"],
    ]


async def test_a_new_version_is_found_by_its_own_description():
    library = opened(seeded=SEEDED)
    await library.nearest("mine", 1)
    new = library.add(code_of("makeTable", "1"), description="Kill a cow")
    assert (new.name, new.number) == ("makeTable", 2)
    assert await library.nearest("kill 1 cow", 1) == [new]
    assert len(await library.nearest("kill 1 cow")) == 3


async def test_an_empty_library_finds_nothing(asked):
    library = opened()
    assert await library.nearest("mine") == []
    assert await library.policy_for("mine 1 log", PRIMITIVES) is None
    assert asked == []


async def test_a_recorded_option_goes_before_a_similar_description():
    library = opened(
        seeded=[*SEEDED, skill_of("killCows", "Mine iron ore for a cow", option="kill")]
    )
    policy = await library.policy_for("kill 2 cow", PRIMITIVES)
    assert policy.skill.name == "killCows"
    assert policy.program == 'async function act(bot) {\n  await killCows(bot, "cow", 2);\n}\n'
    assert (await library.policy_for("mine 3 iron_ore", PRIMITIVES)).skill == MINE


async def test_without_a_recorded_option_the_nearest_is_called_with_the_bot_alone():
    policy = await opened(seeded=SEEDED).policy_for("craft 1 compass", PRIMITIVES)
    assert policy.skill == CRAFT
    assert policy.program == "async function act(bot) {\n  await craftCompass(bot);\n}\n"
    assert policy.skills == (CRAFT, TABLE, MINE)


async def test_the_longest_recorded_option_wins_then_the_numbers_then_the_counters():
    library = opened(seeded=SEEDED)
    three = library.add(code_of("a", "3"), description="d", option="mine 3 log")
    assert (three.name, three.option, three.wins) == ("mineLog", "mine 3 log", 1)
    assert (await library.policy_for("mine 8 log", PRIMITIVES)).skill == three
    assert (await library.policy_for("mine 8 ore", PRIMITIVES)).skill == MINE
    lost = library.count(library.count(three, won=False), won=False)
    assert (lost.wins, lost.losses) == (1, 2)
    assert (await library.policy_for("mine 3 log", PRIMITIVES)).skill == MINE
    rivals = [
        skill_of("x", "d", option="mine 1 log", wins=5),
        skill_of("y", "d", option="mine 2 log", wins=1),
        skill_of("z", "d", option="mine 5 log", wins=9, losses=5),
    ]
    library = opened(seeded=rivals)
    assert (await library.policy_for("mine 2 log", PRIMITIVES)).skill.name == "y"
    assert (await library.policy_for("mine 7 log", PRIMITIVES)).skill.name == "x"


def test_callees_are_loaded_with_a_skill():
    library = opened(seeded=SEEDED)
    assert library.with_callees([CRAFT]) == (CRAFT, TABLE, MINE)
    assert library.with_callees([TABLE]) == (TABLE,)
    round_ = [skill_of("a", "d", body="b(bot)"), skill_of("b", "d", body="a(bot)")]
    assert opened(seeded=round_).with_callees([round_[0]]) == tuple(round_)


def test_a_skill_is_called_after_its_option():
    library = opened()
    first = library.add(
        "async function act(bot) { act(bot); }", description="d", option="mine 3 log"
    )
    assert first.name == "mineLog"
    assert first.code == "async function mineLog(bot) { mineLog(bot); }"
    other = library.add(code_of("act", "1"), description="d", option="craft 1 golden_sword")
    assert other.name == "craftGoldenSword"
    second = library.add(code_of("act", "2"), description="d", option="mine 8 log", parent=first)
    assert (second.name, second.number, second.parent) == ("mineLog", 2, "mineLog/1")
    assert library.skills == (other, second)
    assert library.add(code_of("act"), description="d", option="up").name == "act"


def test_a_skill_for_something_else_keeps_its_name():
    library = opened(seeded=SEEDED)
    new = library.add(code_of("act"), description="d", option="craft 1 compass")
    assert (new.name, new.number) == ("craftCompass2", 1)
    assert CRAFT in library.skills
    again = library.add(code_of("act", "1"), description="d", option="craft 2 compass")
    assert (again.name, again.number) == ("craftCompass2", 2)


def test_the_same_code_is_counted_and_not_added():
    library = opened()
    first = library.add(code_of("act"), description="d", option="mine 3 log")
    again = library.add(code_of("act"), description="other", option="mine 5 log")
    assert (again.number, again.wins, again.description) == (first.number, 2, "d")


@pytest.mark.parametrize(
    "code",
    ["", "function a(bot) {}", code_of("a" * 65), code_of("a", " " * (1 << 16)), code_of("ä")],
)
def test_what_is_no_program_is_no_skill(code):
    with pytest.raises(SkillError, match="async function NAME"):
        opened().add(code, description="d")


def test_a_folder_keeps_skills_and_counters(tmp_path):
    folder = tmp_path / "new" / "skills"
    library = opened(folder, seeded=SEEDED)
    skill = library.add(
        code_of("act", 'bot.chat("ä")'),
        description=" Mines\n a log ",
        option="mine 3 log",
        parent=MINE,
        task="craft-a-compass",
        seed=7,
    )
    assert library.count(skill, won=False).losses == 1
    code = 'async function mineLog(bot) { bot.chat("ä") }'
    assert (folder / "mineLog" / "1.js").read_text("utf-8") == code
    assert json.loads((folder / "mineLog" / "1.json").read_text()) == {
        "description": "Mines a log",
        "option": "mine 3 log",
        "parent": "mineItem/1",
        "task": "craft-a-compass",
        "seed": 7,
        "primitives": VERSION,
        "wins": 1,
        "losses": 1,
        "sha256": sha256(code.encode()).hexdigest(),
    }
    again = opened(folder, seeded=SEEDED)
    assert again.skills == library.skills
    won = library.count(skill, won=True)
    assert read_skills(folder) == (won,)
    assert not list(folder.glob("mineItem*"))


def test_counters_of_other_processes_are_kept(tmp_path):
    here, there = opened(tmp_path), opened(tmp_path)
    skill = here.add(code_of("a"), description="d")
    there.count(skill, won=True)
    assert here.count(skill, won=False) == opened(tmp_path).skills[0]
    assert (opened(tmp_path).skills[0].wins, opened(tmp_path).skills[0].losses) == (2, 1)
    assert there.add(code_of("a", "1"), description="d").number == 2
    assert here.add(code_of("a", "2"), description="d").number == 3


def test_counters_of_seeded_skills_stay_in_memory(tmp_path):
    library = opened(tmp_path, seeded=SEEDED)
    assert library.count(MINE, won=True).wins == 1
    assert library.count(MINE, won=True).wins == 2
    assert opened(tmp_path, seeded=SEEDED).skills == (CRAFT, TABLE, MINE)


def test_skills_for_other_primitives_are_not_offered(tmp_path):
    opened(tmp_path).add(code_of("a"), description="d")
    opened(tmp_path).add(code_of("b"), description="d")
    other = "1" * 64
    with pytest.warns(RuntimeWarning, match=r"other control primitives.*'a, b'") as caught:
        library = opened(tmp_path, primitives=other)
    assert len(caught) == 1
    assert library.skills == ()
    new = library.add(code_of("a"), description="d")
    assert (new.number, new.primitives) == (2, other)
    assert library.skills == (new,)


def keep(folder, who, count):
    library = opened(Path(folder))
    for number in range(count):
        library.add(code_of("a", f"{who} + {number}"), description="d")
        library.add(code_of("shared", f"{number}"), description="d")
    return True


def test_processes_that_add_at_once_lose_nothing(tmp_path):
    count = 12
    processes = [start(keep, str(tmp_path), who, count) for who in range(2)]
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    skills = read_skills(tmp_path)
    for name, versions, wins in (("a", 2 * count, 1), ("shared", count, 2)):
        mine = [skill for skill in skills if skill.name == name]
        assert [skill.number for skill in mine] == list(range(1, versions + 1))
        assert len({skill.code for skill in mine}) == versions
        assert {skill.wins for skill in mine} == {wins}


def add_and_be_killed(place):
    """What kills before every call of an add and a count leave: sets of (number, wins)."""
    folder, found = Path(place), set()
    opened(folder).add(code_of("a"), description="d")

    def live(number, report):
        library = opened(folder)
        library.count(library.add(code_of("a", str(number)), description="d"), won=True)

    def look(number, times):
        skills = read_skills(folder)
        assert [skill.number for skill in skills] == sorted({skill.number for skill in skills})
        new = [skill for skill in skills if skill.code == code_of("a", str(number))]
        found.add(tuple(skill.wins for skill in new))
        # The next one begins with as many files.
        for path in (folder / "a").glob("[2-9]*.js*"):
            path.unlink()

    killed = kill_everywhere(at_call, live, look)
    return sorted(found), killed


def test_a_kill_leaves_a_whole_skill_or_none(tmp_path):
    found, killed = apart(add_and_be_killed, str(tmp_path))
    assert found == [[], [1], [2]]
    assert killed > 20


def write(folder, name="a", changes=None):
    """Writes a skill that is good but for the changes; the folder of its versions."""
    place = folder / name
    place.mkdir(exist_ok=True, parents=True)
    code = f"async function {name}(bot) {{}}"
    record = skill_of("a", "d").to_json() | {"sha256": sha256(code.encode()).hexdigest()}
    (place / "1.js").write_text(code, "utf-8")
    (place / "1.json").write_text(json.dumps(record | (changes or {})), "utf-8")
    return place


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"wins": -1}, "read: wins is "),
        ({"wins": "3"}, "read: wins is "),
        ({"wins": True}, "read: wins is "),
        ({"losses": 1.5}, "read: losses is "),
        ({"seed": "1"}, "read: seed is "),
        ({"description": ""}, "read: description is "),
        ({"description": "a" * 501}, "read: description is "),
        ({"description": None}, "read: description is "),
        ({"option": ["mine"]}, "read: option is "),
        ({"primitives": "x"}, "read: primitives is "),
        ({"sha256": "0" * 64}, "its sha256 is not that of 1.js"),
        ({"sha256": None}, "its sha256 is not that of 1.js"),
        ({"sha256": {}}, "its sha256 is not that of 1.js"),
        ({"name": "b"}, "unknown key 'name'"),
        ({"code": ""}, "unknown key 'code'"),
        ({"colour": 1}, "read: colour is "),
    ],
)
def test_a_damaged_record_is_named(tmp_path, changes, complaint):
    write(tmp_path, changes=changes)
    with pytest.raises(SkillError, match=re.escape(complaint)) as error:
        opened(tmp_path)
    assert str(tmp_path / "a" / "1.json") in str(error.value)
    assert "\n" not in str(error.value)


def replaced(path, how):
    path.unlink()
    how(path)


@pytest.mark.parametrize(
    ("file", "how", "complaint"),
    [
        ("1.json", lambda path: path.write_text("[1, 2]"), "it has to be a JSON object"),
        ("1.json", lambda path: path.write_text("{"), "it is not JSON"),
        ("1.json", lambda path: path.write_text("[" * 9_000), "it is not JSON"),
        ("1.json", lambda path: path.write_text(" " * (1 << 20)), "larger than"),
        ("1.json", os.mkfifo, "not a regular file"),
        ("1.json", os.mkdir, "Is a directory"),
        ("1.js", lambda path: None, "No such file"),
        ("1.js", lambda path: path.write_text("a" * (1 << 20)), "larger than"),
        ("1.js", lambda path: path.write_bytes(b"\xff"), "it is not UTF-8"),
        ("1.js", lambda path: path.symlink_to("/dev/zero"), "not a regular file"),
        ("1.js", os.mkfifo, "not a regular file"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, file, how, complaint):
    place = write(tmp_path)
    replaced(place / file, how)
    with pytest.raises(SkillError, match=re.escape(complaint)) as error:
        opened(tmp_path)
    assert str(place / file) in str(error.value)


def test_a_program_without_its_function_is_named(tmp_path):
    code = "async function b(bot) {}"
    place = write(tmp_path, changes={"sha256": sha256(code.encode()).hexdigest()})
    (place / "1.js").write_text(code)
    with pytest.raises(SkillError, match=r"/a/1\.js cannot be read: it has no `async function a"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["a b", "1a", "a;b", "a\nb", "ä", "a" * 65])
def test_a_folder_is_called_as_a_function(tmp_path, name):
    write(tmp_path, name)
    with pytest.raises(SkillError, match=r"name is .*: String should match") as error:
        opened(tmp_path)
    assert "\n" not in str(error.value)


def test_a_folder_that_is_a_link_is_refused(tmp_path):
    write(tmp_path / "elsewhere")
    (tmp_path / "skills").mkdir()
    (tmp_path / "skills" / "a").symlink_to(tmp_path / "elsewhere" / "a")
    with pytest.raises(SkillError, match="it is a link"):
        opened(tmp_path / "skills")


def test_what_is_no_skill_is_left_alone(tmp_path):
    place = write(tmp_path)
    (tmp_path / "README.md").write_text("about")
    (tmp_path / "notes").mkdir()
    (place / "2.js").write_text("left by a killed process")
    (place / "01.json").write_text("x")
    (place / ".1.json.swp").write_text("x")
    library = opened(tmp_path)
    assert [str(skill) for skill in library.skills] == ["a/1"]
    assert library.add(code_of("a", "3"), description="d").number == 3
    assert (place / "2.js").read_text() == "left by a killed process"


def test_a_folder_that_cannot_be_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SkillError, match="cannot hold skills"):
        opened(tmp_path / "file")
    with pytest.raises(SkillError, match="cannot hold skills"):
        opened(tmp_path / "file" / "inner")


def test_a_skill_damaged_meanwhile_is_not_counted(tmp_path):
    library = opened(tmp_path)
    skill = library.add(code_of("a"), description="d")
    (tmp_path / "a" / "1.js").write_text(code_of("a", "2"))
    with pytest.raises(SkillError, match="its sha256"):
        library.count(skill, won=True)
    with pytest.raises(SkillError, match="its sha256"):
        library.add(code_of("a", "3"), description="d")
