"""Memory that passes through a network use again and again."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

_SPARE = 1.125


class Room:
    """Memory of one worker, by name. It grows to what the largest row takes, and no further.

    A row's tensors are large and of other sizes than those of the row before. Allocated anew they
    would leave gaps, and the system would have to find each page again.

    Args:
        dtype: of tensors of which no other type is said.
    """

    def __init__(self, *, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device = dtype, device
        self._kept: dict[tuple[str, int], Tensor] = {}

    def take(
        self, name: str, *shape: int, layer: int = 0, dtype: torch.dtype | None = None
    ) -> Tensor:
        """A tensor to write into, with what was left in it; the next of this name overwrites it.

        Args:
            name: what it is for; the tensors of a name have one type.
            layer: another layer's tensor of this name is kept beside it.
        """
        size = math.prod(shape)
        place = self._kept.get((name, layer))
        if place is None or len(place) < size:
            # Given back first: both would be there at once.
            self._kept.pop((name, layer), None)
            place = torch.empty(int(size * _SPARE), dtype=dtype or self._dtype, device=self._device)
            self._kept[name, layer] = place
        return place[:size].view(shape)
