"""`llm-planning index`: builds and searches an index of texts by meaning."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from llm_base.files import TargetError, check_target, parse_json, read_regular
from llm_base.lines import lines_in
from llm_base.quoting import printable, quote
from llm_planning.commands.options import MOST, CacheOption, JsonOption, name, named_path
from llm_planning.endings import refusing

app = typer.Typer(help="Build and search an index of texts by meaning.")

FileArgument = Annotated[Path, typer.Argument(parser=named_path, help="A text per line; .jsonl.")]
IndexArgument = Annotated[Path, typer.Argument(parser=named_path, help="File of an index.")]
OutOption = Annotated[Path, typer.Option(metavar="INDEX", parser=named_path, help="File to write.")]
ModelOption = Annotated[
    str | None, typer.Option(parser=name, help="A sentence encoder: name, folder or id.")
]
CountOption = Annotated[int, typer.Option("-k", min=1, max=MOST, help="Results per text.")]
TextsArgument = Annotated[list[str], typer.Argument(metavar="TEXT...", help="What to look for.")]


@app.command()
def build(
    file: FileArgument, *, out: OutOption, model: ModelOption = None, cache: CacheOption = True
) -> None:
    """Embeds the texts of a file and saves them as an index, with the objects of a .jsonl file."""
    from llm_base.terminal import say
    from llm_kernels import EmbeddingIndex
    from llm_serving.encoder import DEFAULT_ENCODER

    with refusing(TargetError):
        check_target(out)
    texts, values = _entries(file)
    vectors, encoder = _embedded(texts, model or DEFAULT_ENCODER, cached=cache)
    index = EmbeddingIndex(vectors.shape[1], metadata={"encoder": encoder})
    index.add(texts, vectors, values)
    index.save(out)
    say(f"{out}: {len(index)} entries, {index.dimension} dimensions, {encoder['name']}")


@app.command()
def search(
    index: IndexArgument,
    texts: TextsArgument,
    *,
    k: CountOption = 10,
    model: ModelOption = None,
    cache: CacheOption = True,
    as_json: JsonOption = False,
) -> None:
    """Prints the entries of an index that are nearest to each text, with cosine similarities."""
    from llm_base.terminal import say, say_json
    from llm_kernels import EmbeddingIndex, IndexFileError
    from llm_serving.models import CATALOGUE

    opened = EmbeddingIndex.load(index)
    match built := opened.metadata.get("encoder"):
        case {"name": str(name), "revision": revision} if model or name in CATALOGUE:
            vectors, encoder = _embedded(texts, model or name, cached=cache)
        case None:
            raise IndexFileError(
                f"{index} does not say its encoder: `index build` makes one that does"
            )
        case _:  # a stranger's index does not choose what is loaded
            remedy = f"if you trust it, name it with --model: {quote(built)}"
            raise IndexFileError(f"{index} is of no bundled encoder; {remedy}")
    if encoder["revision"] != revision:
        raise IndexFileError(f"{index} has the encoder {built}, and this is {encoder}")
    nearest = list(zip(texts, opened.search_batch(vectors, k), strict=True))
    if as_json:
        results = [{"text": text, "matches": list(map(asdict, best))} for text, best in nearest]
        say_json({"index": str(index), "results": results})
    else:
        for text, best in nearest:
            say("\n".join(map(printable, [text, *(f"  {m.score:.4f}  {m.key}" for m in best)])))


def _entries(file: Path) -> tuple[list[str], list[Any]]:
    """The texts of a file, and the JSON object that each is from, or None."""
    from llm_kernels import EntryError

    texts: list[str] = []
    values: list[Any] = []
    for number, line in enumerate(lines_in(BytesIO(read_regular(file, most=1 << 28))), 1):
        try:
            if text := line.decode("utf-8-sig").strip():
                values.append(parse_json(text) if file.suffix == ".jsonl" else None)
                texts.append(values[-1]["text"].strip() if file.suffix == ".jsonl" else text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EntryError(f"{file}, line {number}: {type(error).__name__}: {error}") from error
    return texts, values


def _embedded(texts: list[str], model: str, *, cached: bool) -> tuple[Any, Any]:
    """The vectors [texts, D] of an encoder, and what it is called."""
    from llm_planning.interrupts import heard_while_loading
    from llm_serving.encoder import TextEncoder

    where: Literal["shared"] | None = "shared" if cached else None
    with heard_while_loading(), closing(TextEncoder(model, cache=where)) as encoder:
        return encoder.encode(texts), asdict(encoder.identity)
