# SPDX-License-Identifier: Apache-2.0
"""High-water marks: exactly what was used, of a stack and of an arena."""

from __future__ import annotations

import ctypes

import pytest

from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c
from unit.runtime.conftest import BLOCK_DEVICE

ARENA_BYTES = 4096
ALIGNMENT = 8


@pytest.fixture(scope="module")
def high_water(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = compile_c(
        tmp_path_factory.mktemp("high_water") / "high_water.so",
        [
            BLOCK_DEVICE.with_name("painted_stack.c"),
            SAMPLE / "src/generated/plan.c",
            TEMPLATES / "runtime/high_water.c",
        ],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("runtime", "storage", "hal"))],
        *("-shared", "-fPIC"),
    )
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("size", [1024, 1025, 4096, 30000])
def test_of_a_stack(high_water: ctypes.CDLL, size: int) -> None:
    used = ctypes.c_uint32()
    measured = high_water.test_stack(ctypes.c_uint32(size), ctypes.byref(used))
    assert measured == used.value >= size


def test_of_no_stack(high_water: ctypes.CDLL) -> None:
    assert high_water.test_no_stack() == 0


@pytest.mark.parametrize("last", [None, 0, 7, 8, 2047, ARENA_BYTES - 1])
@pytest.mark.parametrize("changed_bits", [0x01, 0xFF])
def test_of_an_arena(high_water: ctypes.CDLL, last: int | None, changed_bits: int) -> None:
    arena = (ctypes.c_uint8 * ARENA_BYTES).in_dll(high_water, "poet_arena")
    high_water.poet_paint_arena()
    used = 0
    if last is not None:
        arena[last] ^= changed_bits
        used = -(-(last + 1) // ALIGNMENT) * ALIGNMENT
    assert high_water.poet_arena_high_water() == used
