# SPDX-License-Identifier: Apache-2.0
"""The STM32F405's drivers, compiled for this computer, on a chip that checks every register."""

from __future__ import annotations

import ctypes
from pathlib import Path

import chips
import pytest
from chips import Trained
from sd_card import Card, Faults
from stm32f405_chip import AFTER_RESET, FROM_BOOTLOADER, OUT_OF_REACH, SPE, UE, Chip

from poetfw.tools.link.frames import encode_command

OSCILLATOR, CRYSTAL, FLASH, PLL, SWITCH = -64, -65, -66, -67, -68
NO_CARD, BUS = -16, -25
POLLS, POLLS_PER_BYTE = 200, 40
CONTROL = 0x304  # of SPI1: master, its own select


Board = chips.Board[Chip]


library = chips.drivers("stm32f405")
impatient = chips.impatient_drivers("stm32f405", POLLS, POLLS_PER_BYTE)
listening = chips.drivers("stm32f405", "-DPOET_LISTEN_TICKS=2000u")
here = chips.native(Board.steps)


# Start-up --------------------------------------------------------------------------------------


def test_start_up_writes_these_registers_in_this_order(library: Path) -> None:
    board = Board(library, Chip(registers={**AFTER_RESET, "DBGMCU.CR": 0x26}))
    assert board.start() == 0
    assert board.chip.writes == [
        ("DBGMCU.CR", 0x27),
        ("RCC.CSR", 0x0F000000),
        ("RCC.CR", 0x83),
        ("RCC.CFGR", 0),
        ("RCC.CR", 0x83),
        ("RCC.CR", 0x10083),
        ("FLASH.ACR", 0x605),
        ("RCC.PLLCFGR", 0x07405408),
        ("RCC.CR", 0x01030083),
        ("RCC.CFGR", 0x9400),
        ("RCC.CFGR", 0x9402),
        ("RCC.AHB1ENR", 0x00100001),
        ("GPIOA.OSPEEDR", 0x0C080000),
        ("GPIOA.PUPDR", 0x64040000),
        ("GPIOA.AFRH", 0x70),
        ("GPIOA.MODER", 0xA8080000),
        ("RCC.AHB1ENR", 0x00100001),
        ("GPIOA.OSPEEDR", 0x0C280000),
        ("GPIOA.PUPDR", 0x64140000),
        ("GPIOA.AFRH", 0x770),
        ("GPIOA.MODER", 0xA8280000),
        ("RCC.APB2ENR", 0x10),
        ("USART1.BRR", 729),
        ("USART1.CR1", 0x202C),
        ("SCB.SCR", 16),
        ("SYST.RVR", 0xFFFFFF),
        ("SYST.CVR", 0),
        ("SYST.CSR", 7),
    ]
    assert board.chip.core_hz == 168_000_000


def test_it_starts_from_a_bootloader_that_runs_on_the_pll(library: Path, here: Trained) -> None:
    board = Board(library, Chip(registers=dict(FROM_BOOTLOADER)))
    assert board.run()[0].startswith("@boot")
    assert board.weight == here.weight
    assert board.chip.core_hz == 168_000_000


@pytest.mark.parametrize(
    ("flags", "name"),
    [(0x0E, "power-on"), (0x06, "brownout"), (0x04, "pin"), (0x14, "software"),
     (0x24, "watchdog"), (0x44, "watchdog"), (0x84, "low-power")],
)  # fmt: skip
def test_reset_causes(library: Path, flags: int, name: str) -> None:
    board = Board(library, Chip(registers={**AFTER_RESET, "RCC.CSR": flags << 24}))
    assert board.start() == 0
    board.library.poet_hal_reset_cause.restype = ctypes.c_char_p
    assert board.library.poet_hal_reset_cause() == name.encode()
    assert board.chip.value("RCC.CSR") == 0  # or the next one would be this one


# Input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("overrun", [False, True])
def test_a_board_that_is_done_answers(listening: Path, here: Trained, overrun: bool) -> None:
    chip = Chip(typed=b"name%\r\nxyz%" + encode_command(7, "hello"), overrun=overrun)

    def passing(name: str) -> None:
        chip.cycles += 100 * (name == "SYST.CVR")

    chip.on_read = passing
    board = Board(listening, chip)
    lines = board.run()
    chips.check_answers(lines)
    assert board.weight == here.weight


def test_what_was_lost_is_no_character(library: Path) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    text = ctypes.create_string_buffer(4)
    for heard, overrun in ((b"", False), (b"", True), (b"a", False), (b"b", True)):
        board.chip._heard, board.chip.overrun = list(heard), overrun
        assert board.call("poet_hal_console_read", text, 4) == len(heard)
        assert text.raw[: len(heard)] == heard
        assert board.call("poet_usart_has_input") == 0


# Waits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ("hsi", OSCILLATOR),
        ("stop", OSCILLATOR),
        ("crystal", CRYSTAL),
        ("flash", FLASH),
        ("pll", PLL),
        ("switch", SWITCH),
    ],
)
def test_a_clock_that_does_not_come_is_reported(impatient: Path, what: str, status: int) -> None:
    """At 16 MHz, from the oscillator that runs after reset, the console still has its rate."""

    registers = dict(FROM_BOOTLOADER if what == "stop" else AFTER_RESET)
    if what == "hsi":
        registers["RCC.CR"] = 0x01000080  # on a PLL without a source, which is no better
    reads: list[str] = []
    chip = Chip(registers=dict(registers), polls={what: OUT_OF_REACH}, on_read=reads.append)
    assert Board(impatient, chip).start() == status
    assert chip.core_hz == 16_000_000
    assert POLLS < len(reads) < 2 * POLLS
    again = Chip(registers=registers, polls={what: OUT_OF_REACH})
    lines = Board(impatient, again).run()
    assert again.card.commands == []
    assert lines[-1] == f"@error status={status} at=start"


def test_a_console_that_hangs_does_not_keep_the_board_from_training(
    impatient: Path, here: Trained
) -> None:
    chip = Chip(polls={"USART": OUT_OF_REACH})
    board = Board(impatient, chip)
    assert len(board.run()) <= 1
    assert chip.value("USART1.CR1") & UE == 0
    assert len(chip.values("USART1.DR")) == 1  # no other byte is even tried
    assert chip.pending["USART"] > OUT_OF_REACH - 3 * POLLS
    assert board.weight == here.weight


@pytest.mark.parametrize("bytes_before", [0, 40, 3_000])
def test_a_bus_that_hangs_is_reported(impatient: Path, bytes_before: int) -> None:
    chip = Chip()
    exchange = chip.card.exchange

    def counted(byte: int) -> int:
        if chip.card._bytes >= bytes_before:
            chip.polls["SPI"] = OUT_OF_REACH
        return exchange(byte)

    chip.card.exchange = counted  # type: ignore[method-assign]
    lines = Board(impatient, chip).run()
    assert lines[-1].startswith(f"@error status={BUS} at=")
    assert chip.value("SPI1.CR1") & SPE == 0


def test_what_a_bus_that_hangs_receives_is_ones(impatient: Path) -> None:
    board = Board(impatient, Chip())
    board.start_bus()
    board.chip.polls["SPI"] = OUT_OF_REACH
    for _ in range(2):
        ram = ctypes.create_string_buffer(b"\x11" * 8)
        board.call("poet_hal_spi_begin", None, ram, 4)
        assert ram.raw[:8] == b"\xff" * 4 + b"\x11" * 4
        assert board.call("poet_hal_spi_ok") == 0
    assert len(board.chip.values("SPI1.DR")) == 1  # none but the first transfer's
    board.call("poet_hal_spi_clock", 400_000)
    assert board.call("poet_hal_spi_ok") == 0
    board.chip.polls.clear()
    board.call("poet_hal_spi_init")
    board.call("poet_hal_spi_begin", b"abc", None, 3)
    assert board.call("poet_hal_spi_ok") == 1


def test_a_card_that_fails_is_reported(library: Path) -> None:
    lines = Board(library, Chip(card=Card(faults=Faults(absent=True)))).run()
    assert lines[-1].startswith(f"@error status={NO_CARD} at=")


@pytest.mark.parametrize("what", ["crystal", "pll", "USART"])
def test_waits_are_long_enough(library: Path, what: str) -> None:
    """5 ms; at 16 MHz and 4 cycles a poll, 20,000 polls."""
    board = Board(library, Chip(polls={what: 20_000}))
    assert board.start() == 0
    board.call("poet_hal_console_write", b"xy", 2)
    assert board.chip.console == b"xy"


def test_the_slowest_byte_is_waited_for(library: Path) -> None:
    """A bit takes 256 cycles of a bus at half the core's clock; a poll takes 4 of the core's."""
    board = Board(library, Chip())
    board.start_bus(1)
    board.chip.polls["SPI"] = 8 * 256 * 2 // 4
    board.call("poet_hal_spi_begin", None, bytes(4), 4)
    assert board.call("poet_hal_spi_ok") == 1


# The bus, ticks, and all of it -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("hz", "log2"),
    [(400_000, 8), (8_000_000, 4), (5_250_000, 4), (5_249_999, 5), (42_000_000, 1), (1, 8)],
)
def test_the_clock_is_the_fastest_that_is_allowed(library: Path, hz: int, log2: int) -> None:
    board = Board(library, Chip(card=Card(faults=Faults(absent=True))))
    board.start_bus(hz)
    assert board.chip.value("SPI1.CR1") == CONTROL | (log2 - 1) << 3 | SPE


@pytest.mark.parametrize("count", [1, 2, 512])
def test_what_is_sent_and_received(library: Path, count: int) -> None:
    board = Board(library, Chip())
    sent: list[int] = []

    def exchange(byte: int) -> int:
        sent.append(byte)
        return byte * 7 & 0xFF

    board.start_bus()
    board.chip.card.exchange = exchange  # type: ignore[method-assign]
    data = bytes(i * 5 & 0xFF for i in range(count))
    ram = ctypes.create_string_buffer(b"\x11" * (count + 1), count + 1)
    board.call("poet_hal_spi_begin", data, ram, count)
    assert bytes(sent) == data
    assert ram.raw == bytes(byte * 7 & 0xFF for byte in data) + b"\x11"
    board.call("poet_hal_spi_begin", None, None, count)
    assert bytes(sent[count:]) == b"\xff" * count


def test_ticks_are_cycles_and_wrap_unseen(library: Path) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    ticks = board.library.poet_hal_ticks
    ticks.restype = ctypes.c_uint64
    for cycles, handled in ((5, 0), (1 << 24, 0), (1 << 24, 1), (3 << 24 | 7, 3)):
        board.chip.cycles = cycles
        while board.chip.handled < handled:
            board.library.SysTick_Handler()
            board.chip.handled += 1
        assert ticks() == cycles
    assert board.chip.misuse == []


@pytest.mark.parametrize("high_capacity", [False, True], ids=["SDSC", "SDHC"])
def test_the_board_trains_as_this_computer_does(
    library: Path, here: Trained, high_capacity: bool
) -> None:
    board = Board(library, Chip(card=Card(high_capacity=high_capacity)))
    chips.check_training(board, here)
    assert board.chip.value("SPI1.CR1") == CONTROL | 3 << 3 | SPE  # 84 MHz / 16
