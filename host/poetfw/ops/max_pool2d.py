# SPDX-License-Identifier: Apache-2.0
"""Max pooling. The gradient finds the maxima again, so no indices need to be kept.

Where only the gradient waits for the input, the index of each window's maximum suffices, a few bits
of an output's element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Axes,
    Bounds,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    Tape,
    bytes_of,
    channel_axes,
    expect_dtype,
    expect_floats,
    expect_inputs,
    expect_integers,
    expect_rank,
    expect_shape,
    register,
)
from poetfw.ops.bit_fields import pack_fields, unpack_fields, words_of_fields
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma
from poetfw.ops.windows import Window, pooled_shape, pooling_fields, pooling_loops, pooling_work

BACKWARD = "max_pool2d_backward"


class _MaxPool2d(OpKind):
    """Shared by both passes: attributes kernel, stride, padding, and x as first input."""

    function: ClassVar[str]
    has_2x2: ClassVar[bool] = True

    def pooled(self, op: Op, inputs: Sequence[Tensor]) -> Shape:
        """Shape of x."""
        return inputs[0].shape

    def axes(self, op: Op, inputs: Sequence[Tensor], results: Sequence[Tensor]) -> Axes | None:
        return channel_axes(inputs, results)

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return pooling_work(op, self.pooled(op, inputs), bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        window = Window.of(op)
        fields = pooling_fields(op, self.pooled(op, [graph.by_name[n] for n in op.inputs]))
        whole = self.has_2x2 and window.kernel == (2, 2) and not any(window.padding)
        return Kernel(
            source="max_pool2d",
            function=f"poet_max_pool2d_{'2x2_' if whole else ''}{self.function}_f32",
            arguments=(*op.inputs, op.output),
            struct="poet_max_pool2d",
            fields=fields,
            loops=pooling_loops(fields, "planes", "out_height", "out_width"),
        )


@register
class MaxPool2d(_MaxPool2d):
    """Input x [N,C,H,W]; y [N,C,OH,OW], the largest value in each window; padding never is.

    Attributes `kernel`, `stride` (rows, columns), `padding` (top, left, bottom, right), and
    optionally `shared`: 1 if equal maxima share the gradient, else the first takes it.
    """

    name = "max_pool2d"
    function = "forward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        return pooled_shape(op, inputs[0].shape), Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = Window.of(op).patches(inputs[0], -np.inf).max(axis=(4, 5))
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            kind = "max_pool2d_shared_backward" if op.attributes.get("shared") else BACKWARD
            window = {key: op.attributes[key] for key in ("kernel", "stride", "padding")}
            dx = tape.emit(kind, f"{op.name}.backward", (x, output_gradient), window)
            tape.add_gradient(x, dx)


@register
class MaxPool2dBackward(_MaxPool2d):
    """Inputs x, dy; dx: each dy goes to the first maximum of its window in row-major order."""

    name = BACKWARD
    function = "backward"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 2)
        x, dy = inputs
        expect_rank(op, x, 4)
        expect_shape(op, dy, pooled_shape(op, x.shape))
        return x.shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, dy = inputs
        window = Window.of(op)
        patches = window.patches(x, -np.inf)
        shares = self.shares(patches.reshape(*dy.shape, -1), dy[..., np.newaxis])
        return window.scatter(shares.reshape(patches.shape), x.shape)

    def shares(self, values: Array, dy: Array) -> Array:
        """Gradients of the values of each window, [..., values], of dy [..., 1]."""
        winners = np.arange(values.shape[-1]) == values.argmax(axis=-1)[..., np.newaxis]
        return np.where(winners, dy, np.zeros_like(dy))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return (_overlap_bound(op, inputs, self.compute),)


@register
class MaxPool2dSharedBackward(MaxPool2dBackward):
    """Inputs x, dy; dx: each dy is divided by the number of maxima of its window, which all get it.

    So PyTorch does for `amax`.
    """

    name = "max_pool2d_shared_backward"
    function = "shared_backward"
    has_2x2 = False

    def shares(self, values: Array, dy: Array) -> Array:
        winners = values == values.max(axis=-1, keepdims=True)
        count = winners.sum(axis=-1, keepdims=True).astype(dy.dtype)
        shares: Array = np.where(winners, dy / np.maximum(count, 1), 0)
        return np.where(count == 0, super().shares(values, dy), shares)  # of NaN

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        x, dy = inputs
        height, width = Window.of(op).overlaps
        terms = self.compute(op, [x, np.abs(dy)], updates)
        return (gamma(height * width) * terms + SMALLEST_NORMAL,)


def _first_maxima(window: Window, x: Array) -> Array:
    """Index in its window, in row-major order, of each window's first maximum."""
    patches = window.patches(x, -np.inf)
    found: Array = patches.reshape(*patches.shape[:4], -1).argmax(axis=-1)
    return found


def _distributed(window: Window, maxima: Array, dy: Array, shape: Shape) -> Array:
    """Sum at each element of dx, which has `shape`, of the dy of which it is the maximum."""
    winners = np.arange(math.prod(window.kernel)) == maxima[..., np.newaxis]
    shares = np.where(winners, dy[..., np.newaxis], 0)
    return window.scatter(shares.reshape(*dy.shape, *window.kernel), shape)


def _overlap_bound(
    op: Op,
    inputs: Sequence[Array],
    compute: Callable[[Op, Sequence[Array], Sequence[Array]], Array],
) -> Array:
    """Error bound of dx: the first input only decides where a gradient goes.

    Where windows overlap, several gradients are added up.
    """
    where, dy = inputs
    height, width = Window.of(op).overlaps
    bound: Array = gamma(height * width - 1) * compute(op, [where, np.abs(dy)], ())
    return bound


def index_bits(window: Window) -> int:
    """Bits of an index in a window: a divisor of 32."""
    return next(bits for bits in (1, 2, 4, 8, 16, 32) if math.prod(window.kernel) <= 1 << bits)


@register
class MaxPool2dIndices(_MaxPool2d):
    """Input x [N,C,H,W]; words of i32 with the index of each window's first maximum.

    An index counts the window's elements in row-major order, with padding. It takes 1, 2, 4, 8, ...
    bits, whichever suffices for the window.
    """

    name = "max_pool2d_indices"
    function = "indices"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        expect_rank(op, inputs[0], 4)
        windows = math.prod(pooled_shape(op, inputs[0].shape))
        return (words_of_fields(windows, index_bits(Window.of(op))),), Dtype.I32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        window = Window.of(op)
        return pack_fields(_first_maxima(window, inputs[0]).astype(np.uint32), index_bits(window))

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0


@register
class MaxPool2dIndexedBackward(_MaxPool2d):
    """Inputs words of `max_pool2d_indices`, dy; dx [N,C,H,W], attribute `shape`.

    Each dy goes to the element of its window that the index names.
    """

    name = "max_pool2d_indexed_backward"
    function = "indexed_backward"

    def pooled(self, op: Op, inputs: Sequence[Tensor]) -> Shape:
        return expect_integers(op, "shape", 1, 4)

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 2)
        words, dy = inputs
        shape = self.pooled(op, inputs)
        expect_dtype(op, words, Dtype.I32)
        expect_dtype(op, dy, Dtype.F32)
        expect_shape(op, dy, pooled_shape(op, shape))
        expect_shape(op, words, (words_of_fields(dy.elements, index_bits(Window.of(op))),))
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        words, dy = inputs
        window = Window.of(op)
        indices = unpack_fields(words, index_bits(window), dy.size).reshape(dy.shape)
        return _distributed(window, indices, dy, self.pooled(op, ()))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        return (_overlap_bound(op, inputs, self.compute),)
