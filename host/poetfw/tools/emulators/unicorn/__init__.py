# SPDX-License-Identifier: Apache-2.0
"""Chips as the unicorn package's processors with our own models of their peripherals.

They run the very ELF that is flashed. The models are strict: what they do not know is an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from poetfw.boards import Machine
from poetfw.common.errors import BoardError, OutputError, ToolError
from poetfw.tools.emulators.base import Emulator, register

_MACHINES = ("nrf52840", "nrf52840-qspi", "samd21")
_FLASH_BYTES: Mapping[str, int] = {"nrf52840-qspi": 8 * 1024 * 1024}
"""Of those whose storage is no card."""

STANDARD_INPUT = "-"
"""In place of a port's number: what is said to the firmware."""

_CARD_UNIT_BYTES = 512 * 1024
"""Unit of a high-capacity card's size (SD Physical Layer Specification, section 5.3.3)."""


class Unicorn(Emulator):
    """A process of this package; the storage image is the card in the chip's socket."""

    name = extra = "unicorn"

    def check(self, machine: Machine) -> None:
        """Like any emulator's; each machine is a chip with its own processor.

        Raises:
            BoardError: there is no model of the machine.
        """
        super().check(machine)
        if machine.machine not in _MACHINES or machine.cpu is not None:
            raise BoardError(
                f"the emulator {self.name!r} has no machine {machine.machine!r} with the cpu "
                f"{machine.cpu!r}",
                "name one of these, without a cpu: " + ", ".join(_MACHINES),
            )

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """This package as a program, which takes no module from the folder that it runs in."""
        assert machine.machine is not None
        return [sys.executable, "-P", "-m", __name__, machine.machine, str(elf.resolve())]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """The same; the board's own program always listens."""
        return [*self.command(machine, elf), STANDARD_INPUT]

    def prepare(self, machine: Machine, image: Path, room_bytes: int) -> None:
        """Make the image as large as a card, or as the flash; flash that was never written is ones.

        Raises:
            OutputError: the flash has no room for it.
        """
        flash_bytes = _FLASH_BYTES.get(machine.machine or "")
        if flash_bytes is not None:
            _fill(image, room_bytes, flash_bytes)
            return
        units = -(-(image.stat().st_size + room_bytes) // _CARD_UNIT_BYTES)
        os.truncate(image, units * _CARD_UNIT_BYTES)

    def require(self) -> None:
        """Check that the processors are installed.

        Raises:
            ToolError: they are not; the message holds the line that installs them.
        """
        if find_spec(self.name) is None:
            raise ToolError(
                f"{self.name} is not installed: it runs the firmware on this computer",
                f"pip install 'poetfw[{self.extra}]'",
                "or choose another twin of the board with --emulator (`poetfw boards`)",
            )


def _fill(image: Path, room_bytes: int, size_bytes: int) -> None:
    used = image.stat().st_size
    if used + room_bytes > size_bytes:
        raise OutputError(
            f"{image}: {used + room_bytes:,} bytes do not fit {size_bytes:,} of flash"
        )
    with image.open("ab") as file:
        file.write(b"\xff" * (size_bytes - used))


register(Unicorn())
