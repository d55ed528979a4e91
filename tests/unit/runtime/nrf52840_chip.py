# SPDX-License-Identifier: Apache-2.0
"""The registers of an nRF52840 that the firmware may use, on a DK: it notes every misuse.

Written from the nRF52840 Product Specification 1.7 and the ARMv7-M Architecture Reference Manual,
not from the drivers. A register that is not here may neither be read nor written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Container
from dataclasses import dataclass, field

from chips import connect
from sd_card import Card

ERASED = 0xFFFFFFFF
RESET_PIN, CONSOLE_PIN = 18, 6
SELECT_PIN, MOSI_PIN, MISO_PIN, CLOCK_PIN = 44, 45, 46, 47
OUTPUT, INPUT_PULLUP, HIGH_DRIVE = 1, 3 << 2, 3 << 8
OUT_OF_REACH = 1 << 30
"""More polls than any wait has."""

ADDRESSES = {
    "FICR.BUILD_CODE": 0x10000134,
    "UICR.PSELRESET[0]": 0x10001200,
    "UICR.PSELRESET[1]": 0x10001204,
    "CLOCK.TASKS_HFCLKSTART": 0x40000000,
    "CLOCK.EVENTS_HFCLKSTARTED": 0x40000100,
    "POWER.RESETREAS": 0x40000400,
    "APPROTECT.DISABLE": 0x40000558,
    "POWER.DCDCEN": 0x40000578,
    "UARTE.TASKS_STARTTX": 0x40002008,
    "UARTE.TASKS_STOPTX": 0x4000200C,
    "UARTE.EVENTS_ENDTX": 0x40002120,
    "UARTE.EVENTS_TXSTOPPED": 0x40002158,
    "UARTE.ENABLE": 0x40002500,
    "UARTE.PSEL.RTS": 0x40002508,
    "UARTE.PSEL.TXD": 0x4000250C,
    "UARTE.PSEL.CTS": 0x40002510,
    "UARTE.PSEL.RXD": 0x40002514,
    "UARTE.BAUDRATE": 0x40002524,
    "UARTE.TXD.PTR": 0x40002544,
    "UARTE.TXD.MAXCNT": 0x40002548,
    "UARTE.CONFIG": 0x4000256C,
    "NVMC.READY": 0x4001E400,
    "NVMC.CONFIG": 0x4001E504,
    "NVMC.ICACHECNF": 0x4001E540,
    "SPIM.TASKS_START": 0x40023010,
    "SPIM.TASKS_STOP": 0x40023014,
    "SPIM.EVENTS_END": 0x40023118,
    "SPIM.INTENSET": 0x40023304,
    "SPIM.ENABLE": 0x40023500,
    "SPIM.PSEL.SCK": 0x40023508,
    "SPIM.PSEL.MOSI": 0x4002350C,
    "SPIM.PSEL.MISO": 0x40023510,
    "SPIM.FREQUENCY": 0x40023524,
    "SPIM.RXD.PTR": 0x40023534,
    "SPIM.RXD.MAXCNT": 0x40023538,
    "SPIM.TXD.PTR": 0x40023544,
    "SPIM.TXD.MAXCNT": 0x40023548,
    "SPIM.CONFIG": 0x40023554,
    "SPIM.ORC": 0x400235C0,
    **{f"P{port}.{name}": 0x50000000 + 0x300 * port + offset
       for port in (0, 1) for name, offset in (("OUTSET", 0x508), ("OUTCLR", 0x50C))},
    **{f"PIN_CNF[{pin}]": 0x50000000 + 0x300 * (pin // 32) + 0x700 + 4 * (pin % 32)
       for pin in range(48)},
    "NVIC.ISER[1]": 0xE000E104,
    "NVIC.ICER[1]": 0xE000E184,
    "DWT.CTRL": 0xE0001000,
    "DWT.CYCCNT": 0xE0001004,
    "SYST.CSR": 0xE000E010,
    "SYST.RVR": 0xE000E014,
    "SYST.CVR": 0xE000E018,
    "SCB.AIRCR": 0xE000ED0C,
    "DEMCR": 0xE000EDFC,
}  # fmt: skip
SPIM_END = "SPIM.EVENTS_END"
NAMES = {address: name for name, address in ADDRESSES.items()}
READ_ONLY = {"FICR.BUILD_CODE", "NVMC.READY"}
FREQUENCIES = {0x02000000 << i: 125_000 << i for i in range(7)}
ENABLED = {"UARTE": 8, "SPIM": 7}
WRITABLE, READABLE = 1, 0
RESET_REQUEST = 0x05FA0004
SPIM_INTERRUPT = 1 << (35 - 32)
END = 1 << 6
LONGEST_STORM = 1_000_000


@dataclass(repr=False)
class Chip:
    """A chip after a reset.

    Attributes:
        card: what hangs on its SPI pins.
        build_code: letter of the chip's build code, from A = 0 on.
        inductor: whether the board has that of the DC/DC converter.
        registers: values by name; what is not there is 0.
        polls: how often a register must be read before it shows what it waits for, by its name.
        other_polls: the same for all others.
        polls_per_byte: how many reads of its registers an exchange on SPI takes, besides.
        lost: exchanges on SPI, counted from 1, whose end nobody hears of.
        storm: whether the SPIM interrupts although nothing has ended.
        stuck: whether its event cannot be cleared.
        writable: whether flash takes what is written to it.
        writes: every register written, with its value, in order.
        misuse: what the specification forbids, or leaves undefined.
        console: what the transmitter sent.
        exchanges: how many began on SPI.
        reads_in_thread: how often the core read a register outside of an interrupt.
        reset: whether the chip was told to reset itself.
        pending: how often a register must still be read.
    """

    card: Card = field(default_factory=Card)
    build_code: int = 5
    inductor: bool = True
    registers: dict[str, int] = field(
        default_factory=lambda: {f"UICR.PSELRESET[{i}]": RESET_PIN for i in (0, 1)}
    )
    polls: dict[str, int] = field(default_factory=dict)
    other_polls: int = 20
    polls_per_byte: int = 0
    lost: Container[int] = ()
    storm: bool = False
    stuck: bool = False
    writable: bool = True
    writes: list[tuple[str, int]] = field(default_factory=list)
    misuse: list[str] = field(default_factory=list)
    console: bytes = b""
    reads_in_thread: int = 0
    exchanges: int = 0
    reset: bool = False
    pending: dict[str, int] = field(default_factory=dict)
    _ram: dict[int, int] = field(default_factory=dict)
    _addresses: dict[int, int] = field(default_factory=dict)
    _barrier: bool = False
    _cycles: int = 0
    _library: ctypes.CDLL | None = None
    _received: tuple[int, bytes] | None = None
    _handling: bool = False

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""
        u32 = ctypes.c_uint32
        callbacks: dict[str, object] = {
            "test_read": ctypes.CFUNCTYPE(u32, u32)(self.read),
            "test_write": ctypes.CFUNCTYPE(None, u32, u32)(self.write),
            "test_dma_address": ctypes.CFUNCTYPE(u32, ctypes.c_void_p)(self.dma_address),
            "test_barrier": ctypes.CFUNCTYPE(None)(self.barrier),
        }
        self._library = library
        return connect(library, callbacks)

    def values(self, name: str) -> list[int]:
        """What was written to a register, in order."""
        return [value for written, value in self.writes if written == name]

    def dma_address(self, pointer: int) -> int:
        """A place in RAM as the chip's DMA is told of it."""
        address = self._addresses.setdefault(pointer, 0x20000000 + 0x1000 * len(self._addresses))
        self._ram[address] = pointer
        return address

    def barrier(self) -> None:
        """The core waits for what it wrote."""
        self._barrier = True

    def read(self, address: int) -> int:
        """The core reads a register."""
        name = self._name(address)
        self._interrupt()
        if name == "FICR.BUILD_CODE":
            return self.build_code
        if name == "DWT.CYCCNT":
            self._cycles += 100
            return self._cycles
        if name.startswith("UICR") and not self._ready:
            self.misuse.append(f"{name} is read while flash is being written")
        if name != SPIM_END and self.pending.get(name, 0) > 0:
            self.pending[name] -= 1
            return 0
        if name == "NVMC.READY":
            return 1
        return self.registers.get(name, 0)

    def _interrupt(self) -> None:
        """Let what is under way come nearer to its end, and the core take its interrupt."""
        if self._handling:
            return
        self.reads_in_thread += 1
        for _ in range(LONGEST_STORM):
            if self.pending.get(SPIM_END, 0) > 0:
                self.pending[SPIM_END] -= 1
                if self.pending[SPIM_END] == 0:
                    self._end_transfer()
            event = self.registers.get(SPIM_END, 0) and self.registers.get("SPIM.INTENSET", 0) & END
            enabled = self.registers.get("NVIC.ISER[1]", 0) & SPIM_INTERRUPT
            if not (enabled and (event or self.storm) and self._library is not None):
                return
            self._handling = True
            self._library.poet_spi_interrupt()
            self._handling = False
        self.misuse.append("interrupts for ever")

    @property
    def _ready(self) -> bool:
        return self.pending.get("NVMC.READY", 0) == 0

    def write(self, address: int, value: int) -> None:
        """The core writes a register."""
        name = self._name(address)
        block, _, register = name.partition(".")
        self.writes.append((name, value))
        self._require(name not in READ_ONLY, f"{name} is written")
        if block in ENABLED and (register.startswith("PSEL") or register in ("CONFIG", "BAUDRATE")):
            enabled = self.registers.get(f"{block}.ENABLE", 0)
            self._require(not enabled, f"{name} is changed while {block} is enabled")
        act: dict[str, Callable[[int], None]] = {
            "POWER.RESETREAS": self._clear_reset_reasons,
            "CLOCK.TASKS_HFCLKSTART": lambda _: self._begin("CLOCK.EVENTS_HFCLKSTARTED"),
            "UARTE.TASKS_STARTTX": self._transmit,
            "UARTE.TASKS_STOPTX": lambda _: self._begin("UARTE.EVENTS_TXSTOPPED"),
            "SPIM.TASKS_START": self._transfer,
            "SPIM.TASKS_STOP": lambda _: self._stop_transfer(),
            SPIM_END: self._clear_end,
            "NVIC.ICER[1]": self._disable,
            "UICR.PSELRESET[0]": lambda v: self._program(name, v),
            "UICR.PSELRESET[1]": lambda v: self._program(name, v),
        }
        if name in act:
            act[name](value)
            return
        if name == "NVMC.CONFIG":
            self._require(value in (READABLE, WRITABLE), f"{name} erases")
            self.pending["NVMC.READY"] = self._polls_of("NVMC.READY")
        if name == "APPROTECT.DISABLE":
            self._require(self.build_code >= 5, f"{name} is not there before build code F")
        if name == "POWER.DCDCEN":
            self._require(self.inductor or value == 0, "the converter starts without an inductor")
        if name == "SCB.AIRCR":
            self._require(value == RESET_REQUEST, f"{name} is {value:#x}")
            self._require(self._barrier, "a reset before what was written is there")
            self.reset = True
        if name == "SPIM.FREQUENCY":
            self._require(value in FREQUENCIES, f"no frequency is {value:#x}")
            self.card.clock(FREQUENCIES.get(value, 1))
        for port in (0, 1):
            if name in (f"P{port}.OUTSET", f"P{port}.OUTCLR"):
                self._drive(32 * port + value.bit_length() - 1, name.endswith("SET"))
        self._barrier = False
        self.registers[name] = value

    def _name(self, address: int) -> str:
        name = NAMES.get(address, f"{address:#010x}")
        self._require(address in NAMES, f"{name} is not a register of this chip")
        return name

    def _require(self, right: bool, misuse: str) -> None:
        if not right:
            self.misuse.append(misuse)

    def _polls_of(self, name: str) -> int:
        return self.polls.get(name, self.other_polls)

    def _begin(self, event: str) -> None:
        """Let an event come, after a while."""
        self._require(self.registers.get(event, 0) == 0, f"{event} was not cleared")
        self.registers[event] = 1
        self.pending[event] = self._polls_of(event)

    def _clear_reset_reasons(self, value: int) -> None:
        self.registers["POWER.RESETREAS"] = self.registers.get("POWER.RESETREAS", 0) & ~value

    def _program(self, name: str, value: int) -> None:
        self._require(self.registers.get("NVMC.CONFIG", 0) == WRITABLE, f"{name} is read-only now")
        self._require(self._ready, f"{name} is written while flash is busy")
        if self.writable:
            self.registers[name] &= value  # only bits that are 1 can be changed
        self.pending["NVMC.READY"] = self._polls_of("NVMC.READY")

    def _started(self, block: str) -> bool:
        enabled = self.registers.get(f"{block}.ENABLE", 0) == ENABLED[block]
        self._require(enabled, f"{block} is started while it is off")
        self._require(self._barrier, f"{block} is started before what it sends is in RAM")
        return enabled

    def _transmit(self, _: int) -> None:
        if self._started("UARTE"):
            pointer = self._ram[self.registers["UARTE.TXD.PTR"]]
            sent = ctypes.string_at(pointer, self.registers["UARTE.TXD.MAXCNT"])
            if self._polls_of("UARTE.EVENTS_ENDTX") < OUT_OF_REACH:
                self.console += sent
        self._begin("UARTE.EVENTS_ENDTX")

    def _disable(self, bits: int) -> None:
        self.registers["NVIC.ISER[1]"] = self.registers.get("NVIC.ISER[1]", 0) & ~bits

    def _clear_end(self, value: int) -> None:
        self._require(value == 0, "an event is set by hand")
        self.registers[SPIM_END] = int(self.stuck and self.registers.get(SPIM_END, 0))

    def _stop_transfer(self) -> None:
        self.pending[SPIM_END], self._received = 0, None

    def _end_transfer(self) -> None:
        """What was received is in RAM now, and not before."""
        self.registers[SPIM_END] = 1
        if self._received is not None:
            pointer, data = self._received
            ctypes.memmove(pointer, data, len(data))

    def _transfer(self, _: int) -> None:
        idle = self.stuck or self.pending.get(SPIM_END, 0) == 0
        self._require(idle, "a transfer begins within another")
        self._received, sent = None, b""
        if self._started("SPIM") and self._polls_of(SPIM_END) < OUT_OF_REACH:
            get = self.registers.get
            if get("SPIM.TXD.MAXCNT", 0):
                sent = ctypes.string_at(self._ram[get("SPIM.TXD.PTR", 0)], get("SPIM.TXD.MAXCNT"))
            wanted = get("SPIM.RXD.MAXCNT", 0)
            sent += bytes([get("SPIM.ORC", 0)]) * (wanted - len(sent))
            received = self.card.exchange_all(sent)
            if wanted:
                self._received = self._ram[get("SPIM.RXD.PTR", 0)], received[:wanted]
        cleared = self.stuck or self.registers.get(SPIM_END, 0) == 0
        self._require(cleared, f"{SPIM_END} was not cleared")
        polls = self._polls_of(SPIM_END) + self.polls_per_byte * len(sent)
        self.exchanges += 1
        self.pending[SPIM_END] = OUT_OF_REACH if self.exchanges in self.lost else max(1, polls)

    def _drive(self, pin: int, high: bool) -> None:
        if pin == SELECT_PIN:
            self.card.select(not high)
