"""The forward and backward pass of a row, by hand.

Autograd would keep copies that are not needed, and compute gradients of what is frozen. Matrices
are multiplied in the model's type; the residual stream, the norms' sums and the loss are float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import linear, silu

from llm_planning.distill.attention import attend, attend_back, blocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from llm_planning.distill.adapters import Gradient, Learned
    from llm_planning.distill.architecture import Model
    from llm_planning.distill.attention import Attended, Block
    from llm_planning.distill.trie import Row

WORDS_AT_ONCE = 1 << 23
"""Scores of words computed at once: 32 MiB in float32."""


@dataclass(slots=True, kw_only=True)
class _Kept:
    """What the backward pass of one layer needs."""

    entered: Tensor
    normed: Tensor
    attended: Attended
    taken: Tensor
    middle: Tensor
    inner_normed: Tensor
    gate_up: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a network says about the targets of a row.

    Attributes:
        loss: weighted sum of the negative log-probabilities of the targets.
        right: of each target, whether the network finds it the most likely token.
    """

    loss: float
    right: list[bool]


class Network:
    """A model that learns.

    Args:
        model: as it was published.
        learned: what of it is changed.
    """

    def __init__(self, model: Model, learned: Learned) -> None:
        self._model = model
        self.learned = learned
        sizes = model.architecture
        self._frequencies = torch.tensor(sizes.frequencies, device=model.device)
        self._scale = sizes.head_width**-0.5
        self._groups = (sizes.kv_heads, sizes.heads // sizes.kv_heads)

    def teach(self, row: Row, *, gradient: Gradient, scale: float) -> Judged:
        """Adds the gradient of a row's loss; several threads may do it, each with its own gradient.

        Args:
            row: lessons.
            gradient: of what is learned.
            scale: multiplies the gradient, not the loss that is returned.
        """
        with torch.no_grad():
            return self._pass(row, gradient=gradient, scale=scale)

    def judge(self, row: Row) -> Judged:
        """Computes the loss of a row, and which targets the network gets right."""
        with torch.no_grad():
            return self._pass(row, gradient=None, scale=0.0)

    def _pass(self, row: Row, *, gradient: Gradient | None, scale: float) -> Judged:
        """Passes forward and, for a gradient, back."""
        device = self._model.device
        cut = blocks(row, dtype=self._model.dtype, device=device)
        turns = self._turns(row)
        sources, numbers = torch.tensor(row.sources, device=device).unique(return_inverse=True)
        stream = self._model.embedding[torch.tensor(row.tokens, device=device)].float()
        kept: list[_Kept] = []
        last = len(self._model.layers) - 1
        for number in range(last + 1):
            chosen = sources if number == last else None
            stream, keep = self._forward(number, stream, cut=cut, turns=turns, chosen=chosen)
            if gradient is not None:
                kept.append(keep)
        judged, of_normed = self._loss(row, self._norm(stream, self._model.norm), numbers)
        if gradient is None:
            return judged
        back = self._norm_back(of_normed.mul_(scale), stream, self._model.norm)
        for number in range(last, -1, -1):
            chosen = sources if number == last else None
            back = self._backward(
                number,
                back,
                keep=kept.pop(),
                cut=cut,
                turns=turns,
                chosen=chosen,
                learn=gradient.learn,
            )
        return judged

    def _turns(self, row: Row) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each node's rotary angles, [nodes, half a head's width]."""
        depths = torch.tensor(row.depths, device=self._model.device)
        angles = depths[:, None].float() * self._frequencies
        return angles.cos().to(self._model.dtype), angles.sin().to(self._model.dtype)

    def _norm(self, stream: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm."""
        return (stream * self._inverse_size(stream) * weight).to(self._model.dtype)

    def _inverse_size(self, stream: Tensor) -> Tensor:
        return torch.rsqrt(
            stream.square().mean(-1, keepdim=True) + self._model.architecture.epsilon
        )

    def _norm_back(self, gradient: Tensor, stream: Tensor, weight: Tensor) -> Tensor:
        """The gradient of what went into `_norm`, in float32."""
        size = self._inverse_size(stream)
        direction = stream * size
        scaled = gradient.float() * weight
        along = (scaled * direction).mean(-1, keepdim=True)
        return scaled.sub_(direction.mul_(along)).mul_(size)

    def _forward(
        self,
        number: int,
        stream: Tensor,
        *,
        cut: list[Block],
        turns: tuple[Tensor, Tensor],
        chosen: Tensor | None,
    ) -> tuple[Tensor, _Kept]:
        """Passes a layer; behind the last attention only the chosen nodes go on."""
        layer, matrix = self._model.layers[number], self.learned.matrix
        normed = self._norm(stream, layer.norm)
        queries, keys, values = self._heads(
            linear(normed, matrix(number, "qkv"), layer.bias), turns
        )
        taken, attended = attend(queries, keys, values, cut=cut)
        out = taken.view(len(stream), -1)
        middle = stream
        if chosen is not None:
            out, middle = out[chosen], stream[chosen]
        middle = middle + linear(out, matrix(number, "out"))
        inner_normed = self._norm(middle, layer.inner_norm)
        gate_up = linear(inner_normed, matrix(number, "gate_up"))
        gate, up = gate_up.chunk(2, dim=-1)
        left = middle + linear(silu(gate).mul_(up), matrix(number, "down"))
        return left, _Kept(
            entered=stream,
            normed=normed,
            attended=attended,
            taken=taken,
            middle=middle,
            inner_normed=inner_normed,
            gate_up=gate_up,
        )

    def _backward(
        self,
        number: int,
        gradient: Tensor,
        *,
        keep: _Kept,
        cut: list[Block],
        turns: tuple[Tensor, Tensor],
        chosen: Tensor | None,
        learn: Callable[[int, str, Tensor, Tensor], None],
    ) -> Tensor:
        """Passes a layer back: from the gradient of what left it to that of what entered."""
        layer, dtype = self._model.layers[number], self._model.dtype
        matrix = self.learned.matrix
        low = gradient.to(dtype)
        inner, of_gate_up = _gated_back(low @ matrix(number, "down"), keep.gate_up)
        learn(number, "down", inner, low)
        learn(number, "gate_up", keep.inner_normed, of_gate_up)
        gradient = gradient + self._norm_back(
            of_gate_up @ matrix(number, "gate_up"), keep.middle, layer.inner_norm
        )
        low = gradient.to(dtype)
        flat = keep.taken.view(len(keep.entered), -1)
        learn(number, "out", flat if chosen is None else flat[chosen], low)
        of_taken = low @ matrix(number, "out")
        if chosen is not None:
            of_taken = torch.zeros_like(flat).index_copy_(0, chosen, of_taken)
            gradient = torch.zeros_like(keep.entered).index_copy_(0, chosen, gradient)
        found = attend_back(of_taken.view(keep.taken.shape), attended=keep.attended, cut=cut)
        of_qkv = self._heads_back(*found, turns)
        learn(number, "qkv", keep.normed, of_qkv)
        return gradient.add_(
            self._norm_back(of_qkv @ matrix(number, "qkv"), keep.entered, layer.norm)
        )

    def _heads(self, qkv: Tensor, turns: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Cuts into heads, turns queries and keys by their positions and scales the queries."""
        sizes, nodes = self._model.architecture, len(qkv)
        outputs, _ = sizes.sizes("qkv")
        queries, keys, values = qkv.split(list(outputs), dim=-1)
        width = sizes.head_width
        turned = _turn(
            queries.view(nodes, -1, width), turns[0] * self._scale, turns[1] * self._scale
        )
        return (
            turned.view(*self._groups, nodes, width),
            _turn(keys.view(nodes, -1, width), *turns),
            values.view(nodes, -1, width).transpose(0, 1).contiguous(),
        )

    def _heads_back(
        self, queries: Tensor, keys: Tensor, values: Tensor, turns: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The gradient of what `_heads` got, from those of what it returned."""
        nodes = queries.shape[-2]
        cosine, sine = turns
        dtype = self._model.dtype
        back = (
            _turn(queries.flatten(0, 1).transpose(0, 1), cosine * self._scale, -sine * self._scale),
            _turn(keys.to(dtype).transpose(0, 1), cosine, -sine),
            values.to(dtype),
        )
        return torch.cat([part.transpose(0, 1).reshape(nodes, -1) for part in back], dim=-1)

    def _loss(self, row: Row, normed: Tensor, numbers: Tensor) -> tuple[Judged, Tensor]:
        """The loss of a row, and its gradient where targets are predicted.

        Args:
            row: lessons.
            normed: of the nodes that predict, [nodes, width].
            numbers: of each target, the place of its node in `normed`.
        """
        device, head = self._model.device, self._model.head
        targets = torch.tensor(row.targets, device=device)
        weights = torch.tensor(row.weights, device=device)
        weighed = torch.zeros(len(normed), device=device).index_add_(0, numbers, weights)
        wanted = torch.zeros(normed.shape, device=device).index_add_(
            0, numbers, head[targets] * weights[:, None]
        )
        gradient = torch.empty_like(wanted)
        chances = torch.empty(len(targets), device=device)
        best = torch.empty(len(normed), dtype=torch.long, device=device)
        step = max(WORDS_AT_ONCE // len(head), 1)
        for start in range(0, len(normed), step):
            here = slice(start, min(start + step, len(normed)))
            scores = linear(normed[here], head)
            highest, best[here] = scores.max(-1)
            shares = torch.softmax(scores, dim=-1)
            total = highest.float() - shares.gather(1, best[here, None])[:, 0].float().log()
            inside = ((numbers >= here.start) & (numbers < here.stop)).nonzero()[:, 0]
            nodes = numbers[inside] - start
            chances[inside] = scores[nodes, targets[inside]].float() - total[nodes]
            gradient[here] = (shares @ head).float().mul_(weighed[here, None])
        judged = Judged(
            loss=float(-(weights * chances).sum()), right=(best[numbers] == targets).tolist()
        )
        return judged, gradient.sub_(wanted)


def _gated_back(gradient: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
    """What went into `down`, and the gradient of what came from `gate_up`."""
    gate, up = gate_up.chunk(2, dim=-1)
    found = torch.empty_like(gate_up)
    of_gate, of_up = found.chunk(2, dim=-1)
    opened = silu(gate)
    torch.mul(gradient, opened, out=of_up)
    torch.ops.aten.silu_backward.grad_input(gradient * up, gate, grad_input=of_gate)
    return opened.mul_(up), found


def _turn(heads: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turns the halves of each head against each other, [nodes, heads, width] to heads first."""
    nodes, count, width = heads.shape
    turned = heads.new_empty(count, nodes, width)
    one, two = heads.transpose(0, 1).chunk(2, dim=-1)
    first, second = turned.chunk(2, dim=-1)
    torch.mul(one, cosine, out=first).addcmul_(two, sine, value=-1)
    torch.mul(two, cosine, out=second).addcmul_(one, sine)
    return turned
