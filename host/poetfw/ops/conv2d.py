# SPDX-License-Identifier: Apache-2.0
"""2-D convolution (cross-correlation, as in every framework), with groups, and its gradients.

y[n,o,i,j] = b[o] + Σ w[o,c,u,v] · x[n, c₀+c, i·stride+u-padding, j·stride+v-padding], where c runs
over the C/groups input channels of o's group, of which c₀ is the first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Attribute, Dtype, Graph, Op, Tensor
from poetfw.kernels import ConvolutionPass, Pass
from poetfw.ops.base import (
    Array,
    Axes,
    Kernel,
    OpKind,
    OpWork,
    RowWindow,
    Shape,
    Tape,
    TileTable,
    bytes_of,
    expect_floats,
    expect_integers,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.conv2d_geometry import Conv2dGeometry
from poetfw.ops.linear import LinearBackwardWeight
from poetfw.ops.matmul import matmul_kernel


class _Conv2d(OpKind):
    """Shared by the three passes: attributes stride, padding, groups and all the extents."""

    which: ClassVar[Pass]

    @abstractmethod
    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        """The extents, from the shapes of the inputs."""

    def geometry_in(self, op: Op, graph: Graph) -> Conv2dGeometry:
        """The extents of an op of a graph."""
        return self.geometry(op, [graph.by_name[name].shape for name in op.inputs])

    @abstractmethod
    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int: ...

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        geometry = self.geometry(op, [tensor.shape for tensor in inputs])
        return OpWork(macs=geometry.macs, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        geometry = self.geometry_in(op, graph)
        loops = geometry.loops(bias=len(op.inputs) == 3)
        tiles = TileTable(ConvolutionPass(loops, self.which))
        return Kernel(
            source="conv2d",
            function=f"poet_conv2d_{self.which}_f32",
            arguments=(*self.inputs_of(op), op.output),
            struct="poet_conv2d",
            fields=(*geometry.fields(), ("tiles", tiles)),
        )

    def inputs_of(self, op: Op) -> tuple[str | None, ...]:
        """The inputs, with None for an absent one."""
        return op.inputs

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        geometry = self.geometry(op, [tensor.shape for tensor in inputs])
        if geometry.groups == 1:
            return self.dense_axes(len(inputs))
        if geometry.w[:2] != (geometry.groups, 1):
            return None
        one = str.maketrans("io", "cc")  # each channel by itself
        inputs_of, results_of = self.dense_axes(len(inputs))
        apart = {"oi..": "c...", "o": "c"}
        letters = [apart.get(each, each.translate(one)) for each in (*inputs_of, *results_of)]
        return Axes(tuple(letters[: len(inputs)]), tuple(letters[len(inputs) :]))

    def dense_axes(self, inputs: int) -> Axes:
        """Dimensions of the operands of a convolution of one group."""
        raise NotImplementedError(self.name)


@register
class Conv2d(_Conv2d):
    """Inputs x [N,C,H,W], w [O,C/groups,kh,kw] and optionally b [O]; y [N,O,OH,OW].

    Attributes `stride` (rows, columns), `padding` (top, left, bottom, right) and `groups`.
    """

    name = "conv2d"
    which = Pass.FORWARD
    summed = "i"

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, shapes[0], shapes[1])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2, 3)
        expect_rank(op, inputs[0], 4)
        expect_rank(op, inputs[1], 4)
        geometry = self.geometry(op, [tensor.shape for tensor in inputs])
        for bias in inputs[2:]:
            expect_shape(op, bias, geometry.w[:1])
        return geometry.y, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, w, *bias = inputs
        geometry = self.geometry(op, [x.shape, w.shape])
        batch, channels, rows, columns = geometry.y
        y = geometry.weight_rows(w) @ geometry.columns(x)
        y = y.reshape(channels, batch, rows, columns).transpose(1, 0, 2, 3)
        return y + bias[0].reshape(-1, 1, 1) if bias else np.ascontiguousarray(y)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        # the taps of a channel are added up first, then the channels, then the bias
        _, channels, height, width = inputs[1]
        return height * width + channels - 1 + len(inputs[2:])

    def inputs_of(self, op: Op) -> tuple[str | None, ...]:
        return op.inputs if len(op.inputs) == 3 else (*op.inputs, None)

    def dense_axes(self, inputs: int) -> Axes:
        return Axes(("niR.", "oi..", "o")[:inputs], ("nor.",))

    def row_window(self, op: Op, shapes: Sequence[Shape], first: int, count: int) -> RowWindow:
        geometry = self.geometry(op, shapes)
        height, stride = geometry.x[2], geometry.window.stride[0]
        top, left, _, right = geometry.window.padding
        begin = first * stride - top
        end = begin + (count - 1) * stride + geometry.w[2]
        padding = (max(0, -begin), left, max(0, end - height), right)
        return RowWindow(max(0, begin), min(end, height) - max(0, begin), padding)

    def training_form(self, op: Op, tape: Tape) -> None:
        super().training_form(op, tape)
        tape.trained_channels(op.inputs[0], op.inputs[1])

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        x, w, *biases = op.inputs
        shared: Mapping[str, Attribute] = {
            name: op.attributes[name] for name in ("stride", "padding", "groups")
        }
        for bias in biases:
            if tape.needs_gradient(bias):
                db = tape.emit(
                    "conv2d_backward_bias", f"{op.name}.backward_bias", (output_gradient,)
                )
                tape.add_gradient(bias, db)
        if tape.needs_gradient(w):
            seen = tape.trained_channels(x, w)
            outputs, channels, *kernel = tape.shape(w)
            if seen != x:  # there are no groups
                channels = tape.shape(seen)[1]
            dw = tape.emit(
                "conv2d_backward_weight",
                f"{op.name}.backward_weight",
                (seen, output_gradient),
                {"weight_shape": (outputs, channels, *kernel), **shared},
            )
            tape.add_gradient(w, dw)
        if tape.needs_gradient(x):
            dx = tape.emit(
                "conv2d_backward_input",
                f"{op.name}.backward_input",
                (w, output_gradient),
                {"input_shape": tape.shape(x), **shared},
            )
            tape.add_gradient(x, dx)


@register
class Conv2dBackwardInput(_Conv2d):
    """Inputs w, dy; dx of the shape in attribute `input_shape`; others as for the forward op.

    In a model it is the transposed convolution of dy, and has gradients of its own.
    """

    name = "conv2d_backward_input"
    carries = (1,)
    which = Pass.BACKWARD_INPUT
    summed = "o"

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, expect_integers(op, "input_shape", 1, 4), shapes[0])

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_rank(op, inputs[0], 4)
        geometry = self.geometry(op, [tensor.shape for tensor in inputs])
        expect_shape(op, inputs[1], geometry.y)
        return geometry.x, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        w, dy = inputs
        geometry = self.geometry(op, [w.shape, dy.shape])
        weights = geometry.weight_rows(w).transpose(0, 2, 1)
        return geometry.from_columns(weights @ geometry.output_rows(dy))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        # the taps of a channel that meet dy are added up first, then the group's channels
        geometry = self.geometry(op, inputs)
        height, width = geometry.window.overlaps
        return height * width + geometry.w[0] // geometry.groups - 1

    def dense_axes(self, inputs: int) -> Axes:
        return Axes(("oi..", "noR."), ("nir.",))

    def row_window(self, op: Op, shapes: Sequence[Shape], first: int, count: int) -> RowWindow:
        geometry = self.geometry(op, shapes)
        height, stride = geometry.w[2], geometry.window.stride[0]
        top, left, _, right = geometry.window.padding
        begin = max(0, -(-(first + top - height + 1) // stride))
        end = min(geometry.y[2], (first + count - 1 + top) // stride + 1)
        above = top + first - begin * stride
        below = max(0, (end - begin - 1) * stride + height - count - above)
        return RowWindow(begin, end - begin, (above, left, below, right))

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        w, x = op.inputs
        shared = {name: op.attributes[name] for name in ("stride", "padding", "groups")}
        if tape.needs_gradient(w):
            dw = tape.emit(
                "conv2d_backward_weight",
                f"{op.name}.backward_weight",
                (output_gradient, x),
                {"weight_shape": tape.shape(w), **shared},
            )
            tape.add_gradient(w, dw)
        if tape.needs_gradient(x):
            name = f"{op.name}.backward_input"
            tape.add_gradient(x, tape.emit("conv2d", name, (output_gradient, w), shared))


@register
class Conv2dBackwardWeight(_Conv2d):
    """Inputs x, dy; dw of the shape in attribute `weight_shape`; others as for the forward op."""

    name = "conv2d_backward_weight"
    which = Pass.BACKWARD_WEIGHT
    streams = True

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, shapes[0], expect_integers(op, "weight_shape", 1, 4))

    def dense_axes(self, inputs: int) -> Axes:
        return Axes((".i..", ".o.."), ("oi..",))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        geometry = self.geometry_in(op, graph)
        if not geometry.dense:
            return super().kernel(op, graph)
        dense = LinearBackwardWeight()
        product = dense.product(geometry.x[0], geometry.x[1], geometry.w[0])
        return matmul_kernel(product, (*dense.operands(op), op.output))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        expect_rank(op, inputs[0], 4)
        geometry = self.geometry(op, [tensor.shape for tensor in inputs])
        expect_shape(op, inputs[1], geometry.y)
        return geometry.w, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, dy = inputs
        geometry = self.geometry(op, [x.shape, dy.shape])
        dw = geometry.output_rows(dy) @ geometry.columns(x).transpose(0, 2, 1)
        return dw.reshape(geometry.w)

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        # the products of a row are added up first, then the rows of all samples
        batch, _, rows, columns = inputs[1]
        return columns + batch * rows - 1


@register
class Conv2dBackwardBias(OpKind):
    """Input dy [N,O,OH,OW]; db [O] = Σ dy over samples and positions."""

    name = "conv2d_backward_bias"
    carries = (0,)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        return inputs[0].shape[1:2], Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        db: Array = inputs[0].sum(axis=(0, 2, 3))
        return db

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return Axes((".c..",), ("c",))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, _, rows, columns = inputs[0]
        return columns + batch * rows - 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = graph.by_name[op.inputs[0]].shape
        batch, channels, *plane = extents
        return Kernel(
            source="conv2d",
            function="poet_conv2d_backward_bias_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_conv2d_bias",
            fields=tuple(zip(("batch", "channels", "height", "width"), extents, strict=True)),
            loops=tuple((extent,) for extent in (channels, batch, *plane)),
        )
