"""`llm-planning index`: texts that are searched by meaning: building, searching, timing."""

from __future__ import annotations

import json
import os
import time
from contextlib import closing, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from llm_kernels import EmbeddingIndex, SimilarityError
from llm_planning.commands.index_bench import (
    BenchError,
    Measurement,
    bench_folder,
    bench_sizes,
    timed_backends,
)
from llm_planning.commands.index_entries import (
    JSONL_SUFFIXES,
    EntryFile,
    EntryFileError,
    read_jsonl_entries,
    read_text_entries,
)
from llm_serving.encoder import DEFAULT_ENCODER, TextEncoder
from llm_serving.errors import ServingError
from llm_serving.models.progress import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

    from llm_kernels import Match
    from llm_serving.vector_store import EncoderIdentity

app = typer.Typer(no_args_is_help=True, help="Texts that are searched by meaning.")


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
    Path, typer.Argument(metavar="FILE", help="A line per entry, or JSONL (.jsonl, .ndjson).")
]
FolderArgument = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of a built index.")]
BenchFolderArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FOLDER", help="Of a built index; without it, random vectors."),
]
TextsArgument = Annotated[list[str], typer.Argument(metavar="TEXT...", help="What to look for.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder to save the index in.")]
FieldOption = Annotated[
    str | None, typer.Option(help='Of a JSONL object: its text.  [default: "text"]')
]
KeyOption = Annotated[
    str | None, typer.Option(help="Of a JSONL object: its key.  [default: the text]")
]
DtypeOption = Annotated[Dtype, typer.Option(help="Of the vectors; float16 takes half the space.")]
ModelOption = Annotated[str, typer.Option(help="A sentence encoder: a bundled name, folder or id.")]
SameModelOption = Annotated[
    str | None, typer.Option(help="Where the index's encoder is now, if it was moved.")
]
CountOption = Annotated[int, typer.Option("-k", min=1, help="Results per text.")]
BackendOption = Annotated[Backend, typer.Option(help="What searches the index.")]
DeviceOption = Annotated[str, typer.Option(help="Where it is searched: cpu, cuda, cuda:1 ...")]
RowsOption = Annotated[
    list[int], typer.Option("--rows", min=1, help="Entries of an index; may be repeated.")
]
QueriesOption = Annotated[
    list[int], typer.Option("--queries", min=1, help="Searched for at once; may be repeated.")
]
CacheOption = Annotated[
    bool, typer.Option("--cache/--no-cache", help="Reuse the vectors of texts embedded before.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


class _IndexError(Exception):
    """An index that cannot be searched as the command line asks."""


@app.command()
def build(
    file: FileArgument,
    *,
    out: OutOption,
    field: FieldOption = None,
    key: KeyOption = None,
    dtype: DtypeOption = Dtype.FLOAT32,
    model: ModelOption = DEFAULT_ENCODER,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Embeds the entries of a file and saves them as an index.

    An index that the folder holds already is replaced, once the new one is complete. Interrupted
    and run again, it goes on where it was, as the vectors are cached. Exits with 1 if the file, the
    encoder or the folder cannot be used, with 2 for options that the file does not have, with 130
    when interrupted.
    """
    is_jsonl = file.suffix.lower() in JSONL_SUFFIXES
    if not is_jsonl and (field is not None or key is not None):
        option = "--field" if field is not None else "--key"
        raise typer.BadParameter(
            f"{file} is a text file, whose lines have no fields: name it .jsonl if it is JSONL",
            param_hint=option,
        )
    began = time.monotonic()
    text_field = (field or "text") if is_jsonl else None
    with _failures():
        read = (
            read_text_entries(file)
            if text_field is None
            else read_jsonl_entries(file, field=text_field, key=key)
        )
        _check_writable(out)
        with closing(TextEncoder(model, cache="shared" if cache else None)) as encoder:
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
        typer.echo(json.dumps(summary))
    else:
        typer.echo(_told(out, read, cached=cached, index=index, identity=identity))


@app.command()
def search(
    folder: FolderArgument,
    texts: TextsArgument,
    *,
    k: CountOption = 10,
    backend: BackendOption = Backend.AUTO,
    device: DeviceOption = "cpu",
    model: SameModelOption = None,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Prints the entries of an index that are nearest to each text, with cosine similarities.

    The texts are embedded by the encoder that the index was built with. Exits with 1 if the index
    or its encoder cannot be used, with 130 when interrupted.
    """
    with _failures():
        index = EmbeddingIndex.load(folder, backend=backend.value, device=device)
        built_with = _encoder_of(index, folder)
        name = built_with["name"] if model is None else model
        with closing(TextEncoder(name, cache="shared" if cache else None)) as encoder:
            _check_same(built_with, encoder.identity, folder)
            with Console(stderr=True).status("embedding"):
                vectors = encoder.encode(texts)
        found = index.search_batch(vectors, k)
    if as_json:
        results = [
            {"text": text, "matches": [asdict(match) for match in matches]}
            for text, matches in zip(texts, found, strict=True)
        ]
        typer.echo(
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
    cannot be used, with 130 when interrupted.
    """
    measured: list[Measurement] = []
    with _failures(), progress() as bars:
        if folder is None:
            steps = len(rows) * len(queries) * len(timed_backends(device))
            running = bench_sizes(
                rows, queries=queries, dimension=384, dtype=dtype.value, k=k, device=device
            )
        else:
            steps = len(queries) * len(timed_backends(device))
            running = bench_folder(folder, queries=queries, k=k, device=device)
        task = bars.add_task("timing", total=steps)
        for measurement in running:
            measured.append(measurement)
            bars.advance(task)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "folder": None if folder is None else str(folder),
                    "device": device,
                    "cores": os.cpu_count(),
                    "k": k,
                    "measurements": [asdict(one) for one in measured],
                }
            )
        )
        return
    _print_measurements(measured)


@contextmanager
def _failures() -> Iterator[None]:
    """Turns the errors that a user meets into a line and an exit code."""
    try:
        yield
    except (
        ServingError,
        SimilarityError,
        EntryFileError,
        BenchError,
        _IndexError,
        OSError,
    ) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(130) from interrupt


def _check_writable(out: Path) -> None:
    """Finds out before minutes of work whether the folder can be written."""
    existing = next(path for path in (out, *out.absolute().parents) if path.exists())
    if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
        raise _IndexError(f"--out {out}: {existing} is not a folder that can be written")


def _embed(encoder: TextEncoder, texts: list[str]) -> tuple[NDArray[np.float32], int]:
    """Vectors [texts, dimension], and how many of the distinct texts had one already."""
    done: list[int] = []
    with progress() as bars:
        task = bars.add_task("embedding", total=len(set(texts)))

        def report(number: int) -> None:
            done.append(number)
            bars.update(task, completed=number)

        vectors = encoder.encode(texts, report=report)
    return vectors, done[0]


def _encoder_of(index: EmbeddingIndex, folder: Path) -> dict[str, str]:
    match index.metadata.get("encoder"):
        case {"name": str(name), "revision": str(revision)}:
            return {"name": name, "revision": revision}
    raise _IndexError(
        f"{folder} does not say which encoder its vectors come from: search an index that was made "
        "by `llm-planning index build`"
    )


def _check_same(built_with: dict[str, str], identity: EncoderIdentity, folder: Path) -> None:
    if built_with["revision"] != identity.revision:
        raise _IndexError(
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
    console = Console()
    console.print(Text(text, style="bold"), soft_wrap=True)
    for match in matches:
        line = f"  {match.score:.4f}  {match.key}"
        shown = _text_of(match.payload, field)
        if shown is not None and shown != match.key:
            line += f": {shown}"
        console.print(Text(line), soft_wrap=True)


def _text_of(payload: Any, field: str | None) -> str | None:  # noqa: ANN401 - any JSON
    if field is None or not isinstance(payload, dict):
        return None
    return str(payload.get(field))


def _print_measurements(measured: list[Measurement]) -> None:
    table = Table("rows", "queries", "backend", "milliseconds", "queries/s", "auto")
    for column in (table.columns[i] for i in (0, 1, 3, 4)):
        column.justify = "right"
    for one in sorted(measured, key=lambda one: (one.rows, one.queries, one.milliseconds)):
        table.add_row(
            f"{one.rows:,}",
            str(one.queries),
            one.backend,
            f"{one.milliseconds:.3f}",
            f"{one.queries * 1000 / one.milliseconds:,.0f}",
            "<-" if one.chosen else "",
        )
    Console().print(table)
