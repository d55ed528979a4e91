# SPDX-License-Identifier: Apache-2.0
"""Hyperbolic tangent; its gradient is taken from the output, so the input need not be kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, Tape, gradient_from_output, register
from poetfw.ops.graph_only import GraphOnlyElementwise


@register
class Tanh(GraphOnlyElementwise):
    """y = tanh(x)."""

    name = "tanh"
    pointwise = True
    inputs_count = 1
    passes = 1

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = np.tanh(inputs[0])
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        gradient_from_output(op, tape, output_gradient)


@register
class TanhBackward(GraphOnlyElementwise):
    """Inputs y, dy; dx = dy · (1 - y²)."""

    name = "tanh_backward"
    inputs_count = 2
    passes = 2

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        dx: Array = dy * (1 - y * y)
        return dx
