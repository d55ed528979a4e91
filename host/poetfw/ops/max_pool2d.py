# SPDX-License-Identifier: Apache-2.0
"""Max pooling. The gradient finds the maxima again, so no indices need to be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma
from poetfw.ops.windows import Window, pooled_shape, pooling_fields, pooling_work

BACKWARD = "max_pool2d_backward"


class _MaxPool2d(OpKind):
    """Shared by both passes: attributes kernel, stride, padding, and x as first input."""

    function: ClassVar[str]
    has_2x2: ClassVar[bool] = True

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return pooling_work(op, inputs[0].shape, bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        window = Window.of(op)
        whole = self.has_2x2 and window.kernel == (2, 2) and not any(window.padding)
        return Kernel(
            source="max_pool2d",
            function=f"poet_max_pool2d_{'2x2_' if whole else ''}{self.function}_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_max_pool2d",
            fields=pooling_fields(op, graph.by_name[op.inputs[0]].shape),
        )


@register
class MaxPool2d(_MaxPool2d):
    """Input x [N,C,H,W]; y [N,C,OH,OW], the largest value in each window; padding never is.

    Attributes `kernel`, `stride` (rows, columns), `padding` (top, left, bottom, right), and
    optionally `shared`: 1 if equal maxima share the gradient, else the first takes it.
    """

    name = "max_pool2d"
    function = "forward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        return pooled_shape(op, inputs[0].shape), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = Window.of(op).patches(inputs[0], -np.inf).max(axis=(4, 5))
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            kind = "max_pool2d_shared_backward" if op.attributes.get("shared") else BACKWARD
            window = {key: op.attributes[key] for key in ("kernel", "stride", "padding")}
            dx = tape.emit(kind, f"{op.name}.backward", (x, output_gradient), window)
            tape.add_gradient(x, dx)


@register
class MaxPool2dBackward(_MaxPool2d):
    """Inputs x, dy; dx: each dy goes to the first maximum of its window in row-major order."""

    name = BACKWARD
    function = "backward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        x, dy = inputs
        expect_rank(op, x, 4)
        expect_shape(op, dy, pooled_shape(op, x.shape))
        return x.shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, dy = inputs
        window = Window.of(op)
        patches = window.patches(x, -np.inf)
        shares = self.shares(patches.reshape(*dy.shape, -1), dy[..., np.newaxis])
        return window.scatter(shares.reshape(patches.shape), x.shape)

    def shares(self, values: Array, dy: Array) -> Array:
        """Gradients of the values of each window, [..., values], of dy [..., 1]."""
        winners = np.arange(values.shape[-1]) == values.argmax(axis=-1)[..., np.newaxis]
        return np.where(winners, dy, np.zeros_like(dy))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # x only decides where a gradient goes; where windows overlap, several are added up
        x, dy = inputs
        height, width = Window.of(op).overlaps
        terms = self.compute(op, [x, np.abs(dy)], updates)
        return (gamma(height * width - 1) * terms,)


@register
class MaxPool2dSharedBackward(MaxPool2dBackward):
    """Inputs x, dy; dx: each dy is divided by the number of maxima of its window, which all get it.

    So PyTorch does for `amax`.
    """

    name = "max_pool2d_shared_backward"
    function = "shared_backward"
    has_2x2 = False

    def shares(self, values: Array, dy: Array) -> Array:
        winners = values == values.max(axis=-1, keepdims=True)
        count = winners.sum(axis=-1, keepdims=True).astype(dy.dtype)
        shares: Array = np.where(winners, dy / np.maximum(count, 1), 0)
        return np.where(count == 0, super().shares(values, dy), shares)  # of NaN

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        x, dy = inputs
        height, width = Window.of(op).overlaps
        terms = self.compute(op, [x, np.abs(dy)], updates)
        return (gamma(height * width) * terms + SMALLEST_NORMAL,)
