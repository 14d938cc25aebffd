"""PDDL as text: what stands in a file's outermost parentheses, and how it is quoted in errors.

A comment ends with its line, and a line at a line feed or a carriage return. Comments may be in any
encoding. Case does not count. Words are parted by the blanks of ASCII: any other is part of a word.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Final, NoReturn, TypeAlias

from llm_base.files import read_regular
from llm_base.lines import lines_in
from llm_base.quoting import LONGEST_VALUE, printable, quote
from llm_planning.domain import DomainError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

MOST_BYTES: Final = 1 << 20
"""The largest file that is read."""

Expression: TypeAlias = "str | list[Expression]"
"""A word, or what stands between two parentheses."""

Token: TypeAlias = tuple[int, str]
"""A word or a parenthesis, after the number of its line."""

_TOKEN: Final = re.compile(r"[()]|[^\s()]+", re.ASCII)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class PddlError(DomainError):
    """A file of PDDL is not what it has to be; the message names it and what is wrong in it."""


def refuse(file: Path | str, reason: str) -> NoReturn:
    """Refuses a file.

    Args:
        file: as the message names it.

    Raises:
        PddlError: always.
    """
    raise PddlError(f"{file}: {reason}")


@dataclass(frozen=True, slots=True)
class PddlFile:
    """What a file defines.

    Attributes:
        problem: the parts of `(define (problem ...) ...)`; None if there is none.
        domain: the parts of `(define (domain ...) ...)`; None if there is none.
    """

    path: Path
    problem: list[Expression] | None
    domain: list[Expression] | None


def read_file(path: Path) -> PddlFile:
    """Reads a file with a problem, a domain or both.

    Raises:
        PddlError: it cannot be read, or has something else in it.
    """
    try:
        content = read_regular(path, most=MOST_BYTES)
    except FileNotFoundError:
        refuse(path, "there is no such file: set pddl to a file or a folder of problems")
    except OSError as error:
        raise PddlError(f"{path}: it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise PddlError(f"{path}: no file can have this name") from error
    forms: dict[str, list[Expression]] = {}
    for line, form in forms_of(path, tokens_of(path, content)):
        kind = _kind(form)
        if not forms and form[:1] != ["define"]:
            refuse(path, "it does not begin with (define (problem ...")
        if forms and (kind not in {"problem", "domain"} or kind in forms):
            beside = "one problem may stand in a file, and its domain"
            refuse(path, f"line {line}: '(' stands outside of (define ...): {beside}")
        forms[kind] = form
    if not forms:
        refuse(path, "it has nothing in it")
    return PddlFile(path, forms.get("problem"), forms.get("domain"))


def _kind(form: Sequence[Expression]) -> str:
    """What a form defines: `problem`, `domain` or something else."""
    head = form[1] if form[:1] == ["define"] and len(form) > 1 else ""
    return head[0] if isinstance(head, list) and head and isinstance(head[0], str) else ""


def forms_of(file: Path | str, tokens: Iterable[Token]) -> Iterator[tuple[int, list[Expression]]]:
    """What stands in each of the outermost parentheses, with the line on which it begins.

    Args:
        file: as an error names it.
        tokens: of `tokens_of`.

    Raises:
        PddlError: a parenthesis is missing.
    """
    open_: list[list[Expression]] = []
    begun = 0
    for number, token in tokens:
        if token == "(":
            inner: list[Expression] = []
            if open_:
                open_[-1].append(inner)
            else:
                begun = number
            open_.append(inner)
        elif not open_:
            refuse(file, f"line {number}: {quote(token)} stands outside of (define ...)")
        elif token == ")":
            form = open_.pop()
            if not open_:
                yield begun, form
        else:
            open_[-1].append(token)
    if open_:
        refuse(file, f"{len(open_)} parentheses are not closed at its end")


def tokens_of(file: Path | str, content: bytes) -> Iterator[Token]:
    """The parentheses and words outside of comments, in lower case.

    Args:
        file: as an error names it.
        content: its bytes.

    Raises:
        PddlError: a word is not UTF-8 text.
    """
    lines = lines_in(BytesIO(content.removeprefix(_BYTE_ORDER_MARK)))
    for number, line in enumerate(lines, start=1):
        try:
            text = line.partition(b";")[0].lower().decode()
        except UnicodeDecodeError as error:
            raise PddlError(f"{file}: line {number}: it is not UTF-8 text") from error
        for token in _TOKEN.findall(text):
            yield number, token


def words_of(expression: Expression) -> Iterator[str]:
    """Every word of an expression, at any depth, in its order."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        else:
            waiting += reversed(part)


def quoted(expression: Expression) -> str:
    """The beginning of an expression as it was written."""
    words: list[str] = []
    waiting = [expression]
    while waiting and len(words) < LONGEST_VALUE:
        part = waiting.pop()
        if isinstance(part, str):
            words.append(part)
        else:
            waiting += [")", *reversed(part), "("]
    text = " ".join(words).replace("( ", "(").replace(" )", ")")
    return printable(text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}...")
