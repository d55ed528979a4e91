# SPDX-License-Identifier: Apache-2.0
"""The nRF52840's drivers, compiled for this computer, on a chip whose every register is checked."""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import chips
import pytest
from chips import OUT_OF_REACH, Trained, compile_drivers
from nrf52840_chip import RESET_PIN, Chip
from sd_card import BLOCK, Card, Faults

from emulator.firmware_tools import TEMPLATES
from poetfw.tools.emulators.unicorn.nrf52840 import (
    CLOCK_PIN,
    CONSOLE_PIN,
    CRYSTAL_STARTED,
    ENDRX_STARTRX,
    ERASED,
    FLASH_READY,
    HIGH_DRIVE,
    INPUT_PULLUP,
    LISTENING_PIN,
    MISO_PIN,
    MOSI_PIN,
    OUTPUT,
    RESET_PINS,
    RXDRDY,
    SELECT_PIN,
    SPI_STOPPED,
    TEXT_SENT,
)
from poetfw.tools.link.frames import encode_command

CRYSTAL, RESET_PIN_STATUS, RESET_STATUS = -32, -33, -34
NO_CARD, COMMAND, BUS, BUSY = -16, -19, -25, -27
POLLS, POLLS_PER_BYTE = 1000, 40


class Board(chips.Board[Chip]):
    """Trains two steps."""

    steps = 2


FEED = 0x6E524635


library = chips.drivers("nrf52840")
impatient = chips.impatient_drivers("nrf52840", POLLS, POLLS_PER_BYTE)
queueing = chips.drivers("nrf52840", "-DPOET_TRANSFERS=4u")
listening = chips.drivers("nrf52840", "-DPOET_LISTEN_TICKS=2000u", "-DPOETFW_WATCHDOG_MS=500u")
here = chips.native(Board.steps)


# Start-up --------------------------------------------------------------------------------------


def test_start_up_writes_these_registers_in_this_order(library: Path) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    assert board.chip.writes == [
        ("APPROTECT.DISABLE", 0x5A),
        ("POWER.RESETREAS", 0),
        ("POWER.DCDCEN", 1),
        ("CLOCK.EVENTS_HFCLKSTARTED", 0),
        ("CLOCK.TASKS_HFCLKSTART", 1),
        ("NVMC.ICACHECNF", 1),
        ("P0.OUTSET", 1 << CONSOLE_PIN),
        (f"PIN_CNF[{CONSOLE_PIN}]", OUTPUT),
        ("UARTE.PSEL.TXD", CONSOLE_PIN),
        (f"PIN_CNF[{LISTENING_PIN}]", INPUT_PULLUP),
        ("UARTE.PSEL.RXD", LISTENING_PIN),
        ("UARTE.PSEL.RTS", 0xFFFFFFFF),
        ("UARTE.PSEL.CTS", 0xFFFFFFFF),
        ("UARTE.BAUDRATE", 0x01D60000),
        ("UARTE.CONFIG", 0),
        ("UARTE.ENABLE", 8),
        ("UARTE.RXD.PTR", 0x20000000),
        ("UARTE.RXD.MAXCNT", 32),
        ("UARTE.SHORTS", ENDRX_STARTRX),
        ("UARTE.INTENSET", RXDRDY),
        ("SCB.SCR", 1 << 4),  # SEVONPEND
        ("UARTE.TASKS_STARTRX", 1),
        ("DEMCR", 1 << 24),
        ("DWT.CYCCNT", 0),
        ("DWT.CTRL", 1),
        ("SYST.RVR", 0xFFFFFF),
        ("SYST.CVR", 0),
        ("SYST.CSR", 7),
    ]


@pytest.mark.parametrize(("build_code", "written"), [(4, []), (5, [0x5A]), (ERASED, [0x5A])])
def test_debug_access_is_allowed_where_it_needs_to_be(
    library: Path, build_code: int, written: list[int]
) -> None:
    """The register is there from build code F (silicon revision 3) on."""
    board = Board(library, Chip(build_code=build_code))
    assert board.start() == 0
    assert board.chip.values("APPROTECT.DISABLE") == written


def test_the_converter_stays_off_without_its_inductor(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    library = compile_drivers(tmp_path_factory.mktemp("chip"), "nrf52840", "-DPOET_DCDC_INDUCTOR=0")
    board = Board(library, Chip(inductor=False))
    assert board.start() == 0
    assert board.chip.values("POWER.DCDCEN") == []


def test_reset_reasons_are_read_and_cleared(library: Path) -> None:
    chip = Chip(kept={**dict.fromkeys(RESET_PINS, RESET_PIN), "POWER.RESETREAS": 1 << 2})
    board = Board(library, chip)
    assert board.start() == 0
    assert chip.registers.value("POWER.RESETREAS") == 0
    board.library.poet_hal_reset_cause.restype = ctypes.c_char_p
    assert board.library.poet_hal_reset_cause() == b"software"


# The reset pin ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "written"),
    [
        (ERASED, ERASED, [0, 1]),
        (RESET_PIN, ERASED, [1]),
        (ERASED, RESET_PIN, [0]),
        (0x7FFFFFC0 | RESET_PIN, ERASED, [1]),  # bits without meaning
    ],
)
def test_the_reset_pin_is_set_once_and_then_in_force(
    library: Path, first: int, second: int, written: list[int]
) -> None:
    """Also where power failed between the two words."""
    chip = Chip(kept=dict(zip(RESET_PINS, (first, second), strict=True)))
    board = Board(library, chip)
    assert board.start() == RESET_STATUS  # this chip goes on all the same
    assert chip.reset
    flash = [(name, v) for name, v in chip.writes if name.startswith(("UICR", "NVMC.CONFIG"))]
    assert flash == [
        ("NVMC.CONFIG", 1),
        *((f"UICR.PSELRESET[{i}]", RESET_PIN) for i in written),
        ("NVMC.CONFIG", 0),
    ]
    again = Chip(kept=chip.nrf52840.kept())
    assert Board(library, again).start() == 0
    assert not again.reset
    assert again.values("NVMC.CONFIG") == []


@pytest.mark.parametrize(
    ("first", "second"),
    [(21, 21), (RESET_PIN, 21), (21, ERASED), (ERASED, 21), (32 + RESET_PIN, ERASED)],
)
def test_another_reset_pin_is_left_as_it_is(library: Path, first: int, second: int) -> None:
    chip = Chip(kept=dict(zip(RESET_PINS, (first, second), strict=True)))
    assert Board(library, chip).start() == 0
    assert not chip.reset
    assert chip.values("NVMC.CONFIG") == []


def test_bits_without_meaning_do_not_make_another_pin(library: Path) -> None:
    chip = Chip(kept=dict.fromkeys(RESET_PINS, 0x7FFFFFC0 | RESET_PIN))
    assert Board(library, chip).start() == 0
    assert chip.values("NVMC.CONFIG") == []


def test_flash_that_does_not_take_the_pin_does_not_reset_for_ever(library: Path) -> None:
    chip = Chip(kept=dict.fromkeys(RESET_PINS, ERASED), takes_pin=False)
    assert Board(library, chip).start() == RESET_PIN_STATUS
    assert not chip.reset
    assert chip.registers.value("NVMC.CONFIG") == 0


def test_flash_that_stays_busy_is_given_up(impatient: Path) -> None:
    """Nothing is written to it then."""
    chip = Chip(kept=dict.fromkeys(RESET_PINS, ERASED), polls={FLASH_READY: OUT_OF_REACH})
    assert Board(impatient, chip).start() == RESET_PIN_STATUS
    assert not chip.reset
    assert chip.values("UICR.PSELRESET[0]") == []


# The watchdog ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ms", "count"), [(1, 32), (2, 65), (1000, 32_767), (131_072_000, 0xFFFFFFFF)]
)
def test_the_watchdog_counts_what_it_is_told(library: Path, ms: int, count: int) -> None:
    """Not less: (count + 1) / 32,768 seconds (section 6.36)."""
    board = Board(library, Chip())
    assert board.start() == 0
    board.library.poet_hal_watchdog_start(ctypes.c_uint32(ms))
    assert board.chip.misuse == []
    names = ("CRV", "CONFIG", "TASKS_START", "RR[0]")
    assert [board.chip.values(f"WDT.{name}") for name in names] == [[count], [0], [1], [FEED]]
    cycles = (board.chip.bites_at or 0) - board.chip.cycles
    assert 0 <= cycles - 64_000 * ms <= 64_000_000 / 32_768


def test_the_watchdog_that_runs_is_fed_and_not_set_again(library: Path) -> None:
    board = Board(library, Chip())
    assert board.start() == 0
    for _ in range(2):
        board.library.poet_hal_watchdog_start(ctypes.c_uint32(10))
    before = board.chip.bites_at
    assert before is not None
    assert board.library.poet_hal_ticks() > 0
    board.library.poet_hal_watchdog_feed()
    assert board.chip.bites_at == before + 100  # a look at the counter
    assert board.chip.values("WDT.TASKS_START") == [1]
    assert board.chip.values("WDT.RR[0]") == [FEED] * 3
    assert board.chip.misuse == []


def test_the_application_feeds_the_watchdog(listening: Path, here: Trained) -> None:
    """By what was printed last: many times while it listens, and between ops."""
    board = Board(listening, Chip())
    fed: Counter[str] = Counter()
    watch = board.chip.watch

    def note(cycles: int) -> None:
        words = re.findall(r"^@(?!transfers)\w+", board.chip.console.decode(), re.MULTILINE)
        fed[words[-1]] += 1
        watch(cycles)

    board.chip.watch = note  # type: ignore[method-assign]
    board.run()
    assert board.weight == here.weight
    assert board.chip.values("WDT.TASKS_START") == [1]
    assert fed["@boot"] > 10
    assert fed["@train"] == 1  # the sample project calls its hook once
    assert fed["@step"] == 1 + 1 + 1  # it listens, its hook, and saves
    assert fed["@commit"] >= 1
    assert fed["@eval"] == 0  # of which the sample project has no ops
    assert fed["@done"] > 0


def test_without_a_watchdog_there_is_none(library: Path, here: Trained) -> None:
    board = Board(library, Chip())
    board.run()
    assert not any(name.startswith("WDT") for name, _ in board.chip.writes)


# Waits -----------------------------------------------------------------------------------------


def test_a_crystal_that_does_not_start_is_reported(impatient: Path) -> None:
    chip = Chip(polls={CRYSTAL_STARTED: OUT_OF_REACH})
    board = Board(impatient, chip)
    assert board.run() == [
        "@boot plan=5a3b1e00 board=sample reset=power-on",
        f"@error status={CRYSTAL} at=start",
    ]
    waited = OUT_OF_REACH - chip.pending[CRYSTAL_STARTED]
    assert waited == POLLS + 1
    assert chip.card.commands == []


@pytest.mark.parametrize("event", ["ENDTX", "TXSTOPPED"])
def test_a_console_that_hangs_does_not_keep_the_board_from_training(
    impatient: Path, here: Trained, event: str
) -> None:
    chip = Chip(polls={f"UARTE.EVENTS_{event}": OUT_OF_REACH})
    board = Board(impatient, chip)
    assert len(board.run()) <= 1
    assert chip.values("UARTE.ENABLE") == [8, 0]
    assert OUT_OF_REACH - chip.pending[f"UARTE.EVENTS_{event}"] == POLLS + 1  # once, not per text
    assert board.weight == here.weight


@pytest.mark.parametrize("bytes_before", [0, 200, 300, 20_000])
@pytest.mark.parametrize("how", ["no interrupt", "a storm", "an event that stays"])
def test_a_bus_that_hangs_is_reported(impatient: Path, bytes_before: int, how: str) -> None:
    chip = Chip()
    after(chip, bytes_before, lambda: break_bus(chip, how))
    lines = Board(impatient, chip).run()
    allowed = f"({BUS}|{NO_CARD}|{BUSY})" if how == "an event that stays" else str(BUS)
    assert re.match(f"@error status={allowed} at=", lines[-1]), lines
    assert chip.registers.value("SPIM.ENABLE") == 0 or how == "no interrupt"


def break_bus(chip: Chip, how: str) -> None:
    chip.storm = math.inf if how == "a storm" else 0
    chip.registers.stuck = how == "an event that stays"
    if how == "no interrupt":
        chip.polls["SPI"] = OUT_OF_REACH


def after(chip: Chip, bytes_before: int, act: Callable[[], None]) -> None:
    """Do something after so many bytes on SPI."""
    exchange_all = chip.card.exchange_all

    def counted(sent: bytes) -> bytes:
        if chip.card._bytes >= bytes_before:
            act()
        return exchange_all(sent)

    chip.card.exchange_all = counted  # type: ignore[method-assign]
    if bytes_before == 0:
        act()


@pytest.mark.parametrize("exchange", [1, 2, 3, 20, *range(50, 740, 37)])
def test_an_interrupt_that_is_lost_costs_nothing_but_time(
    impatient: Path, here: Trained, exchange: int
) -> None:
    """The card may be anywhere in a block: what it thinks of the host then is not looked at."""
    chip = Chip(lost=[exchange])
    board = Board(impatient, chip)
    assert board.run()[-1].startswith("@done")
    assert board.weight == here.weight
    assert len(chip.values("SPIM.ENABLE")) > 2


def test_a_bus_is_switched_off_once_it_has_stopped(impatient: Path) -> None:
    """Until then its DMA may write to RAM; a bus that does not stop is given up in the end."""
    stops = [(SPI_STOPPED, 0), ("SPIM.TASKS_STOP", 1), ("SPIM.ENABLE", 0)]
    board = Board(impatient, Chip(lost=[1]))
    board.start_bus()
    assert board.chip.values("SPIM.TASKS_STOP") == []  # there is nothing to stop
    byte = ctypes.create_string_buffer(1)
    assert board.call("poet_hal_spi_begin", None, byte, 1) == 0
    before = len(board.chip.writes)
    board.call("poet_hal_spi_init")
    written = [item for item in board.chip.writes[before:] if item[0].startswith("SPIM")]
    assert written[:3] == stops
    assert board.chip.pending[SPI_STOPPED] == 0

    board = Board(impatient, Chip(lost=[1], polls={SPI_STOPPED: OUT_OF_REACH}))
    board.start_bus()
    assert board.call("poet_hal_spi_begin", None, byte, 1) == 0
    board.library.poet_hal_spi_init()
    assert OUT_OF_REACH - board.chip.pending[SPI_STOPPED] == POLLS + 1
    assert board.chip.misuse[0] == "the SPIM is switched off while its DMA runs"


def test_the_slowest_exchange_is_waited_for(impatient: Path) -> None:
    board = Board(impatient, Chip(polls_per_byte=POLLS_PER_BYTE - 1, other_polls=0))
    assert board.call("poet_sd_open") == 0
    board = Board(impatient, Chip(polls={"SPI": OUT_OF_REACH}))
    assert board.call("poet_sd_open") == BUS
    attempts, wake_bytes, others = 3, 10, 20 + board.chip.registers.other_polls
    assert board.chip.reads_in_thread <= attempts * (wake_bytes * POLLS_PER_BYTE + others)


def test_a_byte_gets_twice_its_time() -> None:
    """At 125 kHz and 64 MHz, the slowest, it takes 4,096 cycles; a poll takes 4 or more of them."""
    (polls,) = re.findall(
        r"#define POET_POLLS_PER_BYTE (\d+)u", (TEMPLATES / "storage/sd.c").read_text()
    )
    assert 4 * int(polls) >= 2 * 8 * 64_000_000 / 125_000


def test_transfers_that_are_under_way_together(queueing: Path) -> None:
    """They are done in their order, and what each came to is its own."""
    board = Board(queueing, Chip())
    assert board.call("poet_sd_open") == 0
    card, u32 = board.chip.card, ctypes.c_uint32
    data = [bytes((i * 37 + j) % 251 for j in range(3 * BLOCK)) for i in range(3)]
    ram = [ctypes.create_string_buffer(bytes(3 * BLOCK), 3 * BLOCK) for _ in range(4)]
    for round in range(3):
        for i in (0, 1):
            assert board.call("poet_sd_write_begin", u32(9 + i), data[(round + i) % 3], u32(3)) == 0
        assert board.call("poet_sd_read_begin", u32(card.blocks), ram[3], u32(1)) == 0
        assert board.call("poet_sd_read_begin", u32(9), ram[0], u32(3)) == 0
        assert [board.call("poet_sd_wait") for _ in range(5)] == [0, 0, COMMAND, 0, 0]
        assert ram[0].raw == data[round][:BLOCK] + data[(round + 1) % 3][: 2 * BLOCK]
    assert card.misuse == []


def test_the_bus_can_be_set_up_again_while_it_is_on(library: Path) -> None:
    board = Board(library, Chip())
    for _ in range(2):
        board.call("poet_hal_spi_init")
        assert board.call("poet_hal_spi_ok") == 1


@pytest.mark.parametrize("name", [CRYSTAL_STARTED, TEXT_SENT])
def test_waits_are_long_enough(library: Path, name: str) -> None:
    """2 ms for the crystal, 6 for a text; at 64 MHz and 4 cycles a poll, 100,000 polls."""
    board = Board(library, Chip(polls={name: 100_000}))
    assert board.start() == 0
    board.call("poet_hal_console_write", b"x" * 64, 64)
    assert board.chip.console == b"x" * 64


# Input -----------------------------------------------------------------------------------------


def test_a_board_that_is_done_answers(listening: Path, here: Trained) -> None:
    """Commands in bursts, a NUL among them; the last wraps around the ring."""
    chip = Chip(typed=b"n\0ame%\r\n" + b"x" * 171 + b"%" + encode_command(7, "hello"))
    board = Board(listening, chip)
    lines = board.run()
    assert lines[-1] == "m-ready"
    chips.check_answers(lines)
    assert board.weight == here.weight


def test_a_board_that_has_no_card_answers(listening: Path) -> None:
    chip = Chip(card=Card(faults=Faults(absent=True)), typed=b"name%")
    lines = Board(listening, chip).run()
    assert lines[-3:] == ["@error status=-16 at=image", "m-name-dut-[poetfw]", "m-ready"]


def test_a_receiver_that_is_off_gives_nothing(impatient: Path) -> None:
    chip = Chip(polls={"UARTE.EVENTS_ENDTX": OUT_OF_REACH})
    board = Board(impatient, chip)
    assert board.start() == 0
    text = ctypes.create_string_buffer(8)
    assert board.call("poet_hal_console_read", text, 8) == 0


def test_a_rate_of_a_million(tmp_path_factory: pytest.TempPathFactory) -> None:
    flags = "-DPOET_CONSOLE_BAUD=1000000u"
    board = Board(compile_drivers(tmp_path_factory.mktemp("fast"), "nrf52840", flags), Chip())
    assert board.start() == 0
    assert board.chip.values("UARTE.BAUDRATE") == [0x10000000]


# All of it -------------------------------------------------------------------------------------


@pytest.mark.parametrize("high_capacity", [False, True], ids=["SDSC", "SDHC"])
def test_the_board_trains_as_this_computer_does(
    library: Path, here: Trained, high_capacity: bool
) -> None:
    board = Board(library, Chip(card=Card(high_capacity=high_capacity)))
    chips.check_training(board, here)


def test_pins_of_the_card(library: Path) -> None:
    board = Board(library, Chip())
    board.run()
    value = board.chip.registers.value
    assert value(f"PIN_CNF[{SELECT_PIN}]") == OUTPUT
    assert value(f"PIN_CNF[{MOSI_PIN}]") == value(f"PIN_CNF[{CLOCK_PIN}]") == OUTPUT | HIGH_DRIVE
    assert value(f"PIN_CNF[{MISO_PIN}]") == INPUT_PULLUP
    names = ("SCK", "MOSI", "MISO")
    assert [value(f"SPIM.PSEL.{n}") for n in names] == [CLOCK_PIN, MOSI_PIN, MISO_PIN]
    assert board.chip.values("SPIM.FREQUENCY") == [0x04000000, 0x80000000]  # 250 kHz, 8 MHz
    assert value("SPIM.ORC") == 0xFF
    assert value("SPIM.CONFIG") == 0
