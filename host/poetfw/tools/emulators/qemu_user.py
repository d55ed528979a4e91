# SPDX-License-Identifier: Apache-2.0
"""QEMU's emulation of another processor for programs of this computer's operating system."""

from __future__ import annotations

from pathlib import Path

from poetfw.boards import Machine
from poetfw.common.errors import BoardError
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.base import Emulator, check_listed, register


class QemuUser(Emulator):
    """A processor in one of QEMU's user-mode emulators; files and threads are this computer's."""

    def __init__(self, program: str, package: str) -> None:
        self.name = program
        self.package = package

    def check(self, machine: Machine) -> None:
        """Like any emulator's; QEMU has many processors, and here no machine around them.

        Raises:
            BoardError: the machine has a name, or its processor none that QEMU knows.
        """
        super().check(machine)
        if machine.machine is not None:
            raise BoardError(f"the emulator {self.name!r} takes no machine, only a cpu")
        if machine.cpu is None:
            raise BoardError(
                f"the emulator {self.name!r} must be told which cpu",
                f"add cpu = … to the board's file: `{self.name} -cpu help` lists them",
            )
        check_listed(self.name, "-cpu", machine.cpu)

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """QEMU's command line."""
        assert machine.cpu is not None
        return [self.name, "-cpu", machine.cpu, str(elf.resolve())]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """The same, with what tells the program to."""
        return [*self.command(machine, elf), IMAGE, "listen"]


register(QemuUser("qemu-aarch64", "qemu-user"))
