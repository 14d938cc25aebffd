"""Triton 3.9's interpreter multiplies the bit patterns of bfloat16 as integers; a GPU does not."""

import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter


def _values(handle):
    if handle.dtype.scalar == tl.bfloat16:
        return (handle.data.astype(np.uint32) << 16).view(np.float32)
    return handle.data


def _dot(builder, a, b, accumulator, input_precision, max_num_imprecise_acc):
    product = np.matmul(_values(a), _values(b), dtype=np.float32)
    return interpreter.TensorHandle(product + accumulator.data, accumulator.dtype.scalar)


@pytest.fixture(autouse=True, scope="session")
def _bfloat16_products():
    patch = pytest.MonkeyPatch()
    patch.setattr(interpreter.InterpreterBuilder, "create_dot", _dot)
    yield
    patch.undo()
