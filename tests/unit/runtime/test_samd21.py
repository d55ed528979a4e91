# SPDX-License-Identifier: Apache-2.0
"""The SAM D21's drivers, compiled for this computer, on a chip whose every register is checked."""

from __future__ import annotations

import ctypes
import math
import random
import re
from collections import Counter
from pathlib import Path

import chips
import pytest
from chips import OUT_OF_REACH, Trained
from samd21_chip import Chip
from sd_card import BLOCK, Card, Faults

from emulator.firmware_tools import TEMPLATES
from poetfw.tools.emulators.unicorn.samd21 import (
    DRVSTR,
    INEN,
    MISO_PIN,
    PMUXEN,
    PULLEN,
    REGISTERS,
    SPI,
    USART,
)
from poetfw.tools.link.frames import encode_command

CRYSTAL, GENERATOR, DFLL, LOCK = -48, -49, -50, -51
NO_CARD, READ, WRITE, SIZE, BUS = -16, -21, -22, -24, -25
POLLS, POLLS_PER_BYTE, POLLS_OF_CRYSTAL = 200, 40, 500
LOOK = 10_000
"""Cycles that a look at the watchdog's synchronisation takes."""
FEED = 0xA5


Board = chips.Board[Chip]


library = chips.drivers("samd21")
impatient = chips.impatient_drivers(
    "samd21", POLLS, POLLS_PER_BYTE, f"-DPOET_POLLS_OF_CRYSTAL={POLLS_OF_CRYSTAL}u"
)
listening = chips.drivers("samd21", "-DPOET_LISTEN_TICKS=2000u", "-DPOETFW_WATCHDOG_MS=20u")
here = chips.native(Board.steps)


# Start-up --------------------------------------------------------------------------------------


def test_start_up_writes_these_registers_in_this_order(library: Path) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    assert board.chip.writes == [
        ("SYSCTRL.OSC8M", 0x87070082),
        ("NVMCTRL.CTRLB", 0x82),
        ("SYSCTRL.XOSC32K", 0x060C),
        ("SYSCTRL.XOSC32K", 0x060E),
        ("GCLK.CTRL", 1),
        ("GCLK.GENDIV", 1),
        ("GCLK.GENCTRL", 0x10501),
        ("GCLK.CLKCTRL", 0x4100),
        ("SYSCTRL.DFLLCTRL", 2),
        ("SYSCTRL.DFLLMUL", 31 << 26 | 511 << 16 | 1465),
        ("SYSCTRL.DFLLCTRL", 0xA06),
        ("GCLK.GENDIV", 0),
        ("GCLK.GENCTRL", 0x30700),
        ("PMUX[54]", 3),
        ("PINCFG[54]", PMUXEN),
        ("PORT1.OUTSET", 1 << 23),
        ("PMUX[54]", 0x33),
        ("PINCFG[55]", PMUXEN | INEN | PULLEN),
        ("PM.APBCMASK", 0x10080),
        ("GCLK.CLKCTRL", 0x4019),
        ("SERCOM5.CTRLA", 1),
        ("SERCOM5.CTRLA", 0x40310004),
        ("SERCOM5.CTRLB", 3 << 16),
        ("SERCOM5.BAUD", 63019),
        ("SERCOM5.CTRLA", 0x40310006),
        ("SERCOM5.INTENSET", 4),
        ("SCB.SCR", 16),
        ("SYST.RVR", 0xFFFFFF),
        ("SYST.CVR", 0),
        ("SYST.CSR", 7),
    ]
    assert board.chip.samd21.core_hz == 48_000_000


@pytest.mark.parametrize("exponent", range(4))
def test_the_oscillator_is_divided(exponent: int) -> None:
    chip = Chip()
    assert chip.samd21.core_hz == 1_000_000
    address, size = REGISTERS["SYSCTRL.OSC8M"]
    chip.write(address, size, 0x87070082 | exponent << 8)
    assert chip.samd21.core_hz == 8_000_000 >> exponent
    assert not chip.misuse


@pytest.mark.parametrize(
    ("cause", "name"),
    [(1, "power-on"), (2, "brownout"), (4, "brownout"), (16, "pin"), (32, "watchdog"),
     (64, "software")],
)  # fmt: skip
def test_reset_causes(library: Path, cause: int, name: str) -> None:
    board = Board(library, Chip(cause=cause))
    board.library.poet_hal_reset_cause.restype = ctypes.c_char_p
    assert board.library.poet_hal_reset_cause() == name.encode()


# Input -----------------------------------------------------------------------------------------


def passing(chip: Chip) -> Chip:
    """The same, and time passes with each look at it."""

    def read(name: str) -> None:
        chip.cycles += {"SYST.CVR": 100, "WDT.STATUS": LOOK}.get(name, 0)

    chip.on_read = read
    return chip


def test_a_board_that_is_done_answers(listening: Path, here: Trained) -> None:
    chip = passing(Chip(typed=b"name%\r\nxyz%" + encode_command(7, "hello")))
    board = Board(listening, chip)
    lines = board.run()
    chips.check_answers(lines)
    assert board.weight == here.weight


# The watchdog ----------------------------------------------------------------------------------


def watched(library: Path, ms: int) -> chips.Board[Chip]:
    board = Board(library, passing(Chip()))
    assert board.start() == 0
    board.library.poet_hal_watchdog_start(ctypes.c_uint32(ms))
    return board


@pytest.mark.parametrize(
    ("ms", "divider", "period"),
    [
        (4, 2, 4),
        (20, 6, 4),
        (108, 30, 4),
        (948, 255, 4),
        (950, 125, 5),
        (10_000, 161, 8),
        (127_000, 255, 11),
    ],
)
def test_the_watchdog_counts_what_it_is_told(
    library: Path, ms: int, divider: int, period: int
) -> None:
    """At most 6 cycles pass until feeding counts: it has its time in any case."""
    chip = watched(library, ms).chip
    assert chip.misuse == []
    assert chip.values("GCLK.GENDIV")[-1] == 3 | divider << 8
    assert chip.values("GCLK.GENCTRL")[-1] == 1 << 16 | 3 << 8 | 3
    assert chip.values("GCLK.CLKCTRL")[-1] == 0x4303
    names = ("CONFIG", "EWCTRL", "INTENSET", "CTRL", "CLEAR")
    written = [[period], [period - 1], [1], [2], []]  # started, it need not be fed
    assert [chip.values(f"WDT.{name}") for name in names] == written
    assert chip.bites_at is not None
    assert chip.warns_at is not None
    started = 2 * chip.warns_at - chip.bites_at
    counted = chip.bites_at - started
    assert counted == (8 << period) * divider * 48_000_000 // 32_768
    least = counted * ((8 << period) - 6) / (8 << period)
    assert 0 <= least / 48_000 - ms <= max(0.01 * ms, 122 * 1000 / 32_768)


def test_the_watchdog_that_runs_is_fed_and_not_set_again(library: Path) -> None:
    board = watched(library, 10)
    chip = board.chip
    chip.cycles += 48_000  # of 7 ms
    board.library.poet_hal_watchdog_start(ctypes.c_uint32(10))
    assert chip.bites_at == chip.cycles + 128 * 3 * 48_000_000 // 32_768
    assert chip.values("WDT.CTRL") == [2]
    assert chip.values("WDT.INTFLAG") == [1]
    assert chip.values("WDT.CLEAR") == [FEED]
    settles = 6 * 3 * 48_000_000 // 32_768
    for _ in range(settles // LOOK):
        board.library.poet_hal_watchdog_feed()
    assert chip.values("WDT.CLEAR") == [FEED]
    board.library.poet_hal_watchdog_feed()
    assert chip.values("WDT.CLEAR") == [FEED] * 2
    assert chip.misuse == []


def test_the_application_feeds_the_watchdog(listening: Path, here: Trained) -> None:
    """By what was printed last: many times while it listens, and between ops."""
    board = Board(listening, passing(Chip()))
    fed: Counter[str] = Counter()
    passes = board.chip.on_read

    def note(name: str) -> None:
        passes(name)
        if name == "WDT.STATUS":
            words = re.findall(r"^@(?!transfers)\w+", board.chip.console.decode(), re.MULTILINE)
            fed[words[-1]] += 1

    board.chip.on_read = note
    board.run()
    assert board.weight == here.weight
    assert board.chip.values("WDT.CTRL") == [2]
    assert fed["@boot"] > 1
    assert fed["@train"] == 1  # the sample project calls its hook once
    assert fed["@step"] == 1  # the only one: it saves
    assert fed["@commit"] >= 1
    assert fed["@eval"] == 0  # of which the sample project has no ops
    assert fed["@done"] > 0
    assert board.chip.misuse == []


def test_without_a_watchdog_there_is_none(library: Path) -> None:
    board = Board(library, Chip())
    board.run()
    assert not any(name.startswith("WDT") for name, _ in board.chip.writes)


def test_a_watchdog_that_gets_no_clock_is_left_alone(impatient: Path) -> None:
    """A write to it would hold up the bus for ever."""
    board = Board(impatient, Chip())
    assert board.start() == 0
    board.chip.polls["generator"] = OUT_OF_REACH
    board.library.poet_hal_watchdog_start(ctypes.c_uint32(500))
    board.library.poet_hal_watchdog_feed()
    assert not any(name.startswith("WDT") for name, _ in board.chip.writes)


def test_a_watchdog_that_takes_no_settings_is_not_started(impatient: Path) -> None:
    board = Board(impatient, Chip())  # where no time passes
    assert board.start() == 0
    board.library.poet_hal_watchdog_start(ctypes.c_uint32(500))
    board.library.poet_hal_watchdog_feed()
    assert board.chip.values("WDT.CONFIG") == [4]
    assert board.chip.values("WDT.CTRL") == board.chip.values("WDT.CLEAR") == []
    assert board.chip.misuse == []


# Waits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "status", "polls"),
    [
        ("crystal", CRYSTAL, POLLS_OF_CRYSTAL),
        ("generator", GENERATOR, POLLS),
        ("swrst", GENERATOR, POLLS),
        ("dfll", DFLL, POLLS),
        ("lock", LOCK, POLLS - 3),  # which the clock itself takes first
    ],
)
def test_a_clock_that_does_not_come_is_reported(
    impatient: Path, what: str, status: int, polls: int
) -> None:
    """At 8 MHz, from the oscillator that runs after reset, the console still has its rate."""
    chip = Chip(polls={what: OUT_OF_REACH})
    assert Board(impatient, chip).start() == status
    assert chip.samd21.core_hz == 8_000_000
    needed_by_console = what in ("generator", "swrst")
    assert OUT_OF_REACH - chip.pending[what] == (polls + 1) * (1 + needed_by_console)
    again = Chip(polls={what: OUT_OF_REACH})
    lines = Board(impatient, again).run()
    assert again.card.commands == []
    said = [
        "@boot plan=5a3b1e00 board=sample reset=power-on",
        f"@error status={status} at=start",
    ]
    assert lines == ([] if needed_by_console else said)


@pytest.mark.parametrize("what", [USART, "USART"])
def test_a_console_that_hangs_does_not_keep_the_board_from_training(
    impatient: Path, here: Trained, what: str
) -> None:
    chip = Chip(polls={what: OUT_OF_REACH})
    board = Board(impatient, chip)
    assert len(board.run()) <= 1
    assert chip.registers.value(f"{USART}.CTRLA") & 2 == 0
    assert board.weight == here.weight


@pytest.mark.parametrize("bytes_before", [0, 200, 300, 20_000])
@pytest.mark.parametrize("how", ["no interrupt", "no reset", "a storm", "flags that stay"])
def test_a_bus_that_hangs_is_reported(impatient: Path, bytes_before: int, how: str) -> None:
    chip = Chip()
    exchange_all = chip.card.exchange_all

    def break_it() -> None:
        chip.storm = math.inf if how == "a storm" else 0
        chip.registers.stuck = how == "flags that stay"
        hangs = {"no interrupt": "SPI", "no reset": "DMAC"}
        if how in hangs:
            chip.polls[hangs[how]] = OUT_OF_REACH

    def counted(sent: bytes) -> bytes:
        if chip.card._bytes >= bytes_before:
            break_it()
        return exchange_all(sent)

    chip.card.exchange_all = counted  # type: ignore[method-assign]
    if bytes_before == 0:
        break_it()
    lines = Board(impatient, chip).run()
    if how == "no reset" and bytes_before > 0:  # nothing needs it any more
        assert lines[-1].startswith("@done")
        return
    allowed = f"({BUS}|{NO_CARD})" if how == "flags that stay" else str(BUS)
    assert re.match(f"@error status={allowed} at=", lines[-1]), lines


@pytest.mark.parametrize("exchange", [1, 2, 3, 20, *range(50, 400, 37)])
@pytest.mark.parametrize("how", ["lost", "refused"])
def test_an_exchange_that_fails_costs_nothing_but_time(
    impatient: Path, here: Trained, exchange: int, how: str
) -> None:
    """The card may be anywhere in a block: what it thinks of the host then is not looked at."""
    chip = Chip(**{how: [exchange]})
    board = Board(impatient, chip)
    assert board.run()[-1].startswith("@done")
    assert board.weight == here.weight
    assert chip.values("DMAC.CTRL").count(1) > 1  # it was reset


@pytest.mark.parametrize("what", ["generator", SPI])
def test_a_bus_that_does_not_start_stays_off(impatient: Path, what: str) -> None:
    board = Board(impatient, Chip())
    assert board.start() == 0
    board.chip.polls[what] = OUT_OF_REACH
    board.call("poet_hal_spi_init")
    board.call("poet_hal_spi_clock", 400_000)
    assert board.call("poet_hal_spi_ok") == 0
    assert board.chip.values(f"{SPI}.BAUD") == []


def test_a_bus_that_cannot_be_switched_on_stays_off(impatient: Path) -> None:
    board = Board(impatient, Chip())
    assert board.start() == 0

    def hang(name: str) -> None:
        if name == f"{SPI}.CTRLA" and board.chip.registers.value(f"{SPI}.CTRLB"):
            board.chip.polls[SPI] = OUT_OF_REACH

    board.chip.on_read = hang
    board.call("poet_hal_spi_init")
    assert board.chip.values(f"{SPI}.CTRLA")[-2:] == [0x30000E, 0x30000C]
    assert board.call("poet_hal_spi_ok") == 0


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (Faults(absent=True), NO_CARD),
        (Faults(csd=b"\xff" * 16), SIZE),
        (Faults(tokens={0: 0x01}), READ),
        (Faults(data_responses={0: 0xED}), WRITE),
    ],
)
def test_a_card_that_fails_is_reported(library: Path, faults: Faults, status: int) -> None:
    lines = Board(library, Chip(card=Card(faults=faults))).run()
    assert lines[-1].startswith(f"@error status={status} at=")


def test_the_slowest_exchange_is_waited_for(impatient: Path) -> None:
    board = Board(impatient, Chip(polls_per_byte=POLLS_PER_BYTE - 1, polls={"SPI": 0}))
    assert board.start() == 0
    assert board.call("poet_sd_open") == 0


@pytest.mark.parametrize("what", ["generator", "dfll", "lock", "USART"])
def test_waits_are_long_enough(library: Path, what: str) -> None:
    """10 ms; at 8 MHz and 4 cycles a poll, 20,000 polls."""
    board = Board(library, Chip(polls={what: 20_000}))
    assert board.start() == 0
    board.call("poet_hal_console_write", b"x", 1)
    assert board.chip.console == b"x"


def test_the_crystal_gets_twice_its_two_seconds() -> None:
    """At 8 MHz and 4 cycles a poll. So many polls would take this test half a minute."""
    wait = (TEMPLATES / "hal/samd21/wait.h").read_text()
    polls = re.findall(r"#define POET_POLLS_OF_CRYSTAL (\d+)u", wait)
    assert [int(number) >= 2 * 2 * 8_000_000 / 4 for number in polls] == [True]


# The bus ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hz", "baud"),
    [(400_000, 59), (8_000_000, 2), (7_999_999, 3), (24_000_000, 0), (50_000, 255), (93_750, 255)],
)
def test_the_clock_is_the_fastest_that_is_allowed(library: Path, hz: int, baud: int) -> None:
    board = Board(library, Chip(card=Card(faults=Faults(absent=True))))
    board.start_bus(hz)
    assert board.chip.values(f"{SPI}.BAUD") == [baud]


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_ram_need_not_be_aligned(library: Path, offset: int) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    assert board.call("poet_sd_open") == 0
    u32, data = ctypes.c_uint32, bytes(i * 5 & 0xFF for i in range(2 * BLOCK))
    source = ctypes.create_string_buffer(b"\x11" * offset + data)
    target = ctypes.create_string_buffer(b"\x11" * (offset + 2 * BLOCK + 9), offset + 2 * BLOCK + 9)
    assert board.call("poet_sd_write_begin", u32(5), ctypes.byref(source, offset), u32(2)) == 0
    assert board.call("poet_sd_wait") == 0
    assert board.call("poet_sd_read_begin", u32(5), ctypes.byref(target, offset), u32(2)) == 0
    assert board.call("poet_sd_wait") == 0
    assert target.raw == b"\x11" * offset + data + b"\x11" * 9
    assert board.chip.card.misuse == []


# Ticks -----------------------------------------------------------------------------------------


def test_ticks_count_every_wrap_once(library: Path) -> None:
    """Wherever a wrap comes: before, between or after what is read, its interrupt still to come."""
    board = Board(library, Chip())
    assert board.start() == 0
    chip, draw = board.chip, random.Random(1)
    ticks = board.library.poet_hal_ticks
    ticks.restype = ctypes.c_uint64
    step = [0]

    def passing(name: str) -> None:
        chip.cycles += draw.choice((0, 1, 5, step[0]))

    chip.on_read = passing
    last = 0
    for _ in range(3_000):
        step[0] = draw.choice((1, 100, 3_000))
        near = draw.choice((True, False))
        wrap = -chip.cycles % (1 << 24)
        chip.cycles += max(0, wrap - draw.randrange(60)) if near else 1_000_000
        while chip.cycles >> 24 > chip.handled:  # no interrupt is late by a whole wrap
            board.library.SysTick_Handler()
            chip.handled += 1
        began = chip.cycles
        now = ticks()
        assert began <= now <= chip.cycles
        assert now >= last
        last = now
    assert chip.misuse == []
    assert chip.handled > 100


# All of it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("high_capacity", [False, True], ids=["SDSC", "SDHC"])
def test_the_board_trains_as_this_computer_does(
    library: Path, here: Trained, high_capacity: bool
) -> None:
    board = Board(library, Chip(card=Card(high_capacity=high_capacity)))
    chips.check_training(board, here)
    assert board.chip.values(f"{SPI}.BAUD") == [59, 2]  # 400 kHz, 8 MHz
    assert (
        board.chip.registers.value("PINCFG[16]")
        == board.chip.registers.value("PINCFG[17]")
        == DRVSTR | PMUXEN
    )
    assert board.chip.registers.value(f"PINCFG[{MISO_PIN}]") == INEN | PULLEN | PMUXEN
