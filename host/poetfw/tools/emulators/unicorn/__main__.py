# SPDX-License-Identifier: Apache-2.0
"""Run an ELF on a chip model: `python -m poetfw.tools.emulators.unicorn nrf52840 firmware.elf`.

The storage image in the working folder is the chip's SD card or flash; standard output is the
console. A further argument adds input to the console: "-" reads it from standard input; a port
number moves the console to this TCP port, for one client at a time. "instruction-count" is for the
machine whose time stands still without it. Exit code 0: the firmware sleeps for ever, as it does on
a board at its end, or exits with this code. Exit code 1: the firmware did something that the chip
forbids or the model lacks; standard error says what and at which address.
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
from poetfw.tools.emulators.unicorn import COUNT, STANDARD_INPUT
from poetfw.tools.emulators.unicorn.bus import MachineError
from poetfw.tools.emulators.unicorn.chip import ChipBoard
from poetfw.tools.emulators.unicorn.flash import Flash
from poetfw.tools.emulators.unicorn.mps2 import Mps2
from poetfw.tools.emulators.unicorn.nrf52840 import Nrf52840Dk
from poetfw.tools.emulators.unicorn.nrf52840_qspi import Nrf52840DkFlash
from poetfw.tools.emulators.unicorn.samd21 import Mkr1000
from poetfw.tools.emulators.unicorn.sd_card import Card

MACHINES: dict[str, type[ChipBoard[Any]]] = {
    "nrf52840": Nrf52840Dk,
    "nrf52840-qspi": Nrf52840DkFlash,
    "samd21": Mkr1000,
}
"""Boards with their chips, by machine name in board files."""

_SEMIHOSTED = "mps2-an386"

_STORAGES: dict[str, Callable[[BinaryIO], Any]] = {"nrf52840-qspi": Flash}
"""Model of the storage, for machines that store on flash instead of an SD card."""


def read_flash(elf: Path, machine: type[ChipBoard[Any]] | type[Mps2]) -> bytes:
    """Content of a chip's whole flash: the program, and erased bytes (0xFF) elsewhere.

    Raises:
        MachineError: The file is not a program for this chip.
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
    """Architecture that a program is compiled for, as ELF attributes number it; None if unknown."""
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
    """Read standard input; exits the process at end of file."""
    said = os.read(sys.stdin.fileno(), 4096)
    if not said:
        sys.exit(0)
    return said


class _Plug:
    """A TCP server in place of the serial port. Output is dropped while no client is connected."""

    def __init__(self, port: int) -> None:
        self._server = socket.create_server(("127.0.0.1", port))
        self._other: socket.socket | None = None

    def send(self, text: bytes) -> None:
        if self._other is not None:
            with contextlib.suppress(OSError):  # the client has disconnected
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


def _run_semihosted(elf: Path, *, listens: bool, counts: bool) -> int:
    try:
        flash = read_flash(elf, Mps2)
        with Path(IMAGE).open("r+b") as image:
            return Mps2(flash, image, _print, _hear if listens else None, counts=counts).run()
    except MachineError as error:
        print(f"{_SEMIHOSTED}: {error}", file=sys.stderr)
        return 1


def main() -> int:
    """Run the ELF that the command line names; returns the exit code."""
    _, name, elf, *rest = sys.argv
    counts = COUNT in rest
    port = [word for word in rest if word != COUNT]
    if name == _SEMIHOSTED:
        return _run_semihosted(Path(elf), listens=port == [STANDARD_INPUT], counts=counts)
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
