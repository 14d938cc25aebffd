import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from random import Random

import pytest

from llm_planning import Outcome
from llm_planning.domain import Domain, DomainError, Step
from llm_planning.environments.catalogue import DOMAINS
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.planners.tree_of_options.settings import FeasibleSearchSettings
from llm_planning.registry import (
    UnknownNameError,
    asker_of,
    find_domain,
    find_planner,
    spec_of,
)
from llm_planning.running import prepare
from llm_planning.settings import Settings, SettingsError
from llm_planning.specs import UnknownTaskError, choose, known_keys, planner, refuse_unfit

GOLDEN = Path(__file__).parents[1] / "golden"


class Walk(Domain):
    """Walks along a line.

    The goal is its end.
    """

    tasks = ("near", "far")

    def __init__(self, *, task: str = "near", steps: int = 3, width: int = 1) -> None:
        self.goal = f"Reach {task}."
        self.steps = steps
        self.width = width

    def start(self, seed):
        return 0

    def describe(self, state):
        return str(state)

    def actions(self, state):
        return ("on",)

    def step(self, state, action, rng):
        return Step(state + 1, done=state + 1 == self.steps)


def test_every_planner_and_domain_is_listed_by_itself():
    for name, spec in PLANNERS.items():
        assert spec.name == name
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert len(spec.summary) < 100
        # A row that is read alone says all: it never points to the one above.
        assert not re.search(r"\bthe same\b|\balso\b|\babove\b", spec.summary)
        works = [domain for domain in DOMAINS.values() if not spec.lacks(domain)]
        assert works
    for name, domain in DOMAINS.items():
        assert domain.name == name
        assert domain.tasks
        assert issubclass(domain.kind, Domain)


def test_who_works_where():
    of_options = {"too", "too-no-wm", "too-no-fc", "tot-mcts", "cot"}
    everywhere = {"puct", "uct", "llm-policy", "react"}
    works = {
        name: {spec.name for spec in PLANNERS.values() if not spec.lacks(domain)}
        for name, domain in DOMAINS.items()
    }
    assert of_options | everywhere <= works["minecraft"]
    assert of_options | everywhere <= works["blocksworld"]
    assert of_options | everywhere | {"drip", "drip-plus", "mc-dml"} <= works["travel"]
    assert {"l-policy", "l-model"} <= works["travel"]
    assert everywhere <= works["textgame"]
    learners, selectors = {"xenon", "sc", "xenon-plus"}, {"select-xenon", "plan-xenon"}
    assert everywhere | learners | selectors <= works["minecraft-items"]
    assert everywhere | learners <= works["minecraft-goals"]
    assert not selectors & works["minecraft-goals"]
    assert everywhere | {"xenon-cooking"} <= works["cooking"]
    assert not (learners | {"xenon-cooking"}) & works["minecraft"]
    assert not of_options & works["textgame"]


def test_unknown_names_propose_the_nearest():
    with pytest.raises(UnknownNameError, match="'tot-mtcs'; did you mean tot-mcts"):
        find_planner("tot-mtcs")
    with pytest.raises(UnknownNameError, match="'minecaft'; did you mean minecraft"):
        find_domain("minecaft")
    with pytest.raises(UnknownTaskError, match="did you mean milk-a-cow"):
        prepare("too", task="milk-cow", settings={})
    assert find_planner("cot") is PLANNERS["cot"]


def test_a_planner_is_refused_where_it_cannot_plan():
    with pytest.raises(DomainError, match=r"too needs a domain that names.* to add `gram"):
        prepare("too", domain="textgame", settings={})
    with pytest.raises(DomainError, match="that has items whose rules are to be learnt"):
        prepare("xenon", domain="textgame", settings={})


def test_who_asks_most_of_what_was_taught_is_named():
    named = {
        domain: asker_of(["prior"], find_domain(domain)).name
        for domain in ("textgame", "household", "blocksworld")
    }
    assert named == {"textgame": "mc-dml", "household": "llm-mcts", "blocksworld": "puct"}
    assert asker_of(["decompose", "judge"], find_domain("blocksworld")).name == "drip"


def test_a_domain_that_lacks_a_method_is_refused():
    class Half(Domain):
        goal = "Half of it."

        def start(self, seed):
            return 0

    with pytest.raises(DomainError, match="half lacks `actions`, `describe`, `step`"):
        refuse_unfit(PLANNERS["uct"], spec_of(Half))


def test_a_class_says_its_tasks_and_settings():
    spec = spec_of(Walk)
    assert (spec.name, spec.tasks, spec.summary) == ("walk", ("near", "far"), "Walks along a line.")
    assert spec.settings.read({"steps": "5"}).to_json() == {"steps": 5, "width": 1}
    world = spec.open("far", spec.settings.read({"steps": 5}))
    assert (world.goal, world.steps) == ("Reach far.", 5)
    with pytest.raises(SettingsError, match="unknown setting 'stebs'; did you mean steps"):
        spec.settings.read({"stebs": 2})

    class Needy(Walk):
        def __init__(self, length: int) -> None:
            self.length = length

    with pytest.raises(DomainError, match="'length' of its constructor a default"):
        spec_of(Needy)


@pytest.mark.parametrize(
    ("parameter", "says"),
    [
        ("size: 'Decimal' = 3", "not known .*'Decimal' is not defined.* outside of `if TYPE_CHECK"),
        ("size: list['Decimal'] = ()", "not known .*'Decimal' is not defined"),
        ("size: Random = None", r"Random, which no setting can have: take numbers, texts"),
        ("size=Random(3)", "the type random.Random, which no setting can have"),
        ("size: 3 = 3", "the type 3, which no setting can have"),
        ("_size: int = 3", "cannot be a setting of that name: rename it"),
        ("copy: int = 3", "cannot be a setting of that name: rename it"),
    ],
)
@pytest.mark.parametrize("later", ["", "from __future__ import annotations\n"])
def test_a_parameter_that_cannot_be_a_setting_is_one_line(later, parameter, says):
    names = {"Walk": Walk, "Random": Random, "__name__": __name__}
    body = f"class Odd(Walk):\n    def __init__(self, {parameter}): pass"
    exec(compile(later + body, "odd.py", "exec", dont_inherit=True), names)
    key = re.match(r"\w+", parameter)[0]
    where = f"odd: the parameter '{key}' of Odd's constructor "
    with pytest.raises(DomainError, match=where + f".*{says}") as raised:
        spec_of(names["Odd"])
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("tasks", "makes"),
    [
        (("easy", "hard"), "def __init__(self): pass"),
        ("abc", "def __init__(self, task='a'): pass"),
        ({"easy", "hard"}, "def __init__(self, task='easy'): pass"),
    ],
)
def test_tasks_that_the_constructor_does_not_take_are_refused(tasks, makes):
    names = {"Walk": Walk}
    exec(f"class Odd(Walk):\n    tasks = {tasks!r}\n    {makes}", names)
    with pytest.raises(DomainError, match=r"^odd: Odd\.tasks is .*: give a tuple of texts, and"):
        spec_of(names["Odd"])


def test_a_parameter_without_an_annotation_takes_what_its_default_is():
    class Plain(Walk):
        tasks = ()

        def __init__(self, start=None, width=2, names: list[str] | None = None):
            self.arguments = (start, width, names)

    spec = spec_of(Plain)
    for start in (None, 3, "three", [1]):
        chosen = spec.settings.read({"start": start, "width": "4"})
        assert spec.open("near", chosen).arguments == (start, 4, None)
    with pytest.raises(SettingsError, match="setting width='wide' is not possible"):
        spec.settings.read({"width": "wide"})


class OwnSettings(Settings):
    """Of a planner of one's own."""

    width: int = 2
    speed: float = 1.0


@planner("mine", settings=OwnSettings)
async def mine(run):
    """Walks on.

    And on.
    """
    return Outcome(success=None, plan=(run,), metrics={}, trace={}, text="")


def test_a_setting_of_both_is_the_planners_unless_it_is_written_out():
    domain = spec_of(Walk)
    assert mine.summary == "Walks on."
    assert known_keys(mine, domain) == ("width", "speed", "steps", "domain.width")
    chosen = choose(mine, domain, {"width": 5, "domain.width": 7, "steps": 9})
    assert (chosen.planner.width, chosen.domain.width, chosen.domain.steps) == (5, 7, 9)
    record = chosen.to_json()
    assert record == {"width": 5, "speed": 1.0, "steps": 9, "domain.width": 7}
    assert choose(mine, domain, record) == chosen
    with pytest.raises(SettingsError, match="twice"):
        choose(mine, domain, {"steps": 1, "domain.steps": 2})
    with pytest.raises(SettingsError, match="unknown setting 'stebs'; did you mean steps"):
        choose(mine, domain, {"stebs": 1})


@pytest.mark.parametrize(
    ("kind", "find", "catalogue"),
    [("planners", find_planner, PLANNERS), ("domains", find_domain, DOMAINS)],
)
def test_names_settings_and_defaults_stay(kind, find, catalogue):
    """The defaults are the papers' where those say any; ledgers name trials by all of them."""
    golden = json.loads((GOLDEN / "settings.json").read_text("utf-8"))[kind]
    assert golden.keys() == {*catalogue}
    settings = {
        name: json.loads(json.dumps(find(name).settings.read({}).to_json())) for name in golden
    }
    assert settings == golden
    assert [list(settings[name]) for name in golden] == [list(golden[name]) for name in golden]


@pytest.mark.parametrize("catalogue", [PLANNERS, DOMAINS])
def test_a_catalogue_names_what_its_modules_have(catalogue):
    listed = {}
    for name, place in catalogue._places.items():
        listed.setdefault(place, []).append(name)
    for place, names in listed.items():
        module, _, attribute = place.partition(":")
        named = getattr(import_module(module), attribute)
        specs = named if isinstance(named, tuple) else (named,)
        assert [spec.name for spec in specs] == names
        assert all(catalogue[spec.name] is spec for spec in specs)
    assert [spec.name for spec in catalogue.values()] == list(catalogue)
    assert "no-such" not in catalogue
    assert catalogue.get("no-such") is None


def test_a_planner_loads_no_other_paper():
    code = (
        "import sys; from llm_planning.running import prepare; prepare('too', settings={});"
        "print(*sorted({name.split('.')[2] for name in sys.modules"
        " if name.startswith('llm_planning.planners.')}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["catalogue", "tree_of_options"]


def test_settings_from_texts():
    settings = FeasibleSearchSettings.read(
        {"iter": "4", "gamma": "0.5", "return": "mean", "k": "2", "infeasible": "drop"}
    )
    assert (settings.iterations, settings.gamma, settings.return_) == (4, 0.5, "mean")
    assert FeasibleSearchSettings.read(settings.to_json()) == settings
    assert FeasibleSearchSettings.read({"iterations": 4}).iterations == 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gama": 0.9}, r"unknown setting 'gama'; did you mean gamma\?"),
        ({"depth": 3}, r"unknown setting 'depth'.*known: attempts, c, d, "),
        ({"k": "many"}, r"setting k='many' is not possible: .*integer"),
        ({"k": 0}, r"setting k=0 is not possible: .*greater than or equal to 1"),
        ({"gamma": 1.5}, r"setting gamma=1.5 is not possible: .*less than or equal to 1"),
        ({"c": "nan"}, r"setting c='nan' is not possible"),
        ({"return": "max"}, r"setting return='max' is not possible: .*'sum' or 'mean'"),
    ],
)
def test_impossible_settings(values, message):
    with pytest.raises(SettingsError, match=message):
        FeasibleSearchSettings.read(values)


def test_key_and_its_field_name_together_are_refused():
    with pytest.raises(SettingsError, match="iter"):
        FeasibleSearchSettings.read({"iter": 3, "iterations": 4})
