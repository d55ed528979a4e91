# SPDX-License-Identifier: Apache-2.0
"""2-D convolution (cross-correlation, as in every framework), with groups, and its gradients.

y[n,o,i,j] = b[o] + Σ w[o,c,u,v] · x[n, c₀+c, i·stride+u-padding, j·stride+v-padding], where c runs
over the C/groups input channels of o's group, of which c₀ is the first.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import VARIANT, Attribute, Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    expect_floats,
    expect_integers,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.conv2d_geometry import Conv2dGeometry
from poetfw.ops.linear import LinearBackwardWeight

_FEW_POSITIONS = 24
"""For so few, the general dW is faster than that of strips, which puts one weight at a time."""

GENERAL = "general"
"""The variant that runs the general function for a shape that has one of its own."""

BY_1 = "by_1"
"""The variant that computes a depthwise kernel of stride 2 at stride 1, in a workspace."""


class _Conv2d(OpKind):
    """Shared by the three passes: attributes stride, padding, groups and all the extents."""

    function: ClassVar[str]
    sources: ClassVar[Mapping[str, str]] = {
        "depthwise_": "conv2d_depthwise",
        "depthwise_by_2_": "conv2d_depthwise_by_2",
        "depthwise_each_": "conv2d_depthwise_each",
        "depthwise_by_1_": "conv2d_depthwise_by_1",
        "depthwise_5x5_": "conv2d_depthwise_5x5",
        "depthwise_5x5_by_2_": "conv2d_depthwise_5x5",
        "3x3_": "conv2d_3x3",
        "3x3_by_2_": "conv2d_3x3_by_2",
        "3x3_narrow_": "conv2d_3x3_narrow",
        "5x5_": "conv2d_5x5",
        "5x5_by_2_": "conv2d_5x5",
        "pointwise_": "conv2d_pointwise",
        "pointwise_apart_": "conv2d_pointwise_apart",
        "pointwise_by_2_": "conv2d_pointwise",
        "pointwise_by_any_": "conv2d_pointwise",
        "pointwise_each_": "conv2d_pointwise",
    }
    """The C files of classes of shapes that are not in conv2d.c."""

    def shape_class(self, geometry: Conv2dGeometry) -> str:
        """The beginning of the name of the kernel for such a shape."""
        if geometry.one_tap and self.in_bursts(geometry):
            return "pointwise_apart_" if self.apart(geometry) else "pointwise_"
        if geometry.depthwise and geometry.window.kernel == (3, 3):
            return self.depthwise_class(geometry)
        if geometry.depthwise_5x5:
            return geometry.depthwise_5x5
        if geometry.three_by_three_by_2:
            return "3x3_by_2_"
        if geometry.five_by_five_by_2 and geometry.y[3] >= 4:
            return "5x5_by_2_"
        if geometry.five_by_five:
            return "5x5_"
        return "3x3_" if geometry.three_by_three else ""

    def apart(self, geometry: Conv2dGeometry) -> bool:
        """True if fours of positions of x or dx are no neighbours, and need not be gathered."""
        return geometry.x[2:] != geometry.y[2:] and math.prod(geometry.y[2:]) >= 4

    def depthwise_class(self, geometry: Conv2dGeometry) -> str:
        """That of a depthwise 3x3 kernel: strips, or positions, where others take longer."""
        rows, columns = results = self.results_of(geometry)
        line = columns == 1 or (rows == 1 and geometry.window.stride == (1, 1))
        few = geometry.x[2:] == (1, 1) or (geometry.y[2:] == (1, 1) and rows * columns <= 4)
        several = geometry.x[0] * geometry.x[1] >= 4
        if results == (1, 1) or (several and (line or few)):
            return "depthwise_each_"
        if geometry.depthwise_by_1:
            return "depthwise_"
        if geometry.depthwise_by_2:
            return "depthwise_by_2_"
        # boxes are set up for each plane, positions one by one
        planes, strides = geometry.x[0] * geometry.x[1], math.prod(geometry.window.stride)
        by_boxes = planes <= 4 and rows * columns >= planes * (64 + 16 * strides)
        return "" if by_boxes else "depthwise_each_"

    def results_of(self, geometry: Conv2dGeometry) -> Shape:
        """Rows and columns of a plane of what is computed."""
        return geometry.y[2:]

    def in_bursts(self, geometry: Conv2dGeometry) -> bool:
        """True if a 1x1 kernel takes less by bursts than by the general loops, as measured.

        Those take fours of positions wherever they are, bursts what each plane has.
        """
        samples, positions = geometry.x[0], math.prod(geometry.y[2:])
        channels, results = self.sides_of(geometry)
        many = channels * results >= 32
        if positions > 3:
            if positions not in (5, 6) or not geometry.pointwise:
                return True
            return samples * positions < 48 and not (samples >= 4 and many)
        if samples < 4:
            return samples * positions < 3 or not many
        if samples >= 8 or not geometry.pointwise:
            return False
        return results < 4 and positions * channels <= 4

    def sides_of(self, geometry: Conv2dGeometry) -> Shape:
        """Channels of a group that are summed, and of its results."""
        return geometry.w[1], geometry.w[0] // geometry.groups

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

    def variants(self, op: Op, graph: Graph) -> tuple[str, ...]:
        geometry = self.geometry_in(op, graph)
        general = (GENERAL,) if self.shape_class(geometry) else ()
        return (*general, BY_1) if geometry.by_1 else general

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        geometry = self.geometry_in(op, graph)
        variant = op.attributes.get(VARIANT)
        shape_class = {GENERAL: "", BY_1: "depthwise_by_1_"}.get(
            str(variant), self.shape_class(geometry)
        )
        plane = math.prod(geometry.rows_by_1) * Dtype.F32.size_bytes
        return Kernel(
            source=self.sources.get(shape_class, "conv2d"),
            function=f"poet_conv2d_{shape_class}{self.function}_f32",
            arguments=(*self.inputs_of(op), op.output),
            struct="poet_conv2d",
            fields=geometry.fields(),
            workspace_bytes=plane if variant == BY_1 else 0,
            divided=self.divided(geometry),
        )

    def divided(self, geometry: Conv2dGeometry) -> tuple[tuple[str, int], ...]:
        """The channels and columns that are taken in blocks."""
        return (("POET_CONV2D_SUMS", geometry.y[1] // geometry.groups),)

    def inputs_of(self, op: Op) -> tuple[str | None, ...]:
        """The inputs, with None for an absent one."""
        return op.inputs


@register
class Conv2d(_Conv2d):
    """Inputs x [N,C,H,W], w [O,C/groups,kh,kw] and optionally b [O]; y [N,O,OH,OW].

    Attributes `stride` (rows, columns), `padding` (top, left, bottom, right) and `groups`.
    """

    name = "conv2d"
    function = "forward"

    def shape_class(self, geometry: Conv2dGeometry) -> str:
        column = geometry.depthwise_5x5 and geometry.is_column(geometry.y[2:])
        return "" if column else super().shape_class(geometry)

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, shapes[0], shapes[1])

    def apart(self, geometry: Conv2dGeometry) -> bool:
        return super().apart(geometry) and geometry.w[1] <= 4

    def in_bursts(self, geometry: Conv2dGeometry) -> bool:
        # more than 4 channels of positions that are apart are gathered, above 16 in turns
        channels, positions = geometry.w[1], math.prod(geometry.y[2:])
        single = geometry.y[1] == geometry.groups
        if not geometry.pointwise and channels > 4 and (single or channels > 16):
            many = geometry.x[0] >= (8 if single else 4)
            if many and 4 < positions < 14 and positions != 8:
                return False
            if single and channels > 16 and positions >= 4:
                return False
        return super().in_bursts(geometry)

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
    function = "backward_input"

    def shape_class(self, geometry: Conv2dGeometry) -> str:
        if geometry.depthwise_5x5 and geometry.is_column(geometry.x[2:]):
            return ""
        two_columns = geometry.y[3] == 2 and geometry.window.stride == (2, 2)
        if two_columns and geometry.narrow and not geometry.depthwise:
            return "3x3_narrow_"
        return super().shape_class(geometry)

    def results_of(self, geometry: Conv2dGeometry) -> Shape:
        return geometry.x[2:]

    def sides_of(self, geometry: Conv2dGeometry) -> Shape:
        return geometry.w[0] // geometry.groups, geometry.w[1]

    def in_bursts(self, geometry: Conv2dGeometry) -> bool:
        # the general loops put what is left out, and take long
        samples, positions = geometry.x[0], math.prod(geometry.y[2:])
        if geometry.pointwise or positions > 3:
            return super().in_bursts(geometry)
        if samples < 4 or math.prod(geometry.x[2:]) < 4 * positions:
            return samples < 4
        channels, results = self.sides_of(geometry)
        return positions == 1 or (channels <= 4 and (samples <= 8 or results >= 3))

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, expect_integers(op, "input_shape", 1, 4), shapes[0])

    def divided(self, geometry: Conv2dGeometry) -> tuple[tuple[str, int], ...]:
        return (("POET_CONV2D_SUMS", geometry.x[1] // geometry.groups),)

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
    function = "backward_weight"
    streams = True

    def variants(self, op: Op, graph: Graph) -> tuple[str, ...]:
        return tuple(name for name in super().variants(op, graph) if name != BY_1)

    def shape_class(self, geometry: Conv2dGeometry) -> str:
        if geometry.depthwise_by_1:
            return "depthwise_"
        if geometry.depthwise_by_2:
            return "depthwise_by_2_"
        if geometry.depthwise_5x5:
            # of a single column, one tap of five meets it
            column = geometry.x[3] == 1 and geometry.positions >= _FEW_POSITIONS
            return "" if column else geometry.depthwise_5x5
        if geometry.one_tap:
            return self._pointwise_class(geometry)
        outputs = geometry.w[0] // geometry.groups
        if outputs >= 2 and geometry.five_by_five_by_2:
            return "5x5_by_2_"
        if outputs >= 2 and geometry.five_by_five:
            return "5x5_"
        if outputs >= 4 and geometry.narrow:
            return "3x3_narrow_"
        if outputs >= 4 and geometry.three_by_three_by_2:
            return "3x3_by_2_"
        in_strips = outputs >= 4 and geometry.three_by_three
        return "3x3_" if in_strips and geometry.positions > _FEW_POSITIONS else ""

    def _pointwise_class(self, geometry: Conv2dGeometry) -> str:
        """That of a 1x1 kernel, as measured: fours of channels take long where most are missing."""
        inputs, outputs = geometry.w[1], geometry.w[0] // geometry.groups
        weights, positions = inputs * outputs, geometry.positions
        if weights == 1:
            return "pointwise_each_" if positions <= 80 else ""
        if max(inputs, outputs) < 4 and weights**2 * positions <= 16:
            return "pointwise_each_"
        if geometry.pointwise:
            return "pointwise_"
        return "pointwise_by_2_" if geometry.pointwise_by_2 else "pointwise_by_any_"

    def geometry(self, op: Op, shapes: Sequence[Shape]) -> Conv2dGeometry:
        return Conv2dGeometry.of(op, shapes[0], expect_integers(op, "weight_shape", 1, 4))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        geometry = self.geometry_in(op, graph)
        if not geometry.dense or op.attributes.get(VARIANT) == GENERAL:
            return super().kernel(op, graph)
        batch, features, outputs = geometry.x[0], geometry.x[1], geometry.w[0]
        return LinearBackwardWeight().kernel_of(
            (batch, features, outputs), (*self.inputs_of(op), op.output)
        )

    def divided(self, geometry: Conv2dGeometry) -> tuple[tuple[str, int], ...]:
        outputs = ("POET_CONV2D_OUTPUTS", geometry.y[1] // geometry.groups)
        in_strips = self.shape_class(geometry) == "3x3_"
        return (outputs, ("POET_CONV2D_COLUMNS", geometry.x[3])) if in_strips else (outputs,)

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

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        return inputs[0].shape[1:2], Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        db: Array = inputs[0].sum(axis=(0, 2, 3))
        return db

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        batch, _, rows, columns = inputs[0]
        return columns + batch * rows - 1

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=inputs[0].elements, bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        extents = graph.by_name[op.inputs[0]].shape
        return Kernel(
            source="conv2d",
            function="poet_conv2d_backward_bias_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_conv2d_bias",
            fields=tuple(zip(("batch", "channels", "height", "width"), extents, strict=True)),
        )
