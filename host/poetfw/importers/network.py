# SPDX-License-Identifier: Apache-2.0
"""A network under construction, to whose operators importers translate files.

Each method appends ops and returns the name of their result. It expresses what files describe
differently from poetfw's operators: one-dimensional images, other channel orders, batched matrix
products, broadcasting, shared weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.importers.network_tensors import NetworkTensors, Pair, strides_of
from poetfw.importers.refusal import UnsupportedError
from poetfw.ir import Attribute

Edges = tuple[int, int, int, int]
"""Padding at top, left, bottom and right."""

HIDDEN = -1e30
"""Mask value that hides a position from attention, in place of minus infinity: its exp is 0."""


LARGEST_POWER = 64
"""Largest integer exponent that is expanded into products."""
SMALLEST_BASE = 1e-37
"""Lower bound of the base for other exponents: a smaller x is replaced by it and has no
gradient."""


class Network(NetworkTensors):
    """A network under construction: arithmetic, layers and images."""

    # Arithmetic -------------------------------------------------------------------------------

    def add(self, name: str, a: str, b: str) -> str:
        """Append a + b with broadcasting."""
        if self.shape(a) == self.shape(b):
            return self.builder.op("add", name, (a, b))
        return self.builder.op("add_broadcast", name, self._stretched(name, a, b))

    def multiply(self, name: str, a: str, b: str) -> str:
        """Append a · b with broadcasting."""
        return self.builder.op("multiply", name, self._stretched(name, a, b))

    def scale(self, name: str, x: str, factor: float) -> str:
        """Append x times a number."""
        return x if factor == 1 else self.builder.op("scale", name, (x,), {"factor": factor})

    def shift(self, name: str, x: str, number: float) -> str:
        """Append x plus a number."""
        if number == 0:
            return x
        ones = (1,) * len(self.shape(x))
        return self.add(name, x, self.constant(f"{name}.number", np.full(ones, number, np.float32)))

    def clip(self, name: str, x: str, low: float | None, high: float | None) -> str:
        """Append a clip of x to [low, high]; None for no bound."""
        if low == 0 and high in (None, 6, math.inf):
            return self.builder.op("relu6" if high == 6 else "relu", name, (x,))
        if low is not None and high is not None and low > high:
            raise UnsupportedError(f"it clips to [{low:g}, {high:g}]")
        if low is not None and low != -math.inf:
            x = self.builder.op("at_least", name, (x,), {"bound": float(low)})
        if high is not None and high != math.inf:
            x = self.builder.op("at_most", name, (x,), {"bound": float(high)})
        return x

    def prelu(self, name: str, x: str, slope: str) -> str:
        """Append PReLU: x above 0, slope · x below, with broadcasting (He et al., 2015)."""
        above = self.builder.op("relu", name, (x,))
        below = self.add(name, x, self.scale(name, above, -1.0))
        return self.add(name, above, self.multiply(name, below, slope))

    def mish(self, name: str, x: str) -> str:
        """Append x · tanh(softplus(x)) (Misra, 2019)."""
        inner = self.builder.op("softplus", name, (x,))
        return self.multiply(name, x, self.builder.op("tanh", name, (inner,)))

    def power(self, name: str, x: str, exponent: float) -> str:
        """Append x to the power of a number.

        Integer exponents accept any x; others require x ≥ 0 and use a logarithm that is bounded
        below.
        """
        steps = {
            0.5: ("sqrt",),
            -0.5: ("sqrt", "reciprocal"),
            -1: ("reciprocal",),
            -2: ("square", "reciprocal"),
            2: ("square",),
            3: ("square",),
            4: ("square", "square"),
        }
        if exponent in (1, *steps):
            y = x
            for kind in steps.get(exponent, ()):
                y = self.builder.op(kind, name, (y,))
            return self.multiply(name, y, x) if exponent == 3 else y
        if exponent == 0:
            return self.shift(name, self.scale(name, x, 0.0), 1.0)
        if exponent == int(exponent) and abs(exponent) <= LARGEST_POWER:
            if exponent < 0:
                return self.builder.op("reciprocal", name, (self.power(name, x, -exponent),))
            half = self.power(name, self.power(name, x, exponent // 2), 2)
            return self.multiply(name, half, x) if exponent % 2 else half
        log = self.builder.op("log", name, (self.clip(name, x, SMALLEST_BASE, None),))
        return self.builder.op("exp", name, (self.scale(name, log, exponent),))

    def _stretched(self, name: str, a: str, b: str) -> tuple[str, str]:
        """Order a and b such that the second is broadcast to the first."""
        shape = np.broadcast_shapes(self.shape(a), self.shape(b))
        if self.shape(a) == shape:
            return a, b
        if self.shape(b) == shape:
            return b, a
        return self.stretch(name, a, shape), b

    def mean(
        self, name: str, x: str, axes: Sequence[int], *, keep: bool, total: bool = False
    ) -> str:
        """Append the mean, or with `total` the sum, over axes; `keep` keeps them with extent 1."""
        shape = self.shape(x)
        kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))
        if len(shape) == 4 and sorted(axes) == [2, 3] and not total:
            y = self.builder.op("global_avg_pool", name, (x,))
        else:
            count = math.prod(shape) // math.prod(kept)
            y = self.builder.op("sum_to", name, (x,), {"shape": kept}) if kept != shape else x
            y = y if total else self.scale(name, y, 1 / count)
        if keep:
            return y
        left = [extent for axis, extent in enumerate(shape) if axis not in axes]
        return self.reshape(name, y, left or [1])

    def largest(
        self, name: str, x: str, axes: Sequence[int], *, keep: bool, shared: bool = False
    ) -> str:
        """Append the maximum over axes; `keep` keeps them with extent 1.

        The gradient goes to the first of several equal elements, or with `shared` to all of them in
        equal parts.
        """
        shape = self.shape(x)
        others = [axis for axis in range(len(shape)) if axis not in axes]
        turned = self.permute(name, x, [*others, *axes])
        rows = math.prod(shape[axis] for axis in others)
        length = math.prod(shape[axis] for axis in axes)
        image = self.reshape(name, turned, (1, rows, 1, length))
        kernel = (1, length)
        window: dict[str, Attribute] = {"kernel": kernel, "stride": kernel, "padding": (0,) * 4}
        y = self.builder.op(
            "max_pool2d", name, (image,), {**window, "shared": 1} if shared else window
        )
        kept = [1 if axis in axes else extent for axis, extent in enumerate(shape)]
        return self.reshape(name, y, kept if keep else [shape[axis] for axis in others])

    # Layers -----------------------------------------------------------------------------------

    def linear(self, name: str, x: str, weight: str, bias: str | None) -> str:
        """Append x [..., F] times the transpose of weight [O, F], plus bias [O]."""
        shape = self.shape(x)
        rows = self.reshape(name, x, (math.prod(shape[:-1]), shape[-1]))
        inputs = (rows, weight) if bias is None else (rows, weight, bias)
        y = self.builder.op("linear", name, inputs)
        return self.reshape(name, y, (*shape[:-1], self.shape(weight)[0]))

    def matmul(self, name: str, a: str, b: str) -> str:
        """Append a product of matrices or of batches of matrices, with broadcasting.

        As in NumPy, a vector counts as a matrix of one row or column.
        """
        first, second = self.shape(a), self.shape(b)
        if not first or not second:
            raise UnsupportedError("it multiplies by a single number")
        if len(first) == 1:
            a = self.reshape(name, a, (1, *first))
        if len(second) == 1:
            b = self.reshape(name, b, (*second, 1))
        batch = np.broadcast_shapes(self.shape(a)[:-2], self.shape(b)[:-2])
        a = self.stretch(name, a, (*batch, *self.shape(a)[-2:]))
        b = self.stretch(name, b, (*batch, *self.shape(b)[-2:]))
        y = self.builder.op("matmul", name, (a, b), {"transpose_a": 0, "transpose_b": 0})
        shape = self.shape(y)
        if len(second) == 1:
            shape = shape[:-1]
        if len(first) == 1:
            shape = (*shape[: len(batch)], *shape[len(batch) + 1 :])
        return self.reshape(name, y, shape)

    def einsum(self, name: str, equation: str, factors: Sequence[str]) -> str:
        """Append an einsum, as matrix products: of the first two tensors, and so on.

        Raises:
            UnsupportedError: A tensor has a letter twice.
        """
        terms, arrow, result = equation.replace(" ", "").partition("->")
        letters = terms.split(",")
        if not arrow:
            result = "".join(c for c in sorted(set(terms) - {","}) if terms.count(c) == 1)
        if len(factors) == len(letters) > 2:
            later = {*result, *"".join(letters[2:])}
            common = "".join(c for c in dict.fromkeys(letters[0] + letters[1]) if c in later)
            pair = self.einsum(name, f"{letters[0]},{letters[1]}->{common}", factors[:2])
            rest = ",".join([common, *letters[2:]])
            return self.einsum(name, f"{rest}->{result}", [pair, *factors[2:]])
        if (
            not 1 <= len(factors) == len(letters) <= 2
            or not all(len(set(each)) == len(each) for each in (*letters, result))
            or not "".join((*letters, result)).isalpha()
            or any(
                len(each) != len(self.shape(x)) for each, x in zip(letters, factors, strict=True)
            )
            or not set(result) <= set(terms)
        ):
            raise UnsupportedError(
                f"its equation is {equation!r:.60}; poetfw takes letters, none twice in a tensor"
            )
        extents: dict[str, int] = {}
        rows, kept = [], []
        for index, (each, x) in enumerate(zip(letters, factors, strict=True)):
            others = {*result, *"".join(letters[:index] + letters[index + 1 :])}
            gone = [axis for axis, letter in enumerate(each) if letter not in others]
            rows.append(self.mean(name, x, gone, keep=False, total=True) if gone else x)
            kept.append([letter for letter in each if letter in others])
            extents |= dict(zip(each, self.shape(x), strict=True))
        if len(rows) == 1:
            if not result:
                return self.reshape(name, rows[0], [1])
            return self.permute(name, rows[0], [kept[0].index(c) for c in result])
        shared = [c for c in kept[0] if c in kept[1]]
        parts = [
            [c for c in shared if c in result],
            [c for c in kept[0] if c not in shared],
            [c for c in shared if c not in result],
            [c for c in kept[1] if c not in shared],
        ]

        def matrices(x: str, own: list[str], *parts: list[str]) -> str:
            turned = self.permute(name, x, [own.index(c) for part in parts for c in part])
            shape = [math.prod(extents[c] for c in part) for part in parts]
            return self.reshape(name, turned, shape)

        batch, left, summed, right = parts
        first = matrices(rows[0], kept[0], batch, left, summed)
        second = matrices(rows[1], kept[1], batch, summed, right)
        made = [*batch, *left, *right]
        y = self.reshape(name, self.matmul(name, first, second), [extents[c] for c in made] or [1])
        return y if not made else self.permute(name, y, [made.index(c) for c in result])

    def conv(
        self,
        name: str,
        x: str,
        weight: str,
        bias: str | None,
        *,
        stride: Pair,
        padding: Edges,
        dilation: Pair = (1, 1),
        groups: int = 1,
    ) -> str:
        """Append a convolution of x [N, C, H, W] with weight [O, C/groups, kh, kw].

        Dilation inserts zeros between the weight's elements.
        """
        if dilation != (1, 1):
            weight = self._dilated(f"{name}.dilated", weight, dilation)
        inputs = (x, weight) if bias is None else (x, weight, bias)
        attributes: dict[str, Attribute] = {"stride": stride, "padding": padding, "groups": groups}
        return self.builder.op("conv2d", name, inputs, attributes)

    def conv_transpose(
        self,
        name: str,
        x: str,
        weight: str,
        bias: str | None,
        *,
        stride: Pair,
        padding: Pair,
        more: Pair,
        dilation: Pair,
        groups: int,
    ) -> str:
        """Append a transposed convolution of x [N, C, H, W] with weight [C, O/groups, kh, kw].

        It is the input gradient of the convolution with this weight; `more` (ONNX's output_padding)
        adds rows and columns to the result.
        """
        if dilation != (1, 1):
            weight = self._dilated(f"{name}.dilated", weight, dilation)
        shape, kernel = self.shape(x), self.shape(weight)
        extents = [
            (extent - 1) * s - 2 * p + k + m
            for extent, s, p, k, m in zip(shape[2:], stride, padding, kernel[2:], more, strict=True)
        ]
        attributes: dict[str, Attribute] = {
            "stride": stride,
            "padding": (*padding, *padding),
            "groups": groups,
            "input_shape": (shape[0], kernel[1] * groups, *extents),
        }
        y = self.builder.op("conv2d_backward_input", name, (weight, x), attributes)
        if bias is None:
            return y
        return self.add(name, y, self.reshape(f"{name}.bias", bias, (*self.shape(bias), 1, 1)))

    def _dilated(self, name: str, weight: str, dilation: Pair) -> str:
        shape = self.shape(weight)
        if min(dilation) < 1:
            raise UnsupportedError(f"its dilation is {list(dilation)}, but must be 1 or more")
        height, width = ((k - 1) * d + 1 for k, d in zip(shape[2:], dilation, strict=True))
        whole = (*shape[:2], height, width)
        steps = strides_of(whole)
        steps[2:] = [steps[2] * dilation[0], steps[3] * dilation[1]]
        attributes: dict[str, Attribute] = {"shape": whole, "steps": tuple(steps), "offset": 0}
        return self.builder.op("put_strided", name, (weight,), attributes)

    def pool(
        self,
        kind: str,
        name: str,
        x: str,
        *,
        kernel: Pair,
        stride: Pair,
        padding: Edges,
        ceil: bool = False,
        include: bool = True,
    ) -> str:
        """Append pooling of x [N, C, H, W]: `max_pool2d` or `avg_pool2d`.

        Args:
            kind: name of the operator.
            name: name of the op.
            x: name of the input.
            kernel: height and width of the window.
            stride: rows and columns between windows.
            padding: padding around x.
            ceil: True if the last window may exceed the padded input. As in PyTorch, it must begin
                within x or the padding before it, and elements beyond the padding never count.
            include: True if averages count padding.
        """
        if min(stride) < 1:
            raise UnsupportedError(f"its stride is {list(stride)}, but must be 1 or more")
        top, left, bottom, right = padding
        extents = self.shape(x)[2:]
        beyond = [
            _beyond(extent, k, s, before, after) if ceil else 0
            for extent, k, s, before, after in zip(
                extents, kernel, stride, (top, left), (bottom, right), strict=True
            )
        ]
        attributes: dict[str, Attribute] = {
            "kernel": kernel,
            "stride": stride,
            "padding": (top, left, bottom + beyond[0], right + beyond[1]),
        }
        if kind == "avg_pool2d":
            if any(beyond) and include and any(padding):
                raise UnsupportedError(
                    "it averages with ceil_mode and padding that counts: poetfw has windows beyond "
                    "the edge only without padding, or with count_include_pad=False"
                )
            attributes["count_include_pad"] = int(include and any(padding))
        return self.builder.op(kind, name, (x,), attributes)

    def adaptive_pool(self, kind: str, name: str, x: str, sizes: Pair) -> str:
        """Append pooling of x [N, C, H, W] to given sizes: `max_pool2d` or `avg_pool2d`.

        If the sizes do not divide x's, windows differ in size and overlap: window i ranges from
        floor(i · extent / size) to ceil((i + 1) · extent / size).
        """
        extents = self.shape(x)[2:]
        if min(sizes) < 1:
            raise UnsupportedError(f"it pools to {sizes[0]} x {sizes[1]}")
        if kind == "avg_pool2d" and sizes == (1, 1):
            return self.builder.op("global_avg_pool", name, (x,))
        if not any(extent % size for extent, size in zip(extents, sizes, strict=True)):
            kernel = (extents[0] // sizes[0], extents[1] // sizes[1])
            return self.pool(kind, name, x, kernel=kernel, stride=kernel, padding=(0,) * 4)
        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            windows = [(i * extent // size, -(-(i + 1) * extent // size)) for i in range(size)]
            if kind == "avg_pool2d":
                means = np.zeros((size, extent), np.float32)
                for i, (first, end) in enumerate(windows):
                    means[i, first:end] = 1 / (end - first)
                x = self.map_axis(name, x, axis, means)
            else:
                parts = [self.part(name, x, axis, first, end - first) for first, end in windows]
                rows = [self.largest(name, part, [axis], keep=True) for part in parts]
                x = self.concat(name, rows, axis)
        return x

    def take_nearest(
        self, name: str, x: str, sizes: Pair, ratios: tuple[float, float], centre: float = 0.0
    ) -> str:
        """Append nearest-neighbour resizing of images x [N, C, H, W].

        Pixel i is copied from floor((i + centre) · ratio).
        """
        for axis, size, ratio in zip((2, 3), sizes, ratios, strict=True):
            extent = self.shape(x)[axis]
            at = np.minimum(((np.arange(size) + centre) * ratio).astype(int), extent - 1)
            if not np.array_equal(at, np.arange(extent)):
                x = self.map_axis(name, x, axis, np.eye(extent)[at])
        return x

    def interpolate_cubic(self, name: str, x: str, sizes: Pair, *, corners: bool) -> str:
        """Append bicubic resizing of images x [N, C, H, W] (Keys, 1981)."""
        sharp = -0.75  # PyTorch's

        def weight(distance: NDArray[np.float64]) -> NDArray[np.float64]:
            d = np.abs(distance)
            near = ((sharp + 2) * d - (sharp + 3)) * d * d + 1
            far = ((sharp * d - 5 * sharp) * d + 8 * sharp) * d - 4 * sharp
            return np.where(d <= 1, near, np.where(d < 2, far, 0))

        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            if size == extent:
                continue
            at = np.arange(size) * ((extent - 1) / max(size - 1, 1))
            if not corners:
                at = (np.arange(size) + 0.5) * (extent / size) - 0.5
            first = np.floor(at).astype(int)
            weights = np.zeros((size, extent))
            for offset in (-1, 0, 1, 2):
                place = np.clip(first + offset, 0, extent - 1)
                np.add.at(weights, (np.arange(size), place), weight(at - (first + offset)))
            x = self.map_axis(name, x, axis, weights)
        return x

    def interpolate(self, name: str, x: str, sizes: Pair, *, corners: bool) -> str:
        """Append bilinear resizing of images x [N, C, H, W].

        Args:
            name: name of the ops.
            x: name of the images.
            sizes: new height and width.
            corners: True to align the centres of corner pixels, False to align their outer edges.
        """
        for axis, size in zip((2, 3), sizes, strict=True):
            extent = self.shape(x)[axis]
            if size == extent:
                continue
            if corners:
                at = np.arange(size) * ((extent - 1) / max(size - 1, 1))
            else:
                at = np.maximum((np.arange(size) + 0.5) * (extent / size) - 0.5, 0)
            low = np.minimum(at.astype(int), extent - 1)
            high, rest = np.minimum(low + 1, extent - 1), at - low
            weights = np.zeros((size, extent))
            np.add.at(weights, (np.arange(size), low), 1 - rest)
            np.add.at(weights, (np.arange(size), high), rest)
            x = self.map_axis(name, x, axis, weights)
        return x

    def map_axis(self, name: str, x: str, axis: int, weights: NDArray[Any]) -> str:
        """Append the product of an axis of x with a constant matrix [new extent, extent]."""
        rank = len(self.shape(x))
        axes = [i for i in range(rank) if i != axis] + [axis]
        last = self.permute(name, x, axes)
        y = self.linear(name, last, self.constant(f"{name}.weights", weights), None)
        return self.permute(name, y, [axes.index(i) for i in range(rank)])

    def softmax(self, name: str, x: str, axis: int) -> str:
        """Append softmax along an axis."""
        last = len(self.shape(x)) - 1
        axes = [i for i in range(last + 1) if i != axis] + [axis]
        y = self.builder.op("softmax", name, (self.permute(name, x, axes),))
        return self.permute(name, y, [axes.index(i) for i in range(last + 1)])

    def normalize(
        self, name: str, x: str, affine: str, *, eps: float, groups: int, inner: int
    ) -> str:
        """Append normalisation of each channel group of each sample: layer, group or instance norm.

        Args:
            name: name of the op.
            x: name of the input, whose last axes are channels of `inner` elements.
            affine: scale and shift of each channel, [2, channels].
            eps: constant added to the variance.
            groups: number of channel groups.
            inner: number of elements per channel.
        """
        channels = self.shape(affine)[1]
        attributes: dict[str, Attribute] = {"groups": groups, "channels": channels, "inner": inner}
        attributes["eps"] = eps
        return self.builder.op("layer_norm", name, (x, affine), attributes)


def _beyond(extent: int, kernel: int, stride: int, before: int, after: int) -> int:
    """Number of elements by which the last window exceeds the padding, with `ceil_mode`."""
    last = -(-(extent + before + after - kernel) // stride)
    if last * stride >= extent + before:
        last -= 1
    return max(last * stride + kernel - (extent + before + after), 0)
