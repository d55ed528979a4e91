# SPDX-License-Identifier: Apache-2.0
"""The SD driver, compiled for this computer, against a strict card that can fail in every way."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sd_card import (
    ADDRESS_ERROR,
    BLOCK,
    IDLE,
    ILLEGAL,
    PARAMETER_ERROR,
    Card,
    Faults,
    crc7,
    csd_register,
)

from budgets import examples
from emulator.firmware_tools import SAMPLE, TEMPLATES, compile_c

OK, NO_CARD, VOLTAGE, NOT_READY, COMMAND, TIMEOUT, READ, WRITE, RANGE, SIZE, BUS, CRC, BUSY = (
    0,
    *range(-16, -28, -1),
)
PROTECTED = -28
LONGEST_S = 4.0
"""Of any call, in clocks: it tries for a second at most, a few times what cards need."""

KINDS = {
    "SDSC version 1": {"version": 1, "high_capacity": False},
    "SDSC": {"high_capacity": False},
    "SDHC": {"blocks": 1 << 25},
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_c(
        tmp_path_factory.mktemp("sd") / "sd.so",
        [Path(__file__).with_name("spi_bus.c"), TEMPLATES / "storage/sd.c"],
        [SAMPLE / "src/generated", *(TEMPLATES / d for d in ("storage", "runtime"))],
        *("-shared", "-fPIC"),
    )


LEFT = {
    "sends a block": (1, 5, 100, 257, 514, 515),
    "sends many blocks": (0,),
    "takes a block": (1, 2, 100, 257, 273, 513, 514),
    "waits for a block": (0,),
    "takes many blocks": (1, 2, 100, 257, 273, 513, 514),
    "waits for one of many blocks": (0,),
    "is busy": (1, 50, 250, 500),
    "takes a command": (1, 2, 3, 4, 5),
}


class Driver:
    """The driver with a card at the other end of the bus."""

    def __init__(self, library: Path, card: Card) -> None:
        self._library = ctypes.CDLL(str(library))
        self.card = card
        self.bus_fails = ctypes.c_int.in_dll(self._library, "test_spi_fails")
        self._callbacks = {
            "test_spi_exchange": ctypes.CFUNCTYPE(
                None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32
            )(self._exchange),
            "test_spi_select": ctypes.CFUNCTYPE(None, ctypes.c_int)(
                lambda selected: card.select(bool(selected))
            ),
            "test_spi_clock": ctypes.CFUNCTYPE(None, ctypes.c_uint32)(card.clock),
        }

    def _exchange(self, tx: int | None, rx: int | None, count: int) -> None:
        assert tx or rx
        assert 1 <= count <= BLOCK
        received = self.card.exchange_all(ctypes.string_at(tx, count) if tx else b"\xff" * count)
        if rx:
            ctypes.memmove(rx, received, count)

    def open(self) -> int:
        return self._call("poet_sd_open")

    def blocks(self) -> tuple[int, int]:
        count = ctypes.c_uint32()
        return self._call("poet_sd_blocks", ctypes.byref(count)), count.value

    def write(self, block: int, data: bytes) -> int:
        return self._move("write", block, data, len(data) // BLOCK)

    def read(self, block: int, count: int) -> tuple[int, bytes]:
        guard = b"\x3c" * 64
        ram = ctypes.create_string_buffer(guard + bytes(count * BLOCK) + guard)
        target = ctypes.byref(ram, len(guard))
        status = self._move("read", block, target, count)
        assert ram.raw[: len(guard)] == ram.raw[-len(guard) - 1 : -1] == guard
        return status, ram.raw[len(guard) : -len(guard) - 1]

    def _move(self, kind: str, block: int, ram: object, count: int) -> int:
        u32 = ctypes.c_uint32
        status = self._call(f"poet_sd_{kind}_begin", u32(block), ram, u32(count))
        return status or self._call("poet_sd_wait")

    def _call(self, name: str, *arguments: object) -> int:
        for pointer, callback in self._callbacks.items():
            address = ctypes.cast(callback, ctypes.c_void_p).value
            ctypes.c_void_p.in_dll(self._library, pointer).value = address
        began_s = self.card.time_s
        status: int = self._library[name](*arguments)
        assert self.card.misuse == []
        assert not self.card.is_selected  # others may be on the bus
        assert self.card.time_s - began_s < LONGEST_S
        return status


@pytest.fixture(params=KINDS)
def driver(library: Path, request: pytest.FixtureRequest) -> Driver:
    driver = Driver(library, Card(**KINDS[request.param]))
    assert driver.open() == OK
    return driver


@pytest.fixture
def sdhc(library: Path) -> Iterator[Driver]:
    """A card that is whole again at the end, and then works."""
    driver = Driver(library, Card())
    assert driver.open() == OK
    yield driver
    driver.card.faults = Faults()
    data = pattern(5, 2)
    assert driver.write(7, data) == OK
    assert driver.read(7, 2) == (OK, data)


def pattern(seed: int, count: int) -> bytes:
    return bytes((seed * 31 + i * 17 + i // BLOCK) % 256 for i in range(count * BLOCK))


def blocks(card: Card, first: int, count: int) -> bytes:
    return b"".join(card.block(first + i) for i in range(count))


def test_a_card_says_how_many_blocks_it_has(driver: Driver) -> None:
    assert driver.blocks() == (OK, driver.card.blocks)


# Sizes as the specification works them out: C_SIZE and C_SIZE_MULT with READ_BL_LEN (section
# 5.3.2), and C_SIZE alone (section 5.3.3). The largest SDSC and SDXC cards are among them.
@pytest.mark.parametrize(
    ("register", "blocks"),
    [
        (csd_register({80: 9, 62: 0, 47: 0}), 4),
        (csd_register({80: 9, 62: 0xFFF, 47: 7}), 4096 * 512),
        (csd_register({80: 10, 62: 0xFFF, 47: 7}), 4096 * 512 * 2),
        (csd_register({80: 11, 62: 0xFFF, 47: 7}), 4096 * 512 * 4),
        (csd_register({80: 9, 62: 0b1010_0101_1001, 47: 0b101}), 0b1010_0101_1010 << 7),
        (
            csd_register({80: 9, 62: 1, 47: 1, 50: 0xFFF, 16: 0x7FFFFFFF, 74: 0x3F, 84: 0xFFF}),
            2 << 3,
        ),
        (csd_register({126: 1, 48: 0}), 1024),
        (csd_register({126: 1, 48: 0x3FFEFF}), 0x3FFF00 * 1024),
        (csd_register({126: 1, 48: 0x15_5AA5, 70: 0x3FFFFFF, 0: 0xFFFF_FFFF}), 0x15_5AA6 * 1024),
    ],
)
def test_a_cards_size_is_worked_out_as_specified(
    sdhc: Driver, register: bytes, blocks: int
) -> None:
    sdhc.card.faults = Faults(csd=register)
    assert sdhc.blocks() == (OK, blocks)


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (Faults(csd=csd_register({126: 2, 80: 9, 62: 9})), SIZE),
        (Faults(csd=csd_register({126: 3, 80: 9, 62: 9})), SIZE),
        (Faults(csd=csd_register({80: 8, 62: 9, 47: 7})), SIZE),
        (Faults(csd=csd_register({80: 12, 62: 9, 47: 7})), SIZE),
        (Faults(responses={9: ILLEGAL}), COMMAND),
        (Faults(responses={9: None}), COMMAND),
        (Faults(tokens={0: 0x01}), READ),
        (Faults(tokens={0: None}), TIMEOUT),
        (Faults(damaged=[0]), CRC),
        (Faults(stuck=0x00), BUSY),
    ],
)
def test_a_card_that_does_not_say_its_size(sdhc: Driver, faults: Faults, status: int) -> None:
    sdhc.card.faults = faults
    assert sdhc.blocks() == (status, 0)


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_a_bus_that_fails_is_set_up_again(library: Path, fails: int) -> None:
    """Twice; then it is told from the card."""
    driver = Driver(library, Card())
    for call in (
        driver.open,
        lambda: driver.blocks()[0],
        lambda: driver.read(1, 1)[0],
        lambda: driver.read(1, 2)[0],
        lambda: driver.write(1, pattern(1, 1)),
        lambda: driver.write(1, pattern(1, 2)),
    ):
        assert driver.open() == OK
        driver.bus_fails.value = fails
        assert call() == (BUS if fails == 3 else OK)
        assert driver.bus_fails.value == 0


def test_crc7_is_the_specifications() -> None:
    """Its examples: GO_IDLE_STATE, READ_SINGLE_BLOCK 0, and the response to the latter."""
    assert crc7(bytes.fromhex("4000000000")) == 0b1001010
    assert crc7(bytes.fromhex("5100000000")) == 0b0101010
    assert crc7(bytes.fromhex("1100000900")) == 0b0110011


@pytest.mark.parametrize("count", [1, 2, 7])
def test_what_is_written_is_on_the_card_and_read_again(driver: Driver, count: int) -> None:
    data = pattern(count, count)
    before = blocks(driver.card, 99, 1), blocks(driver.card, 100 + count, 1)
    assert driver.write(100, data) == OK
    assert blocks(driver.card, 100, count) == data
    assert (blocks(driver.card, 99, 1), blocks(driver.card, 100 + count, 1)) == before
    assert driver.read(100, count) == (OK, data)
    assert driver.read(300, count) == (OK, blocks(driver.card, 300, count))


@pytest.mark.parametrize("count", [1, 3])
def test_the_last_blocks_can_be_used(driver: Driver, count: int) -> None:
    """Where a card reads ahead, past its end, it complains after all the data arrived."""
    first = driver.card.blocks - count
    assert driver.write(first, pattern(1, count)) == OK
    assert driver.read(first, count) == (OK, pattern(1, count))


@pytest.mark.parametrize(
    ("high_capacity", "block", "count", "reached"),
    [
        (False, (1 << 23) - 1, 1, False),  # 2^32 / 512 addresses, the last not a whole block's
        (False, (1 << 23) - 2, 2, False),
        (False, (1 << 23) - 2, 1, True),
        (False, (1 << 23) - 3, 2, True),
        (False, 1 << 31, 1, False),
        (False, 0, 1 << 23, False),
        (True, 0xFFFFFFFF, 1, False),
        (True, 0xFFFFFFFE, 1, True),
        (True, 1, 0xFFFFFFFF, False),
    ],
)
def test_what_cannot_be_addressed_is_refused(
    library: Path, high_capacity: bool, block: int, count: int, reached: bool
) -> None:
    driver = Driver(library, Card(high_capacity=high_capacity, blocks=1 << 33))
    assert driver.open() == OK
    asked = len(driver.card.commands)
    if reached:
        assert driver.read(block, count) == (OK, blocks(driver.card, block, count))
        return
    assert driver._move("read", block, None, count) == RANGE
    assert driver._move("write", block, None, count) == RANGE
    assert len(driver.card.commands) == asked


@pytest.mark.parametrize("response_bytes", range(1, 9))
def test_a_response_may_come_within_eight_bytes(driver: Driver, response_bytes: int) -> None:
    driver.card.faults = Faults(response_bytes=response_bytes)
    assert driver.open() == OK
    assert driver.write(3, pattern(3, 2)) == OK
    assert driver.read(3, 2) == (OK, pattern(3, 2))


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_may_be_as_slow_as_specified(library: Path, kind: str) -> None:
    """1 s to initialise, 100 ms to begin a read, 500 ms of programming."""
    slow = Faults(response_bytes=8, ready_s=1.0, read_s=0.099, busy_s=0.499)
    driver = Driver(library, Card(**KINDS[kind], faults=slow))
    assert driver.open() == OK
    assert driver.write(3, pattern(3, 1)) == OK
    assert driver.read(3, 1) == (OK, pattern(3, 1))


def test_programming_is_over_when_a_write_returns(driver: Driver) -> None:
    driver.card.faults = Faults(busy_s=0.01)
    for count in (1, 2):
        assert driver.write(5, pattern(count, count)) == OK
        assert blocks(driver.card, 5, count) == pattern(count, count)


@pytest.mark.parametrize(
    ("faults", "status"),
    [
        (Faults(absent=True), NO_CARD),
        (Faults(stuck=0x00), BUSY),
        (Faults(responses={0: 0x00}), BUSY),
        (Faults(responses={0: 0x05}), NO_CARD),
        (Faults(responses={59: ILLEGAL}), COMMAND),
        (Faults(responses={59: None}), COMMAND),
        (Faults(responses={8: None}), NO_CARD),
        (Faults(responses={8: 0x00}), NO_CARD),
        (Faults(echo=0x1AB), VOLTAGE),
        (Faults(echo=0x0AA), VOLTAGE),
        (Faults(echo=0x2AA), VOLTAGE),
        (Faults(ready_s=1e9), NOT_READY),
        (Faults(responses={41: None}), NOT_READY),
        (Faults(responses={41: ILLEGAL}), NOT_READY),
        (Faults(responses={58: ILLEGAL}), COMMAND),
        (Faults(responses={58: None}), COMMAND),
        (Faults(responses={58: IDLE}), OK),  # as QEMU's card does
    ],
)
def test_a_card_that_cannot_be_opened(library: Path, faults: Faults, status: int) -> None:
    card = Card(faults=faults)
    driver = Driver(library, card)
    assert driver.open() == status
    card.faults = Faults()
    assert driver.open() == OK
    assert driver.read(1, 1) == (OK, card.block(1))


@pytest.mark.parametrize("response", [ILLEGAL, PARAMETER_ERROR, None])
def test_a_block_length_that_is_refused(library: Path, response: int | None) -> None:
    card = Card(high_capacity=False, faults=Faults(responses={16: response}))
    assert Driver(library, card).open() == COMMAND


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("response", [IDLE, ILLEGAL, ADDRESS_ERROR, PARAMETER_ERROR, None])
def test_a_command_that_is_refused(sdhc: Driver, count: int, response: int | None) -> None:
    sdhc.card.faults = Faults(responses=dict.fromkeys((17, 18, 24, 25), response))
    assert sdhc.read(1, count)[0] == COMMAND
    assert sdhc.write(1, pattern(1, count)) == COMMAND
    assert sdhc.card.content == {}


def test_beyond_the_cards_end(sdhc: Driver) -> None:
    end = sdhc.card.blocks
    assert sdhc.read(end, 1)[0] == COMMAND
    assert sdhc.read(end - 1, 2)[0] == READ
    assert sdhc.write(end, pattern(1, 1)) == COMMAND


@pytest.mark.parametrize(("count", "position"), [(1, 0), (3, 0), (3, 1), (3, 2)])
@pytest.mark.parametrize(
    ("token", "status"),
    [(0x01, READ), (0x02, READ), (0x04, READ), (0x08, READ), (0x00, READ), (None, TIMEOUT)],
)
def test_an_error_in_place_of_data(
    sdhc: Driver, count: int, position: int, token: int | None, status: int
) -> None:
    sdhc.card.faults = Faults(tokens={position: token})
    assert sdhc.read(1, count)[0] == status


@pytest.mark.parametrize(("count", "position"), [(1, 0), (3, 0), (3, 1), (3, 2)])
@pytest.mark.parametrize("response", [0xEB, 0xED, 0xFF, 0x00], ids=hex)
def test_data_that_is_not_accepted(sdhc: Driver, count: int, position: int, response: int) -> None:
    """A wrong CRC, an error of writing, no answer, nonsense."""
    sdhc.card.faults = Faults(data_responses={position: response})
    assert sdhc.write(1, pattern(1, count)) == (CRC if response == 0xEB else WRITE)
    assert sorted(sdhc.card.content) == list(range(1, 1 + position))


def test_the_upper_bits_of_a_data_response_mean_nothing(sdhc: Driver) -> None:
    sdhc.card.faults = Faults(data_responses={0: 0x05, 1: 0xE5, 2: 0x65})
    assert sdhc.write(1, pattern(1, 3)) == OK


@pytest.mark.parametrize("count", [1, 3])
def test_data_that_is_lost_after_it_was_accepted(sdhc: Driver, count: int) -> None:
    sdhc.card.faults = Faults(programming_fails=True)
    assert sdhc.write(1, pattern(1, count)) == WRITE
    assert sdhc.card.content == {}


@pytest.mark.parametrize("response", [ILLEGAL, None])
def test_a_card_that_does_not_tell_its_status(sdhc: Driver, response: int | None) -> None:
    sdhc.card.faults = Faults(responses={13: response})
    assert sdhc.write(1, pattern(1, 1)) == WRITE


@pytest.mark.parametrize("count", [1, 2])
def test_a_card_that_is_busy_for_ever(library: Path, count: int) -> None:
    driver = Driver(library, Card())
    assert driver.open() == OK
    driver.card.faults = Faults(busy_s=1e9)
    assert driver.write(1, pattern(1, count)) == BUSY
    assert driver.read(1, 1)[0] == BUSY


def test_a_card_that_never_stops_reading(library: Path) -> None:
    driver = Driver(library, Card())
    assert driver.open() == OK
    driver.card.faults = Faults(stop_s=1e9)
    assert driver.read(1, 2)[0] == BUSY


@pytest.mark.parametrize("count", [1, 2])
def test_a_shorted_line_is_an_error(sdhc: Driver, count: int) -> None:
    sdhc.card.faults = Faults(stuck=0x00)
    assert sdhc.read(1, count)[0] == BUSY
    assert sdhc.write(1, pattern(1, count)) == BUSY


@examples(100)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    count=st.integers(1, 3),
    after=st.integers(0, 3000),
    writes=st.booleans(),
)
def test_removed_at_any_byte(
    library: Path, kind: str, count: int, after: int, writes: bool
) -> None:
    """What is said to be done is done, whenever the card is pulled out."""
    card = Card(**KINDS[kind])
    driver = Driver(library, card)
    assert driver.open() == OK
    card.faults = Faults(removed_after=card._bytes + after, read_s=0.00001, busy_s=0.00002)
    if writes:
        if driver.write(20, pattern(4, count)) == OK:
            assert blocks(card, 20, count) == pattern(4, count)
    else:
        status, data = driver.read(20, count)
        if status == OK and card._bytes <= card.faults.removed_after:
            assert data == blocks(card, 20, count)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("state", "left"), [(s, n) for s, counts in LEFT.items() for n in counts])
def test_a_card_that_a_reset_left_in_the_middle(
    library: Path, kind: str, state: str, left: int
) -> None:
    """The core is reset, the card is not, and goes on with what it was doing."""
    card, clocks = Card(**KINDS[kind]), []
    card.leave(state, left)
    clock = card.clock
    card.clock = lambda hz: (clocks.append(hz), clock(hz))[1]  # type: ignore[method-assign]
    driver = Driver(library, card)
    assert driver.open() == OK
    assert clocks.count(400_000) <= 2  # attempts
    assert card.content == {}
    data = bytes(range(256)) * 4
    assert driver.write(7, data) == OK
    assert driver.read(7, 2) == (OK, data)
