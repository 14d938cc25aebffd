"""The Jericho games, and how a user's story files are found and read.

Users bring their own files: neither Jericho nor this project includes any. Jericho identifies a
story by its exact bytes, because it reads score, objects and grammar at addresses of one release.
Other stories are played with what they say themselves, after a trial in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_base.files import at_home, read_regular, write_durably
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_commands import ENTER, SPACE
from llm_planning.environments.textgame.jericho_machine import (
    Machine,
    Story,
    find_jericho,
    process_folder,
)
from llm_planning.environments.textgame.shipped_stories import shipped_by_digest
from llm_planning.names import remedy
from llm_planning.worker_processes import WorkerLostError, bounded, in_lone_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

JERICHO_GAMES: tuple[str, ...] = (
    *("zork1", "deephome", "ludicorp", "pentari", "detective"),
    *("library", "balances", "temple", "ztuu"),
)
"""The games of Table 1, as a task names them."""

_SUFFIXES = (".z3", ".z5", ".z8")
_HEADER_BYTES = 64
_LONGEST_STORY = 1 << 20
"""Bytes; a story of version 8, the largest, has half of it (Z-Machine Standards, 11.1.6)."""
_VERSIONS = range(1, 9)
_PLAYED = {3: 2, 4: 4, 5: 4, 8: 8}
"""The versions of stories that are played without Jericho's knowledge, and the unit of their
length in bytes (Z-Machine Standards, 11.1.6)."""

_SECONDS_OF_TRIAL = 20.0

COMMON_GRAMMAR = (
    "take OBJ;drop OBJ;open OBJ;close OBJ;lock OBJ with OBJ;unlock OBJ with OBJ;read OBJ;"
    "wear OBJ;remove OBJ;eat OBJ;drink OBJ;push OBJ;pull OBJ;turn OBJ;turn on OBJ;turn off OBJ;"
    "light OBJ;extinguish OBJ;enter OBJ;climb OBJ;sit on OBJ;stand;touch OBJ;rub OBJ;"
    "search OBJ;look under OBJ;look behind OBJ;move OBJ;ring OBJ;break OBJ;cut OBJ;"
    "cut OBJ with OBJ;dig;dig OBJ;dig OBJ with OBJ;fill OBJ;empty OBJ;burn OBJ;"
    "burn OBJ with OBJ;tie OBJ to OBJ;untie OBJ;throw OBJ at OBJ;put OBJ in OBJ;put OBJ on OBJ;"
    "give OBJ to OBJ;show OBJ to OBJ;attack OBJ;attack OBJ with OBJ;kill OBJ with OBJ;kiss OBJ;"
    "talk to OBJ;ask OBJ about OBJ;tell OBJ about OBJ;wake OBJ;jump;jump over OBJ;swim;sleep;"
    "sing;dance;pray;listen;smell;smell OBJ;taste OBJ;wave;wave OBJ;blow OBJ;set OBJ;press OBJ;"
    "raise OBJ;lower OBJ;use OBJ;use OBJ on OBJ;buy OBJ;leave;board OBJ;exit;yes;no"
)
"""Commands of a story whose grammar nobody knows, in Jericho's notation: usual verbs of such games.
Those that the story's dictionary lacks are not tried."""


def find_story(name: str, folder: str) -> Path:
    """The file of a game of Table 1 in a user's folder.

    Args:
        name: one of `JERICHO_GAMES`.
        folder: of the file `<name>.z3`, `.z5` or `.z8`, in upper or lower case; "" if not set.

    Raises:
        TextGameError: the game, the folder or the file does not exist, or there are several files.
    """
    if name not in JERICHO_GAMES:
        raise TextGameError(f"no Jericho game is called {name!r}; {remedy(name, JERICHO_GAMES)}")
    wanted = " or ".join(f"{name}{suffix}" for suffix in _SUFFIXES)
    if not folder:
        raise TextGameError(
            f"the game {name!r} needs its story file, which is yours to bring: set games=FOLDER "
            f"with {wanted} in it, or game=FILE"
        )
    place = Path(at_home(folder))
    if not os.path.isdir(place):
        raise TextGameError(
            f"games={folder} is not a folder: name the folder of {wanted}, or set game=FILE"
        )
    try:
        files = sorted(
            file
            for file in place.iterdir()
            if file.stem.lower() == name and file.suffix.lower() in _SUFFIXES
        )
    except OSError as error:
        raise TextGameError(f"games={folder} cannot be read: {error.strerror}") from error
    if not files:
        raise TextGameError(
            f"there is no {wanted} in games={folder}: put the story file there, or set game=FILE"
        )
    if len(files) > 1:
        names = ", ".join(file.name for file in files)
        raise TextGameError(
            f"games={folder} has several files of {name!r} ({names}): keep one, or set game=FILE"
        )
    return files[0]


def story_file(name: str) -> Path:
    """The resolved path of a file that a user names; the file need not exist.

    Raises:
        TextGameError: no file can have this name.
    """
    try:
        return Path(os.path.realpath(at_home(name)))
    except ValueError as error:
        raise TextGameError(f"game={name} cannot be the name of a file: {error}") from error


def read_story(file: Path) -> Story:
    """Reads a story file; blocks, for a second or two if Jericho does not know it.

    Raises:
        MissingJerichoError: Jericho is not installed.
        TextGameError: the file does not exist, is no whole story, or ends its interpreter.
    """
    content = _read(file)
    digest = md5(content, usedforsecurity=False).hexdigest()
    if digest in _bindings():
        return _known(file, content, digest)
    if shipped := shipped_by_digest().get(digest):
        return Story(
            file=_copied(file, content, digest),
            digest=digest,
            name=shipped.name,
            seed=1,
            grammar=shipped.grammar,
            word_length=9,
            walkthrough=shipped.walkthrough,
            known=False,
        )
    if fault := _fault(content):
        raise TextGameError(_unsupported(file, content, digest, fault))
    return _tried(file, content, digest)


def check_release(file: Path) -> None:
    """Refuses another release of a game of Table 1 than the one that Jericho knows.

    Raises:
        MissingJerichoError: Jericho is not installed.
        TextGameError: the file does not exist, or is another story.
    """
    content = _read(file)
    digest = md5(content, usedforsecurity=False).hexdigest()
    if digest not in _bindings():
        raise TextGameError(_unsupported(file, content, digest, "game=FILE plays other releases"))


def _bindings() -> Mapping[str, Mapping[str, Any]]:
    known: Mapping[str, Mapping[str, Any]] = find_jericho().defines.BINDINGS_DICT
    return known


def _known(file: Path, content: bytes, digest: str) -> Story:
    bindings = _bindings()[digest]
    return Story(
        file=_copied(file, content, digest),
        digest=digest,
        name=str(bindings["name"]),
        seed=int(bindings["seed"]),
        grammar=str(bindings["grammar"]),
        word_length=int(bindings["max_word_length"]),
        walkthrough=_commands(str(bindings.get("walkthrough", ""))),
    )


def _tried(file: Path, content: bytes, digest: str) -> Story:
    """A story that Jericho does not know, after it was begun in a process of its own."""
    story = Story(
        file=_copied(file, content, digest),
        digest=digest,
        name=file.stem,
        seed=1,
        grammar="",
        word_length=6 if content[0] <= 3 else 9,
        known=False,
        objects_decide=False,
    )
    try:
        words = asyncio.run(in_lone_worker(bounded, _SECONDS_OF_TRIAL, vocabulary, story))
    except WorkerLostError as error:
        raise TextGameError(
            f"{file} cannot be played: its first moves end the interpreter, or take more than "
            f"{_SECONDS_OF_TRIAL:g} seconds; set game=FILE to another story"
        ) from error
    templates = COMMON_GRAMMAR.split(";")
    usual = [
        template for template in templates if template.split()[0][: story.word_length] in words
    ]
    return replace(story, grammar=";".join(usual))


def vocabulary(story: Story) -> frozenset[str]:
    """The words of a story's dictionary, after a look around in the story."""
    machine = Machine(story)
    machine.answers(machine.first, ("look", "inventory"))
    return frozenset(word.word for word in machine.dictionary())


def _fault(content: bytes) -> str:
    """What is wrong with a story that Jericho does not know; "" if it is whole.

    The interpreter follows the addresses of the header, so they lie in the file. Compilers write
    length and checksum since 1982; what does not fit them is damaged, or no story.
    """
    unit = _PLAYED.get(content[0])
    if unit is None:
        return f"stories of version {content[0]} are not played otherwise"
    length = unit * int.from_bytes(content[0x1A:0x1C])
    if not _HEADER_BYTES < length <= len(content):
        return f"its header tells of {length} bytes, and it has {len(content)}"
    if sum(content[_HEADER_BYTES:length]) & 0xFFFF != int.from_bytes(content[0x1C:0x1E]):
        return "its bytes do not fit its checksum, so it is damaged, or no story"
    addresses = [int.from_bytes(content[at : at + 2]) for at in (0x06, 0x08, 0x0A, 0x0C, 0x0E)]
    if not all(_HEADER_BYTES <= address < length for address in addresses):
        return "its header has addresses beyond its end"
    return ""


def _copied(file: Path, content: bytes, digest: str) -> Path:
    """A copy of the checked bytes: Jericho opens a story again at every start of its machine.

    Without the copy, a file that was replaced would be played unchecked, and a file that was
    removed would end the process.
    """
    # Frotz crashes on a file name without an extension.
    copy = process_folder() / f"{digest}.z{content[0]}"
    try:
        write_durably(copy, content)
    except OSError as error:
        raise TextGameError(f"there is no room for a copy of {file} in {copy}: {error}") from error
    return copy


def _commands(walkthrough: str) -> tuple[str, ...]:
    """The commands of a walkthrough; one without a word is a key, for which the story waits."""
    commands = walkthrough.split("/") if walkthrough else ()
    return tuple(command.strip() or (SPACE if command else ENTER) for command in commands)


def _read(file: Path) -> bytes:
    try:
        content = read_regular(file, most=_LONGEST_STORY)
    except FileNotFoundError:
        raise TextGameError(
            f"the story file {file} does not exist: set game=FILE to a .z3, .z5 or .z8 file"
        ) from None
    except OSError as error:
        raise TextGameError(
            f"the story file {file} cannot be read ({error.strerror}): set game=FILE to a .z3, .z5 "
            "or .z8 file"
        ) from error
    if content[:4] == b"FORM":
        raise TextGameError(
            f"{file} is a Blorb archive: unpack its Z-machine story and set game= to that file"
        )
    if len(content) < _HEADER_BYTES or content[0] not in _VERSIONS:
        raise TextGameError(
            f"{file} is no Z-machine story ({len(content)} bytes, no version 1 to 8 at the "
            "beginning): set game=FILE to a .z3, .z5 or .z8 file"
        )
    return content


def _unsupported(file: Path, content: bytes, digest: str, fault: str) -> str:
    known = _bindings()
    release = int.from_bytes(content[2:4], "big")
    # A story has six digits here; another file may have any bytes.
    serial = "".join(chr(byte) if 32 < byte < 127 else "?" for byte in content[18:24])
    wanted = {str(bindings["name"]): expected for expected, bindings in known.items()}
    stem = file.stem.lower()
    other = f"its {stem} has MD5 {wanted[stem]}; " if stem in wanted else ""
    return (
        f"{file} is not supported (version {content[0]}, release {release}, serial {serial}, MD5 "
        f"{digest}): Jericho knows the score, the objects and the grammar of {len(known)} stories, "
        f"each of one release, and not of this one; {fault}. Set game= to one of those; "
        f"{other}{remedy(stem, wanted)}"
    )
