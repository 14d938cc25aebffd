"""What `make setup` installs by the GPU that `nvidia-smi` tells of; nothing is installed here."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def setup_with(tmp_path, *cards):
    """What `make setup` would run beside some cards (driver, compute capability)."""
    smi = tmp_path / "nvidia-smi"
    drivers, capabilities = ("\n".join(column) for column in zip(*cards, strict=True))
    smi.write_text(
        f'#!/bin/sh\ncase "$1" in *driver*) echo "{drivers}";; *) echo "{capabilities}";; esac\n'
    )
    smi.chmod(0o755)
    told = subprocess.run(
        ["make", "-n", "-B", "setup", f"VENV={tmp_path}/venv"],
        cwd=ROOT,
        env=os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return told.stdout


@pytest.mark.parametrize(
    ("capability", "faiss"), [("8.9", "faiss-gpu-cu12"), ("9.0", "faiss-cuda")]
)
def test_a_gpu_with_a_new_driver_gets_cuda_and_faiss_for_it(tmp_path, capability, faiss):
    told = setup_with(tmp_path, ("580.65.06", capability), ("580.65.06", "7.5"))
    assert "-e '.[cuda,dev]'" in told
    assert f"'{faiss}' || " in told
    assert "is older than" not in told


def test_a_driver_of_cuda_12_gets_the_cpu_and_is_told_so(tmp_path):
    told = setup_with(tmp_path, ("550.54.14", "8.9"))
    assert "This GPU's driver 550 is older than 580: update it." in told
    assert "-e '.[cpu,faiss,dev]'" in told
    assert "[cuda,dev]" not in told


def test_no_gpu_gets_the_cpu_without_a_word(tmp_path):
    told = setup_with(tmp_path, ("", ""))
    assert "-e '.[cpu,faiss,dev]'" in told
    assert "is older than" not in told
