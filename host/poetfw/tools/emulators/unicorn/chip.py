# SPDX-License-Identifier: Apache-2.0
"""Shared by the models of chips.

They serve two: the processor that executes a board's own program, and the tests of drivers that
are compiled for this computer, which make a chip slow, or fail.
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
"""Source of characters for a chip's receiver. Called while the firmware sleeps, it waits for
input, and returns nothing if there will be no more."""


class Processor(Protocol):
    """The processor and its memory, as a chip's peripherals use them."""

    @property
    def cycles(self) -> int:
        """Time since the reset."""

    def dma_read(self, address: int, size_bytes: int) -> bytes:
        """Read RAM."""

    def dma_write(self, address: int, data: bytes) -> None:
        """Write RAM."""

    def after(self, cycles: int, happen: Callable[[], None]) -> None:
        """Let something happen after so many cycles."""

    def watch(
        self, cycles: int, margin: int = 0, warn: Callable[[], int | None] | None = None
    ) -> None:
        """Let a watchdog reset it once it has been awake for so many cycles, from now on.

        With `warn` those of sleep count, and that is called when only `margin` of them are left; it
        returns which interrupt becomes pending by that.
        """

    def connect(self, interrupt: int, line: Callable[[], bool]) -> None:
        """Connect an interrupt, which is requested as long as its line says so."""


class SpiDevice(Protocol):
    """A device on a chip's SPI pins."""

    def select(self, selected: bool) -> None:
        """Drive its select pin."""

    def leave(self) -> None:
        """Leave it as it is: the chip is reset, and its pins let go."""

    def exchange(self, sent: bytes, clock_hz: int, start_s: float) -> bytes:
        """Exchange bytes with a device, from a time on; returns as many as it gets."""


class Chip(Bus):
    """Registers by name, some of which show only after a while what they wait for.

    Attributes:
        polls: how often it must be asked before it shows what it waits for, by the name of that.
        other_polls: the same for all others.
        pending: how often it must still be asked.
        exchanges: how many began on SPI.
        lost: those of them, counted from 1, that never end.
        stuck: whether what says that they have ended cannot be cleared.
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
            registers: address and bytes of each, by its name.
            read_only: those that cannot be written.
            write_only: those that cannot be read.
            values: what they hold after a reset, where it is not 0.
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
        """Connect the processor, without which there is no DMA."""
        self._processor = processor

    def value(self, name: str) -> int:
        """The value of a register."""
        return self._values[name]

    @property
    def room_bytes(self) -> int:
        """Number of characters that the receiver takes before the firmware must read them."""
        raise NotImplementedError

    def listens(self) -> bool:
        """True if the receiver is on, and a character in it is an interrupt."""
        raise NotImplementedError

    def receive(self, text: bytes) -> None:
        """Let characters come in."""
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
        """Let something come, after a while."""
        self.pending[what] = self.polls.get(what, self.other_polls)
        self._ready.discard(what)

    def _comes(self, what: str) -> bool:
        """True if something has come; each question is a poll."""
        if self.pending.get(what, 0) > 0:
            self.pending[what] -= 1
            return False
        self._ready.add(what)
        return True

    def _is_idle(self, what: str) -> bool:
        """True if nothing has begun that was not seen to end."""
        return what in self._ready or what not in self.pending


ChipT = TypeVar("ChipT", bound=Chip)


class ChipBoard(ABC, Generic[ChipT]):
    """A board with a chip: what a reset leaves as it is."""

    flash_bytes: ClassVar[int]
    ram: ClassVar[tuple[int, int]]
    """Address and bytes."""
    architectures: ClassVar[Container[int]]
    """Those that its processor executes, as ELF files number them."""

    def __init__(
        self, flash: bytes, card: SpiDevice, console: Console, keyboard: Keyboard = bytes
    ) -> None:
        """Take what is in all of the flash, the card in the socket, and who is on the UART."""
        address, size_bytes = self.ram
        self._flash = CoreMemory(0, flash)
        # RAM holds anything after power-on, but the same in every run.
        self._ram = CoreMemory(address, random.Random(0).randbytes(size_bytes))
        self._card = card
        self._console, self._keyboard = console, keyboard

    def run(self, presses: Iterable[int] = ()) -> int:
        """Run until the firmware sleeps for ever.

        Args:
            presses: cycles from a start to when the reset button is pressed, one after the other.

        Returns the cycles since the last start.

        Raises:
            MachineError: it does what the chip does not allow or the model does not know.
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
        """Run until the chip is reset, or sleeps with nobody who would wake it up."""
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
        """The chip after a reset."""

    @abstractmethod
    def _core(self, chip: ChipT) -> Core:
        """Its processor."""

    @abstractmethod
    def _keep(self, chip: ChipT, ending: StopReason) -> None:
        """Remember what the next reset shows of this one."""
