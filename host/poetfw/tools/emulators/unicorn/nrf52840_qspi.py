# SPDX-License-Identifier: Apache-2.0
"""The nRF52840's QSPI peripheral with the development kit's flash.

Written from section 6.19 of the nRF52840 Product Specification 1.7, as far as the firmware uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial

from poetfw.tools.emulators.unicorn.bus import ANY
from poetfw.tools.emulators.unicorn.chip import Console, Keyboard, Processor
from poetfw.tools.emulators.unicorn.flash import (
    PAGE_BYTES,
    SECTOR_BYTES,
    SIZE_BYTES,
    WRITE_ENABLE,
    Flash,
)
from poetfw.tools.emulators.unicorn.nrf52840 import (
    CORE_HZ,
    DISCONNECTED,
    PERIPHERAL,
    Nrf52840,
    Nrf52840Dk,
)

_INTERRUPT = 41
_HZ = 16_000_000
_WAITS, _WRITES, _HIGH = 1 << 14, 1 << 15, 3 << 12
_PINS = {"SCK": 19, "CSN": 17, "IO0": 20, "IO1": 21, "IO2": 22, "IO3": 23}
_LONGEST = 0x3FFFF

READY = "QSPI.EVENTS_READY"
ACTIVATED, ENABLE = "QSPI.ACTIVATED", "QSPI.ENABLE"
_REGISTERS: Mapping[str, tuple[int, Container[int]]] = {
    "QSPI.TASKS_ACTIVATE": (0x000, (1,)),
    "QSPI.TASKS_READSTART": (0x004, (1,)),
    "QSPI.TASKS_WRITESTART": (0x008, (1,)),
    "QSPI.TASKS_ERASESTART": (0x00C, (1,)),
    "QSPI.TASKS_DEACTIVATE": (0x010, (1,)),
    "QSPI.ANOMALY_122": (0x054, (1,)),
    READY: (0x100, (0,)),
    "QSPI.INTENSET": (0x304, (1,)),
    ENABLE: (0x500, (0, 1)),
    "QSPI.READ.SRC": (0x504, range(0, SIZE_BYTES, 4)),
    "QSPI.READ.DST": (0x508, range(0, 1 << 32, 4)),
    "QSPI.READ.CNT": (0x50C, range(4, _LONGEST, 4)),
    "QSPI.WRITE.DST": (0x510, range(0, SIZE_BYTES, 4)),
    "QSPI.WRITE.SRC": (0x514, range(0, 1 << 32, 4)),
    "QSPI.WRITE.CNT": (0x518, range(4, _LONGEST, 4)),
    "QSPI.ERASE.PTR": (0x51C, range(0, SIZE_BYTES, SECTOR_BYTES)),
    "QSPI.ERASE.LEN": (0x520, (0,)),
    "QSPI.PSEL.SCK": (0x524, (_PINS["SCK"],)),
    "QSPI.PSEL.CSN": (0x528, (_PINS["CSN"],)),
    **{f"QSPI.PSEL.IO{i}": (0x530 + 4 * i, (_PINS[f"IO{i}"],)) for i in range(4)},
    "QSPI.IFCONFIG0": (0x544, (4 | 3 << 3,)),  # READ4IO, PP4IO, 24-bit addresses, pages of 256
    "QSPI.IFCONFIG1": (0x600, (1 << 28 | 0x040400 | 1,)),  # 16 MHz, mode 0; reserved bits as ever
    "QSPI.CINSTRCONF": (0x634, ANY),
    "QSPI.CINSTRDAT0": (0x638, ANY),
}
QSPI_ADDRESSES = {name: 0x40029000 + offset for name, (offset, _) in _REGISTERS.items()}


class QspiChip(Nrf52840):
    """The chip after a reset, with a flash on its QSPI pins and no SD card.

    Attributes:
        held_up: actions that never end: activating, reading, erasing, programming, instructing or
            waiting.
    """

    def __init__(self, flash: Flash, console: Console, kept: Mapping[str, int]) -> None:
        """Create the chip; all but QSPI and SPI is as on any nRF52840."""
        super().__init__(_NoCard(), console, kept)
        self.held_up: Container[str] = ()
        self._flash = flash
        self._active = self._at_work = False
        for name, address in QSPI_ADDRESSES.items():
            self.sizes[address] = 4
            if "TASKS" not in name:
                self.readable[address] = partial(self._read, name)
            self.writable[address] = partial(self._write_qspi, name)
        self._values["QSPI.IFCONFIG1"] = 0x00040480
        self._values["QSPI.CINSTRCONF"] = 0x2000
        for name in ("SCK", "CSN", "IO0", "IO1", "IO2", "IO3"):
            self._values[f"QSPI.PSEL.{name}"] = DISCONNECTED

    def attach(self, processor: Processor) -> None:
        """Connect the processor and the interrupts, QSPI's included."""
        super().attach(processor)
        processor.connect(
            _INTERRUPT, lambda: bool(self._values[READY] and self._values["QSPI.INTENSET"])
        )

    def _write_qspi(self, name: str, value: int) -> None:
        _, allowed = _REGISTERS[name]
        self._require(value in allowed, f"0x{value:08x} is not modelled in the register {name}")
        if name.startswith(("QSPI.PSEL", "QSPI.IFCONFIG")):
            self._require(not self._values[ENABLE], f"{name} is changed while it is enabled")
        if name == READY and self.stuck:
            return
        self._values[name] = value
        if name == ENABLE and not value:
            self._active = self._at_work = False
        elif name == "QSPI.TASKS_ACTIVATE":
            self._require(bool(self._values[ENABLE]), "the QSPI is activated before it is enabled")
            self._begin_qspi("activating", 0.0, self._activate)
        elif name == "QSPI.TASKS_DEACTIVATE":
            self._active = self._at_work = False
        elif name == "QSPI.TASKS_READSTART":
            self._read_flash()
        elif name == "QSPI.TASKS_WRITESTART":
            self._write_flash()
        elif name == "QSPI.TASKS_ERASESTART":
            self._check_active()
            self._flash.instruct(WRITE_ENABLE, b"")
            self._flash.erase(self._values["QSPI.ERASE.PTR"])
            self._begin_qspi("erasing", 40 / _HZ)
        elif name == "QSPI.CINSTRCONF":
            self._instruct(value)

    def _activate(self) -> None:
        for name, pin in _PINS.items():
            self._require(self._values[f"QSPI.PSEL.{name}"] == pin, f"QSPI has no pin {name}")
            configured = self._values[f"PIN_CNF[{pin}]"]
            self._require(configured == PERIPHERAL, f"pin {pin} is configured as {configured:#x}")
        self._active = True

    def _check_active(self) -> None:
        self._require(self._active, "the QSPI works before it is active")

    def _begin_qspi(
        self, what: str, time_s: float, end: Callable[[], object] = lambda: None
    ) -> None:
        """Schedule the end of an action: `end` is called, then the READY event is set."""
        self._require(self.stuck or not self._values[READY], f"{READY} was not cleared")
        self._require(self.stuck or not self._at_work, "QSPI begins something within another")
        self._at_work = True
        self.exchanges += 1
        number = self.exchanges

        def ended() -> None:
            if self._at_work and number == self.exchanges:
                self._at_work = False
                end()
                self._values[READY] = 1

        if what not in self.held_up:
            self._processor.after(max(1, round(time_s * CORE_HZ)), ended)

    def _read_flash(self) -> None:
        self._check_active()
        get = self._values
        address, to, size = (get[f"QSPI.READ.{name}"] for name in ("SRC", "DST", "CNT"))
        data = self._flash.read(address, size, _HZ)
        self._processor.dma_read(to, size)  # raises if the target is not RAM
        self._begin_qspi(
            "reading", (20 + 2 * size) / _HZ, lambda: self._processor.dma_write(to, data)
        )

    def _write_flash(self) -> None:
        """Write as the peripheral does: page by page, waiting for each page but the last."""
        self._check_active()
        get = self._values
        address, source, size = (get[f"QSPI.WRITE.{name}"] for name in ("DST", "SRC", "CNT"))
        data = self._processor.dma_read(source, size)
        time_s, at = 0.0, 0
        while at < size:
            part = min(size - at, PAGE_BYTES - (address + at) % PAGE_BYTES)
            time_s += self._flash.busy_s
            if at:
                self._flash.settle()
            self._flash.instruct(WRITE_ENABLE, b"")
            self._flash.program(address + at, data[at : at + part], _HZ)
            time_s += (24 + 2 * part) / _HZ
            at += part
        self._begin_qspi("programming", time_s)

    def _instruct(self, configuration: int) -> None:
        self._check_active()
        known = 0xFF | 0xF << 8 | _HIGH | _WAITS | _WRITES
        right = not configuration & ~known and configuration & _HIGH == _HIGH
        self._require(right, f"0x{configuration:08x} is not an instruction that is modelled")
        size = (configuration >> 8 & 0xF) - 1
        self._require(0 <= size <= 4, f"an instruction has {size} bytes")
        time_s = (8 + 8 * size) / _HZ
        what = "waiting" if configuration & _WAITS else "instructing"
        if configuration & _WAITS:
            time_s += self._flash.busy_s

        def end() -> None:
            if configuration & _WAITS:
                self._flash.settle()
            if configuration & _WRITES:
                self._flash.instruct(WRITE_ENABLE, b"")
            sent = self._values["QSPI.CINSTRDAT0"].to_bytes(4, "little")[:size]
            answer = self._flash.instruct(configuration & 0xFF, sent)
            self._values["QSPI.CINSTRDAT0"] = int.from_bytes(answer, "little")

        self._begin_qspi(what, time_s, end)


class _NoCard:
    """An SPI bus without a card."""

    def select(self, selected: bool) -> None:
        """Ignore the chip select."""

    def leave(self) -> None:
        """Ignore a reset."""

    def exchange(self, sent: bytes, clock_hz: int, start_s: float) -> bytes:
        """Exchange bytes with no device, which reads as ones."""
        return b"\xff" * len(sent)


class Nrf52840DkFlash(Nrf52840Dk):
    """The development kit, with firmware that stores on its flash."""

    def __init__(
        self, program: bytes, flash: Flash, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Set up the chip's own flash, the external flash and the UART's other end."""
        super().__init__(program, _NoCard(), console, keyboard)
        self._storage = flash

    def _chip(self) -> Nrf52840:
        return QspiChip(self._storage, self._console, self._kept)
