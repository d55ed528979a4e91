# SPDX-License-Identifier: Apache-2.0
"""Multiplication by a constant."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import Array, Shape, Tape, expect_number, register
from poetfw.ops.graph_only import GraphOnlyElementwise

_LARGEST = 3.4e38  # a float32's


@register
class Scale(GraphOnlyElementwise):
    """y = factor · x; attribute `factor`."""

    name = "scale"
    inputs_count = 1
    passes = 1

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_number(op, "factor", -_LARGEST, _LARGEST)
        return super().infer(op, inputs)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        y: Array = x * x.dtype.type(op.number("factor"))
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            inputs = (output_gradient,)
            dx = tape.emit("scale", f"{op.name}.backward", inputs, op.attributes)
            tape.add_gradient(x, dx)
