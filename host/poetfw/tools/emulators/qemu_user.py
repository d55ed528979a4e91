# SPDX-License-Identifier: Apache-2.0
"""QEMU's user-mode emulators: another processor, with this computer's operating system."""

from __future__ import annotations

from pathlib import Path

from poetfw.boards import Machine
from poetfw.common.errors import BoardError
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.base import Emulator, check_listed, register


class QemuUser(Emulator):
    """A processor of a QEMU user-mode emulator; files and threads are this computer's."""

    def __init__(self, program: str, package: str) -> None:
        self.name = program
        self.package = package

    def check(self, machine: Machine) -> None:
        """Check that the board file names a processor that QEMU has, and no machine.

        Raises:
            BoardError: The board file names a machine, or no processor that QEMU knows.
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
        """QEMU's command line with the argument that makes the firmware listen."""
        return [*self.command(machine, elf), IMAGE, "listen"]


register(QemuUser("qemu-aarch64", "qemu-user"))
