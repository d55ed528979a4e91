# SPDX-License-Identifier: Apache-2.0
"""The registers of an STM32F405 that the firmware may use, with 8 MHz: it notes every misuse.

Written from ST's reference manual RM0090, the data sheet's limits, and the ARMv7-M Architecture
Reference Manual, not from the drivers. A register that is not here may neither be read nor written.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field

from chips import connect
from sd_card import Card

CRYSTAL_HZ = 8_000_000
OWN_HZ = 16_000_000
SELECT_PIN, CLOCK_PIN, MISO_PIN, MOSI_PIN = 4, 5, 6, 7
CONSOLE_PIN, LISTENING_PIN = 9, 10
FUNCTION_SPI1, FUNCTION_USART1 = 5, 7
OUT_OF_REACH = 1 << 30
"""More polls than any wait has."""

HSION, HSIRDY, HSEON, HSERDY, PLLON, PLLRDY = 1, 2, 1 << 16, 1 << 17, 1 << 24, 1 << 25
UE, RXNEIE, TE, RE, SPE, TXE, RXNE = 1 << 13, 1 << 5, 1 << 3, 1 << 2, 1 << 6, 1 << 7, 1
ORE, HEARD, USART1_INTERRUPT, SEVONPEND = 1 << 3, 1 << 5, 37, 1 << 4

_GPIO = {"MODER": 0x00, "OSPEEDR": 0x08, "PUPDR": 0x0C, "BSRR": 0x18, "AFRL": 0x20, "AFRH": 0x24}
REGISTERS = {
    "SPI1.CR1": 0x40013000,
    "SPI1.SR": 0x40013008,
    "SPI1.DR": 0x4001300C,
    "USART1.SR": 0x40011000,
    "USART1.DR": 0x40011004,
    "USART1.BRR": 0x40011008,
    "USART1.CR1": 0x4001100C,
    **{f"GPIOA.{name}": 0x40020000 + offset for name, offset in _GPIO.items()},
    "RCC.CR": 0x40023800,
    "RCC.PLLCFGR": 0x40023804,
    "RCC.CFGR": 0x40023808,
    "RCC.APB2RSTR": 0x40023824,
    "RCC.AHB1ENR": 0x40023830,
    "RCC.APB2ENR": 0x40023844,
    "RCC.CSR": 0x40023874,
    "FLASH.ACR": 0x40023C00,
    "DBGMCU.CR": 0xE0042004,
    "SYST.CSR": 0xE000E010,
    "SYST.RVR": 0xE000E014,
    "SYST.CVR": 0xE000E018,
    "NVIC.ICPR1": 0xE000E284,
    "SCB.ICSR": 0xE000ED04,
    "SCB.SCR": 0xE000ED10,
}
NAMES = {address: name for name, address in REGISTERS.items()}
READ_ONLY = {"SPI1.SR", "USART1.SR", "SCB.ICSR"}
AFTER_RESET = {
    "RCC.CR": 0x00000083,
    "RCC.PLLCFGR": 0x24003010,
    "RCC.AHB1ENR": 0x00100000,
    "RCC.CSR": 0x0E000000,
    "GPIOA.MODER": 0xA8000000,
    "GPIOA.OSPEEDR": 0x0C000000,
    "GPIOA.PUPDR": 0x64000000,
}
FROM_BOOTLOADER = {
    **AFTER_RESET,
    "GPIOA.MODER": 0xAA840000,  # USB's pins, and other uses of the console's
    "GPIOA.AFRH": 0x000AA010,
    "RCC.CR": 0x03030083,
    "RCC.CFGR": 0x0000940A,
    "RCC.PLLCFGR": 0x24043010,
}
"""As one leaves it that runs on the PLL."""
SWITCH = {"GPIOA": ("RCC.AHB1ENR", 0), "USART1": ("RCC.APB2ENR", 4), "SPI1": ("RCC.APB2ENR", 12)}
"""What gives a peripheral its clock: register and bit."""


@dataclass
class Chip:
    """A chip when its program begins.

    Attributes:
        card: what hangs on its SPI pins.
        registers: values by name; what is not there is 0.
        on_read: called before each read of a register, with its name.
        polls: how often it must be asked before it shows what it waits for, by the name of that:
            hsi, crystal, pll, stop (of the PLL), flash, switch (of the core's clock), USART, SPI.
        writes: every register written, with its value, in order.
        misuse: what the manual forbids, or leaves undefined.
        console: what the transmitter sent.
        typed: what is sent to it, as soon as it sleeps; it has room for one character.
        overrun: whether one was lost, which the receiver says until it is read.
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
    overrun: bool = False
    cycles: int = 0
    handled: int = 0
    pending: dict[str, int] = field(default_factory=dict)
    on_read: Callable[[str], None] = lambda name: None
    _silent: set[str] = field(default_factory=set)
    _received: list[int] = field(default_factory=list)
    _high: set[int] = field(default_factory=set)
    _heard: list[int] = field(default_factory=list)
    _pending_interrupt: bool = False

    def install(self, library: ctypes.CDLL) -> list[object]:
        """Make it the library's chip; what is returned must be kept as long as it is used."""
        u32 = ctypes.c_uint32
        return connect(
            library,
            {
                "test_read": ctypes.CFUNCTYPE(u32, u32)(self.read),
                "test_write": ctypes.CFUNCTYPE(None, u32, u32)(self.write),
                "test_sleep": ctypes.CFUNCTYPE(ctypes.c_int)(self.sleep),
            },
        )

    def values(self, name: str) -> list[int]:
        """What was written to a register, in order."""
        return [value for written, value in self.writes if written == name]

    def value(self, name: str) -> int:
        """What a register holds."""
        return self.registers.get(name, 0)

    @property
    def core_hz(self) -> int:
        """What the processor runs at."""
        if self.value("RCC.CFGR") >> 2 & 3 != 2:
            return OWN_HZ
        return self._vco_hz // (2 * (self.value("RCC.PLLCFGR") >> 16 & 3) + 2)

    def bus_hz(self, shift: int) -> int:
        """What the bus runs at whose divider CFGR holds there: 10 for APB1, 13 for APB2."""
        code = self.value("RCC.CFGR") >> shift & 7
        return self.core_hz >> (code - 3 if code >= 4 else 0)

    def sleep(self) -> bool:
        """The core waits for an event: an interrupt that becomes pending, if it is told so."""
        self._require(self.value("SYST.CSR") == 0, "SysTick ends each sleep")
        if not self.typed or self.value("USART1.CR1") != UE | RXNEIE | TE | RE:
            return False
        self._require(self._is_given(LISTENING_PIN, FUNCTION_USART1), "the receiver has no pin")
        pulled = self.value("GPIOA.PUPDR") >> 2 * LISTENING_PIN & 3
        self._require(pulled == 1, "an open line is not pulled up")
        self._require(not self._heard and not self.overrun, "it sleeps before it has read")
        self._heard, self.typed = [self.typed[0]], self.typed[1:]
        wakes = not self._pending_interrupt and self.value("SCB.SCR") == SEVONPEND
        self._pending_interrupt = True
        return wakes

    def read(self, address: int) -> int:
        """The core reads a register."""
        name = self._name(address)
        self._require_clock(name)
        self.on_read(name)
        if name in ("RCC.AHB1ENR", "RCC.APB2ENR"):
            self._silent = {block for block in self._silent if SWITCH[block][0] != name}
        if name == "RCC.CR":
            return self._oscillators()
        if name == "RCC.CFGR":
            value = self.value(name)
            if self._comes("switch"):
                value = value & ~0xC | (value & 3) << 2
                self.registers[name] = value
            return value
        if name == "FLASH.ACR":
            return self.value(name) if self._comes("flash") else 0
        if name == "USART1.SR":
            heard = HEARD * bool(self._heard) | ORE * self.overrun
            return TXE * self._comes("USART") | heard
        if name == "USART1.DR":
            self._require(bool(self._heard) or self.overrun, "no character has come")
            self.overrun = False
            return self._heard.pop() if self._heard else 0xFF
        if name == "SPI1.SR":
            return RXNE if self._received and self._comes("SPI") else 0
        if name == "SPI1.DR":
            come = bool(self._received) and self.pending.get("SPI", 0) == 0
            self._require(come, "a byte is read before it has come")
            return self._received.pop() if come else 0
        if name == "SYST.CVR":
            return -self.cycles & 0xFFFFFF
        if name == "SCB.ICSR":
            return (self.cycles >> 24 > self.handled) << 26
        return self.value(name)

    def write(self, address: int, value: int) -> None:
        """The core writes a register."""
        name = self._name(address)
        self._require_clock(name)
        self._require(name not in READ_ONLY, f"{name} is written")
        self.writes.append((name, value))
        before = self.value(name)
        self.registers[name] = value
        block, _, register = name.partition(".")
        act: dict[str, Callable[[str, int, int], None]] = {
            "RCC": self._write_clock,
            "GPIOA": self._write_pins,
            "USART1": self._write_usart,
            "SPI1": self._write_spi,
        }
        if block in act:
            act[block](register, before, value)
        if name == "FLASH.ACR":
            self._require(value & ~0x607 == 0, f"FLASH.ACR {value:#x}")
            self._begin("flash")
        if name == "NVIC.ICPR1":
            self._require(value == 1 << USART1_INTERRUPT - 32, f"{name} is {value:#x}")
            self._pending_interrupt = bool(self._heard)
        if name == "SYST.CVR":
            self.cycles, self.handled = 0, 0

    def _name(self, address: int) -> str:
        name = NAMES.get(address, f"{address:#010x}")
        self._require(address in NAMES, f"{name} is not a register of this chip")
        return name

    def _require(self, right: bool, misuse: str) -> None:
        if not right:
            self.misuse.append(misuse)

    def _require_clock(self, name: str) -> None:
        block = name.partition(".")[0]
        if block in SWITCH:
            register, bit = SWITCH[block]
            self._require(bool(self.value(register) >> bit & 1), f"{name} without a clock")
            self._require(block not in self._silent, f"{name} right after its clock was enabled")

    def _begin(self, what: str) -> None:
        """Let something come, after a while."""
        self.pending[what] = self.polls.get(what, 3)

    def _comes(self, what: str) -> bool:
        """Whether something has come; each question is a poll."""
        if self.pending.get(what, 0) > 0:
            self.pending[what] -= 1
            return False
        return True

    # Clocks ------------------------------------------------------------------------------------

    @property
    def _vco_hz(self) -> int:
        settings = self.value("RCC.PLLCFGR")
        source = CRYSTAL_HZ if settings >> 22 & 1 else OWN_HZ
        return source // (settings & 0x3F) * (settings >> 6 & 0x1FF)

    def _oscillators(self) -> int:
        value = self.value("RCC.CR") & ~(HSIRDY | HSERDY | PLLRDY)
        value |= HSIRDY * bool(value & HSION and self._comes("hsi"))
        value |= HSERDY * bool(value & HSEON and self._comes("crystal"))
        lock = self._comes("pll") if value & PLLON else not self._comes("stop")
        return value | PLLRDY * lock

    def _write_clock(self, register: str, before: int, value: int) -> None:
        on_pll = self.value("RCC.CFGR") & 0xF == 0xA
        if register == "CR":
            changed = (value ^ before) & ~(HSIRDY | HSERDY | PLLRDY)
            self._require(changed & ~(HSION | HSEON | PLLON) == 0, f"RCC.CR changes {changed:#x}")
            self._require(bool(value & HSION) or on_pll, "the core loses its clock")
            self._require(bool(value & PLLON) or not on_pll, "the core loses its PLL")
            for bit, what in ((HSION, "hsi"), (HSEON, "crystal"), (PLLON, "pll")):
                if changed & bit and value & bit:
                    self._begin(what)
            if changed & PLLON and not value & PLLON:
                self._begin("stop")
            if changed & value & PLLON:
                source = "crystal" if self.value("RCC.PLLCFGR") >> 22 & 1 else "hsi"
                self._require(self.pending.get(source, 0) == 0, "the PLL has no source yet")
        if register == "PLLCFGR":
            self._require(not self.value("RCC.CR") & PLLON, "the PLL is set while it is on")
            self._require(self.pending.get("stop", 0) == 0, "the PLL is set while it stops")
            self._require(value & ~0x0F437FFF == 0, "reserved bits of PLLCFGR")
            divided = CRYSTAL_HZ // max(value & 0x3F, 1)
            self._require(1e6 <= divided <= 2e6, f"the PLL is given {divided} Hz")
            self._require(100e6 <= self._vco_hz <= 432e6, f"the PLL is to make {self._vco_hz}")
            self._require(self._vco_hz / (value >> 24) <= 48e6, "USB's clock is too fast")
        if register == "CFGR":
            self._switch(before, value)
        if register in ("AHB1ENR", "APB2ENR"):
            self._require(value & before == before, "a clock is switched off")
            for block, (name, bit) in SWITCH.items():
                if name == f"RCC.{register}" and (value ^ before) >> bit & 1:
                    self._silent.add(block)
        if register == "APB2RSTR":
            self._require(value in (0, 1 << 12), "another peripheral is reset")
            if value:
                self._received.clear()
                self.registers["SPI1.CR1"] = 0
                self.pending.pop("SPI", None)
        if register == "CSR":
            self._require(value & 1 << 24 != 0, "CSR is written for nothing")
            self.registers["RCC.CSR"] = value & 0x00FFFFFF & ~(1 << 24)

    def _switch(self, before: int, value: int) -> None:
        self._require(value & ~0xFC03 & ~0xC == 0, f"RCC.CFGR {value:#x}")
        self.registers["RCC.CFGR"] = value & ~0xC | before & 0xC
        if value & 3 != before & 3:
            self._begin("switch")
        if value & 3 != 2:
            return
        self._require(self.pending.get("pll", 1) == 0, "the core is given a PLL that is not locked")
        self.registers["RCC.CFGR"] = value & ~0xC | 2 << 2
        limits = (("the core", self.core_hz, 168_000_000), ("APB1", self.bus_hz(10), 42_000_000),
                  ("APB2", self.bus_hz(13), 84_000_000))  # fmt: skip
        for what, hz, most in limits:
            self._require(hz <= most, f"{what} is to run at {hz}")
        states = self.core_hz // 30_000_001
        self._require(self.value("FLASH.ACR") & 7 >= states, "flash is too slow")
        self._require(self.pending.get("flash", 1) == 0, "flash may still be too slow")
        dividers = value & 0xFC00
        self._require(before & 0xFC00 == dividers, "a bus is too fast for a moment")
        self.registers["RCC.CFGR"] = value & ~0xC | before & 0xC

    # Peripherals -------------------------------------------------------------------------------

    def _write_usart(self, register: str, before: int, value: int) -> None:
        on = bool(self.value("USART1.CR1") & UE)
        if register == "BRR":
            self._require(not on, "the rate is changed while it sends")
        if register == "CR1" and value:
            rate = self.bus_hz(13) / max(self.value("USART1.BRR"), 1)
            self._require(value == UE | RXNEIE | TE | RE, f"USART1.CR1 {value:#x}")
            self._require(abs(rate / 115_200 - 1) < 0.005, f"{rate:.0f} baud")
        if register == "DR":
            self._require(on, "a byte is sent while the console is off")
            self._require(self.pending.get("USART", 0) == 0, "a byte is sent while one waits")
            self._require(self._is_given(CONSOLE_PIN, FUNCTION_USART1), "the console has no pin")
            self._begin("USART")
            self.console += bytes([value & 0xFF])

    def _write_spi(self, register: str, before: int, value: int) -> None:
        if register == "CR1":
            if before & SPE:
                self._require((value ^ before) & ~SPE == 0, "SPI is set while it is on")
                self._require(not self._received or value == before & ~SPE, "SPI stops in a byte")
            if value & SPE:
                self._require(value & ~0x78 == 0x304, f"SPI mode {value:#x}")
                self._require(before | SPE == value, "SPI is set and enabled at once")
                self.card.clock(self.bus_hz(13) >> ((value >> 3 & 7) + 1))
        if register == "DR":
            self._require(bool(self.value("SPI1.CR1") & SPE), "a byte is sent while SPI is off")
            self._require(not self._received, "a byte is sent before the last one was read")
            self._require(value < 256, "more than a byte is sent")
            for pin in (CLOCK_PIN, MISO_PIN, MOSI_PIN):
                self._require(self._is_given(pin, FUNCTION_SPI1), f"pin {pin} is not the bus's")
            pulled = self.value("GPIOA.PUPDR") >> 2 * MISO_PIN & 3
            self._require(pulled == 1, "an open line is not pulled up")
            self._received = [self.card.exchange(value)]
            self._begin("SPI")

    def _is_given(self, pin: int, function: int) -> bool:
        half = "GPIOA.AFRH" if pin >= 8 else "GPIOA.AFRL"
        is_its = self.value(half) >> 4 * (pin % 8) & 0xF == function
        return is_its and self.value("GPIOA.MODER") >> 2 * pin & 3 == 2

    def _write_pins(self, register: str, before: int, value: int) -> None:
        if register == "BSRR":
            self._high = self._high | {i for i in range(16) if value >> i & 1}
            self._high -= {i for i in range(16) if value >> (16 + i) & 1}
        else:
            width, first = (4, 8 * (register == "AFRH")) if register[:3] == "AFR" else (2, 0)
            changed = {first + i // width for i in range(32) if (value ^ before) >> i & 1}
            ours = {SELECT_PIN, CLOCK_PIN, MISO_PIN, MOSI_PIN, CONSOLE_PIN, LISTENING_PIN}
            self._require(changed <= ours, f"{register} of pins {changed} is changed")
        if register == "MODER":
            outputs = {i for i in range(16) if value >> 2 * i & 3 == 1}
            self._require(outputs <= self._high | {SELECT_PIN}, f"pins {outputs} are outputs")
            if (value ^ before) >> 2 * SELECT_PIN & 3:
                self._require(SELECT_PIN in self._high, "an output begins at the wrong level")
        if self.value("GPIOA.MODER") >> 2 * SELECT_PIN & 3 == 1:
            self.card.select(SELECT_PIN not in self._high)
