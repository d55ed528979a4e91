# SPDX-License-Identifier: Apache-2.0
"""Native execution without an emulator: the firmware is a program of this computer."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from poetfw.boards import Machine
from poetfw.common.errors import BoardError
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.base import Emulator, register


class Native(Emulator):
    """The processor of this computer."""

    name = "native"
    emulates: ClassVar[bool] = False

    def check(self, machine: Machine) -> None:
        """Check that the board file names neither a machine nor a processor.

        Raises:
            BoardError: The board file names a machine, a processor or an option.
        """
        super().check(machine)
        if machine.machine is not None or machine.cpu is not None:
            raise BoardError(f"the emulator {self.name!r} takes neither machine nor cpu")

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """Command that starts the firmware as a program."""
        return [str(elf.resolve())]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """Command that starts the firmware with the argument that makes it listen."""
        return [*self.command(machine, elf), IMAGE, "listen"]


register(Native())
