# SPDX-License-Identifier: Apache-2.0
"""Logistic sigmoid; its gradient is taken from the output, so the input need not be kept."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, Tape, gradient_from_output, register
from poetfw.ops.graph_only import GraphOnlyElementwise


@register
class Sigmoid(GraphOnlyElementwise):
    """y = 1 / (1 + e^-x)."""

    name = "sigmoid"
    in_place = (0,)
    pointwise = True
    inputs_count = 1
    passes = 1

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        half = inputs[0].dtype.type(0.5)
        y: Array = half * np.tanh(half * inputs[0]) + half  # without an overflow far from 0
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        gradient_from_output(op, tape, output_gradient)


@register
class SigmoidBackward(GraphOnlyElementwise):
    """Inputs y, dy; dx = dy · y · (1 - y)."""

    name = "sigmoid_backward"
    in_place = (0, 1)
    inputs_count = 2
    passes = 2

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        dx: Array = dy * y * (1 - y)
        return dx
