"""What `make setup` installs by the GPU that `nvidia-smi` tells of; nothing is installed here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RTX_4090 = "NVIDIA GeForce RTX 4090, 580.65.06, 24564, 24000, 8.9"
V100 = "Tesla V100-SXM2-16GB, 580.65.06, 16384, 16000, 7.0"


def beside(folder, smi):
    """The environment of a machine whose `nvidia-smi` is this script, and that has a compiler."""
    (folder / "nvidia-smi").write_text(f"#!/bin/sh\n{smi}\n")
    (folder / "nvidia-smi").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    others = {"MAKEFLAGS": "", "CC": "gcc", "LLM_PLANNING_MEMORY_SHARE": "0.9"}
    return os.environ | others | {"PATH": path}


def telling(*cards):
    return "".join(f"echo '{card}'\n" for card in cards)


def run(environment, *command):
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("smi", "extra", "message"),
    [
        ("exit 127", "cpu", ""),
        (telling(RTX_4090), "cuda", ""),
        (telling("GB10, 580.95.05, [N/A], [N/A], 12.1"), "cuda", ""),
        (
            telling(RTX_4090.replace("580.65.06", "550.54.14")),
            "cpu",
            "NVIDIA GeForce RTX 4090, 24.0 GiB, driver 550.54.14: its driver 550.54.14 is older "
            "than 580, which CUDA 13 needs: update the driver to 580 or newer, ",
        ),
        (telling(V100), "cpu", "its compute capability 7.0 is below 7.5"),
        # The second card is fit, so the first counts for nothing.
        (telling(V100, RTX_4090), "cuda", ""),
        (telling(RTX_4090.replace("24000", "2048")), "cuda", "only 2.0 GiB of it are free"),
        (telling(RTX_4090.replace("8.9", "7.5")), "cuda", "7.5 has no bfloat16"),
        # As it is before its driver is loaded, and before it knew of compute capabilities.
        ("echo 'NVIDIA-SMI has failed because it could not talk to the driver'", "cpu", ""),
        (
            'case "$1" in *compute_cap*) echo \'Field "compute_cap" is not valid\'; exit 2;; esac\n'
            "echo 'Tesla K80, 470.82.01, 11441, 11000'",
            "cpu",
            "its driver 470.82.01 is older than 580",
        ),
    ],
)
def test_the_extra_is_chosen_by_driver_and_card(tmp_path, smi, extra, message):
    environment = beside(tmp_path, smi)
    chosen = run(environment, sys.executable, "-I", "llm_planning/commands/doctor_gpu.py")
    assert (chosen.returncode, chosen.stdout) == (0, f"{extra}\n")
    # Python's own header may be missing here, too.
    lines = [line for line in chosen.stderr.splitlines() if "Python.h" not in line]
    assert len(lines) == bool(message)
    assert message in "".join(lines)
    made = run(environment, "make", "-n", "setup", f"VENV={tmp_path}/venv")
    assert made.returncode == 0
    assert ("-e '.[cpu,faiss,dev]' || " in made.stdout) is (extra == "cpu")
    assert ("-e '.[cuda,faiss-gpu,dev]' || " in made.stdout) is (extra == "cuda")


def test_the_choice_can_be_overruled(tmp_path):
    environment = beside(tmp_path, telling(V100))
    made = run(environment, "make", "-n", "setup", f"VENV={tmp_path}/venv", "EXTRA=cuda")
    assert "-e '.[cuda,faiss-gpu,dev]' || " in made.stdout


def test_an_environment_for_the_other_kind_is_not_mixed_with_this_one(tmp_path):
    """As after a driver was updated: torch for the CPU would stay, its version is the same."""
    (tmp_path / ".installed-cpu").touch()
    environment = beside(tmp_path, telling(RTX_4090))
    ended = run(environment, "make", "setup", f"VENV={tmp_path}")
    assert ended.returncode == 2
    assert f"{tmp_path} is set up for cpu, and this machine suits cuda: run `make clean` first" in (
        ended.stderr
    )
    assert not (tmp_path / "bin").exists()


def test_an_old_python_is_refused(tmp_path):
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\nexec python3 -c "import sys; sys.version_info = (3, 9); $2"\n')
    old.chmod(0o755)
    ended = run(os.environ, "make", "setup", f"VENV={tmp_path}/venv", f"PYTHON={old}")
    assert ended.returncode == 2
    assert "Python 3.11 or newer is needed: make PYTHON=python3.12" in ended.stderr
    assert not (tmp_path / "venv").exists()
