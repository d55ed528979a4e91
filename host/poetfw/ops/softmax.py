# SPDX-License-Identifier: Apache-2.0
"""Softmax over the last axis; its gradient is taken from the output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Arrays,
    Axes,
    Bounds,
    Kernel,
    OpWork,
    Tape,
    bytes_of,
    gradient_from_output,
    register,
    vector_letters,
)
from poetfw.ops.elementwise import Elementwise
from poetfw.ops.rounding import FUNCTION_ROUNDINGS, SMALLEST_NORMAL, UNIT_ROUNDOFF, gamma


class _Softmax(Elementwise):
    """Kernel and costs of both passes."""

    source = "softmax"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        letters = vector_letters(inputs[0].shape)  # a sum is over a whole row
        return Axes((letters,) * len(inputs), (letters,))

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(3 * inputs[0].elements, bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        x = graph.by_name[op.inputs[0]]
        return Kernel(
            source=self.source,
            function=self.function,
            arguments=(*op.inputs, op.output),
            struct="poet_softmax",
            fields=(("rows", x.elements // x.shape[-1]), ("length", x.shape[-1])),
        )


@register
class Softmax(_Softmax):
    """y = exp(x) / Σ exp(x) over the last axis, computed relative to each row's maximum."""

    name = "softmax"
    carries = (0,)
    in_place = (0,)
    inputs_count = 1
    function = "poet_softmax_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
        y: Array = exponentials / exponentials.sum(axis=-1, keepdims=True)
        return y

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        # A rounding of an exponent x multiplies e^x by 1 ± 1.01·|x|·u; the sum has those of its
        # terms and its own; the division one.
        (x,) = inputs
        y = self.compute(op, inputs, updates)
        exponents = np.minimum(x.max(axis=-1, keepdims=True) - x, 104)
        error = 1.01 * exponents * UNIT_ROUNDOFF + gamma(FUNCTION_ROUNDINGS)
        in_sum = (y * error).sum(axis=-1, keepdims=True) + gamma(x.shape[-1])
        return (1.01 * y * (error + in_sum + gamma(1)) + SMALLEST_NORMAL,)

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        # Exponents that are off by e at most multiply e^x, and the sum, by a number within e^±e.
        largest = errors[0].max(axis=-1, keepdims=True)
        return (self.compute(op, inputs, updates) * np.expm1(2 * largest),)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        gradient_from_output(op, tape, output_gradient)


@register
class SoftmaxBackward(_Softmax):
    """Inputs y, dy; dx = y · (dy - Σ dy·y over the last axis)."""

    name = "softmax_backward"
    carries = (1,)
    in_place = (0, 1)
    inputs_count = 2
    function = "poet_softmax_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        dx: Array = y * (dy - (dy * y).sum(axis=-1, keepdims=True))
        return dx

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        y, dy = inputs
        terms = np.abs(dy * y).sum(axis=-1, keepdims=True)
        count = y.shape[-1] + 2  # the sum's, the difference and the product
        return (np.abs(y) * (gamma(2) * np.abs(dy) + gamma(count) * terms) + SMALLEST_NORMAL,)

    def carried(self, op: Op, inputs: Arrays, errors: Arrays, updates: Arrays) -> Bounds:
        y, error = np.abs(inputs[0]), errors[1]
        return (y * (error + (error * y).sum(axis=-1, keepdims=True)),)
