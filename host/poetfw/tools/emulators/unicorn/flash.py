# SPDX-License-Identifier: Apache-2.0
"""Macronix MX25R6435F, 8 MB of quad-SPI flash, backed by a file.

The model follows revision 1.6 of the data sheet, as far as the firmware uses the flash, and is
strict: an access that the data sheet forbids, or that would lose data silently, is an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import BinaryIO

from poetfw.tools.emulators.unicorn.bus import MachineError

SIZE_BYTES = 8 * 1024 * 1024
SECTOR_BYTES = 4096
PAGE_BYTES = 256
ERASED = 0xFF

WRITE_ENABLE, RELEASE_POWER_DOWN = 0x06, 0xAB
READ_ID, READ_STATUS, READ_CONFIGURATION, WRITE_STATUS, READ_SECURITY = 0x9F, 0x05, 0x15, 0x01, 0x2B
_ID = bytes([0xC2, 0x28, 0x17])
_WHILE_BUSY = READ_STATUS, READ_SECURITY
_BUSY, _ENABLED, PROTECTED, QUAD_ENABLE = 0x01, 0x02, 0x3C, 0x40
HIGH_PERFORMANCE = 0x02
PROGRAM_FAILED, ERASE_FAILED = 0x20, 0x40

_SLOW_HZ = 8_000_000
"""Highest clock frequency for quad transfers in low-power mode."""

_ERASE_S, _PROGRAM_S, _SETTINGS_S = 40e-3, 0.85e-3, 20e-6
"""Typical times in high-performance mode."""


class Flash:
    """The flash; the bus sends instructions to it and moves its data.

    Attributes:
        status: status register; all but its two lowest bits are non-volatile.
        configuration: two configuration registers; the second one's setting is volatile.
        asleep: True in deep power-down.
        busy_s: duration of the last operation, in seconds; 0 once it has been waited for.
        erases: erase count of each sector, by sector number.
        bad_sectors: sectors that fail to erase and to program.
        stubborn: True if settings are not taken.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Create the flash.

        Args:
            file: content, of the flash's size.

        Raises:
            MachineError: The file has another size.
        """
        self._file = file
        if (size_bytes := file.seek(0, 2)) != SIZE_BYTES:
            raise MachineError(
                f"the flash has {SIZE_BYTES:,} bytes, and the storage image {size_bytes:,}"
            )
        self.status = 0
        self.configuration = bytearray(2)
        self.asleep = False
        self.busy_s = 0.0
        self.erases: Counter[int] = Counter()
        self.bad_sectors: Container[int] = ()
        self.stubborn = False
        self._enabled = False
        self._security = 0

    def settle(self) -> None:
        """Complete the last operation."""
        self.busy_s = 0.0

    def instruct(self, opcode: int, sent: bytes) -> bytes:
        """Exchange an instruction and its bytes; returns as many bytes as are sent.

        Raises:
            MachineError: The instruction is not modelled, or not allowed in this state.
        """
        if self.asleep and opcode != RELEASE_POWER_DOWN:
            return bytes([ERASED]) * len(sent)
        self._require(not self.busy_s or opcode in _WHILE_BUSY, f"gets 0x{opcode:02x} while busy")
        answers = {
            READ_ID: _ID,
            READ_STATUS: bytes([self._status()]),
            READ_CONFIGURATION: bytes(self.configuration),
            READ_SECURITY: bytes([self._security]),
        }
        if opcode in answers:
            wanted = len(answers[opcode])
            self._require(len(sent) == wanted, f"answers 0x{opcode:02x} with {wanted} bytes")
            return answers[opcode]
        if opcode == RELEASE_POWER_DOWN:
            self.asleep = False
        elif opcode == WRITE_ENABLE:
            self._enabled = True
        elif opcode == WRITE_STATUS:
            self._require(len(sent) == 3, "takes 3 bytes of settings")
            self._use_enabled("its settings")
            if not self.stubborn:
                self.status = sent[0] & ~(_BUSY | _ENABLED)
                self.configuration[:] = sent[1:]
            self.busy_s = _SETTINGS_S
        else:
            raise MachineError(f"the flash gets 0x{opcode:02x}, which is not modelled")
        return bytes([ERASED]) * len(sent)

    def read(self, address: int, size_bytes: int, clock_hz: int) -> bytes:
        """Read in quad mode."""
        self._check(address, size_bytes, clock_hz)
        self._file.seek(address)
        return self._file.read(size_bytes)

    def program(self, address: int, data: bytes, clock_hz: int) -> None:
        """Program bytes within one page in quad mode; programming only clears bits."""
        self._check(address, len(data), clock_hz)
        self._use_enabled(f"a page at 0x{address:06x}")
        fits = address % PAGE_BYTES + len(data) <= PAGE_BYTES
        self._require(fits, f"would wrap in its page at 0x{address:06x}")
        self.busy_s, self._security = _PROGRAM_S, 0
        if address // SECTOR_BYTES in self.bad_sectors:
            self._security = PROGRAM_FAILED
            return
        before = self.read_back(address, len(data))
        cleared = bytes(a & b for a, b in zip(before, data, strict=True))
        self._require(cleared == data, f"is not erased where it is written, at 0x{address:06x}")
        self._file.seek(address)
        self._file.write(data)

    def erase(self, address: int) -> None:
        """Erase a sector."""
        self._check(address, SECTOR_BYTES, 0)
        self._require(address % SECTOR_BYTES == 0, f"has no sector at 0x{address:06x}")
        self._use_enabled(f"the erasing of 0x{address:06x}")
        self.busy_s, self._security = _ERASE_S, 0
        self.erases[address // SECTOR_BYTES] += 1
        if address // SECTOR_BYTES in self.bad_sectors:
            self._security = ERASE_FAILED
            return
        self._file.seek(address)
        self._file.write(bytes([ERASED]) * SECTOR_BYTES)

    def read_back(self, address: int, size_bytes: int) -> bytes:
        """Read the content directly, not over the bus."""
        self._file.seek(address)
        return self._file.read(size_bytes)

    def _status(self) -> int:
        return self.status | _BUSY * (self.busy_s > 0) | _ENABLED * self._enabled

    def _check(self, address: int, size_bytes: int, clock_hz: int) -> None:
        self._require(not self.asleep, "is accessed in deep power-down")
        self._require(not self.busy_s, f"is accessed at 0x{address:06x} while busy")
        self._require(bool(self.status & QUAD_ENABLE), "is accessed over four lines without them")
        fast = self.configuration[1] & HIGH_PERFORMANCE
        self._require(bool(fast) or clock_hz <= _SLOW_HZ, f"is clocked at {clock_hz} Hz")
        inside = 0 <= address and address + size_bytes <= SIZE_BYTES and size_bytes > 0
        self._require(inside, f"is accessed at 0x{address:06x}, beyond its end")

    def _use_enabled(self, what: str) -> None:
        self._require(self._enabled, f"gets {what} without write enable")
        self._require(not self.status & PROTECTED, f"gets {what} while protected")
        self._enabled = False

    def _require(self, right: bool, misuse: str) -> None:
        if not right:
            raise MachineError(f"the flash {misuse}")
