# SPDX-License-Identifier: Apache-2.0
"""Error bounds of float32 arithmetic, from which the operators' own bounds are made.

The formulas are those of N. J. Higham, "Accuracy and Stability of Numerical Algorithms" (2nd ed.,
SIAM 2002). A result that n roundings went into, one after the other, has the relative error
(1 + δ₁)···(1 + δₙ) - 1 with |δ| ≤ u, which is at most gamma_n (Lemma 3.1). A sum of products
therefore lies within gamma_n · Σ|a·b| (section 3.1), where n counts the roundings that one product
takes part in: its own, and one for each addition that follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

UNIT_ROUNDOFF = 2.0**-24
"""u: half the distance from 1 to the next float32."""

SMALLEST_NORMAL = 2.0**-126
"""Below it float32 loses relative precision: errors that small are not told from none."""

FUNCTION_ROUNDINGS = 4
"""Roundings that `poet_expf` or `poet_logf` counts as: its error is below 2 units in the last place
(`firmware_templates/runtime/poet_math.h`), and such a unit is at most 2u of the result."""


def gamma(roundings: int) -> float:
    """gamma_n = n·u / (1 - n·u): the largest relative error of n roundings.

    Args:
        roundings: n, below 2^24.
    """
    total = roundings * UNIT_ROUNDOFF
    assert total < 1, roundings
    return total / (1 - total)


def magnitude(values: NDArray[Any]) -> NDArray[Any]:
    """|values| of floats; integers are class labels and are returned unchanged."""
    return np.abs(values) if np.issubdtype(values.dtype, np.floating) else values
