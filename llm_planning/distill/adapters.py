"""What is learned: a low-rank change of every matrix (LoRA), or the matrices themselves.

Both keep what they learn in float32 in one flat tensor, and give the network matrices to multiply
with, the change already in them: one product less a token than a path of its own beside the frozen
matrix, in both directions. They are rounded to the type that the network computes in, as they are
where the change is merged for serving.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from llm_planning.distill.architecture import PARTS

if TYPE_CHECKING:
    from torch import Tensor

    from llm_planning.distill.architecture import Model


class Learned(Protocol):
    """What a training changes.

    Attributes:
        flat: all of it in float32.
        gradient: of the loss, of the same shape.
    """

    flat: Tensor
    gradient: Tensor

    def refresh(self) -> None:
        """Makes the matrices anew after `flat` was changed."""
        ...

    def matrix(self, layer: int, name: str) -> Tensor:
        """Returns a matrix of `PARTS` to multiply with, [outputs, inputs]."""
        ...

    def learn(self, layer: int, name: str, inputs: Tensor, gradient: Tensor) -> None:
        """Adds to the gradient what a matrix's inputs and the gradient of its outputs say.

        Args:
            layer: of the matrix.
            name: of the matrix.
            inputs: [nodes, inputs].
            gradient: [nodes, outputs].
        """
        ...

    def tensors(self) -> dict[str, Tensor]:
        """What is learned, by the names of the file that it is written to."""
        ...


@dataclass(frozen=True, slots=True)
class _Change:
    """The low-rank change of one matrix; views of the flat tensors, and copies to compute with."""

    down: Tensor
    up: Tensor
    down_gradient: Tensor
    up_gradient: Tensor
    low_down: Tensor
    low_up: Tensor
    merged: Tensor


class LowRank:
    """LoRA: of each matrix W, W + (alpha / rank)·B·A is used, and A and B are learned.

    Args:
        model: whose matrices are changed.
        rank: of the change of each published matrix.
        alpha: its scale, times the rank.
        seed: of the first A; B begins at zero.
    """

    def __init__(self, model: Model, *, rank: int, alpha: float, seed: int) -> None:
        self.rank, self.alpha = rank, alpha
        self._scale = alpha / rank
        self._model = model
        shapes = {
            name: (len(outputs) * rank, sum(outputs), inputs)
            for name in PARTS
            for outputs, inputs in [model.architecture.sizes(name)]
        }
        per_layer = sum(down * inputs + up * rank for down, up, inputs in shapes.values())
        self.flat = torch.zeros(per_layer * model.architecture.layers, device=model.device)
        self.gradient = torch.zeros_like(self.flat)
        self._changes: dict[tuple[int, str], _Change] = {}
        drawn = torch.Generator().manual_seed(seed)
        place = 0

        def views(rows: int, columns: int) -> tuple[Tensor, Tensor]:
            nonlocal place
            here = slice(place, place + rows * columns)
            place += rows * columns
            return self.flat[here].view(rows, columns), self.gradient[here].view(rows, columns)

        for layer in range(model.architecture.layers):
            for name, (down_rows, up_rows, inputs) in shapes.items():
                down, down_gradient = views(down_rows, inputs)
                up, up_gradient = views(up_rows, rank)
                bound = 1 / math.sqrt(inputs)
                down.copy_((torch.rand(down.shape, generator=drawn) * 2 - 1) * bound)
                self._changes[layer, name] = _Change(
                    down=down,
                    up=up,
                    down_gradient=down_gradient,
                    up_gradient=up_gradient,
                    low_down=torch.empty_like(down, dtype=model.dtype),
                    low_up=torch.empty_like(up, dtype=model.dtype),
                    merged=torch.empty_like(model.layers[layer].matrices[name]),
                )
        self.refresh()

    def refresh(self) -> None:
        """Makes the matrices anew after `flat` was changed."""
        for (layer, name), change in self._changes.items():
            change.low_down.copy_(change.down)
            change.low_up.copy_(change.up)
            frozen = self._model.layers[layer].matrices[name]
            for rows, ranks in self._places(name):
                torch.addmm(
                    frozen[rows],
                    change.low_up[rows],
                    change.low_down[ranks],
                    alpha=self._scale,
                    out=change.merged[rows],
                )

    def matrix(self, layer: int, name: str) -> Tensor:
        """Returns a matrix of `PARTS` to multiply with, [outputs, inputs]."""
        return self._changes[layer, name].merged

    def learn(self, layer: int, name: str, inputs: Tensor, gradient: Tensor) -> None:
        """Adds to the gradient what a matrix's inputs and the gradient of its outputs say."""
        change = self._changes[layer, name]
        narrow = inputs @ change.low_down.T
        back = torch.empty_like(narrow)
        for rows, ranks in self._places(name):
            part = gradient[:, rows]
            torch.mm(part, change.low_up[rows], out=back[:, ranks])
            change.up_gradient[rows].add_(part.T @ narrow[:, ranks], alpha=self._scale)
        change.down_gradient.add_(back.T @ inputs, alpha=self._scale)

    def tensors(self) -> dict[str, Tensor]:
        """A and B of each published matrix, by PEFT's names."""
        named = {}
        for (layer, name), change in self._changes.items():
            for part, (rows, ranks) in zip(PARTS[name], self._places(name), strict=True):
                start = f"base_model.model.model.layers.{layer}.{part}"
                named[f"{start}.lora_A.weight"] = change.down[ranks]
                named[f"{start}.lora_B.weight"] = change.up[rows]
        return named

    def _places(self, name: str) -> list[tuple[slice, slice]]:
        """Of each part of a matrix: its rows in B, and in A."""
        outputs, _ = self._model.architecture.sizes(name)
        places, start = [], 0
        for number, count in enumerate(outputs):
            ranks = slice(number * self.rank, (number + 1) * self.rank)
            places.append((slice(start, start + count), ranks))
            start += count
        return places


class AllMatrices:
    """All matrices of the layers themselves; embeddings, norms and biases stay.

    Args:
        model: whose matrices are changed.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        frozen = [layer.matrices[name] for layer in model.layers for name in PARTS]
        self.flat = torch.cat([matrix.flatten().float() for matrix in frozen])
        self.gradient = torch.zeros_like(self.flat)
        self._views: dict[tuple[int, str], tuple[Tensor, Tensor, Tensor]] = {}
        place = 0
        for number, layer in enumerate(model.layers):
            for name in PARTS:
                shape = layer.matrices[name].shape
                here = slice(place, place + shape.numel())
                master, gradient = self.flat[here].view(shape), self.gradient[here].view(shape)
                low = master if model.dtype == torch.float32 else layer.matrices[name].clone()
                self._views[number, name] = (master, gradient, low)
                place += shape.numel()

    def refresh(self) -> None:
        """Makes the matrices anew after `flat` was changed."""
        for master, _, low in self._views.values():
            if low is not master:
                low.copy_(master)

    def matrix(self, layer: int, name: str) -> Tensor:
        """Returns a matrix of `PARTS` to multiply with, [outputs, inputs]."""
        return self._views[layer, name][2]

    def learn(self, layer: int, name: str, inputs: Tensor, gradient: Tensor) -> None:
        """Adds to the gradient what a matrix's inputs and the gradient of its outputs say."""
        self._views[layer, name][1].add_(gradient.T @ inputs)

    def tensors(self) -> dict[str, Tensor]:
        """Each published matrix, by its own name."""
        named = {}
        for (layer, name), (master, _, _) in self._views.items():
            outputs, _ = self._model.architecture.sizes(name)
            for part, rows in zip(PARTS[name], master.split(list(outputs)), strict=True):
                named[f"model.layers.{layer}.{part}.weight"] = rows
        return named
