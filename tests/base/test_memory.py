import os

import pytest

from llm_base import memory

IN_ALL = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.mark.parametrize(
    ("group", "available", "total", "free"),
    [
        ({}, "7 kB", IN_ALL, 7 << 10),
        ({"max": "max"}, "7 kB", IN_ALL, 7 << 10),
        ({"max": "9000"}, "x", 9000, 9000),
        ({"max": "5000"}, "7 kB", 5000, 5000),
        # Of 4,000 bytes in use, 3,000 are files that the system gives up when asked.
        (
            {
                "max": "5000",
                "current": "4000",
                "stat": "anon 1000\nactive_file 1000\ninactive_file 2000\n",
            },
            "7 kB",
            5000,
            4000,
        ),
    ],
)
def test_memory_is_that_of_the_machine_or_its_container(
    tmp_path, monkeypatch, group, available, total, free
):
    (tmp_path / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable: {available}\n")
    for name, content in group.items():
        (tmp_path / f"memory.{name}").write_text(content)
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.total_memory() == total
    assert memory.free_memory() == free
