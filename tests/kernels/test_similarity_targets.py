"""What the GPU's benchmark asks of its rows: each target of its own sizes, and of how many."""

from pathlib import Path

import pytest

CEILING = 4e12


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import similarity_sizes

    return similarity_sizes


def rows_of(benchmark, *, share, torch, exact):
    """All sizes, of which the kernel takes this share of the copy bandwidth, without faiss."""
    rows = []
    for size in benchmark.sizes(2):
        kernel = size.least_bytes / CEILING / share
        device = {"kernel": kernel, "torch": torch * kernel, "torch made exact": exact * kernel}
        rows.append(benchmark.Row(size=size, device=device))
    return rows


def test_a_target_is_its_worst_size_or_the_mean_of_all(benchmark):
    rows = rows_of(benchmark, share=0.84, torch=1.2, exact=1.5)
    rows[4].device["torch"] /= 2.0
    found = benchmark.findings(rows, CEILING, benchmark.sizes(2))
    assert [finding.met for finding in found] == [False, True, False, False, True, False]
    mean = 1.2 * 0.5 ** (1 / 36)
    expected = [0.84, 0.84, 0.6, mean, 1.5]
    assert [finding.measured for finding in found[:5]] == [pytest.approx(one) for one in expected]
    assert found[5].measured is None  # faiss was not there
    ends = [finding.label.rpartition(": ")[2] for finding in found]
    assert ends[:2] == ["worst of 6 of 6 sizes", "worst of 4 of 4 sizes"]
    assert ends[2:4] == ["worst of 36 of 36 sizes", "mean of 36 of 36 sizes"]
    assert ends[5] == "worst of 0 of 36 sizes"


def test_sizes_that_time_did_not_suffice_for_and_wrong_answers_are_counted(benchmark):
    rows = rows_of(benchmark, share=1, torch=1, exact=1)[:6]
    del rows[0].device["kernel"]
    found = benchmark.findings(rows, CEILING, benchmark.sizes(2))
    assert found[2].label.endswith("worst of 5 of 36 sizes")
    assert found[0].measured is None
    assert found[0].label.endswith("worst of 0 of 6 sizes")
    assert benchmark.table_of(rows, CEILING).row_count == 6
