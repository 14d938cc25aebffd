"""The Triton kernels on a GPU, beside the device's copy bandwidth, torch, faiss and other kernels.

The ceiling is measured first: a large copy on the device, bytes read plus bytes written. Then, per
size: answers are compared with exact scores in float64, and a peer whose answers differ gets no
time. The device's time comes from CUDA graphs, which replay the launches without Python; what they
take of Python stands apart, and below about a million rows it is the longer of the two. Inputs
rotate through more memory than the L2 cache holds. Whole searches, from queries on the host to the
answer there, are timed by backend: `--record` writes them for `auto`.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from importlib import metadata
from itertools import groupby, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import similarity_before
from harness import parser, report
from rich.console import Console
from rich.table import Table
from similarity_sizes import (
    BEFORE,
    EXACT,
    FAISS,
    KERNEL,
    TORCH,
    Row,
    Size,
    findings,
    sizes,
    table_of,
)

from llm_kernels import available_backends, faiss_search, torch_search, triton_search
from llm_kernels.cards import Card, TimedSearch, write_card
from llm_kernels.numpy_search import SPARE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from llm_kernels.vectors import Floats, Indices

# Replays of a sample, and how long all samples of one arm may take.
BURST, SAMPLING = 8, 0.4
DEVICE = "cuda"
# What `--tune` tries: rows, stages, warps, and programs of a processor.
SHAPES = tuple(product((64, 128, 256), (3, 4, 5, 6), (4, 8), (1, 2)))
TUNED = ((384, 1), (384, 16), (384, 64), (768, 1), (768, 16), (768, 64))
TOLERANCE = {"float32": 1e-5, "float16": 1e-5, "bfloat16": 2e-5}
"""Of a score; two halves of bfloat16 leave 2^-16 of a query."""
INEXACT = 4e-3
"""Of peers that multiply rounded queries; torch rounds its scores to the corpus' dtype as well."""


@dataclass(frozen=True)
class Corpora:
    """As many random corpora of unit rows as it takes to leave the L2 cache behind."""

    rows: tuple[Tensor, ...]
    inverse_norms: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def random(cls, rows: int, dimension: int, dtype: str) -> Corpora:
        """Of one size; the generator goes on from where it is."""
        import torch

        element = getattr(torch, dtype)
        cache = torch.cuda.get_device_properties(0).L2_cache_size
        copies = max(1, -(-4 * cache // (rows * dimension * element.itemsize)))
        made, norms = [], []
        for _ in range(copies):
            corpus = torch.empty((rows, dimension), dtype=element, device=DEVICE)
            blocks = corpus.split(1_000_000)
            for block in blocks:
                block.copy_(unit(len(block), dimension))
            made.append(corpus)
            norms.append(torch.cat([1 / block.float().norm(dim=1) for block in blocks]))
        return cls(tuple(made), tuple(norms))

    @cached_property
    def flat_indices(self) -> list[Any]:
        """Flat inner-product indices of faiss on the GPU, filled beforehand."""
        import faiss
        import faiss.contrib.torch_utils
        import torch

        resources = faiss.StandardGpuResources()
        config = faiss.GpuIndexFlatConfig()
        config.useFloat16 = self.rows[0].dtype == torch.float16
        indices = []
        for corpus in self.rows[:8]:
            index = faiss.GpuIndexFlatIP(resources, corpus.shape[1], config)
            for block in corpus.split(1_000_000):
                index.add(block.float())
            indices.append(index)
        return indices


@dataclass(frozen=True, slots=True)
class Case:
    """One size, ready to be searched.

    Attributes:
        queries: float32 [Q, D], unit rows, on the device.
    """

    size: Size
    queries: Tensor
    corpora: Corpora

    def turn(self, index: int) -> tuple[Tensor, Tensor]:
        """The corpus and norms that a search takes."""
        place = index % len(self.corpora)
        return self.corpora.rows[place], self.corpora.inverse_norms[place]


def unit(rows: int, dimension: int) -> Tensor:
    """Random unit rows on the device, float32."""
    import torch

    made = torch.randn((rows, dimension), device=DEVICE)
    return made / made.norm(dim=1, keepdim=True)


# --- time ----------------------------------------------------------------------------------------


def replayed(run: Callable[[int], Any], calls: int) -> Callable[[], None]:
    """The calls `run(0)` to `run(calls - 1)` as one CUDA graph, in which Python has no part.

    Raises:
        RuntimeError: something in them cannot be captured.
    """
    import torch

    for index in range(calls):  # compiles, and chooses algorithms
        run(index)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # A capture that fails leaves its own stream behind.
    with torch.cuda.stream(torch.cuda.current_stream()), torch.cuda.graph(graph):
        for index in range(calls):
            run(index)
    return graph.replay


def device_seconds(run: Callable[[], Any]) -> float:
    """Median seconds of `run`, by the device's own clock; the device is busy when it begins."""
    import torch

    def sample(burst: int) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        run()
        begin.record()
        for _ in range(burst):
            run()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1000 / burst

    once = sample(1)
    burst = min(BURST, max(1, int(SAMPLING / 8 / once)))
    repeats = min(20, max(3, int(SAMPLING / (burst + 1) / once)))
    return statistics.median(sample(burst) for _ in range(repeats))


def python_seconds(run: Callable[[int], Any]) -> float:
    """Median seconds that a call takes of Python, while the device falls behind."""
    import torch

    samples: list[float] = []
    end = time.perf_counter() + SAMPLING
    while len(samples) < 2 or (len(samples) < 10 and time.perf_counter() < end):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for index in range(BURST):
            run(len(samples) * BURST + index)
        samples.append((time.perf_counter() - begun) / BURST)
    torch.cuda.synchronize()
    return statistics.median(samples)


def whole_seconds(run: Callable[[int], Any]) -> float:
    """Median seconds of a call that waits for its own answer."""

    def sample(index: int) -> float:
        begun = time.perf_counter()
        run(index)
        return time.perf_counter() - begun

    once = min(sample(index) for index in range(2))
    return statistics.median(map(sample, range(min(30, max(3, int(SAMPLING / once))))))


def copy_bandwidth() -> float:
    """Bytes per second, read plus written, of a copy far larger than the L2 cache."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    source = torch.randint(0, 255, (min(4 << 30, free // 4),), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / device_seconds(lambda: target.copy_(source))


# --- who searches --------------------------------------------------------------------------------


def by_kernel(case: Case, index: int, *, shape: triton_search.Shape | None = None) -> Tensor:
    """The answer of today's kernels, as keys."""
    return triton_search.launch(case.queries, *case.turn(index), case.size.k, shape=shape)


def by_torch(case: Case) -> Callable[[int], Any]:
    """The whole score matrix by cuBLAS, in the corpus' dtype, then torch's selection."""
    import torch

    queries = case.queries.to(case.corpora.rows[0].dtype)
    return lambda index: torch.topk(queries @ case.turn(index)[0].T, case.size.k)


def by_exact_torch(case: Case) -> Callable[[int], Any]:
    """What the `torch` backend does on the device, of all rows at once where they fit."""
    import torch

    size = case.size
    halves = size.itemsize == 2
    block = torch.cuda.mem_get_info()[0] // 4 // (16 * size.queries)
    return lambda index: torch_search.candidates(
        case.queries,
        *case.turn(index),
        size.k + SPARE,
        best_of=torch_search.best_of_halves if halves else torch_search.best_of_floats,
        block=block,
    )


def by_faiss(case: Case) -> Callable[[int], Any]:
    """Faiss' flat index, filled beforehand."""
    indices = case.corpora.flat_indices
    return lambda index: indices[index % len(indices)].search(case.queries, case.size.k)


def answer_of(found: Any, case: Case) -> tuple[Tensor, Tensor]:  # noqa: ANN401 - as it comes
    """Scores and rows [Q, K], on the device, of what an arm returned."""
    import torch

    if isinstance(found, torch.Tensor):
        sides = triton_search.scores_and_rows(found.cpu().numpy())
        scores, rows = (torch.from_numpy(side).to(found.device) for side in sides)
        return scores, rows
    scores, rows = found
    return scores[:, : case.size.k], rows[:, : case.size.k]


def deviation(case: Case, found: tuple[Tensor, Tensor], exact: Tensor) -> float:
    """How far scores, or the exact scores of the rows found, lie from the best: the worst place."""
    scores, rows = found
    corpus, norms = case.turn(0)
    dots = (corpus[rows].double() @ case.queries.double()[:, :, None])[..., 0]
    of_rows = dots * norms[rows]
    return max(float((side.double() - exact).abs().max()) for side in (scores, of_rows))


# --- one size ------------------------------------------------------------------------------------


def measure(case: Case, before: Callable[[Tensor, Tensor, Tensor, int], Any] | None) -> Row:
    """Compares the answers of one size, then times them."""
    import torch

    row = Row(size=case.size)
    units = case.queries.cpu().numpy()
    exact = torch.from_numpy(torch_search.search(units, *case.turn(0), case.size.k)[0])
    exact = exact.to(case.queries.device).double()
    makers: dict[str, Callable[[], Callable[[int], Any]]] = {
        KERNEL: lambda: partial(by_kernel, case),
        TORCH: lambda: by_torch(case),
        EXACT: lambda: by_exact_torch(case),
    }
    searches = whole_searches()
    if "faiss" in searches:
        makers[FAISS] = lambda: by_faiss(case)
    else:
        row.notes[FAISS] = "not here"
    if before is not None:
        makers[BEFORE] = lambda: lambda index: before(case.queries, *case.turn(index), case.size.k)
    for name, make in makers.items():
        try:
            time_arm(name, make(), case, row, exact)
        except Exception as error:  # what one of them cannot do, others can
            row.notes[name] = str(error).partition("\n")[0][:60]
        torch.cuda.empty_cache()
    for backend, search in searches.items():
        run = partial(whole_search, search, case, units)
        try:
            scores, rows = (torch.from_numpy(side).to(exact.device) for side in run(0))
            off = deviation(case, (scores, rows), exact)
            if off <= tolerance(case):
                row.search[backend] = whole_seconds(run)
            else:
                row.notes[f"{backend}, whole"] = f"answers differ by {off:.2g}"
        except RuntimeError as error:  # out of memory, for one
            row.notes[f"{backend}, whole"] = str(error).partition("\n")[0][:60]
    return row


def time_arm(name: str, run: Callable[[int], Any], case: Case, row: Row, exact: Tensor) -> None:
    """Adds what one arm takes to a row, if its answers are right."""
    off = deviation(case, answer_of(run(0), case), exact)
    if not off <= (INEXACT if name in {TORCH, FAISS} else tolerance(case)):
        row.notes[name] = f"answers differ by {off:.2g}"
        return
    row.python[name] = python_seconds(run)
    calls = len(case.corpora)

    def called() -> None:
        for index in range(calls):
            run(index)

    if name == FAISS:  # it has streams of its own
        row.device[name] = device_seconds(called) / calls
        return
    try:
        row.device[name] = device_seconds(replayed(run, calls)) / calls
    except RuntimeError as error:
        taken = device_seconds(called) / calls
        reason = str(error).partition("\n")[0][:40]
        row.notes[name] = f"with Python {taken * 1e3:.3f} ms, no graph: {reason}"


def whole_search(
    search: Callable[..., tuple[Floats, Indices]], case: Case, units: Floats, index: int
) -> tuple[Floats, Indices]:
    """The answer on the host to queries on the host."""
    return search(units, *case.turn(index), case.size.k)


def tolerance(case: Case) -> float:
    """Of an exact score."""
    return TOLERANCE[str(case.corpora.rows[0].dtype).removeprefix("torch.")]


def whole_searches() -> dict[str, Callable[..., Any]]:
    """The backends that can search here, by name."""
    every = {
        "triton": triton_search.search,
        "torch": torch_search.search,
        "faiss": faiss_search.search_on_gpu,
    }
    return {name: every[name] for name in available_backends(device="cuda") if name in every}


def tune(dtype: str) -> Table:
    """Other shapes at one million rows: what each takes, and the one that is chosen."""
    from triton.runtime.errors import OutOfResources

    table = Table("D", "Q", "shape", "ms", title="shapes", title_justify="left")
    for dimension, some in groupby(TUNED, key=lambda tuned: tuned[0]):
        corpora = Corpora.random(1_000_000, dimension, dtype)
        for _, queries in some:
            itemsize = corpora.rows[0].itemsize
            size = Size(
                rows=1_000_000, dimension=dimension, queries=queries, k=10, itemsize=itemsize
            )
            case = Case(size, unit(queries, dimension), corpora)
            chosen = triton_search.shape_for(
                queries=queries,
                dimension=dimension,
                itemsize=itemsize,
                shared_bytes=triton_search.gpu(0).shared_bytes,
            )
            for rows, stages, warps, programs in SHAPES:
                shape = replace(chosen, rows=rows, stages=stages, warps=warps, programs=programs)
                with suppress(OutOfResources):
                    run = replayed(partial(by_kernel, case, shape=shape), len(corpora))
                    taken = device_seconds(run) / len(corpora)
                    label = f"{rows} rows, {stages} stages, {warps} warps, {programs} programs"
                    marked = f"{label} (chosen)" if shape == chosen else label
                    table.add_row(str(dimension), str(queries), marked, f"{taken * 1e3:.3f}")
        del corpora, case
    return table


# --- all sizes -----------------------------------------------------------------------------------


def measured(
    planned: Sequence[Size], dtype: str, *, before: str | None, until: float
) -> Iterator[Row]:
    """Size by size; none begins when the clock has passed `until`."""
    import torch

    with TemporaryDirectory() as folder:
        other = similarity_before.searching(before, Path(folder)) if before else None
        for (rows, dimension), some in groupby(
            planned, key=lambda size: (size.rows, size.dimension)
        ):
            if time.monotonic() > until:
                return
            corpora = Corpora.random(rows, dimension, dtype)
            for size in some:
                if time.monotonic() > until:
                    return
                yield measure(Case(size, unit(size.queries, dimension), corpora), other)
            del corpora
            torch.cuda.empty_cache()


def card(rows: Sequence[Row], dtype: str) -> Card:
    """The whole searches, as `auto` reads them."""
    import torch

    return Card(
        name=torch.cuda.get_device_name(0),
        date=datetime.now(UTC).date().isoformat(),
        versions=versions(),
        searches=tuple(
            TimedSearch(
                rows=row.size.rows,
                dimension=row.size.dimension,
                queries=row.size.queries,
                k=row.size.k,
                dtype=dtype,
                seconds=row.search,
            )
            for row in rows
            if row.search
        ),
    )


def versions() -> dict[str, str]:
    """Of the libraries that search, as far as they are installed."""
    found = {}
    for name in ("torch", "triton", "faiss-gpu", "faiss-cpu"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def command() -> argparse.ArgumentParser:
    """The command line."""
    result = parser(__doc__)
    result.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    result.add_argument(
        "--against",
        metavar="COMMIT",
        help="time the kernels of a commit, or of a folder llm_kernels/, beside today's",
    )
    result.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no size when they are over"
    )
    result.add_argument(
        "--lines",
        type=Path,
        default=os.devnull,
        metavar="FILE",
        help="append a line of JSON as soon as a size is measured",
    )
    result.add_argument("--record", type=Path, metavar="FILE", help="write a card for `auto`")
    result.add_argument("--tune", action="store_true", help="try other shapes of the kernel")
    return result


def why_not_here() -> str | None:
    """Why nothing can be measured here, or None if it can."""
    if triton_search.unavailable() is None and triton_search.interpreted():
        return "the interpreter says nothing about speed"
    return triton_search.unavailable()


def main() -> None:
    """Measures all sizes, or says why nothing can be measured here."""
    until = time.monotonic()
    options = command().parse_args()
    until += options.seconds
    console = Console()
    planned = sizes(4 if options.dtype == "float32" else 2)
    reason = why_not_here()
    if reason is not None:
        console.print(f"not measured: {reason}")
        report("similarity_gpu", findings([], 1.0, planned), as_json=options.json)
        return
    import torch

    torch.manual_seed(0)
    if options.tune:
        console.print(tune(options.dtype))
        return
    ceiling = copy_bandwidth()
    rows = []
    with options.lines.open("a", encoding="utf-8") as lines:
        head = {"gpu": torch.cuda.get_device_name(0), "copy_bytes_per_second": ceiling}
        head |= {"dtype": options.dtype, "against": options.against, "versions": versions()}
        print(json.dumps(head), file=lines, flush=True)
        for row in measured(planned, options.dtype, before=options.against, until=until):
            print(json.dumps(asdict(row)), file=lines, flush=True)
            rows.append(row)
    if options.record is not None:
        write_card(options.record, card(rows, options.dtype))
    console.print(table_of(rows, ceiling))
    console.print(f"copy bandwidth: {ceiling / 1e12:.2f} TB/s, {options.dtype}")
    report("similarity_gpu", findings(rows, ceiling, planned), as_json=options.json)
    wrong = [row.size for row in rows if KERNEL not in row.device]
    if wrong:
        raise SystemExit(f"the kernel has no right answer, or no time, at {wrong}")


if __name__ == "__main__":
    main()
