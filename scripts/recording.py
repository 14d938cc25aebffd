"""Records what planners ask, draw and decide without a model, and says what a change changes.

    python scripts/recording.py             compares every trial with tests/golden/recording
    python scripts/recording.py --write     records anew
    python scripts/recording.py NAME...     only trials and exercises whose names hold one of these
    python scripts/recording.py --full DIR  also writes them in full, to be compared by hand

Rules answer, rules that err independently or systematically, or a babbler: it says anything that
its constraint allows, decided by the request alone. Of every trial there is a digest of each part:

    asked     requests to the engine with answers, scored choices and embedded texts, in order
    drawn     keys of the oracles' draws, in order
    outcome   success, plan and repeatable metrics
    trace     the planner's own trace, without its settings
    events    the recorded events, without their times

A trial of each planner is kept in full. Exercises are recorded too: prompts, right answers, kinds,
and the grades of right and of babbled answers.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import re._constants as kinds
import re._parser as regexes
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from llm_planning.environments.catalogue import DOMAINS
from llm_planning.planners.catalogue import PLANNERS
from llm_planning.roles import Engines, RoleSettings, metered, oracles
from llm_planning.running import prepare
from llm_planning.settings import SettingsError
from llm_planning.trace import recording
from llm_serving.errors import UnableError
from llm_serving.scripted import ScriptedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llm_planning.running import Prepared
    from llm_planning.specs import PlannerSpec
    from llm_serving.request import Request

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "recording"
KEPT = 21_000
"""The most characters of a trial that is kept in full."""

# A BABBLER ----------------------------------------------------------------------------------------

_parsed = cache(regexes.parse)


def babbled(regex: str, draw: Random) -> str:
    """A text of the language of a regular expression; lists are short."""
    return _written(_parsed(regex), draw)


def _written(tokens: Any, draw: Random) -> str:  # noqa: ANN401 - parts of a parsed expression
    return "".join(_piece(*token, draw) for token in tokens)


def _piece(kind: Any, value: Any, draw: Random) -> str:  # noqa: ANN401
    match kind:
        case kinds.LITERAL:
            return chr(value)
        case kinds.ANY:
            return "x"
        case kinds.IN:
            return _member(value, draw)
        case kinds.BRANCH:
            return _written(draw.choice(value[1]), draw)
        case kinds.SUBPATTERN:
            return _written(value[3], draw)
        case kinds.MAX_REPEAT | kinds.MIN_REPEAT:
            least, most, inner = value
            count = draw.randint(least, min(int(most), least + 1))
            return "".join(_written(inner, draw) for _ in range(count))
    raise ValueError(f"no constraint has a part of the kind {kind}")


def _member(items: Any, draw: Random) -> str:  # noqa: ANN401
    if items[0][0] is kinds.NEGATE:
        unwanted = {value for kind, value in items[1:] if kind is kinds.LITERAL}
        return draw.choice([char for char in "abc" if ord(char) not in unwanted])
    kind, value = draw.choice(items)
    return chr(value if kind is kinds.LITERAL else draw.randint(*value))


class Babbler(ScriptedEngine):
    """Says anything that is allowed; the request, and how often it was made, decide what.

    Attributes:
        asked: what was asked and said, in order, JSON-able.
    """

    def __init__(self) -> None:
        super().__init__(self._say, score=self._rate)
        self.asked: list[list[Any]] = []
        self._times: Counter[str] = Counter()

    def _say(self, request: Request) -> str:
        text = self.text(request.prompt)
        asking = f"{text} {request.sampling} {request.sample}"
        self._times[asking] += bool(request.sampling.temperature)
        regex = request.constraint.regex if request.constraint else "[a-z]{1,9}"
        answer = babbled(regex, Random(f"{asking} {self._times[asking]}"))
        how = [request.role, str(request.sampling), request.sample, request.adapter]
        self.asked.append([*how, text, digest(regex), answer])
        return answer

    def _rate(self, text: str, choices: Sequence[str]) -> list[float]:
        self.asked.append(["score", text, list(choices)])
        return [-3 * Random(f"{text} {choice}").random() for choice in choices]

    async def embed(self, texts: Sequence[str], *, role: str = "embed") -> Any:  # noqa: ANN401
        """Notes the texts, too."""
        self.asked.append([role, list(texts)])
        return await super().embed(texts, role=role)


# THE TRIALS ---------------------------------------------------------------------------------------

ERRORS = ("independent", "systematic", "sticky")
ANSWERERS = ("llm", "rules", *ERRORS)
"""Who answers: the babbler, or rules with errors of a kind. `rules` do not err."""

RATE = 0.7
PROGRAMS = ("code", "complete")
"""The roles that write and judge programs, which a sealed process runs: too slow for this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Planners that are run in the same places and with the same settings.

    Attributes:
        planners: their names.
        places: domain, task and settings of the domain.
        small: settings that keep a trial short; each planner gets those that it reads.
        variants: further settings, a trial each; with `roles=PROFILE` nobody else answers.
        seeds: of the trials.
    """

    planners: Sequence[str]
    places: Sequence[Mapping[str, object]]
    small: Mapping[str, object] = field(default_factory=dict)
    variants: Sequence[Mapping[str, object]] = ({},)
    seeds: Sequence[int] = (0,)


BLOCKS = {"domain": "blocksworld", "task": "four-blocks"}
LEATHER = {"domain": "minecraft", "task": "obtain-leather"}
MEAT = {"domain": "minecraft", "task": "cook-meat"}
TRAPDOOR = {"domain": "textgame", "task": "trap-door"}
COINS = {"domain": "textgame", "task": "coin-collector"}
HOME = {"domain": "household"}
STICK = {"domain": "minecraft-items", "task": "stick"}
MEAL = {"domain": "cooking"}
WORLDS = (
    *(BLOCKS, LEATHER, TRAPDOOR, HOME, {"domain": "travel"}, {"domain": "multiplication"}),
    *(STICK, MEAL),
)
TREES = {"iter": 3, "d": 3, "k": 3, "attempts": 4, "execution": "direct"}
LEARNT = {"roles": "table12", "steps": 120, "x0": 1, "c0": 1}


def _named(start: str) -> list[str]:
    return [name for name in PLANNERS if name.startswith(start)]


FAMILIES = (
    Family(
        planners=("puct", "uct", "llm-policy", "react"),
        places=WORLDS,
        small={"simulations": 4, "moves": 3},
        variants=({}, {"prior": "uniform"}, {"prior": "sample"}, {"choice": "majority"}),
    ),
    Family(
        planners=[*_named("too"), "tot-mcts", "cot", "react-option", "react-action"],
        places=(LEATHER, MEAT, BLOCKS),
        small=TREES,
        variants=({}, {"layout": "paper"}, {"infeasible": "drop"}, {"reward": "binary"}),
    ),
    Family(
        planners=("drip", "drip-plus", "drip-react", "drip-cot", "plan-and-solve"),
        places=(BLOCKS, LEATHER),
        small={"budget": 12, "decompositions": 12, "moves": 12},
        variants=({}, {"reading": "redo"}, {"votes": 3}, {"end": "tested"}),
        seeds=(0, 1),
    ),
    Family(
        planners=[*_named("mc-dml"), "llm-agent", "reflection-agent", "walkthrough"],
        places=(TRAPDOOR, COINS, BLOCKS),
        small={"simulations_per_action": 2, "moves": 3, "d_min": 4, "d_max": 8, "delta_d": 4},
        variants=({}, {"prior": "uniform"}, {"prior": "exact"}, {"values": "softmax"}),
    ),
    Family(
        planners=_named("llm-mcts"),
        places=(HOME,),
        small={"simulations": 4, "moves": 2},
        variants=(
            {},
            {"prior": "uniform"},
            {"prior": "cosine"},
            {"prior": "nearest"},
            {"selection": "uct"},
            {"state_prior": "uniform"},
            {"values": "softmax"},
            {"choice": "majority"},
        ),
        seeds=(0, 1),
    ),
    Family(
        planners=[*_named("l-policy"), *_named("l-model")],
        places=({"domain": "travel"}, {"domain": "multiplication"}),
        seeds=(0, 1, 2),
    ),
    Family(
        planners=[
            name for name, planner in PLANNERS.items() if "initial" in planner.settings.model_fields
        ],
        places=({},),
        small=LEARNT,
        variants=({}, {"roles": "llm"}, {"c0": 3, "x0": 2, "steps": 300}),
        seeds=(0, 1),
    ),
    Family(
        planners=_named("select-"),
        places=({"task": "compass"},),
        small={"steps": 60, "roles": "table12"},
        variants=({}, {"roles": "llm"}),
        seeds=(0, 1),
    ),
    Family(
        planners=[*_named("plan-xenon"), "plan-oracle-actions"],
        places=({"task": "wooden_pickaxe"},),
        small={"roles": "table12"},
        variants=({}, {"graph": "initial"}, {"roles": "llm"}),
        seeds=(0, 1),
    ),
    Family(
        planners=[name for name in PLANNERS if name.endswith("-cooking")],
        places=({},),
        small={"roles": "sticky-40", "episodes": 2},
        variants=({}, {"roles": "llm"}),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A trial of the recording.

    Attributes:
        name: says all of it.
        prepared: the planner, its task and its settings.
        seed: of the trial.
    """

    name: str
    prepared: Prepared
    seed: int


def trials(folder: Path) -> Iterator[Trial]:
    """All trials that fit their planner and whose settings are read, each once.

    Args:
        folder: where files of roles are written.
    """
    for family in FAMILIES:
        for planner in family.planners:
            spec, seen = PLANNERS[planner], set()
            known = set(spec.settings.known_keys()) - spec.never_read
            for place in family.places:
                for variant in family.variants:
                    if not variant.keys() <= known:
                        continue
                    for who in ANSWERERS:
                        given = {k: v for k, v in family.small.items() if k in known} | variant
                        profile = given.pop("roles", "llm")
                        if "llm" not in (who, profile):
                            continue
                        by = who if profile == "llm" else str(profile)
                        if (found := _fitting(spec, place, by, given, folder)) is None:
                            continue
                        identity = json.dumps([place, found.chosen.to_json()], default=str)
                        if identity in seen:
                            continue
                        seen.add(identity)
                        for seed in family.seeds:
                            varied = [f"{key}={variant[key]}" for key in variant if key != "roles"]
                            parts = [
                                planner,
                                *place.values(),
                                " ".join(varied),
                                by,
                                f"seed={seed}",
                            ]
                            name = " ".join(str(part) for part in parts if part)
                            yield Trial(name=name, prepared=found, seed=seed)


def _fitting(
    spec: PlannerSpec,
    place: Mapping[str, object],
    who: str,
    given: dict[str, object],
    folder: Path,
) -> Prepared | None:
    """The planner in a place, without what its other settings leave unread; None if unfit."""
    where: Any = {"domain": place.get("domain"), "task": place.get("task")}
    if who != "llm":
        if not issubclass(spec.settings, RoleSettings):
            return None
        roles = str(_roles_file(spec, who, folder)) if who in ERRORS else who
        given = {**given, "roles": roles}
    try:
        prepare(spec, settings={}, **where)
    except ValueError:
        return None
    while True:
        try:
            return prepare(spec, settings=given, **where)
        except SettingsError as error:
            unread = str(error).removeprefix("setting ").partition("=")[0]
            if unread not in given or unread == "roles":
                return None
            del given[unread]


def _roles_file(spec: PlannerSpec, kind: str, folder: Path) -> Path:
    """A file by which rules answer a planner's roles and err; free text stays with the engine."""
    path = folder / f"{spec.name}-{kind}.yaml"
    known: Sequence[str] = getattr(spec.settings, "known_roles", ())
    judged = [role for role in known if role not in {*spec.free_text, *PROGRAMS}]
    path.write_text("".join(f"{role}: {{rate: {RATE}, kind: {kind}}}\n" for role in judged))
    return path


# RECORDING ----------------------------------------------------------------------------------------

TIMED = {"at", "seconds", "replayed"}


def digest(value: object) -> str:
    """The first 16 hexadecimal digits of SHA-256 of a text, or of a JSON value."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


async def record(trial: Trial) -> dict[str, object]:
    """Runs a trial and returns its parts; an error's type takes the place of its outcome."""
    engine, drawn = Babbler(), []
    draw = oracles.draw

    def noted(*key: oracles.Key) -> Random:
        drawn.append(key)
        return draw(*key)

    with patch.object(oracles, "draw", noted), recording() as trace:
        try:
            result = await trial.prepared.run(metered(Engines(engine)), trial.seed)
        except (ValueError, UnableError) as error:
            outcome: list[Any] = [type(error).__name__]
            traced: Mapping[str, Any] = {}
        else:
            lasting = {k: v for k, v in result.metrics.items() if k not in result.unrepeatable}
            outcome = [result.success, result.plan, lasting]
            traced = {key: value for key, value in result.trace.items() if key != "settings"}
    events = [{k: v for k, v in event.items() if k not in TIMED} for event in trace.events]
    return {
        "asked": engine.asked,
        "drawn": drawn,
        "outcome": outcome,
        "trace": traced,
        "events": events,
    }


def exercises() -> Iterator[tuple[str, list[list[object]]]]:
    """Name and exercises of every role in every domain that has any."""
    made = set()
    for domain in DOMAINS.values():
        for spec in PLANNERS.values():
            for words in ("general", "taught"):
                maker = spec.exercises(domain, words) if spec.exercises else None  # type: ignore[arg-type]
                for role in maker.roles if maker else ():
                    name = f"exercises {type(maker).__name__} {domain.name} {words} {role}"
                    if maker is not None and name not in made:
                        made.add(name)
                        yield name, list(_exercised(maker, role))


def _exercised(maker: Any, role: str) -> Iterator[list[object]]:  # noqa: ANN401 - an ExerciseMaker
    for held_out in (False, True):
        rng = Random(f"{role} {held_out}")
        for _ in range(3):
            for exercise in maker.about_one_state(rng, roles=(role,), held_out=held_out):
                engine = Babbler()
                grades = [
                    exercise.grade(exercise.answer),
                    exercise.grade(asyncio.run(exercise.ask(engine))),
                ]
                graded = [[grade.right, grade.brief, grade.items] for grade in grades]
                texts = [turn.content for turn in exercise.prompt]
                asked = [dict(exercise.kinds), graded, engine.asked]
                yield [exercise.role, texts, exercise.answer, exercise.brief, *asked]


def recorded(names: Sequence[str], folder: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Name and parts of the trials and exercises whose name holds one of these; all if none."""

    def wanted(name: str) -> bool:
        return not names or any(part in name for part in names)

    for trial in trials(folder):
        if wanted(trial.name):
            yield trial.name, asyncio.run(record(trial))
    if not names or any("exercises" in name for name in names):
        yield from ((name, {"made": made}) for name, made in exercises() if wanted(name))


def in_full(parts: Mapping[str, object]) -> str:
    """The parts as indented JSON."""
    return json.dumps(parts, default=str, indent=1) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes or compares; returns 1 if a trial changed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="record anew")
    parser.add_argument("--full", type=Path, metavar="DIR", help="write every trial in full")
    parser.add_argument("names", nargs="*", help="parts of the names of trials; all by default")
    options = parser.parse_args(arguments)
    file = GOLDEN / "digests.json"
    known: dict[str, dict[str, str]] = json.loads(file.read_text()) if file.exists() else {}
    found: dict[str, dict[str, str]] = {}
    samples: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, parts in recorded(options.names, Path(folder)):
            found[name] = {part: digest(value) for part, value in parts.items()}
            text = in_full(parts)
            if "asked" in parts and len(text) < KEPT:
                samples.setdefault(name.split()[0], text)
            if options.full:
                options.full.mkdir(parents=True, exist_ok=True)
                (options.full / f"{name.replace('/', ' ')}.json").write_text(text)
    changed = {name: digests for name, digests in found.items() if known.get(name) != digests}
    gone = set() if options.names else known.keys() - found.keys()
    for name, digests in changed.items():
        was = known.get(name, {})
        print(f"{name}: {', '.join(p for p in digests if digests[p] != was.get(p))} changed")
    for name in sorted(gone):
        print(f"{name}: is not run any more")
    print(f"{len(found)} run, {len(changed)} changed, {len(gone)} gone")
    if not options.write:
        return bool(changed or gone)
    GOLDEN.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{json.dumps(name)}: {json.dumps(digests)}"
        for name, digests in (known | found).items()
        if name not in gone
    ]
    file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    for planner, text in samples.items():
        (GOLDEN / f"{planner}.json").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
