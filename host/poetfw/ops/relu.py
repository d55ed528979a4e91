"""ReLU and ReLU6. Both gradients are taken from the output, so the input need not be kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    Shape,
    Tape,
    Work,
    bytes_of,
    expect_inputs,
    register,
)


class _Elementwise(OpKind):
    """An op whose output has the shape of its first input and that looks at each element once."""

    inputs_count: ClassVar[int]
    function: ClassVar[str]

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, self.inputs_count)
        return inputs[0].shape, inputs[0].dtype

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> Work:
        return Work(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="relu",
            function=self.function,
            arguments=(*op.inputs, op.output),
            struct="poet_relu",
            fields=(("elements", graph.by_name[op.inputs[0]].elements),),
        )


class _Activation(_Elementwise):
    """The forward op: y = f(x)."""

    inputs_count = 1

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            assert op.output is not None
            dx = tape.emit(
                f"{self.name}_backward", f"{op.name}.backward", (op.output, output_gradient)
            )
            tape.add_gradient(x, dx)


@register
class Relu(_Activation):
    """y = max(x, 0)."""

    name = "relu"
    function = "poet_relu_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return np.maximum(inputs[0], 0)


@register
class ReluBackward(_Elementwise):
    """Inputs y, dy; dx = dy where y > 0, else 0."""

    name = "relu_backward"
    inputs_count = 2
    function = "poet_relu_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        return dy * (y > 0)


@register
class Relu6(_Activation):
    """y = min(max(x, 0), 6)."""

    name = "relu6"
    function = "poet_relu6_forward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        return np.clip(inputs[0], 0, 6)


@register
class Relu6Backward(_Elementwise):
    """Inputs y, dy; dx = dy where 0 < y < 6, else 0."""

    name = "relu6_backward"
    inputs_count = 2
    function = "poet_relu6_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        return dy * ((y > 0) & (y < 6))
