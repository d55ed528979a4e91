# SPDX-License-Identifier: Apache-2.0
"""ReLU and ReLU6. Both gradients are taken from the output, so the input need not be kept.

Where only the gradient waits for the output, one bit of each element suffices: where it passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    Shape,
    Tape,
    expect_dtype,
    expect_floats,
    expect_inputs,
    expect_shape,
    gradient_from_output,
    register,
)
from poetfw.ops.bit_fields import pack_fields, unpack_fields, words_of_fields
from poetfw.ops.elementwise import Elementwise


class _Relu(Elementwise):
    """Shared by the ops of this family."""

    source = "relu"

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        elements = graph.by_name[op.inputs[-1]].elements
        return replace(
            super().kernel(op, graph),
            fields=(("elements", elements),),
            divided=(("POET_RELU_ELEMENTS", elements),),
            loops=((elements, 8),),
        )

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0


class _Activation(_Relu):
    """The forward op: y = f(x)."""

    pointwise = True
    carries = (0,)
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
    carries = (1,)
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
    carries = (1,)
    branches = True
    inputs_count = 2
    function = "poet_relu6_backward_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y, dy = inputs
        return np.where((y <= 0) | (y >= 6), 0, dy)


class _Mask(_Relu):
    """Input y; words [ceil(n/32)] of i32 with one bit of each element: 1 where dy passes."""

    inputs_count = 1
    in_place = ()
    of: type[ReluBackward | Relu6Backward]
    """The backward op whose condition it is."""

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        return (words_of_fields(inputs[0].elements, 1),), Dtype.I32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (y,) = inputs
        passes = self.of().compute(op, [y, np.ones_like(y)], updates)
        return pack_fields(passes.astype(np.uint32), 1)


@register
class ReluMask(_Mask):
    """Input y of a ReLU; a bit is 1 unless y <= 0."""

    name = "relu_mask"
    of = ReluBackward
    function = "poet_relu_mask_f32"


@register
class Relu6Mask(_Mask):
    """Input y of a ReLU6; a bit is 1 unless y <= 0 or y >= 6."""

    name = "relu6_mask"
    branches = True
    of = Relu6Backward
    function = "poet_relu6_mask_f32"


@register
class MaskedBackward(_Relu):
    """Inputs words of a mask, dy; dx = dy where the bit is 1, else 0."""

    name = "relu_masked_backward"
    carries = (1,)
    inputs_count = 2
    in_place = (1,)
    function = "poet_relu_masked_backward_f32"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 2)
        words, dy = inputs
        expect_dtype(op, words, Dtype.I32)
        expect_dtype(op, dy, Dtype.F32)
        expect_shape(op, words, (words_of_fields(dy.elements, 1),))
        return dy.shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        words, dy = inputs
        return np.where(unpack_fields(words, 1, dy.size).reshape(dy.shape) != 0, dy, 0)
