"""The skill library: programs that worked, found again by what they do.

Source: Tree of Options, Section 4.1 and Appendix B (Algorithm 2, line 9; the five nearest skills).
Vectors of descriptions are not kept here: they come from the encoder, whose own cache has them, and
which computes them again if that cache is gone.
"""

from __future__ import annotations

import itertools
import re
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from json import dumps
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from llm_base.quoting import quote
from llm_planning.execution.option_settings import RETRIEVED
from llm_planning.execution.programs import called_in, entry_of
from llm_planning.execution.skill_files import (
    LONGEST_CODE,
    LONGEST_TEXT,
    NAME,
    Skill,
    SkillError,
    SkillFolder,
    read_skills,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from llm_kernels.index import EmbeddingIndex
    from llm_planning.execution.programs import Primitives

Embed: TypeAlias = "Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]"
"""Maps texts to vectors, shape [texts, D]."""

LONGEST_NAME: Final = 60
"""Characters of the longest name that is made from an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPolicy:
    """A skill as the in-option policy of an option.

    Attributes:
        skill: the one that was chosen.
        program: calls it with the arguments of the option.
        skills: it, and all that it calls: what the program has to be run with.
    """

    skill: Skill
    program: str
    skills: tuple[Skill, ...]


def is_skill(code: str) -> bool:
    """Whether a program can be added to a library: it is short, and has a function to call.

    Examples:
        >>> from llm_planning.execution.skills import is_skill
        >>> is_skill("async function chop(bot) {}"), is_skill("false")
        (True, False)
    """
    return _entry_of_skill(code) is not None


def _entry_of_skill(code: str) -> str | None:
    entry = entry_of(code)
    if entry is None or not NAME.fullmatch(entry) or len(code.encode()) > LONGEST_CODE // 2:
        return None
    return entry


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
        self, folder: SkillFolder | None, skills: Iterable[Skill], *, embed: Embed, primitives: str
    ) -> None:
        self._folder = folder
        self._known: dict[tuple[str, int], Skill] = {}
        self._know(skills)
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
        opened = None if folder is None else SkillFolder(folder)
        read = () if opened is None else read_skills(opened.path)
        other = sorted({skill.name for skill in read if skill.primitives != primitives})
        if other:
            warnings.warn(
                f"{folder} has skills for other control primitives, which are not offered: "
                f"{quote(', '.join(other))}",
                RuntimeWarning,
                stacklevel=2,
            )
        return cls(opened, (*seeded, *read), embed=embed, primitives=primitives)

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
            from llm_kernels.index import EmbeddingIndex

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

    async def policy_for(self, option: Any, primitives: Primitives[Any, Any]) -> SkillPolicy | None:  # noqa: ANN401 - of any domain
        """The skill that carries an option out (Section 4.1); None in an empty library.

        Similarity alone takes options of one item for each other, such as killing a cow for milking
        it. So a skill whose recorded option fits comes first: without its numbers, it has to be the
        option, or the option's first words. Of several, those that lost more often than they won
        come last. Then the longest recorded option is taken; of equal ones the one with the same
        numbers, then the one with the most wins less losses. If none fits, it is the skill whose
        description is nearest.

        A skill with a recorded option is called with the arguments of the option, so `NAME(bot,
        "iron_ore", 3)`; any other one with `bot` alone.

        Args:
            option: as the planner writes it.
            primitives: of the domain; they give the arguments.
        """
        words = _words(str(option))
        fitting = [
            (
                skill.wins >= skill.losses,
                len(recorded),
                skill.option == str(option),
                skill.wins - skill.losses,
                skill,
            )
            for skill in self.skills
            if skill.option is not None
            and (recorded := _words(skill.option)) == words[: len(recorded)]
        ]
        if fitting:
            *_, skill = max(fitting, key=lambda ranked: ranked[:-1])
        else:
            nearest = await self.nearest(str(option), 1)
            if not nearest:
                return None
            (skill,) = nearest
        given = primitives.arguments(option) if skill.option is not None else ()
        call = ", ".join(["bot", *map(dumps, given)])
        return SkillPolicy(
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

        Its function is called after the option, so that `mine 3 oak_log` gives `mineOakLog`: models
        give one name to programs for different options. If a skill for something else has that name
        already, it gets a number. Code that is there already is counted and not added again.

        Args:
            option: that it carried out; None keeps the name of the program's entry.
            parent: the skill that it was made from.

        Raises:
            SkillError: the program has no entry, is too long, or cannot be written.
        """
        entry = _entry_of_skill(code)
        if entry is None:
            raise SkillError(
                f"a skill is a program of at most {LONGEST_CODE // 2} bytes with a function "
                f"`async function NAME(bot)`, not {quote(code)}"
            )
        skill = Skill(
            name=entry,
            number=1,
            code=code,
            description=_shortened(description),
            option=None if option is None else _shortened(option),
            parent=None if parent is None else str(parent),
            task=task,
            seed=seed,
            primitives=self._primitives,
            wins=1,
        )
        with self._writing():
            named, known = self._place_for(skill)
            for version in known:
                if version.code == named.code and version.primitives == self._primitives:
                    return self._counted(version, won=True)
            if self._folder is not None:
                named = self._folder.add(named)
            self._know([named])
            return named

    def _place_for(self, skill: Skill) -> tuple[Skill, list[Skill]]:
        """The skill with its name and number, and the versions of that name."""
        name = first = _name_of(skill)
        for number in itertools.count(2):
            if self._folder is not None:
                # Other processes may have added some.
                self._know(self._folder.versions(name))
            known = [version for version in self._known.values() if version.name == name]
            if all(_words(version.option or "") == _words(skill.option or "") for version in known):
                break
            name = f"{first}{number}"
        following = 1 + max((version.number for version in known), default=0)
        code = re.sub(rf"(?<![\w$.]){re.escape(skill.name)}(?=\s*\()", name, skill.code)
        return replace(skill, name=name, number=following, code=code), known

    def count(self, skill: Skill, *, won: bool) -> Skill:
        """Counts a win or a loss of a skill.

        Returns:
            The skill with its counters, those of other processes included.

        Raises:
            SkillError: its file is damaged, or cannot be written.
        """
        with self._writing():
            return self._counted(skill, won=won)

    def _writing(self) -> AbstractContextManager[None]:
        return nullcontext() if self._folder is None else self._folder.writing()

    def _counted(self, skill: Skill, *, won: bool) -> Skill:
        counted = None if self._folder is None else self._folder.count(skill, won=won)
        if counted is None:
            counted = self._known.get((skill.name, skill.number), skill).counted(won=won)
        self._know([counted])
        return counted

    def _know(self, skills: Iterable[Skill]) -> None:
        self._known.update({(skill.name, skill.number): skill for skill in skills})


def _name_of(skill: Skill) -> str:
    """What the function of a new skill is called, if no other skill is called so."""
    words = re.findall(r"[A-Za-z]+", " ".join(_words(skill.option or "")))
    first, *others = words or [""]
    name = first + "".join(other.capitalize() for other in others)
    # One word alone may be a word of the language.
    return name if others and len(name) <= LONGEST_NAME else skill.name


def _words(option: str) -> list[str]:
    """The words of an option without its numbers."""
    return [word for word in option.split() if not word.isdecimal()]


def _in_words(text: str) -> str:
    """A text for a sentence encoder, which knows words, not identifiers."""
    return text.replace("_", " ")


def _shortened(text: str) -> str:
    return " ".join(text.split())[:LONGEST_TEXT] or "A program."
