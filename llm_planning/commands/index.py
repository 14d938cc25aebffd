"""`llm-planning index`: builds and searches an index of texts by meaning."""

from __future__ import annotations

from collections import defaultdict
from contextlib import closing
from dataclasses import asdict
from difflib import SequenceMatcher
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from llm_base.files import TargetError, check_target, parse_json, read_regular
from llm_base.lines import lines_in
from llm_base.quoting import printable, quote
from llm_planning.commands.options import MOST, CacheOption, JsonOption, name, named_path
from llm_planning.endings import UsageError, refusing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_kernels import Match

JSON_LINES: Final = (".jsonl", ".ndjson")
"""Endings of files with a JSON object in each line."""

PLAIN: Final = ("", ".txt")
"""Endings of files with a text in each line."""

LIKE: Final = 1e-6
"""By how much two vectors of what is read alike, or two scores of it, may differ.

An encoder's last bits depend on the batch.
"""

BEYOND: Final = 10
"""Results beyond those that are asked for among which equally good ones are looked for."""

MOST_APART: Final = 64
"""How far apart rows of one vector lie at most where rows are sorted by a component."""

MOST_NAMED: Final = 3
"""Groups of entries of one vector that a note names."""

app = typer.Typer(help="Build and search an index of texts by meaning.")

FileArgument = Annotated[
    Path, typer.Argument(parser=named_path, help="A text per line (.txt), or .jsonl or .ndjson.")
]
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
    from llm_base.terminal import complain, say
    from llm_kernels import EmbeddingIndex
    from llm_serving.encoder import DEFAULT_ENCODER

    ending = file.suffix.lower()
    if ending not in (*PLAIN, *JSON_LINES):
        raise UsageError(
            f"{printable(str(file))}: no texts are read from a file that ends in {ending}: a file "
            f"with a text in each line ends in .txt or in nothing, one with a JSON object that has "
            f'a "text" in each line in {" or ".join(JSON_LINES)}'
        )
    with refusing(TargetError):
        check_target(out)
    texts, values = _entries(file)
    vectors, encoder = _embedded(texts, model or DEFAULT_ENCODER, cached=cache)
    index = EmbeddingIndex(vectors.shape[1], metadata={"encoder": encoder})
    index.add(texts, vectors, values)
    index.save(out)
    if alike := _alike(texts, vectors):
        named = "; ".join(" and ".join(map(quote, group)) for group in alike[:MOST_NAMED])
        complain(
            f"note: {sum(map(len, alike))} of {len(texts)} entries have the vector of another one, "
            f"as {encoder['name']} reads them alike: {named}"
            + (f"; and {len(alike) - MOST_NAMED} more" if alike[MOST_NAMED:] else "")
        )
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
    keys = [text.strip() for text in texts]
    found = opened.search_batch(vectors, k + BEYOND, keys=keys)
    nearest = [(text, _as_written(text, best)[:k]) for text, best in zip(texts, found, strict=True)]
    if as_json:
        results = [{"text": text, "matches": list(map(asdict, best))} for text, best in nearest]
        say_json({"index": str(index), "results": results})
    else:
        for text, best in nearest:
            say("\n".join(map(printable, [text, *(f"  {m.score:.4f}  {m.key}" for m in best)])))


def _entries(file: Path) -> tuple[list[str], list[Any]]:
    """The texts of a file, and the JSON object that each is from, or None."""
    from llm_kernels import EntryError

    is_json = file.suffix.lower() in JSON_LINES
    texts: list[str] = []
    values: list[Any] = []
    for number, line in enumerate(lines_in(BytesIO(read_regular(file, most=1 << 28))), 1):
        try:
            if text := line.decode("utf-8-sig").strip():
                values.append(parse_json(text) if is_json else None)
                texts.append(_text_of(values[-1]) if is_json else text)
        except ValueError as error:
            raise EntryError(f"{file}, line {number}: {error}") from error
    return texts, values


def _text_of(value: object) -> str:
    if not (isinstance(value, dict) and isinstance(text := value.get("text"), str)):
        raise ValueError(f'{quote(value)} is no JSON object that has a text as its "text"')
    return text.strip()


def _embedded(texts: list[str], model: str, *, cached: bool) -> tuple[Any, Any]:
    """The vectors [texts, D] of an encoder, and what it is called."""
    from llm_planning.interrupts import heard_while_loading
    from llm_serving.encoder import TextEncoder

    where: Literal["shared"] | None = "shared" if cached else None
    with heard_while_loading(), closing(TextEncoder(model, cache=where)) as encoder:
        return encoder.encode(texts), asdict(encoder.identity)


def _as_written(text: str, best: Sequence[Match]) -> list[Match]:
    """Matches of which those that are as good as the best one are sorted by their writing."""
    equal = [match for match in best if match.score >= best[0].score - LIKE]
    equal.sort(key=lambda match: -SequenceMatcher(None, text.strip(), match.key).ratio())
    return [*equal, *best[len(equal) :]]


def _alike(texts: list[str], vectors: Any) -> list[list[str]]:  # noqa: ANN401 - loads no NumPy
    """The groups of texts that have one vector, of two and more texts each.

    Args:
        vectors: [texts, D].
    """
    import numpy as np

    order = np.argsort(vectors[:, 0], kind="stable")
    rows = vectors[order]
    parents = list(range(len(texts)))

    def first(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    # Rows that are one have almost the same first component, so they lie close in this order.
    for apart in range(1, min(len(texts), MOST_APART)):
        (near,) = np.nonzero(rows[apart:, 0] - rows[:-apart, 0] <= LIKE)
        for place in near[np.abs(rows[near + apart] - rows[near]).max(axis=1) <= LIKE]:
            one, other = sorted((first(int(order[place])), first(int(order[place + apart]))))
            parents[other] = one
    groups: dict[int, list[str]] = defaultdict(list)
    for number, text in enumerate(texts):
        groups[first(number)].append(text)
    return [group for group in groups.values() if len(group) > 1]
