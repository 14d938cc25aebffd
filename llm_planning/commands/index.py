"""`llm-planning index`: builds and searches an index of texts by meaning."""

from __future__ import annotations

import os
import shlex
import time
from contextlib import closing, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from llm_planning.commands.options import MOST, JsonOption, check_writable_folder, named_path
from llm_planning.endings import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from llm_kernels import EmbeddingIndex, Match
    from llm_planning.commands.index_entries import EntryFile
    from llm_serving.encoder import TextEncoder
    from llm_serving.stores import EncoderIdentity

app = typer.Typer(help="Build and search an index of texts by meaning.")


class Dtype(StrEnum):
    """What an index keeps its vectors in."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"


class Backend(StrEnum):
    """What searches an index."""

    AUTO = "auto"
    TRITON = "triton"
    FAISS = "faiss"
    TORCH = "torch"
    NUMPY = "numpy"


FileArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        parser=named_path,
        help="A line per entry; JSONL (.jsonl, .ndjson, .json); a JSON array of objects or texts.",
    ),
]
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", parser=named_path, help="Folder of an index.")
]
BenchFolderArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER", parser=named_path, help="Folder of an index; without it, random vectors."
    ),
]
TextsArgument = Annotated[list[str], typer.Argument(metavar="TEXT...", help="What to look for.")]
OutOption = Annotated[
    Path,
    typer.Option("--out", metavar="FOLDER", parser=named_path, help="Folder to save the index in."),
]
FieldOption = Annotated[
    str | None, typer.Option(help='JSON: the field with the text.  [default: "text"]')
]
KeyOption = Annotated[
    str | None, typer.Option(help="JSON: the field with the key.  [default: the text]")
]
DtypeOption = Annotated[
    Dtype, typer.Option(help="Numbers of the vectors; float16 takes half the space.")
]
ModelOption = Annotated[
    str | None,
    typer.Option(help="A sentence encoder: a bundled name, folder or id.  [default: the bundled]"),
]
SameModelOption = Annotated[
    str | None, typer.Option(help="The index's encoder, where it does not come with this program.")
]
CountOption = Annotated[int, typer.Option("-k", min=1, max=MOST, help="Results per text.")]
BackendOption = Annotated[Backend, typer.Option(help="What searches the index.")]
DeviceOption = Annotated[str, typer.Option(help="Where it is searched: cpu, cuda, cuda:1 ...")]
RowsOption = Annotated[
    list[int],
    typer.Option("--rows", min=1, max=MOST, help="Entries of the index; may be repeated."),
]
QueriesOption = Annotated[
    list[int],
    typer.Option("--queries", min=1, max=MOST, help="Texts searched for at once; may be repeated."),
]
VectorsOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Reuse the vectors of texts embedded before.")
]


class UnfitIndexError(Exception):
    """An index cannot be searched as the command line asks."""


@app.command()
def build(
    file: FileArgument,
    *,
    out: OutOption,
    field: FieldOption = None,
    key: KeyOption = None,
    dtype: DtypeOption = Dtype.FLOAT32,
    model: ModelOption = None,
    cache: VectorsOption = True,
    as_json: JsonOption = False,
) -> None:
    """Embeds the entries of a file and saves them as an index.

    An index that the folder holds already is replaced, once the new one is complete. Interrupted
    and run again, it goes on where it was, as the vectors are cached. Exits with 1 if the file or
    the encoder cannot be used, with 2 for a folder that cannot be written or options that the file
    does not have, with 130 when interrupted.
    """
    from llm_base.terminal import say, say_json
    from llm_kernels import EmbeddingIndex
    from llm_planning.commands.index_entries import (
        JSON_SUFFIXES,
        read_json_entries,
        read_text_entries,
    )
    from llm_serving.encoder import DEFAULT_ENCODER

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
        dtype=dtype.value,
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
        say_json(summary)
    else:
        say(_told(out, read, cached=cached, index=index, identity=identity))


@app.command()
def search(
    folder: FolderArgument,
    texts: TextsArgument,
    *,
    k: CountOption = 10,
    backend: BackendOption = Backend.AUTO,
    device: DeviceOption = "cpu",
    model: SameModelOption = None,
    cache: VectorsOption = True,
    as_json: JsonOption = False,
) -> None:
    """Prints the entries of an index that are nearest to each text, with cosine similarities.

    The texts are embedded by the encoder that the index was built with. Exits with 1 if the index
    or its encoder cannot be used, with 130 when interrupted.
    """
    from llm_base.terminal import SafeConsole, say_json
    from llm_kernels import EmbeddingIndex
    from llm_planning.interrupts import heard_while_loading

    with heard_while_loading():
        index = EmbeddingIndex.load(folder, backend=backend.value, device=device)
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
        about = {"folder": str(folder), "entries": len(index), "encoder": built_with}
        say_json({**about, "results": results})
        return
    field = index.metadata.get("field")
    for text, matches in zip(texts, found, strict=True):
        _print_matches(text, matches, field=field if isinstance(field, str) else None)


@app.command()
def bench(
    folder: BenchFolderArgument = None,
    *,
    rows: RowsOption = [1_000, 10_000, 50_000],  # noqa: B006 - typer reads it, nobody changes it
    queries: QueriesOption = [1, 16],  # noqa: B006 - the same
    k: CountOption = 10,
    device: DeviceOption = "cpu",
    dtype: DtypeOption = Dtype.FLOAT32,
    as_json: JsonOption = False,
) -> None:
    """Times the search backends of this machine, and says which one `auto` takes.

    The answers are compared first. Without a folder the vectors are random, of 384 dimensions; with
    one, `--rows` and `--dtype` are the index's own. Exits with 1 if the answers differ or the index
    cannot be used, with 2 for sizes that do not fit in the memory, with 130 when interrupted.
    """
    from llm_base.terminal import SafeConsole, progress, say_json
    from llm_planning.commands.index_bench import (
        DIMENSION,
        Measurement,
        bench_folder,
        bench_sizes,
        refuse_sizes,
        table_of,
        timed_backends,
    )

    refuse_sizes([] if folder else rows, queries=queries, dimension=DIMENSION, k=k)
    measured: list[Measurement] = []
    with progress() as bars:
        backends = len(timed_backends(device))
        if folder is None:
            steps = len(rows) * len(queries) * backends
            running = bench_sizes(
                rows, queries=queries, dimension=DIMENSION, dtype=dtype.value, k=k, device=device
            )
        else:
            steps = len(queries) * backends
            running = bench_folder(folder, queries=queries, k=k, device=device)
        task = bars.add_task("timing", total=steps)
        for measurement in running:
            measured.append(measurement)
            bars.advance(task)
    if as_json:
        about = {"folder": folder and str(folder), "device": device, "cores": os.cpu_count()}
        say_json({**about, "k": k, "measurements": [asdict(one) for one in measured]})
        return
    SafeConsole().print(table_of(measured))


@contextmanager
def _encoder(name: str, *, cache: bool) -> Iterator[TextEncoder]:
    """Opens a sentence encoder, and closes it at the end."""
    from llm_planning.interrupts import heard_while_loading
    from llm_serving.encoder import TextEncoder

    with heard_while_loading():
        opened = TextEncoder(name, cache="shared" if cache else None)
    with closing(opened):
        yield opened


def _embed(encoder: TextEncoder, texts: list[str]) -> tuple[NDArray[np.float32], int]:
    """The vectors, shape [texts, dimension], and the number of distinct texts with a cached one."""
    from llm_base.terminal import progress
    from llm_planning.interrupts import heard_while_loading

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
    from llm_serving.models import CATALOGUE

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
    from llm_base.terminal import SafeConsole, literal

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
