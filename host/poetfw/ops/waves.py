# SPDX-License-Identifier: Apache-2.0
"""Sine and cosine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from poetfw.ir import Op, Tensor
from poetfw.ops.base import Array, Bounds, OpWork, Tape, bytes_of, register
from poetfw.ops.elementwise import Elementwise
from poetfw.ops.rounding import SMALLEST_NORMAL, gamma

_OPERATIONS = 20
"""Multiply-accumulates of the kernel per element."""


class _Wave(Elementwise):
    """Input x; y of its shape. A subclass names its function, the op of its slope, and the sign."""

    source = "waves"
    inputs_count = 1
    in_place = (0,)
    pointwise = True
    branches = True
    wave: ClassVar[np.ufunc]
    slope: ClassVar[str]
    falls: ClassVar[bool] = False

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        with np.errstate(invalid="ignore"):
            y: Array = self.wave(inputs[0])
            return y

    def work(self, op: Op, inputs: Sequence[Tensor], output: Tensor | None) -> OpWork:
        return OpWork(_OPERATIONS * inputs[0].elements, bytes_of(*inputs, output))

    def error_bounds(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Bounds:
        """A few units of 1, and of x, from which quarters of a turn are taken."""
        return (gamma(1) * (3 + 2 * np.abs(inputs[0])) + SMALLEST_NORMAL,)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if not tape.needs_gradient(x):
            return
        name = f"{op.name}.backward"
        slope = tape.emit(self.slope, f"{name}.slope", (x,))
        dx = tape.emit("multiply", name, (slope, output_gradient))
        if self.falls:
            dx = tape.emit("scale", f"{name}.sign", (dx,), {"factor": -1.0})
        tape.add_gradient(x, dx)


@register
class Sine(_Wave):
    """Input x; y = sin x."""

    name, slope = "sin", "cos"
    onnx = "Sin"
    function = "poet_sin_f32"
    wave = np.sin


@register
class Cosine(_Wave):
    """Input x; y = cos x."""

    name, slope = "cos", "sin"
    onnx = "Cos"
    function = "poet_cos_f32"
    wave = np.cos
    falls = True
