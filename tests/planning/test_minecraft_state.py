import json
from dataclasses import fields, replace

import pytest
from pydantic import ValidationError

from llm_planning.environments.minecraft.options import vocabulary
from llm_planning.environments.minecraft.options.state import Change, Sighting, State
from llm_planning.environments.minecraft.options.tasks import PLAINS, TASKS

# The values of the example of Appendix A.1, whose biome is not printed.
EXAMPLE = State(
    biome="river",
    time="night",
    nearby_blocks=("water", "sand", "coal_ore"),
    nearby_entities=("cod",),
    position=(198.7, 64.0, 116.5),
    equipment=(None, None, None, None, "crafting_table", None),
    inventory={"stick": 2, "wooden_pickaxe": 1, "birch_planks": 3, "crafting_table": 1},
)


def test_record_reads_like_the_paper():
    assert str(EXAMPLE).splitlines() == [
        "Biome: river",
        "Time: night",
        "Nearby blocks: water, sand, coal_ore",
        "Nearby entities (nearest to farthest): cod",
        "Health: 20.0/20",
        "Hunger: 20.0/20",
        "Position: x=198.7, y=64.0, z=116.5",
        "Chests: None",
        "Equipment: [None, None, None, None, 'crafting_table', None]",
        "Inventory (4/36): "
        "{'stick': 2, 'wooden_pickaxe': 1, 'birch_planks': 3, 'crafting_table': 1}",
    ]
    assert str(EXAMPLE) == f"{EXAMPLE.surroundings}\n{EXAMPLE.belongings}"


def test_what_is_counted_is_said():
    state = replace(EXAMPLE, near={"coal_ore": Sighting(17, 5), "cod": Sighting(3, 12)})
    assert state.surroundings.splitlines()[2:4] == [
        "Nearby blocks: water, sand, coal_ore (17, 5 away)",
        "Nearby entities (nearest to farthest): cod (3, 12 away)",
    ]
    assert state.belongings == EXAMPLE.belongings


@pytest.mark.parametrize("state", [EXAMPLE, PLAINS])
def test_json_round_trip(state):
    copy = State.from_json(json.loads(json.dumps(state.to_json())))
    assert copy == state
    assert str(copy) == str(state)


def test_json_from_before_anything_was_counted():
    record = EXAMPLE.to_json()
    del record["near"]
    assert State.from_json(record) == EXAMPLE


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda record: record.pop("biome"), "biome"),
        (lambda record: record.update(equipment=[None] * 5), "equipment"),
        (lambda record: record.update(near={"cod": [3]}), "near"),
    ],
)
def test_json_with_an_error(spoil, named):
    record = EXAMPLE.to_json()
    spoil(record)
    with pytest.raises(ValidationError, match=named):
        State.from_json(record)


def test_states_are_values():
    assert replace(EXAMPLE) == EXAMPLE
    assert hash(replace(EXAMPLE)) == hash(EXAMPLE)


def test_no_change_changes_nothing():
    near = {"sand": Sighting(9, 2), "cod": Sighting(3, 12)}
    everything = replace(EXAMPLE, health=3.5, hunger=4.0, chests=("chest",), near=near)
    assert all(getattr(everything, field.name) for field in fields(State))
    assert everything.apply(Change()) == everything


def test_change_of_everything():
    after = EXAMPLE.apply(
        Change(
            gained={"stone_pickaxe": 1, "stick": 4},
            lost={"stick": 1, "birch_planks": 3},
            blocks=("sand", "iron_ore"),
            entities=("zombie",),
            equipped="wooden_pickaxe",
            biome="desert",
            time="midnight",
            height=12.0,
            health=18.0,
            hunger=15.0,
        )
    )
    assert after == State(
        biome="desert",
        time="midnight",
        nearby_blocks=("water", "sand", "coal_ore", "iron_ore"),
        nearby_entities=("cod", "zombie"),
        health=18.0,
        hunger=15.0,
        position=(198.7, 12.0, 116.5),
        equipment=(None, None, None, None, "wooden_pickaxe", None),
        inventory={"stick": 5, "wooden_pickaxe": 1, "crafting_table": 1, "stone_pickaxe": 1},
    )
    # New items come last, so that inventories of one tree begin alike.
    assert list(after.inventory) == ["stick", "wooden_pickaxe", "crafting_table", "stone_pickaxe"]


def test_counts_change_what_is_near():
    before = replace(EXAMPLE, near={"sand": Sighting(9, 2), "cod": Sighting(3, 12)})
    after = before.apply(
        Change(
            blocks=("iron_ore", "gravel"),
            entities=("cow", "squid", "pig"),
            near={
                "sand": Sighting(4, 2),
                "water": Sighting(0, 0),
                "iron_ore": Sighting(9, 30),
                "squid": Sighting(2, 3),
                "pig": Sighting(1, 20),
            },
        )
    )
    assert after.nearby_blocks == ("sand", "coal_ore", "iron_ore", "gravel")
    # The nearest first, and the kinds without a sighting last.
    assert after.nearby_entities == ("squid", "cod", "pig", "cow")
    assert after.near == {
        "sand": Sighting(4, 2),
        "cod": Sighting(3, 12),
        "iron_ore": Sighting(9, 30),
        "squid": Sighting(2, 3),
        "pig": Sighting(1, 20),
    }
    gone = after.apply(Change(near={"squid": Sighting(0, 0), "gravel": Sighting(0, 0)}))
    assert gone.nearby_blocks == ("sand", "coal_ore", "iron_ore")
    assert gone.nearby_entities == ("cod", "pig", "cow")
    assert gone.near.keys() == after.near.keys() - {"squid"}


def test_what_is_not_seen_is_not_counted():
    assert EXAMPLE.apply(Change(near={"lava": Sighting(3, 3)})) == EXAMPLE


def test_losses_are_clipped_and_named():
    change = Change(lost={"stick": 5, "birch_planks": 3, "diamond": 1}, gained={"stick": 1})
    after = EXAMPLE.apply(change)
    assert after.inventory == {"stick": 1, "wooden_pickaxe": 1, "crafting_table": 1}
    assert EXAMPLE.missing(change) == {"stick": 3, "diamond": 1}
    assert EXAMPLE.missing(Change(lost={"stick": 2})) == {}


@pytest.mark.parametrize(
    ("item", "slot"),
    [
        ("iron_helmet", 0),
        ("leather_chestplate", 1),
        ("iron_leggings", 2),
        ("iron_boots", 3),
        ("iron_pickaxe", 4),
        ("bucket", 4),
        ("shield", 5),
    ],
)
def test_equipment_slots(item, slot):
    after = PLAINS.apply(Change(equipped=item))
    assert [i for i, worn in enumerate(after.equipment) if worn == item] == [slot]


def test_words_are_distinct_and_cover_the_start_states():
    for words in (
        vocabulary.ITEMS,
        vocabulary.BLOCKS,
        vocabulary.ENTITIES,
        vocabulary.OBJECTS,
    ):
        assert len(set(words)) == len(words)
        assert all(word == word.lower() and " " not in word for word in words)
    assert 120 <= len(vocabulary.OBJECTS) <= 160
    for task in TASKS.values():
        assert task.start.biome in vocabulary.BIOMES
        assert task.start.time in vocabulary.TIMES
        assert set(task.start.nearby_blocks) <= set(vocabulary.BLOCKS)
        assert set(task.start.nearby_entities) <= set(vocabulary.ENTITIES)
        assert list(task.start.near) == [*task.start.nearby_blocks, *task.start.nearby_entities]
    # One mapping counts blocks and entities, so no name may be both.
    assert not set(vocabulary.BLOCKS) & set(vocabulary.ENTITIES)
