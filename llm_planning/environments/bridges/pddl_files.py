"""The files of problems in PDDL, read by unified-planning; what cannot be read is refused.

unified-planning reads one order of sections, and some of what it reads it takes for something else.
So it is given the sections in its order, and what it would take wrongly is refused before.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from llm_base.files import at_home, read_regular
from llm_base.quoting import printable, quote
from llm_planning.domain import DomainError
from llm_planning.environments.bridges.pddl_words import conjuncts
from llm_planning.environments.pddl_text import (
    PddlError,
    forms_of,
    quoted,
    refuse,
    tokens_of,
    words_of,
)
from llm_planning.names import by_number, remedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llm_planning.environments.pddl_text import Expression, Token

MOST_BYTES: Final = 10_000_000
"""The largest file that is read."""

_SECTIONS: Final = {
    "domain": (
        *(":requirements", ":types", ":constants", ":predicates", ":functions"),
        *(":task", ":method", ":action", ":durative-action", ":process", ":event"),
    ),
    "problem": (
        *(":domain", ":requirements", ":objects", ":htn", ":init", ":goal", ":constraints"),
        ":metric",
    ),
}
"""What is defined -> its sections, in the order in which unified-planning reads them."""

_REPEATED: Final = (":task", ":method", ":action", ":durative-action", ":process", ":event")
"""Sections of which there may be several."""

_REQUIREMENTS: Final = frozenset(
    [
        ":strips",
        ":typing",
        ":negative-preconditions",
        ":disjunctive-preconditions",
        ":equality",
        ":fluents",
        ":adl",
        ":existential-preconditions",
        ":universal-preconditions",
        ":quantified-preconditions",
        ":constraints",
        ":conditional-effects",
        ":numeric-fluents",
        ":durative-actions",
        ":duration-inequalities",
        ":action-costs",
        ":timed-initial-literals",
        ":timed-initial-effects",
        ":hierarchy",
        ":method-preconditions",
        ":contingent",
        ":preferences",
        ":time",
        ":continuous-effects",
        ":derived-predicates",
    ]
)
"""What a file may require. Of these, unified-planning looks at `_LOOKED_AT` alone."""

_LOOKED_AT: Final = frozenset({":hierarchy", ":contingent"})

_SHAPES: Final = {
    **dict.fromkeys(("when", "forall", "exists", "imply", "="), 2),
    **dict.fromkeys(("increase", "decrease", "assign"), 2),
    "not": 1,
}
"""Word -> how many parts follow it; unified-planning leaves out those that are too many."""

_UNKNOWN: Final = {
    "(either": "types that are one of several",
    "(:derived": "derived predicates",
    "probabilistic": "effects by chance",
}
"""What is in files of PDDL and cannot be read: how it is written -> what it is."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_WORD: Final = re.compile(rf"[?:]?{_NAME.pattern}|[-+]?\.?\d[\d.e/-]*|[-+*/=<>]|[<>]=|#t")
_PLACE: Final = re.compile(
    r"[\s.,]+(?:from |found at )?line: (\d+), .*|\s*\(at char \d+\), \(line:(\d+), .*", re.I
)
"""Where unified-planning has found a fault."""


def problem_files(domain: str, problem: str) -> dict[str, Path]:
    """Name of a problem -> its file, in the order of the numbers in the names.

    Args:
        domain: file of the domain.
        problem: file of the problem, or a folder of problems, in which domains are left out.

    Raises:
        DomainError: a file is missing, or the folder has no problem.
    """
    for key, name in {"domain": domain, "problem": problem}.items():
        if not name:
            raise DomainError(f"setting {key} is empty: set it to a file of PDDL")
        if not os.path.exists(at_home(name)):
            raise DomainError(f"{key}={printable(name)} does not exist: set it to a file of PDDL")
    place, of_domain = Path(at_home(problem)), Path(at_home(domain))
    if not place.is_dir():
        return {place.stem: place}
    found = {
        file.stem: file
        for file in place.iterdir()
        if file.suffix.lower() == ".pddl"
        and not file.samefile(of_domain)
        and not _defines_domain(file)
    }
    if not found:
        raise DomainError(
            f"problem={printable(problem)} has no file *.pddl beside the domain: add one"
        )
    return {name: found[name] for name in sorted(found, key=by_number)}


def _defines_domain(path: Path) -> bool:
    """Whether a file begins with a domain; no, if it cannot be read."""
    try:
        tokens = tokens_of(path, read_regular(path, most=MOST_BYTES))
        return [word for _, word in islice(tokens, 4)] == ["(", "define", "(", "domain"]
    except (OSError, PddlError):
        return False


def hash_of(domain: str, problem: str) -> str:
    """SHA-256 of the files that `problem_files` takes; empty if they cannot be read."""
    hashed = hashlib.sha256()
    try:
        for path in (Path(at_home(domain)), *problem_files(domain, problem).values()):
            content = read_regular(path, most=MOST_BYTES)
            hashed.update(f"{path.name}\0{len(content)}\0".encode() + content)
    except (OSError, ValueError):
        return ""
    return hashed.hexdigest()


@dataclass(frozen=True, slots=True)
class _Section:
    """A section of a definition: `(:init ...)`.

    Attributes:
        head: its first word.
        parts: what follows.
        tokens: all of it.
    """

    head: str
    parts: list[Expression]
    tokens: list[Token]


@dataclass(frozen=True, slots=True)
class _Definition:
    """A domain or a problem.

    Attributes:
        kind: which of these.
        file: as errors name it.
        name: its own.
        sections: of it, in the order in which unified-planning reads them.
    """

    kind: str
    file: str
    name: str
    sections: list[_Section]

    def parts(self, head: str) -> list[Expression]:
        """What stands in a section; nothing if there is none."""
        return next((section.parts for section in self.sections if section.head == head), [])


def _definition(key: str, path: Path) -> _Definition:
    """What a file defines.

    Args:
        key: of the setting that names the file: what it has to define.

    Raises:
        DomainError: it cannot be read, or defines something else.
    """
    try:
        content = read_regular(path, most=MOST_BYTES)
    except OSError as error:
        raise DomainError(f"{key}={path}: {error.strerror}; set it to a file of PDDL") from error
    file = f"{key}={path}"
    tokens = [part for token in tokens_of(file, content) for part in _parted(token)]
    match [form for _, form in forms_of(file, tokens)]:
        case [["define", [kind, str(name)], *parts]] if kind == key:
            groups = _groups(tokens[len(["(", "define", "(", "domain", "NAME", ")"]) : -1])
            sections = [
                _section(file, key, part, group) for part, group in zip(parts, groups, strict=True)
            ]
        case [["define", [("domain" | "problem") as kind, *_], *_]]:
            refuse(file, f"it defines a {kind}: set {key} to a file that defines a {key}")
        case _:
            refuse(file, f"it has something else than one (define ({key} NAME) ...)")
    for head, times in Counter(section.head for section in sections).items():
        if times > 1 and head not in _REPEATED:
            refuse(file, f"it has {times} sections ({head} ...)")
    order = _SECTIONS[key].index
    return _Definition(key, file, name, sorted(sections, key=lambda section: order(section.head)))


def _parted(token: Token) -> Iterator[Token]:
    """A type without a blank before it, as in `?x -ball`, is a word of its own."""
    line, word = token
    if len(word) > 1 and word[0] == "-" and word[1].isalpha():
        yield line, "-"
        word = word[1:]
    yield line, word


def _groups(tokens: Iterable[Token]) -> list[list[Token]]:
    """The words and the outermost parentheses among tokens, each with what is in it."""
    groups: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if not depth:
            groups.append([])
        groups[-1].append(token)
        depth += {"(": 1, ")": -1}.get(token[1], 0)
    return groups


def _section(file: str, of: str, part: Expression, tokens: list[Token]) -> _Section:
    """A section; its names are such as unified-planning reads."""
    head = part[0] if isinstance(part, list) and part else ""
    if not isinstance(head, str) or not head:
        refuse(file, f"line {tokens[0][0]}: {quoted(part)} stands where a section begins")
    if head not in _SECTIONS[of]:
        if (sign := f"({head}") in _UNKNOWN:
            refuse(file, _not_known(sign))
        where, known = f"line {tokens[0][0]}", remedy(head, _SECTIONS[of])
        refuse(file, f"{where}: the section {quote(head)} is none of a {of}; {known}")
    has_names_alone = head in {":types", ":constants", ":objects"}
    for line, word in () if head in {":domain", ":requirements"} else tokens[2:]:
        pattern = _NAME if has_names_alone and word != "-" else _WORD
        if word not in {"(", ")"} and not pattern.fullmatch(word):
            rule = "a name is a letter, and letters, digits, - and _ after it"
            refuse(file, f"line {line}: {quote(word)} is not read: {rule}")
    return _Section(head, list(part[1:]), tokens)


def _not_known(sign: str) -> str:
    return f"unified-planning does not know {_UNKNOWN[sign]}, written {sign}"


def read_model(domain: Path, problem: Path) -> Any:
    """The problem of two files, as unified-planning has it.

    Raises:
        DomainError: a file cannot be read, the two do not belong together, or the problem is not
            classical.
    """
    from unified_planning.engines.sequential_simulator import UPSequentialSimulator
    from unified_planning.environment import get_environment

    get_environment().credits_stream = None
    # An action may be called as a predicate is.
    get_environment().error_used_name = False
    warnings.filterwarnings("ignore", category=UserWarning, module="unified_planning")
    general, special = _definition("domain", domain), _definition("problem", problem)
    _check_domain(general)
    _check_problem(special, of=general)
    texts = _text(general), _text(special, start=_unsaid(special, of=general))
    try:
        model = _reader().parse_problem_string(*texts)
    except Exception as error:
        try:
            _reader().parse_problem_string(texts[0])
        except Exception as first:
            raise _unreadable(general, first) from first
        raise _unreadable(special, error) from error
    known = UPSequentialSimulator.supported_kind().features - {"OBJECT_FLUENTS", "STATE_INVARIANTS"}
    try:
        beyond = model.kind.features - known - {"UNDEFINED_INITIAL_NUMERIC"}
    except ZeroDivisionError as error:
        raise DomainError(
            f"problem={problem} divides by a function that is always 0: give it another value"
        ) from error
    if beyond:
        words = ", ".join(sorted(feature.lower().replace("_", " ") for feature in beyond))
        raise DomainError(f"domain={domain} is not classical, it has {words}: name another one")
    if any(metric.is_minimize_makespan() for metric in model.quality_metrics):
        # Actions of a classical problem take no time.
        model.clear_quality_metrics()
    if not conjuncts(model.goals):
        raise DomainError(f"problem={problem} has no goal: add conditions to its (:goal ...)")
    if model.environment.expression_manager.And(model.goals).simplify().is_false():
        raise DomainError(f"problem={problem} has a goal that contradicts itself: no plan exists")
    return model


def _reader() -> Any:
    """unified-planning's reader, with two of its mistakes mended."""
    from unified_planning.io import PDDLReader

    reader = PDDLReader()
    # Objects and variables without a type are of the type `object`, also where all others have one.
    reader._check_if_object_type_is_needed = lambda _: True
    has_cost = reader._instantaneous_action_has_cost
    # It takes one effect for the cost. Several, or one for each object, change a number as others.
    reader._instantaneous_action_has_cost = lambda action: (
        has_cost(action)
        and [len(effect.forall) for effect in action.effects if effect.fluent == reader._totalcost]
        in ([], [0])
    )
    return reader


def _check_domain(domain: _Definition) -> None:
    """Refuses actions that unified-planning takes for others."""
    _check_requirements(domain)
    for section in domain.sections:
        if section.head != ":action":
            continue
        action = f"the action {quoted(section.parts[:1])[1:-1]}"
        pairs = zip(section.parts[1::2], section.parts[2::2], strict=False)
        fields = {key: value for key, value in pairs if isinstance(key, str)}
        for word, times in Counter(words_of(fields.get(":parameters", []))).items():
            if times > 1 and word.startswith("?"):
                refuse(domain.file, f"{action} has the parameter {word} {times} times: rename one")
        _check_shapes(domain.file, section.parts)
        if why := _mistaken(fields.get(":effect", [])):
            refuse(domain.file, f"{action} has {why}")


def _mistaken(effect: Expression) -> str:
    """What unified-planning would take for another effect, and what to do; empty if it is none."""
    nothing: frozenset[str] = frozenset()
    waiting = [(effect, False, nothing)]
    while waiting:
        part, is_conditional, unused = waiting.pop()
        match part:
            case ["when", *_] if is_conditional:
                instead = "write one of them, with (and ...) of their conditions"
                return f"(when ...) inside of (when ...): {instead}"
            case ["when", condition, *parts]:
                is_conditional, unused = True, unused.difference(words_of(condition))
            case ["forall", variables, *parts]:
                named = (word for word in words_of(variables) if word.startswith("?"))
                unused = unused.union(named)
            case ["increase" | "decrease", *_] if unused.difference(words_of(part)):
                return f"{quoted(part)} for every {min(unused)}, which it does not name: name it"
            case [*parts]:
                pass
            case _:
                continue
        waiting += [(inner, is_conditional, unused) for inner in parts]
    return ""


def _check_shapes(file: str, parts: Iterable[Expression]) -> None:
    """Refuses conditions and effects with another number of parts than they can have."""
    waiting = [*parts]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str) or not part:
            continue
        head, *after = part
        most = _SHAPES.get(head) if isinstance(head, str) else None
        if most is not None and len(after) != most:
            refuse(file, f"{quoted(part)} has {len(after)} parts after {head}, not {most}")
        waiting += part


def _check_requirements(definition: _Definition) -> None:
    for word in words_of(definition.parts(":requirements")):
        if word not in _REQUIREMENTS:
            refuse(
                definition.file, f"it requires {quote(word)}, which unified-planning does not know"
            )


def _check_problem(problem: _Definition, *, of: _Definition) -> None:
    """Refuses a problem of another domain, and a start that contradicts itself or is left open."""
    _check_requirements(problem)
    if (named := problem.parts(":domain")) != [of.name]:
        refuse(
            problem.file,
            f"it is of the domain {quoted(named)[1:-1] or 'of no name'}, and {of.file} defines "
            f"{of.name}: name a domain and a problem that belong together",
        )
    _check_shapes(problem.file, (*problem.parts(":init"), *problem.parts(":goal")))
    known: dict[str, object] = {}
    for fact in _facts(problem):
        text = quoted(fact)
        if isinstance(fact, str) or fact[:1] in (["or"], ["oneof"], ["unknown"]):
            refuse(problem.file, f"(:init ...) has {text}, which is no fact")
        if any(word.startswith("?") for word in words_of(fact)):
            refuse(problem.file, f"(:init ...) has {text}: a variable is no object")
        of_what, value = (fact[1:2], fact[2:]) if fact[:1] == ["="] else ([fact], [])
        if fact[:1] == ["not"]:
            of_what, value = fact[1:], ["not"]
        what = _number(value)
        if known.setdefault(" ".join(words_of(of_what)), what) != what:
            said = quoted(of_what)[1:-1]
            refuse(problem.file, f"(:init ...) contradicts itself: it says two things of {said}")


def _number(value: list[Expression]) -> object:
    """The number that a value is, however it is written; other values as they are."""
    if len(value) == 1 and isinstance(value[0], str):
        with suppress(ValueError, ZeroDivisionError):
            return Fraction(value[0])
    return value


def _facts(problem: _Definition) -> list[Expression]:
    """What holds at the start, outside of `(and ...)`."""
    match facts := problem.parts(":init"):
        case [["and", *inner]]:
            return inner
    return facts


def _unsaid(problem: _Definition, *, of: _Definition) -> Sequence[str]:
    """What goes without saying at the start: that nothing was spent so far."""
    if ["total-cost"] not in of.parts(":functions"):
        return ()
    is_said = any(fact[:2] == ["=", ["total-cost"]] for fact in _facts(problem))
    return () if is_said else ("(", "=", "(", "total-cost", ")", "0", ")")


def _text(definition: _Definition, *, start: Sequence[str] = ()) -> str:
    """A definition as unified-planning reads it, line by line as in its file.

    Args:
        start: what holds at the start, beside what is said of it.
    """
    text = [f"(define ({definition.kind} it)"]
    last, before = 1, ""
    for section in definition.sections:
        for line, word in _readable(section, start):
            parts = "(" not in before and word != ")"
            text.append("\n" * (line - last) + " " * parts + word)
            last, before = max(line, last), word
    return "".join((*text, ")"))


def _readable(section: _Section, start: Sequence[str]) -> list[Token]:
    """A section as unified-planning reads it: nothing in it is left out or left open."""
    tokens, parts, line = [*section.tokens], section.parts, section.tokens[-1][0]
    match section.head:
        case ":domain":
            return [*tokens[:2], (line, "it"), tokens[-1]]
        case ":requirements":
            looked_at = [token for token in tokens if token[1] in _LOOKED_AT]
            return [*tokens[:2], *looked_at, tokens[-1]] if looked_at else []
        case ":types" | ":constants" | ":predicates" | ":functions" | ":objects":
            return _distinct(tokens) if parts else []
        case ":action" if parts[1:2] != [":parameters"]:
            tokens[3:3] = [(tokens[2][0], word) for word in (":parameters", "(", ")")]
        case ":metric" if len(parts) == 2 and isinstance(parts[1], str):
            tokens[3:4] = [(line, word) for word in ("(", parts[1], ")")]
        case ":init":
            tokens[-1:-1] = [(line, word) for word in start]
    return tokens


def _distinct(tokens: Sequence[Token]) -> list[Token]:
    """Declarations in which no parameter is named as one before it, and nothing `- number`.

    A declaration gives its parameters a place and a type; their names mean nothing.
    """
    seen: set[str] = set()
    found: list[Token] = []
    for line, word in tokens:
        if word == "(":
            seen.clear()
        name = word
        while name.startswith("?") and name in seen:
            name += "-too"
        seen.add(name)
        found.append((line, name))
        if [word for _, word in found[-3:]] == [")", "-", "number"]:
            del found[-2:]
    return found


def _unreadable(definition: _Definition, error: Exception) -> DomainError:
    why = printable(str(error).strip().partition("\n")[0]) or type(error).__name__
    why = why.partition(" Different elements of a problem")[0]
    if isinstance(error, KeyError):
        why = f"the type {why} is not declared"
    why = _PLACE.sub(lambda found: f" in line {found[1] or found[2]}", why)
    words = {word for section in definition.sections for _, word in section.tokens}
    for sign in _UNKNOWN:
        if sign.strip("(") in words:
            why = _not_known(sign)
    return DomainError(f"{definition.file} is not read as PDDL: {why}")
