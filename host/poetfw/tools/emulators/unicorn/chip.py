# SPDX-License-Identifier: Apache-2.0
"""Common parts of the chip models.

Two users share the models: the emulated processor, which executes a board's program, and the
drivers' tests, which compile a driver for this computer and make the chip slow or faulty.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from functools import partial
from typing import ClassVar, Generic, Protocol, TypeVar

from poetfw.tools.emulators.unicorn.bus import Bus, MachineError
from poetfw.tools.emulators.unicorn.core import Core, CoreMemory, StopReason

Console = Callable[[bytes], object]
"""Receiver of the characters that a chip's UART sends."""

Keyboard = Callable[[], bytes]
"""Source of characters for a chip's receiver, called while the firmware sleeps. It blocks until
there is input, and returns nothing at the end of input."""


class Processor(Protocol):
    """Processor and memory, as a chip's peripherals use them."""

    @property
    def cycles(self) -> int:
        """Time since the reset, in cycles."""

    def dma_read(self, address: int, size_bytes: int) -> bytes:
        """Read RAM."""

    def dma_write(self, address: int, data: bytes) -> None:
        """Write RAM."""

    def after(self, cycles: int, happen: Callable[[], None]) -> None:
        """Schedule an action after a number of cycles."""

    def watch(
        self, cycles: int, margin: int = 0, warn: Callable[[], int | None] | None = None
    ) -> None:
        """Restart the watchdog, which resets the chip after a number of cycles awake.

        With `warn`, cycles asleep count as well, and `warn` is called when `margin` cycles are
        left; it returns the interrupt that it makes pending, if any.
        """

    def connect(self, interrupt: int, line: Callable[[], bool]) -> None:
        """Connect an interrupt; it is requested while `line` returns True."""


class SpiDevice(Protocol):
    """A device on a chip's SPI pins."""

    def select(self, selected: bool) -> None:
        """Drive the device's chip select."""

    def leave(self) -> None:
        """Release the bus in any state: a reset of the chip lets go of its pins."""

    def exchange(self, sent: bytes, clock_hz: int, start_s: float) -> bytes:
        """Exchange bytes with the device from a time on; returns as many bytes as are sent."""


class Chip(Bus):
    """Registers by name; some of them show an awaited event only after a number of polls.

    Attributes:
        polls: number of polls until an event shows, by event.
        other_polls: number of polls for all other events.
        pending: number of polls left, by event.
        exchanges: number of SPI exchanges begun.
        lost: numbers of the exchanges, from 1, that never end.
        stuck: True if the flag that an exchange has ended cannot be cleared.
    """

    def __init__(
        self,
        registers: Mapping[str, tuple[int, int]],
        read_only: Container[str],
        write_only: Container[str],
        values: Mapping[str, int],
    ) -> None:
        """Add registers.

        Args:
            registers: address and size in bytes, by name.
            read_only: names of registers that cannot be written.
            write_only: names of registers that cannot be read.
            values: reset values other than 0, by name.
        """
        super().__init__()
        self.polls: dict[str, int] = {}
        self.other_polls = 3
        self.pending: dict[str, int] = {}
        self.exchanges = 0
        self.lost: Container[int] = ()
        self.stuck = False
        self._values = defaultdict(int, values)
        self._ready: set[str] = set()
        for name, (address, size_bytes) in registers.items():
            self.sizes[address] = size_bytes
            if name not in write_only:
                self.readable[address] = partial(self._read, name)
            if name not in read_only:
                self.writable[address] = partial(self._write, name)

    def attach(self, processor: Processor) -> None:
        """Connect the processor, whose memory DMA accesses."""
        self._processor = processor

    def value(self, name: str) -> int:
        """Value of a register."""
        return self._values[name]

    @property
    def room_bytes(self) -> int:
        """Number of characters that the receiver holds until the firmware reads them."""
        raise NotImplementedError

    def listens(self) -> bool:
        """True if the receiver is on and requests an interrupt for each character."""
        raise NotImplementedError

    def receive(self, text: bytes) -> None:
        """Receive characters."""
        raise NotImplementedError

    def has_received(self) -> bool:
        """True if the receiver requests its interrupt."""
        raise NotImplementedError

    def _read(self, name: str) -> int:
        return self._values[name]

    def _write(self, name: str, value: int) -> None:
        self._values[name] = value

    def _require(self, right: bool, misuse: str) -> None:
        if not right:
            raise MachineError(misuse)

    def _begin(self, what: str) -> None:
        """Start an action whose event shows after a number of polls."""
        self.pending[what] = self.polls.get(what, self.other_polls)
        self._ready.discard(what)

    def _comes(self, what: str) -> bool:
        """True if an event has come; each call counts as a poll."""
        if self.pending.get(what, 0) > 0:
            self.pending[what] -= 1
            return False
        self._ready.add(what)
        return True

    def _is_idle(self, what: str) -> bool:
        """True if no action is under way, as far as the firmware has seen."""
        return what in self._ready or what not in self.pending


ChipT = TypeVar("ChipT", bound=Chip)


class ChipBoard(ABC, Generic[ChipT]):
    """A board with a chip; holds the state that survives a reset."""

    flash_bytes: ClassVar[int]
    ram: ClassVar[tuple[int, int]]
    """Start address and size in bytes."""
    architectures: ClassVar[Container[int]]
    """Architectures that the processor executes, by their number in ELF attributes."""

    def __init__(
        self, flash: bytes, card: SpiDevice, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Set up the flash's whole content, the card in the socket and the UART's other end."""
        address, size_bytes = self.ram
        self._flash = CoreMemory(0, flash)
        # RAM is random after power-on, but the same in every run.
        self._ram = CoreMemory(address, random.Random(0).randbytes(size_bytes))
        self._card = card
        self._console, self._keyboard = console, keyboard

    def run(self, presses: Iterable[int] = ()) -> int:
        """Run until the firmware sleeps for ever; returns the cycles since the last start.

        Args:
            presses: cycles from a start until the reset button is pressed, for one start after
                another.

        Raises:
            MachineError: The firmware did something that the chip forbids or the model lacks.
        """
        times = iter(presses)
        press = next(times, None)
        while True:
            chip = self._chip()
            core = self._core(chip)
            chip.attach(core)
            if press is not None:
                core.after(press, core.press)
            ending = self._run(core, chip)
            if ending is StopReason.ASLEEP:
                return core.cycles
            self._ram = core.ram()
            self._keep(chip, ending)
            if ending is StopReason.PIN:
                press = next(times, None)
            if ending is not StopReason.SOFTWARE:
                self._card.leave()

    def _run(self, core: Core, chip: ChipT) -> StopReason:
        """Run until the chip is reset, or sleeps with no input left to wake it."""
        ending, said = core.run(), b""
        while ending is StopReason.ASLEEP and core.wakes_by_pending and chip.listens():
            said = said or self._keyboard()
            if not said:
                break
            chip.receive(said[: chip.room_bytes])
            said = said[chip.room_bytes :]
            ending = core.run()
        return ending

    @abstractmethod
    def _chip(self) -> ChipT:
        """Create the chip as it is after a reset."""

    @abstractmethod
    def _core(self, chip: ChipT) -> Core:
        """Create the chip's processor."""

    @abstractmethod
    def _keep(self, chip: ChipT, ending: StopReason) -> None:
        """Save the state that the chip keeps over this reset."""
