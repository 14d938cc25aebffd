"""What can stand where a file should: pipes, devices, links, folders, bytes of any kind."""

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

Make = Callable[[Path], object]
"""Makes or changes what is at a path."""


def gone(path: Path) -> None:
    """Removes whatever is there, if anything is."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def instead(make: Make) -> Make:
    """Puts something in the place of what was there."""

    def put(path: Path) -> None:
        gone(path)
        make(path)

    return put


def link(target: str) -> Make:
    return instead(lambda path: path.symlink_to(target))


def write(content: str | bytes) -> Make:
    raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return instead(lambda path: path.write_bytes(raw))


def changed(change: Callable[[bytes], bytes]) -> Make:
    """Writes a file anew; one that is a link elsewhere stays as it is there."""
    return lambda path: write(change(path.read_bytes()))(path)


def run_sql(path: Path, *statements: str) -> None:
    """Runs statements on an SQLite file, each by itself."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


KINDS: dict[str, Make] = {
    "missing": gone,
    "a pipe": instead(os.mkfifo),
    "a folder": instead(Path.mkdir),
    "a device": link("/dev/zero"),
    "a link to nowhere": link("nowhere"),
    "a link to itself": instead(lambda path: path.symlink_to(path.name)),
    "empty": write(b""),
    "zeros": write(bytes(8192)),
}
"""What may stand in the place of any file."""
