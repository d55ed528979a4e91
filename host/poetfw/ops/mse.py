# SPDX-License-Identifier: Apache-2.0
"""The mean squared error over all elements: a loss, and in evaluation a metric."""

from __future__ import annotations

import math
from collections.abc import Sequence

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    LossKind,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_shape,
    register,
)


def _kernel(op: Op, graph: Graph, function: str, *results: str | None) -> Kernel:
    prediction = graph.by_name[op.inputs[0]]
    batch = prediction.shape[0]
    return Kernel(
        source="mse",
        function=function,
        arguments=(*op.inputs, *results),
        struct="poet_mse",
        fields=(("batch", batch), ("features", prediction.elements // batch)),
    )


@register
class Mse(LossKind):
    """Inputs prediction, target of one shape; updates loss [1] = mean (prediction - target)²."""

    name = "mse"
    cancels = False
    recomputable = False

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> None:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], inputs[0].shape)

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> None:
        prediction, target = inputs
        updates[0][...] = ((prediction - target) ** 2).mean()

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        # two differences, a product, the sums over features and samples, the number, the division
        batch, *features = inputs[0]
        return 3 + (math.prod(features) - 1) + (batch - 1) + 2

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=2 * inputs[0].elements, bytes_moved=bytes_of(*inputs) + 4)

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _kernel(op, graph, "poet_mse_forward_f32", *op.updates)

    def start_gradient(self, op: Op, tape: Tape) -> None:
        dprediction = tape.emit("mse_backward", f"{op.name}.backward", op.inputs)
        tape.add_gradient(op.inputs[0], dprediction)


@register
class MseBackward(OpKind):
    """Inputs prediction, target; dprediction = 2 · (prediction - target) / elements."""

    name = "mse_backward"
    cancels = False
    in_place = (0, 1)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_shape(op, inputs[1], inputs[0].shape)
        return inputs[0].shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        prediction, target = inputs
        dprediction: Array = (prediction - target) * prediction.dtype.type(2 / prediction.size)
        return dprediction

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 4  # the difference, the number of elements, the division, the product

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=2 * inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _kernel(op, graph, "poet_mse_backward_f32", op.output)
