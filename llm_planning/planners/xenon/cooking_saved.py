"""A run of cooking episodes on disk: written after each of them, taken up exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from llm_planning.environments.cooking.recipes import CookingError
from llm_planning.files import write_json
from llm_planning.planners.settings import SettingsError
from llm_planning.planners.xenon.cooking_agents import Episode, Step
from llm_planning.planners.xenon.cooking_knowledge import KnowledgeRecord  # noqa: TC001 (pydantic)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from llm_planning.planners.xenon.cooking_knowledge import CookingKnowledge

FORMAT = 1

_REMEDY = "name another file, or delete this one to begin anew"


class SavedCookingError(CookingError):
    """A saved run cannot be read or written, or is another one."""


class _Episode(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    game: str
    success: bool
    steps: list[tuple[str, str, str, str, bool]]


class SavedRun(BaseModel):
    """The file.

    Attributes:
        format: of the file.
        run: whose it is: what the agent's doings depend on, by name.
        questions: that the agent asked so far.
        episodes: finished so far.
        knowledge: after the last of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    format: int
    run: dict[str, Any]
    questions: int = Field(ge=0)
    episodes: list[_Episode]
    knowledge: KnowledgeRecord

    def played(self) -> list[Episode]:
        """The episodes, as the agent gave them."""
        return [
            Episode(game=e.game, success=e.success, steps=tuple(Step(*step) for step in e.steps))
            for e in self.episodes
        ]


def episodes_json(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Episodes as JSON values."""
    return [
        {"game": e.game, "success": e.success, "steps": [list(step) for step in e.steps]}
        for e in episodes
    ]


def save_run(
    path: Path,
    run: Mapping[str, Any],
    episodes: Sequence[Episode],
    known: CookingKnowledge,
    *,
    questions: int,
) -> None:
    """Writes all of it or nothing.

    Args:
        path: of the file; its folder must exist.
        run: whose it is.
        episodes: finished so far.
        known: what was learnt.
        questions: asked so far.

    Raises:
        SavedCookingError: the file cannot be written.
    """
    content = {
        "format": FORMAT,
        "run": dict(run),
        "questions": questions,
        "episodes": episodes_json(episodes),
        "knowledge": known.to_json(),
    }
    try:
        write_json(path, content)
    except OSError as error:
        raise SavedCookingError(f"cannot write {path}: {error}") from error


def load_run(path: Path, run: Mapping[str, Any], *, episodes: int) -> SavedRun | None:
    """Reads what `save_run` wrote.

    Args:
        path: of the file.
        run: who wants to go on; must be who wrote it.
        episodes: how many there are to be in the end.

    Returns:
        The run; None if there is no such file yet.

    Raises:
        SettingsError: the folder is missing.
        SavedCookingError: the file cannot be read, is damaged, of another format or of another run,
            or holds more episodes.
    """
    if not path.absolute().parent.is_dir():
        raise SettingsError(f"save={path}: that folder does not exist; make it first")
    try:
        saved = SavedRun.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SavedCookingError(f"cannot read {path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise SavedCookingError(
            f"{path} holds no cooking run: {where}: {first['msg']}; {_REMEDY}"
        ) from error
    if saved.format != FORMAT:
        raise SavedCookingError(f"{path} has format {saved.format}, not {FORMAT}; {_REMEDY}")
    for key in {**saved.run, **run}:
        there, here = saved.run.get(key), run.get(key)
        if there != here:
            raise SavedCookingError(
                f"{path} is of another run: {key} is {there!r} there and {here!r} here; {_REMEDY}"
            )
    if len(saved.episodes) > episodes:
        raise SavedCookingError(
            f"{path} holds {len(saved.episodes)} episodes already, more than episodes={episodes}; "
            "ask for as many, or name another file"
        )
    return saved
