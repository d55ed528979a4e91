# SPDX-License-Identifier: Apache-2.0
"""Slots that move beside computing, on a device that moves nothing before it must."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from emulator.firmware_tools import SLOT_BLOCKS, sample_image, slot_bytes, slot_offset
from unit.runtime.conftest import compile_runtime
from unit.runtime.test_storage import (
    ERROR_ARGUMENT,
    ERROR_CRC,
    ERROR_SLOT,
    ERROR_STORAGE,
    OK,
    SLOT_NUMBERS,
    X_BYTES,
    _device,
    _open,
    _page_in,
    _page_out,
    _writable_slot,
)

TRANSFERS = 6  # three pages
PAYLOADS = {
    "weight": b"wght",
    "means": np.random.default_rng(1).bytes(16),
    "gradient": b"grad",
    "x": np.random.default_rng(2).bytes(X_BYTES),
}


@pytest.fixture(scope="module")
def overlapping(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("overlapping") / "runtime.so"
    return compile_runtime(out, f"-DPOET_TRANSFERS={TRANSFERS}u")


@pytest.fixture
def opened(overlapping: Path, tmp_path: Path) -> Iterator[ctypes.CDLL]:
    """The library, loaded anew: a transfer that failed is remembered."""
    runtime = ctypes.CDLL(str(shutil.copy(overlapping, tmp_path)))
    runtime.test_device_reset()
    assert _open(runtime, sample_image())[0] == OK
    _most(runtime).value = 0
    yield runtime
    assert _most(runtime).value <= TRANSFERS


def _most(runtime: ctypes.CDLL) -> ctypes.c_uint32:
    return ctypes.c_uint32.in_dll(runtime, "test_most_under_way")


def _begin_out(runtime: ctypes.CDLL, slot: str, payload: ctypes.Array[ctypes.c_char]) -> int:
    status: int = runtime.poet_page_out_begin(SLOT_NUMBERS[slot], payload, len(payload))
    return status


def _begin_in(runtime: ctypes.CDLL, slot: str, target: ctypes.Array[ctypes.c_char]) -> int:
    status: int = runtime.poet_page_in_begin(SLOT_NUMBERS[slot], target, len(target))
    return status


def _wait(runtime: ctypes.CDLL, slot: str) -> int:
    status: int = runtime.poet_page_wait(SLOT_NUMBERS[slot])
    return status


def _buffer(payload: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(payload, len(payload))


def _in_storage(runtime: ctypes.CDLL, slot: str, payload: bytes) -> bool:
    start, expected = slot_offset(sample_image(), slot), slot_bytes(payload)
    return bytes(_device(runtime)[start : start + len(expected)]) == expected


@pytest.mark.parametrize("size", [*range(490, 530), 1007, 1008, 1009, 1024, X_BYTES])
def test_out_and_in_again_without_waiting_between(opened: ctypes.CDLL, size: int) -> None:
    payload = np.random.default_rng(size).bytes(size)
    source, target = _buffer(payload), _buffer(bytes(size))
    slot = _writable_slot(opened, "x")
    slot.bytes = size
    assert _begin_out(opened, "x", source) == OK
    assert _begin_in(opened, "x", target) == OK
    if size % 512 <= 496:  # else a block is waited for, and so all that began before it
        assert not _in_storage(opened, "x", payload)  # nothing has moved
        assert target.raw == bytes(size)
    assert _wait(opened, "x") == OK
    assert _in_storage(opened, "x", payload)
    assert target.raw == payload
    assert _wait(opened, "x") == OK  # there is nothing to wait for


def test_more_pages_than_may_be_under_way(opened: ctypes.CDLL) -> None:
    sources = {name: _buffer(payload) for name, payload in PAYLOADS.items()}
    targets = {name: _buffer(bytes(len(payload))) for name, payload in PAYLOADS.items()}
    for name, source in sources.items():
        assert _begin_out(opened, name, source) == OK
    for name, target in targets.items():
        assert _begin_in(opened, name, target) == OK
    for name in reversed(PAYLOADS):
        assert _wait(opened, name) == OK
        assert targets[name].raw == PAYLOADS[name]
        assert _in_storage(opened, name, PAYLOADS[name])
    assert 3 <= _most(opened).value <= TRANSFERS


def test_what_a_page_held_before_does_not_show(opened: ctypes.CDLL) -> None:
    for name in ["x"] * 3 + ["weight"]:  # round the ring
        source = _buffer(PAYLOADS[name])
        assert _begin_out(opened, name, source) == OK
        assert _wait(opened, name) == OK
    assert _in_storage(opened, "weight", PAYLOADS["weight"])


def test_waiting_for_one_leaves_what_began_later(opened: ctypes.CDLL) -> None:
    first, second = _buffer(PAYLOADS["x"]), _buffer(PAYLOADS["means"])
    assert _begin_out(opened, "x", first) == OK
    assert _begin_out(opened, "means", second) == OK
    assert _wait(opened, "x") == OK
    assert _in_storage(opened, "x", PAYLOADS["x"])
    assert not _in_storage(opened, "means", PAYLOADS["means"])
    assert _wait(opened, "means") == OK
    assert _in_storage(opened, "means", PAYLOADS["means"])


def test_slots_that_are_waited_for_may_come_between(opened: ctypes.CDLL) -> None:
    source, target = _buffer(PAYLOADS["x"]), _buffer(bytes(X_BYTES))
    assert _begin_out(opened, "x", source) == OK
    assert _page_out(opened, "means", PAYLOADS["means"]) == OK
    assert _begin_in(opened, "x", target) == OK
    assert _page_in(opened, "means", 16) == (OK, PAYLOADS["means"])
    assert _wait(opened, "x") == OK
    assert target.raw == PAYLOADS["x"]


def test_the_generation_is_that_of_the_step(opened: ctypes.CDLL) -> None:
    opened.poet_slots_begin_step(17, 0)
    source = _buffer(PAYLOADS["x"])
    assert _begin_out(opened, "x", source) == OK
    opened.poet_slots_begin_step(18, 0)
    assert _wait(opened, "x") == OK
    start, expected = slot_offset(sample_image(), "x"), slot_bytes(PAYLOADS["x"], generation=17)
    assert bytes(_device(opened)[start : start + len(expected)]) == expected


@pytest.mark.parametrize("failing", range(4))
def test_no_transfer_may_fail_unnoticed(opened: ctypes.CDLL, failing: int) -> None:
    """Also one that was begun before what is waited for, and whatever goes well after it."""
    source, target = _buffer(PAYLOADS["x"]), _buffer(bytes(16))
    assert _page_out(opened, "means", PAYLOADS["means"]) == OK
    ctypes.c_uint32.in_dll(opened, "test_transfers_until_one_fails").value = failing
    assert _begin_out(opened, "x", source) == OK
    assert _begin_in(opened, "means", target) == OK
    assert _wait(opened, "means") == (ERROR_STORAGE if failing < 3 else OK)
    assert _wait(opened, "x") == OK or failing < 3


@pytest.mark.parametrize("failing", range(3))
def test_what_failed_is_forgotten_when_all_has_ended(opened: ctypes.CDLL, failing: int) -> None:
    source, target = _buffer(PAYLOADS["x"]), _buffer(bytes(16))
    assert _page_out(opened, "means", PAYLOADS["means"]) == OK
    ctypes.c_uint32.in_dll(opened, "test_transfers_until_one_fails").value = failing
    assert _begin_out(opened, "x", source) == OK
    assert _begin_in(opened, "means", target) == OK
    assert _wait(opened, "x") == (ERROR_STORAGE if failing < 2 else OK)
    opened.poet_pages_forget()
    target.raw = bytes(16)
    assert (_wait(opened, "x"), _wait(opened, "means"), target.raw) == (OK, OK, bytes(16))
    assert _begin_in(opened, "means", target) == OK
    assert (_wait(opened, "means"), target.raw) == (OK, PAYLOADS["means"])


def test_a_transfer_that_was_waited_for_fails_once(opened: ctypes.CDLL) -> None:
    ctypes.c_uint32.in_dll(opened, "test_transfers_until_one_fails").value = 0
    assert _page_out(opened, "x", PAYLOADS["x"]) == ERROR_STORAGE
    assert _page_out(opened, "x", PAYLOADS["x"]) == OK


@pytest.mark.parametrize(("byte", "status"), [(0, ERROR_CRC), (-16, ERROR_SLOT), (-4, ERROR_CRC)])
def test_damage_is_noticed(opened: ctypes.CDLL, byte: int, status: int) -> None:
    assert _page_out(opened, "x", PAYLOADS["x"]) == OK
    start = slot_offset(sample_image(), "x")
    end = start + SLOT_BLOCKS["x"][1] * 512
    _device(opened)[start if byte == 0 else end + byte] ^= 1
    target = _buffer(bytes(X_BYTES))
    assert _begin_in(opened, "x", target) == OK
    assert _wait(opened, "x") == status


def test_wrong_sizes_and_slots_are_refused(opened: ctypes.CDLL) -> None:
    buffer = _buffer(PAYLOADS["x"][:-4])
    assert _begin_out(opened, "x", buffer) == ERROR_ARGUMENT
    assert _begin_in(opened, "x", buffer) == ERROR_ARGUMENT
    assert opened.poet_page_in_begin(len(SLOT_NUMBERS), buffer, len(buffer)) == ERROR_ARGUMENT
