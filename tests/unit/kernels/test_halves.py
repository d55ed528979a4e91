# SPDX-License-Identifier: Apache-2.0
"""Conversions between floats and halves, against NumPy's for every half and every rounding case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from poetfw.ops import Array

ALL = np.arange(1 << 16, dtype=np.uint32).astype("<u2")
VALUES = ALL.view("<f2").astype(np.float32)
EXTREMES = np.array([65519, 65520, -1e38, np.inf, -np.inf, np.nan, 1e-45, -0.0, 1], np.float32)
LARGEST, INFINITE = 0x7BFF, 0x7C00
AS_HALVES = [
    *(LARGEST, LARGEST, 0x8000 | LARGEST, INFINITE, 0x8000 | INFINITE, 0x7E00, 0, 0x8000),
    *(0x3C00, 0),
]


def rounding_cases() -> Array:
    """Each half, the middle of it and the next one, and the floats on both sides of that."""
    finite = np.sort(VALUES[np.isfinite(VALUES)])
    middles = (finite[1:] + finite[:-1]) / 2
    sides = [np.nextafter(middles, np.float32(way)) for way in (-np.inf, np.inf)]
    return np.concatenate([VALUES[~np.isnan(VALUES)], middles, *sides])


def test_every_half_has_its_value(run_kernel: Callable[..., Any]) -> None:
    values = run_kernel("from_halves", [ALL.view("<i4")], {"shape": (1 << 16,)}).output
    assert values.tobytes() == VALUES.tobytes()


def test_floats_are_rounded_to_the_nearest_half(run_kernel: Callable[..., Any]) -> None:
    x = rounding_cases()
    words = run_kernel("to_halves", [x]).output
    assert words.view("<u2")[: x.size].tobytes() == x.astype("<f2").view("<u2").tobytes()


def test_what_is_beyond_the_largest_half_becomes_that(run_kernel: Callable[..., Any]) -> None:
    assert run_kernel("to_halves", [EXTREMES]).output.view("<u2").tolist() == AS_HALVES
