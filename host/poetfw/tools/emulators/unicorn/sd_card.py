# SPDX-License-Identifier: Apache-2.0
"""A high-capacity SD card on an SPI bus, backed by a file.

The model follows chapter 7 of the SD Physical Layer Simplified Specification and is strict: a host
that violates the specification causes an error. The exception: after a reset of the host that the
card cannot notice, or during a new identification, violations pass until CMD0 resets the card.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Generator, Iterator
from typing import BinaryIO

from poetfw.tools.emulators.unicorn.bus import MachineError

BLOCK_BYTES = 512
BLOCKS_PER_UNIT = 1024
"""The card's size is a multiple of this number of blocks."""

_NOTHING = 0xFF
_START, _START_OF_MANY, _STOP = 0xFE, 0xFC, 0xFD
_READY, _IDLE, _ILLEGAL, _BAD_CRC, _OUT_OF_RANGE = 0x00, 0x01, 0x04, 0x08, 0x40
_ACCEPTED, _CRC_ERROR = 0x05, 0x0B
_POWERED_UP, _HIGH_CAPACITY, _VOLTAGES = 1 << 31, 1 << 30, 0xFF8000
_STOP_TRANSMISSION = 0x40 | 12
_NO_COMMAND = 63

_IDENTIFICATION_HZ = 400_000
_CLOCKS_BEFORE_FIRST_COMMAND = 74
_RESPONSE_DELAY, _DATA_DELAY, _BUSY, _INITIALISATION_ROUNDS = 2, 10, 20, 3
"""Delay in bytes before a response and before data, busy bytes after a write; and number of ACMD41
rounds until the card is ready."""

_Session = Generator[int, int, None]


def crc7(data: bytes | bytearray) -> int:
    """CRC-7 of a command in the upper seven bits, end bit 1 in the lowest (section 4.5)."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x12 if crc & 0x80 else crc << 1) & 0xFF
    return crc | 1


def _begins_command(byte: int) -> bool:
    return byte & 0xC0 == 0x40


def _with_crc16(data: bytes) -> bytes:
    return data + crc_hqx(data, 0).to_bytes(2, "big")


class Card:
    """The card; the bus exchanges bytes with it."""

    def __init__(self, file: BinaryIO, read_s: float = 0.0, write_s: float = 0.0) -> None:
        """Create a card.

        Args:
            file: content of the blocks; its size is a multiple of `BLOCKS_PER_UNIT` blocks.
            read_s: seconds from a read command to the first block.
            write_s: seconds that the card is busy after each written block.

        Raises:
            MachineError: No card has the file's size.
        """
        self._file = file
        self._read_s = read_s
        self._write_s = write_s
        self._now_s = 0.0
        units, rest = divmod(file.seek(0, 2), BLOCK_BYTES * BLOCKS_PER_UNIT)
        if rest or not units:
            raise MachineError(
                f"no SD card has the {file.tell():,} bytes of the storage image: a card has a "
                f"multiple of {BLOCK_BYTES * BLOCKS_PER_UNIT:,}"
            )
        self._blocks = units * BLOCKS_PER_UNIT
        self._selected = False
        self._clocks = 0
        self._rounds = 0
        self._idle = True
        self._checks_crc = False
        self._may_be_left = True
        self._left = self._was_fast = False
        self._session = self._serve()
        self._output = next(self._session)

    def select(self, selected: bool) -> None:
        """Drive the card's chip select.

        Raises:
            MachineError: The card is deselected in the middle of a command or its data.
        """
        if self._selected and not selected and not self._may_be_left:
            self._refuse("the SD card is deselected in the middle of a command or its data")
        self._selected = selected

    def leave(self) -> None:
        """Release the card in any state, as a reset of the host does."""
        self._left, self._selected = True, False

    def _refuse(self, misuse: str) -> None:
        if not self._left:
            raise MachineError(misuse)

    def exchange(self, sent: bytes, clock_hz: int, start_s: float = 0.0) -> bytes:
        """Exchange bytes with the card; returns as many bytes as are sent.

        Args:
            sent: bytes from the host.
            clock_hz: clock frequency of the bus.
            start_s: time of the first byte, in seconds.

        Raises:
            MachineError: The bytes sent violate the specification.
        """
        if not self._selected:
            self._clocks += 8 * len(sent)
            return bytes([_NOTHING]) * len(sent)
        if self._idle and clock_hz > _IDENTIFICATION_HZ:
            raise MachineError(f"the SD card is identified at {clock_hz} Hz, 400 kHz are allowed")
        if clock_hz > _IDENTIFICATION_HZ:
            self._was_fast = True
        elif self._was_fast:
            self._left = True  # the host identifies anew, since it does not know the card's state
        received = bytearray()
        for i, byte in enumerate(sent):
            self._now_s = start_s + 8 * i / clock_hz
            received.append(self._output)
            self._output = self._session.send(byte)
        return bytes(received)

    # Generators: each yields the byte that the card sends and receives the byte sent meanwhile.

    def _serve(self) -> _Session:
        application = False
        while True:
            self._may_be_left = True
            first = yield _NOTHING
            self._may_be_left = first == _NOTHING
            if first == _NOTHING or (self._left and not _begins_command(first)):
                continue
            number, argument = yield from self._command(first)
            yield from self._answer(number, argument, application)
            application = number == 55

    def _command(self, first: int) -> Generator[int, int, tuple[int, int]]:
        frame = bytearray([first])
        while len(frame) < 6:
            frame.append((yield _NOTHING))
        number = first & 0x3F
        if not _begins_command(first):
            self._refuse(f"the SD card receives 0x{first:02x}, which begins no command")
        if frame[5] != crc7(frame[:5]):
            self._refuse(f"the SD card receives CMD{number} with a wrong CRC")
            number = _NO_COMMAND
        return number, int.from_bytes(frame[1:5], "big")

    def _answer(self, number: int, argument: int, application: bool) -> _Session:
        state = _IDLE if self._idle else _READY
        if number == 0:
            self._left = self._was_fast = False
            if self._clocks < _CLOCKS_BEFORE_FIRST_COMMAND:
                raise MachineError(f"the SD card gets {self._clocks} clocks before CMD0, not 74")
            self._idle, self._rounds, self._checks_crc = True, 0, False
            yield from self._respond(_IDLE)
        elif number == 8:
            yield from self._respond(state, (argument & 0xFFF).to_bytes(4, "big"))
        elif number == 41 and application:
            self._rounds += bool(argument & _HIGH_CAPACITY)
            self._idle = self._rounds < _INITIALISATION_ROUNDS
            yield from self._respond(_IDLE if self._idle else _READY)
        elif number == 55:
            yield from self._respond(state)
        elif number == 58:
            ready = 0 if self._idle else _POWERED_UP | _HIGH_CAPACITY
            yield from self._respond(state, (ready | _VOLTAGES).to_bytes(4, "big"))
        elif number == 59:
            self._checks_crc = bool(argument & 1)
            yield from self._respond(state)
        elif self._idle:
            yield from self._respond(_IDLE | _ILLEGAL)
        elif number == 9:
            yield from self._respond(_READY)
            yield from self._send(self._data(self._csd()))
        elif number == 13:
            yield from self._respond(_READY, b"\0")
        elif number in (17, 18, 24, 25) and argument >= self._blocks:
            yield from self._respond(_OUT_OF_RANGE)
        elif number in (17, 18, 24, 25):
            yield from self._respond(_READY)
            if number == 17:
                yield from self._wait(_NOTHING, self._read_s)
                yield from self._send(self._data(self._read(argument)))
            elif number == 18:
                yield from self._read_many(argument)
            elif number == 24:
                yield from self._write(argument, _START)
            else:
                yield from self._write_many(argument)
        else:
            yield from self._respond(_ILLEGAL)

    def _respond(self, r1: int, rest: bytes = b"") -> _Session:
        yield from self._send(bytes([_NOTHING] * _RESPONSE_DELAY + [r1]) + rest)

    def _send(self, data: bytes) -> _Session:
        for byte in data:
            received = yield byte
            if received != _NOTHING:
                self._refuse(f"the SD card receives 0x{received:02x} while it answers")

    def _wait(self, sent: int, time_s: float) -> _Session:
        """Send a byte repeatedly for a time in seconds."""
        until_s = self._now_s + time_s
        while self._now_s < until_s:
            yield from self._send(bytes([sent]))

    def _busy(self) -> _Session:
        yield from self._send(bytes(_BUSY))
        yield from self._wait(0, self._write_s)

    def _data(self, data: bytes) -> bytes:
        return bytes([_NOTHING] * _DATA_DELAY + [_START]) + _with_crc16(data)

    def _read(self, block: int) -> bytes:
        self._file.seek(block * BLOCK_BYTES)
        return self._file.read(BLOCK_BYTES)

    def _stream(self, block: int) -> Iterator[int]:
        until_s = self._now_s + self._read_s
        while self._now_s < until_s:
            yield _NOTHING
        for each in range(block, self._blocks):
            yield from self._data(self._read(each))
        while True:
            yield _NOTHING

    def _read_many(self, block: int) -> _Session:
        for byte in self._stream(block):
            received = yield byte
            if received == _STOP_TRANSMISSION:
                break
            if received != _NOTHING:
                self._refuse(f"the SD card receives 0x{received:02x} while it sends")
        yield from self._command(_STOP_TRANSMISSION)
        yield from self._respond(_READY)
        yield from self._busy()

    def _write_many(self, block: int) -> _Session:
        while (yield from self._write(block, _START_OF_MANY)):
            block += 1
        yield from self._send(bytes([_NOTHING]))
        yield from self._busy()

    def _write(self, block: int, start: int) -> Generator[int, int, bool]:
        """Receive a block; returns False for the stop token of a multiple-block write."""
        while (token := (yield _NOTHING)) != start:
            if token == _STOP and start == _START_OF_MANY:
                return False
            if token != _NOTHING:
                self._refuse(f"the SD card receives 0x{token:02x} instead of a start token")
        data = bytearray()
        while len(data) < BLOCK_BYTES + 2:
            data.append((yield _NOTHING))
        intact = not self._checks_crc or crc_hqx(data, 0) == 0
        if block >= self._blocks:
            raise MachineError("the SD card is written beyond its end")
        if intact:
            self._file.seek(block * BLOCK_BYTES)
            self._file.write(data[:BLOCK_BYTES])
        yield from self._send(bytes([_ACCEPTED if intact else _CRC_ERROR]))
        yield from self._busy()
        return True

    def _csd(self) -> bytes:
        """CSD register, version 2.0 (section 5.3.3): only the fields that give the card's size."""
        csd = bytearray(15)
        csd[0] = 1 << 6
        csd[5] = 9  # READ_BL_LEN: 512 bytes
        csd[7:10] = (self._blocks // BLOCKS_PER_UNIT - 1).to_bytes(3, "big")
        return bytes([*csd, crc7(csd)])
