# SPDX-License-Identifier: Apache-2.0
"""No emulator at all: firmware that is a program of this computer."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from poetfw.boards import Machine
from poetfw.common.errors import BoardError
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.base import Emulator, register


class Native(Emulator):
    """This computer's own processor."""

    name = "native"
    emulates: ClassVar[bool] = False

    def check(self, machine: Machine) -> None:
        """Like any emulator's; this computer cannot be another machine.

        Raises:
            BoardError: the machine asks for something.
        """
        super().check(machine)
        if machine.machine is not None or machine.cpu is not None:
            raise BoardError(f"the emulator {self.name!r} takes neither machine nor cpu")

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """The program itself."""
        return [str(elf.resolve())]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """The program, told to."""
        return [*self.command(machine, elf), IMAGE, "listen"]


register(Native())
