import json

import pytest
from command_line import invoke

from llm_planning.environments.minecraft.book import rulebook


def ask(*arguments):
    return invoke("minecraft", "requirements", *arguments)


def test_json_is_one_object():
    result = ask("torch", "piston", "logs", "torch", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {
        "requirements": {
            "torch": {"coals": 1, "stick": 1},
            "piston": {
                "planks": 3,
                "cobblestone": 4,
                "iron_ingot": 1,
                "redstone": 1,
                "crafting_table": 1,
            },
            "logs": {},
        }
    }


def test_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    result = ask("torch", "diamond")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    torch = next(line for line in lines if "torch" in line)
    assert "craft" in torch
    assert "1 coals, 1 stick" in torch
    assert "4" in torch
    diamond = next(line for line in lines if "diamond" in line)
    assert "1 iron_pickaxe" in diamond
    assert "block:diamond_ore" in diamond


def test_unknown_item():
    result = ask("torch", "pistn", "--json")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: unknown item 'pistn'; did you mean piston")
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("written", "name", "noted"),
    [
        ("minecraft:torch", "torch", False),
        ("Crafting Table", "crafting_table", False),
        ("minecraft:oak_planks", "planks", True),
        ("stripped birch wood", "logs", True),
    ],
)
def test_an_item_is_found_as_people_write_it(written, name, noted):
    result = ask(written, name, "--json")
    assert result.exit_code == 0
    assert list(json.loads(result.stdout)["requirements"]) == [name]
    note = f"note: the rules call {written} by the name of its kind, {name}\n"
    assert result.stderr == (note if noted else "")


def test_an_item_of_the_game_without_a_rule_is_named_as_such():
    result = ask("torch", "minecraft:blaze_rod")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "is an item of Minecraft 1.16 that these rules do not lead to: they are of what" in line


def test_no_item():
    assert ask("--json").exit_code == 2


def test_rules_that_cannot_be_used(tmp_path, monkeypatch):
    path = tmp_path / "rules.json"
    path.write_text("[]")
    monkeypatch.setattr(rulebook, "RULES_FILE", path)
    result = ask("torch")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {path}: ")
    assert len(result.stderr.splitlines()) == 1
    assert result.stdout == ""
