"""The command line of `llm-planning index`."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from llm_planning.cli.options import MOST, JsonOption, Work, named_path

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
) -> Work:
    """Embeds the entries of a file and saves them as an index.

    An index that the folder holds already is replaced, once the new one is complete. Interrupted
    and run again, it goes on where it was, as the vectors are cached. Exits with 1 if the file or
    the encoder cannot be used, with 2 for a folder that cannot be written or options that the file
    does not have, with 130 when interrupted.
    """
    from llm_planning.commands import index as commands

    return partial(
        commands.build,
        file,
        out=out,
        field=field,
        key=key,
        dtype=dtype.value,
        model=model,
        cache=cache,
        as_json=as_json,
    )


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
) -> Work:
    """Prints the entries of an index that are nearest to each text, with cosine similarities.

    The texts are embedded by the encoder that the index was built with. Exits with 1 if the index
    or its encoder cannot be used, with 130 when interrupted.
    """
    from llm_planning.commands import index as commands

    return partial(
        commands.search,
        folder,
        texts,
        k=k,
        backend=backend.value,
        device=device,
        model=model,
        cache=cache,
        as_json=as_json,
    )


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
) -> Work:
    """Times the search backends of this machine, and says which one `auto` takes.

    The answers are compared first. Without a folder the vectors are random, of 384 dimensions; with
    one, `--rows` and `--dtype` are the index's own. Exits with 1 if the answers differ or the index
    cannot be used, with 2 for sizes that do not fit in the memory, with 130 when interrupted.
    """
    from llm_planning.commands import index_bench as commands

    return partial(
        commands.bench,
        folder,
        rows=rows,
        queries=queries,
        k=k,
        device=device,
        dtype=dtype.value,
        as_json=as_json,
    )
