# SPDX-License-Identifier: Apache-2.0
"""QEMU's full-system emulators."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import ClassVar

from poetfw.boards import Machine
from poetfw.common.errors import BoardError
from poetfw.firmware import IMAGE
from poetfw.tools.emulators.base import Emulator, check_listed, register

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # Virtual time advances by 1 ns an instruction, so that timers count instructions.
    "instruction-count": ("-icount", "shift=0"),
    # The firmware opens the storage image and exits through semihosting calls.
    "semihosting": ("-semihosting-config", "enable=on,target=native"),
    # The storage image is the card in the machine's SD socket.
    "sd-card": ("-drive", f"if=sd,format=raw,file={IMAGE}"),
}
_LISTEN = ",arg=firmware,arg=listen"
_SMALLEST_CARD_BYTES = 1 << 20


class QemuSystem(Emulator):
    """A machine of a QEMU system emulator, whose first serial port is the firmware's console."""

    options: ClassVar[Collection[str]] = tuple(_OPTIONS)

    def __init__(self, program: str, package: str) -> None:
        self.name = program
        self.package = package

    def check(self, machine: Machine) -> None:
        """Check that the board file names a machine that QEMU has, and known options.

        Raises:
            BoardError: The machine has no name, QEMU does not know it, or an option is unknown.
        """
        super().check(machine)
        if machine.machine is None:
            raise BoardError(
                f"the emulator {self.name!r} must be told which machine",
                f"add machine = … to the board's file: `{self.name} -M help` lists them",
            )
        check_listed(self.name, "-M", machine.machine)

    def command(self, machine: Machine, elf: Path) -> list[str]:
        """QEMU's command line."""
        assert machine.machine is not None
        return [
            self.name,
            *("-M", machine.machine),
            *(("-cpu", machine.cpu) if machine.cpu is not None else ()),
            *("-display", "none"),
            *("-monitor", "none"),
            *("-serial", "stdio"),
            *(argument for option in machine.options for argument in _OPTIONS[option]),
            *("-kernel", str(elf.resolve())),
        ]

    def listening(self, machine: Machine, elf: Path) -> list[str]:
        """QEMU's command line with a semihosting argument that makes the firmware listen."""
        (_, said) = _OPTIONS["semihosting"]
        return [part + _LISTEN if part == said else part for part in self.command(machine, elf)]

    def prepare(self, machine: Machine, image: Path, room_bytes: int) -> None:
        """Extend the image to the size of an SD card, which in QEMU is a power of two."""
        if "sd-card" in machine.options:
            needed = max(image.stat().st_size + room_bytes, _SMALLEST_CARD_BYTES)
            os.truncate(image, 1 << (needed - 1).bit_length())


register(QemuSystem("qemu-system-arm", "qemu-system-arm"))
