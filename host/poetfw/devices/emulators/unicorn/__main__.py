# SPDX-License-Identifier: Apache-2.0
"""Run an ELF on a chip's model: `python -m poetfw.devices.emulators.unicorn nrf52840 firmware.elf`.

The storage image in the working folder is its SD card, standard output its console. Exit code 0:
the firmware sleeps for ever, which is how it ends on a board. 1: it did what the chip does not
allow or what the model does not know; standard error says what, and where.
"""

from __future__ import annotations

import sys
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from poetfw.devices.emulators.unicorn.bus import MachineError
from poetfw.devices.emulators.unicorn.nrf52840 import FLASH_BYTES, Nrf52840
from poetfw.devices.emulators.unicorn.sd_card import Card
from poetfw.firmware import IMAGE


def read_flash(elf: Path) -> bytes:
    """All of a chip's flash with a program in it, and erased elsewhere.

    Raises:
        MachineError: the file is no program for it.
    """
    flash = bytearray(b"\xff" * FLASH_BYTES)
    try:
        with elf.open("rb") as file:
            program = ELFFile(file)
            if program["e_machine"] != "EM_ARM":
                raise MachineError(f"{elf} is for another processor: {program['e_machine']}")
            for segment in program.iter_segments("PT_LOAD"):
                start, content = segment["p_paddr"], segment.data()
                if content and start + len(content) > FLASH_BYTES:
                    raise MachineError(f"{elf} has bytes at 0x{start:08x}, where no flash is")
                flash[start : start + len(content)] = content
    except (OSError, ELFError) as error:
        raise MachineError(f"{elf} is no readable ELF file: {error}") from error
    return bytes(flash)


def _print(text: bytes) -> None:
    sys.stdout.buffer.write(text)
    sys.stdout.buffer.flush()


def main() -> int:
    """Run what the command line names; returns the exit code."""
    _, machine, elf = sys.argv
    assert machine == "nrf52840", machine
    try:
        with Path(IMAGE).open("r+b") as image:
            Nrf52840(read_flash(Path(elf)), Card(image), _print).run()
    except MachineError as error:
        print(f"{machine}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
