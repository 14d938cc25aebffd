"""The skill library: programs that worked, found again by what they do.

Source: Tree of Options, Section 4.1 and Appendix B (Algorithm 2, line 9; the five nearest skills).
A library in a folder has a folder for each name, with a pair of files for each version:

    FOLDER/craftCompass/1.js      the program
    FOLDER/craftCompass/1.json    what is known of it: `Skill`, without its name, number and code

Versions are never overwritten. Only the counters of wins and losses change. A version is there as
soon as its JSON file is. Vectors of descriptions are not kept here: they come from the encoder,
whose own cache has them, and which computes them again if that cache is gone.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, TypeAlias

from filelock import FileLock
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from llm_kernels.files import make_folder, parse_json, read_regular, write_durably, write_json
from llm_kernels.index import EmbeddingIndex
from llm_kernels.quoting import printable, shown
from llm_planning.execution.programs import called_in, entry_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from llm_planning.execution.programs import Primitives

Embed: TypeAlias = "Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]"
"""Maps texts to vectors, shape [texts, D]."""

RETRIEVED: Final = 5
"""How many skills a model is shown (Appendix B)."""

LONGEST_CODE: Final = 1 << 16
"""Bytes of the largest program."""

LONGEST_RECORD: Final = 1 << 14
"""Bytes of the largest JSON file of a skill."""

MOST_SKILLS: Final = 10_000
"""Versions in the largest library."""

_NAME: Final = re.compile(r"[A-Za-z_$][\w$]{0,63}", re.ASCII)
_FILE: Final = re.compile(r"([1-9][0-9]{0,5})\.(js|json)", re.ASCII)

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
_Hash: TypeAlias = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_Whole: TypeAlias = Annotated[int, Field(strict=True)]
_Count: TypeAlias = Annotated[int, Field(ge=0, strict=True)]


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

    name: str
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

    def to_json(self) -> dict[str, Any]:
        """What the JSON file says."""
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        del record["name"], record["number"], record["code"]
        return {**record, "sha256": self.sha256}

    def __str__(self) -> str:
        return f"{self.name}/{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A skill as the in-option policy of an option.

    Attributes:
        skill: the one that was chosen.
        program: calls it with the arguments of the option.
        skills: it, and all that it calls: what the program has to be run with.
    """

    skill: Skill
    program: str
    skills: tuple[Skill, ...]


class SkillLibrary:
    """The skills of a run: those that came with the domain, those of a folder, and new ones.

    It offers the newest version of each name, of those that the present control primitives can run.
    Skills that other processes add meanwhile are seen when the folder is opened again. Open one
    with `SkillLibrary.open`.

    Args:
        folder: where new skills and counters are written; None to keep them in memory.
        skills: all known versions.
        embed: maps descriptions to vectors.
        primitives: version of the present control primitives.
    """

    def __init__(
        self, folder: Path | None, skills: Iterable[Skill], *, embed: Embed, primitives: str
    ) -> None:
        self._folder = folder
        self._known = {(skill.name, skill.number): skill for skill in skills}
        self._embed = embed
        self._primitives = primitives
        self._index: EmbeddingIndex | None = None
        self._described: dict[str, str] = {}

    @classmethod
    def open(
        cls,
        folder: Path | None,
        *,
        seeded: Sequence[Skill] = (),
        embed: Embed,
        primitives: str,
    ) -> SkillLibrary:
        """Opens a library; warns of skills that the present control primitives cannot run.

        Args:
            folder: of the library, which is made if it is missing; None for none.
            seeded: skills that are there besides, and are never written. The folder's skill of the
                same name and number takes the place of a seeded one.
            embed: maps descriptions to vectors, such as `partial(engine.embed, role="skills")`.
            primitives: `Primitives.version` of the domain.

        Raises:
            SkillError: a file is damaged, or the folder cannot be made.
        """
        read: Sequence[Skill] = ()
        if folder is not None:
            try:
                make_folder(folder)
            except OSError as error:
                raise SkillError(f"the skills in {folder} cannot be opened: {error}") from error
            read = read_skills(folder)
        other = sorted({skill.name for skill in read if skill.primitives != primitives})
        if other:
            warnings.warn(
                f"{folder} has skills for other control primitives, which are not offered: "
                f"{shown(', '.join(other))}",
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(folder, (*seeded, *read), embed=embed, primitives=primitives)

    @property
    def skills(self) -> tuple[Skill, ...]:
        """The skills on offer, by name."""
        newest = {
            name: skill
            for (name, _), skill in sorted(self._known.items())
            if skill.primitives == self._primitives
        }
        return tuple(newest.values())

    async def nearest(self, text: str, k: int = RETRIEVED) -> list[Skill]:
        """The k skills whose descriptions are most similar to a text, the most similar first.

        Raises:
            ServingError: the engine that embeds failed.
        """
        offered = {skill.name: skill for skill in self.skills}
        if not offered:
            return []
        new = {
            name: skill.description
            for name, skill in offered.items()
            if self._described.get(name) != skill.description
        }
        query, *vectors = await self._embed([_in_words(text), *map(_in_words, new.values())])
        index = self._index
        if index is None:
            index = self._index = EmbeddingIndex(len(query))
        # Another call may have embedded some of them while this one waited.
        rows = [
            (name, vector)
            for name, vector in zip(new, vectors, strict=True)
            if self._described.get(name) != new[name]
        ]
        index.remove([name for name, _ in rows if name in index])
        if rows:
            index.add([name for name, _ in rows], [vector for _, vector in rows])
        self._described.update({name: new[name] for name, _ in rows})
        return [offered[match.key] for match in index.search(query, k)]

    async def policy_for(self, option: Any, primitives: Primitives[Any, Any]) -> Policy | None:  # noqa: ANN401 - of any domain
        """The skill that carries an option out (Section 4.1); None in an empty library.

        Similarity alone takes options of one item for each other, such as killing a cow for milking
        it. So a skill whose recorded option fits comes first: without its numbers, it has to be the
        option, or the option's first words, and the skill must not have lost more often than it
        won. The longest recorded option is taken; of equal ones the one with the same numbers, then
        the one with the most wins less losses. If none fits, it is the skill whose description is
        nearest.

        A skill with a recorded option is called with the arguments of the option, so `NAME(bot,
        "iron_ore", 3)`; any other one with `bot` alone.

        Args:
            option: as the planner writes it.
            primitives: of the domain; they give the arguments.

        Raises:
            ServingError: the engine that embeds failed.
        """
        words = _words(str(option))
        fitting = [
            (len(recorded), skill.option == str(option), skill.wins - skill.losses, skill)
            for skill in self.skills
            if skill.option is not None
            and skill.wins >= skill.losses
            and (recorded := _words(skill.option)) == words[: len(recorded)]
        ]
        if fitting:
            skill = max(fitting, key=lambda one: one[:3])[3]
        else:
            found = await self.nearest(str(option), 1)
            if not found:
                return None
            (skill,) = found
        given = primitives.arguments(option) if skill.option is not None else ()
        call = ", ".join(["bot", *map(dumps, given)])
        return Policy(
            skill=skill,
            program=f"async function act(bot) {{\n  await {skill.name}({call});\n}}\n",
            skills=self.with_callees([skill]),
        )

    def with_callees(self, skills: Iterable[Skill]) -> tuple[Skill, ...]:
        """Skills with all that they call, directly or not, by name.

        A call is a name of the library that an opening bracket follows in the code.
        """
        offered = {skill.name: skill for skill in self.skills}
        loaded: dict[str, Skill] = {}
        waiting = list(skills)
        while waiting:
            skill = waiting.pop()
            if skill.name not in loaded:
                loaded[skill.name] = skill
                waiting += [offered[name] for name in called_in(skill.code) if name in offered]
        return tuple(loaded[name] for name in sorted(loaded))

    def add(
        self,
        code: str,
        *,
        description: str,
        option: str | None = None,
        parent: Skill | None = None,
        task: str | None = None,
        seed: int | None = None,
    ) -> Skill:
        """Adds a program whose effect the world has shown, with one win.

        Code that is there already, as a version of its name, is not added again but counted.

        Args:
            code: a program; its entry gives the name.
            description: what it does.
            option: that it carried out.
            parent: the skill that it was made from.
            task: of the run.
            seed: of the run.

        Raises:
            SkillError: the program has no entry, is too long, or cannot be written.
        """
        name = entry_of(code)
        if name is None or not _NAME.fullmatch(name) or len(code.encode()) > LONGEST_CODE:
            raise SkillError(
                f"a skill is a program of at most {LONGEST_CODE} bytes with a function "
                f"`async function NAME(bot)`, not {shown(code)}"
            )
        skill = Skill(
            name=name,
            number=1,
            code=code,
            description=_shortened(description),
            option=option,
            parent=None if parent is None else str(parent),
            task=task,
            seed=seed,
            primitives=self._primitives,
            wins=1,
        )
        with self._writing():
            for known in self._versions(name):
                if known.code == code and known.primitives == self._primitives:
                    return self._counted(known, won=True)
            return self._written(skill)

    def count(self, skill: Skill, *, won: bool) -> Skill:
        """Counts a win or a loss of a skill.

        Returns:
            The skill with its counters, those of other processes included.

        Raises:
            SkillError: its file is damaged, or cannot be written.
        """
        with self._writing():
            return self._counted(skill, won=won)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Holds the folder's lock, so that no other process changes it meanwhile."""
        folder = self._folder
        try:
            with nullcontext() if folder is None else FileLock(folder / ".lock"):
                yield
        except OSError as error:
            raise SkillError(f"the skills in {folder} cannot be written: {error}") from error

    def _versions(self, name: str) -> list[Skill]:
        """All versions of a name, those that other processes have added included."""
        if self._folder is not None and (self._folder / name).exists():
            read = _read_versions(self._folder / name)
            self._known.update({(skill.name, skill.number): skill for skill in read})
        return [skill for skill in self._known.values() if skill.name == name]

    def _written(self, skill: Skill) -> Skill:
        taken = [number for name, number in self._known if name == skill.name]
        if self._folder is None:
            skill = replace(skill, number=max(taken, default=0) + 1)
        else:
            folder = self._folder / skill.name
            make_folder(folder)
            # A program without its record is what a killed process has left.
            taken += [int(file[1]) for file in map(_FILE.fullmatch, os.listdir(folder)) if file]
            skill = replace(skill, number=max(taken, default=0) + 1)
            write_durably(folder / f"{skill.number}.js", skill.code.encode())
            write_json(folder / f"{skill.number}.json", skill.to_json())
        self._known[skill.name, skill.number] = skill
        return skill

    def _counted(self, skill: Skill, *, won: bool) -> Skill:
        key = (skill.name, skill.number)
        path = None if self._folder is None else _record_of(self._folder, skill)
        is_written = path is not None and path.exists()
        if path is not None and is_written:
            skill = _read_skill(path)
        else:
            skill = self._known.get(key, skill)
        counted = replace(skill, wins=skill.wins + won, losses=skill.losses + (not won))
        if path is not None and is_written:
            write_json(path, counted.to_json())
        self._known[key] = counted
        return counted


def read_skills(folder: Path) -> tuple[Skill, ...]:
    """Reads all versions of all skills in a folder.

    Hidden files and files of other names are left alone.

    Raises:
        SkillError: a file is damaged, is missing its partner, or is a link; or they are too many.
    """
    skills: list[Skill] = []
    for inner in _entries(folder):
        if inner.is_symlink():
            raise _damaged(inner, "it is a link; a library has only files of its own")
        if inner.is_dir():
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
    if records and not _NAME.fullmatch(folder.name):
        raise SkillError(
            f"{_named(folder)} is no name of a function: a skill's folder is called as its function"
        )
    return [_read_skill(path) for _, path in sorted(records)]


def _read_skill(path: Path) -> Skill:
    """Reads a version by the path of its JSON file."""
    if path.is_symlink():
        raise _damaged(path, "it is a link; a library has only files of its own")
    try:
        record = parse_json(read_regular(path, most=LONGEST_RECORD))
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    except ValueError as error:
        raise _damaged(path, "it is not JSON") from error
    code = _read_code(path.with_suffix(".js"))
    if not isinstance(record, dict):
        raise _damaged(path, f"it has to be a JSON object, not {shown(record)}")
    digest = record.pop("sha256", None)
    if digest != sha256(code.encode()).hexdigest():
        raise _damaged(path, f"its sha256 is not that of {path.with_suffix('.js').name}")
    given = {"name": path.parent.name, "number": int(path.stem), "code": code}
    if taken := given.keys() & record.keys():
        raise _damaged(path, f"unknown key {shown(min(taken))}")
    try:
        return _SKILL.validate_python({**record, **given})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise _damaged(path, f"{shown(key)}: {first['msg']}") from error


def _read_code(path: Path) -> str:
    if path.is_symlink():
        raise _damaged(path, "it is a link; a library has only files of its own")
    try:
        code = read_regular(path, most=LONGEST_CODE).decode()
    except OSError as error:
        raise _damaged(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise _damaged(path, "it is not UTF-8") from error
    if not re.search(rf"\basync\s+function\s+{re.escape(path.parent.name)}\s*\(", code):
        raise _damaged(path, f"it has no `async function {path.parent.name}(bot)`")
    return code


def _entries(folder: Path) -> list[Path]:
    """What lies in a folder, hidden files left out, by name."""
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError as error:
        raise _damaged(folder, error.strerror or str(error)) from error
    return [folder / name for name in names]


def _record_of(folder: Path, skill: Skill) -> Path:
    return folder / skill.name / f"{skill.number}.json"


def _damaged(path: Path, reason: str) -> SkillError:
    return SkillError(f"the skill {_named(path)} cannot be read: {reason}")


def _named(path: Path) -> str:
    return printable(str(path))


def _words(option: str) -> list[str]:
    """The words of an option without its numbers."""
    return [word for word in option.split() if not word.isdecimal()]


def _in_words(text: str) -> str:
    """A text for a sentence encoder, which knows words, not identifiers."""
    return text.replace("_", " ")


def _shortened(text: str) -> str:
    return " ".join(text.split())[:500] or "A program."


_SKILL: Final[TypeAdapter[Skill]] = TypeAdapter(Skill)
