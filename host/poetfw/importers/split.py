# SPDX-License-Identifier: Apache-2.0
"""Split into training and held-out samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HELD_OUT = 5
"""One of this number of samples is held out."""


def split(y: NDArray[np.generic], samples: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of training and held-out samples, each ascending.

    Every fifth sample is held out, within each class if `y` holds class numbers: both parts have
    equal class proportions. The split is deterministic.
    """
    by_class = y.ndim == 1 and y.dtype.kind in "iu"
    order = np.argsort(y, kind="stable") if by_class else np.arange(samples)
    held_out = np.zeros(samples, bool)
    held_out[order[::HELD_OUT]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
