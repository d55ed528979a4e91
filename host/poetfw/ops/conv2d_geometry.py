# SPDX-License-Identifier: Apache-2.0
"""Extents of a 2-D convolution, and the matrices that its products are."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.common.errors import ModelError
from poetfw.ir import Op
from poetfw.ops.base import (
    Array,
    Shape,
    expect_integer,
)
from poetfw.ops.windows import Window


@dataclass(frozen=True, slots=True)
class Conv2dGeometry:
    """All the extents of one convolution.

    Attributes:
        x: [N, C, H, W].
        w: [O, C/groups, kh, kw].
        y: [N, O, OH, OW].
        groups: into which input and output channels are divided.
        window: kernel, stride and padding.
    """

    x: Shape
    w: Shape
    y: Shape
    groups: int
    window: Window

    @staticmethod
    def of(op: Op, x: Shape, w: Shape) -> Conv2dGeometry:
        """The geometry of an op's attributes with an input and a weight of these shapes.

        Raises:
            ModelError: they do not fit each other.
        """
        groups = expect_integer(op, "groups", 1)
        if x[1] != w[1] * groups or w[0] % groups:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) has input {list(x)}, weight {list(w)} and {groups} "
                "groups: the input needs as many channels as the weight's second extent times "
                "the groups, and the weight's first extent must be divisible by the groups"
            )
        window = Window.of(op, (w[2], w[3]))
        y = (x[0], w[0], *window.positions(op, x[2], x[3]))
        return Conv2dGeometry(x, w, y, groups, window.on(x[2:]))

    @property
    def macs(self) -> int:
        """Multiply-accumulates of one pass, products with padding included."""
        batch, channels, rows, columns = self.y
        return batch * channels * rows * columns * self.w[1] * self.w[2] * self.w[3]

    @property
    def one_tap(self) -> bool:
        """True for a 1x1 kernel without padding."""
        return self.window.kernel == (1, 1) and not any(self.window.padding)

    @property
    def positions(self) -> int:
        """Rows and columns of all samples' results."""
        return self.y[0] * self.y[2] * self.y[3]

    @property
    def pointwise(self) -> bool:
        """True for a 1x1 kernel of stride 1 without padding."""
        return self.one_tap and self.window.stride == (1, 1)

    @property
    def pointwise_by_2(self) -> bool:
        """True for a 1x1 kernel without padding, of column stride 2 or with one column."""
        return self.one_tap and (self.window.stride[1] == 2 or self.y[3] == 1)

    @property
    def dense(self) -> bool:
        """True for 1x1 images of at least 8 channels: a dense layer, computed by `linear.c`."""
        window = self.window
        alone = window.kernel == (1, 1) and self.x[2:] == (1, 1) and not any(window.padding)
        return alone and self.groups == 1 and self.x[1] >= 8

    @property
    def depthwise(self) -> bool:
        """True if each channel is a group."""
        return self.x[1] == self.y[1] == self.groups

    @property
    def depthwise_by_1(self) -> bool:
        """True if a depthwise 3x3 kernel has stride 1, with padding of 2 at most."""
        return self._depthwise_planes((1, 1), 0, 2)

    @property
    def depthwise_by_2(self) -> bool:
        """True if a depthwise 3x3 kernel has stride 2, with padding of 1 at most."""
        return self._depthwise_planes((2, 2), -1, 1)

    @property
    def depthwise_5x5(self) -> str:
        """The class of a depthwise 5x5 kernel with padding of 2 that has stride 1 or 2, or none."""
        window = self.window
        if not self.depthwise or window.kernel != (5, 5) or window.padding != (2, 2, 2, 2):
            return ""
        return {(1, 1): "depthwise_5x5_", (2, 2): "depthwise_5x5_by_2_"}.get(window.stride, "")

    def is_column(self, results: Shape) -> bool:
        """True if a 5x5 kernel's planes of these extents take less by the general loops, measured.

        They have one column, and four samples are summed at once, or results of many planes.
        """
        planes = self.x[0] * self.groups
        many = self.groups >= 2 and planes >= (3 if results[0] == 1 else 9)
        return results[1] == 1 and (self.x[0] >= 4 or many)

    def _depthwise_planes(self, stride: Shape, least: int, most: int) -> bool:
        """True for a depthwise 3x3 kernel of this stride with padding in [least, most]."""
        window = self.window
        return (self.depthwise and window.kernel == (3, 3) and window.stride == stride) and all(
            before <= most and least <= results + 2 - sources - before <= min(most, results)
            for results, sources, before in zip(
                self.rows_by_1, self.x[2:], window.padding[:2], strict=True
            )
        )

    @property
    def three_by_three(self) -> bool:
        """True for a 3x3 kernel of stride 1 and padding 1 on inputs of at least 2 x 4."""
        window = self.window
        moves_by_1 = window.kernel == (3, 3) and window.stride == (1, 1)
        return moves_by_1 and window.padding == (1, 1, 1, 1) and self.x[2] >= 2 and self.x[3] >= 4

    @property
    def three_by_three_by_2(self) -> bool:
        """True for a 3x3 kernel of stride 2 and padding 1 with outputs of at least 2 x 4."""
        window = self.window
        moves_by_2 = window.kernel == (3, 3) and window.stride == (2, 2)
        return moves_by_2 and window.padding == (1, 1, 1, 1) and self.y[2] >= 2 and self.y[3] >= 4

    @property
    def narrow(self) -> bool:
        """True for a 3x3 kernel of padding 1 with ≤ 3 columns at stride 1, ≤ 4 at stride 2."""
        window = self.window
        if window.kernel != (3, 3) or window.padding != (1, 1, 1, 1):
            return False
        return self.y[3] <= {(1, 1): 3, (2, 2): 4}.get(window.stride, 0)

    @property
    def five_by_five(self) -> bool:
        """True for a 5x5 kernel of stride 1 and padding 2 with 4 or at least 6 columns."""
        window, columns = self.window, self.y[3]
        moves_by_1 = window.kernel == (5, 5) and window.stride == (1, 1)
        return moves_by_1 and window.padding == (2, 2, 2, 2) and (columns == 4 or columns >= 6)

    @property
    def five_by_five_by_2(self) -> bool:
        """True for a 5x5 kernel of stride 2 and padding 2 with outputs of at least 2 columns."""
        window = self.window
        moves_by_2 = window.kernel == (5, 5) and window.stride == (2, 2)
        return moves_by_2 and window.padding == (2, 2, 2, 2) and self.y[3] >= 2

    @property
    def rows_by_1(self) -> Shape:
        """Height and width that y would have at stride 1."""
        rows, columns = (
            (extent - 1) * stride + 1
            for extent, stride in zip(self.y[2:], self.window.stride, strict=True)
        )
        return rows, columns

    @property
    def by_1(self) -> bool:
        """True for a depthwise 3x3 kernel of stride 2 that only strips of stride 1 compute."""
        return self._depthwise_planes((2, 2), 0, 2) and not self.depthwise_by_2

    def fields(self) -> tuple[tuple[str, int], ...]:
        """The constants of `struct poet_conv2d`."""
        return (
            ("batch", self.x[0]),
            ("groups", self.groups),
            ("in_channels", self.x[1]),
            ("in_height", self.x[2]),
            ("in_width", self.x[3]),
            ("out_channels", self.y[1]),
            ("out_height", self.y[2]),
            ("out_width", self.y[3]),
            *self.window.fields(),
        )

    def columns(self, x: Array) -> Array:
        """The im2col matrix of input x [N, C, H, W]: [groups, C/groups*kh*kw, N*OH*OW]."""
        batch, _, rows, columns = self.y
        patches = self.window.patches(x)
        grouped = patches.reshape(batch, self.groups, self.w[1], *patches.shape[2:])
        return grouped.transpose(1, 2, 5, 6, 0, 3, 4).reshape(
            self.groups, -1, batch * rows * columns
        )

    def from_columns(self, columns: Array) -> Array:
        """The adjoint of `columns` (col2im)."""
        batch, _, rows, cols = self.y
        grouped = columns.reshape(self.groups, *self.w[1:], batch, rows, cols)
        patches = grouped.transpose(4, 0, 1, 5, 6, 2, 3)
        return self.window.scatter(
            patches.reshape(batch, self.x[1], rows, cols, *self.window.kernel), self.x
        )

    def output_rows(self, dy: Array) -> Array:
        """Gradient dy [N, O, OH, OW] as [groups, O/groups, N*OH*OW]."""
        return dy.transpose(1, 0, 2, 3).reshape(self.groups, self.w[0] // self.groups, -1)

    def weight_rows(self, w: Array) -> Array:
        """Weight w [O, C/groups, kh, kw] as [groups, O/groups, C/groups*kh*kw]."""
        return w.reshape(self.groups, self.w[0] // self.groups, -1)
