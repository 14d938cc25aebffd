"""How a search on the CPU reads a corpus, in NumPy or in torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from llm_kernels.vectors import blocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llm_kernels.vectors import Floats, Indices, Rows

_UNIT_ROUNDOFF = 2.0**-24
# Numbers of a float16 piece that is converted at a time: four megabytes of float32.
_CONVERTED = 1 << 20


class Source(Protocol):
    """A corpus, on the host or on a device."""

    @property
    def shape(self) -> tuple[int, int]:
        """[N, D]."""
        ...

    def rows(self, index: Indices | slice) -> NDArray[np.floating]:
        """Rows [..., D] without loss, in NumPy; a negative index gives any row."""
        ...

    def inverse_norms(self, index: Indices | slice) -> Floats:
        """1 / ‖row‖ [...], 0 for a row that is left out; a negative index gives any number."""
        ...


class Multiplier(Source, Protocol):
    """A corpus that is multiplied block by block on the host."""

    def multiply(self, part: slice, queries: Floats, out: Floats) -> None:
        """Writes the float32 product of a block [B, D] and the queries' transpose into [B, Q]."""
        ...


@dataclass(frozen=True, slots=True)
class ArraySource:
    """A corpus in NumPy.

    Attributes:
        corpus: [N, D] float32 or float16.
        scales: float32 [N], the inverse norms.
    """

    corpus: Rows
    scales: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """[N, D]."""
        rows, dimension = self.corpus.shape
        return rows, dimension

    def rows(self, index: Indices | slice) -> Rows:
        """Rows [..., D]."""
        return self.corpus[index]

    def inverse_norms(self, index: Indices | slice) -> Floats:
        """Inverse norms [...]."""
        return self.scales[index]

    def multiply(self, part: slice, queries: Floats, out: Floats) -> None:
        """A block times the queries, on BLAS, which only knows float32."""
        block = self.corpus[part]
        if block.dtype == np.float32:
            np.matmul(block, queries.T, out=out)
            return
        for piece in blocks(len(block), max(1, _CONVERTED // block.shape[1])):
            np.matmul(block[piece].astype(np.float32), queries.T, out=out[piece])


def product_error(dimension: int, *, input_error: float = 0.0) -> float:
    """A bound on the error of an approximate score of unit vectors.

    A float32 dot product of unit vectors, in any order of summation, errs by at most
    D u / (1 - D u), u = 2^-24 (Higham, Accuracy and Stability of Numerical Algorithms, 3.1);
    scaling and the last rounding add a few u.

    Args:
        dimension: D.
        input_error: how much the product rounds its inputs beforehand, relative to them.
    """
    rounding = (dimension + 8) * _UNIT_ROUNDOFF
    return rounding / (1.0 - rounding) + input_error * (2.0 + input_error)


@dataclass(frozen=True, slots=True)
class Scaling:
    """How approximate scores of a corpus are computed, and how large their error is.

    Attributes:
        complete: whether every row takes part.
        unit: whether the rows are close enough to unit length to be taken as they are.
        margin: how far below the k-th best approximate score a row of the answer can lie.
    """

    complete: bool
    unit: bool
    margin: float

    @classmethod
    def of(cls, inverse_norms: Floats, dimension: int, *, input_error: float = 0.0) -> Scaling:
        """Derives the scaling from the norms.

        Rows whose norms differ from 1 by no more than a product rounds are not scaled: the
        difference counts as error.

        Args:
            inverse_norms: float32 [N], N >= 1, at least one of them positive.
            dimension: D.
            input_error: how much a product rounds its inputs beforehand, relative to them.
        """
        lowest = float(np.minimum.reduce(inverse_norms))
        greatest = float(np.maximum.reduce(inverse_norms))
        complete = lowest > 0.0
        if not complete:
            lowest = float(inverse_norms[inverse_norms > 0.0].min())
        norm_error = max(greatest - 1.0, 1.0 - lowest)
        unit = norm_error <= dimension * _UNIT_ROUNDOFF
        error = product_error(dimension, input_error=input_error)
        if unit:
            error += norm_error
        # Both the row and the k-th best may err.
        return cls(complete=complete, unit=unit, margin=2.0 * error)
