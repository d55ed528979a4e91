# SPDX-License-Identifier: Apache-2.0
"""The product of two tensors, element by element: what gates are made of."""

from __future__ import annotations

from collections.abc import Sequence

from poetfw.ir import Op
from poetfw.ops.base import Array, Tape, register
from poetfw.ops.graph_only import GraphOnlyElementwise


@register
class Multiply(GraphOnlyElementwise):
    """Inputs a, b of one shape; y = a · b. Its gradients are products of dy with the other one."""

    name = "multiply"
    in_place = (0, 1)
    inputs_count = 2
    passes = 1

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        a, b = inputs
        y: Array = a * b
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        for position, name in enumerate(op.inputs):
            if tape.needs_gradient(name):
                inputs = (output_gradient, op.inputs[1 - position])
                part = tape.emit("multiply", f"{op.name}.backward_{'ab'[position]}", inputs)
                tape.add_gradient(name, part)
