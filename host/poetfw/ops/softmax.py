# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last axis; its gradient is taken from the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, Tape, gradient_from_output, register
from poetfw.ops.graph_only import GraphOnlyElementwise


@register
class Softmax(GraphOnlyElementwise):
    """y = exp(x) / Σ exp(x) over the last axis, computed relative to each row's maximum."""

    name = "softmax"
    inputs_count = 1
    passes = 3

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
        y: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return y

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        gradient_from_output(op, tape, output_gradient)


@register
class SoftmaxBackward(GraphOnlyElementwise):
    """Inputs y, dy; dx = y · (dy - Σ dy·y over the last axis)."""

    name = "softmax_backward"
    inputs_count = 2
    passes = 3

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        dx: Array = y * (dy - (dy * y).sum(axis=-1, keepdims=True))
        return dx
