"""What a stranger may alter in the files of a ledger: their kinds, traces, pages."""

import gzip
import hashlib
import json
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from .kinds import KINDS, Make, changed, link, write
from .ledger_tables import DEEP, FILE, Alteration, sql

# --- files ---------------------------------------------------------------------------------------


def _file(name: str, make: Make) -> Alteration:
    return lambda folder: make(folder / name)


_KINDS: dict[str, Make] = {
    **KINDS,
    "a link to a file": link("../sentinel.txt"),
    "a text": write(b"not a database, " * 300),
}


def _hot_journal(folder: Path) -> None:
    """A journal that makes SQLite bring pages back, and remove the file that it names."""
    victim = str((folder.parent / "sentinel.txt").absolute()).encode()
    head = bytes.fromhex("d9d505f920a163d7") + struct.pack(">5I", 0, 1, 12, 512, 4096)
    tail = victim + struct.pack(">2I", len(victim), sum(victim)) + head[:8]
    content = head.ljust(512, b"\0") + struct.pack(">I", 1_073_741_825 // 4096) + tail
    (folder / f"{FILE}-journal").write_bytes(content)


def _locked_up(*names: str) -> Alteration:
    def alter(folder: Path) -> None:
        for name in names:
            (folder / name).chmod(0)

    return alter


def _of_kinds() -> Iterator[tuple[str, Alteration]]:
    for suffix in ("", "-wal", "-shm", "-journal", ".new", ".new-journal"):
        for name, do in _KINDS.items():
            yield f"{FILE}{suffix} is {name}", _file(f"{FILE}{suffix}", do)
    for name, do in _KINDS.items():
        yield f"ledger.lock is {name}", _file("ledger.lock", do)
    yield "a hot journal", _hot_journal
    yield "half a file", _file(FILE, changed(lambda content: content[: len(content) // 2]))
    yield "a file that may not be read", _locked_up(FILE)
    yield "a folder that may not be read", _locked_up("")
    yield "traces that may not be read", _locked_up("traces")


# --- traces --------------------------------------------------------------------------------------


def _trace(lines: bytes) -> Alteration:
    """Puts other lines into the trace, and their hash into the row."""

    def alter(folder: Path) -> None:
        (path,) = (folder / "traces").iterdir()
        path.write_bytes(gzip.compress(lines))
        sha256 = hashlib.sha256(lines).hexdigest()
        sql(f"UPDATE results SET trace_sha256 = '{sha256}' WHERE trial = 0")(folder)

    return alter


def _of_a_trace(make: Make) -> Alteration:
    return lambda folder: make(next((folder / "traces").iterdir()))


def _of_the_traces(make: Make) -> Alteration:
    def alter(folder: Path) -> None:
        (folder / "traces").rename(folder / "elsewhere")
        make(folder / "traces")

    return alter


def _lines(*more: dict[str, Any]) -> bytes:
    header = {"type": "header", "format": "llm-planning trace", "version": 1}
    lines = [header, *more, {"type": "end", "lines": len(more) + 2}]
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


_LINES = {
    "nothing": b"",
    "no objects": b"7\n[]\n",
    "a text that has a type": b'"type"\n',
    "no UTF-8": b"\xff\xfe\n" * 1000,
    "deep JSON": DEEP.encode(),
    "deep objects": b'{"type":"header","a":' * 20_000,
    "only a header": _lines().splitlines()[0],
    "another version": _lines().replace(b'"version": 1', b'"version": [2]'),
    "a type that is a list": _lines({"type": ["x"]}),
    "a type that is an object": _lines({"type": {}}),
    "a tree that is a list": _lines({"type": "search", "tree": [1], "root": {}}),
    "a summary without a value": _lines({"type": "summary", "key": "x"}),
    "a summary with a list for a key": _lines({"type": "summary", "key": [], "value": 1}),
    "a summary twice": _lines(
        {"type": "summary", "key": "x", "value": 1},
        {"type": "summary", "key": "x", "index": 0, "value": 1},
    ),
    "a deep line": _lines({"type": "belief", "belief": json.loads("[" * 800 + "]" * 800)}),
    "lines without types": b'{"key": "x", "value": 1}\n7\n',
    "an unknown type": _lines({"type": "\x1b[2J", "\ud800": 1}),
}


def _bomb(path: Path) -> None:
    """A gibibyte of blanks in a mebibyte."""
    mebibyte = b" " * (1 << 20)
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS + 16)
    head = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush the same bytes mean the same again.
    more = packer.compress(mebibyte) + packer.flush(zlib.Z_FULL_FLUSH)
    path.write_bytes(head + more * 1023 + packer.flush())


def _many_members(path: Path) -> None:
    path.write_bytes(gzip.compress(b"") * 200_000)


def _of_traces() -> Iterator[tuple[str, Alteration]]:
    for name, lines in _LINES.items():
        yield f"a trace with {name}", _trace(lines)
    for name, do in _KINDS.items():
        yield f"a trace is {name}", _of_a_trace(do)
        yield f"the traces are {name}", _of_the_traces(do)
    yield "a trace is a bomb", _of_a_trace(_bomb)
    yield "a trace is many members", _of_a_trace(_many_members)
    yield "the traces are a link", _of_the_traces(link("elsewhere"))
    orphan = "f" * 64 + ".jsonl.gz"
    for name in (orphan, f"{orphan}.tmp"):
        for kind, do in _KINDS.items():
            yield f"traces/{name[62:]} is {kind}", _file(f"traces/{name}", do)


# --- pages ---------------------------------------------------------------------------------------


def _endless_table(folder: Path) -> None:
    """Inner pages that lead to each other: a walk through the trials would never end."""
    path = folder / FILE
    with closing(sqlite3.connect(path)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'trials'"
        ).fetchone()
    content = bytearray(path.read_bytes())
    leaf = bytes(content[(root - 1) * size : root * size])
    first = len(content) // size + 1
    levels = 12
    content[(root - 1) * size : root * size] = _inner(size, child=first)
    for level in range(levels):
        content += _inner(size, child=first + level + 1)
    content += leaf
    path.write_bytes(_sized(content, size))


def _endless_schema(folder: Path) -> None:
    """The same in the schema itself, of a row that SQLite takes any number of times."""
    path = folder / FILE
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute("PRAGMA writable_schema = ON")
        names = "SELECT rowid FROM sqlite_master WHERE tbl_name = 'trials'"
        connection.execute(f"DELETE FROM sqlite_master WHERE rowid NOT IN ({names})")
    content = bytearray(path.read_bytes())
    first = len(content) // size + 1
    levels = 12
    cells = _cells_of(bytes(content[:size]))
    autoindex = next(cell for cell in cells if b"autoindex" in cell)
    whole, repeated = _leaf(size, cells), _leaf(size, [autoindex])
    # Page 1: the whole schema once, then page after page of its last row.
    content[100:size] = _inner(size, child=first + 1, offset=100, leftmost=first)[100:]
    content += whole
    for level in range(levels):
        content += _inner(size, child=first + level + 2)
    content += repeated
    path.write_bytes(_sized(content, size))


def _inner(size: int, *, child: int, offset: int = 0, leftmost: int = 0) -> bytes:
    """An inner page of a table, all of whose children are one page, but perhaps the leftmost."""
    cells = [struct.pack(">IB", child, n % 100 + 1) for n in range(200)]
    if leftmost:
        cells[0] = struct.pack(">IB", leftmost, 1)
    return _page(size, 5, cells, offset=offset, right=struct.pack(">I", child))


def _leaf(size: int, cells: list[bytes]) -> bytes:
    return _page(size, 13, cells)


def _page(
    size: int, kind: int, cells: list[bytes], *, offset: int = 0, right: bytes = b""
) -> bytes:
    page = bytearray(size)
    end = size
    places = []
    for cell in cells:
        end -= len(cell)
        page[end : end + len(cell)] = cell
        places.append(end)
    head = struct.pack(">BHHHB", kind, 0, len(cells), end, 0) + right
    head += struct.pack(f">{len(places)}H", *places)
    page[offset : offset + len(head)] = head
    return bytes(page)


def _cells_of(page: bytes) -> list[bytes]:
    """The cells of page 1, a leaf whose rows all have less than 16 KiB."""
    (count,) = struct.unpack_from(">H", page, 103)
    cells = []
    for place in struct.unpack_from(f">{count}H", page, 108):
        length, used = page[place], 1
        if length & 0x80:
            length, used = (length & 0x7F) << 7 | page[place + 1], 2
        cells.append(page[place : place + used + 1 + length])
    return cells


def _sized(content: bytearray, size: int) -> bytes:
    """The same with its number of pages in the header."""
    struct.pack_into(">I", content, 28, len(content) // size)
    return bytes(content)


def _flipped(place: float, mask: int) -> Alteration:
    def alter(folder: Path) -> None:
        content = bytearray((folder / FILE).read_bytes())
        content[int(place * (len(content) - 1))] ^= mask
        (folder / FILE).write_bytes(content)

    return alter


def _of_pages() -> Iterator[tuple[str, Alteration]]:
    yield "an endless table", _endless_table
    yield "an endless schema", _endless_schema
    for n in range(12):
        yield f"byte {n} of 12 flipped", _flipped(n / 12, 0xFF >> n % 8)


def of_files() -> Iterator[tuple[str, Alteration]]:
    """All of the above, by name."""
    yield from _of_kinds()
    yield from _of_traces()
    yield from _of_pages()
