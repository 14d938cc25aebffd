"""MiniGrid's worlds in words: a grid of letters, and a list of what the letters stand for."""

from __future__ import annotations

from typing import Any, Final

_LETTERS: Final = {
    "unseen": "?",
    "empty": ".",
    "floor": ".",
    "wall": "#",
    "door": "D",
    "key": "K",
    "ball": "O",
    "box": "B",
    "goal": "G",
    "lava": "~",
}
_AGENT = ">v<^"
_FACING = ("right", "down", "left", "up")
_DOORS = ("open", "closed", "locked")
_PLAIN = {"unseen", "empty", "floor", "wall", "lava"}


def grid_text(world: Any, seen: Any) -> str:
    """A state of MiniGrid in words.

    Args:
        world: the environment itself, without wrappers.
        seen: the observation that is told; None for all of the state.

    Returns:
        The grid, a letter for each cell; the things in it, columns and rows counted from 0; what
        the agent carries; and the mission.
    """
    if seen is None:
        cells, (column, row), turn = world.grid.encode(), world.agent_pos, int(world.agent_dir)
        carried = world.carrying and f"{world.carrying.color} {world.carrying.type}"
    else:
        # In its own view the agent is in the middle of the last row and looks up.
        cells = seen["image"]
        column, row, turn = cells.shape[0] // 2, cells.shape[1] - 1, 3
        carried, cells = _in_hand(cells, column, row)
    width, height = cells.shape[:2]
    rows = [
        "".join(
            _AGENT[turn] if (x, y) == (column, row) else _LETTERS.get(_kind(cells[x, y]), "o")
            for x in range(width)
        )
        for y in range(height)
    ]
    things = [
        f"{_LETTERS.get(_kind(cells[x, y]), 'o')}: {_thing(cells[x, y])} at column {x}, row {y}"
        for y in range(height)
        for x in range(width)
        if _kind(cells[x, y]) not in _PLAIN
    ]
    return "\n".join(
        [
            *rows,
            f"{_AGENT[turn]}: you, at column {column}, row {row}, facing {_FACING[turn]}",
            *things,
            f"You carry {f'a {carried}' if carried else 'nothing'}.",
            f"Mission: {world.mission}",
        ]
    )


def _in_hand(cells: Any, column: int, row: int) -> tuple[str, Any]:
    """What is carried, which MiniGrid shows in the agent's own cell."""
    here = cells[column, row]
    return ("" if _kind(here) in _PLAIN else _thing(here)), _without(cells, column, row)


def _without(cells: Any, column: int, row: int) -> Any:
    from minigrid.core.constants import OBJECT_TO_IDX

    left = cells.copy()
    left[column, row] = (OBJECT_TO_IDX["empty"], 0, 0)
    return left


def _kind(cell: Any) -> str:
    from minigrid.core.constants import IDX_TO_OBJECT

    return str(IDX_TO_OBJECT[int(cell[0])])


def _thing(cell: Any) -> str:
    from minigrid.core.constants import IDX_TO_COLOR

    kind = _kind(cell)
    state = f"{_DOORS[int(cell[2])]} " if kind == "door" else ""
    return f"{state}{IDX_TO_COLOR[int(cell[1])]} {kind}"
