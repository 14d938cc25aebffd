r"""Finite languages written as regular expressions, built from small exact pieces.

Every piece keeps to what the automata compilers behind the engine all read alike: literals,
character classes, groups, alternatives, `?` and `{m,n}`; no anchors, look-around or
back-references. A match is always meant to be a match of the whole text.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from itertools import chain, groupby
from re import _parser  # type: ignore[attr-defined]  # no other module reads regular expressions
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAIN_CHARACTERS = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in '"\\')
"""What free text is written in: printable ASCII that JSON needs not escape."""

_PLAIN_CLASS = r"[ !#-\[\]-~]"
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_SPECIAL_IN_CLASS = frozenset(r"\[]^-")
_LARGEST_CLASS = 1_000
_CATEGORIES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A finite set of texts.

    Attributes:
        regex: matches exactly these texts; may be concatenated with others as it is.
        max_bytes: length of the longest text in UTF-8.
        size: about how many states a byte automaton of the language has, at most.
        examples: some of the texts, which together visit every alternative and both ends of every
            range and repetition.
    """

    regex: str
    max_bytes: int
    size: int
    examples: tuple[str, ...]


def words(texts: Iterable[str]) -> Pattern:
    """One of the given texts, at least one, factored into a prefix tree that compiles fast."""
    choices = sorted(set(texts))
    prefixes = {choice[:end] for choice in choices for end in range(1, len(choice) + 1)}
    return Pattern(
        _tree(choices),
        max(len(choice.encode()) for choice in choices),
        sum(len(prefix[-1].encode()) for prefix in prefixes),
        tuple(choices),
    )


def characters(least: int, most: int) -> Pattern:
    """Free text of `least` to `most` plain characters."""
    # The longer example begins with a blank and holds both cases: a setting that strips or folds
    # text shows itself when the example is read back.
    examples = ("~" * least, (" Az~" * (most // 4 + 1))[:most])
    return Pattern(_PLAIN_CLASS + _times(least, most) if most else "", most, most, examples)


def integers(least: int, most: int) -> Pattern:
    """Decimal integers from `least` to `most`, without needless zeros and signs."""
    alternatives = [f"-{digits}" for digits in _magnitudes(max(1, -most), -least)]
    alternatives += _magnitudes(max(0, least), most)
    longest = max(len(str(least)), len(str(most)))
    return Pattern(_any_of(alternatives), longest, 4 * longest**2, (str(least), str(most)))


def sequence(parts: Sequence[Pattern]) -> Pattern:
    """Every part in turn."""
    rounds = max((len(part.examples) for part in parts), default=1)
    return Pattern(
        "".join(part.regex for part in parts),
        sum(part.max_bytes for part in parts),
        sum(part.size for part in parts),
        tuple(
            "".join(part.examples[i % len(part.examples)] for part in parts) for i in range(rounds)
        ),
    )


def choice(parts: Sequence[Pattern]) -> Pattern:
    """Any one of the parts."""
    return Pattern(
        _any_of([part.regex for part in parts]),
        max(part.max_bytes for part in parts),
        sum(part.size for part in parts),
        tuple(chain.from_iterable(part.examples for part in parts)),
    )


def or_words(free: Pattern, texts: Iterable[str]) -> Pattern:
    """A language of free words, and those of some texts that it lacks in any case of letters."""
    lacking = [text for text in texts if not re.fullmatch(free.regex, text, re.IGNORECASE)]
    return choice([free, words(lacking)]) if lacking else free


def repetition(item: Pattern, least: int, most: int) -> Pattern:
    """From `least` to `most` items, one after another."""
    if most == 0:
        return words([""])
    examples = (item.examples[0] * least, *(example * most for example in item.examples))
    return Pattern(
        f"({item.regex}){_times(least, most)}", item.max_bytes * most, item.size * most, examples
    )


def listing(item: Pattern, least: int, most: int) -> Pattern:
    """From `least` to `most` items with commas between them."""
    if most == 0:
        return words([""])
    more = repetition(sequence([words([","]), item]), max(least, 1) - 1, most - 1)
    listed = sequence([item, more])
    return repetition(listed, 0, 1) if least == 0 else listed


def finite_regex(regex: str, least: int = 0, most: int | None = None) -> Pattern:
    r"""How JSON spells, between the quotes, the texts that a finite regular expression matches.

    The expression is meant to match the whole text, so `^` at its start and `$` at its end say
    nothing new. The wildcard, negated classes and classes such as `\w` stand for plain characters
    only; any other character has to be named.

    Args:
        regex: in Python's syntax.
        least: shortest text that is allowed, in characters.
        most: longest text that is allowed, in characters; None allows any.

    Raises:
        ValueError: the expression is malformed, repeats without bound, matches texts of other
            lengths, or uses what the automata compilers do not share. The message continues a
            sentence that has named the expression.
    """
    try:
        with warnings.catch_warnings():
            # Python warns of classes that other compilers read as operations on sets.
            warnings.simplefilter("error", FutureWarning)
            parsed = _parser.parse(regex)
    except (re.error, FutureWarning) as error:
        raise ValueError(f"is not a portable regular expression ({error})") from None
    if parsed.state.flags != re.UNICODE:
        raise ValueError("sets flags")
    nodes = list(parsed)
    if nodes and _is_anchor(nodes[0], "AT_BEGINNING"):
        del nodes[0]
    if nodes and _is_anchor(nodes[-1], "AT_END"):
        del nodes[-1]
    pattern = sequence([_translate(node) for node in nodes])
    shortest, longest = map(int, parsed.getwidth())
    if shortest < least or (most is not None and longest > most):
        raise ValueError(f"matches texts of {shortest} to {longest} characters, beyond the bounds")
    return pattern


def _is_anchor(node: tuple[Any, Any], place: str) -> bool:
    return _name(node) == "AT" and str(node[1]) in {place, f"{place}_STRING"}


def _translate(node: tuple[Any, Any]) -> Pattern:
    """One node of a parsed regular expression."""
    name, value = _name(node), node[1]
    match name:
        case "LITERAL" | "NOT_LITERAL" | "IN" | "ANY":
            return _one_of(to_json(member).decode()[1:-1] for member in _members(name, value))
        case "MAX_REPEAT" | "MIN_REPEAT":
            least, most, body = value
            if most == _parser.MAXREPEAT:
                raise ValueError("repeats without bound: write {0,8} for *, {1,8} for +")
            return repetition(sequence([_translate(part) for part in body]), least, most)
        case "BRANCH":
            return choice([sequence([_translate(part) for part in branch]) for branch in value[1]])
        case "SUBPATTERN" if not (value[1] or value[2]):
            return sequence([_translate(part) for part in value[3]])
        case _:
            raise ValueError(
                f"uses {name.lower()}, which has no place in it: keep to characters, classes, "
                "groups, alternatives and bounded repetition"
            )


def _one_of(texts: Iterable[str]) -> Pattern:
    """One of some texts, counted as an automaton has them: all lead to the same state."""
    pattern = words(texts)
    spelled = {text.encode() for text in pattern.examples}
    before = {text[:end] for text in spelled for end in range(1, len(text))}
    return replace(pattern, size=1 + len(before))


def _members(name: str, value: Any) -> list[str]:  # noqa: ANN401  (the parser's own values)
    """The characters that a single-character node stands for."""
    match name:
        case "LITERAL":
            return [chr(value)]
        case "NOT_LITERAL":
            return [character for character in PLAIN_CHARACTERS if ord(character) != value]
        case "ANY":
            return list(PLAIN_CHARACTERS)
    named: set[str] = set()
    negated = False
    for entry in value:
        match _name(entry):
            case "NEGATE":
                negated = True
            case "LITERAL":
                named.add(chr(entry[1]))
            case "RANGE":
                low, high = entry[1]
                if high - low >= _LARGEST_CLASS:
                    raise ValueError(f"has a class of more than {_LARGEST_CLASS} characters")
                named.update(map(chr, range(low, high + 1)))
            case _:
                category = _CATEGORIES[str(entry[1])]
                named.update(re.findall(category, PLAIN_CHARACTERS))
    members = [c for c in PLAIN_CHARACTERS if c not in named] if negated else sorted(named)
    if not members:
        raise ValueError("has a class without any character that may be written")
    return members


def _name(node: tuple[Any, Any]) -> str:
    return str(node[0])


def _tree(texts: Sequence[str]) -> str:
    """Regular expression of distinct sorted texts, stating shared beginnings and ends once."""
    if len(texts) == 1:
        return _escape(texts[0])
    start = _shared(texts[0], texts[-1])  # sorted: what both ends share, all share
    prefix, texts = texts[0][:start], [text[start:] for text in texts]
    reversed_texts = sorted(text[::-1] for text in texts)
    end = _shared(reversed_texts[0], reversed_texts[-1])
    middles = sorted(text[: len(text) - end] for text in texts)
    firsts: dict[str, list[str]] = {}  # by what may follow them
    for first, group in groupby(filter(None, middles), key=lambda text: text[0]):
        firsts.setdefault(_tree([text[1:] for text in group]), []).append(first)
    branches = [_class(group) + rest for rest, group in firsts.items()]
    middle = f"({'|'.join(branches)})?" if middles[0] == "" else _any_of(branches)
    ending = reversed_texts[0][:end][::-1]
    return _escape(prefix) + middle + _escape(ending)


def _shared(text: str, other: str) -> int:
    """Number of characters that two texts begin with alike."""
    pairs = zip(text, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(text), len(other)))


def _magnitudes(least: int, most: int) -> list[str]:
    """Alternatives for the integers from `least` >= 0 to `most`, by number of digits."""
    alternatives = []
    for length in range(len(str(least)), len(str(most)) + 1 if least <= most else 0):
        lowest = 10 ** (length - 1) if length > 1 else 0
        alternatives += _digits(str(max(least, lowest)), str(min(most, 10**length - 1)))
    return alternatives


def _digits(low: str, high: str) -> list[str]:
    """Alternatives for the digit strings from `low` to `high`, equally long."""
    rest = len(low) - 1
    if low == high:
        return [low]
    if low[0] == high[0]:
        return [low[0] + _any_of(_digits(low[1:], high[1:]))]
    zeros, nines = "0" * rest, "9" * rest
    first, last = int(low[0]), int(high[0])
    below, above = [], []
    if low[1:] != zeros:
        below = [low[0] + _any_of(_digits(low[1:], nines))]
        first += 1
    if high[1:] != nines:
        above = [high[0] + _any_of(_digits(zeros, high[1:]))]
        last -= 1
    between = [_class("0123456789"[first : last + 1]) + _free_digits(rest)] if first <= last else []
    return below + between + above


def _free_digits(number: int) -> str:
    return "[0-9]" + _times(number, number) if number else ""


def _times(least: int, most: int) -> str:
    if least == most:
        return "" if most == 1 else f"{{{most}}}"
    return "?" if most == 1 else f"{{{least},{most}}}"


def _any_of(alternatives: Sequence[str]) -> str:
    return alternatives[0] if len(alternatives) == 1 else f"({'|'.join(alternatives)})"


def _class(members: Sequence[str]) -> str:
    """Any one of some sorted characters; runs of three and more become ranges."""
    if len(members) == 1:
        return _escape(members[0])
    runs: list[list[str]] = []
    for member in members:
        if runs and ord(member) == ord(runs[-1][-1]) + 1:
            runs[-1].append(member)
        else:
            runs.append([member])
    escaped = [
        [f"\\{character}" if character in _SPECIAL_IN_CLASS else character for character in run]
        for run in runs
    ]
    return (
        f"[{''.join(f'{run[0]}-{run[-1]}' if len(run) > 2 else ''.join(run) for run in escaped)}]"
    )


def _escape(text: str) -> str:
    return "".join(f"\\{character}" if character in _SPECIAL else character for character in text)
