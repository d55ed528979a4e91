# SPDX-License-Identifier: Apache-2.0
"""The math functions against NumPy in double precision."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from poetfw.ops.rounding import FUNCTION_ROUNDINGS

F32 = NDArray[np.float32]
MAX_ULP = 2.0

# Every 1021st bit pattern: all exponents, both signs, subnormals; 1021 is prime to 2^32.
EVERYWHERE = np.arange(0, 2**32, 1021, dtype=np.uint64).astype(np.uint32).view(np.float32)
FINITE = EVERYWHERE[np.isfinite(EVERYWHERE)]
NEAR_ZERO = np.linspace(-20, 20, 2_000_001).astype(np.float32)
NEAR_ONE = np.linspace(0.5, 2, 1_000_001).astype(np.float32)

CASES: dict[str, tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], F32]] = {
    "poet_expf": (np.exp, np.concatenate([FINITE, NEAR_ZERO])),
    "poet_logf": (np.log, np.concatenate([FINITE[FINITE > 0], NEAR_ONE])),
    "poet_sqrtf": (np.sqrt, np.concatenate([FINITE[FINITE >= 0], NEAR_ONE])),
    "poet_sqrtf_soft": (np.sqrt, np.concatenate([FINITE[FINITE >= 0], NEAR_ONE])),
    "poet_tanhf": (np.tanh, np.concatenate([FINITE, NEAR_ZERO])),
}


def _apply(runtime: ctypes.CDLL, function: str, x: F32) -> F32:
    x = np.ascontiguousarray(x, np.float32)
    y = np.empty_like(x)
    pointer = ctypes.POINTER(ctypes.c_float)
    runtime[f"test_{function}"](
        x.ctypes.data_as(pointer), y.ctypes.data_as(pointer), ctypes.c_uint32(x.size)
    )
    return y


def _ulp(y: F32, exact: NDArray[np.float64]) -> float:
    """Largest error, in units in the last place of the exact value rounded to single precision."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(y[~finite], rounded[~finite])
    smallest_normal = np.finfo(np.float32).smallest_normal
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), smallest_normal)).astype(np.float64)
    return float(np.max(np.abs(y[finite].astype(np.float64) - exact[finite]) / unit))


@pytest.mark.parametrize("function", CASES)
def test_error_is_below_two_units_in_the_last_place(runtime: ctypes.CDLL, function: str) -> None:
    exact_function, x = CASES[function]
    with np.errstate(over="ignore"):
        exact = exact_function(x.astype(np.float64))
    assert _ulp(_apply(runtime, function, x), exact) <= MAX_ULP


def test_bounds_count_the_error_that_is_tested() -> None:
    """Such a unit is at most two roundings of the result."""
    assert FUNCTION_ROUNDINGS == 2 * MAX_ULP


@pytest.mark.parametrize("function", ["poet_sqrtf", "poet_sqrtf_soft"])
def test_square_root_is_correctly_rounded(runtime: ctypes.CDLL, function: str) -> None:
    x = CASES[function][1]
    np.testing.assert_array_equal(_apply(runtime, function, x), np.sqrt(x))


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("function", "x", "expected"),
    [
        ("poet_expf", [NAN, INF, -INF, 0.0, -0.0, 89.5, -200.0], [NAN, INF, 0, 1, 1, INF, 0]),
        ("poet_logf", [NAN, INF, -INF, 0.0, -0.0, -1.0, 1.0], [NAN, INF, NAN, -INF, -INF, NAN, 0]),
        ("poet_sqrtf", [NAN, INF, -INF, 0.0, -0.0, -1.0], [NAN, INF, NAN, 0.0, -0.0, NAN]),
        ("poet_sqrtf_soft", [NAN, INF, -INF, 0.0, -0.0, -1.0], [NAN, INF, NAN, 0.0, -0.0, NAN]),
        ("poet_tanhf", [NAN, INF, -INF, 0.0, -0.0], [NAN, 1, -1, 0.0, -0.0]),
    ],
)
def test_special_values_are_the_same_bits_everywhere(
    runtime: ctypes.CDLL, function: str, x: list[float], expected: list[float]
) -> None:
    y = _apply(runtime, function, np.array(x, np.float32)).view(np.uint32)
    bits = np.array(expected, np.float32).view(np.uint32)
    bits[np.isnan(expected)] = 0x7FC00000
    np.testing.assert_array_equal(y, bits)
