# SPDX-License-Identifier: Apache-2.0
"""Average pooling, over windows and over whole images, and the gradients."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    channel_axes,
    expect_floats,
    expect_integer,
    expect_integers,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.windows import Window, pooled_shape, pooling_fields, pooling_loops, pooling_work


def _window_kernel(op: Op, function: str, x: Shape) -> Kernel:
    fields = pooling_fields(op, x)
    return Kernel(
        source="avg_pool2d",
        function=function,
        arguments=(*op.inputs, op.output),
        struct="poet_avg_pool2d",
        fields=(*fields, ("count_include_pad", op.integer("count_include_pad"))),
        loops=pooling_loops(fields, "out_height", "out_width", "planes"),
    )


def _divisors(op: Op, x: Shape, like: Array) -> Array:
    """The divisors of each window's sum, [1, 1, OH, OW]."""
    ones = np.ones((1, 1, *x[2:]), like.dtype)
    counts: Array = Window.of(op).patches(ones, op.integer("count_include_pad")).sum(axis=(4, 5))
    return counts


@register
class AvgPool2d(OpKind):
    """Input x [N,C,H,W]; y [N,C,OH,OW], the mean of each window.

    Attributes `kernel`, `stride` (rows, columns), `padding` (top, left, bottom, right) and
    `count_include_pad`: 1 divides by the kernel's size, 0 by the number of elements not padding.
    """

    name = "avg_pool2d"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return channel_axes(inputs, results)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        expect_integer(op, "count_include_pad", 0, 1)
        return pooled_shape(op, inputs[0].shape), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        y: Array = Window.of(op).patches(x).sum(axis=(4, 5)) / _divisors(op, x.shape, x)
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        height, width = Window.of(op).kernel
        return height + width - 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return pooling_work(op, inputs[0].shape, bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _window_kernel(op, "poet_avg_pool2d_forward_f32", graph.by_name[op.inputs[0]].shape)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            dx = tape.emit(
                "avg_pool2d_backward",
                f"{op.name}.backward",
                (output_gradient,),
                {"input_shape": tape.shape(x), **op.attributes},
            )
            tape.add_gradient(x, dx)


@register
class AvgPool2dBackward(OpKind):
    """Input dy; dx of the shape in attribute `input_shape`; others as for the forward op."""

    name = "avg_pool2d_backward"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return channel_axes(inputs, results)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "input_shape", 1, 4)
        expect_integer(op, "count_include_pad", 0, 1)
        expect_shape(op, inputs[0], pooled_shape(op, shape))
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (dy,) = inputs
        window, shape = Window.of(op), op.integers("input_shape")
        shares = (dy / _divisors(op, shape, dy))[..., np.newaxis, np.newaxis]
        return window.scatter(np.broadcast_to(shares, (*dy.shape, *window.kernel)), shape)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        height, width = Window.of(op).overlaps
        return height * width

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return pooling_work(op, op.integers("input_shape"), bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _window_kernel(op, "poet_avg_pool2d_backward_f32", op.integers("input_shape"))


def _global_kernel(op: Op, function: str, x: Shape) -> Kernel:
    return Kernel(
        source="avg_pool2d",
        function=function,
        arguments=(*op.inputs, op.output),
        struct="poet_global_avg_pool",
        fields=(("planes", x[0] * x[1]), ("height", x[2]), ("width", x[3])),
        loops=((x[0] * x[1],), (x[2],), (x[3],)),
    )


@register
class GlobalAvgPool(OpKind):
    """Input x [N,C,H,W]; y [N,C,1,1], the mean of each plane."""

    name = "global_avg_pool"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return channel_axes(inputs, results)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        return (*inputs[0].shape[:2], 1, 1), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = inputs[0].mean(axis=(2, 3), keepdims=True)
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        _, _, height, width = inputs[0]
        return height + width - 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _global_kernel(
            op, "poet_global_avg_pool_forward_f32", graph.by_name[op.inputs[0]].shape
        )

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            dx = tape.emit(
                "global_avg_pool_backward",
                f"{op.name}.backward",
                (output_gradient,),
                {"input_shape": tape.shape(x)},
            )
            tape.add_gradient(x, dx)


@register
class GlobalAvgPoolBackward(OpKind):
    """Input dy [N,C,1,1]; dx of the shape in attribute `input_shape`, dy / (H·W) all over."""

    name = "global_avg_pool_backward"

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return channel_axes(inputs, results)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        shape = expect_integers(op, "input_shape", 1, 4)
        expect_shape(op, inputs[0], (*shape[:2], 1, 1))
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        shape = op.integers("input_shape")
        return np.broadcast_to(inputs[0] / (shape[2] * shape[3]), shape).copy()

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        assert output is not None
        return OpWork(macs=output.elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return _global_kernel(op, "poet_global_avg_pool_backward_f32", op.integers("input_shape"))
