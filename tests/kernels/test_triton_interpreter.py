"""The kernels run in Triton's interpreter, which must be chosen before Triton is imported."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = sorted(map(str, (Path(__file__).parent / "interpreted").glob("check_*.py")))


@pytest.mark.slow
def test_kernels_and_index_agree_with_the_oracle_in_the_interpreter():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *CHECKS],
        env=os.environ | {"TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    passed = re.search(r"(\d+) passed", run.stdout)
    assert passed is not None
    assert int(passed.group(1)) >= 31
