"""Games that users bring as files: story files, and games that TextWorld made.

TextWorld writes a description beside each of its games. With it, a game is played as those that are
made here: with its quests, its objective and its solution. Without it, it is a story like others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_base.files import parse_json, read_regular, write_durably
from llm_planning.environments.textgame import jericho_games
from llm_planning.environments.textgame.game import TextGameError
from llm_planning.environments.textgame.jericho_interpreter import JerichoInterpreter
from llm_planning.environments.textgame.textworld_making import (
    LONGEST_DESCRIPTION,
    READING,
    check_textworld,
    compile_once,
    opening_given,
)

if TYPE_CHECKING:
    from pathlib import Path

    from llm_planning.environments.textgame.game import Interpreter
    from llm_planning.environments.textgame.jericho_interpreter import StateOption

_COMPILED_ANEW = (".ulx", ".json")
_DESCRIBED = frozenset({"world", "quests", "infos", "KB"})


def textworld_description(file: Path) -> Path | None:
    """TextWorld's description of a game; None if the file is played as a story.

    Args:
        file: the game, beside its description; or the description itself.

    Raises:
        TextGameError: the game is of a format that is only played by its description.
    """
    suffix = file.suffix.lower()
    if suffix not in (".z8", *_COMPILED_ANEW):
        return None
    described = file.with_suffix(".json")
    try:
        content = parse_json(read_regular(described, most=LONGEST_DESCRIPTION))
    except (OSError, ValueError) as error:
        content, reason = None, str(error)
    else:
        reason = "it is not one"
    if isinstance(content, dict) and content.keys() >= _DESCRIBED:
        return described
    if suffix in _COMPILED_ANEW:
        raise TextGameError(
            f"{file} is played by TextWorld's description, and {described} cannot be read as that "
            f"({reason}): put there what TextWorld wrote beside the game, or set game= to a .z8 "
            "file"
        )
    return None


def open_given(file: Path, *, state: StateOption) -> Interpreter:
    """Opens a game that a user brings; blocks.

    TextWorld's games of the Z-machine are played as they are. Others are compiled from their
    descriptions, because Jericho plays no other machine. That takes seconds, once.

    Args:
        file: a story file, a game that TextWorld made, or its description.
        state: how the states of a story are named.

    Raises:
        TextGameError: the game cannot be read or opened.
    """
    described = textworld_description(file)
    if described is None:
        return JerichoInterpreter(jericho_games.read_story(file), state=state)
    check_textworld()
    from llm_planning.environments.textgame.textworld_interpreter import TextWorldInterpreter

    with opening_given(file, described):
        if file.suffix.lower() in _COMPILED_ANEW:
            game = compile_once(described)
        else:
            game = jericho_games.read_story(file).file
            write_durably(game.with_suffix(".json"), read_regular(described))
        with READING:
            return TextWorldInterpreter(game, name=file.stem)
