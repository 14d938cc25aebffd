"""The GPU's benchmark without a GPU: all that it does but the clock of the device."""

import json
import sys
from pathlib import Path
from timeit import timeit
from types import SimpleNamespace

import pytest
import torch

from llm_kernels import triton_search
from llm_kernels.cards import read_cards

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def benchmark(monkeypatch):
    """`similarity_gpu` with tiny sizes, tensors of the CPU, and its clock."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import similarity_gpu
    from similarity_sizes import Size

    monkeypatch.setattr(similarity_gpu, "DEVICE", "cpu")
    monkeypatch.setattr(similarity_gpu, "copy_bandwidth", lambda: 1e9)
    monkeypatch.setattr(similarity_gpu, "SAMPLING", 0.0)
    monkeypatch.setattr(similarity_gpu, "BURST", 1)
    monkeypatch.setattr(
        similarity_gpu, "replayed", lambda run, calls: lambda: [run(i) for i in range(calls)]
    )
    monkeypatch.setattr(similarity_gpu, "device_seconds", lambda run: timeit(run, number=1))
    monkeypatch.setattr(similarity_gpu, "why_not_here", lambda: None)
    monkeypatch.setattr(similarity_gpu, "available_backends", lambda device: ("triton", "torch"))
    properties = SimpleNamespace(L2_cache_size=1000)
    for name, value in {
        "synchronize": None,
        "empty_cache": None,
        "mem_get_info": (1 << 30, 1 << 30),
        "get_device_properties": properties,
        "get_device_name": "a card",
    }.items():
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    planned = [
        Size(rows=rows, dimension=16, queries=queries, k=3, itemsize=4)
        for rows, queries in ((40, 1), (40, 3), (20, 1))
    ]
    monkeypatch.setattr(similarity_gpu, "sizes", lambda itemsize: planned)
    return similarity_gpu


@pytest.mark.parametrize("seconds", [1000, 0])
def test_the_benchmark_writes_each_size_and_a_card(benchmark, tmp_path, monkeypatch, seconds):
    lines, card = tmp_path / "lines", tmp_path / "card.json"
    arguments = ["--dtype", "float32", "--against", str(REPOSITORY / "kernels/llm_kernels")]
    arguments += ["--lines", str(lines), "--record", str(card), "--seconds", str(seconds)]
    monkeypatch.setattr(sys, "argv", ["similarity_gpu", *arguments])
    benchmark.main()
    head, *rows = map(json.loads, lines.read_text().splitlines())
    assert head["gpu"] == "a card"
    recorded = read_cards(tmp_path)["a card"].searches
    assert len(rows) == len(recorded) == (3 if seconds else 0)
    arms = {"kernel", "before", "torch", "torch made exact"}
    for row, search in zip(rows, recorded, strict=True):
        assert row["notes"] == {"faiss": "not here"}
        assert row["device"].keys() == row["python"].keys() == arms
        assert row["search"] == search.seconds
        assert search.seconds.keys() == {"triton", "torch"}
        assert row["size"]["queries"] == search.queries


def test_the_kernels_of_another_folder_stand_beside_todays(benchmark, tmp_path):
    from similarity_before import searching

    other = searching(str(REPOSITORY / "kernels" / "llm_kernels"), tmp_path)
    assert other.__module__ == "llm_kernels_before.triton_search"
    corpus = torch.randn(200, 16)
    asked = torch.nn.functional.normalize(torch.randn(2, 16))
    norms = 1 / corpus.norm(dim=1)
    assert torch.equal(
        other(asked, corpus, norms, 5), triton_search.launch(asked, corpus, norms, 5)
    )


def test_what_is_no_commit_and_no_folder(benchmark):
    from similarity_before import sources

    with pytest.raises(SystemExit, match="neither a folder nor a commit"):
        sources("0123456789")
