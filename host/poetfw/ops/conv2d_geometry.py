# SPDX-License-Identifier: Apache-2.0
"""Extents of a 2-D convolution, and the matrices that its products are."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.common.errors import ModelError
from poetfw.ir import Op
from poetfw.kernels import Convolution
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
    def dense(self) -> bool:
        """True for a 1x1 kernel on 1x1 feature maps of at least 8 channels: a dense layer."""
        alone = self.window.kernel == self.x[2:] == (1, 1) and not any(self.window.padding)
        return alone and self.groups == 1 and self.x[1] >= 8

    def loops(self, *, bias: bool) -> Convolution:
        """The same extents, as the generator of tiles takes them."""
        return Convolution(
            batch=self.x[0],
            in_channels=self.x[1],
            in_height=self.x[2],
            in_width=self.x[3],
            out_channels=self.y[1],
            kernel=(self.w[2], self.w[3]),
            stride=self.window.stride,
            padding=self.window.padding,
            groups=self.groups,
            bias=bias,
        )

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
