# SPDX-License-Identifier: Apache-2.0
"""The card behind a chip's model: what it answers, and what it does not let pass."""

from __future__ import annotations

from binascii import crc_hqx
from io import BytesIO

import pytest

from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.sd_card import Card, crc7

BLOCKS = 2048
HZ = 400_000
FAST_HZ = 8_000_000


def frame(number: int, argument: int = 0) -> bytes:
    body = bytes([0x40 | number]) + argument.to_bytes(4, "big")
    return body + bytes([crc7(body)])


class Host:
    """A host that does what it should."""

    def __init__(self) -> None:
        self.file = BytesIO(b"".join(i.to_bytes(4, "big") * 128 for i in range(BLOCKS)))
        self.card = Card(self.file)
        self.hz = HZ

    def wake(self, clocks: int = 80) -> Host:
        self.card.exchange(b"\xff" * (clocks // 8), self.hz)
        self.card.select(True)
        return self

    def ready(self) -> Host:
        self.wake()
        assert self.command(0) == 0x01
        assert self.command(8, 0x1AA, 4)[1:] == b"\0\0\x01\xaa"
        while self.command(55) == 0x01 and self.command(41, 1 << 30) != 0x00:
            pass
        self.hz = FAST_HZ
        return self

    def receive(self, count: int) -> bytes:
        return self.card.exchange(b"\xff" * count, self.hz)

    def command(self, number: int, argument: int = 0, more: int = 0):
        """R1, or with what follows it."""
        self.card.exchange(frame(number, argument), self.hz)
        r1 = self.skip(0xFF)
        return bytes([r1]) + self.receive(more) if more else r1

    def skip(self, nothing: int) -> int:
        while (byte := self.receive(1)[0]) == nothing:
            pass
        return byte

    def data(self, count: int) -> bytes:
        assert self.skip(0xFF) == 0xFE
        data = self.receive(count)
        assert int.from_bytes(self.receive(2), "big") == crc_hqx(data, 0)
        return data

    def send(self, token: int, data: bytes, crc: int = 0) -> int:
        self.card.exchange(bytes([0xFF, token]) + data + crc.to_bytes(2, "big"), self.hz)
        return self.receive(1)[0]


class SlowHost(Host):
    """With a card that takes its time, on a bus that is never idle."""

    def __init__(self, read_s: float, write_s: float) -> None:
        super().__init__()
        self.card = Card(self.file, read_s, write_s)
        self.now_s = 0.0
        exchange = self.card.exchange

        def timed(sent: bytes, hz: int) -> bytes:
            start_s, self.now_s = self.now_s, self.now_s + 8 * len(sent) / hz
            return exchange(sent, hz, start_s)

        self.card.exchange = timed  # type: ignore[assignment, method-assign]


@pytest.mark.parametrize("time_s", [0.0, 0.0003, 0.002])
def test_a_card_may_take_its_time(time_s: float) -> None:
    host = SlowHost(time_s, 2 * time_s).ready()
    protocol_s = 60 * 8 / FAST_HZ
    for number in (17, 18):
        began_s = host.now_s
        assert host.command(number, 5) == 0x00
        assert host.skip(0xFF) == 0xFE
        assert time_s <= host.now_s - began_s <= time_s + protocol_s
        host.receive(514)
    assert host.command(12) == 0x00
    host.skip(0x00)
    assert host.command(24, 7) == 0x00
    host.send(0xFE, bytes(512))
    began_s = host.now_s
    host.skip(0x00)
    assert 2 * time_s <= host.now_s - began_s <= 2 * time_s + protocol_s


def test_crcs_are_those_of_the_specification() -> None:
    # Section 4.5: CMD0, CMD17, and its response.
    assert frame(0) == bytes.fromhex("400000000095")
    assert frame(17)[5] == 0x55
    assert crc_hqx(b"\xff" * 512, 0) == 0x7FA1


def test_the_size_is_that_of_the_file() -> None:
    host = Host().ready()
    assert host.command(9) == 0
    csd = host.data(16)
    assert csd[0] >> 6 == 1
    assert (int.from_bytes(csd[7:10], "big") + 1) * 1024 == BLOCKS
    assert csd[15] == crc7(csd[:15])


def test_blocks_are_read_one_by_one_and_many_at_a_time() -> None:
    host = Host().ready()
    assert host.command(17, 5) == 0
    assert host.data(512) == (5).to_bytes(4, "big") * 128
    assert host.command(18, BLOCKS - 2) == 0
    for block in (BLOCKS - 2, BLOCKS - 1):
        assert host.data(512) == block.to_bytes(4, "big") * 128
    assert host.receive(10) == b"\xff" * 10
    assert host.command(12) == 0
    assert host.skip(0x00) == 0xFF
    assert host.command(17, BLOCKS) == 0x40


def test_blocks_are_written() -> None:
    host = Host().ready()
    assert host.command(24, 3) == 0
    assert host.send(0xFE, b"a" * 512) & 0x1F == 0x05
    assert host.skip(0x00) == 0xFF
    assert host.command(25, 4) == 0
    for letter in (b"b", b"c"):
        assert host.send(0xFC, letter * 512) & 0x1F == 0x05
        assert host.skip(0x00) == 0xFF
    host.card.exchange(b"\xfd\xff", host.hz)
    assert host.skip(0x00) == 0xFF
    assert host.command(13, 0, 1) == b"\0\0"
    written = host.file.getvalue()
    assert written[3 * 512 : 6 * 512] == b"a" * 512 + b"b" * 512 + b"c" * 512
    assert written[2 * 512] == written[6 * 512] == 0


def test_a_wrong_crc_is_found_once_asked_for() -> None:
    host = Host().ready()
    assert host.command(59, 1) == 0
    before = host.file.getvalue()
    host.command(24, 3)
    assert host.send(0xFE, b"a" * 512, 1) & 0x1F == 0x0B
    assert host.skip(0x00) == 0xFF
    assert host.file.getvalue() == before
    host.command(24, 3)
    assert host.send(0xFE, b"a" * 512, crc_hqx(b"a" * 512, 0)) & 0x1F == 0x05


@pytest.mark.parametrize("number", [9, 13, 17, 24])
def test_a_card_that_is_not_ready_refuses(number: int) -> None:
    host = Host().wake()
    host.command(0)
    assert host.command(number) == 0x05


def test_a_host_that_cannot_do_high_capacity_never_gets_ready() -> None:
    host = Host().wake()
    host.command(0)
    for _ in range(50):
        assert host.command(55) == 0x01
        assert host.command(41) == 0x01
    assert host.command(41, 1 << 30) == 0x05  # not after CMD55


def _few_clocks(host: Host) -> None:
    host.wake(clocks=72).command(0)


def _fast_identification(host: Host) -> None:
    host.hz = 500_000
    host.wake().command(0)


def _wrong_crc(host: Host) -> None:
    host.wake().card.exchange(frame(0)[:5] + b"\x97", HZ)


def _no_command(host: Host) -> None:
    host.wake().card.exchange(b"\x80" + b"\xff" * 5, HZ)


def _talks(host: Host) -> None:
    host.wake().card.exchange(frame(0) + frame(8), HZ)


def _left(host: Host) -> None:
    host.ready().command(17, 5)
    host.card.select(False)


def _busy(host: Host) -> None:
    host.ready().command(24, 3)
    host.send(0xFE, b"a" * 512)
    host.command(13)


def _token(host: Host) -> None:
    host.ready().command(24, 3)
    host.send(0xFC, b"a" * 512)


def _beyond(host: Host) -> None:
    host.ready().command(25, BLOCKS - 1)
    host.send(0xFC, b"a" * 512)
    host.skip(0x00)
    host.send(0xFC, b"a" * 512)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_few_clocks, "gets 72 clocks before CMD0, not 74"),
        (_fast_identification, "identified at 500000 Hz, 400 kHz are allowed"),
        (_wrong_crc, "receives CMD0 with a wrong CRC"),
        (_no_command, "receives 0x80, which begins no command"),
        (_talks, "receives 0x48 while it answers"),
        (_left, "deselected in the middle of a command or its data"),
        (_busy, "receives 0x4d while it answers"),
        (_token, "receives 0xfc instead of a start token"),
        (_beyond, "written beyond its end"),
    ],
)
def test_a_host_that_breaks_the_rules(wrong, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        wrong(Host())
