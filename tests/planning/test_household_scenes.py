"""Scenes of VirtualHome: as homes, malformed ones, and what their executor says of actions."""

import json
import random
import re
import sys
from importlib.util import find_spec

import pytest
from household_homes import own_task
from test_household_run import ran

from llm_planning.environments.bridges import virtualhome as scenes
from llm_planning.environments.bridges.virtualhome import PACKAGE, REMEDY, read_scene
from llm_planning.environments.bridges.virtualhome_executor import replay
from llm_planning.environments.household.goals import GoalError, read_goal
from llm_planning.environments.household.home import HomeError
from llm_planning.environments.household.rules import NOWHERE
from llm_planning.environments.household.tasks import CLASSES, TaskMaker, trajectory

needs_extra = pytest.mark.skipif(
    find_spec(PACKAGE) is None, reason=f"the scenes of VirtualHome are not installed: {REMEDY}"
)


def node(number, name, category="Furniture", properties=(), states=()):
    return {
        "id": number,
        "class_name": name,
        "category": category,
        "properties": list(properties),
        "states": list(states),
    }


def edges(*triples):
    return [{"from_id": a, "relation_type": r, "to_id": b} for a, r, b in triples]


BOX = ("CAN_OPEN", "CONTAINERS")


def tiny():
    """Two rooms: a freezer with a kiwi, a table with a cup on a tray, and a bed."""
    return {
        "nodes": [
            node(1, "dining_room", "Rooms"),
            node(2, "bedroom", "Rooms"),
            node(3, "character", "Characters"),
            node(10, "freezer", properties=(*BOX, "HAS_SWITCH"), states=("OPEN", "ON")),
            node(11, "table", properties=("SURFACES",)),
            node(12, "bed", properties=("SURFACES",)),
            node(20, "food_kiwi", "Props", ("GRABBABLE",)),
            node(21, "cup", "Props", ("GRABBABLE",)),
            node(22, "tray", "Props", ("GRABBABLE", "SURFACES")),
            node(23, "phone", "Props", ("GRABBABLE",)),
            node(24, "hanger", "Props", ("GRABBABLE",)),
        ],
        "edges": edges(
            *((node, "INSIDE", 1) for node in (10, 11, 20, 21, 22, 23)),
            *((node, "INSIDE", 2) for node in (3, 12, 24)),
            (20, "INSIDE", 10),
            (21, "ON", 22),
            (22, "ON", 11),
            (24, "ON", 12),
        ),
    }


def written(folder, values, name="tiny"):
    path = folder / f"{name}.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return str(path)


def test_a_graph_is_a_home_with_everything_where_the_graph_has_it(tmp_path):
    scene = read_scene(written(tmp_path, tiny()))
    home = scene.home
    assert home.rooms == ("dining room", "bedroom")
    assert [(place.name, place.room, place.relation) for place in home.places] == [
        ("freezer", 0, "inside"),
        ("table", 0, "on"),
        ("bed", 1, "on"),
    ]
    assert dict(zip(home.things, home.starts, strict=True)) == {
        "kiwi": (0,),
        "cup": (1,),
        "tray": (1,),
    }
    assert scene.rooms == (1, 2)
    assert scene.places == (10, 11, 12)
    assert scene.left_out == {
        23: "lies at no place",
        24: "no thing by the table of names",
    }
    # cold food: freezer 6, table 1, and 0.1 anywhere.
    assert home.law[home.things.index("kiwi")] == pytest.approx((6.1, 1.1, 0.1))
    pairs = {(home.things[thing], home.places[place].name) for thing, place in home.goals}
    assert ("kiwi", "table") in pairs
    assert ("kiwi", "freezer") not in pairs


def on_tiles():
    """The kiwi lies on the second of two tiles of the floor, which Unity gives no properties."""
    values = tiny()
    values["nodes"] += [node(30, "floor", "Floor"), node(31, "floor", "Floor")]
    values["edges"] = [edge for edge in values["edges"] if edge["from_id"] != 20]
    values["edges"] += edges(*((node, "INSIDE", 1) for node in (20, 30, 31)), (20, "ON", 31))
    return values


def test_things_lie_on_floors_without_properties(tmp_path):
    scene = read_scene(written(tmp_path, on_tiles()))
    floor = [place.name for place in scene.home.places].index("floor")
    assert scene.places[floor] == 30
    assert scene.home.starts[scene.home.things.index("kiwi")] == (floor,)


@needs_extra
def test_the_executor_puts_things_on_floors_without_properties(tmp_path):
    scene = read_scene(written(tmp_path, on_tiles()))
    task = own_task(scene.home, "put the kiwi in the freezer and the cup on the floor")
    execution = replay(task, scene, trajectory(task).actions)
    assert execution.refusal == ""
    assert execution.reached


def test_a_floor_that_can_be_grabbed_is_no_place(tmp_path):
    values = tiny()
    values["nodes"].append(node(30, "floor", "Floor", ("GRABBABLE",)))
    values["edges"] = [edge for edge in values["edges"] if edge["from_id"] != 20]
    values["edges"] += edges((30, "INSIDE", 1), (20, "INSIDE", 1), (20, "ON", 30))
    scene = read_scene(written(tmp_path, values))
    assert scene.left_out[20] == "lies at no place"


def test_no_name_that_a_scene_makes_is_refused(tmp_path):
    """Rooms, places and things of one class, of many words, or called like each other."""
    values = tiny()
    values["nodes"] += [
        node(4, "bedroom", "Rooms"),
        node(13, "big_old_kitchen_counter", properties=("SURFACES",)),
        node(14, "big_old_kitchen_counter", properties=("SURFACES",)),
        node(15, "cup", properties=("SURFACES",)),
        node(16, "bed", properties=("SURFACES",)),
        node(17, "bed__room", properties=("SURFACES",)),
        node(25, "cup_", "Props", ("GRABBABLE",)),
        node(26, "food_7up", "Props", ("GRABBABLE",)),
    ]
    values["edges"] += edges(
        *((node, "INSIDE", 1) for node in (13, 14, 15, 17, 25, 26)),
        *((node, "INSIDE", 4) for node in (16,)),
        (25, "ON", 13),
        (26, "ON", 14),
    )
    home = read_scene(written(tmp_path, values)).home
    assert home.rooms == ("dining room", "bedroom", "bedroom 2")
    assert [place.name for place in home.places] == [
        "freezer",
        "table",
        "dining room big old kitchen counter",
        "dining room big old kitchen counter 2",
        "dining room cup",
        "dining room bed room",
        "bedroom bed",
        "bedroom 2 bed",
    ]
    assert home.things[:2] == ("kiwi", "cup")
    assert home.number[1] == 2
    assert "food 7up" in home.things


def test_the_longest_names_of_a_scene_are_no_longer_than_those_of_a_home(tmp_path):
    values = json.loads(json.dumps(tiny()).replace("dining_room", "r" * 40))
    values["nodes"] += [
        node(100 + index, "t" * 40, properties=("SURFACES",)) for index in range(12)
    ]
    values["edges"] += edges(*((100 + index, "INSIDE", 1) for index in range(12)))
    home = read_scene(written(tmp_path, values)).home
    assert f"{'r' * 40} {'t' * 40} 12" in [place.name for place in home.places]


def test_a_task_starts_as_the_graph_does(tmp_path):
    scene = read_scene(written(tmp_path, tiny()))
    starts = {
        own_task(scene.home, "put the kiwi on the bed", number=index).start
        for index in range(1, 20)
    }
    assert {start.room for start in starts} == {0, 1}
    (places,) = {start.places for start in starts}
    assert places == ((0,), (1, 2), ())
    assert {start.at for start in starts} == {NOWHERE}
    with pytest.raises(GoalError, match="kiwi lies at the freezer already"):
        read_goal("put the kiwi in the freezer", scene.home)


def no_nodes(values):
    del values["nodes"]


def twice(values):
    values["nodes"].append(node(11, "desk"))


def unknown(values):
    values["edges"] += edges((20, "UNDER", 11))


def dangling(values):
    values["edges"] += edges((20, "ON", 99))


def cycle(values):
    values["edges"] = [
        edge for edge in values["edges"] if (edge["from_id"], edge["to_id"]) != (22, 11)
    ]
    values["edges"] += edges((22, "ON", 21))


def huge(values):
    values["nodes"] += [node(1000 + index, "wall") for index in range(scenes.MOST_NODES)]


def no_room(values):
    for node in values["nodes"]:
        node["category"] = "Walls"


def nobody(values):
    values["nodes"][2]["class_name"] = "robot"


def no_thing(values):
    for node in values["nodes"]:
        node["properties"] = [name for name in node["properties"] if name != "GRABBABLE"]


def odd_state(values):
    values["nodes"][3]["states"] = ["AJAR"]


def no_number(values):
    values["nodes"][3]["id"] = "freezer"


def escape(values):
    values["nodes"][3]["class_name"] = "\x1b[2J"


def word_of_goals(values):
    values["nodes"][7]["class_name"] = "cup_on_plate"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (no_nodes, "nodes is missing"),
        (twice, "nodes: the id 11 is given twice"),
        (unknown, "relation_type is 'UNDER': "),
        (dangling, "there is no node 99"),
        (cycle, "lies on or inside itself"),
        (huge, "nodes is [{"),
        (no_room, "none has category=Rooms"),
        (nobody, "none has class_name=character"),
        (no_thing, "nothing that can be grabbed lies at a place"),
        (odd_state, "nodes.3.states.0 is 'AJAR': "),
        (no_number, "nodes.3.id is 'freezer': "),
        (escape, "nodes.3.class_name is '\\x1b[2J': "),
        (word_of_goals, "the name 'cup on plate' has the word 'on'"),
    ],
)
def test_a_malformed_scene_is_one_clear_error(tmp_path, spoil, message):
    values = tiny()
    spoil(values)
    path = written(tmp_path, values)
    with pytest.raises(HomeError, match=re.escape(message)) as error:
        read_scene(path)
    assert path in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 600


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "it is [1]: "),
        ('{"init_graph": 3}', "it is 3: "),
        (" " * (2 << 20), "cannot be read: it is larger than"),
    ],
)
def test_what_is_no_graph_is_one_clear_error(tmp_path, text, message):
    with pytest.raises(HomeError, match=re.escape(message)) as error:
        read_scene(written(tmp_path, text))
    assert "\n" not in str(error.value)


def test_a_file_is_a_scene_in_any_capitals():
    assert scenes.is_scene("flat.json")
    assert scenes.is_scene("flat.JSON")
    assert not scenes.is_scene("seen")


def test_a_missing_file_and_a_missing_extra_are_clear_errors(tmp_path, monkeypatch):
    with pytest.raises(HomeError, match="there is no such file"):
        read_scene(str(tmp_path / "none.json"))
    scenes._packaged.cache_clear()
    monkeypatch.setattr(scenes, "find_spec", lambda _: None)
    with pytest.raises(HomeError, match=re.escape(REMEDY)):
        read_scene("virtualhome")


@needs_extra
def test_the_executor_takes_a_plan_by_hand(tmp_path):
    scene = read_scene(written(tmp_path, tiny()))
    actions = [
        "walk to the dining room",
        "walk to the freezer",
        "open the freezer",
        "grab the kiwi",
        "walk to the bedroom",
        "walk to the bed",
        "put the kiwi on the bed",
        "walk to the dining room",
        "walk to the cup",
        "grab the cup",
        "walk to the freezer",
        "put the cup inside the freezer",
        "close the freezer",
    ]
    goal = "put the kiwi on the bed and the cup in the freezer"
    tasks = (own_task(scene.home, goal, number=number) for number in range(1, 20))
    task = next(task for task in tasks if task.start.room == 1)
    execution = replay(task, scene, actions)
    # The last action comes after the goal, so it is none of the episode.
    assert [step.action for step in execution.steps] == actions[:-1]
    assert execution.metrics == {
        "executor_accepted": 12,
        "executor_refused": 0,
        "executor_refusal": "",
        "executor_reached": True,
    }
    assert execution.steps[3].lines == ("[FIND] <food_kiwi> (20)", "[GRAB] <food_kiwi> (20)")
    assert execution.steps[8].lines == ("[WALK] <cup> (21)",)
    assert execution.steps[11].lines == ("[PUTIN] <cup> (21) <freezer> (10)",)
    # What the rules of this project refuse changes nothing, and is not asked.
    assert replay(task, scene, ["grab the kiwi", "fly"]).steps == ()
    assert not replay(task, scene, actions[:6]).reached


@needs_extra
def test_a_refusal_is_told_with_its_reason(tmp_path):
    scene = read_scene(written(tmp_path, tiny()))
    task = own_task(scene.home, "put the cup on the bed and the tray in the freezer", hands=2)
    way = [] if task.start.room == 0 else ["walk to the dining room"]
    actions = [*way, "walk to the table", "grab the cup", "grab the tray", "walk to the freezer"]
    execution = replay(task, scene, [*actions, "open the freezer", "close the freezer"])
    assert execution.metrics["executor_accepted"] == len(actions)
    assert execution.metrics["executor_refused"] == 1
    assert execution.refusal.startswith("open the freezer: ")
    assert "does not have a free hand" in execution.refusal


@needs_extra
def test_the_executor_leaves_random_numbers_as_they_are(tmp_path, monkeypatch):
    for name in [module for module in sys.modules if module.split(".")[0] == PACKAGE]:
        monkeypatch.delitem(sys.modules, name)
    scene = read_scene(written(tmp_path, tiny()))
    before = random.getstate()
    replay(own_task(scene.home, "put the kiwi on the bed"), scene, [])
    assert random.getstate() == before


@needs_extra
def test_the_executor_takes_every_plan_of_the_expert_in_the_packaged_scene():
    scene = read_scene("virtualhome")
    assert len(scene.home.places) == 32
    assert sum(map(len, scene.things)) == 30
    assert sum("no place" in why for why in scene.left_out.values()) == 5
    maker = TaskMaker(scene.home)
    for name in CLASSES:
        for number in range(1, 4):
            task = maker.task(name, number, seed=11)
            actions = trajectory(task).actions
            execution = replay(task, scene, actions)
            assert execution.refusal == ""
            assert len(execution.steps) == len(actions)
            assert execution.reached


@needs_extra
@pytest.mark.parametrize("planner", ["llm-mcts", "llm-mcts-plus"])
def test_the_executor_takes_what_a_search_does_in_the_packaged_scene(planner):
    """By rules and in few simulations, on a task of one goal and one of two."""
    for name, problem in (("simple", 4), ("comp", 2)):
        settings = (f"class={name}", f"problem={problem}", "belief=law", "simulations=30")
        ended = ran(planner, "roles=rules", "home=virtualhome", *settings)
        assert ended.exit_code == 0, ended.stderr
        report = json.loads(ended.stdout)
        assert report["success"]
        assert report["metrics"]["executor_accepted"] == len(report["plan"]) >= 5
        assert report["metrics"]["executor_refused"] == 0
        assert report["metrics"]["executor_refusal"] == ""
        assert report["metrics"]["executor_reached"]


def test_a_run_without_the_extra_is_one_clear_error(tmp_path, monkeypatch):
    monkeypatch.setattr(scenes, "find_spec", lambda _: None)
    path = written(tmp_path, tiny())
    ended = ran("uct", f"home={path}", "goal=put the kiwi on the bed")
    assert ended.exit_code == 1
    assert ended.stderr.count("\n") == 1
    assert REMEDY in ended.stderr
