# SPDX-License-Identifier: Apache-2.0
"""Microchip SAM D21 on an Arduino MKR1000, with an SD card on its SPI pins.

Written from the SAM D21 data sheet, DS40001882, and its errata, as far as the firmware uses the
chip. A delay of the chip is a number of polls here; an SPI transfer takes the time of its bits.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Container

from poetfw.tools.emulators.unicorn.chip import (
    Chip,
    ChipBoard,
    Console,
    Keyboard,
    Processor,
    SpiDevice,
)
from poetfw.tools.emulators.unicorn.core import Core, CoreModel, StopReason

BOOTLOADER_BYTES = 8 * 1024
RAM_BYTES = 32 * 1024
_RAM = 0x20000000
_AREAS = (
    (0x40000000, 0x2000),  # bridge A: PM, SYSCTRL, GCLK, WDT
    (0x41004000, 0x1000),  # bridge B: NVMCTRL, PORT, DMAC
    (0x42000000, 0x2000),  # bridge C: SERCOM
    (0xE0000000, 0x10000),  # the processor's
)

SELECT_PIN, MOSI_PIN, CLOCK_PIN, MISO_PIN = 42, 16, 17, 19
CONSOLE_PIN, LISTENING_PIN = 54, 55
_FUNCTION_C, _FUNCTION_D = 2, 3
PMUXEN, INEN, PULLEN, DRVSTR = 1, 2, 4, 64

SPI, USART = "SERCOM1", "SERCOM5"
_NUMBERS = {SPI: 1, USART: 5}
_SWRST, _ENABLE = 1, 2
_DRE, _RXC = 1, 4

_SERCOM = {"CTRLA": (0x00, 4), "CTRLB": (0x04, 4), "INTFLAG": (0x18, 1), "SYNCBUSY": (0x1C, 4),
           "DATA": (0x28, 2)}  # fmt: skip
_DMAC = {"CTRL": (0x00, 2), "BASEADDR": (0x34, 4), "WRBADDR": (0x38, 4), "CHID": (0x3F, 1),
         "CHCTRLA": (0x40, 1), "CHCTRLB": (0x44, 4), "CHINTENSET": (0x4D, 1),
         "CHINTFLAG": (0x4E, 1)}  # fmt: skip
_WATCHDOG = {"CTRL": 0, "CONFIG": 1, "EWCTRL": 2, "INTENSET": 5, "INTFLAG": 6, "STATUS": 7,
             "CLEAR": 8}  # fmt: skip
_OF_CHANNEL = ("CHCTRLA", "CHCTRLB", "CHINTENSET", "CHINTFLAG")
_CHANNELS = 12
_RECEIVES, _SENDS = 3, 4
"""DMA triggers of SERCOM1."""
_TERR, _TCMPL = 1, 2
_DMAC_INTERRUPT = 6
_LEVEL_0 = 1 << 8
REGISTERS = {
    "PM.AHBMASK": (0x40000414, 4),
    "PM.APBBMASK": (0x4000041C, 4),
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
    **{f"WDT.{name}": (0x40001000 + offset, 1) for name, offset in _WATCHDOG.items()},
    "NVMCTRL.CTRLB": (0x41004004, 4),
    **{f"PORT{group}.{name}": (0x41004400 + 0x80 * group + offset, 4)
       for group in (0, 1) for name, offset in (("DIRSET", 8), ("OUTCLR", 0x14), ("OUTSET", 0x18))},
    **{f"PMUX[{2 * i}]": (0x41004400 + 0x80 * (i // 16) + 0x30 + i % 16, 1) for i in range(32)},
    **{f"PINCFG[{i}]": (0x41004400 + 0x80 * (i // 32) + 0x40 + i % 32, 1) for i in range(64)},
    **{f"{sercom}.{name}": (0x42000800 + 0x400 * number + offset, size)
       for sercom, number in _NUMBERS.items() for name, (offset, size) in _SERCOM.items()},
    **{f"DMAC.{name}": (0x41004800 + offset, size) for name, (offset, size) in _DMAC.items()},
    f"{SPI}.BAUD": (0x42000C0C, 1),
    f"{USART}.BAUD": (0x42001C0C, 2),
    f"{USART}.INTENSET": (0x42001C16, 1),
}  # fmt: skip
"""Address and size in bytes, by register name."""
_READ_ONLY = {"PM.RCAUSE", "SYSCTRL.PCLKSR", "GCLK.STATUS", "WDT.STATUS"} | {
    f"{sercom}.{name}" for sercom in _NUMBERS for name in ("SYNCBUSY", "INTFLAG")
}
_WRITE_ONLY = {"GCLK.CLKCTRL", "GCLK.GENCTRL", "GCLK.GENDIV", "WDT.CLEAR", f"{SPI}.DATA"} | {
    f"PORT{group}.{name}" for group in (0, 1) for name in ("DIRSET", "OUTCLR", "OUTSET")
}
"""Registers whose content is not modelled: reading them is an error."""
_AFTER_RESET = {
    "PM.AHBMASK": 0x7F,
    "PM.APBBMASK": 0x7F,
    "PM.APBCMASK": 0x00010000,
    "SYSCTRL.XOSC32K": 0x0080,
    "SYSCTRL.OSC8M": 0x87070382,
    "SYSCTRL.DFLLCTRL": 0x0080,
    "WDT.CONFIG": 0xBB,
    "WDT.EWCTRL": 0x0B,
    "NVMCTRL.CTRLB": 0x00000080,
}
_CRYSTAL_READY, _DFLL_READY, _LOCKED = 1 << 1, 1 << 4, 3 << 6
_ON_DEMAND = 0x80
POWER_ON = 1 << 0
_CAUSES = {StopReason.PIN: 1 << 4, StopReason.WATCHDOG: 1 << 5, StopReason.SOFTWARE: 1 << 6}
"""Reset causes, as bits of PM.RCAUSE."""
_OSCULP32K, _XOSC32K, _DFLL = 3, 5, 7
"""Clock sources of generators."""
_DIVIDES = range(3, 9)
"""Generators that divide by up to 255."""
SLOW_HZ = 32_768
_WATCHDOG_CLOCK, _WATCHDOG_INTERRUPT, _WATCHDOG_KEY = 3, 2, 0xA5
_WATCHDOG_PERIODS = range(12)
_SYNC_CYCLES = 6
"""Longest synchronisation of a register, in the peripheral's clock cycles (section 14.3.1.4)."""


class Samd21(Chip):
    """The chip after a reset, when the bootloader has started the program.

    The watchdog runs on the processor's time. Other delays are counted in polls and named crystal,
    dfll, lock, generator, swrst, SERCOM1 and SERCOM5 (synchronisation), DMAC (its reset) and USART
    (a byte).

    Attributes:
        core_hz: clock frequency of the processor.
        refused: numbers of the exchanges whose memory access ends in a bus error.

    The watchdog's time is the processor's. What else it waits for is called crystal, dfll, lock,
    generator, swrst, SERCOM1, SERCOM5 (their synchronisation), DMAC (its reset) and USART (a byte).
    """

    room_bytes = 2

    def __init__(self, card: SpiDevice, console: Console, cause: int = POWER_ON) -> None:
        """Create the chip.

        Args:
            card: device on the SPI pins.
            console: receiver on the USART.
            cause: cause of the reset, as a bit of PM.RCAUSE.
        """
        values = {**_AFTER_RESET, "PM.RCAUSE": cause}
        super().__init__(REGISTERS, _READ_ONLY, _WRITE_ONLY, values)
        self.core_hz = 1_000_000
        self.refused: Container[int] = ()
        self._card = card
        self._console = console
        self._clocked: dict[int, int] = {}
        self._dividers: dict[int, int] = {}
        self._sources: dict[int, int] = {}
        self._watchdog_settles_at = 0
        self._channels: defaultdict[tuple[int, str], int] = defaultdict(int)
        self._aborted = 0
        self._heard = b""
        self._high: set[int] = set()
        self._outputs: set[int] = set()

    def read(self, address: int, size_bytes: int) -> int:
        """Read a register, or its lowest byte.

        Raises:
            MachineError: The register is not modelled, or the access covers another part of it.
        """
        if size_bytes == 1:
            return super().read(address, self.sizes.get(address, 1)) & 0xFF
        return super().read(address, size_bytes)

    def attach(self, processor: Processor) -> None:
        """Connect the processor and the DMA controller's interrupt."""
        super().attach(processor)
        processor.connect(_DMAC_INTERRUPT, self._wants_interrupt)

    def _read(self, name: str) -> int:
        block, _, register = name.partition(".")
        if name == "SYSCTRL.PCLKSR":
            return self._oscillators()
        if name == "GCLK.STATUS":
            return 0 if self._comes("generator") else 0x80
        if name == "GCLK.CTRL":
            return 0 if self._comes("swrst") else 1
        if name == "WDT.STATUS":
            return 0 if self._watchdog_is_settled() else 1 << 7
        if block in _NUMBERS:
            self._require(self._is_on_bus(block), f"{name} is read without the bus's clock")
            if register == "SYNCBUSY":
                return 0 if self._comes(block) else _SWRST | _ENABLE
            if register == "INTFLAG":
                self._require(block == USART, "the core looks for what DMA moves")
                return _DRE * self._comes("USART") | _RXC * bool(self._heard)
            if register == "DATA":
                return self._take()
        if name == "DMAC.CTRL" and self._values[name] & _SWRST:
            return 0 if self._comes("DMAC") else _SWRST
        if block == "DMAC" and register in _OF_CHANNEL:
            return self._channels[self._values["DMAC.CHID"], register]
        return self._values[name]

    def _write(self, name: str, value: int) -> None:
        block, _, register = name.partition(".")
        before = self._values[name]
        self._values[name] = value
        if block == "SYSCTRL":
            self._write_oscillator(register, before, value)
        elif block == "GCLK":
            self._write_generator(register, value)
        elif block in _NUMBERS:
            self._write_sercom(block, register, before, value)
        elif block == "DMAC":
            self._write_dmac(register, before, value)
        elif block == "WDT":
            self._write_watchdog(register, before, value)
        elif block == "PM":
            self._require(before & ~value == 0, f"{name} stops a clock")
        elif block in ("PORT0", "PORT1"):
            self._drive(int(block[-1]), register, value)

    # Clocks ------------------------------------------------------------------------------------

    def _oscillators(self) -> int:
        value = 1 << 3  # OSC8M
        if self._values["SYSCTRL.XOSC32K"] & _ENABLE and self._comes("crystal"):
            value |= _CRYSTAL_READY
        if self._values["SYSCTRL.DFLLCTRL"] & _ENABLE and self._comes("dfll"):
            value |= _DFLL_READY
            if self._values["SYSCTRL.DFLLCTRL"] & 4 and 0 in self._clocked and self._comes("lock"):
                value |= _LOCKED
        return value

    def _write_oscillator(self, register: str, before: int, value: int) -> None:
        if register == "OSC8M":
            self._require(value & ~0x300 == before & ~0x300, "OSC8M loses its calibration")
            self.core_hz = 8_000_000 >> (value >> 8 & 3)
        if register == "XOSC32K":
            if value & _ENABLE and not before & _ENABLE:
                self._require(before == value & ~_ENABLE, "XOSC32K is set and enabled at once")
                self._require(value & 0xC == 0xC, "XOSC32K drives no crystal, or gives no 32 kHz")
                self._require(value >> 8 & 7 >= 4, "the crystal gets less than half a second")
                self._begin("crystal")
        if register in ("DFLLCTRL", "DFLLMUL"):
            first = self._values["SYSCTRL.DFLLCTRL"] & _ON_DEMAND or before & _ON_DEMAND
            plain = register == "DFLLCTRL" and value == _ENABLE
            self._require(not first or plain, "erratum 9905: the DFLL is set while on demand")
            self._require(
                bool(first) or "dfll" in self._ready, f"{register}: the DFLL is not ready"
            )
            self._begin("dfll")
            self._begin("lock")
        if register == "DFLLMUL":
            self._require(not self._values["SYSCTRL.DFLLCTRL"] & 4, "MUL is set while it locks")
        if register == "DFLLCTRL" and value & 4:
            multiplied = (self._values["SYSCTRL.DFLLMUL"] & 0xFFFF) * 32_768
            self._require(abs(multiplied - 48e6) <= 16_384, f"the DFLL is to run at {multiplied}")
            self._require(self._values["SYSCTRL.DFLLMUL"] >> 16 != 0, "the DFLL takes no steps")
            self._require(self._clocked.get(0) == 1, "the DFLL has no reference")
            self._require(bool(value & 1 << 11), "the DFLL's clock comes before it is locked")

    def _write_generator(self, register: str, value: int) -> None:
        self._require(
            self._is_idle("generator"), f"GCLK.{register} is written while it synchronises"
        )
        self._begin("generator")
        if register == "CTRL":
            self._require(value == _SWRST, "GCLK.CTRL holds nothing else")
            self._clocked.clear()
            self._dividers.clear()
            self._sources.clear()
            self._begin("swrst")
            return
        self._require(self._is_idle("swrst"), "GCLK is in reset")
        if register == "GENDIV":
            generator, divider = value & 0xF, value >> 8
            most = 255 if generator in _DIVIDES else 0
            self._require(divider <= most, f"generator {generator} divides by {divider}")
            self._dividers[generator] = max(1, divider)
        if register == "GENCTRL":
            generator, source = value & 0xF, value >> 8 & 0x1F
            self._require(generator in self._dividers, "a generator without its divider set")
            self._require(value >> 16 in (1, 3), "a generator is switched off, or what else it can")
            if generator == 0:
                right = source == _DFLL and "lock" in self._ready
                self._require(right, "the core has no locked clock")
                self._require(self._values["NVMCTRL.CTRLB"] >> 1 & 0xF >= 1, "flash is too slow")
                self.core_hz = 48_000_000
            elif source != _OSCULP32K:
                right = source == _XOSC32K and "crystal" in self._ready
                self._require(right, "no crystal to divide")
            self._sources[generator] = source
        if register == "CLKCTRL":
            self._require(bool(value & 1 << 14), "a clock is switched off")
            generator = value >> 8 & 0xF
            right = generator == 0 or generator in self._sources
            self._require(right, "a clock from a generator that is off")
            self._clocked[value & 0x3F] = generator

    # Watchdog ----------------------------------------------------------------------------------

    def _watchdog_cycles(self, count: int) -> int:
        """Convert watchdog cycles to processor cycles."""
        generator = self._clocked[_WATCHDOG_CLOCK]
        return count * self._dividers[generator] * self.core_hz // SLOW_HZ

    def _watchdog_is_settled(self) -> bool:
        return self._processor.cycles >= self._watchdog_settles_at

    def _write_watchdog(self, register: str, before: int, value: int) -> None:
        """Write a watchdog register; CTRL, CONFIG and CLEAR need synchronisation (18.6.5)."""
        name, enabled = f"WDT.{register}", bool(self._values["WDT.CTRL"] & _ENABLE)
        if register in ("CTRL", "CONFIG", "CLEAR"):
            source = self._sources.get(self._clocked.get(_WATCHDOG_CLOCK, -1))
            self._require(source == _OSCULP32K, f"{name} is written without a clock of its own")
            self._require(self._watchdog_is_settled(), f"{name} is written while it synchronises")
            settles = self._watchdog_cycles(_SYNC_CYCLES)
            self._watchdog_settles_at = self._processor.cycles + settles
        if register == "CTRL":
            self._require((before, value) == (0, _ENABLE), f"WDT.CTRL is {value} after {before}")
        if register in ("CONFIG", "EWCTRL"):
            self._require(not enabled, f"{name} is changed while it is enabled")
            self._require(value in _WATCHDOG_PERIODS, f"{name} is {value:#x}")
        if register == "INTFLAG":
            self._values[name] = before & ~value
        if register == "CLEAR":
            self._require(enabled, "a watchdog is fed that does not run")
            self._require(value == _WATCHDOG_KEY, f"{value:#x} in WDT.CLEAR resets the chip")
        if register in ("CTRL", "CLEAR"):
            period, warns_after = (
                self._watchdog_cycles(8 << self._values[f"WDT.{length}"])
                for length in ("CONFIG", "EWCTRL")
            )
            self._processor.watch(period, max(0, period - warns_after), self._warn)

    def _warn(self) -> int | None:
        self._values["WDT.INTFLAG"] = 1
        return _WATCHDOG_INTERRUPT if self._values["WDT.INTENSET"] else None

    # SERCOM ------------------------------------------------------------------------------------

    def _is_on_bus(self, block: str) -> bool:
        return bool(self._values["PM.APBCMASK"] >> (2 + _NUMBERS[block]) & 1)

    def _is_clocked(self, block: str) -> bool:
        return self._is_on_bus(block) and self._clocked.get(0x14 + _NUMBERS[block]) == 0

    def _write_sercom(self, block: str, register: str, before: int, value: int) -> None:
        name = f"{block}.{register}"
        enabled = bool(self._values[f"{block}.CTRLA"] & _ENABLE)
        self._require(self._is_clocked(block), f"{name} is written without a clock")
        idle = self._is_idle(block)
        self._require(idle or value & _ENABLE == 0, f"{name} is written while it synchronises")
        if register == "CTRLA":
            if value & _SWRST:
                self._values |= {f"{block}.{name}": 0 for name in ("CTRLA", "CTRLB", "BAUD")}
            elif (value ^ before) & ~_ENABLE:
                self._require(not before & _ENABLE, f"{name} is changed while it is enabled")
            if (value ^ before) & _ENABLE or value & _SWRST:
                self._begin(block)
            if block == SPI and not value & _ENABLE:
                self._abort()
            if value & _ENABLE and not before & _ENABLE:
                self._check(block)
        elif register in ("CTRLB", "BAUD"):
            self._require(not enabled, f"{name} is changed while it is enabled")
        elif register == "DATA":
            self._require(enabled and idle, f"{name} is written while it is off")
            self._require(block == USART, "the core moves what DMA moves")
            self._require(value < 256, "more than a byte is sent")
            self._transmit(value)

    def _check(self, block: str) -> None:
        """Check the settings of a SERCOM that is being enabled."""
        control = self._values[f"{block}.CTRLA"]
        if block == SPI:
            self._require(control & ~_ENABLE == 3 << 20 | 3 << 2, f"SPI mode {control:#x}")
            self._require(self._values[f"{SPI}.CTRLB"] == 1 << 17, "SPI receives nothing")
        else:
            both = 1 << 30 | 3 << 20 | 1 << 16 | 1 << 2
            self._require(control & ~_ENABLE == both, f"USART {control:#x}")
            self._require(self._values[f"{USART}.CTRLB"] == 3 << 16, "USART is half on")
            rate = self.core_hz / 16 * (1 - self._values[f"{USART}.BAUD"] / 65536)
            self._require(abs(rate / 115_200 - 1) < 0.005, f"{rate:.0f} baud")

    def _transmit(self, value: int) -> None:
        self._require("USART" in self._ready, "a byte is sent while one waits")
        self._require(self._is_given(CONSOLE_PIN, _FUNCTION_D), "the console has no pin")
        self._begin("USART")
        self._console(bytes([value]))

    def _take(self) -> int:
        self._require(bool(self._heard), "a character is read before it has come")
        character, self._heard = self._heard[0], self._heard[1:]
        return character

    def listens(self) -> bool:
        """True if the receiver is on and requests an interrupt for each character."""
        on = self._values[f"{USART}.CTRLA"] & _ENABLE and self._values[f"{USART}.CTRLB"] >> 17 & 1
        if not on or self._values[f"{USART}.INTENSET"] != _RXC:
            return False
        self._require(self._is_given(LISTENING_PIN, _FUNCTION_D), "the receiver has no pin")
        self._require(LISTENING_PIN in self._high, "an open line is pulled down")
        return True

    def receive(self, text: bytes) -> None:
        """Receive characters."""
        self._require(len(self._heard + text) <= self.room_bytes, "a character is lost")
        self._heard += text

    def has_received(self) -> bool:
        """True if the receiver requests its interrupt."""
        return bool(self._heard) and self._values[f"{USART}.INTENSET"] == _RXC

    # DMA ---------------------------------------------------------------------------------------

    def _wants_interrupt(self) -> bool:
        """True if a channel of the DMA controller requests its interrupt."""
        channels = self._channels
        return any(
            channels[number, "CHINTFLAG"] & channels[number, "CHINTENSET"]
            for number in range(_CHANNELS)
        )

    def _is_under_way(self) -> bool:
        return any(self._channels[number, "CHCTRLA"] for number in range(_CHANNELS))

    def _abort(self) -> None:
        """Abort the transfer under way: it never ends."""
        self._aborted = self.exchanges

    def _write_dmac(self, register: str, before: int, value: int) -> None:
        channel, name = self._values["DMAC.CHID"], f"DMAC.{register}"
        on = bool(self._values["DMAC.CTRL"] & _ENABLE)
        clocks = self._values["PM.AHBMASK"] >> 5 & self._values["PM.APBBMASK"] >> 4 & 1
        self._require(bool(clocks), f"{name} is written without a clock")
        if register == "CTRL":
            if value & _SWRST:
                self._require(not before & _ENABLE, "the DMAC is reset while it is on")
                self._channels.clear()
                self._begin("DMAC")
            if value & _ENABLE:
                tables = self._values["DMAC.BASEADDR"] and self._values["DMAC.WRBADDR"]
                right = tables and value & _LEVEL_0
                self._require(bool(right), "the DMAC has no descriptors, or no priority is on")
            else:
                self._abort()
                for number in range(_CHANNELS):
                    self._channels[number, "CHCTRLA"] = 0
        elif register in ("BASEADDR", "WRBADDR"):
            self._require(not on and "DMAC" in self._ready, f"{name} is written too soon or late")
            self._require(value % 16 == 0, f"{name} is not aligned")
        elif register == "CHID":
            self._require(value < _CHANNELS, f"there is no channel {value}")
        else:
            self._require(on, f"{name} is written while the DMAC is off")
            self._write_channel(channel, register, value)

    def _write_channel(self, channel: int, register: str, value: int) -> None:
        before = self._channels[channel, register]
        if register == "CHCTRLB":
            enabled = self._channels[channel, "CHCTRLA"]
            self._require(not enabled, "a channel is changed while it is enabled")
            self._require(value >> 22 & 3 == 2, "a trigger moves more than a byte")
        if register == "CHINTENSET":
            value |= before
        if register == "CHINTFLAG":
            value = before if self.stuck else before & ~value
        self._channels[channel, register] = value
        if register == "CHCTRLA":
            right = value == _ENABLE and (self.stuck or not before)
            self._require(right, f"CHCTRLA is {value} after {before}")
            if self._trigger(channel) == _SENDS:
                self._begin_exchange(channel)

    def _trigger(self, channel: int) -> int:
        return self._channels[channel, "CHCTRLB"] >> 8 & 0x3F

    def _descriptor(self, channel: int) -> tuple[int, int, int, int]:
        """Read a descriptor: increments (1: source, 2: target), bytes, source and target start."""
        address = self._values["DMAC.BASEADDR"] + 16 * channel
        descriptor = self._processor.dma_read(address, 16)
        control, count, source, target, following = struct.unpack("<HHIII", descriptor)
        self._require(control & 1 == 1 and control & ~0xC01 == 0, f"a descriptor of {control:#x}")
        self._require(count > 0 and following == 0, "an empty descriptor, or a linked one")
        advances = control >> 10
        return advances, count, source - count * (advances & 1), target - count * (advances >> 1)

    def _begin_exchange(self, sender: int) -> None:
        receivers = [c for c in range(_CHANNELS) if self._trigger(c) == _RECEIVES]
        self._require(len(receivers) == 1, f"{len(receivers)} channels receive")
        (receiver,) = receivers
        self._require(receiver < sender, "what is received may be too late")
        wanted = self._channels[receiver, "CHINTENSET"]
        self._require(wanted == _TERR | _TCMPL, "nobody would hear of the end")
        is_on = self._channels[receiver, "CHCTRLA"] == _ENABLE
        self._require(is_on, "bytes are sent before they can be received")
        for pin in (MOSI_PIN, CLOCK_PIN, MISO_PIN):
            self._require(self._is_given(pin, _FUNCTION_C), f"pin {pin} is not the bus's")
        self._require(MISO_PIN in self._high, "an open line is pulled down")
        on = self._values[f"{SPI}.CTRLA"] & _ENABLE and self._is_idle(SPI)
        self._require(bool(on), "DMA while SPI is off")
        advances, count, source, target = self._descriptor(sender)
        advances_in, count_in, source_in, target_in = self._descriptor(receiver)
        data, _ = REGISTERS[f"{SPI}.DATA"]
        self._require(target == data == source_in and count == count_in, "not the bus's data")
        self._require(advances in (0, 1) and advances_in in (0, 2), "a register advances")
        hz = self.core_hz // (2 * (self._values[f"{SPI}.BAUD"] + 1))
        sent = self._processor.dma_read(source, count if advances else 1)
        start_s = self._processor.cycles / self.core_hz
        received = self._card.exchange(sent if advances else sent * count, hz, start_s)
        self.exchanges += 1
        number = self.exchanges

        def end() -> None:
            if number > self._aborted:
                if number not in self.refused:
                    self._processor.dma_write(target_in, received if advances_in else received[-1:])
                for channel in (sender, receiver):
                    self._channels[channel, "CHCTRLA"] = 0
                    self._channels[channel, "CHINTFLAG"] |= (
                        _TERR if number in self.refused else _TCMPL
                    )

        if number not in self.lost:
            self._processor.after(8 * count * self.core_hz // hz, end)

    # Pins --------------------------------------------------------------------------------------

    def _is_given(self, pin: int, function: int) -> bool:
        mux = self._values[f"PMUX[{pin // 2 * 2}]"] >> (4 * (pin % 2)) & 0xF
        return mux == function and bool(self._values[f"PINCFG[{pin}]"] & PMUXEN)

    def _drive(self, group: int, register: str, value: int) -> None:
        pins = {32 * group + i for i in range(32) if value >> i & 1}
        if register == "DIRSET":
            self._require(pins <= self._high, "a pin becomes an output before its level is set")
            self._outputs |= pins
        else:
            self._high = self._high | pins if register == "OUTSET" else self._high - pins
        if SELECT_PIN in self._outputs and SELECT_PIN in pins:
            self._require(
                self.stuck or not self._is_under_way(), "the card is selected anew under way"
            )
            self._card.select(SELECT_PIN not in self._high)


class Mkr1000(ChipBoard[Samd21]):
    """The Arduino MKR1000."""

    flash_bytes = 256 * 1024
    ram = _RAM, RAM_BYTES
    architectures = (11, 12)  # ARMv6-M, ARMv6S-M

    def __init__(
        self, flash: bytes, card: SpiDevice, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Set up the flash's whole content, the card in the socket and the UART's other end."""
        super().__init__(flash, card, console, keyboard)
        self._cause = POWER_ON

    def _chip(self) -> Samd21:
        return Samd21(self._card, self._console, self._cause)

    def _core(self, chip: Samd21) -> Core:
        """Create the processor; before the program, the bootloader sets only the vector table."""
        model = CoreModel.CORTEX_M0PLUS
        return Core(model, chip, self._flash, self._ram, _AREAS, vectors=BOOTLOADER_BYTES)

    def _keep(self, chip: Samd21, ending: StopReason) -> None:
        self._cause = _CAUSES[ending]
