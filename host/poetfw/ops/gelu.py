# SPDX-License-Identifier: Apache-2.0
"""The Gaussian error linear unit, exactly: with erf, as in BERT, not its tanh approximation.

gelu(x) = x · Φ(x) with Φ(x) = (1 + erf(x / √2)) / 2 (Hendrycks and Gimpel, 2016, section 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from poetfw.ir import Op
from poetfw.ops.base import Array, Tape, register
from poetfw.ops.graph_only import GraphOnlyElementwise


def _cumulative(x: Array) -> Array:
    """Φ(x), the normal distribution's cumulative density."""
    # Imported here because it takes a fifth of a second, and few networks need it.
    from scipy.special import erf

    phi: Array = (1 + erf(x * x.dtype.type(math.sqrt(0.5)))) / 2
    return phi


@register
class Gelu(GraphOnlyElementwise):
    """y = x · Φ(x)."""

    name = "gelu"
    inputs_count = 1
    passes = 3

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        (x,) = inputs
        return x * _cumulative(x)

    def gradient(self, op: Op, tape: Tape, output_gradient: str) -> None:
        (x,) = op.inputs
        if tape.needs_gradient(x):
            inputs = (x, output_gradient)
            tape.add_gradient(x, tape.emit("gelu_backward", f"{op.name}.backward", inputs))


@register
class GeluBackward(GraphOnlyElementwise):
    """Inputs x, dy; dx = dy · (Φ(x) + x · φ(x)), φ the normal distribution's density."""

    name = "gelu_backward"
    inputs_count = 2
    passes = 6

    def compute(self, op: Op, inputs: Sequence[Array], updates: Sequence[Array]) -> Array:
        x, dy = inputs
        density = np.exp(-x * x / 2) * x.dtype.type(1 / math.sqrt(2 * math.pi))
        dx: Array = dy * (_cumulative(x) + x * density)
        return dx
