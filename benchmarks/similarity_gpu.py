"""The Triton kernels on a GPU, beside the device's copy bandwidth, torch and faiss.

The ceiling is measured first: a large copy on the device, bytes read plus bytes written. Then, per
size: the answers are compared with exact scores in float64, and the kernels, `torch.matmul` with
`topk`, and faiss' flat index are timed by CUDA events, medians over inputs that rotate through more
memory than the L2 cache holds. A peer whose answers differ gets no ratio. What the kernels take of
Python is in a column of its own: where it is as long as the time, the device waited for it.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from harness import Finding, parser, report
from rich.console import Console
from rich.table import Table

from llm_kernels import torch_search, triton_search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
DIMENSIONS = (384, 768)
QUERIES = (1, 16, 64, 512)
K = 10
REPEATS, BURST = 20, 8
# What `--tune` tries: rows, stages, warps, and programs of a processor.
SHAPES = tuple(itertools.product((64, 128, 256), (3, 4, 5, 6), (4, 8), (1, 2)))
TOLERANCE = {"kernel": 1e-5, "torch": 4e-3, "faiss": 4e-3}
"""Peers multiply rounded queries, and torch rounds its scores to the corpus' dtype as well."""


@dataclass(frozen=True, slots=True)
class Case:
    """One size, with as many corpora as it takes to leave the L2 cache behind."""

    queries: Tensor
    corpora: tuple[Tensor, ...]
    inverse_norms: tuple[Tensor, ...]

    @property
    def size(self) -> tuple[int, int, int]:
        """N, D and Q."""
        return (*self.corpora[0].shape, len(self.queries))

    @property
    def least_bytes(self) -> int:
        """Bytes that any search must read: one corpus and its weights."""
        rows, dimension, _ = self.size
        return rows * dimension * self.corpora[0].itemsize + rows * 4


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians of one case; a peer that is missing, out of memory or wrong says so in `notes`."""

    size: tuple[int, int, int]
    least_bytes: int
    kernel: float
    host: float
    peers: dict[str, float]
    notes: dict[str, str]

    @property
    def ratio(self) -> float | None:
        """The best peer's time over the kernel's."""
        return min(self.peers.values()) / self.kernel if self.peers else None

    def bandwidth(self) -> float:
        """Bytes per second that the kernel moved, counting what any search must read."""
        return self.least_bytes / self.kernel


def seconds(run: Callable[[int], Any], repeats: int = REPEATS) -> tuple[float, float]:
    """Median seconds of `run(i)`, i counting up: by the device's own clock, and of Python.

    A sample is a burst of calls, so that the device waits for the first of them alone, unless a
    call takes Python longer than the device.
    """
    import torch

    for index in range(3):
        run(index)
    samples, host = [], []
    for index in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        begun = time.perf_counter()
        for call in range(BURST):
            run(index * BURST + call)
        host.append((time.perf_counter() - begun) / BURST)
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end) / 1000 / BURST)
    return statistics.median(samples), statistics.median(host)


def copy_bandwidth() -> float:
    """Bytes per second, read plus written, of a copy far larger than the L2 cache."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    source = torch.randint(0, 255, (min(4 << 30, free // 4),), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / seconds(lambda _: target.copy_(source))[0]


def cases(dtype: str, rows: tuple[int, ...], queries: tuple[int, ...]) -> Iterator[Case]:
    """Random unit rows; one corpus after another is made and freed."""
    import torch

    cache = torch.cuda.get_device_properties(0).L2_cache_size
    for number, dimension in itertools.product(rows, DIMENSIONS):
        element = getattr(torch, dtype)
        copies = max(1, -(-4 * cache // (number * dimension * element.itemsize)))
        corpora = tuple(_unit(number, dimension).to(element) for _ in range(copies))
        norms = tuple(_inverse_norms(corpus) for corpus in corpora)
        for asked in queries:
            yield Case(_unit(asked, dimension), corpora, norms)
        del corpora, norms
        torch.cuda.empty_cache()


def _unit(rows: int, dimension: int) -> Tensor:
    import torch

    made = torch.empty((rows, dimension), device="cuda")
    for block in made.split(1_000_000):
        block.normal_()
        block.div_(block.norm(dim=1, keepdim=True))
    return made


def _inverse_norms(corpus: Tensor) -> Tensor:
    import torch

    return torch.cat([1 / block.float().norm(dim=1) for block in corpus.split(1_000_000)])


def deviation(case: Case, rows: Tensor, exact: Tensor) -> float:
    """How far the exact scores of the rows found lie from the best ones, at the worst place."""
    corpus = case.corpora[0]
    found = corpus[rows].double()
    dots = (found @ case.queries.double()[:, :, None])[..., 0]
    scores = dots * case.inverse_norms[0][rows]
    return float((scores - exact).abs().max())


def measure(case: Case) -> Measured:
    """Compares the answers of one size, then times them."""
    import torch

    corpus, norms = case.corpora[0], case.inverse_norms[0]
    exact, *found = (
        torch.from_numpy(side).to(corpus.device)
        for side in (
            torch_search.search(case.queries.cpu().numpy(), corpus, norms, K)[0],
            *triton_search.scores_and_rows(searched(case, 0).cpu().numpy()),
        )
    )
    off = max(deviation(case, found[1], exact), float((found[0] - exact).abs().max()))
    if not off <= TOLERANCE["kernel"]:
        raise SystemExit(f"the kernel's answers differ by {off:.2g} at {case.size}: no times")
    kernel, host = seconds(partial(searched, case))
    peers: dict[str, float] = {}
    notes: dict[str, str] = {}
    for name, prepare in (("torch", torch_peer), ("faiss", faiss_peer)):
        try:
            peer = prepare(case)
            off = deviation(case, peer(0)[1], exact)
            if off <= TOLERANCE[name]:
                peers[name], _ = seconds(peer)
            else:
                notes[name] = f"answers differ by {off:.2g}"
        except (ImportError, AttributeError):
            notes[name] = "not installed"
        except (torch.OutOfMemoryError, RuntimeError) as error:
            notes[name] = str(error).splitlines()[0][:40]
            torch.cuda.empty_cache()
    return Measured(case.size, case.least_bytes, kernel, host, peers, notes)


def searched(case: Case, index: int, *, shape: triton_search.Shape | None = None) -> Tensor:
    """The kernels' answer about one of the corpora, on the device."""
    turn = index % len(case.corpora)
    return triton_search.launch(
        case.queries, case.corpora[turn], case.inverse_norms[turn], K, shape=shape
    )


def torch_peer(case: Case) -> Callable[[int], Any]:
    """The whole score matrix by cuBLAS, then torch's selection."""
    import torch

    queries = case.queries.to(case.corpora[0].dtype)
    return lambda index: torch.topk(queries @ case.corpora[index % len(case.corpora)].T, K)


def faiss_peer(case: Case) -> Callable[[int], Any]:
    """The flat inner-product index of faiss on the GPU, filled beforehand."""
    import faiss
    import faiss.contrib.torch_utils
    import torch

    resources = faiss.StandardGpuResources()
    config = faiss.GpuIndexFlatConfig()
    config.useFloat16 = case.corpora[0].dtype == torch.float16
    indices = []
    for corpus in case.corpora[: max(1, min(len(case.corpora), 8))]:
        index = faiss.GpuIndexFlatIP(resources, corpus.shape[1], config)
        for block in corpus.split(1_000_000):
            index.add(block.float())
        indices.append(index)
    return lambda index: indices[index % len(indices)].search(case.queries, K)


def tune(dtype: str) -> Table:
    """Other shapes at one million rows: what each takes, and the one that is chosen."""
    from triton.runtime.errors import OutOfResources

    table = Table("D", "Q", "shape", "ms", title="shapes", title_justify="left")
    for case in cases(dtype, (1_000_000,), (1, 16, 64)):
        _, dimension, asked = case.size
        chosen = triton_search.shape_for(
            queries=asked,
            dimension=dimension,
            itemsize=case.corpora[0].itemsize,
            shared_bytes=triton_search.gpu(0).shared_bytes,
        )
        for rows, stages, warps, programs in SHAPES:
            shape = replace(chosen, rows=rows, stages=stages, warps=warps, programs=programs)
            try:
                taken, _ = seconds(partial(searched, case, shape=shape), repeats=10)
            except OutOfResources:
                continue
            label = f"{rows} rows, {stages} stages, {warps} warps, {programs} programs"
            marked = f"{label} (chosen)" if shape == chosen else label
            table.add_row(str(dimension), str(asked), marked, f"{taken * 1e3:.3f}")
    return table


def table_of(measured: list[Measured], ceiling: float) -> Table:
    """A line per size."""
    columns = ("N", "D", "Q", "kernel ms", "Python ms", "bytes", "of ceiling", "torch", "faiss")
    table = Table(*columns, title="similarity_gpu", title_justify="left")
    for row in measured:
        cells = {
            name: f"{row.peers[name] / row.kernel:.2f}x" if name in row.peers else row.notes[name]
            for name in ("torch", "faiss")
        }
        table.add_row(
            *(f"{number:,}" for number in row.size),
            f"{row.kernel * 1e3:.3f}",
            f"{row.host * 1e3:.3f}",
            f"{row.least_bytes:,}",
            f"{row.bandwidth() / ceiling:.0%}",
            cells["torch"],
            cells["faiss"],
        )
    return table


def findings(measured: list[Measured], ceiling: float | None, dtype: str) -> list[Finding]:
    """The two targets, at their worst size."""
    aimed = [timing for timing in measured if timing.size[0] >= 1_000_000 and timing.size[2] <= 16]
    fractions = [timing.bandwidth() / ceiling for timing in aimed] if ceiling else []
    ratios = [ratio for timing in aimed if (ratio := timing.ratio) is not None]
    details = {"copy bandwidth, GB/s": None if ceiling is None else ceiling / 1e9, "dtype": dtype}
    label = "N >= 1M, Q <= 16, worst size"
    return [
        Finding(
            label=f"{label}: share of the copy bandwidth",
            measured=min(fractions, default=None),
            unit="",
            bound="at least",
            target=0.75,
            details=details,
        ),
        Finding(
            label=f"{label}: best other over the kernel",
            measured=min(ratios, default=None) if len(ratios) == len(aimed) else None,
            unit="x",
            bound="at least",
            target=1.5,
        ),
    ]


def main() -> None:
    """Measures all sizes, or says why nothing can be measured here."""
    command = parser(__doc__)
    command.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    command.add_argument("--tune", action="store_true", help="try other shapes of the kernel")
    options = command.parse_args()
    console = Console()
    reason = triton_search.unavailable()
    if reason is not None or triton_search.interpreted():
        console.print(f"not measured: {reason or 'the interpreter says nothing about speed'}")
        report("similarity_gpu", findings([], None, options.dtype), as_json=options.json)
        return
    import torch

    torch.manual_seed(0)
    if options.tune:
        console.print(tune(options.dtype))
        return
    ceiling = copy_bandwidth()
    measured = [measure(case) for case in cases(options.dtype, ROWS, QUERIES)]
    console.print(table_of(measured, ceiling))
    report("similarity_gpu", findings(measured, ceiling, options.dtype), as_json=options.json)


if __name__ == "__main__":
    main()
