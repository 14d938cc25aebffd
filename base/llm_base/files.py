"""Regular files: reads that never block, and writes that happen as a whole or not at all.

A path may name a pipe without a writer, a device without an end, or a link. Everything but a
regular file is refused, for reading and for writing.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from io import BufferedReader

LONGEST_NAME = 255
"""Bytes of a file's name on the file systems of Linux."""


class TargetError(OSError):
    """A path cannot be written to; the message says why in one line."""


def at_home(path: str) -> str:
    """A path with `~` expanded; the same path where there is no such home folder."""
    try:
        return os.path.expanduser(path)
    except ValueError:  # the name of a user with NUL in it
        return path


def open_regular(path: Path) -> BufferedReader:
    """Opens a regular file for reading; a pipe or a device is refused, not waited for.

    Raises:
        OSError: the file cannot be opened, or is not a regular file; `strerror` says it in words.
    """
    # O_NONBLOCK: a pipe without a writer would be waited for, in vain.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return open(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, *, most: int | None = None) -> bytes:
    """The content of a regular file.

    Args:
        most: bytes that it may have; None for any number.

    Raises:
        OSError: as `open_regular`, or the file is larger; `strerror` says it in words.
    """
    with open_regular(path) as file:
        # A sparse file of any size takes no room on the disk, and reading it takes time.
        is_small = most is None or os.fstat(file.fileno()).st_size <= most
        content = file.read(-1 if most is None else most + 1) if is_small else b""
    if most is not None and not (is_small and len(content) <= most):
        raise OSError(errno.EFBIG, f"it is larger than {most} bytes", str(path))
    return content


def parse_json(content: bytes | str) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON text from any source.

    Raises:
        ValueError: the text is not JSON, not UTF-8, or nested deeper than Python reads.
    """
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_json(path: Path, *, most: int) -> Any:  # noqa: ANN401 - any JSON value
    """The value of a JSON file.

    Args:
        most: bytes that it may have.

    Raises:
        OSError: as `read_regular`.
        ValueError: as `parse_json`.
    """
    return parse_json(read_regular(path, most=most))


def check_target(path: Path) -> None:
    """Makes sure, before a long run, that `write_durably` can write a file.

    Raises:
        TargetError: it cannot; says why in one line.
    """
    try:
        folder = Path(os.path.realpath(path)).parent
    except ValueError as error:
        raise TargetError(f"cannot write {path}: no file can have this name") from error
    exists = os.path.exists(path)
    target = path if exists else folder
    name_bytes = len(os.fsencode(path.name))
    refusals = {
        f"its name is longer than {LONGEST_NAME} bytes": name_bytes > LONGEST_NAME,
        "that link leads nowhere; name a file": os.path.islink(path) and not exists,
        f"the folder {folder} is missing": not os.path.isdir(folder),
        "that is a folder; name a file in it": os.path.isdir(path),
        "that is not a regular file; name one": exists and not os.path.isfile(path),
        f"{target} may not be written to": not os.access(target, os.W_OK),
        f"{folder} may not be written to": not os.access(folder, os.W_OK | os.X_OK),
    }
    for reason, applies in refusals.items():
        if applies:
            raise TargetError(f"cannot write {path}: {reason}")


def write_durably(path: Path, content: bytes, *, temporary: Path | None = None) -> None:
    """Writes a file that is there whole or not at all, and survives the loss of power.

    It keeps the permissions of the file that it replaces; a new file gets the process's own.

    Args:
        path: of a regular file, which is replaced, or of a new one, in a folder that exists. A link
            is followed.
        temporary: where it is written first, in the same folder; by default a hidden random name.

    Raises:
        OSError: the file cannot be written; the one that it would replace is still there.
    """
    check_target(path)
    path = Path(os.path.realpath(path))
    # Not named after the file: its name may be as long as names can be.
    part = temporary or path.with_name(f".{os.urandom(8).hex()}.part")
    try:
        with new_file(part) as file:
            with suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
            file.write(content)
            sync(file)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file, as `write_durably` does.

    Raises:
        OSError: it cannot be written.
        TypeError: the value is not JSON-able.
    """
    write_durably(path, json.dumps(value).encode())


def new_file(path: Path) -> BinaryIO:
    """Opens a new file for writing.

    A file or a link of this name is removed first; the link is not followed.
    """
    path.unlink(missing_ok=True)
    return path.open("xb")


def sync(file: BinaryIO) -> None:
    """Forces what was written to the disk."""
    file.flush()
    os.fsync(file.fileno())


def make_folder(path: Path) -> None:
    """Makes a folder and those above it, on the disk when this returns.

    Raises:
        OSError: it cannot be made.
        ValueError: no folder can have this name.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError as error:
        reason = os.strerror(errno.ENOTDIR)
        raise NotADirectoryError(errno.ENOTDIR, reason, str(path)) from error
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Forces the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
