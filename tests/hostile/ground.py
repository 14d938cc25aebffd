"""Where cases happen: good files made once, and a folder for each case that refers to them."""

import json
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from random import Random

from .ledgers import LITTLE

HERE, HOME, CACHE, TEMPORARY = "here", "home", "cache", "tmp"
SENTINEL = "sentinel.txt"
_LARGE = 1 << 24

LONG_SWEEP = LITTLE.replace("little", "long").replace("seeds: 2", "seeds: 5000")
ROLES = (
    "decompose: {rate: 0.9, unit: item, mistakes: [dropped]}\njudge: rules\napply: rules\n"
    "propose: {rate: 0.9, kind: systematic}\nfeasibility: rules\nrepair: rules\n"
    "dynamics: {rate: 0.9, kind: independent, unit: answer}\nreward: rules\ntermination: rules\n"
)
# The model does not exist: a reader gets as far as looking for it, and loads nothing.
MODEL = """\
model: nobody/no-such-model
dtype: float32
context: 512
kv_cache_gib: 0.5
block_size: 32
max_batch: 4
eager: true
"""
ENTRIES = "kitchen table\nfridge\ncoffee table\n\nsofa\n"
OBJECTS = (
    '{"id": 1, "text": "kitchen table", "more": {"room": ["kitchen", null, 2.5]}}\n'
    '{"id": 2, "text": "fridge"}\n'
    '{"id": 3, "text": "sofa"}\n'
)
OWN_DOMAIN = '''\
from dataclasses import dataclass

from llm_planning import Domain, Step


@dataclass
class Stairs(Domain):
    """Climb to the top."""

    steps: int = 3
    goal = "Be at the top."

    def start(self, seed):
        return 0

    def describe(self, at):
        return f"You are on step {at}."

    def actions(self, at):
        return ["up", "down"]

    def step(self, at, action, rng):
        at += 1 if action == "up" else -1
        return Step(at, reward=float(at == self.steps), done=at == self.steps)
'''
OWN_PLANNER = '''\
from llm_planning import Outcome, planner


@planner("idle")
async def idle(run):
    """Does nothing."""
    return Outcome(success=None, plan=(), metrics={"seed": run.seed}, trace={}, text="nothing")
'''
# Nobody vouches for this file, so nothing may run it.
TROJAN = "import os\n\nopen(os.environ['LLM_PLANNING_HOSTILE_TRACE'], 'w').close()\n"
TROJAN_NAME = "trojan/own.py:Stairs"
BLOCKS = """\
(define (problem two)
(:domain blocksworld-4ops)
(:objects a b c)
(:init
(handempty)
(ontable a)
(on b a)
(ontable c)
(clear b)
(clear c)
)
(:goal
(and
(on a b)
)
)
)
"""
FLAT = """\
rooms:
  kitchen: {containers: [fridge], surfaces: [table]}
  hall: {surfaces: [bench]}
things:
  food: {names: [apple, pear], lie: {fridge: 3, table: 1}, goals: [bench, table]}
  rest: {names: [hat], lie: {table: 1, bench: 1}, goals: [bench]}
several: {apple: 2}
"""
CITIES = """\
id,name,country,population
1,Aix,FR,9000000
2,Bonn,DE,8000000
3,Cádiz,ES,7000000
4,"Ho Chi, Minh",VN,6000000
"""
FLIGHTS = "from,to\n1,2\n2,3\n3,4\n4,1\n"
TRAVEL_ROLES = (
    "route: {rate: 0.8, kind: systematic, mistakes: [one]}\n"
    "flights: {rate: 0.8, kind: systematic, mistakes: [one, half]}\n"
)
HOME_ROLES = (
    "prior: {rate: 0.7, kind: systematic}\nposition: {rate: 0.8, kind: independent}\n"
    "goal: {rate: 0.9}\n"
)


def _node(number: int, name: str, category: str, *properties: str) -> dict[str, object]:
    states = ["CLOSED"] if "CAN_OPEN" in properties else []
    return {
        "id": number,
        "class_name": name,
        "category": category,
        "properties": properties,
        "states": states,
    }


SCENE = {
    "nodes": [
        _node(1, "dining_room", "Rooms"),
        _node(2, "bedroom", "Rooms"),
        _node(3, "character", "Characters"),
        _node(10, "freezer", "Furniture", "CAN_OPEN", "CONTAINERS"),
        _node(11, "table", "Furniture", "SURFACES"),
        _node(12, "bed", "Furniture", "SURFACES"),
        _node(20, "food_kiwi", "Props", "GRABBABLE"),
        _node(21, "cup", "Props", "GRABBABLE"),
    ],
    "edges": [
        {"from_id": node, "relation_type": relation, "to_id": other}
        for node, relation, other in (
            *((node, "INSIDE", 1) for node in (10, 11, 20, 21)),
            *((node, "INSIDE", 2) for node in (3, 12)),
            (20, "INSIDE", 10),
            (21, "ON", 11),
        )
    ],
}
TEXT_GOODS = {
    "sweep.yaml": LITTLE,
    "roles.yaml": ROLES,
    "travel-roles.yaml": TRAVEL_ROLES,
    "home-roles.yaml": HOME_ROLES,
    "flights/cities.csv": CITIES,
    "flights/direct_flights.csv": FLIGHTS,
    "scene.json": json.dumps(SCENE),
    "model.yaml": MODEL,
    "entries.txt": ENTRIES,
    "entries.jsonl": OBJECTS,
    "own_domain.py": OWN_DOMAIN,
    "own_planner.py": OWN_PLANNER,
    "trojan/own.py": TROJAN + OWN_DOMAIN,
    "trojan/sweep.yaml": LITTLE.replace("trap-door", "stairs")
    .replace("textgame", TROJAN_NAME)
    .replace(', remember: "off"', ""),
    "story/zork1.z5": "\x03" + 63 * "\0",
    "blocks/instance-1.pddl": BLOCKS,
    "blocks/instance-2.pddl": BLOCKS.replace("(on a b)", "(on a c)"),
    "flat.yaml": FLAT,
    "long.yaml": LONG_SWEEP,
    "little.yaml": LITTLE + "retries: 1\n",
}
"""Good files that are texts."""

FOLDERS = (
    *("skills", "trojan", "story", "blocks", "encoder", "recorded", "taught"),
    "flights",
)
"""Good folders, whose files belong together."""

MADE_GOODS: dict[str, tuple[str, ...]] = {
    "ledger": ("sweep run sweep.yaml --out ledger",),
    "effects": (
        "run too-plus --model none --task cook-meat --set roles=rules --set k=2 --set d=2 "
        "--set iter=2 --set attempts=3 --set execution=direct --set effects=effects",
    ),
    "index": ("index build entries.txt --out index",),
    "saved.json": (
        "run xenon --model none --task wood --set roles=table12 --set plans=0 --set steps=6 "
        "--set save=saved.json",
    ),
    "trace.jsonl": (
        "run uct --model none --task four-blocks --set moves=2 --set simulations=3 "
        "--trace trace.jsonl",
    ),
    "filled": (
        "run uct --model none --task gull-rock --set moves=1 --set simulations=2",
        "index build entries.txt --out built",
    ),
}
"""Good files that commands make; the last ones fill the caches."""


@dataclass(frozen=True)
class Ground:
    """A folder of good files and of the models that all cases share.

    Attributes:
        root: of all.
    """

    root: Path

    @property
    def goods(self) -> Path:
        return self.root / "goods"

    def prepare(self) -> None:
        """Writes the good texts and links the models; `MADE_GOODS` are the caller's to make."""
        from llm_serving.models import CATALOGUE, cache_folder, resolve
        from llm_serving.models.folders import is_complete

        from .folders import make_adapter, make_skills
        from .ledgers import make_ledger

        self.goods.mkdir(parents=True)
        for name, text in TEXT_GOODS.items():
            path = self.goods / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (self.goods / "recorded").mkdir()
        make_ledger(self.goods / "recorded")
        make_skills(self.goods / "skills")
        taught = self.goods / "taught"
        make_adapter(taught / "adapter", base=taught / "base", called="taught/base")
        encoder = resolve("all-minilm-l6-v2").path
        models = self.root / "models"
        models.mkdir()
        shutil.copytree(encoder, models / encoder.name)
        shutil.copytree(encoder, self.goods / "encoder")
        # Games are made once: that takes longer than a case may.
        made = cache_folder() / "games"
        if made.is_dir():
            shutil.copytree(made, self.root / "games")
        else:
            (self.root / "games").mkdir()
        for folder in sorted((cache_folder() / "models").iterdir()):
            known = any(is_complete(folder, model.revision) for model in CATALOGUE.values())
            if known and not (models / folder.name).exists():
                (models / folder.name).symlink_to(folder)

    def place(self, name: str, random: Random) -> "Place":
        """An empty folder for a case."""
        root = self.root / "cases" / name
        place = Place(root, self, random)
        for folder in (place.here, place.home, place.cache, place.temporary):
            folder.mkdir(parents=True)
        (place.here / SENTINEL).write_text("nobody touches this\n")
        for shared in ("models", "games"):
            (place.cache / shared).symlink_to(self.root / shared)
        return place


@dataclass(frozen=True)
class Place:
    """The folder of one case: its working directory, home, caches and temporary files."""

    root: Path
    ground: Ground
    random: Random

    @property
    def here(self) -> Path:
        return self.root / HERE

    @property
    def home(self) -> Path:
        return self.root / HOME

    @property
    def cache(self) -> Path:
        return self.root / CACHE

    @property
    def temporary(self) -> Path:
        return self.root / TEMPORARY

    @property
    def environment(self) -> dict[str, str]:
        """Variables that keep a case in its folder and off the network."""
        return {
            "HOME": str(self.home),
            "LLM_PLANNING_CACHE": str(self.cache),
            "TMPDIR": str(self.temporary),
            # torch makes this folder as soon as it is imported.
            "TORCHINDUCTOR_CACHE_DIR": str(self.root.with_name("torch")),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "HF_HOME": str(self.home / ".hf"),
            "HF_HUB_OFFLINE": "1",
            "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
            "PIP_RETRIES": "0",
            "PIP_CONFIG_FILE": os.devnull,
            "COLUMNS": "80",
            # No browser is started where a page is to be opened.
            "BROWSER": "true",
            # Where code that is hidden in a file leaves its trace.
            "LLM_PLANNING_HOSTILE_TRACE": str(self.root / "owned"),
        }

    def good(self, name: str) -> str:
        """Copies a good file or folder here, unless it is here or not yet made; its name."""
        source, target = self.ground.goods / name, self.here / name
        if source.exists() and not os.path.lexists(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, copy_function=_copy)
            else:
                shutil.copy(source, target)
        return name

    def fill_cache(self) -> None:
        """Copies the filled caches of answers, vectors and transitions."""
        for path in sorted((self.ground.goods / "filled").iterdir()):
            target = self.cache / path.name
            if path.is_dir():
                shutil.copytree(path, target, dirs_exist_ok=True)
            else:
                shutil.copy(path, target)

    def remove(self) -> None:
        """Removes everything, folders without permissions included."""
        for folder, names, _ in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(self.root)


def _copy(source: str, target: str) -> None:
    """Copies a file; of a large one, makes a link, which damage must not go through."""
    if os.path.getsize(source) < _LARGE:
        shutil.copy(source, target)
    else:
        os.symlink(source, target)
