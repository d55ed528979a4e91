# SPDX-License-Identifier: Apache-2.0
"""The kernels' bits are those of plain sums in an order that depends on the op alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from emulator.drawn_convolutions import drawn
from emulator.drawn_products import drawn_products
from poetfw.ir import Attribute
from poetfw.ops import KINDS, Array
from unit.kernels.conftest import Libraries, call, graph_of_one

Run = Callable[..., Any]
Add = Callable[[Array, Array, Any], Array]
ZERO = np.float32(0)


class Geometry(NamedTuple):
    """A convolution of x [N, C, H, W]; padding is top, left, bottom, right."""

    x: tuple[int, int, int, int]
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)

    @property
    def w(self) -> tuple[int, ...]:
        return (self.out_channels, self.x[1] // self.groups, *self.kernel)

    @property
    def y(self) -> tuple[int, ...]:
        top, left, bottom, right = self.padding
        spans = [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True)]
        rows = (self.x[2] + top + bottom - spans[0]) // self.stride[0] + 1
        columns = (self.x[3] + left + right - spans[1]) // self.stride[1] + 1
        return (self.x[0], self.out_channels, rows, columns)

    @property
    def attributes(self) -> dict[str, Attribute]:
        return {"stride": self.stride, "padding": self.padding, "groups": self.groups}

    def channels(self) -> Iterator[tuple[int, int, int]]:
        """Output channel, input channel, and the latter's place in its group."""
        group_in, group_out = self.x[1] // self.groups, self.out_channels // self.groups
        for o in range(self.out_channels):
            for c in range(group_in):
                yield o, o // group_out * group_in + c, c

    def met(self, tap: int, axis: int) -> list[tuple[int, int]]:
        """Output and input positions along an axis at which a tap meets the input."""
        first = tap * self.dilation[axis] - self.padding[axis]
        pairs = ((i, i * self.stride[axis] + first) for i in range(self.y[2 + axis]))
        return [(i, j) for i, j in pairs if 0 <= j < self.x[2 + axis]]

    def taps(self) -> Iterator[tuple[int, int, Any, Any]]:
        """Each tap, and where in a plane of y and of x it meets the input."""
        for u in range(self.kernel[0]):
            for v in range(self.kernel[1]):
                rows, columns = self.met(u, 0), self.met(v, 1)
                if rows and columns:
                    (i, p), (j, q) = zip(*rows, strict=True), zip(*columns, strict=True)
                    yield u, v, np.ix_(i, j), np.ix_(p, q)


def separate(total: Array, a: Array, b: Array) -> Array:
    """A product, rounded, added to a total, and rounded."""
    return total + a * b


def fused(total: Array, a: Array, b: Array) -> Array:
    """The same, rounded once. A double holds the product; its sum is rounded to odd where it is
    not exact, so that rounding it again to a float is right (Boldo, Melquiond, 2008).
    """
    product, wide = a.astype(np.float64) * b, total.astype(np.float64)
    rounded = wide + product
    part = rounded - wide
    error = (wide - (rounded - part)) + (product - part)
    is_even = rounded.view(np.uint64) % 2 == 0
    odd = np.nextafter(rounded, np.where(error > 0, np.inf, -np.inf))
    inexact = np.isfinite(error) & (error != 0)
    return np.where(inexact & is_even, odd, rounded).astype(np.float32)


def forward(case: Geometry, x: Array, w: Array, b: Array | None, add: Add = separate) -> Array:
    """A channel's taps, then the channels; those of a kernel of one tap in one sum."""
    y = np.zeros(case.y, np.float32)
    for n in range(case.x[0]):
        for o, c, k in case.channels():
            alone = case.kernel == (1, 1)
            total = y[n, o] if alone else np.zeros(case.y[2:], np.float32)
            for u, v, at, met in case.taps():
                total[at] = add(total[at], x[n, c][met], w[o, k, u, v])
            y[n, o] = total if alone else y[n, o] + total
    return y if b is None else y + b.reshape(-1, 1, 1)


def backward_input(case: Geometry, w: Array, dy: Array, add: Add = separate) -> Array:
    """As forward, where inputs a stride apart meet the same taps of the kernel."""
    counts = [
        [
            sum((j + padding - tap * dilation) % stride == 0 for tap in range(kernel))
            for j in range(case.x[2 + axis])
        ]
        for axis, (kernel, stride, padding, dilation) in enumerate(
            zip(case.kernel, case.stride, case.padding[:2], case.dilation, strict=True)
        )
    ]
    alone = np.outer(*counts) == 1
    dx = np.zeros(case.x, np.float32)
    for n in range(case.x[0]):
        for o, c, k in case.channels():
            total = np.where(alone, dx[n, c], ZERO)
            for u, v, at, met in case.taps():
                total[met] = add(total[met], dy[n, o][at], w[o, k, u, v])
            dx[n, c] = np.where(alone, total, dx[n, c] + total)
    return dx


def backward_weight(case: Geometry, x: Array, dy: Array, add: Add = separate) -> Array:
    """A row of positions, then the rows of all samples; rows of one position in one sum."""
    alone = case.y[3] == 1
    dw = np.zeros(case.w, np.float32)
    by_group = (case.groups, case.w[0] // case.groups, case.w[1])
    for u, v, at, met in case.taps():
        total = np.zeros(by_group, np.float32)
        for n in range(case.x[0]):
            sources = x[n][:, *met].reshape(case.groups, 1, by_group[2], *met[0].shape[:1], -1)
            weights = dy[n][:, *at].reshape(case.groups, by_group[1], 1, *at[0].shape[:1], -1)
            for row in range(sources.shape[3]):
                own = total if alone else np.zeros(by_group, np.float32)
                for column in range(sources.shape[4]):
                    own = add(own, sources[:, :, :, row, column], weights[:, :, :, row, column])
                total = own if alone else total + own
        dw[:, :, u, v] = total.reshape(dw.shape[:2])
    return dw


GEOMETRIES = [
    Geometry((1, 6, 7, 8), 5, (3, 3)),
    Geometry((5, 1, 8, 11), 9, (3, 3)),
    Geometry((2, 3, 9, 11), 5, (3, 3), padding=(0, 0, 0, 0)),
    Geometry((1, 1, 3, 9), 3, (3, 3)),
    Geometry((3, 3, 5, 12), 8, (3, 3)),
    Geometry((2, 6, 2, 4), 8, (3, 3), groups=2),
    Geometry((2, 2, 1, 8), 4, (3, 3)),
    Geometry((2, 4, 6, 5), 4, (3, 3), padding=(0, 1, 2, 3)),
    Geometry((1, 3, 9, 9), 8, (3, 3), stride=(2, 1)),
    Geometry((2, 4, 9, 12), 6, (3, 3), stride=(1, 2), groups=2),
    Geometry((4, 4, 2, 2), 4, (3, 3)),
    # 3x3 kernels of stride 2: even and odd planes, whole and broken strips, blocks that overlap
    Geometry((2, 3, 4, 8), 4, (3, 3), stride=(2, 2)),
    Geometry((1, 3, 3, 7), 1, (3, 3), stride=(2, 2)),
    Geometry((3, 2, 7, 18), 9, (3, 3), stride=(2, 2)),
    Geometry((2, 6, 6, 19), 14, (3, 3), stride=(2, 2), groups=2),
    Geometry((1, 5, 5, 33), 6, (3, 3), stride=(2, 2)),
    Geometry((2, 4, 9, 16), 2, (3, 3), stride=(2, 2)),
    Geometry((1, 2, 9, 16), 4, (3, 3), stride=(2, 2), padding=(0, 0, 1, 1)),
    Geometry((1, 2, 2, 8), 4, (3, 3), stride=(2, 2)),
    # of few columns: each width of rows, even and odd, rows of the kernel that meet nothing
    Geometry((2, 3, 1, 1), 5, (3, 3)),
    Geometry((1, 2, 3, 1), 4, (3, 3)),
    Geometry((3, 4, 5, 2), 6, (3, 3)),
    Geometry((2, 6, 2, 3), 14, (3, 3), groups=2),
    Geometry((2, 3, 1, 1), 5, (3, 3), stride=(2, 2)),
    Geometry((1, 2, 2, 2), 7, (3, 3), stride=(2, 2)),
    Geometry((3, 4, 5, 3), 4, (3, 3), stride=(2, 2)),
    Geometry((2, 6, 4, 4), 10, (3, 3), stride=(2, 2), groups=2),
    Geometry((1, 3, 7, 5), 4, (3, 3), stride=(2, 2)),
    Geometry((2, 3, 6, 6), 9, (3, 3), stride=(2, 2)),
    Geometry((2, 2, 3, 7), 5, (3, 3), stride=(2, 2)),
    # dW of any kernel, nine taps at a time, and of fewer than four output channels
    Geometry((2, 3, 7, 6), 3, (4, 4), stride=(1, 2), padding=(1, 2, 2, 1)),
    Geometry((1, 1, 3, 5), 2, (2, 2), padding=(0, 0, 0, 0)),
    Geometry((2, 5, 4, 5), 6, (2, 5), padding=(0, 2, 1, 2)),
    Geometry((2, 6, 2, 3), 4, (5, 5), (2, 3), padding=(2, 2, 2, 2), groups=2),
    Geometry((1, 2, 13, 8), 2, (5, 3), stride=(2, 1), padding=(2, 1, 2, 1)),
    Geometry((1, 4, 10, 9), 3, (5, 5), stride=(2, 2), padding=(2, 2, 2, 2)),
    # fours of positions and of channels, of several groups: in lines, and of what these leave
    Geometry((1, 6, 7, 9), 14, (2, 2), padding=(0, 0, 0, 0), groups=2),
    Geometry((3, 4, 5, 7), 10, (4, 3), (2, 1), (2, 1, 1, 0), groups=2),
    Geometry((1, 6, 3, 3), 14, (7, 7), padding=(3, 3, 3, 3), groups=2),
    Geometry((5, 3, 6, 5), 3, (2, 4), (3, 3), (1, 2, 0, 1), groups=3),
    Geometry((9, 2, 3, 2), 5, (2, 2), padding=(1, 0, 0, 1)),
    # single results: of planes that a kernel meets in part, of samples and groups, of nothing
    Geometry((1, 4, 1, 1), 1, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((5, 3, 1, 1), 6, (3, 3)),
    Geometry((2, 6, 2, 2), 4, (5, 5), (2, 2), (2, 2, 2, 2), groups=2),
    Geometry((1, 4, 2, 1), 4, (3, 3), (2, 2), groups=4),
    Geometry((3, 1, 4, 3), 5, (3, 3), (4, 4), (0, 1, 0, 0)),
    Geometry((1, 5, 1, 4), 9, (3, 4), padding=(1, 0, 1, 0)),
    Geometry((2, 3, 1, 2), 4, (2, 2), (3, 3), (2, 0, 0, 1)),
    Geometry((2, 3, 2, 1), 4, (2, 2), (3, 3), (0, 2, 1, 0)),
    # 5x5 kernels of stride 1: pairs of channels and of rows, strips that overlap, low planes
    Geometry((2, 3, 7, 13), 6, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((1, 2, 5, 9), 3, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((3, 4, 4, 4), 2, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((2, 6, 1, 6), 10, (5, 5), padding=(2, 2, 2, 2), groups=2),
    Geometry((1, 3, 2, 8), 5, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((1, 1, 3, 7), 1, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((1, 2, 6, 5), 3, (5, 5), padding=(2, 2, 2, 2)),
    Geometry((1, 2, 6, 10), 3, (5, 5), padding=(2, 1, 2, 3)),
    # and by 2: even and odd planes, of two and of three columns of results, too
    Geometry((2, 3, 7, 13), 6, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((1, 2, 8, 16), 3, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((3, 4, 6, 7), 10, (5, 5), (2, 2), (2, 2, 2, 2), groups=2),
    Geometry((2, 3, 3, 10), 5, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((1, 1, 1, 8), 1, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((2, 2, 2, 9), 7, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((2, 3, 4, 4), 6, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((2, 2, 5, 3), 4, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((2, 2, 5, 5), 4, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((2, 2, 4, 6), 2, (5, 5), (2, 2), (2, 2, 2, 2)),
    Geometry((1, 2, 9, 16), 4, (5, 5), (2, 2), (1, 2, 2, 1)),
    # depthwise ones of stride 2: planes narrower than a strip, strips made again, odd and even,
    # padding before and behind, an input that nothing meets, single results
    *(
        Geometry((batch, 3, height, width), 3, (3, 3), (2, 2), padding, groups=3)
        for padding, batch, height, width in (
            ((1, 1, 1, 1), 2, 1, 1),
            ((1, 1, 1, 1), 1, 2, 3),
            ((1, 1, 1, 1), 2, 5, 9),
            ((1, 1, 1, 1), 1, 6, 16),
            ((1, 1, 1, 1), 1, 3, 23),
            ((0, 0, 1, 1), 2, 2, 4),
            ((0, 0, 1, 1), 1, 7, 10),
            ((0, 0, 1, 1), 1, 4, 18),
            ((0, 0, 0, 0), 2, 3, 5),
            ((0, 0, 0, 0), 1, 4, 6),
            ((0, 0, 0, 0), 1, 6, 13),
            ((0, 1, 1, 0), 1, 4, 7),
            ((1, 0, 0, 1), 1, 7, 12),
            ((1, 1, 1, 1), 5, 2, 2),
            ((1, 1, 1, 1), 3, 5, 4),
            ((0, 1, 0, 1), 2, 6, 3),
            ((1, 1, 0, 0), 2, 5, 4),
            ((1, 1, 0, 0), 1, 4, 5),
            ((2, 2, 1, 1), 1, 6, 7),
        )
    ),
    # planes of up to four columns of dy
    *(
        Geometry((2, 2, 4, width), 2, (3, 3), (stride, stride), padding, groups=2)
        for stride, padding, widths in (
            (1, (1, 1, 1, 1), (1, 2, 3, 4)),
            (1, (0, 2, 0, 2), (1, 2)),
            (1, (2, 0, 1, 1), (4, 5)),
            (1, (1, 2, 1, 0), (3,)),
            (2, (1, 1, 1, 1), (4, 6, 7)),
            (2, (0, 0, 0, 0), (4, 7, 9)),
            (2, (0, 0, 1, 1), (5, 8)),
        )
        for width in widths
    ),
    # others, position by position
    *(
        Geometry((batch, 3, height, width), 3, (3, 3), stride, padding, groups=3)
        for stride, padding, batch, height, width in (
            ((2, 1), (1, 1, 1, 1), 2, 5, 6),
            ((1, 2), (0, 2, 1, 0), 1, 4, 7),
            ((3, 3), (1, 1, 1, 1), 2, 8, 5),
            ((2, 3), (2, 0, 2, 2), 1, 6, 9),
            ((2, 2), (2, 2, 2, 2), 2, 4, 5),
            ((5, 4), (0, 1, 0, 0), 1, 9, 8),
            ((1, 1), (0, 3, 3, 0), 2, 4, 3),
        )
    ),
    # depthwise 5x5 kernels: strips that load and store some columns, or are made again; rows that
    # begin with some columns of a group for dW; rows of the kernel that meet nothing
    *(
        Geometry((batch, 3, height, width), 3, (5, 5), stride, (2, 2, 2, 2), groups=3)
        for stride, sizes in {
            (1, 1): "1x1 2x2 3x3 2x4 4x5 6x6 5x7 3x8 6x9 2x10 1x15 7x16 2x17",
            (2, 2): "1x1 2x2 3x3 4x4 5x5 2x6 7x7 8x8 6x9 3x10 5x15 4x16 1x17 2x18",
        }.items()
        for batch, (height, width) in zip(
            (2, 1) * 7, (map(int, size.split("x")) for size in sizes.split()), strict=False
        )
    ),
    # and columns, which several samples have together
    Geometry((5, 2, 6, 1), 2, (5, 5), padding=(2, 2, 2, 2), groups=2),
    Geometry((5, 2, 6, 2), 2, (5, 5), (2, 2), (2, 2, 2, 2), groups=2),
    Geometry((1, 4, 4, 4), 4, (5, 5), padding=(2, 1, 2, 2), groups=4),
    Geometry((2, 5, 3, 5), 9, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 8, 3, 5), 10, (1, 1), padding=(0, 0, 0, 0), groups=2),
    Geometry((2, 8, 3, 8), 8, (1, 1), padding=(0, 0, 0, 0), groups=2),
    Geometry((1, 5, 6, 7), 8, (1, 1), stride=(2, 3), padding=(0, 0, 0, 0)),
    # 1x1 kernels: bursts, what is left behind them, and fours of one plane or of two samples
    Geometry((1, 1, 3, 8), 3, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 3, 3, 7), 1, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((1, 4, 3, 9), 2, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 2, 4, 5), 1, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 1, 2, 3), 3, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((3, 21, 2, 2), 5, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 6, 1, 4), 35, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 9, 1, 3), 7, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 18, 1, 5), 34, (1, 1), padding=(0, 0, 0, 0), groups=2),
    # and those of stride 2: rows of all lengths, even and odd planes, channels and positions
    # gathered in turns
    Geometry((2, 3, 7, 7), 8, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 8, 6, 10), 3, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 1, 5, 13), 2, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 17, 6, 12), 5, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 33, 5, 6), 4, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 9, 9, 12), 3, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((3, 4, 4, 4), 5, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 19, 4, 6), 18, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((3, 8, 4, 3), 6, (1, 1), (2, 2), (0, 0, 0, 0), groups=2),
    Geometry((2, 3, 6, 2), 4, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 1, 8, 9), 1, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 3, 17, 1), 4, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 2, 1, 17), 3, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((1, 2, 3, 19), 3, (1, 1), (1, 2), (0, 0, 0, 0)),
    Geometry((2, 2, 9, 4), 3, (1, 1), (2, 1), (0, 0, 0, 0)),
    Geometry((1, 2, 8, 14), 3, (1, 1), (3, 2), (0, 0, 0, 0)),
    Geometry((1, 2, 8, 14), 4, (1, 1), (2, 2), (1, 1, 1, 1)),
    Geometry((2, 2, 9, 11), 3, (1, 1), (2, 4), (0, 0, 0, 0)),
    # positions that are apart: eights, or sixteens for dX, of which the last begin rows before;
    # rows that end among four, once or more often; of groups, and of channels that are left
    Geometry((2, 1, 9, 10), 9, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 2, 9, 9), 6, (1, 1), (2, 2), (0, 0, 0, 0), groups=2),
    Geometry((1, 7, 11, 4), 4, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 4, 9, 1), 3, (1, 1), (2, 1), (0, 0, 0, 0)),
    Geometry((3, 6, 5, 5), 4, (1, 1), (2, 3), (0, 0, 0, 0), groups=2),
    Geometry((2, 3, 3, 5), 2, (1, 1), (3, 2), (0, 0, 0, 0)),
    # dX of 3x3 kernels of stride 2 from planes of two columns
    Geometry((2, 4, 5, 3), 6, (3, 3), (2, 2), groups=2),
    Geometry((2, 3, 6, 4), 2, (3, 3), (2, 2)),
    Geometry((1, 2, 1, 4), 3, (3, 3), (2, 2)),
    # rows of 1x1 kernels that begin with 1 to 4 columns, and strips or none; channels by fours, in
    # pairs, alone and made again
    *(
        Geometry(
            (2, inner, 3, stride * width - (stride - 1) * (width % 2)),
            outer,
            (1, 1),
            (down, stride),
            (0, 0, 0, 0),
        )
        for down, stride in ((1, 1), (2, 2), (2, 3))
        for (inner, outer), widths in {
            (6, 7): (1, 2, 3, 4, 5, 8, 10, 11),
            (5, 2): (3, 9),
            (1, 9): (2, 6),
            (9, 1): (4, 7),
            (3, 3): (5,),
            (2, 3): (4,),
            (3, 1): (8,),
            (1, 2): (3,),
        }.items()
        for width in widths
    ),
    Geometry((3, 10, 5, 4), 14, (1, 1), (2, 2), (0, 0, 0, 0), groups=2),
    Geometry((2, 5, 5, 7), 7, (1, 1), (3, 1), (0, 0, 0, 0)),
    Geometry((2, 6, 4, 9), 10, (1, 1), (1, 2), (0, 0, 0, 0), groups=2),
    # few weights, one by one
    Geometry((2, 2, 5, 7), 2, (1, 1), (2, 3), (0, 0, 0, 0), groups=2),
    Geometry((1, 3, 2, 3), 3, (1, 1), (1, 3), (0, 0, 0, 0), groups=3),
    Geometry((1, 4, 2, 2), 2, (1, 1), (2, 2), (0, 0, 0, 0), groups=2),
    Geometry((1, 9, 1, 1), 9, (1, 1), padding=(0, 0, 0, 0), groups=9),
    Geometry((1, 6, 4, 6), 15, (1, 1), padding=(0, 0, 0, 0), groups=3),
    Geometry((3, 9, 1, 1), 4, (1, 1), padding=(0, 0, 0, 0)),  # a dense layer
    Geometry((3, 5, 1, 1), 4, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 8, 2, 2), 5, (1, 1), (2, 2), (0, 0, 0, 0)),
    Geometry((2, 3, 9, 10), 3, (3, 3), groups=3),
    Geometry((1, 2, 5, 4), 2, (3, 3), padding=(2, 0, 0, 2), groups=2),
    Geometry((1, 3, 5, 9), 3, (3, 3), stride=(1, 2), groups=3),
    Geometry((3, 2, 4, 1), 2, (3, 3), padding=(1, 2, 1, 0), groups=2),
    Geometry((1, 3, 8, 9), 3, (2, 3), stride=(3, 1), padding=(0, 2, 1, 1), groups=3),
    Geometry((1, 2, 6, 9), 2, (3, 3), padding=(1, 0, 0, 1), groups=2),
    Geometry((1, 2, 5, 6), 2, (3, 3), padding=(0, 3, 3, 0), groups=2),
    Geometry((1, 2, 5, 6), 2, (3, 3), padding=(3, 0, 0, 3), groups=2),
    Geometry((2, 2, 1, 1), 2, (3, 3), groups=2),
    Geometry((1, 2, 5, 31), 2, (3, 3), groups=2),
    Geometry((2, 2, 6, 19), 2, (3, 3), padding=(0, 0, 0, 0), groups=2),
    Geometry((1, 2, 7, 6), 2, (2, 3), padding=(0, 1, 1, 1), groups=2),
    Geometry((1, 2, 4, 3), 2, (3, 3), stride=(1, 2), groups=2),
    # with more to sum than a panel of vectors has, in whole units and in one; and more lanes than a
    # tile has
    Geometry((4, 3, 18, 16), 5, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((2, 31, 5, 7), 9, (3, 3)),
    Geometry((2, 9, 13, 21), 30, (3, 3), stride=(2, 1)),
    Geometry((1, 260, 2, 3), 6, (1, 1), padding=(0, 0, 0, 0)),
    Geometry((9, 4, 31, 2), 5, (2, 2), stride=(1, 2), padding=(0, 0, 1, 0)),
    Geometry((1, 2, 4, 270), 3, (3, 3)),
    Geometry((1, 2, 40, 18), 3, (33, 9), padding=(3, 1, 3, 1)),
]


@cache
def passes(case: Geometry) -> list[tuple[str, list[Array], dict[str, Attribute]]]:
    """A convolution's operators, without a bias first, with the inputs and attributes of each."""
    generator = np.random.default_rng(3)
    x, w, dy, b = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in (case.x, case.w, case.y, case.w[:1])
    )
    x[x < -1] = ZERO  # as behind a ReLU: products may be -0, sums must not be
    attributes = case.attributes
    return [
        ("conv2d", [x, w], attributes),
        ("conv2d", [x, w, b], attributes),
        ("conv2d_backward_input", [w, dy], {**attributes, "input_shape": case.x}),
        ("conv2d_backward_weight", [x, dy], {**attributes, "weight_shape": case.w}),
    ]


@cache
def sums(case: Geometry, add: Add = separate) -> list[Array]:
    """The results of `passes`, which several compilers, cores and variants must have."""
    (_, (x, w), _), (_, (_, _, b), _), (_, (_, dy), _), _ = passes(case)
    y = forward(case, x, w, None, add)
    return [
        y,
        y + b.reshape(-1, 1, 1),
        backward_input(case, w, dy, add),
        backward_weight(case, x, dy, add),
    ]


@pytest.mark.parametrize("case", GEOMETRIES, ids=str)
def test_convolutions(run_kernel: Run, case: Geometry) -> None:
    for one, expected in zip(passes(case), sums(case), strict=True):
        np.testing.assert_array_equal(bits(run_kernel(*one).output), bits(expected), one[0])


@pytest.mark.parametrize("case", [one for one in GEOMETRIES if one.groups == 1][::4], ids=str)
def test_convolutions_that_are_continued(run_kernel: Run, case: Geometry) -> None:
    """Some channels first, one, and then the others."""
    (_, (x, w), attributes), (_, (_, _, b), _), (_, (_, dy), turned), _ = passes(case)
    _, y, dx, _ = sums(case)

    def parts(channels: int) -> list[slice]:
        middle = channels // 2
        return [slice(middle), slice(middle, middle + 1), slice(middle + 1, channels)]

    found: list[Array] = []
    for part in parts(case.x[1]):
        inputs = [np.ascontiguousarray(each[:, part]) for each in (x, w)]
        inputs += [b] if part.stop == case.x[1] else []
        if inputs[0].size:
            kind = "continued_conv2d" if found else "conv2d"
            ran = run_kernel(kind, inputs, attributes, found)
            found = [*ran.updates] or [ran.output]
    if case.x[1] > 1:
        np.testing.assert_array_equal(bits(found[0]), bits(y))
    found = []
    for part in parts(case.out_channels):
        inputs = [w[part], np.ascontiguousarray(dy[:, part])]
        if inputs[0].size:
            kind = "continued_conv2d_backward_input" if found else "conv2d_backward_input"
            ran = run_kernel(kind, inputs, turned, found)
            found = [*ran.updates] or [ran.output]
    np.testing.assert_array_equal(bits(found[0]), bits(dx))


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("seed", range(4))
def test_any_sum_that_is_continued(run_kernel: Run, libraries: Libraries, seed: int) -> None:
    """Vectors leave the bits of the plain loops, and begin again from the same if a sum is NaN."""
    draw = np.random.default_rng(seed)
    for of in (one for one in drawn(120, 40 + seed) if one.groups == 1):
        x = (of.batch, of.in_channels, of.in_height, of.in_width)
        case = Geometry(x, of.out_channels, of.kernel, of.stride, of.padding, 1, of.dilation)
        if of.dilation != (1, 1):
            continue
        values = [draw.standard_normal(shape).astype(np.float32) for shape in (x, case.w, case.y)]
        for value in values:
            if draw.random() < 0.4:
                value.flat[draw.integers(value.size)] = draw.choice([np.inf, -np.inf, np.nan])
        source, w, dy = values
        bias = [draw.standard_normal(of.out_channels).astype(np.float32)] if of.bias else []
        turned = {**case.attributes, "input_shape": x}
        _same(libraries, "continued_conv2d", [source, w, *bias], case.attributes, [dy])
        _same(libraries, "continued_conv2d_backward_input", [w, dy], turned, [source])
    for of in drawn_products(150, seed):
        x, w, y = (
            draw.standard_normal(shape).astype(np.float32)
            for shape in ((of.rows, of.inner), (of.columns, of.inner), (of.rows, of.columns))
        )
        w.flat[draw.integers(w.size)] = draw.choice([1, np.inf, -np.inf, np.nan])
        bias = [draw.standard_normal(of.columns).astype(np.float32)] if of.bias else []
        _same(libraries, "continued_linear", [x, w, *bias], {}, [y])
        _same(libraries, "continued_linear_backward_input", [w, y], {}, [x])


def _same(
    libraries: Libraries,
    kind: str,
    inputs: list[Array],
    attributes: dict[str, Attribute],
    begun: list[Array],
) -> None:
    """Compare what is left by vectors of each width, and by plain loops."""
    op, graph = graph_of_one(kind, inputs, attributes, begun)
    kernel = KINDS[kind].kernel(op, graph)
    plain, *others = (
        np.frombuffer(call(library, kernel, op, graph, inputs, begun, prefill=0)[0], np.float32)
        for library in (libraries.plain, libraries.optimised, libraries.narrow)
    )
    for other in others:
        np.testing.assert_array_equal(np.isnan(other), np.isnan(plain), str(op))
        number = ~np.isnan(plain)
        np.testing.assert_array_equal(bits(other)[number], bits(plain)[number], str(op))


def test_zeros_of_fused_products_have_no_sign(run_fused: Run) -> None:
    """A product that is too small for a float is -0 then, and so is a sum that begins with it."""
    for groups, kernel in ((1, (3, 3)), (1, (1, 1)), (8, (3, 3))):
        case = Geometry((1, 8, 6, 7), 8, kernel, groups=groups)
        x, w = np.full(case.x, 1e-30, np.float32), np.full(case.w, -1e-30, np.float32)
        dy = np.full(case.y, 1e-30, np.float32)
        assert not bits(run_fused("conv2d", [x, w], case.attributes)).any()
        extents = {"input_shape": case.x, "weight_shape": case.w, **case.attributes}
        assert not bits(run_fused("conv2d_backward_input", [w, dy], extents)).any()
        assert not bits(run_fused("conv2d_backward_weight", [-x, dy], extents)).any()
    x, w = np.full((9, 40), 1e-30, np.float32), np.full((7, 40), -1e-30, np.float32)
    assert not bits(run_fused("linear", [x, w])).any()
    assert not bits(run_fused("linear", [x[:1], w])).any()
    assert not bits(run_fused("linear_backward_input", [w, x[:, :7].copy()])).any()
    assert not bits(run_fused("linear_backward_weight", [x, -x[:, :7]])).any()


FUSED = [case for case in GEOMETRIES if np.prod(case.y) * np.prod(case.w[1:]) < 15_000]


@pytest.mark.parametrize("case", FUSED, ids=str)
def test_convolutions_of_fused_products(run_fused: Run, case: Geometry) -> None:
    for one, expected in zip(passes(case), sums(case, fused), strict=True):
        np.testing.assert_array_equal(bits(run_fused(*one)), bits(expected), one[0])


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan], ids=str)
def test_padding_is_not_multiplied(run_kernel: Run, special: float) -> None:
    """0 times a number that is not finite is none: sums that do not meet it are as without it."""
    for case in (
        Geometry((1, 5, 6, 7), 6, (3, 3)),
        Geometry((2, 5, 6, 8), 8, (3, 3)),
        Geometry((2, 4, 7, 7), 5, (3, 3), (2, 2)),
        Geometry((1, 4, 8, 10), 5, (3, 3), (2, 2)),
        Geometry((2, 4, 6, 9), 6, (3, 3), (2, 2)),
        Geometry((1, 5, 6, 7), 6, (5, 5), padding=(2, 2, 2, 2)),
        Geometry((2, 4, 6, 8), 7, (5, 5), padding=(2, 2, 2, 2)),
        Geometry((2, 4, 7, 7), 5, (5, 5), (2, 2), (2, 2, 2, 2)),
        Geometry((1, 4, 8, 10), 6, (5, 5), (2, 2), (2, 2, 2, 2)),
        Geometry((2, 5, 6, 7), 5, (3, 3), groups=5),
        Geometry((2, 5, 6, 7), 5, (5, 5), padding=(2, 2, 2, 2), groups=5),
        Geometry((2, 5, 6, 7), 5, (5, 5), (2, 2), (2, 2, 2, 2), groups=5),
        Geometry((1, 5, 8, 7), 5, (3, 3), (2, 1), groups=5),
    ):
        generator = np.random.default_rng(8)
        x, w, dy, b = (
            generator.standard_normal(shape).astype(np.float32)
            for shape in (case.x, case.w, case.y, case.w[:1])
        )
        w[1, -1, 0, 0] = w[3, 0, 2, 1] = w[0, -1, 1, 2] = dy[0, 2, 0, 1] = dy[0, 1, 2, 2] = special
        dy[1 % len(dy), 3, 2, 0] = dy[0, 3, 1, -1] = x[0, 2, 3, 6] = special
        w[2, w.shape[1] // 2, 2, 0] = special
        attributes = case.attributes
        exact = np.testing.assert_array_equal
        exact(run_kernel("conv2d", [x, w], attributes).output, forward(case, x, w, None))
        exact(run_kernel("conv2d", [x, w, b], attributes).output, forward(case, x, w, b))
        ran = run_kernel("conv2d_backward_input", [w, dy], {**attributes, "input_shape": case.x})
        exact(ran.output, backward_input(case, w, dy))
        ran = run_kernel("conv2d_backward_weight", [x, dy], {**attributes, "weight_shape": case.w})
        exact(ran.output, backward_weight(case, x, dy))


OF_ZEROS = [
    Geometry((1, inside, 6, 7), out, (side, side), (stride, stride), (padding,) * 4, groups)
    for inside, out, groups in ((1, 1, 1), (4, 8, 1), (5, 7, 1), (2, 2, 2))
    for side, padding, stride in ((3, 1, 1), (3, 1, 2), (5, 2, 1), (5, 2, 2), (1, 0, 1), (1, 0, 2))
]


def passes_of_zeros(case: Geometry) -> Iterator[tuple[str, list[Array], dict[str, Attribute]]]:
    """Each pass, its inputs and attributes: all products are 0 times a negative number, so -0."""
    x, w, dy = (np.zeros(shape, np.float32) for shape in (case.x, case.w, case.y))
    yield "conv2d", [x, w - 1], case.attributes
    yield "conv2d", [x, w - 1, np.full(case.w[:1], -0.0, np.float32)], case.attributes
    yield "conv2d_backward_input", [w - 1, dy], {**case.attributes, "input_shape": case.x}
    yield "conv2d_backward_weight", [x - 1, dy], {**case.attributes, "weight_shape": case.w}


@pytest.mark.parametrize("case", OF_ZEROS, ids=str)
def test_zeros_have_no_sign(run_kernel: Run, case: Geometry) -> None:
    for kind, inputs, attributes in passes_of_zeros(case):
        assert not bits(run_kernel(kind, inputs, attributes).output).any(), kind


class Dense(NamedTuple):
    """A dense layer, and what its passes come to."""

    x: Array
    w: Array
    dy: Array
    b: Array
    y: Array
    dx: Array
    dw: Array

    @staticmethod
    def of(batch: int, features: int, outputs: int, add: Add) -> Dense:
        """Forward, runs of 32 features; backward, one sum."""
        generator = np.random.default_rng(4)
        x, w, dy, b = (
            generator.standard_normal(shape).astype(np.float32)
            for shape in ((batch, features), (outputs, features), (batch, outputs), (outputs,))
        )
        x[x < -1] = ZERO  # as behind a ReLU: products may be -0, sums must not be
        y = np.zeros((batch, outputs), np.float32)
        for first in range(0, features, 32):
            run = np.zeros_like(y)
            for f in range(first, min(first + 32, features)):
                run = add(run, x[:, f, None], w[:, f])
            y += run
        dx = np.zeros_like(x)
        for o in range(outputs):
            dx = add(dx, dy[:, o, None], w[o])
        dw = np.zeros_like(w)
        for n in range(batch):
            dw = add(dw, dy[n, :, None], x[n])
        return Dense(x, w, dy, b, y + b, dx, dw)


DENSE = [(1, 70, 7), (3, 21, 6), (2, 33, 1), (21, 300, 9), (2, 1100, 2)]
DENSE += [(1, 3, 9), (9, 3, 2), (5, 13, 10), (4, 9, 5)]  # in lanes
FEW = [(1, 2, 3), (3, 1, 2), (2, 3, 1), (2, 2, 2), (9, 1, 3)]
"""Layers that are summed product by product."""


@pytest.mark.parametrize(("batch", "features", "outputs"), [*DENSE, *FEW])
def test_dense_layers(run_kernel: Run, batch: int, features: int, outputs: int) -> None:
    x, w, dy, b, *sums = Dense.of(batch, features, outputs, separate)
    exact = np.testing.assert_array_equal
    exact(bits(run_kernel("linear", [x, w, b]).output), bits(sums[0]))
    exact(bits(run_kernel("linear_backward_input", [w, dy]).output), bits(sums[1]))
    exact(bits(run_kernel("linear_backward_weight", [x, dy]).output), bits(sums[2]))
    begun, at = None, 32
    if features > at:  # in runs
        parts = [
            [np.ascontiguousarray(each[:, part]) for each in (x, w)]
            for part in (slice(at), slice(at, None))
        ]
        begun = run_kernel("linear", parts[0]).output
        run = run_kernel("continued_linear", [*parts[1], b], {}, [begun])
        exact(bits(run.updates[0]), bits(sums[0]))
    middle = outputs // 2
    if middle:
        first, rest = (np.ascontiguousarray(each) for each in np.split(dy, [middle], axis=1))
        begun = run_kernel("linear_backward_input", [w[:middle], first]).output
        run = run_kernel("continued_linear_backward_input", [w[middle:], rest], {}, [begun])
        exact(bits(run.updates[0]), bits(sums[1]))


@pytest.mark.parametrize(("batch", "features", "outputs"), [*DENSE, *FEW])
def test_dense_layers_of_fused_products(
    run_fused: Run, batch: int, features: int, outputs: int
) -> None:
    x, w, dy, b, *sums = Dense.of(batch, features, outputs, fused)
    exact = np.testing.assert_array_equal
    exact(bits(run_fused("linear", [x, w, b])), bits(sums[0]))
    exact(bits(run_fused("linear_backward_input", [w, dy])), bits(sums[1]))
    exact(bits(run_fused("linear_backward_weight", [x, dy])), bits(sums[2]))
    if (batch, features, outputs) not in FEW:
        assert (sums[0] != Dense.of(batch, features, outputs, separate).y).any()


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("inner", [7, 33, 320])
def test_products_of_matrices_of_fused_products(run_fused: Run, inner: int) -> None:
    generator = np.random.default_rng(6)
    a, b = (generator.standard_normal(s).astype(np.float32) for s in ((1, 5, inner), (1, inner, 9)))
    a[0, 1, 0] = np.inf  # summed again, without what fills up a run
    expected = np.zeros((1, 5, 9), np.float32)
    for first in range(0, inner, 32):
        run = np.zeros_like(expected)
        for k in range(first, min(first + 32, inner)):
            run = fused(run, a[:, :, k, None], b[:, k, None, :])
        expected += run
    plain = {"transpose_a": 0, "transpose_b": 0}
    np.testing.assert_array_equal(run_fused("matmul", [a, b], plain), expected)


def test_fused_products_round_once() -> None:
    """`fused` beside sums of fractions, some of them halfway between two floats."""
    generator = np.random.default_rng(9)
    a, b, total = (generator.standard_normal(300).astype(np.float32) for _ in range(3))
    total[100:] *= np.float32(2.0**-24)
    total[200:] = np.float32(2.0**-40)
    b[200:] = np.float32(1) + np.float32(2.0**-12)
    a[200:] = np.float32(1) + np.float32(2.0**-12)  # 1 + 2^-11 + 2^-24: halfway, but for the total
    for sum_, x, y, result in zip(total, a, b, fused(total, a, b), strict=True):
        exact = Fraction(float(sum_)) + Fraction(float(x)) * Fraction(float(y))
        near = [result, *(np.nextafter(result, np.float32(s * np.inf)) for s in (-1, 1))]
        assert min(near, key=lambda value: abs(Fraction(float(value)) - exact)) == result


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("inner", [7, 33, 320])
@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0)], ids=str)
def test_products_of_matrices(run_kernel: Run, inner: int, transposed: tuple[int, int]) -> None:
    generator = np.random.default_rng(6)
    a, b = (
        generator.standard_normal(s).astype(np.float32) for s in ((2, 5, inner), (2, inner, 19))
    )
    a[0, 1, 0] = np.inf
    expected = np.zeros((2, 5, 19), np.float32)
    for first in range(0, inner, 32):
        run = np.zeros_like(expected)
        for k in range(first, min(first + 32, inner)):
            run += a[:, :, k, None] * b[:, k, None, :]
        expected += run
    stored = [
        np.ascontiguousarray(value.transpose(0, 2, 1)) if swapped else value
        for value, swapped in zip((a, b), transposed, strict=True)
    ]
    attributes = {"transpose_a": transposed[0], "transpose_b": transposed[1]}
    ran = run_kernel("matmul", stored, attributes)
    np.testing.assert_array_equal(bits(ran.output), bits(expected))


class BatchNorm(NamedTuple):
    """Batch norm of x [N, C, H, W], and what its passes come to."""

    x: Array
    dy: Array
    affine: Array
    daffine: Array
    statistics: Array
    y: Array
    own_daffine: Array
    dx: Array

    @staticmethod
    def of(shape: tuple[int, int, int, int]) -> BatchNorm:
        """By channel: each row's sum, and then those of all samples' rows."""
        generator = np.random.default_rng(5)
        x, dy, affine, daffine = (
            generator.standard_normal(s).astype(np.float32)
            for s in (shape, shape, (2, shape[1]), (2, shape[1]))
        )
        count = np.float32(x.size // shape[1])

        def totals(values: Array) -> Array:
            rows = ZERO + np.add.accumulate(values, axis=3, dtype=np.float32)[..., -1]
            ordered = rows.transpose(0, 2, 1).reshape(-1, shape[1])
            result: Array = np.add.accumulate(ordered, axis=0, dtype=np.float32)[-1]
            return result

        def wide(values: Array) -> Array:
            return values.reshape(1, -1, 1, 1)

        mean = totals(x) / count
        centred = x - wide(mean)
        statistics = np.stack([mean, totals(centred * centred) / count])
        deviation = np.sqrt(statistics[1] + np.float32(1e-5))
        scale = affine[0] / deviation
        slope, offset = daffine[0] / deviation / count, daffine[1] / count
        return BatchNorm(
            *(x, dy, affine, daffine, statistics),
            y=centred * wide(scale) + wide(affine[1]),
            own_daffine=np.stack([totals(dy * centred) / deviation, totals(dy)]),
            dx=wide(scale) * ((dy - wide(offset)) - centred * wide(slope)),
        )

    def passes(self) -> dict[str, tuple[list[Array], dict[str, Attribute], Array]]:
        """By kind: its inputs, its attributes, and what it leaves."""
        eps: dict[str, Attribute] = {"eps": float(np.float32(1e-5))}
        x, dy, affine, daffine, statistics = self[:5]
        inputs = [x, statistics, affine, daffine, dy]
        return {
            "batch_norm_statistics": ([x], {}, statistics),
            "batch_norm_normalize": ([x, statistics, affine], eps, self.y),
            "batch_norm_backward_affine": ([x, statistics, dy], eps, self.own_daffine),
            "batch_norm_backward_input": (inputs, eps, self.dx),
        }


@pytest.mark.parametrize(
    "shape",
    [
        *((3, 2, 4, 9), (2, 3, 1, 1), (1, 2, 5, 7), (5, 2, 1, 3), (2, 2, 4, 16), (2, 4, 3, 5)),
        *((1, 1, 1, 6), (3, 2, 3, 1), (2, 3, 2, 2), (2, 1, 1, 5), (1, 3, 1, 1)),  # without a burst
    ],
)
def test_batch_norm(run_kernel: Run, shape: tuple[int, int, int, int]) -> None:
    for kind, (inputs, attributes, expected) in BatchNorm.of(shape).passes().items():
        left = run_kernel(kind, inputs, attributes).output
        np.testing.assert_array_equal(bits(left), bits(expected), kind)


def bits(values: Array) -> Array:
    """The 32 bits of each float."""
    return values.astype(np.float32).view(np.uint32)
