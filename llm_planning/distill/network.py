"""The forward and backward pass of a row, by hand.

Autograd would keep copies that are not needed, and compute gradients of what is frozen. Matrices
are multiplied in the model's type; the residual stream, the norms' sums and the loss are float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from llm_planning.distill.attention import Attended, attend, attend_back, blocks
from llm_planning.distill.room import Room

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from llm_planning.distill.adapters import LowRank, LowRankGradient
    from llm_planning.distill.architecture import Model
    from llm_planning.distill.trie import Row

WORDS_AT_ONCE = 1 << 23
"""Scores of words computed at once: 32 MiB in float32."""

WORDS_AT_ONCE_ON_GPU = 1 << 27
"""The same on a GPU: 256 MiB in bfloat16."""


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
    """

    def __init__(self, model: Model, learned: LowRank) -> None:
        self.model = model
        self.learned = learned

    def room(self) -> Room:
        """Makes the memory of one worker."""
        return Room(dtype=self.model.dtype, device=self.model.device)

    def teach(self, row: Row, *, room: Room, gradient: LowRankGradient, scale: float) -> Judged:
        """Adds the gradient of a row's loss; workers may do it side by side.

        Args:
            room: of this worker alone.
            gradient: of what is learned, of this worker alone.
            scale: multiplies the gradient, not the loss that is returned.
        """
        with torch.no_grad():
            return _Pass(self, row, room, keeps=True).teach(gradient, scale)

    def judge(self, row: Row, *, room: Room) -> Judged:
        """Computes the loss of a row, and which targets the network gets right."""
        with torch.no_grad():
            return _Pass(self, row, room, keeps=False).judge()[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What the backward pass of one layer needs."""

    entered: Tensor
    normed: Tensor
    attended: Attended
    taken: Tensor
    middle: Tensor
    inner_normed: Tensor
    gate_up: Tensor


class _Pass:
    """One row on its way through the network.

    Args:
        keeps: whether a backward pass follows.
    """

    def __init__(self, network: Network, row: Row, room: Room, *, keeps: bool) -> None:
        self._model, self._learned = network.model, network.learned
        self._row, self._take, self._keeps = row, room.take, keeps
        sizes, device = self._model.architecture, self._model.device
        self._nodes = len(row.tokens)
        self._cut = blocks(row, dtype=self._model.dtype, device=device)
        # The nodes that predict: behind the last attention only they go on.
        self._sources, self._numbers = torch.tensor(row.sources, device=device).unique(
            return_inverse=True
        )
        self._last = sizes.layers - 1
        self._kept: list[_Kept] = []
        depths = torch.tensor(row.depths, device=device)[:, None]
        angles = depths * torch.tensor(sizes.frequencies, device=device)
        self._turns = tuple(part.to(self._model.dtype) for part in (angles.cos(), angles.sin()))
        scale = sizes.head_width**-0.5
        self._scaled_turns = tuple(part * scale for part in self._turns)

    def judge(self) -> tuple[Judged, Tensor, Tensor]:
        """Passes forward: what the network says, the loss's gradient, and what it belongs to."""
        embedded = self._model.embedding[torch.tensor(self._row.tokens, device=self._model.device)]
        stream = self._take_wide("stream", self._nodes, self._layer(0)).copy_(embedded)
        for number in range(self._last + 1):
            stream = self._forward(number, stream)
        normed = self._norm(stream, self._model.norm, self._take("last normed", *stream.shape))
        return *self._loss(normed), stream

    def teach(self, gradient: LowRankGradient, scale: float) -> Judged:
        """Passes forward and back."""
        judged, of_normed, stream = self.judge()
        back = self._take_wide("gradient", len(stream)).copy_(
            self._norm_back(of_normed.mul_(scale), stream, self._model.norm)
        )
        for number in range(self._last, -1, -1):
            back = self._backward(number, back, gradient.learn)
        return judged

    def _layer(self, number: int) -> int:
        """Where a layer's tensors are; without a backward pass each is in the place of the last."""
        return number if self._keeps else 0

    def _take_wide(self, name: str, nodes: int, layer: int = 0) -> Tensor:
        """A tensor like the residual stream."""
        width = self._model.architecture.width
        return self._take(name, nodes, width, layer=layer, dtype=torch.float32)

    def _forward(self, number: int, stream: Tensor) -> Tensor:
        """Passes a layer."""
        sizes, layer, here = (
            self._model.architecture,
            self._model.layers[number],
            self._layer(number),
        )
        normed = self._norm(stream, layer.norm, self._take("normed", *stream.shape, layer=here))
        qkv = self._times(normed, number, "qkv", "qkv")
        if layer.bias is not None:
            qkv += layer.bias
        taken = self._take("taken", self._nodes, sizes.heads * sizes.head_width, layer=here)
        attended = self._attended(qkv, here)
        attend(attended, self._cut, taken=taken.view(self._nodes, *attended.queries.shape[:2], -1))
        entered, out = stream, taken
        if number == self._last:
            stream, out = stream[self._sources], taken[self._sources]
        middle = torch.add(
            stream,
            self._times(out, number, "out", "projected"),
            out=self._take_wide("middle", len(out), here),
        )
        inner_normed = self._norm(
            middle, layer.inner_norm, self._take("inner_normed", *middle.shape, layer=here)
        )
        gate_up = self._times(inner_normed, number, "gate_up", "gate_up", here)
        gate, up = gate_up.chunk(2, dim=-1)
        opened = torch.ops.aten.silu.out(gate, out=self._take("opened", *gate.shape)).mul_(up)
        if self._keeps:
            self._kept.append(
                _Kept(
                    entered=entered,
                    normed=normed,
                    attended=attended,
                    taken=taken,
                    middle=middle,
                    inner_normed=inner_normed,
                    gate_up=gate_up,
                )
            )
        return torch.add(
            middle,
            self._times(opened, number, "down", "projected"),
            out=self._take_wide("stream", len(out), self._layer(number + 1)),
        )

    def _backward(
        self, number: int, gradient: Tensor, learn: Callable[[int, str, Tensor, Tensor], None]
    ) -> Tensor:
        """Passes a layer back: from the gradient of what left it to that of what entered."""
        layer, kept = self._model.layers[number], self._kept.pop()
        low = self._take("low", *gradient.shape).copy_(gradient)
        opened, of_gate_up = self._gated_back(
            self._back(low, number, "down", "of_opened"), kept.gate_up
        )
        learn(number, "down", opened, low)
        learn(number, "gate_up", kept.inner_normed, of_gate_up)
        of_normed = self._back(of_gate_up, number, "gate_up", "of_normed")
        gradient += self._norm_back(of_normed, kept.middle, layer.inner_norm)
        low.copy_(gradient)
        of_taken = self._back(low, number, "out", "of_taken")
        if number == self._last:
            learn(number, "out", kept.taken[self._sources], low)
            of_taken = torch.zeros_like(kept.taken).index_copy_(0, self._sources, of_taken)
            wide = self._take_wide("whole gradient", self._nodes).zero_()
            gradient = wide.index_copy_(0, self._sources, gradient)
        else:
            learn(number, "out", kept.taken, low)
        of_qkv = self._attended_back(of_taken, kept.attended)
        learn(number, "qkv", kept.normed, of_qkv)
        of_normed = self._back(of_qkv, number, "qkv", "of_normed")
        gradient += self._norm_back(of_normed, kept.entered, layer.norm)
        return gradient

    def _times(self, inputs: Tensor, number: int, matrix: str, name: str, here: int = 0) -> Tensor:
        """Multiplies with a matrix."""
        weights = self._learned.matrix(number, matrix)
        out = self._take(name, len(inputs), len(weights), layer=here)
        return torch.mm(inputs, weights.T, out=out)

    def _back(self, gradient: Tensor, number: int, matrix: str, name: str) -> Tensor:
        """The gradient of what was multiplied with a matrix."""
        weights = self._learned.matrix(number, matrix)
        return torch.mm(gradient, weights, out=self._take(name, len(gradient), weights.shape[1]))

    def _norm(self, stream: Tensor, weight: Tensor, out: Tensor) -> Tensor:
        """RMSNorm."""
        scaled = torch.mul(
            stream, self._inverse_size(stream), out=self._take_wide("scaled", len(stream))
        )
        return out.copy_(scaled.mul_(weight))

    def _inverse_size(self, stream: Tensor) -> Tensor:
        squares = torch.linalg.vector_norm(stream, dim=-1, keepdim=True).square_()
        return squares.div_(stream.shape[1]).add_(self._model.architecture.epsilon).rsqrt_()

    def _norm_back(self, gradient: Tensor, stream: Tensor, weight: Tensor) -> Tensor:
        """The gradient of what went into `_norm`, until it is asked again."""
        size = self._inverse_size(stream)
        direction = torch.mul(stream, size, out=self._take_wide("direction", len(stream)))
        scaled = torch.mul(gradient, weight, out=self._take_wide("scaled", len(stream)))
        along = torch.linalg.vecdot(scaled, direction)[:, None].div_(stream.shape[1])
        return scaled.sub_(direction.mul_(along)).mul_(size)

    def _gated_back(self, gradient: Tensor, gate_up: Tensor) -> tuple[Tensor, Tensor]:
        """What went into `down`, and the gradient of what came from `gate_up`."""
        gate, up = gate_up.chunk(2, dim=-1)
        of_gate_up = self._take("of_gate_up", *gate_up.shape)
        of_gate, of_up = of_gate_up.chunk(2, dim=-1)
        opened = torch.ops.aten.silu.out(gate, out=self._take("opened", *gate.shape))
        torch.mul(gradient, opened, out=of_up)
        gradient *= up
        torch.ops.aten.silu_backward.grad_input(gradient, gate, grad_input=of_gate)
        return opened.mul_(up), of_gate_up

    def _attended(self, qkv: Tensor, here: int) -> Attended:
        """Cuts into heads, turns queries and keys by their positions and scales the queries."""
        sizes, nodes = self._model.architecture, self._nodes
        width, kv_heads = sizes.head_width, sizes.kv_heads
        queries, keys, values = self._cut_heads(qkv)
        attended = Attended(
            queries=self._take("queries", sizes.heads, nodes, width, layer=here).view(
                kv_heads, -1, nodes, width
            ),
            keys=self._take("keys", kv_heads, nodes, width, layer=here),
            values=self._take("values", kv_heads, nodes, width, layer=here),
            shares=self._take(
                "shares", sizes.heads * sum(block.mask.numel() for block in self._cut), layer=here
            ),
        )
        _turn(queries, self._scaled_turns, out=attended.queries.flatten(0, 1))
        _turn(keys, self._turns, out=attended.keys)
        attended.values.copy_(values)
        return attended

    def _attended_back(self, of_taken: Tensor, attended: Attended) -> Tensor:
        """The gradient of the queries, keys and values before they were turned."""
        kv_heads, group, nodes, width = attended.queries.shape
        shape, wide = attended.keys.shape, torch.float32
        gradients = Attended(
            queries=self._take("of_queries", kv_heads, group, nodes, width),
            keys=self._take("of_keys", *shape, dtype=wide).zero_(),
            values=self._take("of_values", *shape, dtype=wide).zero_(),
            shares=attended.shares,
        )
        attend_back(
            of_taken.view(nodes, kv_heads, group, width), attended, self._cut, out=gradients
        )
        of_qkv = self._take("qkv", nodes, (kv_heads * group + 2 * kv_heads) * width)
        queries, keys, values = self._cut_heads(of_qkv)
        (cosine, sine), (scaled_cosine, scaled_sine) = self._turns, self._scaled_turns
        _turn(gradients.queries.flatten(0, 1), (scaled_cosine, -scaled_sine), out=queries)
        _turn(gradients.keys.to(of_qkv.dtype), (cosine, -sine), out=keys)
        values.copy_(gradients.values)
        return of_qkv

    def _cut_heads(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values as [heads, nodes, head width]; views."""
        sizes = self._model.architecture
        heads = qkv.view(len(qkv), -1, sizes.head_width).transpose(0, 1)
        queries, keys, values = heads.split([sizes.heads, sizes.kv_heads, sizes.kv_heads])
        return queries, keys, values

    def _loss(self, normed: Tensor) -> tuple[Judged, Tensor]:
        """The loss, and its gradient where targets are predicted.

        Args:
            normed: of the nodes that predict, [nodes, width].
        """
        row, numbers = self._row, self._numbers
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
        most = WORDS_AT_ONCE if device.type == "cpu" else WORDS_AT_ONCE_ON_GPU
        step = max(most // len(head), 1)
        for start in range(0, len(normed), step):
            here = slice(start, min(start + step, len(normed)))
            count = here.stop - start
            scores = torch.mm(normed[here], head.T, out=self._take("scores", count, len(head)))
            highest, best[here] = scores.max(-1)
            shares = torch.softmax(scores, dim=-1, out=self._take("shares of words", *scores.shape))
            total = highest.float() - shares.gather(1, best[here, None])[:, 0].float().log()
            inside = ((numbers >= here.start) & (numbers < here.stop)).nonzero()[:, 0]
            nodes = numbers[inside] - start
            chances[inside] = scores[nodes, targets[inside]].float() - total[nodes]
            gradient[here] = (shares @ head).float().mul_(weighed[here, None])
        judged = Judged(
            loss=float(-(weights * chances).sum()), right=(best[numbers] == targets).tolist()
        )
        return judged, gradient.sub_(wanted)


def _turn(heads: Tensor, turns: tuple[Tensor, ...], *, out: Tensor) -> None:
    """Turns the halves of each head against each other; all are [heads, nodes, head width].

    Args:
        turns: cosine and sine of each node's angles, [nodes, half a head's width].
    """
    cosine, sine = turns
    lower, upper = heads.chunk(2, dim=-1)
    first, second = out.chunk(2, dim=-1)
    torch.mul(lower, cosine, out=first).addcmul_(upper, sine, value=-1)
    torch.mul(upper, cosine, out=second).addcmul_(lower, sine)
