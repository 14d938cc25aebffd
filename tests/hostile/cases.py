"""Cases drawn from the tables: reproducible from a seed, each with a name that tells it."""

import hashlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from llm_planning.commands.view import default_page

from .commands import CALLS, Call, commands, read_call, write_call
from .ending import LIMIT
from .formats import FORMATS
from .ground import FOLDERS, MADE_GOODS, TEMPORARY, TEXT_GOODS, Ground, Place
from .tricks import AROUND, SIGNALLED, STREAMS, Case, play, targets_of
from .values import KINDS, NUMBERS, ODD, PATHS

_SLOW_STARTS = ("run xenon", "index build", "index search")
"""Calls that load the sentence encoder, which takes more than ten seconds of a process."""

_LATEST = 2.5
"""Seconds until which a signal is sent."""


@dataclass(frozen=True)
class Spec:
    """What is to be done in a case, before anything is made for it.

    Attributes:
        name: says what is hostile, and is nobody else's.
        command: whose call it is.
        family: of the cases; how it is built.
        what: whatever the family's builder needs.
        seed: of its random numbers.
        process: whether it runs as a process of its own.
        slow: whether it takes seconds.
    """

    name: str
    command: str
    family: str
    what: tuple[str, ...]
    seed: int = 0
    process: bool = False
    slow: bool = False

    @property
    def limit(self) -> float:
        """Seconds that it may take."""
        return 3 * LIMIT if self.process and loads_encoder(self.name) else LIMIT


def good_case(place: Place, line: str) -> Case:
    """A call that is good."""
    return _case(place, read_call(line))


def make(spec: Spec, ground: Ground) -> Case:
    """Makes whatever a case needs in a place of its own."""
    digest = hashlib.md5(f"{spec.name} {spec.process}".encode()).hexdigest()[:16]
    place = ground.place(f"{spec.seed}-{digest}", Random(f"{spec.seed} {spec.name}"))
    case = _BUILDERS[spec.family](spec, place)
    case.limit = spec.limit
    return case


def _case(place: Place, call: Call) -> Case:
    """A call with the good files that it names."""
    for values in call.given.values():
        for value in values:
            _bring(place, value)
    words = write_call(call.command, call.given)
    case = Case(words, place, place.environment, writes=_written(place, call))
    if "gull-rock" in call.given.get("task", ()):
        case.caches.add(TEMPORARY)  # a story's copy is there as long as its process
    return case


def _bring(place: Place, value: str) -> None:
    for name in (*FOLDERS, *TEXT_GOODS, *MADE_GOODS):
        inside, setting = value.startswith((f"{name}:", f"{name}/")), value.endswith(f"={name}")
        if inside or value in {name, f"./{name}"} or (setting and value != f"save={name}"):
            place.good(name)


_WRITTEN_SETTINGS = frozenset({"save", "skills", "effects"})


def _written(place: Place, call: Call) -> set[str]:
    """What a call may write, relative to the place's root."""
    named = [
        value
        for parameter in commands()[call.command]
        if KINDS[parameter.kind].writes
        for value in call.given.get(parameter.name, ())
    ]
    settings = call.given.get("settings", ())
    pairs = [value.partition("=") for value in settings]
    named += [value for key, _, value in pairs if key in _WRITTEN_SETTINGS]
    if call.command == "sweep run":
        named.append("sweeps")
    if call.command == "view":
        named += [str(default_page(Path(trace))) for trace in call.given.get("trace", ())]
        named += [f"{folder}/pages" for folder in call.given.get("trace", ())]
    return targets_of(place, named)


def _build_value(spec: Spec, place: Place) -> Case:
    line, *changes = spec.what
    call = read_call(line)
    for parameter, value in zip(changes[::2], changes[1::2], strict=True):
        known = next(known for known in commands()[call.command] if known.name == parameter)
        made = KINDS[known.kind].hostile[value](place)
        if known.kind == "flag":
            made = (known.off if value == "off" else None) or known.option or ""
        given = call.given.get(parameter, ())
        if known.several and given and place.random.random() < 0.5:
            values = (*given, made)
        else:
            values = (made, *given[1:])
        call = Call(call.command, {**call.given, parameter: values})
    return _case(place, call)


def _build_setting(spec: Spec, place: Place) -> Case:
    line, key, value = spec.what
    call = read_call(line)
    made = {**ODD, **PATHS, **NUMBERS}[value](place)
    kept = [
        setting for setting in call.given.get("settings", ()) if not setting.startswith(f"{key}=")
    ]
    return _case(place, Call("run", {**call.given, "settings": (*kept, f"{key}={made}")}))


def _build_file(spec: Spec, place: Place) -> Case:
    name, how, line = spec.what
    form = next(form for form in FORMATS if form.name == name)
    damaged = form.damaged(place, how, place.random)
    return good_case(place, line.replace("{}", damaged))


def _build_trick(spec: Spec, place: Place) -> Case:
    line, trick = spec.what
    case = good_case(place, line)
    play(case, spec.family, trick)
    return case


def _build_signal(spec: Spec, place: Place) -> Case:
    line, names = spec.what
    case = good_case(place, line)
    numbers = [signal.Signals[name] for name in names.split()]
    case.signals = tuple((place.random.uniform(0.1, _LATEST), number) for number in numbers)
    return case


_BUILDERS: dict[str, Callable[[Spec, Place], Case]] = {
    "value": _build_value,
    "setting": _build_setting,
    "file": _build_file,
    "around": _build_trick,
    "planner": _build_trick,
    "stream": _build_trick,
    "signal": _build_signal,
}


def _values(line: str) -> Iterator[Spec]:
    call = read_call(line)
    for parameter in commands()[call.command]:
        for value in KINDS[parameter.kind].hostile:
            name = f"{line} | {parameter.option or parameter.name} {value}"
            yield Spec(name, call.command, "value", (line, parameter.name, value))


_PATH_SETTINGS = frozenset(
    {"save", "roles", "game", "games", "pddl", "skills", "effects", "graph", "home"}
)
_ODD_SETTINGS = ("empty", "nul", "newline", "escape", "markup", "surrogate", "tilde", "long")


def _settings(line: str) -> Iterator[Spec]:
    from llm_planning.registry import find_planner
    from llm_planning.running import find_where
    from llm_planning.specs import known_keys

    call = read_call(line)
    if call.command != "run" or "planner" not in call.given or ".py" in line:
        return
    planner = find_planner(call.given["planner"][0])
    where = find_where(planner, domain=None, task=call.given.get("task", (None,))[0])
    for key in known_keys(planner, where):
        paths = PATHS if key in _PATH_SETTINGS else ()
        for value in (*NUMBERS, *_ODD_SETTINGS, *paths):
            name = f"{line} | --set {key}={value}"
            yield Spec(name, "run", "setting", (line, key, value))


def _files() -> Iterator[Spec]:
    for form in FORMATS:
        for line in form.calls:
            command = read_call(line.replace("{}", "x")).command
            for how in form.damage:
                name = f"{line} | {form.name} {how}"
                yield Spec(name, command, "file", (form.name, how, line), slow=form.slow)


_LITTLE = {
    "simulations": "2",
    "simulations_per_action": "1",
    "moves": "1",
    "rounds": "1",
    "depth": "2",
    "d_min": "1",
    "d_max": "2",
    "steps": "20",
    "max_steps": "5",
    "d": "2",
    "iter": "1",
    "remember": "memory",
}
"""Settings of as little work as possible."""


def _planners() -> Iterator[Spec]:
    """Every planner on every task that it lists, without a model."""
    from llm_planning.planners.catalogue import PLANNERS
    from llm_planning.running import fitting_domains
    from llm_planning.specs import known_keys

    for name, spec in PLANNERS.items():
        for domain in fitting_domains(spec):
            keys = known_keys(spec, domain)
            little = "".join(f" --set {key}={_LITTLE[key]}" for key in keys if key in _LITTLE)
            for task in domain.tasks:
                line = f"run {name} --domain {domain.name} --task {task} --model none{little}"
                yield Spec(f"{line} |", "run", "planner", (line, ""), slow=True)
        for line in (f"run {name} --list", f"run {name} --list --json"):
            yield Spec(f"{line} |", "run", "planner", (line, ""))


def _lines(family: str, tricks: dict, lines: tuple[str, ...]) -> Iterator[Spec]:
    for trick in tricks:
        for line in lines:
            yield Spec(f"{line} | {trick}", read_call(line).command, family, (line, trick))


@cache
def _singles() -> tuple[Spec, ...]:
    """Everything that can be wrong by itself."""
    return (
        *(spec for line in CALLS for spec in _values(line)),
        *(spec for line in CALLS for spec in _settings(line)),
        *_files(),
        *_lines("around", AROUND, CALLS),
        *_planners(),
    )


def inside(number: int, *, seed: int, only: str = "", slow: bool = True) -> list[Spec]:
    """Cases to be run inside a process: each of the tables once, as far as the number allows."""
    random = Random(f"inside {seed}")
    pool = [spec for spec in _singles() if only in spec.name and (slow or not spec.slow)]
    drawn: list[Spec] = []
    while pool and len(drawn) < number:
        random.shuffle(pool)
        drawn += [replace(spec, seed=seed * 1_000 + len(drawn)) for spec in pool]
        if only:
            break
        # What is random may be met again; of the rest, two at once.
        values = [spec for spec in pool if spec.family == "value"]
        pool = [spec for spec in pool if spec.family == "file"]
        both = (_both(*random.sample(values, 2)) for _ in range(20 * number if values else 0))
        pool += [spec for spec in both if spec is not None]
    return drawn[:number]


def _both(spec: Spec, other: Spec) -> Spec | None:
    """Two hostile values in one call, where they are of one call and of two parameters."""
    if other.what[0] != spec.what[0] or other.what[1] in spec.what[1::2]:
        return None
    name = f"{spec.name},{other.name.partition('|')[2]}"
    return replace(spec, name=name, what=(*spec.what, *other.what[1:]))


def processes(number: int, *, seed: int, only: str = "") -> list[Spec]:
    """Cases to be run as processes: streams, signals, and some of those of `inside`."""
    quick = tuple(line for line in CALLS if not loads_encoder(line))
    signals = [
        Spec(f"{line} | {names} #{turn}", read_call(line).command, "signal", (line, names))
        for line in SIGNALLED
        for names in ("SIGINT", "SIGTERM", "SIGINT SIGINT", "SIGTERM SIGINT")
        for turn in range(3)
    ]
    streams = list(_lines("stream", STREAMS, quick))
    plain = [spec for spec in _singles() if _fits_a_process(spec)]
    loading = [spec for spec in plain if loads_encoder(spec.name)]
    plain = [spec for spec in plain if not loads_encoder(spec.name)]
    random = Random(f"processes {seed}")
    chosen: list[Spec] = []
    # Of those that take ten seconds, a few; most of the others are what `inside` has, too.
    for family, share in ((loading, 40), (signals, 5), (streams, 5), (plain, 1)):
        fit = [spec for spec in family if only in spec.name]
        random.shuffle(fit)
        chosen += fit[: min(number // share, number - len(chosen))]
    return [replace(spec, process=True, seed=seed * 1_000) for spec in chosen]


def _fits_a_process(spec: Spec) -> bool:
    """Whether it can be a process of its own: its words are such, and its files where they lie."""
    return spec.family != "planner" and not spec.slow and _NO_WORDS.isdisjoint(spec.what)


_NO_WORDS = {"nul", "half-surrogate", "tilde-nul", "nul-value"}
"""What no word of a process can hold."""


def loads_encoder(line: str) -> bool:
    """Whether a call may load the sentence encoder."""
    return line.startswith(_SLOW_STARTS)
