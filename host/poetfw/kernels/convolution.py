# SPDX-License-Identifier: Apache-2.0
"""Passes of a convolution, and the source positions that each tap meets along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

Met = tuple[tuple[int, int], ...]
"""Pairs of a tap and the position of the source that it meets, in the order of the sum."""


class Pass(StrEnum):
    """Forward pass, or the gradient of the loss with respect to input or weight."""

    FORWARD = "forward"
    BACKWARD_INPUT = "backward_input"
    BACKWARD_WEIGHT = "backward_weight"


@dataclass(frozen=True, slots=True)
class Axis:
    """Taps of a kernel along rows or columns of a feature map.

    Attributes:
        results: positions of the result.
        sources: positions of the source.
        taps: of the kernel.
        stride: of the convolution.
        padding: before the first position of x.
        dilation: positions of x from tap to tap.
        transposed: results are positions of x and sources those of y, as for dX.
    """

    results: int
    sources: int
    taps: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    transposed: bool = False

    def met(self, result: int) -> Met:
        """Taps of a result and the source positions that they meet, those of padding too."""
        if not self.transposed:
            first = result * self.stride - self.padding
            return tuple((tap, first + tap * self.dilation) for tap in range(self.taps))
        distances = ((tap, result + self.padding - tap * self.dilation) for tap in range(self.taps))
        return tuple(
            (tap, distance // self.stride)
            for tap, distance in distances
            if distance % self.stride == 0
        )

    def inside(self, result: int) -> Met:
        """The same without padding."""
        return tuple((tap, at) for tap, at in self.met(result) if 0 <= at < self.sources)

    @property
    def phases(self) -> int:
        """Results so far apart meet the same taps."""
        return self.stride if self.transposed else 1

    @property
    def source_step(self) -> int:
        """Source positions from a result to the next of its phase."""
        return 1 if self.transposed else self.stride


@dataclass(frozen=True, slots=True)
class Convolution:
    """Extents of a 2-D convolution of x [batch, in_channels, in_height, in_width].

    Attributes:
        kernel: rows and columns.
        stride: along rows and columns.
        padding: top, left, bottom, right.
        dilation: along rows and columns.
        bias: true where the forward pass adds one.
    """

    batch: int
    in_channels: int
    in_height: int
    in_width: int
    out_channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int, int, int]
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)
    bias: bool = False

    def _results(self, axis: int, extent: int) -> int:
        span = (self.kernel[axis] - 1) * self.dilation[axis] + 1
        padded = extent + self.padding[axis] + self.padding[axis + 2]
        return (padded - span) // self.stride[axis] + 1

    @property
    def out_height(self) -> int:
        """Rows of y."""
        return self._results(0, self.in_height)

    @property
    def out_width(self) -> int:
        """Columns of y."""
        return self._results(1, self.in_width)

    @property
    def group_inputs(self) -> int:
        """Input channels of a group."""
        return self.in_channels // self.groups

    @property
    def group_outputs(self) -> int:
        """Output channels of a group."""
        return self.out_channels // self.groups

    @property
    def macs(self) -> int:
        """Products of a pass, those with padding too."""
        taps = self.kernel[0] * self.kernel[1]
        results = self.batch * self.out_channels * self.out_height * self.out_width
        return results * self.group_inputs * taps

    @property
    def is_pointwise(self) -> bool:
        """True for 1x1, stride 1, no padding: rows of a feature map are one row."""
        return self.kernel == (1, 1) and self.stride == (1, 1) and not any(self.padding)

    def axes(self, *, transposed: bool = False, merged: bool = False) -> tuple[Axis, Axis]:
        """Rows and columns; `transposed` for dX, `merged` to have a 1x1 kernel's rows as one."""
        if merged and self.is_pointwise:
            plane = self.in_height * self.in_width
            return Axis(1, 1, 1), Axis(plane, plane, 1)
        extents = ((self.in_height, self.out_height), (self.in_width, self.out_width))
        rows, columns = (
            Axis(
                *((x, y) if transposed else (y, x)),
                self.kernel[i],
                self.stride[i],
                self.padding[i],
                self.dilation[i],
                transposed,
            )
            for i, (x, y) in enumerate(extents)
        )
        return rows, columns


@dataclass(frozen=True, slots=True)
class ConvolutionPass:
    """A pass of a convolution.

    Attributes:
        of: its extents.
        which: the pass.
        applied: gradients go to an optimizer as they are completed, without being stored.
        continued: sums over channels of the source begin with what is in the result.
    """

    of: Convolution
    which: Pass
    applied: bool = False
    continued: bool = False

    @property
    def macs(self) -> int:
        """Products, those with padding too."""
        return self.of.macs
