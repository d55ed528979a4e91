# SPDX-License-Identifier: Apache-2.0
"""Selection by masks, comparisons with 0, and conversions between integers and floats.

Masks are f32, 1 for true and 0 for false, so they are multiplied, summed and broadcast like other
tensors. Comparisons and conversions have no gradient, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Op, Tensor
from poetfw.ops.base import Array, Shape, Tape, expect_dtype, expect_inputs, register
from poetfw.ops.elementwise import Elementwise

LARGEST_CONVERTED = 1 << 30
"""Largest magnitude of a converted integer."""


class _Exact(Elementwise):
    """An op that rounds nothing."""

    source = "choices"

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0


@register
class Select(_Exact):
    """Inputs c, a, b of one shape; y = a where c is not 0, and b elsewhere."""

    name = "where"
    inputs_count = 3
    in_place = (0, 1, 2)
    function = "poet_where_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        c, a, b = inputs
        chosen: Array = np.where(c != 0, a, b)
        return chosen

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        c, *sides = op.inputs
        for x, kind in zip(sides, ("mask", "mask_out"), strict=True):
            if tape.needs_gradient(x):
                name = f"{op.name}.backward_{'a' if kind == 'mask' else 'b'}"
                tape.add_gradient(x, tape.emit(kind, name, (c, output_gradient)))


class _Mask(_Exact):
    """Inputs c, x of one shape."""

    inputs_count = 2

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        c, x = op.inputs
        if tape.needs_gradient(x):
            tape.add_gradient(x, tape.emit(op.kind, f"{op.name}.backward", (c, output_gradient)))


@register
class Mask(_Mask):
    """Inputs c, x of one shape; y = x where c is not 0, and 0 elsewhere."""

    name = "mask"
    function = "poet_mask_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        c, x = inputs
        return np.where(c != 0, x, np.zeros_like(x))


@register
class MaskOut(_Mask):
    """Inputs c, x of one shape; y = 0 where c is not 0, and x elsewhere."""

    name = "mask_out"
    function = "poet_mask_out_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        c, x = inputs
        return np.where(c != 0, np.zeros_like(x), x)


class _Stop(_Exact):
    """An op of one input, without a gradient."""

    inputs_count = 1
    in_place = (0,)
    stops_gradient = True

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        raise AssertionError(f"op {op.name!r} has no gradient to pass on")


@register
class IsPositive(_Stop):
    """Input x; y = 1 where x > 0, and 0 elsewhere."""

    name = "positive"
    function = "poet_positive_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = (inputs[0] > 0).astype(inputs[0].dtype)
        return y


@register
class Zero(_Stop):
    """Input x; y = 1 where x is 0, and 0 elsewhere."""

    name = "zero"
    function = "poet_zero_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = (inputs[0] == 0).astype(inputs[0].dtype)
        return y


@register
class Nearest(_Stop):
    """Input x; y = the nearest whole number, of two the even one."""

    name = "nearest"
    function = "poet_nearest_f32"

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = np.rint(inputs[0])
        return y


class _Convert(_Stop):
    """A conversion between the two types."""

    takes: ClassVar[Dtype]
    gives: ClassVar[Dtype]

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 1)
        expect_dtype(op, inputs[0], self.takes)
        return inputs[0].shape, self.gives


@register
class ToFloat(_Convert):
    """Input x i32; y = x as f32."""

    name = "to_float"
    function = "poet_to_float"
    takes, gives = Dtype.I32, Dtype.F32
    cancels = False

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        y: Array = inputs[0].astype(np.float64)
        return y

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 1


@register
class ToInteger(_Convert):
    """Input x; y = x as i32, truncated towards zero and saturated; NaN gives 0."""

    name = "to_integer"
    function = "poet_to_integer"
    takes, gives = Dtype.F32, Dtype.I32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        known = np.nan_to_num(inputs[0], posinf=np.inf, neginf=-np.inf)
        y: Array = np.clip(known, -LARGEST_CONVERTED, LARGEST_CONVERTED).astype(np.int32)
        return y
