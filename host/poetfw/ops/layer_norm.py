# SPDX-License-Identifier: Apache-2.0
"""Layer normalisation over the last axis (Ba, Kiros, Hinton, 2016): inference, training, gradients.

A model holds the inference form, `layer_norm`. In training it becomes two ops, so that the schedule
may keep the statistics, which are small, and compute the output again from them:

1. `layer_norm_statistics`: mean and variance of each row.
2. `layer_norm_normalize`: the output. Its gradient rule covers the path through the statistics
   too, so `layer_norm_statistics` needs none.

A row is what lies along the last axis. Pairs are one tensor: affine [2, H] holds (gamma, beta),
statistics [2, rows] hold (mean, variance).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import (
    Array,
    GraphOnlyKind,
    Shape,
    Tape,
    Work,
    bytes_of,
    expect_floats,
    expect_number,
    expect_shape,
    register,
)


def _statistics(x: Array) -> Array:
    return np.stack([x.mean(axis=-1).reshape(-1), x.var(axis=-1).reshape(-1)])


def _normalized(x: Array, statistics: Array, eps: float) -> tuple[Array, Array]:
    """x̂ = (x - mean) / sqrt(variance + eps), and 1 / sqrt(variance + eps) to broadcast over it."""
    mean, variance = (row.reshape(*x.shape[:-1], 1) for row in statistics)
    inverse = 1 / np.sqrt(variance + x.dtype.type(eps))
    return (x - mean) * inverse, inverse


class _OverRows(GraphOnlyKind):
    """What the ops of this family share: each looks at x, the first input."""

    others: ClassVar[tuple[str, ...]]
    """What the inputs after x are: "statistics", "affine" or "dy"."""
    passes: ClassVar[int]
    """How often it looks at each element."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1 + len(self.others))
        x = inputs[0]
        length = x.shape[-1]
        shapes = {"statistics": (2, x.elements // length), "affine": (2, length), "dy": x.shape}
        for tensor, what in zip(inputs[1:], self.others, strict=True):
            expect_shape(op, tensor, shapes[what])
        self.check(op)
        return self.result(x), Dtype.F32

    def check(self, op: Op) -> None:
        """Check the attributes."""
        expect_number(op, "eps", 0)

    def result(self, x: Tensor) -> Shape:
        """Shape of the output."""
        return x.shape

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(self.passes * inputs[0].elements, bytes_of(*inputs, output))


@register
class LayerNorm(_OverRows):
    """The inference form. Inputs x [..., H], affine [2, H]; attribute `eps`.

    y = gamma · (x - mean) / sqrt(variance + eps) + beta, by each row's mean and biased variance.
    """

    name = "layer_norm"
    others = ("affine",)
    passes = 4

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, (gamma, beta) = inputs
        y: Array = gamma * _normalized(x, _statistics(x), op.number("eps"))[0] + beta
        return y

    def training_form(self, op: Op, tape: Tape) -> None:
        x, affine = op.inputs
        statistics = tape.emit("layer_norm_statistics", f"{op.name}.statistics", (x,))
        tape.emit(
            "layer_norm_normalize",
            op.name,
            (x, statistics, affine),
            op.attributes,
            output=op.output,
        )


@register
class LayerNormStatistics(_OverRows):
    """Input x [..., H]; output [2, rows]: mean and biased variance of each row, in two passes."""

    name = "layer_norm_statistics"
    others = ()
    passes = 2

    def check(self, op: Op) -> None:
        pass

    def result(self, x: Tensor) -> Shape:
        return (2, x.elements // x.shape[-1])

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return _statistics(inputs[0])

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise AssertionError("layer_norm_normalize's gradient covers the statistics")


@register
class LayerNormNormalize(_OverRows):
    """Inputs x, statistics [2, rows], affine [2, H]; attribute `eps`; y as in inference."""

    name = "layer_norm_normalize"
    in_place = (0,)
    others = ("statistics", "affine")
    passes = 2

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, (gamma, beta) = inputs
        y: Array = gamma * _normalized(x, statistics, op.number("eps"))[0] + beta
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, statistics, affine = op.inputs
        if tape.needs_gradient(affine):
            daffine = tape.emit(
                "layer_norm_backward_affine",
                f"{op.name}.backward_affine",
                (x, statistics, output_gradient),
                op.attributes,
            )
            tape.add_gradient(affine, daffine)
        if tape.needs_gradient(x):
            dx = tape.emit(
                "layer_norm_backward_input",
                f"{op.name}.backward_input",
                (x, statistics, affine, output_gradient),
                op.attributes,
            )
            tape.add_gradient(x, dx)


@register
class LayerNormBackwardAffine(_OverRows):
    """Inputs x, statistics, dy; attribute `eps`; output [2, H]: Σ dy·x̂ and Σ dy over the rows."""

    name = "layer_norm_backward_affine"
    others = ("statistics", "dy")
    passes = 3

    def result(self, x: Tensor) -> Shape:
        return (2, x.shape[-1])

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, dy = inputs
        normalized, _ = _normalized(x, statistics, op.number("eps"))
        axes = tuple(range(x.ndim - 1))
        return np.stack([(dy * normalized).sum(axis=axes), dy.sum(axis=axes)])


@register
class LayerNormBackwardInput(_OverRows):
    """Inputs x, statistics, affine, dy; attribute `eps`.

    With g = gamma·dy and means over the row, dx = (g - mean(g) - x̂ · mean(g·x̂)) /
    sqrt(variance + eps).
    """

    name = "layer_norm_backward_input"
    others = ("statistics", "affine", "dy")
    passes = 6

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, statistics, affine, dy = inputs
        normalized, inverse = _normalized(x, statistics, op.number("eps"))
        g = affine[0] * dy
        along = (g * normalized).mean(axis=-1, keepdims=True)
        dx: Array = inverse * (g - g.mean(axis=-1, keepdims=True) - normalized * along)
        return dx
