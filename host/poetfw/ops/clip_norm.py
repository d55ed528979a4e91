# SPDX-License-Identifier: Apache-2.0
"""Clipping of gradients by their global norm, as by `torch.nn.utils.clip_grad_norm_`.

Each `square_sum` adds to the result of the previous one, so that the order of additions is that of
the graph for any schedule; `clip_factor` computes the factor of all gradients from the sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    bytes_of,
    expect_floats,
    expect_number,
    expect_shape,
    register,
)

_MARGIN = 1e-6
"""Number added to the norm against a division by zero, as in PyTorch and in the kernel."""

_ROW = 32
"""Number of squares that the kernel sums, before it adds these sums pairwise."""


@register
class SquareSum(OpKind):
    """Inputs gradient of any shape and optionally before [1]; output [1] = before + Σ gradient²."""

    name = "square_sum"
    cancels = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1, 2)
        for before in inputs[1:]:
            expect_shape(op, before, (1,))
        return (1,), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        gradient, *before = inputs
        total: Array = np.square(gradient).sum(keepdims=True).reshape(1)
        return before[0] + total if before else total

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        # a square, the sum of a row, the pairwise sum of rows, what that leaves, what was before
        elements = math.prod(inputs[0])
        levels = (-(-elements // _ROW)).bit_length()
        return min(elements, _ROW) + 2 * levels + 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        read: tuple[str | None, ...] = (*op.inputs, None)[:2]
        return Kernel(
            source="clip_norm",
            function="poet_square_sum_f32",
            arguments=(*read, op.output),
            struct="poet_square_sum",
            fields=(("elements", graph.by_name[op.inputs[0]].elements),),
        )


@register
class ClipFactor(OpKind):
    """Input the sum of squares [1]; output [1] = min(1, max_norm / (sqrt(sum) + 1e-6)).

    Attribute `max_norm`. A NaN in a gradient makes the factor NaN.
    """

    name = "clip_factor"
    positive = (0,)
    cancels = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_shape(op, inputs[0], (1,))
        expect_number(op, "max_norm", 0)
        return (1,), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (total,) = inputs
        max_norm, margin = (total.dtype.type(v) for v in (op.number("max_norm"), _MARGIN))
        factor: Array = np.minimum(max_norm / (np.sqrt(total) + margin), 1)
        return factor

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 6  # the root, both constants, the sum, the division, and what `min` may add

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=1, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="clip_norm",
            function="poet_clip_factor_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_clip_factor",
            fields=(("max_norm", op.number("max_norm")),),
        )
