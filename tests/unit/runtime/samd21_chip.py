# SPDX-License-Identifier: Apache-2.0
"""The registers of a SAM D21 that the firmware may use, on a MKR1000: it notes every misuse.

Written from the SAM D21 data sheet, DS40001882, its errata, and the ARMv6-M Architecture Reference
Manual, not from the drivers. A register that is not here may neither be read nor written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

from chips import connect
from sd_card import Card

SELECT_PIN, MOSI_PIN, CLOCK_PIN, MISO_PIN = 42, 16, 17, 19
CONSOLE_PIN, LISTENING_PIN = 54, 55
FUNCTION_C, FUNCTION_D = 2, 3
PMUXEN, INEN, PULLEN, DRVSTR = 1, 2, 4, 64
OUT_OF_REACH = 1 << 30
"""More polls than any wait has."""

SPI, USART = "SERCOM1", "SERCOM5"
NUMBERS = {SPI: 1, USART: 5}
SWRST, ENABLE = 1, 2
DRE, RXC = 1, 4

_SERCOM = {"CTRLA": (0x00, 4), "CTRLB": (0x04, 4), "INTFLAG": (0x18, 1), "SYNCBUSY": (0x1C, 4),
           "DATA": (0x28, 2)}  # fmt: skip
REGISTERS = {
    "PM.APBCMASK": (0x40000420, 4),
    "PM.RCAUSE": (0x40000438, 1),
    "SYSCTRL.PCLKSR": (0x4000080C, 4),
    "SYSCTRL.XOSC32K": (0x40000814, 2),
    "SYSCTRL.OSC8M": (0x40000820, 4),
    "SYSCTRL.DFLLCTRL": (0x40000824, 2),
    "SYSCTRL.DFLLMUL": (0x4000082C, 4),
    "GCLK.CTRL": (0x40000C00, 1),
    "GCLK.STATUS": (0x40000C01, 1),
    "GCLK.CLKCTRL": (0x40000C02, 2),
    "GCLK.GENCTRL": (0x40000C04, 4),
    "GCLK.GENDIV": (0x40000C08, 4),
    "NVMCTRL.CTRLB": (0x41004004, 4),
    **{f"PORT{group}.{name}": (0x41004400 + 0x80 * group + offset, 4)
       for group in (0, 1) for name, offset in (("DIRSET", 8), ("OUTCLR", 0x14), ("OUTSET", 0x18))},
    **{f"PMUX[{2 * i}]": (0x41004400 + 0x80 * (i // 16) + 0x30 + i % 16, 1) for i in range(32)},
    **{f"PINCFG[{i}]": (0x41004400 + 0x80 * (i // 32) + 0x40 + i % 32, 1) for i in range(64)},
    **{f"{sercom}.{name}": (0x42000800 + 0x400 * number + offset, size)
       for sercom, number in NUMBERS.items() for name, (offset, size) in _SERCOM.items()},
    f"{SPI}.BAUD": (0x42000C0C, 1),
    f"{USART}.BAUD": (0x42001C0C, 2),
    f"{USART}.INTENSET": (0x42001C16, 1),
    "SYST.CSR": (0xE000E010, 4),
    "SYST.RVR": (0xE000E014, 4),
    "SYST.CVR": (0xE000E018, 4),
    "NVIC.ICPR": (0xE000E280, 4),
    "SCB.ICSR": (0xE000ED04, 4),
    "SCB.SCR": (0xE000ED10, 4),
}  # fmt: skip
NAMES = {address: name for name, (address, _) in REGISTERS.items()}
READ_ONLY = {"PM.RCAUSE", "SYSCTRL.PCLKSR", "GCLK.STATUS", "SCB.ICSR"} | {
    f"{sercom}.SYNCBUSY" for sercom in NUMBERS
}
AFTER_RESET = {
    "PM.APBCMASK": 0x00010000,
    "PM.RCAUSE": 1,
    "SYSCTRL.XOSC32K": 0x0080,
    "SYSCTRL.OSC8M": 0x87070382,
    "SYSCTRL.DFLLCTRL": 0x0080,
}
CRYSTAL_READY, DFLL_READY, LOCKED = 1 << 1, 1 << 4, 3 << 6
ON_DEMAND = 0x80
SEVONPEND = 1 << 4


@dataclass
class Chip:
    """A chip after a reset, when its bootloader has begun the program.

    Attributes:
        card: what hangs on its SPI pins.
        registers: values by name; what is not there is 0.
        on_read: called before each read of a register, with its name.
        polls: how often it must be asked before it shows what it waits for, by the name of that:
            crystal, dfll, lock, generator, swrst, SERCOM1, SERCOM5 (their synchronisation), SPI,
            USART (a byte), DRE (room for the next byte on SPI).
        writes: every register written, with its value, in order.
        misuse: what the data sheet forbids, or leaves undefined.
        console: what the transmitter sent.
        typed: what is sent to it, as soon as it sleeps.
        core_hz: what the processor runs at.
        cycles: how many have passed, as SysTick counts them.
        handled: how many of SysTick's interrupts the processor has taken.
        pending: how often it must still be asked.
    """

    card: Card = field(default_factory=Card)
    registers: dict[str, int] = field(default_factory=lambda: dict(AFTER_RESET))
    polls: dict[str, int] = field(default_factory=dict)
    writes: list[tuple[str, int]] = field(default_factory=list)
    misuse: list[str] = field(default_factory=list)
    console: bytes = b""
    typed: bytes = b""
    core_hz: int = 1_000_000
    cycles: int = 0
    handled: int = 0
    pending: dict[str, int] = field(default_factory=dict)
    on_read: Callable[[str], None] = lambda name: None
    _ready: set[str] = field(default_factory=set)
    _clocked: dict[int, int] = field(default_factory=dict)
    _dividers: set[int] = field(default_factory=set)
    _received: list[int] = field(default_factory=list)
    _heard: list[int] = field(default_factory=list)
    _pending: bool = False
    _high: set[int] = field(default_factory=set)
    _outputs: set[int] = field(default_factory=set)

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""
        u32 = ctypes.c_uint32
        callbacks: dict[str, object] = {
            "test_read": ctypes.CFUNCTYPE(u32, u32)(lambda address: self.read(address, 4)),
            "test_write": ctypes.CFUNCTYPE(None, u32, u32)(lambda a, v: self.write(a, 4, v)),
            "test_read_part": ctypes.CFUNCTYPE(u32, u32, u32)(self.read),
            "test_write_part": ctypes.CFUNCTYPE(None, u32, u32, u32)(self.write),
            "test_sleep": ctypes.CFUNCTYPE(ctypes.c_int)(self.sleep),
        }
        return connect(library, callbacks)

    def values(self, name: str) -> list[int]:
        """What was written to a register, in order."""
        return [value for written, value in self.writes if written == name]

    def value(self, name: str) -> int:
        """What a register holds."""
        return self.registers.get(name, 0)

    def sleep(self) -> bool:
        """The core waits for an event: an interrupt that becomes pending is one, if it is told so.

        Two characters come in: more have no room in the receiver.
        """
        self._require(self.value("SYST.CSR") == 0, "SysTick ends each sleep")
        on = self.value(f"{USART}.CTRLA") & ENABLE and self.value(f"{USART}.CTRLB") >> 17 & 1
        if not self.typed or not on:
            return False
        self._require(self._is_given(LISTENING_PIN, FUNCTION_D), "the receiver has no pin")
        self._require(LISTENING_PIN in self._high, "an open line is pulled down")
        self._heard += self.typed[:2]
        self.typed = self.typed[2:]
        wakes = not self._pending and self.value("SCB.SCR") == SEVONPEND
        self._pending = True
        return wakes and self.value(f"{USART}.INTENSET") == RXC

    def read(self, address: int, size: int) -> int:
        """The core reads a register, or its lowest byte."""
        name = self._name(address)
        self._require(size in (1, REGISTERS.get(name, (0, size))[1]), f"{name} is read in halves")
        self.on_read(name)
        return self._read(name) & ((1 << 8 * size) - 1)

    def _read(self, name: str) -> int:
        block, _, register = name.partition(".")
        if name == "SYSCTRL.PCLKSR":
            return self._oscillators()
        if name == "GCLK.STATUS":
            return 0 if self._comes("generator") else 0x80
        if name == "GCLK.CTRL":
            return 0 if self._comes("swrst") else 1
        if name == "SYST.CVR":
            return -self.cycles & 0xFFFFFF
        if name == "SCB.ICSR":
            return (self.cycles >> 24 > self.handled) << 26
        if block in NUMBERS:
            self._require(self._is_on_bus(block), f"{name} is read without the bus's clock")
            if register == "SYNCBUSY":
                return 0 if self._comes(block) else SWRST | ENABLE
            if register == "INTFLAG":
                return self._flags(block)
            if register == "DATA" and block == USART:
                self._require(bool(self._heard), "a character is read before it has come")
                return self._heard.pop(0) if self._heard else 0
            if register == "DATA":
                self._require(bool(self._received), "a byte is read before it has come")
                return self._received.pop(0) if self._received else 0
        return self.value(name)

    def write(self, address: int, size: int, value: int) -> None:
        """The core writes a register."""
        name = self._name(address)
        self._require(size == REGISTERS.get(name, (0, size))[1], f"{name} is written in parts")
        self._require(name not in READ_ONLY, f"{name} is written")
        self.writes.append((name, value))
        block, _, register = name.partition(".")
        before = self.value(name)
        self.registers[name] = value
        act: dict[str, Callable[[str, int, int], None]] = {
            "SYSCTRL": self._write_oscillator,
            "GCLK": self._write_generator,
            SPI: self._write_sercom,
            USART: self._write_sercom,
            "PORT0": lambda register, _, value: self._drive(0, register, value),
            "PORT1": lambda register, _, value: self._drive(1, register, value),
        }
        if block in act:
            self._block = block
            act[block](register, before, value)
        if name == "NVIC.ICPR":
            self._require(value == 1 << (9 + NUMBERS[USART]), f"{name} is {value:#x}")
            self._pending = bool(self._heard)
        if name == "SYST.CVR":
            self.cycles, self.handled = 0, 0

    def _name(self, address: int) -> str:
        name = NAMES.get(address, f"{address:#010x}")
        self._require(address in NAMES, f"{name} is not a register of this chip")
        return name

    def _require(self, right: bool, misuse: str) -> None:
        if not right:
            self.misuse.append(misuse)

    def _begin(self, what: str) -> None:
        """Let something come, after a while."""
        self.pending[what] = self.polls.get(what, 3)
        self._ready.discard(what)

    def _comes(self, what: str) -> bool:
        """Whether something has come; each question is a poll."""
        if self.pending.get(what, 0) > 0:
            self.pending[what] -= 1
            return False
        self._ready.add(what)
        return True

    # Clocks ------------------------------------------------------------------------------------

    def _oscillators(self) -> int:
        value = 1 << 3  # OSC8M
        if self.value("SYSCTRL.XOSC32K") & ENABLE and self._comes("crystal"):
            value |= CRYSTAL_READY
        if self.value("SYSCTRL.DFLLCTRL") & ENABLE and self._comes("dfll"):
            value |= DFLL_READY
            if self.value("SYSCTRL.DFLLCTRL") & 4 and 0 in self._clocked and self._comes("lock"):
                value |= LOCKED
        return value

    def _write_oscillator(self, register: str, before: int, value: int) -> None:
        if register == "OSC8M":
            self._require(value & ~0x300 == before & ~0x300, "OSC8M loses its calibration")
            self.core_hz = 8_000_000 >> (value >> 8 & 3)
        if register == "XOSC32K":
            if value & ENABLE and not before & ENABLE:
                self._require(before == value & ~ENABLE, "XOSC32K is set and enabled at once")
                self._require(value & 0xC == 0xC, "XOSC32K drives no crystal, or gives no 32 kHz")
                self._require(value >> 8 & 7 >= 4, "the crystal gets less than half a second")
                self._begin("crystal")
        if register in ("DFLLCTRL", "DFLLMUL"):
            first = self.value("SYSCTRL.DFLLCTRL") & ON_DEMAND or before & ON_DEMAND
            plain = register == "DFLLCTRL" and value == ENABLE
            self._require(not first or plain, "erratum 9905: the DFLL is set while on demand")
            self._require(
                bool(first) or "dfll" in self._ready, f"{register}: the DFLL is not ready"
            )
            self._begin("dfll")
            self._begin("lock")
        if register == "DFLLMUL":
            self._require(not self.value("SYSCTRL.DFLLCTRL") & 4, "MUL is set while it locks")
        if register == "DFLLCTRL" and value & 4:
            multiplied = (self.value("SYSCTRL.DFLLMUL") & 0xFFFF) * 32_768
            self._require(abs(multiplied - 48e6) <= 16_384, f"the DFLL is to run at {multiplied}")
            self._require(self.value("SYSCTRL.DFLLMUL") >> 16 != 0, "the DFLL takes no steps")
            self._require(self._clocked.get(0) == 1, "the DFLL has no reference")
            self._require(bool(value & 1 << 11), "the DFLL's clock comes before it is locked")

    def _write_generator(self, register: str, before: int, value: int) -> None:
        idle = "generator" in self._ready or "generator" not in self.pending
        self._require(idle, f"GCLK.{register} is written while it synchronises")
        self._begin("generator")
        if register == "CTRL":
            self._require(value == SWRST, "GCLK.CTRL holds nothing else")
            self._clocked.clear()
            self._dividers.clear()
            self._begin("swrst")
            return
        self._require("swrst" in self._ready or "swrst" not in self.pending, "GCLK is in reset")
        if register == "GENDIV":
            self._require(value >> 8 == 0, "a clock is divided")
            self._dividers.add(value & 0xF)
        if register == "GENCTRL":
            source = value >> 8 & 0x1F
            self._require(value & 0xF in self._dividers, "a generator without its divider set")
            self._require(bool(value & 1 << 16), "a generator is switched off")
            if value & 0xF == 0:
                self._require(source == 7 and "lock" in self._ready, "the core has no locked clock")
                self._require(self.value("NVMCTRL.CTRLB") >> 1 & 0xF >= 1, "flash is too slow")
                self.core_hz = 48_000_000
            else:
                self._require(source == 5 and "crystal" in self._ready, "no crystal to divide")
        if register == "CLKCTRL":
            self._require(bool(value & 1 << 14), "a clock is switched off")
            self._clocked[value & 0x3F] = value >> 8 & 0xF

    # SERCOM ------------------------------------------------------------------------------------

    def _is_on_bus(self, block: str) -> bool:
        return bool(self.value("PM.APBCMASK") >> (2 + NUMBERS[block]) & 1)

    def _is_clocked(self, block: str) -> bool:
        return self._is_on_bus(block) and self._clocked.get(0x14 + NUMBERS[block]) == 0

    def _write_sercom(self, register: str, before: int, value: int) -> None:
        block = self._block
        name = f"{block}.{register}"
        enabled = bool(self.value(f"{block}.CTRLA") & ENABLE)
        self._require(self._is_clocked(block), f"{name} is written without a clock")
        idle = block in self._ready or block not in self.pending
        self._require(idle or value & ENABLE == 0, f"{name} is written while it synchronises")
        if register == "CTRLA":
            if value & SWRST:
                self.registers |= {f"{block}.{name}": 0 for name in ("CTRLA", "CTRLB", "BAUD")}
                self._received.clear()
            elif (value ^ before) & ~ENABLE:
                self._require(not before & ENABLE, f"{name} is changed while it is enabled")
            if (value ^ before) & ENABLE or value & SWRST:
                self._begin(block)
            if value & ENABLE and not before & ENABLE:
                self._enable(block)
        elif register in ("CTRLB", "BAUD"):
            self._require(not enabled, f"{name} is changed while it is enabled")
        elif register == "DATA":
            self._require(enabled and idle, f"{name} is written while it is off")
            self._exchange(block, value)

    def _enable(self, block: str) -> None:
        control = self.value(f"{block}.CTRLA")
        baud = self.value(f"{block}.BAUD")
        if block == SPI:
            self._require(control & ~ENABLE == 3 << 20 | 3 << 2, f"SPI mode {control:#x}")
            self._require(self.value(f"{SPI}.CTRLB") == 1 << 17, "SPI receives nothing")
            self.card.clock(self.core_hz // (2 * (baud + 1)) if baud else 375_000)
        else:
            self._require(control & ~ENABLE == 1 << 30 | 3 << 20 | 1 << 16 | 1 << 2,
                          f"USART {control:#x}")  # fmt: skip
            self._require(self.value(f"{USART}.CTRLB") == 3 << 16, "USART is half on")
            rate = self.core_hz / 16 * (1 - baud / 65536)
            self._require(abs(rate / 115_200 - 1) < 0.005, f"{rate:.0f} baud")

    def _flags(self, block: str) -> int:
        if block == USART:
            return DRE * self._comes("USART") | RXC * bool(self._heard)
        come = bool(self._received) and self._comes("SPI")
        moved_on = self._comes("DRE") and (come or len(self._received) < 2)
        return DRE * moved_on | RXC * come

    def _exchange(self, block: str, value: int) -> None:
        self._require(value < 256, "more than a byte is sent")
        if block == USART:
            self._require("USART" in self._ready, "a byte is sent while one waits")
            self._require(self._is_given(CONSOLE_PIN, FUNCTION_D), "the console has no pin")
            self._begin("USART")
            self.console += bytes([value])
            return
        for pin in (MOSI_PIN, CLOCK_PIN, MISO_PIN):
            self._require(self._is_given(pin, FUNCTION_C), f"pin {pin} is not the bus's")
        self._require(MISO_PIN in self._high, "an open line is pulled down")
        ready = "DRE" in self._ready or "DRE" not in self.pending
        self._require(ready, "a byte is sent while one waits")
        self._require(len(self._received) < 2, "more bytes are under way than have room")
        self._begin("DRE")
        self._received.append(self.card.exchange(value))
        self._begin("SPI")

    # Pins --------------------------------------------------------------------------------------

    def _is_given(self, pin: int, function: int) -> bool:
        mux = self.value(f"PMUX[{pin // 2 * 2}]") >> (4 * (pin % 2)) & 0xF
        return mux == function and bool(self.value(f"PINCFG[{pin}]") & PMUXEN)

    def _drive(self, group: int, register: str, value: int) -> None:
        pins = {32 * group + i for i in range(32) if value >> i & 1}
        if register == "DIRSET":
            self._require(pins <= self._high, "a pin becomes an output before its level is set")
            self._outputs |= pins
        else:
            self._high = self._high | pins if register == "OUTSET" else self._high - pins
        if SELECT_PIN in self._outputs and SELECT_PIN in pins:
            self.card.select(SELECT_PIN not in self._high)
