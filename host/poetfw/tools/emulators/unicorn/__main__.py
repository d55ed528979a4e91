# SPDX-License-Identifier: Apache-2.0
"""Run an ELF on a chip's model: `python -m poetfw.tools.emulators.unicorn nrf52840 firmware.elf`.

The storage image in the working folder is its SD card, or its flash, and standard output its
console; with a number behind, one TCP port of this computer is, to which one program at a time may
connect; with "-" behind, what comes on standard input is said to it. Exit code 0: the firmware
sleeps for ever, which is how it ends on a board. 1: it did what the chip does not allow or what the
model does not know; standard error says what, and where.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from poetfw.firmware import IMAGE
from poetfw.tools.emulators.unicorn import STANDARD_INPUT
from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.chip import ChipBoard
from poetfw.tools.emulators.unicorn.flash import Flash
from poetfw.tools.emulators.unicorn.nrf52840 import Nrf52840Dk
from poetfw.tools.emulators.unicorn.nrf52840_qspi import Nrf52840DkFlash
from poetfw.tools.emulators.unicorn.samd21 import Mkr1000
from poetfw.tools.emulators.unicorn.sd_card import Card

MACHINES: dict[str, type[ChipBoard[Any]]] = {
    "nrf52840": Nrf52840Dk,
    "nrf52840-qspi": Nrf52840DkFlash,
    "samd21": Mkr1000,
}
"""Chips on their boards, by the name that board files call them."""

_STORAGES: dict[str, Callable[[BinaryIO], Any]] = {"nrf52840-qspi": Flash}
"""Model of the storage image, on chips where it is not a card."""


def read_flash(elf: Path, machine: type[ChipBoard[Any]]) -> bytes:
    """All of a chip's flash with a program in it, and erased elsewhere.

    Raises:
        MachineError: the file is not a program for it.
    """
    flash = bytearray(b"\xff" * machine.flash_bytes)
    try:
        with elf.open("rb") as file:
            program = ELFFile(file)
            if _architecture(program) not in machine.architectures:
                raise MachineError(f"{elf} is for another processor")
            for segment in program.iter_segments("PT_LOAD"):
                start, content = segment["p_paddr"], segment.data()
                if content and start + len(content) > machine.flash_bytes:
                    raise MachineError(f"{elf} has bytes at 0x{start:08x}, where no flash is")
                flash[start : start + len(content)] = content
    except (OSError, ELFError) as error:
        raise MachineError(f"{elf} is not a readable ELF file: {error}") from error
    return bytes(flash)


def _architecture(program: ELFFile) -> int | None:
    """The architecture that a program is compiled for; None where it does not say."""
    section = program.get_section_by_name(".ARM.attributes")
    for subsection in section.iter_subsections() if section is not None else ():
        for scope in subsection.iter_subsubsections():
            for attribute in scope.iter_attributes("TAG_CPU_ARCH"):
                return int(attribute.value)
    return None


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def _hear() -> bytes:
    """Read standard input; its end ends the program."""
    said = os.read(sys.stdin.fileno(), 4096)
    if not said:
        sys.exit(0)
    return said


class _Plug:
    """A TCP port that stands for the serial port. What is printed while nobody is there is lost."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._other: socket.socket | None = None

    def send(self, text: bytes) -> None:
        if self._other is not None:
            with contextlib.suppress(OSError):  # whoever was there is gone
                self._other.sendall(text)

    def receive(self) -> bytes:
        while True:
            if self._other is None:
                self._other, _ = self._server.accept()
            with contextlib.suppress(OSError):
                if said := self._other.recv(4096):
                    return said
            self._other.close()
            self._other = None


def main() -> int:
    """Run what the command line names; returns the exit code."""
    _, name, elf, *port = sys.argv
    machine = MACHINES[name]
    try:
        flash = read_flash(Path(elf), machine)
        with Path(IMAGE).open("r+b") as image:
            storage = _STORAGES.get(name, Card)(image)
            if port == [STANDARD_INPUT]:
                machine(flash, storage, _print, _hear).run()
            elif port:
                plug = _Plug(int(port[0]))
                machine(flash, storage, plug.send, plug.receive).run()
            else:
                machine(flash, storage, _print).run()
    except MachineError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
