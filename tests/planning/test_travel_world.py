"""Air travel: the graph and its files, the pairs of cities, and the domain's optional members."""

import csv
import os
import re
from itertools import pairwise
from random import Random
from typing import get_args

import networkx
import pytest

from llm_planning.environments.travel.domain import TRAVEL, Travel
from llm_planning.environments.travel.files import BUNDLED, GraphError, graph_hash, read_graph
from llm_planning.environments.travel.graph import City, FlightGraph, folded, plain, spelled
from llm_planning.environments.travel.language import Flight, city_name
from llm_planning.environments.travel.pairs import Pair, cities, pairs
from llm_planning.registry import why_named_unfit
from llm_planning.roles.options import several_options
from llm_planning.settings import SettingsError
from llm_serving.answers import constraint_of, parse

CITIES = "id,name,country,population\n1,Aix,FR,900000\n2,Bonn,DE,800000\n3,Cádiz,ES,700000\n"
FLIGHTS = "from,to\n1,2\n2,3\n"


def written(folder, cities=CITIES, flights=FLIGHTS):
    folder.mkdir(exist_ok=True)
    for name, text in (("cities.csv", cities), ("direct_flights.csv", flights)):
        if text is not None:
            content = text if isinstance(text, bytes) else text.encode()
            (folder / name).write_bytes(content)
    return folder


def small(folder):
    folder = written(folder)
    return read_graph(folder, graph_hash(folder))


@pytest.fixture(scope="module")
def bundled():
    return read_graph(BUNDLED, "")


def opened(**settings):
    return TRAVEL.open("fly", TRAVEL.settings.read(settings))


# --- the graph ------------------------------------------------------------------------------------


def test_the_bundled_graph_is_the_one_that_its_readme_states(bundled):
    assert len(bundled.cities) == 725
    assert sum(map(len, bundled.flights.values())) == 25_421
    assert "CC BY 4.0" in (BUNDLED / "README.md").read_text("utf-8")


def test_ways_are_as_short_as_those_of_networkx(bundled):
    with (BUNDLED / "direct_flights.csv").open() as file:
        edges = [(row["from"], row["to"]) for row in csv.DictReader(file)]
    peer = networkx.DiGraph(edges)
    rng, names = Random(5), list(bundled.cities)
    for goal in rng.sample(names, 12):
        key = bundled.cities[goal].key
        theirs = networkx.single_target_shortest_path_length(peer, key)
        fewest = bundled.flights_to(goal)
        assert {bundled.cities[name].key: n for name, n in fewest.items()} == dict(theirs)
        for start in rng.sample(names, 5):
            way = bundled.way(start, goal)
            if way is None:
                assert start not in fewest
                continue
            assert (way[0], way[-1], len(way) - 1) == (start, goal, fewest[start])
            assert all(bundled.is_direct(*leg) for leg in pairwise(way))


def test_names_are_found_without_accents_case_and_apostrophes(bundled):
    assert bundled.named("SAO PAULO") == "São Paulo"
    assert bundled.named("xi'an") == bundled.named("Xian") == "Xi’an"
    assert bundled.named("Lodz") == "Łódź"
    assert bundled.named("Atlantis") is None
    assert folded(" Ho  Chi-Minh CITY ") == "ho chi minh city"


def test_cities_of_one_name_are_told_apart():
    many = [
        City(key=str(n), name="Bari", country=land, population=n)
        for n, land in ((1, "IT"), (2, "IT"), (3, "XX"), (4, "IT"))
    ]
    graph = FlightGraph(many, [("4", "1")])
    assert list(graph.cities) == ["Bari", "Bari (XX)", "Bari (IT)", "Bari (IT, 1)"]
    assert graph.flights["Bari"] == ("Bari (IT, 1)",)
    assert graph.shared == set(graph.cities)


# --- pairs ----------------------------------------------------------------------------------------


def test_pairs_are_the_same_for_equal_seeds_and_connected(bundled):
    for among, number in (("large", 68), ("mid", 62)):
        names = cities(bundled, among)
        assert len(names) == number
        drawn = pairs(bundled, among, 101)
        again = pairs.__wrapped__(read_graph.__wrapped__(BUNDLED, ""), among, 101)
        assert drawn == again
        assert len(set(drawn)) == 400
        assert pairs(bundled, among, 102) != drawn
        assert all({start, goal} <= set(names) and start != goal for start, goal in drawn)
        assert all(bundled.way(*pair) for pair in drawn)
    assert all(500_000 <= bundled.cities[name].population <= 2_000_000 for name in names)


def test_ways_lead_through_any_city(bundled):
    names = set(cities(bundled, "mid"))
    assert any(set(bundled.way(*pair)) - names for pair in pairs(bundled, "mid", 1))


# --- the domain -----------------------------------------------------------------------------------


def test_a_journey_by_hand(tmp_path):
    world = Travel(small(tmp_path / "g"), Pair("Aix", "Cádiz"))
    assert world.traits()["optimum"] == 2
    assert world.advise("Aix") == (Flight("Bonn"), Flight("Cádiz"))
    assert [world.score(city) for city in ("Aix", "Bonn", "Cádiz")] == [0.0, 0.5, 1.0]
    refused = world.step("Aix", Flight("Cádiz"), Random(0))
    assert (refused.state, refused.done) == ("Aix", False)
    assert refused.obstacle == "there is no direct flight from Aix to Cádiz"
    assert world.feasible("Aix", Flight("Xanadu")) == "no city Xanadu is known"
    step = world.step("Bonn", Flight("Cádiz"), Random(0))
    assert (step.state, step.reward, step.done) == ("Cádiz", 1.0, True)
    assert world.actions("Cádiz") == ()


def test_subtasks_go_backwards(tmp_path):
    world = Travel(small(tmp_path / "g"), Pair("Aix", "Cádiz"))
    last, first = Flight("Cádiz"), Flight("Bonn")
    assert world.decompose("Aix", None) == world.named("Aix") == (last,)
    assert world.decompose("Aix", last) == (first,)
    assert world.decompose("Aix", first) == world.decompose("Bonn", last) == ()
    assert world.judge("Aix", last, None).verdict == "false"
    assert world.judge("Aix", first, last).verdict == "true"
    assert world.judge("Bonn", first, last).verdict == "done"
    assert last not in world.mistakes(last)["city"]


def test_answers_are_names_in_free_words(tmp_path):
    world = Travel(small(tmp_path / "g"), Pair("Aix", "Cádiz"))
    assert world.grammar.read({"city": "cadiz"}) == Flight("Cádiz")
    assert world.grammar.read({"city": "Xanadu"}) == Flight("Xanadu")
    assert world.grammar.read(world.grammar.write(Flight("Cádiz"))) == Flight("Cádiz")
    model = world.state_model
    constraint_of(model.answer)
    assert model.read("Aix", model.write("Cádiz")) == ("Cádiz", {})
    assert model.read("Aix", model.answer(city="Xanadu")) == ("Aix", {"Xanadu": 1})


ODD = (
    "Hartsfield Jackson Atlanta International Airport",
    'Goroka "GKA" Airport',
    "6th of October City",
    "'s-Hertogenbosch",
    "al-Ain",
    "Å",
    "Gəncə",
    "Þórshöfn & Æskja",
)


def test_every_name_of_a_graph_can_be_written(tmp_path):
    """In each form of an answer, as an engine takes it."""
    rows = "".join(
        f'{n},"{name.replace(chr(34), chr(34) * 2)}",XX,9\n' for n, name in enumerate(ODD)
    )
    ring = "".join(f"{n},{(n + 1) % len(ODD)}\n" for n in range(len(ODD)))
    folder = written(tmp_path / "g", f"id,name,country,population\n{rows}", f"from,to\n{ring}")
    graph = read_graph(folder, graph_hash(folder))
    world = Travel(graph, Pair(ODD[0], ODD[-1]))
    several = several_options(world.grammar, 1, 20)
    for name in graph.cities:
        option = world.grammar.write(Flight(name))
        answer = several(options=[{"reasoning": "", **option}]).model_dump_json()
        assert re.fullmatch(constraint_of(several).regex, answer), answer
        assert world.grammar.read(parse(several, answer).options[0].model_dump()) == Flight(name)
        moved = world.state_model.write(name)
        assert re.fullmatch(constraint_of(type(moved)).regex, moved.model_dump_json())
        assert world.state_model.read(ODD[0], moved) == (name, {})


def test_the_language_of_the_bundled_graph_is_the_one_that_models_were_measured_in(bundled):
    assert [spelled(name) for name in bundled.cities] == [plain(name) for name in bundled.cities]
    (field,) = get_args(city_name(bundled))[1:]
    assert field.metadata[-1].pattern == r"^[A-Z][A-Za-z .,'()-]{1,29}$"


def test_keys_that_differ_in_signs_alone_are_told_apart():
    keys = ("a", "A", "a-", "ä")
    graph = FlightGraph(
        [City(key=key, name="Bari", country="IT", population=1) for key in keys], []
    )
    assert len(graph.cities) == len({folded(name) for name in graph.cities}) == 4
    assert list(graph.cities)[3:] == ["Bari (IT, ä) 2"]


def test_where_nothing_is_hidden_llm_mcts_says_why_it_does_not_fit():
    assert "what is believed" in why_named_unfit("llm-mcts", "travel")
    assert why_named_unfit("l-model", "travel") is None
    assert "flies from one city to another" in why_named_unfit("l-model", "household")


# --- files of others ------------------------------------------------------------------------------


def test_a_graph_of_ones_own(tmp_path):
    folder = written(tmp_path / "g", flights=FLIGHTS + "2,1\n3,2\n")
    settings = {"graph": str(folder), "among": "mid"}
    world = opened(**settings)
    assert set(world.graph.cities) == {"Aix", "Bonn", "Cádiz"}
    assert len({opened(**settings, problem=n).pair for n in range(1, 7)}) == 6
    with pytest.raises(SettingsError, match=r"problem=7 .* among=mid has 6 pairs"):
        opened(**settings, problem=7)
    read = TRAVEL.settings.read(settings)
    assert len(read.graph_sha256) == 64
    written(folder)
    assert TRAVEL.settings.read(settings).graph_sha256 != read.graph_sha256


@pytest.mark.parametrize(
    ("cities", "flights", "says"),
    [
        (None, FLIGHTS, r"cities.csv: there is no such file; graph=.* has to be a folder"),
        ("", FLIGHTS, r"cities.csv: the column 'id' is not there"),
        ("id,name,country,population\n", FLIGHTS, r"cities.csv: has no line below its heads"),
        ("id,name,population\n1,A,3\n", FLIGHTS, r"the column 'country' is not there"),
        ("id,id,name,country,population\n", FLIGHTS, r"the column 'id' is twice there"),
        (CITIES + "1,Dax,FR,5\n", FLIGHTS, r"line 5: the id '1' is given twice"),
        (CITIES + "4,Dax,FR,-5\n", FLIGHTS, r"line 5: population is '-5'; write a whole number"),
        (CITIES + "4,Dax,FR,٣\n", FLIGHTS, r"line 5: population is"),
        (CITIES + "4,,FR,5\n", FLIGHTS, r"line 5: name is ''"),
        (CITIES + "4,D\x1b[2Jax,FR,5\n", FLIGHTS, r"line 5: name is 'D\\x1b"),
        (
            CITIES + "4,東京,JP,5\n",
            FLIGHTS,
            r"line 5: no answer can name '東京': write it in Latin",
        ),
        (CITIES + "4,Москва 2,RU,5\n", FLIGHTS, r"line 5: no answer can name 'Москва 2'"),
        (CITIES + "4,--,FR,5\n", FLIGHTS, r"line 5: no answer can name '--'"),
        (CITIES + "4,Dax,FR\n", FLIGHTS, r"line 5: has not as many values"),
        (CITIES + "4,Dax,FR,5,6\n", FLIGHTS, r"line 5: has not as many values"),
        (CITIES.encode("latin-1"), FLIGHTS, r"cities.csv: byte \d+ is not UTF-8"),
        (CITIES + '4,"Dax,FR,5\n', FLIGHTS, r"cities.csv: line \d+: is not CSV"),
        (CITIES, None, r"direct_flights.csv: there is no such file"),
        (CITIES, FLIGHTS + "1,9\n", r"line 4: cities.csv has no city with the id '9'"),
        (CITIES, FLIGHTS + "1,2\n", r"line 4: the flight '1' to '2' is given twice"),
        (CITIES, FLIGHTS + "2,2\n", r"line 4: the flight begins and ends in '2'"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(tmp_path, cities, flights, says):
    folder = written(tmp_path / "g", cities, flights)
    with pytest.raises(GraphError, match=says) as raised:
        opened(graph=str(folder))
    assert "\n" not in str(raised.value)


def test_files_that_never_end_are_refused(tmp_path):
    folder = written(tmp_path / "g")
    with (folder / "cities.csv").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(GraphError, match="larger than"):
        opened(graph=str(folder))
    (folder / "cities.csv").unlink()
    os.mkfifo(folder / "cities.csv")
    with pytest.raises(GraphError, match="not a regular file"):
        opened(graph=str(folder))


def test_a_graph_without_ways_says_so(tmp_path):
    lone = CITIES + "4,Dax,FR,9000000\n"
    folder = written(tmp_path / "g", lone, "from,to\n4,1\n")
    with pytest.raises(SettingsError, match="no way between any two"):
        opened(graph=str(folder))
