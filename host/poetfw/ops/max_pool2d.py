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
from poetfw.ops.rounding import gamma
from poetfw.ops.windows import Window, pooled_shape, pooling_fields, pooling_work


class _MaxPool2d(OpKind):
    """Shared by both passes: attributes kernel, stride, padding, and x as first input."""

    function: ClassVar[str]

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return pooling_work(op, inputs[0].shape, bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        window = Window.of(op)
        whole = window.kernel == (2, 2) and not any(window.padding)
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

    Attributes `kernel`, `stride` (rows, columns), `padding` (top, left, bottom, right).
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
            dx = tape.emit(
                "max_pool2d_backward", f"{op.name}.backward", (x, output_gradient), op.attributes
            )
            tape.add_gradient(x, dx)


@register
class MaxPool2dBackward(_MaxPool2d):
    """Inputs x, dy; dx: each dy goes to the first maximum of its window in row-major order."""

    name = "max_pool2d_backward"
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
        flat = patches.reshape(*dy.shape, -1)
        winners = np.arange(flat.shape[-1]) == flat.argmax(axis=-1)[..., np.newaxis]
        shares = np.where(winners, dy[..., np.newaxis], 0).reshape(patches.shape)
        return window.scatter(shares, x.shape)

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # x only decides where a gradient goes; where windows overlap, several are added up
        x, dy = inputs
        height, width = Window.of(op).overlaps
        terms = self.compute(op, [x, np.abs(dy)], updates)
        return (gamma(height * width - 1) * terms,)
