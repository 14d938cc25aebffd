"""The file formats that commands read, what damages them, and the calls that meet the damage.

A format joins by a row of `FORMATS`. Its calls name the damaged file as `{}`. What damages it is in
`damage`, and for one format alone in tables of (name, function).
"""

from dataclasses import dataclass
from random import Random

from . import folders, ledgers
from .damage import (
    ANY_FILE,
    ANY_TEXT,
    CODE,
    CSV,
    DOMAIN,
    FOLDER,
    JSON,
    JSON_LINES,
    LINES,
    MODEL_FILE,
    MODEL_FOLDER,
    PDDL,
    YAML,
    Damage,
    table,
)
from .ground import Place


@dataclass(frozen=True)
class Format:
    """A format.

    Attributes:
        name: of it.
        good: name of the good file or folder in `ground`, or of a file of the caches.
        damage: name -> what damages a file of it.
        calls: lines that read it; `{}` is the file's name.
        inside: file of a folder -> damage that befalls this file, by glob.
        in_cache: whether it lies in the cache folder.
        slow: whether it loads what takes seconds; not in the quick share.
    """

    name: str
    good: str
    damage: dict[str, Damage]
    calls: tuple[str, ...]
    inside: str = ""
    in_cache: bool = False
    slow: bool = False

    def damaged(self, place: Place, how: str, random: Random) -> str:
        """Makes a damaged file of the format in a place; its name."""
        folder = place.here
        if self.in_cache:
            place.fill_cache()
            folder = place.cache
        else:
            place.good(self.good)
        target = folder / self.good
        if self.inside:
            found = sorted(target.glob(self.inside))
            if not found:
                raise AssertionError(f"{self.name}: nothing is called {self.inside} in {target}")
            target = random.choice(found)
        for path in (target, *target.glob("*")):
            # A large file is a link to the good one; what is damaged is a copy.
            if path.is_symlink() and (path == target or path.name in how):
                content = path.read_bytes()
                path.unlink()
                path.write_bytes(content)
        self.damage[how](target, random)
        return self.good


_READ_LEDGER = (
    "sweep status {}",
    "sweep report {} --json",
    "sweep export {} --out rows.csv",
    "sweep resume {}",
    "report paper too oracles --from {}",
    "view {} --out pages",
    "sweep run sweep.yaml --out {}",
)
_READ_RECORDED = tuple(line.replace("sweep.yaml", "little.yaml") for line in _READ_LEDGER)
_READ_INDEX = (
    "index search {} sofa --json",
    "index search {} 'a table'",
    "index build entries.txt --out {}",
)
_PLAY = "run uct --model none --task trap-door --set moves=1 --set simulations=2"
_LEARN = "run xenon --model none --task wood --set roles=table12 --set plans=0 --set steps=6"
_READ_SAVED = (
    f"{_LEARN} --set save={{}} --set episodes=2",
    "run plan-xenon --model none --task bowl --set roles=table12 --set graph={}",
)
_STORY = ("run uct --model none --task zork1 --set moves=1 --set simulations=1 --set game={}",)
_SQLITE = table(folders.cache_alterations())
_IN_STORIES = "run walkthrough --model none --task zork1 --set games=story"
_STORIES = ("run walkthrough --model none --task zork1 --set games={}",)
_STACK = "run uct --model none --task four-blocks --set moves=1 --set simulations=1"
_READ_BLOCKS = (f"{_STACK} --set pddl={{}} --json", f"{_STACK} --set pddl={{}} --set problem=2")
_IN_HOME = "run uct --domain household --model none --set moves=1 --set simulations=1"
_READ_HOME = (
    f"{_IN_HOME} --set home={{}} --json",
    f"{_IN_HOME} --set home={{}} --set goal='two apples on the bench'",
    f"{_IN_HOME.replace(' uct', ' llm-mcts-plus')} --set home={{}} --set roles=rules",
)
_READ_SCENE = (
    f"{_IN_HOME} --set home={{}} --json",
    f"{_IN_HOME} --set home={{}} --set goal='put the kiwi on the bed'",
)
_READ_FLIGHTS = (
    "run l-model --model none --set roles=rules --set graph={} --json",
    "run l-policy --model none --set roles=rules --set graph={} --set problem=2",
    "run uct --domain travel --model none --set moves=1 --set simulations=1 --set graph={}",
)
_READ_ENCODER = (
    "models path {}",
    "models fetch {} --json",
    "models fetch ./{} --verify",
    "index build entries.txt --out built --model {}",
    "index search index sofa --model {}",
)
_READ_ADAPTER = (
    "models path {}/adapter",
    "models fetch {}/adapter --json",
    "run too --task cook-meat --set roles=rules --model smollm2-135m-instruct+{}/adapter",
)
_EXECUTE = (
    "run too-plus --model none --task cook-meat --set roles=rules --set k=2 --set d=2 --set iter=2 "
    "--set attempts=3"
)
_READ_SKILLS = (
    f"{_EXECUTE} --set skills={{}}",
    f"{_EXECUTE.replace(' too-plus', ' too')} --set execution=programs --set skills={{}} --json",
)
_READ_EFFECTS = (f"{_EXECUTE} --set execution=direct --set effects={{}}",)
_READ_CACHE = ("cache show", "cache show --json", "cache clear --yes", _PLAY)
_READ_TRANSITIONS = (*_READ_CACHE[:-1], _PLAY.replace("trap-door", "gull-rock"))
_READ_VECTORS = ("index build entries.txt --out built", "index search index stool", *_READ_CACHE)

FORMATS: tuple[Format, ...] = (
    Format(
        "sweep grid",
        "sweep.yaml",
        YAML,
        ("sweep run {} --dry-run --json", "sweep run {} --out out"),
    ),
    Format(
        "grid that names code",
        "trojan",
        {"as-it-is": lambda path, random: None, **YAML},
        (
            "sweep run {}/sweep.yaml --out out",
            "sweep run {}/sweep.yaml --dry-run",
            "sweep run {}/sweep.yaml --out out --trust sweep.yaml",
        ),
        inside="sweep.yaml",
    ),
    Format(
        "model configuration",
        "model.yaml",
        YAML,
        (
            "run too --task cook-meat --set roles=rules --model {}",
            f"{_PLAY} --role-model search={{}}",
        ),
    ),
    Format(
        "file of roles",
        "roles.yaml",
        YAML,
        ("run too --model none --task cook-meat --set k=2 --set d=2 --set iter=2 --set roles={}",),
    ),
    Format(
        "roles of a home",
        "home-roles.yaml",
        YAML,
        (
            f"{_IN_HOME.replace(' uct', ' llm-mcts')} --set roles={{}}",
            f"{_IN_HOME.replace(' uct', ' llm-mcts-plus')} --set interpretation=asked "
            "--set roles={}",
        ),
    ),
    Format(
        "roles of journeys",
        "travel-roles.yaml",
        YAML,
        (
            "run l-model --model none --set roles={} --json",
            "run l-policy --model none --set among=mid --set roles={}",
        ),
    ),
    Format("entries of text", "entries.txt", LINES, ("index build {} --out built",)),
    Format(
        "entries of JSON",
        "entries.jsonl",
        JSON_LINES,
        ("index build {} --out built",),
    ),
    Format("saved knowledge", "saved.json", JSON, _READ_SAVED),
    Format("index: its file", "index", ANY_FILE, _READ_INDEX),
    Format("recorded ledger", "recorded", table(ledgers.alterations()), _READ_RECORDED),
    Format("ledger: its file", "ledger", ANY_FILE, _READ_LEDGER, inside="ledger.sqlite"),
    Format("ledger: a trace", "ledger", ANY_FILE, _READ_LEDGER, inside="traces/*"),
    Format("ledger: its lock", "ledger", ANY_FILE, _READ_LEDGER, inside="ledger.lock"),
    Format(
        "own domain",
        "own_domain.py",
        DOMAIN,
        (
            "run uct --domain {}:Stairs --model none --set moves=2 --set simulations=3",
            "run uct --domain {}:Stairs --list",
        ),
    ),
    Format("own planner", "own_planner.py", CODE, ("run {}:idle --task trap-door --model none",)),
    Format("story file", "story/zork1.z5", ANY_FILE, (*_STORY, _IN_STORIES)),
    Format("problem of blocks", "blocks/instance-1.pddl", PDDL, _READ_BLOCKS[:1]),
    Format("problems of blocks: a file", "blocks", PDDL, _READ_BLOCKS, inside="*.pddl"),
    Format("home", "flat.yaml", YAML, _READ_HOME),
    Format("scene", "scene.json", JSON, _READ_SCENE),
    Format("cities", "flights", CSV, _READ_FLIGHTS, inside="cities.csv"),
    Format("flights", "flights", CSV, _READ_FLIGHTS, inside="direct_flights.csv"),
    Format("folder of flights", "flights", FOLDER, _READ_FLIGHTS),
    Format(
        "trace",
        "trace.jsonl",
        {**ANY_FILE, **JSON_LINES},
        ("view {} --out page.html --json", "view trace.jsonl {} --out page.html"),
    ),
    Format("cache of answers", "responses-2.sqlite", ANY_FILE, _READ_CACHE, in_cache=True),
    Format("cache of vectors", "vectors-2.sqlite", ANY_FILE, _READ_VECTORS, in_cache=True),
    Format(
        "cache of transitions",
        "transitions",
        ANY_FILE,
        _READ_TRANSITIONS,
        inside="*.sqlite",
        in_cache=True,
    ),
    Format("folder of transitions", "transitions", FOLDER, _READ_TRANSITIONS, in_cache=True),
    Format("folder of a ledger", "ledger", FOLDER, _READ_LEDGER),
    Format("folder of stories", "story", FOLDER, _STORIES),
    Format("folder of problems", "blocks", FOLDER, _READ_BLOCKS),
    Format("adapter: a JSON file", "taught", JSON, _READ_ADAPTER, inside="adapter/*.json"),
    Format("adapter: its card", "taught", JSON, _READ_ADAPTER, inside="adapter/taught.json"),
    Format("adapter: its weights", "taught", ANY_FILE, _READ_ADAPTER, inside="adapter/*.safe*"),
    Format("skill: what is known of it", "skills", JSON, _READ_SKILLS, inside="*/1.json"),
    Format("skill: its program", "skills", ANY_TEXT, _READ_SKILLS, inside="*/1.js"),
    Format("skill: its versions", "skills", FOLDER, _READ_SKILLS, inside="[a-z]*"),
    Format("folder of skills", "skills", FOLDER, _READ_SKILLS),
    Format("skills: their lock", "skills", ANY_FILE, _READ_SKILLS, inside=".lock"),
    Format("effects", "effects", JSON, _READ_EFFECTS, inside="effects.json"),
    Format("effects: their lock", "effects", ANY_FILE, _READ_EFFECTS, inside=".lock"),
    Format("folder of effects", "effects", FOLDER, _READ_EFFECTS),
    Format("folder of a model", "encoder", MODEL_FOLDER, _READ_ENCODER),
    Format(
        "model",
        "encoder",
        table(folders.model_folder_alterations() + folders.encoder_folder_alterations()),
        _READ_ENCODER,
        slow=True,
    ),
    Format("index", "index", table(folders.index_alterations()), _READ_INDEX),
    Format("saved", "saved.json", table(folders.saved_files()), _READ_SAVED),
    Format("game", "story/zork1.z5", table(folders.game_files()), _STORY),
    Format("answers", "responses-2.sqlite", _SQLITE, _READ_CACHE, in_cache=True),
    Format("vectors", "vectors-2.sqlite", _SQLITE, _READ_VECTORS, in_cache=True),
    Format(
        "transitions", "transitions", _SQLITE, _READ_TRANSITIONS, inside="*.sqlite", in_cache=True
    ),
    Format("model: a JSON file", "encoder", MODEL_FILE, _READ_ENCODER, inside="*.json", slow=True),
    Format("model: its weights", "encoder", MODEL_FILE, _READ_ENCODER, inside="*.safe*", slow=True),
    Format(
        "model: its tokens", "encoder", MODEL_FILE, _READ_ENCODER, inside="vocab.txt", slow=True
    ),
)
"""Every format, and how commands meet it."""
