# SPDX-License-Identifier: Apache-2.0
"""An STM32F405 for measuring its card's driver: registers that hold what is written to them.

It checks nothing, as `tests/unit/runtime/stm32f405_chip.py` does. What counts is time: a cycle is
an instruction, and a byte on SPI, for which the core polls, takes as long as its bits beside the
instructions around it. ST's reference manual RM0090 has the registers.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from elftools.elf.elffile import ELFFile

from poetfw.tools.emulators.unicorn.bus import Bus
from poetfw.tools.emulators.unicorn.chip import Console, Keyboard, SpiDevice
from poetfw.tools.emulators.unicorn.core import Core, CoreMemory, CoreModel, StopReason

CORE_HZ, BUS_HZ = 168_000_000, 84_000_000
_FLASH, _FLASH_BYTES = 0x08000000, 1024 * 1024
_RAM, _RAM_BYTES = 0x20000000, 128 * 1024
_AREAS = ((0x40010000, 0x4000), (0x40020000, 0x4000), (0xE0000000, 0x50000))
_SPI_CR1, _SPI_SR, _SPI_DR = 0x40013000, 0x40013008, 0x4001300C
_USART_SR, _USART_DR = 0x40011000, 0x40011004
_GPIO_BSRR, _RCC_CR, _RCC_CFGR = 0x40020018, 0x40023800, 0x40023808
_SPI_RXNE, _USART_RXNE, _USART_TXE = 1 << 0, 1 << 5, 1 << 7
_SELECT_PIN = 4


class Stm32f405(Bus):
    """The chip with a card on SPI1."""

    def __init__(self, elf: Path, card: SpiDevice, console: Console, keyboard: Keyboard) -> None:
        """Take the program, the card, and who is on the USART."""
        super().__init__()
        self._values: defaultdict[int, int] = defaultdict(int)
        self._card, self._console, self._keyboard = card, console, keyboard
        self._received = 0
        self._heard = b""
        ram = CoreMemory(_RAM, bytes(_RAM_BYTES))
        flash = bytearray(_FLASH_BYTES)
        with elf.open("rb") as file:
            for segment in ELFFile(file).iter_segments("PT_LOAD"):
                start, content = segment["p_paddr"] - _FLASH, segment.data()
                flash[start : start + len(content)] = content
        memory = CoreMemory(_FLASH, bytes(flash))
        self._core = _Core(CoreModel.CORTEX_M4F, self, memory, ram, _AREAS, _FLASH)

    def run(self) -> None:
        """Run until nobody says anything any more."""
        while self._core.run() is StopReason.ASLEEP:
            self._heard += self._keyboard()

    def read(self, address: int, size_bytes: int) -> int:
        """Content of a register."""
        if address in self.readable:
            return super().read(address, size_bytes)
        value = self._values[address]
        if address == _RCC_CR:  # each clock is ready as soon as it is on
            return value | (value & 0x01010001) << 1
        if address == _RCC_CFGR:
            return value & ~0xC | (value & 3) << 2
        if address == _SPI_SR:
            return _SPI_RXNE
        if address == _SPI_DR:
            return self._received
        if address == _USART_SR:
            return _USART_TXE | _USART_RXNE * bool(self._heard)
        if address == _USART_DR:
            character, self._heard = self._heard[0], self._heard[1:]
            return character
        return value

    def write(self, address: int, size_bytes: int, value: int) -> None:
        """Hold a value, or do what is to be done."""
        if address in self.writable:
            super().write(address, size_bytes, value)
            return
        self._values[address] = value
        if address == _GPIO_BSRR and (value | value >> 16) >> _SELECT_PIN & 1:
            self._card.select(not value >> _SELECT_PIN & 1)
        if address == _USART_DR:
            self._console(bytes([value]))
        if address == _SPI_DR:
            divider = 2 << (self._values[_SPI_CR1] >> 3 & 7)
            start_s = self._core.cycles / CORE_HZ
            (self._received,) = self._card.exchange(bytes([value]), BUS_HZ // divider, start_s)
            self._core.wait(8 * divider * CORE_HZ // BUS_HZ)


class _Core(Core):
    def wait(self, cycles: int) -> None:
        """Let time pass while an instruction waits for something."""
        self._pass(cycles)
