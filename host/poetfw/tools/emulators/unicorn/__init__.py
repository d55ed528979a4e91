# SPDX-License-Identifier: Apache-2.0
"""Chip emulation: processors from the unicorn package, peripherals modelled here.

The models run the same ELF that is flashed. They are strict: an access that they do not model is an
error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from poetfw.boards import Machine
from poetfw.common.errors import BoardError, OutputError, ToolError
from poetfw.tools.emulators.base import Emulator, register

_SEMIHOSTED = "mps2-an386"
_MACHINES = ("nrf52840", "nrf52840-qspi", "samd21", _SEMIHOSTED)
_FLASH_BYTES: Mapping[str, int] = {"nrf52840-qspi": 8 * 1024 * 1024}
"""Size of the storage in bytes, for machines that store on flash instead of an SD card."""

COUNT = "instruction-count"
"""Option of the machine whose time stands still without it, and last argument of its command."""

STANDARD_INPUT = "-"
"""Argument in place of a TCP port's number: the console's input comes from standard input."""

_CARD_UNIT_BYTES = 512 * 1024
"""Unit of a high-capacity card's size (SD Physical Layer Specification, section 5.3.3)."""


class Unicorn(Emulator):
    """A chip model in a process of its own; the storage image is the card in its socket."""

    name = extra = "unicorn"
    options: ClassVar[Collection[str]] = (COUNT,)

    def check(self, machine: Machine) -> None:
        """Check that the board file names one of the modelled chips, and no processor.

        Raises:
            BoardError: There is no model of the machine, or the board file names a processor.
        """
        super().check(machine)
        if machine.machine not in _MACHINES or machine.cpu is not None:
            raise BoardError(
                f"the emulator {self.name!r} has no machine {machine.machine!r} with the cpu "
                f"{machine.cpu!r}",
                "name one of these, without a cpu: " + ", ".join(_MACHINES),
            )
        if machine.options and machine.machine != _SEMIHOSTED:
            raise BoardError(
                f"the machine {machine.machine!r} of the emulator {self.name!r} takes no options: "
                "it always counts instructions"
            )

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """Command that runs this package; `-P` bars imports from the working folder."""
        assert machine.machine is not None
        program = [sys.executable, "-P", "-m", __name__]
        return [*program, machine.machine, str(elf.resolve()), *machine.options]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """Command that runs the firmware with its console input on standard input."""
        return [*self.command(machine, elf), STANDARD_INPUT]

    def counting(self, machine: Machine) -> Machine:
        """The machine with its instructions counted."""
        if machine.machine != _SEMIHOSTED:
            return machine
        return replace(machine, options=(COUNT,))

    def prepare(self, machine: Machine, image: Path, room_bytes: int) -> None:
        """Extend the image to the size of a card, or with erased bytes (0xFF) to that of the flash.

        Raises:
            OutputError: The image and the bytes behind it do not fit the flash.
        """
        if machine.machine == _SEMIHOSTED:
            return
        flash_bytes = _FLASH_BYTES.get(machine.machine or "")
        if flash_bytes is not None:
            _fill(image, room_bytes, flash_bytes)
            return
        units = -(-(image.stat().st_size + room_bytes) // _CARD_UNIT_BYTES)
        os.truncate(image, units * _CARD_UNIT_BYTES)

    def require(self) -> None:
        """Check that the unicorn package is installed.

        Raises:
            ToolError: The package is missing; the message holds the command that installs it.
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
