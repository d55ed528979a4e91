# SPDX-License-Identifier: Apache-2.0
"""Conversion of a model's weights to float32, on request."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ModelError

OPTION = "or convert it here: --as-float32"
"""Advice beside an export in float32, for a model of another floating-point type."""


def rounded(values: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Values of any floating-point type, rounded to float32.

    Args:
        values: values of any shape.
        name: name of the weights, for the message.

    Raises:
        ModelError: A finite value is beyond float32's range.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    lost = np.isinf(narrow) & np.isfinite(values)
    if lost.any():
        raise ModelError(
            f"the weights {name!r:.120} hold {values[lost].flat[0]:.3g}, which float32 cannot hold "
            f"(its largest number is {np.finfo(np.float32).max:.3g})",
            "scale the weights down before the export",
        )
    return narrow
