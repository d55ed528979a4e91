# SPDX-License-Identifier: Apache-2.0
"""Conversion of tensors to IEEE 754 halves (float16), two in a word, and back.

A value is rounded to the nearest half, ties to even; finite values beyond the largest half, 65504,
become that. NaN becomes one NaN, without its payload.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Dtype, Graph, Op, Tensor
from poetfw.ops.base import (
    Array,
    Kernel,
    OpKind,
    OpWork,
    Shape,
    bytes_of,
    expect_dtype,
    expect_floats,
    expect_inputs,
    expect_integers,
    expect_shape,
    register,
)
from poetfw.ops.bit_fields import words_of_fields

LARGEST_HALF = 65504.0
_BITS = 16
_NAN = np.uint16(0x7E00)


class _Halves(OpKind):
    """Shared by both directions."""

    function: ClassVar[str]

    def elements(self, op: Op, inputs: Sequence[Tensor]) -> int:
        """Number of floats."""
        return inputs[0].elements

    def roundings(self, op: Op, inputs: Sequence[Shape]) -> int:
        return 0

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(macs=self.elements(op, inputs), bytes_moved=bytes_of(*inputs, output))

    def kernel(self, op: Op, graph: Graph) -> Kernel:
        return Kernel(
            source="halves",
            function=self.function,
            arguments=(*op.inputs, op.output),
            struct="poet_halves",
            fields=(("elements", self.elements(op, [graph.by_name[op.inputs[0]]])),),
        )


@register
class ToHalves(_Halves):
    """Input x; words [ceil(n/2)] of i32 with two halves in each, the first in the lower bits."""

    name = "to_halves"
    function = "poet_to_halves_f32"

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_floats(op, inputs, 1)
        return (words_of_fields(inputs[0].elements, _BITS),), Dtype.I32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x = inputs[0].reshape(-1)
        limited = np.where(np.isfinite(x), np.clip(x, -LARGEST_HALF, LARGEST_HALF), x)
        halves = limited.astype("<f2").view("<u2")
        halves = np.where(np.isnan(x), _NAN, halves)
        words: Array = np.append(halves, np.zeros(x.size % 2, "<u2")).astype("<u2").view("<i4")
        return words


@register
class FromHalves(_Halves):
    """Input words of halves; their values as floats of the attribute `shape`."""

    name = "from_halves"
    function = "poet_from_halves_f32"

    def elements(self, op: Op, inputs: Sequence[Tensor]) -> int:
        return math.prod(expect_integers(op, "shape", 1))

    def infer(self, op: Op, inputs: Sequence[Tensor]) -> tuple[Shape, Dtype]:
        expect_inputs(op, inputs, 1)
        shape = expect_integers(op, "shape", 1)
        expect_dtype(op, inputs[0], Dtype.I32)
        expect_shape(op, inputs[0], (words_of_fields(math.prod(shape), _BITS),))
        return shape, Dtype.F32

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        halves = np.ascontiguousarray(inputs[0], "<i4").view("<f2")
        values: Array = halves[: self.elements(op, ())].astype(np.float32)
        return values.reshape(expect_integers(op, "shape", 1))
