# SPDX-License-Identifier: Apache-2.0
"""The memory functions of a freestanding build, beside Python's bytes."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.firmware_tools import TEMPLATES, compile_c

GUARD = 16


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    names = ("memcpy", "memmove", "memset", "memcmp")
    library = compile_c(
        tmp_path_factory.mktemp("memory") / "memory.so",
        [TEMPLATES / "runtime/poet_memory.c"],
        [TEMPLATES / "runtime"],
        *("-shared", "-fPIC", "-ffreestanding"),
        # This computer would load a word from any address.
        *("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"),
        *(f"-D{name}=poet_{name}" for name in names),
    )
    return ctypes.CDLL(str(library))


def buffer(content: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(content, len(content))


@given(st.binary(max_size=40), st.integers(0, 4), st.integers(0, 4))
def test_a_copy_reaches_what_it_shall_and_no_more(
    memory: ctypes.CDLL, data: bytes, at: int, source_at: int
) -> None:
    source = buffer(bytes(source_at) + data)
    target = buffer(b"\x3c" * (GUARD + at + len(data) + GUARD))
    memory.poet_memcpy(ctypes.byref(target, GUARD + at), ctypes.byref(source, source_at), len(data))
    assert target.raw == b"\x3c" * (GUARD + at) + data + b"\x3c" * GUARD


@given(st.binary(min_size=12, max_size=40), st.integers(0, 6), st.integers(0, 6))
def test_a_move_within_a_buffer_keeps_what_it_moves(
    memory: ctypes.CDLL, data: bytes, at: int, source_at: int
) -> None:
    place = buffer(data)
    count = len(data) - 6
    memory.poet_memmove(ctypes.byref(place, at), ctypes.byref(place, source_at), count)
    moved = data[source_at : source_at + count]
    assert place.raw == data[:at] + moved + data[at + count :]


@given(st.integers(0, 40), st.integers(-128, 255), st.integers(0, 4))
def test_filling_reaches_what_it_shall_and_no_more(
    memory: ctypes.CDLL, count: int, value: int, at: int
) -> None:
    target = buffer(b"\x3c" * (GUARD + at + count + GUARD))
    memory.poet_memset(ctypes.byref(target, GUARD + at), value, count)
    filled = bytes([value % 256]) * count
    assert target.raw == b"\x3c" * (GUARD + at) + filled + b"\x3c" * GUARD


@given(st.binary(max_size=8), st.binary(max_size=8), st.binary(max_size=8))
def test_the_first_difference_decides(
    memory: ctypes.CDLL, start: bytes, left: bytes, right: bytes
) -> None:
    count = len(start) + min(len(left), len(right))
    left, right = (start + left)[:count], (start + right)[:count]
    result = memory.poet_memcmp(left, right, count)
    assert (result > 0) - (result < 0) == (left > right) - (left < right)
