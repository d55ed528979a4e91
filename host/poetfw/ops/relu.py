# SPDX-License-Identifier: Apache-2.0
"""ReLU and ReLU6. Both gradients are taken from the output, so the input need not be kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poetfw.ir import Graph, Op
from poetfw.ops.base import Array, Kernel, Shape, Tape, gradient_from_output, register
from poetfw.ops.elementwise import Elementwise


class _Relu(Elementwise):
    """Shared by the ops of this family."""

    source = "relu"

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        elements = graph.by_name[op.inputs[0]].elements
        return replace(super().kernel(op, graph), divided=(("POET_RELU_ELEMENTS", elements),))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0


class _Activation(_Relu):
    """The forward op: y = f(x)."""

    pointwise = True
    inputs_count = 1

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        gradient_from_output(op, tape, output_gradient)


@register
class Relu(_Activation):
    """y = max(x, 0)."""

    name = "relu"
    onnx = "Relu"
    function = "poet_relu_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return np.maximum(inputs[0], 0)


@register
class ReluBackward(_Relu):
    """Inputs y, dy; dx = 0 where y <= 0, else dy."""

    name = "relu_backward"
    inputs_count = 2
    function = "poet_relu_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        return np.where(y <= 0, 0, dy)


@register
class Relu6(_Activation):
    """y = min(max(x, 0), 6)."""

    name = "relu6"
    branches = True
    function = "poet_relu6_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return np.clip(inputs[0], 0, 6)


@register
class Relu6Backward(_Relu):
    """Inputs y, dy; dx = dy where 0 < y < 6, else 0."""

    name = "relu6_backward"
    branches = True
    inputs_count = 2
    function = "poet_relu6_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        return np.where((y <= 0) | (y >= 6), 0, dy)
