# SPDX-License-Identifier: Apache-2.0
"""The registers of an nRF52840 that the firmware may use, on a DK: it notes every misuse.

Written from the nRF52840 Product Specification 1.7 and the ARMv7-M Architecture Reference Manual,
not from the drivers. A register that is not here may neither be read nor written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

from chips import connect
from sd_card import Card

ERASED = 0xFFFFFFFF
RESET_PIN, CONSOLE_PIN, LISTENING_PIN = 18, 6, 8
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
    "UARTE.TASKS_STARTRX": 0x40002000,
    "UARTE.TASKS_STARTTX": 0x40002008,
    "UARTE.TASKS_STOPTX": 0x4000200C,
    "UARTE.EVENTS_RXDRDY": 0x40002108,
    "UARTE.EVENTS_ENDTX": 0x40002120,
    "UARTE.EVENTS_TXSTOPPED": 0x40002158,
    "UARTE.SHORTS": 0x40002200,
    "UARTE.INTENSET": 0x40002304,
    "UARTE.ENABLE": 0x40002500,
    "UARTE.PSEL.RTS": 0x40002508,
    "UARTE.PSEL.TXD": 0x4000250C,
    "UARTE.PSEL.CTS": 0x40002510,
    "UARTE.PSEL.RXD": 0x40002514,
    "UARTE.BAUDRATE": 0x40002524,
    "UARTE.RXD.PTR": 0x40002534,
    "UARTE.RXD.MAXCNT": 0x40002538,
    "UARTE.TXD.PTR": 0x40002544,
    "UARTE.TXD.MAXCNT": 0x40002548,
    "UARTE.CONFIG": 0x4000256C,
    "NVMC.READY": 0x4001E400,
    "NVMC.CONFIG": 0x4001E504,
    "NVMC.ICACHECNF": 0x4001E540,
    "SPIM.TASKS_START": 0x40023010,
    "SPIM.TASKS_STOP": 0x40023014,
    "SPIM.EVENTS_END": 0x40023118,
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
    "DWT.CTRL": 0xE0001000,
    "DWT.CYCCNT": 0xE0001004,
    "SYST.CSR": 0xE000E010,
    "SYST.RVR": 0xE000E014,
    "SYST.CVR": 0xE000E018,
    "NVIC.ICPR": 0xE000E280,
    "SCB.AIRCR": 0xE000ED0C,
    "SCB.SCR": 0xE000ED10,
    "DEMCR": 0xE000EDFC,
}  # fmt: skip
NAMES = {address: name for name, address in ADDRESSES.items()}
READ_ONLY = {"FICR.BUILD_CODE", "NVMC.READY"}
FREQUENCIES = {0x02000000 << i: 125_000 << i for i in range(7)}
ENABLED = {"UARTE": 8, "SPIM": 7}
WRITABLE, READABLE = 1, 0
RESET_REQUEST = 0x05FA0004
BURST = 20  # no divisor of the receiver's ring: it ends in the middle of one
SEVONPEND, ENDRX_STARTRX, RXDRDY = 1 << 4, 1 << 5, 1 << 2


@dataclass
class Chip:
    """A chip after a reset.

    Attributes:
        card: what hangs on its SPI pins.
        build_code: letter of the chip's build code, from A = 0 on.
        inductor: whether the board has that of the DC/DC converter.
        registers: values by name; what is not there is 0.
        polls: how often a register must be read before it shows what it waits for, by its name.
        other_polls: the same for all others.
        writable: whether flash takes what is written to it.
        writes: every register written, with its value, in order.
        misuse: what the specification forbids, or leaves undefined.
        console: what the transmitter sent.
        typed: what is sent to it, as soon as it sleeps.
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
    writable: bool = True
    writes: list[tuple[str, int]] = field(default_factory=list)
    misuse: list[str] = field(default_factory=list)
    console: bytes = b""
    typed: bytes = b""
    reset: bool = False
    pending: dict[str, int] = field(default_factory=dict)
    _ram: dict[int, int] = field(default_factory=dict)
    _barrier: bool = False
    _cycles: int = 0
    _received: int = 0
    _ring: int = 0
    _pending: bool = False

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""
        u32 = ctypes.c_uint32
        callbacks: dict[str, object] = {
            "test_read": ctypes.CFUNCTYPE(u32, u32)(self.read),
            "test_write": ctypes.CFUNCTYPE(None, u32, u32)(self.write),
            "test_dma_address": ctypes.CFUNCTYPE(u32, ctypes.c_void_p)(self.dma_address),
            "test_barrier": ctypes.CFUNCTYPE(None)(self.barrier),
            "test_sleep": ctypes.CFUNCTYPE(ctypes.c_int)(self.sleep),
        }
        return connect(library, callbacks)

    def values(self, name: str) -> list[int]:
        """What was written to a register, in order."""
        return [value for written, value in self.writes if written == name]

    def dma_address(self, pointer: int) -> int:
        """A place in RAM as the chip's DMA is told of it."""
        address = 0x20000000 + 0x10000 * (len(self._ram) % 1024)
        self._ram[address] = pointer
        return address

    def barrier(self) -> None:
        """The core waits for what it wrote."""
        self._barrier = True

    def sleep(self) -> bool:
        """The core waits for an event: an interrupt that becomes pending is one, if it is told so.

        Some characters come in, which the firmware must take before it sleeps again.
        """
        get = self.registers.get
        self._require(get("SYST.CSR", 0) == 0, "SysTick ends each sleep")
        if not self.typed or not self._is_receiving():
            return False
        room = get("UARTE.RXD.MAXCNT", 0)
        for byte in self.typed[:BURST]:
            at = self._ring + self._received % room
            ctypes.memset(at, byte, 1)
            self._received += 1
        self.typed = self.typed[BURST:]
        wakes = not get("UARTE.EVENTS_RXDRDY", 0) and not self._pending
        self.registers["UARTE.EVENTS_RXDRDY"] = 1
        self._pending = True
        return wakes and get("SCB.SCR", 0) == SEVONPEND and bool(get("UARTE.INTENSET", 0) & RXDRDY)

    def _is_receiving(self) -> bool:
        get = self.registers.get
        self._require(get("UARTE.SHORTS", 0) == ENDRX_STARTRX, "the receiver ends")
        self._require(get(f"PIN_CNF[{LISTENING_PIN}]", 0) == INPUT_PULLUP, "RXD is no input")
        self._require(get("UARTE.PSEL.RXD") == LISTENING_PIN, "the receiver has no pin")
        return bool(get("UARTE.TASKS_STARTRX", 0)) and get("UARTE.ENABLE", 0) == 8

    def read(self, address: int) -> int:
        """The core reads a register."""
        name = self._name(address)
        if name == "FICR.BUILD_CODE":
            return self.build_code
        if name == "DWT.CYCCNT":
            self._cycles += 100
            return self._cycles
        if name.startswith("UICR") and not self._ready:
            self.misuse.append(f"{name} is read while flash is being written")
        if self.pending.get(name, 0) > 0:
            self.pending[name] -= 1
            return 0
        if name == "NVMC.READY":
            return 1
        return self.registers.get(name, 0)

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
        if name == "UARTE.TASKS_STARTRX":
            self._require(self._barrier, "the receiver starts before its ring is told")
            self._require(self.registers.get("UARTE.ENABLE", 0) == 8, "the receiver is off")
            self._ring = self._ram[self.registers["UARTE.RXD.PTR"]]
        if name == "NVIC.ICPR":
            self._require(value == 1 << 2, f"{name} is {value:#x}")
            self._pending = bool(self.registers.get("UARTE.EVENTS_RXDRDY", 0))
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

    def _transfer(self, _: int) -> None:
        if self._started("SPIM") and self._polls_of("SPIM.EVENTS_END") < OUT_OF_REACH:
            get = self.registers.get
            received = bytearray()
            sent = b""
            if get("SPIM.TXD.MAXCNT", 0):
                sent = ctypes.string_at(self._ram[get("SPIM.TXD.PTR", 0)], get("SPIM.TXD.MAXCNT"))
            for i in range(max(len(sent), get("SPIM.RXD.MAXCNT", 0))):
                out = sent[i] if i < len(sent) else get("SPIM.ORC", 0)
                received.append(self.card.exchange(out))
            wanted = get("SPIM.RXD.MAXCNT", 0)
            if wanted:
                ctypes.memmove(self._ram[get("SPIM.RXD.PTR", 0)], bytes(received[:wanted]), wanted)
        self._begin("SPIM.EVENTS_END")

    def _drive(self, pin: int, high: bool) -> None:
        if pin == SELECT_PIN:
            self.card.select(not high)
