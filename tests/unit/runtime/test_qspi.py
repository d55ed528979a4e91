# SPDX-License-Identifier: Apache-2.0
"""The driver of the nRF52840's QSPI flash, compiled for this computer, on strict models of both."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable
from pathlib import Path

import chips
import pytest
from chips import Trained, compile_drivers, without_ticks
from qspi_chip import Chip, blank_flash
from sd_card import BLOCK

from emulator.firmware_tools import TEMPLATES, sample_image, slot_offset
from poetfw.tools.emulators.unicorn.flash import (
    HIGH_PERFORMANCE,
    QUAD_ENABLE,
    SECTOR_BYTES,
    SIZE_BYTES,
    Flash,
)
from poetfw.tools.emulators.unicorn.nrf52840_qspi import QSPI_ADDRESSES, READY

QSPI, NONE, PROTECTED, MODE, RANGE, READ, ERASE, PROGRAM, NOT_ERASED, NOT_PROGRAMMED = range(
    -80, -90, -1
)
PER_SECTOR = SECTOR_BYTES // BLOCK
BLOCKS = SIZE_BYTES // BLOCK
SD_FILES = ("sd.c", "sd_storage.c", "spi.c", "spi_interrupt.c")
u32 = ctypes.c_uint32


class Board(chips.Board[Chip]):  # type: ignore[type-var]
    """The drivers on a chip with a flash. It trains two steps."""

    steps = 2

    def open(self) -> int:
        """Start the flash."""
        return self.call("poet_hal_storage_open")

    def write(self, block: int, data: bytes) -> int:
        """Write blocks and wait."""
        count = u32(len(data) // BLOCK)
        begun = self.call("poet_hal_storage_write_begin", u32(block), data, count)
        return begun or self.call("poet_hal_storage_wait")

    def read(self, block: int, count: int, shift: int = 0) -> bytes | int:
        """Read blocks, or why not, into RAM that is aligned or not."""
        size = count * BLOCK
        ram = ctypes.create_string_buffer(size + 8)
        start = -ctypes.addressof(ram) % 4 + shift
        target = ctypes.byref(ram, start)
        begun = self.call("poet_hal_storage_read_begin", u32(block), target, u32(count))
        return begun or self.call("poet_hal_storage_wait") or ram.raw[start : start + size]

    @property
    def erases(self) -> int:
        """How often the driver erased, which is how often the flash was."""
        counted = self.call("poet_hal_storage_erases")
        assert counted == self.chip.flash.erases.total()
        return counted

    def run(self) -> list[str]:
        """Run the sample project on a flash with its image; the console's lines."""
        image = bytes(sample_image(steps=self.steps))
        self.chip.flash._file.seek(0)
        self.chip.flash._file.write(image)
        self.call("test_run")
        return self.chip.console.decode().splitlines()

    @property
    def weight(self) -> bytes:
        """What was trained, in the flash."""
        content = self.chip.flash.read_back(0, len(sample_image()))
        return content[slot_offset(content, "weight") :][:4]


def compile_flash(folder: Path, *flags: str) -> Path:
    return compile_drivers(folder, "nrf52840_qspi", *flags, without=SD_FILES)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With waits that end early: millions of polls take seconds here."""
    polls = "-DPOET_POLLS=1000u", "-DPOET_FLASH_POLLS=1000u"
    return compile_flash(tmp_path_factory.mktemp("flash"), *polls, "-DPOET_TRANSFERS=4u")


@pytest.fixture
def board(library: Path) -> Board:
    ready = Board(library, Chip())
    assert ready.open() == 0
    return ready


# Start -----------------------------------------------------------------------------------------


def test_blocks_are_all_of_the_flash(board: Board) -> None:
    blocks = u32()
    assert board.call("poet_hal_storage_blocks", ctypes.byref(blocks)) == 0
    assert blocks.value == BLOCKS


def test_settings_are_written_only_where_they_differ(library: Path) -> None:
    """Four lines are remembered, in cells that wear; the fast mode is not."""
    flash = blank_flash()
    flash.status, flash.configuration[:] = 0x80, b"\x08\x01"
    for _ in range(2):
        board = Board(library, Chip(flash))
        assert board.open() == 0
        assert (flash.status, bytes(flash.configuration)) == (0x80 | QUAD_ENABLE, b"\x08\x03")
    written = [v for v in board.chip.values("QSPI.CINSTRCONF") if v & 0xFF == 0x01]
    assert written == []
    flash.configuration[1] &= ~HIGH_PERFORMANCE
    assert Board(library, Chip(flash)).open() == 0
    assert flash.configuration[1] & HIGH_PERFORMANCE


@pytest.mark.parametrize("state", ["asleep", "busy"])
def test_a_flash_that_the_reset_interrupted(library: Path, state: str) -> None:
    flash = blank_flash()
    flash.asleep, flash.busy_s = state == "asleep", 0.2 * (state == "busy")
    if state == "busy":  # what it is told meanwhile, it does not hear
        flash.instruct = deaf_while_busy(flash)  # type: ignore[method-assign]
    board = Board(library, Chip(flash))
    assert board.open() == 0
    assert board.write(3, b"x" * BLOCK) == 0


def deaf_while_busy(flash: Flash):
    instruct = flash.instruct
    return lambda opcode, sent: (
        b"\xff" * len(sent) if flash.busy_s and opcode == 0xAB else instruct(opcode, sent)
    )


def test_an_event_that_was_left_is_no_end(library: Path) -> None:
    chip = Chip()
    chip.qspi._values[READY] = 1
    assert Board(library, chip).open() == 0


def test_another_flash_is_refused(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poetfw.tools.emulators.unicorn.flash._ID", b"\xc2\x28\x16")
    assert Board(library, Chip()).open() == NONE


@pytest.mark.parametrize("bit", [0x04, 0x08, 0x10, 0x20])
def test_a_protected_flash_is_refused(library: Path, bit: int) -> None:
    flash = blank_flash()
    flash.status = bit
    assert Board(library, Chip(flash)).open() == PROTECTED
    assert flash.status == bit


def test_a_flash_that_does_not_take_its_settings(library: Path) -> None:
    flash = blank_flash()
    flash.stubborn = True
    assert Board(library, Chip(flash)).open() == MODE


@pytest.mark.parametrize(
    ("what", "status"), [("activating", QSPI), ("instructing", NONE), ("waiting", NONE)]
)
def test_a_start_that_does_not_end(library: Path, what: str, status: int) -> None:
    chip = Chip(held_up=[what])
    assert Board(library, chip).open() == status
    assert chip.reads_in_thread < 5_000


# Transfers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_what_is_written_is_read(board: Board, seed: int) -> None:
    """Anything at any place, four transfers at a time, to RAM at any address."""
    rng = random.Random(seed)
    area = 5 * PER_SECTOR
    first = rng.choice([0, 8, 11, BLOCKS - area])
    expected = bytearray(b"\xff" * area * BLOCK)
    for _ in range(25):
        transfers, kept = [], []
        for _ in range(rng.randint(1, 4)):
            block = rng.randrange(area)
            count = rng.randint(1, min(area - block, rng.choice([1, 3, 20])))
            data = rng.choice([rng.randbytes(count * BLOCK), bytes(count * BLOCK)])
            kept.append(data)
            expected[block * BLOCK : (block + count) * BLOCK] = data
            arguments = u32(first + block), data, u32(count)
            assert board.call("poet_hal_storage_write_begin", *arguments) == 0
            transfers.append(count)
        assert [board.call("poet_hal_storage_wait") for _ in transfers] == [0] * len(transfers)
        block = rng.randrange(area)
        count = rng.randint(1, area - block)
        there = expected[block * BLOCK : (block + count) * BLOCK]
        assert board.read(first + block, count, rng.choice([0, 1, 2])) == there
    assert board.chip.flash.read_back(first * BLOCK, len(expected)) == expected
    assert board.erases > 20


def test_a_long_read_is_split(board: Board) -> None:
    content = random.Random(1).randbytes(600 * BLOCK)
    board.chip.flash._file.seek(0)
    board.chip.flash._file.write(content)
    ram = ctypes.create_string_buffer(len(content))
    board.chip._places[0x20100000] = ctypes.addressof(ram)
    board.chip._places[0x20120000] = ctypes.addressof(ram) + 0x20000
    board.chip._places[0x20140000] = ctypes.addressof(ram) + 0x40000
    assert board.call("poet_hal_storage_read_begin", u32(0), ram, u32(600)) == 0
    assert board.call("poet_hal_storage_wait") == 0
    assert ram.raw == content
    assert board.chip.values("QSPI.READ.CNT") == [0x20000, 0x20000, 600 * BLOCK - 0x40000]


def test_only_what_must_be_erased_is(board: Board) -> None:
    sector = bytes(range(256)) * 16
    steps = [
        (sector, 0),  # blank: nothing to erase
        (sector, 0),  # the same
        (bytes(value & 0x0F for value in sector), 0),  # bits are cleared
        (sector, 1),  # and set
    ]
    for data, erases in steps:
        before, written = board.erases, len(board.chip.values("QSPI.WRITE.DST"))
        same = board.read(PER_SECTOR, PER_SECTOR) == data
        assert board.write(PER_SECTOR, data) == 0
        assert board.erases - before == erases
        assert (len(board.chip.values("QSPI.WRITE.DST")) == written) == same
        assert board.read(PER_SECTOR, PER_SECTOR) == data


def test_blank_pages_are_not_written(board: Board) -> None:
    page = b"\x00" * 256
    assert board.write(0, b"\xff" * 256 + page + b"\xff" * 256 + page) == 0
    assert board.chip.values("QSPI.WRITE.DST") == [256, 768]


@pytest.mark.parametrize("first", [0, 3])
def test_what_is_forgotten_is_not_erased_twice(board: Board, first: int) -> None:
    """A slot is written in two parts: as if a sector were erased for each of its parts, else."""
    old, neighbour = random.Random(2).randbytes(20 * BLOCK), b"\x5a" * BLOCK
    assert board.write(first, old) == board.write(first + 20, neighbour) == 0
    for forget, erases in ((False, 4), (True, 3)):
        before, new = board.erases, random.Random(first + forget).randbytes(20 * BLOCK)
        if forget:
            board.call("poet_hal_storage_forget", u32(first), u32(20))
        assert board.write(first, new[: 19 * BLOCK]) == board.write(first + 19, new[-BLOCK:]) == 0
        assert board.erases - before == erases
        assert board.read(first, 20) == new
        assert board.read(first + 20, 1) == neighbour


def test_what_was_written_is_remembered_again(board: Board) -> None:
    data = random.Random(3).randbytes(3 * BLOCK)
    board.call("poet_hal_storage_forget", u32(8), u32(3))
    assert board.write(8, data) == 0
    assert board.write(8, b"\xff" * BLOCK) == 0
    assert board.read(8, 3) == b"\xff" * BLOCK + data[BLOCK:]


def test_forgetting_ends_where_something_else_is_written(board: Board) -> None:
    assert board.write(0, b"\0" * SECTOR_BYTES) == 0
    board.call("poet_hal_storage_forget", u32(0), u32(8))
    assert board.write(1, b"\xa5" * BLOCK) == 0
    assert board.read(0, 8) == b"\0" * BLOCK + b"\xa5" * BLOCK + b"\0" * 6 * BLOCK


@pytest.mark.parametrize(
    ("block", "count"), [(BLOCKS, 1), (BLOCKS - 1, 2), (2**32 - 1, 2), (1, BLOCKS), (0, 2**32 - 1)]
)
def test_beyond_the_end(board: Board, block: int, count: int) -> None:
    ram = ctypes.create_string_buffer(BLOCK)
    for name in ("read", "write"):
        begin = f"poet_hal_storage_{name}_begin"
        assert board.call(begin, u32(block), ram, u32(count)) == RANGE
    board.call("poet_hal_storage_forget", u32(block), u32(count))
    assert board.call("poet_hal_storage_wait") == 0


# What fails ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "status"),
    [("reading", READ), ("erasing", ERASE), ("waiting", ERASE), ("programming", PROGRAM)],
)
def test_what_does_not_end_is_given_up(library: Path, what: str, status: int) -> None:
    """All else fails like it, until the flash is opened again."""
    chip = Chip()
    board = Board(library, chip)
    assert board.open() == 0
    assert board.write(0, b"\0" * BLOCK) == 0
    reads = chip.reads_in_thread
    chip.qspi.held_up = [what]
    data = b"\1" * BLOCK
    for block in (0, 1):
        assert board.call("poet_hal_storage_write_begin", u32(block), data, u32(1)) == 0
    assert [board.call("poet_hal_storage_wait") for _ in range(3)] == [status, status, 0]
    assert chip.reads_in_thread - reads < 5_000
    assert board.read(0, 1) == status
    assert chip.qspi.value("QSPI.ENABLE") == 0
    chip.qspi.held_up = []
    chip.flash.settle()
    assert board.open() == 0
    assert board.write(0, data) == 0
    assert board.read(0, 1) == data


def test_waiting_for_a_page_that_does_not_end(library: Path) -> None:
    chip = Chip()
    board = Board(library, chip)
    assert board.open() == 0
    chip.qspi.held_up = ["waiting"]
    assert board.write(0, b"\0" * BLOCK) == PROGRAM


@pytest.mark.parametrize(("old", "status"), [(0x00, NOT_ERASED), (0xFF, NOT_PROGRAMMED)])
def test_a_sector_that_is_worn_out(board: Board, old: int, status: int) -> None:
    """The others still work."""
    flash = board.chip.flash
    flash._file.seek(SECTOR_BYTES)
    flash._file.write(bytes([old]) * SECTOR_BYTES)
    flash.bad_sectors = [1]
    assert board.write(PER_SECTOR + 2, b"\xa5" * BLOCK) == status
    assert board.write(0, b"\xa5" * BLOCK) == 0
    assert board.read(0, 1) == b"\xa5" * BLOCK


def test_interrupts_that_are_lost_cost_nothing(board: Board) -> None:
    board.chip._enabled = None
    data = random.Random(4).randbytes(12 * BLOCK)
    assert board.write(0, data) == board.write(0, data[::-1]) == 0
    assert board.read(0, 12, 1) == data[::-1]


def test_what_was_given_up_does_not_end_what_was_begun_since(board: Board) -> None:
    assert board.open() == 0
    registers = board.chip.registers
    ends: list[Callable[[], None]] = []
    board.chip.after = lambda cycles, end: ends.append(end)  # type: ignore[method-assign]
    for name, value in ((READY, 0), *(("DEACTIVATE", 1), ("ACTIVATE", 1)) * 2):
        name = name if name == READY else f"QSPI.TASKS_{name}"
        registers.writable[QSPI_ADDRESSES[name]](value)
    for end, is_ready in zip(ends, (0, 1), strict=True):
        end()
        assert board.chip.qspi.value(READY) == is_ready


@pytest.mark.parametrize("how", ["a storm", "an event that stays"])
def test_interrupts_for_nothing_end(library: Path, how: str) -> None:
    chip = Chip()
    board = Board(library, chip)
    assert board.open() == 0
    chip.storm = math.inf if how == "a storm" else 0
    chip.qspi.stuck = how != "a storm"
    assert board.read(0, 1) in (READ, bytes(b"\xff" * BLOCK))
    assert chip.qspi.value("QSPI.ENABLE") == 0 or how == "an event that stays"


def test_a_few_interrupts_for_nothing_are_ignored(library: Path) -> None:
    chip = Chip()
    board = Board(library, chip)
    data = random.Random(4).randbytes(BLOCK)
    assert board.open() == 0
    chip.storm = 10
    assert board.write(0, data) == 0
    assert (board.read(0, 1), chip.storm) == (data, 0)


def test_waits_are_long_enough() -> None:
    """A sector takes up to 240 ms to erase; at 64 MHz and 4 cycles a poll, twice that."""
    text = (TEMPLATES / "hal/nrf52840_qspi/flash.c").read_text()
    (polls,) = [line.split()[2] for line in text.splitlines() if "POET_FLASH_POLLS " in line]
    assert 4 * int(polls.removesuffix("u")) >= 2 * 0.24 * 64_000_000


# All of it -------------------------------------------------------------------------------------


here = chips.native(Board.steps)


def test_the_board_trains_as_with_a_card(library: Path, here: Trained) -> None:
    board = Board(library, Chip())
    lines = board.run()
    *same, erases = without_ticks(lines[-1]).split()
    assert [*map(without_ticks, lines[:-1]), " ".join(same)] == [*map(without_ticks, here.lines)]
    assert erases == f"erases={board.chip.flash.erases.total()}"
    assert board.weight == here.weight
