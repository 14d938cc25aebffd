"""The commands, derived from the program itself, and good calls of each that cases spoil.

A new command or option joins on its own if its type tells its kind (a truth value, a whole number,
one of a list). Any other needs a row in `PARAMETERS`, and a command without a good call one in
`CALLS`.
"""

import shlex
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache

import typer

PARAMETERS: dict[tuple[str, str], str] = {
    ("run", "planner"): "planner",
    ("run", "domain"): "domain",
    ("run", "task"): "task",
    ("run", "model"): "model",
    ("run", "role_model"): "pairs",
    ("run", "settings"): "pairs",
    ("run", "trace"): "output file",
    ("models fetch", "name"): "model",
    ("models path", "name"): "model",
    ("sweep run", "file"): "file",
    ("sweep run", "out"): "output folder",
    ("sweep run", "model"): "model",
    ("sweep run", "role_model"): "pairs",
    ("sweep run", "settings"): "pairs",
    ("sweep export", "out"): "output file",
    ("sweep report", "by"): "name",
    ("sweep report", "mean"): "name",
    ("report paper", "name"): "name",
    ("report paper", "table"): "name",
    ("report paper", "source"): "ledger",
    ("report paper", "csv"): "output file",
    ("report paper", "picture"): "output file",
    ("index build", "file"): "file",
    ("index build", "out"): "output file",
    ("index build", "model"): "model",
    ("index search", "index"): "index",
    ("index search", "texts"): "texts",
    ("index search", "model"): "model",
    ("minecraft requirements", "items"): "name",
    ("distill", "domain"): "domain",
    ("distill", "model"): "model",
    ("distill", "out"): "output folder",
    ("distill", "minutes"): "count",
    ("distill", "batches"): "count",
    ("distill", "rate"): "count",
    ("distill", "role"): "name",
    ("distill", "start"): "model",
    ("distill", "from_traces"): "file",
    ("distill", "hold_out"): "name",
    ("distill", "also"): "pairs",
    ("distill", "export"): "output file",
    ("view", "trace"): "file",
    ("view", "other"): "file",
    ("view", "out"): "output file",
    ("view", "trials"): "pages",
    ("view", "live"): "lasting flag",
    ("roles measure", "domain"): "domain",
    ("roles measure", "model"): "model",
    ("roles measure", "role"): "name",
    ("roles measure", "hold_out"): "name",
    ("roles measure", "out"): "output file",
    ("roles measure", "ledger"): "output folder",
    ("gpu-check", "out"): "output folder",
    ("gpu-check", "only"): "name",
    ("gpu-check", "model"): "model",
    ("*", "ray_address"): "address",
    ("*", "device"): "device",
    ("*", "seed"): "seed",
    ("*", "trust"): "trusted",
    ("sweep resume", "folder"): "ledger to go on with",
    ("sweep *", "folder"): "ledger",
}
"""(Command, parameter) -> kind; the first row that fits. `*` stands for any words at the end."""

_TOO = "--model none --task cook-meat --set roles=rules --set k=2 --set d=2 --set iter=2"
_GAME = "--model none --task trap-door --set moves=1 --set simulations=2 --set remember=off"
_BLOCKS = "--model none --task four-blocks --set moves=2"
_HOME = "--domain household --model none --set moves=1"
_CHAIN = _TOO.replace(" --set k=2", "").replace(" --set iter=2", "")
_PLUS = f"{_TOO} --set attempts=3 --set executions=2 --set refinements=2"
_XENON = "--model none --task wood --set roles=table12 --set plans=0 --set steps=6"

CALLS: tuple[str, ...] = (
    f"run too {_TOO}",
    f"run cot {_CHAIN} --json",
    f"run too-plus {_PLUS} --set skills=skills --set effects=effects",
    "run drip-react --domain minecraft --task cook-meat --model none --set roles=rules "
    "--set execution=programs --set tries=1 --set moves=2 --set skills=skills",
    "run drip --domain blocksworld --task section-4.1.4 --model none --set roles=roles.yaml --json",
    "run drip-plus --domain blocksworld --task section-4.1.4 --model none --set roles=rules",
    f"run uct {_GAME} --trace trace.jsonl",
    f"run puct {_GAME} --set prior=uniform --no-cache",
    f"run mc-dml-uct {_GAME.replace('simulations=2', 'simulations_per_action=1')} --json",
    f"run uct {_BLOCKS} --set simulations=2 --set problem=3 --set rules=standard",
    f"run react {_BLOCKS} --set roles=rules --set texts=predicates --set pddl=blocks --json",
    f"run uct {_HOME} --set simulations=2 --set home=flat.yaml --set problem=2 --set hands=2",
    f"run llm-mcts {_HOME} --set simulations=2 --set roles=rules --set width=2 --set rollouts=20",
    f"run llm-mcts-plus {_HOME} --set simulations=2 --set roles=rules --set interpretation=asked "
    "--set home=flat.yaml --json",
    f"run llm-mcts-policy {_HOME} --set roles=rules --set choice=majority --trace trace.jsonl",
    "run l-model --model none --set roles=rules --set graph=flights --json",
    "run l-policy --model none --set roles=travel-roles.yaml --set among=mid --set problem=7",
    "run l-model-multiplication --model none --set roles=rules --set digits=2 --json",
    f"run xenon {_XENON} --set save=saved.json",
    "run plan-oracle-actions --model none --list",
    "run uct --domain own_domain.py:Stairs --model none --set moves=2 --set simulations=3",
    "run own_planner.py:idle --domain own_domain.py:Stairs --model none --seed 3",
    "run --list --json",
    "doctor --json",
    "models list --json",
    "models path all-minilm-l6-v2",
    "models fetch all-minilm-l6-v2 --json",
    "cache show --json",
    "cache clear --yes --only vectors --json",
    "view ledger --trials 1 --json",
    "view ledger --out pages --trials all",
    "sweep run sweep.yaml --out out --concurrency 1",
    "sweep run sweep.yaml --dry-run --json",
    "sweep resume ledger --json",
    "sweep status ledger",
    "sweep report ledger --by planner --mean calls --json",
    "sweep export ledger --out rows.csv",
    "sweep export ledger --out rows.parquet --json",
    "report paper too",
    "report paper too oracles --from ledger --csv cells.csv",
    "report paper xenon table12 --from ledger --plot picture.svg --json",
    "index build entries.txt --out built",
    "index build entries.jsonl --out built",
    "index search index fridge 'a table' -k 2 --json",
    "index search index sofa",
    "minecraft requirements torch piston --json",
    "view trace.jsonl --out page.html --json",
    "view trace.jsonl trace.jsonl --out page.html",
    "distill minecraft --export chats.jsonl --questions 5 --seed 1",
    "roles measure minecraft --model none --role prior --questions 2 --ledger out --json",
)
"""Good calls, with names of `ground`'s good files; quick, and without a language model."""


LASTING = frozenset({"gpu-check"})
"""Commands that run for minutes where a call loses an option: `test_gpu_check.py` has their bad
values."""


class UnknownKindError(LookupError):
    """A parameter has no kind: name it in `PARAMETERS`."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command.

    Attributes:
        name: of the function's parameter.
        option: as it is written; None for an argument.
        off: what says the opposite of a flag, if there is such.
        kind: of its values; see `values.KINDS`.
        several: whether it takes several values.
        required: whether the command needs it.
    """

    name: str
    option: str | None
    off: str | None
    kind: str
    several: bool
    required: bool

    @property
    def is_flag(self) -> bool:
        return self.kind.endswith("flag")


@cache
def commands() -> dict[str, tuple[Parameter, ...]]:
    """Command -> its parameters, arguments first and in order."""
    from llm_planning.commands.app import app

    found = {
        name: tuple(_parameter(name, param, hints) for param in params)
        for name, params, hints in _leaves(typer.main.get_command(app), ())
    }
    return {
        name: tuple(sorted(known, key=lambda parameter: parameter.option is not None))
        for name, known in found.items()
    }


def kind_of(command: str, name: str, hint: object) -> str:
    """The kind of a parameter: what the table says, else what its type tells.

    Raises:
        UnknownKindError: neither does.
    """
    for (where, parameter), kind in PARAMETERS.items():
        here = where == command or (where.endswith("*") and command.startswith(where[:-1]))
        if here and parameter == name:
            return kind
    bare = _bare(hint)
    if bare is bool:
        return "flag"
    if bare is int:
        return "count"
    if typing.get_origin(bare) is typing.Literal or (
        isinstance(bare, type) and issubclass(bare, Enum)
    ):
        return "choice"
    raise UnknownKindError(
        f"the parameter {name!r} of `{command}`: name its kind in PARAMETERS of {__name__}"
    )


@dataclass(frozen=True)
class Call:
    """A good call.

    Attributes:
        command: its words.
        given: parameter -> values; of a flag, how it was written.
    """

    command: str
    given: dict[str, tuple[str, ...]]


@cache
def read_call(line: str) -> Call:
    """A line of `CALLS`, taken apart."""
    words = shlex.split(line)
    command = max(
        (name for name in commands() if words[: name.count(" ") + 1] == name.split()), key=len
    )
    rest = words[command.count(" ") + 1 :]
    known = commands()[command]
    options = {parameter.option: parameter for parameter in known if parameter.option}
    options |= {parameter.off: parameter for parameter in known if parameter.off}
    places = [parameter for parameter in known if parameter.option is None]
    given: dict[str, list[str]] = {}
    while rest:
        word = rest.pop(0)
        if word in options:
            parameter = options[word]
            given.setdefault(parameter.name, []).append(word if parameter.is_flag else rest.pop(0))
            continue
        parameter = places[0] if places[0].several else places.pop(0)
        given.setdefault(parameter.name, []).append(word)
    return Call(command, {name: tuple(values) for name, values in given.items()})


def write_call(command: str, given: dict[str, tuple[str, ...]]) -> list[str]:
    """The words of a call."""
    words = command.split()
    for parameter in commands()[command]:
        for value in given.get(parameter.name, ()):
            if parameter.option is None or parameter.is_flag:
                words.append(value)
            elif parameter.option.startswith("--") and value.startswith("-"):
                words.append(f"{parameter.option}={value}")
            else:
                words += [parameter.option, value]
    return words


def _leaves(
    command: typing.Any, words: tuple[str, ...]
) -> Iterator[tuple[str, list[typing.Any], dict[str, object]]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield from _leaves(inner, (*words, name))
    if not hasattr(command, "commands"):
        # A command's wrapped function has its annotations.
        hints = typing.get_type_hints(command.callback, include_extras=True)
        yield " ".join(words), list(command.params), hints


def _parameter(command: str, param: typing.Any, hints: dict[str, object]) -> Parameter:
    is_option = param.param_type_name == "option"
    return Parameter(
        name=param.name,
        option=max(param.opts, key=len) if is_option else None,
        off=param.secondary_opts[0] if param.secondary_opts else None,
        kind=kind_of(command, param.name, hints.get(param.name)),
        several=bool(param.multiple) or param.nargs == -1,
        required=bool(param.required),
    )


def _bare(hint: object) -> object:
    """A type without `Annotated`, `| None` and `list`."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated or origin is list:
        return _bare(inner[0])
    if origin in {typing.Union, types.UnionType}:
        return _bare(next(hint for hint in inner if hint is not type(None)))
    return hint
