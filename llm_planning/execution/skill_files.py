"""Skills on disk: a folder for each name, with a pair of files for each version.

    FOLDER/craftCompass/1.js      the program
    FOLDER/craftCompass/1.json    what is known of it: `Skill`, without its name, number and code

Versions are never overwritten. Only the counters of wins and losses change. A version is there as
soon as its JSON file is. Any number of processes may write to a folder: they wait for each other.
What is read may come from anybody, so every field is checked, and the program against its digest.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from llm_base.files import make_folder, parse_json, read_regular, write_durably, write_json
from llm_base.quoting import first_fault, printable, quote

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_CODE: Final = 1 << 16
"""Bytes of the largest program."""

LONGEST_RECORD: Final = 1 << 14
"""Bytes of the largest JSON file of a skill."""

LONGEST_TEXT: Final = 500
"""Characters of the longest text of a skill beside its program."""

MOST_SKILLS: Final = 10_000
"""Versions in the largest folder."""

NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,63}")
"""What a function and its folder may be called."""

_FILE: Final = re.compile(r"([1-9][0-9]{0,5})\.(js|json)", re.ASCII)

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
_Hash: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Whole: TypeAlias = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63, strict=True)]
_Count: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53, strict=True)]


class SkillError(ValueError):
    """A library of skills, or a skill, cannot be used; says which file and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skill:
    """One version of a program that worked.

    Attributes:
        name: of its function, and of its folder.
        number: of the version, from 1.
        code: JavaScript.
        description: what it does, for models and for retrieval.
        option: the option that it carries out, such as "mine 3 iron_ore", or its first words, such
            as "mine"; None if it is no policy of one option.
        parent: the version that it was made from, such as "mineIron/2"; None if it is new.
        task: in which it was learned or which it solves; None for any.
        seed: of the trial in which it was learned; None if a person wrote it.
        primitives: version of the control primitives that it calls.
        wins: how often its option's effect was there after it had run.
        losses: how often it was not.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    number: int
    code: str
    description: _Text
    option: _Text | None = None
    parent: _Text | None = None
    task: _Text | None = None
    seed: _Whole | None = None
    primitives: _Hash
    wins: _Count = 0
    losses: _Count = 0

    @property
    def sha256(self) -> str:
        """SHA-256 of the code."""
        return sha256(self.code.encode()).hexdigest()

    @property
    def source(self) -> str:
        """The script that defines the function, and nothing else, for the programs after it."""
        return f"globalThis.{self.name} = (() => {{\n{self.code}\nreturn {self.name};\n}})();"

    def counted(self, *, won: bool) -> Skill:
        """The skill with one more win or loss."""
        return replace(self, wins=self.wins + won, losses=self.losses + (not won))

    def to_json(self) -> dict[str, Any]:
        """What the JSON file says."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        del record["name"], record["number"], record["code"]
        return {**record, "sha256": self.sha256}

    def __str__(self) -> str:
        return f"{self.name}/{self.number}"


class SkillFolder:
    """A folder of skills that is written to.

    Args:
        path: of the folder, which is made if it is missing.

    Raises:
        SkillError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            make_folder(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise SkillError(
                f"{_named(path)} cannot hold skills ({reason}): name a folder to write to"
            ) from error

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Holds the folder's lock, so that no other process changes it meanwhile.

        Raises:
            SkillError: something in the folder cannot be written.
        """
        from filelock import FileLock

        try:
            with FileLock(self.path / ".lock"):
                yield
        except OSError as error:
            raise SkillError(
                f"the skills in {_named(self.path)} cannot be written: {error.strerror or error}"
            ) from error

    def versions(self, name: str) -> list[Skill]:
        """The versions of a name, oldest first.

        Raises:
            SkillError: a file is damaged.
        """
        folder = self.path / name
        return _read_versions(folder) if os.path.lexists(folder) else []

    def add(self, skill: Skill) -> Skill:
        """Writes a new version; call it while `writing`.

        Returns:
            The skill with the number that it got: at least its own.
        """
        folder = self.path / skill.name
        make_folder(folder)
        # A program without its record is what a killed process has left.
        taken = [int(file[1]) for file in map(_FILE.fullmatch, os.listdir(folder)) if file]
        skill = replace(skill, number=max(skill.number, *(number + 1 for number in (0, *taken))))
        write_durably(folder / f"{skill.number}.js", skill.code.encode())
        write_json(folder / f"{skill.number}.json", skill.to_json())
        return skill

    def count(self, skill: Skill, *, won: bool) -> Skill | None:
        """Counts a win or a loss; call it while `writing`.

        Returns:
            The skill as it is now; None if it is not of this folder.

        Raises:
            SkillError: its file is damaged.
        """
        path = self.path / skill.name / f"{skill.number}.json"
        if not path.exists():
            return None
        counted = _read_skill(path).counted(won=won)
        write_json(path, counted.to_json())
        return counted


def read_skills(folder: Path) -> tuple[Skill, ...]:
    """Reads all versions of all skills in a folder.

    Hidden files and files of other names are left alone.

    Raises:
        SkillError: a file is damaged or is missing its partner; a folder is a link, as new versions
            would be written to where it leads; or they are too many.
    """
    skills: list[Skill] = []
    for inner in _entries(folder):
        if inner.is_dir():
            if inner.is_symlink():
                raise _damaged(inner, "it is a link; a library has only folders of its own")
            skills += _read_versions(inner)
        if len(skills) > MOST_SKILLS:
            raise SkillError(f"{folder} has more than {MOST_SKILLS} skills: name another folder")
    return tuple(skills)


def _read_versions(folder: Path) -> list[Skill]:
    records = [
        (int(file[1]), path)
        for path in _entries(folder)
        if (file := _FILE.fullmatch(path.name)) is not None and file[2] == "json"
    ]
    return [_read_skill(path) for _, path in sorted(records)]


def _read_skill(path: Path) -> Skill:
    """Reads a version by the path of its JSON file."""
    program = path.with_suffix(".js")
    try:
        record = parse_json(read_regular(path, most=LONGEST_RECORD))
        code = read_regular(program, most=LONGEST_CODE).decode()
    except OSError as error:
        raise _damaged(Path(error.filename), error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _damaged(program, "it is not UTF-8") from error
    except ValueError as error:
        raise _damaged(path, "it is not JSON") from error
    if not isinstance(record, dict):
        raise _damaged(path, f"it has to be a JSON object, not {quote(record)}")
    if record.pop("sha256", None) != sha256(code.encode()).hexdigest():
        raise _damaged(path, f"its sha256 is not that of {program.name}")
    given = {"name": path.parent.name, "number": int(path.stem), "code": code}
    if taken := given.keys() & record.keys():
        raise _damaged(path, f"unknown key {quote(min(taken))}")
    try:
        skill = _skill().validate_python({**record, **given})
    except ValidationError as error:
        raise _damaged(path, first_fault(error)) from error
    if not re.search(rf"\basync\s+function\s+{re.escape(skill.name)}\s*\(", code):
        raise _damaged(program, f"it has no `async function {skill.name}(bot)`")
    return skill


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, hidden files left out, by name."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise _damaged(folder, error.strerror or str(error)) from error
    return [folder / name for name in names]


def _damaged(path: Path, reason: str) -> SkillError:
    return SkillError(
        f"the skill {_named(path)} cannot be read: {reason}; restore it, or remove it"
    )


def _named(path: Path) -> str:
    return printable(str(path))


@cache
def _skill() -> TypeAdapter[Skill]:
    return TypeAdapter(Skill)
