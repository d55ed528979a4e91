# SPDX-License-Identifier: Apache-2.0
"""The flash that stands behind the chip's model: what it does, and what it does not let pass."""

from __future__ import annotations

import io
import re

import pytest

from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.flash import (
    ERASE_FAILED,
    HIGH_PERFORMANCE,
    PAGE_BYTES,
    PROGRAM_FAILED,
    QUAD_ENABLE,
    READ_CONFIGURATION,
    READ_ID,
    READ_SECURITY,
    READ_STATUS,
    RELEASE_POWER_DOWN,
    SECTOR_BYTES,
    SIZE_BYTES,
    WRITE_ENABLE,
    WRITE_STATUS,
    Flash,
)

HZ = 16_000_000
ENABLED = 0x02


@pytest.fixture
def new() -> Flash:
    return Flash(io.BytesIO(b"\xff" * SIZE_BYTES))


@pytest.fixture
def ready(new: Flash) -> Flash:
    """Set up as the driver does."""
    new.instruct(WRITE_ENABLE, b"")
    new.instruct(WRITE_STATUS, bytes([QUAD_ENABLE, 0, HIGH_PERFORMANCE]))
    new.settle()
    return new


def write(flash: Flash, address: int, data: bytes) -> None:
    flash.instruct(WRITE_ENABLE, b"")
    flash.program(address, data, HZ)
    flash.settle()


def erase(flash: Flash, address: int) -> None:
    flash.instruct(WRITE_ENABLE, b"")
    flash.erase(address)
    flash.settle()


def test_it_says_what_it_is(new: Flash) -> None:
    assert new.instruct(READ_ID, bytes(3)) == b"\xc2\x28\x17"
    new.asleep = True
    assert new.instruct(READ_ID, bytes(3)) == b"\xff\xff\xff"
    new.instruct(RELEASE_POWER_DOWN, b"")
    assert new.instruct(READ_ID, bytes(3)) == b"\xc2\x28\x17"


def test_settings_need_write_enable_each_time(ready: Flash) -> None:
    assert ready.instruct(READ_STATUS, bytes(1)) == bytes([QUAD_ENABLE])
    assert ready.instruct(READ_CONFIGURATION, bytes(2)) == bytes([0, HIGH_PERFORMANCE])
    with pytest.raises(MachineError, match="without write enable"):
        ready.instruct(WRITE_STATUS, bytes(3))


def test_writing_clears_bits_and_erasing_sets_them(ready: Flash) -> None:
    write(ready, 0x1080, b"\xf0" * 128)
    write(ready, 0x1080, b"\x30" * 128)
    assert ready.read(0x1080, 129, HZ) == b"\x30" * 128 + b"\xff"
    erase(ready, 0x1000)
    assert ready.read(0x1000, SECTOR_BYTES, HZ) == b"\xff" * SECTOR_BYTES
    assert ready.erases == {1: 1}


def test_it_is_busy_until_that_was_waited_for(ready: Flash) -> None:
    ready.instruct(WRITE_ENABLE, b"")
    assert ready.instruct(READ_STATUS, bytes(1)) == bytes([QUAD_ENABLE | ENABLED])
    ready.erase(0)
    assert ready.instruct(READ_STATUS, bytes(1)) == bytes([QUAD_ENABLE | 1])
    assert ready.busy_s == 0.04
    ready.settle()
    assert ready.instruct(READ_STATUS, bytes(1)) == bytes([QUAD_ENABLE])


def test_worn_out_sectors_say_so(ready: Flash) -> None:
    ready.bad_sectors = [1]
    erase(ready, SECTOR_BYTES)
    assert ready.instruct(READ_SECURITY, bytes(1)) == bytes([ERASE_FAILED])
    write(ready, SECTOR_BYTES, b"\0")
    assert ready.instruct(READ_SECURITY, bytes(1)) == bytes([PROGRAM_FAILED])
    assert ready.read(SECTOR_BYTES, 1, HZ) == b"\xff"
    erase(ready, 0)
    assert ready.instruct(READ_SECURITY, bytes(1)) == b"\0"


def _not_erased(flash: Flash) -> None:
    write(flash, 0, b"\x0f")
    write(flash, 0, b"\x1f")


def _not_enabled(flash: Flash) -> None:
    flash.program(0, b"\0", HZ)


def _enabled_once(flash: Flash) -> None:
    erase(flash, 0)
    flash.erase(0)


def _busy(flash: Flash) -> None:
    flash.instruct(WRITE_ENABLE, b"")
    flash.erase(0)
    flash.read(0, 4, HZ)


def _told_while_busy(flash: Flash) -> None:
    flash.instruct(WRITE_ENABLE, b"")
    flash.erase(0)
    flash.instruct(WRITE_ENABLE, b"")


def _asleep(flash: Flash) -> None:
    flash.asleep = True
    flash.read(0, 4, HZ)


def _protected(flash: Flash) -> None:
    flash.status |= 0x04
    erase(flash, 0)


def _one_line(flash: Flash) -> None:
    flash.status = 0
    flash.read(0, 4, HZ)


def _slow(flash: Flash) -> None:
    flash.configuration[1] = 0
    flash.read(0, 4, 8_000_000)
    flash.read(0, 4, HZ)


@pytest.mark.parametrize(
    ("misuse", "message"),
    [
        (_not_erased, "is not erased where it is written, at 0x000000"),
        (_not_enabled, "gets a page at 0x000000 without write enable"),
        (_enabled_once, "gets the erasing of 0x000000 without write enable"),
        (_busy, "is accessed at 0x000000 while busy"),
        (_told_while_busy, "gets 0x06 while busy"),
        (_asleep, "is accessed in deep power-down"),
        (_protected, "while protected"),
        (_one_line, "is accessed over four lines without them"),
        (_slow, "is clocked at 16000000 Hz"),
        (lambda flash: write(flash, PAGE_BYTES - 1, b"\0\0"), "would wrap in its page at 0x0000ff"),
        (lambda flash: erase(flash, 512), "has no sector at 0x000200"),
        (lambda flash: flash.read(SIZE_BYTES - 1, 2, HZ), "beyond its end"),
        (lambda flash: flash.read(0, 0, HZ), "beyond its end"),
        (lambda flash: flash.instruct(READ_ID, bytes(4)), "answers 0x9f with 3 bytes"),
        (lambda flash: flash.instruct(WRITE_STATUS, b"\0"), "takes 3 bytes of settings"),
        (lambda flash: flash.instruct(0xC7, b""), "gets 0xc7, which is not modelled"),
    ],
)
def test_what_is_not_allowed(ready: Flash, misuse, message: str) -> None:
    with pytest.raises(MachineError, match=re.escape(message)):
        misuse(ready)
