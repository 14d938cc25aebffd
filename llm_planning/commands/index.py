"""`llm-planning index`: builds and searches an index of texts by meaning."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from llm_kernels import EmbeddingIndex
from llm_planning.cli.options import check_writable_folder
from llm_planning.commands.index_entries import (
    JSON_SUFFIXES,
    read_json_entries,
    read_text_entries,
)
from llm_planning.endings import UsageError
from llm_planning.interrupts import heard_while_loading
from llm_serving.encoder import DEFAULT_ENCODER, TextEncoder
from llm_serving.models import CATALOGUE
from llm_serving.terminal import SafeConsole, literal, progress, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from llm_kernels import Match
    from llm_planning.commands.index_entries import EntryFile
    from llm_serving.vector_store import EncoderIdentity


class UnfitIndexError(Exception):
    """An index cannot be searched as the command line asks."""


def build(
    file: Path,
    *,
    out: Path,
    field: str | None,
    key: str | None,
    dtype: str,
    model: str | None,
    cache: bool,
    as_json: bool,
) -> None:
    """Embeds the entries of a file and saves them as an index."""
    is_json = file.suffix.lower() in JSON_SUFFIXES
    if not is_json and (field is not None or key is not None):
        option = "--field" if field is not None else "--key"
        raise UsageError(
            f"{option}: {file} is a text file, whose lines have no fields: name it .jsonl if it "
            "is JSONL, .json if it is a JSON array"
        )
    check_writable_folder(out)
    began = time.monotonic()
    text_field = (field or "text") if is_json else None
    read = (
        read_text_entries(file)
        if text_field is None
        else read_json_entries(file, field=text_field, key=key)
    )
    with _encoder(model or DEFAULT_ENCODER, cache=cache) as encoder:
        identity = encoder.identity
        vectors, cached = _embed(encoder, [entry.text for entry in read.entries])
    index = EmbeddingIndex(
        vectors.shape[1],
        dtype=dtype,
        metadata={"encoder": asdict(identity), "field": text_field},
    )
    index.add(
        [entry.key for entry in read.entries],
        vectors,
        [entry.payload for entry in read.entries],
    )
    index.save(out)
    summary = {
        "folder": str(out),
        "entries": len(index),
        "blank_lines": read.blank_lines,
        "cached": cached,
        "dimension": index.dimension,
        "dtype": index.dtype,
        "encoder": asdict(identity),
        "seconds": round(time.monotonic() - began, 3),
    }
    if as_json:
        say(json.dumps(summary))
    else:
        say(_told(out, read, cached=cached, index=index, identity=identity))


def search(
    folder: Path,
    texts: Sequence[str],
    *,
    k: int,
    backend: str,
    device: str,
    model: str | None,
    cache: bool,
    as_json: bool,
) -> None:
    """Prints the entries of an index that are nearest to each text, with cosine similarities."""
    with heard_while_loading():
        index = EmbeddingIndex.load(folder, backend=backend, device=device)
    built_with = _encoder_of(index, folder)
    name = _bundled(built_with["name"], folder) if model is None else model
    with _encoder(name, cache=cache) as encoder:
        _check_same(built_with, encoder.identity, folder)
        with SafeConsole(stderr=True).waiting("embedding"), heard_while_loading():
            vectors = encoder.encode(texts)
    found = index.search_batch(vectors, min(k, max(1, len(index))))
    if as_json:
        results = [
            {"text": text, "matches": [asdict(match) for match in matches]}
            for text, matches in zip(texts, found, strict=True)
        ]
        say(
            json.dumps(
                {
                    "folder": str(folder),
                    "entries": len(index),
                    "encoder": built_with,
                    "results": results,
                }
            )
        )
        return
    field = index.metadata.get("field")
    for text, matches in zip(texts, found, strict=True):
        _print_matches(text, matches, field=field if isinstance(field, str) else None)


@contextmanager
def _encoder(name: str, *, cache: bool) -> Iterator[TextEncoder]:
    """Opens a sentence encoder, and closes it at the end."""
    with heard_while_loading():
        opened = TextEncoder(name, cache="shared" if cache else None)
    with closing(opened):
        yield opened


def _embed(encoder: TextEncoder, texts: list[str]) -> tuple[NDArray[np.float32], int]:
    """The vectors, shape [texts, dimension], and the number of distinct texts with a cached one."""
    done: list[int] = []
    with progress() as bars:
        task = bars.add_task("embedding", total=len(set(texts)))

        def report(number: int) -> None:
            done.append(number)
            bars.update(task, completed=number)

        with heard_while_loading():
            vectors = encoder.encode(texts, report=report)
    return vectors, done[0]


def _encoder_of(index: EmbeddingIndex, folder: Path) -> dict[str, str]:
    match index.metadata.get("encoder"):
        case {"name": str(name), "revision": str(revision)}:
            return {"name": name, "revision": revision}
    raise UnfitIndexError(
        f"{folder} does not say which encoder its vectors come from: search an index that was made "
        "by `llm-planning index build`"
    )


def _bundled(name: str, folder: Path) -> str:
    """The name of an index's own encoder; a stranger's index cannot choose what is loaded."""
    if name not in CATALOGUE:
        raise UnfitIndexError(
            f"{folder} was built with the encoder {name}, which does not come with this program: "
            f"if you trust it, add --model {shlex.quote(name)}"
        )
    return name


def _check_same(built_with: dict[str, str], identity: EncoderIdentity, folder: Path) -> None:
    if built_with["revision"] != identity.revision:
        raise UnfitIndexError(
            f"{folder} was built with the encoder {built_with['name']} of revision "
            f"{built_with['revision']}, and {identity.name} is of revision {identity.revision}: "
            "name the first one with --model, or build the index again"
        )


def _told(
    out: Path, read: EntryFile, *, cached: int, index: EmbeddingIndex, identity: EncoderIdentity
) -> str:
    parts = [
        f"{len(index)} entries, {index.dimension} dimensions, {index.dtype}, {identity.name}",
        f"{cached} embedded before",
    ]
    if read.blank_lines:
        lines = "line" if read.blank_lines == 1 else "lines"
        parts.append(f"{read.blank_lines} blank {lines} skipped")
    return f"{out}: {'; '.join(parts)}"


def _print_matches(text: str, matches: tuple[Match, ...], *, field: str | None) -> None:
    console = SafeConsole()
    console.print(literal(text, "bold"), soft_wrap=True)
    for match in matches:
        line = f"  {match.score:.4f}  {match.key}"
        shown = _text_of(match.payload, field)
        if shown is not None and shown != match.key:
            line += f": {shown}"
        console.print(literal(line), soft_wrap=True)


def _text_of(payload: Any, field: str | None) -> str | None:  # noqa: ANN401 - any JSON
    if field is None or not isinstance(payload, dict):
        return None
    return str(payload.get(field))
