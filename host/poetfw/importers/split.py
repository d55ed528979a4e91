# SPDX-License-Identifier: Apache-2.0
"""Choice of the samples that are held out for testing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

HELD_OUT = 5
"""One sample out of so many is held out."""


def split(y: NDArray[np.generic], samples: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the samples to train and to test with, each ascending.

    Every fifth sample is held out, counting class by class where `y` holds class numbers, so
    that both parts have the classes in the same proportions. Nothing is random.
    """
    by_class = y.ndim == 1 and y.dtype.kind in "iu"
    order = np.argsort(y, kind="stable") if by_class else np.arange(samples)
    held_out = np.zeros(samples, bool)
    held_out[order[::HELD_OUT]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)
