# SPDX-License-Identifier: Apache-2.0
"""Window that convolution and pooling slide over an image, and NumPy views of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from poetfw.common.errors import ModelError
from poetfw.ir import Op
from poetfw.ops.base import Array, Loops, OpWork, Shape, expect_integers


@dataclass(frozen=True, slots=True)
class Window:
    """Window over H and W.

    Attributes:
        kernel: height and width.
        stride: distance between positions in rows and columns.
        padding: rows and columns added at the top, left, bottom and right.
    """

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]

    @staticmethod
    def of(op: Op, kernel: tuple[int, int] | None = None) -> Window:
        """Window of an op's attributes; the kernel is also an attribute unless it is given.

        Raises:
            ModelError: An attribute is missing or malformed.
        """
        if kernel is None:
            height, width = expect_integers(op, "kernel", 1, 2)
        else:
            height, width = kernel
        rows, columns = expect_integers(op, "stride", 1, 2)
        top, left, bottom, right = expect_integers(op, "padding", 0, 4)
        return Window((height, width), (rows, columns), (top, left, bottom, right))

    def positions(self, op: Op, height: int, width: int) -> tuple[int, int]:
        """Numbers of positions on an image, in rows and columns.

        Each is floor((extent + padding - kernel) / stride) + 1.

        Raises:
            ModelError: The window is larger than the padded image.
        """
        top, left, bottom, right = self.padding
        padded = (height + top + bottom, width + left + right)
        if self.kernel[0] > padded[0] or self.kernel[1] > padded[1]:
            raise ModelError(
                f"op {op.name!r} ({op.kind}) has a {self.kernel[0]} x {self.kernel[1]} kernel, "
                f"larger than its padded input of {padded[0]} x {padded[1]}"
            )
        return (
            (padded[0] - self.kernel[0]) // self.stride[0] + 1,
            (padded[1] - self.kernel[1]) // self.stride[1] + 1,
        )

    def on(self, extents: Sequence[int]) -> Window:
        """Equivalent window on an image with equal strides, if possible, as most kernels need them.

        Along an axis where image and kernel have one element, the stride is replaced by that of the
        other axis, or by 1.
        """
        top, left, bottom, right = self.padding
        padded = (extents[0] + top + bottom, extents[1] + left + right)
        moving = [
            stride
            for stride, axis in zip(self.stride, zip(self.kernel, padded, strict=True), strict=True)
            if axis != (1, 1)
        ]
        if len(moving) == 2:
            return self
        (stride,) = moving or (1,)
        return replace(self, stride=(stride, stride))

    @property
    def overlaps(self) -> tuple[int, int]:
        """Largest number of windows that contain an element, along each axis."""
        return (
            -(-self.kernel[0] // self.stride[0]),
            -(-self.kernel[1] // self.stride[1]),
        )

    def patches(self, x: Array, fill: float = 0.0) -> Array:
        """View [N, C, OH, OW, kh, kw] of padded x [N, C, H, W], with a window per position."""
        top, left, bottom, right = self.padding
        padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
        every = sliding_window_view(padded, self.kernel, axis=(2, 3))
        view: Array = every[:, :, :: self.stride[0], :: self.stride[1]]
        return view

    def scatter(self, patches: Array, shape: Shape) -> Array:
        """Adjoint of `patches`: the sum of [N, C, OH, OW, kh, kw] at their source elements."""
        batch, channels, height, width = shape
        top, left, bottom, right = self.padding
        padded = np.zeros(
            (batch, channels, height + top + bottom, width + left + right), patches.dtype
        )
        rows = (patches.shape[2] - 1) * self.stride[0] + 1
        columns = (patches.shape[3] - 1) * self.stride[1] + 1
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                padded[:, :, i : i + rows : self.stride[0], j : j + columns : self.stride[1]] += (
                    patches[..., i, j]
                )
        return padded[:, :, top : top + height, left : left + width]

    def fields(self) -> tuple[tuple[str, int], ...]:
        """Constants of all kernels with a window, in the order of their structs."""
        return (
            ("kernel_height", self.kernel[0]),
            ("kernel_width", self.kernel[1]),
            ("stride_height", self.stride[0]),
            ("stride_width", self.stride[1]),
            ("padding_top", self.padding[0]),
            ("padding_left", self.padding[1]),
        )


def pooled_shape(op: Op, shape: Shape) -> Shape:
    """Output shape of a pooling op with these attributes, for an input [N, C, H, W].

    Raises:
        ModelError: An attribute is malformed, or a window may contain nothing but padding.
    """
    window = Window.of(op)
    (height, width), (top, left, bottom, right) = window.kernel, window.padding
    if max(top, bottom) >= height or max(left, right) >= width:
        raise ModelError(
            f"op {op.name!r} ({op.kind}) has a {height} x {width} kernel and padding "
            f"{list(window.padding)}: the padding must be smaller than the kernel"
        )
    return (*shape[:2], *window.positions(op, shape[2], shape[3]))


def pooling_work(op: Op, x: Shape, bytes_moved: int) -> OpWork:
    """Work of a pooling op, or of its gradient, for x [N, C, H, W]: one pass over all windows."""
    height, width = Window.of(op).kernel
    return OpWork(macs=math.prod(pooled_shape(op, x)) * height * width, bytes_moved=bytes_moved)


def pooling_fields(op: Op, x: Shape) -> tuple[tuple[str, int], ...]:
    """Constants of all pooling kernels for x [N, C, H, W], in the order of their structs."""
    batch, channels, rows, columns = pooled_shape(op, x)
    return (
        ("planes", batch * channels),
        ("in_height", x[2]),
        ("in_width", x[3]),
        ("out_height", rows),
        ("out_width", columns),
        *Window.of(op).fields(),
    )


def pooling_loops(fields: Sequence[tuple[str, int]], *outer: str) -> Loops:
    """Loops of a pooling kernel: those of some fields, and the two over a window."""
    extents = dict(fields)
    return tuple((extents[name],) for name in (*outer, "kernel_height", "kernel_width"))
